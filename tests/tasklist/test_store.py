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

from .desk import NOON, SEED, Desk, task


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "list", task("a"), task("b"))


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


def test_unknown_members_and_entries_that_are_no_objects_stay_as_they_are(desk: Desk) -> None:
    Path(desk.layout.tasks).write_text(UNKNOWN)
    desk.change(lambda change: change.state.by_id["b"].raw.update(status="completed"))
    found = desk.text
    for kept in ("1.10", "1e400", "-0", "12345678901234567890123", '"no object"', '"x-note": null', "ü\\u00e9"):
        assert kept in found
    before, after = json.loads(UNKNOWN), json.loads(found)
    assert [*after] == ["tasks", "mine", "version", "revision"]
    assert after["tasks"][:5] == before["tasks"][:5]
    assert [*after["mine"]] == ["b", "a"]


def test_the_example_of_the_document_opens_and_changes_by_what_was_changed_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "list")
    text = (SEED / "harness-tasks.json").read_text()
    Path(desk.layout.tasks).write_text(text)
    assert [each.status for each in store.read(desk.layout).tasks] == ["completed", "failed", "pending"]
    assert store.read(desk.layout).findings() == []
    assert desk.text == text
    desk.change(lambda change: None)
    assert json.loads(desk.text) == json.loads(text) | {"revision": 1}
    assert Path(desk.layout.backup).read_text() == text


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
    desk = Desk(tmp_path_factory.mktemp("list"))
    members.pop("version", None)
    Path(desk.layout.tasks).write_text(json.dumps({**members, "tasks": tasks}))
    desk.change(lambda change: None)
    assert desk.raw | {"revision": 0} == {**members, "tasks": tasks, "revision": 0}


