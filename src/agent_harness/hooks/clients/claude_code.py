"""Claude Code: hooks live in its settings. A project's go into its personal file, since they name paths of ours."""

from __future__ import annotations

import os

from agent_harness.hooks.clients.client import HookClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_harness.hooks.clients.client import Scope

__all__ = ["CLIENT"]


def _place(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    if scope == "project":
        return os.path.join(project, ".claude", "settings.local.json")
    home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(home, "settings.json")


CLIENT = HookClient("claude-code", "claude", ("SessionStart", "Stop", "SubagentStop", "TeammateIdle"), _place)
