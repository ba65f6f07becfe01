"""The note for whoever goes on after a rate limit: where the task stands, in one file for people and workers.

Source: ``longtask.md`` 16.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.protocols.longtask import criteria, evidence
from agent_harness.protocols.longtask.layout import file_stamp
from agent_harness.protocols.longtask.run import forbidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.records import Contract
    from agent_harness.protocols.longtask.store import CheckpointChange

    Record = dict[str, Any]

__all__ = ["is_wanted", "repository_lines", "write"]

_GIT_SECONDS = 2.0
_MOST_PATHS = 50


def is_wanted(task: Contract) -> bool:
    """Whether the contract lets a note be written."""
    return task.section("rateLimitPolicy").get("allowHandoffOnRateLimit") is not False


def repository_lines(layout: LongTaskLayout, task: Contract) -> list[str]:
    """What git says about the working copy, within two seconds a question; empty when it says nothing."""
    if not task.repo_path:
        return []
    root = forbidden.expanded(task.repo_path, layout.root)
    if not os.path.isdir(root):
        return []
    from agent_harness.kernel.git import Git
    from agent_harness.kernel.redact import redact

    try:
        git = Git(root)
        if not git.is_repository:
            return []
        changed = git.text("status", "--short", timeout_seconds=_GIT_SECONDS).splitlines()
        last = git.text("log", "-1", "--format=%h %s", check=False, timeout_seconds=_GIT_SECONDS)
    except (HarnessError, OSError):
        return []
    more = [f"    … and {len(changed) - _MOST_PATHS} more"] if len(changed) > _MOST_PATHS else []
    shown = [f"    {line}" for line in changed[:_MOST_PATHS]] or ["    (nothing is changed)"]
    return [f"Last commit: {redact(last) or 'none'}", "git status --short:", *shown, *more]


def write(change: CheckpointChange, workers: tuple[str, str, str | None], items: list[Record], git: list[str]) -> str:
    """Adds the note, its evidence and its event to a change; the note's path.

    ``workers``: who was asked for, who ran last, who takes over on a rate limit.
    """
    text = _text(change, workers, items, git)
    path = change.keep(f"evidence/handoff-{file_stamp(change.at)}.md", text)
    summary = f"Handoff after a rate limit of {workers[1]}; next step: {change.checkpoint.next_step}"
    item = {"type": "handoff", "path": path, "observedAt": change.at, "summary": summary}
    evidence.add(change, item)
    change.event("handoff_written", status=change.checkpoint.status, note=path, evidence=[item])
    return path


def _text(change: CheckpointChange, workers: tuple[str, str, str | None], items: list[Record], git: list[str]) -> str:
    requested, worker, fallback = workers
    task, checkpoint = change.task, change.checkpoint
    blocker = checkpoint.blocker or {}
    facts = [
        f"Task: {task.id} - {task.title}",
        f"Objective: {task.text('objective') or ''}",
        f"Status: {checkpoint.status}",
        f"Blocker: {blocker.get('type')} from {blocker.get('source')} - {blocker.get('message')}",
        f"Blocked until: {checkpoint.blocked_until or 'not said'}",
        f"Requested worker: {requested}",
        f"Worker: {worker}",
        f"Fallback: {fallback or 'none'}",
        f"Current phase: {checkpoint.text('currentPhase') or 'unspecified'}",
        f"Last completed step: {checkpoint.text('lastCompletedStep') or 'none'}",
        f"**Next step: {checkpoint.next_step}**",
    ]
    lists = (
        ("Active files", checkpoint.items("activeFiles")),
        ("Open questions", checkpoint.items("openQuestions")),
        ("Unmet criteria", criteria.unmet_without_commands(change.layout, task, checkpoint)),
        ("Evidence of this run", [str(item.get("path")) for item in items]),
    )
    body = [f"- {fact}" for fact in facts]
    for title, entries in lists:
        body += ["", f"## {title}", "", *([f"- {entry}" for entry in entries] or ["- none"])]
    body += ["", "## Working copy", "", *git] if git else []
    return "\n".join([f"# Handoff: {task.title}", "", *body]) + "\n"
