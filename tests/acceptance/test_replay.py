"""A session leaves a recording, and playing it again meets the same verdict with the same files."""

import json
import shutil

import pytest

from .begun import Begin, one_session
from .calc import CalcProject
from .script import commit, forge, honest, say, turn, write


def recording(calc: CalcProject, session: int) -> str:
    return str(calc.root / f".harness/logs/session-{session}.cassette.jsonl")


def twin(calc: CalcProject) -> CalcProject:
    """A copy of the project as it is, without its remote."""
    place = calc.base / "twin"
    shutil.copytree(calc.root, place, symlinks=True)
    made = CalcProject(calc.base, place, calc.environ)
    made.git("remote", "remove", "origin")
    return made


def written(calc: CalcProject) -> dict[str, str]:
    """Return the files that an agent leaves at HEAD, except those in which the harness notes times."""
    listed = calc.git("ls-tree", "-r", "HEAD").splitlines()
    rows = (line.split("\t", 1) for line in listed)
    return {path: row for row, path in rows if path not in ("features.json", "claude-progress.txt")}


@pytest.mark.exhaustive
def test_a_recorded_session_plays_again_in_a_copy_of_the_project(calc: CalcProject) -> None:
    again = twin(calc)
    token = "ghp_" + "a1B2" * 9
    first = turn(say(f"the key is {token}"), honest(1), feature=1)
    assert calc.run([first]).code == 0
    text = (calc.root / recording(calc, 1)).read_text()
    assert token not in text
    kinds = [json.loads(line).get("event", {}).get("type") for line in text.splitlines()]
    assert "text" in kinds and "tool_call" in kinds

    ran = again.harness("run", "--agent", f"replay:{recording(calc, 1)}")
    assert ran.code == 0, ran.text
    assert again.passing() == [1]
    assert written(again) == written(calc)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_fix_rounds_and_commits_of_the_agent_are_on_record(calc: CalcProject) -> None:
    again = twin(calc)
    wrong = write("src/calc.py", "def add(a, b):\n    return a - b\n")
    lie = turn(wrong, commit("Try a minus"), forge(1), {"claim": [1]}, feature=1)
    assert calc.run([lie, turn(honest(1), feature=1)]).code == 0
    ran = again.harness("run", "--agent", f"replay:{recording(calc, 1)}")
    assert ran.code == 0, ran.text
    assert "Fix round 1 of 3: the agent gets the output." in ran.out
    assert "Try a minus" in again.git("log", "--format=%s")
    assert written(again) == written(calc)


def work_tree(calc: CalcProject, name: str, *words: str) -> CalcProject:
    """A fresh work tree of the repository, which holds nothing that git does not have."""
    calc.git("worktree", "add", "-q", *words, str(calc.base / name), check=True)
    return CalcProject(calc.base, calc.base / name, calc.environ)


@pytest.mark.exhaustive
def test_a_recording_plays_in_a_fresh_work_tree_at_its_base(calc: CalcProject) -> None:
    """On a branch of its own, and with other settings; where the work tree has no branch, it says what to do."""
    base = calc.head
    assert calc.run([turn(honest(1), feature=1)]).code == 0
    head = json.loads((calc.root / recording(calc, 1)).read_text().splitlines()[0])
    assert head["base"] == base
    again = work_tree(calc, "again", "--detach")
    again.git("checkout", "-q", base)
    words = ("run", "--agent", f"replay:{recording(calc, 1)}")
    refused = again.harness(*words)
    assert refused.code == 4, refused.text
    assert f"HEAD is detached, and main is checked out in {calc.root}" in refused.text
    assert "git switch -c NEW_BRANCH" in refused.err
    again.git("switch", "-q", "-c", "again")
    again.put({"NOTES": "mine\n"})
    again.commit("Other settings")
    ran = again.harness(*words)
    assert ran.code == 0, ran.text
    assert again.passing() == [1]
    assert {path: row for path, row in written(again).items() if path != "NOTES"} == written(calc)


def test_a_recording_is_not_played_over_other_files_than_it_began_with(begun: Begin) -> None:
    """The refusal names the files in the way, and a work tree in which the recording fits; nothing is changed."""
    calc = begun(one_session)
    base = json.loads((calc.root / recording(calc, 1)).read_text().splitlines()[0])["base"]
    before = calc.fingerprint()
    ran = calc.harness("run", "--agent", f"replay:{recording(calc, 1)}")
    assert ran.code == 4, ran.text
    assert f"The recording began at commit {base[:12]}" in ran.text
    assert "src/calc.py" in ran.text
    assert f"git worktree add -b replay ../replay {base[:12]}" in ran.text
    assert calc.fingerprint() == before
