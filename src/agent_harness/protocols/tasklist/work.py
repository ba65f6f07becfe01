"""Attempt of ``harness run`` at a claimed task, with the methods that the session runner calls.

An attempt starts with the agent's first turn. If the check fails, the agent gets further rounds to fix the work. The
result is completed, failed or released. Source: ``tasklist.md`` 5, 11 to 13."""

import copy
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent, Brief
from agent_harness.agents.usage import Totals
from agent_harness.errors import (
    HarnessError,
    NotOwner,
    PersonNeeded,
    Refused,
    StateDamaged,
    TimedOut,
    VerificationFailed,
)
from agent_harness.kernel import clock, files, owner
from agent_harness.kernel.git import GitFailed
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process import new_run_id
from agent_harness.kernel.process.sandbox import settings_from
from agent_harness.kernel.redact import redact
from agent_harness.kernel.temporary import remove_tree
from agent_harness.protocols.tasklist import costs, progress, proven
from agent_harness.protocols.tasklist.attempts import accept_change, commits, left_by_turn, rollback, verbs
from agent_harness.protocols.tasklist.attempts.list_files import ListFiles
from agent_harness.protocols.tasklist.claims.caller import Caller, LeaseKeeper
from agent_harness.protocols.tasklist.layout import safe_name
from agent_harness.protocols.tasklist.records import CHECKED, PROVEN, State, Task
from agent_harness.protocols.tasklist.store import TaskListChange
from agent_harness.session.limits import SessionLimits, changed_in_folder, changed_in_repository, watch
from agent_harness.session.now import NowRecord
from agent_harness.session.runner import Turns, walk
from agent_harness.session.work import POLICIES, Ending, Policy, TurnRequest, TurnSoFar
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.monitors import BudgetLimit, ProjectFacts
from agent_harness.supervision.recording import Recording
from agent_harness.supervision.starts import MOST_STARTS, StartCount
from agent_harness.verification.grade import UNCHANGED

UNCOUNTED = {
    "user_pause": "a person stopped the run",
    "rate_limited": "the agent was rate limited",
    "overloaded": "the provider was overloaded",
    "refused": "the provider refused the agent's requests",
}
"""Reasons for the end of an attempt that are not the task's fault. The task is released, and the attempt is not
counted.
"""

_CLAIMED = ("attempts", "max_attempts", "base_ref", "started_at_commit", "started_branch", "worktree")
"""Task members that no harness command changes while the task is in progress."""

_NOTHING, _NO_FILE = (b"", 0), (b"", -1)

AT_ONCE_SECONDS = 30.0
"""Time in seconds within which an agent that fails without work or usage counts as never started."""


@dataclass(frozen=True, kw_only=True)
class AttemptTerms:
    agent: Agent
    max_minutes: float
    max_cost_usd: float  # of the run
    say: Callable[[str], None]
    stop: Stop
    elsewhere: Callable[[float], float] | None = None  # for ``BudgetLimit``
    spare: bool = False  # another agent can take over from one that is refused
    counts: str | None = None  # folder of start counts and present steps, if the list is not the project's own
    begin: Callable[[], None] | None = None  # writes the first files of the attempt into the work tree, after the claim


@dataclass(frozen=True, kw_only=True)
class Attempted:
    task_id: str
    result: str  # completed, failed, parked, released, lost
    message: str
    used: Totals = field(default_factory=Totals)
    ends_run: str | None = None  # why no further task should be begun
    exit_code: int = 9  # of a run that ends so
    refused: bool = False  # the provider refused; it does not count as an attempt
    failed_at_once: str | None = None  # error of an agent that ended before it began; not an attempt either
    agent_error: str | None = None  # error of the agent's last turn, if the attempt failed
    earlier: tuple[str, ...] = ()  # completed tasks whose proofs pass with its work


@dataclass(frozen=True, kw_only=True)
class TaskRuling:
    """Result of the harness's check after an agent's turn."""

    completed: JsonObject | None = None
    error: VerificationFailed | TimedOut | None = None
    asks: bool = False

    @property
    def accepted(self) -> bool:
        return self.completed is not None

    @property
    def final(self) -> bool:
        """True if the agent cannot fix the reason for the rejection."""
        return self.error is not None and bool(self.error.data.get("final"))


