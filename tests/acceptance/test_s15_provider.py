"""S15: the provider refuses, is overloaded, or answers with rubbish; the harness tries again, or says why not.

A turn is one start of a client that gives up where its script leaves with an error.
"""

import pytest

from agent_harness.testing import CommandResult

from .calc import CalcProject
from .script import append, bad_json, honest, http, leave, prompt_to, refused, say, turn, usage
from .seam import each_seam
from .test_s01_init import init, initializer, records

pytestmark = each_seam

FASTER = {"HARNESS_TIME_SCALE": "0.1"}  # for waits of 30 s; every limit shrinks with it, so no smaller
LONG_SESSIONS = "session:\n  timeout_minutes: 60000\n  timeout_warning_minutes: 59000\n"


def run(calc: CalcProject, turns: list[dict[str, object]], *, faster: bool = False) -> CommandResult:
    calc.configure(LONG_SESSIONS)
    return calc.harness("run", agent=turns, environ=FASTER if faster else {})


def waits(calc: CalcProject, kind: str) -> list[float]:
    rows = calc.events("provider_retry")
    assert {row["kind"] for row in rows} <= {kind}
    return [row["wait_seconds"] for row in rows]


def tries(calc: CalcProject) -> int:
    return len(calc.events("agent_started"))


def accepted(calc: CalcProject, ran: CommandResult) -> None:
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.remote() == calc.head
    assert calc.state["stuck_count"] == 0
    assert len(calc.log("sessions.jsonl")) == 1, "one session, however often it was tried"


def not_served(calc: CalcProject, start: str, *, reason: str) -> None:
    """Nothing was done, so nothing is undone, committed or counted."""
    assert calc.head == start == calc.remote()
    assert calc.changes() == []
    assert calc.events("rollback_completed") == []
    state = calc.state
    assert (state["stuck_count"], state["status"], state["next_prompt"]) == (0, "partial", "coding")
    assert (state["last_session"], state["termination_reason"]) == (1, reason)
    assert calc.passing() == []
    assert "SESSION TERMINATED" not in calc.progress


WORKS = [*honest(1), usage(10, 1)]


@pytest.mark.kept("a-429-command")
@pytest.mark.parametrize(
    ("status", "kind", "gaps"),
    [(429, "rate_limited", [1, 2]), (529, "overloaded", [30, 30])],
    ids=["a-429", "b-529"],
)
def test_refused_twice_and_then_served(calc: CalcProject, status: int, kind: str, gaps: list[float]) -> None:
    """UAH-374 UAH-375 C28: growing gaps for 429, gaps of 30 for 529; the same session goes on."""
    ran = run(calc, [refused(status, times=2), turn(WORKS)], faster=kind == "overloaded")
    accepted(calc, ran)
    assert waits(calc, kind) == gaps
    assert tries(calc) == 3


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_wait_that_outlasts_the_session_is_not_begun(calc: CalcProject) -> None:
    """UAH-374 C28: bounded by the session's time limit; the message says what the provider said, and when it opens."""
    calc.configure("session:\n  timeout_minutes: 50\n")
    start = calc.head
    week = http(429, retry_after_seconds=600_000)
    ran = calc.run([turn(week, leave(1), times=9)])
    assert ran.code == 5, ran.text
    assert "429" in ran.text
    assert "is refused until" in ran.text
    assert tries(calc) == 1
    not_served(calc, start, reason="error")


@pytest.mark.scenario
def test_c_overloaded_for_good_it_is_paused(calc: CalcProject) -> None:
    """UAH-375 C28 C35: one try and three more, then a pause that `harness resume` ends; nothing is rolled back."""
    calc.configure(LONG_SESSIONS)
    start = calc.head
    ran = calc.harness("run", agent=[refused(529, times=99)], environ=FASTER)
    assert ran.code == 5, ran.text
    assert tries(calc) == 4
    assert waits(calc, "overloaded") == [30, 30, 30]
    not_served(calc, start, reason="user_pause")
    assert calc.state["paused"]["reason"] == "overloaded"
    again = calc.run([turn(WORKS)])
    assert again.code == 5, again.text
    assert tries(calc) == 4, "no agent is started while it is paused"
    assert calc.harness("resume").code == 0
    for limit in calc.harness("limits", "--json").json["limits"]:  # the account may have to wait a little longer
        assert calc.harness("limits", "clear", limit["account"]).code == 0
    ran = calc.run([turn(WORKS)])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]


