"""Contents of a workspace besides its commit's files: copies of the project's installed packages, and separate ports.

Packages are copied because agents install packages. A change in an agent's ``.venv`` then affects neither the project
nor another workspace. In a copy, the workspace's path replaces the project's path (first lines of scripts, paths of
editable installs). Therefore, nothing in a workspace imports the project's files. The next job uses the same copy,
unless the project's packages have changed. The user's set-up command runs in a new workspace, and when a file that
lists the packages has changed. The teardown command runs before a workspace is removed. (SC-17, SC-18)
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
from agent_harness.verification.runner.linked_paths import ignored_paths, linkable

INCLUDE_FILE = ".worktreeinclude"
FIRST_PORT, LAST_PORT = 20000, 32767
BLOCK = 20
LOCK_FILES = (
    *("requirements*.txt", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock*.toml"),
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"),
    *("Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock", "gradle.lockfile"),
)
"""Names of the files that list the installed packages in most projects."""
_TAIL_LINES = 40
_TEXT_BYTES = 1 << 20
_START_LINE = 127  # of a script: some systems cut longer ones, a shell does not
_BY_SHELL = b"""#!/bin/sh
'''exec' %b "$0" "$@"
' '''
"""
_SITES = ("lib/python3*/site-packages", "Lib/site-packages")
_SCRIPTS = ("bin", "Scripts")
_TOLD = ("HARNESS_WORKER", "HARNESS_SLOT", "HARNESS_PORT_", "HARNESS_DB_SUFFIX")


def linkable_in(
    project: Git, patterns: Sequence[str], own: Sequence[str], *, installed: bool = True
) -> tuple[str, ...]:
    """Return the paths to copy into workspaces."""
    # installed packages, and ignored files that match a pattern
    top = str(project.top())
    ignored = ignored_paths(Git(top))
    wished = matcher([each for pattern in (*patterns, *_included(top)) for each in _anywhere(pattern)])
    is_ours = matcher(own)
    found = {path for path in ignored if wished(os.fsencode(path))}
    found |= {*linkable(Path(top), ignored)} if installed else set()
    return tuple(sorted(each for each in found if not is_ours(os.fsencode(each))))


def not_linkable(project: Git, patterns: Sequence[str]) -> list[str]:
    """Return messages about configured files that are not copied into workspaces."""
    found: list[str] = []
    for each in patterns:
        path = os.path.normpath(os.path.join(project.top(), each))
        if not path.startswith(f"{project.top()}{os.sep}"):
            found.append(f"parallel.copy: {each} leads outside the project; it is ignored")
        elif os.path.islink(path):
            found.append(f"parallel.copy: {each} is a symbolic link; it is ignored")
        elif project.ok("ls-files", "--error-unmatch", "--", f":(top,literal){each}"):
            found.append(f"parallel.copy: {each} is tracked; workspaces have it as it is in the commit")
    return found


def lend(project: str, workspace: Git, paths: Sequence[str]) -> None:
    """Copy these paths of the project into a workspace."""
    folder = str(workspace.top())
    known = files.read_json(record) if os.path.exists(record := f"{folder}.lent") else {}
    if not paths and not known:
        return
    tracked = workspace.run("ls-files", "-z", "--", *paths).split(b"\0") if paths else []
    kept: dict[str, object] = {}
    for path in paths:
        source, target = os.path.join(project, path), os.path.join(folder, path)
        is_tracked = any(each == os.fsencode(path) or each.startswith(os.fsencode(f"{path}/")) for each in tracked)
        if is_tracked or os.path.islink(source) or not os.path.exists(source) or not _leads_inside(target, folder):
            continue
        stamp = _stamp(source)
        if os.path.lexists(target):
            if path not in known:
                continue  # the workspace has its own
            if known[path] == stamp:
                kept[path] = stamp
                continue
            remove(target)
        files.write_json(record, {**known, **kept, path: ""})  # a copy that is cut off is made again
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _copy(source, target)
        for text in _texts_of(target):
            _rename(text, project, folder)
        kept[path] = stamp
    if kept != known:
        files.write_json(record, kept)


def _included(top: str) -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        lines = Path(top, INCLUDE_FILE).read_text().splitlines()
        return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("#", "!"))]
    return []


def _anywhere(pattern: str) -> Sequence[str]:
    """Return the pattern. A pattern without a slash is changed to match at any depth."""
    return (pattern,) if "/" in pattern.rstrip("/") else (f"**/{pattern}",)


def _leads_inside(target: str, folder: str) -> bool:
    return os.path.realpath(os.path.dirname(target)).startswith(os.path.realpath(folder))


def _stamp(path: str) -> str:
    """Return a text that changes when packages are installed in the folder."""
    folders = [path, *(str(site) for pattern in _SITES for site in Path(path).glob(pattern))]
    times = [os.lstat(each).st_mtime_ns for each in folders]
    with suppress(NotADirectoryError):
        times += sorted(entry.stat(follow_symlinks=False).st_mtime_ns for entry in os.scandir(path))
    return ".".join(map(str, times))


def _copy(source: str, target: str) -> None:
    """Copy a file, folder or symbolic link, but not a socket or device."""

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
    """Yield the files of a virtual environment that may contain its path."""
    path = Path(folder)
    yield path / "pyvenv.cfg"
    for name in _SCRIPTS:
        yield from (path / name).glob("*")
    for pattern in _SITES:
        for site in path.glob(pattern):
            yield from (*site.glob("*.pth"), *site.glob("__editable__*.py"), *site.glob("*.egg-link"))


def _rename(path: Path, old: str, new: str) -> None:
    """Replace the project's path by the workspace's path in a text file."""
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
    command: str | None = None
    key: tuple[str, ...] = LOCK_FILES
    minutes: float = 10.0
    teardown: str | None = None
    sandbox: object = None  # as the project's settings have it

    @classmethod
    def of(cls, settings: ParallelSettings, sandbox: object) -> "SetUp":
        return cls(
            sandbox=sandbox,
            command=settings.setup,
            key=settings.setup_key or LOCK_FILES,
            minutes=settings.setup_minutes,
            teardown=settings.teardown,
        )

    def as_record(self) -> JsonObject:
        return {**asdict(self), "key": [*self.key]}

    @classmethod
    def from_record(cls, record: JsonObject) -> "SetUp":
        known: JsonObject = {**record, "key": tuple(record["key"])}
        return cls(**known)


def set_up(workspace: Git, project: str, wished: SetUp) -> None:
    """Run the user's set-up command in a workspace, unless the last set-up is still valid."""
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
    later = {"wished": wished.as_record(), "home": project, "variables": told}
    files.write_json(record, {**later, "digest": ""})  # one that is cut off is made again
    if wished.command is not None:
        done = _run(wished.command, wished, folder, project)
        if done.exit_code != 0:
            lines = redact(done.output.decode("utf-8", "replace")).splitlines()[-_TAIL_LINES:]
            raise PreflightFailed(f"parallel.setup failed ({done.ending}): {wished.command}", output=lines)
        # restore the commit's files, and delete new files that git does not ignore
        workspace.run("read-tree", "--reset", "-u", base, timeout_seconds=600)
        workspace.run("clean", "-ffdq", timeout_seconds=600)
    files.write_json(record, {**later, "digest": digest})


