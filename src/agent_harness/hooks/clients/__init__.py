"""The coding-agent clients that hooks can be installed into: one small file each."""

from __future__ import annotations

from agent_harness.errors import UsageError
from agent_harness.hooks.clients import claude_code, codex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.hooks.clients.client import HookClient

__all__ = ["CLIENTS", "named"]

CLIENTS: dict[str, HookClient] = {each.name: each for each in (claude_code.CLIENT, codex.CLIENT)}


def named(name: str) -> HookClient:
    """The client of that name; ``UsageError`` for any other."""
    if name not in CLIENTS:
        raise UsageError(f"No client {name!r}: {', '.join(CLIENTS)}", hint="harness hooks install --client claude-code")
    return CLIENTS[name]
