"""Verification by any shell command: the files that the command uses, their changes in a candidate, and the runs.

* ``named_by`` finds the files that a command mentions or loads; ``bent`` judges a candidate's changes to these files.
* ``CommandRunner`` runs the command; ``CommandCheck`` says how strictly the result is judged.
* ``around`` and ``InstalledRecord`` list the installed packages that a command may use, and changes to the packages.
* ``starts_python`` returns True if a command may start a Python interpreter.
"""

from agent_harness.verification.command.environment_inventory import (
    Differences,
    FirstLook,
    InstalledRecord,
    around,
    linked_by,
    released,
    starts_python,
)

__all__ = ["Differences", "FirstLook", "InstalledRecord", "around", "linked_by", "released", "starts_python"]
