"""Session on one feature. A claim is accepted, rejected, or sent back for a fix round. The session can also end without
a claim. Source: features.md sections K, M, N, O, Q, R, V, C03, C14, C20."""

import os
import shlex
from collections.abc import Iterable
from dataclasses import replace

from agent_harness.agents import usage
from agent_harness.kernel import files
from agent_harness.kernel.files import own_place
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import overrides, progress, prompts, repository
from agent_harness.protocols.features.config import commands
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Question
from agent_harness.protocols.features.sessions import accept, actions, wip
from agent_harness.protocols.features.sessions.finalization import Finalization, Result
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict.project_judge import Ruling
from agent_harness.protocols.features.work import review
from agent_harness.protocols.features.work.session_work import SessionWork
from agent_harness.session.runner import JUDGED_WHEN_CUT_OFF
from agent_harness.session.work import POLICIES, Ending, Policy, TurnSoFar


class FeatureWork(SessionWork):
    _accepted_tree: tuple[str, Ruling] | None = None
    _refused: Ruling | None = None  # the latest claim that the tests refused
    _reviews: usage.Totals = usage.Totals()  # tokens and cost of the reviews
    _objected: bool = False  # a review objected, and the agent has been told
    _without_objection: Ruling | None = None  # the latest ruling without an objection

    @property
    def policy(self) -> Policy:
        return replace(POLICIES["feature"], fix_rounds=self._project.config.verification.fix_rounds)

    def _opening(self) -> str:
        return opening_prompt(self._project, self._under_way, self._orientation)

    def _again(self, ruling: Ruling) -> str:
        if ruling.asks:
            self._project.say(f"The agent showed no evidence. The harness asks for it once. {self._what_counts()}")
            test_file = self._under_way.feature.test_file  # C20
            return prompts.render("evidence", {**_places(self._project, self._under_way), "test_file": test_file})
        fix_round = self.turns.so_far.fix_rounds
        self._project.say(f"Fix round {fix_round} of {self.policy.fix_rounds}: the agent gets the output.")
        output = self._refused.output if self._refused else ""
        return fix_prompt(
            self._project, self._under_way, failure=self._failure(ruling), output=output, fix_round=fix_round
        )

    def _failure(self, ruling: Ruling) -> str:
        return self._refused.failure if self._refused and not ruling.final else ruling.failure

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> Ruling | None:
        """Return the ruling on the feature that the agent claims, or None without a claim."""
        changes = self._changes()
        if broken := self._broken_rule(changes):
            return broken
        if not changes.claims:
            return self._without_claim(so_far)
        ruling = self._reviewed(self._judged(changes.claims[0]), so_far)
        if ruling.accepted and not self._is_shown(so_far):
            ruling = replace(ruling, accepted=False, asks=True)
        ruling = self._on_record(ruling, changes.claims)
        if ruling.final or ruling.accepted:
            return ruling
        accept.put_back_features(self._project, self._under_way)
        if not ruling.asks:
            self._refused = ruling
        return ruling

    def _without_claim(self, so_far: TurnSoFar) -> Ruling | None:
        if so_far.asked:
            return Ruling(accepted=False, asks=True)
        if not so_far.fix_rounds:
            return None
        return Ruling.unproven("The agent did not claim the feature again.", code="no_claim")

    def _is_shown(self, so_far: TurnSoFar) -> bool:
        needed = self._project.config.verification.require_evidence
        feature = self._under_way.feature
        has_own_tests = bool(feature.test_file) and feature.verification_type != "manual"
        return so_far.evidence_shown or not (needed and has_own_tests)

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
            if places := self.turns.only_here():
                ruling = replace(ruling, failure=f"{ruling.failure} ({places})")
            facts = {"code": ruling.code, "message": ruling.failure, "output_file": ruling.output_file or None}
            under_way.event(project, "verification_failed", "critical", **facts)
        return ruling

    def _reviewed(self, ruling: Ruling, so_far: TurnSoFar) -> Ruling:
        """Let a second agent review accepted work. Return the ruling, which the review can change."""
        if not ruling.accepted or ruling.of("") == self._without_objection:
            return ruling
        self.turns.now.step("review")
        found = review.held(self._project, self._under_way, ruling, self._stop)
        if found is None:
            return ruling
        project, session, feature = self._project, self._under_way.session, self._under_way.feature
        self._reviews = usage.merge(self._reviews, found.used)
        cost = found.used.cost_usd if found.used.reported else None
        told = {"session": session, "feature_id": feature.id, "cost_usd": cost}
        if not found.objections:
            message = f"No review took place: {found.problem}" if found.problem else "The review has no objections."
            project.say(message)
            project.store.event("reviewed", "important", message=message, **told)
            self._without_objection = ruling.of("")
            return ruling
        listed = "\n".join(f"- {each}" for each in found.objections)
        project.say(f"The reviewer objects: {found.objections[0]}")
        project.store.event("review_objected", "important", message="; ".join(found.objections), **told)
        rejects = project.config.review.on_objection == "reject"
        if not rejects and (self._objected or so_far.fix_rounds >= self.policy.fix_rounds):
            line = ruling.line and replace(ruling.line, codes=(*ruling.line.codes, "review_objected"))
            return replace(ruling, line=line)
        self._objected = True
        failure = f"The tests pass, but a second agent that read the work objects:\n{listed}"
        return replace(ruling, accepted=False, code="review_objected", failure=failure)

    @property
    def _used(self) -> usage.Totals:
        return usage.merge(super()._used, self._reviews)

    def _story(self) -> list[progress.Part]:
        feature = self._under_way.feature
        return [
            ("FEATURE", f"#{feature.id} ({feature.description})"),
            *actions.told_by_traces(self._project, self._under_way),
            ("VERIFICATION", ["by the harness, on the commit that holds this entry"]),
        ]

    # -- the endings of a feature's session --------------------------------------------------------------------------

    def accepted(self, ruling: Ruling) -> Result:
        project, under_way = self._project, self._under_way
        under_way.event(project, "verification_passed", commit=ruling.commit)
        actions.log_from_git(project, under_way, ruling.commit)
        by_person = under_way.feature.verification_type != "automated"
        if by_person and ruling.line:
            line = replace(ruling.line, codes=(*ruling.line.codes, "awaiting_manual"))
            self._under_way = under_way = replace(under_way, verdict=line.as_record())
        make = overrides.accepted_for_person if by_person else accept.accepted
        finalization = make(project, under_way, ruling, self._used)
        finalized, published = self._finalize_and_publish(finalization)
        told = f"Feature #{under_way.feature_id} {'needs a person.' if by_person else 'verified.'}"
        project.say(f"Session complete. {told}")
        self.turns.say_left_out()
        if by_person:
            overrides.ask_person(project, under_way.feature, under_way.session)
        finalization = replace(finalization, commit=published.commit)
        return self._result("complete", "complete", told, finalization, finalized, exit_code=published.exit_code)

    def rejected(self, ruling: Ruling, ending: Ending | None) -> Result:
        last = self._refused if ruling.question is None and ruling.code == "no_claim" and self._refused else ruling
        return super().rejected(ruling, ending) if last.question is None else self._kept(last, last.question)

    def _kept(self, ruling: Ruling, found: Question) -> Result:
        project, session = self._project, self._under_way.session
        ref = repository.kept_ref(project.git, f"refs/harness/kept/{session}", ruling.commit)
        look = f"Look at it: git diff HEAD...{ref}"
        about = ruling.line and ruling.line.n
        asked = Question({**found.record, "ref": ref, "verdict": about, "details": [*found.details, look]})
        finalization = accept.kept_for_person(project, self._under_way, asked, self._used)
        finalized = self._finalize(finalization)
        actions.log_from_git(project, self._under_way, finalized.rescue_ref)
        project.say(f"Session complete. Its work is kept in {ref}, off the branch, until the question is answered.")
        result = self._result("failed", "complete", asked.message, finalization, finalized, exit_code=3)
        return replace(result, asked=asked.kind)

    def unfinished(self, ending: Ending) -> Result:
        """Keep the unfinished work, unless the agent changed protected files. Return the session's result."""
        # changes to protected files are never a base of further work
        if self._refused and self._refused.bent and ending.reason in JUDGED_WHEN_CUT_OFF:
            return self.rejected(self._refused, ending)
        return self._no_evidence() if ending.reason == "no_evidence" else super().unfinished(ending)

    def _hand_off(
        self, reason: str, refusal: str | None, *, failure: str | None = None, exit_code: int | None = None
    ) -> Result:
        project = self._project
        self._under_way = self._under_way.at(project, "judging")
        accept.report_tampering(project, self._under_way)
        hurried = wip.recorded(reason) in ("user_pause", "error")
        finalization = wip.handed_off(
            project,
            self._under_way,
            reason,
            self._used,
            unfinished=None if hurried else self._judge.unfinished(self._under_way),
            failure=failure,
            message=refusal,
        )
        finalized = self._finalize(finalization)
        left = wip.what_became_of_it(project, finalization, reason)
        name = self._under_way.feature.name
        why = wip.WORDINGS[reason].why if reason in wip.WORDINGS else reason
        message = failure or f"{name} is not finished ({refusal or why}); {left}."
        project.say(f"Session handed off. {message}")
        wip.rest(project, reason)
        code = self._hand_off_exit(reason) if exit_code is None else exit_code
        reason = reason if reason == "rate_limited" else wip.recorded(reason)
        return self._result("partial", reason, message, finalization, finalized, exit_code=code)

    def _what_counts(self) -> str:
        file = self._under_way.feature.test_file
        command = self._project.config.test_command(file)
        suite = self._project.config.suite_with(self._under_way.feature.test_path)
        whole = f"`{suite}`" if suite else f"the whole suite when it shows {file}"
        return f"Evidence is the output of `{command}`, or of {whole}."

    def _no_evidence(self) -> Result:
        name = self._under_way.feature.name
        failure = (
            f"{name} was claimed without evidence: the agent showed no run of its test file. {self._what_counts()}"
        )
        facts = {"code": "no_evidence", "message": failure}
        self._under_way.event(self._project, "verification_failed", "critical", **facts)
        return replace(self._hand_off("complete", None, failure=failure, exit_code=1), rejected_as="no_evidence")

    def _rolled_back(self, failure: str) -> Finalization:
        return accept.rolled_back(self._project, self._under_way, failure, self._used)


