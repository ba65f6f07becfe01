"""Parts of the project's environment that a checkout gets, and the redirection of imports to the checkout.
Packages installed in the project (``.venv``, ``node_modules``) are in no commit, so checkouts link to them, and to a
generated file that contains only the version. Other build results, caches and reports are not linked, because they
could replace missing work. An editable install imports modules
from the agent's folder. Therefore ``PYTHONPATH`` starts with the same folders of the checkout."""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent_harness.kernel.git import Git
from agent_harness.verification import sources
from agent_harness.verification.checkout import Checkout

__all__ = [
    "compared",
    "ignored_paths",
    "import_folders",
    "left_behind",
    "linkable",
    "Mapped",
    "mapped",
    "mapped_in",
    "without",
]
_IMPORTING = re.compile(r"import[ \t]+([A-Za-z_]\w*)")
_LIMIT_BYTES = 1024 * 1024
_DEPENDENCIES = frozenset(
    {".venv", "venv", "env", ".env", "node_modules", "bower_components", "vendor", ".tox", ".nox", ".bundle", ".eggs"}
    | {"__pypackages__", ".conda", ".pixi", ".direnv", ".yarn", ".pnp.cjs", ".pnp.loader.mjs", "elm-stuff", "deps"}
    | {".gradle", ".m2", ".stack-work", "Pods", "Carthage", ".dart_tool", ".packages", "jspm_packages", ".envrc"}
)
_LOCKS = frozenset(
    {"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock"}
    | {"composer.lock", "Gemfile.lock", "go.sum", "mix.lock", "Podfile.lock", "Cartfile.resolved", "pubspec.lock"}
    | {"elm.json", "Cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "vendor.lock", "modules.txt"}
)
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
_CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".DS_Store", ".idea", ".vscode"}
    | {".coverage", "htmlcov", ".cache", ".parcel-cache", ".nyc_output", ".harness"}
)
_OURS = ("harness-", ".harness")
_VERSION_NAMES = frozenset(
    {"version", "__version__", "version_tuple", "__version_tuple__", "commit_id", "__commit_id__"}
    | {"VERSION_TUPLE", "COMMIT_ID", "TYPE_CHECKING", "__all__"}
)
_PLAIN = (ast.Module, ast.Assign, ast.AnnAssign, ast.If, ast.ImportFrom, ast.alias, ast.Name, ast.expr_context)
_PLAIN += (ast.Constant, ast.Tuple, ast.List, ast.Subscript, ast.BinOp, ast.BitOr)
_LONGEST_CONSTANT = 80


@dataclass(frozen=True, slots=True)
class Mapped:
    """Project folders and packages that a Python environment imports."""

    roots: tuple[str, ...] = ()  # folders of imports
    packages: tuple[tuple[str, str], ...] = ()  # (top-level name, path) where folder and name differ


def mapped(sites: Iterable[str], project: Path) -> Mapped:
    """Return the project folders and packages that these package folders add to the import path."""
    place = Path(os.path.realpath(project))
    roots: dict[str, None] = {}
    packages: dict[str, str] = {}
    for site in sites:
        for name, target in _targets(site):
            real = Path(os.path.realpath(target.replace("\0", "")))
            if not real.is_relative_to(place) or real.is_relative_to(os.path.realpath(site)):
                continue
            inside = str(real.relative_to(place))
            root = _root_of(name, inside) if name else inside
            if root is None:
                packages[name] = inside
            else:
                roots[root] = None
    return Mapped(tuple(roots), tuple(packages.items()))


def _targets(site: str) -> Iterator[tuple[str, str]]:
    """Yield the folders outside a package folder to which it refers, each with its module name."""
    try:
        with os.scandir(site) as listed:
            entries = sorted(
                (each for each in listed if each.name.endswith(".pth") or each.is_symlink()), key=lambda each: each.name
            )
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(".pth"):
            yield from _pth(Path(entry.path))
        elif not entry.name.startswith("."):
            yield entry.name.removesuffix(".py"), os.path.realpath(entry.path)


def _pth(path: Path) -> Iterator[tuple[str, str]]:
    for line in _text(path).splitlines():
        importing = _IMPORTING.match(line)
        if importing:
            yield from _finder(path.with_name(f"{importing[1]}.py"))
        elif line.strip() and not line.startswith("#"):
            yield "", os.path.join(path.parent, line.strip())  # noqa: PTH118


