"""One change at a time: nothing is lost, nothing is half, and a good backup is never given up."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.errors import Busy, ConfigurationError, HarnessError, LockBusy, Refused, StateDamaged
from agent_harness.kernel import clock
from agent_harness.protocols.tasklist import store
from agent_harness.protocols.tasklist.store import TaskListChange, TaskStore
from agent_harness.testing.task_list_project import NOON, TaskListProject, task

from . import SEED


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"))


def title(change: TaskListChange, text: str) -> None:
    change.state.by_id["a"].raw["title"] = text


# ---- what stays ----------------------------------------------------------------------------------------------------

UNKNOWN = """{
  "tasks": [
    {"id": "a", "status": "pending", "extra": {"deep": [1.10, 1e400, -0, 12345678901234567890123, "ü\\u00e9"]}},
    "no object", 17, null, ["x"],
    {"id": "b", "x-note": null}
  ],
  "mine": {"b": 1, "a": 2}, "version": 2
}
"""


def test_unknown_members_and_entries_that_are_no_objects_stay_as_they_are(project: TaskListProject) -> None:
    Path(project.layout.tasks).write_text(UNKNOWN)
    project.change(lambda change: change.state.by_id["b"].raw.update(status="completed"))
    found = project.text
    for kept in ("1.10", "1e400", "-0", "12345678901234567890123", '"no object"', '"x-note": null', "ü\\u00e9"):
        assert kept in found
    before, after = json.loads(UNKNOWN), json.loads(found)
    assert [*after] == ["tasks", "mine", "version", "revision"]
    assert after["tasks"][:5] == before["tasks"][:5]
    assert [*after["mine"]] == ["b", "a"]


def test_the_example_of_the_document_opens_and_changes_by_what_was_changed_alone(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    text = (SEED / "harness-tasks.json").read_text()
    Path(project.layout.tasks).write_text(text)
    assert [each.status for each in store.read(project.layout).tasks] == ["completed", "failed", "pending"]
    assert store.read(project.layout).findings() == []
    assert project.text == text
    project.change(lambda change: None)
    assert json.loads(project.text) == json.loads(text) | {"revision": 1}
    assert Path(project.layout.backup).read_text() == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(JSON, max_size=4),
    st.dictionaries(st.text(max_size=6).filter(lambda name: name != "tasks"), JSON, max_size=4),
)
def test_any_json_stays(tmp_path_factory: pytest.TempPathFactory, tasks: list[Any], members: dict[str, Any]) -> None:
    project = TaskListProject.at_noon(tmp_path_factory.mktemp("list"))
    members.pop("version", None)
    Path(project.layout.tasks).write_text(json.dumps({**members, "tasks": tasks}))
    project.change(lambda change: None)
    assert project.raw | {"revision": 0} == {**members, "tasks": tasks, "revision": 0}


def test_a_link_keeps_and_its_target_is_written(project: TaskListProject, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere.json"
    os.rename(project.layout.tasks, kept)
    os.symlink(kept, project.layout.tasks)
    project.change(lambda change: title(change, "new"))
    assert os.path.islink(project.layout.tasks)
    assert json.loads(kept.read_text())["tasks"][0]["title"] == "new"


# ---- writing -------------------------------------------------------------------------------------------------------


def test_a_write_counts_keeps_the_state_before_and_then_logs(project: TaskListProject) -> None:
    before = project.text

    def act(change: TaskListChange) -> str:
        title(change, "new")
        change.log("a line")
        return "answer"

    assert project.change(act) == "answer"
    assert Path(project.layout.backup).read_text() == before
    assert (project.raw["revision"], project.raw["tasks"][0]["title"]) == (1, "new")
    assert Path(project.layout.progress).read_text() == "a line\n"
    assert not [each for each in project.files() if ".tmp" in each]


def test_what_touches_nothing_writes_nothing(project: TaskListProject) -> None:
    before = project.files()
    project.store.change(lambda change: title(change, "lost"))
    assert project.files() == before


def test_an_error_drops_everything(project: TaskListProject) -> None:
    before = project.files()

    def act(change: TaskListChange) -> None:
        title(change, "lost")
        change.log("lost")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        project.change(act)
    assert project.files() == before


@pytest.mark.parametrize("version", [3, 3.5, 10**30])
def test_a_later_version_is_read_and_not_written(project: TaskListProject, version: float) -> None:
    project.edit(version=version)
    before = project.files()
    with pytest.raises(ConfigurationError, match="version"):
        project.change(lambda change: None)
    assert project.files() == before
    assert len(project.store.read().tasks) == 2


def test_an_edit_by_hand_between_reading_and_writing_is_not_lost(project: TaskListProject) -> None:
    seen: list[str] = []

    def act(change: TaskListChange) -> None:
        seen.append(change.state.by_id["b"].title)
        if len(seen) == 1:
            project.edit("b", title="by hand")
        title(change, "by us")
        change.log(f"try {len(seen)}")

    project.change(act)
    assert seen == ["Title of b", "by hand"]
    assert [each["title"] for each in project.raw["tasks"]] == ["by us", "by hand"]
    assert project.log() == ["try 2"]


def test_edits_without_end_are_no_endless_loop(project: TaskListProject) -> None:
    def act(change: TaskListChange) -> None:
        project.edit("b", n=change.state.by_id["b"].raw.get("n", 0) + 1)

    with pytest.raises(Busy, match="does not use the file's lock"):
        project.change(act)


def test_a_holder_whose_lock_was_taken_away_starts_over(project: TaskListProject) -> None:
    """A process that sleeps for minutes may lose the directory that shell scripts look at."""
    from agent_harness.kernel.lock import directory_for

    calls: list[int] = []

    def act(change: TaskListChange) -> None:
        calls.append(1)
        title(change, str(len(calls)))
        if len(calls) == 1:
            os.rename(directory_for(project.layout.root), project.root / "stolen")

    project.change(act)
    assert len(calls) == 2
    assert project.task("a").title == "2"


def test_somebody_who_holds_the_lock_keeps_others_out(project: TaskListProject) -> None:
    before = project.files()
    with project.store.lock(), pytest.raises(LockBusy):
        TaskStore(project.layout, lock_timeout_seconds=0.05).change(lambda change: change.touch())
    assert project.files() == before
    assert project.store.read().by_id["a"].title == "Title of a"


def test_no_update_of_threads_and_processes_is_lost(project: TaskListProject) -> None:
    code = (
        "import sys\n"
        "from agent_harness.protocols.tasklist.layout import TaskListLayout\n"
        "from agent_harness.protocols.tasklist.store import TaskStore\n"
        "def act(change):\n"
        "    change.state.raw['n'] = change.state.raw.get('n', 0) + 1\n"
        "    change.touch(); change.log(f'line {change.state.raw[\"n\"]}')\n"
        "store = TaskStore(TaskListLayout(sys.argv[1]), lock_timeout_seconds=60)\n"
        "for _ in range(10): store.change(act)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, project.layout.root]) for _ in range(4)]
    parsed = 0
    while any(each.poll() is None for each in running):
        store.read(project.layout)
        parsed += 1
    assert [each.wait() for each in running] == [0] * 4
    assert (project.raw["n"], project.raw["revision"]) == (40, 40)
    assert project.log() == [f"line {n}" for n in range(1, 41)]
    assert parsed


# ---- damage --------------------------------------------------------------------------------------------------------

DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"tasks": {}}',
    b'{"tasks": 1}',
    b"\xff\xfe",
    b'{"tasks": []} x',
    b'{"a": 1}',
    b"[" * 9999,
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_left_alone_and_replaces_no_backup(project: TaskListProject, content: bytes) -> None:
    project.change(lambda change: title(change, "good"))
    Path(project.layout.tasks).write_bytes(content)
    before = project.files()
    for ask in (lambda: store.read(project.layout), lambda: project.change(lambda change: None)):
        with pytest.raises(StateDamaged) as raised:
            ask()
        assert raised.value.hint == "harness task recover"
    assert project.files() == before


def test_a_file_that_is_missing_is_damage_and_says_when_there_is_no_way_back(project: TaskListProject) -> None:
    os.unlink(project.layout.tasks)
    with pytest.raises(StateDamaged) as raised:
        store.read(project.layout)
    assert "no backup" in (raised.value.hint or "")


def test_what_is_damaged_between_two_changes_of_a_person_never_gets_into_the_backup(project: TaskListProject) -> None:
    project.change(lambda change: title(change, "one"))
    good = Path(project.layout.backup).read_bytes()

    def act(change: TaskListChange) -> None:
        Path(project.layout.tasks).write_text("{ by hand")

    with pytest.raises(StateDamaged):
        project.change(act)
    assert Path(project.layout.backup).read_bytes() == good


@pytest.mark.parametrize("name", ["harness-tasks.json", "harness-progress.txt"])
def test_a_folder_where_a_file_should_be_is_one_clear_error(project: TaskListProject, name: str) -> None:
    (project.root / name).unlink(missing_ok=True)
    (project.root / name).mkdir()

    def act(change: TaskListChange) -> None:
        change.log("x")

    with pytest.raises(HarnessError):
        project.change(act)


# ---- clock and marker ----------------------------------------------------------------------------------------------


def test_the_time_is_that_of_the_disk_and_the_local_one_where_nothing_can_be_touched(project: TaskListProject) -> None:
    live = TaskStore(project.layout)
    at = live.now()
    assert abs((at - clock.now()).total_seconds()) < 60
    assert os.stat(project.layout.clock_file).st_mtime == pytest.approx(at.timestamp(), abs=60)
    os.unlink(project.layout.clock_file)
    os.symlink("/etc/hostname", project.layout.clock_file)
    assert abs((live.now() - clock.now()).total_seconds()) < 60
    assert TaskStore(project.layout, now=NOON).now() == NOON


def test_the_marker_comes_and_goes(project: TaskListProject) -> None:
    assert not project.store.active()
    project.store.activate()
    project.store.activate()
    assert project.store.active()
    assert project.store.deactivate()
    assert not project.store.deactivate()


def test_readers_see_whole_files_while_threads_write(project: TaskListProject) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            TaskStore(project.layout, lock_timeout_seconds=30).change(lambda change: change.touch())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            assert len(store.read(project.layout).tasks) == 2
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("name", [".harness", ".harness/claims", ".harness/sessions"])
def test_nothing_is_written_through_a_folder_that_is_a_link(tmp_path: Path, name: str) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("task-001"))
    outside = tmp_path / "outside"
    outside.mkdir()
    place = project.root / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    before = project.text
    with pytest.raises(Refused, match="is a symbolic link"):
        project.claim()
    assert project.text == before
    assert list(outside.iterdir()) == []
