"""What a protocol offers for working its items in parallel, and the values that coordinator and workers exchange.

An *item* is a task or a feature. An *job* is one attempt at an item in a workspace, or one run of checks on a commit
that is to land; its number among the jobs of its item is its *fence*. Values travel as JSON in a folder of their own
(``orders/ID/order.json``, ``result.json``), code as git objects.
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
"""Kinds of jobs."""

ACCEPTED, PARTIAL, REJECTED, PARKED, FAILED = "accepted", "partial", "rejected", "parked", "failed"
"""How an attempt ends: proven; nothing counted; a failed attempt; a question for a person; it could not begin."""

NOT_SET_UP = "not_set_up"
"""The reason of a job that could not begin, not even in a new workspace."""

JOB, RESULT = "order.json", "result.json"
"""In the folder of a job."""

GREEN, RED, BROKEN = "green", "red", "broken"
"""How a run of checks ends; ``broken`` is the machine's fault and convicts nobody."""


@dataclass(frozen=True, kw_only=True)
class OpenItem:
    """An item that may be worked on now, as the truth file has it."""

    id: str
    name: str  # the id as one part of a file or ref name
    title: str = ""
    touches: tuple[str, ...] = ()  # what it will change, as globs, where it says so


def odd_touches(found: Mapping[str, object]) -> list[str]:
    """Of what items say that they touch, and that is no list of texts: that it is passed over."""
    odd = [
        item
        for item, said in found.items()
        if said is not None and not (isinstance(said, list) and all(isinstance(each, str) for each in said))
    ]
    return [f"{item}: touches is no list of texts, and is passed over" for item in odd]


