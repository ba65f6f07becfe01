"""What a killed harness left in the cache is cleared away by the next command, whatever that comes to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .world import World

KILLED = """\
import os, signal, sys
from agent_harness.kernel.git import Git
from agent_harness.verification.workspace import workspace
with workspace(Git(sys.argv[1]), "HEAD"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def checkouts() -> list[str]:
    place = Path(os.environ["XDG_CACHE_HOME"], "agent-harness/worktrees")
    return sorted(os.listdir(place)) if place.exists() else []


@pytest.mark.parametrize("args", [("run",), ("verify", "--feature", "99")], ids=["run", "verify"])
def test_a_command_that_takes_no_checkout_clears_the_dead_one(calc: World, args: tuple[str, ...]) -> None:
    code = KILLED.replace('"HEAD"', repr(calc.head))
    subprocess.run([sys.executable, "-c", code, calc.root], env=calc.environ, check=False)
    assert len(checkouts()) == 1
    (calc.root / "init.sh").chmod(0o644)
    ran = calc.harness(*args, agent="command:true" if args == ("run",) else None)
    assert ran.code in (2, 4), ran.text
    assert checkouts() == []
