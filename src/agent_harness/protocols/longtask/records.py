"""What the files of a long task hold: views that read safely, and every problem that a check can name.

The views stand on the dictionaries that were read and that are written again, so that unknown members survive. The
tables of fields are in ``schema``. Source: ``longtask.md`` 3.
"""

from __future__ import annotations

import os

from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Record = dict[str, Any]

__all__ = [
    "DEFAULT_FALLBACK_WAIT_SECONDS",
    "DEFAULT_WINDOW",
    "WITHDRAWN",
    "Checkpoint",
    "Contract",
    "constraints",
    "criteria",
    "event_problems",
    "manifest_problems",
    "moment",
    "problems",
    "slug",
]

DEFAULT_WINDOW = 50
DEFAULT_FALLBACK_WAIT_SECONDS = 14_400
WITHDRAWN = "worker claimed done without verification"  # the reason in the event of a claim that was taken back
_SLUG = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def moment(text: object) -> datetime | None:
    """The moment a timestamp names; ``None`` for anything but RFC 3339, a date, or a date and a time.

    A date is its midnight, a time without an offset is UTC. ``longtask.md`` 2.9.
    """
    if not isinstance(text, str) or not _has_shape(text.strip()):
        return None
    from agent_harness.kernel.clock import UTC, datetime

    try:
        at = datetime.fromisoformat(text.strip().upper())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _has_shape(text: str) -> bool:
    """Whether it is written ``YYYY-MM-DD`` or ``YYYY-MM-DDTHH:MM…``; weeks and runs of digits are not."""
    if not text.isascii() or len(text) < 10 or text[4] != "-" or text[7] != "-" or "," in text:
        return False
    return len(text) == 10 or (len(text) >= 16 and text[10] in "Tt " and text[13] == ":")


def slug(text: str, otherwise: str) -> str:
    """The text as an id: lower-case letters and digits, everything else one ``-``; ``otherwise`` when none is left."""
    letters = "".join(letter if letter in _SLUG else " " for letter in text.lower())
    return "-".join(letters.split()) or otherwise


def criteria(task: Record) -> list[Record]:
    """The success criteria, each with ``id``, ``description``, ``metric`` and ``target``. ``longtask.md`` 3.1."""
    found = task.get("successCriteria")
    listed = found if isinstance(found, list) else []
    return [_criterion(each, number) for number, each in enumerate(listed, 1) if isinstance(each, (str, dict))]


def _criterion(raw: str | Record, number: int) -> Record:
    if isinstance(raw, str):
        return {"id": slug(raw, f"criterion-{number}"), "description": raw, "metric": "manual", "target": None}
    return {**raw, "metric": raw.get("metric", "manual"), "target": raw.get("target")}


def constraints(task: Record) -> list[Record]:
    """The constraints, each with ``id``, ``description``, ``type`` and ``category``. ``longtask.md`` 3.1."""
    found = task.get("constraints")
    listed = found if isinstance(found, list) else []
    return [_constraint(each, number) for number, each in enumerate(listed, 1) if isinstance(each, (str, dict))]


def _constraint(raw: str | Record, number: int) -> Record:
    if isinstance(raw, str):
        return {"id": slug(raw, f"constraint-{number}"), "description": raw, "type": "hard", "category": "scope"}
    return {**raw, "type": raw.get("type", "hard"), "category": raw.get("category", "other")}


class _View:
    """Members of one object, read safely: what is missing or of the wrong kind reads as absent."""

    __slots__ = ("raw",)

    def __init__(self, raw: Record) -> None:
        self.raw = raw

    def text(self, name: str) -> str | None:
        """A string that is not blank."""
        found = self.raw.get(name)
        return found if isinstance(found, str) and found.strip() else None

    def section(self, name: str) -> Record:
        """An object; an empty one that is not part of the record when there is none."""
        found = self.raw.get(name)
        return found if isinstance(found, dict) else {}

    def items(self, name: str) -> list[Any]:
        """A list; an empty one that is not part of the record when there is none."""
        found = self.raw.get(name)
        return found if isinstance(found, list) else []


