"""Effect of an agent's end on the checkpoint file. Each rule edits a change object and adds its events.

    exit 0, nothing written           paused, for review
    exit 0, checkpoint file written   the checkpoint file is kept; a claim of `done` is kept only if it is verified
    failed                            the failure class decides
    interrupted                       the output is kept, and the state does not change
    checkpoint file damaged           the damaged file is kept as evidence, the earlier version is restored,
                                      and the status is `needs-human`

Source: ``longtask.md`` 10.3, 10.4, 11."""

from __future__ import annotations

import os
import re

from agent_harness.kernel import clock
from agent_harness.protocols.longtask import evidence, records, schema
from agent_harness.protocols.longtask.records import moment
from agent_harness.protocols.longtask.run.forbidden import expanded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.records import Checkpoint, Contract
    from agent_harness.protocols.longtask.run.adapters import Plan
    from agent_harness.protocols.longtask.store import CheckpointChange


NEXT_STEPS: dict[str, str] = {
    "rate_limit": "Resume the same slice after the rate-limit window reopens.",
    "auth_error": "Fix the worker's credentials or permissions, rerun `lth health`, then resume the same slice.",
    "test_failure": "Inspect the failing test and fix the smallest slice that makes it pass.",
    "missing_context": "Supply the missing file, path or context, then resume the same slice.",
    "success": "Review the output and decide the next bounded step.",
    "unknown": "Human review needed: read the worker output and decide how to continue.",
}
"""Next step to write to the checkpoint file for each failure class, if the agent did not write a next step."""

_AUTHORED = (
    *("status", "nextStep", "currentPhase", "lastCompletedStep", "blocker", "blockedUntil", "activeFiles"),
    "openQuestions",
)
_LONGEST_NOTE = 500
MANUAL_LEFT = "only manual criteria are left"
NOTHING_CHANGED = "nothing was changed, and the criteria held before"


def output_item(ran: Ran, path: str) -> JsonObject:
    item: JsonObject = {"type": "worker-output", "path": path, "observedAt": ran.finished_at}
    return {**item, "exitCode": ran.exit_code} if ran.exit_code else item


# ---- exit 0


def finalize_success(
    change: CheckpointChange, before: Checkpoint, ran: Ran, items: list[JsonObject], *, fallback: bool = False
) -> bool:
    """Update the checkpoint after an agent's success. Return True if the agent wrote progress itself."""
    # the caller has verified any claim of `done`
    raw, worker = change.checkpoint.raw, ran.plan.worker
    kept = any((before.raw.get(name) or None) != (raw.get(name) or None) for name in _AUTHORED)
    evidence.add(change, *items)
    if kept:
        reason = "fallback evidence recorded" if fallback else "worker output recorded"
    else:
        reason = f"{'fallback ' if fallback else ''}worker completed without checkpoint update"
        raw["status"] = "paused"
        raw["lastCompletedStep"] = f"{worker} completed one slice: {before.next_step}"
        raw["nextStep"] = f"Review the output in {items[-1]['path']} and choose the next bounded step."
        raw["blocker"] = None
        raw["blockedUntil"] = None
    change.event("checkpoint_written", status=change.checkpoint.status, reason=reason, worker=worker)
    return kept


def finalize_proven(change: CheckpointChange, manual: list[str], worker: str) -> None:
    """Set the task to `done`, or to `needs-human` if a person must decide a criterion."""
    raw = change.checkpoint.raw
    raw["status"] = "needs-human" if manual else "done"
    raw["blockedUntil"] = raw["blocker"] = None
    raw["nextStep"] = "Nothing is left to do: every success criterion is met."
    if manual:
        raw["nextStep"] = (
            f"Every criterion that a command decides is met. Review the result, then for each of {', '.join(manual)}: "
            "lth evidence DIR --type review-note --criterion-id ID --status passed --summary TEXT; "
            "and: lth record DIR --status done"
        )
    change.touch()
    reason = MANUAL_LEFT if manual else records.VERIFIED
    change.event("checkpoint_written", status=raw["status"], reason=reason, worker=worker)


def ask_if_done(change: CheckpointChange, worker: str | None, named: list[str]) -> None:
    """Ask a person whether the task is done, because its criteria passed before the work."""
    import shlex

    from agent_harness.verification.grade import ASKS_IF_DONE

    place = shlex.quote(change.layout.root)
    _ask(change, "manual", "manual", f"{', '.join(named)}: {ASKS_IF_DONE}")
    change.checkpoint.raw["nextStep"] = (
        f"If it is done: lth record {place} --status done. If it is not: lth record {place} --status active "
        "--note 'what is missing'"
    )
    named_worker = {"worker": worker} if worker else {}
    change.event("checkpoint_written", status="needs-human", reason=NOTHING_CHANGED, **named_worker)


