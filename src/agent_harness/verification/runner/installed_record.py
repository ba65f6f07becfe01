"""Record of the installed files before an agent started. It is outside the project and lasts between sessions."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.verification.runner.installed import PROGRAM, Installed, stamp_of, with_changes
from agent_harness.verification.runner.installed_changes import Differences, differences, without_compiled
from agent_harness.verification.runner.interpreters import Interpreter

_CLOSED, _BEGUN, _SAME, _DIFFERS = "closed", "begun", "same", "differs"  # of a session that this process has begun
_JUST_NOW = 60.0  # seconds between two orders of a slot at work; after more, a person may have been there
_KEPT = ("pythons", "programs", "search", "above", "root", "lent", "closed")  # of a look, beside its entries


class FirstLook:
    """Record of shared installed files from before the run's first agent."""

    # Without it, a change by one agent would seem old to a workspace that is recorded later.

    def __init__(self, path: str, run: str, inside: str) -> None:
        self._path = path
        self._run = run
        self._inside = (f"{inside}/", f"{os.path.realpath(inside)}/")

    def before(self, before: Installed, now: Installed) -> Installed:
        """Return ``before``, with shared files in the state from before the run's first agent."""
        shared = tuple(each for each in now.interpreters if not each.prefix.startswith(self._inside))
        outside = now if shared == now.interpreters else replace(now, interpreters=shared, above="", lent=()).now()
        tells = _scope(shared, now.programs)
        found, there, mine = outside.entries, now.entries, before.entries

        def is_shared(key: str, value: str) -> bool:
            is_same = found.get(key) == there.get(key)  # else one of the place's own goes before it
            return is_same and not self._is_inside(key, value) and tells(key, value)

        here = {key: value for key, value in mine.items() if is_shared(key, value)}
        with suppress(OSError, HarnessError), self._held() as known:
            first, seen = _texts(known.get("entries")), _interpreters(known)
            named = tuple(map(str, known.get("programs") or ()))
            both = dict.fromkeys((*seen, *shared)), dict.fromkeys((*named, *now.programs))
            if tuple(map(len, both)) != (len(seen), len(named)):  # a look at what nobody has looked at before
                told = _scope(seen, named)
                first = {key: value for key, value in here.items() if not told(key, value)} | first
                record = {"run": self._run, "interpreters": [each.as_record() for each in both[0]]}
                files.write_json(self._path, {**record, "programs": [*both[1]], "entries": first})
            first = {key: value for key, value in first.items() if is_shared(key, value)}
            differs = {key for key in {**here, **first} if here.get(key) != first.get(key)}
            changed = {key: first.get(key) for key in differs if mine.get(key) == there.get(key)}
            return replace(before, entries=with_changes(before.entries, changed))
        return before

    def accept(self, now: Installed, frees: Callable[[str], bool]) -> None:
        """Add the changes that the user allows to the shared record."""
        with suppress(OSError, HarnessError), self._held() as known:
            first, there = _texts(known.get("entries")), now.entries
            for key in first.keys() | there.keys():
                value = there.get(key, "")
                if frees(_path_of(key, value or first[key])) and not self._is_inside(key, value):
                    first[key] = value
            files.write_json(self._path, known | {"entries": {key: value for key, value in first.items() if value}})

    def _is_inside(self, key: str, value: str) -> bool:
        return key.startswith(self._inside) or any(part.startswith(self._inside) for part in value.split("\t"))

    @contextmanager
    def _held(self) -> Iterator[dict[str, Any]]:
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = files.read_json_if_any(self._path)
            yield known if known.get("run") == self._run else {}
        finally:
            os.close(lock)


def _path_of(key: str, value: str) -> str:
    return key if key.startswith("/") else value.rpartition("\t")[2]


def _scope(interpreters: tuple[Interpreter, ...], programs: tuple[str, ...]) -> Callable[[str, str], bool]:
    """Return a function that tells whether an entry belongs to these interpreters or programs."""
    names = {f"{PROGRAM}{name}" for name in programs}
    own = {file for each in interpreters for file in (each.executable, f"{each.prefix}/pyvenv.cfg")}
    folders = tuple({f"{at}/" for each in interpreters for at in each.sites})

    def tells(key: str, value: str) -> bool:
        path = _path_of(key, value)
        return key in names if key.startswith(PROGRAM) else path in own or path.startswith(folders)

    return tells


