"""Cleanup session, which does not work on a feature. Either all of its work is kept, or all is rolled back.

accepted       the suite passes, no feature was marked as passing: the work is pushed; sizes and lint are measured
rejected       the work is rolled back; the next cleanup starts at the next multiple of the interval
ended early    the work is rolled back into a rescue ref; after a pause, error or crash, the next run cleans up again

After every other end of a cleanup, the next session is a coding session. A cleanup never counts against a feature.
Source: features.md UAH-055, UAH-241, UAH-321..327, C35, C36, C47."""

from dataclasses import replace

from agent_harness.agents import usage
from agent_harness.errors import NothingEligible, Refused
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import progress, prompts, records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import SessionState
from agent_harness.protocols.features.sessions import accept, actions, wip
from agent_harness.protocols.features.sessions.finalization import Finalization, Result
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict import quality
from agent_harness.protocols.features.verdict.project_judge import Judge, Ruling
from agent_harness.protocols.features.work.session_work import SessionWork
from agent_harness.session.work import POLICIES, Ending, Policy, TurnSoFar

MESSAGE = "Clean up"


def ask_for(project: Project) -> None:
    """Make the next session a cleanup, for `harness cleanup`."""
    state = project.store.state()
    if state.next_prompt == "continuation":
        raise Refused(
            f"Feature #{state.current_feature} is unfinished; its unproven commits would be pushed", hint="harness run"
        )
    if not project.store.features().counts()[0]:
        raise NothingEligible("There is nothing to clean up: no feature is complete.", hint="harness run")
    project.store.update_state(next_prompt="cleanup")


class CleanupWork(SessionWork):
    @property
    def policy(self) -> Policy:
        return POLICIES["cleanup"]

    def _opening(self) -> str:
        return opening_prompt(self._project, self._under_way, self._orientation, self._judge)

    def _again(self, ruling: Ruling) -> str:
        raise AssertionError("a cleanup session asked for a fix round")

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> Ruling:
        changes = self._changes()
        if broken := self._broken_rule(changes):
            return broken
        if changes.claims:
            named = ", ".join(f"#{i}" for i in changes.claims)
            failure = f"A cleanup session must not mark features, but it marked {named}."
            broken = Ruling(accepted=False, final=True, judged=False, code="cleanup_claimed", failure=failure)
            return self._on_record(broken, changes.claims)
        self._under_way = self._under_way.at(self._project, "judging")
        self._tell_story()
        ruled = self._judge.rule(self._under_way, accept.candidate(self._project, self._under_way, MESSAGE))
        worse = self._worse(ruled) if ruled.accepted else ""
        if worse:
            ruled = replace(ruled, accepted=False, final=True, code="cleanup_worse", failure=worse)
        return self._on_record(ruled, ())

    def _worse(self, ruled: Ruling) -> str:
        # UAH-324
        project, base = self._project, self._under_way.base.snapshot.head
        lint, most = ruled.proof.lint, project.config.quality.max_file_lines
        if base is None:
            return ""
        before = self._judge.lint(base)
        if lint is not None and not before.problem and lint.total > before.total:
            new = records.shown_kinds(ruled.proof.lint_introduced)
            return f"The cleanup made lint worse: {before.total} findings before, {lint.total} now ({new})."
        tests = [f.test_file for f in self._under_way.features.features]
        sizes = (quality.file_sizes(project.git, commit, 0, {}, tests)["files"] for commit in (base, ruled.commit))
        then, now = (quality.excess_lines(each, most) for each in sizes)
        if now > then:
            return f"The cleanup made files larger: {then} lines above the limit of {most} before, {now} now."
        return ""

    def _story(self) -> list[progress.Part]:
        return actions.told_by_traces(self._project, self._under_way)

    def accepted(self, ruling: Ruling) -> Result:
        finalization = accepted_cleanup(self._project, self._under_way, ruling, self._used)
        finalized, published = self._finalize_and_publish(finalization)
        self._project.say("Session complete. Cleanup verified.")
        told = "Cleanup verified."
        finalization = replace(finalization, commit=published.commit)
        return self._result("complete", "complete", told, finalization, finalized, exit_code=published.exit_code)

    def _hand_off(self, reason: str, refusal: str | None) -> Result:
        project = self._project
        code = self._hand_off_exit(reason)
        wip.rest(project, reason)
        reason = reason if reason == "rate_limited" else wip.recorded(reason)
        accept.report_tampering(project, self._under_way)
        finalization = ended_early(project, self._under_way, wip.recorded(reason), self._used)
        finalized = self._finalize(finalization)
        why = refusal or reason.replace("_", " ")
        aside = f"its work is kept: git show {finalized.rescue_ref}"
        message = f"The cleanup was not finished ({why}); {aside if finalized.rescue_ref else 'nothing was changed'}."
        project.say(message)
        return self._result("failed", reason, message, finalization, finalized, exit_code=code)

    def _rolled_back(self, failure: str) -> Finalization:
        summary: JsonObject = {"completed": "nothing", "commits": [], "status": "failed, rolled back"}
        state = _state(self._under_way, "failed", failure, summary)
        made = _plain(self._project, self._under_way, self._used, "complete", state)
        return _back(self._under_way, made, failure)


