"""``harness doctor``: what is wrong is named, with the command that mends it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli import app
from agent_harness.cli.doctor import checks, command
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.testing.repo import Repo


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a disk without room")
def test_a_disk_without_room_is_noticed(tmp_path: Path) -> None:
    """Before a verb meets it (tasklist.md 13.3)."""
    assert command.disk(str(tmp_path)).state in ("ok", "warning")
    full = command.disk("/proc")
    assert (full.state, full.message) == ("wrong", "the disk is full: 0.0 MiB are free")
    assert (full.fix or "").startswith("df -h /proc")
    assert command.disk(str(tmp_path / "gone")).message.endswith("No such file or directory")


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="mounts a small disk")
def test_a_full_disk_is_what_mends_first(tmp_path: Path) -> None:
    """The lock cannot be looked at there, and the answer is still one line a look."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (folder / "harness-tasks.json").write_text('{"tasks": []}')
        (folder / "big").write_bytes(b"x" * 50_000)
        command = [sys.executable, "-m", "agent_harness.cli.main", "doctor"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 4
        assert "XX  disk" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    finally:
        subprocess.run(["umount", folder], check=True)


def told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, dict[str, Any]]:
    """The exit code, and each line of the answer by its name; the worst of a name counts."""
    monkeypatch.chdir(folder)
    code = app.main(["doctor", "--json"])
    rows: dict[str, Any] = {}
    for row in json.loads(capsys.readouterr().out)["checks"]:
        if row["name"] not in rows or row["state"] != "ok":
            rows[row["name"]] = row
    return code, rows


def test_what_is_wrong_with_the_machine_is_named_with_what_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_AGENT", "command:no-such-program-here")
    LimitClock().note("codex", said="weekly limit", retry_after_seconds=7200)
    code, rows = told(tmp_path, capsys, monkeypatch)
    assert code == 4
    assert (rows["agents"]["state"], rows["agents"]["mend"]) == ("wrong", "harness agents")
    assert "no-such-program-here" in rows["agents"]["message"]
    assert (rows["limits"]["state"], rows["limits"]["mend"]) == ("warning", "harness limits clear codex")
    assert rows["project"]["mend"].startswith("harness init .")
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    assert told(tmp_path, capsys, monkeypatch)[0] == 0


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("git version 2.20.1", "wrong"),
        ("git version 2.35.9", "wrong"),
        ("git version 2.36.0", "ok"),
        ("git version 2.39.5 (Apple Git-154)", "ok"),
        ("git version 3.0.0", "ok"),
        (None, "wrong"),
    ],
)
def test_git_must_be_one_that_answers_all_that_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, said: str | None, state: str
) -> None:
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    if said:
        (tmp_path / "bin/git").write_text(f"#!/bin/sh\necho '{said}'\n")
        (tmp_path / "bin/git").chmod(0o755)
    _, rows = told(tmp_path, capsys, monkeypatch)
    assert rows["git"]["state"] == state
    assert rows["git"].get("mend") == (None if state == "ok" else "install git 2.36 or newer")


def test_a_missing_extra_is_named_with_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = "the api agent needs an extra: pip install 'agent-harness[api]'"
    assert checks._install(problem) == "pip install 'agent-harness[api]'"
    assert checks._install("something else") is None


def feature_project(folder: Path) -> Repo:
    repo = Repo(folder)
    repo.write(".harness.yaml", "project:\n  name: x\ntesting:\n  full: 'true'\n  feature: 'true {test_file}'\n")
    repo.write("features.json", '{"features": []}')
    repo.commit("First")
    return repo


def test_a_feature_project_says_what_keeps_it_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    repo = feature_project(tmp_path / "project")
    _, rows = told(repo.path, capsys, monkeypatch)
    assert rows["state"]["message"] == "not initialised here"
    assert rows["settings"]["state"] == "ok"
    repo.write(".harness.yaml", "project: [")
    code, rows = told(repo.path, capsys, monkeypatch)
    assert (code, rows["state"]["state"]) == (4, "wrong")
    assert ".harness.yaml" in rows["state"]["message"]
    (repo.path / ".harness.yaml").unlink()
    (repo.path / "features.json").unlink()
    assert told(repo.path, capsys, monkeypatch)[1]["project"]["state"] == "warning"


def test_git_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    repo = feature_project(tmp_path / "project")
    lock = repo.path / ".git/index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    (Path.home() / ".gitconfig").unlink()
    for name in ("user.email", "user.name"):
        repo.git("config", "--unset", name, check=False)
    _, rows = told(repo.path, capsys, monkeypatch)
    assert rows["git lock"]["mend"].startswith("rm ")
    assert rows["identity"]["mend"].startswith("git config --global user.email")
    lock.unlink()


def test_a_long_task_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    (tmp_path / "task.json").write_text("{}")
    (tmp_path / "checkpoint.json").write_text("{")
    code, rows = told(tmp_path, capsys, monkeypatch)
    assert code == 4
    assert rows["task-contract"]["state"] == "wrong"
    assert rows["task-contract"]["mend"].startswith("lth health ")


def test_a_task_list_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is tried, and what a person must correct is named with the command (tasklist.md 9.5, 13.2)."""
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    tasks = [{"id": "task-001", "depends_on": ["nobody"]}, {"id": "task-002"}]
    halt = {"category": "CONFIG", "message": "no command"}
    (tmp_path / "harness-tasks.json").write_text(json.dumps({"tasks": tasks, "halt": halt}))
    code, rows = told(tmp_path, capsys, monkeypatch)
    assert code == 4
    assert (rows["lock"]["state"], rows["state"]["state"]) == ("ok", "ok")
    assert rows["config"]["mend"].startswith("harness task set task-001 depends_on=")
    assert rows["halt"]["mend"] == "harness resume"
    assert rows["validation"]["message"].endswith("task-001, task-002")
    assert rows["marker"]["mend"] == "harness activate"
