"""Making a list, adding to it, correcting it."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import ConfigurationError, HarnessError, Refused, StateDamaged, UsageError
from agent_harness.protocols.tasklist import planning, selection
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task

from .test_claims import claimed

# ---- making --------------------------------------------------------------------------------------------------------


def test_a_list_is_made_once_and_never_overwritten(tmp_path: Path) -> None:
    made = planning.create(str(tmp_path), init_script=True, mode="concurrent", max_tasks=3, max_sessions=0)
    names = ["harness-tasks.json", "harness-progress.txt", "harness-init.sh", ".harness-active"]
    assert (made["created"], made["kept"], made["ignored_in"]) == (names, [], None)
    assert os.access(tmp_path / "harness-init.sh", os.X_OK)
    config = {"concurrency_mode": "concurrent", "max_tasks_per_session": 3, "max_sessions": 0}
    assert f'"concurrency_mode": "{config["concurrency_mode"]}"' in (tmp_path / "harness-tasks.json").read_text()
    log = (tmp_path / "harness-progress.txt").read_text()
    assert log.endswith(f"Z] [SESSION-0] INIT Harness initialized for project {tmp_path}\n")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
    again = planning.create(str(tmp_path), init_script=True)
    assert (again["created"], again["kept"]) == ([], names)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()} == before


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.touch()])
def test_a_folder_must_be_there(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "x")
    with pytest.raises(Refused):
        planning.create(str(tmp_path / "x"))


@pytest.mark.parametrize(
    ("where", "file"), [("exclude", ".git/info/exclude"), ("gitignore", ".gitignore"), ("none", None)]
)
@pytest.mark.parametrize("below", ["", "sub"])
def test_the_files_are_ignored_where_it_is_wished(tmp_path: Path, where: str, file: str | None, below: str) -> None:
    repo = Repo(tmp_path / "repo").write("sub/.gitignore", "*.o").commit()
    folder = repo.path / below
    made = planning.create(str(folder), gitignore=where)
    if file is None:
        assert made["ignored_in"] is None
        return
    expected = folder / file if where == "gitignore" else repo.path / file
    assert made["ignored_in"] == str(expected)
    Path(TaskListLayout(folder).state_dir).mkdir(exist_ok=True)
    (folder / ".harness/now").touch()
    seen = {line[3:] for line in repo.status()} - {".gitignore", "sub/.gitignore"}
    assert seen == set()
    text = expected.read_text()
    planning.create(str(folder), gitignore=where)
    assert expected.read_text() == text


# ---- adding --------------------------------------------------------------------------------------------------------


def test_ids_count_on_from_the_highest(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(
        tmp_path / "list", task("task-7"), task("x-99"), task("task-0012"), {"id": 40}, "task-50"
    )
    assert planning.add(project.store, [{"title": "one"}, {"title": "two", "id": "own"}, {"title": "three"}]) == [
        "task-013",
        "own",
        "task-014",
    ]
    project.edit(tasks=[task("task-999")])
    assert planning.add(project.store, [{"title": "x"}]) == ["task-1000"]


def test_a_new_task_has_every_member_and_keeps_what_we_do_not_know(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    given = {
        "title": " a\n title ",
        "validation": {"command": "pytest", "note": 1},
        "hints": ["x"],
        "status": "completed",
        "attempts": 9,
        "error_log": ["[DEPENDENCY] x"],
        "priority": "P0",
    }
    planning.add(project.store, [given])
    assert project.raw["tasks"] == [
        task("task-001")
        | {
            "title": "a title",
            "priority": "P0",
            "validation": {"command": "pytest", "timeout_seconds": 300, "note": 1},
            "hints": ["x"],
        }
    ]


BAD: list[tuple[Any, type[HarnessError]]] = [
    ({}, UsageError),
    ({"title": ""}, UsageError),
    ({"title": " \n"}, UsageError),
    ({"title": 5}, UsageError),
    ({"title": "x", "id": 5}, UsageError),
    ({"title": "x", "id": ["a"]}, UsageError),
    ({"title": "x", "id": "a"}, ConfigurationError),
    ({"title": "x", "depends_on": ["zz"]}, ConfigurationError),
    ({"title": "x", "depends_on": [5]}, ConfigurationError),
    ({"title": "x", "depends_on": "a"}, ConfigurationError),
    ({"title": "x", "id": "n", "depends_on": ["n"]}, ConfigurationError),
    ({"title": "x", "validation": "pytest"}, UsageError),
    ({"title": "x", "validation": {"command": 5}}, UsageError),
    ({"title": "x", "validation": {"timeout_seconds": "5"}}, UsageError),
    ({"title": "x", "on_failure": "rm"}, UsageError),
    ({"title": "x", "max_attempts": "3"}, UsageError),
    ({"title": "x", "max_attempts": True}, UsageError),
    ({"title": "x", "priority": "high"}, UsageError),
    ({"title": "x", "priority": 1}, UsageError),
]


@pytest.mark.parametrize(("given", "error"), BAD)
def test_all_are_added_or_none(tmp_path: Path, given: dict[str, Any], error: type[HarnessError]) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"))
    before = project.files()
    with pytest.raises(error) as raised:
        planning.add(project.store, [{"title": "good"}, given])
    assert type(raised.value) is error
    assert project.files() == before


def test_a_circle_among_the_new_is_refused_and_one_that_is_there_already_is_not(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a", depends_on=["a"]), task("b", depends_on=["gone"]))
    new = [{"title": "x", "id": "x", "depends_on": ["y"]}, {"title": "y", "id": "y", "depends_on": ["x"]}]
    with pytest.raises(ConfigurationError, match="x -> y -> x"):
        planning.add(project.store, new)
    assert planning.add(project.store, [{"title": "x", "depends_on": ["b"]}]) == ["task-001"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1"),
        ('{"title": "x"}\n\n[]', "line 3 is not a JSON object"),
        ('{"title": "x"}\n5', "line 2"),
        ("NaN", "line 1"),
    ],
)
def test_a_line_that_is_no_task_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planning.read_lines(text)


# ---- correcting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "member", "value"),
    [
        ("title", "new", "title", "new"),
        ("priority", "P0", "priority", "P0"),
        ("depends_on", " a, b ,", "depends_on", ["a", "b"]),
        ("depends_on", "", "depends_on", []),
        ("max_attempts", "5", "max_attempts", 5),
        ("validation.command", "pytest -q", "validation", {"command": "pytest -q", "timeout_seconds": 300}),
        ("validation.command", "", "validation", {"command": None, "timeout_seconds": 300}),
        ("validation.timeout_seconds", "1.5", "validation", {"command": "true", "timeout_seconds": 1.5}),
        ("on_failure.cleanup", "x", "on_failure", {"cleanup": "x"}),
        ("status", "failed", "status", "failed"),
    ],
)
def test_a_person_sets_a_member(tmp_path: Path, name: str, text: str, member: str, value: object) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"), task("c", own=1))
    planning.set_fields(project.store, "c", {name: text})
    assert project.raw["tasks"][2] == task("c", own=1) | {member: value}
    was = " (validation.command was: true)" if name == "validation.command" else ""
    assert project.log() == [f"[SESSION-1] WARN [c] set by command: {name}={text}{was}".rstrip()]


@pytest.mark.parametrize(
    ("task_id", "name", "text", "error"),
    [
        ("a", "status", "completed", UsageError),
        ("a", "status", "in_progress", UsageError),
        ("a", "priority", "P9", UsageError),
        ("a", "max_attempts", "many", UsageError),
        ("a", "max_attempts", "-1", UsageError),
        ("a", "max_attempts", "nan", UsageError),
        ("a", "validation.timeout_seconds", "1e999", UsageError),
        ("a", "claim_token", "x", UsageError),
        ("a", "depends_on", "a", ConfigurationError),
        ("a", "depends_on", "b", ConfigurationError),
        ("a", "depends_on", "zz", ConfigurationError),
        ("zz", "title", "x", UsageError),
        ("p", "status", "pending", Refused),
    ],
)
def test_what_cannot_be_set_changes_nothing(
    tmp_path: Path, task_id: str, name: str, text: str, error: type[HarnessError]
) -> None:
    project = TaskListProject.at_noon(
        tmp_path / "list", task("a"), task("b", depends_on=["a"]), task("p", **claimed("w"))
    )
    before = project.files()
    with pytest.raises(error) as raised:
        planning.set_fields(project.store, task_id, {"title": "lost", name: text})
    assert type(raised.value) is error
    assert project.files() == before


def test_a_task_that_is_made_pending_again_is_free_of_what_blocked_it(tmp_path: Path) -> None:
    errors = ["[TEST_FAIL] said [DEPENDENCY]", "[DEPENDENCY] Blocked by failed b", 5]
    project = TaskListProject.at_noon(tmp_path / "list", task("a", status="failed", error_log=errors, attempts=3))
    planning.set_fields(project.store, "a", {"status": "pending", "attempts": "0"})
    assert project.raw["tasks"][0]["error_log"] == [errors[0], 5]
    found = selection.next_task(project.store.read())
    assert found and found.id == "a"


def test_a_damaged_list_takes_nothing(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    Path(project.layout.tasks).write_text("{")
    for act in (
        lambda: planning.add(project.store, [{"title": "x"}]),
        lambda: planning.set_fields(project.store, "a", {"title": "x"}),
    ):
        with pytest.raises(StateDamaged):
            act()
    assert project.text == "{"
