"""Objects of a repository, read through one git process however many are asked for.

``git cat-file --batch-command`` answers one line for one line. A process for each question costs some milliseconds and
a folder of settings; a judgement asks dozens.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from agent_harness.kernel.git.isolated import GitFailed, IsolatedView
from agent_harness.kernel.git.status import IndexEntry

__all__ = ["LINK", "ObjectReader"]

LINK = "120000"
_FOLDER = "40000"
_END_SECONDS = 10.0


class ObjectReader:
    """A context: asks what names mean, and reads objects. Not for several threads at a time."""

    def __init__(self, view: IsolatedView) -> None:
        self._view = view
        self._process: subprocess.Popen[bytes] | None = None
        self._trees: dict[str, list[IndexEntry]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            with suppress(OSError):
                _stream(process.stdin).close()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def id_of(self, name: str) -> str | None:
        """The id of the object that a revision names (``HEAD^{tree}``, a ref, an id); ``None`` when there is none."""
        found = self._ask("info", name)
        return found[0] if found else None

    def size_of(self, name: str) -> int | None:
        """How large an object is, in bytes."""
        found = self._ask("info", name)
        return found[2] if found else None

    def read(self, name: str) -> bytes | None:
        """The content of an object; ``None`` when there is none."""
        found = self._ask("contents", name)
        if found is None:
            return None
        content = self._take(found[2])
        self._take(1)
        return content

    def folder(self, tree: str) -> list[IndexEntry]:
        """The entries of one tree object, by their names in it."""
        if tree not in self._trees:
            self._trees[tree] = list(_entries(self._needed(tree), len(tree) // 2))
        return self._trees[tree]

    def files(self, treeish: str) -> dict[bytes, IndexEntry]:
        """Every file, link and submodule of a commit or tree, by its path from the top."""
        root = self.id_of(f"{treeish}^{{tree}}")
        if root is None:
            raise GitFailed("cat-file", 128, f"fatal: {treeish} is no commit or tree here")
        return dict(self._below(root, b""))

    def differences(self, old: str, new: str) -> dict[bytes, tuple[IndexEntry | None, IndexEntry | None]]:
        """What differs between two commits or trees; folders that are the same are not read."""
        ends = [self.id_of(f"{each}^{{tree}}") for each in (old, new)]
        if None in ends:
            raise GitFailed("cat-file", 128, f"fatal: {old} or {new} is no commit or tree here")
        return dict(self._between(str(ends[0]), str(ends[1]), b""))

    def _between(
        self, old: str | None, new: str | None, prefix: bytes
    ) -> Iterator[tuple[bytes, tuple[IndexEntry | None, IndexEntry | None]]]:
        if old == new:
            return
        before = {each.path: each for each in self.folder(old)} if old else {}
        after = {each.path: each for each in self.folder(new)} if new else {}
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name), after.get(name)
            if was == now:
                continue
            folders = [each.oid if each and each.mode == _FOLDER else None for each in (was, now)]
            files = tuple(_at(prefix + name, each) if each and each.mode != _FOLDER else None for each in (was, now))
            if any(files):
                yield prefix + name, (files[0], files[1])
            if any(folders):
                yield from self._between(folders[0], folders[1], prefix + name + b"/")

    def _below(self, tree: str, prefix: bytes) -> Iterator[tuple[bytes, IndexEntry]]:
        for entry in self.folder(tree):
            path = prefix + entry.path
            if entry.mode == _FOLDER:
                yield from self._below(entry.oid, path + b"/")
            else:
                yield path, _at(path, entry)

    # ---- the process ---------------------------------------------------------------------------------------------

    def _needed(self, name: str) -> bytes:
        found = self.read(name)
        if found is None:
            raise GitFailed("cat-file", 128, f"fatal: the object {name} is missing")
        return found

    def _ask(self, verb: str, name: str) -> tuple[str, str, int] | None:
        """(id, kind, size) of an object."""
        if self._process is None:
            self._process = self._view.start("cat-file", "--batch-command")
        try:
            _stream(self._process.stdin).write(os.fsencode(f"{verb} {name}\n"))
            _stream(self._process.stdin).flush()
        except OSError as error:
            raise GitFailed("cat-file", 128, f"fatal: {error.strerror}") from None
        line = _stream(self._process.stdout).readline()
        words = line.decode("utf-8", "replace").rstrip("\n").rsplit(" ", 2)
        if not line.endswith(b"\n"):
            raise GitFailed("cat-file", 128, "fatal: it ended before it answered")
        return (words[0], words[1], int(words[2])) if len(words) == 3 and words[2].isdecimal() else None

    def _take(self, count: int) -> bytes:
        assert self._process is not None
        found = _stream(self._process.stdout).read(count)
        if len(found) != count:
            raise GitFailed("cat-file", 128, "fatal: it ended in the middle of an object")
        return found


def _stream(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _at(path: bytes, entry: IndexEntry) -> IndexEntry:
    return IndexEntry(entry.mode, entry.oid, path)


def _entries(content: bytes, id_bytes: int) -> Iterator[IndexEntry]:
    """The entries of a tree object: mode, space, name, NUL, id."""
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + id_bytes
        yield IndexEntry(mode.decode(), content[end + 1 : at].hex(), name)
