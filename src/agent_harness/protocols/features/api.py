"""Public API of feature projects. Its methods return plain values, which ``--json`` prints. An import of this module
loads only the code that ``harness status`` needs. Module functions take no lock, and only ``rescue`` may write. Only
``init``, ``run``, ``cleanup`` and ``add_features`` start an agent. Source: features.md section D."""

from __future__ import annotations

from agent_harness.errors import StateDamaged
from agent_harness.kernel import files, owner, root
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.records import FeatureList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.parallel.engine import EngineFactory
    from agent_harness.parallel.people import ParallelRuns
    from agent_harness.protocols.features.config import Config
    from agent_harness.protocols.features.people.inspection import ProjectCheck
    from agent_harness.protocols.features.project import Project
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.project_view import AskedQuestion, ProjectReader, ProjectView
    from agent_harness.supervision.dispatch import RefusalPolicy

    Ask = Callable[[str], bool]
    Say = Callable[[str], None]

__all__ = [
    "ABORT_WARNING",
    "FeatureLayout",
    "FeatureList",
    "FeatureProject",
    "find",
    "layout_of",
    "lines",
    "log_lines",
    "log_query",
    "log_sessions",
    "log_summary_lines",
    "problems",
    "reader",
    "rescue",
    "settings",
    "status",
    "traces",
    "version",
]

NO_PROJECT = "No project in this folder or above: no features.json with .harness.yaml"
ABORT_WARNING = "Are you sure? This will:\n- Stop all operations\n- Keep git commits as-is\n- Clear harness state\n"


def _silent(_line: str) -> None: ...


# -- reading -----------------------------------------------------------------------------------------------------------


def find(missing: str = NO_PROJECT, hint: str = "harness init --spec FILE") -> FeatureLayout:
    """Return the paths of the feature project at or above the working directory, or raise ``NotAProject``."""
    found = root.find()
    if found is None or found.kind != "features":
        raise root.not_here("features", missing, hint)
    return layout_of(found.path)


def layout_of(folder: str | Path) -> FeatureLayout:
    """Return the paths of the project in ``folder``."""
    layout = FeatureLayout(folder)
    try:
        with open(layout.settings, "rb") as file:
            moved = b"\npaths:" in b"\n" + file.read()
    except OSError:
        return layout
    # the settings are parsed only if they move the paths, because parsing is slow
    if not moved:
        return layout
    paths = settings(layout.root).paths
    return FeatureLayout(layout.root, features=paths.features, progress=paths.progress, state_dir=paths.state_dir)


def settings(folder: str | Path) -> Config:
    from agent_harness.protocols.features.config import load

    return load(folder)


def status(layout: FeatureLayout) -> JsonObject:
    """Return the project's progress. Raise ``StateDamaged`` if a state file is malformed."""
    from agent_harness.protocols.features import status as features_status

    try:
        return features_status.read(layout, read_yaml=_read_yaml)
    except (TypeError, AttributeError, KeyError) as error:
        raise StateDamaged(f"The state of {layout.root} has an unexpected structure ({error})") from None


def _read_yaml(path: str) -> JsonObject:
    from agent_harness.protocols.features.config.file import read_object

    return read_object(path)


def reader(layout: FeatureLayout) -> ProjectReader:
    from agent_harness.protocols.features.reader import FeatureSource
    from agent_harness.session.project_view import ProjectReader

    return ProjectReader(FeatureSource(layout, read_yaml=_read_yaml))


def lines(found: Mapping[str, Any], *, everything: bool = False) -> list[str]:
    from agent_harness.protocols.features import status as features_status

    return features_status.lines(found, everything=everything)


def glance(found: Mapping[str, Any]) -> str:
    from agent_harness.protocols.features import status as features_status

    return features_status.glance(found)


def version() -> JsonObject:
    from agent_harness.protocols.features import migrations

    return migrations.version(None)


def problems(folder: Path) -> Iterator[ProjectCheck]:
    """Yield the result of each health check of the project. No check changes the project."""
    from agent_harness.protocols.features.people import inspection

    return inspection.checks(folder)


def rescue(layout: FeatureLayout, verb: str, **given: Any) -> JsonObject:
    """Run the ``harness rescue`` subcommand ``verb``: list, show, restore or prune. Return its result."""
    import os

    from agent_harness.kernel.git import Git
    from agent_harness.protocols.features.people import kept
    from agent_harness.protocols.features.store import FeatureStore

    git = Git(layout.root)
    if verb == "list":
        return kept.listed(git)
    if verb == "show":
        return kept.show(git, given["ref"])
    if verb == "prune":
        owner.refuse_agents(layout.root, "harness rescue prune")
        asked = FeatureStore(layout).state().kept_candidates
        return kept.prune(git, given["older_than_days"], waiting=[each.ref for each in asked if each.ref])
    ours = (layout.relative(layout.progress), layout.relative(layout.features))
    return kept.restore(git, os.getcwd(), given["ref"], given.get("to"), without=ours)


