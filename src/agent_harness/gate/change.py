"""The change that the gate judges: the commits from a merge base to a head, or the uncommitted files."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_harness.errors import Refused, UsageError
from agent_harness.kernel import snapshot
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.verification.runner_config import in_test_folder, is_conftest, is_test_file

_DOCUMENTS = frozenset({".md", ".rst", ".adoc", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp"})
_PAPERS = frozenset({"LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS", "CONTRIBUTORS", "CODEOWNERS", "CHANGELOG"})
_MANIFESTS = (  # they name documents, and no test reads them by it
    *("setup.py", "*.toml", "*.cfg", "*.yml", "*.yaml", "*.in"),
    *("*.gitignore", "*.gitattributes", "docs/conf.py", "docs/source/conf.py", "doc/conf.py", "doc/source/conf.py"),
)
_BRANCHES = ("refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master")


@dataclass(frozen=True, kw_only=True)
class GateChange:
    git: Git
    base: str  # the merge base
    head: str
    base_name: str  # the revision from which the base was found
    paths: tuple[str, ...]
    uncommitted: bool = False

    @property
    def tests(self) -> tuple[str, ...]:
        """Changed test files that exist in the head."""
        return tuple(path for path in self.paths if is_test_file(path) and self.git.show(self.head, path) is not None)

    @property
    def product(self) -> tuple[str, ...]:
        """Changed files that are neither tests nor documents, nor settings such as ``.github`` or ``tox.ini``."""
        unproven = (is_test_file, in_test_folder, is_document, lambda p: p.startswith(".") or p == "tox.ini")
        return tuple(path for path in self.paths if not any(each(path) for each in unproven))

    @property
    def touches_tests(self) -> bool:
        return any(is_test_file(path) or in_test_folder(path) or is_conftest(path) for path in self.paths)

    def modules(self, *commits: str) -> set[str]:
        """Return the names of the Python modules, and of the folders, in the commits."""
        listed = "\0".join(self.git.text("ls-tree", "-r", "-t", "-z", commit) for commit in commits)
        rows = (each.partition("\t") for each in listed.split("\0"))
        # a document of the same name does not make a module one of the repository
        found = (path for about, _, path in rows if " tree " in about or path.endswith((".py", ".so", ".pyd")))
        return {PurePosixPath(path).name.partition(".")[0] for path in found}

    @property
    def only_documents(self) -> bool:
        """True if only documents were changed, and neither code nor tests name files of their kind."""
        kinds = {PurePosixPath(path).suffix or PurePosixPath(path).name for path in self.paths}
        kinds |= {PurePosixPath(path).parent.name for path in self.paths} - {""}  # code may read a whole folder
        documents = [f"*{each}" for each in sorted(_DOCUMENTS)]
        return (
            all(map(is_document, self.paths))
            and not self._names(["doctest"], documents)
            and not self._names(kinds, [*documents, *_MANIFESTS])
        )

    def _names(self, texts: Iterable[str], passed_over: Iterable[str]) -> bool:
        """Return True if a file of the head contains one of the texts. Raise ``GitFailed`` if git cannot tell."""
        words = ("grep", "-l", "-z", "-a", "-F", *(word for text in texts for word in ("-e", text)))
        words += (self.head, "--", *(f":(exclude){each}" for each in passed_over))
        try:
            return bool(self.git.text(*words))
        except GitFailed as error:
            if error.status != 1:  # 1: no file does
                raise
            return False


def is_document(path: str) -> bool:
    pure = PurePosixPath(path)
    return not in_test_folder(path) and (
        pure.suffix.lower() in _DOCUMENTS or (pure.stem.upper() in _PAPERS and pure.suffix.lower() in ("", ".txt"))
    )


def between(git: Git, *, base: str | None, head: str, worktree: bool) -> GateChange:
    """Return the change from the merge base of ``base`` and ``head`` to ``head``, or to the present files."""
    tip = commit_named(git, head)
    name = base or default_base(git)
    found = git.text("merge-base", commit_named(git, base or _full(git)), tip, check=False)
    if not found:
        raise Refused(f"{name} and {head} have no common commit", hint="git fetch --unshallow  # or --base REV")
    if worktree:
        tree = snapshot.tree_of_files(git)
        tip = tip if tree == git.tree_of(tip) else git.commit_tree(tree, [tip], "Uncommitted files, for the gate")
    if found == tip:
        dirty = not worktree and git.dirty()
        hint = "harness gate --worktree  # judges the uncommitted files" if dirty else "harness gate --base REV"
        raise Refused(f"{head} contains no change after {name}: there is nothing to judge", hint=hint)
    paths = tuple(change.path for change in git.changed_paths(found, tip))
    return GateChange(git=git, base=found, head=tip, base_name=name, paths=paths, uncommitted=worktree)


def commit_named(git: Git, name: str) -> str:
    found = git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", check=False)
    if not found:
        raise UsageError(f"{name!r} is not a commit of this repository", hint="git log --oneline --all")
    return found


def default_base(git: Git) -> str:
    """Return the default branch of the remote, or the local main branch."""
    return _full(git).removeprefix("refs/heads/").removeprefix("refs/remotes/")


def _full(git: Git) -> str:
    # the full name, because a tag or a branch of the short name would come first
    origin = git.text("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD", check=False)
    for name in filter(None, (origin, *_BRANCHES)):
        if git.commit_of(name):
            return name
    raise Refused("No base is known: there is no origin/main and no main", hint="harness gate --base REV")


def own_files(change: GateChange, named: Collection[str]) -> tuple[str, ...]:
    """Return the test files that belong to the change: the named files or test ids, or all changed test files."""
    missing = [each for each in named if change.git.show(change.head, each.partition("::")[0]) is None]
    if missing:
        raise UsageError(f"--test {missing[0]}: {change.head[:10]} has no such file", hint="git ls-files")
    return tuple(named) or change.tests
