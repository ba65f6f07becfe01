"""Names for the harness's private refs. Somebody else's ref may lie where one of ours belongs: theirs stays.

Git keeps refs like files and folders: with ``refs/harness/candidates/4/x`` there can be no ref named
``refs/harness/candidates/4``, and with ``refs/harness/rolled-back`` nothing below it. Then the nearest name that git
accepts is used.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from agent_harness.kernel.git import Git, GitFailed

T = TypeVar("T")

SIBLINGS = 9  # names tried at each level


def named(git: Git, wanted: str, act: Callable[[str], T]) -> tuple[T, str]:
    """What ``act`` gives for a ref, and the ref: the wanted one, or a free one where git refuses that one."""
    try:
        return act(wanted), wanted
    except GitFailed:
        other = free(git, wanted)
        if other == wanted:
            raise
        return act(other), other


def free(git: Git, wanted: str) -> str:
    """The wanted name, or the nearest one beside it, of which git would make a new ref now.

    The wanted name itself when git accepts none of them: what is wrong then, it says when the ref is made.
    """
    target = git.head() or git.empty_tree()
    return next((name for name in _names(wanted) if _would_make(git, name, target)), wanted)


def _names(wanted: str) -> Iterator[str]:
    """The name, then with a number behind its last part, then behind each earlier part but ``refs``."""
    yield wanted
    parts = wanted.split("/")
    for level in range(len(parts) - 1, 0, -1):
        for number in range(2, SIBLINGS + 2):
            yield "/".join([*parts[:level], f"{parts[level]}-{number}", *parts[level + 1 :]])


def _would_make(git: Git, name: str, target: str) -> bool:
    """Asks git with a transaction that is given up before anything is written."""
    words = f"start\ncreate {name} {target}\nprepare\nabort\n"
    try:
        git.run("update-ref", "--no-deref", "--stdin", input=words.encode())
    except GitFailed:
        return False
    return True
