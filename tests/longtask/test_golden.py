"""Task directories that another program wrote: every one of them opens, works, and keeps what we do not know."""

import json
import shutil
from pathlib import Path

import pytest

from agent_harness.protocols.longtask import schema
from agent_harness.testing.long_task_project import LongTaskProject

GOLDEN = Path(__file__).parent.parent / "golden/longtask/1"
SITUATIONS = sorted(path.name for path in GOLDEN.iterdir())


def opened(tmp_path: Path, situation: str) -> LongTaskProject:
    shutil.copytree(GOLDEN / situation, tmp_path / situation)
    return LongTaskProject(tmp_path / situation)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_command_works_on_it(tmp_path: Path, situation: str) -> None:
    project = opened(tmp_path, situation)
    before = project.tree()
    for command in ("validate", "next", "summary", "tail", "status", "health", "openclaw-recipe"):
        done = project.lth(command)
        assert done.code == 0, done
    assert project.lth("verify").json["status"] in ("pass", "fail")
    assert project.lth("tick", "--dry-run").code == 0
    assert project.tree() == before
    for words in (["tick"], ["evidence", "--type", "test"], ["record", "--status", "paused", "--note", "go on"]):
        done = project.lth(*words)
        assert done.code == 0, done
    assert project.lth("run", "--worker", "local", "--command", "true", "--cwd", ".").json["status"] == "paused"
    assert schema.misfits(project.checkpoint, schema.CHECKPOINT, "checkpoint") == []


def test_what_only_the_other_program_knows_stays(tmp_path: Path) -> None:
    project = opened(tmp_path, "rate-limited")
    assert project.lth("verify").json["status"] == "pass"
    summary = project.lth("summary")
    assert summary.json["skippedLines"] == 1 and summary.json["rateLimits"][0]["worker"] is None
    assert project.lth("tick").json["decision"] == "run"
    assert project.checkpoint["ownNote"] == {"kept": True, "price": 1}
    lines = (project.root / "runs/2026-05-17.jsonl").read_text().splitlines()
    assert lines[-1].endswith('"at":"2026-05-17T13:0')


def test_a_lock_that_is_a_folder_and_over_is_taken(tmp_path: Path) -> None:
    project = opened(tmp_path, "directory-lock")
    assert "over: owner 4711@linux" in project.lth("status").out
    assert project.lth("run", "--worker", "local", "--command", "true").json["exitCode"] == 0
    assert not (project.root / ".lth.lock").exists()


def test_init_never_replaces_a_task_whose_run_goes_on(tmp_path: Path) -> None:
    project = opened(tmp_path, "directory-lock")
    lock = json.loads((project.root / ".lth.lock/lock.json").read_text())
    project.write(".lth.lock/lock.json", {**lock, "expiresAt": "2099-01-01T00:00:00Z"})
    before = project.tree()
    done = project.lth("init", "--force")
    assert done.code == 1 and "a run holds the lease" in done.err
    assert project.tree() == before
