"""``harness setup``: step by step on a terminal, silent in scripts, and nothing twice."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent_harness.cli import app
from agent_harness.kernel.git import own_output
from agent_harness.kernel.git.locate import locate
from agent_harness.testing.repo import Repo


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, with one client on PATH."""
    folder, tools = tmp_path / "project", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    claude = tools / "claude"
    claude.write_text("#!/bin/sh\nexit 0\n")
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.chdir(folder)
    return folder


def setup(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert app.main(["setup", "--json", *words]) == code
    return json.loads(capsys.readouterr().out)


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {step["step"]: step["state"] for step in answer["steps"]}


def test_without_a_terminal_and_without_yes_it_only_says_the_plan(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = setup(capsys)
    assert states(answer) == {"agent": "there", "project": "planned", "hooks": "left"}
    assert (answer["changed"], answer["next"]) == (False, "harness setup --yes --kind tasks")
    assert list(here.iterdir()) == []


def test_with_yes_it_makes_a_list_and_registers_hooks_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked_for_nothing = setup(capsys, "--yes")
    assert (states(asked_for_nothing)["project"], asked_for_nothing["changed"]) == ("planned", False)
    assert list(here.iterdir()) == [], "no repository, no list and no hooks unasked"
    unhooked = states(setup(capsys, "--yes", "--kind", "tasks"))
    assert unhooked == {"agent": "there", "repository": "done", "project": "done", "hooks": "planned"}
    for name in (".git", "harness-tasks.json"):
        (shutil.rmtree if name == ".git" else os.remove)(here / name)
    answer = setup(capsys, "--yes", "--kind", "tasks", "--hooks")
    assert states(answer) == {"agent": "there", "repository": "done", "project": "done", "hooks": "done"}
    assert (here / ".git/HEAD").is_file()
    assert (here / "harness-tasks.json").is_file()
    settings = Path.home() / ".claude/settings.json"
    assert "agent" in settings.read_text()
    assert answer["next"].startswith("harness add ")
    before = (settings.read_bytes(), (here / "harness-tasks.json").read_bytes())
    again = setup(capsys, "--yes")
    assert states(again) == {"agent": "there", "project": "there", "hooks": "there"}
    assert again["changed"] is False
    assert (settings.read_bytes(), (here / "harness-tasks.json").read_bytes()) == before


def test_what_is_not_wanted_is_left(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = setup(capsys, "--yes", "--kind", "none", "--no-hooks", "--agent", "command:no-such-program-here")
    assert set(states(answer).values()) == {"left"}
    assert list(here.iterdir()) == []
    assert setup(capsys, "--kind", "features", "--yes")["steps"][1]["state"] == "planned"
    assert setup(capsys, "--spec", "no-such-file", code=2)["error"]["code"] == "usage"
    (here / "SPEC.md").write_text("x")
    assert setup(capsys, "--spec", "SPEC.md", "--kind", "tasks", code=2)["error"]["code"] == "usage"


def test_on_a_terminal_a_person_is_asked_and_may_say_no(here: Path) -> None:
    words = ["-m", "agent_harness.cli.main", "setup"]
    with pexpect.spawn(sys.executable, words, cwd=str(here), encoding="utf-8", timeout=120) as terminal:
        terminal.expect("Kind of project to create here")
        terminal.sendline("tasks")
        terminal.expect("Create a task list in")
        terminal.sendline("y")
        terminal.expect("Without a git repository no attempt can be rolled back.*Create one here")  # FIX-16
        terminal.sendline("n")
        terminal.expect("repository: without a git repository .*: git init")
        terminal.expect("Register the hooks with claude-code")
        terminal.sendline("n")
        terminal.expect("next: harness add")
        terminal.expect(pexpect.EOF)
    assert (here / "harness-tasks.json").is_file()
    assert not (Path.home() / ".claude/settings.json").exists()


def test_whoever_stops_answering_changes_nothing(here: Path) -> None:
    words = ["-m", "agent_harness.cli.main", "setup"]
    with pexpect.spawn(sys.executable, words, cwd=str(here), encoding="utf-8", timeout=120) as terminal:
        terminal.expect("Kind of project to create here")
        terminal.send("\x03")
        terminal.expect(pexpect.EOF)
        terminal.close()
    assert terminal.exitstatus == 130
    assert list(here.iterdir()) == []


# ---- and out again


def everything(folder: Path) -> dict[str, bytes]:
    """Return each file with its content, except git's records of commits and refs."""
    dull = (".git/index", ".git/COMMIT_EDITMSG", ".git/objects/", ".git/logs/", ".git/refs/heads/")
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: text for name, text in files.items() if not name.startswith(dull)}


MCP = '{"mcpServers": {"harness": {"command": "/opt/bin/harness", "args": ["mcp"]}, "mine": {"command": "m"}}}'


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Repo, dict[str, bytes]]:
    """Return a task list that was worked on, with hooks in the project, and every file as it was before."""
    repo = Repo(tmp_path / "project")
    repo.write("code.py", "x = 1\n")
    repo.write(".claude/settings.local.json", '{"model":"opus"}')
    repo.write(".mcp.json", '{"mcpServers": {"mine": {"command": "m"}}}')
    repo.write(".gitignore", ".claude\n")
    repo.commit("First")
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/exclude").write_text("# mine\n*.tmp\n")
    before = everything(repo.path)
    (repo.path / ".mcp.json").write_text(MCP)
    monkeypatch.chdir(repo.path)
    place = locate(repo.path)
    assert place
    own_output.ignore(place, "/run.log", note=f"{own_output.PRINTED}\n")
    own_output.forget(str(repo.path / ".git/info/exclude"), ["/none-of-these"])
    assert "/run.log" in (repo.path / ".git/info/exclude").read_text(), "as when `harness run > run.log` was called"
    for words in (
        ["init", "."],
        ["add", "Make it", "--validate", "test -f done.txt"],
        ["run", "--agent", "command:touch done.txt"],
        ["hooks", "install", "--client", "claude-code", "--project"],
    ):
        assert app.main(words) == 0, words
    return repo, before


def uninstall(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert app.main(["uninstall", "--json", *words]) == code
    return json.loads(capsys.readouterr().out)


def test_all_of_ours_goes_out_of_a_project_and_every_file_is_as_it_was(
    worked: tuple[Repo, dict[str, bytes]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan, the logs and the state are elsewhere; the commit that an agent made stays."""
    repo, before = worked
    at_work = everything(repo.path)
    listed = uninstall(capsys, "--dry-run")
    assert (listed["changed"], listed["moved_to"]) == (False, None)
    assert everything(repo.path) == at_work
    assert not (Path(os.environ["HOME"]) / ".local/state/agent-harness/removed").exists()
    monkeypatch.setattr(sys, "stdin", None)
    assert uninstall(capsys, code=1)["changed"] is False
    assert everything(repo.path) == at_work
    taken = uninstall(capsys, "--yes")
    assert taken["rows"] == listed["rows"]
    assert everything(repo.path) == {**before, "done.txt": b""}
    assert repo.git("for-each-ref", "refs/harness").strip() == ""
    assert repo.git("status", "--short").strip() == ""
    plan = json.loads((Path(taken["moved_to"]) / "project/harness-tasks.json").read_text())
    assert plan["tasks"][0]["title"] == "Make it"
    assert uninstall(capsys, "--yes", code=4)["error"]["code"] == "not_a_project"


@pytest.mark.scenario
def test_work_that_was_taken_away_stays_unless_it_is_named(
    worked: tuple[Repo, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    repo, _ = worked
    (repo.path / ".codex").mkdir()
    (repo.path / ".codex/config.toml").write_text('[mcp_servers.harness]\ncommand = "harness"\nargs = ["mcp"]\n')
    app.main(["add", "Fail", "--validate", "false", "--max-attempts", "1"])
    app.main(["run", "--agent", "command:touch half.txt"])
    kept = repo.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue").split()
    assert kept
    rows = uninstall(capsys, "--dry-run")["rows"]
    assert {"how": "stays", "what": f"{kept[0]} (rescued work)"} in rows
    assert any(row["how"] == "stays" and row["what"].startswith(".codex/config.toml") for row in rows)
    assert {row["how"] for row in uninstall(capsys, "--dry-run", "--rescues")["rows"]} >= {"delete"}
    uninstall(capsys, "--yes")
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/harness").split() == kept


def test_nothing_is_taken_out_under_somebody_at_work(
    worked: tuple[Repo, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    repo, _ = worked
    app.main(["add", "Next", "--validate", "true"])
    assert app.main(["task", "claim"]) == 0
    at_work = everything(repo.path)
    assert uninstall(capsys, "--yes", code=5)["error"]["code"] == "busy"
    assert everything(repo.path) == at_work


def test_what_another_work_tree_needs_stays(
    worked: tuple[Repo, dict[str, bytes]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Ignored lines and refs are the repository's, and so another list's too."""
    repo, before = worked
    repo.git("worktree", "add", "-q", str(tmp_path / "other"))
    assert app.main(["init", str(tmp_path / "other")]) == 0
    rows = uninstall(capsys, "--yes")["rows"]
    assert any("another project here uses them" in row["what"] for row in rows)
    assert b"/harness-tasks.json" in (repo.path / ".git/info/exclude").read_bytes()
    assert not (repo.path / ".harness").exists()
    assert (repo.path / ".claude/settings.local.json").read_bytes() == before[".claude/settings.local.json"]


def test_a_long_task_is_its_own_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.json").write_text("{}")
    (tmp_path / "checkpoint.json").write_text("{}")
    refused = uninstall(capsys, "--yes", code=4)
    assert refused["error"]["hint"].startswith("rm -r ")
