"""Actions that the user must take, for every kind of project, command and view.

* Answer a pending question.
* Decide on items that the user holds or has taken over, and on items that failed and are not retried.
* Remove the cause that ended the last run, such as a full disk or a deleted branch.

The harness stores the result of a run outside the project until the next run begins.
"""

from __future__ import annotations

import os
from collections import namedtuple
from contextlib import suppress

from agent_harness.errors import HarnessError
from agent_harness.kernel import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from agent_harness.kernel.json import JsonObject

__all__ = ["AGENT_FAILS", "HELD", "Need", "end_of", "keep_end", "looks_of", "now_or_end_of", "of", "read_end"]

LAST_RUN = "last-run.json"
HELD = "session_held"
"""Reason recorded for a run that did not start because another session was running."""
BLOCKED = "blocked"
"""Reason recorded for a run that would end before its first turn."""
MOST_NAMED = 5
_CODES = (3, 4, 6)
"""Exit codes of runs after which the user must act: a decision is needed, the environment has a problem, or state is
damaged.
"""
AGENT_FAILS = "agent_fails"
"""Reason recorded for a run whose agents all fail in the same way or exit immediately."""
_ERROR = "error"  # of a session whose agent ended with an error: its run ends with it
_REASONS = frozenset({"budget", "budget_exceeded", "landing_blocked", HELD, AGENT_FAILS, _ERROR})
"""Reasons for which the user must act although the run's exit code does not show this."""
_TOLD_OTHERWISE = frozenset({"held", "parked", "question"})
"""Reasons that are not stored, because the project's state shows them already."""


class Need(namedtuple("Need", ("message", "command"))):
    """Action that the user must take."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.message} ({self.command})" if self.command not in self.message else self.message


def of(
    asked: Iterable[tuple[str, str]],
    *,
    held: Sequence[str] = (),
    looks: Sequence[str] = (),
    handed: bool = False,
    failed: Sequence[str] = (),
    last_run: Mapping[str, object] | None = None,
    named: Callable[[str], str] = str,
) -> tuple[Need, ...]:
    """Return the actions that the user must take, most urgent first."""
    found = [Need(*each) for each in asked]
    message = str((last_run or {}).get("message") or "")
    prefix = "" if (last_run or {}).get("reason") == BLOCKED else "the last run ended: "
    is_asked = bool(found) and (
        (last_run or {}).get("exit_code") == 3 or any(message in each.message for each in found)
    )
    if last_run and message and not is_asked:
        found.append(Need(f"{prefix}{message}", str(last_run.get("command") or "")))
    looks_back = (last_run or {}).get("looks")
    found += [Need(str(each), "") for each in looks_back] if isinstance(looks_back, list) else []
    found += [Need(f"{named(each)} is held and will not be merged", f"harness queue release {each}") for each in held]
    found += [Need(f"verify manually: {_names(looks, named)}", "harness manual-verify")] if looks else []
    found += [Need("you have taken over the project", "harness hand-back")] if handed else []
    if failed:
        found.append(Need(f"{len(failed)} failed for good: {_names(failed, named)}", "harness task reset --failed"))
    return tuple(found)


def _names(items: Sequence[str], named: Callable[[str], str]) -> str:
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return f"{', '.join(map(named, items[:MOST_NAMED]))}{more}"


# ---- how the last run ended ------------------------------------------------------------------------------------------


def end_of(done: Mapping[str, Any]) -> JsonObject:
    """Return the reason for the run's end if the user must act, and the changes to review."""
    last: Mapping[str, Any] = (done.get("sessions") or [{}])[-1]
    ended_by_agent = last.get("reason") == _ERROR
    reason = done.get("reason") or (_ERROR if ended_by_agent else None)
    looks = [str(each)[:500] for each in done.get("looks") or ()]
    seen: JsonObject = {"looks": looks} if looks else {}
    if done.get("exit_code") not in _CODES and reason not in _REASONS:
        return seen
    told = last.get("told") if ended_by_agent else None
    message = " ".join(str(done.get("message") or told or last.get("message") or reason).split())[:500]
    known = {"exit_code": done.get("exit_code"), "reason": reason, **seen}
    return {**known, "message": message, "command": done.get("hint") or done.get("next")}


def keep_end(home: str | None, end: JsonObject | None = None) -> None:
    """Store ``end``, the result of ``end_of``. Delete the stored result if ``end`` is empty."""
    if home is None:
        return
    path = os.path.join(home, LAST_RUN)
    with suppress(OSError, HarnessError):  # a disk that is full, for example; the run has said it already
        if end and end.get("reason") in _TOLD_OTHERWISE:
            end = looks_of(end)
        if end:
            files.write_json(path, end)
        elif os.path.lexists(path):
            os.unlink(path)


def looks_of(end: JsonObject) -> JsonObject:
    return {name: value for name, value in end.items() if name == "looks"}


def read_end(home: str | None) -> JsonObject:
    """Return the stored result of the last run, or an empty object."""
    try:
        return files.read_json_if_any(os.path.join(home, LAST_RUN)) if home else {}
    except (OSError, HarnessError):
        return {}


def now_or_end_of(folder: str, home: str | None, *, under_way: bool) -> JsonObject:
    """Return the problem that blocks the next run, or the stored result of the last run."""
    end = read_end(home)
    # an agent may be using git at this moment
    found: JsonObject = {} if under_way else _block_at(folder)
    return found if found and str(found["message"]) not in str(end.get("message")) else end


def _block_at(folder: str) -> JsonObject:
    if not _may_be_blocked(folder):
        return {}
    from agent_harness.kernel.git import Git
    from agent_harness.session import turn_end

    found = turn_end.block(Git(folder))
    return {"exit_code": 4, "reason": BLOCKED, "message": found.reason, "command": found.command} if found else {}


def _may_be_blocked(folder: str) -> bool:
    """Return False if git's files show, without the slow check, that nothing blocks a run."""
    top = folder
    while not os.path.lexists(os.path.join(top, ".git")) and top != os.path.dirname(top):
        top = os.path.dirname(top)
    place = os.path.join(top, ".git")
    try:
        names = os.listdir(place)
        with open(os.path.join(place, "config"), encoding="utf-8", errors="replace") as file:
            said = file.read(1 << 20).lower()
        with open(os.path.join(place, "HEAD"), "rb") as file:
            head = file.read(64)
    except NotADirectoryError:  # of another work tree, or of a submodule
        return True
    except OSError:
        return False
    waits = (name for name in names if name.endswith("_HEAD") and name not in ("FETCH_HEAD", "ORIG_HEAD"))
    waits_longer = any(name.startswith("rebase-") or name in ("sequencer", "BISECT_LOG") for name in names)
    misled = "bare" in said.replace("bare = false", "") or "worktree" in said or "extensions" in said
    is_damaged = not (head.startswith(b"ref: refs/") or all(each in b"0123456789abcdef\n" for each in head))
    return any(waits) or waits_longer or misled or is_damaged
