"""A session on one feature: its claim is accepted, goes back to the agent, is rejected, or is handed off.

A claim is judged as a commit; a failed proof goes back a few times; everything ends as one settlement (``accept.py``,
``wip.py``). Source: features.md sections K, M, N, O, Q, R, V, C03, C14, C20.
"""

import os
from dataclasses import replace

from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import marks, progress, prompts
from agent_harness.protocols.features.engine import (
    accept,
    actions,
    state_guard,
    wip,
)
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.engine.settlement import Result, Settlement
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import verification_types
from agent_harness.protocols.features.verdict.judge import Ruling
from agent_harness.protocols.features.work.session_work import SessionWork
from agent_harness.session.policy import POLICIES, Policy
from agent_harness.session.work import Ending, TurnSoFar


class FeatureWork(SessionWork):
    """One session on a feature."""

    _accepted_tree: tuple[str, Ruling] | None = None
    _refused: Ruling | None = None  # the latest claim that the tests refused

    @property
    def policy(self) -> Policy:
        """The row of the table, with the settings' number of fix rounds."""
        rounds = self._project.config.verification.fix_rounds
        return replace(POLICIES["feature"], fix_rounds=rounds)

    def _opening(self) -> str:
        return opening_prompt(self._project, self._under_way, self._orientation)

    def _again(self, ruling: Ruling) -> str:
        if ruling.asks:
            self._project.say("No evidence was shown; asking the agent for it once.")
            return evidence_prompt(self._project, self._under_way)
        fix_round = self.turns.so_far.fix_rounds
        self._project.say(f"Fix round {fix_round}: the failure goes back to the agent.")
        output = self._refused.output if self._refused else ""
        return fix_prompt(
            self._project, self._under_way, failure=self._failure(ruling), output=output, fix_round=fix_round
        )

    def _failure(self, ruling: Ruling) -> str:
        """What was wrong with the latest claim; an agent that does not claim again has not repaired it."""
        return self._refused.failure if self._refused and not ruling.final else ruling.failure

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> Ruling | None:
        """What the features that the agent marked are worth; ``None`` when it marked none in its first turn."""
        changes = self._changes()
        if broken := self._broken_rule(changes):
            return broken
        if not changes.claims:
            return self._without_claim(so_far)
        ruling = self._judged(changes.claims[0])
        if ruling.final or (ruling.accepted and self._is_shown(so_far)):
            return ruling
        accept.put_back_features(self._project, self._under_way)
        if ruling.accepted:
            return replace(ruling, accepted=False, asks=True)
        self._refused = ruling
        return ruling

    def _without_claim(self, so_far: TurnSoFar) -> Ruling | None:
        if so_far.asked:
            return Ruling(accepted=False, asks=True)
        if not so_far.fix_rounds:
            return None
        return Ruling.unproven("The agent did not claim the feature again.", code="no_claim")

    def _is_shown(self, so_far: TurnSoFar) -> bool:
        """Whether the agent has shown what it must; of a feature that a person verifies, it need show nothing."""
        needed = self._project.config.verification.require_evidence
        return so_far.evidence_shown or not needed or self._under_way.feature.verification_type == "manual"

    # -- the verdict -------------------------------------------------------------------------------------------------

    def _judged(self, claimed: int) -> Ruling:
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
        message = f"Implement {under_way.feature.name}: {under_way.feature.description}"
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
            ("FEATURE", f"#{feature.id} ({feature.description})"),
            ("WHAT I DID", ["not told by the agent; see the commits of this session"]),
            ("VERIFICATION", ["by the harness, on the commit that holds this entry"]),
        ]

    # -- the endings of a feature's session --------------------------------------------------------------------------

    def accepted(self, ruling: Ruling) -> Result:
        project, under_way = self._project, self._under_way
        project.store.event(
            "verification_passed", session=under_way.session, feature_id=under_way.feature_id, commit=ruling.commit
        )
        actions.log_from_git(project, under_way, ruling.commit)
        by_person = under_way.feature.verification_type != "automated"
        make = marks.accepted_for_person if by_person else accept.accepted
        settlement = make(project, under_way, ruling, self._used)
        settled, published = self._settle_and_publish(settlement)
        told = f"Feature #{under_way.feature_id} {'awaits a person.' if by_person else 'verified.'}"
        project.say(f"Session complete. {told}")
        if by_person:
            marks.tell_person(project, under_way.feature, under_way.session)
        settlement = replace(settlement, commit=published.commit)
        return self._result("complete", "complete", told, settlement, settled, exit_code=published.exit_code)

    def unfinished(self, ending: Ending) -> Result:
        """Handed off; a claim without the evidence that it needs counts as not made."""
        return self._no_evidence() if ending.reason == "no_evidence" else super().unfinished(ending)

    def _hand_off(
        self, reason: str, refusal: str | None, *, failure: str | None = None, exit_code: int | None = None
    ) -> Result:
        project = self._project
        self._under_way = self._under_way.at(project, "judging")
        state_guard.report(project, self._under_way)
        red = None if wip.recorded(reason) in ("user_pause", "error") else self._judge.red_tests(self._under_way)
        settlement = wip.handed_off(
            project,
            self._under_way,
            reason,
            self._used,
            red_tests=red,
            failure=failure,
            message=refusal,
        )
        settled = self._settle(settlement)
        left = wip.what_became_of_it(project, settlement, reason)
        name = self._under_way.feature.name
        why = wip.WORDINGS[reason].why if reason in wip.WORDINGS else reason
        message = failure or f"{name} is not finished ({refusal or why}); {left}."
        project.say(f"Session handed off. {message}")
        wip.rest(project, reason)
        code = self._hand_off_exit(reason) if exit_code is None else exit_code
        reason = reason if reason == "rate_limited" else wip.recorded(reason)
        return self._result("partial", reason, message, settlement, settled, exit_code=code)

    def _no_evidence(self) -> Result:
        name = self._under_way.feature.name
        failure = f"{name} was claimed without evidence: the agent showed no run of its test file."
        self._project.store.event(
            "verification_failed",
            "critical",
            session=self._under_way.session,
            feature_id=self._under_way.feature_id,
            code="no_evidence",
            message=failure,
        )
        return replace(self._hand_off("complete", None, failure=failure, exit_code=1), rejected_as="no_evidence")

    def _rolled_back(self, failure: str) -> Settlement:
        return accept.rolled_back(self._project, self._under_way, failure, self._used)


