"""How Codex is started, what it is given, and the sandbox in its words."""

import json
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_harness.agents import options
from agent_harness.agents.base import Brief, McpServer
from agent_harness.agents.codex.settings import CodexSettings
from agent_harness.agents.command import environment_of
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process

QUIET = ("check_for_update_on_startup=false", "analytics.enabled=false", "features.unbounded_connection_retries=false")
"""Settings of the client that hold for every turn: it calls nobody, and a dead provider is no endless wait."""
INSTALL = "Install it (npm install -g @openai/codex), or set its place: agent: {kind: codex, program: …}"
LOOSER = "Let it work without a sandbox of its own: agent: {kind: codex, sandbox: danger-full-access}"


def overrides() -> list[str]:
    """The options that carry ``QUIET``."""
    return [word for setting in QUIET for word in ("-c", setting)]


def model_of(settings: CodexSettings, brief: Brief) -> str | None:
    """The model of a turn; ``None`` leaves it to the client."""
    return options.model(settings.model, brief, wins=settings.model_wins)


def environment(brief: Brief) -> dict[str, str]:
    """What the client is given: its sign-in, the keys that its own configuration names, and our variables."""
    own = {"HARNESS_DISABLE": "1", **environment_of(brief)}  # the hooks of a task list would keep the session going
    keys = {name: os.environ[name] for name in _provider_keys() if name in os.environ}
    return process.scrubbed_environment({**keys, **own}, keep_agent_credentials=True)


def sandbox_policy(settings: CodexSettings, brief: Brief) -> dict[str, Any]:
    """The sandbox of a turn. What git keeps may be written in the workspace, so that the agent can commit."""
    if settings.sandbox == "danger-full-access":
        return {"type": "dangerFullAccess"}
    if settings.sandbox == "read-only":
        return {"type": "readOnly", "networkAccess": False}
    return {
        "type": "workspaceWrite",
        "writableRoots": [str(path) for path in git_folders(brief.cwd)],
        "networkAccess": settings.network,
    }


def git_folders(place: Path) -> list[Path]:
    """The folders in which git keeps what belongs to a work tree: one, or two for a further work tree."""
    entry = place / ".git"
    if entry.is_dir():
        return [entry]
    with suppress(OSError, ValueError):
        own = (place / entry.read_text(encoding="utf-8").partition("gitdir:")[2].strip()).resolve()
        shared = own / "commondir"
        return [own, (own / shared.read_text(encoding="utf-8").strip()).resolve()] if shared.exists() else [own]
    return []


def mcp_config(servers: Mapping[str, McpServer]) -> dict[str, Any]:
    """The servers in the words of the client's configuration."""
    return {name: _server(server) for name, server in servers.items()}


def _server(server: McpServer) -> dict[str, Any]:
    env = server.config.get("env")
    told = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    return {"command": server.command[0], "args": list(server.command[1:]), **({"env": told} if told else {})}


def execution_words(settings: CodexSettings, brief: Brief) -> list[str]:
    """The command line of ``codex exec``; the prompt comes on standard input."""
    extra = ["--add-dir", *map(str, git_folders(brief.cwd))] if settings.sandbox == "workspace-write" else []
    model = model_of(settings, brief)
    words = [settings.program, "exec", *overrides(), "--json", "--skip-git-repo-check", "--sandbox", settings.sandbox]
    words += [word for folder in extra[1:] for word in (extra[0], folder)]
    words += ["--model", model] if model else []
    if settings.network and settings.sandbox == "workspace-write":
        words += ["-c", "sandbox_workspace_write.network_access=true"]
    for name, server in brief.tools.mcp_servers.items():
        words += ["-c", f"mcp_servers.{name}.command={json.dumps(server.command[0])}"]
        words += ["-c", f"mcp_servers.{name}.args={json.dumps(list(server.command[1:]))}"]
    return [*words, *(["resume", brief.conversation] if brief.conversation else []), "-"]


def problem(settings: CodexSettings) -> str | None:
    """Why the client cannot be started, in one line, or ``None``."""
    if shutil.which(settings.program) is None:
        return f"the agent's program {settings.program!r} is not installed or not executable"
    return None


def demand(settings: CodexSettings) -> None:
    """Raises ``ToolMissing`` when the client cannot be started."""
    if why := problem(settings):
        raise ToolMissing(why, hint=INSTALL)


def account() -> str:
    """Whose limits the client shares: a key's, or those of the login in its home."""
    key = os.environ.get("CODEX_API_KEY") or os.environ.get("OPENAI_API_KEY")
    return options.account("openai", key=key, place=str(_home()))


def _home() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path("~/.codex").expanduser())


def _provider_keys() -> Iterator[str]:
    """The variables that the client's configuration names as keys of its providers."""
    try:
        configured = tomllib.loads((_home() / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    providers = configured.get("model_providers")
    for provider in providers.values() if isinstance(providers, dict) else ():
        name = provider.get("env_key") if isinstance(provider, dict) else None
        if isinstance(name, str):
            yield name
