"""Which files an agent's tools may touch: paths as they resolve on disk, never as they are spelled."""

from __future__ import annotations

import os
from pathlib import Path

from agent_harness.agents.base import ToolRules

KEPT = (".git", ".harness")  # never written by a tool, whatever the settings say


def check_path(path: str | os.PathLike[str], root: Path, rules: ToolRules, write: bool = False) -> str | None:
    """Why a tool may not touch a path, in one line, or ``None``; never raises (UAH-444, C32).

    A relative path begins at ``root``. Links are followed. The names of denied folders are compared without regard to
    case, since some file systems do. ``write`` also refuses git's and the harness's own folders.
    """
    if not rules.filesystem_enabled:
        return "file tools are switched off here (tools.filesystem.enabled)"
    try:
        return _refused(os.fspath(path), os.fspath(root), rules, write)
    except (OSError, ValueError):
        return f"{str(path)!r} is not a path"


def _refused(path: str, root: str, rules: ToolRules, write: bool) -> str | None:
    if not path.strip():
        return "the path is empty"
    real_root = os.path.realpath(root)
    target = resolved(path, root)
    spelled = os.path.normpath(os.path.join(root, os.path.expanduser(path)))
    if not any(within(target, resolved(each, root)) for each in rules.allowed_paths):
        return f"{path} is outside the paths that tools may touch ({', '.join(rules.allowed_paths) or 'none'})"
    for each in (*rules.denied_paths, *(KEPT if write else ())):
        there = resolved(each, root)
        literal = os.path.normpath(os.path.join(root, os.path.expanduser(each)))
        if _above(there, real_root):
            if within(target, there) and not within(target, real_root):
                return f"{path} is outside the project ({each} is denied)"
        elif within(target, there, fold=True) or within(spelled, literal, fold=True):
            return f"{path} is in {each}, which tools may not touch"
    return None


def resolved(path: str, start: str) -> str:
    """The absolute path without links; a relative one begins at ``start``."""
    return os.path.realpath(os.path.join(start, os.path.expanduser(path)))


def within(path: str, folder: str, *, fold: bool = False) -> bool:
    """True for the folder itself and what is below it; both are absolute and normal."""
    if fold:
        path, folder = path.casefold(), folder.casefold()
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _above(folder: str, path: str) -> bool:
    return folder != path and within(path, folder)
