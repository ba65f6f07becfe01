"""Requests of people to the coordinator of a run, as files in ``parallel/mailbox``.

    ID.json          {"id", "verb", "args", "by", "at"}, made by whoever asks
    ID.taken.json    the same, once the coordinator is at it: by rename, so that nobody can take it back any more
    ID.answer.json   from the coordinator; whoever asked takes it away

A request whose asker has died is forgotten. Whatever else is there is named once, and left alone.
"""

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, owner
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.owner import Owner

_NAME = re.compile(r"([0-9a-f]{24})(\.taken|\.answer)?\.json")
_LONGEST = 64 * 1024
_HALF = re.compile(r"[0-9a-f]{24}\.(taken\.|answer\.)?json\.tmp\..*")
_STALE_SECONDS = 600.0


class Mailbox:
    """That of the runs in ``folder``."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "mailbox")
        self._named: set[str] = set()

    def _path(self, request: str, kind: str = "") -> str:
        return os.path.join(self._folder, f"{request}{kind}.json")

    # ---- who asks

    def post(self, verb: str, args: JsonObject) -> str:
        """Leaves a request; its id."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        request = secrets.token_hex(12)
        known = {"id": request, "verb": verb, "args": args, "by": owner.current().as_record(), "at": clock.timestamp()}
        files.write_json(self._path(request), known, follow=False)
        return request

    def answered(self, request: str) -> JsonObject | None:
        """The answer, which is there once."""
        path = self._path(request, ".answer")
        try:
            found = files.read_json(path)
        except (OSError, HarnessError):
            return None
        files.unlink(path)
        return found

    def withdraw(self, request: str) -> bool:
        """Takes a request back; false where the coordinator is at it, or has answered."""
        try:
            os.unlink(self._path(request))
        except FileNotFoundError:
            return False
        return True

    def forget(self, request: str) -> None:
        """Nothing of it is left."""
        for kind in ("", ".taken", ".answer"):
            files.unlink(self._path(request, kind))

    # ---- the coordinator

    def taken(self, say: Callable[[str], None]) -> Iterator[JsonObject]:
        """The requests that are to be answered, in the order in which they were made."""
        try:
            entries = sorted(os.scandir(self._folder), key=lambda each: each.stat(follow_symlinks=False).st_mtime_ns)
        except OSError:  # none, or one that was taken back in this moment
            return
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            if _HALF.fullmatch(entry.name) or (found and found[2] == ".answer"):
                self._forget_stale(entry)
                continue
            request = self._read(entry) if found else None
            if request is None or found is None or request["id"] != found[1]:
                self._name(entry.name, say)
                continue
            by = Owner.from_record(request.get("by"))
            if by is None or owner.state(by) == "dead":
                self.forget(found[1])
                continue
            if not found[2]:
                try:
                    os.rename(entry.path, self._path(found[1], ".taken"))
                except FileNotFoundError:
                    continue
            yield request

    def _read(self, entry: "os.DirEntry[str]") -> JsonObject | None:
        try:
            seen = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(seen.st_mode) or seen.st_size > _LONGEST:
                return None
            found = files.read_json(entry.path)
        except (OSError, HarnessError):
            return None
        is_known = isinstance(found.get("verb"), str) and isinstance(found.get("args"), dict)
        return found if is_known and isinstance(found.get("id"), str) else None

    def _forget_stale(self, entry: "os.DirEntry[str]") -> None:
        """What somebody who died has left here."""
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - _STALE_SECONDS:
                os.unlink(entry.path)

    def _name(self, name: str, say: Callable[[str], None]) -> None:
        if name not in self._named:
            self._named.add(name)
            say(f"{os.path.join(self._folder, name)} is no request, and is ignored")

    def answer(self, request: str, found: JsonObject) -> None:
        """Answers a request, which is done with that."""
        with suppress(HarnessError, OSError):
            files.write_json(self._path(request, ".answer"), {"id": request, **found}, follow=False)
        files.unlink(self._path(request, ".taken"))
