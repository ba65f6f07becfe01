"""A task list worked by several agents at once: ``harness run --workers N``.

``TaskListHome`` is the list as the coordinator of the run asks it, and the only writer of it; what hands do in a place
is in ``hands``. A task counts as completed once it has landed.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel import clock, files, journal, trusted_state
from agent_harness.kernel.git.joining import PushTarget
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import equipment, landing, rebuild
from agent_harness.parallel.coordinator import Coordinator, RunTerms, state_folder
from agent_harness.parallel.decision import choices
from agent_harness.parallel.engine import EngineFactory
from agent_harness.parallel.items import (
    ACCEPTED,
    REJECTED,
    Landing,
    OpenItem,
    WorkOrder,
    odd_touches,
)
from agent_harness.parallel.landing.learning import learned_in
from agent_harness.parallel.landing.objects import Merged
from agent_harness.parallel.people import foreseen, refuse_gone
from agent_harness.parallel.places import copy_plain
from agent_harness.parallel.plan import LANDING, READY
from agent_harness.parallel.rebuild import SENT_BACK, LeftRun
from agent_harness.protocols.tasklist import lifecycle, planning, progress, proven, publish, run, selection, status
from agent_harness.protocols.tasklist.attempts import recover
from agent_harness.protocols.tasklist.attempts.attempt import place_of
from agent_harness.protocols.tasklist.claims import claim, leases, sessions
from agent_harness.protocols.tasklist.claims.worker import Worker
from agent_harness.protocols.tasklist.layout import safe_name
from agent_harness.protocols.tasklist.records import (
    DEFAULT_LEASE_SECONDS,
    State,
    Task,
    json_object,
    texts,
)
from agent_harness.protocols.tasklist.store import TaskListChange
from agent_harness.session import ledger, now, parallel_settings
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.parallel_settings import ParallelSettings
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import RefusalPolicy

HANDS = "agent_harness.protocols.tasklist.hands:carry_out"
RENEW_SECONDS = 60.0
OTHERS = 100  # open tasks whose proofs are protected in a place
_TOOK_HOME = ("error_log", "attempts", "failed_at", "checkpoints")
_CHECK = "the check of every landing"
_PUSH_LINES = {"pushed": "CHECKPOINT", "pulled": "CHECKPOINT"}


class TaskListHome:
    """The list in the project's folder, in the session of the coordinator."""

    hands = HANDS
    checks_bounced = True  # by the validations of others
    paper_files: tuple[str, ...] = ()
    paper_folders: tuple[str, ...] = ("counts", "parallel")
    common: tuple[str, ...] = ()

    def __init__(
        self,
        worker: Worker,
        session: int,
        claimed: JsonObject,
        attempt: JsonObject,
        push_target: PushTarget | None = None,
    ) -> None:
        """``claimed`` is what claims say of the run; ``attempt`` what every attempt is told: agents, policy, limits."""
        self.push_target = push_target
        place = place_of(worker)
        assert place is not None
        self._worker = worker
        self._layout, self._store = worker.layout, worker.store
        self._git = place.git
        self._session = session
        self._claimed = claimed
        self._attempt = attempt
        state = worker.store.read()
        self._config_before = json_object(state.raw.get("session_config")) or {}
        self._settings, self._sandbox = settings_of(state), state.config.sandbox  # no agent's change counts
        self.checks_each = self._settings.check is not None  # which no place knows of
        self.own = place.exclude
        self.snapshot = None if self._layout.linked() else self._layout.parallel
        self._prefix = os.path.relpath(place.folder, place.git.top())
        self._stamp: object = None  # of the file that this was read from
        self._state: State | None = None
        self._items: list[OpenItem] | None = None  # that may be worked on as the list is now
        self._touched: dict[str, frozenset[bytes]] = {}
        self._renew_at = time.monotonic() + RENEW_SECONDS

    # ---- what may be worked on

    def items(self) -> list[OpenItem]:
        """Tasks whose dependencies have landed, as ``harness task claim`` would give them; read as the list changes."""
        state = self._list()
        if self._items is None:
            self._items = open_items(self._worker, state)
        return self._items

    def _list(self) -> State:
        """The list as it is now, read as the file changes; nobody may change it."""
        stamp = files.stamp_of(self._layout.tasks)
        if self._state is None or stamp is None or stamp != self._stamp:
            self._stamp, self._state, self._items = stamp, self._store.read(), None
        return self._state

    def stopped(self) -> tuple[int, str] | None:
        """A halt, or a pause."""
        try:
            claim.refuse_rest(self._worker, self._list())
        except HarnessError as error:
            return error.exit_code, error.message
        return None

    def left(self) -> tuple[list[str], list[str]]:
        """Tasks that failed for good, and those that are neither that nor completed."""
        self._store.change(self._settle)
        tasks = self._list().tasks
        failed = [task.id for task in tasks if task.status == "failed" and task.given_up]
        return failed, [task.id for task in tasks if task.status != "completed" and task.id not in failed]

    def _settle(self, change: TaskListChange) -> None:
        for marked in selection.settle(change.state, change.now):
            change.note("ERROR", marked.message, task=marked.task.id, category="DEPENDENCY")
            change.touch(marked.task)

    def heard(self, orders: Sequence[WorkOrder]) -> dict[str, JsonObject]:
        """What the attempts say that they do: they do so in the list's own place."""
        items = {each.item for each in orders}
        found = now.told(os.path.dirname(proven.ledger(self._layout)))
        return {each["item"]: each for each in found if each["alive"] and each.get("item") in items}

    # ---- claims

    def claim(self, orders: Sequence[WorkOrder]) -> None:
        """Each task in progress, by the name of its slot; the order's id is the token of the claim."""

        def act(change: TaskListChange) -> None:
            for order in orders:
                task = change.state.by_id.get(order.item)
                if task is None or task.status not in ("pending", "failed"):
                    continue
                if changed := proven.put_back(self._layout, task, claimed=False):
                    change.note("WARN", changed, task=task.id)
                seconds = DEFAULT_LEASE_SECONDS
                owner = f"{order.id.partition('/')[0]}/{order.slot}"
                lifecycle.start(
                    task, owner=owner, token=order.id, at=change.now, lease_seconds=seconds, head=order.base
                )
                process = self._worker.process.as_record() if self._worker.process else None
                task.raw.update(worktree=order.place, claimed_session=self._session)
                task.raw.update(claimed_process=process, claimed_run=self._claimed)
                change.note("Starting", task.title, task=task.id, end=f"(base={order.base[:7]}, {order.slot})")
                change.touch(task)

        self._store.change(act)

    def holds(self, order: str, item: str) -> bool:
        """Whether the task is claimed by the order."""
        task = self._list().by_id.get(item)
        return task is not None and task.status == "in_progress" and task.claim_token == order

    def keep(self) -> None:
        """Renews the session and all claims of the run, once a minute."""
        if time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + RENEW_SECONDS

        def act(change: TaskListChange) -> None:
            leases.keep(change.state, self._worker, change.now)
            for task in self._ours(change.state):
                with suppress(HarnessError):
                    lifecycle.renew(task, change.now, DEFAULT_LEASE_SECONDS)
            change.touch()

        self._store.change(act)

    def _ours(self, state: State) -> list[Task]:
        me = self._worker.process.as_record() if self._worker.process else None
        return [task for task in selection.in_progress(state) if task.claimed_process == me]

    def adopt(self, held: Sequence[str]) -> None:
        """These claims are of this process from now on, for half an hour at first; all others of such runs go back."""

        def act(change: TaskListChange) -> None:
            for task in selection.in_progress(change.state):
                if task.claim_token in held:
                    ends = clock.moment(change.now.timestamp() + DEFAULT_LEASE_SECONDS)
                    process = self._worker.process.as_record() if self._worker.process else None
                    task.raw.update(
                        claimed_process=process, claimed_run=self._claimed, lease_expires_at=clock.timestamp(ends)
                    )
                    change.touch(task)
                elif task.claimed_run is not None:
                    lifecycle.release(task)
                    task.raw.pop("landing", None)
                    change.note("WARN", "given back: the run was killed", task=task.id)
                    change.touch(task)

        self._store.change(act)

    # ---- what a place is given

    def papers(self, item: str, mend: JsonObject | None) -> JsonObject:
        """The task, what proves the others, the last lines of the log, and how attempts are made."""
        state = self._list()
        task = self._worker.find(state, item)
        others = (each for each in state.tasks if each.id != item and each.status != "completed" and not each.given_up)
        raw = {name: value for name, value in task.copy().items() if name not in lifecycle.CLAIM_FIELDS}
        raw |= {"status": "pending", "depends_on": [], "base_ref": None}
        raw |= {"mend": _told(mend)} if mend else {}
        return {
            "task": raw,
            "others": [_other(each, item) for each in islice(others, OTHERS) if each.validation_command],
            "config": self._config(),
            "session": self._session,
            "log": progress.tail(self._layout, 200),
            "prefix": self._prefix,
            "init": files.read_bytes(self._layout.init_script).decode("utf-8", "replace")
            if os.path.isfile(self._layout.init_script)
            else None,
            "counts": os.path.dirname(proven.ledger(self._layout)),
            "rescues": {ref: sha for ref in task.rescues if (sha := self._git.commit_of(ref))},
            "seed": (mend or {}).get("seed"),
            **self._attempt,
        }

    def _config(self) -> JsonObject:
        return {**self._config_before, "concurrency_mode": "exclusive", "max_tasks_per_session": 0, "max_sessions": 0}

    # ---- what comes back

    def ended(self, order: str, item: str, result: JsonObject | None, rescues: Sequence[str]) -> None:
        """Costs, verdicts and transcripts once an order; then the task, unless somebody else has it meanwhile."""
        if result is not None:
            self._take_books(order, result)
        else:
            status.note_killed(self._layout)

        def act(change: TaskListChange) -> None:
            publish.keep_config(change, self._config_before)
            task = change.state.by_id.get(item)
            if task is None or task.status != "in_progress" or task.claim_token != order:
                return
            how = (result or {}).get("status")
            lifecycle.keep_rescues(task, rescues)
            if how == ACCEPTED:
                task.raw["landing"] = {"order": order, "commit": (result or {}).get("commit")}
                change.note("WARN", "proven in its place; it waits to land", task=item)
            elif how == REJECTED:
                placed = json_object((result or {}).get("task")) or {}
                lifecycle.fail(task, "TASK_EXEC", str((result or {}).get("message")), change.now)
                task.raw.update({name: placed[name] for name in _TOOK_HOME if name in placed})
                change.note("ERROR", str((result or {}).get("message")), task=item, category="TASK_EXEC")
            else:
                lifecycle.release(task)
                task.raw.pop("landing", None)
                why = (
                    (result or {}).get("message") or (result or {}).get("reason") or "nothing came back of the attempt"
                )
                change.note("WARN", f"given back: {why}", task=item)
            change.touch(task)

        self._store.change(act)

    def _take_books(self, order: str, result: JsonObject) -> None:
        if not result.get("id"):
            return
        known = {row.get("order") for row in journal.tail(self._layout.costs, 1000)}
        if order not in known:
            for row in result.get("costs") or []:
                journal.append(self._layout.costs, {**row, "order": order})
        if folder := result.get("sessions"):
            copy_plain(str(folder), self._layout.sessions)
        path = proven.ledger(self._layout)
        for each in result.get("verdicts") or []:
            verdict = ClaimVerdict.from_record(each)
            if not verdict.accepted:  # what is accepted counts once it has landed
                ledger.write(path, self._with_outputs(verdict, result))

    def _with_outputs(self, verdict: ClaimVerdict, result: JsonObject) -> ClaimVerdict:
        """The same as a line of the project's: what its steps printed is beside the project's logs."""
        printed = json_object(result.get("outputs")) or {}
        path = proven.ledger(self._layout)
        steps = []
        for step in verdict.steps:
            if not step.log:
                steps.append(step)
                continue
            text, ended = str(printed.get(step.log) or ""), f"exit {step.exit}"
            kept = ledger.keep_output(
                self._layout.verdicts, path, step.step, command=str(step.command), output=text, ended=ended
            )
            steps.append(replace(step, log=os.path.relpath(kept, self._layout.root)))
        return replace(verdict, steps=tuple(steps), n=0, prev=None, session=self._session)

    # ---- landing

    def merged(self, head: str, base: str, commit: str, item: str, *, proven: bool) -> Merged:
        """As git combines them; the list and its log are no part of a commit."""
        return landing.merged(self._git, head, base, commit, self._settings.union)

    def checks(
        self, base: str, commit: str, members: Sequence[str] | None, before: Mapping[str, str] | None = None
    ) -> list[JsonObject]:
        """The members' validations, those of tasks whose commits touched the same files, and ``check``."""
        state = self._list()
        done = {task.id: task.completed_commit for task in state.tasks if task.status == "completed"}
        done |= {item: sha for item, sha in (before or {}).items() if item in state.by_id}
        changed = frozenset(self._git.differences(base, commit)) if members is not None else None
        near = [state.by_id[item] for item, sha in done.items() if changed is None or changed & self._paths(sha)]
        found = [state.by_id[item] for item in members or () if item in state.by_id] + near
        proofs = proven.as_kept(self._layout, found)  # no agent's change of the list counts
        checks = [{"name": task.id, "task": task.raw} for task in proofs if task.validation_command]
        if (members is not None or base != commit) and (command := self._settings.check):
            raw = planning.new_task(_CHECK, _CHECK, validation=command)
            checks.append({"name": _CHECK, "task": raw})
        return checks

    def _paths(self, commit: str | None) -> frozenset[bytes]:
        """The files that the commit of a task has changed; none where it is not to be found."""
        if not commit:
            return frozenset()
        if commit not in self._touched:
            parent = self._git.commit_of(f"{commit}^1")
            whole_id = self._git.commit_of(commit)
            found = self._git.differences(parent, whole_id) if parent and whole_id else {}
            self._touched[commit] = frozenset(found)
        return self._touched[commit]

    def check_papers(self, checks: Sequence[JsonObject]) -> JsonObject:
        """The tasks, and the sandbox of their validations."""
        return {"checks": [*checks], "prefix": self._prefix, "sandbox": self._sandbox}

    def settle(self, landings: Sequence[Landing]) -> None:
        """Completed, each with its commit and its verdict; a task that is no more the order's stays as it is."""
        path = proven.ledger(self._layout)
        verdicts: dict[str, ClaimVerdict] = {}
        for each in landings:
            accepted = [ClaimVerdict.from_record(line) for line in each.result.get("verdicts") or []]
            last = next((line for line in reversed(accepted) if line.accepted), None)
            if last and self.holds(each.order, each.item):
                verdicts[each.item] = replace(self._with_outputs(last, each.result), commit=each.commit)

        def act(change: TaskListChange) -> None:
            for each in landings:
                task = change.state.by_id.get(each.item)
                if task is None or task.status != "in_progress" or task.claim_token != each.order:
                    continue
                proven.prove(self._layout, change.state, task.id)
                if verdict := verdicts.get(task.id):
                    ledger.write(path, verdict)
                lifecycle.complete(task, change.now)
                placed = json_object(each.result.get("task")) or {}
                task.raw.update(completed_commit=each.commit, proof=placed.get("proof"))
                task.raw["checkpoints"] = placed.get("checkpoints") or task.raw.get("checkpoints")
                task.raw.pop("landing", None)
                change.note("Completed", f"(commit {each.commit[:7]})", task=task.id)
                change.touch(task)

        self._store.change(act)

    def refuse_joined(self, commit: str) -> None:
        """A commit holds nothing of the list."""

    def joined(self, joined: Mapping[str, str], commit: str, checked: JsonObject) -> None:
        """Completed tasks name the new commits."""

        def act(change: TaskListChange) -> None:
            for task in change.state.tasks:
                if now := joined.get(str(task.completed_commit)):
                    task.raw["completed_commit"] = now
                    change.touch(task)

        self._store.change(act)

    def note_push(self, kind: str, commit: str, message: str) -> None:
        """A line of the log."""
        self._store.note(_PUSH_LINES.get(kind, "WARN"), message)

    def reopen(self, items: Sequence[str], why: str) -> None:
        """They are pending again."""

        def act(change: TaskListChange) -> None:
            for item in items:
                task = change.state.by_id.get(item)
                if task is None or task.status != "completed":
                    continue
                proven.forget(self._layout, item)
                lifecycle.reopen(task)
                task.raw["error_log"] = [*task.error_log, f"[TEST_FAIL] it was proven and has landed; {why}"]
                change.note("WARN", f"open again: {why}", task=item)
                change.touch(task)

        self._store.change(act)

    def question(self, item: str | None, reason: str, message: str) -> None:
        """Halts the list."""

        def act(change: TaskListChange) -> None:
            if change.state.halt is None:
                change.halt("TASK_EXEC", message if reason in message else f"{message} ({reason})", item)
                change.note("ERROR", message, task=item, category="TASK_EXEC")

        self._store.change(act)

    def close(self, paused: str) -> None:
        """Ends the session; what could not be pushed pauses the list."""
        sessions.end(self._worker)
        if paused:
            sessions.pause(self._worker, paused, by="harness run")


