"""`lth ls`: every task below a folder, with its state and what is due."""

import json
import os
from pathlib import Path

from agent_harness.testing.long_task_project import CommandResult, LongTaskProject, checkpoint, from_now, run_lth, task


def lth(*words: str, cwd: Path | None = None) -> CommandResult:
    return run_lth("ls", *words, cwd=cwd)


def shelf(folder: Path) -> Path:
    """A folder with a task in each state, and what looks like one."""
    LongTaskProject.made(folder / "a")
    blocked = checkpoint(
        status="blocked", blockedUntil=from_now(86_400), nextStep="Wait\nand \x1b[31msee " + "on " * 30
    )
    LongTaskProject.made(folder / "deep/er/b", state=blocked).write(
        ".lth.lock", {"owner": "me", "expiresAt": from_now(86_400), "pid": 1}
    )
    claimed = LongTaskProject.made(folder / "claimed", state=checkpoint(status="done"))
    claimed.write("runs/2026-03-01.jsonl", '{"type":"worker_started","at":"2026-03-01T12:00:00.000Z"}\n')
    LongTaskProject.made(folder / "finished", state=checkpoint(status="done"))
    LongTaskProject.made(folder / "torn").write("checkpoint.json", "{")
    LongTaskProject.made(folder / "wrong", contract=task(title=" "), state=checkpoint(taskId="other"))
    LongTaskProject.made(folder / ".git/hidden")
    LongTaskProject.made(folder / "a/artifacts/inner")
    LongTaskProject.made(folder.parent / "elsewhere")
    (folder / "link").symlink_to(folder.parent / "elsewhere")
    (folder / "empty").mkdir()
    return folder


def test_every_state_as_json(tmp_path: Path) -> None:
    folder = shelf(tmp_path / "tasks")
    before = LongTaskProject(folder).tree()
    done = lth(str(folder), "--json")
    assert (done.code, done.err) == (0, "")
    found = {each["path"]: each for each in done.json["tasks"]}
    assert (done.json["folder"], done.json["count"]) == (str(folder), 6)
    assert list(found) == ["a", "claimed", "deep/er/b", "finished", "torn", "wrong"]
    due = {path: (each["status"], each["decision"]) for path, each in found.items()}
    assert due == {
        "a": ("active", "run"),
        "claimed": ("paused", "run"),
        "deep/er/b": ("blocked", "wait"),
        "finished": ("done", "done"),
        "torn": ("invalid", None),
        "wrong": ("invalid", None),
    }
    assert list(found["a"]) == [
        *("path", "taskId", "title", "status", "decision", "reason", "blockedUntil", "waitSeconds", "nextStep", "lease")
    ]
    assert found["deep/er/b"]["waitSeconds"] > 0 and found["deep/er/b"]["lease"] == "held"
    assert found["torn"]["errors"][0].startswith("Cannot read JSON ")
    assert found["wrong"]["errors"] == [
        "missing string: title",
        "checkpoint.taskId (other) must equal task.id (demo)",
    ]
    assert LongTaskProject(folder).tree() == before


def test_a_table_for_people(tmp_path: Path) -> None:
    folder = shelf(tmp_path / "tasks")
    done = lth(cwd=folder)
    rows = done.out.splitlines()
    assert done.code == 0 and rows[0].split() == ["TASK", "STATUS", "DUE", "NEXT", "STEP"]
    assert [row.split()[:3] for row in rows[1:]] == [
        ["a", "active", "run"],
        ["claimed", "paused", "run"],
        ["deep/er/b", "blocked", "running"],
        ["finished", "done", "done"],
        ["torn", "invalid", "-"],
        ["wrong", "invalid", "-"],
    ]
    assert r"Wait and \x1b[31msee on on" in rows[3] and rows[3].endswith("...")
    assert all(row.isprintable() for row in rows)
    here = lth("--json", cwd=folder).json
    assert (here["folder"], here["count"]) == (str(folder), 6)
    assert lth(str(folder / "a")).out.splitlines()[1].split()[:3] == [".", "active", "run"]


def test_nothing_to_list(tmp_path: Path) -> None:
    done = lth(str(tmp_path))
    assert (done.code, done.out) == (0, f"no long tasks below {tmp_path}\n")
    assert lth(str(tmp_path), "--json").json["tasks"] == []
    done = lth(str(tmp_path / "nowhere"))
    assert (done.code, done.out, done.err) == (1, "", f"there is no such folder: {tmp_path / 'nowhere'}\n")
    assert lth("--help", cwd=tmp_path).out.startswith("lth ls [FOLDER] [options]\n")


def test_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    odd = LongTaskProject.made(tmp_path / "tasks/a\x1bb")
    assert r"a\x1bb" in lth(str(tmp_path)).out
    os.rename(bytes(odd.root), os.path.join(bytes(tmp_path / "tasks"), b"caf\xe9"))
    assert json.loads(lth(str(tmp_path), "--json").out)["count"] == 1
    assert lth(str(tmp_path)).code == 0
