"""Refs and objects of a repository, read directly from its files, without a git process if possible.

HEAD, loose refs and ``packed-refs`` are read if they contain a plain object id. HEAD may also contain the name of a
ref. In all other cases, ``AskGit`` is raised and git is called. Examples are another ref format, a symbolic ref other
than HEAD, a symbolic link, an invalid name, and a ref of one work tree. Loose objects are read from their files, also
from alternate object folders. One git process reads all other objects.

Content is trusted only if it matches its object id. Trees, parents and differences between trees are computed from the
objects themselves. A query therefore needs no process if the objects are loose. If the objects are packed, all queries
within one view (``kernel/git/isolated.py``) share one process."""

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import NamedTuple, Self

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git.batch import Batch
from agent_harness.kernel.git.isolated import GitFailed
from agent_harness.kernel.git.locate import Repository, text_of

MOST_BYTES = 1 << 26  # of packed-refs; larger ones are git's to read

OBJECT_ID = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})(?=\s|\Z)")
SYMBOLIC = re.compile(rb"ref:\s*(\S+)\s*\Z")

# Names that git accepts below refs/, stricter in doubt (git-check-ref-format).
REF = re.compile(r"refs(?:/(?!\.)(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\/])+(?<!\.lock)(?<!\.))+\Z")
OF_ONE_WORK_TREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
FOLDER = "40000"
LOOSE_BYTES = 1 << 22  # of the file; larger ones are git's to read
CONTENT_BYTES = 1 << 24
REVISION = re.compile(r"(.*?)((?:\^[1-9][0-9]?)*)", re.DOTALL)  # a starting point, and which parents to go to
TREE = re.compile(rb"tree ([0-9a-f]+)\n")
FULL_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class AskGit(Exception):
    """Error: the repository's files do not give the answer, so the caller must run git."""


def checked_out(repository: Repository) -> tuple[str | None, str | None]:
    """Return HEAD's commit and branch name, each of which can be ``None``."""
    _refuse_other_formats(repository)
    content = read_regular(f"{repository.git_dir}/HEAD", most_bytes=4096)
    if content is None:
        raise AskGit
    if found := SYMBOLIC.match(content):
        branch = os.fsdecode(found[1])
        return tip(repository, branch), branch
    return _object_id(content), None


def tip(repository: Repository, ref: str) -> str | None:
    """Return the object id of the ref with this full name, or ``None`` if the ref is missing."""
    _refuse_other_formats(repository)
    if not REF.match(ref) or ref.startswith(OF_ONE_WORK_TREE):
        raise AskGit
    content = read_regular(os.path.join(repository.shared_dir, ref), most_bytes=4096)
    if content is not None:
        return _object_id(content)
    packed = _packed_refs(repository)
    at = packed.find(b" " + os.fsencode(ref) + b"\n")
    return _object_id(packed[packed.rfind(b"\n", 0, at) + 1 : at]) if at > 0 else None


def refs_in(repository: Repository, folder: str) -> dict[str, str]:
    """Return the object id of each ref below ``folder``, by ref name. ``folder`` must end in a slash."""
    _refuse_other_formats(repository)
    found: dict[str, str] = {}
    for line in _packed_refs(repository).split(b"\n"):
        oid, _, ref = line.partition(b" ")
        if ref.startswith(os.fsencode(folder)):
            found[os.fsdecode(ref)] = _object_id(oid)
    for path in _files(os.path.join(repository.shared_dir, folder)):
        ref = os.path.relpath(path, repository.shared_dir)
        if loose := tip(repository, ref):
            found[ref] = loose
    return found


def _files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        if any(os.path.islink(os.path.join(place, name)) for name in folders):
            raise AskGit
        yield from (os.path.join(place, name) for name in names if not name.endswith(".lock"))


