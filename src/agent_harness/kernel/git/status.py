"""Differences between the work tree and an index, read from one ``git status`` call and returned as lists of paths.
Paths are bytes, as in the file system, relative to the top of the work tree."""

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from agent_harness.errors import TimedOut, UnsafeTree
from agent_harness.kernel.git import own_output
from agent_harness.kernel.git.isolated import IsolatedView
from agent_harness.kernel.terminal import printable

GITLINK = "160000"
"""Mode of an index entry that refers to a commit of another repository."""

RULES = frozenset([b".gitignore", b".gitattributes"])
CLOSED = re.compile(rb"could not open directory '(.+?)/?': Permission denied")
WALK_SECONDS = 120.0
"""Time limit of the first ``git status`` call, in seconds. After it, the harness checks for pipes and calls git
again."""

HIDING = (("--no-assume-unchanged", "--assume-unchanged"), ("--no-skip-worktree", "--skip-worktree"))


@dataclass(slots=True)
class Scan:
    changed: list[bytes] = field(default_factory=list)  # there, and not as in the index
    intended: list[bytes] = field(default_factory=list)  # among them: in the index with `git add -N` only
    deleted: list[bytes] = field(default_factory=list)  # in the index, and not there
    untracked: list[bytes] = field(default_factory=list)  # there, not in the index, not ignored
    nested: list[bytes] = field(default_factory=list)  # folders of other repositories, with a final slash
    ignored: list[bytes] = field(default_factory=list)  # a folder that is ignored as a whole ends in a slash
    unmerged: list[bytes] = field(default_factory=list)
    staged: list[tuple[str, bytes]] = field(default_factory=list)  # letter of the change from HEAD to the index
    letters: dict[bytes, str] = field(default_factory=dict)  # both letters of every path, as `git status` prints them

    @property
    def clean(self) -> bool:
        """True if the work tree equals the index, apart from ignored files and nested repositories."""
        return not (self.changed or self.deleted or self.untracked or self.unmerged)

    def every_path(self) -> Iterator[bytes]:
        return chain(self.changed, self.deleted, self.untracked)

    def without(self, paths: Set[bytes]) -> "Scan":
        names = ("changed", "intended", "deleted", "untracked", "unmerged")
        kept = {name: [path for path in getattr(self, name) if path not in paths] for name in names}
        staged = [(letter, path) for letter, path in self.staged if path not in paths]
        letters = {path: words for path, words in self.letters.items() if path not in paths}
        return replace(self, **kept, staged=staged, letters=letters)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    mode: str
    oid: str
    path: bytes


class ClosedFolder(UnsafeTree):
    """Error: the harness cannot read a folder that belongs to this user."""

    def __init__(self, folders: Sequence[bytes]) -> None:
        self.folders = folders
        name = shown(folders[0])
        super().__init__(f"the folder {name} cannot be read", hint=f"chmod u+rwx {name}")


def scan(view: IsolatedView, index: str | None, *, ignored: bool = True) -> Scan:
    """Return the differences between the work tree and an index."""
    words = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--no-ahead-behind")
    more = (f"--ignored={'matching' if ignored else 'no'}", "--ignore-submodules=dirty")
    top = os.fsencode(view.repository.top)
    try:
        done = view.call(*words, *more, index=index, timeout_seconds=WALK_SECONDS)
    except TimedOut:
        _refuse_pipes(top)
        done = view.call(*words, *more, index=index)
    closed = [path for path in CLOSED.findall(done.stderr) if _is_ours(os.path.join(top, path))]
    if closed:
        raise ClosedFolder(closed)
    found = Scan()
    for record in split(done.stdout):
        if not record.startswith(b"# "):
            _READERS[record[:2]](found, record)
    ours = own_output.among(top)
    return found.without(ours) if ours else found


def _is_ours(folder: bytes) -> bool:
    try:
        return os.lstat(folder).st_uid == os.geteuid()
    except OSError:
        return False


def _refuse_pipes(top: bytes) -> None:
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name != b".git"]
        for name in RULES & {*files}:
            path = os.path.join(folder, name)
            if kind_at(top, path) == "other":
                text = shown(path)
                raise UnsafeTree(
                    f"{text} is not a regular file, so git blocks when it reads it", hint=f"move {text} away"
                )


def _read_changed(found: Scan, record: bytes) -> None:
    fields = record.split(b" ", 8)
    path, letters = fields[8], fields[1].decode()
    found.letters[path] = letters
    if letters[0] != ".":
        found.staged.append((letters[0], path))
    if fields[5].decode() == GITLINK != fields[4].decode():
        found.deleted.append(path)
        found.nested.append(path + b"/")
    elif letters[1] == "D":
        found.deleted.append(path)
    elif letters[1] != ".":
        found.changed.append(path)
    if letters[1] == "A":
        found.intended.append(path)


def _read_unmerged(found: Scan, record: bytes) -> None:
    fields = record.split(b" ", 10)
    found.letters[fields[10]] = fields[1].decode()
    found.unmerged.append(fields[10])


_READERS: dict[bytes, Callable[[Scan, bytes], None]] = {
    b"1 ": _read_changed,
    b"u ": _read_unmerged,
    b"? ": lambda found, record: (found.nested if record.endswith(b"/") else found.untracked).append(record[2:]),
    b"! ": lambda found, record: found.ignored.append(record[2:]),
}


