"""Gathers the facts of the orientation summary from the project's files and git; bounded work, whatever its age.

Source: features.md UAH-244..248; the rules of the text are in ``orientation.py``.
"""

from agent_harness.protocols.features import progress, records, selection
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import orientation as rules
from agent_harness.protocols.features.records import SessionState

KEY_FILES = 8


def orientation(project: Project, state: SessionState, choice: selection.Choice, number: int) -> str:
    """The summary for the next session, under 1,000 tokens."""
    document = project.store.features()
    passing, total = document.counts()
    feature = choice.feature
    continues = state.next_prompt == "continuation"
    done = {f.id for f in document.passing}
    facts = rules.OrientationFacts(
        session=number,
        project=document.project or project.config.project.name,
        passing=passing,
        total=total,
        health=_health(project, state),
        feature=feature,
        dependencies=tuple((i, i in done) for i in (feature.depends_on if feature else ())),
        last_session=state.last_session,
        last=state.summary,
        failure=state.last_failure,
        key_files=_key_files(project),
        decisions=tuple(progress.recent_decisions(project.layout.progress)),
        partial=state.partial if continues else None,
        waiting=choice.waiting,
    )
    return rules.summary(facts)


def _health(project: Project, state: SessionState) -> str:
    red = state.red_tests
    if red is None:
        return "the last session was interrupted; the state of the tests is not known"
    if red:
        return f"{len(red)} baseline tests fail in the unfinished work"
    lint = records.number(project.store.quality().get("lint_errors"))
    if not project.store.baseline().passing:
        return "no test passes yet" + (f", {lint} lint errors" if lint else "")
    return "All baseline tests passing" + (f", {lint} lint errors" if lint else ", no lint errors")


def _key_files(project: Project) -> tuple[tuple[str, int | None], ...]:
    """Source files changed most recently, newest first."""
    known = records.json_object(project.store.file_sizes().get("files")) or {}
    rows = [
        (path, row.get("session_changed") or row.get("session_added"))
        for path, row in known.items()
        if isinstance(row, dict)
    ]
    rows.sort(key=lambda row: (-(records.number(row[1])), row[0]))
    return tuple((path, records.number(n) or None) for path, n in rows[:KEY_FILES])
