"""What a place has beside the files of its commit: copies of what the project has installed, and ports of its own.

Copies, since agents install packages: what one of them does to its own ``.venv`` reaches neither the project nor
another place. In a copy every text that names the project's folder (start lines of scripts, paths of editable installs)
names the place instead, so that nothing in a place imports the project's files. A copy stays from one order to the
next, and is made again when the project's own has changed. SC-17, SC-18.
"""

import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from agent_harness.errors import Refused
from agent_harness.kernel import files, trusted_state
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.lock import LockFile
from agent_harness.kernel.temporary import remove_tree
from agent_harness.verification.runner.lending import ignored_paths, lendable

INCLUDE_FILE = ".worktreeinclude"
FIRST_PORT, LAST_PORT = 20000, 32767
BLOCK = 20
_TEXT_BYTES = 1 << 20
_START_LINE = 127  # of a script: what is longer is cut off by some systems, and not by a shell
_BY_SHELL = b"""#!/bin/sh
'''exec' %b "$0" "$@"
' '''
"""
_SITES = ("lib/python3*/site-packages", "Lib/site-packages")
_SCRIPTS = ("bin", "Scripts")


def lendable_in(home: Git, patterns: Sequence[str], own: Sequence[str], *, installed: bool = True) -> tuple[str, ...]:
    """What places get of the project: what is installed there, and ignored files of these patterns; not ours."""
    top = str(home.top())
    ignored = ignored_paths(Git(top))
    wished = matcher([each for pattern in (*patterns, *_included(top)) for each in _anywhere(pattern)])
    is_ours = matcher(own)
    found = {path for path in ignored if wished(os.fsencode(path))}
    found |= {*lendable(Path(top), ignored)} if installed else set()
    return tuple(sorted(each for each in found if not is_ours(os.fsencode(each))))


def lend(home: str, place: Git, paths: Sequence[str]) -> None:
    """Copies these from the project at ``home`` into a place, but over nothing that the commit or the place has."""
    folder = str(place.top())
    known = files.read_json(record) if os.path.exists(record := f"{folder}.lent") else {}
    if not paths and not known:
        return
    tracked = place.run("ls-files", "-z", "--", *paths).split(b"\0") if paths else []
    kept: dict[str, object] = {}
    for path in paths:
        source, target = os.path.join(home, path), os.path.join(folder, path)
        is_tracked = any(each == os.fsencode(path) or each.startswith(os.fsencode(f"{path}/")) for each in tracked)
        if is_tracked or os.path.islink(source) or not os.path.exists(source) or not _leads_inside(target, folder):
            continue
        stamp = _stamp(source)
        if os.path.lexists(target):
            if path not in known:
                continue  # the place has one of its own
            if known[path] == stamp:
                kept[path] = stamp
                continue
            _remove(target)
        files.write_json(record, {**known, **kept, path: ""})  # a copy that is cut off is made again
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _copy(source, target)
        for text in _texts_of(target):
            _rename(text, home, folder)
        kept[path] = stamp
    if kept != known:
        files.write_json(record, kept)


def _included(top: str) -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        lines = Path(top, INCLUDE_FILE).read_text().splitlines()
        return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("#", "!"))]
    return []


def _anywhere(pattern: str) -> Sequence[str]:
    """A pattern without a slash is one of names, wherever they are."""
    return (pattern,) if "/" in pattern.rstrip("/") else (f"**/{pattern}",)


def _leads_inside(target: str, folder: str) -> bool:
    return os.path.realpath(os.path.dirname(target)).startswith(os.path.realpath(folder))


def _stamp(path: str) -> str:
    """Changes with what is installed there: the times of the folder, of what is in it, and of package folders."""
    folders = [path, *(str(site) for pattern in _SITES for site in Path(path).glob(pattern))]
    times = [os.lstat(each).st_mtime_ns for each in folders]
    with suppress(NotADirectoryError):
        times += sorted(entry.stat(follow_symlinks=False).st_mtime_ns for entry in os.scandir(path))
    return ".".join(map(str, times))


def _copy(source: str, target: str) -> None:
    """Without what is neither file, folder nor link: a socket of a running server is of no use to anybody else."""

    def special(folder: str, names: list[str]) -> Iterable[str]:
        paths = ((name, os.path.join(folder, name)) for name in names)
        return [
            name for name, path in paths if not (os.path.islink(path) or os.path.isfile(path) or os.path.isdir(path))
        ]

    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, ignore=special)
    elif os.path.isfile(source):
        shutil.copy2(source, target)


def _texts_of(folder: str) -> Iterator[Path]:
    """The files of an environment in which its own place, or that of the project, is written down."""
    path = Path(folder)
    yield path / "pyvenv.cfg"
    for name in _SCRIPTS:
        yield from (path / name).glob("*")
    for pattern in _SITES:
        for site in path.glob(pattern):
            yield from (*site.glob("*.pth"), *site.glob("__editable__*.py"), *site.glob("*.egg-link"))


def _rename(path: Path, old: str, new: str) -> None:
    """The text, naming the place where it named the project; a program that is no text stays as it is."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _TEXT_BYTES:
        return
    content = path.read_bytes()
    changed = re.sub(re.escape(os.fsencode(old)) + rb"(?![\w.-])", lambda _: os.fsencode(new), content)
    if b"\0" in content or changed == content:
        return
    first, _, rest = changed.partition(b"\n")
    if b"python" in first and first.startswith(b"#!") and len(first) > _START_LINE:
        changed = _BY_SHELL % first.removeprefix(b"#!").strip() + rest
    with suppress(PermissionError):
        path.write_bytes(changed)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
    else:
        os.unlink(path)


class PortBlocks:
    """Ports for slots, which no other slot of this user has, in whatever project: held until this process ends."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bases: dict[str, int] = {}
        self._held: list[LockFile] = []

    def variables(self, slot: str, workers: int) -> Mapping[str, str]:
        """What agents, set-up and checks in a slot are told. ``Refused`` when no ports are left."""
        number = slot.lstrip("wv")
        told = {"HARNESS_WORKER": slot, "HARNESS_SLOT": number, "HARNESS_WORKERS": str(workers)}
        told["HARNESS_DB_SUFFIX"] = f"_{slot}"
        if self._count:
            told |= {"HARNESS_PORT_BASE": str(self._base(slot)), "HARNESS_PORT_COUNT": str(self._count)}
        return told

    def _base(self, slot: str) -> int:
        if slot not in self._bases:
            self._bases[slot] = self._taken()
        return self._bases[slot]

    def _taken(self) -> int:
        folder = trusted_state.of_user("ports")
        if folder is None:
            raise Refused("no folder outside the project can be written", hint="set XDG_STATE_HOME")
        blocks = -(-self._count // BLOCK)
        for base in range(FIRST_PORT, LAST_PORT - blocks * BLOCK + 2, blocks * BLOCK):
            locks = [LockFile(os.path.join(folder, str(base + n * BLOCK))) for n in range(blocks)]
            taken: list[LockFile] = []
            for lock in locks:
                if lock.try_take():
                    break
                taken.append(lock)
            if len(taken) == blocks and all(map(_is_unused, range(base, base + self._count))):
                self._held += taken
                return base
            for lock in taken:
                lock.release()
        raise Refused(f"no {self._count} ports are left for a slot", hint="session_config.parallel.ports: 0")

    def close(self) -> None:
        """Gives them back."""
        for lock in self._held:
            lock.release()


def _is_unused(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