def test_a_link_keeps_and_its_target_is_written(desk: Desk, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere.json"
    os.rename(desk.layout.tasks, kept)
    os.symlink(kept, desk.layout.tasks)
    desk.change(lambda change: title(change, "new"))
    assert os.path.islink(desk.layout.tasks)
    assert json.loads(kept.read_text())["tasks"][0]["title"] == "new"


# ---- writing -------------------------------------------------------------------------------------------------------


def test_a_write_counts_keeps_the_state_before_and_then_logs(desk: Desk) -> None:
    before = desk.text

    def act(change: TaskListChange) -> str:
        title(change, "new")
        change.log("a line")
        return "answer"

    assert desk.change(act) == "answer"
    assert Path(desk.layout.backup).read_text() == before
    assert (desk.raw["revision"], desk.raw["tasks"][0]["title"]) == (1, "new")
    assert Path(desk.layout.progress).read_text() == "a line\n"
    assert not [each for each in desk.files() if ".tmp" in each]


def test_what_touches_nothing_writes_nothing(desk: Desk) -> None:
    before = desk.files()
    desk.store.change(lambda change: title(change, "lost"))
    assert desk.files() == before


def test_an_error_drops_everything(desk: Desk) -> None:
    before = desk.files()

    def act(change: TaskListChange) -> None:
        title(change, "lost")
        change.log("lost")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        desk.change(act)
    assert desk.files() == before


@pytest.mark.parametrize("version", [3, 3.5, 10**30])
def test_a_later_version_is_read_and_not_written(desk: Desk, version: float) -> None:
    desk.edit(version=version)
    before = desk.files()
    with pytest.raises(ConfigurationError, match="version"):
        desk.change(lambda change: None)
    assert desk.files() == before
    assert len(desk.store.read().tasks) == 2


def test_an_edit_by_hand_between_reading_and_writing_is_not_lost(desk: Desk) -> None:
    seen: list[str] = []

    def act(change: TaskListChange) -> None:
        seen.append(change.state.by_id["b"].title)
        if len(seen) == 1:
            desk.edit("b", title="by hand")
        title(change, "by us")
        change.log(f"try {len(seen)}")

    desk.change(act)
    assert seen == ["Title of b", "by hand"]
    assert [each["title"] for each in desk.raw["tasks"]] == ["by us", "by hand"]
    assert desk.log() == ["try 2"]


def test_edits_without_end_are_no_endless_loop(desk: Desk) -> None:
    def act(change: TaskListChange) -> None:
        desk.edit("b", n=change.state.by_id["b"].raw.get("n", 0) + 1)

    with pytest.raises(Busy, match="without the lock"):
        desk.change(act)


def test_a_holder_whose_lock_was_taken_away_starts_over(desk: Desk) -> None:
    """A process that sleeps for minutes may lose the directory that shell scripts look at."""
    from agent_harness.kernel.lock import directory_for

    calls: list[int] = []

    def act(change: TaskListChange) -> None:
        calls.append(1)
        title(change, str(len(calls)))
        if len(calls) == 1:
            os.rename(directory_for(desk.layout.root), desk.root / "stolen")

    desk.change(act)
    assert len(calls) == 2
    assert desk.task("a").title == "2"


def test_somebody_who_holds_the_lock_keeps_others_out(desk: Desk) -> None:
    before = desk.files()
    with desk.store.lock(), pytest.raises(LockBusy):
        TaskStore(desk.layout, lock_timeout_seconds=0.05).change(lambda change: change.touch())
    assert desk.files() == before
    assert desk.store.read().by_id["a"].title == "Title of a"


def test_no_update_of_threads_and_processes_is_lost(desk: Desk) -> None:
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
    running = [subprocess.Popen([sys.executable, "-c", code, desk.layout.root]) for _ in range(4)]
    parsed = 0
    while any(each.poll() is None for each in running):
        store.read(desk.layout)
        parsed += 1
    assert [each.wait() for each in running] == [0] * 4
    assert (desk.raw["n"], desk.raw["revision"]) == (40, 40)
    assert desk.log() == [f"line {n}" for n in range(1, 41)]
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
def test_a_damaged_file_is_left_alone_and_replaces_no_backup(desk: Desk, content: bytes) -> None:
    desk.change(lambda change: title(change, "good"))
    Path(desk.layout.tasks).write_bytes(content)
    before = desk.files()
    for ask in (lambda: store.read(desk.layout), lambda: desk.change(lambda change: None)):
        with pytest.raises(StateDamaged) as raised:
            ask()
        assert raised.value.hint == "harness task recover"
    assert desk.files() == before


def test_a_file_that_is_missing_is_damage_and_says_when_there_is_no_way_back(desk: Desk) -> None:
    os.unlink(desk.layout.tasks)
    with pytest.raises(StateDamaged) as raised:
        store.read(desk.layout)
    assert "no backup" in (raised.value.hint or "")


def test_what_is_damaged_between_two_changes_of_a_person_never_gets_into_the_backup(desk: Desk) -> None:
    desk.change(lambda change: title(change, "one"))
    good = Path(desk.layout.backup).read_bytes()

    def act(change: TaskListChange) -> None:
        Path(desk.layout.tasks).write_text("{ by hand")

    with pytest.raises(StateDamaged):
        desk.change(act)
    assert Path(desk.layout.backup).read_bytes() == good


@pytest.mark.parametrize("name", ["harness-tasks.json", "harness-progress.txt"])
def test_a_folder_where_a_file_should_be_is_one_clear_error(desk: Desk, name: str) -> None:
    (desk.root / name).unlink(missing_ok=True)
    (desk.root / name).mkdir()

    def act(change: TaskListChange) -> None:
        change.log("x")

    with pytest.raises(HarnessError):
        desk.change(act)


# ---- clock and marker ----------------------------------------------------------------------------------------------


def test_the_time_is_that_of_the_disk_and_the_local_one_where_nothing_can_be_touched(desk: Desk) -> None:
    live = TaskStore(desk.layout)
    at = live.now()
    assert abs((at - clock.now()).total_seconds()) < 60
    assert os.stat(desk.layout.clock_file).st_mtime == pytest.approx(at.timestamp(), abs=60)
    os.unlink(desk.layout.clock_file)
    os.symlink("/etc/hostname", desk.layout.clock_file)
    assert abs((live.now() - clock.now()).total_seconds()) < 60
    assert TaskStore(desk.layout, now=NOON).now() == NOON


def test_the_marker_comes_and_goes(desk: Desk) -> None:
    assert not desk.store.active()
    desk.store.activate()
    desk.store.activate()
    assert desk.store.active()
    assert desk.store.deactivate()
    assert not desk.store.deactivate()


def test_readers_see_whole_files_while_threads_write(desk: Desk) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            TaskStore(desk.layout, lock_timeout_seconds=30).change(lambda change: change.touch())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            assert len(store.read(desk.layout).tasks) == 2
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("name", [".harness", ".harness/claims", ".harness/sessions"])
def test_nothing_is_written_through_a_folder_that_is_a_link(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path / "list", task("task-001"))
    outside = tmp_path / "outside"
    outside.mkdir()
    place = desk.root / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    before = desk.text
    with pytest.raises(Refused, match="is a link"):
        desk.claim()
    assert desk.text == before
    assert list(outside.iterdir()) == []
