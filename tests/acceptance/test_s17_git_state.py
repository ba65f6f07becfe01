"""S17: the repository as a person left it: changes, a detached HEAD, no remote, no commit, somebody else's push."""

import pytest

from .arranging import by_a_colleague, refused, with_settings
from .calc import CalcProject
from .script import honest, turn

EDIT = '"""A calculator."""\n\nMINE = 1\n'


def dirty(calc: CalcProject) -> None:
    """An edit and an untracked file of a person."""
    calc.put({"src/calc.py": EDIT, "mine.txt": "of the person\n"})


def test_a_changes_of_a_person_are_stashed_under_a_name(calc: CalcProject) -> None:
    """UAH-269 UAH-381 C26 S17: untracked files included; never popped, and how to get them back is said."""
    dirty(calc)
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "git stash pop" in ran.out
    (entry,) = calc.git("stash", "list").splitlines()
    assert "harness session 1" in entry
    assert calc.git("show", "stash@{0}:src/calc.py") == EDIT.rstrip("\n")
    assert calc.git("show", "stash@{0}^3:mine.txt") == "of the person"
    assert calc.passing() == [1]
    assert "MINE" not in (calc.root / "src/calc.py").read_text()


@pytest.mark.scenario
def test_b_or_the_run_is_refused(calc: CalcProject) -> None:
    """UAH-269 UAH-381 C26 S17: `git.on_dirty: abort` leaves everything as it is."""
    with_settings(calc, "git:\n  on_dirty: abort\n")
    dirty(calc)
    refused(calc, "The work tree is not clean", "mine.txt")
    assert calc.git("stash", "list") == ""
    assert (calc.root / "src/calc.py").read_text() == EDIT


@pytest.mark.scenario
def test_c_a_detached_head_that_strands_nothing_is_left(calc: CalcProject) -> None:
    """UAH-382 C25 S17: at the tip of main."""
    calc.git("checkout", "-q", "--detach")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "Warning: HEAD was detached; switched to main." in ran.out
    assert calc.git("branch", "--show-current") == "main"
    assert calc.remote() == calc.head


@pytest.mark.scenario
def test_d_a_detached_head_with_commits_of_its_own_is_refused(calc: CalcProject) -> None:
    """UAH-269 UAH-382 C25 S17: with the commands that keep them."""
    calc.git("checkout", "-q", "--detach")
    calc.put({"mine.txt": "of the person\n"})
    calc.commit("On no branch")
    refused(calc, "HEAD is detached", "git branch", "git switch main")
    assert calc.git("branch", "--show-current") == ""


@pytest.mark.scenario
def test_d_a_detached_head_with_changes_is_refused(calc: CalcProject) -> None:
    """UAH-269 UAH-382 C25 S17: switching could carry them to another branch."""
    calc.git("checkout", "-q", "--detach")
    dirty(calc)
    refused(calc, "HEAD is detached", "git switch main")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_e_without_a_remote_nothing_is_pushed(calc: CalcProject) -> None:
    """UAH-308 C04 S17."""
    calc.git("remote", "remove", "origin")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "push" not in ran.text.lower()
    assert calc.passing() == [1]
    assert not calc.events("push_failed")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_e_without_an_upstream_nothing_is_pushed(calc: CalcProject) -> None:
    """UAH-308 C04 S17: a remote alone is no wish."""
    calc.git("branch", "--unset-upstream")
    before = calc.remote()
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert calc.remote() == before


@pytest.mark.scenario
def test_a_branch_without_a_commit_is_refused(calc: CalcProject) -> None:
    """UAH-269 S17: an unborn branch has nothing to go back to."""
    calc.checked = False
    calc.git("switch", "-q", "--orphan", "fresh")
    calc.git("checkout", "-q", "main", "--", ".")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 4, ran.text
    assert "no commit yet" in ran.err
    assert not calc.events("agent_started")
    assert calc.git("branch", "--show-current") == "fresh"


# -- f: somebody else has pushed meanwhile -----------------------------------------------------------------------------

WIKI = {"docs/wiki.md": "Of a colleague.\n"}


def test_f_a_rejected_push_is_pulled_once_proven_again_and_pushed(calc: CalcProject) -> None:
    """UAH-308 UAH-380 C30 S17: their commit lies below ours, and the suite has run on the two together."""
    theirs = by_a_colleague(calc, WIKI)
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "checking for regressions after the pull... PASSED: 2 of 2 known tests still pass" in ran.out
    assert (calc.passing(), calc.remote()) == ([1], calc.head)
    assert calc.git("merge-base", theirs, "HEAD") == theirs
    assert calc.git("rev-list", "--merges", f"{theirs}..HEAD") == ""
    assert (calc.root / "docs/wiki.md").read_text() == WIKI["docs/wiki.md"]
    assert calc.changes() == []
    assert [row["base"] for row in calc.events("pulled")] == [theirs]
    assert calc.git("log", "-1", "--format=%an %s").startswith("Test Person Implement add")
    second = calc.run([turn(honest(2))])
    assert second.code == 0, second.text
    assert "marked as passing without a proof" not in second.out
    assert (calc.passing(), calc.remote()) == ([1, 2], calc.head)


