"""Output files of this process, such as the log of ``nohup harness run > run.log``. These files belong to no task. A
scan of the work tree skips them, so they are never stashed, committed or rolled back. A file is recognised by its
device and inode, whatever its name. Source: ``faces.md`` FIX-1."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from agent_harness.kernel import files
from agent_harness.kernel.git.locate import Repository

_STREAMS = (1, 2)
PRINTED = "# a run of agent-harness prints into:"
"""Comment line before the ignore rule of an output file. The harness finds and removes the rule by this line."""

_noted: set[str] = set()  # files that the programs behind this process's pipes write


def keep_out_of_sight(repository: Repository) -> None:
    """Make git ignore the files that receive this process's output, such as the log of ``nohup``."""
    _noted.update(_behind_pipes())
    for path in sorted(among(os.fsencode(repository.top))):
        ignore(repository, "/" + _as_pattern(os.fsdecode(path)), note=f"{PRINTED}\n")


def among(top: bytes) -> frozenset[bytes]:
    """Return this process's output files that are below ``top``, as paths relative to ``top``."""
    paths = {*_noted, *(path for stream in _STREAMS if (path := _file_of("self", stream)))}
    start = os.path.realpath(top) + b"/" if paths else b""
    return frozenset(name.removeprefix(start) for path in paths if (name := os.fsencode(path)).startswith(start))


def ignore(repository: Repository, line: str, *, note: str = "") -> None:
    """Add a line to ``.git/info/exclude`` if the line is missing."""
    add(os.path.join(repository.shared_dir, "info", "exclude"), [line], note=note)


def add(path: str, lines: Iterable[str], *, note: str = "") -> bool:
    """Add the missing lines to a file of ignore rules. Return True if a line was missing."""
    try:
        text = files.read_bytes(path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        text = ""
    there = {line.rstrip("\r") for line in text.split("\n")}
    missing = [line for line in lines if line not in there]
    if missing:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        end = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text or text.endswith("\n") else end
        added = (note + "".join(f"{line}\n" for line in missing)).replace("\n", end)
        files.replace(path, f"{text}{gap}{added}".encode("utf-8", "surrogateescape"))
    return bool(missing)


def forget(path: str, lines: Iterable[str], *, printed: bool = False, write: bool = True) -> list[str]:
    """Remove ``lines`` from a file of ignore rules, unless ``write`` is False. Return the lines that were found."""
    try:
        text = files.read_bytes(path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return []
    wanted = {*lines}
    kept: list[str] = []
    found: list[str] = []
    rows = iter(text.splitlines(keepends=True))
    for row in rows:
        bare = row.rstrip("\r\n")
        if printed and bare == PRINTED:
            found.append(next(rows, "").rstrip("\r\n"))
        # with ``printed``, the rules for the output files of runs go too
        elif bare in wanted:
            found.append(bare)
        else:
            kept.append(row)
    if found and write:
        if kept:
            files.replace(path, "".join(kept).encode("utf-8", "surrogateescape"))
        else:
            files.unlink(path)
    return found


def _as_pattern(path: str) -> str:
    return "".join("?" if letter == "\n" else f"\\{letter}" if letter in "*?[]\\ !#" else letter for letter in path)


def _file_of(process: str, stream: int) -> str | None:
    """Return the path of the regular file that a process has open as ``stream``, or ``None``."""
    with suppress(OSError):
        if process == "self":
            found = os.fstat(stream)
            if not stat.S_ISREG(found.st_mode):
                return None
            path = _name_of(stream)
        else:
            found, path = os.stat(f"/proc/{process}/fd/{stream}"), os.readlink(f"/proc/{process}/fd/{stream}")
        there = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino):
            return path
    return None


def _name_of(stream: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{stream}")
    import fcntl

    asked = getattr(fcntl, "F_GETPATH", None)
    if asked is None:
        raise OSError(stream, "the path of an open file cannot be found on this system")
    return os.fsdecode(fcntl.fcntl(stream, asked, bytes(1024)).rstrip(b"\0"))


def _behind_pipes() -> Iterator[str]:
    # files that a program such as ``tee`` writes while it reads our output
    pipes = set()
    for stream in _STREAMS:
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(stream).st_mode):
                pipes.add(os.readlink(f"/proc/self/fd/{stream}"))
    for process in _of_our_job() if pipes else ():
        with suppress(OSError):
            if os.readlink(f"/proc/{process}/fd/0") in pipes:
                for stream in os.listdir(f"/proc/{process}/fd"):
                    if path := _file_of(process, int(stream)):
                        yield path


def _of_our_job() -> Iterable[str]:
    own = os.getpgrp()
    with suppress(OSError):
        for name in os.listdir("/proc"):
            with suppress(OSError):
                if name.isdigit() and int(name) != os.getpid() and os.getpgid(int(name)) == own:
                    yield name
