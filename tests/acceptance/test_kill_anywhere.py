"""SIGKILL at any moment: the state always parses, the next run ends like one that nobody disturbed, nothing is lost.

``HARNESS_KILLS`` sets the number of kills, ``HARNESS_KILL_SEED`` the moments.
"""

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_harness.session import ledger

from .calc import CalcProject, make
from .script import claim, commit, evidence, progress, say, sleep, turn, usage, write

pytestmark = pytest.mark.kill

FEATURES = (1, 2, 3)
WORDS = {1: "add", 2: "sub", 3: "mul"}
SIGNS = {1: "+", 2: "-", 3: "*"}
KILLS_A_PROJECT = 2  # three interrupted sessions on one feature are a question for a person
KILLS = int(os.environ.get("HARNESS_KILLS", "2"))
SEED = int(os.environ.get("HARNESS_KILL_SEED", "1"))
NOTE = "a note of the person\n"


def turns() -> list[dict[str, object]]:
    """Honest work in small steps, each of which may be repeated after a crash without another result."""
    return [turn(work_of(n), times=1000, feature=n) for n in FEATURES]


def work_of(feature: int) -> list[dict[str, object]]:
    word = WORDS[feature]
    body = f"def {word}(a, b):\n    return a {SIGNS[feature]} b\n"
    test = f"import calc_{word}\n\n\ndef test_{word}_one():\n    assert calc_{word}.{word}(5, 3) == {eval_(feature)}\n"
    return [
        say(f"[CMD:RUN] work on {word}"),
        write(f"src/calc_{word}.py", body),
        sleep(0.05),
        write(f"tests/e2e/test_{word}.py", test),
        commit(f"Begin {word}"),
        sleep(0.05),
        evidence(feature),
        claim(feature),
        sleep(0.05),
        progress(f"FEATURE: #{feature}\n\nWHAT I DID:\n- {word}"),
        commit(f"Implement {word}: done"),
        usage(100, 10),
    ]


def eval_(feature: int) -> int:
    return {1: 8, 2: 2, 3: 15}[feature]


def new_project(base: Path, features: Sequence[int] = FEATURES) -> CalcProject:
    base.mkdir()
    calc = make(base, os.environ, features=features)
    calc.put({".gitignore": (calc.root / ".gitignore").read_text() + "*.local\n"})
    calc.commit("Ignore local files")
    calc.git("push", "-q")
    calc.put({"notes.txt": NOTE, "mine.local": NOTE})
    return calc


def outcome(calc: CalcProject) -> dict[str, object]:
    """Return the state that must be the same however often the harness was killed."""
    return {
        "passing": calc.passing(),
        "code": calc.git("ls-tree", "-r", "HEAD", "src", "tests"),
        "clean": calc.changes(without=("notes.txt",)),
        "remote is head": calc.remote() == calc.head,
        "baseline": sorted(calc.baseline["passing_tests"]),
        "next": {key: calc.state[key] for key in ("status", "next_prompt", "stuck_count", "termination_reason")},
    }


def nothing_left_over(calc: CalcProject) -> None:
    calc.wait_until(lambda: not calc.processes(), f"the end of {calc.processes()}", seconds=20)
    assert len(calc.git("worktree", "list").splitlines()) == 1
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "agent-harness/worktrees"
    assert not cache.exists() or not list(cache.iterdir())
    assert not [p for p in calc.root.rglob("*.tmp.*") if ".git/objects" not in str(p)]
    assert not (calc.root / ".git/index.lock").exists()
    assert (calc.root / "mine.local").read_text() == NOTE
    assert note_is_kept(calc), "the person's untracked file is lost"
    calc.git("fsck", "--no-dangling")
    every_claim_is_told_of_once(calc)


def every_claim_is_told_of_once(calc: CalcProject) -> None:
    """F-REC-1: one line that names a commit for each feature that passes, and no line twice."""
    path = calc.project.store.ledger()
    assert ledger.check(path).whole
    found = list(ledger.newest_first(path))
    assert sorted(each.item for each in found if each.accepted and each.commit) == [str(n) for n in calc.passing()]
    assert len({each.id for each in found}) == len(found)


def note_is_kept(calc: CalcProject) -> bool:
    path = calc.root / "notes.txt"
    if path.exists():
        return path.read_text() == NOTE
    commits = calc.git("rev-list", "--all", "--reflog").splitlines()
    return any(calc.git("show", f"{commit_}:notes.txt", check=False) + "\n" == NOTE for commit_ in commits)


def finish(calc: CalcProject) -> None:
    ran = calc.harness("run", "--until-done", agent=turns(), timeout=300)
    assert ran.code == 0, ran.text


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], float]:
    """The outcome of a run that nobody kills, and its seconds."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[user]\n\tname = Test Person\n\temail = person@localhost\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
        patch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
        calc = new_project(tmp_path_factory.mktemp("undisturbed") / "world")
        begin = time.monotonic()
        finish(calc)
        seconds = time.monotonic() - begin
        nothing_left_over(calc)
        assert calc.passing() == list(FEATURES)
        return outcome(calc), seconds


def survive(tmp_path: Path, wanted: tuple[dict[str, object], float], kills: int, seed: int) -> None:
    choose = random.Random(seed)
    moments = [choose.uniform(0, wanted[1]) for _ in range(kills)]
    for number in range(0, kills, KILLS_A_PROJECT):
        calc = new_project(tmp_path / f"project-{number}")
        story = moments[number : number + KILLS_A_PROJECT]
        try:
            for moment in story:
                kill_after(calc, moment)
            finish(calc)
            nothing_left_over(calc)
            assert outcome(calc) == wanted[0]
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, project {number}, killed after {story}\n{calc.started()}") from error


def kill_after(calc: CalcProject, seconds: float) -> None:
    process = calc.start("run", "--until-done", agent=turns())
    time.sleep(seconds)
    process.kill()
    process.wait()
    calc.state_parses()
    status = calc.harness("status", after_kill=True)
    assert status.code == 0, status.text


def test_killed_at_some_moments(tmp_path: Path, undisturbed: tuple[dict[str, object], float]) -> None:
    survive(tmp_path, undisturbed, KILLS, SEED)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_killed_at_200_moments(tmp_path: Path, undisturbed: tuple[dict[str, object], float]) -> None:
    survive(tmp_path, undisturbed, 200, seed=2)
