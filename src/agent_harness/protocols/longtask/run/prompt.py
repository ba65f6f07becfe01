"""Prompt of one run: the contents of the contract and the checkpoint as plain text.

The anchors (``Continue exactly one bounded slice.``, ``Task directory:``, ``Next step:`` …) are a fixed part of the
prompt. Source: ``longtask.md`` 7."""

from __future__ import annotations

from agent_harness.protocols.longtask import records, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.records import (
        Checkpoint,
        Constraint,
        Contract,
        Criterion,
        EvidenceItem,
        RecordView,
    )


_RECENT = 5

_OPENING = "Read task.json, checkpoint.json and harness.md in the task directory first."
_RULES = (
    "Continue exactly one bounded slice.",
    "Respect the constraints, the success criteria, blockedUntil and the worker policy.",
)
_WRITES = "Update the checkpoint and record evidence before stopping."
_READS_ONLY = (
    "You cannot write files in this run: report status, next step and blockers in your final message; "
    "the harness writes the checkpoint."
)


def prompt(layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, *, reads_only: bool | None = None) -> str:
    """Return the prompt for the agent of one run."""
    if reads_only is None:
        reads_only = _preferred_reads_only(task)
    sections = [
        [_OPENING, *_RULES, _READS_ONLY if reads_only else _WRITES],
        [
            f"Task directory: {layout.root}",
            f"Task: {task.title}",
            f"Objective: {task.objective}",
            f"Current phase: {checkpoint.phase or 'unspecified'}",
            f"Next step: {checkpoint.next_step}",
        ],
        _titled("Success criteria:", map(_criterion, task.criteria)),
        _titled("Hard constraints:", (_constraint(each) for each in task.constraints if each.type != "soft")),
        _titled("Key context:", _context(task)),
        _blocked(checkpoint),
        _titled("Worker cooldowns:", _cooldowns(checkpoint)),
        _titled("Recent evidence:", map(_evidence, checkpoint.evidence[-_RECENT:])),
        _titled("Evidence expectations:", _EXPECTATIONS),
        _left_off(checkpoint),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _preferred_reads_only(task: Contract) -> bool:
    if task.policy.preferred is None:
        return False
    from agent_harness.protocols.longtask.run import adapters

    return adapters.reads_only(adapters.normalised(task.policy.preferred), task)


_EXPECTATIONS = (
    "- Capture the output that supports each claim below evidence/.",
    "- Link evidence to the success criterion that it proves.",
)


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [title, *found] if found else []


def _criterion(criterion: Criterion) -> str:
    target = "" if criterion.target is None else f" target={schema.shown(criterion.target)}"
    return f"- {criterion.id}: {criterion.description} ({criterion.metric}{target})"


def _constraint(each: Constraint) -> str:
    return f"- {each.id}: {each.description} ({each.type}/{each.category})"


def _context(task: Contract) -> list[str]:
    context = task.section("context")
    texts = (("Summary", "summary"), ("Repo path", "repoPath"), ("Repository", "repository"))
    found = [
        f"- {label}: {text}"
        for label, name in texts
        if (text := context.text(name)) and not text.startswith(records.FILL_IN)
    ]
    for label, name in (("Files", "files"), ("Links", "links")):
        if listed := _filled(context, name):
            found.append(f"- {label}: {', '.join(listed)}")
    return [*found, *(f"- Note: {note}" for note in _filled(context, "notes"))]


def _blocked(checkpoint: Checkpoint) -> list[str]:
    found = [f"Blocked until: {checkpoint.blocked_until}"] if checkpoint.blocked_until else []
    blocker = checkpoint.blocker
    if blocker and blocker.raw:
        source = f" from {text}" if (text := blocker.text("source")) else ""
        message = f" - {text}" if (text := blocker.text("message")) else ""
        seconds = blocker.raw.get("retryAfterSeconds")
        retry = "" if seconds is None else f" (retryAfterSeconds: {seconds})"
        found.append(f"Recent blocker: {blocker.raw.get('type') or 'unknown'}{source}{message}{retry}")
    return found


def _cooldowns(checkpoint: Checkpoint) -> Iterator[str]:
    for worker, each in checkpoint.cooldowns.items():
        message = f" - {text}" if (text := each.text("message")) else ""
        yield f"- {worker}: blocked until {each.raw.get('blockedUntil')}{message}"


def _evidence(item: EvidenceItem) -> str:
    found = item.raw.get
    criterion = f"(criterion: {item.criterion})" if item.criterion else None
    parts = [found("type"), found("path") or found("manifestPath"), criterion, found("summary") or found("note")]
    return "- " + " ".join(str(part) for part in parts if part)


def _left_off(checkpoint: Checkpoint) -> list[str]:
    found = [f"Last completed step: {checkpoint.last_step}"] if checkpoint.last_step else []
    if files := _filled(checkpoint, "activeFiles"):
        found.append(f"Active files: {', '.join(files)}")
    if questions := _filled(checkpoint, "openQuestions"):
        found.append(f"Open questions: {'; '.join(questions)}")
    return found


def _filled(record: RecordView, name: str) -> list[str]:
    return [each for each in record.texts(name) if each.strip()]
