"""Contents of a long task's files: typed views that tolerate invalid values, and a check that reports every problem.

A view wraps the dictionary that was read from the file. The same dictionary is later written to the file, so that
unknown members are kept. The field tables are in ``schema``. Source: ``longtask.md`` 3."""

from __future__ import annotations

import os

from agent_harness.kernel.json import jsontext, member, members_of, number_below, objects_in, texts
from agent_harness.protocols.longtask import schema
from agent_harness.protocols.longtask.layout import ARCHIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout


DEFAULT_WINDOW = 50
DEFAULT_FALLBACK_WAIT_SECONDS = 14_400
DEFAULT_MAX_SLICES = 100
DEFAULT_MAX_TASK_COST_USD = 100.0
FAILING = ("fail", "failed", "error", "blocked")
"""Values of an evidence item's ``status`` that mean failure. A failed item proves nothing."""

FILL_IN = "FILL IN: "
"""Prefix of a template text that a person must replace."""

VERIFIED = "claim of done verified"  # reason in the event of a proven `done`
WITHDRAWN = "worker claimed done without verification"  # reason in the event of a withdrawn claim
_SLUG = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def moment(text: object) -> datetime | None:
    """Return the date and time of a timestamp, or None for any other value."""
    if not isinstance(text, str) or not _has_shape(text.strip()):
        return None
    from agent_harness.kernel import clock

    return clock.parse(text.upper())


def _has_shape(text: str) -> bool:
    # fromisoformat() also accepts week dates, for example
    if not text.isascii() or len(text) < 10 or text[4] != "-" or text[7] != "-" or "," in text:
        return False
    return len(text) == 10 or (len(text) >= 16 and text[10] in "Tt " and text[13] == ":")


def slug(text: str, otherwise: str) -> str:
    """Return an id made of the text's letters and digits, or ``otherwise`` without any."""
    letters = "".join(letter if letter in _SLUG else " " for letter in text.lower())
    return "-".join(letters.split()) or otherwise


