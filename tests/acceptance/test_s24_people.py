"""S24: a person steps in: pause, skip, override, their own look, hand-off, abort."""

import json

import pytest

from agent_harness.testing import CommandResult

from .calc import CalcProject
from .script import CODE, append, honest, name_of, proof_path, proof_text, sh, sleep, turn, usage


def answer(calc: CalcProject, text: str, *args: str) -> CommandResult:
    """A command with an answer waiting on stdin, as a person would type it ahead."""
    import subprocess

    done = subprocess.run(
        calc.command(*args), cwd=calc.root, env=calc.environ, input=text.encode(), capture_output=True, check=False
    )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def mark_of(calc: CalcProject, feature: int) -> dict[str, object]:
    return next(f for f in calc.features["features"] if f["id"] == feature)


@pytest.mark.exhaustive
def test_a_pause_hands_the_running_session_off_and_keeps_the_next_from_starting(calc: CalcProject) -> None:
    """UAH-004, UAH-056, UAH-057, UAH-058, UAH-075, UAH-354, UAH-512, C06."""
    flag = calc.base / "busy"
    slow = turn(append("src/calc.py", "\n\nHALF = 1\n"), sh(f"touch {flag}; sleep 10"))
    running = calc.start("run", agent=[slow])
    calc.wait_until(flag.exists, "the agent at work")
    paused = calc.harness("pause", "looking at it")
    assert paused.code == 0, paused.text
    assert "Pausing after current operation..." in paused.out
    assert "State saved. Resume with: harness resume" in paused.out
    assert running.wait(60) == 0, calc.started()
    assert (calc.state["status"], calc.state["termination_reason"]) == ("partial", "user_pause")
    assert calc.state["stuck_count"] == 0
    assert calc.git("log", "-1", "--format=%s").startswith("WIP:")
    before = calc.fingerprint()
    again = calc.run([turn(honest(1))])
    assert again.code == 5, again.text
    assert "harness resume" in again.err
    assert calc.fingerprint() == before
    assert "looking at it" in calc.harness("status").out
    resumed = calc.harness("resume")
    assert resumed.code == 0, resumed.text
    assert "Resuming from session 1..." in resumed.out
    assert "Next prompt: continuation" in resumed.out
    assert "Feature #1 queued." in resumed.out
    assert calc.run([turn(honest(1))]).code == 0
    assert calc.passing() == [1]


def test_skip_blocks_the_dependents_and_can_be_undone(calc: CalcProject) -> None:
    """UAH-059, UAH-461, UAH-512, C53, C65."""
    done = calc.harness("skip", "--feature", "3", "--reason", "later")
    assert done.code == 0, done.text
    assert "Skipped Feature #3. Added to blocked list." in done.out
    assert "This blocks: Feature 4, Feature 5, Feature 6" in done.out
    assert "Continuing with next feature..." in done.out
    assert mark_of(calc, 3)["skipped"]["reason"] == "later"  # type: ignore[index]
    assert calc.changes() == []
    head = calc.head
    assert calc.harness("skip", "--feature", "3").code == 0
    assert calc.head == head, "skipping twice changes nothing"
    chosen = calc.run([turn(honest(1))], "--feature", "4")
    assert (chosen.code, "waits for #3" in chosen.err) == (7, True), chosen.text
    assert calc.harness("skip", "--feature", "99").code == 2
    assert calc.harness("skip", "--feature", "3", "--undo").code == 0
    assert "skipped" not in mark_of(calc, 3)
    assert calc.changes() == []


