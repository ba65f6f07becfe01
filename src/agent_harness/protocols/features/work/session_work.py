"""Base class of feature sessions and cleanup sessions. Source: features.md sections M, N, O, C03, C14, C30;
UAH-206..216, UAH-242, UAH-446."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_harness.agents import usage
from agent_harness.agents.base import Agent, Brief, ToolRules
from agent_harness.errors import PersonNeeded, StateDamaged
from agent_harness.kernel import files
from agent_harness.kernel.process import new_run_id
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import costs, progress, questions
from agent_harness.protocols.features.config.mcp_servers import switched_on
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import push_retry
from agent_harness.protocols.features.records import FeatureList
from agent_harness.protocols.features.sessions import accept, actions
from agent_harness.protocols.features.sessions import finalization as engine_finalization
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.sessions.finalization import Finalization, Finalized, Result
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Judge, Ruling, item_of
from agent_harness.session import ledger, turn_end
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.limits import SessionLimits, changed_in_repository, watch
from agent_harness.session.now import NowRecord
from agent_harness.session.runner import Turns
from agent_harness.session.work import Ending, Policy, TurnRequest, TurnSoFar
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.monitors import BudgetLimit, ContextWindow
from agent_harness.supervision.recording import Recording
from agent_harness.supervision.stalls import RepeatedError, Stall
from agent_harness.supervision.supervisor import Outcome

HAND_OFF_EXIT = {"user_pause": 130, "overloaded": 5, "error": 1, "refused": 1, "rate_limited": 5, "budget_exceeded": 9}


@dataclass(frozen=True, kw_only=True)
class ProjectJournal:
    project: Project
    session: int

    def say(self, line: str) -> None:
        self.project.say(line)

    def event(self, event_type: str, **fields: object) -> None:
        self.project.store.event(event_type, session=self.session, **dict[str, Any](fields))


BUDGETS = {"Session": "session", "Feature": "item", "Project": "project"}
"""Budgets, each with its name in the file ``now.json``."""


def turns_of(
    project: Project,
    agent: Agent,
    stop: Stop,
    *,
    session: int,
    feature_id: int | None,
    prompt_type: str,
    spare: bool = False,
    base: SessionCheckpoint | None = None,
    title: str = "",
) -> Turns:
    config, began = project.config, time.monotonic()
    limits = _limits(project, feature_id, config.models.for_prompt(prompt_type))
    left = {each.name: each.limit_usd - each.spent_usd for each in limits.budgets}
    start = base.snapshot if base else None
    return Turns(
        agent=agent,
        journal=ProjectJournal(project=project, session=session),
        stop=stop,
        watch=watch(limits),
        transcript=Path(project.layout.transcript(session)),
        timeout_seconds=config.session.timeout_minutes * 60,
        spare=spare,
        recording=Recording(
            Path(project.layout.cassette(session)),
            project.git,
            lambda: project.tree_now(start),
            kept=(project.features_name, project.progress_name),
        ),
        silence_seconds=config.session.response_seconds,
        began=began,
        starts=project.starts("the plan" if session == 0 else feature_id),
        item=None if feature_id is None else str(feature_id),
        messages_at=project.counts,
        now=NowRecord(
            project.store.now_path(),
            item=None if feature_id is None else f"Feature #{feature_id}",
            title=title,
            session=session,
            agent=agent.name,
            left_usd={now: left[name] for name, now in BUDGETS.items() if name in left},
            can=("pause",),
        ),
    )


def _limits(project: Project, feature_id: int | None, model: str) -> SessionLimits:
    config, budgets, spent = project.config, project.budgets, project.store.costs()
    money = [
        BudgetLimit(name="Session", limit_usd=budgets.per_session),
        BudgetLimit(
            name="Project", limit_usd=budgets.total, spent_usd=costs.counted(spent), elsewhere=project.elsewhere
        ),
    ]
    if feature_id is not None:
        before = costs.of_feature(spent, feature_id)
        money.append(BudgetLimit(name="Feature", limit_usd=budgets.per_feature, spent_usd=before))
    return SessionLimits(
        timeout_seconds=config.session.timeout_minutes * 60,
        warning_seconds=config.session.timeout_warning_minutes * 60,
        budgets=tuple(money),
        model=model,
        context=ContextWindow(
            window_tokens=config.context.window_tokens,
            warn_threshold=config.context.warn_threshold,
            force_threshold=config.context.force_threshold,
        ),
        stall=Stall(
            check_interval_tokens=config.progress.check_interval_tokens,
            window_tokens=config.context.window_tokens,
            force_stop_after=config.progress.force_stop_after_stuck_checks,
            warning_message=config.progress.stuck_warning,
            force_stop_message=config.progress.force_stop_message,
        ),
        repeated_error=RepeatedError(
            max_repeated=config.progress.max_repeated_errors, message=config.progress.repeated_error_message
        ),
    )


class SessionWork(ABC):
    def __init__(
        self,
        project: Project,
        agent: Agent,
        judge: Judge,
        under_way: OpenSession,
        *,
        orientation: str,
        stop: Stop,
        spare: bool = False,
    ) -> None:
        self._project = project
        self._judge = judge
        self._under_way = under_way
        self._orientation = orientation
        self._stop = stop
        self._tips = push_retry.known_tips(project)
        self.turns = turns_of(
            project,
            agent,
            stop,
            session=under_way.session,
            feature_id=under_way.feature_id,
            prompt_type=under_way.prompt_type,
            spare=spare,
            base=under_way.checkpoint,
            title=under_way.feature.description,
        )
        judge.on_step = self.turns.now.step

    @property
    @abstractmethod
    def policy(self) -> Policy: ...

    @property
    def name(self) -> str:
        return self._under_way.feature.name

    def brief(self, ruling: Ruling | None) -> str:
        """Keep the state files in memory, so that changes are detected. Return the turn's prompt."""
        self._project.store.hold()
        return self._opening() if ruling is None else self._again(ruling)

    @abstractmethod
    def _opening(self) -> str: ...

    @abstractmethod
    def _again(self, ruling: Ruling) -> str:
        """Return the next prompt after a claim was rejected."""

    @abstractmethod
    def _story(self) -> list[progress.Part]:
        """Return the parts of the harness's progress entry, used if the agent wrote no entry."""

    @abstractmethod
    def _hand_off(self, reason: str, refusal: str | None) -> Result:
        """End the session without a verification of its work. Return the session's result."""

    @abstractmethod
    def _rolled_back(self, failure: str) -> Finalization: ...

    # -- one turn ----------------------------------------------------------------------------------------------------

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        """Return the request for one turn. The turn records the agent's process before reading output."""
        project, under_way = self._project, self._under_way
        files.own_place(project.layout.transcript(under_way.session), project.layout.root)
        brief = handed(
            project,
            Brief(
                prompt=prompt,
                cwd=project.root,
                session=under_way.session,
                prompt_type=under_way.prompt_type,
                feature_id=under_way.feature_id,
                round=so_far.round,
                conversation=so_far.conversation,
                run_id=under_way.run_id,
                environment=push_retry.no_push_variables(under_way.git_config),
            ),
        )
        log = actions.ActionLog(project, under_way.session, brief.model, under_way.feature_id)
        began, rollback_point = time.monotonic(), under_way.checkpoint.snapshot

        def started(process: Mapping[str, object]) -> None:
            self._under_way = under_way.at(project, "running", agent=dict(process))
            under_way.event(project, "agent_started")

        def ended(_outcome: Outcome) -> None:
            log.close(time.monotonic() - began)
            actions.keep_screenshots(project, under_way.session, under_way.feature_id, log.screenshots)
            project.store.clear_places()

        return TurnRequest(
            brief=brief,
            on_started=started,
            on_event=log.see,
            on_ended=ended,
            facts=lambda: changed_in_repository(project.git, project.root, rollback_point.head),
            test_file=under_way.feature.test_file,
            suite=project.config.suite_with(under_way.feature.test_path),
        )

    def claimed(self) -> bool:
        """Return True if the agent has marked a feature as passing in this session."""
        return bool(self._changes().claims)

    def closed(self) -> Result | None:
        """Return the session's final result if its checkpoint was deleted, otherwise None (UAH-390)."""
        turn_end.refuse_replaced(self._project.git, None)
        if self._under_way.checkpoint.is_gone(self._project):
            return self._without_way_back()
        return None

    def _changes(self) -> proven.ClaimedChanges:
        try:
            found: FeatureList | None = self._project.store.features()
        except (StateDamaged, OSError):
            found = None
        if os.path.islink(self._project.layout.features):
            found = None
        return proven.compare_claims(self._under_way.features, found)

    def _broken_rule(self, changes: proven.ClaimedChanges) -> Ruling | None:
        """Return a rejection if the agent broke a rule, otherwise None (C03)."""
        found = self._broken(changes)
        if found is None:
            return None
        ruling = Ruling(accepted=False, final=True, judged=False, code=found[0], failure=found[1])
        return self._on_record(ruling, changes.claims)

    def _on_record(self, ruling: Ruling, claims: Iterable[int]) -> Ruling:
        """Add the ledger entry to the ruling. Write the entry of a rejection now, unless it only asks for evidence."""
        project, under_way, so_far = self._project, self._under_way, self.turns.so_far
        found = ruling.line or ClaimVerdict(id=new_run_id(), item=item_of(under_way), verdict=ledger.REJECTED)
        code = () if ruling.accepted else ("no_evidence" if ruling.asks else ruling.code,)
        line = replace(
            found,
            verdict=ledger.ACCEPTED if ruling.accepted else ledger.REJECTED,
            codes=tuple(dict.fromkeys((*code, *found.codes))),
            session=under_way.session,
            agent=under_way.agent_name or None,
            model=next(reversed(so_far.models), under_way.model),
            claim=tuple(map(str, claims)),
            base=found.base or under_way.base.snapshot.head,
            cost_usd=so_far.used.cost_usd if so_far.used.reported else None,
            seconds=round(time.monotonic() - self.turns.began, 1),
        )
        self._write_noted(but=line.id)
        self._under_way = under_way.at(project, "judging", verdict=line.as_record())
        written = None if ruling.accepted or ruling.asks else self._write_noted()
        return replace(ruling, line=written or line)

    def _write_noted(self, but: str = "") -> ClaimVerdict | None:
        noted = ClaimVerdict.from_record(self._under_way.verdict) if self._under_way.verdict else None
        if noted is None or noted.accepted or noted.id == but:
            return None
        return ledger.write(self._project.store.ledger(), noted)

    def _broken(self, changes: proven.ClaimedChanges) -> tuple[str, str] | None:
        if tampered := accept.put_back_state(self._project, self._under_way):
            return accept.TAMPERED, accept.tampering(tampered)
        if waiting := accept.cannot_be_judged(self._project, self._under_way):
            return waiting
        if changes.violations:
            return "features_json_tampered", "features.json was tampered with: " + "; ".join(changes.violations[:5])
        most = self._project.config.verification.max_features_per_session
        if len(changes.claims) > most:
            return "multiple_claims", f"Agent claimed multiple features. Max is {most}."
        missing = actions.missing_prefixes(self._project, self._under_way.session) if changes.claims else None
        return ("missing_prefixes", missing) if missing else None

    def _tell_story(self) -> None:
        accept.ensure_progress_entry(self._project, self._under_way, self._story())

    # -- the endings that all sessions share ---------------------------------------------------------------------------

    def rejected(self, ruling: Ruling, ending: Ending | None) -> Result:
        """Roll back the session and keep its work under a rescue ref. Return the session's result."""
        project, under_way = self._project, self._under_way
        failure = self._failure(ruling)
        project.say(failure)
        if not ruling.judged:
            under_way.event(project, ruling.code, "critical", message=failure)
        finalization = self._rolled_back(failure)
        finalized = self._finalize(finalization)
        actions.log_from_git(project, under_way, finalized.rescue_ref)
        project.say(f"Session rejected and rolled back. The work is kept: git show {finalized.rescue_ref}")
        project.say("To restore it: harness rescue list")
        self.turns.say_what_stays()
        result = self._result("failed", "complete", failure, finalization, finalized, exit_code=1)
        if not ruling.judged:
            return result
        broken = {"regressions": ruling.regressions, "broken_features": ruling.broken_features}
        return replace(result, rejected_as=ruling.code, **broken)

    def _failure(self, ruling: Ruling) -> str:
        return ruling.failure

    def unfinished(self, ending: Ending) -> Result:
        """End the session with unfinished work. Return the session's result."""
        reason = "complete" if ending.reason == "no_claim" else ending.reason
        result = self._hand_off(reason, ending.provider.sentence if ending.provider else None)
        needs_person = ending.provider is not None and ending.provider.kind == "money"
        return replace(result, exit_code=PersonNeeded.exit_code) if needs_person else result

    def _without_way_back(self) -> Result:
        """End the session, whose checkpoint is missing, without a rollback and ask a person (UAH-390)."""
        project = self._project
        accept.report_tampering(project, self._under_way)
        accept.put_back_features(project, self._under_way)
        failure = f"The checkpoint of Session {self._under_way.session} was deleted. The session's work stays as it is."
        project.say(failure)
        asked = questions.question("no_way_back", failure, feature_id=self._under_way.feature_id)
        finalization = accept.without_rollback_point(project, self._under_way, failure, self._used, asked)
        finalized = self._finalize(finalization)
        return self._result("failed", "error", failure, finalization, finalized, exit_code=3)

    def _hand_off_exit(self, reason: str) -> int:
        paused = reason == "user_pause" and not self._stop.signalled
        return 0 if paused else HAND_OFF_EXIT.get(reason, 0)

    def _finalize_and_publish(self, finalization: Finalization) -> tuple[Finalized, push_retry.Published]:
        """Finalize the session and push its commit. Retry a rejected push once (C30)."""
        finalized = self._finalize(finalization)
        config = self._under_way.git_config
        push = push_retry.after_push(
            self._project, lambda: self._judge, finalization, finalized, config, undisturbed=self._stop.held
        )
        return finalized, push

    def _finalize(self, finalization: Finalization) -> Finalized:
        so_far, record = self.turns.so_far, finalization.session_record
        known = {"model": so_far.model or record["model"], "turns": so_far.turns}
        known |= {"interventions": [redact(each) for each in so_far.interventions], "told": [*so_far.told]}
        with self._stop.held():
            push_retry.report_pushes_of_agent(self._project, self._under_way, self._tips)
            told = replace(finalization, session_record={**record, **known})
            return engine_finalization.finalize(self._project, self._under_way.as_record(), told)

    @property
    def _used(self) -> usage.Totals:
        return self.turns.so_far.used

    def _result(
        self,
        status: str,
        reason: str,
        message: str,
        finalization: Finalization,
        finalized: Finalized,
        *,
        exit_code: int = 0,
    ) -> Result:
        return Result(
            session=self._under_way.session,
            feature_id=self._under_way.feature_id,
            status=status,
            reason=reason,
            message=message,
            accepted=finalization.kind == "accept",
            commit=finalization.commit,
            rescue_ref=finalized.rescue_ref,
            cost_usd=self._used.cost_usd,
            exit_code=exit_code,
            told=self.turns.so_far.message,
        )


# -- settings for every turn of an agent -------------------------------------------------------------------------------


def handed(project: Project, brief: Brief) -> Brief:
    """Return the brief with the project's current settings and remaining budget."""
    return replace(
        brief,
        model=project.config.models.for_prompt(brief.prompt_type),
        model_chosen=project.config.is_model_chosen(brief.prompt_type),
        tools=tool_rules(project),
        sandbox=project.config.sandbox.settings(),
        budget_usd=costs.available(project.store.costs(), project.budgets, brief.feature_id),
    )


def tool_rules(project: Project) -> ToolRules:
    tools = project.config.tools
    return ToolRules(
        filesystem_enabled=tools.filesystem.enabled,
        allowed_paths=tuple(tools.filesystem.allowed_paths),
        denied_paths=tuple(dict.fromkeys((*tools.filesystem.denied_paths, f"{project.state_name}/"))),
        shell_enabled=tools.shell.enabled,
        shell_timeout_seconds=tools.shell.timeout_seconds,
        denied_commands=tuple(tools.shell.denied_commands),
        mcp_servers=switched_on(tools.mcp_servers),
    )
