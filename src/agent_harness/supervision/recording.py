"""Two records of a session: a transcript for the user, and a cassette that can be replayed.

Secrets are redacted in both records. After a write error, the record ends but the session continues. The record's
``problem`` contains the reason."""

import hashlib
import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_harness.agents import replay
from agent_harness.agents.base import Brief
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage, record_of
from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, journal
from agent_harness.kernel.git import Git
from agent_harness.kernel.redact import MASK, redact

LIMIT_BYTES = 16_000_000  # of one cassette; beyond it only endings and files are written
TEXT_LIMIT_CHARACTERS = 50_000  # of one text inside an event


class Recording:
    """Recording of a session's turns in a file, with events, times and file changes."""

    def __init__(
        self,
        path: Path,
        git: Git | None = None,
        tree: Callable[[], str | None] | None = None,
        *,
        kept: Sequence[str] = (),
    ) -> None:
        self.problem: str | None = None
        self._kept = list(kept)
        self._path = path
        self._folder = path.parent.resolve()
        self._git = git
        self._tree = tree
        self._mask = KeyMask()
        self._before: tuple[str, str | None] | None = None  # tree and HEAD when the turn began
        self._began = 0.0
        self._size = 0

    def begin(self, agent: str, brief: Brief) -> None:
        """Record the start of a turn, with a digest of the prompt instead of its text."""
        self._began = time.monotonic()
        self._before = self._look()
        if not self._path.exists():
            facts = {
                "session": brief.session,
                "prompt_type": brief.prompt_type,
                "feature_id": brief.feature_id,
                "task_id": brief.task_id,
                "model": brief.model if brief.model_chosen else None,  # a default may have been left aside
                "base": self._before[1] if self._before else None,
                "kept": self._kept or None,
            }
            self._write(
                {
                    "cassette": replay.VERSION,
                    "agent": agent,
                    **{name: value for name, value in facts.items() if value is not None},
                    "at": clock.timestamp(),
                }
            )
        digest = hashlib.sha256(brief.prompt.encode("utf-8", "replace")).hexdigest()
        prompt = {"prompt_characters": len(brief.prompt), "prompt_digest": f"sha256:{digest}"}
        self._write({"turn": brief.round, "began": clock.timestamp(fraction=True), **prompt})

    def event(self, event: Event) -> None:
        """Record an event other than ``Finished``, which ``close`` records."""
        if isinstance(event, Finished) or self._size > LIMIT_BYTES:
            return
        record = record_of(Text(self._mask.mask(event.text)) if isinstance(event, Text) else event)
        self._write({"at": self._at(), "event": _redacted(record)})

    def told(self, text: str) -> None:
        self._write({"at": self._at(), "told": redact(text)})

    def close(self, reason: str, *, ok: bool, message: str) -> None:
        """Record the turn's file changes and the end of the turn."""
        # only after all processes of the agent have ended
        for step in self._steps():
            self._write(step)
        said = redact(message) if reason == "finished" else f"ended by the harness: {reason}"
        self._write({"at": self._at(), "ended": reason, "ok": ok, "message": said})

    def _steps(self) -> list[dict[str, Any]]:
        before, after = self._before, self._look()
        if self._git is None or before is None or after is None:
            return []
        try:
            return replay.steps(self._git, before[0], after[0], before[1], after[1])
        except HarnessError as error:
            self.problem = f"the recording does not contain the changed files: {error.message}"
            return []

    def _look(self) -> tuple[str, str | None] | None:
        if self._git is None or self._tree is None:
            return None
        try:
            tree = self._tree()
            return (tree, self._git.head()) if tree else None
        except HarnessError as error:
            self.problem = f"the recording does not contain the changed files: {error.message}"
            return None

    def _write(self, record: dict[str, Any]) -> None:
        if self._path.is_symlink() or self._path.parent.resolve() != self._folder:
            self.problem = f"no recording: a link in {self._path} leads to another folder"
            return
        try:
            journal.append(self._path, record)
            self._size = self._path.stat().st_size
        except (HarnessError, OSError) as error:
            self.problem = f"no recording: {getattr(error, 'message', error)}"

    def _at(self) -> float:
        return round(time.monotonic() - self._began, 3)


def _redacted(value: object) -> Any:
    if isinstance(value, str):
        masked = redact(value)  # before it is cut: half a secret is one
        return masked if len(masked) <= TEXT_LIMIT_CHARACTERS else f"{masked[:TEXT_LIMIT_CHARACTERS]} [...]"
    if isinstance(value, dict):
        return {redact(str(name)): _redacted(one) for name, one in value.items()}
    if isinstance(value, list):
        items: list[object] = value
        return [_redacted(one) for one in items]
    return value


_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = 400  # after so many lines without its end, it was no key
_FIRST_WORD = re.compile(r"\S{0,8192}\s")
_LEAST_HEAD = 65_536


