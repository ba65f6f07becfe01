"""Scripts ``claim`` and ``renew``. They read a payload and the environment, print exactly one JSON object, and exit
with status 0. The scripts need no marker file. Source: ``tasklist.md`` 7.3."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError, LeaseLost, NothingEligible, NotOwner, UsageError
from agent_harness.hooks.event import Event, find_root, read
from agent_harness.kernel.json import JsonObject, jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from agent_harness.protocols.tasklist.claims.caller import Caller

__all__ = ["answer", "call_and_exit"]

_ALIVE: list[object] = []
"""Objects that are kept until the process ends, because freeing them in Python would take longer."""

LEASE_SECONDS = 1800.0
LOCK_TIMEOUT_SECONDS = 5.0


class _Refusal(Exception):
    """Error: the harness refuses a ``claim`` or ``renew`` call, with a message in the script's wording."""


def call_and_exit(name: str) -> NoReturn:
    """Print the script's JSON answer, and exit the process with status 0."""
    text = jsontext.line(answer(name, Event(read(0), os.environ)))
    content = f"{text}\n".encode("utf-8", "replace")
    try:
        while content:
            content = content[os.write(1, content) :]
    except OSError:
        pass
    os._exit(0)


def answer(name: str, event: Event) -> JsonObject:
    done = f"{name}ed"
    warnings: list[str] = []
    try:
        found: JsonObject = {done: True, **_SCRIPTS[name](event, warnings)}
    except NothingEligible:
        found = {done: False}
    except _Refusal as refusal:
        found = {done: False, "error": str(refusal)}
    except HarnessError as error:
        told = f"{error.message} ({error.hint})" if error.hint else error.message
        found = {done: False, "error": " ".join(told.split())}
    except Exception as error:
        found = {done: False, "error": f"unexpected: {type(error).__name__}: {error}"}
    return {**found, "warning": "; ".join(warnings)} if warnings else found


def _claim(event: Event, warnings: list[str]) -> JsonObject:
    from agent_harness.protocols.tasklist.claims import claim

    caller = _caller(event, warnings)
    seconds = _seconds(event, "HARNESS_LEASE_SECONDS", LEASE_SECONDS, warnings)
    won = claim.claim(caller, lease_seconds=seconds)
    members = ("worker_id", "task_id", "title", "lease_expires_at", "base", "attempt", "resumed")
    return {**{name: won.get(name) for name in members}, "claim_token": won.get("token")}


def _renew(event: Event, warnings: list[str]) -> JsonObject:
    from agent_harness.protocols.tasklist.claims.caller import renew

    caller = _caller(event, warnings)
    task_id = event.environ.get("HARNESS_TASK_ID", "").strip() or event.text("task_id")
    if not task_id:
        raise _Refusal("missing task_id")
    seconds = _seconds(event, "HARNESS_LEASE_SECONDS", LEASE_SECONDS, warnings)
    try:
        return renew(caller, task_id, lease_seconds=seconds)
    except UsageError:
        raise _Refusal("task not found") from None
    except LeaseLost as error:
        raise _Refusal("lease expired" if "expired" in error.message else "task owned by other worker") from None
    except NotOwner as error:
        raise _Refusal("task not in_progress" if "status" in error.data else "task owned by other worker") from None


_SCRIPTS = {"claim": _claim, "renew": _renew}


def _caller(event: Event, warnings: list[str]) -> Caller:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.layout import TaskListLayout

    root = find_root(event)
    if root is None:
        raise _Refusal("state root not found")
    cwd = event.payload.get("cwd")
    caller = Caller.open(
        TaskListLayout(root),
        session_id=event.session_id or None,
        token=event.environ.get("HARNESS_CLAIM_TOKEN") or event.text("claim_token") or None,
        lock_timeout_seconds=_seconds(event, "HARNESS_LOCK_TIMEOUT_SECONDS", LOCK_TIMEOUT_SECONDS, warnings),
        cwd=cwd if isinstance(cwd, str) and _is_folder(cwd) else None,
    )
    _ALIVE.append(caller)
    if not caller.id and caller.store.look().config.concurrent:
        raise _Refusal("missing HARNESS_WORKER_ID")
    return caller


def _is_folder(path: str) -> bool:
    try:
        return os.path.isdir(path)
    except ValueError:
        return False


def _seconds(event: Event, name: str, default: float, warnings: list[str]) -> float:
    given = event.environ.get(name)
    if not given:
        return default
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if 0 < seconds < float("inf"):
        return seconds
    warnings.append(f"{name}={given[:40]!r} is not a positive number of seconds; {default:g} is used")
    return default
