"""Codex: hooks live in ``hooks.json``, which may hold nothing else, and run only when a person has trusted them."""

from __future__ import annotations

import os

from agent_harness.hooks.clients.client import HookClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_harness.hooks.clients.client import Scope

__all__ = ["CLIENT", "home"]


def home(environ: Mapping[str, str]) -> str:
    """The folder of Codex's own settings."""
    return environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")


def _place(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    return (
        os.path.join(project, ".codex", "hooks.json")
        if scope == "project"
        else os.path.join(home(environ), "hooks.json")
    )


CLIENT = HookClient("codex", "codex", ("SessionStart", "Stop", "SubagentStop"), _place)
