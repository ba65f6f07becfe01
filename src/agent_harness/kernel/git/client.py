"""One git repository: queries, and safe changes of its refs.

Every call runs in a separate git directory (``kernel/git/isolated.py``). Therefore nothing written into the repository
(settings, hooks, attributes, filters, index flags) can run code in a harness call or hide a change. The user's global
and system settings stay in force. Source: ``tasklist.md`` 11, ``features.md`` C04, C25, C30, C31.

A push needs settings of the repository: the remotes' addresses, and how to reach the remotes. Record these settings
before an agent starts, and push with the record::

    trusted = git.record_config()            # before the agent: JSON-able, to be held in memory
    ...
    git.push("origin", "HEAD:refs/heads/main", recorded=trusted)"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import locate, settings
from agent_harness.kernel.git import status as git_status
from agent_harness.kernel.git.batch import Batch
from agent_harness.kernel.git.isolated import GitFailed, IsolatedView
from agent_harness.kernel.git.locate import DETACHED, Commit, Head, PathChange, Pushed, Repository, Upstream
from agent_harness.kernel.git.objects import ABSENT, AskGit, Objects, TreeEntry, checked_out, refs_in
from agent_harness.kernel.git.operation_lock import OperationLock, without_left_locks

IDENTITY = ("agent-harness", "agent-harness@localhost")
"""Author of the harness's private commits. If the user has no git identity, also the author of all other commits."""


COMMITTING = frozenset({"cherry-pick", "commit", "merge", "pull", "rebase", "revert", "stash"})
"""Git commands that need an author identity."""

ENTERING = frozenset(
    {"add", "checkout", "commit", "diff", "diff-files", "diff-index", "merge", "mv", "pull", "rebase"}
) | {*("reset", "restore", "revert", "rm", "stash", "status", "switch", "cherry-pick")}
"""Git commands that can enter submodules."""

MOVING = frozenset({"symbolic-ref", "update-ref"})
"""Git commands that write refs. A git process that was killed leaves the lock of its ref."""

COMPARING = frozenset({"diff-tree"})
"""Git commands that compare stored objects. A setting in ``.gitmodules`` could make these commands skip submodules."""


