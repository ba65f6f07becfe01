"""Agents for the tests of the supervisor: scripted ones, and one that can be steered and interrupted."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.events import Event, Finished, event_from_line
from agent_harness.agents.scripted import ScriptedAgent
from agent_harness.kernel import process
from agent_harness.supervision.monitors import ProjectFacts
from agent_harness.supervision.supervisor import Outcome, supervise

STEERABLE = """
import json, sys
for line in sys.stdin:
    word = line.strip()
    if word == "interrupt":
        print("interrupted")
        sys.exit(0)
    print("told:", word)
    if word.startswith(("Still stuck", "IMPORTANT", "You've hit")):
        sys.exit(0)
"""


class SteeredTurn(Turn):
    """Turn of a program that reads messages from its open stdin and repeats them."""

    def __init__(self, running: process.Running, first: list[Mapping[str, Any]]) -> None:
        self._running = running
        self._first = [event_from_line(json.dumps(record)) for record in first]
        self._over = False

    @property
    def ended(self) -> bool:
        return self._over

    @property
    def process(self) -> Mapping[str, object]:
        return self._running.record

    def next_event(self, timeout_seconds: float) -> Event | None:
        if self._first:
            return self._first.pop(0)
        line = None if self._over else self._running.read_line(timeout_seconds)
        if line is not None:
            return event_from_line(line.decode())
        if self._running.at_end and not self._over:
            self._over = True
            return Finished(ok=self._running.exit_code == 0, exit_code=self._running.exit_code)
        return None

    def steer(self, text: str) -> bool:
        return self._running.write(text.replace("\n", " ").encode() + b"\n")

    def interrupt(self) -> bool:
        return self._running.write(b"interrupt\n")

    def stop(self, grace_seconds: float = 5.0) -> None:
        self._running.stop(grace_seconds)


class SteeredAgent(Agent):
    """Agent that yields events, then reads messages until it is interrupted or gets one that ends it."""

    name = "steered"
    capabilities = Capabilities(steer=True, interrupt=True, usage=True)

    def __init__(self, *events: Mapping[str, Any]) -> None:
        self._events = list(events)

    def start(self, brief: Brief) -> Turn:
        command = [sys.executable, "-u", "-c", STEERABLE]
        env = process.scrubbed_environment()
        return SteeredTurn(process.start(command, cwd=brief.cwd, env=env, run_id=brief.run_id), self._events)


@dataclass
class Bench:
    """Runner of one supervised turn in a separate folder."""

    folder: Path
    run_id: str = field(default_factory=lambda: os.urandom(16).hex())
    started: list[Mapping[str, object]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def transcript(self) -> Path:
        return self.folder / "logs" / "transcript.txt"

    @property
    def written(self) -> str:
        return self.transcript.read_text()

    def brief(self, **changes: Any) -> Brief:
        given: dict[str, Any] = {
            "prompt": "go",
            "cwd": self.folder,
            "session": 1,
            "prompt_type": "coding",
            "run_id": self.run_id,
        }
        return Brief(**(given | changes))

    def script(self, *steps: Any) -> ScriptedAgent:
        path = self.folder / "play.json"
        path.write_text(json.dumps({"turns": [{"do": list(steps)}]}))
        return ScriptedAgent(path)

    def run(self, agent: Agent, *monitors: Any, **options: Any) -> Outcome:
        given: dict[str, Any] = {
            "monitors": monitors,
            "transcript": self.transcript,
            "on_started": self.started.append,
            "on_event": self.events.append,
            "facts": ProjectFacts,
            "grace_seconds": 0.5,
        }
        brief = options.pop("brief", None) or self.brief()
        return supervise(agent, brief, **(given | options))

    def play(self, *steps: Any, monitors: Any = (), **options: Any) -> Outcome:
        return self.run(self.script(*steps), *monitors, **options)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def steered() -> Callable[..., SteeredAgent]:
    return SteeredAgent