def open_items(worker: Worker, state: State) -> list[OpenItem]:
    """The tasks that may be worked on now, in their order."""
    found = selection.eligible(state, lambda each: progress.last_error_time(worker.layout, each))
    return [
        OpenItem(id=task.id, name=safe_name(task.id), title=task.title, touches=tuple(texts(task.raw.get("touches"))))
        for task in found
    ]


def left_run(worker: Worker) -> LeftRun:
    """What the list and its log say of a run that is dead."""
    tasks = leases.left_by_run(worker.store.read())
    workers, branch = leases.terms_of_run(tasks) if tasks else (1, None)
    claims, bounced = leases.orders_of_run(tasks), progress.sent_back(worker.layout)
    return LeftRun(workers=workers, branch=branch, claims=claims, bounced=bounced)


def settings_of(state: State, say: Callable[[str], None] | None = None) -> ParallelSettings:
    config = json_object(state.raw.get("session_config")) or {}
    given = json_object(config.get("parallel")) or {}
    return parallel_settings.read(given, os.environ, where="session_config.parallel", say=say)


def _told(mend: JsonObject) -> JsonObject:
    """What the agent reads of a bounce."""
    said = {
        "conflict": "Your earlier work was proven, and does not go together with what has landed meanwhile.",
        "conflict_markers": "Markers of a conflict are left in the files.",
        SENT_BACK: "Your earlier work was proven, and did not land; why is not known any more.",
        "red": "Your earlier work was proven, and together with what has landed meanwhile these validations fail.",
    }
    told = "It is in the work tree, merged into the present state"
    told += "; resolve the conflicts in these files." if mend.get("files") else "; repair it."
    what = {name: mend[name] for name in ("files", "failing", "output", "met") if mend.get(name)}
    return {"what": f"{said.get(str(mend.get('why')), '')} {told}".strip(), **what}