def opening_prompt(project: Project, under_way: OpenSession, orientation: str, judge: Judge) -> str:
    head = project.git.head() or "HEAD"
    return prompts.render(
        "cleanup",
        {
            "orientation": orientation,
            "issues": _issues(project, judge, head),
            "lint": project.config.quality.lint_command or "no linter is configured",
            "suite_command": str(project.config.testing.full),
            "progress_file": project.progress_name,
            "features_file": project.features_name,
            "state_dir": project.state_name,
            "session": str(under_way.session),
        },
    )


def _issues(project: Project, judge: Judge, commit: str) -> str:
    tests = [f.test_file for f in project.store.features().features]
    sizes = quality.file_sizes(project.git, commit, 0, {}, tests)["files"]
    most = project.config.quality.max_file_lines
    lines = [
        f"- {row['path']} has {row['lines']} lines (limit {most})" for row in quality.large_files(sizes, most)[:20]
    ]
    lint = judge.lint(commit)
    lines += [
        f"- lint {kind}: {count} findings"
        for kind, count in sorted(lint.kinds.items(), key=lambda row: (-row[1], row[0]))[:20]
    ]
    if lint.problem or lint.by_lines:
        lines.append(f"- {lint.problem or f'lint: {lint.errors} lines of output; run it to see its findings'}")
    return "\n".join(lines) or "- none measured; look for duplication and unclear names"


# -- the endings, as settlements ---------------------------------------------------------------------------------------


def accepted_cleanup(project: Project, under_way: OpenSession, ruling: Ruling, used: usage.Totals) -> Finalization:
    """Return the finalization that puts an accepted cleanup on the branch (UAH-325, UAH-326)."""
    rollback_point = under_way.checkpoint.snapshot
    commits = [found.sha for found in project.git.commits_between(rollback_point.head, ruling.commit)]
    summary = {"completed": "a cleanup", "commits": commits, "status": "complete"}
    return replace(
        _plain(project, under_way, used, "complete", _state(under_way, "complete", None, summary)),
        kind="accept",
        commit=ruling.commit,
        branch=rollback_point.branch,
        expected_head=project.tips[ruling.commit],
        baseline=accept.next_baseline(project, under_way, ruling),
        file_sizes=ruling.proof.file_sizes,
        quality=accept.quality_record(project, under_way, ruling),
        events=[
            {"event_type": "cleanup_completed", "level": "important", "commit": ruling.commit},
            *accept.file_alerts(under_way, ruling),
        ],
        push=True,
    )


def ended_early(project: Project, under_way: OpenSession, reason: str, used: usage.Totals) -> Finalization:
    """Return the finalization that rolls back a cleanup which ended too early."""
    told = f"cleanup ended early ({reason.replace('_', ' ')})"
    summary: JsonObject = {"completed": "nothing", "commits": [], "status": told}
    state = _state(under_way, "failed", None, summary).but(termination_reason=reason)
    # the next session is a cleanup again
    if reason in ("user_pause", "error"):
        state = state.but(next_prompt="cleanup", cleaned_up_at=under_way.state.record.get("cleaned_up_at"))
    return _back(under_way, _plain(project, under_way, used, reason, state), f"ended early ({reason})")


def _plain(
    project: Project, under_way: OpenSession, used: usage.Totals, reason: str, state: SessionState
) -> Finalization:
    return Finalization(
        kind="nothing",
        session=under_way.session,
        state=state,
        costs=accept.costs_after(project, under_way, used),
        session_record=accept.session_record(under_way, used, reason, completed=False) | {"prompt_type": "cleanup"},
        baseline=under_way.baseline,
    )


def _back(under_way: OpenSession, finalization: Finalization, told: str) -> Finalization:
    entry = progress.entry(
        under_way.session, [("HARNESS", ["The cleanup session was rolled back.", " ".join(told.split())[:500]])]
    )
    return replace(finalization, kind="rollback", checkpoint=under_way.checkpoint, progress_entry=entry)


def _state(under_way: OpenSession, status: str, failure: str | None, summary: JsonObject) -> SessionState:
    # C35
    return under_way.state.but(
        last_session=under_way.session,
        status=status,
        termination_reason=None,
        next_prompt="coding",
        timestamp=clock.timestamp(),
        cleaned_up_at=under_way.features.counts()[0],
        last_failure=failure,
        last_session_summary=summary,
    )
