"""Handover from one session to the next: decisions, done and open work, and true sanity commands."""

import re
import subprocess
from pathlib import Path

import pytest

from .calc import CalcProject
from .script import (
    Step,
    claim,
    commit,
    evidence,
    honest,
    implement,
    prompt_to,
    proof_ids,
    proof_path,
    prove,
    say,
    turn,
    usage,
    write,
)


def prompt_of(calc: CalcProject, *steps: Step) -> str:
    """The prompt of the next session, whose agent takes these steps, or does nothing at all."""
    told = calc.base / "prompt.txt"
    told.unlink(missing_ok=True)
    ran = calc.run([turn(prompt_to(told), steps or say("I only look."))])
    assert ran.code == 0, ran.text
    return told.read_text()


def sanity(prompt: str) -> list[str]:
    """The commands of the prompt's second job."""
    (line,) = re.findall(r"2\. (Run the sanity tests.*?)\. If something that worked", " ".join(prompt.split()))
    return re.findall(r"\((.+?)\)", line)[:1] + re.findall(r"`(.+?)`", line)


def results(calc: CalcProject, commands: list[str]) -> list[int]:
    def ends(command: str) -> int:
        words = ["sh", "-c", command]
        return subprocess.run(words, cwd=calc.root, env=calc.environ, capture_output=True, check=False).returncode

    return [ends(command) for command in commands]


@pytest.mark.exhaustive
def test_decisions_and_the_sanity_command_of_a_young_project(calc: CalcProject) -> None:
    """UAH-248, UAH-284, UAH-313, UAH-368, UAH-506, UAH-545, C23: an agent that writes no entry hands over too."""
    young = sanity(prompt_of(calc))
    assert young[:1] == ["python tools/lint.py src/"]
    assert not [command for command in young if "pytest" in command], "no test has passed yet"
    assert set(results(calc, young)) == {0}

    decided = say("[DECISION] Items live in a module list")
    ran = calc.run([turn(decided, implement(1), prove(1), claim(1), commit("Add adds"))])
    assert ran.code == 0, ran.text
    entry = calc.progress.rpartition("SESSION 2 ")[2]
    for words in (": Add adds", "changed src/calc.py, tests/e2e/test_add.py", "DECISIONS:", "module list"):
        assert words in entry, words

    prompt = prompt_of(calc)
    assert "## Recent Decisions\n- Session 2: Items live in a module list" in prompt
    commands = sanity(prompt)
    assert commands[-1] == "sh .harness/sanity.sh"
    script = (calc.root / ".harness/sanity.sh").read_text()
    assert "python -m pytest --ignore=tests/e2e/test_sub.py " in script
    assert " -x" not in script
    assert set(results(calc, commands)) == {0}, commands
    calc.put({"src/calc.py": '"""A calculator."""\n\n\ndef add(a, b):\n    return 0\n'})
    assert set(results(calc, commands)) == {0, 1}, "what worked is broken"
    calc.git("checkout", "-q", "src/calc.py")


@pytest.mark.exhaustive
def test_a_continuation_is_told_what_is_done_and_what_fails(calc: CalcProject) -> None:
    """UAH-240, UAH-317, UAH-319, UAH-368, UAH-543: from commits, prefixes and tests, where the agent wrote nothing."""
    calc.accept(1)
    text = '"""A calculator."""\n\n\ndef add(a, b):\n    return {}\n\n\ndef sub(a, b):\n    return {}\n'
    broken, mended = text.format("0", "a + b"), text.format("a + b", "a - b")
    half = [write("src/calc.py", broken), write(proof_path(2), PROOF), commit("Half of sub")]
    ran = calc.run([turn(say("[DECISION] Signs come last"), half, usage(500, 10))])
    assert ran.code == 0, ran.text
    prompt = prompt_of(calc, write("src/calc.py", mended), evidence(2), commit("Mended"), usage(500, 10))
    left = prompt.partition("**What's Left:**")[2]
    done = prompt.partition("**What's Done:**")[2].partition("**What's Left:**")[0]
    assert ": Half of sub" in done
    assert "changed src/calc.py, tests/e2e/test_sub.py" in done
    assert f"these tests worked before, and fail now: {proof_ids(1)[0]}" in left
    assert f"1 of the feature's own tests fail: {proof_path(2)}::test_sub_one" in left
    assert "- Session 2: Signs come last" in prompt
    prompt = prompt_of(calc, evidence(2), claim(2), commit("Implement sub"))
    assert ": Mended" in prompt
    assert f"the tests of {proof_path(2)} pass; the feature was not claimed" in prompt
    assert calc.passing() == [1, 2]


PROOF = """import calc


def test_sub_one():
    assert calc.sub(2, 3) == -1


def test_sub_two():
    assert calc.sub(5, 0) == 5
"""


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_decision_of_a_session_that_was_rolled_back_says_so(calc: CalcProject, tmp_path: Path) -> None:
    """UAH-248."""
    refused = [say("[DECISION] Rewrite history"), *honest(1), claim(2)]
    assert calc.run([turn(refused, times=9)]).code == 1
    assert "- Session 1: Rewrite history (rolled back)" in prompt_of(calc)