# -- prompts -----------------------------------------------------------------------------------------------------------

FEEDBACK_CHARACTERS = 6000


def opening_prompt(project: Project, under_way: OpenSession, orientation: str) -> str:
    values = _places(project, under_way)
    text = prompts.render(
        under_way.prompt_type,
        {
            **values,
            "orientation": orientation,
            "rules": prompts.render("rules", {"state_dir": project.state_name}),
            "suite_command": str(project.config.testing.full),
            "lint": project.config.testing.sanity.lint or "no linter is configured",
            "sanity": _sanity(project, under_way),
            "progress_file": project.progress_name,
            "feature_name": f"Feature #{under_way.feature_id}",
            "session": str(under_way.session),
        },
    )
    images = actions.folder_for_images(project) if under_way.feature.visual_steps is not None else ""
    return text + prompts.note_for_agent(under_way.feature, images)


def _sanity(project: Project, under_way: OpenSession) -> str:
    """Return the sanity commands for the prompt (UAH-154, UAH-156..158, C23)."""
    sanity = project.config.testing.sanity
    named = dict.fromkeys(c for c in (sanity.type_check, sanity.health, *_sanity_tests(project, under_way)) if c)
    return "".join(f", `{command}`" for command in named)


SANITY = """#!/bin/sh
# Written for Session {session}: the tests that worked before it. Those of features that are still open are left out.
cd {root} && {commands}
"""


