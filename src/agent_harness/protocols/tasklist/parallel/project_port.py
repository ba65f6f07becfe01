"""Interface between a task list and the coordinator of a parallel run. During the run, only the coordinator writes to
the list. A task counts as completed after its work is merged."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, journal
from agent_harness.kernel.git.joining import Merged, PushTarget
from agent_harness.kernel.json import JsonObject, json_object, members_of, texts
from agent_harness.kernel.process.sandbox import kind_for, settings_from
from agent_harness.parallel import merge_queue
from agent_harness.parallel.items import (
    ACCEPTED,
    REJECTED,
    Job,
    LandedItem,
    OpenItem,
)
from agent_harness.parallel.workspaces import copy_plain
from agent_harness.protocols.tasklist import costs, lifecycle, planning, progress, proven, publish, selection
from agent_harness.protocols.tasklist.attempts import completed_proofs, final_look
from agent_harness.protocols.tasklist.attempts.attempt import place_of
from agent_harness.protocols.tasklist.attempts.list_files import ListFiles
from agent_harness.protocols.tasklist.claims import claim, leases, sessions
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.layout import safe_name
from agent_harness.protocols.tasklist.records import BROKEN, CHECKED, DEFAULT_LEASE_SECONDS, State, Task
from agent_harness.protocols.tasklist.store import TaskListChange
from agent_harness.session import ledger, now, parallel_settings
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.parallel_settings import ParallelSettings

Changed = TypeVar("Changed")

EXECUTOR = "agent_harness.protocols.tasklist.hands:carry_out"
RENEW_SECONDS = 60.0
LEAST_USD = 0.0001  # rows are rounded to that
OTHERS = 100  # open tasks whose proofs are protected in a workspace
_TOOK_HOME = ("error_log", "attempts", "failed_at", "checkpoints", "question")
_CHECK = "the check of every landing"
_PUSH_LINES = {"pushed": "CHECKPOINT", "pulled": "CHECKPOINT"}


class TaskListProjectPort:
    """Interface (``ProjectPort``) through which the coordinator of a parallel run uses the task list."""

    executor = EXECUTOR
    checks_rejected = True  # by the validations of other tasks
    input_files: tuple[str, ...] = ()
    input_folders: tuple[str, ...] = ("counts", "parallel")
    common: tuple[str, ...] = ()

    def __init__(
        self,
        caller: Caller,
        session: int,
        claimed: JsonObject,
        attempt: JsonObject,
        push_target: PushTarget | None = None,
    ) -> None:
        self.push_target = push_target
        workspace = place_of(caller)
        assert workspace is not None
        self._caller = caller
        self._layout, self._store = caller.layout, caller.store
        self._git = workspace.git
        self._session = session
        self._claimed = claimed
        self._attempt = attempt
        state = caller.store.read()
        self._config_before = members_of(state.raw.get("session_config"))
        self._settings, self._sandbox = settings_of(state), state.config.sandbox  # changes by an agent do not count
        self._proofs_before = proven.proofs_of(state.tasks)
        self._is_open = kind_for(settings_from(self._sandbox)) is None  # to every agent
        self._files = ListFiles(caller, state)
        self._script_before = _text_of(self._layout.init_script)
        self.checks_each = self._settings.check is not None  # workspaces do not have it
        self.own = workspace.exclude
        self.snapshot = None if self._layout.linked() else self._layout.parallel
        self._prefix = os.path.relpath(workspace.folder, workspace.git.top())
        self._put_back: dict[str, str] = {}  # since the last call of ``put_back``
        self._stamp: object = None  # of the file that this was read from
        self._state: State | None = None
        self._items: list[OpenItem] | None = None  # that may be worked on as the list is now
        self._renew_at = time.monotonic() + RENEW_SECONDS

    # ---- open items

    def items(self) -> list[OpenItem]:
        """Return the open tasks whose dependencies are merged, in the order of ``harness task claim``."""
        state = self._list()
        if self._items is None:
            self._items = open_items(self._caller, state)
        return self._items

    def _list(self) -> State:
        """Return the present state of the list, which the caller must not change."""
        stamp = files.stamp_of(self._layout.tasks)
        if self._state is None or stamp is None or stamp != self._stamp:
            self._hold_list()
            stamp = files.stamp_of(self._layout.tasks)
            self._stamp, self._state, self._items = stamp, self._store.read(), None
        return self._state

    def _change(self, act: Callable[[TaskListChange], Changed]) -> Changed:
        self._hold_list()
        return self._store.change(act)

    def _hold_list(self) -> None:
        if self._is_open:
            self._put_back |= self._files.put_list_back()

    def put_back(self) -> dict[str, str]:
        """Restore the list, the logs and the marker file that agents changed."""
        if not self._is_open:
            return {}
        self._hold_list()
        found = self._put_back | dict.fromkeys(self._files.put_logs_back(), "")
        self._put_back.clear()
        self._files = ListFiles(self._caller, self._store.read())
        return found

    def note_touched(self, item: str, message: str) -> None:
        self._store.note("WARN", message, task=item)

    def stopped(self) -> tuple[int, str] | None:
        try:
            claim.refuse_rest(self._caller, self._list())
        except HarnessError as error:
            return error.exit_code, error.message
        return None

    def left(self) -> tuple[list[str], list[str], list[str]]:
        """Return the ids of finally failed tasks, other unfinished tasks, and tasks with a question."""
        self._change(self._finalize)
        tasks = self._list().tasks
        asked = [task.id for task in tasks if task.question]
        failed = [task.id for task in tasks if task.status == "failed" and task.given_up and task.id not in asked]
        still = [task.id for task in tasks if task.status != "completed" and task.id not in {*failed, *asked}]
        return failed, still, asked

    def _finalize(self, change: TaskListChange) -> None:
        for marked in selection.finalize(change.state, change.now):
            change.note("ERROR", marked.message, task=marked.task.id, category="DEPENDENCY")
            change.touch(marked.task)

    def heard(self, jobs: Sequence[Job]) -> dict[str, JsonObject]:
        items = {each.item for each in jobs}
        found = now.told(os.path.dirname(proven.ledger(self._layout)))
        return {each["item"]: each for each in found if each["alive"] and each.get("item") in items}

    # ---- claims

    def claim(self, jobs: Sequence[Job]) -> None:
        """Claim the task of each job for its worker slot, with the job id as token."""

        def act(change: TaskListChange) -> None:
            for job in jobs:
                task = change.state.by_id.get(job.item)
                if task is None or task.status not in ("pending", "failed"):
                    continue
                if changed := proven.put_back(
                    self._layout, task, claimed=False, found=self._proofs_before.get(task.id)
                ):
                    change.note("WARN", changed, task=task.id)
                seconds = DEFAULT_LEASE_SECONDS
                owner = f"{job.id.partition('/')[0]}/{job.slot}"
                lifecycle.start(task, owner=owner, token=job.id, at=change.now, lease_seconds=seconds, head=job.base)
                process = self._caller.process.as_record() if self._caller.process else None
                task.raw.update(worktree=job.workspace, claimed_session=self._session)
                task.raw.update(claimed_process=process, claimed_run=self._claimed)
                change.note("Starting", task.title, task=task.id, end=f"(base={job.base[:7]}, {job.slot})")
                change.touch(task)

        self._change(act)

    def holds(self, job: str, item: str) -> bool:
        task = self._list().by_id.get(item)
        return task is not None and task.status == "in_progress" and task.claim_token == job

    def keep(self) -> None:
        if time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + RENEW_SECONDS

        def act(change: TaskListChange) -> None:
            leases.keep(change.state, self._caller, change.now)
            for task in self._ours(change.state):
                with suppress(HarnessError):
                    lifecycle.renew(task, change.now, DEFAULT_LEASE_SECONDS)
            change.touch()

        self._change(act)

    def _ours(self, state: State) -> list[Task]:
        me = self._caller.process.as_record() if self._caller.process else None
        return [task for task in selection.in_progress(state) if task.claimed_process == me]

    def adopt(self, held: Sequence[str]) -> None:
        """Renew the claims with the tokens in ``held``, and release other claims of parallel runs."""

        def act(change: TaskListChange) -> None:
            for task in selection.in_progress(change.state):
                if task.claim_token in held:
                    ends = clock.moment(change.now.timestamp() + DEFAULT_LEASE_SECONDS)
                    process = self._caller.process.as_record() if self._caller.process else None
                    task.raw.update(
                        claimed_process=process, claimed_run=self._claimed, lease_expires_at=clock.timestamp(ends)
                    )
                    change.touch(task)
                elif task.claimed_run is not None:
                    lifecycle.release(task)
                    task.raw.pop("landing", None)
                    change.note("WARN", "released: the run was killed", task=task.id)
                    change.touch(task)

        self._change(act)

    # ---- inputs of a workspace

    def inputs(self, item: str, fix: JsonObject | None) -> JsonObject:
        """Return the inputs of an attempt. ``fix`` describes why earlier work was not merged."""
        state = self._list()
        open_ones = (
            each for each in state.tasks if each.id != item and each.status != "completed" and not each.given_up
        )
        asked = [self._caller.find(state, item), *islice(open_ones, OTHERS)]
        task, *others = self._as_kept(asked)
        raw = {name: value for name, value in task.copy().items() if name not in lifecycle.CLAIM_FIELDS}
        raw |= {"status": "pending", "depends_on": [], "base_ref": None}
        raw |= {"mend": _told(fix)} if fix else {}
        return {
            "task": raw,
            "others": [_other(each, item) for each in others if each.validation_command],
            "config": self._config(),
            "session": self._session,
            "log": progress.tail(self._layout, 200),
            "prefix": self._prefix,
            "init": self._script_before,
            "counts": os.path.dirname(proven.ledger(self._layout)),
            "rescues": {ref: sha for ref in task.rescues if (sha := self._git.commit_of(ref))},
            "seed": (fix or {}).get("seed"),
            **self._attempt,
        }

    def _as_kept(self, tasks: Sequence[Task]) -> list[Task]:
        # an agent may have edited the checks in the list
        return proven.as_kept(self._layout, tasks, self._proofs_before)

    def _config(self) -> JsonObject:
        return {**self._config_before, "concurrency_mode": "exclusive", "max_tasks_per_session": 0, "max_sessions": 0}

    # ---- results

    def ended(
        self, job: str, item: str, result: JsonObject | None, rescues: Sequence[str], spent_usd: float = 0.0
    ) -> None:
        """Copy a job's costs, verdicts and transcripts into the project, and update its task."""
        if result is None or result.get("id"):
            self._take_costs(job, item, result, spent_usd)
        if result is not None:
            self._take_books(result)
            self._note_not_landed(job, result)

        def act(change: TaskListChange) -> None:
            publish.keep_config(change, self._config_before)
            task = change.state.by_id.get(item)
            # another job may have claimed the task
            if task is None or task.status != "in_progress" or task.claim_token != job:
                return
            how = (result or {}).get("status")
            lifecycle.keep_rescues(task, rescues)
            if how == ACCEPTED:
                task.raw["landing"] = {"order": job, "commit": (result or {}).get("commit")}
                change.note("WARN", "proven in its workspace; waiting to be merged", task=item)
            elif how == REJECTED:
                placed = members_of((result or {}).get("task"))
                lifecycle.fail(task, "TASK_EXEC", str((result or {}).get("message")), change.now)
                task.raw.update({name: placed[name] for name in _TOOK_HOME if name in placed})
                change.note("ERROR", str((result or {}).get("message")), task=item, category="TASK_EXEC")
            else:
                lifecycle.release(task)
                task.raw.pop("landing", None)
                why = (result or {}).get("message") or (result or {}).get("reason") or "the attempt left no result"
                change.note("WARN", f"given back: {why}", task=item)
            change.touch(task)

        self._change(act)

    def _take_costs(self, job: str, item: str, result: JsonObject | None, spent_usd: float) -> None:
        """Copy each cost row of a job into the project once."""
        rows = (result or {}).get("costs") or []
        files.own_place(self._layout.costs, self._layout.root)
        known = [row for row in journal.tail(self._layout.costs, 1000) if row.get("order") == job]
        for row in rows[len(known) :]:
            journal.append(self._layout.costs, {**row, "order": job})
        # of an agent that was killed, for example
        left = spent_usd - max(costs.paid(rows), costs.paid(known))
        if left > LEAST_USD or (result is None and not known):
            costs.note_lost(self._layout, session=self._session, task_id=item, order=job, spent_usd=left)

    def costs_more(self, job: str, item: str, spent_usd: float, more_usd: float) -> None:
        """Add a cost row if a finished job has spent more than its recorded amount."""
        known = [row for row in journal.read(self._layout.costs) if row.get("order") == job]
        left = min(more_usd, spent_usd - costs.paid(known))
        if left > LEAST_USD:
            costs.note_lost(self._layout, session=self._session, task_id=item, order=job, spent_usd=left)

    def _take_books(self, result: JsonObject) -> None:
        if not result.get("id"):
            return
        if folder := result.get("sessions"):
            copy_plain(str(folder), self._layout.sessions)
        path = proven.ledger(self._layout)
        for each in result.get("verdicts") or []:
            verdict = ClaimVerdict.from_record(each)
            if not verdict.accepted:  # accepted work counts once it has landed
                ledger.write(path, self._with_outputs(verdict, result))

    def _note_not_landed(self, job: str, result: JsonObject) -> None:
        """Write a ledger line about a task whose work was proven in its workspace but not merged."""
        fix, proved = json_object(result.get("mend")), members_of(result.get("proven"))
        claims = [ClaimVerdict.from_record(each) for each in proved.get("verdicts") or []]
        claim = next((each for each in reversed(claims) if each.accepted), None)
        if fix and claim:
            files.own_place(os.path.join(self._layout.verdicts, "log"), self._layout.root)
            path, claim = proven.ledger(self._layout), replace(claim, session=self._session)
            ledger.not_landed(path, self._layout.verdicts, self._layout.root, claim, fix, job=job)

    def _with_outputs(self, verdict: ClaimVerdict, result: JsonObject) -> ClaimVerdict:
        """Save the output of each step, and return the verdict with the paths of these outputs."""
        printed = members_of(result.get("outputs"))
        path = proven.ledger(self._layout)
        steps = []
        for step in verdict.steps:
            if not step.log:
                steps.append(step)
                continue
            text, ended = str(printed.get(step.log) or ""), f"exit {step.exit}"
            files.own_place(os.path.join(self._layout.verdicts, "log"), self._layout.root)
            kept = ledger.keep_output(
                self._layout.verdicts, path, step.step, command=str(step.command), output=text, ended=ended
            )
            steps.append(replace(step, log=os.path.relpath(kept, self._layout.root)))
        return replace(verdict, steps=tuple(steps), n=0, prev=None, session=self._session)

    # ---- landing

    def merged(self, head: str, base: str, commit: str, item: str, *, proven: bool) -> Merged:
        return merge_queue.merged(self._git, head, base, commit, self._settings.union)

    def checks(
        self,
        base: str,
        commit: str,
        members: Sequence[str] | None,
        before: Mapping[str, str] | None = None,
        unseen: Collection[str] = (),
    ) -> list[JsonObject]:
        """Return the checks to run before ``commit`` is merged into ``base``."""
        state = self._list()
        before = before or {}
        own = [state.by_id[item] for item in members or () if item in state.by_id]
        done = [task for task in state.tasks if task.status == "completed" or task.id in before]
        near, met = {task.id for task in done}, list[Task]()
        broken = [task for task in state.tasks if (task.question or {}).get("kind") == BROKEN]
        if members is not None:
            changed = self._git.differences(base, commit)
            needed = {each for task in own for each in task.depends_on or ()}
            met = completed_proofs.concerned(self._git, done, changed, needed=needed, besides=members, under_way=before)
            near = {*unseen}
        proofs = self._as_kept([*own, *(task for task in [*done, *broken] if task.id in near)])
        known = {task.validation_command for task in proofs}  # commands that run already
        proofs += [task for task in self._as_kept(met) if task.id not in near and task.validation_command not in known]
        checks = [{"name": task.id, "task": task.raw} for task in proofs if task.validation_command]
        if (members is not None or base != commit) and (command := self._settings.check):
            raw = planning.new_task(_CHECK, _CHECK, validation=command)
            checks.append({"name": _CHECK, "task": raw})
        return checks

    def check_inputs(self, checks: Sequence[JsonObject]) -> JsonObject:
        return {"checks": [*checks], "prefix": self._prefix, "sandbox": self._sandbox}

    def finalize(self, landings: Sequence[LandedItem]) -> None:
        """Mark each merged task as completed if its job still owns the claim."""
        path = proven.ledger(self._layout)
        verdicts: dict[str, ClaimVerdict] = {}
        for each in landings:
            accepted = [ClaimVerdict.from_record(line) for line in each.result.get("verdicts") or []]
            last = next((line for line in reversed(accepted) if line.accepted), None)
            if last and self.holds(each.job, each.item):
                verdicts[each.item] = replace(self._with_outputs(last, each.result), commit=each.commit)

        def act(change: TaskListChange) -> None:
            for each in landings:
                task = change.state.by_id.get(each.item)
                if task is None or task.status != "in_progress" or task.claim_token != each.job:
                    continue
                verdict = verdicts.get(task.id)
                only = verdict.basis or "" if verdict and verdict.grade == CHECKED else None
                proven.prove(self._layout, change.state, task.id, only=only)
                if verdict:
                    ledger.write(path, verdict)
                lifecycle.complete(task, change.now)
                placed = members_of(each.result.get("task"))
                task.raw.update(completed_commit=each.commit, proof=placed.get("proof"))
                task.raw["started_at_commit"] = self._git.commit_of(f"{each.commit}^1")  # its work is this one commit
                task.raw["checkpoints"] = placed.get("checkpoints") or task.raw.get("checkpoints")
                task.raw.pop("landing", None)
                change.note("Completed", f"(commit {each.commit[:7]})", task=task.id)
                change.touch(task)

        self._change(act)

    def refuse_joined(self, commit: str) -> None:
        """Raise no error. A rebase cannot make the task list invalid, because commits do not contain the list."""

    def joined(self, joined: Mapping[str, str], commit: str, checked: JsonObject) -> None:
        """Replace the recorded commits of completed tasks by the rebased commits."""

        def act(change: TaskListChange) -> None:
            for task in change.state.tasks:
                if now := joined.get(str(task.completed_commit)):
                    task.raw.update(completed_commit=now, started_at_commit=self._git.commit_of(f"{now}^1"))
                    change.touch(task)

        self._change(act)

    def note_push(self, kind: str, commit: str, message: str) -> None:
        self._store.note(_PUSH_LINES.get(kind, "WARN"), message)

    def reopen(self, items: Sequence[str], why: str) -> None:
        def act(change: TaskListChange) -> None:
            for item in items:
                task = change.state.by_id.get(item)
                if task is None or task.status != "completed":
                    continue
                proven.forget(self._layout, item)
                lifecycle.reopen(task)
                task.raw["error_log"] = [*task.error_log, f"[TEST_FAIL] the task was proven and merged; {why}"]
                change.note("WARN", f"open again: {why}", task=item)
                change.touch(task)

        self._change(act)

    def broken(self, items: Sequence[str], by: str, commit: str, head: str) -> None:
        def act(change: TaskListChange) -> None:
            for item in items:
                final_look.note_broken(self._layout, change, item, by=(by, commit), head=head)

        self._change(act)

    def question(self, item: str | None, reason: str, message: str) -> None:
        def act(change: TaskListChange) -> None:
            if change.state.halt is None:
                change.halt("TASK_EXEC", message if reason in message else f"{message} ({reason})", item)
                change.note("ERROR", message, task=item, category="TASK_EXEC")

        self._change(act)

    def close(self, paused: str) -> None:
        sessions.end(self._caller)
        if paused:
            sessions.pause(self._caller, paused, by="harness run")