@dataclass(frozen=True, kw_only=True)
class TaskJournal:
    terms: AttemptTerms
    caller: Caller
    session: int
    task_id: str

    def say(self, line: str) -> None:
        self.terms.say(line)

    def event(self, event_type: str, **fields: object) -> None:
        text = f"{event_type.replace('_', ' ')}: {fields.get('message')}"
        self.caller.store.log(progress.entry("WARN", self.session, task=self.task_id, text=text))


def now_path(caller: Caller, counts: str | None) -> str | None:
    if counts:
        return os.path.join(counts, f"now-{safe_name(caller.id or '')}.json")
    return proven.now_path(caller.layout, caller.id, make=True)


def attempt(terms: AttemptTerms, caller: Caller, task: Task, *, session: int, spent_usd: float) -> Attempted:
    """Run the agent on a claimed task, prove the work, and close the attempt."""
    if task.validation_command is None:
        verbs.validate(caller, task.id)  # reports the missing check, before an agent works in vain
    work = TaskWork(terms, caller, task, session=session, spent_usd=spent_usd)
    done = None
    try:
        if terms.begin:
            terms.begin()
        done = _walked(work)
        return done
    finally:
        work.note_row(done.result if done else "error")


def _walked(work: "TaskWork") -> Attempted:
    try:
        return walk(work, work.turns)
    except NotOwner as error:
        return Attempted(task_id=work.name, result="lost", message=error.message, used=work.turns.so_far.used)
    except GitFailed as error:  # after a turn: its leftovers belong to the attempt
        if error.is_of_disk or not work.turns.so_far.turns:
            raise
        return work.broken(error)
    except KeyboardInterrupt:
        return work.unfinished(Ending(reason="user_pause"))


