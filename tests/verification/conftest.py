"""Fixtures: a small real project in a real repository."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from .sample import FILES, Repo


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., Repo]:
    """Makes a repository with these files, committed."""

    def make(files: Mapping[str, str | bytes | None] = FILES, *, resolved: bool = True) -> Repo:
        repo = Repo(tmp_path / "project")
        repo.root.mkdir()
        repo.git("init", "-q")
        repo.base = repo.commit(files)
        if resolved:
            repo.resolve()
        return repo

    return make


@pytest.fixture
def repo(make_repo: Callable[..., Repo]) -> Repo:
    return make_repo()
