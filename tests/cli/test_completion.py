"""``harness completion``: a static script, tried in real shells; it asks the fast path for values of the folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from agent_harness.cli.backlog import WRITTEN
from agent_harness.cli.commands import COMMANDS
from agent_harness.cli.machine import completion, words
from agent_harness.testing import HARNESS, run_process
from agent_harness.testing.task_list_project import TaskListProject, task

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskListProject:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return TaskListProject(tmp_path / "list", task("task-001"), task("task-002"))


def replies(project: TaskListProject, *typed: str) -> list[str]:
    """Return bash's completions for this command line; the last word is being typed."""
    (project.root.parent / "complete.bash").write_text(completion.script("bash"))
    script = (
        'source ../complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _harness_complete; echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *typed], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("harness stat", ["status"]),
        ("harness run --wo", ["--workers"]),
        ("harness task cl", ["claim"]),
        ("harness task claim --dirty ", ["remember", "refuse"]),
        ("harness completion ", [*SHELLS]),
        ("harness import --from m", ["markdown"]),
        ("harness export --to t", ["taskmaster", "tasklist"]),
        ("harness notify t", ["test"]),
        ("harness queue h", ["hold"]),
        ("lth ver", ["verify"]),
        ("lth run --wor", ["--worker"]),
        ("harness why ", ["task-001", "task-002"]),
        ("harness task complete task-002", ["task-002"]),
        ("harness run --agent cla", ["claude-code"]),
        ("harness report --out ", []),  # files, as the shell completes them
        ("harness export --out ", []),
        ("harness why --output ", []),
        ("harness task claim --worker ", []),
        ("harness export --to ", [*WRITTEN]),
        ("harness export ", ["otel"]),
        ("harness why --full ", ["task-001", "task-002"]),
    ],
)
def test_bash_offers_what_may_stand_there(listed: TaskListProject, typed: str, found: list[str]) -> None:
    """F-HELP-3."""
    assert replies(listed, *typed.split(" ")) == found


