"""Workspace: a separate repository and work tree for one agent at a time, which shares the project's objects.

    places/w1/             the work tree, with `.git`
    places/w1.index        its index as the harness last wrote it, which speeds up the next start
    places/w1.lock         held by the process that executes a job there
    places/w1.lent         the list of the project's files that were copied into the workspace
    places/w1.setup        the set-up and teardown commands, with a digest of the last set-up
    places/w1.json         the job, and the process that executes it
    places/w1.rest         exists while the project has all the work of the workspace
    places/v1.ignored      the ignored files that belong to a workspace for checks

The harness does not trust the content of a workspace. Before the next job, it saves all work that the project lacks on
rescue refs: commits, stashes, changed and new files. If this fails, it moves the folder aside. Then it creates `.git`
again, and reads changed files again. Ignored files (installed packages, caches) stay."""

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from agent_harness.errors import Busy, HarnessError, UnsafeTree
from agent_harness.kernel import files, snapshot
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.git.locate import text_of
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.lock import LockFile
from agent_harness.kernel.temporary import remove
from agent_harness.parallel.merge_queue.refs import ProjectRefs

RESCUE_REFS = "refs/harness/rescue"
_OWN_REFS = ("refs/harness/base/", "refs/harness/candidates/", "refs/tags/", "refs/heads/")
"""Prefixes of workspace refs that contain no work beyond HEAD and its history."""
_OID = re.compile(rb"^[0-9a-f]{40,64} ([0-9a-f]{40,64}) ", re.MULTILINE)
_WHOLE_ID = re.compile(r"[0-9a-f]{40,64}")
_PACK_BYTES = 1 << 20
_LOG_BYTES = 64 << 20
_FILE_BYTES, _ALL_BYTES = 64 << 20, 256 << 20
_MOST_FILES, _MOST_DEEP = 10_000, 20
_TOLD_BYTES = 100
"""Number of bytes reserved for the line that reports a truncation, so that copying the copy does not truncate it
again.
"""
TRIES = 20
"""Maximum number of tries to create a numbered ref, because another process may take the same number first."""


