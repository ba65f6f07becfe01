"""Field tables of every record, as JSON Schemas. Unknown members are always allowed.

The same tables are shipped as ``schemas/*.json`` for editors and other programs. Source: ``longtask.md`` 3."""

from __future__ import annotations

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.kernel.json import JsonObject


STATUSES = ("active", "paused", "blocked", "done", "needs-human")
SOURCES = ("openclaw-provider", "codex-cli", "kimi-cli", "scheduler", "external-api", "manual")
REASONS = ("rate_limit", "auth_error", "test_failure", "missing_context", "external", "manual", "unknown")
METRICS = ("manual", "command", "output_contains", "llm_judge", "custom")
CATEGORIES = ("time", "cost", "safety", "scope", "quality", "privacy", "other")
SCHEDULERS = {"openclaw": "openclaw-cron", "none": "manual", "openclaw-cron": "openclaw-cron", "manual": "manual"}
"""Canonical names of schedulers, by accepted name."""
SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
EVIDENCE_TYPES = (
    *("test", "screenshot", "video-clip", "transcript", "benchmark", "review-note", "worker-output", "codex-session"),
    *("handoff", "artifact"),
)
EVENT_TYPES = (
    *("tick_started", "run_skipped", "needs_human", "worker_prompt_generated", "worker_started", "worker_completed"),
    *("worker_failed", "failure_classified", "rate_limited", "checkpoint_written", "progress_recorded"),
    *("evidence_recorded", "handoff_written"),
)
_WORKERS_AS_SOURCE = ("local-command", "openclaw-direct-model", "manual-review")  # other programs wrote them; 3.2

# ---- parts of the tables

_TEXT: JsonObject = {"type": "string"}
_FULL_TEXT: JsonObject = {"type": "string", "pattern": "\\S"}  # the check says "missing string" by itself
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_FLAG: JsonObject = {"type": "boolean"}
_FROM_ONE: JsonObject = {"type": "integer", "minimum": 1}
_FROM_ZERO: JsonObject = {"type": "integer", "minimum": 0}
_VERSION: JsonObject = {"const": 1}
_TEXT_OR_NULL: JsonObject = {"type": ["string", "null"]}
_NUMBER_OR_NULL: JsonObject = {"type": ["number", "null"]}
_SOURCE: JsonObject = {"type": "string", "enum": list(SOURCES)}
_SOURCE_READ: JsonObject = {"type": "string", "enum": [*SOURCES, *_WORKERS_AS_SOURCE]}


