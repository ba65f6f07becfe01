"""One repository: questions, and careful changes of its refs.

Every call runs through a view (``kernel/git/isolated.py``), so that nothing that was written into the repository
(settings, hooks, attributes, filters, index flags) runs code in the harness's calls or hides a change. The user's own
global and system settings stay in force. Source: ``tasklist.md`` 11, ``features.md`` C04, C25, C30, C31.

Pushing needs settings of the repository: where its remotes are, and how to reach them. Record them before an agent
starts, and push with that record::

    trusted = git.record_config()            # before the agent: JSON-able, to be held in memory
    ...
    git.push("origin", "HEAD:refs/heads/main", recorded=trusted)
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import locate, settings
from agent_harness.kernel.git import (
    status as git_status,
)
from agent_harness.kernel.git.batch import Batch
from agent_harness.kernel.git.isolated import GitFailed, IsolatedView
from agent_harness.kernel.git.locate import (
    DETACHED,
    Commit,
    Head,
    PathChange,
    Pushed,
    Repository,
    Upstream,
)
from agent_harness.kernel.git.objects import ABSENT, AskGit, Objects, TreeEntry, checked_out, refs_in
from agent_harness.kernel.git.operation_lock import OperationLock
from agent_harness.kernel.git.settings import Settings

__all__ = ["IDENTITY", "Git"]

IDENTITY = ("agent-harness", "agent-harness@localhost")
"""Author of commits if the user has no git identity, and of all private commits."""


COMMITTING = frozenset({"cherry-pick", "commit", "merge", "pull", "rebase", "revert", "stash"})
"""Commands of git that need an identity."""

ENTERING = frozenset(
    {"add", "checkout", "commit", "diff", "diff-files", "diff-index", "merge", "mv", "pull", "rebase"}
) | {*("reset", "restore", "revert", "rm", "stash", "status", "switch", "cherry-pick")}
"""Commands that may look into submodules."""

COMPARING = frozenset({"diff-tree"})
"""Commands that compare stored objects, and would skip submodules if ``.gitmodules`` asks for it."""


class Git:
    """One repository. An object that was made before ``git init`` works as soon as there is a repository."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        self._repository: Repository | None = None
        self._open = threading.local()
        self.trusted_index: tuple[str, str] | None = None  # digest and tree of the newest index that was built here

    # ---- where -------------------------------------------------------------------------------------------------

    @property
    def is_repository(self) -> bool:
        """True if the root lies in the work tree of a repository."""
        return self._found() is not None

    @property
    def repository(self) -> Repository:
        """Folders of the repository; ``UnsafeTree`` outside of one."""
        found = self._found()
        if found is None:
            raise UnsafeTree(f"{self.root} is not in a git repository", hint="git init")
        return found

    def _found(self) -> Repository | None:
        if self._repository is None:
            self._repository = locate.locate(self.root)
        return self._repository

    def top(self) -> Path:
        """Return the top folder of the work tree."""
        return self.repository.top

    def git_dir(self) -> Path:
        """Return the folder that holds HEAD and the index of this work tree."""
        return self.repository.git_dir

    def shared_dir(self) -> Path:
        """Return the folder that holds refs and objects: one for all linked work trees of a repository."""
        return self.repository.shared_dir

    def prefix(self) -> bytes:
        """Return the path of the root below the top, without slashes at its ends; empty at the top itself."""
        relative = os.path.relpath(self.root, self.top())
        return b"" if relative == os.curdir else os.fsencode(relative)

    def file(self, path: bytes) -> bytes:
        """Return the full path of a path that is relative to the top."""
        return os.path.join(os.fsencode(self.top()), path)

    # ---- running -----------------------------------------------------------------------------------------------

    def run(
        self,
        *words: str,
        input: bytes | None = None,  # noqa: A002
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout_seconds: float = 120.0,
    ) -> bytes:
        """Return the output of a git command. ``GitFailed`` if it fails and ``check`` is set; also ``TimedOut``."""
        with self.view() as view:
            variables = dict(env or {})
            if words[0] in COMMITTING:
                variables = {**self.identity_variables(), **variables}
            if words[0] in ENTERING:
                variables = {**settings.closed_submodules(view), **variables}
            if words[0] in COMPARING:
                words = (words[0], "--ignore-submodules=none", *words[1:])
            done = view.call(
                *words, input=input, env=variables, check=check, timeout_seconds=timeout_seconds, cwd=str(self.root)
            )
        return done.stdout

    def text(self, *words: str, check: bool = True, timeout_seconds: float = 120.0) -> str:
        """Return the output of a git command as text, without white space at its ends."""
        return os.fsdecode(self.run(*words, check=check, timeout_seconds=timeout_seconds)).strip()

    def ok(self, *words: str, timeout_seconds: float = 120.0) -> bool:
        """Return True if a git command ends with exit status 0."""
        try:
            self.run(*words, timeout_seconds=timeout_seconds)
        except GitFailed:
            return False
        return True

    @contextmanager
    def view(self, *, inherit: Sequence[int] = ()) -> Iterator[IsolatedView]:
        """Open a view: the harness's settings over the repository's HEAD and index, with the rules of ``info/exclude``.

        Within this context all calls of this thread share one view. Descriptors of ``inherit`` stay open in git; with
        them the view is a new one.
        """
        shared = getattr(self._open, "view", None)
        if shared is not None and not inherit:
            yield shared
            return
        with IsolatedView(self.repository, excludes=self.repository_text("exclude"), inherit=inherit) as view:
            self._open.view = view
            try:
                yield view
            finally:
                self._open.view = shared

    @contextmanager
    def objects(self) -> Iterator[Objects]:
        """Open a reader of commits, trees and blobs; it starts a process only if their files are not enough."""
        with Objects(self.repository, self._batch) as objects:
            yield objects

    @contextmanager
    def _batch(self) -> Iterator[Batch]:
        """Open the batch of the current view; without one, a batch of a new view that no other call shares."""
        shared = getattr(self._open, "view", None)
        if shared is not None:
            yield shared.batch()
            return
        with IsolatedView(self.repository) as view:
            yield view.batch()

    @contextmanager
    def room(self) -> Iterator[OperationLock]:
        """Take the lock on this work tree and a temporary folder, for operations that must not run twice at a time."""
        with OperationLock(self.repository) as room, self.view(inherit=(room.lock,)):
            yield room

    def repository_text(self, name: str) -> str:
        """Return the text of a file of ``.git/info``; empty if there is none."""
        return locate.text_of(self.shared_dir() / "info" / name)

    # ---- questions ---------------------------------------------------------------------------------------------

    def look(self) -> Head:
        """Return commit, tree and branch of HEAD."""
        with suppress(AskGit), self.objects() as objects:
            commit, branch = checked_out(self.repository)
            tree = objects.named(commit, "tree") if commit else None
            if tree or not commit:
                return Head(commit, tree, branch or DETACHED)
        with self.view() as view:
            done = view.call("rev-parse", "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD", check=False)
            lines = os.fsdecode(done.stdout).split("\n")
            if done.returncode == 0 and len(lines) == 4:
                return Head(lines[0], lines[1], DETACHED if lines[2] == "HEAD" else lines[2])
            branch = view.call("symbolic-ref", "--quiet", "HEAD", check=False)
            if branch.returncode:
                raise GitFailed("rev-parse HEAD", done.returncode, done.stderr.decode("utf-8", "replace"))
            return Head(None, None, os.fsdecode(branch.stdout).strip())

    def head(self) -> str | None:
        """Return the commit that is checked out; ``None`` on a branch without a commit."""
        return self.look().commit

    def branch(self) -> str | None:
        """Return the full name of the branch that is checked out; ``None`` on a detached HEAD."""
        branch = self.look().branch
        return None if branch == DETACHED else branch

    def commit_of(self, name: str) -> str | None:
        """Return the commit that a ref or a revision names; ``None`` if there is none."""
        with self.objects() as objects:
            return objects.named(name)

    def refs_below(self, folder: str) -> dict[str, str]:
        """Return the refs whose names begin with this text, which ends in a slash, and their objects."""
        with suppress(AskGit):
            return refs_in(self.repository, folder)
        lines = self.text("for-each-ref", "--format=%(objectname) %(refname)", folder).splitlines()
        return {ref: oid for oid, _, ref in (line.partition(" ") for line in lines)}

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        with self.objects() as objects:
            return objects.tree_of(commit)

    def status(self) -> list[PathChange]:
        """Return the differences from HEAD, in index and files, like ``git status``; index flags hide nothing."""
        with self.room() as room:
            found = self._scan(room)
        letters = {path: letters.replace(".", " ") for path, letters in found.letters.items()}
        letters |= dict.fromkeys([*found.untracked, *found.nested], "??")
        return [PathChange(letters[path], os.fsdecode(path)) for path in sorted(letters)]

    def dirty(self) -> bool:
        """Return True if anything is not committed, except ignored files."""
        return bool(self.status())

    def _scan(self, room: OperationLock) -> git_status.Scan:
        head = self.look()
        where = head.commit or f"ref: {head.branch}"
        with IsolatedView(self.repository, head=where, excludes=self.repository_text("exclude")) as view:
            index = room.copy_of_index("index")
            if index:
                git_status.uncover(view, index, view.call("ls-files", "-v", "-z", index=index).stdout)
            return git_status.scan(view, index or room.path("none"), ignored=False)

    def ancestor(self, older: str, newer: str) -> bool:
        """Return True if ``newer`` reaches ``older``; a commit is its own ancestor."""
        with self.objects() as objects:
            base, tip = objects.named(older), objects.named(newer)
            if base is None or tip is None:
                return False
            if base == tip or base in objects.parents(tip):
                return True
        return self.ok("merge-base", "--is-ancestor", base, tip)

    def commits_between(self, base: str | None, tip: str) -> list[Commit]:
        """Return the commits that ``tip`` reaches and ``base`` does not, newest first."""
        if base == tip:
            return []
        words = ("rev-list", "--no-commit-header", "--format=%H%x00%s%x00%an <%ae>%x00", tip)
        fields = os.fsdecode(self.run(*words, *([f"^{base}"] if base else []))).split("\0")
        return [Commit(*(text.strip("\n") for text in fields[at : at + 3])) for at in range(0, len(fields) - 1, 3)]

    def differences(self, base: str | None, tip: str) -> dict[bytes, tuple[TreeEntry, TreeEntry]]:
        """Return the differences between the files of two commits or trees, sorted by path.

        ``base`` of ``None`` is empty. ``GitFailed`` if one of them does not exist.
        """
        with self.objects() as objects:
            return objects.differences(objects.tree_of(base) if base else "", objects.tree_of(tip))

    def changed_paths(self, base: str | None, tip: str) -> list[PathChange]:
        """Return the paths that differ between two commits or trees; a rename is a removal and an addition."""
        found = self.differences(base, tip)
        return [PathChange(_letter(old, new), os.fsdecode(path)) for path, (old, new) in found.items()]

    def show(self, commit: str, path: str) -> bytes | None:
        """Return the stored content of a file in a commit; ``None`` if there is no file of that name."""
        with self.objects() as objects:
            tree = objects.named(commit, "tree")
            entry = objects.at(tree, os.fsencode(path)) if tree else ABSENT
            found = objects.read(entry.oid) if entry.mode.startswith("1") else None
        return found[1] if found and found[0] == "blob" else None

    def empty_tree(self) -> str:
        """Return the id of the tree without entries, which is created if missing."""
        return self.text("hash-object", "-t", "tree", "-w", os.devnull)

    def operation_under_way(self) -> str | None:
        """Return the name of a merge, rebase or the like that waits to be finished."""
        found = locate.operation_under_way(self.repository)
        return found[0] if found else None

    def default_branch(self) -> str | None:
        """Return the default branch: origin's HEAD, else ``init.defaultBranch``, else main or master; C25."""
        origin = self.text("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD", check=False)
        wished = self.settings().get("init.defaultbranch")
        names = (origin.removeprefix("refs/remotes/origin/"), wished, "main", "master")
        return next((name for name in names if name and self.commit_of(f"refs/heads/{name}")), None)

    def upstream(self, branch: str | None = None) -> Upstream | None:
        """Return the push target of a branch (by default the one checked out), by the repository's settings."""
        name = (branch or self.branch() or "").removeprefix("refs/heads/")
        found = self.settings()
        remote, merge = found.get(f"branch.{name}.remote"), found.get(f"branch.{name}.merge")
        if not name or not remote or not merge:
            return None
        return Upstream(remote, merge, f"refs/remotes/{remote}/{merge.removeprefix('refs/heads/')}")

    def published(self, base: str | None, tip: str) -> list[str]:
        """Return the commits after ``base`` up to ``tip`` that a remote has, by its tracking refs."""
        since = [f"^{base}"] if base else []
        private = set(self.text("rev-list", tip, *since, "--not", "--remotes").split())
        return [sha for sha in self.text("rev-list", tip, *since).split() if sha not in private]

    # ---- changes -----------------------------------------------------------------------------------------------

    def update_ref(self, ref: str, new: str | None, old: str | None = None, *, message: str = "agent-harness") -> None:
        """Move one ref, only if it is at ``old``: an empty text means that it must not exist, ``None`` anything.

        ``new`` of ``None`` deletes it. A symbolic ref itself is written, not its target.
        """
        words = ["-d", ref] if new is None else [ref, new]
        self.run("update-ref", "--no-deref", "-m", message, *words, *([] if old is None else [old]))

    def commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Create a commit object with the user's identity that no ref names yet."""
        words = [word for parent in parents for word in ("-p", parent)]
        variables = self.identity_variables()
        return os.fsdecode(self.run("commit-tree", tree, *words, input=message.encode(), env=variables)).strip()

    def identity_variables(self, identity: tuple[str, str] | None = None) -> dict[str, str]:
        """Return the variables for the author and committer: as given, else the user's, else the harness's."""
        name, address = identity or self.identity
        parts = (("NAME", name), ("EMAIL", address))
        return {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in parts}

    @cached_property
    def identity(self) -> tuple[str, str]:
        """User's name and address, read once; the harness's if none are set."""
        found = self.settings()
        name, address = found.get("user.name"), found.get("user.email")
        return (name, address) if name and address else IDENTITY

    # ---- settings and remotes ----------------------------------------------------------------------------------

    def settings(self) -> dict[str, str]:
        """Return every setting by its key in lower case, the repository's too. Read them, never run them."""
        return settings.values(self.repository)

    def local_filters(self) -> list[str]:
        """Return the names of filters that attributes ask for and only the repository's settings define.

        The harness's calls skip them: such files are taken as they are in the work tree. Preflight says so.
        """
        return settings.local_filters(self.repository)

    def is_open_to_all(self) -> bool:
        """Return True if git accepts the repository under its own settings. Nothing of it is run."""
        return settings.is_repository(self.repository)

    def record_config(self) -> dict[str, list[str]]:
        """Return the repository's settings, hooks and info files as they are now, for a later restore. JSON-able."""
        return settings.record(self.repository)

    def settings_now(self) -> Settings:
        """Return every setting that the person's git has here, for a comparison with another moment."""
        return settings.now(self.repository)

    def push(
        self,
        remote: str,
        *refspecs: str,
        recorded: Mapping[str, list[str]] | None = None,
        served_by: str | None = None,
        timeout_seconds: float = 300.0,
    ) -> Pushed:
        """Push with the user's global settings, and with those of the repository only as they were recorded.

        Without a record only the remote's addresses are used, as they are now. No hook runs, nothing is forced.
        ``served_by`` is the git command that answers on the remote side.
        """
        words = ("push", "--porcelain", *([f"--receive-pack={served_by}"] if served_by else []))
        return self._transfer(words, remote, refspecs, recorded, timeout_seconds)

    def fetch(
        self,
        remote: str,
        *refspecs: str,
        recorded: Mapping[str, list[str]] | None = None,
        tags: bool = True,
        served_by: str | None = None,
        timeout_seconds: float = 300.0,
    ) -> Pushed:
        """Fetch under the rules of ``push``; without ``tags`` no tag is fetched."""
        words = ["fetch", "--no-auto-gc", *([] if tags else ["--no-tags"])]
        words += [f"--upload-pack={served_by}"] if served_by else []
        return self._transfer(words, remote, refspecs, recorded, timeout_seconds)

    def remote_refs(
        self, remote: str, *, recorded: Mapping[str, list[str]] | None = None, timeout_seconds: float
    ) -> dict[str, str]:
        """Return branches and tags of a remote and their commits, asked now; none if it cannot be reached."""
        listed = self._transfer(("ls-remote", "--heads", "--tags"), remote, (), recorded, timeout_seconds)
        rows = (line.partition("\t") for line in listed.message.splitlines()) if listed.ok else ()
        return {ref.removesuffix("^{}"): sha for sha, tab, ref in rows if tab}

    def remote_refs_like(
        self, remote: str, pattern: str, *, served_by: str | None = None, timeout_seconds: float
    ) -> dict[str, str]:
        """Return all refs of a remote that match a pattern, and their commits.

        ``GitFailed`` if it cannot be reached.
        """
        words = ("ls-remote", "--refs", *([f"--upload-pack={served_by}"] if served_by else []))
        listed = self._transfer(words, remote, (pattern,), None, timeout_seconds)
        if not listed.ok:
            raise GitFailed("ls-remote", 128, listed.message)
        rows = (line.partition("\t") for line in listed.message.splitlines())
        return {ref: sha for sha, tab, ref in rows if tab}

    def _transfer(
        self,
        words: Sequence[str],
        remote: str,
        refspecs: Sequence[str],
        recorded: Mapping[str, list[str]] | None,
        timeout_seconds: float,
    ) -> Pushed:
        return settings.transfer(
            self.repository,
            words,
            remote,
            refspecs,
            recorded=recorded,
            now={} if recorded is not None else self.record_config(),
            timeout_seconds=timeout_seconds,
        )


def _letter(old: TreeEntry, new: TreeEntry) -> str:
    """Return git's status letter: added, deleted, modified, or type changed."""
    if ABSENT in (old, new):
        return "A" if old == ABSENT else "D"
    return "M" if old.mode[:2] == new.mode[:2] else "T"
