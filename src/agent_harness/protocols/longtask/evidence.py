"""Evidence: what an item is, when two are the same, the window in the checkpoint, what leaves it, and whose word it is.

The contract is a person's word as well: what a worker has made of it counts only once a person has accepted it.

A manual criterion is a person's to decide. From the first slice on, ``words.jsonl`` in the task's folder outside of it
(``kernel/trusted_state.py``) names each item that was there before a worker, or that a person's command has recorded
since. A task without this file, made elsewhere or never run here, is believed as it is found. Source: ``longtask.md``
3.3, 12, 13.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import files, journal
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import log, schema
from agent_harness.protocols.longtask.records import EvidenceItem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.records import Checkpoint, Contract
    from agent_harness.protocols.longtask.store import CheckpointChange


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


def in_order(item: JsonObject) -> JsonObject:
    """The item with its known members in their order, the others behind them, and none that is absent (``None``)."""
    known = {name: item[name] for name in ORDER if item.get(name) is not None}
    return {**known, **{name: value for name, value in item.items() if name not in ORDER and value is not None}}


def everything(layout: LongTaskLayout, checkpoint: Checkpoint) -> tuple[list[EvidenceItem], int]:
    """Archived items, then the window, none twice; and how many damaged lines of the archive were passed over."""
    archived, skipped = log.archived(layout, checkpoint)
    window = checkpoint.evidence
    known = {each.identity for each in window}
    return [*(each for each in archived if each.identity not in known), *window], skipped


def add(change: CheckpointChange, *items: JsonObject) -> bool:
    """Puts items into the window; what no longer fits goes to the archive. True when something was archived.

    An item that is in the window already is passed over. ``OutsideTask`` when the archive would lie elsewhere.
    """
    checkpoint, size = change.checkpoint, change.task.window
    window = list(checkpoint.items("evidence"))
    known = {each.identity for each in checkpoint.evidence}
    for item in items:
        identity = EvidenceItem(item).identity
        if identity not in known:
            known.add(identity)
            window.append(in_order(item))
    checkpoint.raw["evidence"] = window[-size:]
    change.touch()
    if overflow := window[:-size]:
        _archive(change, overflow)
    return bool(overflow)


def _archive(change: CheckpointChange, items: list[JsonObject]) -> None:
    path, checkpoint = change.task.archive_path, change.checkpoint
    change.layout.inside(path, "evidencePolicy.archivePath")
    before = checkpoint.archived_count
    if before is None:
        before = len(log.archived(change.layout, checkpoint)[0])
    change.archived += items
    checkpoint.raw["evidenceArchive"] = {
        **checkpoint.section("evidenceArchive").raw,
        "path": path,
        "archivedCount": schema.whole(before, 0) + len(items),
        "updatedAt": change.at,
    }


# ---- whose word it is

_WORDS = "words.jsonl"


def adopt(layout: LongTaskLayout, checkpoint: Checkpoint) -> None:
    """Before a worker starts: what there is by now counts as the word of people. Does nothing where that is done."""
    home = layout.home(make=True)
    path = home and os.path.join(home, _WORDS)
    if path and not os.path.lexists(path):
        items, _ = everything(layout, checkpoint)
        journal.append(path, {"items": [_digest(each.raw) for each in items]})


def note_word(layout: LongTaskLayout, item: JsonObject) -> None:
    """A person's command has recorded this item."""
    if (path := _words(layout)) and os.access(path, os.W_OK):
        journal.append(path, {"items": [_digest(item)]})


def believed(layout: LongTaskLayout) -> frozenset[str] | None:
    """The digests of the items that are people's word; ``None`` for a task on which no worker was ever started here."""
    path = _words(layout)
    if path is None:
        return None
    return frozenset(str(each) for row in journal.read(path) for each in row.get("items") or ())


def is_word_of(known: frozenset[str] | None, item: EvidenceItem) -> bool:
    """Whether an item is a person's word, by what ``believed`` answered."""
    return known is None or _digest(item.raw) in known


def _words(layout: LongTaskLayout) -> str | None:
    home = layout.home()
    path = home and os.path.join(home, _WORDS)
    return path if path and os.path.isfile(path) else None


_CONTRACT = "contract.json"


def accept_contract(
    layout: LongTaskLayout, contract: JsonObject | None, begun: Mapping[str, str] | None = None
) -> None:
    """A person has written ``task.json`` so; ``None`` forgets what was accepted, so that the next run believes it.

    ``begun``: by its folder, the commit of each repository before the first slice.
    """
    home = layout.home(make=contract is not None)
    if not home:
        return
    path = os.path.join(home, _CONTRACT)
    if contract is not None:
        files.write_json(path, {"task": contract, "begun": dict(begun or begun_at(layout))})
    elif os.path.lexists(path):
        os.unlink(path)


def adopt_contract(layout: LongTaskLayout, task: Contract, top: str | None, commit: str | None) -> None:
    """The contract of a task that no worker has seen yet is believed as it is found, and so is the code.

    ``commit`` is what is checked out in the work tree ``top``, where the worker works.
    """
    home = layout.home()
    known = begun_at(layout)
    if home is None or not os.path.lexists(os.path.join(home, _CONTRACT)):
        accept_contract(layout, task.raw, {top: commit} if top and commit else {})
    elif top and commit and top not in known and not changed_members(layout, task):
        accept_contract(layout, task.raw, {**known, top: commit})


def begun_at(layout: LongTaskLayout) -> dict[str, str]:
    """By its folder, the commit of each repository before the first slice."""
    home = layout.home()
    try:
        found = files.read_json(os.path.join(home, _CONTRACT)).get("begun") if home else None
    except (OSError, HarnessError):
        found = None
    return {str(top): str(commit) for top, commit in found.items()} if isinstance(found, dict) else {}


def changed_members(layout: LongTaskLayout, task: Contract) -> list[str]:
    """The members of ``task.json`` that are not as a person has accepted them; none while nobody has."""
    home = layout.home()
    path = os.path.join(home, _CONTRACT) if home else ""
    if not os.path.isfile(path):
        return []
    try:
        known = files.read_json(path).get("task")
    except (OSError, HarnessError):
        known = None
    if not isinstance(known, dict):
        return ["all of it"]
    missing = object()
    return sorted(name for name in {*known, *task.raw} if known.get(name, missing) != task.raw.get(name, missing))


def _digest(item: JsonObject) -> str:
    from agent_harness.kernel import digest

    return digest.sha256(jsontext.line(in_order(item)).encode("utf-8", "backslashreplace"))
