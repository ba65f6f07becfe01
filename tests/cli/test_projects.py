"""``harness projects``: every project of the user, by its state folder, and the removal of those that are gone."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli import app
from agent_harness.kernel import owner, trusted_state
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject


def projects(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert app.main(["projects", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["projects"]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = app.main(["projects", "--forget", *words])
    return code, capsys.readouterr().err


def task_list(root: Path) -> TaskListProject:
    made = TaskListProject(root)
    assert made.harness("add", "One", "--validate", "true").code == 0
    return made


def place_of(root: Path) -> Path:
    (found,) = (each for each in trusted_state.places() if each.path == str(root))
    return Path(found.folder)


def test_all_three_kinds_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task_list(tmp_path / "list")
    FeatureListProject.made(tmp_path / "calc", False).harness("pause")
    LongTaskProject.of_book(tmp_path / "book").run("echo written > chapter.txt")
    found = {row["kind"]: row for row in projects(capsys)}
    assert {kind: Path(row["path"]).name for kind, row in found.items()} == {
        "tasklist": "list",
        "features": "calc",
        "longtask": "book",
    }
    assert not any(row["gone"] for row in found.values())
    assert app.main(["projects"]) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path / 'list'}" in out
    assert "feature project" in out
    assert "Gone" not in out


def test_a_project_that_is_gone_is_named_once_and_forgotten_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task_list(tmp_path / "old")
    kept = task_list(tmp_path / "new")
    folder = place_of(tmp_path / "old")
    shutil.rmtree(tmp_path / "old")
    assert app.main(["projects"]) == 0
    out = capsys.readouterr().out
    assert out.count(f"Gone: {tmp_path / 'old'}") == 1
    assert f"harness projects --forget {tmp_path / 'old'}" in out
    assert [row["path"] for row in projects(capsys, "--forget", str(tmp_path / "old"))] == [str(kept.root)]
    assert not folder.exists()
    assert refused(capsys, str(tmp_path / "old"))[0] == 2


def test_those_of_the_fleet_are_listed_with_them_and_each_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-REC-5: a row of fleet.yaml that is gone is named once; a roster that cannot be read hides no project."""
    known, gone = task_list(tmp_path / "list"), task_list(tmp_path / "old")
    fresh = TaskListProject(tmp_path / "new")
    roster = Path(os.environ["HOME"], ".config/agent-harness/fleet.yaml")
    roster.parent.mkdir(parents=True)
    paths = (known.root, gone.root, fresh.root, tmp_path / "nowhere")
    roster.write_text("projects:\n" + "".join(f"  - path: {path}\n" for path in paths))
    shutil.rmtree(gone.root)
    found = projects(capsys)
    assert sorted(Path(row["path"]).name for row in found) == ["list", "new", "old"]
    (row,) = (row for row in found if row["path"] == str(fresh.root))
    assert (row["kind"], row["gone"], row["state_folder"], row["state"]) == (
        "tasklist",
        False,
        None,
        "idle; 0/0 proven",
    )
    assert app.main(["projects"]) == 0
    out = capsys.readouterr().out
    assert [out.count(f"{path} ") for path in paths[:1]] == [1]
    assert out.count(f"Gone: {gone.root}") == 1
    assert f"{gone.root} is gone" not in out
    assert out.count(f"{tmp_path / 'nowhere'} is gone") == 1
    roster.write_text("projects: [\n")
    assert app.main(["projects"]) == 0
    out = capsys.readouterr().out
    assert str(known.root) in out
    assert f"{roster}, line" in out


def test_a_project_that_is_there_keeps_its_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task_list(tmp_path / "list")
    before = sorted(os.listdir(place_of(tmp_path / "list")))
    code, said = refused(capsys, str(tmp_path / "list"))
    assert code == 4
    assert "is still a project, so its state was kept" in said
    assert sorted(os.listdir(place_of(tmp_path / "list"))) == before


def test_a_session_that_still_runs_keeps_the_state_of_a_project_that_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task_list(tmp_path / "list")
    folder = place_of(tmp_path / "list")
    shutil.rmtree(tmp_path / "list")
    (folder / "now.json").write_text(json.dumps({"v": 1, "owner": owner.current().as_record()}))
    code, said = refused(capsys, str(tmp_path / "list"))
    assert (code, "is still running" in said) == (5, True)
    assert folder.is_dir()


def test_an_agent_that_hides_its_project_does_not_have_its_proofs_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = task_list(tmp_path / "list")
    folder = place_of(project.root)
    (project.root / "harness-tasks.json").rename(project.root / "away.json")
    for path in project.root.glob("harness-tasks.json.*"):
        path.unlink()
    monkeypatch.setenv("HARNESS_RUN_ID", "r1")
    monkeypatch.setenv("HARNESS_STATE_ROOT", str(project.root))
    code, said = refused(capsys, str(project.root))
    assert (code, "a decision for the user" in said) == (4, True)
    assert folder.is_dir()


