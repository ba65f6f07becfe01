"""MCP servers of the settings: variables filled in, public servers given what their words are, all else refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.base import McpServer
from agent_harness.errors import ConfigurationError, ToolMissing
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import config
from agent_harness.protocols.features.config.mcp_servers import demand_programs, switched_on

NOTHING = {"PATH": "/nowhere"}
ADDRESS = {"DATABASE_URL": "postgresql://app:correct-horse@db/app"}


def servers(folder: Path, environ: Mapping[str, str] | None = None, **told: Any) -> dict[str, McpServer]:
    """Return the servers of the settings; ``told`` is the ``mcp_servers`` of the file, all of them enabled."""
    given = {name: {"enabled": True, **server} for name, server in told.items()}
    (folder / ".harness.yaml").write_text(
        json.dumps({"project": {"name": "calc"}, "tools": {"mcp_servers": given}}, ensure_ascii=False)
    )
    return switched_on(config.load(folder, NOTHING).tools.mcp_servers, NOTHING | dict(environ or {}))


def refusal(folder: Path, environ: Mapping[str, str] | None = None, **told: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        servers(folder, environ, **told)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value.message


def test_the_known_browser_is_a_package_that_exists(tmp_path: Path) -> None:
    """UAH-213, UAH-214: headless, viewport and the folder of images, in the words of @playwright/mcp."""
    assert servers(tmp_path, puppeteer={}) == {
        "puppeteer": McpServer(
            command=(
                *("npx", "-y", "@playwright/mcp@latest", "--headless"),
                *("--viewport-size", "1280x720", "--output-dir", ".harness/screenshots"),
            )
        )
    }
    shown = servers(tmp_path, puppeteer={"config": {"headless": False, "screenshots_dir": None}})["puppeteer"]
    assert shown.command == ("npx", "-y", "@playwright/mcp@latest", "--viewport-size", "1280x720")


def test_the_known_database_is_read_only_until_the_settings_say_otherwise(tmp_path: Path) -> None:
    """UAH-215, UAH-216: what the file leaves out of config stays as it is."""
    safe = McpServer(
        command=("uvx", "postgres-mcp", "--access-mode=restricted"), env={"DATABASE_URI": ADDRESS["DATABASE_URL"]}
    )
    assert servers(tmp_path, ADDRESS, postgres={}) == {"postgres": safe}
    other = {"MINE": ADDRESS["DATABASE_URL"]}
    assert servers(tmp_path, other, postgres={"config": {"connection_string": "${MINE}"}}) == {"postgres": safe}
    open_ = servers(tmp_path, ADDRESS, postgres={"config": {"read_only": False}})["postgres"]
    assert open_.command[-1] == "--access-mode=unrestricted"
    own = {"command": "uvx", "args": ["postgres-mcp@0.3.0"], "config": {"connection_string": "x"}}
    assert servers(tmp_path, db=own)["db"].command[-1] == "--access-mode=restricted"
    said = {"command": "/opt/bin/postgres-mcp", "args": ["--access-mode=unrestricted"]}
    assert servers(tmp_path, db=said)["db"].command[1:] == ("--access-mode=unrestricted",)
    both = servers(tmp_path, db={**said, "config": {"read_only": True}})["db"]
    assert both.command[-1] == "--access-mode=restricted", "the last word counts"


@pytest.mark.parametrize(
    ("args", "given", "words", "env"),
    [
        (
            ["-y", "chrome-devtools-mcp@latest"],
            {"headless": True, "viewport": {"width": 800, "height": 600}},
            ("--headless", "--viewport", "800x600"),
            {},
        ),
        (
            ["-y", "@modelcontextprotocol/server-puppeteer"],
            {"headless": True, "viewport": {"width": 800, "height": 600}},
            (),
            {
                "PUPPETEER_LAUNCH_OPTIONS": '{"headless": true, "defaultViewport": {"width": 800, "height": 600}}',
            },
        ),
        (["@modelcontextprotocol/server-postgres"], {"connection_string": "postgres://db"}, ("postgres://db",), {}),
        (["-y", "@bytebase/dbhub@1.4.0"], {"connection_string": "mysql://db"}, (), {"DSN": "mysql://db"}),
        (["-y", "somebody-elses"], {"env": {"PORT": 8080}}, (), {"PORT": "8080"}),
    ],
)
def test_public_servers_in_their_own_words(
    args: list[str], given: dict[str, Any], words: tuple[str, ...], env: dict[str, str], tmp_path: Path
) -> None:
    found = servers(tmp_path, x={"command": "npx", "args": args, "config": given})["x"]
    assert found == McpServer(command=("npx", *args, *words), env=env)


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (
            {"command": "mine", "config": {"read_only": True}},
            "config.read_only cannot be passed to the agent: unknown setting",
        ),
        (
            {"command": "mine", "config": {"deep": {"y": 2}}},
            "config.deep cannot be passed to the agent: unknown setting of mine",
        ),
        (
            {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-postgres"], "config": {"read_only": True}},
            "config.read_only cannot be passed to the agent: an SQL statement can end this server's read-only mode",
        ),
        (
            {"command": "npx", "args": ["@bytebase/dbhub"], "config": {"read_only": True}},
            "config.read_only cannot be passed to the agent: @bytebase/dbhub reads it only from its --config file",
        ),
        (
            {"command": "npx", "args": ["@playwright/mcp"], "config": {"read_only": True}},
            "config.read_only cannot be passed to the agent: @playwright/mcp has no such setting",
        ),
        (
            {"command": "npx", "args": ["-y", "@anthropic/postgres-mcp"]},
            "@anthropic/postgres-mcp is not published; use postgres-mcp (uvx) instead",
        ),
        ({"command": "uvx", "args": ["postgres-mcp"], "config": {"read_only": "perhaps"}}, "must be true or false"),
        ({"command": "uvx", "args": ["postgres-mcp"], "config": {"connection_string": 7}}, "must be text"),
        ({"command": "npx", "args": ["@playwright/mcp"], "config": {"viewport": "big"}}, "config.viewport must be {"),
        ({"command": "mine", "config": {"env": "A=B"}}, "config.env must be a section"),
        ({"args": ["x"]}, "tools.mcp_servers.x.command is missing"),
    ],
)
def test_what_cannot_be_handed_on_is_refused(server: dict[str, Any], told: str, tmp_path: Path) -> None:
    """UAH-214, UAH-216: a setting is kept or refused, never dropped."""
    found = refusal(tmp_path, x=server)
    assert found.startswith("tools.mcp_servers.x")
    assert told in found


def test_variables_are_filled_in_wherever_they_stand(tmp_path: Path) -> None:
    """UAH-216."""
    server = {
        "command": "mine",
        "args": ["--at=${HOST}:${PORT:-5432}", "$PLAIN", "$${LITERAL}", "${EMPTY:-usual}"],
        "env": {"ADDRESS": "${HOST}/${HOST}"},
        "config": {"env": {"LEVEL": "${LEVEL:-}"}},
    }
    found = servers(tmp_path, {"HOST": "db-7391.example", "EMPTY": ""}, x=server)["x"]
    assert found.command == ("mine", "--at=db-7391.example:5432", "$PLAIN", "${LITERAL}", "usual")
    assert found.env == {"ADDRESS": "db-7391.example/db-7391.example", "LEVEL": ""}


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ({"args": ["a", "${GONE}"]}, "tools.mcp_servers.x.args needs the variable GONE, which is not set"),
        ({"env": {"A": "${GONE}"}}, "tools.mcp_servers.x.env.A needs the variable GONE"),
        ({"config": {"a": {"b": ["${GONE}"]}}}, "tools.mcp_servers.x.config.a.b needs the variable GONE"),
        ({"args": ["${NOT-A-NAME}"]}, "'${NOT-A-NAME}' is not a valid variable name"),
        ({"args": ["${open"]}, "'${open' is not a valid variable name"),
    ],
)
def test_a_variable_that_is_missing_is_named(server: dict[str, Any], told: str, tmp_path: Path) -> None:
    assert told in refusal(tmp_path, x={"command": "mine", **server})
    server["enabled"] = False
    assert servers(tmp_path, x={"command": "mine", **server}) == {}, "of a server that is off, nothing is asked"


def test_what_came_from_the_environment_is_masked_from_then_on(tmp_path: Path) -> None:
    given = {
        "ADDRESS": "postgresql://app:battery-staple@db/app",
        "HARMLESS": 'plain "word" 47',
        "HOME": "/srv/people/alice",
    }
    env = {name: f"${{{name}}}" for name in given}
    assert redact(given["HARMLESS"]) == given["HARMLESS"]
    servers(tmp_path, given, x={"command": "mine", "env": env})
    assert redact(f"it is {given['ADDRESS']}, or battery-staple alone") == "it is ***, or *** alone"
    assert redact(json.dumps({"a": given["HARMLESS"]})) == '{"a": "***"}'
    servers(tmp_path, {"AT": "localhost"}, x={"command": "mine", "args": ["${AT}", "${OTHER:-a-fallback}"]})
    for plain in ("in /srv/people/alice/project", "http://localhost:8000", "a-fallback"):
        assert redact(plain) == plain


def test_the_program_of_a_server_must_be_there(tmp_path: Path) -> None:
    program = tmp_path / "tools" / "serve"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    demand_programs({"own": McpServer(command=("tools/serve",)), "shell": McpServer(command=("sh",))}, tmp_path)
    with pytest.raises(ToolMissing, match=r"tools\.mcp_servers\.gone: the program 'no-such-server' is not installed"):
        demand_programs({"gone": McpServer(command=("no-such-server",))}, tmp_path)