def read_regular(path: str | os.PathLike[str], *, most_bytes: int) -> bytes | None:
    """Return the content of a regular file, or ``None`` if the file is missing or a folder."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        raise AskGit from None
    try:
        found = os.fstat(number)
        if stat.S_ISDIR(found.st_mode):
            return None
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeTree(f"{os.fsdecode(path)} is not a regular file", hint=f"ls -l {os.fsdecode(path)}")
        if found.st_size > most_bytes:
            raise AskGit
        with open(number, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(number)


def _packed_refs(repository: Repository) -> bytes:
    return read_regular(f"{repository.shared_dir}/packed-refs", most_bytes=MOST_BYTES) or b""


def _object_id(content: bytes) -> str:
    found = OBJECT_ID.match(content)
    if found is None:
        raise AskGit
    return found[1].decode()


def _refuse_other_formats(repository: Repository) -> None:
    if "refstorage" in text_of(repository.shared_dir / "config").lower():
        raise AskGit


class TreeEntry(NamedTuple):
    mode: str  # six digits, as git prints it; ``FOLDER`` for a tree
    oid: str


ABSENT = TreeEntry("000000", "")
"""Value that stands for a missing tree entry."""


def index_lines(entries: Mapping[bytes, TreeEntry], digits: int) -> bytes:
    """Return input for ``git update-index -z --index-info``. ``digits`` is the length of an object id."""
    # removals come first, so that a file can replace a folder
    ordered = sorted(entries.items(), key=lambda pair: pair[1] != ABSENT)
    return b"".join(f"{entry.mode} {entry.oid or '0' * digits}\t".encode() + path + b"\0" for path, entry in ordered)


class Objects:
    def __init__(self, repository: Repository, open_batch: Callable[[], AbstractContextManager[Batch]]) -> None:
        self._repository = repository
        self._open_batch = open_batch
        self._opened = ExitStack()
        self._batch: Batch | None = None
        self._trees: dict[str, dict[bytes, TreeEntry]] = {}
        self._lenders: list[str] | None = None  # folders of objects that the repository borrows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._opened.close()

    def named(self, name: str, kind: str = "commit") -> str | None:
        """Return the object id of a commit or tree (``kind``), or ``None`` if no object has this name."""
        try:
            return self._named_in_files(name, kind)
        except AskGit:
            found = self._asked().look(f"{name}^{{{kind}}}")
            return found.oid if found else None

    def tree_of(self, name: str) -> str:
        """Return the tree id of a commit or tree. Raise ``GitFailed`` if ``name`` is neither."""
        found = self.named(name, "tree")
        if found is None:
            raise GitFailed("rev-parse", 128, f"fatal: {name} is not a commit or a tree")
        return found

    def read(self, name: str) -> tuple[str, bytes] | None:
        """Return the kind and content of an object, or ``None`` if the object is missing."""
        try:
            return self._loose(name)
        except AskGit:
            answer = self._asked().read(name)
        if answer is None:
            return None
        found, content = answer
        if _digest(f"{found.kind} {found.size}\0".encode() + content, len(found.oid)) != found.oid:
            raise GitFailed("cat-file", 128, f"fatal: the object {found.oid} is damaged")
        return found.kind, content

    def size(self, name: str) -> int | None:
        """Return the size of a blob in bytes, or ``None`` if ``name`` is not a blob."""
        try:
            kind, content = self._loose(name)
        except AskGit:
            found = self._asked().look(name)
            return found.size if found and found.kind == "blob" else None
        return len(content) if kind == "blob" else None

    def parents(self, commit: str) -> list[str]:
        """Return the parents in the commit object itself, without git's replacements and grafts."""
        return _parents(self._content(commit, "commit"))

    def tree(self, oid: str) -> dict[bytes, TreeEntry]:
        """Return the entries of one tree object, by name. An empty ``oid`` means an empty folder."""
        if oid in self._trees:
            return self._trees[oid]
        try:
            found = dict(_entries(self._content(oid, "tree"), len(oid) // 2)) if oid else {}
        except ValueError:
            raise GitFailed("cat-file", 128, f"fatal: the tree {oid} is damaged") from None
        self._trees[oid] = found
        return found

    def at(self, tree: str, path: bytes) -> TreeEntry:
        """Return the entry at a path in a tree, or ``ABSENT`` if the tree has no such path."""
        found = TreeEntry(FOLDER, tree)
        for part in path.split(b"/"):
            if found.mode != FOLDER:
                return ABSENT
            found = self.tree(found.oid).get(part, ABSENT)
        return found

    def differences(self, old: str, new: str) -> dict[bytes, tuple[TreeEntry, TreeEntry]]:
        """Return the old and new entry of each file that differs, by path. A missing entry is ``ABSENT``."""
        found: dict[bytes, tuple[TreeEntry, TreeEntry]] = {}
        left = [(b"", old, new)] if old != new else []
        while left:
            below, before_id, after_id = left.pop()
            before, after = self.tree(before_id), self.tree(after_id)
            for name in {**before, **after}:
                pair = before.get(name, ABSENT), after.get(name, ABSENT)
                if pair[0] == pair[1]:
                    continue
                files = _as_file(pair[0]), _as_file(pair[1])
                if files != (ABSENT, ABSENT):
                    found[below + name] = files
                folders = _folder_id(pair[0]), _folder_id(pair[1])
                if any(folders):
                    left.append((below + name + b"/", *folders))
        return dict(sorted(found.items()))

    def _content(self, oid: str, kind: str) -> bytes:
        found = self.read(oid)
        if found is None or found[0] != kind:
            raise GitFailed("cat-file", 128, f"fatal: there is no {kind} {oid}")
        return found[1]

    def _asked(self) -> Batch:
        if self._batch is None:
            self._batch = self._opened.enter_context(self._open_batch())
        return self._batch

    def _named_in_files(self, name: str, kind: str) -> str | None:
        revision = REVISION.fullmatch(name)
        assert revision is not None  # everything matches
        found = self._starting_point(revision[1])
        if found is None:
            return None
        kept, content = self._loose(found)
        for step in revision[2].split("^")[1:]:
            if kept != "commit" or os.path.lexists(self._repository.shared_dir / "shallow"):
                raise AskGit
            above = _parents(content)
            if len(above) < int(step):
                return None
            found = above[int(step) - 1]
            kept, content = self._loose(found)
        if (kept, kind) == ("commit", "tree") and (tree := TREE.match(content)):
            return tree[1].decode()
        if kept != kind:
            raise AskGit
        return found

    def _starting_point(self, name: str) -> str | None:
        if FULL_ID.fullmatch(name):
            return name
        if name == "HEAD":
            return checked_out(self._repository)[0]
        return tip(self._repository, name)

    def _loose(self, oid: str) -> tuple[str, bytes]:
        if not FULL_ID.fullmatch(oid):
            raise AskGit
        packed = read_regular(self._repository.shared_dir / "objects" / oid[:2] / oid[2:], most_bytes=LOOSE_BYTES)
        if packed is None:
            packed = self._borrowed(oid)
        inflater = zlib.decompressobj()
        try:
            whole = inflater.decompress(packed, CONTENT_BYTES)
        except zlib.error:
            raise AskGit from None
        if not inflater.eof or _digest(whole, len(oid)) != oid:
            raise AskGit
        head, _, content = whole.partition(b"\0")
        return head.partition(b" ")[0].decode(), content

    def _borrowed(self, oid: str) -> bytes:
        if self._lenders is None:
            listed = (
                read_regular(self._repository.shared_dir / "objects/info/alternates", most_bytes=LOOSE_BYTES) or b""
            )
            self._lenders = [os.fsdecode(line) for line in listed.split(b"\n") if line.startswith(b"/")]
        for folder in self._lenders:
            packed = read_regular(os.path.join(folder, oid[:2], oid[2:]), most_bytes=LOOSE_BYTES)
            if packed is not None:
                return packed
        raise AskGit


def _as_file(entry: TreeEntry) -> TreeEntry:
    return ABSENT if entry.mode == FOLDER else entry


def _folder_id(entry: TreeEntry) -> str:
    return entry.oid if entry.mode == FOLDER else ""


def _digest(whole: bytes, digits: int) -> str:
    return (hashlib.sha1 if digits == 40 else hashlib.sha256)(whole, usedforsecurity=False).hexdigest()


def _parents(commit: bytes) -> list[str]:
    head = commit.partition(b"\n\n")[0]
    return [line[7:].decode() for line in head.split(b"\n") if line.startswith(b"parent ")]


def _entries(content: bytes, id_bytes: int) -> Iterator[tuple[bytes, TreeEntry]]:
    at = 0
    while at < len(content):
        space = content.index(b" ", at)
        end = content.index(b"\0", space)
        mode = int(content[at:space], 8)
        yield content[space + 1 : end], TreeEntry(_shown(mode), content[end + 1 : end + 1 + id_bytes].hex())
        at = end + 1 + id_bytes


def _shown(mode: int) -> str:
    # trees of old git versions may contain other modes
    kind = mode & 0o170000
    if kind == 0o100000:
        return "100755" if mode & 0o100 else "100644"
    return {0o120000: "120000", 0o040000: FOLDER}.get(kind, "160000")
