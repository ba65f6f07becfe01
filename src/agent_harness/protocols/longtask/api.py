"""The front door of a long task: one method a command of `lth`, each loading only its own room.

Every method takes the options that were given, by their long names, and returns the answer (an object, a text or
nothing) with the exit status. Errors are ``HarnessError``. Source: ``longtask.md`` 2.
"""

from __future__ import annotations

from agent_harness.protocols.longtask.layout import LongTaskLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    Options = dict[str, object]
    Answer = tuple[dict[str, Any] | str | None, int]

__all__ = ["LongTask"]


class LongTask:
    """One task directory, which need not exist before ``init``."""

    def __init__(self, task_dir: str | os.PathLike[str]) -> None:
        self.layout = LongTaskLayout(task_dir)

    def init(self, options: Options) -> Answer:
        """Makes a new task. ``longtask.md`` 5."""
        from agent_harness.protocols.longtask.verbs import init

        return init.init(self.layout, options)

    def validate(self, options: Options) -> Answer:
        """Checks the files. ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import validate

        return validate.validate(self.layout, options)

    def next(self, options: Options) -> Answer:
        """What is due. ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import validate

        return validate.due(self.layout, options)

    def tick(self, options: Options) -> Answer:
        """One scheduling decision; starts nothing. ``longtask.md`` 8."""
        from agent_harness.protocols.longtask.verbs import tick

        return tick.tick(self.layout, options)

    def run(self, options: Options) -> Answer:
        """One bounded slice with one worker. ``longtask.md`` 10."""
        from agent_harness.protocols.longtask.run import runner

        return runner.run(self.layout, options)

    def resume(self, options: Options) -> Answer:
        """The same, and a line on stderr that says why. ``longtask.md`` 19."""
        from agent_harness.protocols.longtask.verbs import status

        status.explain(self.layout)
        return self.run(options)

    def record(self, options: Options) -> Answer:
        """Writes progress into the checkpoint. ``longtask.md`` 12."""
        from agent_harness.protocols.longtask.verbs import record

        return record.record(self.layout, options)

    def evidence(self, options: Options) -> Answer:
        """Records a piece of evidence. ``longtask.md`` 12."""
        from agent_harness.protocols.longtask.verbs import evidence_add

        return evidence_add.gather(self.layout, options)

    def verify(self, options: Options) -> Answer:
        """Checks every success criterion. ``longtask.md`` 13."""
        from agent_harness.protocols.longtask import criteria

        return criteria.verify(self.layout, options)

    def rescue(self, options: Options) -> Answer:
        """The working copies as they were before each slice. ``longtask.md`` 10.2."""
        from agent_harness.protocols.longtask.verbs import rescue

        return rescue.answer(self.layout, options)

    def classify(self, options: Options) -> Answer:
        """Names the failure that a text shows. ``longtask.md`` 11."""
        from agent_harness.protocols.longtask.verbs.classify import classify_command

        return classify_command(self.layout, options)

    def health(self, options: Options) -> Answer:
        """Checks the task and what it needs. ``longtask.md`` 17."""
        from agent_harness.protocols.longtask.verbs import health

        return health.health(self.layout, options)

    def status(self, options: Options) -> Answer:
        """How it stands, for a person. ``longtask.md`` 19."""
        from agent_harness.protocols.longtask.verbs import status

        return status.status(self.layout, options)

    def ls(self, options: Options) -> Answer:
        """The tasks below this folder. ``longtask.md`` 19."""
        from agent_harness.protocols.longtask.verbs import listing

        return listing.ls(self.layout, options)

    def summary(self, options: Options) -> Answer:
        """The checkpoint and the log in figures. ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import history

        return history.summary(self.layout, options)

    def tail(self, options: Options) -> Answer:
        """The last events. ``longtask.md`` 6."""
        from agent_harness.protocols.longtask.verbs import history

        return history.tail(self.layout, options)

    def openclaw_recipe(self, options: Options) -> Answer:
        """The OpenClaw job that wakes this task. ``longtask.md`` 17."""
        from agent_harness.protocols.longtask.verbs import recipe

        return recipe.recipe(self.layout, options)
