"""The agent's work as a commit: made on a private ref, and adopted after the checks have passed.

A rollback never touches files that were ignored when the snapshot was taken. A file that became ignored later would be
untracked again after a rollback, so it belongs to the attempt's work. Tool caches are an exception. A tool cache is a
new folder whose ``.gitignore`` ignores the whole folder, such as a virtual environment or a test runner's cache. It
stays ignored after a rollback and is left in place."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import Git, GitFailed, Head
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.objects import ABSENT, FOLDER, index_lines
from agent_harness.kernel.git.operation_lock import install_index
from agent_harness.kernel.snapshot.operation import (
    Operation,
    Snapshot,
    branch_tip,
    in_operation,
    load_notes,
    move_head,
    notes_now,
    refuse_elsewhere,
    refuse_operation,
)

RULES = b".gitignore"


@dataclass(slots=True)
class Hidden:
    """Paths that git ignores only because an ignore rule is newer than the snapshot."""

    files: list[bytes] = field(default_factory=list)
    caches: list[bytes] = field(default_factory=list)  # folders that ignore themselves, with a final slash
    nested: list[bytes] = field(default_factory=list)  # other repositories among the ignored, with a final slash


def hidden_since(operation: Operation, index: str, found: walk.Scan) -> Hidden:
    """Return the paths that new ignore rules have hidden since the snapshot."""
    known = operation.notes.ignored_places()
    new = [path for path in found.ignored if not walk.under(path, known)]
    if not any(_is_rules(path) for path in (*new, *found.every_path())):
        # fast if no ``.gitignore`` has changed
        return Hidden()
    names = sorted(walk.split(operation.listed(index)))
    folder = _rules_folder(operation, index, [name for name in names if _is_rules(name)])
    hidden = Hidden(caches=_caches(operation, folder, [path for path in new if _is_rules(path)], names))
    files = [file for path in new for file in _files(operation.git, path, hidden)]
    ignored = _ignored_by(operation, folder, files)
    hidden.files = [path for path in files if path not in ignored]
    return hidden


def _is_rules(path: bytes) -> bool:
    return os.path.basename(path) == RULES


def _rules_folder(operation: Operation, index: str, rules: Sequence[bytes]) -> str:
    """Create a new folder with only the snapshot's ``.gitignore`` files, and return the folder's path."""
    folder = operation.room.path("rules")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    words = ("checkout-index", "-z", "--stdin", f"--prefix={folder}/")
    operation.view.call(*words, input=walk.joined(rules), index=index)
    return folder


def _caches(operation: Operation, folder: str, rules: Sequence[bytes], names: Sequence[bytes]) -> list[bytes]:
    # folders whose own ``.gitignore`` ignores them, and that have no file in the snapshot
    places = {path: path[: -len(RULES)] for path in rules}
    new = [path for path, place in places.items() if place and not walk.holds(names, place)]
    copies = {path: os.path.join(os.fsencode(folder), path) for path in new}
    for path, copy in copies.items():
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copyfile(operation.git.file(path), copy, follow_symlinks=False)
    own = _ignored_by(operation, folder, new)
    for path in {*new} - own:
        os.unlink(copies[path])
    return [places[path] for path in new if path in own]


def _ignored_by(operation: Operation, folder: str, paths: Sequence[bytes]) -> set[bytes]:
    if not paths:
        return set()
    words = ("check-ignore", "-z", "--stdin", "--no-index")
    done = operation.view.call(*words, input=walk.joined(paths), work_tree=folder, check=False)
    return set(walk.split(done.stdout))


def _files(git: Git, path: bytes, hidden: Hidden) -> Iterator[bytes]:
    """Yield the file ``path``, or each file in the folder ``path`` outside nested repositories."""
    if not path.endswith(b"/"):
        yield path
        return
    try:
        found = sorted(os.scandir(git.file(path)), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == b".git" for entry in found):
        hidden.nested.append(path)
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(git, path + entry.name + b"/", hidden)
        elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
            yield path + entry.name


def candidate(git: Git, ref: str, *, exclude: Sequence[str] = (), message: str, base: Snapshot | None = None) -> str:
    """Return a commit of the current work tree, and point ``ref`` to this commit."""
    refuse_operation(git)
    with git.room() as room:
        head = git.look()
        # with a base, no flag, forged index or ignore rule made after the base can hide a change
        notes = load_notes(git, base) if base else notes_now(git)
        with in_operation(git, room, head, notes, raw=False) as operation:
            tree, index = _written(operation, head, exclude, base)
            made = head.commit if tree == head.tree else None
            if made is None:
                author = (notes.identity[0], notes.identity[1]) if notes.identity else git.identity
                made = operation.commit(tree, [head.commit] if head.commit else [], message, identity=author)
            operation.set_ref(ref, made)
        git.trusted_index = (room.keep(index), tree)
    return made


def tree_of_files(git: Git, *, exclude: Sequence[str] = (), base: Snapshot | None = None) -> str:
    """Return the id of the tree that ``candidate`` would commit."""
    refuse_operation(git)
    with git.room() as room:
        head = git.look()
        notes = load_notes(git, base) if base else notes_now(git)
        with in_operation(git, room, head, notes, raw=False) as operation:
            # no ref points to this tree, so git may delete it
            return _written(operation, head, exclude, base)[0]


def adopt(git: Git, commit: str, *, branch: str, expected_head: str | None, base: Snapshot | None = None) -> None:
    """Move the branch and the index to a commit whose tree equals the work tree."""
    refuse_operation(git)
    refuse_elsewhere(git, branch)
    with git.room() as room:
        now = git.look()
        tip = branch_tip(git, branch, now)
        if tip not in (expected_head, commit):
            raise UnsafeTree(f"{branch} is at {tip or 'no commit'}, not at {expected_head}", hint="git log --oneline")
        with in_operation(git, room, now, load_notes(git, base) if base else notes_now(git), raw=False) as operation:
            # no file is written, and the call can be repeated after a crash
            index = _index_of(operation, commit)
            try:
                move_head(git, room, branch=branch, commit=commit, expected=tip, now=now)
            except GitFailed as error:
                raise UnsafeTree(f"{branch} was moved by another process", hint="git log --oneline") from error
            git.trusted_index = (room.keep(index), git.tree_of(commit))
            operation.set_flags(index, operation.notes.flags_by_path())
        install_index(git.repository, index)


def _compared(operation: Operation, base: Snapshot | None) -> tuple[str, walk.Scan]:
    warm = operation.kept_index(base.index_plain, operation.notes.young_plain) if base else None
    if warm:
        found = operation.scan(warm)
        if not any(os.path.basename(path) == b".gitattributes" for path in found.every_path()):
            return warm, found
    if base:
        # git reads every file again
        index = operation.cold_index(base.index_tree, operation.notes.away_by_path())
    else:
        copy = operation.own_copy("copy")
        index = operation.cold_index(operation.write_tree(copy), walk.flagged(operation.listed(copy, "-v")))
    return index, operation.scan(index)


def _written(operation: Operation, head: Head, exclude: Sequence[str], base: Snapshot | None) -> tuple[str, str]:
    # files that match ``exclude`` come from the base's HEAD
    excluded = walk.matcher(exclude, operation.git.prefix())
    index, found = _compared(operation, base)
    wanted = base.head if base else head.commit
    with operation.git.objects() as objects:
        tree = objects.tree_of(wanted) if wanted else ""

        def stays_out(path: bytes) -> bool:
            folder = objects.at(tree, path)
            # a file may have replaced a folder with excluded files
            inside = objects.differences("", folder.oid) if folder.mode == FOLDER else ()
            return excluded(path) or any(excluded(path + b"/" + name) for name in inside)

        _read_changes(operation, index, found, base, stays_out)
        apart = {*objects.differences(head.tree or "", tree), *(path for _, path in found.staged)}
    _put_back(operation, index, tree, sorted(filter(excluded, apart)))
    return operation.write_tree(index), index


def _read_changes(
    operation: Operation, index: str, found: walk.Scan, base: Snapshot | None, stays_out: Callable[[bytes], bool]
) -> None:
    hidden = {os.fsencode(path): oid for path, oid in operation.notes.hidden.items()}
    paths = [*found.changed, *found.untracked, *_tracked(operation, found)]
    paths = [path for path in paths if path not in hidden or operation.blob_id(path) != hidden[path]]
    if base and base.index_plain != base.index_full:
        # files of the base count, even if they are ignored now
        known = {*paths, *hidden}
        apart = operation.git.differences(base.index_tree, base.commit).items()
        paths += operation.files_among(path for path, (old, _) in apart if old == ABSENT and path not in known)
    add, gone = operation.storable([path for path in paths if not stays_out(path)])
    remove = [path for path in found.deleted if not stays_out(path)]
    walk.update(operation.view, index, remove=[*remove, *gone], add=add)


def _tracked(operation: Operation, found: walk.Scan) -> list[bytes]:
    """Return the ignored files and nested repositories that git nevertheless tracks."""
    copy = operation.room.copy_of_index("own") if found.ignored or found.nested else None
    if copy is None:
        return []
    modes = operation.modes(copy)
    names = sorted(modes)
    files = [name for path in found.ignored for name in walk.at_or_below(names, path)]
    modules = {path for path, mode in modes.items() if mode == walk.GITLINK}
    return [*files, *(path[:-1] for path in found.nested if path[:-1] in modules)]


def _put_back(operation: Operation, index: str, tree: str, paths: Sequence[bytes]) -> None:
    with operation.git.objects() as objects:
        entries = {path: objects.at(tree, path) for path in paths}
    lines = {path: ABSENT if entry.mode == FOLDER else entry for path, entry in entries.items()}
    if lines:
        text = index_lines(lines, 2 * operation.id_bytes())
        operation.view.call("update-index", "-z", "--index-info", input=text, index=index)


def _index_of(operation: Operation, commit: str) -> str:
    # the index has current data about each file, so git need not read the files
    digest, tree = operation.git.trusted_index or ("", "")
    warm = operation.room.kept(digest, "warm")
    if warm is None:
        return operation.cold_index(commit, operation.notes.away_by_path())
    if tree != operation.git.tree_of(commit):
        operation.view.call("read-tree", "-m", commit, index=warm)
        operation.refresh(warm)
    return warm
