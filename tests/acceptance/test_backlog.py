"""A backlog with every kind of agent ends with every doable item proven and no other, whichever protocol it runs under.

``HARNESS_KILL_SEED`` sets the moments at which the harness is killed.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from . import backlog_agent as agents
from .backlog import PROTOCOLS, Backlog, LongTaskBacklog, doable, proof_text

SEED = int(os.environ.get("HARNESS_KILL_SEED", "1"))
SMALL = len(agents.KINDS)
LARGE = {"task list": 100, "feature project": 40, "long tasks": 100}
"""Fewer features: each of their sessions runs the whole suite several times."""
KILLS = 20
LIARS = frozenset({"forger", "editor", "deleter", "hopeless"})  # who does something, and never what was asked for


def worked(protocol: type[Backlog], base: Path, size: int, **words: object) -> Backlog:
    """A backlog of which nothing is left to do."""
    backlog = protocol(base, size, **words)  # type: ignore[arg-type]
    backlog.work()
    return backlog


def verdicts(backlog: Backlog) -> dict[int, tuple[str, bool]]:
    """By item, who worked on it and whether it is proven."""
    proven = backlog.proven()
    return {item: (agents.kind(item), item in proven) for item in backlog.items}


def expected(size: int) -> dict[int, tuple[str, bool]]:
    """Return the kind of agent of each item, and whether the item can be done."""
    items = range(1, size + 1)
    return {item: (agents.kind(item), item in doable(items)) for item in items}


def nothing_rejected_is_left(backlog: Backlog) -> None:
    """The accepted history holds honest work alone; what was taken back is in a ref, and no process goes on."""
    repo, items = backlog.repo, backlog.items
    lies = {str(agents.trace(item)) for item in items if agents.kind(item) in LIARS}
    assert not lies & _paths(repo.git("log", "-m", "--format=", "--name-only", "HEAD"))
    assert lies <= _paths(repo.git("log", "-m", "--format=", "--name-only", "--glob=refs/harness/*"))
    for path in ("check.sh", *(str(agents.proof(item)) for item in items)):
        assert repo.git("log", "--format=%H", "HEAD", "--", path).split() == [_first(backlog)], path
    held = _paths(repo.git("ls-tree", "-r", "--name-only", "HEAD"))
    assert {str(agents.product(item)) for item in doable(items)} == {p for p in held if p.startswith("items/item_")}
    for item in items:
        assert repo.read(str(agents.proof(item))).decode() == proof_text(item)
    assert {line[3:] for line in repo.status()} <= {"claude-progress.txt"}  # the harness's own story
    assert not (repo.path / "traces").exists()
    for item in doable(items):
        assert repo.git("show", f"HEAD:{agents.product(item)}") == f"echo {item * item}"
    assert [number for item in items if (number := _litter_alive(backlog, item))] == []
    assert len(repo.git("worktree", "list").splitlines()) == 1


def _paths(listed: str) -> set[str]:
    return {*listed.splitlines()}


def _first(backlog: Backlog) -> str:
    return backlog.repo.git("rev-list", "--max-parents=0", "HEAD")


def _litter_alive(backlog: Backlog, item: int) -> int | None:
    """The process that a litterer left behind, where it still runs."""
    path = agents.litter_pid(backlog.memory, item)
    try:
        number = int(path.read_text())
        return number if psutil.Process(number).cmdline() == ["sleep", "3600"] else None
    except (FileNotFoundError, psutil.NoSuchProcess):
        return None


@pytest.mark.exhaustive
def test_the_same_agents_get_the_same_verdicts_under_every_protocol(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as together:
        backlogs = list(together.map(lambda each: worked(each, tmp_path / each.name, SMALL), PROTOCOLS))
    for backlog in backlogs:
        assert verdicts(backlog) == expected(SMALL), backlog.story()
        nothing_rejected_is_left(backlog)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_large_backlog(tmp_path: Path, protocol: type[Backlog]) -> None:
    backlog = worked(protocol, tmp_path / "b", LARGE[protocol.name])
    assert verdicts(backlog) == expected(backlog.size), backlog.story()
    nothing_rejected_is_left(backlog)


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_large_backlog_while_the_harness_is_killed_again_and_again(tmp_path: Path, protocol: type[Backlog]) -> None:
    choose = random.Random(SEED)
    longest = 3.0 if protocol is LongTaskBacklog else 8.0  # a long task is run slice by slice
    moments = iter(lambda: choose.uniform(0.1, longest), None)
    backlog = worked(protocol, tmp_path / "b", LARGE[protocol.name], attempts=3, kills=KILLS, moments=moments)
    assert backlog.killed == KILLS
    assert verdicts(backlog) == expected(backlog.size), f"seed {SEED}\n{backlog.story()}"
    nothing_rejected_is_left(backlog)