def _sanity_tests(project: Project, under_way: OpenSession) -> list[str]:
    """Return commands that run the tests of the baseline."""
    testing, config, root = project.config.testing, project.config, project.root
    own = [getattr(testing, name) for name in ("unit", "e2e") if config.origin(f"testing.{name}") != "default"]
    worked = {name.partition("::")[0] for name in under_way.baseline.passing}
    wanted = dict.fromkeys(f.test_file for f in under_way.features.features if not f.passes and f.test_file)
    stubs = [file for file in wanted if not _holds(file.partition("::")[0], worked)]
    stubs = [file for file in stubs if (root / file.partition("::")[0]).exists()]
    tests = [
        command
        for command in (own or [str(testing.full)])
        if command and any(_holds(path, worked) for path in commands.paths_of(command, root) or [""])
    ]
    narrowed = [commands.without(command, stubs) for command in tests]
    if narrowed == [commands.without(command, []) for command in tests]:
        return narrowed
    # in a script, because the prompt must not name open features (C57)
    place = project.layout.sanity
    own_place(place, project.layout.root)
    lines = " && ".join(f"{{ {command}; }}" for command in narrowed)
    text = SANITY.format(session=under_way.session, root=shlex.quote(os.fspath(root)), commands=lines)
    files.replace(place, text)
    return [f"sh {shlex.quote(project.layout.relative(place))}"]


def _holds(path: str, files: Iterable[str]) -> bool:
    folder = path.strip("/").removeprefix("./").removesuffix("/.")
    return any(folder in ("", ".", file) or file.startswith(f"{folder}/") for file in files)


def fix_prompt(project: Project, under_way: OpenSession, *, failure: str, output: str, fix_round: int) -> str:
    """Return the prompt that asks the agent to correct its rejected work (C03 a)."""
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


def _places(project: Project, under_way: OpenSession) -> dict[str, str]:
    return {
        "feature": str(under_way.feature_id),
        "description": under_way.feature.description,
        "test_command": project.config.test_command(under_way.feature.test_file),
        "features_file": project.features_name,
    }
