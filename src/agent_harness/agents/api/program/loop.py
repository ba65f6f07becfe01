"""The loop: the model is asked, its tools are run, and it is asked again, until it has nothing more to do.

Before each request the harness has considered all that was said before it, so that its messages are part of that very
request, and a turn that it ends makes no further one.
"""

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from agent_harness.agents.api.program.asking import Gone, TurnModel, usage_of
from agent_harness.agents.api.program.tools import Tool, ToolAnswer
from agent_harness.agents.base import Brief
from agent_harness.agents.bridge.worker import Harness
from agent_harness.agents.events import Event, Finished, Text, ToolCall, ToolResult

INSTRUCTIONS = """\
You are a coding agent. You work alone in a project on this machine: nobody reads along or answers questions while you \
work. Use the tools to look, to change files and to run commands; show the output of the tests that prove your work. \
Messages from the harness that supervises you may come in between; do what they say. When you have nothing more to do, \
answer without calling a tool: that ends your turn.

Project folder: {project}"""
GO_ON = "Your answer was cut off at the limit of its length. Go on where it ends, in smaller pieces."
MOST_CUT = 3  # answers in a row that were cut off


class Loop:
    """One turn."""

    def __init__(self, harness: Harness, brief: Brief, provider: TurnModel, tools: Sequence[Tool]) -> None:
        self._harness = harness
        self._provider = provider
        self._tools = {tool.name: tool for tool in tools}
        self._instructions = INSTRUCTIONS.format(project=brief.cwd)
        self._prompt = brief.prompt
        self._cut = 0
        self.messages: list[ModelMessage] = []

    def remember(self, kept: str) -> None:
        """Goes on in an earlier turn's conversation."""
        self.messages = ModelMessagesTypeAdapter.validate_json(kept)

    def memory(self) -> str:
        """The conversation as ``remember`` takes it."""
        return ModelMessagesTypeAdapter.dump_json(self.messages).decode()

    async def run(self) -> Sequence[Event]:
        """The events that end the turn, ``Finished`` last; everything before them is said already."""
        parts: list[ModelRequestPart] = [UserPromptPart(self._prompt)]
        try:
            while parts:
                parts += _prompts(await self._harness.may_go_on())
                self.messages.append(ModelRequest(parts=parts, instructions=self._instructions))
                answer = await self._ask()
                self.messages.append(answer)
                parts = await self._after(answer)
        except Gone as gone:
            return gone.events
        return (Finished(),)

    async def _ask(self) -> ModelResponse:
        try:
            return await self._provider.ask(self.messages)
        finally:
            for used in self._provider.lost():
                self._harness.say(used)

    async def _after(self, answer: ModelResponse) -> list[ModelRequestPart]:
        """What the next request says; nothing at the end of the turn."""
        self._tell(answer)
        self._cut = self._cut + 1 if answer.finish_reason == "length" else 0
        if self._cut > MOST_CUT:
            raise Gone((Finished(ok=False, message="the model's answers are cut off at the limit of their length"),))
        calls = answer.tool_calls
        if calls:
            return [await self._use(call) for call in calls]
        if self._cut:
            return [UserPromptPart(GO_ON)]
        return _prompts(await self._harness.may_go_on(last=True))

    def _tell(self, answer: ModelResponse) -> None:
        for part in answer.parts:
            if isinstance(part, TextPart) and part.content.strip():
                self._harness.say(Text(part.content))
        self._harness.say(usage_of(answer))

    async def _use(self, call: ToolCallPart) -> ToolReturnPart:
        given: dict[str, Any] = call.args_as_dict()
        self._harness.say(ToolCall(name=call.tool_name, input=given, id=call.tool_call_id))
        tool = self._tools.get(call.tool_name)
        known = ", ".join(self._tools)
        missing = ToolAnswer(f"There is no tool {call.tool_name!r}; there are: {known}.", is_error=True)
        said = await tool.run(given) if tool else missing
        self._harness.say(ToolResult(output=said.text, id=call.tool_call_id, is_error=said.is_error))
        outcome = "failed" if said.is_error else "success"
        return ToolReturnPart(call.tool_name, said.text, call.tool_call_id, outcome=outcome)


def definitions(tools: Sequence[Tool]) -> list[ToolDefinition]:
    """The tools as the library takes them."""
    return [
        ToolDefinition(name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description)
        for tool in tools
    ]


def _prompts(messages: Sequence[str]) -> list[ModelRequestPart]:
    return [UserPromptPart(message) for message in messages]
