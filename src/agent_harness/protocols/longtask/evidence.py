"""Evidence: items, their identity, their number in the checkpoint file, the archive, and confirmation by a person.

A person decides manual criteria. After the first agent start, ``words.jsonl`` lists the evidence items that a person
confirmed. An item counts as confirmed if it existed before the first agent start, or if a person's command recorded it
later. The file is in the task's state folder outside the task (``kernel/trusted_state.py``). If the task never ran on
this machine, the file is missing and all evidence is trusted.

An agent's change to ``task.json`` also counts only after a person has accepted the change. Source: ``longtask.md`` 3.3,
12, 13."""

from __future__ import annotations

import os

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
    *("type", "path", "criterionId", "criteria", "source", "observedAt", "command", "exitCode", "status", "text"),
    *("output", "note", "summary", "manifestPath"),
)
"""Names of the members of an evidence item, in the order in which the members are written."""


def in_order(item: JsonObject) -> JsonObject:
    known = {name: item[name] for name in ORDER if item.get(name) is not None}
    return {**known, **{name: value for name, value in item.items() if name not in ORDER and value is not None}}


def everything(layout: LongTaskLayout, checkpoint: Checkpoint) -> tuple[list[EvidenceItem], int]:
    """Return all evidence items, from archive and checkpoint, and the number of damaged archive lines."""
    archived, skipped = log.archived(layout, checkpoint)
    window = checkpoint.evidence
    known = {each.identity for each in window}
    return [*(each for each in archived if each.identity not in known), *window], skipped


def add(change: CheckpointChange, *items: JsonObject) -> bool:
    """Add evidence items to the checkpoint. Return True if older items went to the archive."""
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


# ---- items confirmed by people

_WORDS = "words.jsonl"


def adopt(layout: LongTaskLayout, checkpoint: Checkpoint) -> None:
    """Record that people confirmed all evidence that existed before the first agent start."""
    path = layout.outside(_WORDS, make=True)
    # only once: later evidence may come from an agent
    if path and not os.path.lexists(path):
        items, _ = everything(layout, checkpoint)
        journal.append(path, {"items": [_digest(each.raw) for each in items]})


def note_word(layout: LongTaskLayout, item: JsonObject) -> None:
    """Record that a person confirmed the evidence item."""
    if (path := _words(layout)) and os.access(path, os.W_OK):
        journal.append(path, {"items": [_digest(item)]})


def believed(layout: LongTaskLayout) -> frozenset[str] | None:
    """Return the digests of confirmed evidence, or None if no agent ever started on this task."""
    path = _words(layout)
    if path is None:
        return None
    return frozenset(str(each) for row in journal.read(path) for each in row.get("items") or ())


def is_word_of(known: frozenset[str] | None, item: EvidenceItem) -> bool:
    """Return True if a person confirmed the evidence item, or if no agent ever started."""
    # no agent ran on this machine: all evidence is trusted
    return known is None or _digest(item.raw) in known


def _words(layout: LongTaskLayout) -> str | None:
    path = layout.outside(_WORDS)
    return path if path and os.path.isfile(path) else None


_CONTRACT = "contract.json"


def accept_contract(
    layout: LongTaskLayout, contract: JsonObject | None, begun: Mapping[str, str] | None = None
) -> None:
    """Record that a person accepted ``contract``. If ``contract`` is None, delete the record."""
    path = layout.outside(_CONTRACT, make=contract is not None)
    if path and contract is not None:
        files.write_json(path, {"task": contract, "begun": dict(begun or begun_at(layout))})
    elif path and os.path.lexists(path):
        os.unlink(path)


def adopt_contract(layout: LongTaskLayout, task: Contract, top: str | None, commit: str | None) -> None:
    """Accept the task's contract if none is accepted yet. Record ``commit`` as the starting commit of ``top``.

    If a starting commit is known, or the contract was changed after it was accepted, nothing is recorded."""
    path, known = layout.outside(_CONTRACT), begun_at(layout)
    if path is None or not os.path.lexists(path):
        accept_contract(layout, task.raw, {top: commit} if top and commit else {})
    elif top and commit and top not in known and not changed_members(layout, task):
        accept_contract(layout, task.raw, {**known, top: commit})


def begun_at(layout: LongTaskLayout) -> dict[str, str]:
    """Return, for each repository folder, the commit on which the first agent started."""
    path = layout.outside(_CONTRACT)
    found = files.read_json_if_any(path).get("begun") if path else None
    return {str(top): str(commit) for top, commit in found.items()} if isinstance(found, dict) else {}


def changed_members(layout: LongTaskLayout, task: Contract) -> list[str]:
    """Return the members of ``task.json`` that were changed after a person accepted the file."""
    path = layout.outside(_CONTRACT) or ""
    if not os.path.isfile(path):
        return []
    known = files.read_json_if_any(path).get("task")
    if not isinstance(known, dict):
        return ["all of it"]
    missing = object()
    return sorted(name for name in {*known, *task.raw} if known.get(name, missing) != task.raw.get(name, missing))


def _digest(item: JsonObject) -> str:
    from agent_harness.kernel import digest

    return digest.sha256(jsontext.line(in_order(item)).encode("utf-8", "backslashreplace"))
