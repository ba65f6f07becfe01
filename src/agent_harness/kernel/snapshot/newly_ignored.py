"""Files that only younger ignore rules hide: no rule of the snapshot's time ignores them.

A snapshot never touches what was ignored when it was taken. A file that is ignored only since would be an ordinary
untracked file again after going back, so it belongs to what the attempt made. The exception are caches that tools make
for themselves: a new folder with a ``.gitignore`` inside that ignores all of it (a virtual environment, the cache of a
test runner). It stays ignored after going back too, and is left in place.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agent_harness.kernel.git import Git
from agent_harness.kernel.git import status as walk
from agent_harness.kernel.snapshot.operation import Operation, in_operation, load_notes
from agent_harness.kernel.snapshot.records import Snapshot

__all__ = ["Hidden", "hidden_since", "newly_ignored"]

RULES = b".gitignore"


@dataclass(slots=True)
class Hidden:
    """What rules that are younger than the snapshot ignore."""

    files: list[bytes] = field(default_factory=list)
    caches: list[bytes] = field(default_factory=list)  # folders that ignore themselves, with a final slash
    nested: list[bytes] = field(default_factory=list)  # other repositories among the ignored, with a final slash


def newly_ignored(git: Git, snapshot: Snapshot, *, exclude: Sequence[str] = ()) -> tuple[str, ...]:
    """Paths that are ignored now and would not have been at the snapshot; self-ignoring folders end in a slash."""
    excluded = walk.matcher(exclude, git.prefix())
    with git.room() as room, in_operation(git, room, snapshot, load_notes(git, snapshot), raw=True) as operation:
        index = operation.full_index(snapshot)
        hidden = hidden_since(operation, index, walk.scan(operation.view, index))
    return tuple(os.fsdecode(path) for path in sorted((*hidden.files, *hidden.caches)) if not excluded(path))


def hidden_since(operation: Operation, index: str, found: walk.Scan) -> Hidden:
    """Splits what is ignored now; costs nothing while no ``.gitignore`` file has changed."""
    known = operation.notes.ignored_places()
    new = [path for path in found.ignored if not walk.under(path, known)]
    if not any(_is_rules(path) for path in (*new, *found.every_path())):
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
    """A folder that holds nothing but the snapshot's ``.gitignore`` files."""
    folder = operation.room.path("rules")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    words = ("checkout-index", "-z", "--stdin", f"--prefix={folder}/")
    operation.view.call(*words, input=walk.joined(rules), index=index)
    return folder


def _caches(operation: Operation, folder: str, rules: Sequence[bytes], names: Sequence[bytes]) -> list[bytes]:
    """Folders whose own ``.gitignore`` ignores itself and in which the snapshot has nothing."""
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
    """The paths that the rules in the folder, and those of the notes, ignore."""
    if not paths:
        return set()
    words = ("check-ignore", "-z", "--stdin", "--no-index")
    done = operation.view.call(*words, input=walk.joined(paths), work_tree=folder, check=False)
    return set(walk.split(done.stdout))


def _files(git: Git, path: bytes, hidden: Hidden) -> Iterator[bytes]:
    """The file itself, or every file below an ignored folder; other repositories are noted and not entered."""
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
