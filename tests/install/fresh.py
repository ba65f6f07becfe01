"""A machine that has never seen the project, as far as a folder can be one: a home, an installer, and wheels to take.

What runs there gets none of the caller's variables, none of its settings of pip and uv, no name for git, and reaches
no network: packages come from a folder of wheels.
"""

import os
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from agent_harness.testing import CommandResult
from agent_harness.testing.repo import Repo

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / ".tools" / "install"
CLAUDE = Path(__file__).with_name("claude_stand_in.py")
INSTALLERS = {"uv": ("uv", "tool", "install"), "pipx": ("pipx", "install")}
"""Each installer → the words that install a program with it."""
NOWHERE = "http://127.0.0.1:9"
INTERPRETER = Path(getattr(sys, "_base_executable", sys.executable))


def fetched() -> str | None:
    """Sees to the wheels of ``requirements/install.txt``; what went wrong, or ``None``.

    ``Unreachable`` where there is no registry to ask, which no pin can be blamed for.
    """
    script = [sys.executable, str(ROOT / "scripts" / "tools.py"), "--wheels", "install"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    probe = [sys.executable, "-m", "pip", "index", "versions", "pip", "-qq", "--retries", "0"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        raise Unreachable("the package registry cannot be reached, and the wheels are not here yet")
    return done.stderr.strip()


class Unreachable(Exception):
    """There is no package registry within reach."""


class Machine:
    """A fresh home in ``folder``, whose person has ``installer`` on PATH and no other program of ours."""

    def __init__(self, folder: Path, installer: str) -> None:
        self.home, self.installer = folder / "home", installer
        self.typed: list[Sequence[str]] = []
        (self.home / "tmp").mkdir(parents=True)
        (self.home / ".local/bin").mkdir(parents=True)
        self._tools = folder / "tools"
        venv.create(self._tools, with_pip=False, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        into = ["--python", str(self._tools / "bin/python"), "install", installer]
        subprocess.run([*pip, *into], env=self.variables, check=True)

    @cached_property
    def variables(self) -> dict[str, str]:
        """All that a program gets to know."""
        before = [self.home / ".local/bin", self._tools / "bin", INTERPRETER.parent]
        rest = [each for each in os.environ["PATH"].split(os.pathsep) if not Path(each).is_relative_to(ROOT)]
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "PATH": os.pathsep.join([*map(str, before), *rest]),
            "LC_ALL": "C.UTF-8",
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(WHEELS),
            "UV_NO_CONFIG": "1",
            "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": str(WHEELS),
            "UV_OFFLINE": "1",
            "UV_PYTHON": str(INTERPRETER),
            "UV_PYTHON_DOWNLOADS": "never",
            "PIPX_DEFAULT_PYTHON": str(INTERPRETER),
        }

    def type(self, *words: str, cwd: Path | None = None, **variables: str) -> CommandResult:
        """What a command of the person gives, with these variables besides; each counts."""
        self.typed.append(words)
        done = subprocess.run(
            words,
            cwd=cwd or self.home,
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def install(self, wheel: Path) -> CommandResult:
        """The one command that installs the project."""
        return self.type(*INSTALLERS[self.installer], str(wheel))


def first_task(folder: Path, wheel: Path) -> tuple[Machine, Repo, float]:
    """From a fresh machine to the first proven task: the machine, the person's project, and the seconds that it took.

    Claude Code is on PATH, or what answers the harness as it does; the project is a repository with a commit.
    """
    machine = Machine(folder, "uv")
    client = machine.home / ".local/bin/claude"
    client.write_text(f"#!{INTERPRETER}\n{CLAUDE.read_text()}")
    client.chmod(0o755)
    project = Repo(folder / "project").write("README.md", "A project.\n").commit("First")
    began = time.monotonic()
    for ran in (
        machine.install(wheel),
        machine.type(
            "harness", "add", "Say hello", "--validate", "python3 hello.py | grep -qx hello", cwd=project.path
        ),
        machine.type("harness", "run", cwd=project.path),
    ):
        assert ran.code == 0, ran
    return machine, project, time.monotonic() - began
