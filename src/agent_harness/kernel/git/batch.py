"""One long-lived ``git cat-file`` process that answers queries about git objects, one after the other."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent_harness.errors import TimedOut, UnsafeTree
from agent_harness.kernel.clock import scaled

SECONDS = 600.0
"""Time limit for one answer of ``git cat-file``, in seconds."""

BLOCK = 1 << 16
KINDS = (b"commit", b"tree", b"blob", b"tag")


class Found(NamedTuple):
    oid: str
    kind: str
    size: int


class Batch:
    """Running ``git cat-file`` process, which answers queries about git objects."""

    def __init__(self, command: Sequence[str], *, cwd: str, env: Mapping[str, str], inherit: Sequence[int]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            pass_fds=inherit,
        )
        self._read = b""
        self._until = 0.0

    def look(self, name: str) -> Found | None:
        """Return the id, kind and size of the object that a revision names, or ``None``."""
        return self._asked("info", name)

    def read(self, name: str) -> tuple[Found, bytes] | None:
        """Return the object that a revision names, together with its content, or ``None``."""
        found = self._asked("contents", name)
        return (found, self._bytes(found.size + 1)[:-1]) if found else None

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            pass

    def _asked(self, question: str, name: str) -> Found | None:
        if "\n" in name:
            return None
        self._until = time.monotonic() + scaled(SECONDS)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{question} ".encode() + os.fsencode(name) + b"\n")
        except BrokenPipeError:
            raise _gone() from None
        words = self._line().rsplit(b" ", 2)
        if len(words) != 3 or words[1] not in KINDS or not words[2].isdigit():
            return None  # missing, or ambiguous
        return Found(words[0].decode(), words[1].decode(), int(words[2]))

    def _line(self) -> bytes:
        while b"\n" not in self._read:
            self._read += self._block()
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _bytes(self, count: int) -> bytes:
        parts, length = [self._read], len(self._read)
        while length < count:
            parts.append(self._block())
            length += len(parts[-1])
        whole = b"".join(parts)
        self._read = whole[count:]
        return whole[:count]

    def _block(self) -> bytes:
        output = self._process.stdout
        assert output is not None
        waiting = select.poll()
        waiting.register(output, select.POLLIN)
        if not waiting.poll(max(0.0, self._until - time.monotonic()) * 1000):
            raise TimedOut(f"git cat-file took more than {SECONDS:.0f} seconds", hint="git status")
        block = os.read(output.fileno(), BLOCK)
        if not block:
            raise _gone()
        return block


def _gone() -> UnsafeTree:
    return UnsafeTree("git cat-file exited: an object in the repository cannot be read", hint="git fsck")
