"""Evidence: what an item is, when two are the same, the window in the checkpoint, and what leaves it.

Source: ``longtask.md`` 3.3, 12.
"""

from __future__ import annotations

from agent_harness.protocols.longtask import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.store import CheckpointChange

    Record = dict[str, Any]

__all__ = ["ORDER", "add", "everything", "in_order"]

ORDER = (
    "type",
    "path",
    "criterionId",
    "criteria",
    "source",
    "observedAt",
    "command",
    "exitCode",
    "status",
    "text",
    "output",
    "note",
    "summary",
    "manifestPath",
)
"""The members of an item in the order in which they are written."""


def in_order(item: Record) -> Record:
    """The item with its known members in their order, the others behind them, and none that is absent (``None``)."""
    known = {name: item[name] for name in ORDER if item.get(name) is not None}
    return {**known, **{name: value for name, value in item.items() if name not in ORDER and value is not None}}


def everything(layout: LongTaskLayout, checkpoint: Record) -> tuple[list[Record], int]:
    """Archived items, then the window, none twice; and how many damaged lines of the archive were passed over."""
    archived, skipped = log.archived(layout, checkpoint)
    window = checkpoint.get("evidence")
    items = [each for each in window if isinstance(each, dict)] if isinstance(window, list) else []
    known = {log.identity(each) for each in items}
    return [*(each for each in archived if log.identity(each) not in known), *items], skipped


def add(change: CheckpointChange, *items: Record) -> bool:
    """Puts items into the window; what no longer fits goes to the archive. True when something was archived.

    An item that is in the window already is passed over. ``OutsideTask`` when the archive would lie elsewhere.
    """
    raw = change.checkpoint.raw
    window = list(change.checkpoint.items("evidence"))
    known = {log.identity(each) for each in window if isinstance(each, dict)}
    for item in items:
        if log.identity(item) not in known:
            known.add(log.identity(item))
            window.append(in_order(item))
    size = change.task.window
    raw["evidence"] = window[-size:]
    change.touch()
    overflow = window[:-size]
    if overflow:
        _archive(change, overflow)
    return bool(overflow)


def _archive(change: CheckpointChange, items: list[Record]) -> None:
    path = log.archive_of(change.task)
    change.layout.inside(path, "evidencePolicy.archivePath")
    before = change.checkpoint.section("evidenceArchive").get("archivedCount")
    if before is None:
        before = len(log.archived(change.layout, change.checkpoint.raw)[0])
    for item in items:
        change.archive(item)
    change.checkpoint.raw["evidenceArchive"] = {
        **change.checkpoint.section("evidenceArchive"),
        "path": path,
        "archivedCount": int(before) + len(items),
        "updatedAt": change.at,
    }