@pytest.mark.kept("conflict", "no report")
@pytest.mark.scenario
@pytest.mark.parametrize("clash", ["conflict", "no report", "regression"])
def test_f_what_does_not_go_together_pauses_with_the_commit_kept(calc: CalcProject, clash: str) -> None:
    """UAH-379 UAH-380 C30 S17: nothing is forced and nothing lost; the person pulls, and the run goes on."""
    files = {"src/calc.py": '"""Another calculator."""\n\n\ndef neg(a):\n    return -a\n'}
    if clash != "conflict":
        assertion = "assert 'def add' not in pathlib.Path('src/calc.py').read_text()\n"
        hook = "def pytest_runtest_setup(item):\n    " if clash == "regression" else ""
        files = {"conftest.py": f"import pathlib\n\n\n{hook}{assertion}"}
    theirs = by_a_colleague(calc, files)
    ran = calc.run([turn(honest(1)), turn(honest(2))], "--until-done")
    assert ran.code == 5, ran.text
    assert "harness resume" in ran.out
    assert calc.remote() == theirs
    assert calc.passing() == [1]
    assert calc.changes() == []
    assert "def add" in calc.git("show", "HEAD:src/calc.py")
    assert not calc.git("status").count("in progress")
    assert calc.run([turn(honest(2))]).code == 5, "paused until somebody has looked"
    assert calc.harness("status", "--json").json["paused"]["reason"].startswith("The push of")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_f_a_remote_that_refuses_whatever_comes_pauses_too(calc: CalcProject) -> None:
    """UAH-380 S17: a hook of the server says no, twice."""
    hook = calc.base / "origin.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho tried >>\"$GIT_DIR/tries\"\necho 'main is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    before = calc.remote()
    ran = calc.run([turn(honest(1))])
    assert ran.code == 5, ran.text
    assert "protected" in ran.out
    assert (calc.base / "origin.git/tries").read_text().split() == ["tried"] * 2
    assert (calc.passing(), calc.remote()) == ([1], before)
    hook.unlink()
    assert calc.harness("resume").code == 0
    assert calc.run([turn(honest(2))]).code == 0
    assert calc.remote() == calc.head


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_f_a_remote_that_is_away_costs_a_line(calc: CalcProject) -> None:
    """UAH-308 S17: no rejection; the next session pushes both."""
    moved = calc.base / "away.git"
    (calc.base / "origin.git").rename(moved)
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "Push failed: " in ran.out
    moved.rename(calc.base / "origin.git")
    assert calc.run([turn(honest(2))]).code == 0
    assert calc.remote() == calc.head


@pytest.mark.scenario
def test_f_killed_while_it_pulls_nothing_is_lost(calc: CalcProject) -> None:
    """UAH-003 UAH-380 C30 C56 S17: at whatever moment; the next session brings all of it to the remote."""
    theirs = by_a_colleague(calc, WIKI)
    process = calc.start("run", agent=[turn(honest(1))])
    calc.wait_until(lambda: "pulling once" in calc.started(), "the rejected push")
    process.kill()
    process.wait()
    ran = calc.harness("run", agent=[turn(honest(2))], after_kill=True)
    assert ran.code == 0, ran.text
    assert (calc.passing(), calc.remote()) == ([1, 2], calc.head)
    assert calc.git("merge-base", theirs, "HEAD") == theirs
    assert (calc.root / "docs/wiki.md").read_text() == WIKI["docs/wiki.md"]


HANGING = """\
#!/bin/sh
: >"$GIT_DIR/tried"
for _ in $(seq 2000); do [ -e "$GIT_DIR/go" ] && break; sleep 0.1; done
: >"$GIT_DIR/done"
exit 1
"""


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_f_killed_while_it_pushes_the_next_run_pulls_and_pushes(calc: CalcProject) -> None:
    """UAH-003 UAH-380 C30 C56 S17: the settlement is carried out again, and its push is rejected then."""
    remote = calc.base / "origin.git"
    hook = remote / "hooks/pre-receive"
    hook.write_text(HANGING)
    hook.chmod(0o755)
    process = calc.start("run", agent=[turn(honest(1))])
    calc.wait_until((remote / "tried").exists, "the push")
    process.kill()
    process.wait()
    (remote / "go").touch()
    calc.wait_until((remote / "done").exists, "the end of the hook")
    hook.unlink()
    theirs = by_a_colleague(calc, WIKI)
    ran = calc.harness("run", agent=[turn(honest(2))], after_kill=True)
    assert ran.code == 0, ran.text
    assert "pulling once" in ran.out
    assert (calc.passing(), calc.remote()) == ([1, 2], calc.head)
    assert calc.git("merge-base", theirs, "HEAD") == theirs
