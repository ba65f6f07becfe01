"""Agents on this machine, with programs, versions, logins and extras. The search uses no network and reads no secrets.

If a program started by the search does not answer in time, the search kills it with all its processes. Facts that need
a network are reported as unknown, such as whether a provider still accepts a key or a login."""

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
from agent_harness.agents.codex import command as codex
from agent_harness.errors import HarnessError
from agent_harness.installation import command_for_extra
from agent_harness.kernel import process

VERSION_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Login:
    """Signs that a user has signed in to a program: environment variables or files."""

    variables: tuple[str, ...] = ()
    home: str | None = None  # the variable that names the program's folder
    folder: str = ""  # else this one, below the home directory
    files: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()  # words that make the program report its sign-in, if it can without a network
    sign_in: str = ""  # the command by which a person signs in


LOGINS: Mapping[str, Login] = {
    "claude": Login(
        variables=claude_code.KEYS,
        home="CLAUDE_CONFIG_DIR",
        folder=".claude",
        files=(".credentials.json",),
        asks=("auth", "status"),
        sign_in="claude auth login",
    ),
    "codex": Login(
        variables=("CODEX_API_KEY",),
        home="CODEX_HOME",
        folder=".codex",
        files=("auth.json",),
        asks=("login", "status"),
        sign_in="codex login",
    ),
    "gemini": Login(variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"), folder=".gemini", files=("oauth_creds.json",)),
    "opencode": Login(folder=".local/share/opencode", files=("auth.json",)),
    "kimi": Login(variables=("KIMI_API_KEY",), home="KIMI_CODE_HOME", folder=".kimi-code", files=("config.toml",)),
    "goose": Login(folder=".config/goose", files=("config.yaml",)),
}

OLDEST: Mapping[str, str] = {"claude": "2.1.197", "codex": "0.150.0"}
"""Oldest version of each program that passes the agent tests. For other programs, the oldest version is unknown."""

EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "api": ("the api agent, and exact model prices", ("pydantic_ai", "anthropic")),
    "acp": ("agents that use the Agent Client Protocol", ("acp",)),
    "github": ("features as GitHub issues", ("github",)),
    "notify": ("notifications by named services", ("apprise",)),
    "otel": ("OpenTelemetry spans of sessions and verdicts", ("opentelemetry",)),
    "serve": ("the browser view", ("starlette", "uvicorn")),
    "temporal": ("workers on other machines", ("temporalio",)),
}
"""Purpose and packages of each optional extra."""

KEYS = tuple(dict.fromkeys(each.key for each in PROVIDERS.values()))


@dataclass(frozen=True, kw_only=True)
class FoundAgent:
    """Known facts about an agent. ``spec`` is its value for ``--agent``."""

    spec: str
    program: str | None  # its path; ``None`` if none is needed, or if it is missing
    version: str | None
    oldest: str | None  # the oldest version that is known to work; ``None``: unknown
    login: str  # the sign of its sign-in, or its own report, else "not seen"
    signed_in: bool | None  # ``None``: unknown
    ready: bool
    problem: str | None
    can: tuple[str, ...]

    @property
    def too_old(self) -> bool | None:
        """True if ``version`` is older than ``oldest``, or ``None`` if one of them is unknown."""
        numbers = _numbers(self.version or "")
        return numbers < _numbers(self.oldest) if self.oldest and numbers else None

    @property
    def signing_in(self) -> str:
        words = {True: "signed in", False: "not signed in", None: "sign-in unknown"}
        return f"{words[self.signed_in]} ({self.login})"

    @property
    def sign_in(self) -> str | None:
        """Command that signs the user in, or None if the command is unknown or the user may be signed in."""
        known = LOGINS.get(Path(self.program).name) if self.program and self.signed_in is False else None
        return known.sign_in or None if known else None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "can": list(self.can), "too_old": self.too_old}


_VERSION = re.compile(r"\d+\.\d+")


