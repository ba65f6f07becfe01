"""One supervised turn, with real processes: its end, the messages to the agent, the records."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.command import CommandAgent
from agent_harness.agents.events import Event, Finished, Text, Usage
from agent_harness.errors import Refused, ToolMissing
from agent_harness.kernel import clock, owner
from agent_harness.supervision.messages import PersonsMessages
from agent_harness.supervision.monitors import (
    Budget,
    BudgetLimit,
    ContextWindow,
    Monitor,
    ProjectFacts,
    WallClock,
    Watch,
)
from agent_harness.supervision.stalls import RepeatedError, Stall
from agent_harness.supervision.supervisor import supervise

GROWING = [{"type": "usage", "input_tokens": tokens} for tokens in (100, 2100, 4100)]  # of the context
WINDOW = ContextWindow(window_tokens=10_000)
FOREVER = {"sleep": 600}


def alive(bench: Any) -> list[int]:
    return owner.processes_tagged("HARNESS_RUN_ID", bench.run_id)


# -- how a turn ends ---------------------------------------------------------------------------------------------------


def test_an_agent_that_ends_its_turn(bench: Any) -> None:
    outcome = bench.play({"say": "hello"}, {"usage": [1450, 320]}, {"end": "all done"})
    assert (outcome.reason, outcome.ok, outcome.exit_code, outcome.message) == ("finished", True, 0, "all done")
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (1450, 320)
    assert outcome.text_tail == "hello"
    assert outcome.problems == outcome.steered == outcome.not_delivered == ()
    assert [type(event) for event in bench.events] == [Text, Usage, Finished]


def test_an_agent_that_fails(bench: Any) -> None:
    outcome = bench.play({"say": "I cannot go on"}, {"exit": 3})
    assert (outcome.reason, outcome.ok, outcome.exit_code) == ("finished", False, 3)
    assert "I cannot go on" in outcome.message


def test_an_agent_that_is_killed_by_somebody_else(bench: Any) -> None:
    outcome = bench.play({"sh": "kill -9 $PPID"}, {"say": "never"})
    assert (outcome.reason, outcome.ok, outcome.exit_code) == ("finished", False, -9)


def test_the_full_window_ends_it(bench: Any) -> None:
    outcome = bench.play({"usage": [9999, 0]}, {"usage": [10000, 0]}, FOREVER, monitors=[WINDOW])
    assert (outcome.reason, outcome.ok) == ("context_limit", False)
    assert outcome.usage.calls == 2
    assert alive(bench) == []


def test_the_time_ends_it_with_everything_it_started(bench: Any) -> None:
    outcome = bench.play({"sh": "sleep 600"}, monitors=[WallClock(timeout_seconds=0.5, warning_seconds=0.1)])
    assert outcome.reason == "timeout"
    assert outcome.message == "TIMEOUT: Session exceeded time limit. Stopping now."
    assert outcome.not_delivered == ("WARNING: 0 minutes remaining.",)
    assert alive(bench) == []


def test_an_agent_that_ignores_sigterm_ends_too(bench: Any) -> None:
    outcome = bench.play("ignore_term", {"say": "ready"}, FOREVER, monitors=[WallClock(timeout_seconds=0.8)])
    assert outcome.reason == "timeout"
    assert alive(bench) == []


def test_the_budget_ends_it_and_every_cost_counts(bench: Any) -> None:
    budget = Budget(limits=(BudgetLimit(name="Session", limit_usd=10.0),))
    costs = [{"usage": {"cost_usd": cost}} for cost in (4, 11)]
    outcome = bench.play(*costs, FOREVER, monitors=[budget])
    assert outcome.reason == "budget_exceeded"
    assert outcome.message == "Session cost $15.00 exceeds budget $10.00."
    assert outcome.usage.cost_usd == 15.0


def test_the_second_stuck_check_ends_an_agent_that_cannot_be_told(bench: Any) -> None:
    outcome = bench.play(
        *[{"event": event} for event in GROWING], FOREVER, monitors=[Stall(check_interval_tokens=2000)]
    )
    assert outcome.reason == "stuck"
    assert outcome.steered == ()
    assert [text.split(".")[0] for text in outcome.not_delivered] == ["You appear stuck", "Still stuck"]


def test_a_refusal_that_ends_the_turn(bench: Any) -> None:
    outcome = bench.play({"rate_limit": {"message": "weekly limit", "retry_after_seconds": 60}}, {"exit": 1})
    assert (outcome.reason, outcome.ok, outcome.message) == ("rate_limited", False, "weekly limit")
    assert outcome.rate_limit is not None
    resets = clock.parse(outcome.rate_limit.resets_at)
    assert resets is not None
    assert 0 < (resets - clock.now()).total_seconds() <= 60


def test_a_summary_of_the_tokens_after_the_refusal_changes_nothing(bench: Any) -> None:
    outcome = bench.play({"rate_limit": "weekly limit"}, {"say": "good bye"}, {"usage": [5, 5]}, {"exit": 1})
    assert outcome.reason == "rate_limited"


@pytest.mark.parametrize("after", [[{"run": "true"}], [{"say": "the answer"}]])
def test_a_refusal_that_was_overcome_is_only_noted(after: list[Any], bench: Any) -> None:
    outcome = bench.play({"http": {"status": 429, "times": 2}}, *after)
    assert (outcome.reason, outcome.ok) == ("finished", True)
    assert outcome.rate_limit is not None
    assert outcome.rate_limit.resets_at is None


def test_a_wrong_moment_of_the_reset_is_left_as_it_is(bench: Any) -> None:
    outcome = bench.play({"rate_limit": {"resets_at": "soon"}}, {"exit": 1})
    assert outcome.rate_limit is not None
    assert outcome.rate_limit.resets_at == "soon"


# -- a person's wish ---------------------------------------------------------------------------------------------------


def request_when(bench: Any, word: str, request: str) -> Callable[[], str | None]:
    return lambda: request if any(isinstance(e, Text) and word in e.text for e in bench.events) else None


def test_a_request_ends_an_agent_that_is_between_operations(bench: Any) -> None:
    outcome = bench.play({"say": "ready"}, FOREVER, stop_requested=request_when(bench, "ready", "user_pause"))
    assert (outcome.reason, outcome.message) == ("user_pause", "user_pause")
    assert alive(bench) == []


def test_a_pause_lets_the_operation_at_hand_end(bench: Any) -> None:
    outcome = bench.play(
        {"say": "ready"},
        {"sh": "while ! test -e go; do sleep 0.05; done; touch operation-ended"},
        {"write": ["next", "x"]},
        FOREVER,
        stop_requested=lambda: (bench.folder / "go").touch() or "user_pause" if len(bench.events) > 1 else None,
    )
    assert outcome.reason == "user_pause"
    assert (bench.folder / "operation-ended").exists()


def test_a_pause_waits_only_so_long_for_it(bench: Any) -> None:
    outcome = bench.play(
        {"say": "ready"},
        {"sh": "sleep 600"},
        stop_requested=request_when(bench, "ready", "user_pause"),
        wrap_up_seconds=0.3,
    )
    assert outcome.reason == "user_pause"
    assert alive(bench) == []


def test_a_second_request_cuts_the_waiting_short(bench: Any) -> None:
    requests = iter(["user_pause", "interrupted"])
    outcome = bench.play({"sh": "sleep 600"}, stop_requested=lambda: next(requests) if bench.events else None)
    assert (outcome.reason, outcome.message) == ("user_pause", "interrupted")


def test_any_other_request_waits_for_nothing(bench: Any) -> None:
    outcome = bench.play(
        {"say": "ready"},
        {"sh": "sleep 600"},
        stop_requested=request_when(bench, "ready", "interrupted"),
        wrap_up_seconds=600,
    )
    assert (outcome.reason, outcome.message) == ("user_pause", "interrupted")


def test_ctrl_c_ends_the_agent_and_passes_on(bench: Any) -> None:
    def interrupt() -> str | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.play({"say": "ready"}, FOREVER, stop_requested=interrupt)
    assert alive(bench) == []


def test_a_listener_that_raises_ends_the_agent(bench: Any) -> None:
    def listen(event: Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.play({"say": "ready"}, FOREVER, on_event=listen)
    assert alive(bench) == []
    assert "ready" in bench.written


# -- an agent that can be steered --------------------------------------------------------------------------------------


def heard(bench: Any) -> list[str]:
    return [event.text for event in bench.events if isinstance(event, Text)]


def test_what_a_monitor_says_reaches_the_agent_once(bench: Any, steered: Any) -> None:
    """UAH-331, UAH-556."""
    levels = [{"type": "usage", "input_tokens": tokens} for tokens in (7600, 7700, 9100, 9200)]
    outcome = bench.run(steered(*levels), WINDOW)
    assert [text.split(":")[0] for text in outcome.steered] == ["Note", "IMPORTANT"]
    assert outcome.not_delivered == ()
    assert (outcome.reason, outcome.ok) == ("finished", True)
    assert [text.split(":")[1].strip() for text in heard(bench) if "told" in text] == ["Note", "IMPORTANT"]


def test_what_a_person_says_is_told_in_the_running_turn_or_waits(bench: Any, steered: Any, tmp_path: Path) -> None:
    """F-SAY: each message once, in order; an agent that cannot be steered leaves it for its next prompt."""
    messages = PersonsMessages(str(tmp_path))
    messages.leave("Use SQLite.", by="ann")
    messages.leave("And no ORM.", by="ann")
    outcome = bench.play({"say": "deaf"}, messages=messages)
    assert (outcome.said, [each.text for each in messages.waiting()]) == ((), ["Use SQLite.", "And no ORM."])
    hello = {"type": "text", "text": "hello"}

    def told_all() -> str | None:
        return None if messages.waiting() or len(heard(bench)) < 4 else "enough"

    outcome = bench.run(steered(hello), messages=messages, stop_requested=told_all)
    assert [each.text for each in outcome.said] == ["Use SQLite.", "And no ORM."]
    told = "told: A person who watches this run says: "
    assert [text for text in heard(bench) if text.startswith("told")] == [f"{told}Use SQLite.", f"{told}And no ORM."]
    assert (outcome.steered, [*messages.waiting()]) == ((), [])


def test_a_final_wrap_up_is_a_last_turn(bench: Any, steered: Any) -> None:
    outcome = bench.run(steered(*GROWING, GROWING[-1]), Stall(check_interval_tokens=2000))
    assert (outcome.reason, outcome.ok) == ("stuck", False)
    assert len(outcome.steered) == 2
    assert outcome.exit_code == 0, "it ended by itself in the time it was given"


def test_a_final_wrap_up_that_is_ignored_ends_after_its_time(bench: Any, steered: Any) -> None:
    stall = Stall(check_interval_tokens=2000, force_stop_message="please")
    outcome = bench.run(steered(*GROWING), stall, wrap_up_seconds=0.3, grace_seconds=60)
    assert outcome.reason == "stuck"
    assert "interrupted" in heard(bench), "an agent that can be interrupted is interrupted first"
    assert alive(bench) == []


def test_an_error_again_and_again_is_answered_and_stops_nothing(bench: Any, steered: Any) -> None:
    failed = {"type": "tool_result", "output": "KeyError: 'x'", "is_error": True}
    outcome = bench.run(steered(*[failed] * 7), RepeatedError())
    assert (outcome.reason, outcome.ok) == ("finished", True)
    assert [text[:37] for text in outcome.steered] == ["You've hit the same error 5 times. Th"]


# -- what is recorded --------------------------------------------------------------------------------------------------


def test_the_process_record_comes_before_any_event(bench: Any) -> None:
    order: list[str] = []

    def started(record: Mapping[str, object]) -> None:
        json.dumps(record)
        order.append("started")
        assert owner.processes_tagged("HARNESS_RUN_ID", bench.run_id)
        assert record["run_id"] == bench.run_id

    bench.play({"say": "hello"}, on_started=started, on_event=lambda event: order.append(type(event).__name__))
    assert order == ["started", "Text", "Finished"]


def test_a_record_that_cannot_be_written_ends_the_agent(bench: Any) -> None:
    def started(record: Mapping[str, object]) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        bench.play(FOREVER, on_started=started)
    assert alive(bench) == []


def test_an_agent_that_cannot_start_has_no_outcome(bench: Any) -> None:
    with pytest.raises(ToolMissing):
        bench.run(CommandAgent(["no-such-program-here"]))
    assert bench.started == []
    assert not bench.transcript.exists()


def test_the_transcript_tells_the_story(bench: Any) -> None:
    bench.play(
        {"say": "hello"},
        {"run": "echo one"},
        {"usage": [8000, 20]},
        {"rate_limit": "wait"},
        {"exit": 2},
        monitors=[WINDOW],
    )
    lines = bench.written.splitlines()
    assert lines[0] == "hello"
    assert '[tool] shell {"command": "echo one"}' in lines
    assert "[result] one" in lines
    assert "[usage] input 8000 cached 0 output 20" in lines
    assert "[rate limited] wait (until: unknown)" in lines
    assert any(line.startswith("[harness] not delivered: Note: You've used 75%") for line in lines)
    assert lines[-1].startswith("[end] ended badly, exit status 2")


def test_no_secret_is_written(bench: Any) -> None:
    secret = "sk-ant-REDACTED"
    outcome = bench.play({"run": f"echo API_KEY={secret}"}, {"say": f"Authorization: Bearer {secret}"}, {"exit": 1})
    assert secret not in bench.written
    assert secret not in outcome.text_tail
    assert secret not in outcome.message
    assert any(secret in event.text for event in bench.events if isinstance(event, Text)), "events are as they came"


def test_evidence_is_gathered_as_the_stream_passes(bench: Any) -> None:
    ran = {"run": "echo tests/test_a.py; echo '== 4 passed in 0.1s =='"}
    assert bench.play(ran, test_file="tests/test_a.py").evidence_shown
    assert not bench.play(ran, test_file="tests/test_b.py").evidence_shown
    assert bench.play(ran).evidence is None


def test_facts_are_gathered_only_when_a_monitor_asks(bench: Any) -> None:
    asked: list[int] = []

    def facts() -> ProjectFacts:
        asked.append(1)
        return ProjectFacts({"a.py": len(asked)})

    stall = Stall(check_interval_tokens=2000)
    outcome = bench.play(
        *[{"say": "x"}] * 20, *[{"usage": [n, 0]} for n in range(500, 5000, 1000)], monitors=[stall], facts=facts
    )
    assert len(asked) == 2
    assert outcome.not_delivered == ()


def test_facts_that_cannot_be_gathered_are_a_problem_and_no_progress(bench: Any) -> None:
    def facts() -> ProjectFacts:
        raise Refused("git is not there")

    outcome = bench.play(
        {"usage": [9, 0]}, {"usage": [2009, 0]}, monitors=[Stall(check_interval_tokens=2000)], facts=facts
    )
    assert outcome.problems == ("the changed files are not known: git is not there",)
    assert len(outcome.not_delivered) == 1
    assert outcome.ok


def test_one_watch_for_all_turns_of_a_session(bench: Any) -> None:
    watch = Watch([Budget(limits=(BudgetLimit(name="Session", limit_usd=10.0),)), WINDOW])
    spent = {"cost_usd": 6, "context_tokens": 7600}
    first = bench.run(bench.script({"usage": spent}), monitors=watch)
    second = bench.run(bench.script({"usage": spent}, FOREVER), monitors=watch)
    assert (first.reason, len(first.not_delivered)) == ("finished", 1)
    assert (second.reason, len(second.not_delivered)) == ("budget_exceeded", 0)
    assert second.message == "Session cost $12.00 exceeds budget $10.00."
    assert second.usage.cost_usd == 6.0


def test_the_clock_of_a_session_goes_on_over_its_turns(bench: Any) -> None:
    began = time.monotonic() - 3600
    outcome = bench.play(FOREVER, monitors=[WallClock(timeout_seconds=3600)], session_began=began)
    assert outcome.reason == "timeout"


def test_waits_are_scaled_for_tests(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.0001")
    outcome = bench.play(FOREVER, monitors=[WallClock(timeout_seconds=3600, warning_seconds=1800)])
    assert outcome.reason == "timeout"
    assert len(outcome.not_delivered) == 1


# -- adapters that break -----------------------------------------------------------------------------------------------


class BrokenTurn(Turn):
    """Turn whose adapter fails, or that ends without an event."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.stopped = 0

    @property
    def ended(self) -> bool:
        return self.error is None

    def next_event(self, timeout_seconds: float) -> Event | None:
        if self.error:
            raise self.error
        return None

    def stop(self, grace_seconds: float = 5.0) -> None:
        self.stopped += 1


