"""Where Codex keeps the session of a run: named by the person, told in its output, or the newest file of its time.

Source: ``longtask.md`` 10.4.
"""

from __future__ import annotations

import os
import re

from agent_harness.protocols.longtask.run.forbidden import expanded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find"]

_TOLD = re.compile(
    r"(?:~|/)[^\s\"'`]*?/\.codex/(?:sessions|archived_sessions)/[^\s\"'`]*?\.jsonl(?=[),.;:]*(?:[\s\"'`]|$))"
)
_FOLDERS = ("sessions", "archived_sessions")
_DEPTH = 6
_EARLIER_SECONDS, _LATER_SECONDS = 5.0, 60.0


def find(
    named: str | None, text: str, base: str, *, began: float | None = None, ended: float | None = None
) -> str | None:
    """The path of a session file, or ``None``.

    ``named`` is taken as it is, its ``~`` expanded. ``began`` and ``ended`` (seconds since 1970) bound the search of
    Codex's own folders, which is left out without them.
    """
    if named:
        return expanded(named, base) if named.startswith("~") else named
    for found in _TOLD.finditer(text):
        path = expanded(found[0], base)
        if os.path.isfile(path):
            return path
    if began is None or ended is None:
        return None
    return _newest(began - _EARLIER_SECONDS, ended + _LATER_SECONDS)


def _newest(earliest: float, latest: float) -> str | None:
    homes = dict.fromkeys(each for each in (os.environ.get("CODEX_HOME"), os.path.expanduser("~/.codex")) if each)
    found: list[tuple[float, str]] = []
    for home in homes:
        for folder in _FOLDERS:
            for path in _files(os.path.join(home, folder)):
                try:
                    changed = os.stat(path).st_mtime
                except OSError:
                    continue
                if earliest <= changed <= latest:
                    found.append((changed, path))
    return max(found)[1] if found else None


def _files(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        if os.path.relpath(folder, root).count(os.sep) + 1 >= _DEPTH:
            folders.clear()
        yield from (os.path.join(folder, name) for name in names if name.endswith(".jsonl"))
