"""The road that every session goes: turns of the agent until one decides, then one settlement.

What a session works on, and how it may end, is its own: ``session.py`` for a feature, ``cleanup.py`` for a cleanup.
Source: house plan, section 4; features.md sections M, N, O, C03, C14.
"""

import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from agent_harness.agents import usage
from agent_harness.agents.base import Agent
from agent_harness.errors import StateDamaged
from agent_harness.protocols.features import progress, prompts, questions
from agent_harness.protocols.features.engine import (
    accept,
    actions,
    checkpoints,
    provider_retry,
    state_guard,
    turn,
)
from agent_harness.protocols.features.engine import (
    settlement as engine_settlement,
)
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.engine.result import Result
from agent_harness.protocols.features.engine.settlement import Settled, Settlement
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import push_guard, push_retry
from agent_harness.protocols.features.verdict import claims
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.protocols.features.verdict.ruling import Ruling
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.monitors import Watch
from agent_harness.supervision.outcome import Outcome

Record = dict[str, Any]

HAND_OFF_EXIT = {"user_pause": 130, "overloaded": 5, "error": 1, "refused": 1, "rate_limited": 5, "budget_exceeded": 9}


@dataclass
class Turns:
    """What the agent's turns of this session add up to."""

    watch: Watch
    began: float  # of the monotonic clock
    used: usage.Totals
    evidence_shown: bool = False
    asked_for_evidence: bool = False
    conversation: str | None = None
    fix_rounds: int = 0
    failure: str | None = None  # of the latest claim that was judged
    output: str = ""
    told: str = ""  # what the monitor said that ended the session
    refusal: str | None = None  # what the provider said that ended it


