"""Whole runs with an agent that does its work and reaches for the machine on the side, in each kind of sandbox."""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agent_harness.errors import Refused
from agent_harness.kernel.process import sandbox
from agent_harness.testing import HARNESS, run_process
from agent_harness.testing.repo import Repo

ATTACKS = """
try() {{ ( eval "$2" ) >/dev/null 2>&1 && echo "$1" >> reached.txt; }}
try gitconfig 'git config --global core.hooksPath "$HOME/hooks"'
try program 'mkdir -p "$HOME/.local/bin" && printf "#!/bin/sh\\n" > "$HOME/.local/bin/git"'
try state 'for each in "$XDG_STATE_HOME"/agent-harness/projects/*; do echo forged > "$each/proven.json" || exit 1; done'
try package 'echo "# patched" >> {package}'
kill -9 $PPID 2>/dev/null  # who watches goes on
setsid sh -c 'exec env -i {daemon}' >/dev/null 2>&1 &
echo done > work.txt
"""


@pytest.fixture(params=[*sandbox.KINDS, "off"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind that this machine offers, and none."""
    monkeypatch.setenv("HARNESS_SANDBOX", request.param)
    try:
        sandbox.kind_for(sandbox.AUTO)
    except Refused:
        pytest.skip(f"this machine has no {request.param}")
    return request.param


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    repo = Repo.with_files(tmp_path / "project", {"README.md": "A project.\n"}, message="Start")
    yield repo


def harness(repo: Repo, *words: str) -> str:
    done = run_process([*HARNESS, *words], cwd=repo.path, environ=dict(os.environ))
    assert done.code == 0, done
    return done.out


def verdicts() -> list[dict[str, object]]:
    state = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects")
    (file,) = state.glob("*/verdicts.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.exhaustive
def test_an_agent_does_its_work_and_nothing_beside(kind: str, repo: Repo, tmp_path: Path) -> None:
    daemon = f"sleep 76543.{os.getpid()}"
    package = Path(sandbox.__file__)
    before = package.read_bytes()
    attacks = ATTACKS.format(package=shlex.quote(str(package)), daemon=daemon)
    if kind == "off":  # nothing would hold the rest back
        attacks = "\n".join(line for line in attacks.splitlines() if "package" not in line and "PPID" not in line)
    (tmp_path / "agent.sh").write_text(attacks)
    harness(repo, "init", ".")
    harness(repo, "add", "Do the work", "--validate", "grep -q done work.txt")
    harness(repo, "run", "--agent", f"command:sh {tmp_path}/agent.sh")
    listed = json.loads((repo.path / "harness-tasks.json").read_text())
    assert listed["tasks"][0]["status"] == "completed"
    assert package.read_bytes() == before
    reached = (repo.path / "reached.txt").read_text().split() if (repo.path / "reached.txt").exists() else []
    if kind == "off":
        assert {"gitconfig", "program"} <= set(reached)
        assert verdicts()[-1]["sandbox"] == "none"
    else:
        assert reached == []
        assert str(verdicts()[-1]["sandbox"]).startswith(kind)
    until = time.monotonic() + 10
    while _runs(daemon) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(daemon)


def _runs(command: str) -> bool:
    return any(each.info["cmdline"] == command.split() for each in psutil.process_iter(["cmdline"]))


@pytest.mark.exhaustive
def test_a_validation_reaches_nothing_outside(kind: str, repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "agent.sh").write_text("echo done > work.txt\n")
    home = os.environ["HOME"]  # a check's own is another one
    reach = f"""
import os, pathlib, socket, sys
for path in ({str(repo.path / "planted")!r}, {f"{home}/planted"!r}, {f"{home}/.gitconfig"!r}):
    try:
        open(path, "a").write("[x]\\n")
        sys.exit(f"written: {{path}}")
    except OSError:
        pass
pathlib.Path("here").write_text("x")
"""
    (tmp_path / "check.py").write_text(reach)
    harness(repo, "init", ".")
    harness(repo, "add", "Do the work", "--validate", f"{sys.executable} {tmp_path}/check.py")
    words = [*HARNESS, "run", "--agent", f"command:sh {tmp_path}/agent.sh"]
    done = run_process(words, cwd=repo.path, environ=dict(os.environ))
    listed = json.loads((repo.path / "harness-tasks.json").read_text())
    assert (listed["tasks"][0]["status"] == "completed") == (kind != "off"), done


def test_a_list_may_require_one_and_is_refused_without(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.sh").write_text("echo done > work.txt\n")
    harness(repo, "init", ".")
    harness(repo, "add", "Do the work", "--validate", "grep -q done work.txt")
    monkeypatch.setenv("HARNESS_SANDBOX", "bubblewrap")
    monkeypatch.setenv("PATH", _without_bwrap(tmp_path))
    done = run_process(
        [*HARNESS, "run", "--agent", f"command:sh {tmp_path}/agent.sh"], cwd=repo.path, environ=dict(os.environ)
    )
    assert done.code != 0
    assert "none works on this machine" in done.out + done.err
    assert "Traceback" not in done.err
    listed = json.loads((repo.path / "harness-tasks.json").read_text())
    assert listed["tasks"][0]["status"] == "pending"


def _without_bwrap(folder: Path) -> str:
    """A PATH with everything of this one but bwrap."""
    made = folder / "programs"
    made.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if program.name != "bwrap" and not (made / program.name).exists():
                (made / program.name).symlink_to(program)
    return str(made)
