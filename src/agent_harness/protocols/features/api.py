"""The front door of feature projects: one method a verb, answering with plain values for ``--json``.

Progress is said through ``say``. Only ``init``, ``run``, ``cleanup`` and ``add_features`` start an agent; what a person
decides is a small commit or a change of state under the lock. Source: features.md section D.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import marks, migrations
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.engine import locking
from agent_harness.protocols.features.engine import run as engine_run
from agent_harness.protocols.features.engine.locking import locked, settled
from agent_harness.protocols.features.people import abort, answers, handoff, inspection, maintenance
from agent_harness.protocols.features.planning import add_features
from agent_harness.protocols.features.project import Project, Say, silent
from agent_harness.supervision.dispatch import RefusalPolicy

Ask = Callable[[str], bool]


class FeatureProject:
    """One feature project on disk."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @classmethod
    def open(cls, root: Path, *, say: Say = silent) -> "FeatureProject":
        """The project in ``root``; ``ConfigurationError`` when its settings are wrong."""
        config = load(root)
        for warning in config.warnings:
            say(f"Warning: {warning}")
        return cls(Project.open(root, config, say))

    @classmethod
    def init(cls, root: Path, spec: Path, *, agents: Sequence[str] = (), say: Say = silent) -> JsonObject:
        """Plans a new project: the initializer session, checked, repaired once, committed."""
        from agent_harness.protocols.features.planning import initializer

        return initializer.initialise(root, spec, agents=agents, say=say)

    @classmethod
    def adopt(cls, root: Path, *, say: Say = silent) -> JsonObject:
        """Makes a feature project of a repository with code and tests; starts no agent."""
        from agent_harness.protocols.features.planning import adoption

        return adoption.adopt(root, say=say)

    # -- sessions --------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        agents: Sequence[str] = (),
        patience: RefusalPolicy = engine_run.UNATTENDED_POLICY,
        max_sessions: int | None = 1,
        until_done: bool = False,
        feature_id: int | None = None,
    ) -> JsonObject:
        """Runs sessions: see ``running.Runs.run``."""
        return engine_run.Runs(self._project).run(
            agents=agents,
            patience=patience,
            max_sessions=max_sessions,
            until_done=until_done,
            feature_id=feature_id,
        )

    def cleanup(
        self, *, agents: Sequence[str] = (), patience: RefusalPolicy = engine_run.UNATTENDED_POLICY
    ) -> JsonObject:
        """Runs one cleanup session now (UAH-055)."""
        return engine_run.Runs(self._project).clean_up(agents=agents, patience=patience)

    def preview(self, feature_id: int | None = None) -> JsonObject:
        """What the next session would get; nothing on disk changes (UAH-048, UAH-049)."""
        return inspection.preview(self._project, feature_id)

    # -- looking ---------------------------------------------------------------------------------------------------

    def verify(self, feature_id: int) -> JsonObject:
        """Runs one feature's tests on a clean checkout of what is in the work tree; flips nothing (UAH-051)."""
        return inspection.verify(self._project, feature_id)

    def verify_all(self) -> JsonObject:
        """Runs the whole suite on what is in the work tree and says it feature by feature; flips nothing."""
        return inspection.verify_all(self._project)

    def health(self) -> JsonObject:
        """Features, tests, lint and file sizes, measured now (UAH-052)."""
        return inspection.measure(self._project)

    def version(self) -> JsonObject:
        """The versions of the harness and of the state (UAH-068)."""
        return migrations.version(self._project)

    # -- what a person decides -------------------------------------------------------------------------------------

    def pause(self, reason: str | None = None) -> JsonObject:
        """Keeps sessions from starting; one that runs ends after its current operation (UAH-056, UAH-057)."""
        return locking.pause(self._project, reason)

    def resume(self, choose: str | None = None, *, budget_usd: float | None = None) -> JsonObject:
        """Ends a pause and answers the stored question; after an abort it begins anew (UAH-058, C12, C39)."""
        if abort.can_begin_anew(self._project):
            return abort.begin_anew(self._project)
        with settled(self._project):
            return answers.resume(self._project, choose, budget_usd=budget_usd)

    def skip(self, feature_id: int, reason: str | None = None, *, undo: bool = False) -> JsonObject:
        """Takes a feature out of the selection, or puts it back (UAH-059, C53)."""
        with settled(self._project):
            if undo:
                return marks.unskip(self._project, feature_id)
            return marks.skip(self._project, feature_id, reason)

    def override(self, feature_id: int, *, passes: bool) -> JsonObject:
        """Marks a feature by the person's word; they have confirmed it (UAH-060, UAH-061, C65)."""
        with settled(self._project):
            return marks.override(self._project, feature_id, passes=passes)

    def manual_verify(self, feature_id: int, ask: Ask) -> JsonObject:
        """Lets a person run a feature's tests and records their answer (UAH-062, UAH-063)."""
        with settled(self._project):
            return inspection.manual_verify(self._project, feature_id, ask)

    def handoff(self) -> JsonObject:
        """Gives the project to a person (UAH-064)."""
        with settled(self._project):
            return handoff.handoff(self._project)

    def takeback(self, ask: Ask) -> JsonObject:
        """Takes the project back and looks at what the person did (UAH-065, UAH-066)."""
        with settled(self._project):
            return handoff.takeback(self._project, ask)

    def abort(self) -> JsonObject:
        """Ends everything and moves the state aside; the person has confirmed it (UAH-067, C39)."""
        return abort.abort(self._project)

    def add_feature(self, description: str, **given: Any) -> JsonObject:
        """Adds a feature with its test stub, as a commit (UAH-071): see ``add_features.add``."""
        with settled(self._project):
            return add_features.add(self._project, description, **given)

    def add_features(self, spec: Path, *, agents: Sequence[str] = ()) -> JsonObject:
        """Lets an agent plan more features from a specification: see ``add_features.extend``."""
        with settled(self._project):
            return add_features.extend(self._project, spec, agents=agents)

    def migrate(self, *, backup: bool = True) -> JsonObject:
        """Brings older state to this schema (UAH-069, UAH-070)."""
        self._project.require_initialised()
        with locked(self._project):
            return migrations.migrate(self._project, backup=backup)

    def maintain(self) -> JsonObject:
        """Watches a complete project until `harness stop` (UAH-485)."""
        return maintenance.maintain(self._project)

    def stop(self) -> JsonObject:
        """Ends the maintenance mode (UAH-072)."""
        self._project.require_initialised()
        return maintenance.stop(self._project)