def test_no_tab_runs_what_somebody_has_put_into_a_list(
    tmp_path: Path, listed: TaskListProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids are written by others: no shell expands them, and an id that is more than one shell word is not offered.

    The script is safe by itself too: ``harness`` is another program here, which offers any text.
    """
    file, odd = listed.root / "harness-tasks.json", ("`touch${IFS}ran`", "$(touch${IFS}ran)", "a;b", "--yes", "*", "~")
    raw = json.loads(file.read_text())
    file.write_text(json.dumps({**raw, "tasks": [*raw["tasks"], *(task(name) for name in odd)]}))
    assert replies(listed, "harness", "why", "") == ["task-001", "task-002"]
    assert not (listed.root / "ran").exists()

    other = tmp_path / "bin/harness"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nprintf '%s\\n' '`touch${IFS}ran`' '$(touch${IFS}ran)' task-009\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}{os.pathsep}{os.environ['PATH']}")
    assert "task-009" in replies(listed, "harness", "why", "")
    assert not (listed.root / "ran").exists()


def test_a_tab_completes_in_a_real_bash(listed: TaskListProject, tmp_path: Path) -> None:
    """The script is in bash's own folder, and is loaded on first use."""
    ran = run_process(
        [*HARNESS, "completion", "bash", "--install"], environ={**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    )
    assert ran.code == 0
    path = tmp_path / "bash-completion/completions/harness"
    assert f"echo 'source {path}' >> ~/.bashrc" in ran.out
    assert path.read_text() == path.with_name("lth").read_text() == completion.script("bash")
    env = {**os.environ, "PS1": "> ", "TERM": "dumb", "INPUTRC": "/dev/null"}
    with pexpect.spawn(
        "bash", ["--norc", "--noprofile"], cwd=str(listed.root), env=env, encoding="utf-8", timeout=60
    ) as shell:  # type: ignore[arg-type]
        shell.sendline(f"source {path}; PS1='ready'\" \"")
        shell.expect("ready ")
        shell.send("harness why task-002\x01\x0b")
        shell.send("harness comple\t")
        shell.expect_exact("harness completion ")
        shell.send("fi\t")
        shell.expect_exact("fish ")


OFFERED = [
    ("harness stat", ["status"]),
    ("harness run --wo", ["--workers"]),
    ("harness task claim --dirty re", ["refuse", "remember"]),
    ("harness completion ", sorted(SHELLS)),
    ("lth ver", ["verify"]),
    ("harness why ", ["task-001", "task-002"]),
    ("harness run --agent cla", ["claude-code"]),
    ("harness export --to be", ["beads"]),
    ("harness export --out harness-t", ["harness-tasks.json"]),
    ("harness report --out harness-t", ["harness-tasks.json"]),
]


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish on PATH")
def test_a_real_fish_offers_what_may_stand_there(listed: TaskListProject, tmp_path: Path) -> None:
    """F-HELP-3: the script is in fish's own folder, and is loaded on first use."""
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    assert run_process([*HARNESS, "completion", "fish", "--install"], environ=env).code == 0
    assert (tmp_path / "fish/completions/lth.fish").is_file()
    asked = "; ".join(f"complete -C '{typed}' | cut -f1; echo; echo ." for typed, _ in OFFERED)
    done = subprocess.run(["fish", "-c", asked], cwd=listed.root, env=env, capture_output=True, text=True, check=True)
    found = [sorted(block.split()) for block in done.stdout.split("\n.\n")[:-1]]
    assert found == [words for _, words in OFFERED], done


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh on PATH")
def test_a_tab_completes_in_a_real_zsh(listed: TaskListProject, tmp_path: Path) -> None:
    """F-HELP-3: the first TAB loads it, from a folder of zsh's own search path; each further one is as good."""
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "TERM": "dumb", "ZDOTDIR": str(tmp_path)}
    ran = run_process([*HARNESS, "completion", "zsh", "--install"], environ=env)
    assert "fpath=(" in ran.out
    (tmp_path / ".zshrc").write_text(
        f"fpath=({tmp_path}/zsh/site-functions $fpath)\nautoload -Uz compinit && compinit -u -d {tmp_path}/dump\n"
        "unsetopt zle_bracketed_paste prompt_sp automenu; setopt no_beep; zstyle ':completion:*' list-grouped no\n"
        "PS1='rea''dy '\n"
    )
    with pexpect.spawn(
        "zsh", ["-i"], cwd=str(listed.root), env=env, encoding="utf-8", timeout=60, dimensions=(24, 200)
    ) as shell:  # type: ignore[arg-type]
        shell.expect("ready ")
        for typed, words in OFFERED:
            if len(words) == 1:
                shell.send(f"{typed}\t")
                shell.expect_exact(f"{typed.rpartition(' ')[0]} {words[0]} ")
                shell.send("\x15")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_the_script_and_the_shell_reads_it(shell: str, tmp_path: Path) -> None:
    text = completion.script(shell)
    assert text == completion.script(shell)
    assert len(text.splitlines()) <= {"fish": 800}.get(shell, 400)
    for name in COMMANDS:
        assert f" {name} " in f" {text} " or name in text
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(text)
        subprocess.run([shell, "-n", str(path)], check=True)


def test_the_walk_knows_every_command_and_starts_none() -> None:
    found = words.walk()
    assert {path.split()[1] for path in found if path.startswith("harness ")} == set(COMMANDS) - {"hook"}
    assert "--workers" in found["harness run"].options
    assert found["harness diff"].place == found["harness queue hold"].place == words.ITEMS
    assert found["harness task rollback"].place == words.ITEMS
    assert found["harness fleet why"].place == words.FILES
    assert found["harness hooks install"].options["--client"]


def test_the_fast_path_says_nothing_where_nothing_is_known(tmp_path: Path, listed: TaskListProject) -> None:
    assert run_process([*HARNESS, "__complete", "items"], cwd=tmp_path, environ=dict(os.environ)).out == ""
    (listed.root / "harness-tasks.json").write_text("{damaged")
    assert (listed.harness("__complete", "items").code, listed.harness("__complete", "nix").out) == (0, "")
    listed_names = listed.harness("__complete", "agents").out.split()
    assert "claude-code" in listed_names
