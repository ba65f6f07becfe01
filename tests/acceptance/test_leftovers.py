"""Leftovers of a killed harness in the cache: the next command clears them away, however it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .calc import CalcProject
from .test_s06_regression import breaking

KILLED = """\
import os, signal, sys
from agent_harness.kernel.git import Git
from agent_harness.verification.checkout import make_checkout
with make_checkout(Git(sys.argv[1]), "HEAD"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def checkouts() -> list[str]:
    place = Path(os.environ["XDG_CACHE_HOME"], "agent-harness/worktrees")
    return sorted(os.listdir(place)) if place.exists() else []


@pytest.mark.exhaustive
@pytest.mark.parametrize("args", [("run",), ("verify", "--feature", "99")], ids=["run", "verify"])
def test_a_command_that_takes_no_checkout_clears_the_dead_one(calc: CalcProject, args: tuple[str, ...]) -> None:
    code = KILLED.replace('"HEAD"', repr(calc.head))
    subprocess.run([sys.executable, "-c", code, calc.root], env=calc.environ, check=False)
    assert len(checkouts()) == 1
    (calc.root / "init.sh").chmod(0o644)
    ran = calc.harness(*args, agent="command:true" if args == ("run",) else None)
    assert ran.code in (2, 4), ran.text
    assert checkouts() == []


def test_all_of_ours_goes_out_of_a_feature_project_and_its_commits_stay(calc: CalcProject) -> None:
    """The person commits the removal of the plan from git; rolled-back work stays in its ref."""
    calc.accept(1)
    rejected = calc.run(breaking(2))
    assert rejected.code == 1, rejected.text
    exclude = calc.root / ".git/info/exclude"
    assert "/.harness/" in exclude.read_text() + (calc.root / ".gitignore").read_text()
    code, head = (calc.root / "src/calc.py").read_bytes(), calc.head
    done = calc.harness("uninstall", "--yes", "--json")
    assert done.code == 0, done.text
    ours = (".harness", ".harness.yaml", "features.json", "claude-progress.txt", ".git/harness")
    assert [name for name in ours if (calc.root / name).exists()] == []
    assert ((calc.root / "src/calc.py").read_bytes(), calc.head) == (code, head)
    assert ".harness" not in exclude.read_text() + (calc.root / ".gitignore").read_text()
    assert calc.git("for-each-ref", "--format=%(refname)", "refs/harness").split() == ["refs/harness/rolled-back/2"]
    assert any(".harness.yaml" in row["what"] and row["how"] == "stays" for row in done.json["rows"])
    moved = Path(done.json["moved_to"])
    assert (moved / "project/features.json").is_file()
    assert any((moved / "state").rglob("proven.json"))
    assert calc.harness("uninstall", "--yes").code == 4
    way_back = done.err.rpartition("to restore them: ")[2]
    subprocess.run(["sh", "-c", way_back], check=True)
    assert calc.passing() == [1]
