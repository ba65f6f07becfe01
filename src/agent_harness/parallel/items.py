"""Interface that a protocol implements for parallel work on its items, and the values that coordinator and workers
exchange.

An *item* is a task or a feature. A *job* is one attempt at an item in a workspace, or one run of checks on a commit
before its merge. A job's *fence* is its number among the jobs of its item. Coordinator and workers exchange values as
JSON files (``orders/ID/order.json``, ``result.json``) and code as git objects.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from agent_harness.kernel import files
from agent_harness.kernel.git.joining import Merged, PushTarget
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.merge_queue.refs import ProjectRefs

ATTEMPT, VERIFY = "attempt", "verify"
"""Kinds of jobs: an attempt at an item, and a run of checks."""

ACCEPTED, PARTIAL, REJECTED, PARKED, FAILED = "accepted", "partial", "rejected", "parked", "failed"
"""Results of an attempt: proven; not counted as an attempt; failed; waits for the user's answer; unable to start."""

NOT_SET_UP = "not_set_up"
"""Reason recorded for a job that could not start, even in a new workspace."""

JOB, RESULT = "order.json", "result.json"
"""Names of the files in a job's folder."""

GREEN, RED, BROKEN = "green", "red", "broken"
"""Results of a run of checks: passed, failed, and broken. ``broken`` means that the machine is at fault, not a
change.
"""


@dataclass(frozen=True, kw_only=True)
class OpenItem:
    """Item of the project that an agent may start now."""

    id: str
    name: str  # the id as one part of a file or ref name
    title: str = ""
    touches: tuple[str, ...] = ()  # declared changes, as globs


def odd_touches(found: Mapping[str, object]) -> list[str]:
    """Return a message for each item whose ``touches`` is not a list of strings."""
    odd = [
        item
        for item, said in found.items()
        if said is not None and not (isinstance(said, list) and all(isinstance(each, str) for each in said))
    ]
    return [f"{item}: touches must be a list of strings; it is ignored" for item in odd]


_LISTS = ("own", "lend", "input_files", "input_folders")
_KEYS = {
    "workspace": "place",
    "executor": "hands",
    "inputs": "papers",
    "input_files": "paper_files",
    "input_folders": "paper_folders",
}
"""Keys of ``order.json`` that differ from the names of the fields. Files on disk keep the keys of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class Job:
    id: str  # RUN/ITEM/FENCE
    kind: str
    item: str
    name: str
    fence: int
    workspace: str  # the folder
    home: str  # the top of the project's work tree
    base: str  # the commit that the workspace begins at
    branch: str  # the full name that its HEAD has
    executor: str  # the function that executes it, as a key of ``worker_process.EXECUTORS`` or ``module:name``
    own: tuple[str, ...]  # patterns of the harness's own files, relative to the top
    project: str = ""  # the id of the project; empty in jobs of versions up to 1.2.1
    lend: tuple[str, ...] = ()  # ignored paths of the project that the workspace gets copies of
    fresh: bool = False  # create the workspace anew
    set_up: JsonObject = field(default_factory=dict)  # the command that sets it up, as ``equipment.SetUp`` has it
    inputs: JsonObject = field(default_factory=dict)  # the protocol's
    input_files: tuple[str, ...] = ()  # those of the inputs that name a file to be read
    input_folders: tuple[str, ...] = ()  # those that name a folder of the coordinator's to be written into
    allowance_usd: float | None = None  # its allowance, if its spending cannot be followed
    elsewhere_usd: float = 0.0  # what all others have then

    @property
    def slot(self) -> str:
        """Name of the job's workspace, such as ``w1`` (for an attempt) or ``v1`` (for checks)."""
        return self.workspace.rpartition("/")[2]

    @property
    def refs(self) -> ProjectRefs:
        return ProjectRefs(self.project)

    def as_record(self) -> JsonObject:
        values = asdict(self) | {name: [*getattr(self, name)] for name in _LISTS}
        return {"v": 1} | {_KEYS.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_record(cls, record: JsonObject) -> "Job":
        keys = {name: _KEYS.get(name, name) for name in cls.__dataclass_fields__}
        known: dict[str, Any] = {name: record[key] for name, key in keys.items() if key in record}
        known |= {name: tuple(known[name]) for name in _LISTS if name in known}
        return cls(**known)


_RESULT: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("id", "status", "commit", "reason", "message", "subject", "sessions"), str),
    **dict.fromkeys(("cost_usd", "exit_code"), (int, float)),
}
_ROWS: dict[str, type] = {"costs": dict, "verdicts": dict, "rescues": str, "output": str}


def result_of(record: JsonObject) -> JsonObject:
    """Return the members of an attempt's result that have valid values."""
    found = {name: value for name, value in record.items() if isinstance(value, _RESULT.get(name, object))}
    for name, kind in _ROWS.items():
        rows = found.get(name)
        found[name] = [each for each in rows if isinstance(each, kind)] if isinstance(rows, list) else []
    return found


