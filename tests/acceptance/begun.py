"""Projects with which several scenarios begin: run once in each process of tests, and copied for every test.

Every copy stands at the same place, and so each path inside it is right: the remote's address, what the harness keeps
outside of the project under the name of its folder, the programs on PATH.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from .calc import CalcProject, environment, make
from .script import honest, turn, usage
from .seam import CommandSeam

Beginning = Callable[[CalcProject], None]
Begin = Callable[[Beginning], CalcProject]


class Beginnings:
    """The projects that were made in this process, below one folder."""

    def __init__(self, base: Path) -> None:
        self._place, self._kept = base / "world", base / "kept"

    def begun(self, beginning: Beginning) -> CalcProject:
        """Return a project after ``beginning``, with nothing of the test before it."""
        home, kept = Path(os.environ["HOME"]), self._kept / f"{beginning.__module__}.{beginning.__name__}"
        if not kept.exists():
            shutil.rmtree(self._place, ignore_errors=True)
            self._place.mkdir(parents=True)
            beginning(make(self._place, os.environ, seam=CommandSeam(self._place)))
            shutil.copytree(home, kept / "home", symlinks=True)
            shutil.copytree(self._place, kept / "world", symlinks=True)
        shutil.rmtree(self._place)
        shutil.copytree(kept / "world", self._place, symlinks=True)
        shutil.copytree(kept / "home", home, symlinks=True, dirs_exist_ok=True)
        environ = environment(self._place, os.environ)
        return CalcProject(self._place, self._place / "calc", environ, seam=CommandSeam(self._place))


def one_session(calc: CalcProject) -> None:
    """The first feature is done, by an honest session."""
    ran = calc.run([turn(honest(1), usage(10, 5), feature=1)])
    assert ran.code == 0, ran.text
