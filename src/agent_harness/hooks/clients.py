"""The coding-agent clients that hooks can be installed into: the file that holds their hooks, the events they know.

Source: ``tasklist.md`` 3.1.
"""

from __future__ import annotations

import os
import shlex
import sys

from agent_harness.errors import Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal, Protocol

    Scope = Literal["user", "project"]
    Group = dict[str, Any]

    class SettingsPlace(Protocol):
        def __call__(self, scope: Scope, project: str, environ: Mapping[str, str]) -> str: ...


__all__ = ["CLIENTS", "MARK", "HookClient", "groups", "is_ours", "named", "package_folder"]

MARK = "# agent-harness"
"""Ends every command that is ours; a comment for the shell."""

TIMEOUT_SECONDS = 10
STARTS = "startup|resume|clear|compact"
SCRIPTS = {
    "SessionStart": "harness-sessionstart.py",
    "Stop": "harness-stop.py",
    "SubagentStop": "harness-subagentstop.py",
    "TeammateIdle": "harness-teammateidle.py",
}


class HookClient:
    """One client: its name, the events that it knows, where its hooks are written, and what else a person must know."""

    __slots__ = ("events", "name", "place", "program")

    def __init__(self, name: str, program: str, events: tuple[str, ...], place: SettingsPlace) -> None:
        self.name = name
        self.program = program
        self.events = events
        self.place = place


def package_folder() -> str:
    """The folder that holds the package."""
    import agent_harness

    return os.path.dirname(os.path.dirname(os.path.realpath(agent_harness.__file__)))


def scripts() -> str:
    """The folder of the hook scripts."""
    return os.path.join(package_folder(), "agent_harness", "plugin", "hooks")


def command(script: str) -> str:
    """The shell command of one hook: nothing at all happens once its script or its interpreter is gone."""
    if not sys.executable:
        raise Refused("This Python does not know where it is", hint="harness hooks print")
    path, python = shlex.quote(os.path.join(scripts(), script)), shlex.quote(sys.executable)
    return f'f={path}; p={python}; [ -f "$f" ] && [ -x "$p" ] || exit 0; exec "$p" -S -E "$f" {MARK}'


def groups(client: HookClient) -> dict[str, Group]:
    """Event → the entry that is ours."""
    made: dict[str, Group] = {}
    for event in client.events:
        hook = {"type": "command", "command": command(SCRIPTS[event]), "timeout": TIMEOUT_SECONDS}
        made[event] = {**({"matcher": STARTS} if event == "SessionStart" else {}), "hooks": [hook]}
    return made


def is_ours(hook: object) -> bool:
    """Whether an entry of the client's file was written by us."""
    text = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(text, str) and text.rstrip().endswith(MARK)


def _claude_place(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    if scope == "project":
        return os.path.join(project, ".claude", "settings.local.json")
    home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(home, "settings.json")


CLAUDE_CODE = HookClient(
    "claude-code", "claude", ("SessionStart", "Stop", "SubagentStop", "TeammateIdle"), _claude_place
)


def codex_home(environ: Mapping[str, str]) -> str:
    """The folder of Codex's own settings."""
    return environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")


def _codex_place(scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    return (
        os.path.join(project, ".codex", "hooks.json")
        if scope == "project"
        else os.path.join(codex_home(environ), "hooks.json")
    )


CODEX = HookClient("codex", "codex", ("SessionStart", "Stop", "SubagentStop"), _codex_place)


CLIENTS: dict[str, HookClient] = {each.name: each for each in (CLAUDE_CODE, CODEX)}


def named(name: str) -> HookClient:
    """The client of that name; ``UsageError`` for any other."""
    if name not in CLIENTS:
        raise UsageError(f"No client {name!r}: {', '.join(CLIENTS)}", hint="harness hooks install --client claude-code")
    return CLIENTS[name]