def _object(fields: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": fields, "required": list(required)}


def _one_of(*words: str) -> JsonObject:
    return {"type": "string", "enum": list(words)}


# ---- the tables

_CRITERION = _object(
    {
        "id": _TEXT,
        "description": _TEXT,
        "metric": _one_of(*METRICS),
        "target": {},
        "weight": {"type": "number", "minimum": 0},
    },
    "id",
    "description",
)
_CONSTRAINT = _object(
    {
        "id": _TEXT,
        "description": _TEXT,
        "type": _one_of("hard", "soft"),
        "category": _one_of(*CATEGORIES),
        "forbiddenCwdPatterns": _TEXTS,
    },
    "id",
    "description",
)
_CONTEXT = _object(
    {"summary": _TEXT, "files": _TEXTS, "links": _TEXTS, "notes": _TEXTS, "repoPath": _TEXT, "repository": _TEXT}
)
_SCHEDULER = _object({"type": _TEXT, "every": _TEXT, "name": _TEXT, "model": _TEXT, "timeoutSeconds": _FROM_ONE})
_WORKER_POLICY = _object(
    {
        "preferred": _TEXT,
        "allowed": _TEXTS,
        "forbiddenCwdPatterns": _TEXTS,
        "lockTtlSeconds": _FROM_ONE,
        "fallbackOnRateLimit": _TEXT,
        "maxSlices": _FROM_ONE,
    }
)
_EVIDENCE_POLICY = _object({"checkpointWindow": _FROM_ONE, "archivePath": _TEXT})
_LOCAL_WORKER = _object({"command": _TEXT, "cwd": _TEXT, "timeoutSeconds": _FROM_ONE, "forbiddenCwdPatterns": _TEXTS})
_CODEX_WORKER = _object(
    {
        "cwd": _TEXT,
        "model": _TEXT,
        "sandbox": _one_of(*SANDBOXES),
        "oss": _FLAG,
        "localProvider": _one_of("lmstudio", "ollama"),
        "timeoutSeconds": _FROM_ONE,
        "forbiddenCwdPatterns": _TEXTS,
        "sessionPath": _TEXT,
        "extraArgs": _TEXTS,
    }
)
_KIMI_WORKER = _object(
    {
        "cwd": _TEXT,
        "model": _TEXT,
        "timeoutSeconds": _FROM_ONE,
        "forbiddenCwdPatterns": _TEXTS,
        "extraArgs": _TEXTS,
    }
)
_CLAUDE_WORKER = _object({**_KIMI_WORKER["properties"], "permissionMode": _TEXT})
_RATE_LIMIT_POLICY = _object(
    {
        "sources": {"type": "array", "items": _SOURCE},
        "fallbackWaitSeconds": _FROM_ZERO,
        "allowHandoffOnRateLimit": _FLAG,
    }
)

TASK = _object(
    {
        "schemaVersion": _VERSION,
        "id": _FULL_TEXT,
        "title": _FULL_TEXT,
        "domain": _FULL_TEXT,
        "objective": _FULL_TEXT,
        "successCriteria": {"type": "array", "minItems": 1, "items": {"anyOf": [_TEXT, _CRITERION]}},
        "constraints": {"type": "array", "items": {"anyOf": [_TEXT, _CONSTRAINT]}},
        "context": _CONTEXT,
        "scheduler": _SCHEDULER,
        "workerPolicy": _WORKER_POLICY,
        "evidencePolicy": _EVIDENCE_POLICY,
        "localWorker": _LOCAL_WORKER,
        "codexWorker": _CODEX_WORKER,
        "kimiWorker": _KIMI_WORKER,
        "claudeWorker": _CLAUDE_WORKER,
        "agentWorker": _KIMI_WORKER,
        "rateLimitPolicy": _RATE_LIMIT_POLICY,
        "createdAt": _TEXT,
    },
    *("schemaVersion", "id", "title", "domain", "objective", "successCriteria"),
)

EVIDENCE_ITEM = _object(
    {
        "type": {"type": "string", "minLength": 1},
        "path": _TEXT,
        "criterionId": _TEXT,
        "criterion": _TEXT,
        "criteria": _TEXTS,
        "source": _SOURCE,
        "observedAt": _TEXT,
        "command": _TEXT,
        "exitCode": {"type": "number"},
        "status": _TEXT,
        "text": _TEXT,
        "output": _TEXT,
        "note": _TEXT,
        "summary": _TEXT,
        "manifestPath": _TEXT,
    },
    "type",
)
_ITEMS: JsonObject = {"type": "array", "items": EVIDENCE_ITEM}
_BLOCKER = _object(
    {
        "type": _one_of(*REASONS),
        "source": _SOURCE_READ,
        "provider": _TEXT,
        "model": _TEXT,
        "message": _TEXT,
        "observedAt": _TEXT,
        "retryAfterSeconds": _NUMBER_OR_NULL,
        "requiresHuman": _FLAG,
        "worker": _TEXT,
    }
)
_BLOCKER_OR_NULL: JsonObject = {**_BLOCKER, "type": [_BLOCKER["type"], "null"]}
_COOLDOWN = _object(
    {
        "type": _one_of("rate_limit"),
        "source": _SOURCE_READ,
        "message": _TEXT,
        "observedAt": _TEXT,
        "blockedUntil": _TEXT_OR_NULL,
        "retryAfterSeconds": _NUMBER_OR_NULL,
        "evidence": _ITEMS,
    }
)

_AMOUNT: JsonObject = {"type": ["number", "null"], "minimum": 0}
_USAGE = _object(
    {
        "inputTokens": _AMOUNT,
        "outputTokens": _AMOUNT,
        "cachedTokens": _AMOUNT,
        "totalTokens": _AMOUNT,
        "costUsd": _AMOUNT,
    }
)

CHECKPOINT = _object(
    {
        "schemaVersion": _VERSION,
        "taskId": _FULL_TEXT,
        "status": _one_of(*STATUSES),
        "currentPhase": _TEXT,
        "nextStep": _FULL_TEXT,
        "blockedUntil": _TEXT_OR_NULL,
        "blocker": _BLOCKER_OR_NULL,
        "lastCompletedStep": _TEXT,
        "activeFiles": _TEXTS,
        "openQuestions": _TEXTS,
        "evidence": _ITEMS,
        "evidenceArchive": _object({"path": _TEXT, "archivedCount": _FROM_ZERO, "updatedAt": _TEXT}),
        "workerCooldowns": {"type": "object", "additionalProperties": _COOLDOWN},
        "updatedAt": _FULL_TEXT,
    },
    *("schemaVersion", "taskId", "status", "nextStep", "updatedAt"),
)

RUN_EVENT = _object(
    {
        "type": _one_of(*EVENT_TYPES),
        "at": _FULL_TEXT,
        "status": _TEXT,
        "decision": _TEXT,
        "reason": _TEXT,
        "note": _TEXT,
        "worker": _TEXT,
        "requestedWorker": _TEXT,
        "degradedFrom": _TEXT,
        "nextStep": _TEXT,
        "blockedUntil": _TEXT_OR_NULL,
        "waitSeconds": _NUMBER_OR_NULL,
        "blocker": _BLOCKER_OR_NULL,
        "evidence": _ITEMS,
        "usage": _USAGE,
    },
    "type",
    "at",
)

EVIDENCE_MANIFEST = _object(
    {"schemaVersion": _VERSION, "taskId": _FULL_TEXT, "recordedAt": _FULL_TEXT, "evidence": EVIDENCE_ITEM},
    *("schemaVersion", "taskId", "recordedAt", "evidence"),
)


def misfits(value: object, table: JsonObject, path: str) -> list[str]:
    """Return one line for each value that does not match the schema."""
    if "anyOf" in table:
        found = [misfits(value, branch, path) for branch in table["anyOf"]]
        told = "; ".join(each[0] for each in found if each)
        return [f"{path} does not match any allowed schema: {told}"] if all(found) else []
    if "const" in table:
        fits = is_number(value) and value == table["const"]
        return [] if fits else [f"{path} must equal {shown(table['const'])}"]
    kinds = table.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_IS[kind](value) for kind in kinds):
        return [f"{path} must be {' or '.join(kinds)}"]
    if isinstance(value, dict):
        return _members(value, table, path)
    if isinstance(value, list):
        return _entries(value, table, path)
    return _scalar(value, table, path)