def test_links_are_neither_listed_nor_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task_list(tmp_path / "list")
    folder = place_of(tmp_path / "list")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "work.txt").write_text("mine")
    (folder / "claims").mkdir(exist_ok=True)
    (folder / "claims" / "out").symlink_to(precious)
    (folder.parent / "%nowhere%harness-tasks.json").symlink_to(precious)
    assert len(projects(capsys)) == 1
    shutil.rmtree(tmp_path / "list")
    assert projects(capsys, "--forget", str(tmp_path / "list")) == []
    assert (precious / "work.txt").read_text() == "mine"
    assert refused(capsys, str(folder.parent / "%nowhere%harness-tasks.json"))[0] == 2


def test_a_folder_of_an_older_version_is_known_by_its_name_where_that_is_sure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task_list(tmp_path / "list")
    folder = place_of(tmp_path / "list")
    (folder / "place.json").unlink()
    doubtful = folder.parent / "%data%25x%harness-tasks.json"
    doubtful.mkdir(mode=0o700)
    found = {row["state_folder"]: row for row in projects(capsys)}
    assert found[str(folder)]["path"] == str(tmp_path / "list")
    assert found[str(doubtful)]["path"] is None
    code, said = refused(capsys, str(doubtful))
    assert (code, "does not record which project it belongs to" in said) == (4, True)


@pytest.mark.parametrize("text", ["{", "[]", '{"path": 3, "kind": "tasklist"}', '{"path": "/x", "kind": "other"}'])
def test_a_damaged_place_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    task_list(tmp_path / "list")
    (place_of(tmp_path / "list") / "place.json").write_text(text)
    assert [row["path"] for row in projects(capsys)] == [str(tmp_path / "list")]


def test_that_a_project_was_seen_is_written_once_a_day(tmp_path: Path) -> None:
    project = task_list(tmp_path / "list")
    place = place_of(tmp_path / "list") / "place.json"
    written = place.stat().st_ino
    assert project.harness("add", "Two", "--validate", "true").code == 0
    assert place.stat().st_ino == written
    a_day_ago = time.time() - 86_401
    os.utime(place, (a_day_ago, a_day_ago))
    assert project.harness("add", "Three", "--validate", "true").code == 0
    assert place.stat().st_ino != written or place.stat().st_mtime > a_day_ago + 1


def test_without_any_project_the_way_to_one_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert projects(capsys) == []
    assert app.main(["projects"]) == 0
    assert capsys.readouterr().out == "No projects yet. To begin: harness setup\n"


def test_a_path_that_is_no_text_is_no_hindrance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    task_list(root)
    assert app.main(["projects"]) == 0
    assert "task list" in capsys.readouterr().out


def test_each_project_says_how_it_stands_and_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-REC-7: one line each; a file that somebody damaged is named, and the others are listed all the same."""
    task_list(tmp_path / "list")
    FeatureListProject.made(tmp_path / "calc", True, False).harness("pause")
    broken = FeatureListProject.made(tmp_path / "broken", False)
    broken.harness("pause")
    (broken.root / ".harness.yaml").write_text("paths:\n  features: [\n")
    (tmp_path / "list/harness-tasks.json").write_text("{")
    found = {Path(row["path"]).name: row for row in projects(capsys)}
    assert found["calc"]["state"] == "paused; 1/2 proven"
    assert found["list"]["state"] == "cannot be read: harness-tasks.json"
    assert found["broken"]["gaps"][0]["file"] == ".harness.yaml"
    assert app.main(["projects"]) == 0
    assert f"{tmp_path / 'calc'}  paused; 1/2 proven\n" in capsys.readouterr().out


def test_sessions_of_a_task_list_and_of_a_long_task_are_summed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = task_list(tmp_path / "list")
    rows = [{"session": n, "task_id": "task-001", "result": result} for n, result in ((1, "failed"), (2, "completed"))]
    costs = Path(project.layout.costs)
    costs.parent.mkdir(parents=True, exist_ok=True)
    costs.write_text("".join(f"{json.dumps({**row, 'cost_usd': 0.5, 'agent': 'codex'})}\n" for row in rows))
    monkeypatch.chdir(project.root)
    assert app.main(["log", "sessions"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Session 1: task-001, failed; $0.50, codex",
        "Session 2: task-001, completed; $0.50, codex",
    ]
    assert app.main(["log", "sessions", "--session", "2", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (row["number"], row["item"], row["outcome"], row["cost_usd"]) == (2, "task-001", "completed", 0.5)
    book = LongTaskProject.of_book(tmp_path / "book")
    book.run("echo written > chapter.txt")
    monkeypatch.chdir(book.root)
    assert app.main(["log", "sessions"]) == 0
    assert capsys.readouterr().out.startswith("Session 1: book, completed; ")
