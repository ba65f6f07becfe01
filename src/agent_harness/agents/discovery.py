"""Which agents there are on this machine: programs, versions, logins by their traces, extras; no network, no secret.

Every program that is asked for its version is ended, with all that it started, when it does not answer in time.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_harness.agents import claude_code, registry
from agent_harness.agents.acp import KNOWN
from agent_harness.agents.api import PROVIDERS
from agent_harness.errors import HarnessError
from agent_harness.installation import command_for_extra
from agent_harness.kernel import process

VERSION_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Login:
    """Where a program's sign-in shows: variables, then files (of the home, or below what a variable names)."""

    variables: tuple[str, ...] = ()
    home: str | None = None  # the variable that names the program's folder
    folder: str = ""  # else this one, below the home directory
    files: tuple[str, ...] = ()


LOGINS: Mapping[str, Login] = {
    "claude": Login(
        variables=claude_code.KEYS,
        home="CLAUDE_CONFIG_DIR",
        folder=".claude",
        files=(".credentials.json",),
    ),
    "codex": Login(variables=("CODEX_API_KEY",), home="CODEX_HOME", folder=".codex", files=("auth.json",)),
    "gemini": Login(variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"), folder=".gemini", files=("oauth_creds.json",)),
    "opencode": Login(folder=".local/share/opencode", files=("auth.json",)),
    "kimi": Login(variables=("KIMI_API_KEY",), home="KIMI_CODE_HOME", folder=".kimi-code", files=("config.toml",)),
    "goose": Login(folder=".config/goose", files=("config.yaml",)),
}

EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "api": ("the api agent", ("pydantic_ai", "anthropic")),
    "acp": ("agents of the Agent Client Protocol", ("acp",)),
    "github": ("the mirror of features as issues", ("github",)),
}
"""Extra → what it is for, and the packages by which it shows."""

KEYS = tuple(dict.fromkeys(each.key for each in PROVIDERS.values()))


@dataclass(frozen=True, kw_only=True)
class FoundAgent:
    """One agent: what names it after ``--agent``, and what is known of it."""

    spec: str
    program: str | None  # its path; ``None`` for one that needs none, or that is not there
    version: str | None
    login: str  # where its sign-in shows, else "not seen", or "not needed"
    ready: bool
    problem: str | None
    can: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The members of the JSON record."""
        return {**asdict(self), "can": list(self.can)}


_VERSION = re.compile(r"\d+\.\d+")


def agents(environ: Mapping[str, str], *, versions: bool = True) -> list[FoundAgent]:
    """Every agent that is driven by name, whether it is there or not; ``versions`` starts those that are there."""
    programs = [(kind, name) for name, kind in registry.CLIENTS.items()]
    programs += [(f"acp:{name}", words[0]) for name, words in KNOWN.items()]
    return [_found(spec, name, environ, versions) for spec, name in [*programs, ("api", "")]]


def extras() -> list[dict[str, Any]]:
    """The optional parts of this package: ``name``, ``serves``, ``installed`` and the ``install`` command."""
    return [
        {
            "name": name,
            "serves": serves,
            "installed": all(find_spec(package) is not None for package in packages),
            "install": command_for_extra(name),
        }
        for name, (serves, packages) in EXTRAS.items()
    ]


def keys(environ: Mapping[str, str]) -> list[str]:
    """The names of the variables that hold an API key; never what they hold."""
    return [name for name in KEYS if environ.get(name)]


def chosen(environ: Mapping[str, str], configured: Mapping[str, Any] | None, root: Path | None) -> dict[str, Any]:
    """Which agent a run without ``--agent`` takes and by whose word; ``problem`` when it could not start."""
    sources = [("HARNESS_AGENT", environ.get("HARNESS_AGENT")), ("agent: in .harness.yaml", configured)]
    source = next((name for name, told in sources if told), "the first client on PATH")
    try:
        agent = registry.resolve(None, configured=configured, environ=environ, root=root)
    except HarnessError as error:
        return {"kind": None, "source": source, "problem": error.message, "hint": error.hint}
    return {"kind": agent.name, "source": source, "problem": agent.problem(), "hint": None}


def _found(spec: str, name: str, environ: Mapping[str, str], versions: bool) -> FoundAgent:
    """What is known of the agent; ``name`` is its program, empty for one that needs none and takes a key."""
    path = shutil.which(name, path=environ.get("PATH", "")) if name else None
    agent = registry.from_spec(spec)
    problem = agent.problem() if path or not name else f"{name} is not on PATH"
    login = _login(name, environ) if path else "not seen"
    there = keys(environ) if not name else []
    return FoundAgent(
        spec=spec,
        program=path,
        version=version_of(path) if path and versions else None,
        login=f"key in {there[0]}" if there else login,
        ready=problem is None,
        problem=problem,
        can=tuple(word for word, has in asdict(agent.capabilities).items() if has),
    )


def _login(name: str, environ: Mapping[str, str]) -> str:
    known = LOGINS.get(name)
    if known is None:
        return "not seen"
    for variable in known.variables:
        if environ.get(variable):
            return f"key in {variable}"
    told = environ.get(known.home) if known.home else None
    folder = Path(told) if told else Path(environ.get("HOME") or "~").expanduser() / known.folder
    for path in (folder / file for file in known.files):
        with suppress(OSError):
            if path.stat().st_size > 0:
                return f"login in {path}"
    return "not seen"


def version_of(program: str, *, timeout_seconds: float = VERSION_SECONDS) -> str | None:
    """The first line with a number in it that ``--version`` prints, no warning of the program's before it.

    ``None`` when the program fails, says nothing, or takes too long.
    """
    lines: list[bytes] = []
    take: Callable[[bytes], object] = lines.append
    try:
        done = process.run(
            [program, "--version"],
            cwd="/",
            env=process.scrubbed_environment(),
            timeout_seconds=timeout_seconds,
            on_output=take,
            grace_seconds=1.0,
        )
    except HarnessError:
        return None
    said = [line.strip() for line in b"".join(lines).decode("utf-8", "replace").strip().split("\n")]
    first = next((line for line in said if _VERSION.search(line) and not line.lower().startswith("warning")), said[0])
    return "".join(c for c in first if c.isprintable())[:80] or None if done.exit_code == 0 else None
