"""The fixture project of the scenario document; what must hold after every scenario is checked as it is taken down."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .world import World, empty, make


@pytest.fixture
def calc(tmp_path: Path) -> Iterator[World]:
    """A fresh project ``calc``; afterwards the cross-cutting assertions run, unless ``checked`` was set to False."""
    world = make(tmp_path, os.environ)
    yield world
    if world.checked:
        world.cross_cutting()


@pytest.fixture
def bare(tmp_path: Path) -> World:
    """An empty folder and an environment; no repository, no project."""
    return empty(tmp_path, os.environ)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A scenario runs whole sessions, each with several runs of pytest; a busy machine may take its time."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
