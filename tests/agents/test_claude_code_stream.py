"""The output of Claude Code, turned into events: short streams as the client writes them."""

from typing import Any

import pytest

from agent_harness.agents.claude_code.stream import Stream, lost_conversation, reason
from agent_harness.agents.events import CLIENT_TRIES_AGAIN, Event, RateLimited, Text, ToolCall, ToolResult, Usage

Record = dict[str, Any]
MODEL = "claude-sonnet-4-6"


def counts(given: int, made: int, cached: int = 0, written: int = 0) -> Record:
    return {
        "input_tokens": given,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": made,
    }


def totals(given: int, made: int, cached: int = 0, written: int = 0) -> Record:
    return {
        "inputTokens": given,
        "outputTokens": made,
        "cacheReadInputTokens": cached,
        "cacheCreationInputTokens": written,
    }


def line(name: str, block: Record, *, parent: str | None = None, given: int = 1000, cached: int = 0) -> Record:
    """Return a line of a message; the client writes one for each block and repeats the input tokens."""
    message = {"id": name, "model": MODEL, "content": [block], "usage": counts(given, 1, cached)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent}


def begins(name: str, given: int, cached: int = 0, written: int = 0) -> Record:
    message = {"id": name, "model": MODEL, "usage": counts(given, 1, cached, written)}
    return {"type": "stream_event", "event": {"type": "message_start", "message": message}}


def ends(given: int, made: int, cached: int = 0, written: int = 0) -> Record:
    return {"type": "stream_event", "event": {"type": "message_delta", "usage": counts(given, made, cached, written)}}


def result(index: int = 0, since: Record | None = None, **more: Any) -> Record:
    spent = {} if since is None else {"model_usage_since_last_result": {MODEL: since}}
    return {"type": "result", "subtype": "success", "is_error": False, "result_index": index, **spent, **more}


SAYS = {"type": "text", "text": "I look."}
CALLS = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}


def test_a_try_that_the_client_makes_by_itself_is_told() -> None:
    (told,) = read({"type": "system", "subtype": "api_retry", "error_status": 429, "error": "rate_limit", "attempt": 2})
    assert told == Text(f"{CLIENT_TRIES_AGAIN} (429 rate_limit); try 2 again]")


def read(*records: Record, resumed: bool = False) -> list[Event]:
    stream = Stream(resumed=resumed)
    return [event for record in records for event in stream.events(record)]


def used(events: list[Event]) -> list[tuple[int, int, int, int]]:
    found = [event for event in events if isinstance(event, Usage)]
    return [(one.input_tokens, one.output_tokens, one.cached_tokens, one.cache_write_tokens) for one in found]


def test_events_come_in_the_order_in_which_things_happened() -> None:
    answer = {"tool_use_id": "t1", "type": "tool_result", "content": [{"type": "text", "text": "a.py"}]}
    events = read(
        {"type": "system", "subtype": "init", "session_id": "s1"},
        {"type": "user", "message": {"content": "the prompt"}, "isReplay": True},
        begins("m1", 1000),
        line("m1", SAYS),
        line("m1", CALLS),
        ends(1000, 40),
        {"type": "user", "message": {"content": [answer]}},
        result(since=totals(1000, 40)),
    )
    assert events == [
        Text("I look."),
        ToolCall(name="Bash", input={"command": "ls"}, id="t1"),
        Usage(input_tokens=1000, output_tokens=40, context_tokens=1040, model=MODEL),
        ToolResult(output="a.py", id="t1"),
    ]


def test_a_call_is_counted_once_however_many_lines_repeat_it() -> None:
    """UAH-415: usage once, and the totals of the result are not added again."""
    events = read(
        begins("m1", 1000, 500, 7),
        line("m1", SAYS),
        line("m1", CALLS),
        ends(1000, 40, 500, 7),
        begins("m2", 1100),
        line("m2", SAYS),
        ends(1100, 5),
        result(since=totals(2100, 45, 500, 7)),
    )
    assert used(events) == [(1000, 40, 500, 7), (1100, 5, 0, 0)]


def test_sub_agents_are_counted_from_their_lines_and_the_totals() -> None:
    """UAH-415: a sub-agent's output is known at the result only; the main agent's context is not the sub-agent's."""
    events = read(
        begins("m1", 1000),
        ends(1000, 40),
        line("s1", CALLS, parent="t9", given=300),
        line("s1", SAYS, parent="t9", given=300),
        result(since=totals(1300, 70)),
        line("s2", SAYS, parent="t9", given=400),
        begins("m2", 1200),
        ends(1200, 9),
        result(1, since=totals(1600, 30)),
    )
    assert used(events) == [
        (1000, 40, 0, 0),
        (300, 1, 0, 0),
        (0, 29, 0, 0),
        (400, 1, 0, 0),
        (1200, 9, 0, 0),
        (0, 20, 0, 0),
    ]
    contexts = [event.context for event in events if isinstance(event, Usage)]
    assert contexts == [1040, 1040, 1040, 1040, 1209, 1209]


def test_what_an_earlier_process_used_is_not_counted_again() -> None:
    """A resumed conversation includes its old totals."""
    older = {MODEL: totals(9000, 900)}
    assert used(read(begins("m1", 10), ends(10, 2), result(modelUsage=older), resumed=True)) == [(10, 2, 0, 0)]


def costs(*records: Record, resumed: bool = False) -> list[float]:
    found = [event.told_usd for event in read(*records, resumed=resumed) if isinstance(event, Usage)]
    return [usd for usd in found if usd is not None]


