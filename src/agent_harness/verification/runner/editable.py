"""Editable installs that point into the project, so that a checkout elsewhere can take the project's place.

A virtual environment with an editable install imports the agent's folder, whatever is checked out. The folders it
names are given to ``PYTHONPATH`` as folders of the checkout instead, which come first.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_harness.verification import sources

_IMPORTING = re.compile(r"import[ \t]+([A-Za-z_]\w*)")
_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Mapped:
    """What stands for the project in an environment; paths are relative to the project."""

    roots: tuple[str, ...] = ()  # folders of imports
    packages: tuple[tuple[str, str], ...] = ()  # (top-level name, path) where folder and name differ


def mapped(sites: Iterable[str], project: Path) -> Mapped:
    """The folders of ``project`` from which these package folders make an interpreter import."""
    place = Path(os.path.realpath(project))
    roots: dict[str, None] = {}
    packages: dict[str, str] = {}
    for site in sites:
        for name, target in _targets(Path(site)):
            inside = _inside(target, place, Path(os.path.realpath(site)))
            if inside is None:
                continue
            root = _root_of(name, inside) if name else inside
            if root is None:
                packages[name] = inside
            else:
                roots[root] = None
    return Mapped(tuple(roots), tuple(packages.items()))


def _targets(site: Path) -> Iterator[tuple[str, str]]:
    """(module name or empty text for a folder of imports, absolute path) of everything that leads out of a site."""
    try:
        entries = sorted(site.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.suffix == ".pth":
            yield from _pth(entry)
        elif entry.is_symlink() and not entry.name.startswith("."):
            yield entry.name.removesuffix(".py"), os.path.realpath(entry)


def _pth(path: Path) -> Iterator[tuple[str, str]]:
    for line in _text(path).splitlines():
        importing = _IMPORTING.match(line)
        if importing:
            yield from _finder(path.with_name(f"{importing[1]}.py"))
        elif line.strip() and not line.startswith("#"):
            yield "", os.path.join(path.parent, line.strip())  # noqa: PTH118


def _finder(path: Path) -> Iterator[tuple[str, str]]:
    """What the module behind an ``import`` line maps: the table of setuptools, or any absolute path written out."""
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
    """A package or module file by its own name; any other folder is a folder of imports."""
    path = Path(text)
    if path.name == "__init__.py":
        return path.parent.name, str(path.parent)
    if path.suffix == ".py":
        return path.stem, text
    return (path.name, text) if (path / "__init__.py").exists() else ("", text)


def _root_of(name: str, inside: str) -> str | None:
    """The folder from which ``name`` is imported when its path is ``inside``; ``None`` when the names differ."""
    parts = Path(inside).with_suffix("").parts if inside.endswith(".py") else Path(inside).parts
    wanted = tuple(name.split("."))
    if parts[-len(wanted) :] != wanted:
        return None
    return str(Path(*parts[: -len(wanted)])) if len(parts) > len(wanted) else "."


def _inside(target: str, project: Path, site: Path) -> str | None:
    """``target`` relative to the project, unless it lies elsewhere or in the environment itself."""
    real = Path(os.path.realpath(target.replace("\0", "")))
    if not real.is_relative_to(project) or real.is_relative_to(site):
        return None
    return str(real.relative_to(project))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LIMIT_BYTES).decode(errors="replace").replace("\0", "")
    except OSError:
        return ""