def _other(task: Task, item: str) -> JsonObject:
    """A task that is open, so that its proof is protected, and that cannot be claimed in the place."""
    own = {"id": task.id, "title": task.title, "validation": task.raw.get("validation")}
    return {**own, "status": "pending", "depends_on": [item]}


# ---- the run ---------------------------------------------------------------------------------------------------------


def run_parallel(
    worker: Worker,
    *,
    workers: int,
    agents: Sequence[str],
    accounts: Sequence[str],
    policy: RefusalPolicy,
    say: Callable[[str], None],
    max_tasks: int | None = None,
    max_minutes: float = run.MAX_MINUTES,
    max_cost_usd: float = run.MAX_COST_USD,
    branch: str | None = None,
    only_land: bool = False,
    lend: EngineFactory | None = None,
) -> JsonObject:
    """Works the list down with so many agents at once; the members of the answer are the coordinator's.

    ``accounts`` are those of the agents, in their order.
    With ``only_land`` no attempt is begun: what an earlier run has proven lands, what it had under way is given back.
    Work lands on ``branch``, the one that is checked out where none is named. ``UnsafeTree`` where there is none, or
    where another work tree has it checked out. Attempts are made by the engine that ``lend`` makes.
    Raises what ``sessions.start`` raises.
    """
    worker = run.own_worker(worker)
    place = place_of(worker)
    if place is not None and (left := trusted_state.existing(worker.layout.tasks, worker.layout.root, writable=False)):
        refuse_gone(place.git, os.path.join(left, "parallel"), branch)
    if place is None or place.git.head() is None:
        raise UnsafeTree("--workers needs a git work tree with a commit", hint="git init  # or harness run")
    target = landing.target(place.git, branch)
    if not place.exclude:
        raise UnsafeTree("the task list lies outside of this work tree", hint=f"cd {worker.layout.root}")
    folder = state_folder(trusted_state.make(worker.layout.tasks, worker.layout.root)[0])
    publish.target_of(place.git, settings_of(worker.store.read()).push, target)
    engine = lend(place.git, folder, say, settings_of(worker.store.read()).refs) if lend else None
    with interruption.watched(worker.store.paused) as stop:
        begun = sessions.start(worker)
        for found in begun["recovered"]:
            is_open = found["action"] == "resume"  # nobody here can compare its checkpoints with the files
            done = recover.recover(worker, found["task_id"], "fail")[0] if is_open else found
            say(f"{done['task_id']}: {done['action']} ({done.get('reason') or 'it was interrupted'})")
        if not only_land:
            say(f"Session {begun['session']} starting with {workers} workers...")
        attempt = {
            "agents": [*agents],
            "wait": policy.wait,
            "now": policy.ignore_once,
            "max_minutes": max_minutes,
            "max_cost_usd": max_cost_usd,
            "parallel": folder,
        }
        worker.store.change(lambda change: publish.setting_of_run(folder, change))
        state = worker.store.read()
        settings = settings_of(state, say)
        for line in odd_touches({task.id: task.raw.get("touches") for task in state.tasks}):
            say(line)
        rebuild.where_missing(folder, place.git, target, replace(left_run(worker), workers=workers), say=say)
        terms = RunTerms(
            workers=workers,
            say=say,
            stop=stop,
            max_attempts=_fewest(max_tasks, state.config.max_tasks * workers or None),
            max_cost_usd=max_cost_usd,
            settings=settings,
            sandbox=state.config.sandbox,
            only_land=only_land,
            engine=engine,
            accounts=tuple(accounts),
            policy=policy,
        )
        claimed = {"workers": workers, **({"branch": branch} if branch else {})}
        try:
            push_target = publish.target_of(place.git, settings.push, target, folder)
            home = TaskListHome(worker, int(begun["session"]), claimed, attempt, push_target)
            with stop.listening():
                done = Coordinator(home, place.git, folder, target, terms).run()
            publish.forget(folder)
        except KeyboardInterrupt:
            done = {"reason": "user_pause", "message": "Interrupted; the next run goes on.", "exit_code": 130}
            with stop.held():
                sessions.end(worker)
        except HarnessError:
            with stop.held(), suppress(HarnessError):
                sessions.end(worker)
            raise
    following = "harness run" if done.get("unpushed") else run.next_command(worker)
    following = "harness queue" if done["reason"] == "held" else following
    following = "harness resume" if worker.store.paused() else done.get("hint") or following
    return {"session": begun["session"], **done, "next": following}