def job_folder(folder: str, job: str) -> str:
    return os.path.join(folder, "orders", job.replace("/", "."))


def result_of_job(folder: str, job: str) -> JsonObject:
    """Return the valid members of the result that a job's attempt wrote."""
    return result_of(files.read_json_if_any(os.path.join(job_folder(folder, job), RESULT)))


@dataclass(frozen=True, kw_only=True)
class LandedItem:
    item: str
    job: str
    commit: str  # that the branch has of it
    result: JsonObject  # of its attempt


class ProjectPort(Protocol):
    """Interface of a project for the coordinator. Repeated writes have no further effect."""

    executor: str  # as ``Job.executor``
    input_files: tuple[str, ...]  # as ``Job`` has them
    input_folders: tuple[str, ...]
    own: tuple[str, ...]
    common: tuple[str, ...]  # files that every item changes
    snapshot: str | None  # path of the snapshot of the run
    checks_each: bool  # whether a verdict that is there already is not enough for what lands alone
    checks_rejected: bool  # the same for rejected work: its workspace lacks the failing checks
    push_target: PushTarget | None  # where landings are pushed to, as it was before any agent ran

    def items(self) -> list[OpenItem]:
        """Return the items that agents may start now, in the protocol's order."""
        ...

    def stopped(self) -> tuple[int, str] | None:
        """Return the exit code and the reason if no new job may start, otherwise None."""
        ...

    def claim(self, jobs: Sequence[Job]) -> None: ...

    def inputs(self, item: str, fix: JsonObject | None) -> JsonObject: ...

    def adopt(self, held: Sequence[str]) -> None:
        """Keep the items of the jobs in ``held``. Release the other items of the dead coordinator."""
        ...

    def holds(self, job: str, item: str) -> bool:
        """Return True if the project still assigns the item to the job."""
        ...

    def ended(
        self, job: str, item: str, result: JsonObject | None, rescues: Sequence[str], spent_usd: float = 0.0
    ) -> None:
        """Record the end of a job. ``result`` is None if the job was lost."""
        # spent_usd: the part of the cost that counts toward the run's budget
        ...

    def costs_more(self, job: str, item: str, spent_usd: float, more_usd: float) -> None:
        """Record that a finished job cost ``more_usd`` more, and ``spent_usd`` in total."""
        # a total that is already recorded changes nothing
        ...

    def merged(self, head: str, base: str, commit: str, item: str, *, proven: bool) -> Merged:
        """Merge the changes between ``base`` and ``commit`` into ``head``."""
        # proven is False for work that must still be fixed
        ...

    def checks(
        self,
        base: str,
        commit: str,
        members: Sequence[str] | None,
        before: Mapping[str, str] | None = None,
        unseen: Collection[str] = (),
    ) -> list[JsonObject]:
        """Return the checks that must pass on ``commit`` before its merge."""
        # base: the commit on which the batch of `members` builds; if `members` is None, the last trusted head
        # before: the commits of items in `base` that are not merged yet
        # unseen: items merged after the members' attempts began, or broken by the members before
        ...

    def check_inputs(self, checks: Sequence[JsonObject]) -> JsonObject: ...

    def finalize(self, landings: Sequence[LandedItem]) -> None: ...

    def refuse_joined(self, commit: str) -> None:
        """Raise an error if the project's files are invalid in the rebased ``commit``."""
        ...

    def joined(self, joined: Mapping[str, str], commit: str, checked: JsonObject) -> None:
        """Record that the branch is at ``commit`` after a rebase."""
        # joined: new commit ids by old ids; checked: the result of the checks
        ...

    def note_push(self, kind: str, commit: str, message: str) -> None: ...

    def put_back(self) -> dict[str, str]:
        """Restore state files that other programs changed. Return the path of each replaced version, by file name."""
        ...

    def note_touched(self, item: str, message: str) -> None:
        """Record a message about project files that changed during work on the item."""
        ...

    def reopen(self, items: Sequence[str], why: str) -> None: ...

    def broken(self, items: Sequence[str], by: str, commit: str, head: str) -> None:
        """Record that ``commit``, the merge of ``by``, broke the merged ``items``, which fail on ``head``."""
        ...

    def question(self, item: str | None, reason: str, message: str) -> None:
        """Stop the project with a question to the user, unless a question is already pending."""
        ...

    def keep(self) -> None:
        """Renew the leases of the run. The coordinator calls this regularly."""
        ...

    def heard(self, jobs: Sequence[Job]) -> dict[str, JsonObject]:
        """Return the activity of each running attempt, by item. ``session/now.py`` describes the format."""
        ...

    def left(self) -> tuple[list[str], list[str], list[str]]:
        """Return the failed items, the open items and the items with a pending question."""
        ...

    def close(self, paused: str) -> None:
        """End the run, and pause the project if ``paused`` contains a reason."""
        ...
