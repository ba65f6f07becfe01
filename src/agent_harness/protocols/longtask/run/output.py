"""What a worker or a verification prints, held in bounded room, and the environment in which it runs.

Source: ``longtask.md`` 9, 10.2, 13.
"""

from __future__ import annotations

import os

from agent_harness.kernel.process.output import OutputTail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HEAD_BYTES", "TAIL_BYTES", "HeadTail", "clipped", "environment", "exit_status"]

HEAD_BYTES = 1 << 20
TAIL_BYTES = 9 << 20
_NOT_PASSED_ON = ("CLAUDECODE", "HARNESS_CLAIM_TOKEN", "HARNESS_RUN_ID")


class HeadTail:
    """The first and the last bytes of a stream, with a line between them that says how much is missing."""

    __slots__ = ("_head", "_head_bytes", "_tail", "_tail_bytes")

    def __init__(self, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = OutputTail(tail_bytes)

    def add(self, part: bytes) -> None:
        """Takes the next part of the stream."""
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += part[:room]
            part = part[room:]
        if part:
            self._tail.add(part)

    def text(self) -> str:
        """What is kept, as text; bytes that are not UTF-8 are replaced."""
        missing = self._tail.total_bytes - self._tail_bytes
        mark = b"\n[... %d bytes left out here ...]\n" % missing if missing > 0 else b""
        return b"".join((self._head, mark, self._tail.bytes())).decode("utf-8", "replace")


def clipped(text: str, limit: int = 500) -> str:
    """At most so many characters of a text: its beginning and its end."""
    if len(text) <= limit:
        return text
    mark = "\n...\n"
    half = (limit - len(mark)) // 2
    return text[:half] + mark + text[len(text) - half :]


def environment(told: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, as a person's own command has it, plus what is told.

    Left out is only what belongs to the run around this one.
    """
    return {**{name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}, **told}


def exit_status(code: int) -> int:
    """The exit status as a shell tells it: 128+n for death by signal n."""
    return 128 - code if code < 0 else code
