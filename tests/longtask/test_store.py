"""Changes land whole or not at all, in their order, and nothing that would not load again is ever written."""

import json
import os
from pathlib import Path

import pytest

from agent_harness.errors import LockBusy, Refused
from agent_harness.protocols.longtask import layout
from agent_harness.protocols.longtask.layout import LongTaskLayout, OutsideTask
from agent_harness.protocols.longtask.records import Checkpoint
from agent_harness.protocols.longtask.store import CheckpointChange, InvalidTask, LongTaskStore, UnreadableFile
from agent_harness.testing.long_task_project import LongTaskProject, checkpoint, task


def test_every_path_has_one_place(tmp_path: Path) -> None:
    places = LongTaskLayout(tmp_path / "demo")
    named = [
        places.task,
        places.checkpoint,
        places.operating_rules,
        places.lock,
        places.run_log("2026-03-01T12:00:00Z"),
    ]
    assert [os.path.relpath(path, places.root) for path in named] == [
        "task.json",
        "checkpoint.json",
        "harness.md",
        ".lth.lock",
        "runs/2026-03-01.jsonl",
    ]
    assert layout.file_stamp("2026-05-17T12:35:54.111Z") == "2026-05-17T12-35-54-111Z"


@pytest.mark.parametrize("path", ["../x", "evidence/../../x", "/etc/passwd", ".", "", "out/x", "out", "a\0b"])
def test_what_leaves_the_task_is_refused(project: LongTaskProject, tmp_path: Path, path: str) -> None:
    (project.root / "out").symlink_to(tmp_path)
    with pytest.raises(OutsideTask, match="must stay inside the task directory: "):
        LongTaskLayout(project.root).inside(path)


def test_a_task_that_is_reached_by_a_link_has_an_inside(project: LongTaskProject, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project.root)
    assert LongTaskLayout(tmp_path / "link").inside("evidence/x") == str(tmp_path / "link/evidence/x")
    assert LongTaskProject(tmp_path / "link").lth("evidence", "--type", "test").code == 0


def test_unknown_members_and_the_spelling_of_numbers_survive(project: LongTaskProject) -> None:
    text = json.dumps(checkpoint(mine={"a": [1, None]}, evidence=[{"type": "test", "odd": True}]))
    project.write("checkpoint.json", text.replace('"a"', '"price": 1.10, "a"'))
    assert project.lth("record", "--status", "paused", "--note", "go on").code == 0
    written = (project.root / "checkpoint.json").read_text()
    assert '"price": 1.10' in written and written.endswith("}\n") and written.startswith('{\n  "schemaVersion": 1,')
    assert project.checkpoint["mine"]["a"] == [1, None] and project.checkpoint["evidence"] == [
        {"type": "test", "odd": True}
    ]


def test_a_change_that_would_not_load_again_is_not_written(project: LongTaskProject) -> None:
    before = project.tree()

    def act(change: CheckpointChange) -> None:
        change.keep("evidence/x.txt", "x")
        change.checkpoint.raw["status"] = "asleep"
        change.event("tick_started")
        change.touch()

    with pytest.raises(InvalidTask) as caught:
        project.store.change(act)
    assert "invalid checkpoint.status: asleep" in caught.value.errors
    assert project.tree() == before


def test_what_the_change_raises_drops_everything(project: LongTaskProject) -> None:
    before = project.tree()

    def act(change: CheckpointChange) -> None:
        change.keep("evidence/x.txt", "x")
        change.touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        project.store.change(act)
    assert project.tree() == before


def test_an_edit_without_the_lock_is_seen_and_kept(project: LongTaskProject) -> None:
    rounds: list[str] = []

    def act(change: CheckpointChange) -> None:
        rounds.append(change.checkpoint.next_step)
        change.keep("evidence/x.txt", "x")
        if len(rounds) == 1:
            project.write("checkpoint.json", checkpoint(nextStep="edited by hand"))
        change.checkpoint.raw["status"] = "paused"
        change.touch()

    project.store.change(act)
    assert rounds == ["Do the first slice", "edited by hand"]
    assert (project.checkpoint["nextStep"], project.checkpoint["status"]) == ("edited by hand", "paused")
    assert sorted(os.listdir(project.root / "evidence")) == ["x.txt"]


