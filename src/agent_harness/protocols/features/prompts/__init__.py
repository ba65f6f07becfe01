"""Prompts for agents, made from files with ``{{name}}`` placeholders. If the orientation summary is too long, it loses
key files first, then decisions, then lists of partial work. Source: features.md section K, UAH-244..251, UAH-319,
UAH-403, C49, C57; UAH-434..451 for the verification types."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from agent_harness.kernel.json import members_of
from agent_harness.protocols.features import progress, records, selection
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import CLEANUP, Feature, SessionState

NAMES = ("initializer", "repair", "coding", "continuation", "cleanup", "extend", "rules", "fix", "evidence", "review")


def render(name: str, values: Mapping[str, str]) -> str:
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    parts = text.split("{{")
    filled = [parts[0]]
    for part in parts[1:]:
        place, _, rest = part.partition("}}")
        filled.append(values[place.strip()] + rest)
    return "".join(filled)


# -- verification of a feature -----------------------------------------------------------------------------------------


def note_for_agent(feature: Feature, screenshots: str) -> str:
    """Return the part of the prompt about file changes, visual checks and manual checks (UAH-447)."""
    allowed = ", ".join(feature.may_change)
    told = f"\nA person allows this feature to change, beside its own files: {allowed}\n" if feature.may_change else ""
    return told + _look(feature, screenshots) + _person(feature)


def _look(feature: Feature, screenshots: str) -> str:
    if feature.visual_steps is None:
        return ""
    return "\n".join(
        [
            "\nLook at this feature too, with a browser tool if you have one.",
            "First run its test file. Only when it passes:",
            *_listed(feature.visual_steps),
            "Go to the page, take a screenshot before and after each step, describe what you see, and show it:",
            "\n    [VISUAL:SCREENSHOT] path of the image\n    [VISUAL:VERIFY] what you saw\n",
            f"Leave images in `{screenshots}/` and nowhere else: git does not see that folder, and it is yours.\n",
        ]
    )


def _person(feature: Feature) -> str:
    if feature.verification_type == "automated":
        return ""
    told = "\nA person verifies this feature after you. Mark it as usual when it is built; the harness keeps it open."
    proof = "" if feature.verification_type == "hybrid" else "\nNo test has to prove it."
    mine = ["You check:", *_listed(feature.automated_checks)] if feature.automated_checks else []
    theirs = ["The person will check:", *_listed(feature.manual_checks)] if feature.manual_checks else []
    return "\n".join([f"{told}{proof}", *mine, *theirs]) + "\n"


def _listed(checks: Iterable[str]) -> list[str]:
    return [f"- {check}" for check in checks]


# -- the orientation ---------------------------------------------------------------------------------------------------


TOKEN_LIMIT = 1000
_LINE_LIMIT = 300


@dataclass(frozen=True, kw_only=True)
class OrientationFacts:
    session: int
    project: str
    passing: int
    total: int
    health: str
    feature: Feature | None
    dependencies: tuple[tuple[int, bool], ...] = ()
    last_session: int = 0
    last: Mapping[str, Any] | None = None  # completed, commits, status
    failure: str | None = None
    key_files: tuple[tuple[str, int | None], ...] = ()
    decisions: tuple[tuple[int, str], ...] = ()
    partial: Mapping[str, Any] | None = None
    waiting: tuple[str, ...] = ()


def tokens(text: str) -> int:
    """Return the estimated number of tokens: one per four characters, rounded up."""
    return -(-len(text) // 4)


def summary(facts: OrientationFacts) -> str:
    """Return the project summary for an agent, in fewer than ``TOKEN_LIMIT`` tokens."""
    text = ""
    for candidate in _ever_shorter(facts):
        task = _partial(candidate) or _task(candidate)
        sections = (_state(candidate), _last_session(candidate), task, _files(candidate), _decisions(candidate))
        text = "\n\n".join(each for each in sections if each) + "\n"
        if tokens(text) < TOKEN_LIMIT:
            return text
    return text[: 4 * (TOKEN_LIMIT - 2)]


def _ever_shorter(facts: OrientationFacts) -> Sequence[OrientationFacts]:
    lists = ("done", "left", "wip_files")
    partial = facts.partial and {**facts.partial, **{k: list(facts.partial.get(k) or [])[:3] for k in lists}}
    steps = [facts, replace(facts, key_files=facts.key_files[:3])]
    steps.append(replace(steps[-1], key_files=()))
    steps.append(replace(steps[-1], decisions=facts.decisions[:3]))
    steps.append(replace(steps[-1], decisions=(), waiting=facts.waiting[:3]))
    steps.append(replace(steps[-1], partial=partial))
    steps.append(replace(steps[-1], failure=_short(facts.failure, 400)))
    return steps


def _state(facts: OrientationFacts) -> str:
    share = records.percent(facts.passing, facts.total)
    return (
        "## Current State\n\n"
        f"**Session:** {facts.session}\n**Project:** {_short(facts.project, 80)}\n"
        f"**Progress:** {facts.passing}/{facts.total} features passing ({share}%)\n**Health:** {_short(facts.health)}"
    )


def _last_session(facts: OrientationFacts) -> str:
    if not facts.last_session or not facts.last:
        return "## Last Session\n- none yet"
    commits = [str(c)[:10] for c in facts.last.get("commits") or []]
    shown = f"{len(commits)} ({', '.join(commits[:3])})" if commits else "0"
    lines = [
        f"## Last Session (Session {facts.last_session})",
        f"- Completed: {_short(str(facts.last.get('completed') or 'nothing'))}",
        f"- Commits: {shown}",
        f"- Status: {str(facts.last.get('status') or 'unknown').capitalize()}",
    ]
    if facts.failure:
        lines.append(f"- Rejected because: {_short(facts.failure, 800)}")
    return "\n".join(lines)


def _task(facts: OrientationFacts) -> str:
    if facts.feature is None:
        return "\n".join(["## Your Task This Session", "No feature can be worked on now:", *_bullets(facts.waiting)])
    if facts.feature is CLEANUP:
        return "## Your Task This Session\nClean up. No feature, no new functionality."
    lines = [
        "## Your Task This Session",
        f"**Feature #{facts.feature.id}:** {_short(facts.feature.description)}",
        f"**Test file:** {facts.feature.test_file}",
        f"**Dependencies:** {_dependencies(facts.dependencies)}",
    ]
    if facts.feature.details:
        lines.append(f"**Details (all of them in features.json):** {_short(facts.feature.details, 600)}")
    if facts.feature.steps:
        lines += ["**Verification steps:**", *_bullets(facts.feature.steps[:10], 160)]
    return "\n".join(lines)


def _dependencies(found: Sequence[tuple[int, bool]]) -> str:
    if not found:
        return "none"
    names = ", ".join(f"#{i}" for i, _ in found)
    return f"Features {names} (all passing ✓)" if all(ok for _, ok in found) else f"Features {names} (NOT all passing)"


def _partial(facts: OrientationFacts) -> str:
    if not facts.partial or facts.feature is None:
        return ""
    p = facts.partial
    lines = [
        "## Continuing Partial Feature",
        "",
        f"**Feature #{facts.feature.id}:** {_short(facts.feature.description)}",
        f"**Status:** PARTIAL ({str(p.get('reason') or 'ended').replace('_', ' ')} in Session {p.get('session')})",
        f"**Test file:** {facts.feature.test_file}",
        "",
        "**What's Done:**",
        *_bullets(p.get("done") or ["see the WIP commit"]),
        "",
        "**What's Left:**",
        *_bullets(p.get("left") or ["make the feature's test file pass"]),
        "",
        "**WIP Files:**",
        *_bullets((p.get("wip_files") or ["none"])[:15]),
        "",
        "**DO NOT restart from scratch. Continue from where it stopped.**",
    ]
    return "\n".join(lines)


def _files(facts: OrientationFacts) -> str:
    if not facts.key_files:
        return ""
    rows = [f"- {path}" + (f" (last modified Session {n})" if n else "") for path, n in facts.key_files]
    return "\n".join(["## Key Files", *rows])


def _decisions(facts: OrientationFacts) -> str:
    if not facts.decisions:
        return ""
    return "\n".join(["## Recent Decisions", *[f"- Session {n}: {_short(text)}" for n, text in facts.decisions[:9]]])


def _bullets(lines: Sequence[object], limit: int = _LINE_LIMIT) -> list[str]:
    return [f"- {_short(str(line), limit)}" for line in lines]


def _short(text: str | None, limit: int = _LINE_LIMIT) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# -- facts for the orientation, from the files of the project: bounded work at any age ---------------------------------

KEY_FILES = 8


def orientation_of(project: Project, state: SessionState, choice: selection.Choice, number: int) -> str:
    document = project.store.features()
    passing, total = document.counts()
    feature = choice.feature
    continues = state.next_prompt == "continuation"
    done = {f.id for f in document.passing}
    unrecorded = {"reason": state.termination_reason, "session": state.last_session}
    facts = OrientationFacts(
        session=number,
        project=document.project or project.config.project.name,
        passing=passing,
        total=total,
        health=_health(project, state),
        feature=feature,
        dependencies=tuple((i, i in done) for i in (feature.depends_on if feature else ())),
        last_session=state.last_session,
        last=state.summary or ({"completed": "not recorded", "status": state.status} if state.last_session else None),
        failure=state.last_failure,
        key_files=_key_files(project),
        decisions=tuple(_decided(project)),
        partial=(state.partial or unrecorded) if continues else None,
        waiting=choice.waiting,
    )
    return summary(facts)


_ROWS_OF_DECISIONS = 200  # the last of the log; an agent may decide without end


def _decided(project: Project) -> list[tuple[int, str]]:
    rows = project.store.recent("decisions.jsonl", _ROWS_OF_DECISIONS)
    told = [(records.number(row.get("session")), str(row["text"])) for row in rows if row.get("text")]
    gone = {row.get("session_id") for row in project.store.recent("sessions.jsonl", 50) if row.get("rejected")}
    found = progress.recent_decisions(project.layout.progress, told)
    return [(session, f"{text} (rolled back)" if session in gone else text) for session, text in found]


def _health(project: Project, state: SessionState) -> str:
    red = state.red_tests
    if red is None:
        return "the last session was interrupted; the state of the tests is not known"
    if red:
        return f"{len(red)} baseline tests fail in the unfinished work"
    measured = project.store.quality()
    lint = records.number(measured.get("lint_errors"))
    kinds = records.shown_kinds(records.counts(measured.get("lint_kinds")))
    errors = f", {lint} lint errors" + (f" ({kinds})" if kinds else "")
    if not project.store.baseline().passing:
        return "no test passes yet" + (errors if lint else "")
    return "All baseline tests passing" + (errors if lint else ", no lint errors")


def _key_files(project: Project) -> tuple[tuple[str, int | None], ...]:
    """Return the last changed source files, newest first, each with the session that changed it."""
    known = members_of(project.store.file_sizes().get("files"))
    rows = [
        (path, row.get("session_changed") or row.get("session_added"))
        for path, row in known.items()
        if isinstance(row, dict)
    ]
    rows.sort(key=lambda row: (-(records.number(row[1])), row[0]))
    return tuple((path, records.number(n) or None) for path, n in rows[:KEY_FILES])
