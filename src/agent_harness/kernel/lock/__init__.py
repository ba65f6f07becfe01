"""One owner of a project at a time.

project_lock  both locks together: the file first, then the directory that shell scripts look at
file          a lock that the kernel keeps on a file and frees at any death
directory     a lock made by ``mkdir`` and judged by who is named in it
"""

from agent_harness.kernel.lock.project_lock import LOCK_FILE, Lock, LockLost, directory_for, holder

__all__ = ["LOCK_FILE", "Lock", "LockLost", "directory_for", "holder"]
