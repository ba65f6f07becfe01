"""S11: the harness dies in the middle of a session; the next run cleans up and goes on from what was left."""

import os
import signal
import sys

import pytest

from .calc import CalcProject
from .script import append, claim, commit, honest, prompt_to, sh, sleep, turn, usage, write

pytestmark = pytest.mark.kill

HALF = "\n\ndef add(a, b):\n    # half of it\n    raise NotImplementedError\n"


def half_done(*further: dict[str, object]) -> list[dict[str, object]]:
    return [append("src/calc.py", HALF), claim(1), write("wip.txt", "notes of the agent\n"), *further]


def finish(calc: CalcProject) -> dict[str, object]:
    """The continuation: real code over the half."""
    return turn(
        prompt_to(calc.base / "continuation.txt"),
        write("src/calc.py", '"""A calculator."""\n'),
        sh("rm -f wip.txt"),
        honest(1),
        usage(10, 10),
    )


def recovered(calc: CalcProject, *, reason: str) -> None:
    """Check the project after the next run, however the first one ended."""
    subjects = calc.git("log", "--format=%s").splitlines()
    (wip,) = [n for n, subject in enumerate(subjects) if subject.startswith("WIP:")]
    assert "half of it" in calc.git("show", f"HEAD~{wip}:src/calc.py")
    assert '"passes": true' not in calc.git("show", f"HEAD~{wip}:features.json")
    assert calc.git("show", f"HEAD~{wip}:wip.txt") == "notes of the agent"
    first = next(row for row in calc.log("sessions.jsonl") if row["session_id"] == 1)
    assert first["termination_reason"] == reason
    assert first["feature_completed"] is False
    prompt = (calc.base / "continuation.txt").read_text()
    assert "Continuing Partial Feature" in prompt
    assert "src/calc.py" in prompt
    assert calc.passing() == [1]
    assert calc.remote() == calc.head
    assert calc.state["last_session"] == 2


def test_a_killed_harness(calc: CalcProject) -> None:
    """UAH-009, UAH-355, C56."""
    start = calc.head
    ready = calc.base / "ready"
    process = calc.start("run", agent=[turn(half_done(sh(f"touch {ready}"), sleep(600)), usage(1, 1))])
    calc.wait_until(ready.exists, "the agent at work")
    process.kill()
    process.wait()
    calc.state_parses()
    assert calc.remote() == start

    status = calc.harness("status")
    assert status.code == 0, status.text
    ran = calc.run([finish(calc)])
    assert ran.code == 0, ran.text
    assert "Session 1 was interrupted" in ran.text
    assert "Prompt type: continuation" in ran.out
    assert calc.processes() == []
    recovered(calc, reason="error")


def test_a_state_right_after_recovery(calc: CalcProject) -> None:
    """UAH-003, C56: A second run that cannot start an agent still closes the books of the first session."""
    ready = calc.base / "ready"
    process = calc.start("run", agent=[turn(half_done(sh(f"touch {ready}"), sleep(600)))])
    calc.wait_until(ready.exists, "the agent at work")
    process.kill()
    process.wait()
    ran = calc.run([turn({"exit": 3}, times=9)])
    assert "Session 1 was interrupted" in ran.text
    assert calc.passing() == []
    assert any(subject.startswith("WIP:") for subject in calc.git("log", "--format=%s").splitlines())
    assert calc.state["next_prompt"] == "continuation"
    assert calc.state["current_feature"] == 1


def test_b_interrupted_by_a_person(calc: CalcProject) -> None:
    """UAH-354."""
    start = calc.head
    ready = calc.base / "ready"
    process = calc.start("run", agent=[turn(half_done(sh(f"touch {ready}"), sleep(600)))])
    calc.wait_until(ready.exists, "the agent at work")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=200) == 130, calc.started()
    assert "Traceback" not in calc.started()
    assert calc.remote() == start
    wanted = {
        "status": "partial",
        "termination_reason": "user_pause",
        "current_feature": 1,
        "next_prompt": "continuation",
        "stuck_count": 0,
    }
    assert {key: calc.state[key] for key in wanted} == wanted
    assert calc.processes() == []
    assert calc.passing() == []
    calc.state_parses()
    ran = calc.run([finish(calc)])
    assert ran.code == 0, ran.text
    recovered(calc, reason="user_pause")


