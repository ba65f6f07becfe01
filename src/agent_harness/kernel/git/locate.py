"""Search for a repository by its folders, without running git and without reading the repository's settings. A setting
(``core.worktree``) could move the work tree elsewhere, and anyone who works in the repository can write settings.
Therefore the folder that contains ``.git`` always counts as the top folder."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent_harness.kernel.owner import HOME_REPOSITORY

DETACHED = "detached"
"""Value that replaces a branch name if HEAD is detached."""
OPERATIONS = {
    "MERGE_HEAD": ("a merge", "git merge --abort"),
    "rebase-merge": ("a rebase", "git rebase --abort"),
    "rebase-apply": ("a rebase or git am", "git rebase --abort"),
    "CHERRY_PICK_HEAD": ("a cherry-pick", "git cherry-pick --abort"),
    "REVERT_HEAD": ("a revert", "git revert --abort"),
    "sequencer": ("a cherry-pick or revert of several commits", "git cherry-pick --quit"),
    "BISECT_LOG": ("a bisect", "git bisect reset"),
}
"""Files that git keeps during an unfinished operation, each with the operation's name and the command that ends it."""

OPERATION_FILES = (
    *OPERATIONS,
    *("MERGE_MODE", "MERGE_MSG", "MERGE_RR", "AUTO_MERGE", "SQUASH_MSG", "REBASE_HEAD"),
    *("BISECT_START", "BISECT_NAMES", "BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "BISECT_RUN"),
)


class PathChange(NamedTuple):
    """Changed path with its status letters, as ``git status`` or ``git diff`` prints them."""

    status: str
    path: str


class Commit(NamedTuple):
    sha: str
    subject: str
    author: str  # name and address


@dataclass(frozen=True, slots=True)
class Head:
    commit: str | None  # None on a branch without a commit
    tree: str | None
    branch: str  # refs/heads/… or "detached"


class Upstream(NamedTuple):
    remote: str
    branch: str  # refs/heads/… on the remote


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """Result of a push or a fetch."""

    ok: bool
    rejected: bool  # the remote has commits that we do not have, or refuses this ref
    message: str


@dataclass(frozen=True, slots=True)
class Repository:
    top: Path
    git_dir: Path  # HEAD and the index
    shared_dir: Path  # refs, objects and settings; another folder than git_dir in a linked work tree

    @property
    def folders(self) -> tuple[Path, Path, Path]:
        return self.top, self.git_dir, self.shared_dir


def locate(start: Path) -> Repository | None:
    """Return the repository whose work tree contains the folder ``start``, or ``None``."""
    folder = Path(os.path.realpath(start))
    for top in (folder, *folder.parents):
        git_dir = _git_dir(top / ".git")
        if git_dir is not None:
            return Repository(top, git_dir, _shared_dir(git_dir))
    return None


def folders_of_project() -> tuple[Path, ...]:
    """Return the git folders of the project, which an agent in a workspace must not change."""
    found = locate(Path(named)) if (named := os.environ.get(HOME_REPOSITORY)) else None
    return found.folders if found else ()


def operation_under_way(repository: Repository) -> tuple[str, str] | None:
    """Return the name of an unfinished git operation and the command that ends the operation, or ``None``."""
    for name, words in OPERATIONS.items():
        if os.path.lexists(repository.git_dir / name):
            return words
    return None


def branches_elsewhere(repository: Repository) -> set[str]:
    """Return the full names of the branches that other work trees have checked out."""
    heads = [repository.shared_dir / "HEAD", *(repository.shared_dir / "worktrees").glob("*/HEAD")]
    others = [head for head in heads if head.parent != repository.git_dir]
    texts = [text_of(head) for head in others]
    return {text.removeprefix("ref:").strip() for text in texts if text.startswith("ref:")}


def _git_dir(entry: Path) -> Path | None:
    if entry.is_dir():
        return Path(os.path.realpath(entry)) if _is_git_dir(entry) else None
    text = text_of(entry)
    if not text.startswith("gitdir:"):
        return None
    folder = Path(os.path.realpath(entry.parent / text.removeprefix("gitdir:").strip()))
    return folder if _is_git_dir(folder) else None


def _is_git_dir(folder: Path) -> bool:
    shared = _shared_dir(folder)
    return os.path.lexists(folder / "HEAD") and (shared / "objects").is_dir() and (shared / "refs").is_dir()


def _shared_dir(git_dir: Path) -> Path:
    text = text_of(git_dir / "commondir").strip()
    return Path(os.path.realpath(git_dir / text)) if text else git_dir


def text_of(path: str | os.PathLike[str]) -> str:
    """Return the text of a small file, or an empty text if the file is unreadable."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return os.fsdecode(file.read(1 << 20))
    except OSError:
        return ""