class Git:
    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        self._repository: Repository | None = None
        self._open = threading.local()
        self.trusted_index: tuple[str, str] | None = None  # digest and tree of the newest index that was built here

    # ---- where -------------------------------------------------------------------------------------------------

    @property
    def is_repository(self) -> bool:
        return self._found() is not None

    @property
    def repository(self) -> Repository:
        """Folders of the git repository. Raise ``UnsafeTree`` if the root folder is not in a repository."""
        found = self._found()
        if found is None:
            raise UnsafeTree(f"{self.root} is not in a git repository", hint="git init")
        return found

    def _found(self) -> Repository | None:
        if self._repository is None:
            self._repository = locate.locate(self.root)
        return self._repository

    def top(self) -> Path:
        return self.repository.top

    def git_dir(self) -> Path:
        """Return the folder that contains HEAD and the index of this work tree."""
        return self.repository.git_dir

    def shared_dir(self) -> Path:
        """Return the folder of refs and objects, which all linked work trees share."""
        return self.repository.shared_dir

    def prefix(self) -> bytes:
        """Return the path of the root folder, relative to the top of the work tree."""
        relative = os.path.relpath(self.root, self.top())
        return b"" if relative == os.curdir else os.fsencode(relative)

    def file(self, path: bytes) -> bytes:
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
        """Run a git command and return its output. With ``check``, raise ``GitFailed`` if the command fails."""
        with self.view() as view:
            variables = dict(env or {})
            if words[0] in COMMITTING:
                variables = {**self.identity_variables(), **variables}
            if words[0] in ENTERING:
                variables = {**settings.closed_submodules(view), **variables}
            if words[0] in COMPARING:
                words = (words[0], "--ignore-submodules=none", *words[1:])
            call = partial(
                view.call,
                *words,
                input=input,
                env=variables,
                check=check,
                timeout_seconds=timeout_seconds,
                cwd=str(self.root),
            )
            return (without_left_locks(self.repository, call) if words[0] in MOVING else call()).stdout

    def text(self, *words: str, check: bool = True, timeout_seconds: float = 120.0) -> str:
        return os.fsdecode(self.run(*words, check=check, timeout_seconds=timeout_seconds)).strip()

    def ok(self, *words: str) -> bool:
        try:
            self.run(*words)
        except GitFailed:
            return False
        return True

    @contextmanager
    def view(self, *, inherit: Sequence[int] = ()) -> Iterator[IsolatedView]:
        """Open a temporary git directory, in which this thread's git calls run during the block."""
        shared = getattr(self._open, "view", None)
        # git keeps the descriptors in ``inherit`` open, so an open view cannot be reused for them
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
        with Objects(self.repository, self._batch) as objects:
            yield objects

    @contextmanager
    def _batch(self) -> Iterator[Batch]:
        shared = getattr(self._open, "view", None)
        if shared is not None:
            yield shared.batch()
            return
        with IsolatedView(self.repository) as view:
            yield view.batch()

    @contextmanager
    def room(self) -> Iterator[OperationLock]:
        """Hold the operation lock of this work tree during the block."""
        with OperationLock(self.repository) as room, self.view(inherit=(room.lock,)):
            yield room

    def repository_text(self, name: str) -> str:
        return locate.text_of(self.shared_dir() / "info" / name)

    # ---- questions ---------------------------------------------------------------------------------------------

    def look(self) -> Head:
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
        """Return the checked-out commit, or ``None`` if the branch has no commit yet."""
        return self.look().commit

    def branch(self) -> str | None:
        """Return the full name of the checked-out branch, or ``None`` if HEAD is detached."""
        branch = self.look().branch
        return None if branch == DETACHED else branch

    def commit_of(self, name: str) -> str | None:
        """Return the commit that a ref or revision names, or ``None``."""
        with self.objects() as objects:
            return objects.named(name)

    def refs_below(self, folder: str) -> dict[str, str]:
        """Return the object id of each ref below ``folder``, by ref name. ``folder`` must end in a slash."""
        with suppress(AskGit):
            return refs_in(self.repository, folder)
        lines = self.text("for-each-ref", "--format=%(objectname) %(refname)", folder).splitlines()
        return {ref: oid for oid, _, ref in (line.partition(" ") for line in lines)}

    def tree_of(self, commit: str) -> str:
        with self.objects() as objects:
            return objects.tree_of(commit)

    def status(self) -> list[PathChange]:
        """Return the uncommitted changes, with status letters as in ``git status``."""
        with self.room() as room:
            found = self._scan(room)
        letters = {path: letters.replace(".", " ") for path, letters in found.letters.items()}
        letters |= dict.fromkeys([*found.untracked, *found.nested], "??")
        return [PathChange(letters[path], os.fsdecode(path)) for path in sorted(letters)]

    def dirty(self) -> bool:
        """Return True if there are uncommitted changes. Changes of ignored files do not count."""
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
        """Return True if ``older`` is an ancestor of ``newer`` or the same commit."""
        with self.objects() as objects:
            base, tip = objects.named(older), objects.named(newer)
            if base is None or tip is None:
                return False
            if base == tip or base in objects.parents(tip):
                return True
        return self.ok("merge-base", "--is-ancestor", base, tip)

    def commits_between(self, base: str | None, tip: str) -> list[Commit]:
        """Return the commits that are reachable from ``tip`` but not from ``base``, newest first."""
        if base == tip:
            return []
        words = ("rev-list", "--no-commit-header", "--format=%H%x00%s%x00%an <%ae>%x00", tip)
        fields = os.fsdecode(self.run(*words, *([f"^{base}"] if base else []))).split("\0")
        return [Commit(*(text.strip("\n") for text in fields[at : at + 3])) for at in range(0, len(fields) - 1, 3)]

    def differences(self, base: str | None, tip: str) -> dict[bytes, tuple[TreeEntry, TreeEntry]]:
        """Return the old and new tree entry of each file that differs between two commits or trees."""
        with self.objects() as objects:
            return objects.differences(objects.tree_of(base) if base else "", objects.tree_of(tip))

    def changed_paths(self, base: str | None, tip: str) -> list[PathChange]:
        """Return the paths that differ between two commits or trees. A rename counts as a removal and an addition."""
        found = self.differences(base, tip)
        return [PathChange(_letter(old, new), os.fsdecode(path)) for path, (old, new) in found.items()]

    def show(self, commit: str, path: str) -> bytes | None:
        """Return the content of the file ``path`` in a commit, or ``None`` if the commit has no such file."""
        with self.objects() as objects:
            tree = objects.named(commit, "tree")
            entry = objects.at(tree, os.fsencode(path)) if tree else ABSENT
            found = objects.read(entry.oid) if entry.mode.startswith("1") else None
        return found[1] if found and found[0] == "blob" else None

    def empty_tree(self) -> str:
        """Return the id of the empty tree. Create this object if the repository lacks it."""
        return self.text("hash-object", "-t", "tree", "-w", os.devnull)

    def operation_under_way(self) -> str | None:
        """Return the name of the unfinished git operation, such as a rebase, or ``None``."""
        found = locate.operation_under_way(self.repository)
        return found[0] if found else None

    def default_branch(self) -> str | None:
        """Return the default branch's name, or ``None`` if no default branch is known."""
        # C25
        origin = self.text("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD", check=False)
        wished = self.settings().get("init.defaultbranch")
        names = (origin.removeprefix("refs/remotes/origin/"), wished, "main", "master")
        return next((name for name in names if name and self.commit_of(f"refs/heads/{name}")), None)

    def upstream(self, branch: str | None = None) -> Upstream | None:
        """Return the remote branch that git's settings name as upstream of ``branch``, or ``None``."""
        name = (branch or self.branch() or "").removeprefix("refs/heads/")
        found = self.settings()
        remote, merge = found.get(f"branch.{name}.remote"), found.get(f"branch.{name}.merge")
        if not name or not remote or not merge:
            return None
        return Upstream(remote, merge)

    def published(self, base: str | None, tip: str) -> list[str]:
        """Return the commits after ``base`` up to ``tip`` that a remote-tracking ref already contains."""
        since = [f"^{base}"] if base else []
        private = set(self.text("rev-list", tip, *since, "--not", "--remotes").split())
        return [sha for sha in self.text("rev-list", tip, *since).split() if sha not in private]

    # ---- changes -----------------------------------------------------------------------------------------------

    def update_ref(self, ref: str, new: str | None, old: str | None = None, *, message: str = "agent-harness") -> None:
        """Set or delete a ref. Raise ``GitFailed`` if the ref does not point to ``old``."""
        # an empty ``old`` means that the ref must not exist
        words = ["-d", ref] if new is None else [ref, new]
        self.run("update-ref", "--no-deref", "-m", message, *words, *([] if old is None else [old]))

    def commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Create a commit object that no ref points to yet, with the user's identity. Return the commit's id."""
        words = [word for parent in parents for word in ("-p", parent)]
        variables = self.identity_variables()
        return os.fsdecode(self.run("commit-tree", tree, *words, input=message.encode(), env=variables)).strip()

    def identity_variables(self, identity: tuple[str, str] | None = None) -> dict[str, str]:
        name, address = identity or self.identity
        parts = (("NAME", name), ("EMAIL", address))
        return {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in parts}

    @cached_property
    def identity(self) -> tuple[str, str]:
        """User's name and email address from the git settings, or the harness's name and address."""
        found = self.settings()
        name, address = found.get("user.name"), found.get("user.email")
        return (name, address) if name and address else IDENTITY

    # ---- settings and remotes ----------------------------------------------------------------------------------

    def settings(self) -> dict[str, str]:
        """Return the values of all git settings, by key in lower case."""
        return settings.values(self.repository)

    def local_filters(self) -> list[str]:
        return settings.local_filters(self.repository)

    def record_config(self) -> dict[str, list[str]]:
        """Return the git settings, hooks and info files as a JSON record for a later restore."""
        return settings.record(self.repository)

    def push(
        self,
        remote: str,
        *refspecs: str,
        recorded: Mapping[str, list[str]] | None = None,
        served_by: str | None = None,
        timeout_seconds: float = 300.0,
    ) -> Pushed:
        """Push refs to a remote without force and without hooks, and return the result."""
        # without ``recorded``, only the remote's current addresses are used
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
        """Fetch refs from a remote, and return the result."""
        words = ["fetch", "--no-auto-gc", *([] if tags else ["--no-tags"])]
        words += [f"--upload-pack={served_by}"] if served_by else []
        return self._transfer(words, remote, refspecs, recorded, timeout_seconds)

    def remote_refs(
        self, remote: str, *, recorded: Mapping[str, list[str]] | None = None, timeout_seconds: float
    ) -> dict[str, str]:
        """Return the commit of each remote branch and tag, by ref name, or {} if the remote is unreachable."""
        listed = self._transfer(("ls-remote", "--heads", "--tags"), remote, (), recorded, timeout_seconds)
        rows = (line.partition("\t") for line in listed.message.splitlines()) if listed.ok else ()
        return {ref.removesuffix("^{}"): sha for sha, tab, ref in rows if tab}

    def remote_refs_like(
        self, remote: str, pattern: str, *, served_by: str | None = None, timeout_seconds: float
    ) -> dict[str, str]:
        """Return the object id of each remote ref that matches ``pattern``, by ref name."""
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
    if ABSENT in (old, new):
        return "A" if old == ABSENT else "D"
    return "M" if old.mode[:2] == new.mode[:2] else "T"
