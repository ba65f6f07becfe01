"""A line of the command interface is one event or text, whatever it holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents.events import (
    Event,
    Finished,
    RateLimited,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    event_from,
    event_from_line,
    plain,
    record_of,
)

LINES: list[tuple[str, Event]] = [
    ("plain", Text("plain")),
    ('{"type": "text", "text": "hello"}', Text("hello")),
    ('  {"type": "text", "text": "indented"}', Text("indented")),
    ('{"type": "tool_call", "name": "shell", "input": {"command": "ls"}, "id": "1"}',
     ToolCall(name="shell", input={"command": "ls"}, id="1")),
    ('{"type": "tool_result", "output": "no", "is_error": true}', ToolResult(output="no", is_error=True)),
    ('{"type": "usage", "input_tokens": 3, "output_tokens": 4, "cached_tokens": 5, "cost_usd": 0.5}',
     Usage(input_tokens=3, output_tokens=4, cached_tokens=5, cost_usd=0.5)),
    ('{"type": "usage", "context_tokens": 900}', Usage(context_tokens=900)),
    ('{"type": "rate_limited", "message": "no", "retry_after_seconds": 3}',
     RateLimited(message="no", retry_after_seconds=3.0)),
    ('{"type": "finished", "ok": false, "message": "gave up"}', Finished(ok=False, message="gave up")),
    # not an event
    ('{"type": "telemetry"}', Text('{"type": "telemetry"}')),
    ('{"no": "type"}', Text('{"no": "type"}')),
    ('["usage", 1]', Text('["usage", 1]')),
    ('{"type": "usage", "input_tokens": 12', Text('{"type": "usage", "input_tokens": 12')),
    ("{", Text("{")),
    # an event with wrong values: nothing is counted
    ('{"type": "usage", "input_tokens": "120"}', Usage()),
    ('{"type": "usage", "input_tokens": -120, "output_tokens": true}', Usage()),
    ('{"type": "usage", "input_tokens": 1e400, "output_tokens": NaN, "cached_tokens": [1]}', Usage()),
    ('{"type": "usage", "cost_usd": -1}', Usage()),
    ('{"type": "usage", "cost_usd": "free"}', Usage()),
    ('{"type": "text", "text": 12}', Text("")),
    ('{"type": "tool_call", "name": null, "input": "ls"}', ToolCall(name="")),
    ('{"type": "finished", "ok": "no"}', Finished()),
    ('{"type": ["usage"]}', Text('{"type": ["usage"]}')),
]  # fmt: skip


@pytest.mark.parametrize(("line", "event"), LINES, ids=[line[:60] for line, _ in LINES])
def test_a_line_is_this_event(line: str, event: Event) -> None:
    assert event_from_line(line) == event


@pytest.mark.parametrize("depth", [20, 900, 100_000])
def test_deep_nesting_is_an_event_that_can_be_written_again_or_text(depth: int) -> None:
    line = '{"type": "tool_call", "name": "x", "input": {"a": ' + "[" * depth + "]" * depth + "}}"
    event = event_from_line(line)
    assert isinstance(event, Text) or len(json.dumps(event.input)) < 200  # type: ignore[union-attr]


def test_a_nested_type_is_no_event() -> None:
    record: dict[str, object] = {}
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    record["type"] = nested
    assert event_from(record) is None


def test_lone_surrogates_never_come_through() -> None:
    call = event_from_line(r'{"type": "tool_call", "name": "\ud800", "input": {"\udfff": ["\ud801"]}}')
    text = event_from_line(r'{"type": "text", "text": "a\ud800b"}')
    assert isinstance(call, ToolCall)
    assert isinstance(text, Text)
    json.dumps([call.name, dict(call.input), text.text], ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"\u001b[32m== 4 passed in 0.1s ==\u001b[0m", "== 4 passed in 0.1s =="),
        (r"a\u0000b\u0007", "ab"),
        (r"one\r\ntwo\rthree\tfour", "one\ntwo\nthree\tfour"),
        (r"\u001b]0;a title\u0007text", "text"),
    ],
)
def test_what_only_a_terminal_understands_is_left_out(escaped: str, text: str) -> None:
    assert event_from_line(f'{{"type": "text", "text": "{escaped}"}}') == Text(text)
    assert event_from_line(f'{{"type": "tool_result", "output": "{escaped}"}}') == ToolResult(output=text)


def test_a_number_with_too_many_digits_is_text() -> None:
    assert isinstance(event_from_line('{"type": "usage", "input_tokens": ' + "9" * 5000 + "}"), Text)


def test_the_context_is_what_one_call_fills() -> None:
    assert Usage(input_tokens=10, output_tokens=5, cached_tokens=100).context == 115
    assert Usage(input_tokens=10, output_tokens=5, context_tokens=7).context == 7


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KINDS = ["text", "tool_call", "tool_result", "usage", "rate_limited", "finished"]
KEYS = ["text", "name", "input", "output", "input_tokens", "output_tokens", "cached_tokens", "cost_usd", "message",
        "context_tokens", "retry_after_seconds", "resets_at", "ok", "id", "is_error"]  # fmt: skip


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=6))
def test_any_values_give_an_event_with_sane_counts(kind: str, values: dict[str, object]) -> None:
    event = event_from({**values, "type": kind})
    assert event is not None
    if isinstance(event, Usage):
        counts = (event.input_tokens, event.output_tokens, event.cached_tokens, event.context)
        assert all(isinstance(one, int) and one >= 0 for one in counts)
        assert event.cost_usd is None or event.cost_usd >= 0


@given(st.text(max_size=60))
def test_any_line_is_an_event(line: str) -> None:
    assert isinstance(event_from_line(line), Event)


EVENTS = st.one_of(
    st.builds(Text, st.text().map(plain)),
    st.builds(
        Usage,
        input_tokens=st.integers(0, 10**9),
        cache_write_tokens=st.integers(0, 10**9),
        cost_usd=st.none() | st.floats(0, 100),
        context_tokens=st.none() | st.integers(0, 10**9),
        model=st.none() | st.just("m-1"),
    ),
    st.builds(ToolCall, name=st.just("shell"), input=st.just({"command": "ls", "n": [1, None]}), id=st.just("1")),
    st.builds(ToolResult, output=st.text().map(plain), id=st.none() | st.just("1"), is_error=st.booleans()),
    st.builds(RateLimited, message=st.just("no"), retry_after_seconds=st.none() | st.floats(0, 10**6)),
    st.builds(Finished, ok=st.booleans(), message=st.text().map(plain)),
)


@given(EVENTS)
def test_an_event_written_down_and_read_again_is_the_same(event: Event) -> None:
    assert event_from(json.loads(json.dumps(record_of(event)))) == event