class TaskWork:
    """Attempt at one task, with the methods that the session runner calls."""

    def __init__(self, terms: AttemptTerms, caller: Caller, task: Task, *, session: int, spent_usd: float) -> None:
        self._terms = terms
        self._caller = caller
        self._task = task
        self._session = session
        self._began = clock.timestamp()
        money = BudgetLimit(name="Run", limit_usd=terms.max_cost_usd, spent_usd=spent_usd, elsewhere=terms.elsewhere)
        self._budget_usd = max(0.0, terms.max_cost_usd - money.used(0.0))
        self._before: State | None = None  # the list as it was when the turn began
        self._files: ListFiles | None = None  # of the list, as they were then
        self._init_script = _NOTHING  # as it was then
        proven.note_claim(caller.layout, task, by={"agent": terms.agent.name}, turn=owner.current().as_record())
        self._sandbox = proven.terms(caller.layout, caller.store.read(), task).sandbox
        name = f"{session}-{safe_name(task.id)}.{task.attempts + 1}"
        sessions = Path(caller.layout.sessions)
        renew = LeaseKeeper(caller, task)

        def stop_requested() -> str | None:
            renew()
            return terms.stop.requested()

        self._round = 1  # of the attempt: its first turn, then a fix round each
        self.turns = Turns(
            agent=terms.agent,
            journal=TaskJournal(terms=terms, caller=caller, session=session, task_id=task.id),
            stop=terms.stop,
            watch=watch(
                SessionLimits(
                    timeout_seconds=terms.max_minutes * 60,
                    budgets=(money,),
                )
            ),
            transcript=sessions / f"{name}.log",
            timeout_seconds=terms.max_minutes * 60,
            spare=terms.spare,
            recording=Recording(
                sessions / f"{name}.cassette.jsonl", caller.git, lambda: commits.fingerprint(caller, task)
            ),
            stop_requested=stop_requested,
            starts=StartCount(
                terms.counts or os.path.dirname(proven.ledger(caller.layout)),
                task.id,
                most=caller.store.read().config.max_starts or MOST_STARTS,
            ),
            item=task.id,
            now=NowRecord(
                now_path(caller, terms.counts),
                item=task.id,
                title=task.title,
                session=session,
                agent=terms.agent.name,
                left_usd={"session": self._budget_usd},
                can=("pause",),
            ),
        )

    @property
    def name(self) -> str:
        return self._task.id

    @property
    def policy(self) -> Policy:
        """Session policy for tasks, with the number of fix rounds from the task list."""
        rounds = self._caller.store.read().config.fix_rounds
        return POLICIES["task"] if rounds is None else replace(POLICIES["task"], fix_rounds=rounds)

    def brief(self, ruling: TaskRuling | None) -> str:
        task = self._task
        if ruling is None or ruling.error is None:
            return first_prompt(task, log=progress.condensed(self._caller.layout), rescues=task.rescues)
        self._round += 1
        told = (
            f"{ruling.error.message}; the agent gets the output (round {self._round} of {self.policy.fix_rounds + 1})"
        )
        self._terms.say(f"{task.id}: {told}")
        tail = ruling.error.data.get("tail")
        shown = list(tail) if isinstance(tail, list) else []
        return fix_prompt(task, ruling.error.message, shown, was_run=not ruling.error.data.get("not_run"))

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        caller, task = self._caller, self._task
        self._before = State(copy.deepcopy(caller.store.read().raw))
        self._files = ListFiles(caller, self._before)
        self._init_script = _script_at(caller.layout.init_script)
        files.own_place(os.fspath(self.turns.transcript), caller.layout.root)
        brief = Brief(
            prompt=prompt,
            cwd=Path(caller.tree),
            session=self._session,
            prompt_type="continuation" if so_far.round else "coding",
            task_id=task.id,
            round=so_far.round,
            conversation=so_far.conversation,
            budget_usd=max(0.0, self._budget_usd - so_far.used.budget_usd()),
            environment=self._environment(),
            run_id=new_run_id(),
            sandbox=settings_from(self._sandbox),
            places=(Path(caller.layout.root), Path(caller.cwd)),
        )
        return TurnRequest(brief=brief, facts=self._changed)

    def _environment(self) -> Mapping[str, str]:
        caller = self._caller
        named = {
            "HARNESS_STATE_ROOT": caller.layout.root,
            "HARNESS_SESSION_ID": caller.session_owner,
            "HARNESS_TASK_ID": self._task.id,
            "HARNESS_CLAIM_TOKEN": caller.token or "",
        }
        return {**named, **({"HARNESS_WORKER_ID": caller.id} if caller.id else {})}

    def _changed(self) -> ProjectFacts:
        root, git = Path(self._caller.tree), self._caller.git
        if git is None:
            return changed_in_folder(root)
        return changed_in_repository(git, root, self._task.started_at_commit)

    def claimed(self) -> bool:
        return self.closed() is not None

    def _has_work(self) -> bool:
        try:
            found = rollback.evidence(self._caller, self._task)
        except Refused:
            return True
        return not found.known or bool(found.uncommitted or found.commits)

    def closed(self) -> Attempted | None:
        """Undo forbidden changes by the agent. Return the result if the agent has ended the task."""
        if self._files and (told := self._files.put_back()):
            self._terms.say(f"{self._task.id}: {told}")
        for link in self._caller.store.take_links_away():
            told = f"{os.path.relpath(link, self._caller.layout.root)} was a symbolic link; the link was removed"
            self._terms.say(f"{self._task.id}: {told}")
            self._caller.store.note("WARN", told, task=self._task.id)
        with suppress(StateDamaged):  # the next reader restores it
            self._caller.store.change(self._put_back)
        task = self._caller.find(self._caller.store.read(), self._task.id)
        if task.status == "in_progress":
            left_by_turn.refuse_replaced(self._caller, task)
            if told := left_by_turn.put_in_order(self._caller, task, ends=False):
                self._terms.say(f"{task.id}: {told}")
            return None
        results = {"completed": "completed", "failed": "failed", "pending": "released"}
        ours = task.last_claim_token == self._caller.token
        result = results.get(task.status, "lost") if ours else "lost"
        message = task.error_log[-1] if result == "failed" and task.error_log else f"{result} by the agent"
        return self._attempted(result, message)

    def _put_back(self, change: TaskListChange) -> None:
        """Undo changes of the task list that the agent made without a command."""
        before, now = self._before, change.state
        unproven = {each.id for each in proven.unproven(self._caller.layout, now)}
        for was in before.tasks if before else ():
            found = now.by_id.get(was.id)
            if found is None:
                now.raw["tasks"].append(was.copy())
                change.note("WARN", "it was removed from harness-tasks.json; restored", task=was.id)
            elif found.id in unproven and was.status != "completed":
                found.raw.update({**was.copy(), "checkpoints": found.raw.get("checkpoints")})
                change.note(
                    "WARN", "it was marked as completed in harness-tasks.json, but is not proven; restored", task=was.id
                )
            elif found.id == self._task.id and found.claim_token == was.claim_token:
                moved = [name for name in _CLAIMED if found.raw.get(name) != was.raw.get(name)]
                if not moved:
                    continue
                found.raw.update({name: was.raw.get(name) for name in moved})
                change.note("WARN", f"{', '.join(moved)} was changed in harness-tasks.json; restored", task=was.id)
            else:
                continue
            change.touch()
        if before and now.raw.get("session_config") != before.raw.get("session_config"):
            now.raw["session_config"] = before.raw.get("session_config")
            change.note("WARN", "session_config was changed while an agent was working; restored")
            change.touch()
        if before:
            self._put_init_script_back(change)

    def _put_init_script_back(self, change: TaskListChange) -> None:
        """Restore the user's ``harness-init.sh`` if the agent changed it."""
        # the script has more rights than an agent
        layout, task, before = self._caller.layout, self._task, self._init_script
        path, found = layout.init_script, _script_at(layout.init_script)
        if before in (found, _NO_FILE) or matcher(tuple(task.may_change))(b"harness-init.sh"):
            return
        kept = layout.init_script_of(task.id)
        if found[0]:
            files.replace(kept, found[0])
        if found == _NO_FILE and os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        elif found != _NOTHING:
            os.unlink(path)
        if before != _NOTHING:
            files.replace(path, before[0], mode=before[1])
        where = f"; the changed version is kept in {os.path.relpath(kept, layout.root)}" if found[0] else ""
        change.note("WARN", f"harness-init.sh was changed while an agent was working; restored{where}", task=task.id)

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> TaskRuling | None:
        """Run the task's check, and complete the task if the check passes.
        Return ``None`` if the agent was stopped before it changed anything."""
        if ending is not None and not self._has_work():
            return None
        if waiting := left_by_turn.unfinished(self._caller, self._task):
            code, found = waiting
            said = f"{found.reason}, which this attempt began; finish that operation, or: {found.command}"
            error = VerificationFailed(said, code=code, not_run=True)
            verbs.refused_unjudged(self._caller, self._task, code, self._facts(so_far))
            return TaskRuling(error=error)
        self._terms.say(f"{self._task.id}: running {self._task.validation_command}")
        self.turns.now.step("proof")
        try:
            return TaskRuling(completed=verbs.complete(self._caller, self._task.id, known=self._facts(so_far)))
        except (VerificationFailed, TimedOut) as error:
            for told in (self.turns.only_here(), self.turns.empty_there(error.data.get("findings"))):
                error.message += f"; {told}" if told else ""
            return TaskRuling(error=error)

    def _facts(self, so_far: TurnSoFar) -> verbs.AttemptFacts:
        cost_usd = so_far.used.cost_usd if so_far.used.reported else None
        return verbs.AttemptFacts(
            agent=self._terms.agent.name, model=next(reversed(so_far.models), None), cost_usd=cost_usd
        )

    def note_row(self, result: str) -> None:
        caller, task, so_far = self._caller, self._task, self.turns.so_far
        new: list[str] = []
        with suppress(HarnessError):  # the run reports a damaged state
            new = [each for each in caller.find(caller.store.read(), task.id).rescues if each not in task.rescues]
        costs.note_cost(
            caller.layout,
            session=self._session,
            task_id=task.id,
            result=result,
            used=so_far.used,
            agent=self._terms.agent.name,
            attempt={
                "attempt": task.attempts + 1,
                "started_at": self._began,
                "seconds": round(time.monotonic() - self.turns.began, 1),
                "model": so_far.model,
                "prompt_type": "coding",
                "base": task.started_at_commit,
                "head": _head_of(caller),
                "rescue_ref": new[-1] if new else None,
                "turns": so_far.turns,
                "interventions": [redact(each) for each in so_far.interventions],
                "told": [*so_far.told],
            },
        )

    def accepted(self, ruling: TaskRuling) -> Attempted:
        done = ruling.completed or {}
        at = f", commit {str(done['commit'])[:7]}" if done.get("commit") else ""
        why = f": {done.get('basis')}" if done.get("grade") == CHECKED else ""
        self.turns.say_left_out()
        earlier = tuple((done.get("validation") or {}).get("earlier") or ())
        return replace(self._attempted("completed", f"{done.get('grade') or PROVEN}{at}{why}"), earlier=earlier)

    def rejected(self, ruling: TaskRuling, ending: Ending | None) -> Attempted:
        """Mark an attempt with rejected work as failed, and return its result."""
        error = ruling.error
        if error and error.data.get("grade") == UNCHANGED:
            return self._attempted("parked", error.message)
        found = error.data.get("findings") if error else None
        over_limit = isinstance(found, list) and any(each.get("code") == "over_limit" for each in found)
        unjudged = over_limit or (error is not None and bool(error.data.get("not_run")))
        category = "TIMEOUT" if isinstance(error, TimedOut) else "TASK_EXEC" if unjudged else "TEST_FAIL"
        done = self._fail(category, error.message if error else "", ending)
        command = accept_change.offer(self._task, error) if error else None
        if command is None or done.result != "failed":
            return done
        self._caller.store.note("WARN", f"to accept this work as it is: {command}", task=self._task.id)
        return replace(done, message=f"{done.message}; to accept this work as it is: {command}")

    def unfinished(self, ending: Ending) -> Attempted:
        """Close an attempt that ended before its check, and return the result."""
        if ending.reason in UNCOUNTED:
            return self._give_back(ending, UNCOUNTED[ending.reason])
        outcome = ending.outcome
        took = time.monotonic() - self.turns.began
        if ending.reason == "error" and not self.turns.so_far.used.reported and took < AT_ONCE_SECONDS:
            said = ending.message or "no error message"
            given = self._give_back(ending, f"the agent failed immediately: {said}")
            return replace(given, refused=False, ends_run=None, failed_at_once=said)
        left = f"the agent ended with exit code {outcome.exit_code}" if outcome else ending.reason
        return self._fail("TASK_EXEC", ending.message or left, ending)

    def broken(self, error: GitFailed) -> Attempted:
        """Fail the attempt because git cannot read the repository after an agent's turn."""
        done = self._fail("TASK_EXEC", error.message, None)
        return replace(done, message=f"{done.message}; to find the missing objects: git fsck")

    def _fail(self, category: str, message: str, ending: Ending | None) -> Attempted:
        ends_run = ending.message if ending and ending.reason == "budget_exceeded" else None
        try:
            done = verbs.fail(self._caller, self._task.id, category, message)
        except Refused as error:  # the rollback was refused; the attempt is counted and the list halted
            return replace(self._attempted("failed", error.message), ends_run=error.message)
        self.turns.say_what_stays()
        where = f"; its work is in {done['rescue']}" if done.get("rescue") else ""
        said = ending.message if ending and ending.reason == "error" else None
        return replace(self._attempted("failed", f"[{category}] {message}{where}"), ends_run=ends_run, agent_error=said)

    def _give_back(self, ending: Ending, why: str) -> Attempted:
        try:
            with self._terms.stop.held():
                done = verbs.release(self._caller, self._task.id, why)
        except HarnessError as error:
            goes_on = isinstance(error, NotOwner) and ending.reason == "rate_limited"  # a clock was set, or slept
            return replace(self._attempted("lost", error.message), ends_run=None if goes_on else why)
        where = f"; its work is in {done['rescue']}" if done.get("rescue") else ""
        given = self._attempted("released", f"{why}{where}")
        self.turns.say_what_stays()
        needs_money = ending.provider is not None and ending.provider.kind == "money"
        if ending.provider and needs_money:
            asked = ending.provider.sentence
            self._caller.store.change(lambda change: change.halt("BUDGET", asked, self._task.id))
        if ending.reason == "user_pause":
            return replace(given, ends_run=why)
        if ending.reason == "rate_limited":
            return replace(given, refused=True)
        said = ending.provider.sentence if ending.provider else why
        code = 5 if ending.reason == "overloaded" else PersonNeeded.exit_code if needs_money else 1
        return replace(given, refused=True, ends_run=said, exit_code=code)

    def _attempted(self, result: str, message: str) -> Attempted:
        return Attempted(task_id=self._task.id, result=result, message=message, used=self.turns.so_far.used)


