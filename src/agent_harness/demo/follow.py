"""New lines of files that other processes write, as they come."""

import json
from pathlib import Path
from typing import Any

from agent_harness.kernel.terminal import one_line

_BLOCK = 1 << 20


class Follow:
    """Hands out each whole line of a growing file once; a file that is not there yet has none.

    A file that shrank was started anew and is read from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> list[str]:
        """The lines that were completed since the last call, without their line ends."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                found = file.read(_BLOCK)
        except FileNotFoundError:
            return []
        whole = found[: found.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode("utf-8", "replace").splitlines()

    def records(self) -> list[dict[str, Any]]:
        """The new lines that are JSON objects; all others are passed over."""
        return [record for record in map(_record, self.lines()) if record is not None]


def _record(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


_SHOWN_AS = (
    ("[FILE:WRITE] ", "writes "),
    ("[CMD:RUN] ", "$ "),
    ("[VERIFY:PASS] ", "says that the tests pass: "),
    ("[VERIFY:FAIL] ", "says that the tests fail: "),
    ("[DECISION] ", "decides: "),
    ("$ ", None),  # the command once more
    ("[CMD:OUTPUT]", None),
    ("[CMD:EXIT] 0", None),
    ("[VERIFY:START]", None),
    ("[usage]", None),
    ("[end] ended its turn", None),
)


def spoken(line: str) -> str | None:
    """A line of a session's transcript as a watching person wants it; ``None`` for what only repeats or counts."""
    for prefix, shown in _SHOWN_AS:
        if line.startswith(prefix):
            return None if shown is None else shown + line.removeprefix(prefix)
    return line if line.strip() else None


def printable(text: object, limit: int = 200) -> str:
    """One line of what somebody else wrote, fit for a terminal, cut at ``limit`` characters."""
    line = one_line(str(text))
    return line if len(line) <= limit else line[: limit - 1] + "…"