def test_a_damaged_checkpoint_is_kept_and_the_fallback_takes_its_place(project: LongTaskProject) -> None:
    before = project.checkpoint
    project.write("checkpoint.json", '{"torn')

    def act(change: CheckpointChange) -> str | None:
        change.checkpoint.raw["status"] = "needs-human"
        return change.damaged

    with pytest.raises(UnreadableFile):
        project.store.change(act)
    kept = project.store.change(act, fallback=Checkpoint(before))
    assert kept and kept.startswith("evidence/invalid-checkpoint-")
    assert (project.root / kept).read_text() == '{"torn'
    assert project.checkpoint == {**before, "status": "needs-human"}
    assert project.store.change(act, fallback=Checkpoint(before)) is None


def test_names_that_are_taken_get_a_number(project: LongTaskProject) -> None:
    assert [project.store.keep("evidence/a.txt", str(n)) for n in range(3)] == [
        "evidence/a.txt",
        "evidence/a-2.txt",
        "evidence/a-3.txt",
    ]
    assert (project.root / "evidence/a-3.txt").read_text() == "2"

    def act(change: CheckpointChange) -> list[str]:
        return [change.keep("evidence/a.txt", "x"), change.keep("evidence/a.txt", "y")]

    assert project.store.change(act) == ["evidence/a-4.txt", "evidence/a-5.txt"]


def test_no_temporary_file_remains(project: LongTaskProject) -> None:
    project.lth("evidence", "--type", "test")
    project.lth("record", "--status", "active")
    assert not [name for name in project.tree() if ".tmp" in name or "lock" in name]


def test_the_lock_is_on_the_directory_and_has_an_end(project: LongTaskProject) -> None:
    waiting = LongTaskStore(LongTaskLayout(project.root), lock_timeout_seconds=0.05)
    with project.store.exclusive(), pytest.raises(LockBusy):
        waiting.change(lambda change: None)
    waiting.change(lambda change: None)


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = LongTaskProject(tmp_path / "nowhere").lth("record", "--status", "active")
    assert done.code == 1 and len(done.err.splitlines()) == 1 and "Traceback" not in done.err
    with pytest.raises(Refused):
        LongTaskStore(LongTaskLayout(tmp_path / "nowhere")).change(lambda change: None)


def test_events_are_checked_and_a_misfit_is_only_a_warning(
    project: LongTaskProject, capsys: pytest.CaptureFixture[str]
) -> None:
    store = project.store
    assert store.event({"type": "tick_started", "at": "2026-03-01T12:00:00.000Z", "decision": "run"})
    assert not store.event({"type": "made_up", "at": "2026-03-01T12:00:00.000Z"})
    assert not store.event({"type": "tick_started", "at": "soon"})
    assert not store.event({"type": "rate_limited", "at": "2026-03-01T12:00:00.000Z", "waitSeconds": "5"})
    assert project.kinds() == ["tick_started"]
    assert capsys.readouterr().err.count("lth: warning: an event was not written: ") == 3


def test_a_torn_log_never_swallows_the_next_event(project: LongTaskProject) -> None:
    project.lth("tick")
    log = next((project.root / "runs").iterdir())
    with log.open("a") as file:
        file.write('{"type":"worker_sta')
    project.lth("tick")
    lines = log.read_text().splitlines()
    assert [line for line in lines if not line.endswith("}")] == ['{"type":"worker_sta']
    assert len(lines) == 5


def test_a_task_of_another_id_is_not_loaded(project: LongTaskProject) -> None:
    project.write("task.json", task(id="other"))
    assert project.store.errors() == ["checkpoint.taskId (demo) must equal task.id (other)"]
    assert project.store.task_id() == "other"


def test_a_checkpoint_that_would_be_too_large_or_too_deep_is_not_written(project: LongTaskProject) -> None:
    before = project.tree()
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    for value in (deep, "x" * (65 << 20), float("inf"), "\ud800"):

        def act(change: CheckpointChange, value: object = value) -> None:
            change.checkpoint.raw["mine"] = value
            change.touch()

        with pytest.raises(InvalidTask):
            project.store.change(act)
    assert project.tree() == before