def open_items(caller: Caller, state: State) -> list[OpenItem]:
    found = selection.eligible(state, lambda each: progress.last_error_time(caller.layout, each))
    return [
        OpenItem(id=task.id, name=safe_name(task.id), title=task.title, touches=tuple(texts(task.raw.get("touches"))))
        for task in found
    ]


def settings_of(state: State, say: Callable[[str], None] | None = None) -> ParallelSettings:
    config = members_of(state.raw.get("session_config"))
    given = members_of(config.get("parallel"))
    return parallel_settings.read(given, os.environ, where="session_config.parallel", say=say)


def _text_of(path: str) -> str | None:
    return files.read_bytes(path).decode("utf-8", "replace") if os.path.isfile(path) else None


def _told(fix: JsonObject) -> JsonObject:
    said = {
        "conflict": "Your earlier work was proven, but it conflicts with work that was merged meanwhile.",
        "conflict_markers": "Your earlier work left conflict markers in the files.",
        "red": "Your earlier work was proven, but these validations fail together with work that was merged meanwhile.",
    }
    told = "Your work is in the work tree, merged with the current state"
    told += "; resolve the conflicts in these files." if fix.get("files") else "; repair your work."
    what = {name: fix[name] for name in ("files", "failing", "output", "met") if fix.get(name)}
    return {"what": f"{said.get(str(fix.get('why')), '')} {told}".strip(), **what}


def _other(task: Task, item: str) -> JsonObject:
    # with its check, whose files are then protected
    own = {"id": task.id, "title": task.title, "validation": task.raw.get("validation")}
    # no agent can claim it, because it depends on ``item``
    return {**own, "status": "pending", "depends_on": [item]}