class Workspace:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.name = os.path.basename(folder)
        self.record = f"{folder}.json"
        self._index = f"{folder}.index"
        self._rest = f"{folder}.rest"
        self._ignored = f"{folder}.ignored"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the workspace's lock while the ``with`` block runs. Raise ``Busy`` if another process holds it."""
        os.makedirs(os.path.dirname(self.folder), mode=0o700, exist_ok=True)
        lock = LockFile(f"{self.folder}.lock")
        if holder := lock.try_take():
            raise Busy(f"{self.folder} is in use by {holder}")
        try:
            yield
        finally:
            lock.release()

    @property
    def at_rest(self) -> bool:
        """True if all work in the workspace is also in the project."""
        return os.path.lexists(self._rest)

    @at_rest.setter
    def at_rest(self, rests: bool) -> None:
        if rests:
            Path(self._rest).touch()
        elif self.at_rest:
            os.unlink(self._rest)

    @property
    def git(self) -> Git:
        return Git(self.folder)

    def is_whole(self, base: str) -> bool:
        """Return True if the workspace has its own repository with the commit ``base``."""
        found = Git(self.folder)
        own = Path(os.path.realpath(self.folder), ".git")
        try:
            is_own = found.is_repository and found.git_dir() == own and _is_readable(own)
            return is_own and found.commit_of(base) == base
        except (HarnessError, OSError, ValueError):
            return False

    def prepare(self, project: Git, base: str, branch: str, refs: ProjectRefs) -> None:
        """Reset the workspace to ``base``. Call ``rescue`` first to save other content."""
        project.update_ref(refs.workspace(self.name), base)  # so that no gc of the project removes the shared objects
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        remove(old := os.path.join(self.folder, ".git"))
        _make_repository(project, Path(old), base, branch)
        index = os.path.join(old, "index")
        with suppress(FileNotFoundError):
            shutil.copy2(self._index, index)
        git = self.git
        with git.view():
            try:
                git.run("read-tree", "--reset", "-u", base, timeout_seconds=600)
            except GitFailed:  # by an index of another time
                os.unlink(index)
                git.run("read-tree", "--reset", "-u", base, timeout_seconds=600)
            git.run("clean", "-ffdq", timeout_seconds=600)
            shutil.copy2(index, self._index)
            if git.head() != base:
                raise UnsafeTree(f"{self.folder} is not at the commit {base[:10]}")

    def drop_planted(self) -> bool:
        """Delete new ignored files. Return False if an older ignored file was changed or deleted."""
        # new ignored files could influence later checks
        known = files.read_json_if_any(self._ignored)
        if not known:
            return False
        found = self._ignored_files()
        if known.keys() - found.keys() - {""}:
            return False
        for path, stamp in found.items():
            if path not in known:
                remove(os.path.join(self.folder, path))
            elif stamp != known[path]:
                return False
        return True

    def note_ignored(self) -> None:
        """Record the present ignored files. Call this directly after the set-up."""
        files.write_json(self._ignored, {"": "", **self._ignored_files()})

    def _ignored_files(self) -> dict[str, str]:
        """Return a stamp of each ignored file, by path."""
        # each change of a file changes its stamp; only root can prevent this
        listed = self.git.run("ls-files", "--others", "--ignored", "--exclude-standard", "-z", timeout_seconds=600)
        found: dict[str, str] = {}
        for path in filter(None, os.fsdecode(listed).split("\0")):
            with suppress(OSError):
                at = os.lstat(os.path.join(self.folder, path))
                found[path] = f"{at.st_size}.{at.st_mtime_ns}.{at.st_ctime_ns}.{at.st_ino}"
        return found

    def clear(self) -> None:
        for path in (self.folder, self._index, f"{self.folder}.lent", f"{self.folder}.setup", self._ignored):
            remove(path)

    def rescue(self, project: Git, name: str, own: Sequence[str]) -> list[str]:
        """Save work that exists only in the workspace, and return the new rescue refs.
        If git cannot read the workspace, rename the folder and return its new path instead."""
        if not os.path.isdir(self.folder):
            return []
        try:
            return self._rescued(project, name, own)
        except (HarnessError, OSError, ValueError):
            number = 1
            while os.path.lexists(kept := f"{self.folder}.kept-{number}"):
                number += 1
            # git cannot read this workspace
            os.rename(self.folder, kept)
            self.clear()  # so that the next one is made with all that belongs into it
            return [kept]

    def _rescued(self, project: Git, name: str, own: Sequence[str]) -> list[str]:
        git = self.git
        if git.repository.top != Path(os.path.realpath(self.folder)) or not _is_readable(git.git_dir()):
            raise UnsafeTree(f"{self.folder} no longer has its own repository")
        with git.view(), project.view():
            return self._fetched_into(git, project, name, own)

    def _fetched_into(self, git: Git, project: Git, name: str, own: Sequence[str]) -> list[str]:
        excluded = matcher(own)
        found: list[str] = []
        changed = [each for each in git.status() if not excluded(os.fsencode(each.path))]
        if any(os.path.lexists(os.path.join(self.folder, each.path, ".git")) for each in changed):
            raise UnsafeTree("the workspace contains another repository")
        if changed:
            taken = snapshot.take(git, "refs/harness/left", exclude=own, message=f"What was left in {self.name}")
            found.append(taken.commit)
        refs = git.refs_below("refs/")
        found += [oid for ref, oid in refs.items() if not ref.startswith(_OWN_REFS)]
        for log in ("logs/HEAD", "logs/refs/stash"):
            with suppress(FileNotFoundError):
                found += [oid.decode() for oid in _OID.findall(_bytes_of(Path(self.folder, ".git", log)))]
        found += [oid for ref, oid in refs.items() if ref.startswith("refs/heads/")]
        found = [tip for tip in dict.fromkeys(found) if git.commit_of(tip) and project.commit_of(tip) is None]
        return [kept_as(project, f"{RESCUE_REFS}/{name}", _brought(git, project, tip)) for tip in _tips(git, found)]


def _tips(git: Git, commits: list[str]) -> list[str]:
    if len(commits) < 2:
        return commits
    return git.text("merge-base", "--independent", *commits).split()


def free_ref(git: Git, folder: str) -> str:
    numbers = [ref.rpartition("/")[2].partition("-")[0] for ref in git.refs_below(f"{folder}/")]
    return f"{folder}/{max((int(each) for each in numbers if each.isdecimal()), default=0) + 1}"


def kept_as(git: Git, folder: str, commit: str) -> str:
    """Store a commit under the next free numbered ref below ``folder``. Return the ref."""
    for _ in range(TRIES):
        with suppress(GitFailed):  # another process has taken it meanwhile
            git.update_ref(ref := free_ref(git, folder), commit, "")
            return ref
    git.update_ref(ref := free_ref(git, folder), commit, "")
    return ref


def fetch_into(workspace: Git, project: Git, commit: str, ref: str) -> None:
    """Copy a commit from a workspace into the project, and store it under ``ref``."""
    project.update_ref(ref, _brought(workspace, project, commit))


def _brought(workspace: Git, project: Git, commit: str) -> str:
    """Copy a commit from the workspace into the project, and return its id."""
    # the workspace's own git settings have no effect
    with project.view():
        if project.commit_of(commit) is None:
            words = ("pack-objects", "--revs", "--local", "--stdout", "-q")
            with workspace.view() as view:
                pack = view.call(*words, input=f"{commit}\n--not\n{_borrowed(workspace, project)}".encode()).stdout
            unpack = ("unpack-objects", "-q") if len(pack) < _PACK_BYTES else ("index-pack", "--stdin")
            project.run(*unpack, "--strict", input=pack, timeout_seconds=600)
    return commit


