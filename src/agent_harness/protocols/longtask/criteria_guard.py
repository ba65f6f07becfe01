"""Files that criteria commands mention or load, and the changes that an agent made to these files during a slice.

An agent may add tests or commands to a file that a criterion depends on. If the agent weakens, deletes or rewrites such
a file, the harness records an objection in ``sessions/guard.json``. The criterion then fails in the current run and in
every later `verify`. The objection ends when the file is restored, a person has edited it, or
``workerPolicy.mayChange`` lists it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import HarnessError
from agent_harness.kernel import digest, files
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process.sandbox import settings_from
from agent_harness.protocols.longtask import criteria, evidence, log, records
from agent_harness.protocols.longtask.criteria import Objection
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.records import Contract, WorkerPolicy
from agent_harness.protocols.longtask.run import session_folder
from agent_harness.verification.changes import Tree
from agent_harness.verification.command import Differences, InstalledRecord, around, released
from agent_harness.verification.command.folder import KeptFiles, findings_since, folder_tree, kept_of
from agent_harness.verification.command.runner import CommandCheck
from agent_harness.verification.grade import ASKS_IF_DONE, CHECKED, PROVEN, UNCHANGED, Grade, grade_of_verdict
from agent_harness.verification.judge import examine
from agent_harness.verification.verdict import CRITICAL, FAST, Verdict

Stop = Callable[[], bool]
_KEPT = "slice.json"
_KEPT_BYTES = 8 << 20  # limit of the copies outside the task while a slice runs


@dataclass(frozen=True, kw_only=True)
class _Guarded:
    criterion: str
    command: str
    folder: str
    kept: KeptFiles  # paths relative to the folder

    def as_record(self) -> JsonObject:
        return {
            "criterion": self.criterion,
            "command": self.command,
            "folder": self.folder,
            **self.kept.as_record(),
        }

    @classmethod
    def from_record(cls, record: object) -> _Guarded | None:
        found = record if isinstance(record, dict) else {}
        texts = [found.get(name) for name in ("criterion", "command", "folder")]
        kept = KeptFiles.from_record(found)
        criterion, command, folder = (each if isinstance(each, str) else "" for each in texts)
        if kept is None or not command:
            return None
        return cls(criterion=criterion, command=command, folder=folder, kept=kept)


class CriteriaGuard:
    """Copies of the files on which criteria depend, made before the agent started."""

    def __init__(self, layout: LongTaskLayout, task: Contract) -> None:
        self._layout, self._task = layout, task
        self._may_change = task.policy.may_change
        self._standing = criteria.standing(layout)
        commands = criteria.commands(layout, task)
        trees = {folder: _tree(layout, folder) for _, _, folder in commands}
        self._guarded = [
            _Guarded(criterion=criterion, command=command, folder=folder, kept=kept_of(tree, command))
            for criterion, command, folder in commands
            if (tree := trees[folder]) is not None
        ]

    @classmethod
    def left_by(cls, layout: LongTaskLayout, task: Contract) -> CriteriaGuard | None:
        """Return the guard of a killed run, or None without a killed run."""
        path = layout.outside(_KEPT)
        if path is None or not os.path.lexists(path):
            return None
        try:
            rows = records.RecordView(files.read_json(path)).items("guarded")
        except (HarnessError, OSError):
            rows = list[object]()
        guard = cls(layout, task)
        guard._guarded = [found for each in rows if (found := _Guarded.from_record(each)) is not None]
        return guard

    def look_around(self) -> None:
        """Record which software is installed before an agent starts."""
        places = [each[1:] for each in criteria.commands(self._layout, self._task)]
        if places and (path := self._layout.outside("installed.json", make=True)):
            wished = settings_from(self._task.policy.raw.get("sandbox"))
            wanted = around(places, in_place=True, settings=wished)
            InstalledRecord(path).begin(wanted.now(), project=Path(places[0][1]))

    def looked_around(self) -> None:
        """Record which installed software the agent has changed."""
        places = [each[1:] for each in criteria.commands(self._layout, self._task)]
        if places and (path := self._layout.outside("installed.json")):
            InstalledRecord(path).end(project=Path(places[0][1]), frees=released(self._may_change))

    def keep(self) -> None:
        """Save the guarded files to the state folder, so that they survive a killed run."""
        if path := self._layout.outside(_KEPT):
            room = _KEPT_BYTES
            rows: list[JsonObject] = []
            for each in self._guarded:
                room -= sum(map(len, each.kept.contents.values()))
                rows += [each.as_record()] if room >= 0 else []
            files.write_json(path, {"guarded": rows})

    def ended(self) -> None:
        """Compare the guarded files after an agent has ended. Write the objections to ``sessions/guard.json``."""
        found = [each for guarded in self._guarded for each in self._objections(guarded)]
        oldest = {(each.criterion, each.path): each for each in [*found, *self._standing]}
        now = [{**each.raw, "after": criteria.digest_of(each.path)} for each in oldest.values()]
        kept = [each for each in now if each["after"] != each["before"]]
        if kept or criteria.written(self._layout):
            if os.path.islink(self._layout.sessions):
                os.unlink(self._layout.sessions)
            os.makedirs(self._layout.sessions, exist_ok=True)
            files.write_json(self._layout.inside(criteria.FILE), {"objections": kept})
        if (path := self._layout.outside(_KEPT)) and os.path.lexists(path):
            os.unlink(path)

    def _objections(self, guarded: _Guarded) -> list[Objection]:
        tree = _tree(self._layout, guarded.folder)
        if tree is None:
            return []
        found = findings_since(guarded.kept, guarded.command, tree, may_change=self._may_change)
        contents = guarded.kept.contents
        by_path = {str(each.data["path"]): _plain(each.message) for each in found if each.severity == CRITICAL}
        return [
            Objection(
                {
                    "criterion": guarded.criterion,
                    "path": os.path.join(guarded.folder, path),
                    "before": digest.sha256(contents[path]) if path in contents else "",
                    "message": message,
                }
            )
            for path, message in by_path.items()
        ]


def looked_through(layout: LongTaskLayout, task: Contract, report: JsonObject, *, stop: Stop) -> JsonObject:
    """Run the criteria commands again in a checkout and test them more strictly. Return the report."""
    begun = evidence.begun_at(layout) if report["status"] == "pass" else {}
    for each in report["checks"] if begun else ():
        for criterion, command, folder in criteria.commands(layout, task):
            git = session_folder.repository_of(folder) if each["id"] == criterion else None
            base = begun.get(os.fspath(git.top())) if git else None
            if git is None or base is None:
                continue
            policy = task.policy
            check = CommandCheck(
                command=command,
                may_change=tuple(policy.may_change),
                trust=policy.trust,
                installed=criteria.installed_since(layout, task) or Differences(),
            )
            try:
                ref = f"{session_folder.REFS}/{records.slug(task.id, 'task')}-claimed"
                with session_folder.as_committed(layout, git, ref) as candidate:
                    found = examine(Git(folder), check, base=base, candidate=candidate, stop=stop)
            except HarnessError as error:
                log.warn(f"the tests of a criterion were not checked: {error.message}")
                continue
            if found.reasons:
                each |= {"status": "fail", "message": _plain(found.reasons[0].message)}
                report["status"] = "fail"
            else:
                grade = _grade(found, policy)
                each |= {"grade": grade.word, "basis": grade.basis}
    return _asked_for(report, task.policy) if report["status"] == "pass" else report


def _grade(found: Verdict, policy: WorkerPolicy) -> Grade:
    if not found.accepted:
        return Grade(CHECKED, "the command passes in the working copy, but fails in a checkout of the work")
    grade = grade_of_verdict(found, trusted=policy.trust == FAST)
    return Grade(CHECKED, grade.basis) if grade.word == UNCHANGED and policy.accepts_unchanged else grade


def _asked_for(report: JsonObject, policy: WorkerPolicy) -> JsonObject:
    """Set criteria to failed if the task requires a stronger proof than their commands give."""
    for each in report["checks"]:
        if each["metric"] != "command":
            continue
        if each.get("grade") == UNCHANGED:
            each |= {"status": "fail", "message": ASKS_IF_DONE}
        elif policy.needs_proof and each.get("grade") != PROVEN:
            why = each.get("basis") or "the check did not run on the base commit"
            each |= {"status": "fail", "message": f"it passes, but the task needs a proof (requires: proven): {why}"}
    if any(each["status"] != "pass" for each in report["checks"]):
        report["status"] = "fail"
    return report


def _plain(message: str) -> str:
    # the setting has another name in a task list
    text = message.replace("validation.may_change", "workerPolicy.mayChange")
    # JSON cannot hold lone surrogates
    return text.encode("utf-8", "backslashreplace").decode()


def _tree(layout: LongTaskLayout, root: str) -> Tree | None:
    return folder_tree(root, besides=(layout.sessions, layout.runs, layout.evidence))
