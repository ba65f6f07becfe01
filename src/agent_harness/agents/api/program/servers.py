"""The tools of MCP servers that speak over their standard input and output (features.md UAH-212..216)."""

import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.mcp import MCPToolset

from agent_harness.agents.api.program.tools import SHOWN_BYTES, Json, Tool, ToolAnswer
from agent_harness.agents.base import Brief, McpServer
from agent_harness.agents.command import environment_of
from agent_harness.kernel import clock, process
from agent_harness.kernel.process.orphans import RUN_ID

START_SECONDS = 60.0
LONGEST_NAME = 64  # what every provider takes


async def tools_of(brief: Brief, closing: AsyncExitStack, tell: Callable[[str], None]) -> list[Tool]:
    """Starts the brief's servers, which end with ``closing``, and returns their tools, named ``SERVER_TOOL``.

    A server that cannot be started is told of, and its tools are missing.
    """
    found: list[Tool] = []
    for name, server in brief.tools.mcp_servers.items():
        try:
            program, *words = server.command
            transport = StdioTransport(
                program, words, env=_environment(server, brief), cwd=str(brief.cwd), keep_alive=False
            )
            toolset = await closing.enter_async_context(
                MCPToolset(transport, id=name, tool_error_behavior="retry", init_timeout=clock.scaled(START_SECONDS))
            )
            found += [_tool(name, toolset, listed) for listed in await toolset.list_tools()]
        except Exception as error:
            tell(f"The MCP server {name} cannot be used: {' '.join(str(error).split())[:300]}")
    return found


def _environment(server: McpServer, brief: Brief) -> dict[str, str]:
    """Ours without the provider's key, tagged as one of the run's processes; ``config.env`` on top."""
    given = server.config.get("env")
    own = {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else {}
    tag = {RUN_ID: os.environ.get(RUN_ID, "")}
    return process.scrubbed_environment({**environment_of(brief), **tag, **own})


def _tool(server: str, toolset: MCPToolset[Any], listed: Any) -> Tool:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{listed.name}")[:LONGEST_NAME]
    found = getattr(listed, "input_schema", None) or getattr(listed, "inputSchema", None)
    return Tool(
        name,
        listed.description or "",
        found if isinstance(found, dict) else {"type": "object", "properties": {}},
        _calling(toolset, listed.name),
    )


def _calling(toolset: MCPToolset[Any], name: str) -> Callable[[Json], Awaitable[ToolAnswer]]:
    async def call(given: Json) -> ToolAnswer:
        try:
            said = await toolset.direct_call_tool(name, dict(given))
        except ModelRetry as error:
            return ToolAnswer(str(error), is_error=True)
        text = said if isinstance(said, str) else json.dumps(said, default=str)
        return ToolAnswer(text[:SHOWN_BYTES])

    return call
