"""Merge of candidates onto a head as git objects, and the move of the branch to the verified commit.

The merge changes no index, work tree or merge state, and returns conflicts as a result. A move never overwrites the
user's files. If the process is killed, the next process can repeat each step. (SC-30, SC-36, SC-37)"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_harness.errors import HarnessError, ToolMissing, UnsafeTree
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.git.locate import operation_under_way
from agent_harness.kernel.git.objects import ABSENT, TreeEntry, index_lines
from agent_harness.kernel.git.operation_lock import await_lock
from agent_harness.kernel.git.status import shown

OLDEST_GIT = (2, 38)
"""Oldest git version that can merge without a work tree."""
ITEM_TRAILER = "Harness-Item"
"""Commit trailer that contains an item's id. It is in the one commit that merges the item's work to the branch."""
MARKERS = (b"<<<<<<< ", b">>>>>>> ")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Proven work of one item that waits to be merged."""

    commit: str
    message: str  # with its trailers


class InTheWay(UnsafeTree):
    """Error: the user's files prevent a merge. The merge has changed nothing."""

    code = "in_the_way"
    paths: frozenset[bytes] = frozenset()  # empty: nothing can land


def target(git: Git, name: str | None) -> str:
    """Return the full name of the target branch, by default the checked-out branch."""
    _refuse_unfit(git)
    here = git.branch()
    if name is None or f"refs/heads/{name}" == here:
        if here is None:
            hint = "git switch main  # or harness run --workers N --branch main"
            raise UnsafeTree("no branch is checked out, so the work cannot be merged", hint=hint)
        return here
    target = f"refs/heads/{name}"
    if git.commit_of(target) is None:
        raise UnsafeTree(f"There is no branch {name}", hint=f"git branch {shlex.quote(name)}")
    listed = git.text("worktree", "list", "--porcelain").splitlines()
    if f"branch {target}" in listed:
        raise UnsafeTree(f"the branch {name} is checked out in another work tree", hint="git worktree list")
    return target


def _refuse_unfit(git: Git) -> None:
    """Raise an error if git cannot combine commits as objects, or if the work tree is sparse."""
    said = git.text("version")
    version = re.search(r"(\d+)\.(\d+)", said)
    if version and tuple(map(int, version.groups())) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        raise ToolMissing(f"runs with several agents need git {oldest}; this is {said}", hint=f"install git {oldest}")
    if git.settings().get("core.sparsecheckout", "").lower() == "true":
        told = "this work tree is sparse, but a run with several agents needs full work trees"
        raise UnsafeTree(told, hint="git sparse-checkout disable  # or harness run")


def told_gone(branch: str, commit: str) -> UnsafeTree:
    """Return the error for a deleted target branch. Its hint is the command that creates the branch again."""
    name = branch.removeprefix("refs/heads/")
    return UnsafeTree(f"The branch {name} no longer exists", hint=f"git branch {shlex.quote(name)} {commit[:12]}")


def put_on(git: Git, head: str, candidate: Candidate, tree: str) -> str:
    """Commit ``tree`` on top of ``head``. Return ``head`` if nothing changes."""
    if tree == git.tree_of(head):
        return head
    shown = git.run("log", "-1", "--no-show-signature", "--format=%an%x00%ae%x00%aI", candidate.commit)
    name, address, at = os.fsdecode(shown).strip().split("\0")
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": at}
    words = ("commit-tree", tree, "-p", head)
    made = git.run(*words, input=os.fsencode(candidate.message), env=git.identity_variables() | author)
    return made.strip().decode()


def tip_of(git: Git, head: str, commits: Sequence[str], names: Sequence[str]) -> str:
    """Return the only commit, or a new merge commit of ``head`` and the last commit."""
    last = commits[-1]
    if len(commits) == 1 or last == head:
        return last
    return git.commit_tree(git.tree_of(last), [head, last], f"Land {', '.join(names)}\n")


def marked(git: Git, commit: str, paths: Sequence[str]) -> list[str]:
    """Return the paths whose content in the commit has conflict markers."""
    found = ((path, git.show(commit, path) or b"") for path in paths)
    return [path for path, text in found if all(f"\n{sign.decode()}".encode() in b"\n" + text for sign in MARKERS)]


