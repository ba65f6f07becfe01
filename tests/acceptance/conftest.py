"""The fixture project of the scenario document; what must hold after every scenario is checked as it is taken down."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .begun import Begin, Beginning, Beginnings
from .calc import CalcProject, empty, make
from .seam import SEAMS, Seam


@pytest.fixture
def seam(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Seam]:
    """Yield the seam for this test's scripts: a program, unless it is parametrised with ``each_seam``."""
    made = SEAMS[getattr(request, "param", "command")](tmp_path)
    yield made
    made.close()


@pytest.fixture
def calc(tmp_path: Path, seam: Seam) -> Iterator[CalcProject]:
    """A fresh project ``calc``; afterwards the cross-cutting assertions run, unless ``checked`` was set to False."""
    calc = make(tmp_path, os.environ, seam=seam)
    yield calc
    if calc.checked:
        calc.cross_cutting()


@pytest.fixture(scope="session")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Beginnings:
    """Return the projects that scenarios start with. The first test that needs one creates it."""
    return Beginnings(tmp_path_factory.mktemp("beginnings"))


@pytest.fixture
def begun(beginnings: Beginnings) -> Iterator[Begin]:
    """A project after the given beginning, checked as it is taken down like ``calc``; a test has one."""
    made: list[CalcProject] = []

    def begin(beginning: Beginning) -> CalcProject:
        assert not made, "it would stand where the first one is"
        made.append(beginnings.begun(beginning))
        return made[0]

    yield begin
    for calc in made:
        if calc.checked:
            calc.cross_cutting()


@pytest.fixture
def bare(tmp_path: Path, seam: Seam) -> CalcProject:
    """An empty folder and an environment; no repository, no project."""
    return empty(tmp_path, os.environ, seam=seam)


BY_DEFAULT = {
    *("test_s01_init", "test_s02_honest", "test_s03_liar", "test_s06_regression", "test_s11_killed"),
    *("test_s17_git_state", "test_s19_budget", "test_s22_migration", "test_bad_input", "test_doctor"),
    *("test_examples", "test_fixture", "test_looking"),
}
"""Files of which one test runs by default: the promise in short. The parts of the others are tested below as well."""

APART = {"scenario", "slow", "client"}
"""Marks of tests that do not run by default."""

BY_BOTH_SEAMS = {"test_s02_honest", "test_s12_context", "test_s20_stuck", "test_api_agent"}
"""Files about what a seam does otherwise: steering and calls. Elsewhere the second seam goes the same way.

What an API refuses is in ``tests/agents/test_api.py``, where each kind of refusal is heard from a server.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A scenario runs whole sessions, each with several runs of pytest; a busy machine may take its time.

    Of some files the first test runs by default, and of its variants the first one; CI runs the others as well, under
    their own target. Which ones these are does not depend on what else was asked for.
    """
    for item in items:
        if item.path.parent != Path(__file__).parent or not isinstance(item, pytest.Function):
            continue
        if item.path.stem == "test_simulation":  # small, but for what is marked as slow
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
        if not any(item.get_closest_marker(name) for name in APART) and not runs_by_default(item):
            item.add_marker(pytest.mark.scenario)
        variant = getattr(item, "callspec", None)
        if variant and variant.params.get("seam") == "api" and item.path.stem not in BY_BOTH_SEAMS:
            item.add_marker(pytest.mark.exhaustive)


def runs_by_default(item: pytest.Function) -> bool:
    """Return True for the first variant of the first test of a file that has one by default."""
    tests = [found for name, found in vars(item.module).items() if name.startswith("test_")]
    first = next((f for f in tests if not APART & {mark.name for mark in getattr(f, "pytestmark", [])}), None)
    variant = getattr(item, "callspec", None)
    is_first = item.function is first and not any(variant.indices.values() if variant else ())
    return is_first and item.path.stem in BY_DEFAULT
