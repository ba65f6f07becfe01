"""Limit on blocked stops of a session without progress. The file ``.harness/stops.json`` contains the number of stops.

Progress resets this number. The possible progress is finite: attempts, completions, and up to 50 checkpoints per
attempt. The number of all blocked stops of a session is therefore finite too. It is at most the limit times (resets
plus one), and never more than 1000. Source: ``tasklist.md`` 6.3."""

from __future__ import annotations

import os
import time

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.tasklist.layout import TaskListLayout

__all__ = ["HARD_LIMIT", "LIMIT", "TEAMMATE_LIMIT", "Call", "Count", "Stops", "counted", "limit_from"]

LIMIT = 7
"""Default limit on blocked stops. It is one less than Claude Code's limit, so that the harness's message appears
first.
"""

TEAMMATE_LIMIT = 8
HARD_LIMIT = 1000
"""Limit on all blocked stops of one session, even if the session makes progress."""

SAME_CALL_SECONDS = 2.0
KEPT_SESSIONS = 200
MAX_BYTES = 1 << 20


class Call:
    """Facts about one call of the stop hook, for the count of blocked stops."""

    __slots__ = ("at", "message", "new_turn", "signature", "started_at")

    def __init__(self, signature: str, message: str, *, new_turn: bool, at: float, started_at: float | None) -> None:
        self.signature = signature
        self.message = message  # a digest of the agent's last text
        self.new_turn = new_turn
        self.at = at  # seconds since 1970
        self.started_at = started_at  # start of this process; None if the system does not say


class Count:
    """Number of blocked stops of a session, and whether the limit is reached."""

    __slots__ = ("blocks", "limit", "reached", "recorded")

    def __init__(self, blocks: int, limit: int, *, reached: bool, recorded: bool = True) -> None:
        self.blocks = blocks
        self.limit = limit
        self.reached = reached
        self.recorded = recorded


def limit_from(environ: Mapping[str, str]) -> int:
    """Return the limit in ``HARNESS_MAX_BLOCKS`` as a number from 3 to 50, or 7 without a valid number."""
    try:
        return min(50, max(3, int(environ.get("HARNESS_MAX_BLOCKS", ""))))
    except ValueError:
        return LIMIT


def counted(entry: Mapping[str, Any], call: Call, limit: int) -> tuple[dict[str, Any], Count]:
    """Return a session's entry and count of blocked stops after this call. Write nothing."""
    blocks, total = _number(entry.get("blocks")), _number(entry.get("total"))
    moved = entry.get("signature") != call.signature
    if _is_same_call(entry, call):
        return dict(entry), Count(blocks, limit, reached=blocks > limit or total > HARD_LIMIT)
    blocks = 1 if moved or call.new_turn else blocks + 1
    reached = blocks > limit or total >= HARD_LIMIT
    after = {
        **entry,
        "blocks": min(blocks, limit + 1),
        "total": total if reached else total + 1,
        "signature": call.signature,
        "message": call.message,
        "at": call.at,
    }
    return after, Count(blocks, limit, reached=reached)


def _is_same_call(entry: Mapping[str, Any], call: Call) -> bool:
    """Return True if a second registration of the hook reports the same stop again."""
    before = entry.get("at")
    if isinstance(before, bool) or not isinstance(before, (int, float)):
        return False
    if (entry.get("signature"), entry.get("message")) != (call.signature, call.message):
        return False
    if not 0 <= call.at - before < SAME_CALL_SECONDS:
        return False
    # the two calls overlap: the next stop comes only after the first answer
    return call.started_at is None or call.started_at <= before


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def process_start() -> float | None:
    """Return the latest possible start time of this process, or ``None``."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        # one more tick, because the system counts in hundredths of a second
        up = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks + 1) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return time.time() - up


class Stops:
    """Counts of blocked stops for each session, stored in ``.harness/stops.json``."""

    __slots__ = ("_directory", "_path")

    def __init__(self, layout: TaskListLayout) -> None:
        self._directory = layout.state_dir
        self._path = layout.stops

    def entry(self, key: str) -> dict[str, Any]:
        found = self._read().get(_short(key))
        return found if isinstance(found, dict) else {}

    def count(self, key: str, call: Call, limit: int) -> Count:
        after, count = counted(self.entry(key), call, limit)
        count.recorded = self.write(key, after)
        return count

    def write(self, key: str, entry: Mapping[str, Any] | None) -> bool:
        sessions = self._read()
        sessions.pop(_short(key), None)
        if entry is not None:
            sessions[_short(key)] = dict(entry)
        kept = dict(list(sessions.items())[-KEPT_SESSIONS:])
        try:
            self._replace(jsontext.dumps({"sessions": kept}).encode("utf-8", "replace"))
        except (OSError, ValueError):
            return False
        return True

    def forget(self, key: str) -> None:
        """Reset the session's present count of blocked stops to 0, but keep the total count."""
        entry = self.entry(key)
        if entry.get("blocks"):
            self.write(key, {**entry, "blocks": 0, "at": None})

    def _read(self) -> dict[str, Any]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                found = jsontext.loads(os.read(descriptor, MAX_BYTES), exact=False)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            return {}
        sessions = found.get("sessions") if isinstance(found, dict) else None
        return dict(sessions) if isinstance(sessions, dict) else {}

    def _replace(self, content: bytes) -> None:
        if not os.path.isdir(self._directory):
            os.mkdir(self._directory)
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        temporary = f"stops.json.tmp.{os.getpid()}.{os.urandom(6).hex()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
            try:
                while content:
                    content = content[os.write(descriptor, content) :]
            finally:
                os.close(descriptor)
            # it replaces a symbolic link, and not the target
            os.rename(temporary, "stops.json", src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            _unlink(temporary, folder)
            raise
        finally:
            os.close(folder)


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return


def _short(key: str) -> str:
    if len(key) <= 120 and key.isascii():
        return key
    return f"{digest(key)}-{key[:40].encode('ascii', 'replace').decode()}"


def digest(text: str) -> str:
    from binascii import crc32

    raw = text.encode("utf-8", "surrogatepass")
    return f"{len(raw)}-{crc32(raw):08x}"