def _ask(change: CheckpointChange, kind: str, source: str, message: str, **members: str) -> None:
    raw = change.checkpoint.raw
    raw["status"] = "needs-human"
    raw["blockedUntil"] = None
    raw["blocker"] = {
        "type": kind,
        "source": source,
        "message": message,
        "observedAt": change.at,
        "retryAfterSeconds": None,
        "requiresHuman": True,
        **members,
    }
    change.touch()


def withdraw_claim(
    change: CheckpointChange, worker: str | None, unmet: list[str], weak: list[str] | None = None
) -> None:
    """Set the task's status to `paused`, because its claim of `done` was not proven."""
    raw = change.checkpoint.raw
    raw["status"] = "paused"
    raw["blocker"] = None
    raw["blockedUntil"] = None
    named = ", ".join(unmet) if unmet else "every success criterion; nothing has been verified yet"
    raw["nextStep"] = f"The claim of done was not verified. Meet and prove: {named}."
    if weak:
        raw["nextStep"] += f" {weak[0]}"
    change.touch()
    named_worker = {"worker": worker} if worker else {}
    change.event("checkpoint_written", status="paused", reason=records.WITHDRAWN, **named_worker)


def ask_about_damage(change: CheckpointChange, worker: str) -> None:
    """Set the task to `needs-human`, because the agent damaged the checkpoint file, which has been restored."""
    source = worker if worker in schema.SOURCES else "manual"
    message = f"{worker} left an invalid checkpoint; it was kept as {change.damaged}"
    _ask(change, "unknown", source, message, worker=worker)
    change.event("checkpoint_written", status="needs-human", reason="worker left an invalid checkpoint", worker=worker)


def keep_output(change: CheckpointChange, worker: str, items: list[JsonObject]) -> None:
    evidence.add(change, *items)
    change.event("checkpoint_written", status=change.checkpoint.status, reason="worker output recorded", worker=worker)


# ---- failures


def apply_class(
    change: CheckpointChange,
    found: Classification,
    items: list[JsonObject],
    *,
    before: Checkpoint | None,
    worker: str | None,
    until: str | None = None,
    next_step: str | None = None,
    text: str,
) -> None:
    """Record a classified failure in the checkpoint and as an event."""
    raw, name = change.checkpoint.raw, found.name
    status = found.status
    raw["status"] = status
    raw["blockedUntil"] = until or found.blocked_until
    raw["blocker"] = None if name == "success" else _blocker(change, found, worker)
    # a step that the agent itself wrote is kept
    if before is None or before.next_step == change.checkpoint.next_step:
        raw["nextStep"] = next_step or NEXT_STEPS[name]
    change.touch()
    if items:
        evidence.add(change, *items)
    event_of_class(
        change, found, items, status=status, worker=worker, until=raw["blockedUntil"], blocker=raw["blocker"], text=text
    )
    named = {"worker": worker} if worker else {}
    change.event("checkpoint_written", status=status, reason=f"classified {name}", **named)


def event_of_class(
    change: CheckpointChange,
    found: Classification,
    items: list[JsonObject],
    *,
    status: str,
    worker: str | None,
    until: str | None,
    blocker: JsonObject | None,
    text: str,
) -> None:
    limited = found.limited
    change.event(
        "rate_limited" if limited else "failure_classified",
        status=status,
        reason=found.name,
        note=note_of(text),
        blockedUntil=until,
        blocker=blocker,
        **({"evidence": items} if items else {}),
        **({"worker": worker} if worker and limited else {}),
    )


def note_of(text: str) -> str:
    """Return the text with secrets masked, cut to 500 characters."""
    from agent_harness.kernel.redact import redact

    text = redact(text[: 8 * _LONGEST_NOTE])
    return text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 3]}..."


def cool_down(change: CheckpointChange, worker: str, found: Classification, items: list[JsonObject]) -> None:
    cooldowns = change.checkpoint.section("workerCooldowns").raw
    cooldown = {
        "type": "rate_limit",
        "source": found.source,
        "message": found.summary,
        "observedAt": change.at,
        "blockedUntil": found.blocked_until,
        "retryAfterSeconds": found.retry_after_seconds,
        "evidence": [evidence.in_order(item) for item in items],
        **found.told(),
    }
    change.checkpoint.raw["workerCooldowns"] = {**cooldowns, worker: cooldown}
    change.touch()


