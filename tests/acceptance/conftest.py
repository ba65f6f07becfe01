"""The fixture project of the scenario document; what must hold after every scenario is checked as it is taken down."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .seam import SEAMS, Seam
from .world import World, empty, make


@pytest.fixture
def seam(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Seam]:
    """How this test's scripts are played: as a program, unless it is parametrised with ``each_seam``."""
    made = SEAMS[getattr(request, "param", "command")](tmp_path)
    yield made
    made.close()


@pytest.fixture
def calc(tmp_path: Path, seam: Seam) -> Iterator[World]:
    """A fresh project ``calc``; afterwards the cross-cutting assertions run, unless ``checked`` was set to False."""
    world = make(tmp_path, os.environ, seam=seam)
    yield world
    if world.checked:
        world.cross_cutting()


@pytest.fixture
def bare(tmp_path: Path, seam: Seam) -> World:
    """An empty folder and an environment; no repository, no project."""
    return empty(tmp_path, os.environ, seam=seam)


FIRST_VARIANTS = 1
FURTHER = ("test_blocked_refs", "test_books", "test_github_mirror")  # their rules are tested below as well
CHEAP = ("test_bad_input",)  # files whose tests start no session that works


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A scenario runs whole sessions, each with several runs of pytest; a busy machine may take its time.

    Of a scenario with many variants the first runs by default; CI runs the others as well, under their own target.
    """
    seen: dict[str, int] = {}
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
        name = item.nodeid.partition("[")[0]
        seen[name] = seen.get(name, 0) + 1
        is_further = seen[name] > FIRST_VARIANTS and item.path.stem not in CHEAP
        if is_further or item.path.stem in FURTHER:
            item.add_marker(pytest.mark.scenario)
