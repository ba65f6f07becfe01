"""Settings of Codex, its command line, its environment, and the sandbox in Codex's own format.

The module also builds a plain command line of ``codex exec``, and reads the token counts at the end of its output."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_harness.agents import options
from agent_harness.agents.base import Brief
from agent_harness.agents.command import environment_of
from agent_harness.agents.options import ClientSettings
from agent_harness.agents.usage import PrintedUsage, printed_objects, printed_usage
from agent_harness.kernel import process
from agent_harness.kernel.json import token_count

SANDBOXES = ("workspace-write", "read-only", "danger-full-access")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexSettings(ClientSettings):
    kind = "codex"
    program: str = "codex"
    sandbox: str = "workspace-write"
    network: bool = False  # commands in the sandbox `workspace-write` reach the network

    @classmethod
    def own(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "sandbox": options.one_of(settings, "sandbox", SANDBOXES, "workspace-write"),
            "network": options.switch(settings, "network", default=False),
        }


FIXED = (
    *("check_for_update_on_startup=false", "analytics.enabled=false", "features.unbounded_connection_retries=false"),
    "allow_login_shell=false",
)
"""Codex settings that every turn uses: no telemetry, no endless wait for a dead provider, and the harness's PATH for
commands.

A login shell could reset PATH, and the project's own programs would not be found.
"""
LOOSER = """to run Codex without its own sandbox: --agent '{"kind": "codex", "sandbox": "danger-full-access"}'"""


def overrides(project: Path) -> list[str]:
    """Return the ``-c`` options. They also mark the project's folders as untrusted, unless the user's settings
    decide."""
    # Otherwise Codex records that the user trusts them, and then uses the repository's .codex/config.toml.
    unknown = [place for place in dict.fromkeys([project.resolve(), *_main_folders(project)]) if not _judged(place)]
    named = ", ".join(f"{json.dumps(str(place), ensure_ascii=False)} = {UNTRUSTED}" for place in unknown)
    settings = [*FIXED, *([f"projects = {{{named}}}"] if named else [])]
    return [word for setting in settings for word in ("-c", setting)]


UNTRUSTED = '{trust_level = "untrusted"}'


def _main_folders(project: Path) -> list[Path]:
    """Return the work tree around the project, and the main work tree of its repository."""
    # Codex records trust for the whole repository
    around = [each for each in (project.resolve(), *project.resolve().parents) if (each / ".git").exists()]
    mains = [each.parent for each in git_folders(around[0]) if each.name == ".git"] if around else []
    return [*around[:1], *mains]


def _judged(place: Path) -> bool:
    projects = configured().get("projects")
    entry = projects.get(str(place)) if isinstance(projects, dict) else None
    return isinstance(entry, dict) and "trust_level" in entry


def model_of(settings: CodexSettings, brief: Brief) -> str | None:
    return options.model(settings.model, brief, wins=settings.model_wins)


def environment(brief: Brief) -> dict[str, str]:
    own = {"HARNESS_DISABLE": "1", **environment_of(brief)}  # the hooks of a task list would keep the session going
    keys = {name: os.environ[name] for name in _provider_keys() if name in os.environ}
    return process.scrubbed_environment({**keys, **own}, keep_agent_credentials=True)


def sandbox_policy(settings: CodexSettings, brief: Brief) -> dict[str, Any]:
    """Return the sandbox settings of a turn in Codex's format."""
    # git's folders are writable, so that the agent can commit
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
    """Return the git folders of a work tree. A linked work tree has two git folders."""
    entry = place / ".git"
    if entry.is_dir():
        return [entry]
    with suppress(OSError, ValueError):
        own = (place / entry.read_text(encoding="utf-8").partition("gitdir:")[2].strip()).resolve()
        shared = own / "commondir"
        return [own, (own / shared.read_text(encoding="utf-8").strip()).resolve()] if shared.exists() else [own]
    return []


LAUNCH = """import json, os, sys
server = json.load(open(sys.argv[1], encoding="utf-8"))["mcpServers"][sys.argv[2]]
os.environ.update(server.get("env", {}))
os.execvp(server["command"], [server["command"], *server["args"]])"""
"""Script that starts one server of a ``servers_file``. It keeps the values of variables out of the client's command
line.
"""