class Contract(_View):
    """The contract."""

    __slots__ = ()

    @property
    def id(self) -> str:
        return self.text("id") or ""

    @property
    def title(self) -> str:
        return self.text("title") or ""

    @property
    def criteria(self) -> list[Record]:
        return criteria(self.raw)

    @property
    def constraints(self) -> list[Record]:
        return constraints(self.raw)

    @property
    def repo_path(self) -> str | None:
        """The trusted working copy as it is written: ``context.repoPath``, else ``context.repository``."""
        context = _View(self.section("context"))
        return context.text("repoPath") or context.text("repository")

    @property
    def preferred_worker(self) -> str | None:
        """``workerPolicy.preferred`` as it is written."""
        return _View(self.section("workerPolicy")).text("preferred")

    @property
    def window(self) -> int:
        """How many evidence items the checkpoint holds at most."""
        return schema.whole(self.section("evidencePolicy").get("checkpointWindow"), DEFAULT_WINDOW)

    @property
    def fallback_wait_seconds(self) -> int:
        """How long a rate limit without a reset time lasts."""
        found = self.section("rateLimitPolicy").get("fallbackWaitSeconds")
        return schema.whole(found, DEFAULT_FALLBACK_WAIT_SECONDS)


class Checkpoint(_View):
    """The state from which any worker resumes."""

    __slots__ = ()

    @property
    def status(self) -> str:
        return self.text("status") or ""

    @property
    def next_step(self) -> str:
        return self.text("nextStep") or ""

    @property
    def blocked_until(self) -> str | None:
        return self.text("blockedUntil")

    @property
    def blocker(self) -> Record | None:
        found = self.raw.get("blocker")
        return found if isinstance(found, dict) else None

    @property
    def evidence(self) -> list[Record]:
        """The window, oldest first."""
        return [each for each in self.items("evidence") if isinstance(each, dict)]

    @property
    def cooldowns(self) -> Record:
        return self.section("workerCooldowns")


# ---- every problem, in the words of the specification (``longtask.md`` 3.5)

_REQUIRED_TEXTS = {
    "task": ("id", "title", "domain", "objective"),
    "checkpoint": ("taskId", "nextStep", "updatedAt"),
}


def problems(task: object, checkpoint: object, layout: LongTaskLayout | None = None) -> list[str]:
    """Everything that is wrong with a task, one line each, none twice; empty when it can be worked on."""
    found = [*_task_problems(task), *_checkpoint_problems(checkpoint), *_pair_problems(task, checkpoint)]
    if layout and not os.path.isfile(layout.operating_rules):
        found.append("missing harness.md")
    return list(dict.fromkeys(found))


def event_problems(record: object) -> list[str]:
    """Why a record may not go into the log; empty when it may."""
    return schema.misfits(record, schema.RUN_EVENT, "event")


def manifest_problems(record: object) -> list[str]:
    """Why a record is no evidence manifest; empty when it is one."""
    return schema.misfits(record, schema.EVIDENCE_MANIFEST, "manifest")


def _task_problems(task: object) -> list[str]:
    found = _structure(task, schema.TASK, "task")
    if isinstance(task, dict) and not (isinstance(task.get("successCriteria"), list) and task["successCriteria"]):
        found.append("missing non-empty array: successCriteria")
    return found


def _checkpoint_problems(checkpoint: object) -> list[str]:
    found = _structure(checkpoint, schema.CHECKPOINT, "checkpoint")
    if not isinstance(checkpoint, dict):
        return found
    status, until = checkpoint.get("status"), checkpoint.get("blockedUntil")
    if "status" in checkpoint and status not in schema.STATUSES:
        found.append(f"invalid checkpoint.status: {schema.shown(status)}")
    if until not in (None, "") and moment(until) is None:
        found.append(f"invalid checkpoint.blockedUntil: {schema.shown(until)}")
    return found


def _structure(record: object, table: Record, label: str) -> list[str]:
    if not isinstance(record, dict):
        return [f"{label} must be object"]
    body = {**table, "properties": {k: v for k, v in table["properties"].items() if k != "schemaVersion"}}
    body["required"] = [name for name in table["required"] if name != "schemaVersion"]
    found = [*_version_problems(record, label), *schema.misfits(record, body, label)]
    blank = [name for name in _REQUIRED_TEXTS[label] if not _View(record).text(name)]
    return [*found, *(f"missing string: {name}" for name in blank)]


def _version_problems(record: Record, label: str) -> list[str]:
    if "schemaVersion" not in record:
        return [f"{label}.schemaVersion is required; expected 1"]
    version = record["schemaVersion"]
    if schema.is_number(version) and version == 1:
        return []
    way_out = "Add a migration before loading this task."
    return [f"unsupported {label}.schemaVersion {jsontext.line(version)}; expected 1. {way_out}"]


def _pair_problems(task: object, checkpoint: object) -> list[str]:
    if not isinstance(task, dict) or not isinstance(checkpoint, dict):
        return []
    named, own = checkpoint.get("taskId"), task.get("id")
    if not isinstance(named, str) or not isinstance(own, str) or named == own:
        return []
    return [f"checkpoint.taskId ({named}) must equal task.id ({own})"]
