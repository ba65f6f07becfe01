"""Reader that provides the records of a task list to views, in the value types that all protocols share.

Source: ``faces.md`` F-REC-7."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from agent_harness.kernel import files, trusted_state
from agent_harness.kernel.json import JsonObject, text, whole
from agent_harness.kernel.terminal import quoted
from agent_harness.protocols.tasklist import proven, status, store
from agent_harness.protocols.tasklist.layout import TaskListLayout, safe_name
from agent_harness.protocols.tasklist.records import State, Task
from agent_harness.session import needs, now, project_view, run_snapshot
from agent_harness.session.project_view import AskedQuestion, Item, Now, PastSession, Read, StatePart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

__all__ = ["TaskListSource", "asked_questions"]


class TaskListSource:
    """Source from which views get the records of one task list."""

    kind: Kind = "tasklist"

    def __init__(self, layout: TaskListLayout) -> None:
        self.path = layout.root
        self._layout = layout

    def home(self) -> str | None:
        return trusted_state.existing(self._layout.tasks, self._layout.root)

    def now(self) -> Sequence[Now]:
        return now.read(self.home())

    def several(self) -> str | None:
        return run_snapshot.at_work(status.parallel_of(self._layout))

    def state_files(self) -> Sequence[str]:
        home = self.home()
        held = [] if self.several() else [self._layout.parallel]  # a running run writes it all the time
        kept = [os.path.join(home, name) for name in (proven.PROVEN, needs.LAST_RUN)] if home else []
        return [self._layout.tasks, self._layout.pause, *held, *kept]

    def state(self, read: Read) -> StatePart:
        """Return the tasks and questions. Only a proven task counts as completed."""
        layout = self._layout
        state = read(os.path.basename(layout.tasks), lambda: store.read(layout), State({"tasks": []}))
        facts = status.ListFacts(layout, state)
        return StatePart(
            name=os.path.basename(layout.root),
            items=tuple(_item(task, facts, state, layout.root) for task in state.tasks),
            questions=asked_questions(state),
            needs=facts.needs,
            rests="paused" if facts.paused else None,
            next=facts.next,
            comes_first=facts.comes_first,
        )

    def journals(self) -> Sequence[str]:
        return [self._layout.costs]

    def sessions(self, rows: Iterable[JsonObject], before: tuple[PastSession, ...]) -> tuple[PastSession, ...]:
        return (*before, *map(_attempt, rows))

    def recordings(self) -> Sequence[str]:
        """Return a glob pattern for the transcripts that `harness run` makes, one for each attempt."""
        import glob

        return [os.path.join(glob.escape(self._layout.sessions), "*.cassette.jsonl")]


BY_HAND = "it was set to failed manually; the next run retries it"


def _item(task: Task, facts: status.ListFacts, state: State, root: str) -> Item:
    known = state.by_id
    needs = task.depends_on or []
    missing = [each for each in needs if each not in known or known[each].status != "completed"]
    word = facts.standing(task)
    tries_left = task.attempts < task.max_attempts
    again = (
        not task.given_up
        if word == project_view.FAILED
        else word == project_view.BLOCKED and tries_left and not missing
    )
    said = task.error_log[-1] if task.error_log else BY_HAND if again else ""
    waits = tuple(missing) if again or word in (project_view.OPEN, project_view.BLOCKED) else ()
    return Item(
        id=task.id,
        name=task.id,
        title=task.title,
        state=word,
        reason=facts.checked[task.id] if word == project_view.CHECKED else said if word != project_view.PROVEN else "",
        waits_for=waits,
        proof=task.validation_command,
        folder=task.worktree or root,
        again=again,
        next=_next(task.id, project_view.OPEN if again else word, waits, task.validation_command),
    )


def _next(task_id: str, word: str, waits: Sequence[str], proof: str | None) -> str:
    named = quoted(task_id)
    if waits:
        return f"harness why {quoted(waits[0])}"
    if word == project_view.OPEN and not proof:
        return f"harness task set {named} validation.command='...'"
    return {
        project_view.OPEN: "harness run",
        project_view.FAILED: f"harness task reset {named}",
        project_view.BLOCKED: f"harness task reset {named}",
        project_view.UNPROVEN: "harness session start",
    }.get(word, "harness status")


def asked_questions(state: State) -> tuple[AskedQuestion, ...]:
    """Return the open questions to the user: the question about a halt, and the questions about single tasks."""
    own = tuple(
        AskedQuestion(
            kind=str(task.question.get("kind")),
            message=str(task.question.get("message")),
            item=task.id,
            stops=False,
            answer=status.answer_of_question(task),
        )
        for task in state.tasks
        if task.question
    )
    if state.halt is None:
        return own
    kind, message = (str(state.halt.get(name)) for name in ("category", "message"))
    return (AskedQuestion(kind=kind, message=message, answer=status.answer_of_halt(state)), *own)


def _attempt(row: JsonObject) -> PastSession:
    names = {"input": "input_tokens", "output": "output_tokens", "cached": "cached_tokens"}
    counted = {name: whole(row.get(member)) for name, member in names.items()}
    return PastSession(
        number=whole(row.get("session")),
        item=text(row.get("task_id")),
        outcome=text(row.get("result")) or "ended",
        started=text(row.get("started_at")),
        ended=text(row.get("at")),
        seconds=project_view.amount(row.get("seconds")),
        agent=text(row.get("agent")),
        model=project_view.models(row.get("model")),
        prompt_type=text(row.get("prompt_type")),
        base=text(row.get("base")),
        head=text(row.get("head")),
        rescue_ref=text(row.get("rescue_ref")),
        attempt=whole(row.get("attempt")),
        turns=whole(row.get("turns")),
        tokens={name: count for name, count in counted.items() if count is not None} or None,
        cost_usd=project_view.amount(row.get("cost_usd")),
        assumed_usd=project_view.amount(row.get("assumed_usd")) or 0.0,
    )


def transcript(layout: TaskListLayout, item: str, workspace: str | None = None) -> str | None:
    import re

    top, folder = layout.root, layout.sessions
    if workspace is not None:
        from pathlib import Path

        from agent_harness.kernel.git.locate import locate

        repository = locate(Path(layout.root))
        below = os.path.relpath(folder, repository.top if repository else layout.root)
        top, folder = workspace, os.path.join(workspace, below)
    if not files.is_inside(top, folder) or not os.path.isdir(folder):
        return None
    named = re.compile(rf"\d+-{re.escape(safe_name(item))}\.\d+\.log")
    with os.scandir(folder) as entries:
        found = [each for each in entries if named.fullmatch(each.name) and each.is_file(follow_symlinks=False)]
    return max(found, key=lambda each: each.stat().st_mtime).path if found else None
