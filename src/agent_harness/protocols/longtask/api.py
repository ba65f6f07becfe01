"""Entry point for a long task. ``COMMANDS`` gives the function that carries out each `lth` command.

Only the module of the command that runs is loaded. A command with options has a class in ``longtask.options``, which
parses the options once. Each function returns an answer (an object, a string or ``None``) and an exit status. Errors
are ``HarnessError``. Source: ``longtask.md`` 2."""

from __future__ import annotations

import os

from agent_harness.protocols.longtask.layout import LongTaskLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.verbs.person import TaskChoices
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.project_view import ProjectReader

    Answer = tuple[JsonObject | str | None, int]
    Report = tuple[JsonObject, int]

COMMANDS: dict[str, tuple[str, str, str | None]] = {
    "init": ("verbs.init", "init", "InitOptions"),
    "validate": ("verbs.scheduling", "validate", None),
    "next": ("verbs.scheduling", "due", None),
    "tick": ("verbs.scheduling", "tick", "TickOptions"),
    "run": ("run.runner", "run", "RunOptions"),
    "resume": ("run.runner", "resume", "RunOptions"),
    "record": ("verbs.record", "record", "RecordOptions"),
    "evidence": ("verbs.record", "gather", "EvidenceOptions"),
    "accept": ("verbs.record", "accept", None),
    "verify": ("criteria", "verify", "VerifyOptions"),
    "rescue": ("run.session_folder", "rescue", "RescueOptions"),
    "classify": ("run.classifier", "classify_command", "ClassifyOptions"),
    "health": ("verbs.health", "health", "HealthOptions"),
    "status": ("verbs.status", "status", None),
    "ls": ("verbs.status", "ls", "ListOptions"),
    "summary": ("verbs.status", "summary", "EventOptions"),
    "tail": ("verbs.status", "tail", "EventOptions"),
    "openclaw-recipe": ("verbs.recipe", "recipe", "RecipeOptions"),
    "schedule": ("verbs.schedule", "schedule", "ScheduleOptions"),
}
"""Module, function and class of the options of each command. The function gets the layout and, if any, the options."""


def _loaded(module: str, name: str) -> Any:
    # not importlib: it would slow down every command
    return getattr(__import__(f"{__package__}.{module}", fromlist=(name,)), name)


def reader(task_dir: str | os.PathLike[str]) -> ProjectReader:
    """Return the reader from which views get the records of this long task."""
    from agent_harness.protocols.longtask.reader import LongTaskSource
    from agent_harness.session.project_view import ProjectReader

    return ProjectReader(LongTaskSource(LongTaskLayout(task_dir)))


def log_rows(task_dir: str | os.PathLike[str]) -> Iterator[JsonObject]:
    """Yield the task's events as rows for ``session.log_rows``, newest first."""
    from agent_harness.protocols.longtask import log
    from agent_harness.protocols.longtask.store import LongTaskStore

    layout = LongTaskLayout(task_dir)
    task_id = LongTaskStore(layout).task_id()
    return ({"taskId": task_id, **row} for row in log.rows(layout))


def followed(task_dir: str | os.PathLike[str]) -> list[FollowedLog]:
    """Return the logs that ``harness log --follow`` prints: the event log and the messages of runs."""
    from agent_harness.protocols.longtask import log
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.now import said_at

    layout = LongTaskLayout(task_dir)
    return [
        FollowedLog("events", lambda: log.days(layout), log.told),
        FollowedLog("run", lambda: [layout.said], said_at),
    ]


def transcript(task_dir: str | os.PathLike[str]) -> str | None:
    """Return the path of the newest agent transcript, or None without a transcript."""
    from agent_harness.protocols.longtask.run.session_folder import TRANSCRIPT

    sessions = LongTaskLayout(task_dir).sessions
    if not os.path.isdir(sessions) or os.path.islink(sessions):
        return None
    found = [os.path.join(sessions, name, TRANSCRIPT) for name in sorted(os.listdir(sessions))]
    return next((path for path in reversed(found) if os.path.isfile(path)), None)


class LongTask:
    """The `lth` commands on one task directory."""

    reports = False  # no setting makes a run end with a report page

    def __init__(self, task_dir: str | os.PathLike[str]) -> None:
        self.layout = LongTaskLayout(task_dir)
        self.warnings: list[str] = []  # of the last answer; a JSON answer has them too

    def reader(self) -> ProjectReader:
        return reader(self.layout.root)

    def telling(self, say: Callable[[str], None]) -> AbstractContextManager[object]:
        from agent_harness.protocols.longtask import log

        return log.told_to(say)

    def keep_said(self, text: str) -> None:
        from agent_harness.session import now

        if os.path.isdir(self.layout.runs) and not os.path.islink(self.layout.root):
            now.keep_said(self.layout.said, text)

    def answer(self, command: str, words: Mapping[str, object]) -> Answer:
        """Carry out an `lth` command with the options ``words``. Return the answer and the exit status."""
        module, name, kind = COMMANDS[command]
        given = (_loaded("options", kind)(words),) if kind else ()
        answer, code = _loaded(module, name)(self.layout, *given)
        from agent_harness.protocols.longtask.store import LongTaskStore

        self.warnings = answer.pop("warnings", []) if isinstance(answer, dict) else []
        if command != "ls":  # it is about a folder of tasks
            self.warnings += LongTaskStore(self.layout).unfilled()
        noted = {"warnings": self.warnings} if self.warnings else {}
        return ({**answer, **noted} if isinstance(answer, dict) else answer), code

    def tell_warnings(self) -> None:
        from agent_harness.protocols.longtask import log

        for each in self.warnings:
            log.warn(each)

    def choices(self) -> TaskChoices | None:
        """Return the decisions that a person can make now, or None for an invalid task."""
        from agent_harness.protocols.longtask.verbs import person

        return person.choices(self.layout)

    def decide(self, word: str, text: str, *, shown: str, by: str) -> str:
        """Carry out a person's decision. Raise ``Superseded`` if the task changed after the revision ``shown``."""
        from agent_harness.protocols.longtask.verbs import person

        return person.decide(self.layout, word, text, shown=shown, by=by)

    def next(self) -> Report:
        """Return the scheduling decision: run, wait, done or needs-human."""
        from agent_harness.protocols.longtask.verbs import scheduling

        return scheduling.due(self.layout)

    def health(self) -> Report:
        """Return a report on the task's files, scheduler, agents and folders (``longtask.md`` 17)."""
        from agent_harness.protocols.longtask.verbs import health

        return health.health(self.layout)