def shown(path: bytes) -> str:
    return printable(path.decode("utf-8", "backslashreplace"))


def split(output: bytes) -> list[bytes]:
    return output.split(b"\0")[:-1]


def joined(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def entries(output: bytes) -> Iterator[IndexEntry]:
    for record in split(output):
        facts, _, path = record.partition(b"\t")
        words = facts.decode().split()
        yield IndexEntry(words[0], words[1] if len(words[1]) >= 40 else words[2], path)


def update(view: IsolatedView, index: str, *, remove: Sequence[bytes] = (), add: Sequence[bytes] = ()) -> None:
    """Remove the paths ``remove`` from an index, and add the files ``add``."""
    top = os.fsencode(view.repository.top)
    links = Links(top)
    absent = [path for path in remove if not links.above(path) and kind_at(top, path) == "nothing"]
    other = sorted({*remove} - {*absent})
    if other:
        view.call("update-index", "-z", "--force-remove", "--stdin", input=joined(other), index=index)
    if absent or add:
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        view.call(*words, input=joined((*absent, *add)), index=index)


class Links:
    def __init__(self, top: bytes) -> None:
        self._top = top
        self._known: dict[bytes, bool] = {}

    def above(self, path: bytes) -> bool:
        """Return True if a folder above the path is a symbolic link."""
        for parent in parents(path):
            if parent not in self._known:
                self._known[parent] = os.path.islink(os.path.join(self._top, parent))
            if self._known[parent]:
                return True
        return False


def flagged(listing: bytes) -> dict[bytes, str]:
    """Return the flags ``assume`` and ``skip`` of each file in an ``ls-files -v -z`` listing."""
    if listing.startswith(b"H ") and listing.count(b"\0H ") + 1 == listing.count(b"\0"):
        return {}
    found = {}
    for record in split(listing):
        tag = record[:1]
        words = ["assume"] * tag.islower() + ["skip"] * (tag in b"Ss")
        if words:
            found[record[2:]] = " ".join(words)
    return found


def set_flags(view: IsolatedView, index: str, flags: dict[bytes, str], *, on: bool) -> None:
    """Set or clear index flags (``assume``, ``skip``) of files."""
    for word, (off_option, on_option) in zip(("assume", "skip"), HIDING, strict=True):
        paths = [path for path, words in flags.items() if word in words.split()]
        if paths:
            option = on_option if on else off_option
            view.call("update-index", "-z", option, "--stdin", input=joined(paths), index=index)


def uncover(view: IsolatedView, index: str, listing: bytes) -> dict[bytes, str]:
    """Clear the index flags that hide changes. Return the cleared flags by path."""
    top = os.fsencode(view.repository.top)
    # a missing file keeps its flag: the user left it out, as in a sparse checkout
    there = {path: words for path, words in flagged(listing).items() if kind_at(top, path) != "nothing"}
    set_flags(view, index, there, on=False)
    return there


def matcher(patterns: Sequence[str], prefix: bytes = b"") -> Callable[[bytes], bool]:
    """Return a function that tells whether a path, or a folder above the path, matches a pattern."""
    if not patterns:
        return lambda path: False
    start = re.escape(prefix + b"/") if prefix else b""
    either = b"|".join(_translated(each) for each in patterns)
    expression = re.compile(start + b"(?:" + either + b")(?:/|\\Z)", re.DOTALL)
    return lambda path: expression.match(path) is not None


def _translated(pattern: str) -> bytes:
    text = os.fsencode(pattern).removeprefix(b"./").strip(b"/").removesuffix(b"/**")
    anywhere = text.startswith(b"**/")
    parts = re.split(rb"(\*+|\?)", text.removeprefix(b"**/"))
    wild = {b"?": b"[^/]"}
    body = b"".join(wild.get(part, b"[^/]*") if part[:1] in (b"*", b"?") else re.escape(part) for part in parts)
    return (b"(?:.*/)?" if anywhere else b"") + body


def under(path: bytes, places: set[bytes]) -> bool:
    """Return True if ``places`` contains the path or a parent folder of the path."""
    # folders in ``places`` end in a slash
    return path in places or any(parent + b"/" in places for parent in parents(path))


def parents(path: bytes) -> list[bytes]:
    return [path[:at] for at, byte in enumerate(path) if byte == 0x2F]


def holds(ordered: Sequence[bytes], folder: bytes) -> bool:
    """Return True if a path of the sorted list is below ``folder``, which ends in a slash."""
    return bool(at_or_below(ordered, folder))


def at_or_below(ordered: Sequence[bytes], place: bytes) -> Sequence[bytes]:
    """Return the paths of a sorted list that are equal to ``place`` or below ``place``."""
    first = bisect_left(ordered, place)
    if not place.endswith(b"/"):
        return ordered[first : first + 1] if ordered[first : first + 1] == [place] else []
    return ordered[first : bisect_left(ordered, place[:-1] + b"0", first)]


def kind_at(top: bytes, path: bytes) -> str:
    """Return the kind of a path: ``file`` (or link), ``folder``, ``other`` (such as a pipe) or ``nothing``."""
    try:
        mode = os.lstat(os.path.join(top, path)).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"