class SessionWalk(ABC):
    """Walks one session down the road; the session is already checkpointed and recorded as under way."""

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
        self._agent = agent
        self._judge = judge
        self._under_way = under_way
        self._orientation = orientation
        self._stop = stop
        model = project.config.models.for_prompt(under_way.prompt_type)
        self._sum = Turns(
            watch=turn.watch_for(project, under_way.costs, under_way.feature_id, model),
            began=time.monotonic(),
            used=usage.Totals(),
        )
        self._patience = provider_retry.ProviderRetry(project, stop, under_way.session, self._sum.began, spare)
        way_back = checkpoints.way_back(under_way.checkpoint)
        self._recording = turn.recording_of(project, under_way.session, way_back)
        self._tips = push_guard.tips(project)

    def walk(self) -> Result:
        """The session's end; the open session is closed when this returns."""
        prompt = self._opening()
        while True:
            reason = self._turn(prompt)
            if checkpoints.is_gone(self._project, self._under_way.checkpoint):
                return self._without_way_back()
            if reason:
                return self._hand_off(reason)
            step = self._after_turn()
            if isinstance(step, Result):
                return step
            prompt = step

    # -- what kinds of sessions differ in ---------------------------------------------------------------------------

    @abstractmethod
    def _opening(self) -> str:
        """The prompt of the first turn."""

    @abstractmethod
    def _after_turn(self) -> Result | str:
        """The session's end, or the prompt of its next turn."""

    @abstractmethod
    def _story(self) -> list[progress.Part]:
        """The progress entry of a session whose agent wrote none."""

    @abstractmethod
    def _hand_off(self, reason: str, *, failure: str | None = None, exit_code: int | None = None) -> Result:
        """Ends the session before its work is proven."""

    @abstractmethod
    def _rolled_back(self, failure: str) -> Settlement:
        """What becomes of a session that is rejected."""

    # -- one turn ----------------------------------------------------------------------------------------------------

    def _turn(self, prompt: str) -> str | None:
        """Runs the agent once; the reason to stop the session, or ``None`` when the turn ended by itself."""
        self._project.store.hold()
        outcome, trouble = self._patience.served(
            lambda again: self._listen(self._cut_off() + prompt if again else prompt),
            lambda: bool(self._changes().claims),
        )
        self._sum.told = outcome.message
        if trouble is not None:
            self._sum.refusal = trouble.sentence
            return trouble.ends
        if outcome.reason != "finished":
            return None if outcome.reason in provider_retry.TABLE else outcome.reason
        if outcome.ok:
            return None
        self._project.say(f"The agent ended with an error: {outcome.message}")
        self._project.store.event("agent_error", session=self._under_way.session, message=outcome.message)
        return None if self._changes().claims else "error"

    def _listen(self, prompt: str) -> Outcome:
        with self._stop.listening():
            outcome, self._under_way = turn.run(
                self._project,
                self._agent,
                self._under_way,
                prompt,
                round_number=self._sum.fix_rounds + self._sum.asked_for_evidence,
                conversation=self._sum.conversation,
                watch=self._sum.watch,
                began=self._sum.began,
                stop_requested=self._stop.requested,
                recording=self._recording,
            )
        self._project.store.clear_places()
        self._sum.used = usage.merge(self._sum.used, outcome.usage)
        self._sum.conversation = outcome.conversation
        self._sum.evidence_shown = self._sum.evidence_shown or outcome.evidence_shown
        turn.announce_stop(self._project, outcome)
        return outcome

    def _cut_off(self) -> str:
        """What comes before a prompt that is given again, when there is work of the turn that was cut off."""
        return prompts.render("again", {}) if turn.changed_files(self._project, self._under_way).changed else ""

    def _changes(self) -> claims.ClaimedChanges:
        try:
            found: Record | None = self._project.store.features()
        except (StateDamaged, OSError):
            found = None
        if os.path.islink(self._project.layout.features):
            found = None
        return claims.compare(self._under_way.features, found)

    def _broken_rule(self, changes: claims.ClaimedChanges) -> tuple[str, str] | None:
        """What is rejected at once, whatever the tests say: its code, and what the person is told (C03 c)."""
        if tampered := state_guard.put_back(self._project, self._under_way):
            return state_guard.CODE, state_guard.sentence(tampered)
        if waiting := self._project.git.operation_under_way():
            return "operation_unfinished", f"The agent left {waiting} unfinished."
        if changes.violations:
            return "features_json_tampered", "features.json was tampered with: " + "; ".join(changes.violations[:5])
        most = self._project.config.verification.max_features_per_session
        if len(changes.claims) > most:
            return "multiple_claims", f"Agent claimed multiple features. Max is {most}."
        missing = actions.missing_prefixes(self._project, self._under_way.session) if changes.claims else None
        return ("missing_prefixes", missing) if missing else None

    def _tell_story(self) -> None:
        """The agent's own progress entry, or else one by the harness, is part of the candidate."""
        accept.ensure_progress_entry(self._project, self._under_way, self._story())

    # -- the ways to end that all sessions share ---------------------------------------------------------------------

    def _reject(self, failure: str, code: str, ruling: Ruling | None = None) -> Result:
        project, under_way = self._project, self._under_way
        project.say(failure)
        if ruling is None:
            project.store.event(
                code, "critical", session=under_way.session, feature_id=under_way.feature_id, message=failure
            )
        settlement = self._rolled_back(failure)
        settled = self._settle(settlement)
        actions.log_from_git(project, under_way, settled.rescue_ref)
        project.say(f"Session rejected and rolled back. What was taken away is kept: git show {settled.rescue_ref}")
        result = self._result("failed", "complete", failure, settlement, settled, exit_code=1)
        if ruling is None:
            return result
        broken = {"regressions": ruling.regressions, "broken_features": ruling.broken_features}
        return replace(result, rejected_as=code, **broken)

    def _without_way_back(self) -> Result:
        """Nobody can go back: the work stays as it is, unmarked, and a person decides (UAH-390)."""
        project = self._project
        state_guard.report(project, self._under_way)
        accept.put_back_features(project, self._under_way)
        failure = f"The checkpoint of Session {self._under_way.session} is gone; its work is left as it is."
        project.say(failure)
        asked = questions.question("no_way_back", failure, feature_id=self._under_way.feature_id)
        settlement = accept.without_way_back(project, self._under_way, failure, self._sum.used, asked)
        settled = self._settle(settlement)
        return self._result("failed", "error", failure, settlement, settled, exit_code=3)

    def _hand_off_exit(self, reason: str) -> int:
        """A pause that a person asked for elsewhere is a clean end of this command; Ctrl-C is told as such."""
        paused = reason == "user_pause" and not self._stop.signalled
        return 0 if paused else HAND_OFF_EXIT.get(reason, 0)

    def _settle_and_publish(self, settlement: Settlement) -> tuple[Settled, push_retry.Published]:
        """Settled and pushed; a push that the remote rejects is tried once more on top of what it has (C30)."""
        settled = self._settle(settlement)
        config = self._under_way.git_config
        push = push_retry.after_push(
            self._project, lambda: self._judge, settlement, settled, config, undisturbed=self._stop.held
        )
        return settled, push

    def _settle(self, settlement: Settlement) -> Settled:
        with self._stop.held():
            push_guard.report(self._project, self._under_way, self._tips)
            return engine_settlement.settle(self._project, self._under_way.as_record(), settlement)

    def _result(
        self,
        status: str,
        reason: str,
        message: str,
        settlement: Settlement,
        settled: Settled,
        *,
        exit_code: int = 0,
    ) -> Result:
        return Result(
            session=self._under_way.session,
            feature_id=self._under_way.feature_id,
            status=status,
            reason=reason,
            message=message,
            accepted=settlement.kind == "accept",
            commit=settlement.commit,
            rescue_ref=settled.rescue_ref,
            cost_usd=self._sum.used.cost_usd,
            exit_code=exit_code,
            told=self._sum.told,
        )