def test_b_a_person_is_answered_at_once_and_a_second_time_it_stops_now(calc: CalcProject) -> None:
    """UAH-354."""
    ready = calc.base / "ready"
    process = calc.start("run", agent=[turn(half_done(sh(f"touch {ready}; sleep 600")))])
    calc.wait_until(ready.exists, "the agent at work")
    process.send_signal(signal.SIGINT)
    calc.wait_until(lambda: "the agent may finish its current call" in calc.started(), "an answer")
    process.send_signal(signal.SIGINT)
    calc.wait_until(lambda: "Stopping now." in calc.started(), "another answer")
    assert process.wait(timeout=200) == 130, calc.started()
    assert "Traceback" not in calc.started()
    assert calc.processes() == []
    ran = calc.run([finish(calc)])
    assert ran.code == 0, ran.text


def test_b_asked_to_end(calc: CalcProject) -> None:
    """SIGTERM, as a service manager sends it, is handed off like an interrupt."""
    ready = calc.base / "ready"
    process = calc.start("run", agent=[turn(half_done(sh(f"touch {ready}"), sleep(600)))])
    calc.wait_until(ready.exists, "the agent at work")
    process.terminate()
    assert process.wait(timeout=200) == 130, calc.started()
    assert calc.state["next_prompt"] == "continuation"
    assert calc.processes() == []


KILL_ANCESTORS = """\
import os, pathlib, signal

pid = os.getpid()
while pid > 1:
    pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\\0", b" ") if pid > 1 else b""
    if b"harness run" in line:
        os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_c_killed_by_the_agent(calc: CalcProject) -> None:
    calc.environ["HARNESS_SANDBOX"] = "off"  # it plays somebody from outside
    killer = calc.base / "killer.py"
    killer.write_text(KILL_ANCESTORS)
    steps = half_done(sh(f"{sys.executable} {killer}"), sleep(600))
    process = calc.start("run", agent=[turn(steps)], launcher=str(calc.base / "tools/harness"))
    assert process.wait(timeout=200) == -signal.SIGKILL, calc.started()
    calc.state_parses()
    ran = calc.run([finish(calc)])
    assert ran.code == 0, ran.text
    assert calc.events(level="CRITICAL")
    recovered(calc, reason="error")


def without_transcript(found: dict[str, str]) -> dict[str, str]:
    """Return the files without the logs that the harness writes while an agent works."""
    written = (".harness/logs/session-", ".harness/logs/agent_actions.jsonl", ".harness/logs/usage.jsonl")
    return {name: text for name, text in found.items() if not name.startswith(written)}


def test_two_at_once(calc: CalcProject) -> None:
    """UAH-005, C56."""
    ready = calc.base / "ready"
    first = calc.start("run", agent=[turn(half_done(sh(f"touch {ready}"), sleep(600)))])
    calc.wait_until(ready.exists, "the agent at work")
    before = without_transcript(calc.fingerprint())
    second = calc.run([turn(honest(1))])
    assert second.code == 5, second.text
    assert without_transcript(calc.fingerprint()) == before
    assert first.poll() is None
    assert calc.harness("status").code == 0
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=200) == 130, calc.started()


@pytest.mark.kept('{"pid": 1}')
@pytest.mark.parametrize("left", ["rubbish", '{"pid": 1}', ""])
def test_a_lock_that_nobody_holds_is_no_hindrance(calc: CalcProject, left: str) -> None:
    (calc.root / ".harness/lock").write_text(left)
    ran = calc.run([turn(honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text


@pytest.mark.exhaustive
def test_files_of_a_killed_write_are_no_hindrance(calc: CalcProject) -> None:
    """Half-written temporary files beside the state change nothing, and those of the dead are cleared away."""
    (calc.root / f".harness/session_state.json.tmp.{os.getpid()}.abcd").write_text("{")
    dead = calc.root / ".harness/session_state.json.tmp.4194305.abcd"
    unfinished = calc.root / ".harness/checkpoints/s9-0000"
    unfinished.mkdir(parents=True)
    for path in (dead, unfinished / "session_state.json.tmp.4194305.abcd"):
        path.write_text("{")
    (calc.root / ".harness/logs/events.jsonl").write_text('{"type": "torn", "le')
    ran = calc.run([turn(honest(1), commit("x"), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert not dead.exists()
    assert not unfinished.exists()
    calc.checked = False
    assert calc.harness("status").code == 0
