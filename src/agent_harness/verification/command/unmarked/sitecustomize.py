"""Start-up module for Python in a check that runs as in a user's terminal.
It removes the marks of the program that started the check. These marks are the name of a script of the check, the
``-c`` of a one-line program, and the module ``unittest``. The variables that load this start-up module are removed too.
The module uses only the standard library, and runs on old Python versions."""

import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_PLAIN = "main.py"


def leave() -> "Collection[str]":
    """Remove all traces of this module, and return the paths of the check's files."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if each != here]
    for name in ("PATH", "PYTHONPATH"):
        places = os.environ.pop(name, "").split(os.pathsep)
        kept = [each for each in places if each not in (here, os.path.join(here, "bin"))]
        if kept:
            os.environ[name] = os.pathsep.join(kept)
    sys.modules.pop("sitecustomize", None)
    with suppress(ImportError):
        __import__("sitecustomize")
    return os.environ.pop("CHECK_FILES", "").split(os.pathsep)


def rename(checks: "Collection[str]") -> None:
    """Replace the program's name in ``sys.argv`` if it could reveal the check."""
    started = getattr(sys, "orig_argv", sys.argv)
    name = sys.argv[0] if sys.argv else ""
    if name == "-c" or os.path.realpath(name) in checks:
        sys.argv[0] = os.path.join(os.path.dirname(name), _PLAIN)
    elif "-m" in started and "unittest" in started:
        hide_unittest()
    else:
        return
    sys.orig_argv = [started[0], _PLAIN]


def hide_unittest() -> None:
    """Hide ``unittest`` in ``sys.modules`` while the tests run."""
    import unittest

    program: Any = unittest.TestProgram
    run = program.runTests

    def run_tests(self: "unittest.TestProgram") -> None:
        found = [name for name in sys.modules if name.partition(".")[0] == "unittest"]
        hidden = {name: sys.modules.pop(name) for name in found}
        sys.argv[0] = _PLAIN
        try:
            run(self)
        finally:
            sys.modules.update(hidden)

    program.runTests = run_tests


rename(leave())