def filled(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _filled_or_empty(value: object) -> str:
    return filled(value) or ""


class RecordView:
    """View of a JSON object. A member with a wrong type counts as missing."""

    def __init__(self, raw: JsonObject) -> None:
        self.raw = raw

    def text(self, name: str) -> str | None:
        return filled(self.raw.get(name))

    def texts(self, name: str) -> list[str]:
        return texts(self.raw.get(name))

    def section(self, name: str) -> RecordView:
        return RecordView(members_of(self.raw.get(name)))

    def items(self, name: str) -> list[Any]:
        found = self.raw.get(name)
        return found if isinstance(found, list) else []


# ---- task.json


class Criterion:
    """Success criterion of a task."""

    def __init__(self, raw: str | JsonObject, number: int) -> None:
        plain = isinstance(raw, str)
        members: JsonObject = {"id": slug(raw, f"criterion-{number}"), "description": raw} if plain else raw
        self.id = str(members.get("id"))
        self.description = str(members.get("description"))
        self.metric = str(members.get("metric", "manual"))
        self.target: object = members.get("target")

    @property
    def command(self) -> RecordView:
        found = {"command": self.target} if isinstance(self.target, str) else self.target
        return RecordView(members_of(found))


class Constraint:
    """Constraint of a task."""

    def __init__(self, raw: str | JsonObject, number: int) -> None:
        plain = isinstance(raw, str)
        members: JsonObject = {"id": slug(raw, f"constraint-{number}"), "description": raw} if plain else raw
        self.id = str(members.get("id"))
        self.description = str(members.get("description"))
        self.type = str(members.get("type", "hard"))
        self.category = str(members.get("category", "scope" if plain else "other"))
        self.patterns = RecordView(members).texts("forbiddenCwdPatterns")


class WorkerPolicy(RecordView):
    """Member ``workerPolicy`` of ``task.json``."""

    preferred = member("preferred", filled)
    allowed = member("allowed", texts)
    fallback = member("fallbackOnRateLimit", filled)  # agent that works while the preferred agent is rate-limited
    may_change = member("mayChange", texts)  # patterns of guarded files that agents may change
    accepts_unchanged = member("unchanged", lambda found: found == "accept")  # `done` without any changed file
    needs_proof = member("requires", lambda found: found == "proven")  # the grade of every criteria command
    takes_rescue_points = member("rescuePoints", lambda found: found is not False)
    max_slices = member("maxSlices", lambda found: schema.whole(found, DEFAULT_MAX_SLICES))  # agent starts
    # costs that agents do not report are not counted
    max_task_cost_usd = member("maxTaskCostUsd", lambda found: number_below(found, 1e12) or DEFAULT_MAX_TASK_COST_USD)

    @property
    def trust(self) -> str:
        """Strictness of the test checks: ``strict``, ``normal`` or ``fast``."""
        found = os.environ.get("HARNESS_VERIFICATION__TRUST") or self.raw.get("trust")
        return found if found in ("strict", "fast") else "normal"

    def lock_ttl_seconds(self, otherwise: int) -> int:
        return int(self.raw.get("lockTtlSeconds") or otherwise)


class Contract(RecordView):
    """Content of ``task.json``."""

    id = member("id", _filled_or_empty)
    title = member("title", _filled_or_empty)
    objective = member("objective", _filled_or_empty)

    @property
    def criteria(self) -> list[Criterion]:
        listed = enumerate(self.items("successCriteria"), 1)
        return [Criterion(each, number) for number, each in listed if isinstance(each, (str, dict))]

    @property
    def constraints(self) -> list[Constraint]:
        listed = enumerate(self.items("constraints"), 1)
        return [Constraint(each, number) for number, each in listed if isinstance(each, (str, dict))]

    @property
    def policy(self) -> WorkerPolicy:
        return WorkerPolicy(self.section("workerPolicy").raw)

    @property
    def repo_path(self) -> str | None:
        context = self.section("context")
        return context.text("repoPath") or context.text("repository")

    @property
    def window(self) -> int:
        """Maximum number of evidence items in the checkpoint file. The archive takes older items."""
        return schema.whole(self.section("evidencePolicy").raw.get("checkpointWindow"), DEFAULT_WINDOW)

    @property
    def archive_path(self) -> str:
        return self.section("evidencePolicy").text("archivePath") or ARCHIVE

    @property
    def fallback_wait_seconds(self) -> int:
        """Wait in seconds after a rate limit whose end is unknown."""
        found = self.section("rateLimitPolicy").raw.get("fallbackWaitSeconds")
        return schema.whole(found, DEFAULT_FALLBACK_WAIT_SECONDS)

    @property
    def wants_handoff(self) -> bool:
        """True if the harness must write a handoff note after a rate limit."""
        return self.section("rateLimitPolicy").raw.get("allowHandoffOnRateLimit") is not False


# ---- checkpoint.json


class EvidenceItem(RecordView):
    """Evidence item of a task."""

    @property
    def identity(self) -> tuple[str, ...]:
        """Values by which two equal evidence items are recognized."""
        found = self.raw.get
        members = (
            found("type"),
            found("path"),
            found("manifestPath"),
            found("criterionId") or found("criterion"),
            found("observedAt"),
            found("summary") or found("note"),
        )
        return tuple(member if isinstance(member, str) else "" for member in members)

    @property
    def criterion(self) -> object:
        return self.raw.get("criterionId") or self.raw.get("criterion")

    def is_about(self, criterion: str) -> bool:
        named = (self.raw.get("criterionId"), self.raw.get("criterion"), self.raw.get("id"))
        return criterion in named or criterion in self.items("criteria")

    @property
    def says_failed(self) -> bool:
        status = self.raw.get("status")
        return isinstance(status, str) and status.strip().lower() in FAILING

    @property
    def proves(self) -> bool:
        code = self.raw.get("exitCode")
        failed = self.raw.get("type") == "worker-output" and code is not None and code != 0
        return not failed and not self.says_failed


class Blocker(RecordView):
    requires_human = member("requiresHuman", lambda found: found is True)


class Cooldown(RecordView):
    until = member("blockedUntil", moment)  # end of the rate limit; ``None``: the recorded time is not valid


class Checkpoint(RecordView):
    """Content of the checkpoint file, from which any agent can continue the task."""

    status = member("status", _filled_or_empty)
    next_step = member("nextStep", _filled_or_empty)
    phase = member("currentPhase", filled)
    last_step = member("lastCompletedStep", filled)
    blocked_until = member("blockedUntil", filled)
    blocker = member("blocker", lambda found: Blocker(found) if isinstance(found, dict) else None)
    evidence = member("evidence", lambda found: [EvidenceItem(each) for each in objects_in(found)])  # oldest first

    @property
    def archived_count(self) -> object:
        return self.section("evidenceArchive").raw.get("archivedCount")

    @property
    def cooldowns(self) -> dict[str, Cooldown]:
        found = self.section("workerCooldowns").raw.items()
        return {worker: Cooldown(members_of(each)) for worker, each in found}


# ---- runs/YYYY-MM-DD.jsonl


class LogEvent(RecordView):
    status = member("status", filled)
    reason = member("reason", filled)

    @property
    def type(self) -> str:
        return str(self.raw["type"])

    @property
    def at(self) -> str:
        return str(self.raw["at"])


# ---- every problem, in the words of the specification (``longtask.md`` 3.5)

_REQUIRED_TEXTS = {
    "task": ("id", "title", "domain", "objective"),
    "checkpoint": ("taskId", "nextStep", "updatedAt"),
}


def problems(task: object, checkpoint: object, layout: LongTaskLayout | None = None) -> list[str]:
    """Return one line for each problem in the task's files. No line occurs twice."""
    found = [*_task_problems(task), *_checkpoint_problems(checkpoint), *_pair_problems(task, checkpoint)]
    if layout and not os.path.isfile(layout.operating_rules):
        found.append("missing harness.md")
    return list(dict.fromkeys(found))


def unfilled(task: object) -> list[str]:
    """Return one line for each field of ``task.json`` that a person must still fill in."""
    if not isinstance(task, dict):
        return []
    found = [("objective", task.get("objective"))]
    for number, each in enumerate(RecordView(task).items("successCriteria")):
        text, member = (each.get("description"), ".description") if isinstance(each, dict) else (each, "")
        found.append((f"successCriteria[{number}]{member}", text))
    return [
        f"task.{name} is still to be filled in: {text.removeprefix(FILL_IN)}"
        for name, text in found
        if isinstance(text, str) and text.startswith(FILL_IN)
    ]


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


def _structure(record: object, table: JsonObject, label: str) -> list[str]:
    if not isinstance(record, dict):
        return [f"{label} must be object"]
    body = {**table, "properties": {k: v for k, v in table["properties"].items() if k != "schemaVersion"}}
    body["required"] = [name for name in table["required"] if name != "schemaVersion"]
    found = [*_version_problems(record, label), *schema.misfits(record, body, label)]
    blank = [name for name in _REQUIRED_TEXTS[label] if not RecordView(record).text(name)]
    return [*found, *(f"missing string: {name}" for name in blank)]


def _version_problems(record: JsonObject, label: str) -> list[str]:
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
