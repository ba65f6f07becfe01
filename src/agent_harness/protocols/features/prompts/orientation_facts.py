"""Gathers the facts of the orientation summary from the project's files and git; bounded work, whatever its age.

Source: features.md UAH-244..248; the rules of the text are in ``orientation.py``.
"""

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import progress, records, selection
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import orientation as rules

KEY_FILES = 8


def orientation(project: Project, state: JsonObject, choice: selection.Choice, number: int) -> str:
    """The summary for the next session, under 1,000 tokens."""
    document = project.store.features()
    passing, total = records.counts(document)
    feature = choice.feature
    continues = state.get("next_prompt") == "continuation"
    done = selection.proven(document)
    facts = rules.OrientationFacts(
        session=number,
        project=str(document.get("project") or project.config.project.name),
        passing=passing,
        total=total,
        health=_health(project, state),
        feature=feature,
        dependencies=tuple((i, i in done) for i in records.dependencies(feature or {})),
        last_session=records.number(state.get("last_session")),
        last=state.get("last_session_summary"),
        failure=state.get("last_failure"),
        key_files=_key_files(project),
        decisions=tuple(progress.recent_decisions(project.layout.progress)),
        partial=state.get("partial") if continues else None,
        waiting=choice.waiting,
    )
    return rules.summary(facts)


def _health(project: Project, state: JsonObject) -> str:
    red = state.get("wip_red_tests")
    if red is None:
        return "the last session was interrupted; the state of the tests is not known"
    if red:
        return f"{len(red)} baseline tests fail in the unfinished work"
    lint = records.number(project.store.quality().get("lint_errors"))
    if not records.number(project.store.baseline().get("total_passing")):
        return "no test passes yet" + (f", {lint} lint errors" if lint else "")
    return "All baseline tests passing" + (f", {lint} lint errors" if lint else ", no lint errors")


def _key_files(project: Project) -> tuple[tuple[str, int | None], ...]:
    """Source files changed most recently, newest first."""
    sizes = project.store.file_sizes().get("files")
    known = sizes if isinstance(sizes, dict) else {}
    rows = [
        (path, row.get("session_changed") or row.get("session_added"))
        for path, row in known.items()
        if isinstance(row, dict)
    ]
    rows.sort(key=lambda row: (-(records.number(row[1])), row[0]))
    return tuple((path, records.number(n) or None) for path, n in rows[:KEY_FILES])
