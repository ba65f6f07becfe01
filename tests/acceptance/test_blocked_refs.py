"""Refs of somebody else where the harness's private refs belong: they stay, and the run goes on beside them."""

import pytest

from .calc import CalcProject
from .script import Turn, edit_features, honest, sh, turn, usage

BLOCKERS = [
    "refs/harness",
    "refs/harness/candidates",
    "refs/harness/candidates/1/x",
    "refs/harness/checkpoints",
    "refs/harness/rolled-back",
    "refs/harness/rolled-back/1/x",
]
CHEAT = edit_features("fs[1]['description'] = 'easier'")


def good(*first: dict[str, object]) -> Turn:
    return turn(*first, honest(1), usage(1, 1))


def bad(*first: dict[str, object]) -> Turn:
    return turn(*first, honest(1), CHEAT, usage(1, 1))


def ours(calc: CalcProject, blocker: str) -> list[str]:
    found = calc.git("for-each-ref", "--format=%(refname)", "refs/").splitlines()
    return [ref for ref in found if ref.startswith("refs/harness") and ref != blocker]


@pytest.mark.kept("refs/harness/rolled-back/1/x")
@pytest.mark.parametrize("blocker", BLOCKERS)
def test_a_ref_of_a_person_stops_nothing(calc: CalcProject, blocker: str) -> None:
    calc.git("update-ref", blocker, "HEAD")
    mine = calc.head
    ran = calc.run([bad()])
    assert ran.code == 1, ran.text
    (rescue,) = [ref for ref in ours(calc, blocker) if "rolled-back" in ref]
    assert f"git show {rescue}" in ran.out
    assert "easier" in calc.git("show", f"{rescue}:features.json")
    ran = calc.run([good()])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.git("rev-parse", blocker) == mine
    assert not [ref for ref in ours(calc, blocker) if "candidates" in ref], "left behind"


@pytest.mark.exhaustive
@pytest.mark.parametrize("blocker", ["refs/harness/candidates/1/x", "refs/harness/rolled-back"])
def test_a_ref_that_the_agent_makes_in_the_session_stops_nothing(calc: CalcProject, blocker: str) -> None:
    ran = calc.run([bad(sh(f"git update-ref {blocker} HEAD"))])
    assert ran.code == 1, ran.text
    assert "rolled back" in ran.out
    assert calc.run([good()]).code == 0
    assert calc.git("rev-parse", "--verify", "-q", blocker)


@pytest.mark.exhaustive
def test_what_is_no_ref_at_all_stops_nothing(calc: CalcProject) -> None:
    """Files in the folders of git's refs, which git neither reads nor removes; locks are moved away after the turn."""
    rubbish = "mkdir -p .git/refs/harness/candidates/1 .git/refs/harness/rolled-back/1 && "
    rubbish += "echo x > .git/refs/harness/candidates/1/notes.lock && echo x > .git/refs/harness/rolled-back/1/a.lock"
    ran = calc.run([bad(sh(rubbish))])
    assert ran.code == 1, ran.text
    assert "rolled back" in ran.out
    assert calc.run([good()]).code == 0
    assert not (calc.root / ".git/refs/harness/candidates/1/notes.lock").exists()
    assert any(path.name.startswith("left.lock") for path in (calc.root / ".git/harness").iterdir())


@pytest.mark.exhaustive
def test_verify_finds_a_name_too(calc: CalcProject) -> None:
    calc.git("update-ref", "refs/harness/verify", "HEAD")
    assert calc.harness("verify", "--feature", "1").code == 1
    assert ours(calc, "refs/harness/verify") == []