def execution_words(settings: CodexSettings, brief: Brief, servers: Path | None = None) -> list[str]:
    """Return the command line of ``codex exec``. The client reads the prompt from standard input."""
    extra = ["--add-dir", *map(str, git_folders(brief.cwd))] if settings.sandbox == "workspace-write" else []
    model = model_of(settings, brief)
    words = [
        settings.program,
        "exec",
        *overrides(brief.cwd),
        "--json",
        "--skip-git-repo-check",
        "--sandbox",
        settings.sandbox,
    ]
    words += [word for folder in extra[1:] for word in (extra[0], folder)]
    words += ["--model", model] if model else []
    if settings.network and settings.sandbox == "workspace-write":
        words += ["-c", "sandbox_workspace_write.network_access=true"]
    for name in brief.tools.mcp_servers if servers else ():
        words += ["-c", f"mcp_servers.{name}.command={json.dumps(sys.executable)}"]
        words += ["-c", f"mcp_servers.{name}.args={json.dumps(['-S', '-E', '-c', LAUNCH, str(servers), name])}"]
        words += ["-c", f'mcp_servers.{name}.default_tools_approval_mode="approve"']  # nobody is there to be asked
    return [*words, *(["resume", brief.conversation] if brief.conversation else []), "-"]


def account() -> str:
    key = os.environ.get("CODEX_API_KEY") or os.environ.get("OPENAI_API_KEY")
    return options.account("openai", key=key, place=str(_home()))


def _home() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path("~/.codex").expanduser())


def configured() -> dict[str, Any]:
    """Return the client's own configuration, or {} if its file cannot be read."""
    try:
        return tomllib.loads((_home() / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def own_provider() -> Mapping[str, Any] | None:
    """Return the configured custom provider, or None if there is none or it needs a Codex login."""
    found = configured()
    providers = found.get("model_providers")
    chosen = providers.get(str(found.get("model_provider"))) if isinstance(providers, dict) else None
    return chosen if isinstance(chosen, dict) and not chosen.get("requires_openai_auth") else None


def _provider_keys() -> Iterator[str]:
    """Yield the names of environment variables that contain the keys of configured providers."""
    providers = configured().get("model_providers")
    for provider in providers.values() if isinstance(providers, dict) else ():
        name = provider.get("env_key") if isinstance(provider, dict) else None
        if isinstance(name, str):
            yield name


_TOTAL = re.compile(r"(?:^|\n)tokens used:?\s+(\d{1,3}(?:[,.'\s\u00a0\u202f]\d{3})*|\d+)\s*$")
_END = 4096  # characters of standard error that may hold the total


def print_words(
    cwd: str,
    *,
    sandbox: str,
    model: str | None = None,
    oss: bool = False,
    local_provider: str | None = None,
    more: Iterable[str] = (),
) -> list[str]:
    """Return a command line for ``codex exec``. The client reads the prompt from standard input."""
    words = ["codex", "exec", "--cd", cwd, "--sandbox", sandbox]
    words += ["--model", model] if model else []
    words += ["--oss"] if oss else []
    words += ["--local-provider", local_provider] if local_provider else []
    return [*words, *more, "-"]


def usage_of(stdout: str, stderr: str) -> PrintedUsage | None:
    """Return the usage that the client printed, or None if the client printed no usage."""
    for event in printed_objects(stdout, '"turn.completed"'):
        used = event.get("usage")
        if event.get("type") == "turn.completed" and isinstance(used, dict):
            cached = token_count(used.get("cached_input_tokens")) or 0
            asked = token_count(used.get("input_tokens"))
            given = None if asked is None else max(0, asked - cached)
            return printed_usage(given, used.get("output_tokens"), cached, None)
    found = _TOTAL.search(stderr[-_END:])
    tokens = token_count(int(re.sub(r"\D", "", found[1]))) if found else None
    return None if tokens is None else PrintedUsage(total_tokens=tokens)
