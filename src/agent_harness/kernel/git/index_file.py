"""What an index of git's says of its files, read without starting git: names, modes, object ids and times."""

import os
import struct
from typing import NamedTuple

__all__ = ["StoredEntry", "stored_entries"]

HEADER = struct.Struct(">4sII")
VERSIONS = (2, 3)  # later ones shorten names
FIXED = 40  # bytes of times, numbers and size before the object id
EXTENDED = 0x4000
LONG_NAME = 0xFFF
SHARED_PART = b"link"


class StoredEntry(NamedTuple):
    """One entry of an index."""

    path: bytes
    mode: int
    oid: str
    changed_at: int  # whole seconds: when the file's content or mode last changed


def stored_entries(index: str | os.PathLike[str], *, id_bytes: int = 20) -> list[StoredEntry] | None:
    """The entries in order; ``None`` when only git can read the file, or a part of it lies elsewhere."""
    with open(index, "rb") as file:
        content = file.read()
    try:
        signature, version, count = HEADER.unpack_from(content)
        if signature != b"DIRC" or version not in VERSIONS:
            return None
        found, end = _entries(content, count, id_bytes)
    except (struct.error, ValueError):
        return None
    return None if content[end : end + 4] == SHARED_PART else found


def _entries(content: bytes, count: int, id_bytes: int) -> tuple[list[StoredEntry], int]:
    """The entries, and where they end."""
    found: list[StoredEntry] = []
    at, fixed = HEADER.size, FIXED + id_bytes + 2
    number, short = struct.Struct(">I").unpack_from, struct.Struct(">H").unpack_from
    for _ in range(count):
        flags = short(content, at + fixed - 2)[0]
        name = at + fixed + (2 if flags & EXTENDED else 0)
        length = flags & LONG_NAME
        if length == LONG_NAME:
            length = content.index(b"\0", name) - name
        path, oid = content[name : name + length], content[at + FIXED : at + FIXED + id_bytes]
        found.append(StoredEntry(path, number(content, at + 24)[0], oid.hex(), number(content, at)[0]))
        at += (name - at + length) // 8 * 8 + 8
    return found, at
