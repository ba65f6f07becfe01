"""Paths of client settings that may contain hooks, and a fast search for the harness's hooks in these files. The module
imports only the standard library, and parses no file."""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Scope = Literal["user", "project"]

NAME = b"agent-harness"
"""Text that occurs in every hook of the harness and in the plugin's name."""
MOST_BYTES = 1 << 20


def of_claude_code(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    if scope == "project":
        return os.path.join(project, ".claude", "settings.local.json")
    home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(home, "settings.json")


def of_codex(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    home = environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")
    return os.path.join(os.path.join(project, ".codex") if scope == "project" else home, "hooks.json")


def any_named(project: str, environ: Mapping[str, str]) -> bool:
    scopes: tuple[Scope, ...] = ("user", "project")
    paths = [place(scope, project, environ) for place in (of_claude_code, of_codex) for scope in scopes]
    return any(map(_is_named_in, [*paths, os.path.join(project, ".claude", "settings.json")]))


def _is_named_in(path: str) -> bool:
    with suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return NAME in file.read(MOST_BYTES)
    return False
