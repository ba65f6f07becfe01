"""Puts what no commit can hold out of the way, into a folder for rescued files; and back, when going back fails."""

import os
import shutil
from collections.abc import Iterable, Sequence

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import holds, kind_at, parents

__all__ = ["Aside"]


class Aside:
    """One folder for rescued files. Nothing in it is ever replaced."""

    def __init__(self, git: Git, folder: str | os.PathLike[str]) -> None:
        self._top = os.fsencode(git.top())
        self._folder = os.fsencode(os.path.abspath(folder))
        self._moves: list[tuple[bytes, bytes, bytes]] = []  # name, where it was, where it is

    @property
    def moved(self) -> list[bytes]:
        """The names of what was moved, oldest first."""
        return [name for name, _, _ in self._moves]

    def move(self, path: bytes) -> None:
        """Moves what is at a path of the work tree."""
        self.move_file(os.path.join(self._top, path), path)

    def move_file(self, source: bytes, name: bytes) -> None:
        """Moves any file or folder; below the folder for rescued files it has this name, or one close to it."""
        target = self._free(os.path.join(self._folder, name))
        shutil.move(os.fsdecode(source), os.fsdecode(target))
        self._moves.append((name, source, target))

    def put_back(self) -> None:
        """Takes every move back whose place is still free."""
        for move in reversed(list(self._moves)):
            _, source, target = move
            if not os.path.lexists(source) and os.path.isdir(os.path.dirname(source)):
                shutil.move(os.fsdecode(target), os.fsdecode(source))
                self._moves.remove(move)

    def clear_way(self, wanted: Iterable[bytes], held: Iterable[bytes]) -> None:
        """Moves what is in the way of files that will be written at ``wanted``, except what a commit holds."""
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
                continue  # a file or a link is where a folder was; the commit holds it, and nothing is below it
            kind = kind_at(self._top, path)
            if kind == "folder":
                self._empty(path, ordered, known)
            elif kind != "nothing" and path not in known:
                self.move(path)

    def _empty(self, folder: bytes, ordered: Sequence[bytes], known: set[bytes]) -> None:
        """Moves from a folder everything that no commit holds."""
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
            raise UnsafeTree(f"{folder} is a link: rescued files would go elsewhere", hint=f"move {folder} away")
        free, count = target, 0
        while os.path.lexists(free):
            count += 1
            free = target + b".%d" % count
        return free
