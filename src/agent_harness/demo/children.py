"""Folder of one demo, and the child processes in this folder.

Each child process is a real ``harness`` command in a separate session, so that the demo can end and kill it. The
folder:

PATH/
  shorty/        the project that the agent builds; a git repository with .harness/ in it
    SPEC.md      its specification
  origin.git/    the remote for accepted work
  agent.yaml     the script of the scripted agent
  demo.log       all output of the harness
  python/        a Python with pytest, if this Python has no pytest, for example after `uv tool` or pipx"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from queue import Empty, SimpleQueue

from agent_harness.demo.story import printable
from agent_harness.errors import HarnessError, ToolMissing
from agent_harness.installation import command_for_package
from agent_harness.protocols.features.api import FeatureLayout

NAME = "shorty"


@dataclass(frozen=True)
class DemoLayout:
    root: Path

    @property
    def project(self) -> Path:
        return self.root / NAME

    @property
    def spec(self) -> Path:
        return self.project / "SPEC.md"

    @property
    def origin(self) -> Path:
        return self.root / "origin.git"

    @property
    def script(self) -> Path:
        return self.root / "agent.yaml"

    @property
    def log(self) -> Path:
        return self.root / "demo.log"

    @property
    def python(self) -> Path:
        return self.root / "python"

    @property
    def state(self) -> FeatureLayout:
        return FeatureLayout(self.project)


def sample() -> Traversable:
    """Return the folder with the bundled specification and script."""
    return resources.files("agent_harness.demo") / "sample"


def bundled_script() -> str:
    """Return the text of the bundled script, joined from one YAML file for each feature."""
    parts = sorted((p for p in (sample() / "script").iterdir() if p.name.endswith(".yaml")), key=lambda p: p.name)
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


_GRACE_SECONDS = 10.0
_PYTEST = "pytest>=8.4"
_HAS_PYTEST = "import pytest, sys; sys.exit(pytest.version_tuple < (8, 4))"


def require_git() -> None:
    if shutil.which("git") is None:
        raise ToolMissing("git is not installed", hint="install git, then: harness demo")


def has_pytest() -> bool:
    env = environment()
    python = shutil.which("python3", path=env["PATH"]) or sys.executable
    return subprocess.run([python, "-c", _HAS_PYTEST], capture_output=True, env=env, check=False).returncode == 0


def add_python(place: DemoLayout) -> None:
    """Create a virtual environment with pytest in the folder of the demo."""
    # if the installation fails, the demo's folder is removed
    python = str(place.python / "bin" / "python")
    if uv := shutil.which("uv"):
        steps = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(place.python)],
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, _PYTEST],
        ]
    else:
        steps = [
            [sys.executable, "-m", "venv", str(place.python)],
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _PYTEST],
        ]
    for step in steps:
        done = subprocess.run(
            step, cwd=place.root, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode != 0:
            shutil.rmtree(place.root)
            raise ToolMissing(
                "The program that the demo builds is tested with pytest 8.4 or newer, which this Python does not have, "
                "and it cannot be fetched",
                hint=f"{command_for_package(_PYTEST)}, then: harness demo",
            )


def environment(place: DemoLayout | None = None) -> dict[str, str]:
    """Return the environment for a child process. Omit the user's harness settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "GIT_", "PYTEST_"))}
    own = [str(place.python / "bin")] if place is not None and place.python.exists() else []
    kept["PATH"] = os.pathsep.join([*own, str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    kept.update(NO_COLOR="1", PYTHONUNBUFFERED="1")
    if place is not None:
        kept["HARNESS_AGENT"] = f"scripted:{place.script}"
    return kept


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode != 0:
        said = printable(done.stderr.decode("utf-8", "replace"))
        raise HarnessError(f"git {words[0]} failed in {folder}: {said}")
    return done.stdout.decode("utf-8", "replace")


class Child:
    """Running ``harness`` command. Its output lines can be read without blocking."""

    def __init__(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path) -> None:
        self.arguments = tuple(arguments)
        self._log = log
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agent_harness.cli.main", *arguments],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code of the command, or ``None`` while it runs."""
        return self._process.poll()

    @property
    def over(self) -> bool:
        return self.exit_code is not None and not self._reader.is_alive() and self._lines.empty()

    def lines(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self._lines.get_nowait())
            except Empty:
                return found

    def kill(self) -> None:
        """Kill only the harness process, and wait for its end."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Send SIGINT, SIGTERM and SIGKILL in turn until the command has exited."""
        for way, patience in ((signal.SIGINT, _GRACE_SECONDS), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
            if self.exit_code is not None:
                return
            self._process.send_signal(way)
            try:
                self._process.wait(patience)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C: go on to the next signal
                continue

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with stream, self._log.open("ab") as log:
            for line in stream:
                log.write(line)
                log.flush()
                self._lines.put(line.decode("utf-8", "replace").rstrip())
