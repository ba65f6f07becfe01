"""``python -m agent_harness.agents.api_loop``: one turn of the api agent, spoken to over the bridge."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from agent_harness.agents.base import Brief
from agent_harness.agents.bridged import Harness, HarnessGone, brief_from
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
    for event in _ending(working):
        harness.say(event)


async def _work(harness: Harness, order: Mapping[str, Any]) -> Sequence[Event]:
    """Runs the loop; the conversation is left with the harness, unless somebody ended the turn."""
    from agent_harness.agents.api_loop.asking import Gone, Provider
    from agent_harness.agents.api_loop.loop import Loop, definitions
    from agent_harness.agents.api_loop.tools import own_tools

    brief = brief_from(order["brief"])
    settings = order["settings"]
    async with AsyncExitStack() as closing:
        tools = own_tools(brief, harness.interrupted.is_set)
        tools += await _served(brief, harness, closing)
        try:
            provider = Provider(
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
    from agent_harness.agents.api_loop.servers import tools_of

    return await tools_of(brief, closing, lambda line: harness.say(Text(line)))


def _ending(working: "asyncio.Task[Sequence[Event]]") -> Sequence[Event]:
    """The end of a turn; anything unforeseen is one clear line, and its details are on standard error."""
    if not working.done() or working.cancelled():
        return INTERRUPTED
    error = working.exception()
    if error is None:
        return working.result()
    if isinstance(error, HarnessGone):
        raise error
    import traceback

    traceback.print_exception(error)
    told = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return (Finished(ok=False, message=f"the api agent stopped: {told}"),)


if __name__ == "__main__":
    with suppress(HarnessGone):
        asyncio.run(turn(Harness()))
    sys.stderr.flush()
    os._exit(0)  # nobody waits for threads of libraries; every line to the harness is written already