def test_skip_takes_unfinished_work_off_the_branch_and_keeps_it(calc: CalcProject) -> None:
    """C53, UAH-003."""
    start = calc.head
    calc.run([turn(append("src/calc.py", "\n\nHALF = 1\n"))])
    assert calc.state["next_prompt"] == "continuation"
    other = calc.run([turn(honest(2))], "--feature", "2")
    assert other.code == 7, "unproven commits would be pushed with Feature #2"
    done = calc.harness("skip", "--feature", "1", "--json")
    assert done.code == 0, done.text
    kept = done.json["rescue_ref"]
    assert "HALF" in calc.git("show", f"{kept}:src/calc.py")
    assert "HALF" not in (calc.root / "src/calc.py").read_text()
    assert calc.git("rev-parse", "HEAD~1") == start
    assert (calc.state["next_prompt"], calc.state["stuck_count"]) == ("coding", 0)
    ran = calc.run([turn(honest(2))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [2]


def test_override_needs_a_yes_and_holds_until_it_is_taken_back(calc: CalcProject) -> None:
    """UAH-060, UAH-061, UAH-076, C12, C65."""
    before = calc.fingerprint()
    for text in ("n\n", ""):
        asked = answer(calc, text, "override", "--feature", "3", "--passes", "true")
        assert asked.code == 1, asked.text
        assert "WARNING: This bypasses verification. Are you sure? [y/N]:" in asked.text
        assert calc.fingerprint() == before
    done = answer(calc, "y\n", "override", "--feature", "3", "--passes", "true")
    assert done.code == 0, done.text
    assert "Marked Feature #3 as passes: true." in done.out
    assert calc.passing() == [3]
    assert calc.changes() == []
    assert calc.git("log", "-1", "--format=%s") == "harness: Feature #3 passes=true (override)"
    next_up = calc.run([turn(honest(1), usage(1, 1))])
    assert next_up.code == 0, "a person's word is not asked for again\n" + next_up.text
    assert calc.harness("override", "--feature", "3", "--passes", "false", "--yes").code == 0
    assert calc.passing() == [1]


def test_manual_verification_is_recorded_on_a_yes(calc: CalcProject) -> None:
    """UAH-062, UAH-063, C65."""
    no = answer(calc, "n\n", "manual-verify", "--feature", "1")
    assert no.code == 1
    assert calc.passing() == []
    calc.put({"src/calc.py": CODE["add"], proof_path(1): proof_text(1)})
    calc.commit("By hand")
    done = answer(calc, "y\n", "manual-verify", "--feature", "1")
    assert done.code == 0, done.text
    for line in (
        "Please verify Feature #1 manually.",
        f"Test file: {proof_path(1)}",
        f"Run: python -m pytest {proof_path(1)} -v",
        "Recorded manual verification for Feature #1.",
    ):
        assert line in done.out
    assert "Did all tests pass? [y/n]:" in done.text
    assert calc.passing() == [1]
    assert calc.changes() == []


def test_handoff_and_takeback(calc: CalcProject) -> None:
    """UAH-064, UAH-065, UAH-066, UAH-075, UAH-512, C06, C40, C65."""
    given = calc.harness("handoff")
    assert given.code == 0, given.text
    for line in ("Harness paused.", "Current state:", "- Feature #1 in progress (not complete)", "- 0/6 features"):
        assert line in given.out
    assert "When done, run: harness takeback" in given.out
    assert calc.run([turn(honest(1))]).code == 5
    calc.put({"src/calc.py": CODE["add"]})
    assert calc.harness("takeback", "--yes").code == 4, "not committed yet"
    for n, files in enumerate(({"src/calc.py": CODE["add"]}, {proof_path(1): proof_text(1)}, {"NOTES": "by hand"})):
        calc.put(files)
        calc.commit(f"By hand {n}")
    back = answer(calc, "y\n", "takeback")
    assert back.code == 0, back.text
    for line in (
        "Scanning for changes...",
        "Found: 3 new commits",
        f"Feature #1 test file: {proof_path(1)}",
        "Running verification... PASSED",
        "Updated features.json.",
        "Updating test baseline...",
        "Resuming autonomous operation...",
    ):
        assert line in back.out, back.text
    assert "Mark Feature #1 as passes: true? [y/n]:" in back.text
    assert calc.passing() == [1]
    assert calc.changes() == []
    assert len(calc.baseline["passing_tests"]) == 2
    assert calc.state["handoff"] is None
    assert calc.harness("takeback").code == 4
    ran = calc.run([turn(honest(2))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1, 2]


@pytest.mark.exhaustive
def test_takeback_asks_about_every_open_feature_that_passes(calc: CalcProject) -> None:
    """UAH-065, UAH-066: #1 was in progress, and the person built #2 and #3; placeholders are not asked about."""
    assert calc.harness("handoff").code == 0
    calc.put(
        {
            "src/calc.py": f"{CODE['sub']}\n\n{CODE['mul']}",
            **{proof_path(n): proof_text(n) for n in (2, 3)},
        }
    )
    calc.commit("By hand")
    back = answer(calc, "y\nn\n", "takeback", "--json")
    assert back.code == 0, back.text
    assert "Mark Feature #2 as passes: true?" in back.text
    assert "Mark Feature #3 as passes: true?" in back.text
    assert "Mark Feature #1" not in back.text
    assert "Mark Feature #4" not in back.text
    assert calc.passing() == [2]
    assert (calc.state["handoff"], calc.changes()) == (None, [])
    assert calc.run([turn(honest(1))]).code == 0
    assert calc.passing() == [1, 2]


def test_abort_keeps_commits_logs_and_costs_and_resume_begins_anew(calc: CalcProject) -> None:
    """UAH-067, C39."""
    assert calc.run([turn(honest(1), usage(10, 5))]).code == 0
    head, costs = calc.head, calc.costs
    no = answer(calc, "n\n", "abort")
    assert no.code == 1
    assert calc.state["last_session"] == 1
    done = answer(calc, "y\n", "abort")
    assert done.code == 0, done.text
    for line in ("Stop all operations", "Keep git commits as-is", "Clear harness state", "Harness stopped."):
        assert line in done.out
    assert calc.head == head
    assert calc.costs == costs
    assert not (calc.root / ".harness/session_state.json").exists()
    assert calc.events("session_ended")
    assert calc.changes() == []
    assert calc.run([turn(honest(2))]).code == 4
    again = calc.harness("resume")
    assert again.code == 0, again.text
    assert calc.state["last_session"] == 1
    assert len(calc.baseline["passing_tests"]) == 2
    assert calc.run([turn(honest(2))]).code == 0
    assert calc.passing() == [1, 2]


def test_abort_ends_a_running_session(calc: CalcProject) -> None:
    """UAH-067."""
    flag = calc.base / "busy"
    running = calc.start("run", agent=[turn(append("src/calc.py", "\n\nHALF = 1\n"), sh(f"touch {flag}"), sleep(600))])
    calc.wait_until(flag.exists, "the agent at work")
    assert calc.harness("abort", "--yes").code == 0
    running.wait(60)
    assert not (calc.root / ".harness/session_state.json").exists()
    assert calc.git("log", "-1", "--format=%s").startswith("WIP:")
    assert calc.harness("resume").code == 0


@pytest.mark.kept("args3", "args6")
@pytest.mark.parametrize(
    "args",
    [
        ("skip",),
        ("override", "--feature", "1"),
        ("override", "--feature", "x", "--passes", "true"),
        ("manual-verify", "--feature", "77", "--yes"),
        ("verify",),
        ("verify", "--all", "--feature", "1"),
        ("resume", "--choose", "nothing"),
    ],
)
def test_a_wrong_command_line_changes_nothing(calc: CalcProject, args: tuple[str, ...]) -> None:
    """UAH-077, C50."""
    locks = (".git/index", ".git/harness", ".harness/lock")
    before = calc.fingerprint(without=locks)
    ran = calc.here(*args, "--json")
    assert ran.code == 2, ran.text
    assert json.loads(ran.out)["ok"] is False
    assert calc.fingerprint(without=locks) == before
    calc.checked = False


def test_one_features_session_and_the_whole_suite(calc: CalcProject) -> None:
    """UAH-050, UAH-051, UAH-462: `run --feature`, `verify --all`."""
    ran = calc.run([turn(honest(2))], "--feature", "2")
    assert ran.code == 0, ran.text
    assert calc.passing() == [2]
    assert calc.run([turn(honest(1))], "--feature", "2").code == 7
    assert calc.run([turn(honest(1))], "--feature", "42").code == 2
    head = calc.head
    good = calc.harness("verify", "--all", "--json")
    assert good.code == 0, good.text
    assert [row["feature_id"] for row in good.json["features"] if row["green"]] == [2]
    calc.put({"src/calc.py": CODE["add"]})
    bad = calc.harness("verify", "--all")
    assert bad.code == 1, bad.text
    assert "WRONGLY" in bad.out
    assert f"{proof_path(2)}::test_{name_of(2)}_one" in bad.out
    assert calc.head == head
    calc.git("checkout", "-q", "--", "src/calc.py")


FOR_A_PERSON = (
    "override --feature 2 --passes true --yes",
    "manual-verify --feature 2 --yes",
    "skip --feature 2",
    "resume",
    "handoff",
    "takeback --yes",
    "abort --yes",
    "rescue prune --older-than 0",
)


def test_what_a_person_decides_is_refused_in_the_session_of_an_agent(calc: CalcProject) -> None:
    """UAH-004: also without the variables that say so, since those of the processes above are looked at."""
    said = {words: calc.base / f"said-{words.split()[0]}" for words in FOR_A_PERSON}
    hidden = "env -u HARNESS_RUN_ID -u HARNESS_PROJECT_DIR"
    steps = [sh(f"(harness {words}; {hidden} harness {words}) > {path} 2>&1; true") for words, path in said.items()]
    ran = calc.harness("run", agent=[turn(steps)], timeout=800)  # twice as many starts of Python as decisions
    for words, path in said.items():
        text = path.read_text()
        assert text.count("is a decision for the user: agents may not run this command") == 2, (words, text)
    assert (calc.passing(), calc.state["pending_escalation"], calc.state["last_session"]) == ([], None, 1), ran.text
