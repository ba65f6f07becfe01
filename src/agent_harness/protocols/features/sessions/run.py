"""Sequence of sessions in one `harness run`. Source: features.md sections M, N, AA; UAH-483, C29, C35, C40, C50."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from agent_harness.agents import registry
from agent_harness.agents.base import Agent
from agent_harness.errors import (
    ConfigurationError,
    HarnessError,
    LimitInForce,
    NothingEligible,
    PersonNeeded,
    PreflightFailed,
    Refused,
)
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import escalation, logs, migrations, questions, repository, selection
from agent_harness.protocols.features.config.mcp_servers import demand_programs, switched_on
from agent_harness.protocols.features.preflight import running, valid_features
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import mirror
from agent_harness.protocols.features.records import CLEANUP, Feature, FeatureList, SessionState, lint_line
from agent_harness.protocols.features.sessions import checkpoints, locking, recover
from agent_harness.protocols.features.sessions.finalization import Result
from agent_harness.protocols.features.sessions.locking import locked
from agent_harness.protocols.features.sessions.prepare import Start, begin, prepare
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.protocols.features.work import kept_candidate
from agent_harness.protocols.features.work.cleanup import CleanupWork
from agent_harness.protocols.features.work.cleanup import ask_for as ask_for_cleanup
from agent_harness.protocols.features.work.feature import FeatureWork
from agent_harness.session import now
from agent_harness.session.runner import walk
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy, startable
from agent_harness.verification.checkout import clear_leftovers


def choose_agents(project: Project, specs: Sequence[str]) -> tuple[Agent, ...]:
    demand_programs(switched_on(project.config.tools.mcp_servers), project.root)
    agents = registry.resolve_all(specs, configured=project.config.agent, environ=os.environ, root=project.root)
    return startable(agents, project.say, "harness run --agent SPEC", project.root)


@dataclass(frozen=True)
class _Limits:
    max_sessions: int | None
    until_done: bool
    feature_id: int | None

    def allow(self, results: Sequence[Result]) -> bool:
        # a session that the provider refused does not count
        return self.max_sessions is None or sum(r.reason != "rate_limited" for r in results) < self.max_sessions


class Runs:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._cleanup_only = False
        self._spare = False  # another agent can take over from the running one
        self._goes_back = False  # a refusal is returned to the caller that chose the agent
        self._unattended = False  # the run goes on without a person as far as it can

    def clean_up(self, *, agents: Sequence[str] = (), policy: RefusalPolicy | None = None) -> JsonObject:
        """Run one cleanup session now. Return the run's result (UAH-055)."""
        self._cleanup_only = True
        self._project.say("Triggering cleanup session...")
        return self.run(agents=agents, policy=policy)

    def run(
        self,
        *,
        agents: Sequence[str] = (),
        policy: RefusalPolicy | None = None,
        max_sessions: int | None = 1,
        until_done: bool = False,
        feature_id: int | None = None,
    ) -> JsonObject:
        """Run sessions until all features are proven, a limit is reached, or a person must act."""
        project = self._project
        project.require_initialised()
        migrations.refuse_newer(project)
        locking.refuse_resting(project)
        policy = policy or RefusalPolicy()
        self._unattended = until_done
        try:
            allowed = choose_agents(project, agents)
        except HarnessError:
            _refuse_waiting(project, feature_id)
            raise
        self._goes_back = policy.account is not None
        dispatcher = Dispatcher(
            allowed, policy, project.say, told={"project": str(project.root), "item": "harness run"}
        )
        results: list[Result] = []
        limits = _Limits(max_sessions, until_done, feature_id)
        with interruption.watched(lambda: project.store.pause() is not None) as stop, dispatcher:
            while True:
                try:
                    return self._stretch(dispatcher, stop, results, limits)
                except LimitInForce as refusal:
                    if not policy.waits(refusal):
                        return _refused(project, refusal, results)
                    with now.waiting(project.store.now_path(), refusal):
                        waited = dispatcher.wait(refusal, stop.requested)
                    if not waited:
                        return {**_summary(project, results, None), "exit_code": 0}  # a person paused it

    def _stretch(
        self, dispatcher: Dispatcher, stop: interruption.Stop, results: list[Result], limits: "_Limits"
    ) -> JsonObject:
        """Run sessions. Raise ``LimitInForce`` if a provider's rate limit prevents the next start."""
        project, feature_id = self._project, limits.feature_id
        with locked(project):
            recovered = self.put_in_order()
            verified_tree: str | None = None
            while limits.allow(results):
                choice = self._choice(feature_id)
                if choice.feature is None:
                    return _nothing_left(project, choice, results, recovered)
                agent = dispatcher.choose()
                self._spare = dispatcher.has_spare(agent)
                result, verified_tree = self._one_session(agent, choice.feature, stop, verified_tree)
                result = mirror.close(project, result)
                results.append(result)
                finalized = result.accepted or bool(result.asked)
                if self._must_stop(result, limits.until_done) or (feature_id is not None and finalized):
                    break
        return _summary(project, results, recovered)

    def put_in_order(self, *, marks: bool = True) -> JsonObject | None:
        """Prepare the project for a run. Return the report of a recovery. The caller must hold the lock."""
        project = self._project
        clear_leftovers(project.root)
        if note := project.store.finalize_in():
            project.say(note)
        repository.keep_out_of_sight(project.git, project.state_name)
        migrations.bring_up_to_date(project)
        logs.prune_daily(project)
        recovered = recover.recover(project)
        locking.refuse_resting(project)  # the recovery may have paused it
        checkpoints.prune(project)
        questions.forget_passing(project)
        # skipped if an interrupted merge must be completed first
        if marks:
            proven.check(project)
        if self._cleanup_only:
            ask_for_cleanup(project)
        return recovered

    def _choice(self, feature_id: int | None) -> selection.Choice:
        state = self._project.store.state()
        try:
            document = valid_features(self._project)
        except ConfigurationError:
            self._ask_about_circle(state)
            raise
        if feature_id is not None:
            questions.refuse_kept(state, feature_id)
        if feature_id is None:
            choice = selection.next_feature(document, state)
            due = state.next_prompt == "cleanup" and (choice.feature is not None or self._cleanup_only)
            return selection.Choice(CLEANUP) if due else choice
        return selection.Choice(selection.chosen_feature(document, state, feature_id))

    def _ask_about_circle(self, state: SessionState) -> None:
        # E8
        asked = questions.of_cycle(self._project.store.features())
        stored = state.question
        if asked is None or (stored and questions.stops(stored) and stored.kind != asked.kind):
            return
        questions.store(self._project, asked)
        self._project.say(questions.text(asked))

    def _one_session(
        self, agent: Agent, feature: Feature, stop: interruption.Stop, verified_tree: str | None
    ) -> tuple[Result, str | None]:
        project = self._project
        questions.forget_passing(project)
        self._escalate(feature.feature_id)
        questions.refuse_pending(project.store.state())
        judge = Judge(project)
        with running(project) as environment:
            try:
                start = prepare(project, judge, environment, feature, verified_tree)
            except PreflightFailed as failed:
                escalation.after_preflight(project, failed)
                raise
            with judge.session(start.feature.may_change):
                result = self._walk(start, agent, judge, stop)
            result = escalation.look_again(project, judge, result)
            if result.asked and self._unattended:
                result = kept_candidate.take_unattended(project, judge, result)
        self._escalate(result.feature_id, result)
        tree = project.git.tree_of(result.commit) if result.accepted and result.commit else None
        return result, tree

    def _walk(self, start: Start, agent: Agent, judge: Judge, stop: interruption.Stop) -> Result:
        project = self._project
        under_way = begin(project, start, agent.name)
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
        try:
            return recover.interrupted(self._project, reason, message=message)
        except Exception as error:
            self._project.say("The unfinished work of the session could not be stored. The next run will recover it.")
            raise _as_fault(error) from error

    def _must_stop(self, result: Result, until_done: bool) -> bool:
        if paused := self._project.store.pause():
            locking.keep(self._project, paused)
            return True
        if result.reason == "rate_limited":
            return self._goes_back
        if result.asked:
            return not until_done
        if result.exit_code in (0, 1) and result.reason not in ("error", "user_pause"):
            waiting = self._project.store.state().question
            return questions.stops(waiting) or (result.exit_code == 1 and not until_done)
        return True

    def _escalate(self, feature_id: int | None, result: Result | None = None) -> None:
        project = self._project
        state = project.store.state()
        if not questions.stops(state.question):
            asked = escalation.question_after(project, state, feature_id, result)
            if asked:
                questions.store(project, asked)


