"""A plain shell command as proof: judged on a candidate commit, with a guard, and asked of the code before.

* ``judge_command`` is the front door; ``CommandCheck`` goes in, ``CommandVerdict`` comes out.
* ``named_by`` says which files a command names or loads; ``findings_on`` what a candidate changes of them.
* ``judge_folder`` does what can be done in a folder without git; ``keep`` remembers such a folder before the work.
* ``around`` and ``InstalledRecord`` say what is installed where a command runs tests, and what of it has changed;
  ``starts_python`` whether an interpreter of it has a part in it.
* ``lendable`` says what of the ignored environment a checkout gets.
"""

from agent_harness.verification.command.judge import (
    FAST,
    GREEN,
    NORMAL,
    NOT_RUN,
    OFF,
    RED,
    REJECT,
    STRICT,
    TELL,
    CommandCheck,
    CommandVerdict,
    KeptFiles,
    Remembered,
    examine_command,
    examine_tests,
    judge_command,
    judge_folder,
    keep,
    run_at,
    run_in_place,
)
from agent_harness.verification.command.surroundings import (
    Differences,
    FirstLook,
    InstalledRecord,
    around,
    lent_by,
    released,
    starts_python,
)

__all__ = [
    "FAST",
    "Differences",
    "FirstLook",
    "GREEN",
    "InstalledRecord",
    "NORMAL",
    "NOT_RUN",
    "OFF",
    "RED",
    "REJECT",
    "STRICT",
    "TELL",
    "around",
    "CommandCheck",
    "CommandVerdict",
    "KeptFiles",
    "Remembered",
    "examine_command",
    "examine_tests",
    "judge_command",
    "judge_folder",
    "keep",
    "lent_by",
    "released",
    "run_at",
    "run_in_place",
    "starts_python",
]