class TextTail:
    """Buffer for the last ``limit`` characters of a text that arrives in parts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._texts: deque[str] = deque()
        self._size = 0
        self.left_out = 0  # characters that were dropped

    def add(self, text: str) -> None:
        if len(text) > self._limit:
            kept = text[-self._limit :]
            begins = _FIRST_WORD.match(kept)  # half a word may be half a secret
            self.left_out += self._size + len(text) - len(kept) + (begins.end() if begins else len(kept))
            self._texts.clear()  # earlier text does not join on to one whose beginning is left out
            self._size = 0
            text = kept[begins.end() :] if begins else ""
        self._texts.append(text)
        self._size += len(text) + 1
        while self._size > self._limit + 1:
            dropped = self._texts.popleft()
            self._size -= len(dropped) + 1
            self.left_out += len(dropped) + 1

    def text(self) -> str:
        """Return the buffered text with secrets redacted."""
        return redact("\n".join(self._texts))


class KeyMask:
    """Filter that masks private keys in text, even if the text arrives line by line."""

    def __init__(self) -> None:
        self._lines_left = 0

    def mask(self, text: str) -> str:
        if not self._lines_left and "PRIVATE KEY" not in text:
            return text
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        if self._lines_left:
            ended = _KEY_ENDS.search(line)
            self._lines_left = 0 if ended else self._lines_left - 1
            return MASK + (line[ended.end() :] if ended else "")
        begun = _KEY_BEGINS.search(line)
        if begun and not _KEY_ENDS.search(line, begun.end()):
            self._lines_left = _KEY_LINES
            return line[: begun.start()] + MASK
        return line


class Transcript:
    """Session transcript as a text file, which grows with each turn."""

    # beyond ``limit_bytes``, only the end of the text is written; after a write error, ``problem`` says why

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.problem: str | None = None
        self.left_out_bytes = 0
        self._mask = KeyMask()
        self._tail = TextTail(min(limit_bytes // 4, 262_144))
        self._descriptor = self._open(path)
        self._room = 0
        if self._descriptor is not None:
            used = os.fstat(self._descriptor).st_size
            self._room = max(limit_bytes - min(limit_bytes // 4, 262_144) - used, min(limit_bytes // 2, _LEAST_HEAD))

    def event(self, event: Event) -> None:
        self._put(rendered(event))

    def note(self, text: str) -> None:
        self._put(f"[harness] {text}")

    def close(self) -> None:
        """Write the buffered text, and close the file."""
        if self._descriptor is None:
            return
        if self._room <= 0:
            self.left_out_bytes = self._tail.left_out
            if self.left_out_bytes:
                self._write(f"[harness] ... {self.left_out_bytes} bytes of output left out here ...")
            self._write(self._tail.text())
        with suppress(OSError):
            if self._descriptor is not None:
                os.close(self._descriptor)
        self._descriptor = None

    def _put(self, text: str) -> None:
        if self._descriptor is None:
            return
        text = self._mask.mask(text)
        if self._room <= 0:
            self._tail.add(text)
            return
        text = redact(text)
        size = len(text.encode("utf-8", "replace")) + 1
        if size > self._room:
            self._room = 0
            self._tail.add(text)
        else:
            self._room -= size
            self._write(text)

    def _open(self, path: Path) -> int | None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, flags, 0o600)
        except OSError as error:
            self.problem = f"no transcript: {path}: {error.strerror}"
            return None

    def _write(self, text: str) -> None:
        data = memoryview((text + "\n").encode("utf-8", "replace"))
        try:
            while data and self._descriptor is not None:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self.problem = f"the transcript ends early: {error.strerror}"
            with suppress(OSError):
                if self._descriptor is not None:
                    os.close(self._descriptor)
            self._descriptor = None


def rendered(event: Event) -> str:
    if isinstance(event, Text):
        return event.text
    if isinstance(event, ToolCall):
        return f"[tool] {event.name} {json.dumps(event.input, ensure_ascii=False)}"
    if isinstance(event, ToolResult):
        return f"[result{' error' if event.is_error else ''}] {event.output}"
    if isinstance(event, Usage):
        usd = event.cost_usd if event.told_usd is None else event.told_usd
        cost = "" if usd is None else f" cost ${usd:.4f}{'' if event.told_usd is None else ' in all'}"
        return f"[usage] input {event.input_tokens} cached {event.cached_tokens} output {event.output_tokens}{cost}"
    if isinstance(event, RateLimited):
        until = event.resets_at or (f"{event.retry_after_seconds:g} s" if event.retry_after_seconds else "unknown")
        return f"[rate limited] {event.message} (until: {until})"
    status = "" if event.exit_code is None else f", exit status {event.exit_code}"
    reason = f": {event.message}" if event.message else ""
    return f"[end] {'ended its turn' if event.ok else 'ended badly'}{status}{reason}"
