"""The replay agent: plays a recorded session again, with the same events and the same changes of files.

For trying a configuration of the harness without a model: budgets, verification, hooks and rules meet exactly what an
agent once did. It talks to nobody and runs none of the recorded commands. ``cassette`` is the format; the recorder
stands in ``supervision``, which hears every agent.
"""

import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.events import Event, Finished, Text
from agent_harness.agents.replay import cassette
from agent_harness.errors import ConfigurationError, HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git

__all__ = ["ReplayAgent"]

PACES = ("fast", "recorded")


class ReplayAgent(Agent):
    """Plays the cassette at ``path``, or the session's own one where ``path`` is a folder of cassettes."""

    name = "replay"
    capabilities = Capabilities(usage=True)

    def __init__(self, path: Path, pace: str = "fast") -> None:
        self.path = path
        self.pace = pace

    @classmethod
    def from_words(cls, text: str) -> "ReplayAgent":
        """The agent of ``replay:FILE``, relative to the current folder."""
        return cls(Path(text).absolute())

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "ReplayAgent":
        """The agent of ``agent: {kind: replay, file: FILE}``; ``pace: recorded`` keeps the pauses of the recording."""
        unknown = sorted(set(settings) - {"file", "pace"})
        if unknown:
            raise ConfigurationError(
                f"agent.{unknown[0]}: a replay agent has no such setting; it has `file` and `pace`"
            )
        file, pace = settings.get("file"), settings.get("pace", "fast")
        if not isinstance(file, str) or not file:
            raise ConfigurationError("agent.file must name a recording", hint="agent: {kind: replay, file: FILE}")
        if pace not in PACES:
            raise ConfigurationError(f"agent.pace must be one of {', '.join(PACES)}")
        return cls((root or Path.cwd()) / file, pace)

    def problem(self) -> str | None:
        """Why nothing can be played."""
        return None if self.path.exists() else f"there is no recording at {self.path}"

    def start(self, brief: Brief) -> Turn:
        """Plays the turn that has this round's number. ``ConfigurationError`` when there is no such recording."""
        turns = cassette.read(cassette.find(self.path, brief.session))
        if brief.round >= len(turns):
            return ReplayTurn(brief, _nothing_more(len(turns)), recorded_pace=False)
        return ReplayTurn(brief, turns[brief.round], recorded_pace=self.pace == "recorded")


class ReplayTurn(Turn):
    """One turn of a recording, played inside this process; the files change before its last event."""

    def __init__(self, brief: Brief, recorded: cassette.Recorded, *, recorded_pace: bool) -> None:
        self._brief = brief
        self._events = deque(recorded.events)
        self._changes = deque(recorded.changes)
        self._began = time.monotonic()
        self._recorded_pace = recorded_pace
        self._ended = False

    @property
    def ended(self) -> bool:
        """True once ``Finished`` was handed out."""
        return self._ended

    def next_event(self, timeout_seconds: float) -> Event | None:
        """The next recorded event, at once or in its time."""
        if self._ended or not self._due(timeout_seconds):
            return None
        event = (
            self._events.popleft()[1] if self._events else Finished(ok=False, message="the recording breaks off here")
        )
        if isinstance(event, Finished):
            problem = self._change_files()
            if problem is not None:
                self._events.appendleft((0.0, Finished(ok=event.ok and not problem.fatal, message=event.message)))
                return Text(problem.text)
            self._ended = True
        return event

    def stop(self, grace_seconds: float = 5.0) -> None:
        """Ends the turn; what it had not yet changed stays as it is."""
        if not self._ended:
            self._changes.clear()
            self._events = deque([(0.0, Finished(ok=False, message="stopped"))])

    def _due(self, timeout_seconds: float) -> bool:
        if not self._recorded_pace or not self._events:
            return True
        wait = self._began + self._events[0][0] * clock.time_scale() - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, max(0.0, timeout_seconds)))
        return wait <= timeout_seconds

    def _change_files(self) -> "_Problem | None":
        """Does the next steps again; what could not be done is told once."""
        git = Git(self._brief.cwd)
        while self._changes:
            step = self._changes.popleft()
            try:
                missing = cassette.apply(git, step.files, step.message)
            except HarnessError as error:
                self._changes.clear()
                return _Problem(error.message, fatal=True)
            if missing:
                return _Problem(f"not in the recording: {', '.join(missing[:10])}", fatal=False)
        return None


class _Problem:
    def __init__(self, text: str, *, fatal: bool) -> None:
        self.text = text
        self.fatal = fatal


def _nothing_more(turns: int) -> cassette.Recorded:
    message = f"the recording has {turns} turn{'' if turns == 1 else 's'}, and this would be one more"
    return cassette.Recorded(events=[(0.0, Finished(ok=False, message=message))])
