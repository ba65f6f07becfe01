"""Restore of a snapshot, in four steps. Source: ``tasklist.md`` 11.3.

1. Commit the current state to the rescue ref, with all checked-out commits as parents. If this fails, stop.
2. Move files to the folder for rescued files if no commit can hold them and they block a path. Examples are ignored
   files below a path that was a file, another repository, a pipe, and a file that is too large.
3. Let git write only the files that differ. If a file changed after it was read, git refuses and all steps start again.
4. Reset HEAD and the branch by compare and swap, then the index.

Every step can be repeated after a crash. The next restore then rescues the state that the crash left."""

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import clock
from agent_harness.kernel.git import Commit, Git, GitFailed, Head, PathChange
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.isolated import IsolatedView
from agent_harness.kernel.git.locate import OPERATION_FILES
from agent_harness.kernel.git.objects import ABSENT, TreeEntry
from agent_harness.kernel.git.operation_lock import install_index
from agent_harness.kernel.git.status import holds, kind_at, parents
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.snapshot.candidate import hidden_since
from agent_harness.kernel.snapshot.operation import (
    Operation,
    Rescue,
    Snapshot,
    branch_tip,
    in_operation,
    load_notes,
    move_head,
    refuse_elsewhere,
    refuse_operation,
)

TRIES = 3
EFFECTIVE = os.access in os.supports_effective_ids
RESCUE_MAX_BYTES = 256 << 20
LEFT = re.compile(rb"unable to (unlink|create|write) .*")
STATE_FOLDER = b"git-state"
BEFORE = "Rescued before going back to "


class Aside:
    """Folder for rescued files, in which a new file never replaces another."""

    def __init__(self, git: Git, folder: str | os.PathLike[str]) -> None:
        self._top = os.fsencode(git.top())
        self._folder = os.fsencode(os.path.abspath(folder))
        self._moves: list[tuple[bytes, bytes, bytes]] = []  # name, old path, new path

    @property
    def moved(self) -> list[bytes]:
        """Original names of the moved files, in the order of their moves."""
        return [name for name, _, _ in self._moves]

    def move(self, path: bytes) -> None:
        self.move_file(os.path.join(self._top, path), path)

    def move_file(self, source: bytes, name: bytes) -> None:
        """Move a file or folder to the rescue folder, under ``name`` or a similar free name."""
        target = self._free(os.path.join(self._folder, name))
        shutil.move(os.fsdecode(source), os.fsdecode(target))
        self._moves.append((name, source, target))

    def put_back(self) -> None:
        """Move each file back to its original path, unless that path is taken."""
        for move in reversed(list(self._moves)):
            _, source, target = move
            if not os.path.lexists(source) and os.path.isdir(os.path.dirname(source)):
                shutil.move(os.fsdecode(target), os.fsdecode(source))
                self._moves.remove(move)

    def clear_way(self, wanted: Iterable[bytes], held: Iterable[bytes]) -> None:
        """Move away everything that blocks one of the ``wanted`` paths, except the files ``held`` by a commit."""
        ordered = sorted(held)
        known = set(ordered)
        free = set[bytes]()
        for path in wanted:
            above = parents(path)
            for parent in above:
                if parent not in free and parent not in known and kind_at(self._top, parent) in ("file", "other"):
                    self.move(parent)
                free.add(parent)
            if not known.isdisjoint(above):
                continue  # a file or a link replaced a folder; the commit holds it, and nothing is below it
            kind = kind_at(self._top, path)
            if kind == "folder":
                self._empty(path, ordered, known)
            elif kind != "nothing" and path not in known:
                self.move(path)

    def _empty(self, folder: bytes, ordered: Sequence[bytes], known: set[bytes]) -> None:
        for entry in sorted(os.scandir(os.path.join(self._top, folder)), key=lambda entry: entry.name):
            path = folder + b"/" + entry.name
            if path in known:
                continue
            if entry.is_dir(follow_symlinks=False) and holds(ordered, path + b"/"):
                self._empty(path, ordered, known)
            else:
                self.move(path)

    def _free(self, target: bytes) -> bytes:
        folder = os.fsdecode(self._folder)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.islink(folder):
            raise UnsafeTree(
                f"{folder} is a symbolic link, so rescued files would be written elsewhere", hint=f"move {folder} away"
            )
        free, count = target, 0
        while os.path.lexists(free):
            count += 1
            free = target + b".%d" % count
        return free


