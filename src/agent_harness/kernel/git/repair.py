"""Restore of git's own files to their state before the agent worked, if git can no longer read them.

lock files                     new locks that no process holds are moved away; older locks are the user's and stay
HEAD, the branch, packed-refs  restored; from packed-refs, entries that can still be read are added
the index                      restored; the files of the work tree stay

The replaced files are kept in ``harness/left`` in the git directory. See ``docs/recovery.md``, "The end of a turn"."""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.kernel.git.client import Git
from agent_harness.kernel.git.isolated import NOWHERE, IsolatedView, own_folder
from agent_harness.kernel.git.locate import Repository
from agent_harness.kernel.git.objects import OBJECT_ID, REF, SYMBOLIC
from agent_harness.kernel.git.operation_lock import await_lock
from agent_harness.kernel.git.settings import contents

PACKED = re.compile(rb"(#.*|\^[0-9a-f]{40,64}|([0-9a-f]{40,64}) (refs/\S+))")
LOCK = ".lock"


@dataclass(frozen=True, kw_only=True)
class GitFiles:
    repository: Repository
    commit: str | None  # that was checked out
    refs: Mapping[str, bytes | None]  # HEAD, packed-refs and the branch, by their paths
    index: bytes | None
    index_time_ns: int
    locks: frozenset[tuple[str, int, int]]
    own: Mapping[str, tuple[bytes, int | None]]  # settings and hooks, as ``settings.contents`` has them


def remember(git: Git) -> GitFiles | None:
    """Return a copy of git's HEAD, branch and index files, or ``None`` if git cannot read the repository."""
    if not git.is_repository:
        return None
    repository = git.repository
    try:
        head = git.look()
        branch = [f"{repository.shared_dir}/{head.branch}"] if head.branch.startswith("refs/") else []
        names = [_head(repository), _packed(repository), *branch]
        index = repository.git_dir / "index"
        return GitFiles(
            repository=repository,
            commit=head.commit,
            refs={path: _bytes(path) for path in names},
            index=_bytes(os.fspath(index)),
            index_time_ns=os.stat(index).st_mtime_ns if index.is_file() else 0,
            locks=frozenset(locks(repository)),
            own=contents(repository),
        )
    except (HarnessError, OSError):
        return None


def put_right(before: GitFiles) -> list[str]:
    """Repair the repository's git files from the copy ``before``. Return a message about each action."""
    repository = before.repository
    if not (repository.shared_dir / "objects").is_dir() or not (repository.shared_dir / "refs").is_dir():
        return []
    steps: tuple[Callable[[GitFiles], Iterator[str]], ...] = (_free_locks, _put_refs_back, _put_index_back)
    told: list[str] = []
    for step in steps:
        try:
            told += step(before)
        except HarnessError as error:
            told.append(f"{error.message} ({error.hint})")
        except OSError as error:
            told.append(f"{error.filename}: {error.strerror}")
    return told


def damage(repository: Repository) -> tuple[str, str] | None:
    """Return an error message and a repair command if git cannot read HEAD or packed-refs, else ``None``."""
    path, packed = _head(repository), _packed(repository)
    if not _is_sound(path, _bytes(path), repository):
        return f"git cannot read {path}", f"echo 'ref: refs/heads/main' >{shlex.quote(path)}  # or another branch"
    content = _bytes(packed) or b""
    if _is_sound(packed, content, repository):
        return None
    bad = next((at for at, line in enumerate(content.split(b"\n"), 1) if not PACKED.fullmatch(line)), 1)
    return f"git cannot read line {bad} of {packed}", f"sed -i {bad}d {shlex.quote(packed)}"


def aside_folder(repository: Repository) -> str:
    """Return the folder for replaced git files, and create the folder if it is missing."""
    folder = f"{own_folder(repository)}/left"
    files.own_place(f"{folder}/kept", os.fspath(repository.git_dir))
    return folder


def locks(repository: Repository) -> Iterator[tuple[str, int, int]]:
    """Yield the path, the inode and the modification time (ns) of each git lock file."""
    for folder in dict.fromkeys((os.fspath(repository.git_dir), os.fspath(repository.shared_dir))):
        yield from _stamps(os.path.join(folder, name) for name in os.listdir(folder))
    for place, _, names in os.walk(repository.shared_dir / "refs"):
        yield from _stamps(os.path.join(place, name) for name in names)


