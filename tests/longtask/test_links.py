"""Row 14: no way out of a task. Nothing is read or written through a link that leads elsewhere."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject

WRITING = (
    ["tick"],
    ["run", "--worker", "local", "--command", "true"],
    ["record", "--status", "paused"],
    ["evidence", "--type", "test"],
    ["classify", "--text", "HTTP 429", "--record"],
)
LOOKING = (["status"], ["summary"], ["tail"])


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of somebody else, beside the task."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "precious").write_text("precious\n")
    return folder


def refused(project: LongTaskProject, words: list[str], said: str) -> None:
    """A command that says in one line what is wrong, and changes nothing."""
    before = project.tree()
    done = project.lth(*words)
    lines = [line for line in done.err.splitlines() if "warning" not in line]
    assert done.code == 1 and len(lines) == 1 and said in lines[0], done
    assert project.tree() == before


def a_link(place: Path, target: Path) -> None:
    place.symlink_to(target)


def a_file(place: Path, target: Path) -> None:
    place.touch()


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (a_link, "runs must stay inside the task directory"),
        (a_file, "/runs is not a folder; move the file or folder away"),
    ],
)
def test_row_14_a_log_that_cannot_be_kept_is_refused_before_anything_changes(
    project: LongTaskProject, elsewhere: Path, put: Callable[[Path, Path], None], said: str
) -> None:
    put(project.root / "runs", elsewhere)
    for words in WRITING:
        refused(project, words, said)
    if put is a_link:
        for words in LOOKING:
            refused(project, words, said)
    assert os.listdir(elsewhere) == ["precious"]
    assert project.lth("validate").code == 0


def test_row_14_a_checkpoint_of_somebody_else_is_neither_read_nor_written(
    project: LongTaskProject, elsewhere: Path
) -> None:
    (project.root / "checkpoint.json").rename(elsewhere / "checkpoint.json")
    (project.root / "checkpoint.json").symlink_to(elsewhere / "checkpoint.json")
    before = (elsewhere / "checkpoint.json").read_bytes()
    for words in (*WRITING, *LOOKING, ["next"], ["validate"]):
        refused(project, words, "checkpoint.json is a symbolic link to a path outside the task, or to no file")
    assert (elsewhere / "checkpoint.json").read_bytes() == before


def test_a_checkpoint_that_is_a_link_within_the_task_stays_one(project: LongTaskProject) -> None:
    (project.root / "checkpoint.json").rename(project.write("artifacts/checkpoint.json", ""))
    (project.root / "checkpoint.json").symlink_to("artifacts/checkpoint.json")
    assert project.lth("record", "--status", "paused", "--note", "go on").code == 0
    assert (project.root / "checkpoint.json").is_symlink() and project.checkpoint["nextStep"] == "go on"


@pytest.mark.parametrize("leads_to", ["../elsewhere/precious", "../elsewhere/missing", "checkpoint.json"])
def test_row_14_a_link_that_a_worker_puts_in_place_of_the_checkpoint_is_replaced(
    tmp_path: Path, elsewhere: Path, leads_to: str
) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    answer = project.run(f"rm checkpoint.json; ln -s {leads_to} checkpoint.json", code=1).json
    assert answer["status"] == "needs-human"
    assert (elsewhere / "precious").read_text() == "precious\n" and os.listdir(elsewhere) == ["precious"]
    assert (project.root / answer["invalidCheckpoint"]).read_text() == f"{leads_to}\n"
    assert not (project.root / "checkpoint.json").is_symlink()
    project.loads()


def test_row_14_a_worker_cannot_move_the_log_away(tmp_path: Path, elsewhere: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    before = project.checkpoint
    done = project.run("rm -r runs; ln -s ../elsewhere runs; echo worked", code=1)
    assert done.err == "runs must stay inside the task directory: runs/" + done.err.rpartition("/")[2]
    assert os.listdir(elsewhere) == ["precious"] and not project.lock.exists()
    assert project.checkpoint == before