def tear_down(folder: str) -> str | None:
    """Run the teardown command of a workspace. Return a message if it fails."""
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
    command: str, wished: SetUp, folder: str, project: str, variables: Mapping[str, str] | None = None
) -> process.Completed:
    return process.run(
        command,
        cwd=folder,
        env={**process.scrubbed_environment(), **(variables or {}), "HARNESS_HOME_DIR": project},
        timeout_seconds=clock.scaled(wished.minutes * 60),
        sandbox=of_agent([folder], settings=settings_from(wished.sandbox), installs=True, reads=folders_of_project()),
    )


def _digest_of(workspace: Git, base: str, wished: SetUp) -> str:
    is_key = matcher([each for pattern in wished.key for each in _anywhere(pattern)])
    listed = workspace.run("ls-tree", "-r", "-z", base).split(b"\0")
    found = [each for each in listed if is_key(each.partition(b"\t")[2])]
    return sha256(b"\0".join([f"{wished.command}\0{wished.teardown}".encode(), *found])).hexdigest()


class PortBlocks:
    """Port numbers for worker slots, reserved until this process ends."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bases: dict[str, int] = {}
        self._held: list[LockFile] = []

    def variables(self, slot: str, workers: int) -> Mapping[str, str]:
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
            raise Refused(
                "Cannot write a state folder outside the project", hint="set XDG_STATE_HOME to a writable folder"
            )
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
        raise Refused(f"fewer than {self._count} free ports are left for a slot", hint="set parallel.ports to 0")

    def close(self) -> None:
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
