"""Acceptance of a task by the user after the harness rejected its work. Either the work changed files that it may not
change, or the work changed nothing because the task was already done.

In the first case, the user names the files that may change. Three steps follow:

    claim      claim the task for the user; the files may change during this claim only
    restore    restore the last attempt's work from its rescue ref, if the files have not changed since then
    complete   verify the work like any other work, commit it and complete the task

If a step fails, the harness restores the task's previous state and keeps the work on a rescue ref again. Source:
``tasklist.md`` 11.6."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_harness.errors import HarnessError, Refused, UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.tasklist import planning
from agent_harness.protocols.tasklist.attempts import rescue, verbs
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.verification.grade import UNCHANGED
from agent_harness.verification.guard import ALLOWABLE
from agent_harness.verification.verdict import CRITICAL

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import Task


def accept(caller: "Caller", task_id: str, patterns: Sequence[str]) -> JsonObject:
    """Verify the work of a task's last attempt again, and complete the task for the user."""
    task = caller.find(caller.store.read(), task_id)
    if not patterns and (task.question or {}).get("kind") == UNCHANGED:
        return _done_already(caller, task)
    if not patterns:
        hint = f"harness task accept {task_id} FILE"
        raise UsageError(f"{task_id} has no open question, so name the files whose changes you accept", hint=hint)
    if task.status not in ("pending", "failed") or not task.rescues:
        told = (
            f"{task_id} is {task.status}, so there is no rejected work to accept"
            if task.rescues
            else f"No work on {task_id} is saved in a rescue"
        )
        raise Refused(told, hint="harness status")
    before = {"validation.may_change": ",".join(task.may_change), "max_attempts": str(task.max_attempts)}
    before["status"] = task.status
    wanted = {"validation.may_change": ",".join(dict.fromkeys((*task.may_change, *patterns)))}
    if task.given_up:
        wanted["max_attempts"] = str(task.attempts + 1)
    planning.set_fields(caller.store, task_id, wanted)
    try:
        caller.token = claim.claim(caller, task_id)["token"]
        try:
            rescue.restore(caller, task.rescues[-1])
            return verbs.complete(caller, task_id, known=verbs.AttemptFacts(word="accept-change"))
        except HarnessError as error:
            verbs.release(caller, task_id, f"not accepted: {error.message}")
            raise
    except HarnessError:
        with suppress(HarnessError):
            planning.set_fields(caller.store, task_id, before)
        raise


def _done_already(caller: "Caller", task: "Task") -> JsonObject:
    wanted = {"status": "pending", "max_attempts": str(max(task.max_attempts, task.attempts_made + 1))}
    planning.set_fields(caller.store, task.id, wanted)
    caller.token = claim.claim(caller, task.id)["token"]
    try:
        return verbs.complete(caller, task.id, known=verbs.AttemptFacts(word="accept-unchanged"))
    except HarnessError as error:
        verbs.release(caller, task.id, f"not accepted: {error.message}")
        raise


def offer(task: "Task", error: HarnessError) -> str | None:
    """Return the command that accepts the work if only its changed files were rejected, or None."""
    findings = error.data.get("findings")
    rows = [each for each in findings if each["severity"] == CRITICAL] if isinstance(findings, list) else []
    if not rows or any(each["code"] not in ALLOWABLE for each in rows):
        return None
    named = (each["data"].get("paths") or [each["data"]["path"]] for each in rows)
    paths = dict.fromkeys(str(path) for found in named for path in found)
    return f"harness task accept {task.id} {shlex.join(paths)}"