_LISTS = ("own", "lend", "input_files", "input_folders")
_KEYS = {
    "workspace": "place",
    "executor": "hands",
    "inputs": "papers",
    "input_files": "paper_files",
    "input_folders": "paper_folders",
}
"""Keys of ``order.json`` that differ from the field's name: files on disk keep their names."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What workers are to do in one workspace."""

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
    project: str = ""  # the id of the project; none in what a version up to 1.2.1 has ordered
    lend: tuple[str, ...] = ()  # ignored paths of the project that the workspace gets copies of
    fresh: bool = False  # the workspace is made anew
    set_up: JsonObject = field(default_factory=dict)  # the command that sets it up, as ``equipment.SetUp`` has it
    inputs: JsonObject = field(default_factory=dict)  # the protocol's
    input_files: tuple[str, ...] = ()  # those of the inputs that name a file to be read
    input_folders: tuple[str, ...] = ()  # those that name a folder of the coordinator's to be written into
    allowance_usd: float | None = None  # what it may spend, where its spending cannot be followed
    elsewhere_usd: float = 0.0  # what all others have then

    @property
    def slot(self) -> str:
        """``w1``, ``v1``: the name of the workspace."""
        return self.workspace.rpartition("/")[2]

    @property
    def refs(self) -> ProjectRefs:
        """What the refs of its project are called."""
        return ProjectRefs(self.project)

    def as_record(self) -> JsonObject:
        """As ``order.json`` has it."""
        values = asdict(self) | {name: [*getattr(self, name)] for name in _LISTS}
        return {"v": 1} | {_KEYS.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_record(cls, record: JsonObject) -> "Job":
        """The same, read back; members that this version does not know are passed over."""
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
    """What of the result of an attempt is what it should be: anything else is as if it were not there."""
    found = {name: value for name, value in record.items() if isinstance(value, _RESULT.get(name, object))}
    for name, kind in _ROWS.items():
        rows = found.get(name)
        found[name] = [each for each in rows if isinstance(each, kind)] if isinstance(rows, list) else []
    return found


def job_folder(folder: str, job: str) -> str:
    """Where inputs and result of a job are, below the folder of the project's parallel runs."""
    return os.path.join(folder, "orders", job.replace("/", "."))


def result_of_job(folder: str, job: str) -> JsonObject:
    """What came of an attempt; as ``result_of`` has it."""
    return result_of(files.read_json_if_any(os.path.join(job_folder(folder, job), RESULT)))


@dataclass(frozen=True, kw_only=True)
class LandedItem:
    """One member of a batch, as it goes to the branch."""

    item: str
    job: str
    commit: str  # that the branch has of it
    result: JsonObject  # of its attempt


class Home(Protocol):
    """The project as the coordinator asks it. Whatever writes may be repeated without a second effect."""

    executor: str  # as ``WorkOrder.executor``
    input_files: tuple[str, ...]  # as ``WorkOrder`` has them
    input_folders: tuple[str, ...]
    own: tuple[str, ...]
    common: tuple[str, ...]  # files that every item changes
    snapshot: str | None  # where it is shown what the run does
    checks_each: bool  # whether a verdict that is there already is not enough for what lands alone
    checks_rejected: bool  # the same for what was sent back: its workspace does not know what failed
    push_target: PushTarget | None  # where landings are pushed to, as it was before any agent ran

    def items(self) -> list[OpenItem]:
        """What may be worked on now, in the protocol's own order; what waits for others is left out."""
        ...

    def stopped(self) -> tuple[int, str] | None:
        """Exit code and reason where nothing new may be begun: halted by a question, paused, a limit of its own."""
        ...

    def claim(self, jobs: Sequence[Job]) -> None:
        """Shows the items as worked on."""
        ...

    def inputs(self, item: str, fix: JsonObject | None) -> JsonObject:
        """What an attempt at the item needs in its workspace."""
        ...

    def adopt(self, held: Sequence[str]) -> None:
        """Makes these claims of a coordinator that is gone those of this one; all others of such are given back."""
        ...

    def holds(self, job: str, item: str) -> bool:
        """Whether the project still shows the item as that of the job."""
        ...

    def ended(
        self, job: str, item: str, result: JsonObject | None, rescues: Sequence[str], spent_usd: float = 0.0
    ) -> None:
        """Takes the books of a job home, once; ``None`` for one that is lost. What is accepted waits for landing.

        ``spent_usd`` is what it counts for in the run's budget, in US dollars: the project's record says so much of it.
        """
        ...

    def costs_more(self, job: str, item: str, spent_usd: float, more_usd: float) -> None:
        """Books what a job that is over has spent beyond what the record says of it: ``more_usd``, US dollars.

        ``spent_usd`` is all that it has spent, by which a repetition is known.
        """
        ...

    def merged(self, head: str, base: str, commit: str, item: str, *, proven: bool) -> Merged:
        """What ``commit`` changed since ``base``, on ``head``, with the project's own files as they have to be then.

        ``proven`` is false for work that is to be fixed: it counts for nothing yet.
        """
        ...

    def checks(
        self,
        base: str,
        commit: str,
        members: Sequence[str] | None,
        before: Mapping[str, str] | None = None,
        unseen: Collection[str] = (),
    ) -> list[JsonObject]:
        """What must pass on a commit that is to land on ``base``, each with a ``name``.

        Without members: on a head that nobody vouches for; ``base`` is the one before it that somebody does, or that
        head itself, where all that has landed is to prove itself once more. ``before`` are items, and their commits,
        that ``base`` holds and that have not landed yet; ``unseen`` are items that have landed and that the members
        were not proven beside, or that they broke before.
        """
        ...

    def check_inputs(self, checks: Sequence[JsonObject]) -> JsonObject:
        """What a run of these checks needs in its workspace."""
        ...

    def settle(self, landings: Sequence[LandedItem]) -> None:
        """Writes down that they have landed."""
        ...

    def refuse_joined(self, commit: str) -> None:
        """Refuses what has landed, on top of what the remote has, where that cannot be; before it is verified."""
        ...

    def joined(self, joined: Mapping[str, str], commit: str, checked: JsonObject) -> None:
        """The branch has ``commit`` now: by ``joined`` each commit has another name; ``checked`` is what it proved."""
        ...

    def note_push(self, kind: str, commit: str, message: str) -> None:
        """Writes down what became of a push: ``pushed``, ``push_failed``, ``pulled`` or ``push_given_up``."""
        ...

    def put_back(self) -> dict[str, str]:
        """Puts the project's own state back where somebody else has written it though nobody may while agents work.

        What that was, by name, and where the found one is kept; an empty text where it is not.
        """
        ...

    def note_touched(self, item: str, message: str) -> None:
        """Writes down what was changed of the project while the item was worked on, and what of it is put back."""
        ...

    def reopen(self, items: Sequence[str], why: str) -> None:
        """Takes landings back that nothing proves any more: the items are open again."""
        ...

    def broken(self, items: Sequence[str], by: str, commit: str, head: str) -> None:
        """Writes down that ``head`` does not prove what has landed: ``by`` broke it as ``commit``, and is not fixed."""
        ...

    def question(self, item: str | None, reason: str, message: str) -> None:
        """Stops the project for a person; a question that waits already stays."""
        ...

    def keep(self) -> None:
        """To be called often: renews what has a lease."""
        ...

    def heard(self, jobs: Sequence[Job]) -> dict[str, JsonObject]:
        """What the attempts under way say that they do, by item, as ``session/now.py`` has it."""
        ...

    def left(self) -> tuple[list[str], list[str], list[str]]:
        """The items that failed for good, those that are open, and those about which a person is asked."""
        ...

    def close(self, paused: str) -> None:
        """The run is over; ``paused`` says why the project is to be paused, if it is."""
        ...
