"""Which features the harness itself has accepted: nothing else counts as proven, whatever features.json says.

``session_state.json`` lists them under ``proven``. A feature that is marked as passing and is not in that list (an
agent killed the harness and removed its record, or a person edited the file) is believed only after the suite has been
run at HEAD: its own tests pass there, and so does every test of the baseline. Source: features.md C31, UAH-489.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_harness.errors import Escalated
from agent_harness.protocols.features import records
from agent_harness.protocols.features.judge import Judge, Suite
from agent_harness.protocols.features.project import Project

Record = dict[str, Any]


def check(project: Project) -> None:
    """``Escalated`` when a feature is marked as passing that nobody has proven and whose tests do not pass."""
    state = project.store.state()
    marked = _marked(project.store.features())
    unproven = sorted(set(marked) - set(proven(state, marked)))
    if not unproven:
        return
    project.say(f"Marked as passing without a proof: {_named(unproven)}; running the suite.")
    require(project, Judge(project).suite(project.git.head() or "HEAD"))
    project.store.write(project.layout.session_state, {**state, "proven": sorted(marked)})


def proven(state: Mapping[str, Any], marked: Iterable[int]) -> list[int]:
    """The features that the harness has accepted; a state of before this list was kept is believed as it is."""
    known = state.get("proven")
    if isinstance(known, list):
        return known
    return list(marked) if records.number(state.get("last_session")) else []


def require(project: Project, facts: Suite) -> None:
    """``Escalated`` unless the suite proves every feature that is marked as passing, and the whole baseline."""
    document = project.store.features()
    marked = _marked(document)
    baseline = {str(i) for i in project.store.baseline().get("passing_tests") or []}
    missing = sorted(baseline - facts.passing)
    empty = [i for i, file in sorted(marked.items()) if not any(_belongs(node, file) for node in facts.passing)]
    if not (facts.problem or facts.failing or missing or empty):
        return
    passing, total = records.counts(document)
    why = facts.problem or ""
    if facts.failing or missing:
        why = f"{len(facts.failing | set(missing))} failures"
    elif empty:
        why = f"no passing test for {_named(empty)}"
    raise Escalated(
        f"{passing}/{total} features marked passing but the suite has {why}."
        if not facts.problem
        else f"{passing}/{total} features marked passing but the suite gave no report: {why}",
        hint=str(project.config.testing.full),
        failing=sorted(facts.failing | set(missing))[:20],
        features=empty,
    )


def _marked(document: Record) -> dict[int, str]:
    return {f["id"]: records.test_file(f) for f in records.features_of(document) if records.passes(f)}


def _belongs(node: str, test_file: str) -> bool:
    return node == test_file or node.startswith((f"{test_file}::", f"{test_file}[", f"{test_file}/"))


def _named(ids: list[int]) -> str:
    return ", ".join(f"Feature #{i}" for i in ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
