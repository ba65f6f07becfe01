"""What speaks against a criterion before its command runs: a worker has bent a file that it stands on.

``criteria_guard`` finds it and writes ``sessions/guard.json``; everybody who verifies reads it.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Record = dict[str, Any]

__all__ = ["FILE", "against", "content_of", "digest_of", "standing", "written"]

FILE = "sessions/guard.json"
_MEMBERS = ("criterion", "path", "before", "after", "message")


def against(layout: LongTaskLayout, criterion: str) -> str | None:
    """Why a criterion fails, whatever its command says; ``None`` when nothing speaks against it."""
    return next((str(each["message"]) for each in standing(layout) if each["criterion"] == criterion), None)


def standing(layout: LongTaskLayout) -> list[Record]:
    """The objections about files that are still as a worker left them; a person may have edited the others."""
    return [each for each in written(layout) if digest_of(content_of(each["path"])) == each["after"]]


def written(layout: LongTaskLayout) -> list[Record]:
    """Every objection on record; a record that cannot be read is none."""
    if not os.path.lexists(os.path.join(layout.root, FILE)):
        return []
    try:
        found = files.read_json(layout.inside(FILE), exact=False).get("objections")
    except (HarnessError, OSError):
        return []
    listed = found if isinstance(found, list) else []
    return [each for each in listed if isinstance(each, dict) and all(isinstance(each.get(n), str) for n in _MEMBERS)]


def content_of(path: str) -> bytes | None:
    """The content of a regular file; ``None`` for anything else, and when it cannot be read."""
    try:
        return files.read_bytes(path)
    except (HarnessError, OSError, ValueError):
        return None


def digest_of(content: bytes | None) -> str:
    """Tells a content from every other; empty for none."""
    from agent_harness.kernel import digest

    return "" if content is None else digest.sha256(content)
