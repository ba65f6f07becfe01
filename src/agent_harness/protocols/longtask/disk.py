"""The files of a task on disk: read whole, made under a free name, replaced in their place, through no way out.

Source: ``longtask.md`` 3.5, 15.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError, StateDamaged
from agent_harness.kernel import files
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

__all__ = ["UnreadableFile", "create", "leaves", "make_folder", "names", "read_json", "replace_link"]


class UnreadableFile(HarnessError):
    """A file of the task is missing or holds no JSON."""

    code = "unreadable"


def leaves(layout: LongTaskLayout) -> bool:
    """Whether the checkpoint is a link that leads out of the task or nowhere; nobody reads or writes through it."""
    if not os.path.islink(layout.checkpoint):
        return False
    try:
        layout.inside(layout.relative(layout.checkpoint))
    except HarnessError:
        return True
    return not os.path.isfile(layout.checkpoint)


def replace_link(path: str, content: bytes) -> None:
    """Puts a file in the place of a link itself, whole or not at all."""
    temporary = files.temporary_name(path)
    files.replace(temporary, content)
    try:
        os.rename(temporary, path)
    except OSError as error:
        files.unlink(temporary)
        raise files.refusal(path, "written", error) from None


def read_json(path: str) -> Any:
    """The value in a JSON file, whatever it is. ``UnreadableFile`` when it is missing or no JSON."""
    try:
        content = files.read_bytes(path)
        return _loads(content)
    except FileNotFoundError:
        raise UnreadableFile(f"Cannot read JSON {path}: there is no such file") from None
    except (StateDamaged, ValueError) as error:
        why = str(error).removeprefix(f"{path} is damaged: ")
        raise UnreadableFile(f"Cannot read JSON {path}: {why}") from None
    except HarnessError as error:
        raise UnreadableFile(f"Cannot read JSON {path}: {error.message}") from None


def _loads(content: bytes) -> Any:
    """Half of a character, where another program cut a text, is read as a replacement character."""
    try:
        return jsontext.loads(content)
    except ValueError as error:
        if "lone surrogate" not in str(error):
            raise
    whole = jsontext.line(jsontext.loads(content, exact=False)).encode("utf-16", "surrogatepass")
    return jsontext.loads(whole.decode("utf-16", "replace"))


def make_folder(path: str) -> None:
    """Makes the folder of a file that is to be written. ``Refused`` when the disk says no."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise files.refusal(path, "written", error) from None


def names(path: str) -> Iterator[str]:
    """The path, then the same with ``-2``, ``-3``… before its suffix, without end."""
    yield path
    stem, suffix = os.path.splitext(path)
    number = 2
    while True:
        yield f"{stem}-{number}{suffix}"
        number += 1


def create(path: str, content: bytes) -> bool:
    """Writes a new file durably; false when the name is taken. A crash leaves it whole or empty."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        return False
    except OSError as error:
        raise files.refusal(path, "written", error) from None
    try:
        files.replace(path, content)
    except BaseException:
        os.unlink(path)
        raise
    return True
