"""One session on a feature, from preflight to close: the main road of a feature project.

    preflight → select → checkpoint → brief → supervise → judge → settle

A claim is judged as a commit; a failed proof is fed back a few times; everything ends as one settlement (endings.py).
Source: house plan, section 4; features.md sections M, N, O, C03, C14, C20.
"""

from dataclasses import replace

from agent_harness.protocols.features import progress, records
from agent_harness.protocols.features.engine import (
    accept,
    actions,
    provider_retry,
    state_guard,
    turn,
    wip,
)
from agent_harness.protocols.features.engine.result import Result
from agent_harness.protocols.features.engine.settlement import Settlement
from agent_harness.protocols.features.engine.walk import SessionWalk
from agent_harness.protocols.features.marks import manual_verification
from agent_harness.protocols.features.prompts import verification_types
from agent_harness.protocols.features.verdict.ruling import Ruling


class SessionRoad(SessionWalk):
    """Walks one session on a feature: its claim is accepted, given back to mend, rejected or handed off."""

    _accepted_tree: tuple[str, Ruling] | None = None

    def _opening(self) -> str:
        return turn.opening_prompt(self._project, self._under_way, self._orientation)

    def _after_turn(self) -> Result | str:
        """The session's end, or the prompt of its next turn."""
        changes = self._changes()
        if broken := self._broken_rule(changes):
            code, failure = broken
            return self._reject(failure, code)
        if not changes.claims:
            return self._without_claim()
        ruling = self._ruling(changes.claims[0])
        if ruling.final:
            return self._reject(ruling.failure, ruling.code, ruling)
        if ruling.accepted and self._is_shown():
            return self._accept(ruling)
        accept.put_back_features(self._project, self._under_way)
        return self._ask_for_evidence() if ruling.accepted else self._ask_for_fix(ruling)

    def _is_shown(self) -> bool:
        """Whether the agent has shown what it must; of a feature that a person verifies, it need show nothing."""
        needed = self._project.config.verification.require_evidence
        return self._sum.evidence_shown or not needed or verification_types.kind(self._under_way.feature) == "manual"

    def _without_claim(self) -> Result | str:
        if self._sum.asked_for_evidence:
            return self._no_evidence()
        if not self._sum.fix_rounds:
            return self._hand_off("complete")
        return self._ask_for_fix(Ruling.unproven("The agent did not claim the feature again.", code="no_claim"))

    def _ask_for_fix(self, ruling: Ruling) -> Result | str:
        """The failure goes back into the conversation, a limited number of times (C03 a)."""
        self._sum.fix_rounds += 1
        if self._sum.fix_rounds > self._project.config.verification.fix_rounds:
            return self._reject(self._sum.failure or ruling.failure, ruling.code, ruling)
        if ruling.code != "no_claim":
            self._sum.failure, self._sum.output = ruling.failure, ruling.output
        self._project.say(f"Fix round {self._sum.fix_rounds}: the failure goes back to the agent.")
        return turn.fix_prompt(
            self._project,
            self._under_way,
            failure=self._sum.failure or ruling.failure,
            output=self._sum.output,
            fix_round=self._sum.fix_rounds,
        )

    def _ask_for_evidence(self) -> Result | str:
        if self._sum.asked_for_evidence:
            return self._no_evidence()
        self._sum.asked_for_evidence = True
        self._project.say("No evidence was shown; asking the agent for it once.")
        return turn.evidence_prompt(self._project, self._under_way)

    # -- the verdict -------------------------------------------------------------------------------------------------

    def _ruling(self, claimed: int) -> Ruling:
        project, under_way = self._project, self._under_way
        project.say(f"Agent claims Feature #{claimed} complete.")
        project.store.event("feature_claimed", session=under_way.session, feature_id=claimed)
        if claimed != under_way.feature_id:
            return Ruling.unproven(
                f"Agent claimed Feature #{claimed}, but this session's feature is #{under_way.feature_id}.",
                code="wrong_feature",
            )
        self._under_way = under_way.at(project, "judging")
        self._tell_story()
        message = f"Implement {accept.feature_name(under_way.feature)}: {records.description(under_way.feature)}"
        candidate = accept.candidate(project, self._under_way, message)
        tree = project.git.tree_of(candidate)
        if self._accepted_tree and self._accepted_tree[0] == tree:
            return self._accepted_tree[1].of(candidate)
        ruling = self._judge.rule(self._under_way, candidate)
        if ruling.accepted:
            self._accepted_tree = (tree, ruling)
        else:
            project.store.event(
                "verification_failed",
                "critical",
                session=under_way.session,
                feature_id=under_way.feature_id,
                code=ruling.code,
                message=ruling.failure,
            )
        return ruling

    def _story(self) -> list[progress.Part]:
        feature = self._under_way.feature
        return [
            ("FEATURE", f"#{feature['id']} ({records.description(feature)})"),
            ("WHAT I DID", ["not told by the agent; see the commits of this session"]),
            ("VERIFICATION", ["by the harness, on the commit that holds this entry"]),
        ]

    # -- the endings of a feature's session --------------------------------------------------------------------------

    def _accept(self, ruling: Ruling) -> Result:
        project, under_way = self._project, self._under_way
        project.store.event(
            "verification_passed", session=under_way.session, feature_id=under_way.feature_id, commit=ruling.commit
        )
        actions.log_from_git(project, under_way, ruling.commit)
        by_person = verification_types.kind(under_way.feature) != "automated"
        make = manual_verification.accepted if by_person else accept.accepted
        settlement = make(project, under_way, ruling, self._sum.used)
        settled, published = self._settle_and_publish(settlement)
        told = f"Feature #{under_way.feature_id} {'awaits a person.' if by_person else 'verified.'}"
        project.say(f"Session complete. {told}")
        if by_person:
            manual_verification.tell(project, under_way.feature, under_way.session)
        settlement = replace(settlement, commit=published.commit)
        return self._result("complete", "complete", told, settlement, settled, exit_code=published.exit_code)

    def _hand_off(self, reason: str, *, failure: str | None = None, exit_code: int | None = None) -> Result:
        project = self._project
        self._under_way = self._under_way.at(project, "judging")
        state_guard.report(project, self._under_way)
        red = None if wip.recorded(reason) in ("user_pause", "error") else self._judge.red_tests(self._under_way)
        settlement = wip.handed_off(
            project,
            self._under_way,
            reason,
            self._sum.used,
            red_tests=red,
            failure=failure,
            message=self._sum.refusal,
        )
        settled = self._settle(settlement)
        left = wip.what_became_of_it(project, settlement, reason)
        name = accept.feature_name(self._under_way.feature)
        why = wip.WORDINGS[reason].why if reason in wip.WORDINGS else reason
        message = failure or f"{name} is not finished ({self._sum.refusal or why}); {left}."
        project.say(f"Session handed off. {message}")
        provider_retry.rest(project, reason)
        code = self._hand_off_exit(reason) if exit_code is None else exit_code
        reason = reason if reason == "rate_limited" else wip.recorded(reason)
        return self._result("partial", reason, message, settlement, settled, exit_code=code)

    def _no_evidence(self) -> Result:
        name = accept.feature_name(self._under_way.feature)
        failure = f"{name} was claimed without evidence: the agent showed no run of its test file."
        self._project.store.event(
            "verification_failed",
            "critical",
            session=self._under_way.session,
            feature_id=self._under_way.feature_id,
            code="no_evidence",
            message=failure,
        )
        return replace(self._hand_off("complete", failure=failure, exit_code=1), rejected_as="no_evidence")

    def _rolled_back(self, failure: str) -> Settlement:
        return accept.rolled_back(self._project, self._under_way, failure, self._sum.used)
