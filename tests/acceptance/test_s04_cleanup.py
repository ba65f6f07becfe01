"""S04: a cleanup session after so many features: no feature, no new behaviour, kept whole or taken back whole."""

import pytest

from .calc import CalcProject
from .script import append, claim, commit, honest, prompt_to, sh, sleep, turn, usage, write
from .seam import each_seam

LONG = "".join(f"\n\ndef helper_{n}():\n    return {n}\n" for n in range(8))


def tidy() -> list[dict[str, object]]:
    """Return the steps of a good cleanup: a part of the code moves to its own file."""
    return [
        write("src/helpers.py", '"""Helpers."""\n'),
        append("claude-progress.txt", "\n"),
        commit("Clean up: split the calculator"),
        usage(100, 10),
    ]


def two_features_done(calc: CalcProject) -> None:
    """Two verified features, the interval of two, and a file that is too large."""
    calc.put(
        {
            ".harness.yaml": (calc.root / ".harness.yaml")
            .read_text()
            .replace("quality:", "quality:\n  cleanup_interval: 2\n  max_file_lines: 20")
        }
    )
    calc.commit("Clean up often")
    calc.git("push", "-q")
    calc.accept(1)
    ran = calc.run([turn(append("src/calc.py", LONG), honest(2))])
    assert ran.code == 0, ran.text
    assert calc.state["next_prompt"] == "cleanup"


@each_seam
def test_cleanup_comes_after_the_interval_and_once(calc: CalcProject) -> None:
    """UAH-168, UAH-181, UAH-182, UAH-241, UAH-321, UAH-322, UAH-323, UAH-325, UAH-326, UAH-514, UAH-547, C36, C47."""
    two_features_done(calc)
    assert "Prompt type: cleanup" in calc.harness("run", "--dry-run").out
    prompt, model = calc.base / "prompt.txt", calc.base / "session.txt"
    ran = calc.run([turn(prompt_to(prompt), sh(f"env | grep ^HARNESS_ > {model}"), tidy())])
    assert ran.code == 0, ran.text
    assert "Prompt type: cleanup" in ran.out
    text = prompt.read_text()
    for words in ("Do not implement new features", "Do NOT change functionality", "src/calc.py has"):
        assert words in text
    tasks = ("Split the files", "Fix the lint", "Remove dead code", "docstrings that public", "Run the full suite")
    places = [text.find(task) for task in tasks]
    assert -1 not in places
    assert places == sorted(places)
    assert {"HARNESS_PROMPT_TYPE=cleanup", "HARNESS_MODEL=claude-haiku-3"} <= set(model.read_text().split())
    state = calc.state
    assert (state["next_prompt"], state["status"], state["stuck_count"]) == ("coding", "complete", 0)
    assert "src/helpers.py" in (calc.root / ".harness/file_sizes.json").read_text()
    assert calc.passing() == [1, 2]
    assert calc.changes() == []
    assert calc.costs["cumulative"]["total_sessions"] == 2
    again = calc.run([turn(honest(3))])
    assert again.code == 0, again.text
    assert "Prompt type: coding" in again.out
    assert calc.state["next_prompt"] == "coding"


def test_a_cleanup_that_marks_a_feature_is_rejected(calc: CalcProject) -> None:
    """UAH-327, UAH-110."""
    two_features_done(calc)
    head = calc.head
    ran = calc.run([turn(tidy(), claim(3), commit("More"), times=9)])
    assert ran.code == 1, ran.text
    assert "must not mark features" in ran.text
    assert (calc.head, calc.passing(), calc.state["next_prompt"]) == (head, [1, 2], "coding")


@pytest.mark.exhaustive
def test_a_cleanup_that_breaks_a_test_is_rolled_back(calc: CalcProject) -> None:
    """UAH-323, UAH-359."""
    two_features_done(calc)
    head = calc.head
    ran = calc.run([turn(sh("sed -i.bak 's/return a + b/return 0/' src/calc.py && rm src/calc.py.bak"), times=9)])
    assert ran.code == 1, ran.text
    assert "Regression:" in ran.text
    assert (calc.head, calc.passing()) == (head, [1, 2])
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert calc.state["stuck_count"] == 0


@pytest.mark.exhaustive
def test_a_cleanup_that_makes_lint_worse_is_rolled_back(calc: CalcProject) -> None:
    """UAH-322, UAH-324, UAH-516: the findings are counted by code, before and after."""
    two_features_done(calc)
    head, prompt = calc.head, calc.base / "prompt.txt"
    ran = calc.run([turn(prompt_to(prompt), append("src/calc.py", "x = 1   \n" * 3), commit("Clean up"), times=9)])
    assert ran.code == 1, ran.text
    assert "made lint worse: 0 findings before, 3 now (3 E501)" in ran.text
    assert "lint check... WARNING" in ran.text
    assert (calc.head, calc.passing(), calc.state["next_prompt"]) == (head, [1, 2], "coding")
    for task in ("Split the files", "lint findings", "Remove dead code", "docstrings", "Run the full suite"):
        assert task in prompt.read_text()


def test_a_cleanup_that_makes_large_files_larger_is_rolled_back(calc: CalcProject) -> None:
    """UAH-325."""
    two_features_done(calc)
    head = calc.head
    more = "".join(f"\n\ndef more_{n}():\n    return {n}\n" for n in range(20))
    ran = calc.run([turn(append("src/calc.py", more), commit("Clean up"), times=9)])
    assert ran.code == 1, ran.text
    assert "made files larger" in ran.text
    assert (calc.head, calc.passing()) == (head, [1, 2])


def test_cleanup_on_request_and_killed_in_the_middle(calc: CalcProject) -> None:
    """UAH-055, UAH-518, C56."""
    nothing = calc.harness("cleanup", agent=[turn(tidy())])
    assert nothing.code == 7, nothing.text
    calc.accept(1)
    head, flag = calc.head, calc.base / "busy"
    running = calc.start("cleanup", agent=[turn(write("src/helpers.py", "x = 1\n"), sh(f"touch {flag}"), sleep(600))])
    calc.wait_until(flag.exists, "the agent at work")
    running.kill()
    running.wait()
    assert "a cleanup was interrupted" in calc.harness("status").out
    done = calc.harness("cleanup", agent=[turn(tidy())])
    assert done.code == 0, done.text
    assert "Triggering cleanup session..." in done.out
    assert calc.git("log", "--format=%s", f"{head}..HEAD").splitlines()[-1].startswith("Clean up")
    assert calc.state["next_prompt"] == "coding"
    assert calc.harness("status").code == 0