class _Changed(Exception):
    """Error: files or refs changed during the restore, so the restore starts again."""


@dataclass(slots=True)
class _Plan:
    """Paths that differ from the snapshot, grouped by what the restore does with each path."""

    add: list[bytes] = field(default_factory=list)  # goes into the rescue commit
    remove: list[bytes] = field(default_factory=list)  # is missing, or cannot go there
    move: list[bytes] = field(default_factory=list)  # cannot go there, and is in the way
    leave: list[bytes] = field(default_factory=list)  # cannot go there, and is not in the way


@dataclass(frozen=True, slots=True)
class _Now:
    """HEAD and branch commits at the start of a restore."""

    head: Head
    tip: str | None  # the present commit of the snapshot's branch
    base: str | None  # its commit at the snapshot

    @property
    def commits(self) -> list[str]:
        return list(dict.fromkeys(sha for sha in (self.head.commit, self.tip) if sha))


@dataclass(slots=True)
class _Done:
    """Rescue commits that a restore has made so far."""

    ref: str | None = None
    commit: str | None = None
    taken_back: dict[Commit, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Way:
    """State that all steps of a restore share."""

    operation: Operation
    snapshot: Snapshot
    excluded: Callable[[bytes], bool]
    most_bytes: int
    wished_ref: str
    aside: Aside
    done: _Done


def restore(
    git: Git,
    snapshot: Snapshot,
    rescue_ref: str,
    *,
    exclude: Sequence[str] = (),
    rescue_files: str | os.PathLike[str],
    rescue_max_bytes: int = RESCUE_MAX_BYTES,
    set_aside_operation: bool = False,
) -> Rescue:
    """Save the current state in a rescue commit, then restore the snapshot's files, index and HEAD."""
    if not set_aside_operation:
        refuse_operation(git)
    refuse_elsewhere(git, snapshot.branch)
    # the harness's own files and ignored files of the snapshot's time are never touched
    excluded = walk.matcher(exclude, git.prefix())
    with git.room() as room, in_operation(git, room, snapshot, load_notes(git, snapshot), raw=True) as operation:
        way = _Way(operation, snapshot, excluded, rescue_max_bytes, rescue_ref, Aside(git, rescue_files), _Done())
        reason = ""
        for _ in range(TRIES):
            try:
                return _try(way)
            except _Changed as error:
                reason = str(error)
        way.aside.put_back()
        hint = "stop programs that still write there and check the free disk space, then run the same command again"
        raise UnsafeTree(f"the work tree cannot be restored from the snapshot: {reason}", hint=hint)


def _try(way: _Way) -> Rescue:
    git, snapshot = way.operation.git, way.snapshot
    head = git.look()
    now = _Now(head, branch_tip(git, snapshot.branch, head), snapshot.head)
    index = way.operation.full_index(snapshot)
    plan = _plan(way, index)
    made = _rescue(way, index, plan, now)
    _clear_way(way, plan)
    if made and (plan.add or plan.remove):
        _write_files(way, index, made)
    _make_empty_folders(way.operation)
    _set_modes(way.operation, index)
    try:
        move_head(git, way.operation.room, branch=snapshot.branch, commit=snapshot.head, expected=now.tip, now=head)
    except GitFailed as error:
        raise _Changed(error.message) from error
    install_index(git.repository, _index_as_it_was(way, index))
    return Rescue(
        ref=way.done.ref,
        commit=way.done.commit,
        rolled_back_commits=tuple((each.sha, each.subject) for each in way.done.taken_back),
        left_in_place=_texts(path for path in plan.leave if os.path.lexists(git.file(path))),
        moved=_texts(way.aside.moved),
    )


def _plan(way: _Way, index: str) -> _Plan:
    found = _scan(way, index)
    hidden = hidden_since(way.operation, index, found)
    ignored = way.operation.notes.ignored_places()
    plan = _Plan(remove=list(found.deleted))
    for path in found.changed:
        if _fits(way, path):
            plan.add.append(path)
        else:
            plan.move.append(path)
            plan.remove.append(path)
    absent = {os.fsencode(path) for path in way.operation.notes.absent} - {*found.untracked, *hidden.files}
    appeared = way.operation.files_among(sorted(absent))
    for path in (*found.untracked, *appeared, *hidden.files, *found.nested, *hidden.nested, *hidden.caches):
        if not way.excluded(path) and not walk.under(path, ignored):
            (plan.leave if path.endswith(b"/") or not _fits(way, path) else plan.add).append(path)
    return plan


def _scan(way: _Way, index: str) -> walk.Scan:
    while True:
        try:
            return way.operation.scan(index)
        except walk.ClosedFolder as error:
            opened = [_open(way.operation.git.file(folder)) for folder in error.folders]
            if not any(opened):
                raise


def _open(folder: bytes) -> bool:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o700 == 0o700:
        return False
    os.chmod(folder, stat.S_IMODE(found.st_mode) | 0o700)
    return True


def _fits(way: _Way, path: bytes) -> bool:
    full = way.operation.git.file(path)
    try:
        found = os.lstat(full)
    except OSError as error:
        raise _Changed(f"{walk.shown(path)} was deleted") from error
    if not stat.S_ISREG(found.st_mode):
        return stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return found.st_size <= way.most_bytes and os.access(full, os.R_OK, effective_ids=EFFECTIVE)


def _rescue(way: _Way, index: str, plan: _Plan, now: _Now) -> str | None:
    # None if nothing differs from the snapshot
    if not plan.add and not plan.remove and set(now.commits) <= {now.base}:
        return None
    operation, done = way.operation, way.done
    try:
        walk.update(operation.view, index, remove=plan.remove, add=plan.add)
    except GitFailed as error:
        raise _Changed(error.message) from error
    message = f"{BEFORE}{way.snapshot.commit}"
    parents = [*now.commits, *([done.commit] if done.commit else [])]
    made = operation.commit(operation.write_tree(index), parents, message)
    names = chain([way.wished_ref], (f"{way.wished_ref}-{number}" for number in count(2)))
    done.ref, done.commit = next(name for name in names if operation.new_ref(name, made)), made
    for sha in now.commits:
        if sha != now.base:
            done.taken_back |= dict.fromkeys(operation.git.commits_between(now.base, sha))
    return made


def _clear_way(way: _Way, plan: _Plan) -> None:
    """Move away the files of an unfinished git operation, and all files that block the snapshot's files."""
    above = {parent for path in (*plan.add, *plan.remove) for parent in walk.parents(path)}
    for folder in (b"", *sorted(above)):  # opened, since something will be written or removed in them
        if way.operation.kind(folder) == "folder":
            _open(way.operation.git.file(folder))
    for name in OPERATION_FILES:
        path = way.operation.git.git_dir() / name
        if os.path.lexists(path):
            way.aside.move_file(os.fsencode(path), STATE_FOLDER + b"/" + name.encode())
    for path in plan.move:
        way.aside.move(path)
    way.aside.clear_way(plan.remove, plan.add)


def _write_files(way: _Way, index: str, made: str) -> None:
    try:
        done = way.operation.view.call("read-tree", "-m", "-u", made, way.snapshot.commit, index=index)
    except GitFailed as error:
        raise _Changed(error.message) from error
    left = LEFT.search(done.stderr)  # git reports no error for a file that it cannot remove
    if left:
        raise _Changed(left[0].decode("utf-8", "replace"))


def _make_empty_folders(operation: Operation) -> None:
    top = os.fsencode(operation.git.top())
    for path in map(os.fsencode, operation.notes.empty):
        if kind_at(top, path) == "nothing" and not walk.Links(top).above(path):
            with suppress(OSError):  # a folder above was replaced, and left so
                os.makedirs(os.path.join(top, path))


def _set_modes(operation: Operation, index: str) -> None:
    """Restore the file permissions that the snapshot's notes contain, because git does not store them."""
    kept, usual = operation.notes.modes, operation.notes.usual_modes
    for path, git_mode in operation.modes(index).items() if usual else ():
        wanted = kept.get(os.fsdecode(path), usual.get(git_mode))
        file = operation.git.file(path)
        try:
            found = os.lstat(file).st_mode
        except OSError:
            continue  # absent at the snapshot, by the user's wish
        if wanted is not None and stat.S_ISREG(found) and stat.S_IMODE(found) != wanted:
            os.chmod(file, wanted)


def _index_as_it_was(way: _Way, full: str) -> str:
    snapshot, operation = way.snapshot, way.operation
    if snapshot.index_exact == snapshot.index_full and not operation.notes.flags:
        return full
    index = operation.room.kept(snapshot.index_exact, "exact") or _index_again(way, full)
    with in_operation(operation.git, operation.room, snapshot, operation.notes, raw=False) as ordinary:
        ordinary.refresh(index)
    return index


def _index_again(way: _Way, full: str) -> str:
    operation = way.operation
    index = operation.copy(full, "again")
    operation.view.call("read-tree", "-m", way.snapshot.index_tree, index=index)
    intended = [os.fsencode(path) for path in operation.notes.intended]
    there = walk.joined(
        path for path in intended if operation.kind(path) == "file" or operation.kind(path + b"/.git") != "nothing"
    )
    if there:
        words = ("add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
        operation.view.call(*words, input=there, index=index, env={"GIT_LITERAL_PATHSPECS": "1"})
    operation.set_flags(index, operation.notes.flags_by_path())
    return index


def _texts(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in paths)


# ---- restoring a rescue -------------------------------------------------------------------------------------------


def rescue_base(git: Git, commit: str, subject: str) -> str:
    """Return the commit that the rollback restored when it made this rescue commit."""
    named = subject.removeprefix(BEFORE) if subject.startswith(BEFORE) else ""
    base = git.commit_of(named) if named.isalnum() else None
    return base or git.commit_of(f"{commit}^1") or git.empty_tree()


class KeptRef(NamedTuple):
    """Private ref that keeps a commit for the user."""

    ref: str
    commit: str
    at: str  # when it was made
    subject: str  # fit for a terminal


def kept_refs(git: Git, *folders: str) -> list[KeptRef]:
    """Return the private refs below these ref folders, newest first."""
    form = "--format=%(refname)%00%(objectname)%00%(creatordate:unix)%00%(subject)"
    rows = git.text("for-each-ref", "--sort=-creatordate", form, *folders).splitlines()
    found = [row.split("\0", 3) for row in rows]
    return [
        KeptRef(
            ref,
            commit,
            clock.timestamp(clock.moment(float(seconds))) if seconds else clock.timestamp(),
            walk.shown(os.fsencode(subject)),
        )
        for ref, commit, seconds, subject in found
    ]


def contents(changes: Iterable[PathChange], commits: Iterable[Commit]) -> JsonObject:
    """Return changes and commits as JSON, with names that are safe to print."""
    return {
        "files": [{"status": each.status, "path": walk.shown(os.fsencode(each.path))} for each in changes],
        "commits": [{"commit": each.sha, "subject": walk.shown(os.fsencode(each.subject))} for each in commits],
    }


def write_changes(git: Git, commit: str, changes: Mapping[bytes, tuple[TreeEntry, TreeEntry]]) -> list[str]:
    """Write the commit's changed files into the work tree. Return the files' printable names."""
    # the caller has saved the current files; HEAD, branches and the index stay
    with git.room() as room, IsolatedView(git.repository, head=commit, raw=True) as view:
        index = room.path("rescue")
        view.call("read-tree", commit, index=index)
        gone = [path for path, (_, after) in changes.items() if after == ABSENT]
        for path in gone:
            if os.path.lexists(file := git.file(path)):
                os.unlink(file)
        there = [path for path in changes if path not in gone]
        view.call("checkout-index", "--force", "-z", "--stdin", input=walk.joined(there), index=index)
    return sorted(walk.shown(path) for path in changes)


def write_rescued(git: Git, commit: str, folder: str) -> None:
    """Write every file of a commit into a new or empty folder."""
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UnsafeTree(f"{folder} is not an empty folder", hint="give a new or an empty folder")
    os.makedirs(folder, exist_ok=True)
    with git.room() as room, IsolatedView(git.repository, head=commit, raw=True) as view:
        index = room.path("rescue")
        view.call("read-tree", commit, index=index)
        view.call("checkout-index", "--all", f"--prefix={os.path.realpath(folder)}/", index=index)
