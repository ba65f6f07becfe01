"""Where the settings of agent clients are in which hooks may stand, and whether any of ours do.

For whoever only asks: nothing but the standard library is loaded, and nothing is parsed.
"""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Scope = Literal["user", "project"]

NAME = b"agent-harness"
"""Stands in every hook and in the plugin's name."""
MOST_BYTES = 1 << 20


def of_claude_code(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    """Its settings; a project's hooks go into its personal file, since they name paths of ours."""
    if scope == "project":
        return os.path.join(project, ".claude", "settings.local.json")
    home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(home, "settings.json")


def of_codex(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    """``hooks.json``, which may hold nothing else; its hooks run only when a person has trusted them."""
    home = environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")
    return os.path.join(os.path.join(project, ".codex") if scope == "project" else home, "hooks.json")


def any_named(project: str, environ: Mapping[str, str]) -> bool:
    """Whether settings of a client, for the user or this project, name hooks of ours or the plugin that has them."""
    scopes: tuple[Scope, ...] = ("user", "project")
    paths = [place(scope, project, environ) for place in (of_claude_code, of_codex) for scope in scopes]
    return any(map(_is_named_in, [*paths, os.path.join(project, ".claude", "settings.json")]))


def _is_named_in(path: str) -> bool:
    with suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return NAME in file.read(MOST_BYTES)
    return False
