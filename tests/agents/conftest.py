"""A small project, and the ways to run one turn of an agent in it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.base import Agent, Brief
from agent_harness.agents.events import Event, Text, Usage, event_from_line
from agent_harness.testing.agent_conformance import events_of
from agent_harness.testing.repo import Repo

NAMES = ("add", "sub", "mul", "div", "pow", "report")
STUB = 'import pytest\n\n\ndef test_{name}():\n    pytest.fail("Not implemented")\n'


def feature(number: int, name: str) -> dict[str, Any]:
    return {
        "id": number,
        "category": "functional",
        "description": f"User can {name} two numbers",
        "test_file": f"tests/e2e/test_{name}.py",
        "verification_steps": ["one", "two"],
        "passes": False,
    }


@dataclass
class Played:
    """Result of one turn of a script."""

    status: int
    text: str  # stdout
    errors: str

    @property
    def events(self) -> list[Event]:
        return [event_from_line(line) for line in self.text.splitlines()]

    @property
    def said(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, Text))

    @property
    def usage(self) -> list[Usage]:
        return [event for event in self.events if isinstance(event, Usage)]


@dataclass
class Calc:
    """A git repository with six features, all of them stubs."""

    root: Path
    scripts: Path

    def play(self, script: Any, *, prompt: str = "do it", suffix: str = ".json", **occasion: Any) -> Played:
        """Play one turn of a script, given as text or as its value."""
        path = self.scripts / f"script{suffix}"
        path.write_text(script if isinstance(script, str) else json.dumps(script))
        return self.play_file(path, prompt=prompt, **occasion)

    def do(self, *steps: Any, **options: Any) -> Played:
        """Play a script of one entry with these steps; ``agent`` may be among the options."""
        agent = options.pop("agent", {})
        return self.play({"agent": agent, "turns": [{"do": list(steps)}]}, **options)

    def play_file(self, path: Path, *, prompt: str = "do it", **occasion: Any) -> Played:
        told = {"prompt_type": "coding", "session": 1, "round": 0, "feature_id": 1} | occasion
        environ = {f"HARNESS_{name.upper()}": str(value) for name, value in told.items() if value is not None}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "agent_harness.agents.scripted", str(path)],
            cwd=self.root,
            env=os.environ | environ | {"HARNESS_PROJECT_DIR": str(self.root)},
            input=prompt.encode(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Played(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode())

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def passing(self) -> list[int]:
        return [one["id"] for one in json.loads(self.read("features.json"))["features"] if one["passes"]]

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def calc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calc:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the agent's own pytest starts faster
    features = [feature(number, name) for number, name in enumerate(NAMES, 1)]
    sources = {
        "features.json": json.dumps({"project": "calc", "features": features}, indent=2) + "\n",
        "src/calc.py": '"""A calculator."""\n',
        "conftest.py": 'import sys\n\nsys.path.insert(0, "src")\n',
        "claude-progress.txt": "CLAUDE PROGRESS LOG - calc\n",
        ".gitignore": "__pycache__/\n.pytest_cache/\n.harness/\n",
        **{f"tests/e2e/test_{name}.py": STUB.format(name=name) for name in NAMES},
    }
    Repo.with_files(tmp_path / "calc", sources, message="start")
    project = Calc(tmp_path / "calc", tmp_path / "scripts")
    project.scripts.mkdir()
    return project


@pytest.fixture
def brief(tmp_path: Path) -> Callable[..., Brief]:
    """Return a brief for a turn in a separate folder."""

    def make(**changes: Any) -> Brief:
        given: dict[str, Any] = {
            "prompt": "do it",
            "cwd": tmp_path,
            "session": 7,
            "prompt_type": "coding",
            "run_id": os.urandom(16).hex(),
        }
        return Brief(**(given | changes))

    return make


@pytest.fixture
def turn_of() -> Callable[[Agent, Brief], list[Event]]:
    """Return every event of one turn."""

    def run(agent: Agent, brief: Brief) -> list[Event]:
        turn = agent.start(brief)
        try:
            return events_of(turn)
        finally:
            turn.stop()

    return run


@pytest.fixture
def python() -> Callable[[str], Mapping[str, Any]]:
    """Return the settings of a command agent that runs a piece of Python."""
    return lambda text: {"command": [sys.executable, "-u", "-c", text]}