def _head_of(caller: Caller) -> str | None:
    try:
        return caller.git.head() if caller.git and caller.git.is_repository else None
    except HarnessError:
        return None


def _script_at(path: str) -> tuple[bytes, int]:
    try:
        if os.path.islink(path):
            return _NO_FILE
        return files.read_bytes(path), os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return _NOTHING
    except HarnessError:
        return _NO_FILE


# ---- what the agent is told about its task: ``tasklist.md`` 5, 12.2, 13

FEEDBACK_CHARACTERS = 6000

RULES = """\
Rules:
- Work on this task only, in this folder. Leave harness-tasks.json and harness-progress.txt alone.
- After each larger step: harness task checkpoint {id} M/N "what was done"
- When you are done, end your turn. The harness runs the validation itself; only its result counts. It commits what you
  leave; commit yourself if you like.
- When the task cannot be done: harness task fail {id} --category TASK_EXEC "why", and end your turn.
- Never weaken, skip or delete a test, and leave the scripts and settings alone that the validation runs: what was there
  at the claim may not change. New tests and assertions are welcome.
"""


def first_prompt(task: Task, *, log: Sequence[str], rescues: Sequence[str]) -> str:
    parts = [f"# Task {task.id}: {task.title}", ""]
    parts += [f"Attempt {task.attempts + 1} of {task.max_attempts}."]
    if task.validation_command:
        seconds = f"{task.timeout_seconds:g} s at most"
        parts += [f"It is done when this command exits with 0 ({seconds}):", "", f"    {task.validation_command}"]
    if more := task.rest:
        parts += ["", "More about it:", json.dumps(more, ensure_ascii=False, indent=2)]
    if task.error_log:
        parts += ["", "Earlier attempts failed:", *[f"- {each}" for each in task.error_log[-5:]]]
    if rescues:
        parts += ["", "The harness rolled back their work, and keeps it. To look at it:"]
        parts += [f"- git show {ref}" for ref in rescues[-3:]]
    if log:
        parts += ["", "What happened on this list so far, newest last:", *[f"  {line}" for line in log]]
    return "\n".join([*parts, "", RULES.format(id=task.id)])


def fix_prompt(task: Task, said: str, output: Sequence[Any], *, was_run: bool = True) -> str:
    if not was_run:
        first = f"The harness did not run the validation: {said}"
        last = "Your work was not changed. Fix this, then end your turn."
        return "\n".join([f"# Task {task.id}: {task.title}", "", first, "", last, "", RULES.format(id=task.id)])
    text = "\n".join(str(line) for line in output)[-FEEDBACK_CHARACTERS:]
    return "\n".join(
        [
            f"# Task {task.id}: {task.title}",
            "",
            f"The harness ran the validation and it failed: {said}",
            f"    {task.validation_command}",
            "",
            "The end of its output:",
            text or "(no output)",
            "",
            "Fix the cause. Your work is as you left it.",
            "",
            RULES.format(id=task.id),
        ]
    )
