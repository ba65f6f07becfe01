"""Questions of a person about a feature project afterwards: why, diff, costs; one project for all of it."""

import html
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .calc import CalcProject, make
from .script import honest, proof_path, turn, usage
from .seam import CommandSeam
from .test_s06_regression import breaking


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalcProject]:
    """Feature 1 is proven; of 2, one claim broke it and was rolled back, and one was proven; 3 was skipped."""
    base = tmp_path_factory.mktemp("told")
    home = base / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Test Person\n\temail = person@localhost\n")
    dropped = ("HARNESS_", "GIT_", "XDG_", "COLUMNS", "CI", "FORCE_COLOR", "MAKE", "PYTEST_ADDOPTS", "PYTHONDONTWRITE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    kept |= {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "HARNESS_VERIFICATION__TRUST": "fast"}
    calc = make(base, kept, seam=CommandSeam(base))
    for turns in ([turn(honest(1), usage(100, 10, cost=0.25))], breaking(2), [turn(honest(2), usage(9, 9, cost=0.5))]):
        calc.run(turns)
    assert calc.passing() == [1, 2], calc.progress
    assert calc.harness("skip", "--feature", "3", "--reason", "later").code == 0
    yield calc


def executed(calc: CalcProject, check: list[dict[str, Any]]) -> None:
    """Runs the lines in one shell, in the project's folder, as a person who copies them would."""
    assert check
    tests = ('[ "$ended" = 0 ]', '[ "$ended" != 0 ]')
    script = "\n".join(f"{each['command']}; ended=$?; {tests[each['must'] == 'fail']} || exit 9" for each in check)
    done = subprocess.run(
        ["sh", "-c", script], cwd=calc.root, env=calc.variables(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (script, done.stdout, done.stderr)


@pytest.mark.exhaustive
def test_why_a_feature_is_proven_and_how_to_check_it(told: CalcProject) -> None:
    """Its claims with their verdicts and reasons; the lines to check it are run, and come out as they say."""
    before = told.fingerprint()
    found = told.harness("why", "2")
    assert found.code == 0, found.text
    lines = found.out.splitlines()
    assert lines[0].startswith("Feature #2 User can sub two numbers: proven at "), found.out
    assert lines[0].endswith("(session 3, 2 tests)")
    assert (
        "REJECTED regression: 1 test that passed before now fails, first tests/e2e/test_add.py::test_add_one"
        in found.out
    )
    assert "rolled back, kept: harness diff 2" in found.out
    assert "accepted: proof 2 passed, 2 tests of the suite pass, red before" in found.out
    assert "$0.50 (2 sessions" in found.out
    assert "; 1 rejected (less than $0.01)" in found.out
    assert len(lines) <= 30
    assert told.fingerprint() == before, "it reads alone"
    answer = told.harness("why", "#2", "--json").json
    assert [each["must"] for each in answer["check"]] == ["pass", "fail", "pass"]
    assert proof_path(2) in answer["check"][0]["command"]
    assert answer["item"] == "2"
    executed(told, answer["check"])
    assert told.changes(without=("claude-progress.txt",)) == []


@pytest.mark.exhaustive
def test_a_person_answers_seven_questions_from_status_and_why_alone(told: CalcProject) -> None:
    """F-STORY-1, F-STORY-WHY: what waits and what to type next is on the first screen, all else one `why` away."""
    status, why = told.harness("status").out, told.harness("why", "2").out
    proven, all_of_them = len(told.passing()), len(told.features["features"])
    commit = next(
        each["proven"]["commit"] for each in told.harness("report", "--json").json["done"] if each["id"] == "2"
    )
    head = status.splitlines()[:8]
    answers = {
        "what is proven": f"{proven} of {all_of_them} proven" in head[0]
        and why.startswith("Feature #2 User can sub two numbers: proven at"),
        "how to check it": f"check it   git worktree add --detach ../check-2 {commit[:12]}" in why,
        "which claim was rejected, and why": "REJECTED regression: 1 test that passed before now fails" in why,
        "where the rolled-back work is": "rolled back, kept: harness diff 2" in why
        and any(line.startswith("kept") and "1 rolled back" in line for line in head),
        "what it has cost": any(line.startswith("cost") and "$0.75" in line for line in head),
        "what waits for a person": any(line.startswith("needs you") for line in head),
        "what to type next": any(line.startswith("next") and "harness " in line for line in head),
    }
    unanswered = [question for question, answered in answers.items() if not answered]
    assert unanswered == [], f"{status}\n{why}"


@pytest.mark.exhaustive
def test_why_a_feature_is_open_skipped_or_waits(told: CalcProject) -> None:
    assert "3: skipped" not in told.harness("why", "3").err
    skipped = told.harness("why", "3").out
    assert skipped.startswith("Feature #3 User can mul two numbers: skipped, no claim yet\n")
    assert "because    later" in skipped
    assert skipped.endswith("next       harness skip --feature 3 --undo\n")
    waits = told.harness("why", "Feature #4").out
    assert "waits for  Feature #3 (skipped)" in waits
    assert waits.endswith("next       harness why 3\n")
    refused = told.harness("why", "9")
    assert (refused.code, "No item '9' in this project." in refused.err) == (2, True), refused.text


def test_the_page_shows_what_was_claimed_and_how_to_check_it(told: CalcProject) -> None:
    """F-REP-1, F-REP-5: one file, made without a change to the project; its lines are run, and come out as they say."""
    before = told.fingerprint(without=(".git/index", ".harness/report.html"))
    ran = told.harness("report")
    assert ran.code == 0, ran.text
    path = Path(ran.out.strip())
    assert path == told.root / ".harness/report.html"
    page = html.unescape(path.read_text())
    assert f"2 of {len(told.features['features'])} features are proven" in page
    assert "1 of 3 claims were rejected; rejected claims do not count as done" in page
    assert told.fingerprint(without=(".git/index", ".harness/report.html")) == before

    found = told.harness("report", "--json").json
    assert [(each["id"], bool(each["check"])) for each in found["done"]] == [("1", True), ("2", True)]
    assert [each["item"] for each in found["kept"]] == ["2"]
    assert found["chain"]["whole"]
    for each in found["done"][1]["check"]:
        assert each["command"] in page
    executed(told, found["done"][1]["check"])

    short = told.harness("report", "--markdown", "--no-costs").text
    assert "Feature #3" in short
    assert "$" not in short
    same = {"SOURCE_DATE_EPOCH": "1700000000"}
    written = [told.harness("report", environ=same) and path.read_bytes() for _ in range(2)]
    assert written[0] == written[1]
    assert told.harness("report", "--since", "nonsense").code == 2
    assert told.harness("report", "--markdown", "--json").code == 2
    assert told.harness("report", "--out", "/proc/nothing/x.html").code == 4
