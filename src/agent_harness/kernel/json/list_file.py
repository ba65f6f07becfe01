"""A state file with one long list, read to be changed in place and written again, with its last state kept beside it.

The file that is replaced becomes its own backup under a second name: nothing is written twice. A writer that is killed
leaves both whole, and may leave one file of two names, which ``files.sweep`` and the next write part again. Source:
``tasklist.md`` 8.
"""

from __future__ import annotations

import os
import stat

from agent_harness.errors import StateDamaged
from agent_harness.kernel import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agent_harness.kernel.files import AnyPath
    from agent_harness.kernel.json.spans import ListDocument

__all__ = ["read", "write"]


def read(path: AnyPath, name: str, known: ListDocument | None = None) -> ListDocument:
    """The JSON object in a file; ``name`` is the member with the long list (``kernel/json/spans.py``).

    ``known`` was read before, and is the answer while the file holds the very same bytes. ``FileNotFoundError``,
    ``StateDamaged``.
    """
    content = files.read_bytes(path)
    if known and known.content == content:
        return known
    from agent_harness.kernel.json import spans

    try:
        document = spans.read(content, name)
        if not isinstance(document.value, dict):
            raise ValueError("it holds no JSON object")
    except ValueError as error:
        raise files.damaged(path, str(error)) from None
    return document


def write(
    path: AnyPath, document: ListDocument, *, before: Callable[[], object], changed: Iterable[object] | None = None
) -> None:
    """Replaces the file that a document was read from; what was read stays as ``<path>.bak``.

    ``before`` vouches that the file is still the one that was read, and raises when it is not: nothing is changed then.
    ``changed`` as ``ListDocument.parts`` takes it. ``Refused`` when the disk says no.
    """
    try:
        parts = document.parts(changed)
    except ValueError as error:
        raise StateDamaged(f"{os.fspath(path)} was not written: {error}") from None
    target, backup = os.path.realpath(path), f"{os.fspath(path)}.bak"

    def keep_the_old() -> None:
        before()
        if not _given_second_name(target, backup, before):
            files.replace(backup, document.content, mode=_mode_of(target), follow=False)
        before()

    files.replace(path, parts, before=keep_the_old)


def _given_second_name(target: str, backup: str, before: Callable[[], object]) -> bool:
    """Makes the file its own backup too; false, and nothing done, where that cannot be, or it has two names already.

    Such a file is no copy of its own: a writer was killed at this very place, or a person has linked it.
    """
    if os.path.dirname(target) != os.path.realpath(
        os.path.dirname(backup)
    ):  # one folder is made durable, with both names in it
        return False
    temporary = files.temporary_name(backup)
    try:
        if os.lstat(target).st_nlink != 1:
            return False
        _sync(target)
        os.link(target, temporary, follow_symlinks=False)
    except OSError:
        return False
    try:
        before()
        os.replace(temporary, backup)
    except OSError:
        files.unlink(temporary)
        return False
    except BaseException:
        files.unlink(temporary)
        raise
    return True


def _sync(path: str) -> None:
    """Makes the content durable: an editor may not have waited for the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
