"""The wheel, and the wheels of all that it needs, from which installers take them."""

import sys
from pathlib import Path

import pytest

from . import fresh

sys.path += [str(fresh.ROOT / "scripts"), str(fresh.ROOT / "tests")]  # the runner of workflows: `gate`
import package


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the project; skips where its needs cannot be fetched for want of a registry."""
    try:
        problem = fresh.fetched()
    except fresh.Unreachable as error:
        pytest.skip(str(error))
    if problem:
        pytest.fail(problem, pytrace=False)
    return package.built(tmp_path_factory.mktemp("wheel"))
