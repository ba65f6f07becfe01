"""Pushes of merged work: what was verified on top of the remote's commits, as the project then records it."""

from pathlib import Path

from agent_harness.kernel.git import Git
from agent_harness.parallel.items import GREEN
from agent_harness.parallel.ledger import Ledger
from agent_harness.parallel.merge_queue.branch import TargetBranch
from agent_harness.parallel.merge_queue.pushing import Pusher
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.parallel.project_port import FeatureProjectPort
from agent_harness.protocols.features.project import Project
from agent_harness.testing.feature_list_project import FeatureListProject

OURS, THEIRS = "tests/test_ours.py::test_it", "tests/test_theirs.py::test_it"


def project_of(made: FeatureListProject) -> Project:
    return Project.open(made.root, load(made.root))


def pusher_of(made: FeatureListProject, folder: Path) -> tuple[Pusher, Ledger]:
    """Return a new coordinator's pusher and ledger, which read the files of the killed one."""
    git, ledger = Git(made.root), Ledger(str(folder))
    ledger.folded()
    branch = TargetBranch(git, "refs/heads/main", made.said.append)
    port = FeatureProjectPort(project_of(made), str(folder), 1, {})
    refs = ProjectRefs("a" * 24)
    return Pusher(port, git, str(folder), branch=branch, ledger=ledger, refs=refs, say=made.said.append), ledger


def test_tests_that_passed_on_top_of_the_remote_are_in_the_baseline_though_a_kill_came_between(tmp_path: Path) -> None:
    """SC-39: a later feature may not break the tests of a colleague."""
    made, folder = FeatureListProject.of_modules(tmp_path / "shop", "ham"), tmp_path / "parallel"
    store = project_of(made).store
    store.write_baseline(store.baseline().measured([OURS], 1))
    before = made.head
    joined = made.git("commit-tree", f"{before}^{{tree}}", "-p", before, "-m", "On top of the remote's")
    pusher, ledger = pusher_of(made, folder)
    known = {"run": "r", "branch": "refs/heads/main", "head": before, "workers": 1, "batch_max": 8, "mends": 2}
    ledger.note("run", **known, unpushed=before)
    ledger.note("joined", commit=joined, before=before, base=before, renamed={before: joined})
    pusher.judge_joined({"passing": [THEIRS]}, GREEN, [])
    ledger.close()
    pusher, ledger = pusher_of(made, folder)
    assert pusher.push()
    ledger.close()
    assert (made.head, ledger.plan.unpushed) == (joined, joined)
    assert store.baseline().passing == {OURS, THEIRS}