def is_number(value: object) -> bool:
    """Return True for a JSON number. JSON booleans are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def whole(value: object, default: int) -> int:
    return int(value) if _is_integer(value) else default  # type: ignore[arg-type]  # it is a number then


def shown(value: object) -> str:
    return value if isinstance(value, str) else jsontext.line(value)


def _is_integer(value: object) -> bool:
    return is_number(value) and (isinstance(value, int) or value.is_integer())  # type: ignore[union-attr]  # a float


_IS = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _members(value: JsonObject, table: JsonObject, path: str) -> list[str]:
    found = [f"{path}.{name} is required" for name in table.get("required", ()) if name not in value]
    known = table.get("properties", {})
    others = table.get("additionalProperties")
    for name, member in value.items():
        below = known.get(name, others)
        if below:
            found += misfits(member, below, f"{path}.{name}")
    return found


def _entries(value: list[object], table: JsonObject, path: str) -> list[str]:
    least = table.get("minItems", 0)
    found = [f"{path} must contain at least {least} item(s)"] if len(value) < least else []
    below = table.get("items")
    if below:
        for number, entry in enumerate(value):
            found += misfits(entry, below, f"{path}[{number}]")
    return found


def _scalar(value: Any, table: JsonObject, path: str) -> list[str]:
    if "enum" in table and value is not None and value not in table["enum"]:
        return [f"{path} must be one of {', '.join(jsontext.line(word) for word in table['enum'])}"]
    if "minimum" in table and value is not None and value < table["minimum"]:
        return [f"{path} must be >= {shown(table['minimum'])}"]
    if value == "" and table.get("minLength"):
        return [f"{path} must not be empty"]
    return []


FILES: dict[str, tuple[str, str, JsonObject]] = {
    "lth-task.schema.json": ("Long task", "task.json: the contract of a long task.", TASK),
    "lth-checkpoint.schema.json": (
        "Checkpoint of a long task",
        "checkpoint.json: the state from which any worker resumes.",
        CHECKPOINT,
    ),
    "lth-run-event.schema.json": ("Event of a long task", "One line of runs/YYYY-MM-DD.jsonl.", RUN_EVENT),
    "lth-evidence-manifest.schema.json": (
        "Evidence manifest of a long task",
        "evidence/TYPE-manifest-STAMP.json: one piece of evidence.",
        EVIDENCE_MANIFEST,
    ),
}
"""Title, description and field table of each schema file, by file name."""


def documents() -> dict[str, JsonObject]:
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {
        name: {"$schema": draft, "title": title, "description": description, **table}
        for name, (title, description, table) in FILES.items()
    }
