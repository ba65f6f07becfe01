"""``python -m agent_harness.agents.api.program``: one turn of the api agent, spoken to over the bridge."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from agent_harness.agents.base import Brief
from agent_harness.agents.bridge.worker import Harness, brief_from, ending, run
from agent_harness.agents.events import Event, Finished, Text

CLOSING_SECONDS = 3.0  # for MCP servers to end by themselves; what is left is ended with the turn
INTERRUPTED = (Finished(ok=False, message="interrupted"),)


async def turn(harness: Harness) -> None:
    """From the brief to the end that is told last."""
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
    """Runs the loop; the conversation is left with the harness, unless somebody ended the turn."""
    from agent_harness.agents.api.program.loop import Gone, Loop, TurnModel, definitions
    from agent_harness.agents.api.program.tools import own_tools

    brief = brief_from(order["brief"])
    settings = order["settings"]
    async with AsyncExitStack() as closing:
        tools = own_tools(brief, harness.interrupted.is_set)
        tools += await _served(brief, harness, closing)
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


async def _served(brief: Brief, harness: Harness, closing: AsyncExitStack) -> list[Any]:
    if not brief.tools.mcp_servers:
        return []
    from agent_harness.agents.api.program.servers import tools_of

    return await tools_of(brief, closing, lambda line: harness.say(Text(line)))


if __name__ == "__main__":
    run(turn)
