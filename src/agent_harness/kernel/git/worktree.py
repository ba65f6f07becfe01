"""Work trees of our own, to judge commits in: made quickly, marked as ours, removed also after a crash.

A work tree is registered with the repository, so that programs in it find tags and history. Its files are written
under our settings: no hook runs, and neither the repository's own filters nor ``.git/info/attributes`` shape them.
"""

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import owner
from agent_harness.kernel.git.isolated import IsolatedView, write
from agent_harness.kernel.git.locate import Repository

__all__ = ["add", "prune", "remove"]

MARK = "agent-harness.json"
"""The file in a work tree's folder under ``.git/worktrees`` that says who made it."""


def add(repository: Repository, path: Path, commit: str) -> None:
    """Checks a commit out into a new or empty folder. ``UnsafeTree`` when the folder holds something."""
    path = Path(os.path.realpath(path))
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise UnsafeTree(f"{path} is not empty", hint="name a new folder for the work tree")
    with IsolatedView(repository, head=commit) as view:
        sha = view.call("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}").stdout.strip().decode()
        entry = _register(repository, path, sha)
        view.call("read-tree", "-m", "-u", sha, index=str(entry / "index"), work_tree=str(path))


def remove(repository: Repository, path: Path) -> None:
    """Removes a work tree of ours, also when parts of it are gone already; ``UnsafeTree`` when it is not ours."""
    path = Path(os.path.realpath(path))
    entry = next((entry for entry, place in _ours(repository) if place == path), None)
    if entry is None:
        raise UnsafeTree(f"{path} is not a work tree of the harness", hint="git worktree list")
    _remove(entry, path)


def prune(repository: Repository) -> list[Path]:
    """Removes the work trees of ours whose maker is dead, or whose folder is gone; answers where they were."""
    over = [(entry, path) for entry, path in _ours(repository) if not path.exists() or _maker_is_dead(entry)]
    for entry, path in over:
        _remove(entry, path)
    return [path for _, path in over]


def _register(repository: Repository, path: Path, sha: str) -> Path:
    parent = repository.shared_dir / "worktrees"
    parent.mkdir(exist_ok=True)
    entry = _new_folder(parent, path.name)
    write(str(entry / MARK), json.dumps({**owner.current().as_record(), "path": str(path)}))
    write(str(entry / "commondir"), "../..\n")
    write(str(entry / "HEAD"), f"{sha}\n")
    write(str(entry / "gitdir"), f"{path}/.git\n")
    write(str(path / ".git"), f"gitdir: {entry}\n")
    return entry


def _new_folder(parent: Path, name: str) -> Path:
    count = 0
    while True:
        folder = parent / f"harness-{name}{f'-{count}' if count else ''}"
        try:
            folder.mkdir()
        except FileExistsError:
            count += 1
        else:
            return folder


def _ours(repository: Repository) -> Iterator[tuple[Path, Path]]:
    """Our entries under ``.git/worktrees``, each with its folder."""
    for mark in sorted((repository.shared_dir / "worktrees").glob(f"*/{MARK}")):
        record = _record(mark)
        if record:
            yield mark.parent, Path(str(record["path"]))


def _record(mark: Path) -> dict[str, object]:
    try:
        found = json.loads(mark.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("path"), str) else {}


def _maker_is_dead(entry: Path) -> bool:
    maker = owner.Owner.from_record(_record(entry / MARK))
    return maker is not None and owner.state(maker) == "dead"


def _remove(entry: Path, path: Path) -> None:
    """Removes the folder, if its own ``.git`` file still leads to the entry, and then the entry."""
    if _leads_to(path / ".git", entry) or (path.is_dir() and not any(path.iterdir())):
        shutil.rmtree(path, onerror=_make_writable)
    shutil.rmtree(entry, ignore_errors=True)


def _leads_to(link: Path, entry: Path) -> bool:
    try:
        return link.is_file() and link.read_text() == f"gitdir: {entry}\n"
    except (OSError, ValueError):
        return False


def _make_writable(remove_one: Callable[..., object], path: str, _: object) -> None:
    """Takes away a write protection that a test left behind, and tries once more."""
    for place in (os.path.dirname(path), path):
        if not os.path.islink(place):
            os.chmod(place, stat.S_IRWXU)
    remove_one(path)
