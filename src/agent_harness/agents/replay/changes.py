"""What an agent did to the files of a repository: read from git between two moments, and done again.

Ignored files, submodules and whatever lies outside of the repository are no part of it.
"""

import base64
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_harness.errors import HarnessError, UnsafeTree
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
        _commit(git, paths, message)
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


def _commit(git: Git, paths: Sequence[bytes], message: str) -> None:
    try:
        if paths:
            git.run("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul", input=walk.joined(paths))
        git.run("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message or "No message")
    except GitFailed as error:
        raise HarnessError(f"the recording's commit was refused: {error.message}") from error
