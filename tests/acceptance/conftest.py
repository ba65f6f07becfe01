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


FURTHER = ("test_blocked_refs", "test_books", "test_github_mirror", "test_kill_anywhere")
"""Files of which nothing runs by default: their rules are tested below as well, or they take long."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A scenario runs whole sessions, each with several runs of pytest; a busy machine may take its time.

    Of each file the first test runs by default; CI runs the others as well, under their own target.
    """
    seen = set(FURTHER)
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
        if any(item.get_closest_marker(name) for name in ("scenario", "slow", "client")):
            continue
        if item.path.stem in seen:
            item.add_marker(pytest.mark.scenario)
        else:
            seen.add(item.path.stem)