def test_what_the_client_says_it_cost_is_told_once_for_all_calls() -> None:
    first, second = (begins("m1", 10), ends(10, 2)), (begins("m2", 20), ends(20, 2))
    assert costs(*first, result(total_cost_usd=0.05), *second, result(1, total_cost_usd=0.75)) == [0.05, 0.7]
    since = [{**totals(10, 2), "costUSD": usd} for usd in (0.25, 0.5)]
    told = (*first, result(since=since[0], total_cost_usd=9.0), *second, result(1, since=since[1], total_cost_usd=9.5))
    assert costs(*told, resumed=True) == [0.25, 0.5]
    assert costs(*first, result(total_cost_usd=9.0), resumed=True) == []  # older calls may be in it
    assert costs(*first, result()) == costs(*first, result(total_cost_usd="a")) == costs(result(total_cost_usd=0)) == []


def test_an_older_client_is_counted_by_its_lines_and_its_only_totals() -> None:
    events = read(line("m1", SAYS, given=10), line("m1", CALLS, given=10), result(modelUsage={MODEL: totals(10, 8)}))
    assert used(events) == [(10, 1, 0, 0), (0, 7, 0, 0)]


def test_a_model_with_two_names_is_not_counted_twice() -> None:
    record = result()
    record["model_usage_since_last_result"] = {"eu.sonnet-v1:0": totals(10, 8)}
    assert used(read(begins("m1", 10), ends(10, 2), record)) == [(10, 2, 0, 0), (0, 6, 0, 0)]


def refusal(status: int, kind: str, text: str) -> Record:
    message = {"id": "e1", "model": "<synthetic>", "content": [{"type": "text", "text": text}], "usage": counts(0, 0)}
    return {
        "type": "assistant",
        "message": message,
        "error": kind,
        "is_api_error_message": True,
        "api_error_status": status,
    }


def limits(events: list[Event]) -> list[RateLimited]:
    return [event for event in events if isinstance(event, RateLimited)]


def test_a_refusal_has_the_reset_that_was_told_before_it() -> None:
    """UAH-374: the structured source comes first, and one refusal is one event."""
    told = {"status": "rejected", "resetsAt": 1795350849, "rateLimitType": "five_hour"}
    events = read(
        {"type": "rate_limit_event", "rate_limit_info": told},
        refusal(429, "rate_limit", "You have hit your limit"),
        result(is_error=True, result="You have hit your limit", api_error_status=429),
    )
    assert [(one.message, one.resets_at) for one in limits(events)] == [
        ("You have hit your limit", "2026-11-22T12:34:09Z")
    ]


@pytest.mark.parametrize("status", ["allowed", "allowed_warning"])
def test_a_limit_that_is_near_refuses_nothing(status: str) -> None:
    told = {"status": status, "resetsAt": 1795350849}
    assert limits(read({"type": "rate_limit_event", "rate_limit_info": told}, result())) == []


def test_a_limit_in_words_with_its_moment() -> None:
    text = "API Error: 400 Claude AI usage limit reached|1795400000"
    assert [one.resets_at for one in limits(read(refusal(400, "unknown", text)))] == ["2026-11-23T02:13:20Z"]


def test_an_overloaded_provider_is_a_refusal_and_a_bad_key_is_none() -> None:
    assert len(limits(read(refusal(529, "server_error", "API Error: 529 Overloaded.")))) == 1
    bad = refusal(401, "authentication_failed", "Invalid API key")
    assert limits(read(bad, result(is_error=True, result="Invalid API key", api_error_status=401))) == []


def test_success_in_words_is_no_success() -> None:
    """`is_error` decides, never `subtype`."""
    stream = Stream()
    stream.events(result(is_error=True, result="API Error: 500", terminal_reason="api_error"))
    assert stream.result is not None
    assert stream.result["subtype"] == "success"
    assert reason(stream.result) == "api_error: API Error: 500"


def test_the_turn_is_not_over_while_a_sub_agent_works_in_the_background() -> None:
    stream = Stream()
    stream.events({"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_type": "local_agent"}]})
    stream.events(result())
    assert (stream.at_rest, stream.waits_for_agents) == (True, True)
    stream.events({"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_type": "local_bash"}]})
    assert (stream.at_rest, stream.waits_for_agents) == (True, False)
    stream.events({"type": "system", "subtype": "init", "session_id": "s1"})
    assert not stream.at_rest


def test_a_lost_conversation_is_told_from_other_errors() -> None:
    lost = result(is_error=True, num_turns=0, errors=["No conversation found with session ID: x"])
    assert lost_conversation(lost, "")
    assert lost_conversation(None, "No conversation found with session ID: x\n")
    assert not lost_conversation({**lost, "num_turns": 3}, "")
    assert not lost_conversation(result(is_error=True, num_turns=0, errors=["Something else"]), "")


ODD: list[Record] = [
    {},
    {"type": 3},
    {"type": ["result"]},
    {"type": "assistant"},
    {"type": "assistant", "message": {"content": "text", "usage": [], "id": None}},
    {"type": "assistant", "message": {"content": [None, {"type": []}, {"type": "tool_use", "input": "x"}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": 3, "tool_use_id": 4}]}},
    {"type": "stream_event", "event": {"type": "message_delta", "usage": {"output_tokens": "many"}}},
    {"type": "system", "subtype": "background_tasks_changed", "tasks": "none"},
    {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1e300}},
    {"type": "result", "modelUsage": [], "model_usage_since_last_result": {"m": 3}, "errors": [1]},
]


@pytest.mark.parametrize("record", ODD, ids=str)
def test_odd_lines_harm_nobody(record: Record) -> None:
    for event in read(record, record):
        repr(event).encode()
