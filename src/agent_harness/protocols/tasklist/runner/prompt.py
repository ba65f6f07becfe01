"""What an agent of ``harness run`` is told about its task. Pure. Source: ``tasklist.md`` 5, 12.2, 13."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.records import Task

__all__ = ["first", "fix"]

OWN_MEMBERS = frozenset(
    (
        "id",
        "title",
        "status",
        "priority",
        "depends_on",
        "attempts",
        "max_attempts",
        "started_at_commit",
        "started_branch",
        "base_ref",
        "validation",
        "on_failure",
        "error_log",
        "checkpoints",
        "completed_at",
        "claimed_by",
        "claimed_at",
        "claimed_process",
        "claimed_session",
        "lease_expires_at",
        "lease_seconds",
        "claim_token",
        "worktree",
        "last_claim_token",
        "last_owner",
        "last_session",
        "failed_at",
        "rescues",
        "proof",
    )
)
"""Members that the protocol knows; everything else on a task was written for whoever works on it."""

FEEDBACK_CHARACTERS = 6000

RULES = """\
Rules:
- Work on this task only, in this folder. Leave harness-tasks.json and harness-progress.txt alone.
- After each larger step: harness task checkpoint {id} M/N "what was done"
- When you are done, end your turn. The harness runs the validation itself; only its result counts. It commits what you
  leave; commit yourself if you like.
- When the task cannot be done: harness task fail {id} --category TASK_EXEC "why", and end your turn.
- Never weaken, skip or delete a test, and leave the scripts and settings alone that the validation runs: what was there
  at the claim may not change. New tests and assertions are welcome.
"""


def first(task: "Task", *, log: Sequence[str], rescues: Sequence[str]) -> str:
    """The opening prompt of an attempt."""
    parts = [f"# Task {task.id}: {task.title}", ""]
    parts += [f"Attempt {task.attempts + 1} of {task.max_attempts}."]
    if task.validation_command:
        seconds = f"{task.timeout_seconds:g} s at most"
        parts += [f"It is done when this command exits with 0 ({seconds}):", "", f"    {task.validation_command}"]
    more = {name: value for name, value in task.raw.items() if name not in OWN_MEMBERS}
    if more:
        parts += ["", "More about it:", json.dumps(more, ensure_ascii=False, indent=2)]
    if task.error_log:
        parts += ["", "Earlier attempts failed:", *[f"- {each}" for each in task.error_log[-5:]]]
    if rescues:
        parts += ["", "What they had done was taken back, and is kept for you to look at:"]
        parts += [f"- git show {ref}" for ref in rescues[-3:]]
    if log:
        parts += ["", "What happened on this list so far, newest last:", *[f"  {line}" for line in log]]
    return "\n".join([*parts, "", RULES.format(id=task.id)])


def fix(task: "Task", said: str, output: Sequence[Any]) -> str:
    """The prompt of a further round, after the validation has said no."""
    text = "\n".join(str(line) for line in output)[-FEEDBACK_CHARACTERS:]
    return "\n".join(
        [
            f"# Task {task.id}: {task.title}",
            "",
            f"The harness ran the validation and it failed: {said}",
            f"    {task.validation_command}",
            "",
            "The end of its output:",
            text or "(no output)",
            "",
            "Fix the cause. Your work is as you left it.",
            "",
            RULES.format(id=task.id),
        ]
    )
