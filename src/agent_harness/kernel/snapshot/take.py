"""Creation of a snapshot of the work tree. Source: ``tasklist.md`` 11.2. One ``git status`` call finds everything that
a snapshot needs. If the work tree is clean, the snapshot uses the tree of HEAD, so only two small commits and a ref are
made. Line endings, encodings, keywords and filters (such as Git LFS) can make a git object differ from the file's
bytes. A snapshot keeps the bytes, so such files are read without conversion."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence, Set
from contextlib import suppress

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import Git
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.isolated import NOWHERE, IsolatedView
from agent_harness.kernel.git.operation_lock import racy, second_now
from agent_harness.kernel.snapshot.operation import Operation, Snapshot, in_operation, notes_now, refuse_operation

ATTRIBUTES = b".gitattributes"
MOST_EMPTY = 1000
SYSTEM_FILES = ("/etc/gitattributes", "/usr/local/etc/gitattributes", "/opt/homebrew/etc/gitattributes")
ANYTHING = (b"filter", b"ident", b"working-tree-encoding")  # may leave the size as it is
ENDINGS = (b"text", b"eol", b"crlf")  # change the size, if they change anything
OFF = (b"unset", b"unspecified")
TRUE = ("true", "input", "1", "yes", "on")


def converted(operation: Operation, index: str, listing: bytes, found: walk.Scan) -> list[bytes]:
    """Return the unchanged files whose content may differ from the content that git stores."""
    everywhere = operation.notes.settings.get("core.autocrlf", "false").lower() in TRUE
    if not everywhere and not _has_attributes(operation, listing, found):
        # fast if nothing requires a conversion
        return []
    changed = {*found.changed, *found.deleted}
    files = [entry for entry in walk.entries(operation.listed(index, "-s")) if entry.mode.startswith("100")]
    away = operation.notes.away_by_path()
    same = {entry.path: entry.oid for entry in files if entry.path not in changed and entry.path not in away}
    always, sized = _asked_for(operation, index, list(same))
    suspects = {*same} if everywhere else sized
    return sorted(always | _of_another_size(operation, {path: same[path] for path in suspects - always}))


def _has_attributes(operation: Operation, listing: bytes, found: walk.Scan) -> bool:
    return (
        bool(operation.notes.info_attributes.strip())
        or ATTRIBUTES + b"\0" in listing
        or any(os.path.basename(path) == ATTRIBUTES for path in (*found.untracked, *found.ignored))
        or any(os.path.exists(path) for path in (*SYSTEM_FILES, operation.notes.user_attributes))
    )


def _asked_for(operation: Operation, index: str, paths: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
    # first the paths whose attributes may change any content, then those with other line endings only
    with IsolatedView(operation.git.repository, head=NOWHERE, attributes=operation.notes.info_attributes) as view:
        done = view.call("check-attr", "-z", "-a", "--stdin", input=walk.joined(paths), index=index)
    fields = walk.split(done.stdout)
    always, sized = set[bytes](), set[bytes]()
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        if value not in OFF and name in ANYTHING:
            always.add(path)
        elif value not in OFF and name in ENDINGS:
            sized.add(path)
    return always, sized


def _of_another_size(operation: Operation, files: dict[bytes, str]) -> set[bytes]:
    """Return the files whose size differs from the size of their git object."""
    ids = "".join(f"{oid}\n" for oid in files.values()).encode()
    sizes = operation.view.call("cat-file", "--batch-check=%(objectsize)", "--buffer", input=ids).stdout.split(b"\n")
    pairs = zip(files, sizes, strict=False)
    return {path for path, size in pairs if size != b"%d" % _size(operation.git.file(path))}


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def take(git: Git, ref: str, *, exclude: Sequence[str] = (), message: str = "") -> Snapshot:
    """Create a snapshot of the work tree under the new ref ``ref``, and return the snapshot."""
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
            _note_modes(operation, full)
            index_tree = head.tree if head.tree and not found.staged else operation.write_tree(plain)
            tree = index_tree if full == plain else operation.write_tree(full)
            # the extra parent contains the staged files and the notes
            notes = f"What was staged, and notes of a snapshot\n\n{operation.notes.as_text()}"
            parents = [*([head.commit] if head.commit else []), operation.commit(index_tree, [], notes)]
            made = operation.commit(tree, parents, message or "Snapshot of the work tree")
            if not operation.new_ref(ref, made):
                raise UnsafeTree(f"{ref} already exists", hint=f"git update-ref -d {ref}")
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
    found = operation.scan(plain)
    if found.unmerged:
        raise UnsafeTree(f"{walk.shown(found.unmerged[0])} has an unresolved conflict", hint="git status")
    operation.notes.ignored = [os.fsdecode(path) for path in found.ignored]
    operation.notes.absent = [os.fsdecode(path) for path in found.deleted]
    operation.notes.intended = [os.fsdecode(path) for path in found.intended]
    operation.notes.empty = _empty_folders(os.fspath(operation.git.top()), {*found.ignored, *found.nested})
    return found


def _empty_folders(top: str, closed: Set[bytes]) -> list[str]:
    """Return the empty folders of the work tree, except folders below ``closed``."""
    left, empty = [""], list[str]()
    while left and len(empty) < MOST_EMPTY:
        below = left.pop()
        try:
            with os.scandir(os.path.join(top, below)) as entries:
                found = list(entries)
        except OSError:
            continue
        if below and not found:
            empty.append(below)
        folders = (os.path.join(below, each.name) for each in found if each.is_dir(follow_symlinks=False))
        left += [path for path in folders if path != ".git" and os.fsencode(path) + b"/" not in closed]
    return sorted(empty)


def _with_everything(
    operation: Operation, plain: str, listing: bytes, found: walk.Scan, excluded: Callable[[bytes], bool]
) -> str:
    """Return an index that holds every current file except the harness's own files."""
    shaped = [path for path in converted(operation, plain, listing, found) if not excluded(path)]
    add, gone = operation.storable([path for path in (*found.changed, *found.untracked) if not excluded(path)])
    ours = [record[2:] for record in walk.split(listing) if excluded(record[2:])]
    remove = [*found.deleted, *gone, *shaped, *ours]
    if not remove and not add:
        return plain
    full = operation.copy(plain, "full")
    walk.update(operation.view, full, remove=remove, add=[*add, *shaped])
    return full


def _note_racy(operation: Operation, plain: str, full: str) -> None:
    # entries that are too recent to be trusted, except for files that the user left out
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


def _note_modes(operation: Operation, full: str) -> None:
    # git stores only one bit of the permissions
    modes: dict[str, dict[bytes, int]] = {"100644": {}, "100755": {}}
    for path, git_mode in operation.modes(full).items():
        with suppress(OSError):
            found = os.lstat(operation.git.file(path)).st_mode
            if stat.S_ISREG(found) and git_mode in modes:
                modes[git_mode][path] = stat.S_IMODE(found)
    for (git_mode, files), plain in zip(modes.items(), (0o644, 0o755), strict=True):
        counted = Counter(files.values())
        operation.notes.usual_modes[git_mode] = usual = max(counted, key=counted.__getitem__, default=plain)
        operation.notes.modes |= {os.fsdecode(path): mode for path, mode in files.items() if mode != usual}
