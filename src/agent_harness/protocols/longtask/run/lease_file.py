"""Lease of one run, in the file ``.lth.lock``. At most one agent works on a task, even after a crash, or if another
program runs the task too.

    free         no lease file exists
    held         the lease ends in the future: other runs wait
    over         the lease has expired or its process is known to be dead: the lease is removed, and a new one is taken
    begun        the lease is empty or incomplete, because its writer died: held until it is 2 s old, then over
    unreadable   the lease has other content or cannot be read: held until it is 1860 s old, then over

A lease is a file, or a folder that contains ``lock.json`` (the form that another program uses). The lease is read and
changed only under the lock on the task directory, for milliseconds. A thread renews the lease during the run. A run
loses its lease permanently if another run took the lease, or if it expired while this process was suspended. Source:
``longtask.md`` 14."""

from __future__ import annotations

import os
import stat
import sys
import threading
from contextlib import suppress

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, lease
from agent_harness.kernel import owner as processes
from agent_harness.kernel.clock import timedelta
from agent_harness.kernel.json import jsontext
from agent_harness.kernel.lock_directory import START_SECONDS, delete, remove_if
from agent_harness.protocols.longtask.lifecycle import seconds_until
from agent_harness.protocols.longtask.records import moment
from agent_harness.protocols.longtask.store import DirectoryLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout


DEFAULT_TTL_SECONDS = 120
UNREADABLE_SECONDS = 1860
_LOOK_SECONDS = 1.0  # delay until a suspended run notices it


class Held:
    """Information about a lease that another run holds."""

    def __init__(self, info: JsonObject, wait_seconds: int) -> None:
        self.info = info
        self.wait_seconds = wait_seconds


class _Found:
    def __init__(self, content: bytes | None, identity: tuple[int, int], info: JsonObject, held: int) -> None:
        self.content = content
        self.identity = identity
        self.info = info
        self.held = held  # in seconds; 0: expired


