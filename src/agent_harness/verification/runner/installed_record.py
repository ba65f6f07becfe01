"""What was installed before an agent started, kept outside of the project from one session to the next."""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.verification.runner.first_look import FirstLook
from agent_harness.verification.runner.installed import LENT, PROGRAM, Installed, stamp_of, with_changes
from agent_harness.verification.runner.installed_changes import Differences, compiled_anew, differences
from agent_harness.verification.runner.interpreters import Interpreter

_CLOSED, _BEGUN, _SAME, _DIFFERS = "closed", "begun", "same", "differs"  # of a session that this process has begun
_JUST_NOW = 60.0  # seconds between two orders of a slot at work; after more, a person may have been there


class InstalledRecord:
    """What was installed before an agent started, in one file outside of the project; ``None`` as its path keeps none.

    What a session has changed that steers tests stays a change in the sessions after it, until it is put back, somebody
    else changes it again, or a person releases it. A session that did not end counts as one that lasts until now.

    One that has changed nothing, as far as its last look goes, may be left open for the next one of this process, or of
    the same run (``leave``), which then ``goes_on``: what changes between the two, or has since that look, counts as
    changed by an agent. Whoever ends the run closes what was left open (``close``).
    """

    def __init__(self, path: str | None, first: FirstLook | None = None) -> None:
        """``first`` is the first look of a run in which others work beside this place."""
        self.path = path
        self.first = first
        self._state = _CLOSED
        self._seen: Installed | None = None  # by the last whole look of a session that this object knows

    @property
    def is_open(self) -> bool:
        """Whether a session that this object has begun has not ended."""
        return self._state != _CLOSED

    @property
    def is_unchanged(self) -> bool:
        """Whether the last look since the session began found everything as it was then, to the time of each file."""
        return self._state == _SAME

    def was_left(self, by: str) -> bool:
        """Whether a session of the same run has ended just now, and nothing that an agent has changed is left."""
        found = self._read()
        at = self._touched_at() if found.get("open") else found.get("at")
        fresh = isinstance(at, float) and 0 <= time.time() - at < _JUST_NOW
        return bool(by) and found.get("by") == by and fresh and not found["left"]

    def goes_on(self, wanted: Installed, by: str = "") -> bool:
        """Begins the next session without a look, with what the one before it has left: open, or ended just now.

        What has changed since then counts as changed by an agent. False where nothing was left so, or where ``wanted``
        are places that were not looked at then.
        """
        known = self.places() if self.is_unchanged or self.was_left(by) else None
        if known is None or not known.includes(wanted):
            return False
        if not self.is_open and not self._read().get("open"):
            self._write(known, {}, is_open=True, by=by)
        self._state = _BEGUN
        return True

    def leave(self) -> bool:
        """Leaves the session open for the next one of its run, in another process; false where something has changed.

        A session that was begun without the name of a run is not gone on with.
        """
        if not self.is_unchanged or not self.path:
            return False
        with suppress(OSError):
            os.utime(self.path, follow_symlinks=False)
        self._state = _CLOSED
        return True

    def close(self, *, project: Path) -> None:
        """Ends a session that was left open, or was killed: what has changed since it began is an agent's."""
        if self._read().get("open"):
            self.end(project=project)

    def places(self) -> Installed | None:
        """What was looked at last, with nothing of what is there now."""
        found = self._read()
        interpreters = [Interpreter.from_record(each) for each in found.get("interpreters", ())]
        if not found or None in interpreters:
            return None
        return Installed(
            interpreters=tuple(each for each in interpreters if each),
            pythons=tuple(map(str, found.get("pythons", ()))),
            programs=tuple(map(str, found.get("programs", ()))),
            search=str(found.get("search", "")),
            above=str(found.get("above", "")),
            root=str(found.get("root", "")),
            lent=tuple(map(str, found.get("lent", ()))),
            entries=found["entries"],
        )

    def changes(
        self, *, project: Path, frees: Callable[[str], bool] = lambda _: False, programs_only: bool = False
    ) -> Differences:
        """What has changed since the session began, or, where none is under way, by one that has ended.

        Compiled code of runners is written again; what is left of it could not be. Nothing is known without a record.
        ``programs_only``: for what runs nothing else of what is installed.
        """
        known = self.places()
        if known is None:
            return Differences()
        is_open = bool(self._read().get("open"))
        now = known.now(programs_only=is_open and programs_only)
        if is_open and programs_only:  # the rest is looked at by the next one that runs something
            rest = {key: text for key, text in known.entries.items() if not key.startswith((PROGRAM, LENT))}
            now = replace(now, entries={**rest, **now.entries})
        else:
            self._seen = now
        if self.is_open:
            self._state = _SAME if now.entries == known.entries else _DIFFERS
        before = known if is_open else self.before(now, project=project)
        found = differences(before, now, project=project).without(frees)
        again = bool(found.compiled) and compiled_anew(found.compiled, now.interpreters)
        return replace(found, compiled=()) if again else found

    def before(self, now: Installed, *, project: Path) -> Installed:
        """What counts as installed before: ``now``, but for what an agent has changed that may have been at work."""
        found = self._read()
        entries, left = found.get("entries", {}), found.get("left", {})
        if found.get("open"):
            kept = _of_concern(differences(replace(now, entries=entries), now, project=project))
            kept |= {key for key, value in left.items() if now.entries.get(key, "") == value}
        else:
            kept = {key for key, value in left.items() if now.entries.get(key, "") == value}
        back = {key: entries.get(key) for key in kept}
        return replace(now, entries=with_changes(now.entries, back), left=frozenset(left))

    def begin(self, now: Installed, *, project: Path, by: str = "") -> Installed:
        """The same, written down as the state before a session that begins, of a run that is called ``by``."""
        before = self.before(now, project=project)
        before = self.first.before(before, now) if self.first else before
        self._write(before, {}, is_open=True, by=by)
        self._state = _BEGUN
        return before

    def end(
        self,
        before: Installed | None = None,
        *,
        project: Path,
        frees: Callable[[str], bool] = lambda _: False,
        by: str = "",
        again: bool = True,
    ) -> None:
        """Notes what a session that ends has changed, but for what is released; without ``before``, since it began.

        ``by`` names the run that may go on with what it leaves. Without ``again`` the last look of this session counts,
        if there is one: nothing that could write there has been at work since.
        """
        before = before or self.places()
        self._state = _CLOSED
        if before is None:
            return
        now = before.now() if again or self._seen is None else self._seen
        self._seen = None
        changed = differences(before, now, project=project)
        found = changed.without(frees)
        if self.first and found != changed:
            self.first.accept(now, frees)
        if found.compiled and compiled_anew(found.compiled, now.interpreters):
            now, found = now.now(), replace(found, compiled=())
        kept = _of_concern(found)
        left = {key: now.entries.get(key, "") for key in kept}
        merged = with_changes(now.entries, {key: before.entries.get(key) for key in kept})
        self._write(replace(now, entries=merged), left, is_open=False, by=by)

    def _read(self) -> dict[str, Any]:
        if not self.path:
            return {}
        try:
            as_is = stamp_of(os.lstat(self.path))
            if _LAST.get(self.path, ("", {}))[0] != as_is:
                with os.fdopen(files.open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                    _remember(self.path, as_is, _record_in(file.read()))
        except (OSError, ValueError, RecursionError, HarnessError):
            return {}
        return _LAST[self.path][1]

    def _touched_at(self) -> float | None:
        """When the session was begun or left, in seconds since the epoch."""
        try:
            return os.lstat(self.path or "").st_mtime
        except OSError:
            return None

    def _write(self, seen: Installed, left: Mapping[str, str], *, is_open: bool, by: str = "") -> None:
        """A folder that cannot be written is passed over, as in the sandbox of an agent."""
        record = {
            "open": is_open,
            "by": by,
            "at": time.time(),
            "interpreters": [each.as_record() for each in seen.interpreters],
            "pythons": seen.pythons,
            "programs": seen.programs,
            "search": seen.search,
            "above": seen.above,
            "root": seen.root,
            "lent": seen.lent,
            "left": left,
            "entries": dict(seen.entries),
        }
        with suppress(OSError, HarnessError):
            if self.path:
                files.replace(self.path, [json.dumps(record).encode()], follow=False)
                _remember(self.path, stamp_of(os.lstat(self.path)), record)


_LAST: dict[str, tuple[str, dict[str, Any]]] = {}  # the record that was read or written last, by its path


def _remember(path: str, as_is: str, record: dict[str, Any]) -> None:
    """Only one: it can be large, and a process works on one project at a time."""
    _LAST.clear()
    _LAST[path] = (as_is, record)


def _record_in(content: bytes) -> dict[str, Any]:
    """The record of a file; ``ValueError`` where it is none."""
    found = json.loads(content)
    if not isinstance(found, dict):
        return {}
    return {**found, "entries": _texts(found.get("entries")), "left": _texts(found.get("left"))}


def _of_concern(found: Differences) -> set[str]:
    """The entries that decide in the sessions to come."""
    return {*found.steering, *found.plugins, *found.compiled, *found.lent}


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