def earliest_end(checkpoint: Checkpoint) -> str | None:
    """Return when the first rate limit in the checkpoint ends, or None without rate limits."""
    known = [(each.until, str(each.raw["blockedUntil"])) for each in checkpoint.cooldowns.values() if each.until]
    return min(known)[1] if known else None


def _blocker(change: CheckpointChange, found: Classification, worker: str | None) -> JsonObject:
    blocker: JsonObject = {
        "type": found.name,
        "source": found.source,
        "message": found.summary,
        "observedAt": change.at,
        "retryAfterSeconds": found.retry_after_seconds,
        "requiresHuman": found.status == "needs-human",
        **found.told(),
    }
    return {**blocker, "worker": worker} if worker else blocker


def session_evidence(
    task: Contract,
    given: str | None,
    text: str,
    base: str,
    at: str,
    *,
    began: str | None = None,
    ended: str | None = None,
) -> list[JsonObject]:
    """Return evidence that names the session file of a rate-limited Codex agent, or []."""
    named = given or task.section("codexWorker").text("sessionPath")
    path = session_file(named, text, base, began=_seconds(began), ended=_seconds(ended))
    if path is None:
        return []
    note = "Codex session of the run that was rate-limited" if named or began else "the newest Codex session"
    return [{"type": "codex-session", "path": path, "source": "codex-cli", "observedAt": at, "note": note}]


def _seconds(timestamp: str | None) -> float | None:
    at = moment(timestamp)
    return at.timestamp() if at else None


class Classification:
    def __init__(self, name: str, source: str, status: str, confidence: float, summary: str) -> None:
        self.name = name
        self.source = source
        self.status = status  # suggested for the checkpoint
        self.confidence = confidence
        self.summary = summary
        self.blocked_until: str | None = None
        self.retry_after_seconds: int | None = None
        self.told_until: str | None = None  # end of the limit, if too late to wait for
        self.fallback_wait_seconds: int | None = None  # for a rate limit without an end

    @property
    def limited(self) -> bool:
        return self.name == "rate_limit"

    def as_record(self) -> JsonObject:
        return {
            "class": self.name,
            "source": self.source,
            "statusSuggestion": self.status,
            "blockedUntil": self.blocked_until,
            "retryAfterSeconds": self.retry_after_seconds,
            **({"fallbackWaitSeconds": self.fallback_wait_seconds} if self.limited else {}),
            **self.told(),
            "confidence": self.confidence,
            "summary": self.summary,
        }

    def told(self) -> JsonObject:
        return {"toldUntil": self.told_until} if self.told_until else {}


class Ran:
    """Result of one agent."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.started_at = clock.timestamp(fraction=True)
        self.finished_at = ""
        self.exit_code = 0
        self.error: str | None = None
        self.stdout = ""
        self.stderr = ""
        self.stopped = False
        self.ended_by: str | None = None
        self.usage: JsonObject | None = None  # ``None`` if the worker does not report it
        self.course: JsonObject = {}  # for the event of its end: model, base, head, rescueRef, turns, interventions


_REPORTED = re.compile(
    r"(?:~|/)[^\s\"'`]*?/\.codex/(?:sessions|archived_sessions)/[^\s\"'`]*?\.jsonl(?=[),.;:]*(?:[\s\"'`]|$))"
)
_FOLDERS = ("sessions", "archived_sessions")
_DEPTH = 6
_EARLIER_SECONDS, _LATER_SECONDS = 5.0, 60.0


def session_file(
    named: str | None, text: str, base: str, *, began: float | None = None, ended: float | None = None
) -> str | None:
    """Return the path of the run's Codex session file, or None without such a file. ``named`` is not checked."""
    if named:
        return expanded(named, base) if named.startswith("~") else named
    for found in _REPORTED.finditer(text):
        path = expanded(found[0], base)
        if os.path.isfile(path):
            return path
    earliest = float("-inf") if began is None else began - _EARLIER_SECONDS
    return _newest_session(earliest, float("inf") if ended is None else ended + _LATER_SECONDS)


def _newest_session(earliest: float, latest: float) -> str | None:
    homes = dict.fromkeys(each for each in (os.environ.get("CODEX_HOME"), os.path.expanduser("~/.codex")) if each)
    found: list[tuple[float, str]] = []
    for home in homes:
        for folder in _FOLDERS:
            for path in _session_files(os.path.join(home, folder)):
                try:
                    changed = os.stat(path).st_mtime
                except OSError:
                    continue
                if earliest <= changed <= latest:
                    found.append((changed, path))
    return max(found)[1] if found else None


def _session_files(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        if os.path.relpath(folder, root).count(os.sep) + 1 >= _DEPTH:
            folders.clear()
        yield from (os.path.join(folder, name) for name in names if name.endswith(".jsonl"))