@pytest.mark.scenario
def test_d_a_key_that_is_not_accepted(calc: CalcProject) -> None:
    """UAH-377, UAH-391, C28, C66: one try, and the person is told where to look."""
    start = calc.head
    ran = calc.run([turn(http(401), times=99)])
    assert ran.code == 1, ran.text
    assert "API key" in ran.text
    assert tries(calc) == 1
    not_served(calc, start, reason="error")
    (event,) = calc.events("provider_refused", "CRITICAL")
    assert "401" in event["message"]


RUBBISH = [say("I begin."), bad_json(), leave(1)]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_e_rubbish_once(calc: CalcProject) -> None:
    """UAH-378 C28."""
    ran = run(calc, [turn(RUBBISH), turn(WORKS)])
    accepted(calc, ran)
    assert waits(calc, "malformed") == [0]
    assert tries(calc) == 2


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_f_rubbish_for_good(calc: CalcProject) -> None:
    """UAH-378 C28: two tries, then it is on record and the session ends with an error."""
    start = calc.head
    ran = calc.run([turn(RUBBISH, times=99)])
    assert ran.code == 1, ran.text
    assert tries(calc) == 2
    not_served(calc, start, reason="error")
    assert calc.events("provider_refused", "CRITICAL")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_work_that_was_done_before_a_refusal_is_gone_on_from(calc: CalcProject) -> None:
    """UAH-374 C28: the next try is told that it was cut off; refused for good, the work is a WIP commit."""
    start = calc.head
    half = [append("src/calc.py", "\n# half of it\n"), usage(5, 1)]
    told = calc.base / "told.txt"
    ran = calc.run([turn(half, http(429), leave(1)), turn(prompt_to(told), http(401))])
    assert ran.code == 1, ran.text
    assert "Your last turn was cut off" in told.read_text()
    assert calc.git("log", "-1", "--format=%s").startswith("WIP: Provider trouble - Feature #1")
    assert "# half of it" in calc.git("show", "HEAD:src/calc.py")
    assert calc.git("rev-parse", "HEAD~1") == start == calc.remote()
    assert (calc.state["stuck_count"], calc.state["next_prompt"]) == (0, "continuation")
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 5


@pytest.mark.scenario
def test_a_plan_is_waited_for_like_any_turn(bare: CalcProject) -> None:
    """UAH-374 UAH-377 C28: session 0 is tried again after a refusal, and says what is wrong with a key."""
    bare.git("init", "-q", "-b", "main")
    (bare.root / "spec.md").write_text("# Calculator\n")
    ran = init(bare, turn(http(401)))
    assert ran.code == 1, ran.text
    assert "API key" in ran.text
    assert not (bare.root / ".harness/session_state.json").exists()
    ran = init(bare, refused(429, times=1), initializer(records()))
    assert ran.code == 0, ran.text
    assert waits(bare, "rate_limited") == [1]
    assert len(bare.features["features"]) == 6


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_cleanup_that_is_not_served_is_still_due(calc: CalcProject) -> None:
    """UAH-377 C28 C35."""
    start = calc.accept(1)
    ran = calc.harness("cleanup", agent=[turn(http(401), times=9)])
    assert ran.code == 1, ran.text
    assert "API key" in ran.text
    assert "None" not in ran.text
    assert calc.head == start == calc.remote()
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert (calc.state["next_prompt"], calc.state["stuck_count"]) == ("cleanup", 0)
    assert calc.passing() == [1]
