"""Replay agent: replays a recorded session, with the same events and file changes.

It tests a configuration without a model: budgets, verification, hooks and rules receive exactly the recorded actions of
an agent. It uses no network and runs none of the recorded commands. The recorder is in ``supervision``, which receives
the events of every agent.

A cassette is one session of an agent as JSON lines, redacted, with times, readable after a crash:

    {"cassette": 1, "agent": "command", "session": 3, "base": "1f0c...", ...}           first line
    {"turn": 0, "began": "2026-...", "prompt_characters": 4211, "prompt_digest": "..."}   a turn begins
    {"at": 0.412, "event": {"type": "text", "text": "..."}}                             an event of the agent
    {"at": 9.1, "told": "..."}                                                          a harness message
    {"files": [{"path": "src/a.py", "was": "9ae1...", "mode": "100644", "text": "..."}], "commit": "..."}
                                                                                        file changes of the agent
    {"at": 12.7, "ended": "finished", "ok": true}                                       the turn has ended

``at`` is the number of seconds since the turn began. A file change without ``commit`` was not committed. An incomplete
cassette is replayed as far as it goes. ``base`` is the commit at the start. ``was`` is git's id of a file's previous
content. If a file that the first turn changes has different content in the work tree, nothing is replayed. Exception:
the harness's own files (``kept``).

A cassette contains the changes of the repository's files between two moments, read from git. It does not contain
ignored files, submodules or files outside the repository."""

import base64
import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.agents import options
from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.events import Event, Finished, RateLimited, Text, event_from, object_of_line
from agent_harness.errors import ConfigurationError, HarnessError, UnsafeTree
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.objects import ABSENT, Objects, TreeEntry
from agent_harness.kernel.json import number_below
from agent_harness.kernel.redact import redact

__all__ = ["ReplayAgent", "Recorded", "apply", "find", "read", "steps"]

VERSION = 1
NAME = "session-{session}.cassette.jsonl"
"""File name that a session's cassette has in a folder of cassettes."""


@dataclass(slots=True)
class TreeStep:
    """File contents to write. A step with a message also makes a commit."""

    files: list[dict[str, Any]]
    message: str | None = None


@dataclass(slots=True)
class Recorded:
    events: list[tuple[float, Event]] = field(default_factory=list)
    changes: list[TreeStep] = field(default_factory=list)
    ended: str | None = None  # reason of the turn's end; None if the recording was cut off
    base: str | None = None  # of the first turn: the commit at its start, if recorded
    kept: tuple[str, ...] = ()  # files of the harness, which differ in every work tree


def find(path: Path, session: int) -> Path:
    """Return the path of a session's recording file. Raise ``ConfigurationError`` if the file is missing."""
    found = path / NAME.format(session=session) if path.is_dir() else path
    if not found.is_file():
        kept = sorted(one.name for one in path.glob("*.cassette.jsonl"))[:5] if path.is_dir() else []
        there = f"; found {', '.join(kept)}" if kept else ""
        raise ConfigurationError(f"no recording at {found}{there}", hint="ls .harness/logs/*.cassette.jsonl")
    return found


