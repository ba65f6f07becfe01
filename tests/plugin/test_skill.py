"""Every command that the skill names, run in the situation in which it names it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

SKILL = (files("agent_harness") / "plugin/skills/harness/SKILL.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


class Desk:
    """A git project with a task list of three tasks."""

    def __init__(self, root: Path, made: Path | None = None) -> None:
        self.root = root
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "CLAUDE"))},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "HARNESS_SESSION_ID": "the-session",
        }
        if made:
            shutil.copytree(made, root)
        else:
            self.make()

    def make(self) -> None:
        self.sh("git init -q -b main && git -c user.name=P -c user.email=p@localhost commit -q --allow-empty -m Begin")
        self.sh("harness init .")
        for number in (1, 2, 3):
            self.sh(f"harness add 'Task {number}' --validate 'test -s done-{number}'")

    def sh(self, command: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def claimed(self) -> None:
        self.sh("harness session start && harness task claim")

    def worked(self) -> None:
        self.claimed()
        (self.root / "done-1").write_text("yes\n")

    def interrupted(self) -> None:
        self.claimed()
        self.sh("harness task checkpoint task-001 1/3 'the first step'")
        state = json.loads((self.root / "harness-tasks.json").read_text())
        state["tasks"][0]["lease_expires_at"] = "2020-01-01T00:00:00Z"
        state["tasks"][0]["claimed_process"] = None
        (self.root / "harness-tasks.json").write_text(json.dumps(state))

    def rescued(self) -> None:
        self.worked()
        self.sh("harness task fail task-001 --category TEST_FAIL why")

    def nothing(self) -> None:
        """The list is as it was made."""


SITUATIONS: tuple[tuple[str, Callable[[Desk], None], tuple[int, ...]], ...] = (
    # what the command begins with, where it is run, and how it may end
    ("harness init", Desk.nothing, (0,)),
    ("harness add", Desk.nothing, (0,)),
    ("harness activate", Desk.nothing, (0,)),
    ("harness status", Desk.nothing, (0,)),
    ("harness doctor", Desk.nothing, (0,)),
    ("harness run", Desk.nothing, (0,)),
    ("harness session start", Desk.nothing, (0,)),
    ("harness session end", Desk.claimed, (0,)),
    ("harness task claim", Desk.nothing, (0,)),
    ("harness task next", Desk.nothing, (0,)),
    ("harness task checkpoint", Desk.claimed, (0,)),
    ("harness task renew", Desk.claimed, (0,)),
    ("harness task run-step", Desk.claimed, (0,)),
    ("harness task validate", Desk.worked, (0,)),
    ("harness task complete", Desk.worked, (0,)),
    ("harness task fail", Desk.worked, (0,)),
    ("harness task release", Desk.worked, (0,)),
    ("harness task rollback", Desk.worked, (0,)),
    ("harness task recover task", Desk.interrupted, (0,)),
    ("harness task recover", Desk.nothing, (0,)),
    ("harness rescue list", Desk.rescued, (0,)),
    ("harness rescue show", Desk.rescued, (0,)),
    ("git show REF", Desk.rescued, (0,)),
    ("grep", Desk.rescued, (0, 1)),
)

PLACES = {"PATH": ".", '"text"': '"text"', "CMD": "true", "REF": "refs/harness/rescue/task-001/1"}


def commands() -> list[str]:
    """Command lines of the fenced blocks, and of the text."""
    blocks = re.findall(r"```bash\n(.*?)```", SKILL, re.DOTALL)
    fenced = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    inline = re.findall(r"`((?:harness|git show) [^`]+)`", re.sub(r"```.*?```", "", SKILL, flags=re.DOTALL))
    return sorted({*fenced, *inline})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, to be copied."""
    return Desk(tmp_path_factory.mktemp("made")).root


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_skill_works(command: str, tmp_path: Path, made: Path) -> None:
    begins, situation, codes = next(row for row in SITUATIONS if command.startswith(row[0]))
    desk = Desk(tmp_path / "project", made)
    situation(desk)
    words = [PLACES.get(word, word) for word in shlex.split(command)]
    if begins == "harness run":
        words.append("--dry-run")
    if words[:2] == ["harness", "task"] and "--now" not in words and begins == "harness task recover task":
        desk.environ["HARNESS_SESSION_ID"] = "a-later-session"
        desk.sh("harness session start --take-over")
    done = desk.sh(shlex.join(words), codes)
    if words[:2] in (["harness", "task"], ["harness", "session"], ["harness", "rescue"]):
        assert json.loads(done.stdout)["next"].startswith("harness ")


def test_the_skill_is_short_and_has_a_front_matter() -> None:
    assert len(SKILL.splitlines()) < 400
    assert SKILL.startswith("---\nname: harness\ndescription: ")


def test_the_exit_codes_of_the_skill_are_those_of_the_product() -> None:
    from agent_harness.errors import EXIT_CODES

    table = SKILL.split("## Exit codes")[1].split("## Rules")[0]
    assert {int(found) for found in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {
        code for code, _ in EXIT_CODES if code != 130
    }