class RunLease:
    """Lease of one run. The run releases it at the end of the ``with`` block."""

    def __init__(
        self,
        layout: LongTaskLayout,
        *,
        owner: str | None,
        ttl_seconds: int,
        run_id: str,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self.layout = layout
        self.owner = owner or f"{os.getpid()}@{sys.platform}"
        self.ttl_seconds = ttl_seconds
        self.token = lease.new_token()
        self.lost: str | None = None  # the reason, once it is lost
        self.retired: JsonObject | None = None  # the expired lease, if there was one
        self.run_id = run_id
        self._now = now
        self._expires_at: datetime | None = None
        self._acquired_at = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- taking

    def acquire(self) -> Held | None:
        """Take the lease and return None. If another run has the lease, return that run's lease."""
        with self._directory():
            for name in os.listdir(self.layout.root):
                if name.startswith(".lth.lock.") and (name.endswith((".new", ".old")) or ".tmp." in name):
                    with suppress(OSError):
                        delete(os.path.join(self.layout.root, name))
            found = look(self.layout, self._now())
            if found is not None:
                if found.held:
                    return Held(found.info, found.held)
                if not self._retire(found):
                    return Held(found.info, 1)
                self.retired = found.info
            if not self._create():
                return Held({"path": self.layout.lock, "message": "another run took it just now"}, 1)
        return None

    def keep(self) -> None:
        """Renew the lease regularly in a thread. ``release`` ends the thread."""
        self._thread = threading.Thread(target=self._renew_on, name="lth-lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Stop the renewal. Remove the lease file if the lease still belongs to this run."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._expires_at is None:
            return
        self._expires_at = None
        try:
            with self._directory():
                if self._is_ours():
                    os.unlink(self.layout.lock)
        except (HarnessError, OSError):
            return  # the lease expires by itself

    def __enter__(self) -> RunLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    # ---- holding

    def renew(self) -> bool:
        """Extend the lease. Return False if it is lost. After a failed write, return True until the lease expires."""
        try:
            with self._directory():
                if not self.check():
                    return False
                expires_at = self._now() + timedelta(seconds=self.ttl_seconds)
                files.replace(self.layout.lock, self._content(expires_at), mode=0o644, before=self.verify)
                self._expires_at = expires_at
        except (HarnessError, OSError):
            return self.in_time()  # retried until the lease expires
        return True

    def check(self) -> bool:
        """Return True if this run still owns the lease, and the lease has not expired.

        Before any write, call this while holding the directory lock."""
        if self.in_time() and not self._is_ours():
            self.lost = "another run took the lease"
        return self.lost is None

    def in_time(self) -> bool:
        """Return True if the lease is not lost and has not expired. No file is read."""
        if self.lost is None and (self._expires_at is None or self._now() >= self._expires_at):
            self.lost = "the lease ran out while this process was suspended"
        return self.lost is None

    def verify(self) -> None:
        """Raise an error if this run has lost its lease."""
        if not self.check():
            raise HarnessError("the lease was lost before the worker started", hint="run the same command again")

    def _renew_on(self) -> None:
        renewal = self._next_renewal()
        while not self._ended.wait(min(_LOOK_SECONDS, self.ttl_seconds / 6)):
            if not self.in_time():
                return
            if self._now() >= renewal:
                if not self.renew():
                    return
                renewal = self._next_renewal()

    def _next_renewal(self) -> datetime:
        return self._now() + timedelta(seconds=self.ttl_seconds / 3)

    # ---- files

    def _directory(self) -> DirectoryLock:
        return DirectoryLock(self.layout.root)

    def _content(self, expires_at: datetime) -> str:
        return jsontext.dumps(
            {
                "owner": self.owner,
                "pid": os.getpid(),
                "acquiredAt": self._acquired_at,
                "expiresAt": clock.timestamp(expires_at, fraction=True),
                "token": self.token,
                "host": os.uname().nodename,
                "runId": self.run_id,
                "process": processes.current().as_record(),
            }
        )

    def _create(self) -> bool:
        """Create the lease file. Return False if a lease file already exists."""
        now = self._now()
        self._acquired_at = clock.timestamp(now, fraction=True)
        expires_at = now + timedelta(seconds=self.ttl_seconds)
        if not files.create(self.layout.lock, self._content(expires_at), mode=0o644):
            return False
        self._expires_at = expires_at
        return True

    def _retire(self, found: _Found) -> bool:
        aside = f"{self.layout.lock}.{self.token}.old"
        try:
            # another run may have renewed or replaced the lease since it was read
            return remove_if(self.layout.lock, aside, lambda: _read(aside)[:2] == (found.content, found.identity))
        except OSError:
            return False

    def _is_ours(self) -> bool:
        try:
            record = jsontext.loads(_read(self.layout.lock)[0] or b"", exact=False)
        except (OSError, ValueError):
            return False
        return isinstance(record, dict) and record.get("token") == self.token


def look(layout: LongTaskLayout, now: datetime) -> _Found | None:
    """Return the current lease and the seconds until another run may take it, or None without a lease."""
    try:
        content, identity, changed_at = _read(layout.lock)
    except FileNotFoundError:
        return None
    patience = UNREADABLE_SECONDS
    try:
        info = jsontext.loads(content, exact=False) if content is not None else None
    except ValueError:
        info, patience = None, START_SECONDS
    until = moment(info.get("expiresAt")) if isinstance(info, dict) else None
    if isinstance(info, dict) and until is not None:
        holder = processes.Owner.from_record(info.get("process"))
        is_gone = holder is not None and processes.state(holder) == "dead"
        return _Found(content, identity, info, 0 if is_gone else seconds_until(until, now))
    over_at = clock.moment(changed_at) + timedelta(seconds=patience)
    unreadable: JsonObject = {
        "path": layout.lock,
        "message": "the lock cannot be read; it counts as held until it is old",
    }
    return _Found(content, identity, unreadable, seconds_until(over_at, now))


def _read(path: str) -> tuple[bytes | None, tuple[int, int], float]:
    """Return a lease's content (None if unreadable), identity and modification time."""
    found = os.lstat(path)
    inner = os.path.join(path, "lock.json") if stat.S_ISDIR(found.st_mode) else path
    content: bytes | None = None
    changed_at = found.st_mtime
    try:
        descriptor = files.open_regular(inner, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            content = os.read(descriptor, 65_536)
            changed_at = max(changed_at, os.fstat(descriptor).st_mtime)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        content = b""
    except (OSError, HarnessError):
        content = None
    return content, (found.st_dev, found.st_ino), changed_at