def preview(
    worker: Worker,
    *,
    workers: int,
    branch: str | None = None,
    max_tasks: int | None = None,
    max_cost_usd: float | None = None,
) -> JsonObject:
    """What ``run_parallel`` would begin with, why, and why not with the rest; changes nothing."""
    place, state = place_of(worker), worker.store.read()
    place_of_list = trusted_state.existing(worker.layout.tasks, worker.layout.root, writable=False)
    folder = os.path.join(place_of_list or worker.layout.root, "parallel")
    if place is not None:
        refuse_gone(place.git, folder, branch)
    if place is None or place.git.head() is None:
        raise UnsafeTree("--workers needs a git work tree with a commit", hint="git init  # or harness run --dry-run")
    state.raw["session_config"] = publish.config_of_run(folder, state)
    found = settings_of(state)
    known = foreseen(folder, workers)
    for task in leases.left_by_run(state):
        if known.work(task.id).state not in (READY, LANDING):
            lifecycle.release(task)
    items = open_items(worker, state)
    limit = _fewest(max_tasks, state.config.max_tasks * workers or None)
    chosen = [*choices(known, items, _fewest(workers - len(known.in_state("working")), limit) or 0, learned_in(folder))]
    starts = [each for each in chosen if each.starts]
    named = {each.id for each in items}
    waits = [task for task in state.tasks if task.status == "pending" and task.id not in named]
    return {
        "workers": workers,
        "branch": landing.target(place.git, branch),
        "starts": [
            {"slot": f"w{n}", "item": each.item.id, "title": each.item.title, "reason": each.reason}
            for n, each in enumerate(starts, 1)
        ],
        "waits": [{"item": each.item.id, "reason": each.reason} for each in chosen if not each.starts]
        + [{"item": task.id, "reason": f"it needs {_needed(state, task)}, which has not landed"} for task in waits],
        "lands": [*known.queue],
        "limits": {"max_tasks": limit, "max_cost_usd": max_cost_usd or run.MAX_COST_USD},
        "push": _shown(publish.target_of(place.git, found.push, landing.target(place.git, branch))),
        "ports": found.ports,
        "lend": [*equipment.lendable_in(place.git, found.lent, place.exclude, installed=found.lend)],
    }


