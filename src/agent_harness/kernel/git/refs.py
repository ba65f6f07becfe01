"""Where HEAD and refs point, read from their files without starting git; ``AskGit`` where only git can tell.

Read are HEAD, loose refs and ``packed-refs``, as git's own files have them: a file that holds one object id, or for
HEAD the name of a ref. Everything else is git's to answer: another format of refs, a symbolic ref that is not HEAD, a
link, a name that git would refuse, a ref of one work tree alone.
"""

import os
import re
import stat
from collections.abc import Iterator

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git.locate import Repository, text_of

__all__ = ["AskGit", "below", "checked_out", "read_regular", "tip"]

MOST_BYTES = 1 << 26  # of packed-refs; larger ones are git's to read

OBJECT_ID = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})(?=\s|\Z)")
SYMBOLIC = re.compile(rb"ref:\s*(\S+)\s*\Z")

# What git accepts below refs/, stricter in doubt (git-check-ref-format).
REF = re.compile(r"refs(?:/(?!\.)(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\/])+(?<!\.lock)(?<!\.))+\Z")
OF_ONE_WORK_TREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")


class AskGit(Exception):
    """The files do not tell; git can."""


def checked_out(repository: Repository) -> tuple[str | None, str | None]:
    """Object id and branch of HEAD: no id on a branch without a commit, no branch on a detached HEAD."""
    _refuse_other_formats(repository)
    content = read_regular(f"{repository.git_dir}/HEAD", most_bytes=4096)
    if content is None:
        raise AskGit
    if found := SYMBOLIC.match(content):
        branch = os.fsdecode(found[1])
        return tip(repository, branch), branch
    return _object_id(content), None


def tip(repository: Repository, ref: str) -> str | None:
    """The object id in a ref that is given by its full name; ``None`` when there is no such ref."""
    _refuse_other_formats(repository)
    if not REF.match(ref) or ref.startswith(OF_ONE_WORK_TREE):
        raise AskGit
    content = read_regular(os.path.join(repository.shared_dir, ref), most_bytes=4096)
    return _packed(repository, ref) if content is None else _object_id(content)


def below(repository: Repository, folder: str) -> dict[str, str]:
    """The refs whose names begin with this text, which ends in a slash, and the object ids in them."""
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
    """What a regular file holds; ``None`` when nothing, or a folder, is there.

    ``AskGit`` for a link, which is not followed, and for a larger file. ``UnsafeTree`` for a pipe or the like, on which
    git would wait.
    """
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
            raise UnsafeTree(f"{os.fsdecode(path)} is no regular file", hint=f"ls -l {os.fsdecode(path)}")
        if found.st_size > most_bytes:
            raise AskGit
        with open(number, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(number)


def _packed(repository: Repository, ref: str) -> str | None:
    content = _packed_refs(repository)
    at = content.find(b" " + os.fsencode(ref) + b"\n")
    return _object_id(content[content.rfind(b"\n", 0, at) + 1 : at]) if at > 0 else None


def _packed_refs(repository: Repository) -> bytes:
    return read_regular(f"{repository.shared_dir}/packed-refs", most_bytes=MOST_BYTES) or b""


def _object_id(content: bytes) -> str:
    found = OBJECT_ID.match(content)
    if found is None:
        raise AskGit
    return found[1].decode()


def _refuse_other_formats(repository: Repository) -> None:
    """``AskGit`` where refs are kept in another way than as files."""
    if "refstorage" in text_of(repository.shared_dir / "config").lower():
        raise AskGit
