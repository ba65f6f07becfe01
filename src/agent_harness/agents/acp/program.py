"""``python -m agent_harness.agents.acp.program``: the program that runs one turn of an ACP agent. It exchanges messages
with the harness over ``agents.bridge``.

The guard rails answer the agent's permission requests. The agent's updates become events. The harness gives the agent
no access to files or terminals."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema, spawn_agent_process, text_block

from agent_harness.agents.base import Brief, ToolRules
from agent_harness.agents.bridge.worker import Harness, HarnessGone, brief_from, ending, run
from agent_harness.agents.command import refusal_from_text
from agent_harness.agents.events import Event, Finished, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.guardrails.toolcheck import refusal

OUTPUT_CHARACTERS = 20_000
_TOO_LONG = 8_000  # longest text that waits for a line end


class Updates:
    def __init__(self, say: Callable[[Event], None]) -> None:
        self._say = say
        self._text = ""
        self._open: set[str] = set()
        self._cost = 0.0  # of the session so far, by the agent's last report
        self._context: int | None = None
        self.silent = False  # while an earlier session is replayed

    def take(self, update: object) -> None:
        if self.silent:
            if isinstance(update, schema.UsageUpdate) and update.cost is not None:
                self._cost = max(self._cost, update.cost.amount)
        elif isinstance(update, schema.AgentMessageChunk):
            self._add(update.content)
        elif isinstance(update, schema.ToolCallStart):
            self.flush()
            self._open.add(update.tool_call_id)
            self._say(ToolCall(name=update.kind or "other", input=input_of(update), id=update.tool_call_id))
            if update.status in ("completed", "failed"):
                self._end(update.tool_call_id, update.status, update.content, update.raw_output)
        elif isinstance(update, schema.ToolCallProgress):
            if update.status in ("completed", "failed") and update.tool_call_id in self._open:
                self.flush()
                self._end(update.tool_call_id, update.status, update.content, update.raw_output)
        elif isinstance(update, schema.UsageUpdate):
            self.flush()
            self._context = update.used
            told = update.cost is not None and update.cost.currency.upper() == "USD"
            cost = update.cost.amount if update.cost is not None and told else None
            self._say(Usage(cost_usd=None if cost is None else max(0.0, cost - self._cost), context_tokens=update.used))
            self._cost = self._cost if cost is None else max(cost, self._cost)

    def finish(self, used: schema.Usage | None) -> None:
        """Send the buffered text. Then send the token counts ``used`` if the agent reported any."""
        self.flush()
        if used is not None and used.total_tokens:
            self._say(
                Usage(
                    input_tokens=used.input_tokens,
                    output_tokens=used.output_tokens,
                    cached_tokens=used.cached_read_tokens or 0,
                    cache_write_tokens=used.cached_write_tokens or 0,
                    cost_usd=0.0 if self._cost else None,  # the cost was reported during the turn
                    context_tokens=self._context,
                )
            )

    def flush(self) -> None:
        if self._text.strip():
            self._say(Text(self._text.rstrip("\n")))
        self._text = ""

    def _add(self, content: object) -> None:
        if not isinstance(content, schema.TextContentBlock):
            return
        self._text += content.text
        whole, newline, rest = self._text.rpartition("\n")
        if newline:
            self._text = whole
            self.flush()
            self._text = rest
        elif len(rest) > _TOO_LONG:
            self.flush()

    def _end(self, name: str, status: str, content: Any, raw: object) -> None:
        self._open.discard(name)
        texts = []
        for part in content or []:
            if isinstance(part, schema.ContentToolCallContent) and isinstance(part.content, schema.TextContentBlock):
                texts.append(part.content.text)
            elif isinstance(part, schema.FileEditToolCallContent):
                texts.append(f"edited {part.path}")
        text = "\n".join(texts) or (raw if isinstance(raw, str) else "")
        self._say(ToolResult(output=text[:OUTPUT_CHARACTERS], id=name, is_error=status == "failed"))


def input_of(call: schema.ToolCallStart | schema.ToolCallUpdate) -> Mapping[str, Any]:
    """Return a tool call's input. Add the call's title and first path if the input does not contain them."""
    raw = call.raw_input
    given: dict[str, Any] = dict(raw) if isinstance(raw, dict) else {}
    if call.title:
        given.setdefault("title", call.title)
    places = [place.path for place in call.locations or []]
    places += [part.path for part in call.content or [] if isinstance(part, schema.FileEditToolCallContent)]
    if places and not {"path", "file_path", "notebook_path"} & set(given):
        given["path"] = places[0]
    return given


READING = ("read", "search", "think", "fetch")


class AcpClient:
    def __init__(self, root: Path, rules: ToolRules, updates: Updates, say: Any) -> None:
        self._root = root
        self._rules = rules
        self._updates = updates
        self._say = say

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self._updates.take(update)

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        """Allow or refuse a tool call according to the guard rails, without asking the user."""
        why = refusal(
            "Read" if tool_call.kind in READING else (tool_call.title or "other"),
            input_of(tool_call),
            self._root,
            self._rules,
        )
        if why is not None:
            self._updates.flush()
            self._say(Text(f"[agent-harness] refused: {why}"))
        chosen = next(
            (
                option.option_id
                for kind in (("reject_once", "reject_always") if why else ("allow_once", "allow_always"))
                for option in options
                if option.kind == kind
            ),
            None,
        )
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        selected = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=selected)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore a notification that belongs to a protocol extension."""

    def on_connect(self, conn: Any) -> None:
        """Do nothing. The protocol library requires this method."""