def _shown(target: PushTarget | None) -> str | None:
    return f"{target.remote}, {target.branch.removeprefix('refs/heads/')}" if target else None


def preview_lines(found: JsonObject) -> list[str]:
    """The same for a person."""
    text = [f"{found['workers']} workers on {str(found['branch']).removeprefix('refs/heads/')}:"]
    text += [f"  {each['slot']}  {each['item']}: {each['title']} ({each['reason']})" for each in found["starts"]]
    text += [f"      {each['item']}: {each['reason']}" for each in found["waits"]]
    text += [f"Proven, and landing first: {', '.join(found['lands'])}"] if found["lands"] else []
    text += [f"Each landing is pushed to {found['push']}"] if found["push"] else []
    text += [f"Each place has copies of {', '.join(found['lend'])}"] if found["lend"] else []
    limits = found["limits"]
    most = f"{limits['max_tasks']} attempts and " if limits["max_tasks"] else ""
    return [*text, f"At most {most}${limits['max_cost_usd']:.2f}; {found['ports']} ports a slot."]


def _needed(state: State, task: Task) -> str:
    needs = (
        need for need in task.depends_on or [] if need not in state.by_id or state.by_id[need].status != "completed"
    )
    return ", ".join(needs) or "something"


def _fewest(*limits: int | None) -> int | None:
    return min((each for each in limits if each is not None), default=None)