def _borrowed(workspace: Git, project: Git) -> str:
    """Return the base commit of the workspace's job, or "" if the project lacks it."""
    found = text_of(workspace.git_dir() / "harness-base").strip()
    return found if _WHOLE_ID.fullmatch(found) and project.commit_of(found) == found else ""


def _is_readable(git_dir: Path) -> bool:
    """Return False if the folder contains a pipe or a device."""
    # a program that reads such a file would wait forever
    for at, folders, names in os.walk(git_dir):
        if at == str(git_dir) and "objects" in folders:
            folders.remove("objects")  # a pipe there is not an object
        paths = (os.path.join(at, name) for name in names)
        if any(os.path.exists(each) and not os.path.isfile(each) for each in paths):
            return False
    return True


def _bytes_of(path: Path) -> bytes:
    # an agent may have written this file
    with os.fdopen(files.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        found = file.read(_LOG_BYTES + 1)
    if len(found) > _LOG_BYTES:
        raise UnsafeTree(f"{path} is too large to read")
    return found


def _make_repository(project: Git, folder: Path, base: str, branch: str) -> None:
    """Create a repository at ``base`` that shares the project's objects, but no remotes or hooks."""
    for name in ("objects/info", "refs/heads", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "objects/info/alternates").write_bytes(os.fsencode(project.shared_dir() / "objects") + b"\n")
    (folder / "HEAD").write_text(f"ref: {branch}\n")
    tip = folder / branch
    tip.parent.mkdir(parents=True, exist_ok=True)
    tip.write_text(f"{base}\n")
    (folder / "harness-base").write_text(f"{base}\n")
    name, address = project.identity
    sha256 = len(base) == 64
    (folder / "config").write_text(
        f"[core]\n\trepositoryFormatVersion = {int(sha256)}\n\tbare = false\n[gc]\n\tauto = 0\n"
        + ("[extensions]\n\tobjectFormat = sha256\n" if sha256 else "")
        + f"[user]\n\tname = {_quoted(name)}\n\temail = {_quoted(address)}\n"
    )
    (folder / "info/exclude").write_text(project.repository_text("exclude"))
    tags = "".join(f"{oid} {ref}\n" for ref, oid in sorted(project.refs_below("refs/tags/").items()))
    (folder / "packed-refs").write_bytes(os.fsencode(tags))
    for each in ("shallow", "lfs"):
        if (project.shared_dir() / each).exists():
            (folder / each).symlink_to(project.shared_dir() / each)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def copy_plain(source: str, target: str, wanted: Callable[[str], bool] = lambda _name: True) -> None:
    """Copy regular files that an agent may have written, within limits of size and number."""
    left = _ALL_BYTES
    # no links, pipes or devices, and never over existing files
    for _, at, to in sorted(islice(_free_names(source, target, wanted), _MOST_FILES)):
        left -= _copy_end(at, to, min(_FILE_BYTES, max(0, left)))


def _free_names(source: str, target: str, wanted: Callable[[str], bool]) -> Iterator[tuple[int, str, str]]:
    for at, folders, names in () if os.path.islink(source) else os.walk(source):
        below = os.path.relpath(at, source)
        if below.count(os.sep) >= _MOST_DEEP:
            folders.clear()
        into = os.path.normpath(os.path.join(target, below))
        for name in filter(wanted, sorted(names)):
            path, to = os.path.join(at, name), os.path.join(into, name)
            with suppress(OSError):
                known = os.lstat(path)
                if stat.S_ISREG(known.st_mode) and not os.path.lexists(to):
                    yield known.st_size, path, to


def _copy_end(source: str, target: str, most: int) -> int:
    """Copy at most ``most`` bytes of whole lines from the end of a file."""
    try:
        descriptor = files.open_regular(source, os.O_RDONLY | os.O_NOFOLLOW)
    except (HarnessError, OSError):
        return 0
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "xb") as copy:
            if found.st_size > most:
                whole = max(0, most - _TOLD_BYTES)
                file.seek(found.st_size - whole)
                file.readline(whole)
                copy.write(f"[{file.tell()} bytes before this were left out: the file is too large]\n".encode())
            end = file.tell() + most
            while chunk := file.read(min(1 << 20, end - file.tell())):
                if chunk.count(0) == len(chunk):  # a hole stays one
                    copy.seek(len(chunk), os.SEEK_CUR)
                else:
                    copy.write(chunk)
            copied = copy.truncate()
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    return copied


def existing(folder: str) -> Iterable[Workspace]:
    with suppress(FileNotFoundError):
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.is_dir(follow_symlinks=False) and re.fullmatch(r"[wv]\d+", entry.name):
                yield Workspace(entry.path)