def _numbers(version: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def agents(environ: Mapping[str, str]) -> list[FoundAgent]:
    """Return all known agents, installed or not. To read the version, start each installed agent once."""
    programs = [(kind, name) for name, kind in registry.CLIENTS.items()]
    programs += [(f"acp:{name}", words[0]) for name, words in KNOWN.items()]
    return [_found(spec, name, environ) for spec, name in [*programs, ("api", "")]]


def extras() -> list[dict[str, Any]]:
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
    """Return the names, not the values, of the API key variables that are set."""
    return [name for name in KEYS if environ.get(name)]


def chosen(environ: Mapping[str, str], configured: Mapping[str, Any] | None, root: Path | None) -> dict[str, Any]:
    """Return a record of the default agent, with its kind, its source and any problem."""
    sources = [("HARNESS_AGENT", environ.get("HARNESS_AGENT")), ("agent: in .harness.yaml", configured)]
    source = next((name for name, told in sources if told), "the first client on PATH")
    try:
        agent = registry.resolve(None, configured=configured, environ=environ, root=root)
    except HarnessError as error:
        return {"kind": None, "source": source, "problem": error.message, "hint": error.hint}
    return {"kind": agent.name, "source": source, "problem": agent.problem(), "hint": None}


def _found(spec: str, name: str, environ: Mapping[str, str]) -> FoundAgent:
    # ``name`` is the agent's program, or "" if it needs only a key
    path = shutil.which(name, path=environ.get("PATH", "")) if name else None
    agent = registry.from_spec(spec)
    problem = agent.problem() if path or not name else f"{name} is not on PATH"
    version = version_of(path) if path else None
    there = keys(environ) if not name else []
    signed_in, login = (True, f"key in {there[0]}") if there else (None if name else False, "not seen")
    if path:
        signed_in, login = _login(name, path, version, environ)
    return FoundAgent(
        spec=spec,
        program=path,
        version=version,
        oldest=OLDEST.get(name),
        login=login,
        signed_in=signed_in,
        ready=problem is None,
        problem=problem,
        can=tuple(word for word, has in asdict(agent.capabilities).items() if has),
    )


def _login(name: str, path: str, version: str | None, environ: Mapping[str, str]) -> tuple[bool | None, str]:
    """Return True if the user is signed in (None: unknown), and the evidence."""
    known = LOGINS.get(name)
    if known is None:
        return None, "not seen"
    for variable in known.variables:
        if environ.get(variable):
            return True, f"key in {variable}"
    if name == "codex" and (provider := codex.own_provider()):
        key = provider.get("env_key")
        return (bool(environ.get(key)), f"key in {key}") if isinstance(key, str) else (None, "a custom provider")
    said = _asked(path, known.asks) if known.asks and _numbers(version or "") >= _numbers(OLDEST[name]) else None
    told = environ.get(known.home) if known.home else None
    folder = Path(told) if told else Path(environ.get("HOME") or "~").expanduser() / known.folder
    for file in (folder / each for each in known.files):
        with suppress(OSError):
            if file.stat().st_size > 0 and said is not False:
                return True, f"login in {file}"
    return said, "reported by the program" if said is not None else "not seen"


def _asked(program: str, words: tuple[str, ...]) -> bool | None:
    environment = process.scrubbed_environment(keep_agent_credentials=True)
    _, text = _printed([program, *words], environment, VERSION_SECONDS)
    for answer, words_of_it in SAID.items():
        if any(re.search(pattern, text, re.IGNORECASE | re.MULTILINE) for pattern in words_of_it):
            return answer
    return None


SAID: Mapping[bool, tuple[str, ...]] = {
    False: (r'"loggedIn": *false', r"^not logged in"),
    True: (r'"loggedIn": *true', r"^logged in", r"^api key configured"),
}
"""Phrases with which Claude Code 2.1.330 and Codex 0.169 report their login state. They are at the beginning of a
line.
"""


def version_of(program: str, *, timeout_seconds: float = VERSION_SECONDS) -> str | None:
    """Return the line with the program's version, or None if the program fails or is too slow."""
    code, text = _printed([program, "--version"], process.scrubbed_environment(), timeout_seconds)
    said = [line.strip() for line in text.strip().split("\n")]
    first = next((line for line in said if _VERSION.search(line) and not line.lower().startswith("warning")), said[0])
    return "".join(c for c in first if c.isprintable())[:80] or None if code == 0 else None


def _printed(words: list[str], environment: Mapping[str, str], seconds: float) -> tuple[int | None, str]:
    # the status is None if the program cannot run or does not end
    output: list[bytes] = []
    take: Callable[[bytes], object] = output.append
    try:
        done = process.run(words, cwd="/", env=environment, timeout_seconds=seconds, on_output=take, grace_seconds=1.0)
    except HarnessError:
        return None, ""
    return done.exit_code, b"".join(output).decode("utf-8", "replace")
