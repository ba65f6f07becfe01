"""Handoff of a session that did not end, as the settings say; real repositories, no agent."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.usage import Totals
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Baseline, CostRecord, FeatureList, SessionState
from agent_harness.protocols.features.sessions import checkpoints, wip
from agent_harness.protocols.features.sessions.finalization import Finalization
from agent_harness.protocols.features.sessions.open_session import OpenSession

Record = dict[str, Any]
FEATURES = {"features": [{"id": 1, "description": "add", "test_file": "t.py", "passes": False}]}
PLAIN = "project:\n  name: calc\n"
NO_COMMIT_AT_LIMIT = "context:\n  on_limit:\n    auto_commit: false\n"
NO_COMMIT_AT_TIMEOUT = "session:\n  on_timeout:\n    auto_commit: false\n"
NOTHING_IN_PROGRESS = "context:\n  on_limit:\n    append_to_progress: false\n"


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


class Session:
    """A session whose agent has written something."""

    def __init__(self, root: Path, settings: str = "") -> None:
        self.root = root
        git(root, "init", "-q", "-b", "main")
        (root / ".harness.yaml").write_text(PLAIN + settings)
        (root / ".gitignore").write_text(".harness/\n")
        (root / "claude-progress.txt").write_text("SESSION 0\n")
        (root / "features.json").write_text(json.dumps(FEATURES))
        git(root, "add", "-A")
        git(root, "commit", "-qm", "Start")
        self.project = Project.open(root, load(root))
        checkpoint = checkpoints.create(self.project, 1, 1)
        empty: Record = {}
        self.under_way = OpenSession(
            session=1,
            feature_id=1,
            prompt_type="coding",
            started_at="2026-01-01T00:00:00Z",
            checkpoint=checkpoint,
            base=checkpoint,
            rollback=checkpoint,
            features=FeatureList(FEATURES),
            state=SessionState({"stuck_count": 0}),
            baseline=Baseline(empty),
            costs=CostRecord(empty),
            run_id="x",
            git_config=empty,
        )

    def work(self, name: str, *, commit: bool = False) -> None:
        (self.root / name).write_text("half\n")
        if commit:
            git(self.root, "add", name)
            git(self.root, "commit", "-qm", name)

    def handed_off(self, reason: str) -> Finalization:
        return wip.handed_off(self.project, self.under_way, reason, Totals())


@pytest.mark.parametrize(
    ("reason", "settings"), [("context_limit", NO_COMMIT_AT_LIMIT), ("timeout", NO_COMMIT_AT_TIMEOUT)]
)
def test_without_auto_commit_the_work_stays_in_the_tree(tmp_path: Path, reason: str, settings: str) -> None:
    """UAH-171, UAH-219: the harness makes no commit; what the agent has committed itself is gone on from."""
    session = Session(tmp_path, settings)
    session.work("wip.txt")
    made = session.handed_off(reason)
    assert (made.kind, made.commit, made.state.next_prompt) == ("nothing", None, "coding")
    assert (tmp_path / "wip.txt").read_text() == "half\n"
    told = wip.what_became_of_it(session.project, made, reason)
    assert told == "its work is left uncommitted, as the settings say"

    session.work("own.txt", commit=True)
    made = session.handed_off(reason)
    assert (made.kind, made.state.next_prompt) == ("nothing", "continuation")
    assert made.state.wip_commit == git(tmp_path, "rev-parse", "HEAD")
    assert git(tmp_path, "status", "--porcelain", "wip.txt") == "?? wip.txt"


@pytest.mark.parametrize(
    ("reason", "settings"), [("timeout", NO_COMMIT_AT_LIMIT), ("context_limit", NO_COMMIT_AT_TIMEOUT), ("stuck", "")]
)
def test_elsewhere_the_work_is_a_commit(tmp_path: Path, reason: str, settings: str) -> None:
    """UAH-171, UAH-219, UAH-342, UAH-346, C16: each setting is about its own limit."""
    session = Session(tmp_path, settings)
    session.work("wip.txt")
    made = session.handed_off(reason)
    assert (made.kind, made.state.next_prompt) == ("hand_off", "continuation")
    assert git(tmp_path, "show", f"{made.commit}:wip.txt") == "half"
    assert git(tmp_path, "log", "-1", "--format=%s", str(made.commit)).startswith("WIP: ")


def test_the_ending_is_told_in_the_progress_file_unless_it_is_not_wanted(tmp_path: Path) -> None:
    """UAH-173, UAH-341."""
    for folder, settings, told in (("a", "", True), ("b", NOTHING_IN_PROGRESS, False)):
        (tmp_path / folder).mkdir()
        session = Session(tmp_path / folder, settings)
        session.work("wip.txt")
        session.handed_off("context_limit")
        text = (tmp_path / folder / "claude-progress.txt").read_text()
        assert ("SESSION TERMINATED: Context limit reached mid-implementation" in text) is told


def test_nothing_done_is_no_commit(tmp_path: Path) -> None:
    """C66, UAH-350: an agent that ends its turn without a change leaves no empty commit."""
    session = Session(tmp_path)
    made = session.handed_off("complete")
    assert (made.kind, made.commit, made.state.next_prompt) == ("nothing", None, "coding")
    assert wip.what_became_of_it(session.project, made, "complete") == "nothing was changed"
