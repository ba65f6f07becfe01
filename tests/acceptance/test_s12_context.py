"""S12: the context window fills up over broken work; what there is goes to the next session, which mends it."""

import pytest

from .calc import CalcProject
from .script import (
    Turn,
    append,
    claim,
    evidence,
    honest,
    progress,
    prompt_to,
    proof_ids,
    proof_path,
    proof_text,
    say,
    sleep,
    turn,
    usage,
    write,
)
from .seam import each_seam

pytestmark = each_seam

WINDOW = "context:\n  window_tokens: 10000\n"
BROKEN = '"""A calculator."""\n\n\ndef add(a, b):\n    return 0\n\n\ndef sub(a, b):\n    return b\n'
MENDED = '"""A calculator."""\n\n\ndef add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n'
SAID_AT_75 = "You've used 75% of available context"
SAID_AT_90 = "Context is nearly full. You must now:"


def full(calc: CalcProject) -> Turn:
    """The third call fills the window to the last token; the agent would go on for ever."""
    return turn(
        prompt_to(calc.base / "prompt-1.txt"),
        say("I write sub."),
        write("src/calc.py", BROKEN),
        write(proof_path(2), proof_text(2)),
        usage(7_500, 100),
        usage(9_000, 100),
        write("notes.txt", "what I think\n"),
        usage(9_900, 100),
        sleep(600),
    )


def used_up(calc: CalcProject) -> str:
    """A project whose feature 2 has filled a session; the HEAD from before that."""
    calc.configure(WINDOW)
    start = calc.accept(1)
    ran = calc.run([full(calc)])
    assert ran.code == 0, ran.text
    return start


@pytest.mark.exhaustive
def test_the_work_is_handed_off(calc: CalcProject) -> None:
    """The three marks, the WIP commit, the words, the counters.

    UAH-009, UAH-316, UAH-317, UAH-319, UAH-338, UAH-339, UAH-340, UAH-341, UAH-342, UAH-343, UAH-351, UAH-365,
    UAH-366, UAH-367, UAH-368, UAH-474, UAH-493, UAH-508, C15, C16
    """
    start = used_up(calc)
    assert sum(SAID_AT_75 in text for text in calc.told()) == 1
    assert sum(SAID_AT_90 in text for text in calc.told()) == 1
    assert len(calc.told()) == 2
    wip = calc.git("log", "-1", "--format=%B").splitlines()
    assert wip[0] == "WIP: Context limit - Feature #2 (User can sub two numbers)"
    assert "WIP: Context limit reached" in wip
    assert "SESSION TERMINATED: Context limit reached mid-implementation" in calc.progress
    assert calc.git("rev-parse", "HEAD~1") == start
    assert calc.git("show", "HEAD:notes.txt") == "what I think"
    assert calc.remote() == start, "nothing of it is pushed"
    assert calc.passing() == [1]
    state = calc.state
    assert (state["status"], state["termination_reason"]) == ("partial", "context_limit")
    assert (state["current_feature"], state["next_prompt"], state["stuck_count"]) == (2, "continuation", 1)
    assert state["wip_red_tests"] == [proof_ids(1)[0]], "the other one holds for a sum of nothing, too"
    assert calc.changes() == []
    assert [row["termination_reason"] for row in calc.log("sessions.jsonl")] == ["context_limit"]
    _the_next_session_mends_it(calc, start)


def _the_next_session_mends_it(calc: CalcProject, start: str) -> None:
    told = calc.base / "prompt-2.txt"
    mends = [write("src/calc.py", MENDED), evidence(2), claim(2)]
    ran = calc.run([turn(prompt_to(told), mends, usage(500, 50))])
    assert ran.code == 0, ran.text
    prompt = told.read_text()
    for words in ("Continuing Partial Feature", "PARTIAL", "src/calc.py", "notes.txt", "DO NOT restart"):
        assert words in prompt, words
    assert "Prompt type: continuation" in ran.out
    assert calc.passing() == [1, 2]
    assert (calc.state["stuck_count"], calc.state["next_prompt"]) == (0, "coding")
    assert calc.remote() == calc.head != start
    assert calc.state["wip_red_tests"] == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_c_a_continuation_that_fails_goes_back_to_before_the_feature(calc: CalcProject) -> None:
    """UAH-474 C64."""
    start = used_up(calc)
    again = turn(append("src/calc.py", "\n# still broken\n"), evidence(2), claim(2), usage(10, 1), times=9)
    ran = calc.run([again])
    assert ran.code == 1, ran.text
    assert calc.head == start
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert not (calc.root / "notes.txt").exists()
    (event,) = calc.events("rollback_completed")
    assert event["restored_to_session"] == 2
    assert len(event["rolled_back_commits"]) >= 1
    assert (calc.state["status"], calc.state["stuck_count"], calc.state["next_prompt"]) == ("failed", 2, "coding")
    assert calc.passing() == [1]
    assert calc.remote() == start
    assert "still broken" in calc.git("show", f"{event['rescue_ref']}:src/calc.py")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_person_may_want_no_commit_and_no_word_of_it(calc: CalcProject) -> None:
    """UAH-171 UAH-173: what the agent left stays in the work tree; the next session has it stashed like any change."""
    calc.configure(WINDOW + "  on_limit:\n    auto_commit: false\n    append_to_progress: false\n")
    start, story = calc.accept(1), calc.progress
    ran = calc.run([full(calc)])
    assert ran.code == 0, ran.text
    assert "left uncommitted" in ran.text
    assert calc.head == start == calc.remote()
    assert calc.progress == story
    assert (calc.root / "notes.txt").read_text() == "what I think\n"
    assert (calc.state["termination_reason"], calc.state["next_prompt"]) == ("context_limit", "coding")
    ran = calc.run([turn(honest(2), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1, 2]
    assert "harness session 3" in calc.git("stash", "list")
    assert "what I think" in calc.git("stash", "show", "--include-untracked", "-p")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_agents_own_entry_is_kept_and_nothing_put_in_its_mouth(calc: CalcProject) -> None:
    """UAH-368: the harness writes the entry only where the agent has written none."""
    calc.configure(WINDOW)
    calc.accept(1)
    entry = f"\n{'-' * 80}\nSESSION 2 - 2026-01-05 10:00\n{'-' * 80}\n\nWHAT I DID:\n- half of sub\n\nNEXT: the rest\n"
    wraps_up = [append("src/calc.py", "\n# half\n"), progress(entry), usage(9_100, 0), usage(10_000, 0)]
    ran = calc.run([turn(wraps_up, sleep(600))])
    assert ran.code == 0, ran.text
    assert calc.progress.count("SESSION 2 -") == 1
    assert calc.progress.count("SESSION TERMINATED") == 1
    assert "- half of sub" in calc.progress
    told = calc.base / "prompt.txt"
    ran = calc.run([turn(prompt_to(told), honest(2), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert "half of sub" in told.read_text()
    assert "the rest" in told.read_text()
