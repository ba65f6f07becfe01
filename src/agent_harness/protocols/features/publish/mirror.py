"""Mirror of features as GitHub issues, written after sessions. The harness never reads decisions from issues. A marker
in each issue prevents duplicates if ``github_issues.json`` is lost. Source: features.md section U, C01, C17, C37,
C38."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import quote

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject, members_of
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish.github import GitHubTracker, Issue
from agent_harness.protocols.features.records import Feature, listed
from agent_harness.protocols.features.sessions.finalization import Result

Act = Literal["create", "close", "reopen", "tell"]

REOPENED = (
    "The harness has verified this feature and closes the issue again: `features.json` in the repository says what is "
    "done. If it is not right, set its `passes` to false there, or add a feature."
)
VERIFIED = "The harness has verified this feature. It closes no issues here (`github.close_on_verify` is off)."
MANY = 20  # issues to create, from which on a message comes first


@dataclass(frozen=True, kw_only=True)
class MirrorChoices:
    create_missing: bool = True
    close_verified: bool = True


@dataclass
class MirrorReport:
    created: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    reopened: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    left_closed: list[int] = field(default_factory=list)  # a person closed them, and the feature does not pass
    not_ours: list[int] = field(default_factory=list)  # the recorded issue is another one

    def as_json(self) -> JsonObject:
        return {name: list(getattr(self, name)) for name in self.__dataclass_fields__}

    def line(self) -> str | None:
        words = {"created": "created", "closed": "closed", "reopened": "reopened", "told": "commented on"}
        parts = [f"{word} {_named(getattr(self, name))}" for name, word in words.items() if getattr(self, name)]
        return f"GitHub: {'; '.join(parts)}." if parts else None


def _named(ids: Sequence[int]) -> str:
    return ("the issue of " if len(ids) == 1 else "the issues of ") + listed([f"Feature {i}" for i in ids], 5)


# -- rules -------------------------------------------------------------------------------------------------------------


def step_for(*, passes: bool, issue: Issue | None, row: Mapping[str, Any], choices: MirrorChoices) -> Act | None:
    """Return the mirror's action for one issue. ``row`` is the harness's record of the issue.

    ========  ======  =================================================================================
    issue     passes  action
    ========  ======  =================================================================================
    none      any     create the issue, if creating missing issues is enabled
    open      true    close the issue; if closing is disabled, comment once instead
    open      false   nothing
    closed    false   reopen the issue if the harness closed it; nothing if a person closed it (C37)
    closed    true    nothing
    ========  ======  ================================================================================="""
    if issue is None:
        return "create" if choices.create_missing else None
    if issue.is_open and passes:
        if choices.close_verified:
            return "close"
        return None if row.get("told") is True else "tell"
    if not issue.is_open and not passes and row.get("closed_by_harness") is True:
        return "reopen"
    return None


def marker(project: str, feature_id: int) -> str:
    """Return the HTML comment by which an issue's text names its feature."""
    return f"<!-- agent-harness: {quote(project, safe='')} feature {feature_id} -->"


def title(feature: Feature) -> str:
    # without a `#`, which GitHub would make a link
    return _cut(f"Feature {feature.id}: {_plain(feature.description)}", 250)


def body(project: str, feature: Feature) -> str:
    listed = [f"- {_plain(step)}" for step in feature.steps]
    needs = ", ".join(f"Feature {i}" for i in feature.depends_on)
    parts = [
        _plain(feature.description),
        f"Proven by: `{feature.test_file.replace('`', '')}`",
        "\n".join(["Verification:", *listed]) if listed else "",
        f"Needs: {needs}" if needs else "",
        "Kept by agent-harness from `features.json`, which is the authority. Closed means verified.",
    ]
    text = _cut("\n\n".join(part for part in parts if part), 20_000)
    return f"{text}\n\n{marker(project, feature.id)}"


def _plain(text: str) -> str:
    one_line = " ".join(redact(text).split())
    return one_line.replace("@", "@\u200b").replace("#", "#\u200b").replace("<!--", "<\u200b!--")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# -- one pass ----------------------------------------------------------------------------------------------------------


