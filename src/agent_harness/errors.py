"""All errors that are shown to the user, as a class tree, with their exit codes.

    HarnessError                      1   the work failed
    ├── VerificationFailed            1   a test failed, or a rule about the tests was broken
    ├── UsageError                    2   the command line is wrong
    ├── PersonNeeded                  3   the user must decide
    │   ├── Escalated                 3   a question is stored and waits for an answer
    │   └── ConfigurationError        3   a setting is wrong; the message names file, key and line
    ├── Refused                       4   the command was refused before anything started
    │   ├── PreflightFailed           4   a check before the session failed
    │   ├── UnsafeTree                4   a git operation is unfinished, or no snapshot can be taken
    │   ├── ToolMissing               4   a program or an extra is not installed
    │   └── NotAProject               4   there is no project in or above this folder
    ├── Busy                          5   another process uses the project, or the project is paused
    │   ├── LockBusy                  5   the lock was not free within the timeout
    │   ├── SessionHeld               5   another session is running on the task list
    │   ├── Superseded                5   the decision was based on an older state
    │   └── LimitInForce              5   the provider of every allowed agent refuses requests for now
    ├── StateDamaged                  6   a state file cannot be parsed
    ├── NothingEligible               7   no work can be started now
    ├── NotOwner                      8   the caller does not own the claimed task
    │   └── LeaseLost                 8   the lease expired and another worker took the task
    ├── LimitReached                  9   the budget, tasks or sessions are used up
    ├── TimedOut                    124   a command exceeded its wall-clock limit
    └── Interrupted                 130   the user pressed Ctrl-C, or the process received a signal to end

An error contains one clear line, data, and the next command to type. Failed work is not an error but a recorded value
with a category (``kernel/failures.py``).
"""

__all__ = [
    "EXIT_CODES",
    "Busy",
    "ConfigurationError",
    "Escalated",
    "HarnessError",
    "Interrupted",
    "LeaseLost",
    "LimitInForce",
    "LimitReached",
    "LockBusy",
    "NotAProject",
    "NotOwner",
    "NothingEligible",
    "PersonNeeded",
    "PreflightFailed",
    "Refused",
    "StateDamaged",
    "SessionHeld",
    "Superseded",
    "TimedOut",
    "ToolMissing",
    "UnsafeTree",
    "UsageError",
    "VerificationFailed",
]


class HarnessError(Exception):
    """Base class of all errors: a ``message`` for the user, the next command (``hint``) and further ``data``."""

    exit_code: int = 1
    code: str = "failed"
    category: str | None = None  # of ``kernel/failures.py``, if the error is a failure of that kind

    def __init__(self, message: str, *, hint: str | None = None, **data: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data

    def as_json(self) -> dict[str, object]:
        """Return the JSON object that describes the error, the member ``error`` of a ``--json`` answer."""
        answer: dict[str, object] = {"code": self.code, "message": self.message, "hint": self.hint}
        if self.category:
            answer["category"] = self.category
        if self.data:
            answer["data"] = self.data
        return answer


class VerificationFailed(HarnessError):
    """The harness rejected the work, because the tests or a rule about them failed."""

    code = "verification_failed"
    category = "TEST_FAIL"


class UsageError(HarnessError):
    """The command line is wrong. The command changed nothing."""

    exit_code = 2
    code = "usage"


class PersonNeeded(HarnessError):
    """The run cannot continue until the user makes a decision."""

    exit_code = 3
    code = "person_needed"


class StartsUsedUp(PersonNeeded):
    """Agents were started for an item as often as the limit allows. Starts of agents before a crash count too."""

    code = "starts_used_up"


class Escalated(PersonNeeded):
    """A question for the user is stored in the state and waits for an answer."""

    code = "escalated"


class ConfigurationError(PersonNeeded):
    """A setting is wrong. The message names the file, the key and, if known, the line."""

    code = "configuration"
    category = "CONFIG"


class Refused(HarnessError):
    """The harness refused the command before the command changed anything on disk."""

    exit_code = 4
    code = "refused"


class PreflightFailed(Refused):
    """A check before the session failed. The harness started no agent, so the session cost nothing."""

    code = "preflight_failed"
    category = "ENV_SETUP"


class UnsafeTree(Refused):
    """A snapshot or restore of the git work tree would be unsafe. The harness did not change the work tree."""

    code = "unsafe_tree"


class ToolMissing(Refused):
    """A program, or an optional part of this package, is not installed."""

    code = "tool_missing"
    category = "ENV_SETUP"


class NotAProject(Refused):
    """There is no project in this folder or above it."""

    code = "not_a_project"


class Busy(HarnessError):
    """Another process uses the project, or the project is paused."""

    exit_code = 5
    code = "busy"


class LockBusy(Busy):
    """The command could not get a lock within the timeout. ``data`` names the holder of the lock, if known."""

    code = "lock_busy"


class Superseded(Busy):
    """The state has changed since the decision was made. The command changed nothing."""

    code = "superseded"


class SessionHeld(Busy):
    """Another session is running on the task list. This error has the same ``code`` as its parent class."""


class LimitInForce(Busy):
    """The provider of every allowed agent currently refuses requests. ``data`` contains the ``account``, and in
    ``until`` the time at which the refusal ends.
    """

    code = "rate_limited"


class NoRoom(LimitInForce):
    """The machine or the account already runs its maximum number of agents. No provider refuses requests. It is
    unknown when the next agent can start, so ``until`` in ``data`` is null.
    """

    code = "no_room"


class StateDamaged(HarnessError):
    """A state file is missing, is not UTF-8 or JSON, or has the wrong structure. The file was not changed."""

    exit_code = 6
    code = "state_damaged"


class NothingEligible(HarnessError):
    """No task or feature can be started now. The message gives the reason."""

    exit_code = 7
    code = "nothing_eligible"


class NotOwner(HarnessError):
    """The caller does not own the claimed task. The command changed nothing."""

    exit_code = 8
    code = "not_owner"


class LeaseLost(NotOwner):
    """The lease expired and another worker took this task. The caller must stop changing the task's files."""

    code = "lease_lost"
    category = "SESSION_TIMEOUT"


class LimitReached(HarnessError):
    """A limit on the budget, the tasks or the sessions is used up."""

    exit_code = 9
    code = "limit_reached"


class TimedOut(HarnessError):
    """A command exceeded its time limit. The harness killed the command and its child processes."""

    exit_code = 124
    code = "timed_out"
    category = "TIMEOUT"


class Interrupted(HarnessError):
    """The user pressed Ctrl-C, or the process received a signal to end. The harness saved the running work."""

    exit_code = 130
    code = "interrupted"


EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "done, saved cleanly, or nothing to report"),
    (1, "the work failed: verification failed, session rejected, validation failed"),
    (2, "the command line is wrong"),
    (3, "a person must decide: open question, halt or configuration error"),
    (4, "refused before the start: failed preflight check, missing environment or unsafe work tree"),
    (5, "busy, paused or handed off to a person"),
    (6, "a state file is damaged"),
    (7, "no work can be started now"),
    (8, "the caller does not own the task, or lost the lease of the task"),
    (9, "a limit was reached: budget, tasks or sessions"),
    (124, "a command exceeded its time limit"),
    (130, "interrupted by Ctrl-C or a signal"),
)
