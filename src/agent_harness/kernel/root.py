"""Search for the project of a folder: the nearest folder, from this folder upwards, whose files identify a project.
Source: ``tasklist.md`` 2."""

from __future__ import annotations

import os

from agent_harness.errors import NotAProject
from agent_harness.kernel.project_signs import LIST, SIGNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_harness.kernel.project_signs import Kind

PIN = "HARNESS_STATE_ROOT"
"""Name of the environment variable that sets the folder of a task list."""
NAMES = {"features": "feature project", "tasklist": "task list", "longtask": "long task"}
STATUS = {"features": "harness status", "tasklist": "harness status", "longtask": "lth status ."}


class Root:
    """Kind and folder of a project."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: Kind, path: str) -> None:
        self.kind = kind
        self.path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Root) and (self.kind, self.path) == (other.kind, other.path)

    def __hash__(self) -> int:
        return hash((self.kind, self.path))

    def __repr__(self) -> str:
        return f"Root({self.kind!r}, {self.path!r})"


def not_here(kind: Kind, missing: str, hint: str) -> NotAProject:
    """Return the error that says that the current folder is not a ``kind`` project."""
    here = find(pin=False)
    if here is None or here.kind == kind:
        return NotAProject(missing, hint=hint)
    told = f"This command works only in a {NAMES[kind]}; {here.path} is a {NAMES[here.kind]}"
    return NotAProject(told, hint=STATUS[here.kind])


def find(*starts: object, kind: Kind | None = None, pin: bool = True, kept: bool = True) -> Root | None:
    """Search the start folders and their parent folders for a project. Return ``None`` if there is no project.
    Raise ``NotAProject`` if the pinned folder (``pin``) has no task list."""
    pinned = os.environ.get(PIN)
    if pin and pinned and kind in (None, "tasklist"):
        try:
            path = os.path.realpath(pinned)
            if _kind_of(path, "tasklist"):
                return Root("tasklist", path)
        except (OSError, ValueError):
            pass
        # the pinned folder overrides all others, and is never replaced by a search
        raise NotAProject(
            f"{PIN} is {pinned!r}, which contains no harness-tasks.json",
            hint=f"correct {PIN}, or unset it to search from the working directory upwards",
            reason="state_root_not_found",
        )
    for start in [given for given in starts if given is not None] or ["."]:
        for folder in _upwards(start):
            found = _kind_of(folder, kind)
            if found:
                return Root(found, folder)
        if kept and (kind == "tasklist" or (pin and kind is None)):
            for folder in _of_repository(start):
                # the task list was deleted, but the state folder keeps a copy
                if kept_copy(folder):
                    return Root("tasklist", folder)
    return None


def kept_copy(folder: str) -> str | None:
    """Return the path of the task list's copy in the state folder, or ``None``."""
    from agent_harness.kernel import trusted_state

    home = trusted_state.existing(os.path.join(folder, LIST), folder, writable=False)
    path = os.path.join(home, LIST) if home else ""
    return path if os.path.isfile(path) and _knows_of_list(folder) else None


def is_anew(folder: str) -> bool:
    """Return True if the harness has never run in the folder's repository, or if there is no repository."""
    from pathlib import Path

    from agent_harness.kernel.git.locate import locate

    repository = locate(Path(folder))
    return repository is None or not ((repository.shared_dir / "harness").exists() or _knows_of_list(folder))


def _knows_of_list(folder: str) -> bool:
    from pathlib import Path

    from agent_harness.kernel.git.locate import locate

    repository = locate(Path(folder))
    if repository is None:
        return True
    if (repository.shared_dir / "refs/harness").exists():
        return True
    for path in (
        repository.shared_dir / "info/exclude",
        repository.shared_dir / "packed-refs",
        Path(folder, ".gitignore"),
    ):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if LIST.encode() in text or b"refs/harness/" in text:
            return True
    return False


def _of_repository(start: object) -> list[str]:
    found: list[str] = []
    for folder in _upwards(start):
        found.append(folder)
        if os.path.lexists(os.path.join(folder, ".git")):
            return found
    # outside a repository: the folder alone
    return found[:1]


def _upwards(start: object) -> Iterator[str]:
    """Yield a folder and all its parent folders."""
    if not isinstance(start, (str, os.PathLike)) or not start:
        return
    try:
        folder = os.path.realpath(start, strict=True)
    except (OSError, ValueError):
        return
    yield folder
    while folder != (folder := os.path.dirname(folder)):
        yield folder


def _kind_of(folder: str, wanted: Kind | None) -> Kind | None:
    for kind, names in SIGNS:
        if wanted in (None, kind) and all(_is_there(os.path.join(folder, name)) for name in names):
            return kind
    return None


def _is_there(path: str) -> bool:
    return os.path.isdir(path) if path.endswith("/") else os.path.isfile(path)