def _stamps(paths: Iterator[str]) -> Iterator[tuple[str, int, int]]:
    for path in paths:
        if path.endswith(LOCK) and os.path.isfile(path):
            found = os.lstat(path)
            yield path, found.st_ino, found.st_mtime_ns


def _free_locks(before: GitFiles) -> Iterator[str]:
    for each in [*locks(before.repository)]:
        if each not in before.locks:
            own_folder(before.repository)
            await_lock(before.repository, each[0])
            yield f"{each[0]} was an abandoned lock file, so it was moved away"


def _put_refs_back(before: GitFiles) -> Iterator[str]:
    for path, was in before.refs.items():
        found = _bytes(path)
        if _is_sound(path, found, before.repository):
            continue
        kept = _set_aside(before.repository, path)
        is_packed = path == _packed(before.repository)
        back = _readable_packed(Git(before.repository.top), was or b"", found or b"") if is_packed else was
        if back is not None:
            is_shared = path.startswith(f"{before.repository.shared_dir}/")
            files.own_place(path, os.fspath(before.repository.shared_dir if is_shared else before.repository.git_dir))
            files.replace(path, back, mode=0o644)
        where = f"; the unreadable file is kept in {kept}" if kept else ""
        yield f"git could not read {path}, so the file was restored{where}"


def _is_sound(path: str, content: bytes | None, repository: Repository) -> bool:
    if path == _head(repository):
        symbolic = SYMBOLIC.match(content or b"")
        return bool(REF.match(os.fsdecode(symbolic[1])) if symbolic else OBJECT_ID.fullmatch((content or b"").strip()))
    if path == _packed(repository):
        lines = (content or b"").split(b"\n")
        return not lines.pop() and all(PACKED.fullmatch(line) for line in lines)
    if content is None:
        return not os.path.lexists(path)
    found = OBJECT_ID.match(content)
    return found is not None and Git(repository.top).commit_of(found[1].decode()) is not None


def _readable_packed(git: Git, was: bytes, found: bytes) -> bytes:
    rows = _rows(was)
    rows |= {ref: oid for ref, oid in _rows(found).items() if rows.get(ref) == oid or git.ok("cat-file", "-e", oid)}
    lines = [f"{oid} ".encode() + ref for ref, oid in sorted(rows.items())]
    return b"\n".join([b"# pack-refs with: sorted ", *lines, b""])


def _rows(content: bytes) -> dict[bytes, str]:
    rows = (PACKED.fullmatch(line) for line in content.split(b"\n"))
    return {row[3]: row[2].decode() for row in rows if row and row[3]}


def _put_index_back(before: GitFiles) -> Iterator[str]:
    repository, index = before.repository, f"{before.repository.git_dir}/index"
    if _bytes(index) in (before.index, None):
        return
    with IsolatedView(repository, head=NOWHERE) as view:
        if view.call("ls-files", "-z", index=index, check=False).returncode == 0:
            return
        kept = _set_aside(repository, index)
        if before.index is not None:
            files.replace(index, before.index, mode=0o644)
            os.utime(index, ns=(before.index_time_ns, before.index_time_ns))  # as old as its entries
        if before.index is None or view.call("ls-files", "-z", index=index, check=False).returncode:
            view.call("read-tree", before.commit or "--empty", index=index)
    yield f"git could not read {index}, so the file was restored; the unreadable file is kept in {kept}"


def _set_aside(repository: Repository, path: str) -> str | None:
    if not os.path.lexists(path):
        return None
    kept = files.free_name(os.path.join(aside_folder(repository), os.path.basename(path)))
    shutil.move(path, kept)
    return kept


def _head(repository: Repository) -> str:
    return f"{repository.git_dir}/HEAD"


def _packed(repository: Repository) -> str:
    return f"{repository.shared_dir}/packed-refs"


def _bytes(path: str) -> bytes | None:
    if not os.path.isfile(path) or os.path.islink(path):
        return None
    with open(path, "rb") as file:
        return file.read()
