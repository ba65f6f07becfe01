"""Sessions one after the other: what `harness run` does, from recovery to the summary.

Source: features.md sections M, N, AA; C29, C35, C40, C50.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_harness.agents import registry
from agent_harness.agents.base import Agent
from agent_harness.errors import (
    HarnessError,
    LimitInForce,
    PreflightFailed,
    Refused,
)
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import (
    escalation,
    migrations,
    questions,
    selection,
    worktree,
)
from agent_harness.protocols.features.engine import locking, recover, summary
from agent_harness.protocols.features.engine.locking import locked
from agent_harness.protocols.features.engine.prepare import Start, begin, prepare
from agent_harness.protocols.features.engine.settlement import Result
from agent_harness.protocols.features.environment import DevelopmentEnvironment
from agent_harness.protocols.features.logs import retention
from agent_harness.protocols.features.preflight import valid_features
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import mirror
from agent_harness.protocols.features.records import CLEANUP, Feature
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.protocols.features.work.cleanup import CleanupWork
from agent_harness.protocols.features.work.cleanup import ask_for as ask_for_cleanup
from agent_harness.protocols.features.work.feature import FeatureWork
from agent_harness.session.engine import walk
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy, startable
from agent_harness.verification.workspace import clear_leftovers

UNATTENDED_POLICY = RefusalPolicy()


def choose_agents(project: Project, specs: Sequence[str]) -> tuple[Agent, ...]:
    """The agent of this run, and those that may take over from it; ``ToolMissing`` when it cannot be started."""
    agents = registry.resolve_all(specs, configured=project.config.agent, environ=os.environ, root=project.root)
    return startable(agents, project.say, "harness run --agent SPEC")


@dataclass(frozen=True)
class _Limits:
    """How far one run goes."""

    max_sessions: int | None
    until_done: bool
    feature_id: int | None

    def allow(self, results: Sequence[Result]) -> bool:
        """Whether one more session may begin; those that the provider refused are none."""
        return self.max_sessions is None or sum(r.reason != "rate_limited" for r in results) < self.max_sessions


class Runs:
    """One `harness run` on an opened project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._cleanup_only = False
        self._spare = False  # another agent can take over from the one at work

    def clean_up(self, *, agents: Sequence[str] = (), patience: RefusalPolicy = UNATTENDED_POLICY) -> JsonObject:
        """One cleanup session now, also when all features are complete (UAH-055)."""
        self._cleanup_only = True
        self._project.say("Triggering cleanup session...")
        return self.run(agents=agents, patience=patience)

    def run(
        self,
        *,
        agents: Sequence[str] = (),
        patience: RefusalPolicy = UNATTENDED_POLICY,
        max_sessions: int | None = 1,
        until_done: bool = False,
        feature_id: int | None = None,
    ) -> JsonObject:
        """Runs sessions one after the other; ends when all is proven, at the limit, or when a person is needed.

        ``max_sessions`` is ``None`` for no limit. A rejected session is followed by the next one only with
        ``until_done``; its feature's ``stuck_count`` bounds that. ``feature_id`` chooses the feature; the run ends
        when it is proven. ``Busy`` while the project is paused or handed off. A session that the provider refused is
        none of ``max_sessions``; then another of the ``agents`` takes over, or the run waits with the project free for
        others, or it ends, by its ``patience``. ``LimitInForce`` when it could not even begin.
        """
        project = self._project
        project.require_initialised()
        migrations.refuse_newer(project)
        locking.refuse_resting(project)
        dispatcher = Dispatcher(choose_agents(project, agents), patience, project.say)
        results: list[Result] = []
        limits = _Limits(max_sessions, until_done, feature_id)
        with interruption.watched(lambda: project.store.pause() is not None) as stop:
            while True:
                try:
                    return self._stretch(dispatcher, stop, results, limits)
                except LimitInForce as refusal:
                    if not patience.wait:
                        return summary.refused(project, refusal, results)
                    if not dispatcher.wait(refusal, stop.requested):
                        return summary.paused(project, results)

    def _stretch(
        self, dispatcher: Dispatcher, stop: interruption.Stop, results: list[Result], limits: "_Limits"
    ) -> JsonObject:
        """Sessions as long as an agent may be started; ``LimitInForce`` when none may, the project whole."""
        project, feature_id = self._project, limits.feature_id
        with locked(project):
            recovered = self._put_in_order()
            verified_tree: str | None = None
            while limits.allow(results):
                choice = self._choice(feature_id)
                if choice.feature is None:
                    return summary.nothing_left(project, choice, results, recovered)
                agent = dispatcher.choose()
                self._spare = dispatcher.has_spare(agent)
                result, verified_tree = self._one_session(agent, choice.feature, stop, verified_tree)
                result = mirror.close(project, result)
                results.append(result)
                if self._must_stop(result, limits.until_done) or (feature_id is not None and result.accepted):
                    break
        return summary.summary(project, results, recovered)

    def _put_in_order(self) -> JsonObject | None:
        """What comes before the first session, under the lock; what had to be recovered."""
        project = self._project
        clear_leftovers(project.root)
        if note := project.store.settle_in():
            project.say(note)
        worktree.keep_out_of_sight(project.git, project.state_name)
        migrations.bring_up_to_date(project)
        retention.prune_daily(project)
        recovered = recover.recover(project)
        locking.refuse_resting(project)  # what was recovered may have paused it
        retention.prune_checkpoints(project)
        questions.forget_passing(project)
        proven.check(project)
        if self._cleanup_only:
            ask_for_cleanup(project)
        return recovered

    def _choice(self, feature_id: int | None) -> selection.Choice:
        document, state = valid_features(self._project), self._project.store.state()
        if feature_id is None:
            choice = selection.next_feature(document, state)
            due = state.next_prompt == "cleanup" and (choice.feature is not None or self._cleanup_only)
            return selection.Choice(CLEANUP) if due else choice
        return selection.Choice(selection.chosen_feature(document, state, feature_id))

    def _one_session(
        self, agent: Agent, feature: Feature, stop: interruption.Stop, verified_tree: str | None
    ) -> tuple[Result, str | None]:
        project = self._project
        questions.forget_passing(project)
        self._escalate(feature.feature_id)
        questions.refuse_pending(project.store.state())
        judge = Judge(project)
        with _environment(project) as environment:
            try:
                start = prepare(project, judge, environment, feature, verified_tree)
            except PreflightFailed as failed:
                escalation.after_preflight(project, failed)
                raise
            result = escalation.look_again(project, judge, self._walk(start, agent, judge, stop))
        self._escalate(result.feature_id, result)
        tree = project.git.tree_of(result.commit) if result.accepted and result.commit else None
        return result, tree

    def _walk(self, start: Start, agent: Agent, judge: Judge, stop: interruption.Stop) -> Result:
        project = self._project
        under_way = begin(project, start)
        project.store.event(
            "session_started",
            session=start.number,
            feature_id=start.feature.feature_id,
            prompt_type=start.prompt_type,
            agent=agent.name,
            message=f"Session {start.number}: {start.prompt_type}, {start.feature.name}",
        )
        named = "" if start.feature is CLEANUP else f"{start.feature.name}: "
        project.say(f"Agent working on {named}{start.feature.description}")
        kind = CleanupWork if start.feature is CLEANUP else FeatureWork
        work = kind(project, agent, judge, under_way, orientation=start.orientation, stop=stop, spare=self._spare)
        try:
            return walk(work, work.turns)
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
        if paused := self._project.store.pause():
            locking.keep(self._project, paused)
            return True
        if result.reason == "rate_limited":
            return False
        if result.exit_code in (0, 1) and result.reason not in ("error", "user_pause"):
            waiting = self._project.store.state().question
            return questions.stops(waiting) or (result.exit_code == 1 and not until_done)
        return True

    def _escalate(self, feature_id: int | None, result: Result | None = None) -> None:
        """Stores the question that this feature, or the session that just ended, leaves for a person."""
        project = self._project
        state = project.store.state()
        if not questions.stops(state.question):
            asked = escalation.question_after(project, state, feature_id, result)
            if asked:
                questions.store(project, asked)


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
