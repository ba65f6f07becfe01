"""A fresh long task for every test."""

from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject


@pytest.fixture
def project(tmp_path: Path) -> LongTaskProject:
    """A task that loads, with one manual criterion."""
    return LongTaskProject.made(tmp_path / "demo")