class InstalledRecord:
    """Record of installed files from before the agent's start. Its file is outside the project."""

    # A change that influences tests counts until it is undone or allowed; a killed session counts as running.

    def __init__(self, path: str | None, first: FirstLook | None = None) -> None:
        self.path = path
        self.first = first
        self._state = _CLOSED
        self._seen: Installed | None = None  # by the last whole look of a session that this object knows

    @property
    def is_open(self) -> bool:
        """True while the session that this object began has not ended."""
        return self._state != _CLOSED

    @property
    def is_unchanged(self) -> bool:
        return self._state == _SAME

    def goes_on(self, wanted: Installed, by: str = "") -> bool:
        """Begin the next session with the previous session's record. Return False if that is impossible."""
        # changes since that record count as made by an agent
        found, known = self._read(), self.places()
        if known is None or not known.includes(wanted) or not (self.is_unchanged or self._was_left(found, by)):
            return False
        if not self.is_open and not found.get("open"):
            self._write(known, {}, is_open=True, by=by)
        self._state = _BEGUN
        return True

    def _was_left(self, found: Mapping[str, Any], by: str) -> bool:
        at = found.get("at")
        if found.get("open"):
            with suppress(OSError):
                at = os.lstat(self.path or "").st_mtime
        fresh = isinstance(at, float) and 0 <= time.time() - at < _JUST_NOW
        return bool(by) and found.get("by") == by and fresh and not found["left"]

    def leave(self) -> bool:
        """Leave the session open for the run's next process. Return False if files changed or no record exists."""
        if not self.is_unchanged or not self.path:
            return False
        with suppress(OSError):
            os.utime(self.path, follow_symlinks=False)
        self._state = _CLOSED
        return True

    def close(self, *, project: Path) -> None:
        # changes since its start count as made by an agent
        if self._read().get("open"):
            self.end(project=project)

    def places(self) -> Installed | None:
        found = self._read()
        interpreters = _interpreters(found)
        if not found or len(interpreters) < len(found.get("interpreters", ())):
            return None
        texts: dict[str, Any] = {name: found[name] for name in _KEPT if name in found}
        texts = {name: each if isinstance(each, str) else tuple(map(str, each)) for name, each in texts.items()}
        return Installed(interpreters=interpreters, entries=found["entries"], **texts)

    def changes(
        self, *, project: Path, frees: Callable[[str], bool] = lambda _: False, programs_only: bool = False
    ) -> Differences:
        """Return the changes since the session began. If no session is open, return the changes that earlier sessions
        left."""
        known = self.places()
        if known is None:
            return Differences()
        is_open = bool(self._read().get("open"))
        now = known.now(programs_only=is_open and programs_only)
        if not (is_open and programs_only):
            self._seen = now
        if self.is_open:
            self._state = _SAME if now.entries == known.entries else _DIFFERS
        before = known if is_open else self.before(now, project=project)
        return without_compiled(differences(before, now, project=project).without(frees), now.interpreters)

    def before(self, now: Installed, *, project: Path) -> Installed:
        """Return the state before the session. It is ``now`` without the changes that count as made by agents."""
        found, now = self._read(), self._widened(now)
        entries, left = found.get("entries", {}), found.get("left", {})
        kept = {key for key, value in left.items() if now.entries.get(key, "") == value}
        if found.get("open"):
            kept |= _of_concern(differences(replace(now, entries=entries), now, project=project))
        back = {key: entries.get(key) for key in kept}
        return replace(now, entries=with_changes(now.entries, back), left=frozenset(left))

    def _widened(self, now: Installed) -> Installed:
        """Return ``now``, extended by the files that agents in open sessions could change."""
        found, known = self._read(), self.places()
        if known is None or not (found.get("open") or found["left"]):
            return now
        interpreters = tuple(dict.fromkeys((*now.interpreters, *known.interpreters)))
        open_now, open_then = (
            {path for each in looks.interpreters for path in each.places} - {*looks.closed} for looks in (now, known)
        )
        closed = tuple(path for path in dict.fromkeys((*now.closed, *known.closed)) if path not in open_now | open_then)
        # these agents may have worked without a sandbox
        if (interpreters, {*closed}) == (now.interpreters, {*now.closed}):
            return now
        return replace(now, interpreters=interpreters, closed=closed).now()

    def begin(self, now: Installed, *, project: Path, by: str = "") -> Installed:
        now = self._widened(now)
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
        before, seen = before or self.places(), self._seen
        self._state, self._seen = _CLOSED, None
        if before is None:
            return
        # with ``again=False``, the caller knows that no agent has run since
        now = before.now() if again or seen is None else seen
        changed = differences(before, now, project=project)
        found = changed.without(frees)
        if self.first and found != changed:
            self.first.accept(now, frees)
        clean = without_compiled(found, now.interpreters)
        now, kept = now if clean is found else now.now(), _of_concern(clean)
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
                    found = json.load(file)
                texts = {name: _texts(found.get(name)) for name in ("entries", "left")} if found else {}
                self._remember(as_is, {**found, **texts})
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, HarnessError):
            return {}
        return _LAST[self.path][1]

    def _write(self, seen: Installed, left: Mapping[str, str], *, is_open: bool, by: str = "") -> None:
        record = {
            "open": is_open,
            "by": by,
            "at": time.time(),
            "interpreters": [each.as_record() for each in seen.interpreters],
            **{name: getattr(seen, name) for name in _KEPT},
            "left": left,
            "entries": dict(seen.entries),
        }
        # an agent's sandbox may not write here
        with suppress(OSError, HarnessError):
            if self.path:
                files.replace(self.path, [json.dumps(record).encode()])
                self._remember(stamp_of(os.lstat(self.path)), record)

    def _remember(self, as_is: str, record: dict[str, Any]) -> None:
        # records are large, and a process works on one project at a time
        _LAST.clear()
        _LAST[str(self.path)] = (as_is, record)


_LAST: dict[str, tuple[str, dict[str, Any]]] = {}  # the record that was read or written last, by its path


def _interpreters(record: Mapping[str, Any]) -> tuple[Interpreter, ...]:
    return tuple(each for row in record.get("interpreters") or () if (each := Interpreter.from_record(row)))


def _of_concern(found: Differences) -> set[str]:
    return {*found.steering, *found.plugins, *found.compiled, *found.lent}


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