def _refuse_waiting(project: Project, feature_id: int | None) -> None:
    """Raise an error if a question stops the run or no feature can start."""
    if project.store.open_session() is not None:
        return
    state, document = project.store.state(), valid_features(project)
    questions.refuse_pending(state)
    if feature_id is not None:
        selection.chosen_feature(document, state, feature_id)
        return
    choice = selection.next_feature(document, state)
    if choice.feature is None and state.next_prompt != "cleanup":
        questions.refuse_kept(state)
        passing, total = document.counts()
        hint = "harness verify --all" if choice.all_proven else "harness status"
        raise NothingEligible(f"Nothing can be worked on: {passing} of {total} proven", hint=hint)


def _as_fault(error: Exception) -> HarnessError:
    if not isinstance(error, HarnessError):
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return HarnessError(f"Unexpected error: {told}", hint="HARNESS_DEBUG=1 harness run  # shows where")
    if isinstance(error, Refused):
        # an agent was started, so the run was not refused
        error.exit_code = 1
    return error


# -- end of a run ------------------------------------------------------------------------------------------------------


WHEN_COMPLETE = "Project complete. Options: [M]aintenance, [A]dd features, [E]xit"
BUT_FOR_SKIPPED = "Complete except for skipped features. Options: [M]aintenance, [A]dd features, [E]xit"


