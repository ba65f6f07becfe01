"""Taking a snapshot; source: ``tasklist.md`` 11.2.

One walk of git tells everything that a snapshot needs. Where it finds the tree clean, the tree of HEAD is the tree of
the snapshot, and only two small commits and a ref are made.
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import Git, Head
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.racy import racy, second_now
from agent_harness.kernel.snapshot.filtered_files import converted
from agent_harness.kernel.snapshot.operation import (
    Operation,
    in_operation,
    notes_now,
    refuse_operation,
)
from agent_harness.kernel.snapshot.records import Snapshot

__all__ = ["take"]

PLAIN_MODES = (0o644, 0o755)


def take(git: Git, ref: str, *, exclude: Sequence[str] = (), message: str = "") -> Snapshot:
    """The work tree as it is now, kept under a new ref. Costs one walk of the work tree when nothing is dirty.

    ``exclude`` are patterns of the harness's own files, relative to the root of ``git``; they are no part of it.
    ``UnsafeTree`` when an operation is under way, a path is in conflict, or the ref exists.
    """
    refuse_operation(git)
    with git.room() as room:
        head = git.look()
        with in_operation(git, room, head, notes_now(git), raw=True) as operation:
            exact = operation.own_copy("exact")
            listing = operation.listed(exact, "-v")
            plain = _without_flags(operation, exact, listing)
            found = _scan(operation, plain)
            full = _with_everything(operation, plain, listing, found, walk.matcher(exclude, git.prefix()))
            _note_racy(operation, plain, full)
            index_tree = head.tree if head.tree and not found.staged else operation.write_tree(plain)
            tree = index_tree if full == plain else operation.write_tree(full)
            made = _commit(operation, head, tree, index_tree, message or "Snapshot of the work tree")
            if not operation.new_ref(ref, made):
                raise UnsafeTree(f"{ref} exists already", hint=f"git update-ref -d {ref}")
        kept = {index: room.keep(index) for index in {exact, plain, full}}
    return Snapshot(
        ref=ref,
        commit=made,
        head=head.commit,
        branch=head.branch,
        index_tree=index_tree,
        index_exact=kept[exact],
        index_plain=kept[plain],
        index_full=kept[full],
    )


def _without_flags(operation: Operation, exact: str, listing: bytes) -> str:
    """The index without flags that hide changes of files that are there; the flags go into the notes."""
    flags = walk.flagged(listing)
    if not flags:
        return exact
    plain = operation.copy(exact, "plain")
    there = walk.uncover(operation.view, plain, listing)
    ids = {os.fsdecode(path): operation.blob_id(path) for path in there}
    operation.notes.away = [os.fsdecode(path) for path in flags if path not in there]
    operation.notes.flags = {os.fsdecode(path): words for path, words in flags.items()}
    operation.notes.hidden = {path: oid for path, oid in ids.items() if oid}
    return plain


def _scan(operation: Operation, plain: str) -> walk.Scan:
    found = walk.scan(operation.view, plain)
    if found.unmerged:
        raise UnsafeTree(f"{walk.shown(found.unmerged[0])} has an unresolved conflict", hint="git status")
    operation.notes.ignored = [os.fsdecode(path) for path in found.ignored]
    operation.notes.absent = [os.fsdecode(path) for path in found.deleted]
    operation.notes.intended = [os.fsdecode(path) for path in found.intended]
    return found


def _with_everything(
    operation: Operation, plain: str, listing: bytes, found: walk.Scan, excluded: Callable[[bytes], bool]
) -> str:
    """The index with every file as it is, and without the harness's own files."""
    shaped = [path for path in converted(operation, plain, listing, found) if not excluded(path)]
    add, gone = operation.storable([path for path in (*found.changed, *found.untracked) if not excluded(path)])
    ours = [record[2:] for record in walk.split(listing) if excluded(record[2:])]
    operation.notes.modes = _unusual_modes(operation, (*add, *shaped))
    remove = [*found.deleted, *gone, *shaped, *ours]
    if not remove and not add:
        return plain
    full = operation.copy(plain, "full")
    walk.update(operation.view, full, remove=remove, add=[*add, *shaped])
    return full


def _note_racy(operation: Operation, plain: str, full: str) -> None:
    """Notes which entries of the two indexes prove little; those that are absent by the user's wish prove nothing."""
    second = second_now(operation.room.folder)
    found = {index: racy(index, second, id_bytes=operation.id_bytes()) for index in {plain, full}}
    texts: dict[str, dict[str, str] | None] = {}
    for index, entries in found.items():
        names = {path: os.fsdecode(path) for path in entries or ()}
        there = {
            path
            for path, name in names.items()
            if name not in operation.notes.flags or operation.kind(path) != "nothing"
        }
        texts[index] = None if entries is None else {names[path]: entries[path] for path in there}
    operation.notes.young_plain, operation.notes.young_full = texts[plain], texts[full]


def _unusual_modes(operation: Operation, paths: Iterable[bytes]) -> dict[str, int]:
    """Permissions of regular files that a checkout would not give them."""
    modes = {path: os.lstat(operation.git.file(path)).st_mode for path in paths}
    regular = {path: stat.S_IMODE(mode) for path, mode in modes.items() if stat.S_ISREG(mode)}
    return {os.fsdecode(path): mode for path, mode in regular.items() if mode not in PLAIN_MODES}


def _commit(operation: Operation, head: Head, tree: str, index_tree: str, message: str) -> str:
    """The commit of a snapshot. What was staged, and the notes, hang on a further parent: no gc takes them."""
    beside = operation.commit(
        index_tree, [], f"What was staged, and notes of a snapshot\n\n{operation.notes.as_text()}"
    )
    return operation.commit(tree, [*([head.commit] if head.commit else []), beside], message)
