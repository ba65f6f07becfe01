"""What of a project's ignored files a checkout needs to run: installed dependencies and local settings, lent as links.

A checkout holds what a commit holds. Packages that were installed into the project (``.venv``, ``node_modules``) are in
no commit, and are lent; build results, caches and reports are not, since they could stand for work that was not done.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from agent_harness.kernel.git import Git
from agent_harness.verification.runner.editable import Mapped, mapped
from agent_harness.verification.workspace import Workspace

__all__ = ["ignored_paths", "import_folders", "lendable", "left_behind"]

_DEPENDENCIES = frozenset(
    {".venv", "venv", "env", ".env", "node_modules", "bower_components", "vendor", ".tox", ".nox", ".bundle", ".eggs"}
    | {"__pypackages__", ".conda", ".pixi", ".direnv", ".yarn", ".pnp.cjs", ".pnp.loader.mjs", "elm-stuff", "deps"}
    | {".gradle", ".m2", ".stack-work", "Pods", "Carthage", ".dart_tool", ".packages", "jspm_packages", ".envrc"}
)
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
_CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".DS_Store", ".idea", ".vscode"}
    | {".coverage", "htmlcov", ".cache", ".parcel-cache", ".nyc_output", ".harness"}
)
_OURS = ("harness-", ".harness")


def ignored_paths(git: Git) -> list[str]:
    """Ignored files and folders below the project, a folder that is ignored as a whole once, without a final slash."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    found = (os.fsdecode(path).rstrip("/") for path in git.run(*words).split(b"\0") if path)
    return [path for path in found if not path.startswith("../")]


def lendable(root: Path, ignored: Iterable[str]) -> tuple[str, ...]:
    """Those of the ignored paths that hold what the project needs and cannot be got from a commit."""
    return tuple(path for path in ignored if _is_needed(root, path) and not (root / path).is_symlink())


def left_behind(ignored: Iterable[str], lent: Iterable[str]) -> list[str]:
    """Ignored paths that are in the folder and not in a checkout, caches and the harness's own files aside."""
    known = {*lent}
    names = ((path, PurePosixPath(path).name) for path in ignored if path not in known)
    return [
        path
        for path, name in names
        if name not in _CACHES and not name.endswith((".pyc", ".egg-info")) and not name.startswith(_OURS)
    ]


def import_folders(root: Path, lent: Iterable[str], search_path: str, space: Workspace) -> list[str]:
    """Folders of a checkout that stand for editable installs of the project, to come first in ``PYTHONPATH``."""
    now = mapped(_sites(root, lent, search_path), root)
    return [*(str(space.cwd / place) for place in now.roots), *_shelf(now, space)]


def _shelf(now: Mapped, space: Workspace) -> Iterator[str]:
    """A folder with links to packages whose name is not that of their folder."""
    if not now.packages:
        return
    shelf = space.private / "packages"
    for name, path in now.packages:
        place = shelf.joinpath(*name.split("."))
        if not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(space.cwd / path)
    yield str(shelf)


def _is_needed(root: Path, path: str) -> bool:
    name = PurePosixPath(path).name
    return (
        name in _DEPENDENCIES
        or name.startswith(".env.")
        or any(os.path.lexists(root / path / marker) for marker in _ENVIRONMENTS)
    )


def _sites(root: Path, lent: Iterable[str], search_path: str) -> list[str]:
    """Package folders of the environments that are lent, and of those whose programs are on PATH."""
    prefixes = [root / path for path in lent]
    prefixes += [Path(folder).parent for folder in search_path.split(os.pathsep) if _has_python(folder)]
    prefixes.append(Path(os.path.expanduser("~"), ".local"))  # noqa: PTH111
    sites = (site for prefix in prefixes for site in sorted(prefix.glob("lib*/python3*/*-packages")))
    return list(dict.fromkeys(str(site) for site in sites if site.is_dir()))


def _has_python(folder: str) -> bool:
    return folder.startswith("/") and any(os.path.lexists(f"{folder}/{name}") for name in ("python", "python3"))