CANCEL_SECONDS = 4.0  # for the agent to end its turn by itself
LINE_BYTES = 50 << 20
NOT_LOGGED_IN = -32000
ENDINGS: Mapping[str, Finished] = {
    "end_turn": Finished(ok=True),
    "cancelled": Finished(ok=False, message="interrupted"),
    "max_tokens": Finished(ok=False, message="the agent reached its token limit"),
    "max_turn_requests": Finished(ok=False, message="the agent reached its request limit"),
    "refusal": Finished(ok=False, message="the model refused to continue"),
}
"""Map from each ACP stop reason to the final event of a turn."""


async def turn(harness: Harness) -> None:
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
    found: Sequence[Event] = ()
    try:
        async with started as (agent, process):
            try:
                found = await _ask(harness, agent, brief, updates)
            except ConnectionError:
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), timeout=CANCEL_SECONDS)
                updates.finish(None)
                found = (Finished(ok=False, message=f"the agent's program ended with status {process.returncode}"),)
    except ProcessLookupError:  # the program ended right before the library ended it
        if not found:
            raise
    return found


async def _ask(harness: Harness, agent: Any, brief: Brief, updates: Updates) -> Sequence[Event]:
    try:
        session = await _session(agent, brief, updates)
        harness.name_conversation(session)
        answer = await _prompt(harness, agent, session, brief.prompt)
    except RequestError as error:
        updates.finish(None)
        if error.code == NOT_LOGGED_IN:
            return (Finished(ok=False, message="the agent is not logged in: start the agent once manually and log in"),)
        detail = "" if error.data is None else f": {error.data}"
        message = " ".join(f"{error}{detail}".split())[:500]
        refused = refusal_from_text(message)
        end = Finished(ok=False, message=f"the agent failed: {message}")
        return (end,) if refused is None else (refused, end)
    updates.finish(answer.usage)
    return (ENDINGS.get(answer.stop_reason, Finished(ok=False, message=f"it stopped: {answer.stop_reason}")),)


async def _session(agent: Any, brief: Brief, updates: Updates) -> str:
    """Resume or start a session in the agent, and return the session's id."""
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
            name=server_name,
            command=shutil.which(server.command[0]) or server.command[0],
            args=list(server.command[1:]),
            env=[schema.EnvVariable(name=name, value=value) for name, value in server.env.items()],
        )
        for server_name, server in brief.tools.mcp_servers.items()
    ]


if __name__ == "__main__":
    run(turn)
