"""Fixtures: a small real project in a real repository."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from .sample import FILES, JudgedProject


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
