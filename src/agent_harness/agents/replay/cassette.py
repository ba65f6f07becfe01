"""A cassette: one session of an agent as JSON lines, redacted, with times, readable after a crash.

    {"cassette": 1, "agent": "command", "session": 3, "prompt_type": "coding", ...}     first line
    {"turn": 0, "prompt_characters": 4211, "prompt_digest": "sha256:..."}               a turn begins
    {"at": 0.412, "event": {"type": "text", "text": "..."}}                             what the agent said or did
    {"at": 9.1, "told": "..."}                                                          what the harness told it
    {"files": [{"path": "src/a.py", "mode": "100644", "text": "..."}], "commit": "..."} what it left in the tree
    {"at": 12.7, "ended": "finished", "ok": true}                                       the turn is over

``at`` is seconds since the turn began. A file change without ``commit`` was not committed. A cassette that was cut off
plays as far as it goes.

Of the files of a repository it holds what changed between two moments, read from git; ignored files, submodules and
whatever lies outside of the repository are no part of it.
"""

import base64
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.agents.events import Event, Finished, event_from
from agent_harness.errors import ConfigurationError, HarnessError, UnsafeTree
from agent_harness.kernel import journal
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.objects import ABSENT, Objects, TreeEntry
from agent_harness.kernel.redact import redact

FILE_LIMIT_BYTES = 1_000_000
TURN_LIMIT_BYTES = 8_000_000
_FILE, _PROGRAM, _LINK = "100644", "100755", "120000"
_MODES = (_FILE, _PROGRAM, _LINK)


def steps(git: Git, before: str, after: str, head_before: str | None, head_after: str | None) -> list[dict[str, Any]]:
    """The records of what changed between two trees, commit by commit where the agent only added commits.

    ``before`` and ``after`` are commits or trees of the work tree; the last record holds what was not committed. Files
    beyond the limits are named without content.
    """
    room = _Room(TURN_LIMIT_BYTES)
    found: list[dict[str, Any]] = []
    base = before
    commits = _own_commits(git, head_before, head_after)
    with git.objects() as objects:
        for commit, message in commits:
            found.append({"files": _between(objects, base, commit, room), "commit": redact(message)})
            base = commit
        files = _between(objects, base, after, room)
    return [*found, {"files": files}] if files else found


def apply(git: Git, files: Iterable[Mapping[str, Any]], message: str | None) -> list[str]:
    """Does a step again, and commits it where it has a message; returns the paths without content in the recording.

    ``UnsafeTree`` for a path that leads out of the project, into git's own folder or through a link.
    """
    known = [one for one in files if isinstance(one.get("path"), str)]
    paths = [_checked(git, str(one["path"])) for one in known]
    missing = []
    for one, path in zip(known, paths, strict=True):
        if not _put(Path(os.fsdecode(git.file(path))), one):
            missing.append(os.fsdecode(path))
    if message is not None:
        try:
            if paths:
                git.run("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul", input=walk.joined(paths))
            git.run("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message or "No message")
        except GitFailed as error:
            raise HarnessError(f"the recording's commit was refused: {error.message}") from error
    return missing


class _Room:
    def __init__(self, size: int) -> None:
        self.left = size

    def holds(self, size: int) -> bool:
        fits = size <= min(self.left, FILE_LIMIT_BYTES)
        self.left -= size if fits else 0
        return fits


def _own_commits(git: Git, before: str | None, after: str | None) -> list[tuple[str, str]]:
    """Commits made since, oldest first; none where history was not simply added to."""
    if after is None or after == before or (before and not git.ancestor(before, after)):
        return []
    words = ("rev-list", "--first-parent", "--reverse", after, *([f"^{before}"] if before else []))
    return [(oid, git.text("log", "-1", "--format=%B", oid)) for oid in git.text(*words).split()]


def _between(objects: Objects, before: str, after: str, room: _Room) -> list[dict[str, Any]]:
    found = objects.differences(objects.tree_of(before), objects.tree_of(after))
    return [_file(objects, entry, path, room) for path, (_, entry) in found.items()]


def _file(objects: Objects, entry: TreeEntry, path: bytes, room: _Room) -> dict[str, Any]:
    record: dict[str, Any] = {"path": os.fsdecode(path)}
    if entry == ABSENT:
        return {**record, "gone": True}
    if entry.mode not in _MODES:
        return {**record, "left_out": "a repository of its own"}
    if not room.holds(objects.size(entry.oid) or 0):
        return {**record, "mode": entry.mode, "left_out": "too large"}
    found = objects.read(entry.oid)
    if found is None:
        raise UnsafeTree(f"what {walk.shown(path)} holds is gone from the repository", hint="git fsck")
    return {**record, "mode": entry.mode, **_content(found[1])}


def _content(data: bytes) -> dict[str, str]:
    try:
        return {"text": redact(data.decode("utf-8"))}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


# ---- doing it again


def _checked(git: Git, text: str) -> bytes:
    path = os.fsencode(text)
    parts = path.split(b"/")
    bad = path.startswith(b"/") or any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts)
    if bad or b"\0" in path or walk.Links(os.fsencode(git.top())).above(path):
        raise UnsafeTree(f"the recording leads to {text!r}, which is not a plain path of the project")
    return path


def _put(path: Path, record: Mapping[str, Any]) -> bool:
    data = _bytes_of(record)
    if data is None and record.get("gone") is not True:
        return False
    try:
        if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
        if data is not None:
            _write(path, data, str(record.get("mode")))
    except OSError as error:
        raise UnsafeTree(f"the recording cannot write {path}: {error.strerror}") from error
    return True


def _write(path: Path, data: bytes, mode: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == _LINK:
        path.symlink_to(os.fsdecode(data))
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o755 if mode == _PROGRAM else 0o644), "wb") as file:
        file.write(data)


def _bytes_of(record: Mapping[str, Any]) -> bytes | None:
    text, coded = record.get("text"), record.get("base64")
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    if not isinstance(coded, str):
        return None
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError:
        return None


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
            version = record.get("cassette")
            if not isinstance(version, int):
                raise _no_cassette(path)
            if version != VERSION:
                raise ConfigurationError(f"{path} is a recording of format {version}, this version plays {VERSION}")
            known = True
        elif "turn" in record:
            turns.append(Recorded())
        elif turns:
            _take(turns[-1], record)
    if not known:
        raise _no_cassette(path)
    return turns


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
