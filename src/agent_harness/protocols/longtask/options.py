"""Typed options of each command, parsed once from the words of the command line. Each error names the option.

Source: ``longtask.md`` 2."""

from __future__ import annotations

from agent_harness.errors import HarnessError, UsageError
from agent_harness.kernel import clock
from agent_harness.kernel.redact import redact
from agent_harness.protocols.longtask.records import moment
from agent_harness.protocols.longtask.schema import EVIDENCE_TYPES, REASONS, SANDBOXES, SOURCES, STATUSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    Words = Mapping[str, object]


LONGEST_SECONDS = 31 * 86_400
"""Maximum wait, in seconds (31 days). Source: ``longtask.md`` 11."""

_DIGITS = frozenset("0123456789")
NONE: Words = {}


def text(words: Words, name: str) -> str | None:
    found = words.get(name)
    return found if isinstance(found, str) else None


def masked(words: Words, name: str) -> str | None:
    found = text(words, name)
    return None if found is None else redact(found)


def present(words: Words, name: str) -> str | None:
    found = text(words, name)
    return found if found and found.strip() else None


def flag(words: Words, name: str) -> bool:
    return words.get(name) is True


def texts(words: Words, name: str) -> list[str] | None:
    found = text(words, name)
    return None if found is None else [part.strip() for part in found.split(",") if part.strip()]


def filled(words: Words, name: str) -> str | None:
    found = text(words, name)
    if found is not None and not found.strip():
        raise UsageError(f"option --{name} needs a value")
    return found


def one_of(words: Words, name: str, known: Collection[str]) -> str | None:
    found = text(words, name)
    if found is None or found in known:
        return found
    raise UsageError(f"--{name} must be one of {', '.join(known)}: {found}")


def positive(words: Words, name: str) -> int | None:
    found = text(words, name)
    if found is None:
        return None
    if not (0 < len(found) <= 12 and set(found) <= _DIGITS and int(found) >= 1):
        raise UsageError(f"--{name} must be a positive integer: {found}")
    return int(found)


def number(words: Words, name: str) -> int | float | None:
    found = text(words, name)
    if found is None:
        return None
    try:
        value = float(found) if set(found) <= _DIGITS | set("+-.eE") else float("nan")
    except ValueError:
        value = float("nan")
    if not float("-inf") < value < float("inf"):
        raise UsageError(f"--{name} must be a finite number: {found}")
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def seconds(words: Words, name: str) -> int | float | None:
    """Return the option ``name`` in seconds, or None without this option. The maximum is 31 days."""
    found = text(words, name)
    if found is not None and found.isascii() and found.isdigit() and len(found) > 12:
        return LONGEST_SECONDS
    value = number(words, name)
    if value is not None and value < 0:
        raise UsageError(f"--{name} must be a number of seconds, at least 0: {found}")
    return None if value is None else min(value, LONGEST_SECONDS)


def whole(words: Words, name: str) -> int | None:
    found = text(words, name)
    try:
        return None if found is None else int(found)
    except ValueError:
        raise HarnessError(f"--{name} must be an integer: {found}") from None


def at_time(words: Words, name: str) -> datetime | None:
    found = text(words, name)
    if found is None:
        return None
    at = moment(found)
    if at is None:
        raise UsageError(f"--{name} must be a time such as 2026-05-17T12:35:54Z: {found}")
    return at


# ---- the options of each command, read once from the words that were given, by their long names


class InitOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.given = frozenset(words)
        self.template = text(words, "template") or "coding"
        self.objective = filled(words, "objective")
        self.criterion = filled(words, "criterion")
        self.criterion_command = filled(words, "criterion-command")
        self.scheduler = text(words, "scheduler")
        self.worker = text(words, "worker")
        self.fallback_worker = text(words, "fallback-worker")
        self.cwd = filled(words, "cwd")
        self.command = filled(words, "command")
        self.sandbox = one_of(words, "sandbox", SANDBOXES)
        self.model = filled(words, "model")
        self.kimi_model = filled(words, "kimi-model")
        self.scheduler_model = filled(words, "scheduler-model")
        self.timeout_seconds = positive(words, "timeout-seconds")
        self.every = filled(words, "every")
        self.name = filled(words, "name")
        self.scheduler_timeout_seconds = positive(words, "scheduler-timeout-seconds")
        self.check = flag(words, "check")
        self.strict = flag(words, "strict")
        self.force = flag(words, "force")


class TickOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.dry_run = flag(words, "dry-run")