def _summary(project: Project, results: Sequence[Result], recovered: JsonObject | None) -> JsonObject:
    passing, total = project.store.believed(project.store.features()).counts()
    last = results[-1] if results else None
    escalation.about_size(project)
    state, document = project.store.state(), project.store.features()
    waiting = questions.waiting(state, document)
    first, own = next(iter(waiting), None), questions.foremost(waiting, {r.feature_id for r in results})
    if own:
        project.say(questions.text(own, among=waiting))
    for asked in waiting:
        if asked is not own:
            project.say(f"The next question: {asked.message}")
    kept = {asked.feature_id for asked in state.kept_candidates}
    unanswered = any(r.asked and r.feature_id in kept for r in results)
    return {
        "sessions": [r.as_json() for r in results],
        "recovered": recovered,
        "features": {"passing": passing, "total": total},
        "skipped": _skipped(document),
        "escalation": own and own.record,
        "exit_code": 3 if unanswered or questions.stops(first) else last.exit_code if last else 0,
    }


def _skipped(document: FeatureList) -> list[JsonObject]:
    return [{"id": f.id, "description": f.description, "reason": f.skip_reason} for f in document.features if f.skipped]


def _nothing_left(
    project: Project, choice: selection.Choice, results: Sequence[Result], recovered: JsonObject | None
) -> JsonObject:
    """Return the run's result if all features are proven or skipped, or if this run kept work for a person.

    Raise an error if other features wait."""
    document = project.store.features()
    passing, total = document.counts()
    if not choice.all_proven:
        for line in choice.waiting:
            project.say(f"- {line}")
        if project.store.state().kept_candidates and results:
            return {**_summary(project, results, recovered), "exit_code": 3}
        questions.refuse_kept(project.store.state())
        if waiting := [f.id for f in document.features if f.awaits_person]:
            raise PersonNeeded(
                f"Nothing else can be worked on: Feature #{waiting[0]} awaits your verification.",
                hint=f"harness manual-verify --feature {waiting[0]}",
                waiting=list(choice.waiting),
            )
        raise NothingEligible(
            f"No feature can be worked on: {passing}/{total} are passing, and the other features wait.",
            hint="harness status",
            waiting=list(choice.waiting),
        )
    if passing < total:
        project.say(f"{passing} of {total} features are passing; the others were skipped:")
        for line in choice.waiting:
            project.say(f"- {line}")
        project.say("To include a skipped feature again: harness skip --feature N --undo")
    else:
        project.say(f"All {total} features are passing!")
    if not results:
        return _final_check(project, passing, total, recovered)
    return _summary(project, results, recovered)


def _final_check(project: Project, passing: int, total: int, recovered: JsonObject | None) -> JsonObject:
    """Run the suite and the linter. Return the result of a run that needs no session (UAH-483)."""
    head = project.git.head() or "HEAD"
    judge = Judge(project)
    facts = judge.suite(head)
    proven.require(project, facts)
    lint = judge.lint(head)
    project.say(f"Full suite: {len(facts.passing)} passed.")
    project.say(f"Lint: {lint.problem or lint_line(lint.errors, lint.warnings, lint.kinds, lint.files)}")
    project.say(WHEN_COMPLETE if passing == total else BUT_FOR_SKIPPED)
    return {
        "complete": True,
        "sessions": [],
        "recovered": recovered,
        "features": {"passing": passing, "total": total},
        "skipped": _skipped(project.store.features()),
        "escalation": None,
        "exit_code": 0,
    }


def _refused(project: Project, refusal: LimitInForce, results: Sequence[Result]) -> JsonObject:
    if not results:
        raise refusal
    project.say(refusal.message)
    ended = {"exit_code": refusal.exit_code, "limit": refusal.as_json(), "next": refusal.hint}
    return {**_summary(project, results, None), **ended}
