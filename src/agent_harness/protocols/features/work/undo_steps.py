"""Execution of an undo. If the process is killed, the next process completes the undo.

    decide    records the decision
    move      moves the branch and the files
    follow    updates the baseline, proven features, progress log, event log and ledger

Each step can be repeated. The next process that holds the project's lock completes the undo before it does anything
else. Source: ``faces.md`` F-STORY-2."""

from agent_harness.errors import HarnessError
from agent_harness.parallel import merge_queue, undo_commit
from agent_harness.parallel.undo_commit import Reversal
from agent_harness.protocols.features import progress, records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.verdict import proven
from agent_harness.session import ledger

_RECENT = 40  # events among which the one of an undo that was killed is looked for


def carry_out(project: Project, found: Reversal) -> None:
    """Move the branch to the undo's commit, and update the state."""
    path = project.store.reversal()
    undo_commit.decide(path, found)
    try:
        if not found.has_moved(project.git):
            merge_queue.move(project.git, found.branch, found.head, found.commit)
    except HarnessError:
        undo_commit.over(path)
        raise
    _follow(project, found)
    undo_commit.over(path)


def finish(project: Project) -> None:
    """Complete an interrupted undo. Discard the undo if the branch has new commits."""
    path = project.store.reversal()
    found = undo_commit.decided(path)
    if found is None:
        undo_commit.over(path)
        return
    git = project.git
    is_here = git.branch() == found.branch and git.commit_of(found.commit) is not None
    if not (found.has_moved(git) or (is_here and git.head() == found.head)):
        undo_commit.over(path)
        project.say(f"The undo of {found.what} was interrupted, and the branch has moved. Nothing was undone.")
        return
    project.say(f"The undo of {found.what} was interrupted. Completing the undo.")
    try:
        carry_out(project, found)
    except HarnessError as error:
        project.say(f"{found.what} could not be undone: {error.message}")


def _follow(project: Project, found: Reversal) -> None:
    store, feature_id = project.store, int(found.item)
    baseline = store.baseline()
    kept = [node for node in records.texts(baseline.record["passing_tests"]) if node not in found.tests]
    store.write_baseline(baseline.but(passing_tests=kept, total_passing=len(kept)))
    proven.vouch(project, feature_id, proven=False)
    if not any(found.told in each.text for each in progress.recent_entries(project.layout.progress)):
        progress.append(project.layout.progress, entry(project, found.told))
    if all(row.get("commit") != found.commit for row in store.recent("events.jsonl", _RECENT)):
        store.event("feature_undone", "critical", feature_id=feature_id, commit=found.commit)
    ledger.write(store.ledger(), found.line())


def entry(project: Project, told: str) -> str:
    return progress.entry(project.store.state().last_session, [("HARNESS", [told])])


__all__ = ["carry_out", "entry", "finish"]