# -- prompts -----------------------------------------------------------------------------------------------------------

FEEDBACK_CHARACTERS = 6000


# -- prompts -----------------------------------------------------------------------------------------------------------


def opening_prompt(project: Project, under_way: OpenSession, orientation: str) -> str:
    """The coding or continuation prompt with the orientation in it."""
    values = _places(project, under_way)
    text = prompts.render(
        under_way.prompt_type,
        {
            **values,
            "orientation": orientation,
            "rules": prompts.render("rules", {"state_dir": project.state_name}),
            "suite_command": str(project.config.testing.full),
            "lint": project.config.testing.sanity.lint or "no linter is configured",
            "sanity": _sanity(project),
            "progress_file": project.progress_name,
            "feature_name": f"Feature #{under_way.feature_id}",
            "session": str(under_way.session),
        },
    )
    return text + verification_types.note_for_agent(under_way.feature)


def _sanity(project: Project) -> str:
    """The other quick checks that the settings name, each as a command (UAH-154, UAH-156..158).

    Those of folders that are not there are left out.
    """
    testing = project.config.testing
    named = (testing.sanity.type_check, testing.sanity.health, testing.unit, testing.e2e)
    commands = dict.fromkeys(c for c in named if c and c != testing.full and _has_its_folder(project, c))
    return "".join(f", `{command}`" for command in commands)


def _has_its_folder(project: Project, command: str) -> bool:
    paths = [word for word in command.split() if word.startswith(("tests/", "test/", "./"))]
    return all(os.path.exists(project.root / path) for path in paths)


def fix_prompt(project: Project, under_way: OpenSession, *, failure: str, output: str, fix_round: int) -> str:
    """What the harness saw, for the next fix round (C03 a)."""
    return prompts.render(
        "fix",
        {
            **_places(project, under_way),
            "round": str(fix_round),
            "rounds": str(project.config.verification.fix_rounds),
            "reason": failure,
            "output": redact(output)[-FEEDBACK_CHARACTERS:].replace("```", "'''"),
        },
    )


def evidence_prompt(project: Project, under_way: OpenSession) -> str:
    """Asks once for the output that a claim needs (C20)."""
    values = _places(project, under_way)
    return prompts.render("evidence", {**values, "test_file": under_way.feature.test_file})


def _places(project: Project, under_way: OpenSession) -> dict[str, str]:
    return {
        "feature": str(under_way.feature_id),
        "description": under_way.feature.description,
        "test_command": project.config.test_command(under_way.feature.test_file),
        "features_file": project.features_name,
    }
