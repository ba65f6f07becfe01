"""Which files differ from what the index holds of them, although git calls them unchanged.

Line endings, encodings, keywords and filters (large files kept elsewhere) make the object in the index another
thing than the bytes in the file. A snapshot keeps the bytes, so such files are read as they are.
"""

import os
from collections.abc import Sequence

from agent_harness.kernel.git import status as walk
from agent_harness.kernel.git.isolated import NOWHERE, IsolatedView
from agent_harness.kernel.snapshot.operation import Operation

__all__ = ["converted"]

ATTRIBUTES = b".gitattributes"
SYSTEM_FILES = ("/etc/gitattributes", "/usr/local/etc/gitattributes", "/opt/homebrew/etc/gitattributes")
ANYTHING = (b"filter", b"ident", b"working-tree-encoding")  # may leave the size as it is
ENDINGS = (b"text", b"eol", b"crlf")  # change the size, if they change anything
OFF = (b"unset", b"unspecified")
TRUE = ("true", "input", "1", "yes", "on")


def converted(operation: Operation, index: str, listing: bytes, found: walk.Scan) -> list[bytes]:
    """Paths that the scan found unchanged and whose bytes may not be those of their object.

    ``listing`` is of the index. Costs nothing where neither attributes nor settings ask for a conversion.
    """
    everywhere = operation.notes.settings.get("core.autocrlf", "false").lower() in TRUE
    if not everywhere and not _has_attributes(operation, listing, found):
        return []
    changed = {*found.changed, *found.deleted}
    files = [entry for entry in walk.entries(operation.listed(index, "-s")) if entry.mode.startswith("100")]
    away = operation.notes.away_by_path()
    same = {entry.path: entry.oid for entry in files if entry.path not in changed and entry.path not in away}
    always, sized = _asked_for(operation, index, list(same))
    suspects = {*same} if everywhere else sized
    return sorted(always | _of_another_size(operation, {path: same[path] for path in suspects - always}))


def _has_attributes(operation: Operation, listing: bytes, found: walk.Scan) -> bool:
    return (
        bool(operation.notes.info_attributes.strip())
        or ATTRIBUTES + b"\0" in listing
        or any(os.path.basename(path) == ATTRIBUTES for path in (*found.untracked, *found.ignored))
        or any(os.path.exists(path) for path in (*SYSTEM_FILES, operation.notes.user_attributes))
    )


def _asked_for(operation: Operation, index: str, paths: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
    """Paths with attributes that may change anything, and paths with attributes that change line endings."""
    with IsolatedView(operation.git.repository, head=NOWHERE, attributes=operation.notes.info_attributes) as view:
        done = view.call("check-attr", "-z", "-a", "--stdin", input=walk.joined(paths), index=index)
    fields = walk.split(done.stdout)
    always, sized = set[bytes](), set[bytes]()
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        if value not in OFF and name in ANYTHING:
            always.add(path)
        elif value not in OFF and name in ENDINGS:
            sized.add(path)
    return always, sized


def _of_another_size(operation: Operation, files: dict[bytes, str]) -> set[bytes]:
    """The files whose size is not that of their object."""
    ids = "".join(f"{oid}\n" for oid in files.values()).encode()
    sizes = operation.view.call("cat-file", "--batch-check=%(objectsize)", "--buffer", input=ids).stdout.split(b"\n")
    pairs = zip(files, sizes, strict=False)
    return {path for path, size in pairs if size != b"%d" % _size(operation.git.file(path))}


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1
