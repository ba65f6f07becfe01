"""Commands `record` and `evidence`. With these commands, a person or the agent writes progress and evidence.

Source: ``longtask.md`` 12."""

from __future__ import annotations

import os

from agent_harness.errors import Superseded, VerificationFailed
from agent_harness.kernel import clock
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import evidence, log, records, schema
from agent_harness.protocols.longtask.layout import OutsideTask, file_stamp
from agent_harness.protocols.longtask.store import InvalidTask, LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import EvidenceOptions, RecordOptions
    from agent_harness.protocols.longtask.records import Contract
    from agent_harness.protocols.longtask.store import CheckpointChange
    from agent_harness.session.ledger import ClaimVerdict


class ViewAction:
    """A person's decision, made in a view."""

    def __init__(self, shown: str, by: str) -> None:
        self.shown = shown  # as ``LongTaskStore.revision``
        self.by = by  # for the event


def _refuse_other(layout: LongTaskLayout, action: ViewAction | None) -> None:
    # the caller holds the lock
    if action is not None and LongTaskStore(layout).revision() != action.shown:
        raise Superseded("The task has changed since the page was loaded. Reload the page", hint="lth status .")


def record(layout: LongTaskLayout, options: RecordOptions, *, action: ViewAction | None = None) -> tuple[str, int]:
    """Write progress to the checkpoint file. Raise ``VerificationFailed`` if a claim of `done` is not proven."""
    store = LongTaskStore(layout)
    line: ClaimVerdict | None = None
    if options.status == "done":  # only written when every criterion holds; verified without the lock
        from agent_harness.protocols.longtask import criteria

        task, _ = store.load()
        report, code = criteria.verify(layout, options)
        if not log.worker_speaks(layout):  # the slice writes the verdict on a worker's claim
            line = _persons_claim(layout, task, report)
        if code:
            if line:
                from agent_harness.session import ledger

                ledger.write(layout.ledger(), line)
            raise VerificationFailed("verification failed, so nothing was recorded", report=report)
    if options.status == "active" and not log.worker_speaks(layout):
        from agent_harness.supervision.starts import go_on

        go_on(os.path.dirname(layout.ledger(make=False)))
    task_id = store.change(lambda change: _record(change, options, line, action))
    return f"Recorded {options.status} for {task_id}", 0


def _persons_claim(layout: LongTaskLayout, task: Contract, report: JsonObject) -> ClaimVerdict:
    from dataclasses import replace

    from agent_harness.kernel.process import new_run_id
    from agent_harness.protocols.longtask import claim
    from agent_harness.session import ledger

    last = ledger.last_about(layout.ledger(), task.id)
    said = {"by": "person", "word": "record done", "of": last.n if last else None}
    known = ledger.ClaimVerdict.from_record({"item": task.id, **said})
    return replace(claim.verdict_on(layout, task, report, claimed=True, by=known), id=new_run_id())


def _record(
    change: CheckpointChange, options: RecordOptions, line: ClaimVerdict | None, action: ViewAction | None
) -> str:
    _refuse_other(change.layout, action)
    change.verdict = line
    raw, status, note = change.checkpoint.raw, options.status, options.note
    raw["status"] = status
    if note is not None:
        raw["nextStep"] = note
    at = options.blocked_until  # never keep an older time
    if at is None and options.retry_after_seconds is not None:
        at = change.now + clock.timedelta(seconds=options.retry_after_seconds)
    raw["blockedUntil"] = None if at is None else clock.timestamp(at, fraction=True)
    raw["blocker"] = _blocker(change, options)
    members = {
        "lastCompletedStep": options.last_completed_step,
        "activeFiles": options.active_files,
        "openQuestions": options.open_questions,
    }
    raw.update({name: value for name, value in members.items() if value is not None})
    if status in ("active", "paused"):
        _end_cooldowns(change)
    change.touch()
    noted: JsonObject = {} if note is None else {"note": note}
    noted |= {"by": action.by} if action else {}
    change.event("progress_recorded", status=status, **noted, blockedUntil=raw["blockedUntil"], blocker=raw["blocker"])
    return change.task.id


def _end_cooldowns(change: CheckpointChange) -> None:
    if not change.checkpoint.cooldowns:
        return
    from agent_harness.protocols.longtask.run import adapters

    # the limits of accounts are recorded outside the task, and stay
    left = {name: each.raw for name, each in change.checkpoint.cooldowns.items() if adapters.account_of(name)}
    change.checkpoint.raw["workerCooldowns"] = left
    if not left:
        del change.checkpoint.raw["workerCooldowns"]


