"""What was installed before an agent started, kept outside of the project from one session to the next."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.verification.runner.installed import Installed
from agent_harness.verification.runner.installed_changes import Differences, compiled_anew, differences
from agent_harness.verification.runner.interpreters import Interpreter


class InstalledRecord:
    """What was installed before an agent started, in one file outside of the project; ``None`` as its path keeps none.

    What a session has changed that steers tests stays a change in the sessions after it, until it is put back, somebody
    else changes it again, or a person releases it. A session that did not end counts as one that lasts until now.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path

    def places(self) -> Installed | None:
        """What was looked at last, with nothing of what is there now."""
        found = self._read()
        interpreters = [Interpreter.from_record(each) for each in found.get("interpreters", ())]
        if not found or None in interpreters:
            return None
        return Installed(
            interpreters=tuple(each for each in interpreters if each),
            programs=tuple(map(str, found.get("programs", ()))),
            search=str(found.get("search", "")),
            above=str(found.get("above", "")),
            entries=_texts(found.get("entries")),
        )

    def changes(self, *, project: Path, frees: Callable[[str], bool] = lambda _: False) -> Differences:
        """What has changed since the session began, or, where none is under way, by one that has ended.

        Compiled code of runners is written again; what is left of it could not be. Nothing is known without a record.
        """
        known = self.places()
        if known is None:
            return Differences()
        now = known.now()
        before = known if self._read().get("open") else self.before(now, project=project)
        found = differences(before, now, project=project).without(frees)
        again = bool(found.compiled) and compiled_anew(found.compiled, now.interpreters)
        return replace(found, compiled=()) if again else found

    def before(self, now: Installed, *, project: Path) -> Installed:
        """What counts as installed before: ``now``, but for what an agent has changed that may have been at work."""
        found = self._read()
        entries, left = _texts(found.get("entries")), _texts(found.get("left"))
        if found.get("open"):
            kept = _of_concern(differences(replace(now, entries=entries), now, project=project))
            kept |= {key for key, value in left.items() if now.entries.get(key, "") == value}
        else:
            kept = {key for key, value in left.items() if now.entries.get(key, "") == value}
        back = {key: entries[key] for key in kept if key in entries}
        rest = {key: value for key, value in now.entries.items() if key not in kept}
        return replace(now, entries={**rest, **back}, left=frozenset(left))

    def begin(self, now: Installed, *, project: Path) -> Installed:
        """The same, written down as the state before a session that begins."""
        before = self.before(now, project=project)
        self._write(before, {}, is_open=True)
        return before

    def end(
        self, before: Installed | None = None, *, project: Path, frees: Callable[[str], bool] = lambda _: False
    ) -> None:
        """Notes what a session that ends has changed, but for what is released; without ``before``, since it began."""
        before = before or self.places()
        if before is None:
            return
        now = before.now()
        found = differences(before, now, project=project).without(frees)
        if found.compiled and compiled_anew(found.compiled, now.interpreters):
            now, found = now.now(), replace(found, compiled=())
        kept = _of_concern(found)
        left = {key: now.entries.get(key, "") for key in kept}
        merged = {key: value for key, value in now.entries.items() if key not in kept}
        merged |= {key: before.entries[key] for key in kept if key in before.entries}
        self._write(replace(now, entries=merged), left, is_open=False)

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(Path(self._path).read_bytes()) if self._path else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, seen: Installed, left: Mapping[str, str], *, is_open: bool) -> None:
        """A folder that cannot be written is passed over, as in the sandbox of an agent."""
        record = {
            "open": is_open,
            "interpreters": [each.as_record() for each in seen.interpreters],
            "programs": seen.programs,
            "search": seen.search,
            "above": seen.above,
            "entries": seen.entries,
            "left": left,
        }
        with suppress(OSError, HarnessError):
            if self._path:
                files.replace(self._path, json.dumps(record))


def _of_concern(found: Differences) -> set[str]:
    """The entries that decide in the sessions to come."""
    return {*found.steering, *found.plugins, *found.compiled}


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
