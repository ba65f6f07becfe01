"""The prompt of one bounded slice: what the contract and the checkpoint say, in plain text.

The anchors (``Continue exactly one bounded slice.``, ``Task directory:``, ``Next step:`` …) are part of the contract.
Source: ``longtask.md`` 7.
"""

from __future__ import annotations

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.records import Checkpoint, Contract

    Record = dict[str, Any]

__all__ = ["prompt"]

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
    """What one worker is told; empty parts are left out, sections are apart by a blank line.

    ``reads_only`` is for a worker that cannot write the checkpoint itself; ``None`` goes by the preferred worker.
    """
    if reads_only is None:
        reads_only = _preferred_reads_only(task)
    sections = [
        [_OPENING, *_RULES, _READS_ONLY if reads_only else _WRITES],
        _facts(task, checkpoint, layout),
        _titled("Success criteria:", map(_criterion, task.criteria)),
        _titled("Hard constraints:", (_constraint(each) for each in task.constraints if each.get("type") != "soft")),
        _titled("Key context:", _context(task)),
        _blocked(checkpoint),
        _titled("Worker cooldowns:", _cooldowns(checkpoint)),
        _titled("Recent evidence:", map(_evidence, checkpoint.evidence[-_RECENT:])),
        _titled("Evidence expectations:", _EXPECTATIONS),
        _left_off(checkpoint),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _preferred_reads_only(task: Contract) -> bool:
    if task.preferred_worker is None:
        return False
    from agent_harness.protocols.longtask.run import adapters

    return adapters.reads_only(adapters.normalised(task.preferred_worker), task.raw, {})


_EXPECTATIONS = (
    "- Capture the output that supports each claim below evidence/.",
    "- Link evidence to the success criterion that it proves.",
)


def _facts(task: Contract, checkpoint: Checkpoint, layout: LongTaskLayout) -> list[str]:
    return [
        f"Task directory: {layout.root}",
        f"Task: {task.title}",
        f"Objective: {task.text('objective') or ''}",
        f"Current phase: {checkpoint.text('currentPhase') or 'unspecified'}",
        f"Next step: {checkpoint.next_step}",
    ]


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [title, *found] if found else []


def _criterion(criterion: Record) -> str:
    target = criterion.get("target")
    shown = "" if target is None else f" target={target if isinstance(target, str) else jsontext.line(target)}"
    return f"- {criterion.get('id')}: {criterion.get('description')} ({criterion.get('metric')}{shown})"


def _constraint(each: Record) -> str:
    return f"- {each.get('id')}: {each.get('description')} ({each.get('type')}/{each.get('category')})"


def _context(task: Contract) -> list[str]:
    context = task.section("context")
    texts = (("Summary", "summary"), ("Repo path", "repoPath"), ("Repository", "repository"))
    found = [f"- {label}: {context[name]}" for label, name in texts if _is_text(context.get(name))]
    for label, name in (("Files", "files"), ("Links", "links")):
        if listed := _texts(context.get(name)):
            found.append(f"- {label}: {', '.join(listed)}")
    return [*found, *(f"- Note: {note}" for note in _texts(context.get("notes")))]


def _blocked(checkpoint: Checkpoint) -> list[str]:
    found = [f"Blocked until: {checkpoint.blocked_until}"] if checkpoint.blocked_until else []
    blocker = checkpoint.blocker
    if blocker:
        source = f" from {blocker['source']}" if _is_text(blocker.get("source")) else ""
        message = f" - {blocker['message']}" if _is_text(blocker.get("message")) else ""
        seconds = blocker.get("retryAfterSeconds")
        retry = "" if seconds is None else f" (retryAfterSeconds: {seconds})"
        found.append(f"Recent blocker: {blocker.get('type') or 'unknown'}{source}{message}{retry}")
    return found


def _cooldowns(checkpoint: Checkpoint) -> list[str]:
    found = []
    for worker, each in checkpoint.cooldowns.items():
        if isinstance(each, dict):
            message = f" - {each['message']}" if _is_text(each.get("message")) else ""
            found.append(f"- {worker}: blocked until {each.get('blockedUntil')}{message}")
    return found


def _evidence(item: Record) -> str:
    place = item.get("path") or item.get("manifestPath")
    criterion = item.get("criterionId") or item.get("criterion")
    said = item.get("summary") or item.get("note")
    parts = [item.get("type"), place, f"(criterion: {criterion})" if criterion else None, said]
    return "- " + " ".join(str(part) for part in parts if part)


def _left_off(checkpoint: Checkpoint) -> list[str]:
    last = checkpoint.text("lastCompletedStep")
    found = [f"Last completed step: {last}"] if last else []
    if files := _texts(checkpoint.raw.get("activeFiles")):
        found.append(f"Active files: {', '.join(files)}")
    if questions := _texts(checkpoint.raw.get("openQuestions")):
        found.append(f"Open questions: {'; '.join(questions)}")
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str) and each.strip()] if isinstance(value, list) else []
