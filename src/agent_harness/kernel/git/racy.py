"""Files that changed in the very second in which an index was read: what it remembers of them proves little.

Most builds of git compare times by whole seconds. A file that is changed again within the second of its last change,
to the same size and with its old modification time put back, looks unchanged. Such files are read again whatever
their times say.
"""

import os

from agent_harness.kernel.git.index_file import stored_entries

__all__ = ["second_now", "racy"]


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
    found = stored_entries(index, id_bytes=id_bytes)
    if found is None:
        return None
    return {entry.path: f"{entry.mode:o} {entry.oid}" for entry in found if entry.changed_at >= second}
