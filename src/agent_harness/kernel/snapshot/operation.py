"""Shared steps of snapshots, candidates and rollbacks: one locked operation on a work tree, and work on its indexes."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from agent_harness.errors import StateDamaged, UnsafeTree
from agent_harness.kernel.git import DETACHED, Git, GitFailed, Head, own_output
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.client import IDENTITY
from agent_harness.kernel.git.isolated import IsolatedView, id_bytes
from agent_harness.kernel.git.locate import branches_elsewhere, operation_under_way, text_of
from agent_harness.kernel.git.operation_lock import OperationLock, copy_index, stored_entries
from agent_harness.kernel.git.settings import values

SHAPING = ("core.autocrlf", "core.eol", "core.safecrlf")
"""Repository settings that convert a file's bytes for storage without running a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Stored state of a work tree, with its files, index, HEAD and ignore rules."""

    ref: str  # keeps everything below from being collected as garbage
    commit: str  # its tree holds the files as bytes; parents: HEAD if there was one, then the notes
    head: str | None  # None on a branch without a commit
    branch: str  # refs/heads/… or "detached"
    index_tree: str  # the staged files
    # digests of stored indexes: without these, a rollback is only slower
    index_exact: str  # the index itself
    index_plain: str  # the same without flags that hide changes
    index_full: str  # an index of the commit's tree

    def as_record(self) -> dict[str, str | None]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> Self:
        """Return the snapshot in a record. Raise ``StateDamaged`` if a member is invalid."""
        members: dict[str, Any] = {each.name: record.get(each.name) for each in fields(cls)}
        for name, value in members.items():
            if not isinstance(value, str) and not (name == "head" and value is None):
                raise StateDamaged(f"the snapshot record has no valid {name}", hint="harness doctor")
        return cls(**members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """Result of a restore."""

    ref: str | None  # names the commit below; None when there was nothing to rescue
    commit: str | None  # the files as they were before going back; parents: all that was checked out
    rolled_back_commits: tuple[tuple[str, str], ...]  # id and subject, newest first; they stay reachable from the ref
    left_in_place: tuple[str, ...]  # too large, other repositories, pipes, tools' own caches
    moved: tuple[str, ...]  # paths whose content went below the folder for rescued files


@dataclass(slots=True, kw_only=True)
class Notes:
    """Facts about the work tree that a git tree cannot store, kept in a commit message."""

    ignored: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)  # tracked, and not there
    info_exclude: str = ""
    user_excludes: str = ""
    info_attributes: str = ""
    user_attributes: str = ""  # path of the user's own attributes
    settings: dict[str, str] = field(default_factory=dict)  # harmless settings of the repository that shape content
    identity: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)  # path -> assume, skip or "assume skip"
    away: list[str] = field(default_factory=list)  # flagged files that are not there, as in a sparse checkout
    hidden: dict[str, str] = field(default_factory=dict)  # flagged files -> object id of their bytes
    intended: list[str] = field(default_factory=list)  # `git add -N`
    young_plain: dict[str, str] | None = field(default_factory=dict)  # entries to be read again; None: all of them
    young_full: dict[str, str] | None = field(default_factory=dict)
    usual_modes: dict[str, int] = field(default_factory=dict)  # git's mode -> the usual permissions of such files
    modes: dict[str, int] = field(default_factory=dict)  # files with other permissions, which git would not restore
    printed: list[str] = field(default_factory=list)  # files that the harness printed into
    empty: list[str] = field(default_factory=list)  # folders without anything in them, which git does not know

    def as_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        record: dict[str, Any] = json.loads(text)
        return cls(**{each.name: record[each.name] for each in fields(cls) if each.name in record})

    def away_by_path(self) -> dict[bytes, str]:
        return {os.fsencode(path): self.flags[path] for path in self.away}

    def flags_by_path(self) -> dict[bytes, str]:
        return {os.fsencode(path): words for path, words in self.flags.items()}

    def ignored_places(self) -> set[bytes]:
        return {os.fsencode(path) for path in self.ignored}


