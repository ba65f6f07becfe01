"""An agent that speaks the Agent Client Protocol through the maintained SDK, and behaves as its first argument says."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from acp import RequestError, run_agent, schema, text_block, update_agent_message

BEHAVIOUR = sys.argv[1]


class Agent:
    """Agent with a behaviour of the conformance suite, or its own."""

    def __init__(self) -> None:
        self.client: Any = None
        self.cancelled = asyncio.Event()
        self.rounds = 0
        self.given: list[Any] = []

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        can = schema.AgentCapabilities(load_session=BEHAVIOUR == "remember")
        return schema.InitializeResponse(protocol_version=protocol_version, agent_capabilities=can)

    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        self.given = more.get("mcp_servers") or []
        if BEHAVIOUR == "stranger":
            raise RequestError.auth_required()
        return schema.NewSessionResponse(session_id="session-one")

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> None:
        await self.say(session_id, "told again\n")
        self.rounds = 1

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        return await getattr(self, BEHAVIOUR)(session_id, prompt[0].text)

    async def say(self, session: str, text: str) -> None:
        await self.client.session_update(session_id=session, update=update_agent_message(text_block(text)))

    async def update(self, session: str, update: Any) -> None:
        await self.client.session_update(session_id=session, update=update)

    # -- behaviours ----------------------------------------------------------------------------------------------

    async def answer(self, session: str, prompt: str) -> schema.PromptResponse:
        for piece in (prompt[:7], prompt[7:], "\nand a second ", "line"):
            await self.say(session, piece)
        return done()

    async def fail(self, session: str, prompt: str) -> schema.PromptResponse:
        raise RequestError.internal_error({"details": "it broke"})

    async def limited(self, session: str, prompt: str) -> schema.PromptResponse:
        raise RequestError(-32603, "429 rate limit exceeded, retry after 40 seconds")

    async def hang(self, session: str, prompt: str) -> schema.PromptResponse:
        with subprocess.Popen(["sleep", "1000"]):
            await self.say(session, "hanging\n")
            await asyncio.sleep(1000)
        return done()

    async def wait(self, session: str, prompt: str) -> schema.PromptResponse:
        await self.say(session, "waiting\n")
        await self.cancelled.wait()
        return schema.PromptResponse(stop_reason="cancelled")

    async def die(self, session: str, prompt: str) -> schema.PromptResponse:
        os._exit(7)

    async def servers(self, session: str, prompt: str) -> schema.PromptResponse:
        for one in self.given:
            await self.say(session, f"{one.name}: {one.args} {[(each.name, each.value) for each in one.env]}\n")
        return done()

    async def remember(self, session: str, prompt: str) -> schema.PromptResponse:
        await self.say(session, f"round {self.rounds}")
        return done()

    async def count(self, session: str, prompt: str) -> schema.PromptResponse:
        for used, dollars in ((1000, 0.25), (3000, 0.75)):
            cost = schema.Cost(amount=dollars, currency="USD")
            await self.update(
                session, schema.UsageUpdate(session_update="usage_update", used=used, size=9000, cost=cost)
            )
        return done(usage=schema.Usage(total_tokens=60, input_tokens=20, output_tokens=30, cached_read_tokens=10))

    async def write(self, session: str, prompt: str) -> schema.PromptResponse:
        """Ask before each file and command that the prompt names, and do the allowed ones."""
        for number, line in enumerate(prompt.splitlines()):
            await self.tool(session, f"call-{number}", *line.split(" ", 1))
        return done()

    async def tool(self, session: str, name: str, kind: str, rest: str) -> None:
        given = {"command": rest} if kind == "run" else {"file_path": rest}
        call: dict[str, Any] = {"tool_call_id": name, "title": "Bash" if kind == "run" else "Write", "raw_input": given}
        call["kind"] = "execute" if kind == "run" else "edit"
        await self.update(session, schema.ToolCallStart(session_update="tool_call", status="pending", **call))
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        asked = schema.ToolCallUpdate(**call)
        answer = await self.client.request_permission(session_id=session, tool_call=asked, options=options)
        may = answer.outcome.outcome == "selected" and answer.outcome.option_id == "yes"
        if may:
            do(kind, rest)
        ended: Any = "completed" if may else "failed"
        progress = schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=name, status=ended)
        await self.update(session, progress)


def do(kind: str, rest: str) -> None:
    if kind == "run":
        subprocess.run(rest, shell=True, check=False)
    else:
        Path(rest).write_text("written\n")


def done(**more: Any) -> schema.PromptResponse:
    return schema.PromptResponse(stop_reason="end_turn", **more)


asyncio.run(run_agent(Agent()))  # type: ignore[arg-type]
