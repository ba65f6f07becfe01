"""Entry point for a long task, with one method for each `lth` command. Each method loads only the modules that it
needs.

A command with options has a class in ``longtask.options`` that parses the options once. Each method returns an answer
(an object, a string or ``None``) and an exit status. Errors are ``HarnessError``. Source: ``longtask.md`` 2.
"""

from __future__ import annotations

import os

from agent_harness.protocols.longtask.layout import LongTaskLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.options import (
        ClassifyOptions,
        EventOptions,
        EvidenceOptions,
        HealthOptions,
        InitOptions,
        ListOptions,
        RecipeOptions,
        RecordOptions,
        RescueOptions,
        RunOptions,
        ScheduleOptions,
        TickOptions,
        VerifyOptions,
    )
    from agent_harness.protocols.longtask.verbs.person import TaskChoices
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.project_view import ProjectReader

    Answer = tuple[JsonObject | str | None, int]
    Report = tuple[JsonObject, int]

OPTIONS = {
    "init": "InitOptions",
    "tick": "TickOptions",
    "run": "RunOptions",
    "resume": "RunOptions",
    "record": "RecordOptions",
    "evidence": "EvidenceOptions",
    "verify": "VerifyOptions",
    "rescue": "RescueOptions",
    "classify": "ClassifyOptions",
    "health": "HealthOptions",
    "ls": "ListOptions",
    "summary": "EventOptions",
    "tail": "EventOptions",
    "openclaw-recipe": "RecipeOptions",
    "schedule": "ScheduleOptions",
}
"""Names of the classes in ``longtask.options``, by command. Only commands with options are listed."""


def reader(task_dir: str | os.PathLike[str]) -> ProjectReader:
    """Return a reader that shows the long task in the form that views use for all protocols."""
    from agent_harness.protocols.longtask.reader import LongTaskSource
    from agent_harness.session.project_view import ProjectReader

    return ProjectReader(LongTaskSource(LongTaskLayout(task_dir)))


def log_rows(task_dir: str | os.PathLike[str]) -> Iterator[JsonObject]:
    """Return the events of the task as rows for ``session.log_rows``, newest first. Each row contains the task id."""
    from agent_harness.protocols.longtask import log
    from agent_harness.protocols.longtask.store import LongTaskStore

    layout = LongTaskLayout(task_dir)
    task_id = LongTaskStore(layout).task_id()
    return ({"taskId": task_id, **row} for row in log.rows(layout))


def followed(task_dir: str | os.PathLike[str]) -> list[FollowedLog]:
    """Return the logs that ``harness log --follow`` shows: the event log and the output of runs."""
    from agent_harness.protocols.longtask import log
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.now import said_at

    layout = LongTaskLayout(task_dir)
    return [
        FollowedLog("events", lambda: log.days(layout), log.told),
        FollowedLog("run", lambda: [layout.said], said_at),
    ]


def transcript(task_dir: str | os.PathLike[str]) -> str | None:
    """Return the path of the newest agent transcript, or ``None``."""
    from agent_harness.protocols.longtask.run.session_folder import TRANSCRIPT

    sessions = LongTaskLayout(task_dir).sessions
    if not os.path.isdir(sessions) or os.path.islink(sessions):
        return None
    found = [os.path.join(sessions, name, TRANSCRIPT) for name in sorted(os.listdir(sessions))]
    return next((path for path in reversed(found) if os.path.isfile(path)), None)


