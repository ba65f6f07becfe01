"""`evidence`: one piece of evidence into a manifest, the window and the log. Source: ``longtask.md`` 12."""

from __future__ import annotations

from agent_harness.errors import UsageError
from agent_harness.kernel import clock
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import evidence, records
from agent_harness.protocols.longtask.layout import OutsideTask, file_stamp
from agent_harness.protocols.longtask.schema import EVIDENCE_TYPES, SOURCES
from agent_harness.protocols.longtask.store import InvalidTask, LongTaskStore
from agent_harness.protocols.longtask.values import at_time, number, one_of, text, texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.store import CheckpointChange

    Options = dict[str, object]
    Record = dict[str, Any]

__all__ = ["gather"]

_OURS = frozenset(("runs", ".lth.lock", "task.json", "checkpoint.json", "harness.md"))


def gather(layout: LongTaskLayout, options: Options) -> tuple[Record, int]:
    """Records the evidence that the options describe, and answers with it.

    ``UsageError`` for a word, a time or a number that means nothing, ``OutsideTask`` for a manifest elsewhere; nothing
    is written then.
    """
    item = _item(options)
    return LongTaskStore(layout).change(lambda change: _gather(change, item, text(options, "manifest-path"))), 0


def _item(options: Options) -> Record:
    kind = text(options, "type")
    if kind not in EVIDENCE_TYPES:
        raise UsageError(f"Unsupported evidence type: {kind or ''}. Expected one of {', '.join(EVIDENCE_TYPES)}")
    at = at_time(options, "observed-at")
    plain = ("path", "command", "status", "text", "output", "note", "summary")
    return {
        "type": kind,
        **{name: text(options, name) for name in plain},
        "criterionId": text(options, "criterion-id"),
        "criteria": texts(options, "criteria"),
        "source": one_of(options, "source", SOURCES),
        "observedAt": at and clock.timestamp(at, fraction=True),
        "exitCode": number(options, "exit-code"),
    }


def _gather(change: CheckpointChange, given: Record, manifest: str | None) -> Record:
    place = _place(change, str(given["type"]), manifest)
    item = evidence.in_order({**given, "observedAt": given["observedAt"] or change.at, "manifestPath": place})
    change.keep(place, jsontext.dumps(_manifest(change, item)))
    archived = evidence.add(change, item)
    _log(change, item)
    answer = {"recorded": True, "taskId": change.task.id, "evidence": item, "manifestPath": place}
    return {**answer, "evidenceArchive": change.checkpoint.raw["evidenceArchive"]} if archived else answer


def _place(change: CheckpointChange, kind: str, manifest: str | None) -> str:
    """A free name for the manifest, inside the task and on none of the harness's own places."""
    if manifest is None:
        return change.free_name(f"evidence/{kind}-manifest-{file_stamp(change.at)}.json")
    path = change.layout.relative(change.layout.inside(manifest, "--manifest-path"))
    if path.split("/")[0] in _OURS:
        raise OutsideTask(f"--manifest-path must not be a place of the harness itself: {manifest}")
    return change.free_name(path)


def _manifest(change: CheckpointChange, item: Record) -> Record:
    manifest = {"schemaVersion": 1, "taskId": change.task.id, "recordedAt": change.at, "evidence": item}
    misfits = records.manifest_problems(manifest)
    if misfits:
        raise InvalidTask(misfits)
    return manifest


def _log(change: CheckpointChange, item: Record) -> None:
    status = change.checkpoint.status
    note = next(item[name] for name in ("summary", "note", "path", "manifestPath") if item.get(name))
    change.event("evidence_recorded", status=status, evidence=[item], note=note)
    change.event("checkpoint_written", status=status, reason="evidence recorded")
