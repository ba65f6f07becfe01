"""Final check at the end of a run: the harness repeats the checks of all tasks that the run completed.

During a run, the harness repeats only the checks that a change is likely to break. The final check finds all tasks that
are broken. A broken task no longer counts as proven. By a bisection over the run's commits, the harness finds the task
whose work broke it. The harness then asks the user what to do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_harness.kernel.git import Git
from agent_harness.kernel.terminal import quoted
from agent_harness.protocols.tasklist import lifecycle, proven
from agent_harness.protocols.tasklist.attempts import validation, verbs
from agent_harness.protocols.tasklist.attempts.attempt import folder_of, place_of
from agent_harness.protocols.tasklist.records import BROKEN, IN_PLACE
from agent_harness.session import ledger
from agent_harness.session.ledger import VerdictStep
from agent_harness.verification.verdict import FAST, OFF, Verdict

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.layout import TaskListLayout
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.verification.command.runner import CommandCheck
    from agent_harness.verification.runner.execution import Stop


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Repository and commit on which the checks of completed tasks run."""

    folder: Git
    head: str | None  # the commit to check; None for the files as they are
    stop: "Stop"

    def runs(self, check: "CommandCheck", commit: str | None = None) -> Verdict:
        return validation.proof_at(self.folder, commit or self.head or "", check, self.stop)


def look(
    caller: "Caller", completed: Sequence[str], asked: Sequence[str], *, stop: "Stop", say: Callable[[str], None]
) -> list[str]:
    """Repeat the checks of completed tasks, and return the ids of the tasks that now fail."""
    state = caller.store.read()
    order = [state.by_id[each] for each in dict.fromkeys(completed) if each in state.by_id]
    open_ones = [task for task in order if task.status == "completed" and task.id not in asked]
    if not open_ones:
        return []
    git_place = place_of(caller)
    head = git_place.git.head() if git_place and state.config.isolation != IN_PLACE else None
    terms = proven.ClaimTerms(
        state.config.isolation if head else IN_PLACE, OFF, trust=FAST, sandbox=state.config.sandbox
    )
    place = _Place(folder=Git(folder_of(caller)), head=head, stop=stop)
    together: dict[tuple[str, float], tuple[CommandCheck, list[Task]]] = {}
    for task in proven.as_kept(caller.layout, open_ones, {}):
        if command := task.validation_command:
            check = validation.check_of(task, terms).alone
            together.setdefault((command, task.timeout_seconds), (check, []))[1].append(task)
    if together:
        count = sum(len(tasks) for _, tasks in together.values())
        say(f"Running the checks of {count} completed task{'s' if count > 1 else ''} again.")
    found: list[str] = []
    for check, tasks in together.values():
        ran = place.runs(check)
        if ran.accepted or not validation.ended_red(ran) or place.runs(check).accepted:
            continue
        for task in tasks:
            later = order[[each.id for each in order].index(task.id) + 1 :]
            if head and not (task.completed_commit and place.runs(check, task.completed_commit).accepted):
                caller.store.note(
                    "WARN", f"the check does not pass on the task's own commit: {check.command}", task=task.id
                )
                continue
            _open_again(caller, task, _breaker(place, later, check) if head else None, head, ran)
            found.append(task.id)
    return found


def _breaker(place: _Place, later: Sequence["Task"], check: "CommandCheck") -> "Task | None":
    low, high = 0, len(later)
    while low < high:
        middle = (low + high) // 2
        commit = later[middle].completed_commit
        if commit and place.runs(check, commit).accepted:
            low = middle + 1
        else:
            high = middle
    return later[low] if low < len(later) else None


def _open_again(caller: "Caller", task: "Task", breaker: "Task | None", head: str | None, ran: Verdict) -> None:
    words = {"exit_code": ran.exit_code, "output": ran.output, "seconds": round(ran.seconds, 3)}
    step = verbs.kept_step(caller, "proof", str(task.validation_command), **words)
    by = (breaker.id, str(breaker.completed_commit)) if breaker else None
    caller.store.change(lambda change: note_broken(caller.layout, change, task.id, by=by, head=head, steps=(step,)))


def _taking_back(change: "TaskListChange", by: tuple[str, str] | None) -> str | None:
    other = change.state.by_id.get(by[0]) if by else None
    if other is None or by is None:
        return None
    return f"harness undo {quoted(other.id)}" if other.status == "completed" else f"git revert {by[1][:12]}"


def note_broken(
    layout: "TaskListLayout",
    change: "TaskListChange",
    task_id: str,
    *,
    by: tuple[str, str] | None,
    head: str | None,
    steps: tuple[VerdictStep, ...] = (),
) -> None:
    """Record that a completed task no longer passes its check, and ask the user."""
    task = change.state.by_id.get(task_id)
    if task is None or task.status != "completed":
        return
    who = f"{by[0]} broke it (commit {by[1][:7]})" if by else "a later change broke it"
    at = f"on {head[:7]}" if head else "on the current files"
    message = f"{task.id} is no longer proven: {who}; this check fails {at}: {task.validation_command}"
    path = proven.ledger(layout)
    last = ledger.last_about(path, task.id)
    line = ledger.ClaimVerdict(
        id=f"{task.id}, broken after line {last.n if last else 0}",
        item=task.id,
        verdict=ledger.REJECTED,
        attempt=task.attempts,
        codes=("broken_later",),
        candidate=head,
        steps=steps,
    )
    proven.forget(layout, task.id)
    ledger.write(path, line)
    made = task.attempts
    lifecycle.unprove(task, message, change.now)
    question = {"kind": BROKEN, "message": message, "takes_back": _taking_back(change, by)}
    task.raw["question"] = {**question, "attempts": made}
    change.note("ERROR", message, task=task.id, category="TEST_FAIL")
    change.touch(task)
