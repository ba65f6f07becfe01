"""A fresh long task for every test."""

from pathlib import Path

import pytest

from .desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A task that loads, with one manual criterion."""
    return Desk.made(tmp_path / "demo")