class RunOptions:
    """Options of ``lth run`` and ``lth resume``."""

    def __init__(self, words: Words = NONE) -> None:
        self.worker = text(words, "worker")
        self.fallback_worker = text(words, "fallback-worker")
        self.command = present(words, "command")
        self.cwd = present(words, "cwd")
        self.timeout_seconds = positive(words, "timeout-seconds")
        self.max_cost = number(words, "max-cost")
        self.lock_ttl_seconds = positive(words, "lock-ttl-seconds")
        self.lock_owner = text(words, "lock-owner")
        self.codex_session_path = text(words, "codex-session-path")
        self.forbidden_cwd_patterns = texts(words, "forbidden-cwd-patterns") or []
        self.sandbox = present(words, "sandbox")
        self.model = present(words, "model")
        self.kimi_model = present(words, "kimi-model")
        self.local_provider = present(words, "local-provider")
        self.no_wait = flag(words, "no-wait")
        self.oss = flag(words, "oss") if "oss" in words else None
        self.dry_run = flag(words, "dry-run")


class RecordOptions:
    def __init__(self, words: Words = NONE) -> None:
        status = one_of(words, "status", STATUSES)
        if status is None:
            raise UsageError(f"record requires --status: one of {', '.join(STATUSES)}")
        self.status = status
        self.reason = one_of(words, "reason", REASONS)
        self.source = one_of(words, "source", SOURCES)
        self.blocked_until = at_time(words, "blocked-until")
        self.retry_after_seconds = seconds(words, "retry-after-seconds")
        self.note = masked(words, "note")
        if self.note is not None and not self.note.strip():
            raise UsageError("--note must not be blank, because it is the next step")
        self.last_completed_step = masked(words, "last-completed-step")
        self.active_files = texts(words, "active-files")
        self.open_questions = texts({"open-questions": masked(words, "open-questions")}, "open-questions")
        self.requires_human = flag(words, "requires-human")
        self.verify_timeout_seconds = positive(words, "verify-timeout-seconds")


class EvidenceOptions:
    def __init__(self, words: Words = NONE) -> None:
        kind = text(words, "type")
        if kind not in EVIDENCE_TYPES:
            known = f"Expected one of {', '.join(EVIDENCE_TYPES)}"
            raise UsageError(f"Unsupported evidence type: {kind or ''}. {known}", hint="lth evidence DIR --type TYPE")
        at = at_time(words, "observed-at")
        free = ("command", "status", "text", "output", "note", "summary")
        self.type = kind
        self.manifest_path = text(words, "manifest-path")
        self.members: dict[str, object] = {
            "type": kind,
            "path": text(words, "path"),
            **{name: masked(words, name) for name in free},
            "criterionId": text(words, "criterion-id"),
            "criteria": texts(words, "criteria"),
            "source": one_of(words, "source", SOURCES),
            "observedAt": at and clock.timestamp(at, fraction=True),
            "exitCode": number(words, "exit-code"),
        }


class VerifyOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.verify_timeout_seconds = positive(words, "verify-timeout-seconds")


class RescueOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.show = text(words, "show")
        self.restore = text(words, "restore")
        if self.show and self.restore:
            raise UsageError("--show and --restore cannot be used together")


class ClassifyOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.text = text(words, "text")
        self.file = text(words, "file")
        self.source = text(words, "source") or None
        if self.source not in (None, *SOURCES):
            raise HarnessError(f"Unsupported source: {self.source}. Expected one of {', '.join(SOURCES)}.")
        self.exit_code = whole(words, "exit-code")
        self.codex_session_path = text(words, "codex-session-path")
        self.record = flag(words, "record")


class HealthOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.strict = flag(words, "strict")


class ListOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.json = flag(words, "json")


class EventOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.limit = positive(words, "limit")
        self.type = text(words, "type")


class ScheduleOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.engine = text(words, "engine")
        self.every = text(words, "every")
        self.verbs = [each for each in ("list", "pause", "resume", "delete") if flag(words, each)]
        self.form = text(words, "print")
        self.timeout_seconds = positive(words, "timeout-seconds")
        self.worker = text(words, "worker")


class RecipeOptions:
    def __init__(self, words: Words = NONE) -> None:
        self.every = text(words, "every")
        self.name = text(words, "name")
        self.model = text(words, "model")
        self.session_key = text(words, "session-key")
        self.timeout_seconds = positive(words, "timeout-seconds")
        self.tools = text(words, "tools")
        self.worker = text(words, "worker")
        self.fallback_worker = text(words, "fallback-worker")
