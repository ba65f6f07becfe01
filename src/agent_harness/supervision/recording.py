"""Puts a session on a cassette while it runs: events with their times, redacted, and what became of the files.

Recording is never in the way: what cannot be written ends the recording, never the session (``problem`` says why).
Cost: one line for each event, and two looks at the work tree for each turn.
"""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Brief
from agent_harness.agents.events import Event, Finished, Text, record_of
from agent_harness.agents.replay import cassette
from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git
from agent_harness.kernel.redact import redact
from agent_harness.supervision.transcript import KeyMask

LIMIT_BYTES = 16_000_000  # of one cassette; beyond it only endings and files are written
TEXT_LIMIT_CHARACTERS = 50_000  # of one text inside an event


class Recording:
    """Records the turns of one session at ``path``; ``tree`` gives the tree of the files as they are now."""

    def __init__(self, path: Path, git: Git | None = None, tree: Callable[[], str | None] | None = None) -> None:
        self.problem: str | None = None
        self._path = path
        self._folder = path.parent.resolve()
        self._git = git
        self._tree = tree
        self._mask = KeyMask()
        self._before: tuple[str, str | None] | None = None  # tree and HEAD when the turn began
        self._began = 0.0
        self._size = 0

    def begin(self, agent: str, brief: Brief) -> None:
        """A turn is about to start."""
        self._began = time.monotonic()
        if not self._path.exists():
            facts = {
                "session": brief.session,
                "prompt_type": brief.prompt_type,
                "feature_id": brief.feature_id,
                "task_id": brief.task_id,
                "model": brief.model,
            }
            self._write(
                {
                    "cassette": cassette.VERSION,
                    "agent": agent,
                    **{name: value for name, value in facts.items() if value is not None},
                    "at": clock.timestamp(),
                }
            )
        digest = hashlib.sha256(brief.prompt.encode("utf-8", "replace")).hexdigest()
        self._write({"turn": brief.round, "prompt_characters": len(brief.prompt), "prompt_digest": f"sha256:{digest}"})
        self._before = self._look()

    def event(self, event: Event) -> None:
        """The agent said or did something; how it ended is written by ``close``."""
        if isinstance(event, Finished) or self._size > LIMIT_BYTES:
            return
        record = record_of(Text(self._mask.mask(event.text)) if isinstance(event, Text) else event)
        self._write({"at": self._at(), "event": _redacted(record)})

    def told(self, text: str) -> None:
        """The harness told the agent something."""
        self._write({"at": self._at(), "told": redact(text)})

    def close(self, reason: str, *, ok: bool, message: str) -> None:
        """The turn is over, and nothing of the agent runs any more."""
        for step in self._steps():
            self._write(step)
        said = redact(message) if reason == "finished" else f"ended by the harness: {reason}"
        self._write({"at": self._at(), "ended": reason, "ok": ok, "message": said})

    def _steps(self) -> list[dict[str, Any]]:
        before, after = self._before, self._look()
        if self._git is None or before is None or after is None:
            return []
        try:
            return cassette.steps(self._git, before[0], after[0], before[1], after[1])
        except HarnessError as error:
            self.problem = f"the recording lacks what became of the files: {error.message}"
            return []

    def _look(self) -> tuple[str, str | None] | None:
        if self._git is None or self._tree is None:
            return None
        try:
            tree = self._tree()
            return (tree, self._git.head()) if tree else None
        except HarnessError as error:
            self.problem = f"the recording lacks what became of the files: {error.message}"
            return None

    def _write(self, record: dict[str, Any]) -> None:
        if self._path.is_symlink() or self._path.parent.resolve() != self._folder:
            self.problem = f"no recording: {self._path} leads elsewhere through a link"
            return
        try:
            cassette.append(self._path, record)
            self._size = self._path.stat().st_size
        except (HarnessError, OSError) as error:
            self.problem = f"no recording: {getattr(error, 'message', error)}"

    def _at(self) -> float:
        return round(time.monotonic() - self._began, 3)


def _redacted(value: object) -> Any:
    if isinstance(value, str):
        return redact(value if len(value) <= TEXT_LIMIT_CHARACTERS else f"{value[:TEXT_LIMIT_CHARACTERS]} [...]")
    if isinstance(value, dict):
        return {redact(str(name)): _redacted(one) for name, one in value.items()}
    if isinstance(value, list):
        items: list[object] = value
        return [_redacted(one) for one in items]
    return value
