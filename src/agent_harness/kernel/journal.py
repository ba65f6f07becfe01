"""Append-only logs of JSON records or text. Each entry is one line, written by one system call if possible. If a crash
cuts off a line, the line stays, and the next record starts on a new line. Readers skip every line that is not a record.
Source: ``tasklist.md`` 10.4 and 13.1, ``longtask.md`` 15."""

from __future__ import annotations

import os

from agent_harness.kernel.files import open_regular, refusal, stamp_of
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    from agent_harness.kernel.files import AnyPath

    T = TypeVar("T")

MAX_LINE_BYTES = 16 << 20
"""Maximum length of a line in bytes. The harness never writes longer lines, and readers skip them."""

_BLOCK_BYTES = 64 << 10
_CUT = "…".encode()
_CONTROLS = [*range(32), *range(127, 160), 0x2028, 0x2029]
_ESCAPES = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _CONTROLS}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def append(path: AnyPath, record: Mapping[str, Any], *, durable: bool = False) -> None:
    """Append a record to a log as one line. With ``durable``, wait until the line is on disk."""
    _append(path, jsontext.line(dict(record)).encode("utf-8", "replace") + b"\n", durable=durable)


def append_line(path: AnyPath, text: str, *, limit_bytes: int = 4096) -> None:
    """Append a text to a log as one line of at most ``limit_bytes``."""
    line = text.translate(_ESCAPES).encode("utf-8", "replace")
    if len(line) >= limit_bytes:
        line = line[: limit_bytes - 1 - len(_CUT)].decode("utf-8", "ignore").encode() + _CUT
    _append(path, line + b"\n")


def read(path: AnyPath) -> Iterator[dict[str, Any]]:
    """Yield the records of a log, oldest first."""
    return _records(_lines(path))


def tail(path: AnyPath, count: int) -> list[dict[str, Any]]:
    """Return the last ``count`` records of a log, oldest first."""
    return _last(newest(path), count)


def newest(path: AnyPath) -> Iterator[dict[str, Any]]:
    """Yield the records of a log, newest first."""
    return _records(_lines_backwards(path))


def tail_lines(path: AnyPath, count: int) -> list[str]:
    """Return the last ``count`` nonempty lines of a file, oldest first."""
    return _last((line for line in backwards(path) if line.strip()), count)


def backwards(path: AnyPath) -> Iterator[str]:
    """Yield the lines of a file from last to first."""
    return (line.decode("utf-8", "replace") for line in _lines_backwards(path))


class News:
    __slots__ = ("anew", "damaged", "records")

    def __init__(self, records: list[dict[str, Any]], *, damaged: int = 0, anew: bool = False) -> None:
        self.records = records
        self.damaged = damaged  # lines that hold no record
        self.anew = anew  # it was replaced, cut or removed: earlier records no longer count


class Follower:
    """Reader of a growing log, which returns each complete record once."""

    __slots__ = ("_file", "_offset", "_stamp", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._offset = 0
        self._file: object = None  # the file of that offset
        self._stamp: object = None

    def news(self) -> News:
        """Return the records added since the last call.
        Raise ``Refused`` or ``StateDamaged`` if the log cannot be read."""
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return News([])
        began = self._offset > 0
        if stamp is None:
            self._offset, self._file, self._stamp = 0, None, None
            return News([], anew=began)
        try:
            descriptor = open_regular(self.path, os.O_RDONLY)
        except OSError as error:
            raise refusal(self.path, "read", error) from None
        with os.fdopen(descriptor, "rb") as file:
            anew = self._is_another(os.fstat(descriptor), descriptor)
            if anew:
                self._offset = 0
            file.seek(self._offset)
            added = file.read()
        self._stamp = stamp
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = [line for line in whole.split(b"\n") if line.strip()]
        records = [*_records(lines, exact=False)]
        return News(records, damaged=len(lines) - len(records), anew=anew and began)

    def _is_another(self, found: os.stat_result, descriptor: int) -> bool:
        """Return True if the log was replaced or truncated since the last read."""
        before, self._file = self._file, (found.st_dev, found.st_ino)
        grown = self._file == before and found.st_size >= self._offset
        return not (grown and (not self._offset or os.pread(descriptor, 1, self._offset - 1) == b"\n"))


def _append(path: AnyPath, line: bytes, *, durable: bool = False) -> None:
    try:
        descriptor = _open_to_append(path)
        try:
            end = os.fstat(descriptor).st_size
            if not _ends_a_line(descriptor, end):
                line = b"\n" + line
            end = _write(descriptor, line)
            if not line.startswith(b"\n") and not _ends_a_line(descriptor, end - len(line)):
                _write(descriptor, b"\n" + line)  # another process died in the middle of its line just now
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise refusal(path, "added to", error) from None


def _open_to_append(path: AnyPath) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    try:
        return open_regular(path, flags)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(os.fspath(path)), exist_ok=True)
        return open_regular(path, flags)


def _ends_a_line(descriptor: int, end: int) -> bool:
    return end == 0 or os.pread(descriptor, 1, end - 1) == b"\n"


def _write(descriptor: int, line: bytes) -> int:
    # one system call is enough unless the disk is full
    while line:
        line = line[os.write(descriptor, line) :]
    return os.lseek(descriptor, 0, os.SEEK_CUR)


def _records(lines: Iterable[bytes], *, exact: bool = True) -> Iterator[dict[str, Any]]:
    for line in lines:
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            record = jsontext.loads(line, exact=exact)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def _last(newest_first: Iterator[T], count: int) -> list[T]:
    found = [item for _, item in zip(range(count), newest_first, strict=False)]
    found.reverse()
    return found


def _lines(path: AnyPath) -> Iterator[bytes]:
    descriptor = _open_to_read(path)
    if descriptor is None:
        return
    with os.fdopen(descriptor, "rb") as file:
        is_start = True
        while piece := file.readline(MAX_LINE_BYTES):
            is_end = piece.endswith(b"\n")
            if is_start and (is_end or len(piece) < MAX_LINE_BYTES):
                yield piece
            is_start = is_end


def _lines_backwards(path: AnyPath) -> Iterator[bytes]:
    """Yield the lines of a file from last to first, without their line ends."""
    descriptor = _open_to_read(path)
    if descriptor is None:
        return
    with os.fdopen(descriptor, "rb") as file:
        later: list[bytes] = []  # known parts of the line that begins in an earlier block, last part first
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            first, *lines = os.pread(file.fileno(), end - start, start).split(b"\n")
            if lines:
                yield b"".join([lines.pop(), *reversed(later)])
                yield from reversed(lines)
                later = []
            if len(later) * _BLOCK_BYTES > MAX_LINE_BYTES:
                later = []  # only its beginning is yielded, which is not a record
            later.append(first)
            end = start
        yield b"".join(reversed(later))


def _open_to_read(path: AnyPath) -> int | None:
    try:
        return open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refusal(path, "read", error) from None