def traces(folder: str) -> JsonObject:
    """Return the files and ignore rules that the harness added to the project."""
    from agent_harness.protocols.features.planning import adoption

    return adoption.traces(layout_of(folder))


# -- the logs ----------------------------------------------------------------------------------------------------------


def issues_of(repository: str, *, labels: Sequence[str] = (), closed: bool = False, say: Say) -> list[JsonObject]:
    import os

    from agent_harness.protocols.features.publish import github

    tracker = github.GitHubTracker(github.repository_name(repository), environ=os.environ, say=say)
    return tracker.rows(labels, closed=closed)


def log_query(
    layout: FeatureLayout,
    text: str,
    *,
    since: str | None = None,
    until: str | None = None,
    sources: tuple[str, ...] = (),
    limit: int = 50,
    **fields: Any,
) -> JsonObject:
    """Return the newest ``limit`` log rows that contain all words of ``text``, oldest first."""
    from agent_harness.protocols.features import logs
    from agent_harness.session.log_rows import wanted_of

    return logs.query(layout, wanted_of(text, since=since, until=until, **fields), sources=sources, limit=limit)


def log_lines(found: Mapping[str, Any], *, utc: bool = False) -> list[str]:
    from agent_harness.protocols.features import logs

    return [logs.line(row, utc=utc) for row in found["rows"]]


def followed(layout: FeatureLayout) -> list[FollowedLog]:
    """Return the log that ``harness log --follow`` prints, which is ``run.log``."""
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.now import said_at

    return [FollowedLog("run", lambda: [layout.log("run.log")], said_at)]


def transcript(layout: FeatureLayout, view: ProjectView, item: str, workspace: str | None = None) -> str | None:
    """Return the path of the newest transcript of ``item``, or None if no transcript exists."""
    if workspace is not None:
        from agent_harness.protocols.features.reader import transcript_in

        return transcript_in(layout, workspace)
    name = next((each.name for each in view.items if each.id == item), item)
    now = [each.session for each in view.now if each.item == name and each.session is not None]
    sessions = [*(each.number for each in view.sessions if each.item == item and each.number is not None), *now]
    found = layout.transcript(sessions[-1]) if sessions else None
    return found if found and files.is_inside(layout.root, found) else None


def log_sessions(layout: FeatureLayout, *, last: int, session: int | None = None) -> list[JsonObject]:
    """Return summaries of the ``last`` newest sessions, oldest first."""
    from agent_harness.protocols.features import logs

    return logs.summaries(layout, reader(layout).load().sessions, last=last, session=session)


def log_summary_lines(found: Iterable[Mapping[str, Any]]) -> list[str]:
    from agent_harness.protocols.features import logs

    return [line for each in found for line in logs.summary_lines(each)]


# -- the verbs of one project ------------------------------------------------------------------------------------------