def _blocker(change: CheckpointChange, options: RecordOptions) -> JsonObject | None:
    status, asked = options.status, options.requires_human
    if status not in ("blocked", "needs-human") and not asked and options.reason is options.source is None:
        return None
    return {
        "type": options.reason or ("manual" if status == "needs-human" else "unknown"),
        "source": options.source or "manual",
        **({} if options.note is None else {"message": options.note}),
        "observedAt": change.at,
        "retryAfterSeconds": options.retry_after_seconds,
        "requiresHuman": asked or status == "needs-human",
    }


def accept(layout: LongTaskLayout) -> tuple[str, int]:
    """Record that a person accepts ``task.json``. Return a message and the exit status."""
    log.refuse_workers(layout, "lth accept")
    task, _ = LongTaskStore(layout).load()
    changed = evidence.changed_members(layout, task)
    evidence.accept_contract(layout, task.raw)
    return f"Accepted task.json of {task.id}: {', '.join(changed) or 'nothing in it was changed'}", 0


_OURS = frozenset(("runs", ".lth.lock", "task.json", "checkpoint.json", "harness.md"))


def gather(
    layout: LongTaskLayout, options: EvidenceOptions, *, action: ViewAction | None = None
) -> tuple[JsonObject, int]:
    """Record an evidence item. Return the answer and the exit status."""
    answer = LongTaskStore(layout).change(lambda change: _gather(change, options, action))
    item = answer["evidence"]
    task, _ = LongTaskStore(layout).load()
    about = records.EvidenceItem(item)
    manual = [each.id for each in task.criteria if each.metric == "manual" and about.is_about(each.id)]
    if not log.worker_speaks(layout):
        evidence.note_word(layout, item)
        if manual:
            _say_word(layout, answer["taskId"], manual, item)
    elif manual:
        log.warn(f"the evidence was recorded, but only a person's evidence counts for: {', '.join(manual)}")
    unknown = _unknown_of(task, item)
    return ({**answer, "warnings": unknown} if unknown else answer), 0


def _unknown_of(task: Contract, item: JsonObject) -> list[str]:
    known = [each.id for each in task.criteria]
    named = dict.fromkeys([item.get("criterionId"), *item.get("criteria", ())])
    return [
        f"{task.id} has no criterion {each}; it has {', '.join(known)}" for each in named if each and each not in known
    ]


def _say_word(layout: LongTaskLayout, task_id: str, manual: list[str], item: JsonObject) -> None:
    """Write a person's decision about manual criteria to the verdict ledger."""
    from agent_harness.session import ledger

    failed = records.EvidenceItem(item).says_failed
    result = "failed" if failed else "passed"
    last = ledger.last_about(layout.ledger(), task_id)
    line = ledger.ClaimVerdict(
        item=task_id,
        verdict=ledger.REJECTED if failed else ledger.ACCEPTED,
        steps=tuple(ledger.VerdictStep(step="criterion", name=each, result=result) for each in manual),
        by="person",
        word="evidence",
        of=last.n if last else None,
    )
    ledger.write(layout.ledger(), line)


def _gather(change: CheckpointChange, options: EvidenceOptions, action: ViewAction | None) -> JsonObject:
    _refuse_other(change.layout, action)
    given = options.members
    place = _place(change, options.type, options.manifest_path)
    item = evidence.in_order({**given, "observedAt": given["observedAt"] or change.at, "manifestPath": place})
    manifest = {"schemaVersion": 1, "taskId": change.task.id, "recordedAt": change.at, "evidence": item}
    if misfits := schema.misfits(manifest, schema.EVIDENCE_MANIFEST, "manifest"):
        raise InvalidTask(misfits)
    change.keep(place, jsontext.dumps(manifest))
    archived = evidence.add(change, item)
    status = change.checkpoint.status
    note = next(item[name] for name in ("summary", "note", "path", "manifestPath") if item.get(name))
    said = {"by": action.by} if action else {}
    change.event("evidence_recorded", status=status, evidence=[item], note=note, **said)
    change.event("checkpoint_written", status=status, reason="evidence recorded")
    answer = {"recorded": True, "taskId": change.task.id, "evidence": item, "manifestPath": place}
    return {**answer, "evidenceArchive": change.checkpoint.raw["evidenceArchive"]} if archived else answer


def _place(change: CheckpointChange, kind: str, manifest: str | None) -> str:
    if manifest is None:
        return change.free_name(f"evidence/{kind}-manifest-{file_stamp(change.at)}.json")
    path = change.layout.relative(change.layout.inside(manifest, "--manifest-path"))
    if path.split("/")[0] in _OURS:
        raise OutsideTask(f"--manifest-path must not be one of the harness's own files: {manifest}")
    return change.free_name(path)