@dataclass(frozen=True, slots=True)
class Operation:
    git: Git
    room: OperationLock
    view: IsolatedView
    notes: Notes

    def listed(self, index: str, *options: str) -> bytes:
        """Return the output of ``git ls-files -z`` with these options for an index."""
        return self.view.call("ls-files", "-z", *options, index=index).stdout

    def scan(self, index: str) -> walk.Scan:
        """Return the differences between the work tree's files and an index."""
        # without the files into which the harness prints
        found = walk.scan(self.view, index)
        return found.without({os.fsencode(path) for path in self.notes.printed}) if self.notes.printed else found

    def modes(self, index: str) -> dict[bytes, str]:
        """Return the file mode of each path in an index, in git's notation."""
        found = stored_entries(index, id_bytes=self.id_bytes())
        if found is None:
            return {entry.path: entry.mode for entry in walk.entries(self.listed(index, "-s"))}
        return {entry.path: f"{entry.mode:06o}" for entry in found}

    def kind(self, path: bytes) -> str:
        return walk.kind_at(os.fsencode(self.git.top()), path)

    def files_among(self, paths: Iterable[bytes]) -> list[bytes]:
        """Return the paths of files and links, without paths below a symbolic link."""
        links = walk.Links(os.fsencode(self.git.top()))
        return [path for path in paths if self.kind(path) == "file" and not links.above(path)]

    def write_tree(self, index: str) -> str:
        return self.view.call("write-tree", index=index).stdout.strip().decode()

    def commit(self, tree: str, parents: Sequence[str], message: str, *, identity: tuple[str, str] = IDENTITY) -> str:
        """Create a commit object that no ref points to yet, and return the commit's id."""
        words = [word for parent in parents for word in ("-p", parent)]
        done = self.view.call(
            *("commit-tree", tree, *words),
            input=f"{message.rstrip()}\n".encode("utf-8", "surrogateescape"),
            env=self.git.identity_variables(identity),
        )
        return done.stdout.strip().decode()

    def new_ref(self, ref: str, commit: str) -> bool:
        """Create a ref. Return False if the ref already exists."""
        try:
            self.set_ref(ref, commit, "")
        except GitFailed as error:
            if "already exists" not in error.stderr:
                raise
            return False
        return True

    def set_ref(self, ref: str, commit: str, *old: str) -> None:
        """Create or move a private ref. With ``old``, the ref must point to ``old`` or, if this is empty, not exist."""
        with self.room.locking(ref):
            self.git.run("update-ref", "--no-deref", ref, commit, *old)

    def own_copy(self, name: str) -> str:
        """Copy the repository's index, and return the copy's path."""
        if self.room.copy_of_index(name) is None:
            self.view.call("read-tree", "--empty", index=self.room.path(name))
        # a split index becomes a whole one
        elif self.room.shared_parts():
            self.view.call("update-index", "--force-write-index", index=self.room.path(name))
        return self.room.path(name)

    def copy(self, index: str, name: str) -> str:
        copy_index(index, self.room.path(name))
        return self.room.path(name)

    def cold_index(self, tree: str, away: Mapping[bytes, str]) -> str:
        """Return a new index of ``tree``, for which git reads every file again."""
        index = self.room.path("cold")
        self.view.call("read-tree", tree, index=index)
        # files that the user left out keep their flags
        self.set_flags(index, {path: words for path, words in away.items() if self.kind(path) == "nothing"})
        self.refresh(index)
        return index

    def refresh(self, index: str) -> None:
        """Update the recorded sizes, times and inodes of unchanged files in an index."""
        self.view.call("update-index", "-q", "--refresh", index=index, check=False)

    def full_index(self, snapshot: Snapshot) -> str:
        """Return the snapshot's stored index, or a new index of the snapshot's files."""
        warm = self.kept_index(snapshot.index_full, self.notes.young_full)
        return warm or self.cold_index(snapshot.commit, self.notes.away_by_path())

    def kept_index(self, digest: str, racy: Mapping[str, str] | None) -> str | None:
        """Return a usable copy of a stored index, or ``None``."""
        warm = None if racy is None else self.room.kept(digest, "warm")
        if warm and racy:
            # git reads the racy files again
            lines = [f"{entry}\t".encode() + os.fsencode(path) for path, entry in racy.items()]
            self.view.call("update-index", "-z", "--index-info", input=walk.joined(lines), index=warm)
        if warm:
            away = self.notes.away_by_path()
            appeared = {path: words for path, words in away.items() if self.kind(path) != "nothing"}
            walk.set_flags(self.view, warm, appeared, on=False)
        return warm

    def id_bytes(self) -> int:
        return id_bytes(self.git.repository)

    def set_flags(self, index: str, flags: Mapping[bytes, str]) -> None:
        if flags:
            there = set(walk.split(self.listed(index)))
            walk.set_flags(self.view, index, {path: flags[path] for path in flags if path in there}, on=True)

    def storable(self, paths: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return the paths that an index can hold, and separately all other paths, such as pipes."""
        good = [path for path in paths if self.kind(path) in ("file", "folder")]
        return good, sorted({*paths} - {*good})

    def blob_id(self, path: bytes) -> str | None:
        """Return the git object id of a file's content, or ``None`` if the file is unreadable."""
        full = self.git.file(path)
        try:
            if os.path.islink(full):
                content = os.readlink(full)
            elif os.path.isfile(full):
                with open(full, "rb") as file:
                    content = file.read()
            else:
                return None
        except OSError:
            return None
        digest = hashlib.sha256 if self.id_bytes() == 32 else hashlib.sha1
        return digest(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@contextmanager
def in_operation(
    git: Git, room: OperationLock, head: Head | Snapshot, notes: Notes, *, raw: bool
) -> Iterator[Operation]:
    """Open an operation that runs git with the given HEAD and ignore rules."""
    view = IsolatedView(
        git.repository,
        head=head.commit or f"ref: {head.branch}",
        raw=raw,
        excludes=notes.info_exclude,
        more_excludes=notes.user_excludes,
        attributes=notes.info_attributes,
        settings=tuple(notes.settings.items()),
        inherit=(room.lock,),
    )
    with view:
        yield Operation(git, room, view, notes)


def refuse_operation(git: Git) -> None:
    """Raise ``UnsafeTree`` if a git operation, such as a merge or a rebase, is unfinished."""
    waiting = operation_under_way(git.repository)
    if waiting:
        raise UnsafeTree(f"git is in the middle of {waiting[0]}", hint=f"finish it, or run: {waiting[1]}")


def refuse_elsewhere(git: Git, branch: str) -> None:
    """Raise ``UnsafeTree`` if another work tree has checked out the branch."""
    # that work tree would become outdated
    if branch in branches_elsewhere(git.repository):
        raise UnsafeTree(f"{branch} is also checked out in another work tree", hint="git worktree list")


def notes_now(git: Git) -> Notes:
    """Return notes with the ignore rules, attributes and settings that lie outside the work tree."""
    found = values(git.repository)
    name, address = found.get("user.name"), found.get("user.email")
    return Notes(
        info_exclude=git.repository_text("exclude"),
        user_excludes=text_of(user_file_path(found.get("core.excludesfile"), "ignore")),
        info_attributes=git.repository_text("attributes"),
        user_attributes=user_file_path(found.get("core.attributesfile"), "attributes"),
        settings={key: found[key] for key in SHAPING if key in found},
        identity=[name, address] if name and address else [],
        printed=sorted(map(os.fsdecode, own_output.among(os.fsencode(git.top())))),
    )


def user_file_path(setting: str | None, name: str) -> str:
    """Return the path of the user's global git file ``ignore`` or ``attributes``."""
    if setting:
        return os.path.expanduser(setting)
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return f"{folder}/git/{name}"


def load_notes(git: Git, snapshot: Snapshot) -> Notes:
    """Return the notes of a snapshot. Raise ``UnsafeTree`` if the snapshot's objects were deleted."""
    with git.objects() as objects:
        beside = objects.named(f"{snapshot.commit}^{2 if snapshot.head else 1}")
        found = objects.read(beside) if beside else None
    if found is None:
        hint = "git fsck --lost-found"
        raise UnsafeTree(f"the snapshot {snapshot.ref} was deleted from the repository", hint=hint)
    return Notes.from_text(os.fsdecode(found[1]).strip().rpartition("\n")[2])


def branch_tip(git: Git, branch: str, now: Head) -> str | None:
    """Return the commit of a branch, or of HEAD if ``branch`` is ``detached``."""
    return now.commit if branch in (DETACHED, now.branch) else git.commit_of(branch)


def move_head(
    git: Git, room: OperationLock, *, branch: str, commit: str | None, expected: str | None, now: Head
) -> None:
    """Point HEAD to the branch, and the branch to the commit. Raise ``GitFailed`` if the branch has moved."""
    # can be repeated after a crash
    at_branch = branch != DETACHED
    with room.locking("HEAD", "packed-refs", *([branch] if at_branch else [])):
        if commit != expected or (not at_branch and now.branch != DETACHED):
            ref = branch if at_branch else "HEAD"
            git.update_ref(ref, commit, expected or "")
        if at_branch and now.branch != branch:
            git.run("symbolic-ref", "-m", "agent-harness", "HEAD", branch)
