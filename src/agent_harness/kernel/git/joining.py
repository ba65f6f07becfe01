"""Merge and rebase without a work tree: a merge of trees, and local commits rebased onto a remote's new commits.

A push never rewrites the remote branch. New commits of the remote are fetched to a private ref. The local commits are
recreated on top of them, in a rebase that cannot stop half-way. Each commit is merged with its new base, relative to
its first parent, and keeps its author and message. A conflict is a return value, not a state of the repository. No
function of this module moves a branch. Source: features.md UAH-380, C30, scale.md SC-36, SC-39."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent_harness.errors import HarnessError
from agent_harness.kernel.git.client import Git
from agent_harness.kernel.git.isolated import GitFailed, IsolatedView
from agent_harness.kernel.git.locate import Pushed
from agent_harness.kernel.git.objects import TreeEntry, index_lines
from agent_harness.kernel.redact import redact


@dataclass(frozen=True, kw_only=True)
class Merged:
    """Result of a merge: the new tree and the files with conflict markers."""

    tree: str
    conflicts: tuple[str, ...] = ()


def merged(git: Git, head: str, base: str | None, commit: str, union: Sequence[str] = ()) -> Merged:
    """Merge the changes between ``base`` and ``commit`` into ``head``, and return the result."""
    if head == base:
        return Merged(tree=git.tree_of(commit))
    since = base if base and git.commit_of(base) else git.commit_tree(base or git.empty_tree(), [], "base")
    ours = git.commit_tree(git.tree_of(head), [since], "ours")  # so that the base is the base, whatever history says
    theirs = git.commit_tree(git.tree_of(commit), [since], "theirs")
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    # files in ``union`` keep the lines of both sides
    attributes = "".join(f"{path} merge=union\n" for path in union)
    with IsolatedView(git.repository, attributes=attributes) as view:
        done = view.call(*words, check=False)
    if done.returncode not in (0, 1):
        raise GitFailed("merge-tree", done.returncode, done.stderr.decode("utf-8", "replace"))
    tree, *files = [os.fsdecode(each) for each in done.stdout.split(b"\0") if each]
    return Merged(tree=tree, conflicts=tuple(dict.fromkeys(files)) if done.returncode else ())


def tree_with(git: Git, commit: str, entries: Mapping[bytes, TreeEntry]) -> str:
    """Return the commit's tree with these entries. ``ABSENT`` removes a file."""
    if not entries:
        return git.tree_of(commit)
    with git.room() as room, git.view() as view:
        index = room.path("tree")
        view.call("read-tree", commit, index=index)
        words = ("update-index", "-z", "--add", "--replace", "--index-info")
        view.call(*words, input=index_lines(entries, len(commit)), index=index)
        return view.call("write-tree", index=index).stdout.strip().decode()


@dataclass(frozen=True, kw_only=True)
class PushTarget:
    """Remote branch for pushes, with the git settings that were recorded before an agent ran."""

    remote: str
    branch: str  # refs/heads/... on the remote
    recorded: Mapping[str, list[str]] | None

    def push(self, git: Git, commit: str) -> Pushed:
        """Push a commit without force, and return the result. A refused or failed push raises no error."""
        try:
            done = git.push(self.remote, f"{commit}:{self.branch}", recorded=self.recorded)
        except HarnessError as error:
            done = Pushed(ok=False, rejected=False, message=error.message)
        return Pushed(ok=done.ok, rejected=done.rejected, message=redact(done.message).strip()[-500:])

    def incoming(self, git: Git, ref: str) -> str:
        """Fetch the remote's branch and return its commit. Raise ``HarnessError`` if the fetch fails."""
        found = git.fetch(self.remote, f"+{self.branch}:{ref}", recorded=self.recorded)
        theirs = git.commit_of(ref)
        if not found.ok or theirs is None:
            raise HarnessError(f"git fetch failed: {redact(found.message).strip()[-300:]}")
        git.update_ref(ref, None)
        return theirs


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Result of a rebase: the new tip and the map from old to new commits, or a ``problem``."""

    tip: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def on_top_of(git: Git, base: str, tip: str) -> Joined:
    """Rebase the commits of ``tip`` onto ``base``, and return the result."""
    fork = git.text("merge-base", base, tip, check=False)
    if not fork:
        return Joined(problem="the local and the remote branch have no common commit")
    renamed: dict[str, str] = {}
    new = base
    for commit in git.text("rev-list", "--reverse", "--first-parent", f"{fork}..{tip}").split():
        before = new
        for each in _chain(git, commit):
            found = merged(git, new, git.commit_of(f"{each}^1"), each)
            if found.conflicts:
                return Joined(problem=f"commit {each[:10]} conflicts with the remote branch")
            new = renamed[each] = _remade(git, each, found.tree, [new])
        if commit not in renamed:
            renamed[commit] = _remade(git, commit, git.tree_of(new), [before, new])
        new = renamed[commit]
    return Joined(tip=new, renamed=renamed)


def _chain(git: Git, commit: str) -> Iterator[str]:
    # a merge with the tree of its second parent, which descends from the first, stands for the commits between
    parents = git.text("rev-list", "--parents", "-n", "1", commit).split()[1:]
    if len(parents) == 2 and git.tree_of(parents[1]) == git.tree_of(commit) and git.ancestor(*parents):
        yield from git.text("rev-list", "--reverse", "--first-parent", f"{parents[0]}..{parents[1]}").split()
    else:
        yield commit


def _remade(git: Git, commit: str, tree: str, parents: Sequence[str]) -> str:
    words = ("log", "-1", "--no-show-signature", "--format=%an%x00%ae%x00%aI%x00%B", commit)
    name, address, at, message = os.fsdecode(git.run(*words)).split("\0", 3)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": at}
    env = git.identity_variables() | author
    behind = [word for parent in parents for word in ("-p", parent)]
    made = git.run("commit-tree", tree, *behind, input=os.fsencode(message.rstrip("\n") + "\n"), env=env)
    return os.fsdecode(made).strip()