class Mirror:
    """Updater of one project's issues. After each action, it saves its progress to disk."""

    def __init__(self, project: Project, tracker: GitHubTracker, repository: str) -> None:
        self._project = project
        self._tracker = tracker
        self._repository = repository
        found = project.store.issues()
        rows = members_of(found.get("issues")) if found.get("repository") == repository else {}
        self._known = {str(i): row for i, row in rows.items() if isinstance(row, dict)}
        settings = project.config.github
        self._choices = MirrorChoices(
            create_missing=settings.create_missing_issues, close_verified=settings.close_on_verify
        )
        self.report = MirrorReport()

    def bring_up_to_date(self) -> MirrorReport:
        """Update the issues of all features once, and return the report."""
        document = self._project.store.features()
        name = document.project or self._project.config.project.name
        listed = {issue.number: issue for issue in self._tracker.issues()}
        missing = len(document.features) - max(len(listed), len(self._known))
        if self._choices.create_missing and missing >= MANY:
            self._project.say(f"GitHub: creating about {missing} issues; each takes one or two seconds.")
        for feature in document.features:
            if feature.has_id:
                self._one(name, feature, listed)
        return self.report

    def _one(self, name: str, feature: Feature, listed: Mapping[int, Issue]) -> None:
        feature_id = feature.id
        mark = marker(name, feature_id)
        found = self._find(feature_id, mark, listed)
        if found is not None and found.marker != mark:
            self.report.not_ours.append(feature_id)
            return
        row = self._known.get(str(feature_id), {}) if found else {}
        if found is not None and found.is_open and row.get("closed_by_harness") is True:
            row = {**row, "closed_by_harness": False, "reopened_by_person": True}
        if found is not None:
            self._remember(feature_id, {**row, "number": found.number})
        self._act(name, feature, found)

    def _find(self, feature_id: int, mark: str, listed: Mapping[int, Issue]) -> Issue | None:
        number = self._known.get(str(feature_id), {}).get("number")
        recorded = (listed.get(number) or self._tracker.issue(number)) if isinstance(number, int) else None
        if recorded is not None and recorded.marker == mark:
            return recorded
        found = [issue for issue in listed.values() if issue.marker == mark and issue.trusted]
        return min(found, key=lambda issue: issue.number, default=recorded)

    def _act(self, name: str, feature: Feature, found: Issue | None) -> None:
        feature_id, passes = feature.id, feature.passes
        row = self._known.get(str(feature_id), {})
        act = step_for(passes=passes, issue=found, row=row, choices=self._choices)
        if act == "create":
            made = self._tracker.create(title(feature), body(name, feature))
            self._known[str(feature_id)] = {}
            self._remember(feature_id, {"number": made.number})
            self.report.created.append(feature_id)
            if passes and self._choices.close_verified and made.is_open:
                self._close(feature_id, made.number)
        elif found is None:
            return
        elif act == "close":
            if row.get("reopened_by_person") is True:
                self._tracker.comment(found.number, REOPENED)
            self._close(feature_id, found.number)
        elif act == "reopen":
            self._tracker.set_open(found.number, is_open=True)
            self._remember(feature_id, {"number": found.number})
            self.report.reopened.append(feature_id)
        elif act == "tell":
            self._tracker.comment(found.number, VERIFIED)
            self._remember(feature_id, {**row, "told": True})
            self.report.told.append(feature_id)
        elif not found.is_open and not passes:
            self.report.left_closed.append(feature_id)

    def _close(self, feature_id: int, number: int) -> None:
        self._tracker.set_open(number, is_open=False)
        self._remember(feature_id, {"number": number, "closed_by_harness": True})
        self.report.closed.append(feature_id)

    def _remember(self, feature_id: int, row: JsonObject) -> None:
        if self._known.get(str(feature_id)) != row:
            self._known[str(feature_id)] = row
            kept = {"repository": self._repository, "issues": self._known}
            self._project.store.write(self._project.layout.github_issues, kept)


# -- at the end of a session -------------------------------------------------------------------------------------------


def after_session(project: Project, session: int) -> str | None:
    """If the settings allow it, update the issues. Return the tracker's error, or None."""
    settings = project.config.github
    if settings.repo is None or settings.sync_mode == "none" or not settings.sync_on_session_end:
        return None
    report = MirrorReport()
    try:
        from agent_harness.protocols.features.publish import github

        repository = github.repository_name(str(settings.repo))
        tracker = github.GitHubTracker(repository, environ=os.environ, say=project.say)
        mirror = Mirror(project, tracker, repository)
        report = mirror.report
        mirror.bring_up_to_date()
    except HarnessError as error:
        return _failed(project, session, error, report)
    except Exception as error:  # a mirror of the work is never worth the work
        return _failed(project, session, HarnessError(f"{type(error).__name__}: {error}"), report)
    _tell(project, session, report)
    return None


def close(project: Project, result: Result) -> Result:
    """Update the issues, and return the result. With ``on_sync_failure: fail``, a failure sets exit code 5 (C38)."""
    if result.reason == "user_pause":
        return result
    problem = after_session(project, result.session)
    strict = project.config.github.on_sync_failure == "fail"
    return replace(result, exit_code=5) if problem and strict and not result.exit_code else result


def _tell(project: Project, session: int, report: MirrorReport) -> None:
    if line := report.line():
        project.say(line)
    changed = bool(report.line() or report.not_ours)
    project.store.event("github_synced", "important" if changed else "routine", session=session, **report.as_json())
    for feature_id in report.not_ours:
        project.say(
            f"Warning: the issue recorded for Feature #{feature_id} is about something else, so it was not changed."
        )


def _failed(project: Project, session: int, error: HarnessError, report: MirrorReport) -> str:
    # C38
    problem = " ".join(redact(error.message).split())[:300]
    strict = project.config.github.on_sync_failure == "fail"
    project.store.event(
        "github_sync_failed",
        "critical" if strict else "important",
        session=session,
        message=problem,
        hint=error.hint,
        category=error.category or error.data.get("category"),
        **report.as_json(),
    )
    project.say(
        f"Warning: GitHub was not updated: {problem} The session's result is kept; the next session updates GitHub."
    )
    if error.hint:
        project.say(f"next: {error.hint}")
    if strict:
        project.store.write_pause({"reason": f"GitHub was not updated: {problem}", "at": clock.timestamp()})
        project.say("Paused because of github.on_sync_failure: fail. To continue: harness resume")
    return problem
