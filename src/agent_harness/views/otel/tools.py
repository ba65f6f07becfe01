"""Tool calls of an agent with their times, without arguments and results, as read from a recording of the session.

Recordings are in the project folder, where agents can change them. An invalid recording counts as an empty
recording."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import JsonObject, number_below
from agent_harness.session.project_view import PastSession

MOST_BYTES = 32_000_000  # of one recording
MOST_CALLS = 2_000  # of one session
_HEAD_BYTES = 65_536  # in which the first line ends
_MOST_SECONDS = 1e7  # of one turn
_EARLY_SECONDS = 2.0  # times of sessions and of recordings are whole seconds
_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedTool:
    """Tool call of an agent, with its start and end time."""

    name: str
    id: str | None
    start: float  # seconds since 1970
    end: float
    failed: bool = False


class KeptRecordings:
    def __init__(self, paths: Sequence[str]) -> None:
        self._known = [found for path in paths if (found := _begun(path))]

    def of_session(self, session: PastSession) -> list[UsedTool]:
        """Return a session's tool calls. Read the recording whose start is nearest to the session's start."""
        began, ended = clock.parse(session.started), clock.parse(session.ended)
        if began is None:
            return []
        first = began.timestamp() - _EARLY_SECONDS
        last = ended.timestamp() + 1 if ended else first + _MOST_SECONDS
        its = [each for each in self._known if each.item in (None, session.item) and first <= each.at <= last]
        if not its:
            return []
        found = min(its, key=lambda each: abs(each.at - began.timestamp()))
        self._known.remove(found)  # each recording is of one session
        lines = _lines(found.path, MOST_BYTES)
        next(lines, None)
        return list(_calls(lines, found.at, last))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recording:
    path: str
    at: float  # when it began
    item: str | None


def _begun(path: str) -> _Recording | None:
    head = next(_lines(path, _HEAD_BYTES), {})
    at, item = clock.parse(head.get("at")), head.get("task_id") or head.get("feature_id")
    if "cassette" not in head or at is None:
        return None
    return _Recording(path=path, at=at.timestamp(), item=str(item).removeprefix("Feature #") if item else None)


def _calls(lines: Iterator[JsonObject], begin: float, last: float) -> Iterator[UsedTool]:
    """Yield the tool calls in a recording. No call ends later than ``last``."""
    waiting: dict[str, tuple[str, str | None, float]] = {}
    now, count = begin, 0
    for line in lines:
        if count >= MOST_CALLS:
            return
        if "turn" in line:
            said = clock.parse(line.get("began"))
            begin = now = min(max(said.timestamp() if said else 0.0, now), last)
            continue
        at = number_below(line.get("at"), _MOST_SECONDS)
        now = min(max(now, begin + at), last) if at is not None else now
        event = line.get("event")
        if isinstance(event, dict) and event.get("type") == "tool_call":
            name = " ".join(str(event.get("name")).split())[:_NAME_CHARACTERS]
            said_id = event.get("id")
            own = said_id[:_NAME_CHARACTERS] if isinstance(said_id, str) else None
            waiting[str(said_id or f"#{len(waiting)}")] = (name, own, now)
        elif isinstance(event, dict) and event.get("type") == "tool_result":
            known = str(event.get("id")) if event.get("id") else next(iter(waiting), "")
            if known in waiting:
                name, own, start = waiting.pop(known)
                count += 1
                yield UsedTool(name=name, id=own, start=start, end=now, failed=event.get("is_error") is True)
        # a call without a result ends with its turn
        elif "ended" in line:
            for name, own, start in waiting.values():
                count += 1
                yield UsedTool(name=name, id=own, start=start, end=now)
            waiting = {}


def _lines(path: str, most: int) -> Iterator[JsonObject]:
    """Yield the JSON objects in the first ``most`` bytes of a file. Skip lines without a valid object."""
    with suppress(OSError, HarnessError):
        descriptor = files.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            for line in file.read(most).splitlines():
                with suppress(ValueError, RecursionError):
                    found = json.loads(line)
                    if isinstance(found, dict):
                        yield found
