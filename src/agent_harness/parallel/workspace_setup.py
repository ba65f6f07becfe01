"""What a workspace has beside the files of its commit: copies of what the project has installed, and ports of its own.

Copies, since agents install packages: what one of them does to its own ``.venv`` reaches neither the project nor
another workspace. In a copy every text that names the project's folder (start lines of scripts, paths of editable
installs) names the workspace instead, so that nothing in a workspace imports the project's files. A copy stays from one
job to the next, and is made again when the project's own has changed. A command of the person's sets a workspace up
when it is made, and when one of the files has changed that say what is installed; another one is run before it is
removed. SC-17, SC-18.
"""

import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from agent_harness.errors import HarnessError, PreflightFailed, Refused
from agent_harness.kernel import clock, files, process, trusted_state
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.locate import folders_of_project
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.lock import LockFile
from agent_harness.kernel.process.sandbox import of_agent, settings_from
from agent_harness.kernel.redact import redact
from agent_harness.kernel.temporary import remove
from agent_harness.session.parallel_settings import ParallelSettings
from agent_harness.verification.runner.lending import ignored_paths, lendable

INCLUDE_FILE = ".worktreeinclude"
FIRST_PORT, LAST_PORT = 20000, 32767
BLOCK = 20
LOCK_FILES = (
    *("requirements*.txt", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock*.toml"),
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"),
    *("Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock", "gradle.lockfile"),
)
"""What says, in most projects, which packages are installed."""
_TAIL_LINES = 40
_TEXT_BYTES = 1 << 20
_START_LINE = 127  # of a script: what is longer is cut off by some systems, and not by a shell
_BY_SHELL = b"""#!/bin/sh
'''exec' %b "$0" "$@"
' '''
"""
_SITES = ("lib/python3*/site-packages", "Lib/site-packages")
_SCRIPTS = ("bin", "Scripts")
_TOLD = ("HARNESS_WORKER", "HARNESS_SLOT", "HARNESS_PORT_", "HARNESS_DB_SUFFIX")


def lendable_in(home: Git, patterns: Sequence[str], own: Sequence[str], *, installed: bool = True) -> tuple[str, ...]:
    """What workspaces get of the project: what is installed there, and ignored files of these patterns; not ours."""
    top = str(home.top())
    ignored = ignored_paths(Git(top))
    wished = matcher([each for pattern in (*patterns, *_included(top)) for each in _anywhere(pattern)])
    is_ours = matcher(own)
    found = {path for path in ignored if wished(os.fsencode(path))}
    found |= {*lendable(Path(top), ignored)} if installed else set()
    return tuple(sorted(each for each in found if not is_ours(os.fsencode(each))))


def not_lendable(home: Git, patterns: Sequence[str]) -> list[str]:
    """Of the files that these name one by one, why workspaces get no copy."""
    found: list[str] = []
    for each in patterns:
        path = os.path.normpath(os.path.join(home.top(), each))
        if not path.startswith(f"{home.top()}{os.sep}"):
            found.append(f"parallel.copy: {each} leads outside of the project, and is passed over")
        elif os.path.islink(path):
            found.append(f"parallel.copy: {each} is a link, and is passed over")
        elif home.ok("ls-files", "--error-unmatch", "--", f":(top,literal){each}"):
            found.append(f"parallel.copy: {each} is tracked; workspaces have it as it is in the commit")
    return found


def lend(home: str, workspace: Git, paths: Sequence[str]) -> None:
    """Copy these paths from the project at ``home`` into a workspace; never over a file of its commit or its own."""
    folder = str(workspace.top())
    known = files.read_json(record) if os.path.exists(record := f"{folder}.lent") else {}
    if not paths and not known:
        return
    tracked = workspace.run("ls-files", "-z", "--", *paths).split(b"\0") if paths else []
    kept: dict[str, object] = {}
    for path in paths:
        source, target = os.path.join(home, path), os.path.join(folder, path)
        is_tracked = any(each == os.fsencode(path) or each.startswith(os.fsencode(f"{path}/")) for each in tracked)
        if is_tracked or os.path.islink(source) or not os.path.exists(source) or not _leads_inside(target, folder):
            continue
        stamp = _stamp(source)
        if os.path.lexists(target):
            if path not in known:
                continue  # the workspace has one of its own
            if known[path] == stamp:
                kept[path] = stamp
                continue
            remove(target)
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
    """The text, naming the workspace where it named the project; a program that is no text stays as it is."""
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


@dataclass(frozen=True, kw_only=True)
class SetUp:
    """How workspaces are set up."""

    command: str | None = None
    key: tuple[str, ...] = LOCK_FILES
    minutes: float = 10.0
    teardown: str | None = None
    sandbox: object = None  # as the project's settings have it

    @classmethod
    def of(cls, settings: ParallelSettings, sandbox: object) -> "SetUp":
        """As a person has set it."""
        return cls(
            sandbox=sandbox,
            command=settings.setup,
            key=settings.setup_key or LOCK_FILES,
            minutes=settings.setup_minutes,
            teardown=settings.teardown,
        )

    def as_record(self) -> JsonObject:
        """As a job has it."""
        return {**asdict(self), "key": [*self.key]}

    @classmethod
    def from_record(cls, record: JsonObject) -> "SetUp":
        """The same, read back."""
        known: JsonObject = {**record, "key": tuple(record["key"])}
        return cls(**known)


def set_up(workspace: Git, home: str, wished: SetUp) -> None:
    """Runs the command in a workspace that has not been set up so; what git does not ignore is as before afterwards.

    ``PreflightFailed`` with the last lines where it fails or takes too long.
    """
    folder = str(workspace.top())
    record = f"{folder}.setup"
    if wished.command is None and wished.teardown is None:
        return
    base = workspace.head() or ""
    digest = _digest_of(workspace, base, wished)
    known = files.read_json(record) if os.path.exists(record) else {}
    if known.get("digest") == digest:
        return
    told = {name: value for name, value in os.environ.items() if name.startswith(_TOLD)}
    later = {"wished": wished.as_record(), "home": home, "variables": told}
    files.write_json(record, {**later, "digest": ""})  # one that is cut off is made again
    if wished.command is not None:
        done = _run(wished.command, wished, folder, home)
        if done.exit_code != 0:
            lines = redact(done.output.decode("utf-8", "replace")).splitlines()[-_TAIL_LINES:]
            raise PreflightFailed(f"parallel.setup failed ({done.ending}): {wished.command}", output=lines)
        workspace.run("read-tree", "--reset", "-u", base, timeout_seconds=600)
        workspace.run("clean", "-ffdq", timeout_seconds=600)
    files.write_json(record, {**later, "digest": digest})


def tear_down(folder: str) -> str | None:
    """Runs the command that a workspace was set up to be removed with; a sentence where that fails."""
    try:
        known = files.read_json(f"{folder}.setup")
    except (OSError, HarnessError):
        return None
    wished = SetUp.from_record(known["wished"])
    if not wished.teardown or not os.path.isdir(folder):
        return None
    try:
        done = _run(wished.teardown, wished, folder, known["home"], known["variables"])
    except (HarnessError, OSError) as error:
        return f"parallel.teardown in {folder}: {error}"
    return f"parallel.teardown in {folder}: {done.ending}" if done.exit_code else None


def _run(
    command: str, wished: SetUp, folder: str, home: str, variables: Mapping[str, str] | None = None
) -> process.Completed:
    return process.run(
        command,
        cwd=folder,
        env={**process.scrubbed_environment(), **(variables or {}), "HARNESS_HOME_DIR": home},
        timeout_seconds=clock.scaled(wished.minutes * 60),
        sandbox=of_agent([folder], settings=settings_from(wished.sandbox), installs=True, reads=folders_of_project()),
    )


def _digest_of(workspace: Git, base: str, wished: SetUp) -> str:
    """Another one for each command, and for each content of the files that say what is installed."""
    is_key = matcher([each for pattern in wished.key for each in _anywhere(pattern)])
    listed = workspace.run("ls-tree", "-r", "-z", base).split(b"\0")
    found = [each for each in listed if is_key(each.partition(b"\t")[2])]
    return sha256(b"\0".join([f"{wished.command}\0{wished.teardown}".encode(), *found])).hexdigest()


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
        raise Refused(f"no {self._count} ports are left for a slot", hint="set parallel.ports to 0")

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