def move(git: Git, branch: str, old: str, new: str) -> None:
    """Move the branch and its checked-out files from ``old`` to ``new``. Raise ``InTheWay`` if files of the user
    block the move. An error leaves files and branch unchanged."""
    tip = git.commit_of(branch)
    if tip == new:
        return
    if tip != old:
        raise UnsafeTree(
            f"{branch} was moved to {(tip or 'no commit')[:10]} by another process", hint="git log --oneline"
        )
    if git.branch() != branch:
        git.update_ref(branch, new, old, message="agent-harness: landed")
        return
    if found := operation_under_way(git.repository):
        raise InTheWay(f"{found[0]} is in progress in {git.top()}", hint=found[1])
    await_lock(git.repository, f"{git.git_dir()}/index.lock")
    _forgive_half(git, old, new)
    git.run("update-index", "-q", "--refresh", check=False)  # a copied or touched file is not a change of a person
    try:
        # files before the ref; after an error, both are unchanged
        git.run("read-tree", "-m", "-u", old, new, timeout_seconds=600)
    except GitFailed as error:
        raise _in_the_way(git, old, new, error) from None
    try:
        git.update_ref(branch, new, old, message="agent-harness: landed")
    except HarnessError:  # also if another git command holds the branch's lock
        git.run("read-tree", "-m", "-u", new, old)
        raise


def _in_the_way(git: Git, old: str, new: str, error: GitFailed) -> InTheWay:
    changed = git.differences(old, new)
    as_they_were = {path: before for path, (before, _) in changed.items()}
    as_they_will_be = {path: after for path, (_, after) in changed.items()}
    fits = {*already_there(git, as_they_were), *already_there(git, as_they_will_be)}
    paths = sorted(changed.keys() - fits)
    if not paths:
        return InTheWay(_first(error), hint=f"git -C {shlex.quote(str(git.top()))} status")
    names = [shown(each) for each in paths]
    told = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
    few = " ".join(shlex.quote(os.fsdecode(each)) for each in paths[:5])
    hint = f"git -C {shlex.quote(str(git.top()))} stash push -u -- {few}"
    found = InTheWay(f"uncommitted files block the merge in {git.top()}: {told}", hint=hint)
    found.paths = frozenset(paths)
    return found


def _first(error: GitFailed) -> str:
    said = [line.strip() for line in error.stderr.splitlines() if line.strip()]
    files = [line for line in said if not line.startswith(("error:", "fatal:", "Please", "Aborting"))]
    return "; ".join([*(line.removeprefix("error: ") for line in said[:1]), *files[:3]]) or error.message


def _forgive_half(git: Git, old: str, new: str) -> None:
    """Update the index for files that an interrupted move has already written."""
    # otherwise, git would consider these files changes of the user
    known, changed = _index(git), git.differences(old, new)
    written = {path: after for path, (before, after) in changed.items() if known.get(path, "") == before.oid}
    if found := {path: written[path] for path in already_there(git, written)}:
        git.run("update-index", "-z", "--index-info", input=index_lines(found, len(old)))
        git.run("update-index", "-q", "--refresh", check=False)


def in_index(git: Git, old: str, new: str) -> bool:
    """Return True if the index has each change from ``old`` to ``new``."""
    known, changed = _index(git), git.differences(old, new)
    return bool(changed) and all(known.get(path, "") == after.oid for path, (_, after) in changed.items())


def _index(git: Git) -> dict[bytes, str]:
    lines = (line.partition(b"\t") for line in git.run("ls-files", "-s", "-z").split(b"\0"))
    return {path: words.split()[1].decode() for words, _, path in lines if path}


def already_there(git: Git, wanted: Mapping[bytes, TreeEntry]) -> list[bytes]:
    """Return the paths whose content in the work tree already matches ``wanted``."""
    files = {path for path in wanted if os.path.isfile(at := git.file(path)) and not os.path.islink(at)}
    asked = [path for path in wanted if path in files and wanted[path] != ABSENT and wanted[path].mode != "120000"]
    found = _content_ids(git, asked)
    return [
        path
        for path, entry in wanted.items()
        if (found.get(path) == entry.oid if entry != ABSENT else not (path in files or os.path.islink(git.file(path))))
    ]


def _content_ids(git: Git, paths: Sequence[bytes]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    left = [*paths]
    while left:  # git ends at a file that it cannot read
        lines = b"".join(_as_line(git.file(path)) for path in left)
        read = git.run("hash-object", "--stdin-paths", input=lines, check=False).decode().split()
        found |= dict(zip(left, read, strict=False))
        left = left[len(read) + 1 :]
    return found


def _as_line(path: bytes) -> bytes:
    if b"\n" in path:
        escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        path = b'"' + escaped + b'"'
    return path + b"\n"
