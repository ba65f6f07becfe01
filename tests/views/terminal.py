"""The harness in a pseudo-terminal, with the screen that a person sees."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pyte

HARNESS = [sys.executable, "-m", "agent_harness.cli.main"]


class _Screen(pyte.Screen):
    """Screen that keeps the lines that have scrolled away."""

    def __init__(self, columns: int, lines: int) -> None:
        self.gone: list[str] = []
        super().__init__(columns, lines)

    def index(self) -> None:
        if self.cursor.y == self.lines - 1:
            self.gone.append(self.display[0].rstrip())
        super().index()


class Terminal:
    """The harness in a real terminal of so many columns and lines, and its screen."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        columns: int = 80,
        lines: int = 24,
        program: str = "agent_harness.cli.main",
    ) -> None:
        self.screen = _Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.received = b""
        self.program: Any = pexpect.spawn(
            HARNESS[0],
            [*HARNESS[1:-1], program, *words],
            cwd=str(folder),
            env=dict(os.environ),  # and not what a library of this process has put beside it: COLUMNS, LINES
            dimensions=(lines, columns),
            encoding=None,
            timeout=60,
        )

    def read(self, seconds: float = 0.1) -> bool:
        """Read new output; return False if the program has ended."""
        try:
            found = self.program.read_nonblocking(1 << 16, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.received += found
        self._stream.feed(found)
        return True

    def shows(self, what: Callable[[str], object]) -> str:
        """Return the screen, once it fits the condition."""
        end = time.monotonic() + 60
        while not what(found := "\n".join(self.screen.display)):
            assert self.read(), found
            assert time.monotonic() < end, found
        return found

    @property
    def all_lines(self) -> list[str]:
        """Return the lines that have scrolled away, and those on the screen."""
        return [*self.screen.gone, *(line.rstrip() for line in self.screen.display)]

    def press(self, keys: str) -> None:
        self.program.send(keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self.program.setwinsize(lines, columns)

    def ended(self) -> int | None:
        """Wait for the program's end, and return its exit code."""
        while self.read():
            pass
        self.program.wait()
        return self.program.exitstatus


def until(found: Callable[[], object]) -> Any:
    end = time.monotonic() + 120
    while not (got := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return got
