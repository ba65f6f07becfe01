"""``python -m agent_harness.agents.acp.program``: one turn of an ACP agent, spoken to over the bridge."""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema, spawn_agent_process, text_block

from agent_harness.agents import limits
from agent_harness.agents.acp.program.client import AcpClient, Updates
from agent_harness.agents.base import Brief
from agent_harness.agents.bridge.worker import Harness, HarnessGone, brief_from, ending, run
from agent_harness.agents.events import Event, Finished

CANCEL_SECONDS = 4.0  # for the agent to end its turn by itself
LINE_BYTES = 50 << 20
NOT_LOGGED_IN = -32000
ENDINGS: Mapping[str, Finished] = {
    "end_turn": Finished(ok=True),
    "cancelled": Finished(ok=False, message="interrupted"),
    "max_tokens": Finished(ok=False, message="the agent ran into its limit of tokens"),
    "max_turn_requests": Finished(ok=False, message="the agent ran into its limit of requests"),
    "refusal": Finished(ok=False, message="the model refused to go on"),
}
"""Why a turn ended, in the protocol's words, and what that means here."""


async def turn(harness: Harness) -> None:
    """From the brief to the end that is told last."""
    order = await harness.order()
    working = asyncio.create_task(_work(harness, order))
    gone = asyncio.create_task(harness.gone.wait())
    await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        raise HarnessGone
    for event in ending(working, "acp"):
        harness.say(event)


async def _work(harness: Harness, order: Mapping[str, Any]) -> Sequence[Event]:
    brief = brief_from(order["brief"])
    program, *words = order["settings"]["command"]
    updates = Updates(harness.say)
    client: Any = AcpClient(brief.cwd, brief.tools, updates, harness.say)
    started = spawn_agent_process(
        client,
        program,
        *words,
        env=dict(os.environ),
        cwd=brief.cwd,
        transport_kwargs={"stderr": None, "limit": LINE_BYTES, "shutdown_timeout": 1.0},
    )
    async with started as (agent, process):
        try:
            return await _ask(harness, agent, brief, updates)
        except ConnectionError:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), timeout=CANCEL_SECONDS)
            updates.finish(None)
            return (Finished(ok=False, message=f"the agent's program ended with status {process.returncode}"),)


async def _ask(harness: Harness, agent: Any, brief: Brief, updates: Updates) -> Sequence[Event]:
    """The whole conversation with the agent; a refusal of the provider is told as one."""
    try:
        session = await _session(agent, brief, updates)
        harness.name_conversation(session)
        answer = await _prompt(harness, agent, session, brief.prompt)
    except RequestError as error:
        updates.finish(None)
        if error.code == NOT_LOGGED_IN:
            return (Finished(ok=False, message="the agent is not logged in: start it once by hand and log in"),)
        detail = "" if error.data is None else f": {error.data}"
        message = " ".join(f"{error}{detail}".split())[:500]
        refused = limits.from_text(message)
        end = Finished(ok=False, message=f"the agent gave up: {message}")
        return (end,) if refused is None else (refused, end)
    updates.finish(answer.usage)
    return (ENDINGS.get(answer.stop_reason, Finished(ok=False, message=f"it stopped: {answer.stop_reason}")),)


async def _session(agent: Any, brief: Brief, updates: Updates) -> str:
    """A new session, or the earlier one of this brief where the agent can load it."""
    shown = schema.Implementation(name="agent-harness", version="1")
    hello = await agent.initialize(
        protocol_version=PROTOCOL_VERSION, client_capabilities=schema.ClientCapabilities(), client_info=shown
    )
    servers, can = _servers(brief), hello.agent_capabilities
    if brief.conversation and can is not None and can.load_session:
        updates.silent = True
        with suppress(RequestError):
            await agent.load_session(cwd=str(brief.cwd), session_id=brief.conversation, mcp_servers=servers)
            updates.silent = False
            return brief.conversation
        updates.silent = False
    made = await agent.new_session(cwd=str(brief.cwd), mcp_servers=servers)
    return str(made.session_id)


async def _prompt(harness: Harness, agent: Any, session: str, prompt: str) -> Any:
    asked = asyncio.create_task(agent.prompt(prompt=[text_block(prompt)], session_id=session))
    stopped = asyncio.create_task(harness.interrupted.wait())
    await asyncio.wait([asked, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not asked.done():
        await agent.cancel(session_id=session)
        await asyncio.wait([asked], timeout=CANCEL_SECONDS)
    if not asked.done():
        asked.cancel()
        return schema.PromptResponse(stop_reason="cancelled")
    return asked.result()


def _servers(brief: Brief) -> list[schema.McpServerStdio]:
    return [
        schema.McpServerStdio(
            name=name,
            command=shutil.which(server.command[0]) or server.command[0],
            args=list(server.command[1:]),
            env=[schema.EnvVariable(name=str(k), value=str(v)) for k, v in _environment(server.config).items()],
        )
        for name, server in brief.tools.mcp_servers.items()
    ]


def _environment(config: Mapping[str, object]) -> Mapping[str, object]:
    found = config.get("env")
    return found if isinstance(found, Mapping) else {}


if __name__ == "__main__":
    run(turn)
