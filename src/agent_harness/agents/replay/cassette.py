"""A cassette: one session of an agent as JSON lines, redacted, with times, readable after a crash.

    {"cassette": 1, "agent": "command", "session": 3, "prompt_type": "coding", ...}     first line
    {"turn": 0, "prompt_characters": 4211, "prompt_digest": "sha256:..."}               a turn begins
    {"at": 0.412, "event": {"type": "text", "text": "..."}}                             what the agent said or did
    {"at": 9.1, "told": "..."}                                                          what the harness told it
    {"files": [{"path": "src/a.py", "mode": "100644", "text": "..."}], "commit": "..."} what it left in the tree
    {"at": 12.7, "ended": "finished", "ok": true}                                       the turn is over

``at`` is seconds since the turn began. A file change without ``commit`` was not committed. A cassette that was cut off
plays as far as it goes.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.agents.events import Event, Finished, event_from
from agent_harness.errors import ConfigurationError
from agent_harness.kernel import journal

VERSION = 1
NAME = "session-{session}.cassette.jsonl"
"""How the cassette of a session is called in a folder of them."""


@dataclass(slots=True)
class TreeStep:
    """One step of what a turn did to the tree: files with their new content; a commit where there is a message."""

    files: list[dict[str, Any]]
    message: str | None = None


@dataclass(slots=True)
class Recorded:
    """One turn on record."""

    events: list[tuple[float, Event]] = field(default_factory=list)
    changes: list[TreeStep] = field(default_factory=list)
    ended: str | None = None  # why the turn was over; None when the recording was cut off


def find(path: Path, session: int) -> Path:
    """The cassette itself, or the one of this session in a folder of cassettes. ``ConfigurationError`` without one."""
    found = path / NAME.format(session=session) if path.is_dir() else path
    if not found.is_file():
        kept = sorted(one.name for one in path.glob("*.cassette.jsonl"))[:5] if path.is_dir() else []
        there = f"; there is {', '.join(kept)}" if kept else ""
        raise ConfigurationError(f"no recording at {found}{there}", hint="ls .harness/logs/*.cassette.jsonl")
    return found


def read(path: Path) -> list[Recorded]:
    """The turns of a cassette in their order. ``ConfigurationError`` when it is none, or of a later version."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return _turns(_records(lines), path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}", hint=f"ls -l {path}") from error


def append(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Adds one line. ``Refused`` when the disk says no."""
    journal.append(path, record)


def _records(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that a crash has torn
        if isinstance(record, dict):
            yield record


def _turns(records: Iterable[dict[str, Any]], path: Path) -> list[Recorded]:
    turns: list[Recorded] = []
    known = False
    for record in records:
        if not known:
            _check_version(record, path)
            known = True
        elif "turn" in record:
            turns.append(Recorded())
        elif turns:
            _take(turns[-1], record)
    if not known:
        raise _no_cassette(path)
    return turns


def _check_version(record: Mapping[str, Any], path: Path) -> None:
    version = record.get("cassette")
    if not isinstance(version, int):
        raise _no_cassette(path)
    if version != VERSION:
        raise ConfigurationError(f"{path} is a recording of format {version}, this version plays {VERSION}")


def _no_cassette(path: Path) -> ConfigurationError:
    return ConfigurationError(f"{path} is no recording of a session", hint="ls .harness/logs/*.cassette.jsonl")


def _take(turn: Recorded, record: Mapping[str, Any]) -> None:
    event = record.get("event")
    if isinstance(event, dict):
        made = event_from(event)
        if made is not None and not isinstance(made, Finished):
            turn.events.append((_seconds(record.get("at")), made))
    elif isinstance(record.get("files"), list):
        message = record.get("commit")
        files = [one for one in record["files"] if isinstance(one, dict)]
        turn.changes.append(TreeStep(files, message if isinstance(message, str) else None))
    elif isinstance(record.get("ended"), str):
        turn.ended = record["ended"]
        turn.events.append((_seconds(record.get("at")), _ending(record)))


def _ending(record: Mapping[str, Any]) -> Finished:
    message = record.get("message")
    return Finished(ok=record.get("ok") is True, message=message if isinstance(message, str) else "")


def _seconds(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e7
    return float(value) if number else 0.0  # type: ignore[arg-type]
