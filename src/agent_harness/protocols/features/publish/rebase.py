"""Commits of one line put on top of another one, as git objects alone: no file, index or branch is touched.

Each commit is merged with what it is put on, from its own first parent, and made again with its author and message: a
rebase that cannot stop half-way. A conflict is an answer, not a state of the repository. Source: features.md C30.
"""

import os
from dataclasses import dataclass

from agent_harness.kernel.git import Git, GitFailed


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The new tip, and for each old commit the new one; or why the two lines do not go together."""

    tip: str = ""
    renamed: dict[str, str] | None = None
    problem: str | None = None


def on_top_of(git: Git, base: str, tip: str) -> Joined:
    """The commits of ``tip`` that ``base`` does not hold, oldest first, made again on top of ``base``."""
    fork = git.text("merge-base", base, tip, check=False)
    if not fork:
        return Joined(problem="the two have no commit in common")
    old = git.text("rev-list", "--reverse", "--first-parent", f"{fork}..{tip}").split()
    new = base
    renamed: dict[str, str] = {}
    for commit in old:
        tree = _merged(git, new, commit)
        if tree is None:
            return Joined(problem=f"{commit[:10]} does not go together with what is there")
        new = renamed[commit] = _again(git, commit, tree, new)
    return Joined(tip=new, renamed=renamed)


def _merged(git: Git, onto: str, commit: str) -> str | None:
    """The tree of ``onto`` with what ``commit`` changed; ``None`` where that is a conflict."""
    parent = git.commit_of(f"{commit}^1")
    parents = [parent] if parent else []
    ours = git.commit_tree(git.tree_of(onto), parents, "ours")
    theirs = git.commit_tree(git.tree_of(commit), parents, "theirs")
    try:
        return git.text("merge-tree", "--write-tree", "--no-messages", ours, theirs).split()[0]
    except GitFailed as error:
        if error.status == 1:
            return None
        raise


def _again(git: Git, commit: str, tree: str, parent: str) -> str:
    """The commit with its author, time and message, on another parent and with another tree."""
    words = ("log", "-1", "--no-show-signature", "--format=%an%x00%ae%x00%aI%x00%B", commit)
    name, address, at, message = os.fsdecode(git.run(*words)).split("\0", 3)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": at}
    env = git.identity_variables() | author
    made = git.run("commit-tree", tree, "-p", parent, input=os.fsencode(message.rstrip("\n") + "\n"), env=env)
    return os.fsdecode(made).strip()
