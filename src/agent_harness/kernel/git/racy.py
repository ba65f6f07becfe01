"""Files that changed in the very second in which an index was read: what it remembers of them proves little.

Most builds of git compare times by whole seconds. A file that is changed again within the second of its last change,
to the same size and with its old modification time put back, looks unchanged. Such files are read again whatever
their times say.
"""

import os
import struct

__all__ = ["second_now", "racy"]

HEADER = struct.Struct(">4sII")
FIXED = 40  # bytes of times, numbers and size before the object id
EXTENDED = 0x4000
LONG_NAME = 0xFFF


def second_now(folder: str) -> int:
    """The present second by the clock of the disk that holds this folder."""
    path = f"{folder}/second"
    with open(path, "wb"):
        pass
    found = int(os.stat(path).st_ctime)
    os.unlink(path)
    return found


def racy(index: str, second: int, *, id_bytes: int = 20) -> dict[bytes, str] | None:
    """Mode and object id of the entries whose file has changed in or after this second; ``None`` if it cannot be told.

    Costs nothing when the index is older than that.
    """
    if os.stat(index).st_mtime < second:
        return {}
    with open(index, "rb") as file:
        content = file.read()
    signature, version, count = HEADER.unpack_from(content)
    if signature != b"DIRC" or version not in (2, 3):
        return None
    return _entries_since(content, count, second, id_bytes)


def _entries_since(content: bytes, count: int, second: int, id_bytes: int) -> dict[bytes, str]:
    found = {}
    at, fixed = HEADER.size, FIXED + id_bytes + 2
    seconds, flags_of = struct.Struct(">I").unpack_from, struct.Struct(">H").unpack_from
    for _ in range(count):
        flags = flags_of(content, at + fixed - 2)[0]
        name = at + fixed + (2 if flags & EXTENDED else 0)
        length = flags & LONG_NAME
        if length == LONG_NAME:
            length = content.index(b"\0", name) - name
        if seconds(content, at)[0] >= second:
            mode = seconds(content, at + 24)[0]
            found[content[name : name + length]] = f"{mode:o} {content[at + FIXED : at + FIXED + id_bytes].hex()}"
        at += (name - at + length) // 8 * 8 + 8
    return found
