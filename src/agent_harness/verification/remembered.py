"""Store for the results of checks on base commits. A check then runs only once on each base commit."""

import hashlib
import os
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.verification.verdict import GREEN, RED

_MOST_KEPT = 1000  # answers kept, the newest


class Remembered:
    """Stored check results, by tree and command, in a file outside the project."""

    # An altered record costs a run or a wrong warning; it can reject work only if ``requires_red`` is ``reject``.

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = os.fspath(path) if path else None

    def get(self, tree: str, folder: str, command: str) -> str | None:
        found = self._read().get(_key(tree, folder, command))
        return found if found in (RED, GREEN) else None

    def put(self, tree: str, folder: str, command: str, answer: str) -> None:
        if self._path is None:
            return
        known = self._read()
        known.pop(key := _key(tree, folder, command), None)
        kept = dict(list(known.items())[-_MOST_KEPT + 1 :])
        try:
            files.write_json(self._path, {**kept, key: answer})
        except OSError:
            return

    def _read(self) -> dict[str, Any]:
        try:
            return files.read_json(self._path) if self._path else {}
        except (OSError, HarnessError):
            return {}


def _key(tree: str, folder: str, command: str) -> str:
    return hashlib.sha256("\0".join((tree, folder, command)).encode("utf-8", "surrogateescape")).hexdigest()
