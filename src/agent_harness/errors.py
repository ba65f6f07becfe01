"""Errors for people, as a tree, with their exit codes.

    HarnessError                      1   the work failed
    ├── VerificationFailed            1   the tests, or the rules around them, said no
    ├── UsageError                    2   the command line is wrong
    ├── PersonNeeded                  3   a person must decide
    │   ├── Escalated                 3   a question is stored and waits for an answer
    │   └── ConfigurationError        3   a setting is wrong; names file, key and line
    ├── Refused                       4   refused before anything started
    │   ├── PreflightFailed           4   a check before the session failed
    │   ├── UnsafeTree                4   git is in the middle of something, or cannot take a snapshot
    │   ├── ToolMissing               4   a program or an extra is not installed
    │   └── NotAProject               4   no project in or above this folder
    ├── Busy                          5   somebody else holds it, or it is paused
    │   ├── LockBusy                  5   the lock was not free in time
    │   ├── SessionHeld               5   somebody else's session is running on the list
    │   ├── Superseded                5   the decision was made on an older state
    │   └── LimitInForce              5   every allowed agent's provider refuses for now
    ├── StateDamaged                  6   a state file does not parse
    ├── NothingEligible               7   no work can be started now
    ├── NotOwner                      8   the caller does not own the claim
    │   └── LeaseLost                 8   the lease ended and somebody else took the work
    ├── LimitReached                  9   budget, tasks or sessions are used up
    ├── TimedOut                    124   a command ran into its wall-clock limit
    └── Interrupted                 130   a person pressed Ctrl-C, or the process was told to end

An error is for people: it has one clear line, data, and the next command to type. A failure of the work is a recorded
value with a category instead (``kernel/failures.py``).
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
    """Error with one clear line for a person, the next command in ``hint`` and facts in ``data``."""

    exit_code: int = 1
    code: str = "failed"
    category: str | None = None  # of ``kernel/failures.py``, if the error is a failure of that kind

    def __init__(self, message: str, *, hint: str | None = None, **data: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data

    def as_json(self) -> dict[str, object]:
        """Return the ``error`` member of a ``--json`` answer."""
        answer: dict[str, object] = {"code": self.code, "message": self.message, "hint": self.hint}
        if self.category:
            answer["category"] = self.category
        if self.data:
            answer["data"] = self.data
        return answer


class VerificationFailed(HarnessError):
    """The tests that the harness ran itself, or the rules around them, rejected the work."""

    code = "verification_failed"
    category = "TEST_FAIL"


class UsageError(HarnessError):
    """The command line is wrong; nothing was done."""

    exit_code = 2
    code = "usage"


class PersonNeeded(HarnessError):
    """Only a person can decide this."""

    exit_code = 3
    code = "person_needed"


class StartsUsedUp(PersonNeeded):
    """One item has used its allowed starts of an agent; no crash or recovery gives a start back."""

    code = "starts_used_up"


class Escalated(PersonNeeded):
    """A question is stored in the state and waits for an answer."""

    code = "escalated"


class ConfigurationError(PersonNeeded):
    """A setting is wrong; the message names file, key and, where known, line."""

    code = "configuration"
    category = "CONFIG"


class Refused(HarnessError):
    """Refused before anything started; the disk is unchanged."""

    exit_code = 4
    code = "refused"


class PreflightFailed(Refused):
    """A check before the session failed; no agent was started and nothing was spent."""

    code = "preflight_failed"
    category = "ENV_SETUP"


class UnsafeTree(Refused):
    """The git work tree cannot be snapshotted or restored without risk; it was left alone."""

    code = "unsafe_tree"


class ToolMissing(Refused):
    """A program, or an optional part of this package, is not installed."""

    code = "tool_missing"
    category = "ENV_SETUP"


class NotAProject(Refused):
    """There is no project in this folder or above it."""

    code = "not_a_project"


class Busy(HarnessError):
    """Somebody else holds it, or it is paused."""

    exit_code = 5
    code = "busy"


class LockBusy(Busy):
    """The lock was not free within the timeout; ``data`` names the holder if it is known."""

    code = "lock_busy"


class Superseded(Busy):
    """The decision was made on an older state; nothing was changed."""

    code = "superseded"


class SessionHeld(Busy):
    """Somebody else's session is running on the list; its ``code`` is that of its parent."""


class LimitInForce(Busy):
    """Every allowed agent is refused by its provider for now; ``data`` has ``account`` and the moment ``until``."""

    code = "rate_limited"


class NoRoom(LimitInForce):
    """No provider refuses, but the machine or the account has its maximum of agents; ``until`` is not known."""

    code = "no_room"


class StateDamaged(HarnessError):
    """A state file is missing, not UTF-8, not JSON or of the wrong form; it was left as it is."""

    exit_code = 6
    code = "state_damaged"


class NothingEligible(HarnessError):
    """No work can be started now; the message gives the reason."""

    exit_code = 7
    code = "nothing_eligible"


class NotOwner(HarnessError):
    """The caller does not own the claim; nothing was changed."""

    exit_code = 8
    code = "not_owner"


class LeaseLost(NotOwner):
    """Another worker took this work after the lease expired; stop touching its files."""

    code = "lease_lost"
    category = "SESSION_TIMEOUT"


class LimitReached(HarnessError):
    """A limit on budget, tasks or sessions is used up."""

    exit_code = 9
    code = "limit_reached"


class TimedOut(HarnessError):
    """A command ran into its wall-clock limit; its whole process group is gone."""

    exit_code = 124
    code = "timed_out"
    category = "TIMEOUT"


class Interrupted(HarnessError):
    """A person pressed Ctrl-C, or the process was told to end; the work was handed off cleanly."""

    exit_code = 130
    code = "interrupted"


EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "done, or handed off cleanly, or nothing to say"),
    (1, "the work failed: verification failed, session rejected, validation failed"),
    (2, "usage"),
    (3, "a person must decide: escalation, halt, configuration error"),
    (4, "refused before starting: preflight, environment, unsafe tree"),
    (5, "busy, paused or handed off to a person"),
    (6, "state damaged"),
    (7, "nothing eligible"),
    (8, "not the owner, or the lease was lost"),
    (9, "a limit was reached: budget, tasks, sessions"),
    (124, "timed out"),
    (130, "interrupted"),
)
