"""The front door of feature projects: init, run, preview, verify, resume.

Each verb answers with plain values for ``--json`` and says its progress through ``say``. Only ``init`` and ``run``
start an agent. Source: features.md section D; house plan, section 4.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_harness.agents import registry
from agent_harness.agents.base import Agent
from agent_harness.errors import (
    Busy,
    ConfigurationError,
    HarnessError,
    NothingEligible,
    Refused,
    ToolMissing,
    UsageError,
)
from agent_harness.kernel.lock import Lock
from agent_harness.protocols.features import (
    escalations,
    interruption,
    lifecycle,
    proofs,
    records,
    recover,
    selection,
    session,
)
from agent_harness.protocols.features import orient as orient_rules
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.environment import DevelopmentEnvironment
from agent_harness.protocols.features.judge import Judge
from agent_harness.protocols.features.project import Project, Say, silent
from agent_harness.protocols.features.result import Result
from agent_harness.protocols.features.start import Start, begin, prepare
from agent_harness.verification.workspace import clear_leftovers

Record = dict[str, Any]

LOCK_SECONDS = 0.5


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
    def init(cls, root: Path, spec: Path, *, agent_spec: str | None = None, say: Say = silent) -> Record:
        """Plans a new project: the initializer session, checked, repaired once, committed."""
        from agent_harness.protocols.features import initializer

        return initializer.initialise(root, spec, agent_spec=agent_spec, say=say)

    # -- run -------------------------------------------------------------------------------------------------------

    def run(self, *, agent_spec: str | None = None, max_sessions: int | None = 1, until_done: bool = False) -> Record:
        """Runs sessions one after the other; ends when all is proven, at the limit, or when a person is needed.

        ``max_sessions`` is ``None`` for no limit. A rejected session is followed by the next one only with
        ``until_done``; its feature's ``stuck_count`` bounds that.
        """
        project = self._project
        project.require_initialised()
        agent = self._agent(agent_spec)
        results: list[Result] = []
        with self._lock(), interruption.watched() as stop:
            clear_leftovers(project.root)
            if note := project.store.settle_in():
                project.say(note)
            recovered = recover.recover(project)
            proofs.check(project)
            verified_tree: str | None = None
            while max_sessions is None or len(results) < max_sessions:
                choice = selection.next_feature(self._valid_features(), project.store.state())
                if choice.feature is None:
                    return self._nothing_left(choice, results, recovered)
                result, verified_tree = self._one_session(agent, choice.feature, stop, verified_tree)
                results.append(result)
                if self._must_stop(result, until_done):
                    break
        return self._summary(results, recovered)

    def _one_session(
        self, agent: Agent, feature: Record, stop: interruption.Stop, verified_tree: str | None
    ) -> tuple[Result, str | None]:
        project = self._project
        self._escalate(feature["id"])
        escalations.refuse_pending(project.store.state())
        judge = Judge(project)
        with _environment(project) as environment:
            start = prepare(project, judge, environment, feature, verified_tree)
            result = self._walk(start, agent, judge, stop)
        if result.feature_id is not None:
            self._escalate(result.feature_id)
        tree = project.git.tree_of(result.commit) if result.accepted and result.commit else None
        return result, tree

    def _walk(self, start: Start, agent: Agent, judge: Judge, stop: interruption.Stop) -> Result:
        project = self._project
        under_way = begin(project, start)
        project.store.event(
            "session_started",
            session=start.number,
            feature_id=start.feature["id"],
            prompt_type=start.prompt_type,
            agent=agent.name,
            message=f"Session {start.number}: {start.prompt_type}, Feature #{start.feature['id']}",
        )
        project.say(f"Agent working on Feature #{start.feature['id']}: {records.description(start.feature)}")
        road = session.SessionRoad(project, agent, judge, under_way, orientation=start.orientation, stop=stop)
        try:
            return road.walk()
        except KeyboardInterrupt:
            project.say("Interrupted; handing off.")
            return self._hand_off("user_pause")
        except Exception as error:
            fault = _as_fault(error)
            self._hand_off("error", fault.message)
            raise fault from error

    def _hand_off(self, reason: str, message: str | None = None) -> Result:
        """Hands off the session that is under way; where that fails too, the next run recovers it."""
        try:
            return recover.interrupted(self._project, reason, message=message)
        except Exception as error:
            self._project.say("The session could not be handed off; the next run recovers it.")
            raise _as_fault(error) from error

    def _must_stop(self, result: Result, until_done: bool) -> bool:
        if result.exit_code in (0, 1) and result.reason not in ("error", "user_pause"):
            waiting = self._project.store.state().get("pending_escalation")
            return bool(waiting) or (result.exit_code == 1 and not until_done)
        return True

    def _escalate(self, feature_id: int) -> None:
        """Stores the question when this feature has used up its sessions, unless it is stored already (C35)."""
        project = self._project
        state = project.store.state()
        stuck = lifecycle.is_stuck(state, project.config.features.max_stuck_sessions)
        if stuck and state.get("current_feature") == feature_id and not state.get("pending_escalation"):
            question = escalations.feature_stuck(feature_id, int(state["stuck_count"]))
            project.store.write(project.layout.session_state, {**state, "pending_escalation": question})
            project.store.event("escalation", "critical", session=state.get("last_session"), **question)

    def _summary(self, results: list[Result], recovered: Record | None) -> Record:
        passing, total = records.counts(self._project.store.features())
        last = results[-1] if results else None
        waiting = self._project.store.state().get("pending_escalation")
        if waiting:
            self._project.say(escalations.text(waiting))
        return {
            "sessions": [r.as_json() for r in results],
            "recovered": recovered,
            "features": {"passing": passing, "total": total},
            "escalation": waiting,
            "exit_code": 3 if waiting else last.exit_code if last else 0,
        }

    def _nothing_left(self, choice: selection.Choice, results: list[Result], recovered: Record | None) -> Record:
        project = self._project
        document = project.store.features()
        passing, total = records.counts(document)
        if not choice.all_proven:
            for line in choice.waiting:
                project.say(f"- {line}")
            raise NothingEligible(
                f"No feature can be worked on: {passing}/{total} are passing and the rest waits.",
                hint="harness status",
                waiting=list(choice.waiting),
            )
        if passing < total:
            project.say(f"{passing} of {total} features are passing; the others were skipped.")
        else:
            project.say(f"All {total} features are passing!")
        if not results:
            return self._final_check(passing, total, recovered)
        return self._summary(results, recovered)

    def _final_check(self, passing: int, total: int, recovered: Record | None) -> Record:
        """The whole suite once more, when a run begins with nothing left to do (UAH-483)."""
        project = self._project
        facts = Judge(project).suite(project.git.head() or "HEAD")
        proofs.require(project, facts)
        project.say(f"Full suite: {len(facts.passing)} passed.")
        return {
            "sessions": [],
            "recovered": recovered,
            "features": {"passing": passing, "total": total},
            "escalation": None,
            "exit_code": 0,
        }

    # -- the other verbs -------------------------------------------------------------------------------------------

    def preview(self) -> Record:
        """What the next session would get; nothing on disk changes (UAH-048, UAH-049)."""
        project = self._project
        project.require_initialised()
        state = project.store.state()
        choice = selection.next_feature(self._valid_features(), state)
        prompt_type, reason = lifecycle.prompt_type(state)
        number = project.store.next_session()
        text = orient_rules.orientation(project, state, choice, number)
        feature = choice.feature
        say = project.say
        say(f"Would run Session {number} with:")
        say(f"  Prompt type: {prompt_type} ({reason})")
        if feature:
            say(f"  Feature: #{feature['id']} ({records.description(feature)})")
            say(f"  Test file: {records.test_file(feature)}")
        say("\nOrientation summary that would be injected:\n")
        say(text)
        say("No changes made.")
        return {
            "session": number,
            "prompt_type": prompt_type,
            "reason": reason,
            "feature_id": feature and feature["id"],
            "test_file": feature and records.test_file(feature),
            "orientation": text,
        }

    def verify(self, feature_id: int) -> Record:
        """Runs one feature's tests on a clean checkout of what is in the work tree; flips nothing (UAH-051)."""
        project = self._project
        project.require_initialised()
        clear_leftovers(project.root)
        document = self._valid_features()
        feature = records.feature_by_id(document, feature_id)
        if feature is None:
            known = ", ".join(str(f["id"]) for f in records.features_of(document))
            raise UsageError(f"There is no Feature #{feature_id}; known ids: {known}", hint="harness status")
        return Judge(project).report(feature)

    def resume(self, choose: str | None) -> Record:
        """Answers the stored question; without one it says what comes next."""
        project = self._project
        project.require_initialised()
        with self._lock():
            return escalations.answer(project, choose)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _agent(self, spec: str | None) -> Agent:
        agent = registry.resolve(spec, configured=self._project.config.agent, environ=os.environ)
        if problem := agent.problem():
            raise ToolMissing(f"The agent cannot be started: {problem}", hint="harness run --agent SPEC")
        return agent

    def _valid_features(self) -> Record:
        document = self._project.store.features()
        found = records.problems(document, require_test_file=self._project.config.features.require_test_file)
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise ConfigurationError(found[0] + more, hint=f"edit {self._project.features_name}", problems=found)
        return document

    @contextmanager
    def _lock(self) -> Iterator[None]:
        project = self._project
        name = project.layout.relative(project.layout.lock)
        lock = Lock(project.root, file=name, compatible=False, timeout_seconds=LOCK_SECONDS)
        try:
            lock.acquire()
        except Busy:
            raise Busy("Another harness is running in this project", hint="harness status") from None
        try:
            yield
        finally:
            lock.release()


def _as_fault(error: Exception) -> HarnessError:
    """What a session ends with that an error has ended: an agent was started, so it is no refusal before the start."""
    if not isinstance(error, HarnessError):
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return HarnessError(f"Unexpected: {told}", hint="HARNESS_DEBUG=1 harness run shows where")
    if isinstance(error, Refused):
        error.exit_code = 1
    return error


@contextmanager
def _environment(project: Project) -> Iterator[DevelopmentEnvironment]:
    settings = project.config.environment
    environment = DevelopmentEnvironment(
        project.root,
        init=settings.init,
        reset=settings.reset,
        health_check=settings.health_check,
        stop=settings.stop,
        log=Path(project.layout.log("init.log")),
        say=project.say,
    )
    try:
        yield environment
    finally:
        environment.down()
