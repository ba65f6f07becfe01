"""Any shell command as proof: the files that it names or loads, what a candidate changes of them, and its runs.

* ``named_by`` says which files a command names or loads; ``bent`` what a candidate changes of them.
* ``CommandRunner`` runs it; ``CommandCheck`` says how strictly it is judged.
* ``around`` and ``InstalledRecord`` say what is installed where a command runs tests, and what of it has changed;
  ``starts_python`` whether an interpreter of it has a part in it.
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