class LongTask:
    """Commands on one task directory. The directory need not exist before ``init``."""

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
        """Append a run's output to ``runs/run.log`` if the folder ``runs`` exists. Source: ``faces.md`` F-REC-6."""
        from agent_harness.session import now

        if os.path.isdir(self.layout.runs) and not os.path.islink(self.layout.root):
            now.keep_said(self.layout.said, text)

    def answer(self, command: str, words: Mapping[str, object]) -> Answer:
        """Run an `lth` command with its options, given by long name without dashes. Return its answer and exit status.

        Raise ``UsageError`` for an invalid value before any file is read or written."""
        method: Callable[..., Answer] = getattr(self, command.replace("-", "_"))
        if command not in OPTIONS:
            return self._warned(command, *method())
        from agent_harness.protocols.longtask import options

        return self._warned(command, *method(getattr(options, OPTIONS[command])(words)))

    def _warned(self, command: str, answer: JsonObject | str | None, code: int) -> Answer:
        """Move the answer's warnings to ``self.warnings``, with those on ``task.json``. Source: ``longtask.md`` 5."""
        from agent_harness.protocols.longtask.store import LongTaskStore

        self.warnings = answer.pop("warnings", []) if isinstance(answer, dict) else []
        if command != "ls":  # it is about a folder of tasks
            self.warnings += LongTaskStore(self.layout).unfilled()
        noted = {"warnings": self.warnings} if self.warnings else {}
        return ({**answer, **noted} if isinstance(answer, dict) else answer), code

    def tell_warnings(self) -> None:
        """Print each warning on stderr. Warnings about ``task.json`` are not logged."""
        from agent_harness.protocols.longtask import log

        for each in self.warnings:
            log.warn(each)

    def init(self, options: InitOptions) -> Answer:
        """Create a new long task in the task directory. Source: ``longtask.md`` 5."""
        from agent_harness.protocols.longtask.verbs import init

        return init.init(self.layout, options)

    def validate(self) -> Answer:
        """Check the files of the task. Source: ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import scheduling

        return scheduling.validate(self.layout)

    def next(self) -> Report:
        """Return the scheduling decision for the task. Source: ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import scheduling

        return scheduling.due(self.layout)

    def tick(self, options: TickOptions) -> Report:
        """Make one scheduling decision without starting an agent. Source: ``longtask.md`` 8."""
        from agent_harness.protocols.longtask.verbs import scheduling

        return scheduling.tick(self.layout, options)

    def run(self, options: RunOptions) -> Report:
        """Run one bounded slice of the task with one agent. Source: ``longtask.md`` 10."""
        from agent_harness.protocols.longtask.run import runner

        return runner.run(self.layout, options)

    def resume(self, options: RunOptions) -> Report:
        """Print a line on stderr that explains the decision, then run one slice. Source: ``longtask.md`` 19."""
        from agent_harness.protocols.longtask.verbs import status

        status.explain(self.layout)
        return self.run(options)

    def record(self, options: RecordOptions) -> Answer:
        """Write progress to the task's checkpoint file. Source: ``longtask.md`` 12."""
        from agent_harness.protocols.longtask.verbs import record

        return record.record(self.layout, options)

    def evidence(self, options: EvidenceOptions) -> Report:
        """Record one evidence item. Source: ``longtask.md`` 12."""
        from agent_harness.protocols.longtask.verbs import record

        return record.gather(self.layout, options)

    def accept(self) -> Answer:
        """Accept a changed ``task.json`` as the user's decision; runs may start again. Source: ``longtask.md`` 3.1."""
        from agent_harness.protocols.longtask.verbs import record

        return record.accept(self.layout)

    def choices(self) -> TaskChoices | None:
        """Return the decisions that a person can make now, or ``None`` if the task cannot be loaded."""
        from agent_harness.protocols.longtask.verbs import person

        return person.choices(self.layout)

    def decide(self, word: str, text: str, *, shown: str, by: str) -> str:
        """Carry out one of the ``choices``, and return a line that says what was recorded.

        Raise ``Superseded`` if the task is no longer at the revision ``shown``. Source: ``faces.md`` F-SRV-4."""
        from agent_harness.protocols.longtask.verbs import person

        return person.decide(self.layout, word, text, shown=shown, by=by)

    def verify(self, options: VerifyOptions) -> Report:
        """Check every success criterion of the task. Source: ``longtask.md`` 13."""
        from agent_harness.protocols.longtask import criteria

        return criteria.verify(self.layout, options.timeout_seconds)

    def rescue(self, options: RescueOptions) -> Report:
        """List, show or restore the snapshots taken before each slice. Source: ``longtask.md`` 10.2."""
        from agent_harness.protocols.longtask.run import session_folder

        return session_folder.rescue(self.layout, options)

    def classify(self, options: ClassifyOptions) -> Report:
        """Classify a failure according to its output. Source: ``longtask.md`` 11."""
        from agent_harness.protocols.longtask.run.classifier import classify_command

        return classify_command(self.layout, options)

    def health(self, options: HealthOptions | None = None) -> Report:
        """Check whether the task is ready to run: files, scheduler, agents and folders. Source: ``longtask.md`` 17."""
        from agent_harness.protocols.longtask.verbs import health

        return health.health(self.layout, strict=options is not None and options.strict)

    def status(self) -> Answer:
        """Return the state of the task as text. Source: ``longtask.md`` 19."""
        from agent_harness.protocols.longtask.verbs import status

        return status.status(self.layout)

    def ls(self, options: ListOptions) -> Answer:
        """List the tasks below a folder. Source: ``longtask.md`` 19."""
        from agent_harness.protocols.longtask.verbs import status

        return status.ls(self.layout, options)

    def summary(self, options: EventOptions) -> Report:
        """Return statistics about the checkpoint file and the log. Source: ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import status

        return status.summary(self.layout, options)

    def tail(self, options: EventOptions) -> Report:
        """Return the last events of the log. Source: ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import status

        return status.tail(self.layout, options)

    def schedule(self, options: ScheduleOptions) -> Answer:
        """Return configuration lines that make cron or systemd run slices. Source: ``scale.md`` 9."""
        from agent_harness.protocols.longtask.verbs import schedule

        return schedule.schedule(self.layout, options)

    def openclaw_recipe(self, options: RecipeOptions) -> Report:
        """Return the command that creates an OpenClaw job for slices of this task. Source: ``longtask.md`` 17."""
        from agent_harness.protocols.longtask.verbs import recipe

        return recipe.recipe(self.layout, options)
