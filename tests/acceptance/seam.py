"""Ways to play a script. The script is a value, the file that ``script.save`` writes; a seam makes an agent of it.

A test that is parametrised with ``each_seam`` runs once for each of them: the first by default, the others in CI.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest


class Seam:
    """One way to play scripts. ``environ`` is what the harness needs in its environment to reach the agent."""

    name: str
    steers: bool  # whether a message of the harness reaches the agent while it works

    def __init__(self, base: Path) -> None:
        """``base`` is a folder outside the project for whatever the seam keeps."""
        self.base = base

    @property
    def environ(self) -> Mapping[str, str]:
        return {}

    def spec(self, script: Path) -> str:
        """The agent SPEC that plays this script from its beginning."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends what the seam has started."""


class CommandSeam(Seam):
    """The scripted agent as a program: the prompt on stdin, events on stdout, nothing more gets in."""

    name = "command"
    steers = False

    def spec(self, script: Path) -> str:
        return f"scripted:{script}"


def _api(base: Path) -> Seam:
    from .api_seam import ApiSeam

    return ApiSeam(base)


SEAMS: Mapping[str, Callable[[Path], Seam]] = {"command": CommandSeam, "api": _api}

each_seam = pytest.mark.parametrize("seam", list(SEAMS), indirect=True)
"""Marks a test, or as ``pytestmark`` a module, whose scripts every seam can play."""
