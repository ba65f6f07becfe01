"""Fixtures: a small real project in a real repository."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from .sample import FILES, JudgedProject

JUDGED = {
    "test_command",
    "test_installed",
    "test_judge",
    "test_replay",
    "test_running",
    "test_mutants",
    "test_other_runners",
    "test_checkout",
}
"""Files whose tests judge whole commits."""
_VARIANTS = 2  # of one test, that run by default


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of tests that judge whole commits, variants beyond the first ones run where scenarios do, as in CI."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem in JUDGED and isinstance(item, pytest.Function):
            variant = getattr(item, "callspec", None)
            if variant and any(index >= _VARIANTS for index in variant.indices.values()):
                item.add_marker(pytest.mark.scenario)


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., JudgedProject]:
    """Makes a repository with these files, committed."""

    def make(files: Mapping[str, str | bytes | None] = FILES, *, resolved: bool = True) -> JudgedProject:
        repo = JudgedProject(tmp_path / "project", files)
        if resolved:
            repo.resolve()
        return repo

    return make


@pytest.fixture
def repo(make_repo: Callable[..., JudgedProject]) -> JudgedProject:
    return make_repo()
