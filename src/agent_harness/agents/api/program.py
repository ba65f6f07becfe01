"""``python -m agent_harness.agents.api.program``: the program that runs one turn of the api agent. It exchanges
messages with the harness over ``agents.bridge``.

``loop`` calls the model. ``tools`` contains a shell and file tools. This module adds the tools of MCP servers, which
use standard input and output. Libraries are imported after the harness's messages are read."""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from agent_harness.agents.api.tools import SHOWN_BYTES, Json, Tool, ToolAnswer, own_tools
from agent_harness.agents.base import Brief
from agent_harness.agents.bridge.worker import Harness, brief_from, ending, run
from agent_harness.agents.command import environment_of
from agent_harness.agents.events import Event, Finished, Text
from agent_harness.kernel import clock, process
from agent_harness.kernel.process.orphans import RUN_ID

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset

CLOSING_SECONDS = 3.0  # for MCP servers to end by themselves; the rest is ended with the turn
START_SECONDS = 60.0  # for an MCP server
LONGEST_NAME = 64  # of a tool: every provider accepts it
INTERRUPTED = (Finished(ok=False, message="interrupted"),)


async def turn(harness: Harness) -> None:
    order = await harness.order()
    working = asyncio.create_task(_work(harness, order))
    stopping = [asyncio.create_task(event.wait()) for event in (harness.interrupted, harness.gone)]
    await asyncio.wait([working, *stopping], return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        working.cancel()
        await asyncio.wait([working], timeout=CLOSING_SECONDS + 2)
    interrupted = not working.done() or working.cancelled()
    for event in INTERRUPTED if interrupted else ending(working, "api"):
        harness.say(event)


async def _work(harness: Harness, order: Mapping[str, Any]) -> Sequence[Event]:
    """Run the turn, send its conversation to the harness, and return the turn's final events."""
    from agent_harness.agents.api.loop import (
        Gone,
        Loop,
        TurnModel,
        definitions,
    )

    brief = brief_from(order["brief"])
    settings = order["settings"]
    async with AsyncExitStack() as closing:
        tools = own_tools(brief, harness.interrupted.is_set)
        if brief.tools.mcp_servers:
            tools += await _tools_of_servers(brief, closing, lambda line: harness.say(Text(line)))
        try:
            provider = TurnModel(
                settings["provider"], settings["model"], settings["key"], settings["tries"], definitions(tools)
            )
        except Gone as gone:
            return gone.events
        loop = Loop(harness, brief, provider, tools)
        if order["kept"]:
            loop.remember(order["kept"])
        events = await loop.run()
        harness.name_conversation(brief.conversation or os.urandom(8).hex(), loop.memory())
        return events


async def _tools_of_servers(brief: Brief, closing: AsyncExitStack, tell: Callable[[str], None]) -> list[Tool]:
    """Start the MCP servers and return their tools. A tool's name is ``SERVER_TOOL``."""
    # UAH-212..216
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    found: list[Tool] = []
    for name, server in brief.tools.mcp_servers.items():
        try:
            program, *words = server.command
            # the harness's environment without the provider's key, tagged as one of the run's processes
            env = {**environment_of(brief), RUN_ID: os.environ.get(RUN_ID, ""), **server.env}
            env = process.scrubbed_environment(env)
            transport = StdioTransport(program, words, env=env, cwd=str(brief.cwd), keep_alive=False)
            toolset = await closing.enter_async_context(
                MCPToolset(transport, id=name, tool_error_behavior="retry", init_timeout=clock.scaled(START_SECONDS))
            )
            found += [_tool(name, toolset, listed) for listed in await toolset.list_tools()]
        except Exception as error:
            tell(f"The MCP server {name} cannot be used: {' '.join(str(error).split())[:300]}")
    return found


def _tool(server: str, toolset: "MCPToolset[Any]", listed: Any) -> Tool:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{listed.name}")[:LONGEST_NAME]
    found = getattr(listed, "input_schema", None) or getattr(listed, "inputSchema", None)
    return Tool(
        name,
        listed.description or "",
        found if isinstance(found, dict) else {"type": "object", "properties": {}},
        _calling(toolset, listed.name),
    )


def _calling(toolset: "MCPToolset[Any]", name: str) -> Callable[[Json], Awaitable[ToolAnswer]]:
    from pydantic_ai.exceptions import ModelRetry

    async def call(given: Json) -> ToolAnswer:
        try:
            said = await toolset.direct_call_tool(name, dict(given))
        except ModelRetry as error:
            return ToolAnswer(str(error), is_error=True)
        text = said if isinstance(said, str) else json.dumps(said, default=str)
        return ToolAnswer(text[:SHOWN_BYTES])

    return call


if __name__ == "__main__":
    run(turn)