def _finder(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the module names and paths in a finder module that a ``.pth`` file imports."""
    tree = sources.parse(_text(path).encode())
    if tree is None:
        return
    tables = [s.value for s in tree.body if isinstance(s, ast.Assign | ast.AnnAssign) and _is_mapping(s)]
    for table in tables:
        if isinstance(table, ast.Dict):
            for key, value in zip(table.keys, table.values, strict=True):
                name, place = _text_of(key), _text_of(value)
                if name and place:
                    yield name, place
    if not tables:
        yield from (_named(text) for node in ast.walk(tree) if (text := _text_of(node)).startswith("/"))


def _is_mapping(statement: ast.Assign | ast.AnnAssign) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Name) and target.id == "MAPPING" for target in targets)


def _text_of(node: object) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _named(text: str) -> tuple[str, str]:
    """Return the name of the module at a path, or "", and the module's folder or file."""
    path = Path(text)
    if path.name == "__init__.py":
        return path.parent.name, str(path.parent)
    if path.suffix == ".py":
        return path.stem, text
    return (path.name, text) if (path / "__init__.py").exists() else ("", text)


def _root_of(name: str, inside: str) -> str | None:
    parts = Path(inside).with_suffix("").parts if inside.endswith(".py") else Path(inside).parts
    wanted = tuple(name.split("."))
    if parts[-len(wanted) :] != wanted:
        return None
    return str(Path(*parts[: -len(wanted)])) if len(parts) > len(wanted) else "."


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LIMIT_BYTES).decode(errors="replace").replace("\0", "")
    except OSError:
        return ""


def ignored_paths(git: Git) -> list[str]:
    """Return the paths that git ignores. If a whole folder is ignored, return only the folder."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    found = (os.fsdecode(path).rstrip("/") for path in git.run(*words).split(b"\0") if path)
    return [path for path in found if not path.startswith("../")]


def linkable(root: Path, ignored: Iterable[str]) -> tuple[str, ...]:
    """Return the ignored paths that the project needs and that are in no commit."""
    return tuple(path for path in ignored if _is_needed(root, path) and not (root / path).is_symlink())


def compared(root: Path, linked: Iterable[str]) -> tuple[str, ...]:
    folders = (path for path in linked if (root / path).is_dir())
    return tuple(path for path in folders if not any(os.path.lexists(root / path / name) for name in _ENVIRONMENTS))


def without(linked: Iterable[str], changed: Iterable[str]) -> tuple[str, ...]:
    """Return the linked paths to omit. If an installer's lock file changed, return ()."""
    is_locked = any(PurePosixPath(path).name in _LOCKS for path in changed)
    return () if is_locked else tuple(linked)


def left_behind(ignored: Iterable[str], linked: Iterable[str]) -> list[str]:
    known = {*linked}
    names = ((path, PurePosixPath(path).name) for path in ignored if path not in known)
    return [
        path
        for path, name in names
        if name not in _CACHES and not name.endswith((".pyc", ".egg-info")) and not name.startswith(_OURS)
    ]


def import_folders(now: Mapped, checkout: Checkout) -> list[str]:
    """Return the checkout folders that come first in ``PYTHONPATH`` and replace editable installs."""
    folders = [str(checkout.cwd / root) for root in now.roots]
    shelf = checkout.private / "packages"
    for name, path in now.packages:
        place = shelf.joinpath(*name.split("."))
        if not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(checkout.cwd / path)
    return [*folders, str(shelf)] if now.packages else folders


def _is_needed(root: Path, path: str) -> bool:
    name = PurePosixPath(path).name
    return (
        name in _DEPENDENCIES
        or name.startswith(".env.")
        or any(os.path.lexists(root / path / marker) for marker in _ENVIRONMENTS)
        or (name.endswith("version.py") and _holds_only_a_version(root / path))
    )


def _holds_only_a_version(path: Path) -> bool:
    """Return True if the file is like those that setuptools-scm and hatch-vcs generate."""
    tree = sources.parse(_text(path).encode())
    nodes = [*ast.walk(tree)] if tree else []
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return (  # work could hide in anything else
        bool(names & {"version", "__version__"})
        and names <= _VERSION_NAMES
        and modules <= {"typing", "__future__"}
        and all(isinstance(node, _PLAIN) for node in nodes)
        and all(len(str(value)) <= _LONGEST_CONSTANT for value in constants)
    )


def mapped_in(root: Path, linked: Iterable[str], search_path: str) -> Mapped:
    """Return the project folders and packages that these Python environments import."""
    prefixes = [root / path for path in linked]
    folders = [folder for folder in search_path.split(os.pathsep) if folder.startswith("/")]
    pythons = ("python", "python3")
    prefixes += [Path(each).parent for each in folders if any(os.path.lexists(f"{each}/{name}") for name in pythons)]
    prefixes.append(Path(os.path.expanduser("~"), ".local"))  # noqa: PTH111
    sites = (site for prefix in prefixes for site in sorted(prefix.glob("lib*/python3*/*-packages")))
    return mapped(dict.fromkeys(str(site) for site in sites if site.is_dir()), root)
