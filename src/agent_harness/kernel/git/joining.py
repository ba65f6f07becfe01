"""Work put on top of something else as objects: a merge of trees, and commits of ours on what a remote has meanwhile.

A push goes forward only. What the remote has more of is fetched under a private ref, and our commits are made again on
top of it: a rebase that cannot stop half-way. Each commit is merged with what it is put on, from its own first parent,
and made again with its author and message. A conflict is an answer, not a state of the repository. Nothing here moves
a branch. Source: features.md UAH-380, C30; scale.md SC-36, SC-39.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent_harness.errors import HarnessError
from agent_harness.kernel.git.client import Git
from agent_harness.kernel.git.isolated import GitFailed, IsolatedView
from agent_harness.kernel.git.locate import Pushed
from agent_harness.kernel.redact import redact

__all__ = ["Joined", "Merged", "PushTarget", "merged", "on_top_of"]


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A tree with what one side changed on the other; where that is a conflict, the tree holds the markers."""

    tree: str
    conflicts: tuple[str, ...] = ()


def merged(git: Git, head: str, base: str | None, commit: str, union: Sequence[str] = ()) -> Merged:
    """Return what ``commit`` changed since ``base``, on ``head``; of ``union`` files the lines of both are kept.

    All three are commits or trees; a ``base`` of ``None`` has no files.
    """
    if head == base:
        return Merged(tree=git.tree_of(commit))
    since = base if base and git.commit_of(base) else git.commit_tree(base or git.empty_tree(), [], "base")
    ours = git.commit_tree(git.tree_of(head), [since], "ours")  # so that the base is the base, whatever history says
    theirs = git.commit_tree(git.tree_of(commit), [since], "theirs")
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    attributes = "".join(f"{path} merge=union\n" for path in union)
    with IsolatedView(git.repository, attributes=attributes) as view:
        done = view.call(*words, check=False)
    if done.returncode not in (0, 1):
        raise GitFailed("merge-tree", done.returncode, done.stderr.decode("utf-8", "replace"))
    tree, *files = [os.fsdecode(each) for each in done.stdout.split(b"\0") if each]
    return Merged(tree=tree, conflicts=tuple(dict.fromkeys(files)) if done.returncode else ())


@dataclass(frozen=True, kw_only=True)
class PushTarget:
    """Where a branch is pushed to, and the settings that say how: recorded before any agent ran.

    Without a record only the remote's addresses are used, as they are now.
    """

    remote: str
    branch: str  # refs/heads/... on the remote
    recorded: Mapping[str, list[str]] | None

    def push(self, git: Git, commit: str) -> Pushed:
        """Pushes the commit, forward only. A remote that says no, or cannot be reached, is an answer."""
        try:
            done = git.push(self.remote, f"{commit}:{self.branch}", recorded=self.recorded)
        except HarnessError as error:
            done = Pushed(ok=False, rejected=False, message=error.message)
        return Pushed(ok=done.ok, rejected=done.rejected, message=redact(done.message).strip()[-500:])

    def incoming(self, git: Git, ref: str) -> str:
        """The commit that the remote's branch has, fetched by way of ``ref``. ``HarnessError`` where it cannot be."""
        found = git.fetch(self.remote, f"+{self.branch}:{ref}", recorded=self.recorded)
        theirs = git.commit_of(ref)
        if not found.ok or theirs is None:
            raise HarnessError(f"git fetch failed: {redact(found.message).strip()[-300:]}")
        git.update_ref(ref, None)
        return theirs


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The new tip, and for each old commit the new one; or why the two lines do not go together."""

    tip: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


class _Apart(Exception):
    """A commit does not go together with what is there."""


def on_top_of(git: Git, base: str, tip: str) -> Joined:
    """The commits of ``tip`` that ``base`` does not hold, oldest first, made again on top of ``base``.

    The line stays straight: a merge becomes one commit, unless it only closes a chain that begins at its first parent,
    as a landing of several does; such a chain is made again, and the merge over it.
    """
    fork = git.text("merge-base", base, tip, check=False)
    if not fork:
        return Joined(problem="the two have no commit in common")
    renamed: dict[str, str] = {}
    new = base
    try:
        for commit in git.text("rev-list", "--reverse", "--first-parent", f"{fork}..{tip}").split():
            before = new
            for each in _chain(git, commit):
                new = renamed[each] = _remade(git, each, _tree_on(git, new, each), [new])
            if commit not in renamed:
                renamed[commit] = _remade(git, commit, git.tree_of(new), [before, new])
            new = renamed[commit]
    except _Apart as apart:
        return Joined(problem=f"{apart} does not go together with what is there")
    return Joined(tip=new, renamed=renamed)


def _chain(git: Git, commit: str) -> Iterator[str]:
    """The commit itself; of a merge that closes a chain, the commits of the chain, oldest first."""
    parents = git.text("rev-list", "--parents", "-n", "1", commit).split()[1:]
    if len(parents) == 2 and git.tree_of(parents[1]) == git.tree_of(commit) and git.ancestor(*parents):
        yield from git.text("rev-list", "--reverse", "--first-parent", f"{parents[0]}..{parents[1]}").split()
    else:
        yield commit


def _tree_on(git: Git, onto: str, commit: str) -> str:
    """The tree of ``onto`` with what ``commit`` changed; ``_Apart`` where that is a conflict."""
    found = merged(git, onto, git.commit_of(f"{commit}^1"), commit)
    if found.conflicts:
        raise _Apart(commit[:10])
    return found.tree


def _remade(git: Git, commit: str, tree: str, parents: Sequence[str]) -> str:
    """The commit with its author, time and message, on other parents and with another tree."""
    words = ("log", "-1", "--no-show-signature", "--format=%an%x00%ae%x00%aI%x00%B", commit)
    name, address, at, message = os.fsdecode(git.run(*words)).split("\0", 3)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": at}
    env = git.identity_variables() | author
    behind = [word for parent in parents for word in ("-p", parent)]
    made = git.run("commit-tree", tree, *behind, input=os.fsencode(message.rstrip("\n") + "\n"), env=env)
    return os.fsdecode(made).strip()