class FeatureProject:
    def __init__(self, project: Project) -> None:
        self._project = project
        self.layout = project.layout

    @classmethod
    def open(cls, folder: Path, *, say: Say = _silent, by: str | None = None) -> FeatureProject:
        """Return the feature project in ``folder``. Print the warnings about its settings."""
        from agent_harness.protocols.features.project import Project

        config = settings(folder)
        for warning in config.warnings:
            say(f"Warning: {warning}")
        return cls(Project.open(folder, config, say, by=by))

    @classmethod
    def init(cls, folder: Path, spec: Path, *, agents: Sequence[str] = (), say: Say = _silent) -> JsonObject:
        """Let an agent plan a new project, and commit the plan."""
        from agent_harness.protocols.features.planning import initializer

        return initializer.initialise(folder, spec, agents=agents, say=say)

    @classmethod
    def adopt(cls, folder: Path, *, allow_failing: bool = False, check: str = "", say: Say = _silent) -> JsonObject:
        """Make a feature project from a repository that has code and tests. No agent starts."""
        from agent_harness.protocols.features.planning import adoption

        return adoption.adopt(folder, allow_failing=allow_failing, check=check, say=say)

    def _finalized(self) -> AbstractContextManager[None]:
        from agent_harness.protocols.features.sessions.locking import finalized

        return finalized(self._project)

    # -- sessions --------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        agents: Sequence[str] = (),
        policy: RefusalPolicy | None = None,
        max_sessions: int | None = 1,
        until_done: bool = False,
        feature_id: int | None = None,
        workers: int | None = None,
        branch: str | None = None,
        engine_factory: EngineFactory | None = None,
    ) -> JsonObject:
        """Run one or more sessions and return the run's result. With ``workers``, run them in parallel."""
        from agent_harness.kernel import files
        from agent_harness.protocols.features.people import takeover
        from agent_harness.protocols.features.sessions.run import Runs
        from agent_harness.supervision.dispatch import RefusalPolicy

        if takeover.is_clone(self._project):
            takeover.begin_anew(self._project)
        left = None if workers else self._project.store.left_by_run() or self._unpushed()
        if workers or left:
            from agent_harness.parallel.run import RunRequest
            from agent_harness.protocols.features.parallel.run import run_parallel

            given: JsonObject = {"agents": agents, "policy": policy or RefusalPolicy()}
            if workers:
                given |= {"workers": workers, "branch": branch, "engine_factory": engine_factory}
                return run_parallel(self._project, RunRequest(max_attempts=max_sessions, **given))
            self._project.say("An earlier run with several agents left work to merge or push; this comes first.")
            given |= {"workers": left["workers"], "branch": left["branch"]} if left else {}
            landed = run_parallel(self._project, RunRequest(only_land=True, **given))
            if landed["exit_code"]:
                return landed
        else:
            files.unlink(self._project.layout.parallel)  # of such a run that is dead, and has left nothing
        return Runs(self._project).run(
            agents=agents, policy=policy, max_sessions=max_sessions, until_done=until_done, feature_id=feature_id
        )

    @property
    def workers(self) -> int | None:
        found = self._project.config.parallel.workers
        return found if found > 1 else None

    def cleanup(self, *, agents: Sequence[str] = (), policy: RefusalPolicy | None = None) -> JsonObject:
        from agent_harness.protocols.features.sessions.run import Runs

        return Runs(self._project).clean_up(agents=agents, policy=policy)

    def preview(
        self,
        feature_id: int | None = None,
        *,
        workers: int | None = None,
        branch: str | None = None,
        max_sessions: int | None = None,
        engine_factory: EngineFactory | None = None,
    ) -> JsonObject:
        """Describe the next session, or the first session of each worker, and start nothing (UAH-048, UAH-049)."""
        if workers:
            from agent_harness.protocols.features.parallel import run

            given: JsonObject = {
                "branch": branch,
                "max_sessions": max_sessions,
                "elsewhere": engine_factory is not None,
            }
            found = run.preview(self._project, workers=workers, **given)
            return {"parallel": found, "lines": run.preview_lines(found), "next": f"harness run --workers {workers}"}
        from agent_harness.protocols.features.people import inspection

        return inspection.preview(self._project, feature_id)

    def now(self) -> list[str]:
        """Return one line about the current activity of each running session. This method is thread-safe."""
        import os

        from agent_harness.session import now

        path = self._project.store.now_path()
        return [each.line() for each in now.running(path and os.path.dirname(path))]

    def reader(self) -> ProjectReader:
        return reader(self.layout)

    @property
    def reports(self) -> bool:
        return self._project.config.report.after_run

    def next_command(self) -> str:
        return str(status(self.layout)["next"])

    def keep_said(self, text: str) -> None:
        from agent_harness.session import now

        now.keep_said(self._project.layout.log("run.log"), text)

    # -- reading -------------------------------------------------------------------------------------------------------

    def verify(self, feature_id: int) -> JsonObject:
        from agent_harness.protocols.features.people import inspection

        return inspection.verify(self._project, feature_id)

    def verify_all(self) -> JsonObject:
        from agent_harness.protocols.features.people import inspection

        return inspection.verify_all(self._project)

    def health(self) -> JsonObject:
        from agent_harness.protocols.features.people import inspection

        return inspection.measure(self._project)

    def version(self) -> JsonObject:
        from agent_harness.protocols.features import migrations

        return migrations.version(self._project)

    # -- decisions of a person -----------------------------------------------------------------------------------------

    def pause(self, reason: str | None = None) -> JsonObject:
        """Pause the project. A running session stops after its current operation (UAH-056, UAH-057)."""
        from agent_harness.protocols.features.sessions import locking

        return locking.pause(self._project, reason)

    def parallel_runs(self) -> ParallelRuns:
        import os

        from agent_harness.kernel import trusted_state
        from agent_harness.parallel.people import ParallelRuns

        project = self._project
        folder = trusted_state.existing(project.layout.git_dir, project.layout.root, writable=False)
        return ParallelRuns(
            root=os.fspath(project.layout.root),
            folder=os.path.join(folder or project.layout.git_dir, "parallel"),
            git=project.git,
            own=project.excluded,
            snapshot=project.layout.parallel,
        )

    def _unpushed(self) -> JsonObject | None:
        """Return the data of a finished parallel run whose commits are not pushed, or None."""
        import os

        if not os.path.lexists(self._project.layout.parallel):
            return None
        found = self.parallel_runs().unpushed_here()
        return {"workers": found, "branch": None} if found else None

    def resume(
        self,
        choose: str | None = None,
        *,
        budget_usd: float | None = None,
        feature_id: int | None = None,
        shown: AskedQuestion | None = None,
    ) -> JsonObject:
        """End a pause. With ``choose``, also answer the pending question (UAH-058, C12, C39)."""
        owner.refuse_agents(self._project.layout.root, "harness resume")
        from agent_harness.protocols.features.people import answers, takeover

        if takeover.can_begin_anew(self._project):
            return takeover.begin_anew(self._project)
        with self._finalized():
            return answers.resume(self._project, choose, budget_usd=budget_usd, feature_id=feature_id, shown=shown)

    def skip(self, feature_id: int, reason: str | None = None, *, undo: bool = False) -> JsonObject:
        """Exclude a feature from later sessions. With ``undo``, include the feature again (UAH-059, C53)."""
        owner.refuse_agents(self._project.layout.root, "harness skip")
        from agent_harness.protocols.features import overrides

        with self._finalized():
            if undo:
                return overrides.unskip(self._project, feature_id)
            return overrides.skip(self._project, feature_id, reason)

    def accepted(self, what: str) -> str:
        """Return the name of the accepted feature that ``what`` (such as ``3`` or ``S8``) identifies."""
        from agent_harness.protocols.features.work import undo

        return undo.asked(self._project, what)

    def undo(self, what: str, *, dry_run: bool = False) -> JsonObject:
        """Revert an accepted feature with one new commit."""
        owner.refuse_agents(self._project.layout.root, "harness undo")
        from agent_harness.protocols.features.work import undo

        left = undo.interrupted(self._project, what)
        with self._finalized():
            answer = undo.ended(self._project, left) if left else None
            return answer or undo.undo(self._project, what, dry_run=dry_run)

    def override(self, feature_id: int, *, passes: bool) -> JsonObject:
        owner.refuse_agents(self._project.layout.root, "harness override")
        from agent_harness.protocols.features import overrides

        with self._finalized():
            return overrides.override(self._project, feature_id, passes=passes)

    def manual_verify(self, feature_id: int, ask: Ask) -> JsonObject:
        owner.refuse_agents(self._project.layout.root, "harness manual-verify")
        from agent_harness.protocols.features.people import inspection

        with self._finalized():
            return inspection.manual_verify(self._project, feature_id, ask)

    def handoff(self) -> JsonObject:
        """Hand the project over to the user. No session starts until the user runs ``harness hand-back`` (UAH-064)."""
        owner.refuse_agents(self._project.layout.root, "harness take-over")
        from agent_harness.protocols.features.people import takeover

        with self._finalized():
            return takeover.handoff(self._project)

    def takeback(self, ask: Ask) -> JsonObject:
        """End the hand-off to the user and verify the user's changes (UAH-065, UAH-066)."""
        owner.refuse_agents(self._project.layout.root, "harness hand-back")
        from agent_harness.protocols.features.people import takeover

        with self._finalized():
            return takeover.takeback(self._project, ask)

    def abort(self) -> JsonObject:
        """Stop the running session, and move the project's state to ``.harness/aborted-TIME/`` (UAH-067, C39)."""
        owner.refuse_agents(self._project.layout.root, "harness abort")
        from agent_harness.protocols.features.people import takeover

        return takeover.abort(self._project)

    def add_feature(self, description: str, **given: Any) -> JsonObject:
        from agent_harness.protocols.features.planning import add_features

        with self._finalized():
            return add_features.add(self._project, description, **given)

    def add_all(self, features: Sequence[Mapping[str, Any]]) -> JsonObject:
        from agent_harness.protocols.features.planning import add_features

        with self._finalized():
            return add_features.add_all(self._project, features)

    def sources(self) -> dict[str, int]:
        from agent_harness.protocols.features.planning import add_features

        return add_features.by_source(self._project.store.features())

    def add_features(self, spec: Path, *, agents: Sequence[str] = ()) -> JsonObject:
        from agent_harness.protocols.features.planning import add_features

        return add_features.extend(self._project, spec, agents=agents)

    def migrate(self, *, backup: bool = True) -> JsonObject:
        from agent_harness.protocols.features import migrations
        from agent_harness.protocols.features.sessions.locking import locked

        self._project.require_initialised()
        with locked(self._project):
            return migrations.migrate(self._project, backup=backup)

    def maintain(self) -> JsonObject:
        from agent_harness.protocols.features.people import inspection

        return inspection.maintain(self._project)

    def stop(self) -> JsonObject:
        from agent_harness.protocols.features.people import inspection

        self._project.require_initialised()
        return inspection.stop(self._project)
