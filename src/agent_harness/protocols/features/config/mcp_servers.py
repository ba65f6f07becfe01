"""Definitions of the MCP servers that the settings enable. In settings, ``${NAME}`` or ``${NAME:-text}`` stands for an
environment variable, and ``$${`` stands for ``${``. For known servers, keys of ``config`` become arguments. An unknown
key is an error, because it may be a restriction such as ``read_only: true``. Source: features.md UAH-212..216, C59."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_harness.agents.base import McpServer
from agent_harness.errors import ConfigurationError, ToolMissing
from agent_harness.kernel import redact

if TYPE_CHECKING:
    from agent_harness.protocols.features.config.schema import McpServerSettings

EDIT = "Edit .harness.yaml, then run the same command again"


def switched_on(
    servers: Mapping[str, "McpServerSettings"], environ: Mapping[str, str] | None = None
) -> dict[str, McpServer]:
    """Return the enabled MCP servers, with environment variables in their settings replaced by values."""
    environ = os.environ if environ is None else environ
    # from now on, all output masks these values
    return {name: _ready(name, server, environ) for name, server in servers.items() if server.enabled}


def demand_programs(servers: Mapping[str, McpServer], root: Path) -> None:
    """Raise ``ToolMissing`` if the program of an MCP server is not installed."""
    for name, server in servers.items():
        program = server.command[0]
        if shutil.which(root / program if "/" in program else program) is None:
            raise ToolMissing(
                f"tools.mcp_servers.{name}: the program {program!r} is not installed",
                hint=f"Install it, or set tools.mcp_servers.{name}.enabled: false in .harness.yaml",
            )


def _ready(name: str, server: "McpServerSettings", environ: Mapping[str, str]) -> McpServer:
    key = f"tools.mcp_servers.{name}"
    if server.command is None:
        raise ConfigurationError(f"{key}.command is missing", hint=EDIT)
    words = (server.command, *(str(_filled(f"{key}.args", word, environ)) for word in server.args))
    config = {each: _filled(f"{key}.config.{each}", value, environ) for each, value in server.config.items()}
    env = {each: str(_filled(f"{key}.env.{each}", value, environ)) for each, value in server.env.items()}
    given = GivenConfig(f"{key}.config", {each: value for each, value in config.items() if value is not None}, words)
    env = {**given.variables(), **env}
    package = _package(words)
    if package in GONE:
        raise ConfigurationError(f"{key}: {package} is not published; use {GONE[package]} instead", hint=EDIT)
    args, variables = RECIPES[package](given) if package in RECIPES else ((), {})
    given.refuse_the_rest(package)
    return McpServer(command=(*words, *args), env={**variables, **env})


# -- variables ---------------------------------------------------------------------------------------------------------

_PLACE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?")
_PLAIN = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})  # none holds a secret
_PLAIN_VALUES = frozenset({"localhost", "127.0.0.1"})  # not secrets either, and frequent in the output of tests


def _filled(key: str, value: object, environ: Mapping[str, str]) -> object:
    if isinstance(value, Mapping):
        return {str(name): _filled(f"{key}.{name}", below, environ) for name, below in value.items()}
    if isinstance(value, list):
        return [_filled(key, each, environ) for each in value]
    if not isinstance(value, str):
        return value

    def of(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        if found[1] is None:
            raise ConfigurationError(f"{key}: {found[0]!r} is not a valid variable name", hint=EDIT)
        told = environ.get(found[1])
        if told and found[1] not in _PLAIN and told not in _PLAIN_VALUES:
            redact.mask_from_now_on(told)
        if not told and found[2] is None:
            raise ConfigurationError(
                f"{key} needs the variable {found[1]}, which is not set",
                hint=f"export {found[1]}=…  # or {'.'.join(key.split('.')[:3])}.enabled: false in .harness.yaml",
            )
        return told or found[2]

    return _PLACE.sub(of, value)


# -- recipes for a server's own settings -------------------------------------------------------------------------------

Started = tuple[tuple[str, ...], dict[str, str]]
"""Arguments and environment variables that are added when an MCP server starts."""


@dataclass(frozen=True)
class GivenConfig:
    """Section ``config`` of one MCP server. ``taken`` holds the names of the keys already read."""

    key: str
    values: Mapping[str, object]
    words: tuple[str, ...]  # the command line as it stands in the file
    taken: set[str] = field(default_factory=set)

    def switch(self, name: str) -> bool | None:
        value = self._take(name)
        known = {"true": True, "false": False}.get(str(value).lower())
        if value is not None and known is None:
            raise ConfigurationError(f"{self.key}.{name} must be true or false", hint=EDIT)
        return known

    def text(self, name: str) -> str | None:
        value = self._take(name)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ConfigurationError(f"{self.key}.{name} must be text", hint=EDIT)
        return value

    def size(self, name: str) -> tuple[int, int] | None:
        """Return the width and height in pixels from the key ``name``, or None if the key is missing."""
        value = self._take(name)
        if value is None:
            return None
        pair = [value.get(each) for each in ("width", "height")] if isinstance(value, Mapping) else []
        width, height = [each for each in pair if isinstance(each, int) and each > 0] or (0, 0)
        if not (width and height and len(value) == 2):  # type: ignore[arg-type]
            raise ConfigurationError(f"{self.key}.{name} must be {{width: PIXELS, height: PIXELS}}", hint=EDIT)
        return width, height

    def variables(self) -> dict[str, str]:
        value = self._take("env")
        if value is not None and not isinstance(value, Mapping):
            raise ConfigurationError(f"{self.key}.env must be a section of names with values", hint=EDIT)
        return {str(name): str(each) for name, each in value.items()} if isinstance(value, Mapping) else {}

    def refuse(self, name: str, why: str) -> None:
        if self._take(name) not in (None, False):
            raise ConfigurationError(f"{self.key}.{name} cannot be passed to the agent: {why}", hint=EDIT)

    def refuse_the_rest(self, package: str | None) -> None:
        """Raise ``ConfigurationError`` if the section contains a key that no code has read."""
        left = next((name for name in self.values if name not in self.taken), None)
        if left is not None:
            who = f"{package} has no such setting" if package in RECIPES else f"unknown setting of {self.words[0]}"
            raise ConfigurationError(
                f"{self.key}.{left} cannot be passed to the agent: {who}",
                hint="Set it in args or env, in the server's own syntax. ${VARIABLE} is replaced there too",
            )

    def _take(self, name: str) -> object:
        self.taken.add(name)
        return self.values.get(name)


def _browser(given: GivenConfig, viewport: str, folder: str | None = None) -> Iterator[str]:
    if given.switch("headless"):
        yield "--headless"
    if size := given.size("viewport"):
        yield from (viewport, f"{size[0]}x{size[1]}")
    if folder and (workspace := given.text("screenshots_dir")):
        yield from (folder, workspace)


def _puppeteer(given: GivenConfig) -> Started:
    headless, size = given.switch("headless"), given.size("viewport")
    options = {
        **({} if headless is None else {"headless": headless}),
        **({} if size is None else {"defaultViewport": {"width": size[0], "height": size[1]}}),
    }
    return (), {"PUPPETEER_LAUNCH_OPTIONS": json.dumps(options)} if options else {}


def _postgres(given: GivenConfig) -> Started:
    workspace, only = given.text("connection_string"), given.switch("read_only")
    said = any(word.startswith("--access-mode") for word in given.words)
    mode = "unrestricted" if only is False else "restricted"
    words = () if said and only is None else (f"--access-mode={mode}",)
    return words, {} if workspace is None else {"DATABASE_URI": workspace}


def _reference_postgres(given: GivenConfig) -> Started:
    given.refuse("read_only", "an SQL statement can end this server's read-only mode; use postgres-mcp")
    workspace = given.text("connection_string")
    return () if workspace is None else (workspace,), {}


def _dbhub(given: GivenConfig) -> Started:
    given.refuse("read_only", "@bytebase/dbhub reads it only from its --config file; use postgres-mcp")
    workspace = given.text("connection_string")
    return (), {} if workspace is None else {"DSN": workspace}


RECIPES: Mapping[str | None, Callable[[GivenConfig], Started]] = {
    "@playwright/mcp": lambda given: (tuple(_browser(given, "--viewport-size", folder="--output-dir")), {}),
    "chrome-devtools-mcp": lambda given: (tuple(_browser(given, "--viewport")), {}),
    "@modelcontextprotocol/server-puppeteer": _puppeteer,
    "postgres-mcp": _postgres,
    "@modelcontextprotocol/server-postgres": _reference_postgres,
    "@bytebase/dbhub": _dbhub,
}

GONE = {"@anthropic/puppeteer-mcp": "@playwright/mcp (npx)", "@anthropic/postgres-mcp": "postgres-mcp (uvx)"}
"""Package names that the specification mentions but that do not exist, each with the package to use instead."""

PROGRAMS = {
    "playwright-mcp": "@playwright/mcp",
    "chrome-devtools-mcp": "chrome-devtools-mcp",
    "mcp-server-puppeteer": "@modelcontextprotocol/server-puppeteer",
    "postgres-mcp": "postgres-mcp",
    "mcp-server-postgres": "@modelcontextprotocol/server-postgres",
    "dbhub": "@bytebase/dbhub",
}

_NAME = re.compile(r"(@[\w.-]+/)?[\w.-]+")


def _package(words: tuple[str, ...]) -> str | None:
    if (program := os.path.basename(words[0])) in PROGRAMS:
        return PROGRAMS[program]
    named = (found[0] for word in words[1:] if (found := _NAME.match(word)))
    return next((name for name in named if name in RECIPES or name in GONE), None)