class BrokenAgent(Agent):
    name = "broken"

    def __init__(self, error: Exception | None) -> None:
        self.turn = BrokenTurn(error)

    def start(self, brief: Brief) -> Turn:
        return self.turn


def test_an_adapter_that_gives_up_is_an_error_of_the_turn(bench: Any) -> None:
    agent = BrokenAgent(Refused("the stream broke"))
    outcome = bench.run(agent)
    assert (outcome.reason, outcome.ok, outcome.message) == ("error", False, "the stream broke")
    assert outcome.problems == ("the stream broke",)
    assert agent.turn.stopped


def test_an_adapter_with_a_fault_of_its_own_is_not_hidden(bench: Any) -> None:
    agent = BrokenAgent(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        bench.run(agent)
    assert agent.turn.stopped


def test_a_turn_that_is_over_without_an_end_is_an_error(bench: Any) -> None:
    outcome = bench.run(BrokenAgent(None))
    assert (outcome.reason, outcome.ok) == ("error", False)
    assert "without ending its turn" in outcome.message


class Broken(Monitor[None]):
    def begin(self) -> None:
        return None

    def step(self, state: None, event: Event | None, facts: ProjectFacts, at: float) -> Any:
        raise ZeroDivisionError


def test_a_monitor_with_a_fault_ends_the_agent(bench: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        bench.play({"say": "x"}, FOREVER, monitors=[Broken()])
    assert alive(bench) == []


# -- noise -------------------------------------------------------------------------------------------------------------


def test_malformed_output_is_counted_right(bench: Any) -> None:
    kinds = ("truncated", "not_an_object", "unknown_type", "binary", "deep", "huge", "negative", "texts")
    noise = [{"bad_json": kind} for kind in kinds]
    outcome = bench.play(
        *noise, {"usage": [5, 7]}, *noise, {"say": "pong"}, monitors=[WINDOW, Stall(), RepeatedError()]
    )
    assert (outcome.reason, outcome.ok) == ("finished", True)
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (5, 7)
    assert outcome.text_tail.endswith("pong")
    assert "\0" not in bench.written


def test_what_a_dying_agent_still_says_is_read(bench: Any) -> None:
    speaks = """
import signal, sys, time
def end(*_):
    print('{"type": "usage", "input_tokens": 40}')
    print("last words")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready")
time.sleep(600)
"""
    agent = CommandAgent([sys.executable, "-u", "-c", speaks])
    outcome = bench.run(agent, stop_requested=request_when(bench, "ready", "stop"), grace_seconds=30)
    assert outcome.reason == "user_pause"
    assert outcome.usage.input_tokens == 40
    assert outcome.text_tail.endswith("last words")
    assert bench.written.splitlines()[-1].startswith("[end]")


def test_a_thread_may_run_the_supervisor(bench: Any) -> None:
    """A live view keeps the main thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(bench.play({"say": "hello"})))
    thread.start()
    thread.join(60)
    assert found[0].ok


@pytest.mark.kill
def test_a_harness_that_is_killed_leaves_no_agent_and_its_record_is_there(tmp_path: Path) -> None:
    program = tmp_path / "harness.py"
    program.write_text(
        "import json, pathlib, sys\n"
        "from agent_harness.agents.base import Brief\n"
        "from agent_harness.agents.command import CommandAgent\n"
        "from agent_harness.supervision.supervisor import supervise\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "def started(record):\n"
        "    (here / 'record').write_text(json.dumps(record))\n"
        "brief = Brief(prompt='', cwd=here, session=1, prompt_type='coding', run_id=sys.argv[2])\n"
        "supervise(CommandAgent(['sh', '-c', 'echo ready; sleep 600 & sleep 600']), brief, monitors=[],\n"
        "          transcript=here / 't.txt', on_started=started)\n"
    )
    run_id = os.urandom(16).hex()
    harness = os.posix_spawn(sys.executable, [sys.executable, str(program), str(tmp_path), run_id], os.environ)
    until = time.monotonic() + 60
    while time.monotonic() < until and not (
        (tmp_path / "t.txt").exists() and "ready" in (tmp_path / "t.txt").read_text()
    ):
        time.sleep(0.02)
    record = json.loads((tmp_path / "record").read_text())
    os.kill(harness, signal.SIGKILL)
    os.waitpid(harness, 0)
    while time.monotonic() < until and owner.processes_tagged("HARNESS_RUN_ID", run_id):
        time.sleep(0.02)
    assert owner.processes_tagged("HARNESS_RUN_ID", run_id) == []
    assert record["run_id"] == run_id


def test_the_defaults_suffice(tmp_path: Path) -> None:
    brief = Brief(prompt="", cwd=tmp_path, session=1, prompt_type="coding")
    outcome = supervise(
        CommandAgent(["true"]), brief, monitors=[], transcript=tmp_path / "t.txt", on_started=lambda record: None
    )
    assert outcome.ok
