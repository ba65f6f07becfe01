"""``harness doctor``: each problem is named, with the command that fixes it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import discovery
from agent_harness.cli import app
from agent_harness.cli.machine import doctor
from agent_harness.installation import command_for_extra
from agent_harness.kernel.process import limits
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.testing.repo import Repo


def test_what_a_command_may_take_is_told_and_where_nobody_sees_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "held", lambda: True)
    told = doctor.limits()
    assert (told.state, "of memory" in told.message, "processes and threads" in told.message) == ("ok", True, True)
    monkeypatch.setattr(limits, "held", lambda: False)  # a system that shows no processes
    told = doctor.limits()
    assert (told.state, told.message.startswith("no limits on memory and processes")) == ("warning", True)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a disk without room")
def test_a_disk_without_room_is_noticed(tmp_path: Path) -> None:
    """Before a command fails (tasklist.md 13.3)."""
    assert doctor.disk(str(tmp_path)).state in ("ok", "warning")
    full = doctor.disk("/proc")
    assert (full.state, full.message) == ("wrong", "the disk is full: 0.0 MiB are free")
    assert (full.fix or "").startswith("df -h /proc")
    assert doctor.disk(str(tmp_path / "gone")).message.endswith("No such file or directory")


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="mounts a small disk")
def test_a_full_disk_is_what_mends_first(tmp_path: Path) -> None:
    """The lock cannot be checked there, and the answer is still one line for each check."""
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
    """Return the exit code and the lines of the answer by name; the worst line of a name counts."""
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
    wanted = command_for_extra("api")
    assert doctor._install(f"the api agent needs an extra: {wanted}") == wanted
    assert doctor._install("something else") is None


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
    repo.git("config", "commit.gpgSign", "true")
    for name in ("user.email", "user.name"):
        repo.git("config", "--unset", name, check=False)
    _, rows = told(repo.path, capsys, monkeypatch)
    assert rows["git lock"]["mend"].startswith("rm ")
    assert rows["identity"]["mend"].startswith("git config --global user.email")
    assert "the harness does not sign its commits" in rows["signing"]["message"]
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
    """Its lock is tried, and each thing to correct is named with the command (tasklist.md 9.5, 13.2)."""
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


CODEX = """\
#!{python}
import json, os, subprocess, sys
if sys.argv[1] != "exec":
    sys.exit(0)
with open(os.path.join(os.environ["CODEX_HOME"], "scripts.json")) as file:
    asked = json.load(file)["look"][0]["run"]
{trouble}
done = subprocess.run(["sh", "-c", asked], capture_output=True, text=True)
item = {{"type": "command_execution", "aggregated_output": "Welcome\\n" + done.stdout, "exit_code": done.returncode}}
print(json.dumps({{"type": "item.completed", "item": item}}))
"""


@pytest.mark.parametrize(
    ("trouble", "agent", "state", "says"),
    [
        ("", "codex", "ok", "as the harness does"),
        ("os.environ['PATH'] = '/nowhere:/usr/bin:/bin'", "codex", "wrong", "but the harness finds it at"),
        ("os.environ['PATH'] = '/nowhere:/usr/bin:/bin'", "command:true", "warning", "but the harness finds it at"),
        ("sys.exit(1)", "codex", "warning", "unknown"),
    ],
    ids=["same", "another", "another, not taken", "dead"],
)
def test_the_path_of_codex_is_proven_by_a_command_that_it_runs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    agent: str,
    state: str,
    says: str,
) -> None:
    """The real one is asked in ``tests/clients``."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    (programs / "codex").write_text(CODEX.format(python=sys.executable, trouble=trouble))
    (programs / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("HARNESS_AGENT", agent)
    code, rows = told(tmp_path, capsys, monkeypatch)
    assert rows["codex PATH"]["state"] == state
    assert says in rows["codex PATH"]["message"]
    assert code == (4 if state == "wrong" else 0)


# ---- a machine without a client, and what is repaired


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder on a machine without an agent."""
    for name in ("HARNESS_AGENT", *discovery.KEYS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("command", ["doctor", "agents", "setup"])
def test_without_a_client_it_says_what_to_install(
    nobody: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """FIX-15: in one line, and the command beside it; nothing is called ready."""
    assert app.main([command]) == 0
    said = capsys.readouterr().out
    assert "No agent client found (claude, codex). Install one, or name a program" in said
    assert "npm install -g @anthropic-ai/claude-code" in said
    assert "--agent 'command:" in said
    assert "ready:" not in said
    assert "it has the kinds" not in said


def test_agents_that_are_here_come_first_and_the_others_are_one_line(
    nobody: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-x")
    assert app.main(["agents"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok  api ")
    (folded,) = [line for line in lines if "codex" in line and line.startswith("--  not here:")]
    assert "acp:gemini, acp:opencode" in folded


def test_a_big_disk_is_told_in_gibibytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def room(_folder: str) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 0, 0, (78 << 30) // 4096, 1, 1, 1, 0, 255))

    monkeypatch.setattr(os, "statvfs", room)
    assert doctor.disk(str(tmp_path)).message == "78 GiB are free"


def test_what_is_safe_is_repaired_and_told_and_the_exit_code_tells_of_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged list is restored from its backup; hooks of another installation are replaced; nothing else."""
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    folder = tmp_path / "list"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for words in (["init", "."], ["add", "One", "--validate", "true"], ["add", "Two", "--validate", "true"]):
        assert app.main(words) == 0
    assert app.main(["hooks", "install", "--client", "claude-code"]) == 0
    settings = Path.home() / ".claude/settings.json"
    ours = settings.read_text()
    settings.write_text(ours.replace(sys.executable, "/gone/python"))
    (folder / "harness-tasks.json").write_text("{")
    capsys.readouterr()
    code, rows = told(folder, capsys, monkeypatch)
    assert (code, rows["state"]["safe"]) == (4, True)
    assert app.main(["doctor"]) == 4
    assert "next: harness doctor --fix  # repairs state" in capsys.readouterr().out
    assert (folder / "harness-tasks.json").read_text() == "{"
    assert app.main(["doctor", "--fix"]) == 0
    said = capsys.readouterr().out
    assert ">>  state          repaired: " in said
    assert [task["title"] for task in json.loads((folder / "harness-tasks.json").read_text())["tasks"]][:1] == ["One"]
    code, rows = told(folder, capsys, monkeypatch)
    assert (code, rows["hooks"]["safe"]) == (0, True)
    assert "another or older harness installation" in rows["hooks"]["message"]
    assert app.main(["doctor", "--fix", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["done"]) for each in answer["repaired"]] == [("hooks", True)]
    assert settings.read_text() == ours
    assert app.main(["doctor", "--fix", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["repaired"] == []


def test_what_cannot_be_repaired_stays_wrong_and_untouched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harness-tasks.json").write_text("{")
    assert app.main(["doctor", "--fix", "--json"]) == 4
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["repaired"]) == (False, [])
    assert (tmp_path / "harness-tasks.json").read_text() == "{"


def test_codex_hooks_of_another_installation_are_a_person_s_to_install_and_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    monkeypatch.chdir(tmp_path)
    assert app.main(["init", "."]) == 0
    assert app.main(["hooks", "install", "--client", "codex", "--project"]) == 0
    file = tmp_path / ".codex/hooks.json"
    file.write_text(file.read_text().replace(sys.executable, "/gone/python"))
    capsys.readouterr()
    _, rows = told(tmp_path, capsys, monkeypatch)
    assert (rows["hooks"]["mend"], rows["hooks"]["safe"]) == ("harness hooks install --client codex --project", False)
