"""Output of a command in bounded space: its last bytes in memory, a log with a size limit, lines of limited length.
Memory use does not grow with the length of the output. A log is written as output arrives, so it survives a crash."""

import os
import stat
from collections import deque

from agent_harness.errors import Refused

LINE_LIMIT_BYTES = 1 << 20
CUT_MARK = b" [... line cut here ...]"
HEAD_BYTES = 1 << 20
TAIL_BYTES = 9 << 20
_BACKLOG_BYTES = 4 << 20
_LINE_COST_BYTES = 50  # memory of a line in addition to its bytes


class OutputTail:
    """Buffer for the last ``keep_bytes`` bytes of an output, with a count of all bytes."""

    __slots__ = ("_held", "_keep", "_parts", "total_bytes")

    def __init__(self, keep_bytes: int) -> None:
        self._keep = max(0, keep_bytes)
        self._parts: deque[bytes] = deque()
        self._held = 0
        self.total_bytes = 0

    def add(self, part: bytes) -> None:
        self.total_bytes += len(part)
        self._parts.append(part)
        self._held += len(part)
        while self._held - len(self._parts[0]) >= self._keep and len(self._parts) > 1:
            self._held -= len(self._parts.popleft())

    def bytes(self) -> bytes:
        return b"".join(self._parts)[-self._keep :] if self._keep else b""


class HeadTail:
    """Buffer for the first and last bytes of a stream, with the number of dropped bytes."""

    __slots__ = ("_head", "_head_bytes", "_tail", "_tail_bytes")

    def __init__(self, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = OutputTail(tail_bytes)

    def add(self, part: bytes) -> None:
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += part[:room]
            part = part[room:]
        if part:
            self._tail.add(part)

    def text(self) -> str:
        """Return the kept bytes as text, with replacements for invalid UTF-8."""
        missing = self._tail.total_bytes - self._tail_bytes
        mark = b"\n[... %d bytes left out here ...]\n" % missing if missing > 0 else b""
        return b"".join((self._head, mark, self._tail.bytes())).decode("utf-8", "replace")


def clipped(text: str, limit: int = 500) -> str:
    """Return the text, or its beginning and its end if the text exceeds ``limit`` characters."""
    if len(text) <= limit:
        return text
    mark = "\n...\n"
    half = (limit - len(mark)) // 2
    return text[:half] + mark + text[len(text) - half :]


class CappedLog:
    """Log file of limited size, which keeps its first quarter and the latest output."""

    def __init__(self, path: str | os.PathLike[str], limit_bytes: int) -> None:
        self._limit = max(4096, limit_bytes)
        self._quarter = self._limit // 4
        self._cut = 0
        self._file: int | None = _open_plain(path)
        self._size = os.fstat(self._file).st_size

    def write(self, part: bytes) -> None:
        for start in range(0, len(part), self._quarter):
            piece = part[start : start + self._quarter]
            try:
                if self._size + len(piece) > self._limit:
                    self._make_room()
                self._put(piece)
            except OSError:
                self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _make_room(self) -> None:
        if self._file is None:
            return
        latest = os.pread(self._file, self._quarter, self._size - self._quarter)
        latest = latest[latest.find(b"\n", 0, 4096) + 1 :]
        self._cut += self._size - self._quarter - len(latest)
        self._size = self._quarter
        self._put(b"\n[... %d bytes cut here ...]\n" % self._cut + latest)
        os.ftruncate(self._file, self._size)

    def _put(self, piece: bytes) -> None:
        while piece and self._file is not None:
            written = os.pwrite(self._file, piece, self._size)
            self._size += written
            piece = piece[written:]


class Lines:
    """Queue of output lines that the caller has not read."""

    __slots__ = ("_held", "_lines", "_partial", "_skipping", "dropped")

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._held = 0
        self._partial = bytearray()
        self._skipping = False
        self.dropped = 0

    def feed(self, chunk: bytes) -> None:
        while self._held > _BACKLOG_BYTES and len(self._lines) > 1:
            self.pop()
            self.dropped += 1
        first, *rest = chunk.split(b"\n")
        self._extend(first)
        if rest:
            *whole, last = rest
            self._end_line()
            self._lines.extend(whole)
            self._held += sum(map(len, whole)) + _LINE_COST_BYTES * len(whole)
            self._extend(last)

    def end(self) -> None:
        """Mark the end of the output, so that an incomplete last line counts as a line."""
        if self._partial:
            self._end_line()

    def pop(self) -> bytes | None:
        """Return the oldest unread line without its line end, or ``None``."""
        if not self._lines:
            return None
        line = self._lines.popleft()
        self._held -= len(line) + _LINE_COST_BYTES
        return line

    def __bool__(self) -> bool:
        return bool(self._lines)

    def _extend(self, part: bytes) -> None:
        if self._skipping:
            return
        room = LINE_LIMIT_BYTES - len(self._partial)
        self._partial += part[:room]
        if len(part) > room:
            self._partial += CUT_MARK
            self._end_line()
            self._skipping = True

    def _end_line(self) -> None:
        if not self._skipping:
            self._lines.append(bytes(self._partial))
            self._held += len(self._partial) + _LINE_COST_BYTES
            self._partial = bytearray()
        self._skipping = False


def _open_plain(path: str | os.PathLike[str]) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o600)
    except OSError as error:
        raise Refused(
            f"The log {os.fspath(path)} cannot be written: {error.strerror}.", path=os.fspath(path)
        ) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Refused(f"The log {os.fspath(path)} is not a regular file.", path=os.fspath(path))
    return file