def read(path: Path) -> list[Recorded]:
    """Return the turns in a recording file. Raise ``ConfigurationError`` for an unknown format or version."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return _turns(filter(None, map(object_of_line, lines)), path)  # without lines torn by a crash
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}", hint=f"ls -l {path}") from error


def _turns(records: Iterable[dict[str, Any]], path: Path) -> list[Recorded]:
    turns: list[Recorded] = []
    known = False
    head: Mapping[str, Any] = {}
    for record in records:
        if not known:
            version = record.get("cassette")
            if not isinstance(version, int):
                raise _no_cassette(path)
            if version != VERSION:
                raise ConfigurationError(
                    f"{path} is a recording of format {version}; this version supports format {VERSION}"
                )
            known, head = True, record
        elif "turn" in record:
            turns.append(Recorded() if turns else _first(head))
        elif turns:
            _take(turns[-1], record)
    if not known:
        raise _no_cassette(path)
    return turns


def _first(head: Mapping[str, Any]) -> Recorded:
    base, kept = head.get("base"), head.get("kept")
    names = [each for each in kept if isinstance(each, str)] if isinstance(kept, list) else []
    return Recorded(base=base if isinstance(base, str) else None, kept=tuple(names))


def _no_cassette(path: Path) -> ConfigurationError:
    return ConfigurationError(f"{path} is not a recording of a session", hint="ls .harness/logs/*.cassette.jsonl")


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
        said = record.get("message")
        end = Finished(ok=record.get("ok") is True, message=said if isinstance(said, str) else "")
        turn.events.append((_seconds(record.get("at")), end))


def _seconds(value: object) -> float:
    return number_below(value, 1e7) or 0.0


# ---- changes of the files of a repository

FILE_LIMIT_BYTES = 1_000_000
TURN_LIMIT_BYTES = 8_000_000
_FILE, _PROGRAM, _LINK = "100644", "100755", "120000"


def steps(git: Git, before: str, after: str, head_before: str | None, head_after: str | None) -> list[dict[str, Any]]:
    """Return a record for each new commit, and a record for the uncommitted changes."""
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
    """Apply the file changes. Return the paths without recorded content. Raise ``UnsafeTree`` for unsafe paths."""
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


def foreign(git: Git, turn: Recorded) -> list[str]:
    """Return the files of a turn whose content differs from their content at the start of the recording."""
    before: dict[str, object] = {}
    for step in turn.changes:
        for one in step.files:
            path = one.get("path")
            if isinstance(path, str) and path not in turn.kept and not set(path) & {"\n", '"'}:
                before.setdefault(path, one.get("was"))
    place = Path(os.fsdecode(git.top()))
    there = [path for path in before if (place / path).is_file() and not (place / path).is_symlink()]
    found = git.run("hash-object", "--stdin-paths", input=os.fsencode("".join(f"{path}\n" for path in there))).split()
    now: dict[str, object] = dict(zip(there, map(os.fsdecode, found), strict=True))
    links = {path for path in before if (place / path).is_symlink()}
    return [path for path, was in before.items() if now.get(path) != was and path not in links]


class _Room:
    def __init__(self, size: int) -> None:
        self.left = size

    def holds(self, size: int) -> bool:
        fits = size <= min(self.left, FILE_LIMIT_BYTES)
        self.left -= size if fits else 0
        return fits


def _own_commits(git: Git, before: str | None, after: str | None) -> list[tuple[str, str]]:
    """Return the id and message of each commit after ``before``, oldest first. Return [] if the history was
    rewritten."""
    if after is None or after == before or (before and not git.ancestor(before, after)):
        return []
    words = ("rev-list", "--first-parent", "--reverse", after, *([f"^{before}"] if before else []))
    return [(oid, git.text("log", "-1", "--format=%B", oid)) for oid in git.text(*words).split()]


def _between(objects: Objects, before: str, after: str, room: _Room) -> list[dict[str, Any]]:
    found = objects.differences(objects.tree_of(before), objects.tree_of(after))
    return [_file(objects, before, entry, path, room) for path, (before, entry) in found.items()]


def _file(objects: Objects, before: TreeEntry, entry: TreeEntry, path: bytes, room: _Room) -> dict[str, Any]:
    was = {} if before == ABSENT else {"was": before.oid}
    record: dict[str, Any] = {"path": os.fsdecode(path), **was}
    if entry == ABSENT:
        return {**record, "gone": True}
    if entry.mode not in (_FILE, _PROGRAM, _LINK):
        return {**record, "left_out": "a repository of its own"}
    if not room.holds(objects.size(entry.oid) or 0):
        return {**record, "mode": entry.mode, "left_out": "too large"}
    found = objects.read(entry.oid)
    if found is None:
        raise UnsafeTree(f"the content of {walk.shown(path)} is missing from the repository", hint="git fsck")
    return {**record, "mode": entry.mode, **_content(found[1])}


def _content(data: bytes) -> dict[str, str]:
    try:
        return {"text": redact(data.decode("utf-8"))}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


# ---- the replay


def _checked(git: Git, text: str) -> bytes:
    path = os.fsencode(text)
    parts = path.split(b"/")
    bad = path.startswith(b"/") or any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts)
    if bad or b"\0" in path or walk.Links(os.fsencode(git.top())).above(path):
        raise UnsafeTree(f"the recording contains {text!r}, which is not a regular path in the project")
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


# ---- the agent

PACES = ("fast", "recorded")
_NO_WAIT_SECONDS = 0.001
"""Wait in seconds after a recorded refusal. It is almost zero, because no provider refuses during a replay."""


class ReplayAgent(Agent):
    """Agent that replays a recording file. For a folder, it replays one file in each session."""

    name = "replay"
    capabilities = Capabilities(usage=True)

    def __init__(self, path: Path, pace: str = "fast") -> None:
        self.path = path
        self.pace = pace

    @classmethod
    def from_words(cls, text: str) -> "ReplayAgent":
        """Return the agent for ``--agent replay:FILE``. ``FILE`` is relative to the current folder."""
        return cls(Path(text).absolute())

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "ReplayAgent":
        """Return the agent for ``agent: {kind: replay, file: FILE, pace: ...}``."""
        options.checked("replay", settings, ("file", "pace"))
        file, pace = settings.get("file"), settings.get("pace", "fast")
        if not isinstance(file, str) or not file:
            raise ConfigurationError("agent.file must name a recording", hint="agent: {kind: replay, file: FILE}")
        if pace not in PACES:
            raise ConfigurationError(f"agent.pace must be one of {', '.join(PACES)}")
        return cls((root or Path.cwd()) / file, pace)

    def problem(self) -> str | None:
        return None if self.path.exists() else f"there is no recording at {self.path}"

    def refusal(self, place: Path) -> HarnessError | None:
        return _other_base(place, read(self.path)) if self.path.is_file() else None

    def start(self, brief: Brief) -> Turn:
        turns = read(find(self.path, brief.session))
        if brief.round == 0 and (refusal := _other_base(brief.cwd, turns)):
            raise refusal
        if brief.round >= len(turns):
            counted = f"{len(turns)} turn{'' if len(turns) == 1 else 's'}"
            end = Finished(ok=False, message=f"the recording has only {counted}, none for this round")
            return ReplayTurn(brief, Recorded(events=[(0.0, end)]), recorded_pace=False)
        return ReplayTurn(brief, turns[brief.round], recorded_pace=self.pace == "recorded")


def _other_base(place: Path, turns: Sequence[Recorded]) -> HarnessError | None:
    git, first = Git(place), turns[0] if turns else Recorded()
    others = foreign(git, first) if first.base and git.is_repository else []
    if not others:
        return None
    shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    base = str(first.base)[:12]
    return UnsafeTree(
        f"The recording began at commit {base}, at which these files had other content: {shown}",
        hint=f"git worktree add -b replay ../replay {base}  # and replay it there",
    )


class ReplayTurn(Turn):
    """Replay of a recorded turn in this process."""

    # the files change immediately before the last event

    def __init__(self, brief: Brief, recorded: Recorded, *, recorded_pace: bool) -> None:
        self._brief = brief
        self._events = deque(recorded.events)
        self._changes = deque(recorded.changes)
        self._began = time.monotonic()
        self._recorded_pace = recorded_pace
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def next_event(self, timeout_seconds: float) -> Event | None:
        if self._ended or not self._due(timeout_seconds):
            return None
        event = (
            self._events.popleft()[1]
            if self._events
            else Finished(ok=False, message="the recording is incomplete and ends here")
        )
        if isinstance(event, RateLimited) and not self._recorded_pace:
            event = RateLimited(message=event.message, retry_after_seconds=_NO_WAIT_SECONDS)
        if isinstance(event, Finished):
            if problem := self._change_files():
                said, fatal = problem
                self._events.appendleft((0.0, Finished(ok=event.ok and not fatal, message=event.message)))
                return Text(said)
            self._ended = True
        return event

    def stop(self, grace_seconds: float = 5.0) -> None:
        # the remaining file changes are skipped
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

    def _change_files(self) -> tuple[str, bool] | None:
        """Change the files. If there is a problem, return its message, and True if the turn must fail."""
        git = Git(self._brief.cwd)
        while self._changes:
            step = self._changes.popleft()
            try:
                missing = apply(git, step.files, step.message)
            except HarnessError as error:
                self._changes.clear()
                return error.message, True
            if missing:
                return f"not in the recording: {', '.join(missing[:10])}", False
        return None
