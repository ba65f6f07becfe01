"""Loop of the api agent. It executes the model's tool calls and sends the results, until an answer has no tool call.

Before each request, the loop waits until the harness has processed all earlier events. The next request therefore
contains all messages that the harness has sent. If the harness ends the turn, the loop makes no further request. Source
for failed requests: features.md UAH-374..378, UAH-420, C28."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import exceptions as errors
from pydantic_ai.direct import model_request_stream
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
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from agent_harness.agents.api.tools import Tool, ToolAnswer
from agent_harness.agents.base import Brief
from agent_harness.agents.bridge.worker import Harness
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage, mapping_of
from agent_harness.kernel import clock, retry
from agent_harness.kernel.redact import redact

SILENCE_SECONDS = 120.0  # without a byte from the provider


@dataclass(frozen=True)
class Gone(Exception):
    """Error: the model cannot answer. ``events`` are the last events of the turn."""

    events: tuple[Event, ...]


class TurnModel:
    def __init__(self, provider: str, model: str, key: str, tries: int, tools: Sequence[ToolDefinition]) -> None:
        """Prepare the model. Raise ``Gone`` if the model cannot be used."""
        self._key = key
        self._tries = tries
        self._lost: list[Usage] = []
        self._name = f"{provider}/{model}"
        kind = provider
        if provider == "openai":  # most servers that imitate OpenAI's server support only the Chat API
            kind = "openai-chat" if os.environ.get("OPENAI_BASE_URL") else "openai-responses"
        try:
            self._model: Model = infer_model(f"{kind}:{model}")
        except errors.UserError as error:
            raise Gone((Finished(ok=False, message=_one_line(error)),)) from error
        self._settings = _settings(provider)
        self._parameters = ModelRequestParameters(function_tools=list(tools))

    async def ask(self, messages: Sequence[ModelMessage]) -> ModelResponse:
        """Return the model's answer. Raise ``Gone`` if all attempts fail, or at once if another attempt cannot help."""
        for attempt in range(1, self._tries + 1):
            try:
                return await self._asked(messages)
            except errors.AgentRunError as error:
                silent = isinstance(error, errors.ModelConnectionError | errors.ModelRequestTimeout)
                if attempt == self._tries or not (silent or _undecodable(error)):  # a refusal: the harness waits first
                    raise Gone(self._told(error)) from error
        raise AssertionError("the last attempt gave neither an answer nor an error")

    def lost(self) -> list[Usage]:
        """Return and clear the usage of failed answers, because the provider also bills these answers."""
        found = [used for used in self._lost if used.context]
        self._lost.clear()
        return found

    async def _asked(self, messages: Sequence[ModelMessage]) -> ModelResponse:
        asking = model_request_stream(
            self._model,
            messages,
            model_settings=self._settings,
            model_request_parameters=self._parameters,
        )
        async with asking as stream:
            try:
                async for _ in stream:
                    pass
            except BaseException:
                self._lost.append(_tokens(stream.usage, stream.model_name))
                raise
            answer = stream.get()
        if answer.finish_reason is None:
            self._lost.append(usage_of(answer))
            raise errors.UnexpectedModelBehavior("the answer was cut off")
        if not answer.parts:
            raise errors.UnexpectedModelBehavior("the answer is empty")
        return answer

    def _told(self, error: errors.AgentRunError) -> tuple[Event, ...]:
        what = f"{self._name}: {_one_line(error)}"
        match error:
            case errors.ModelAuthenticationError():
                said = f"the provider refuses the API key; correct {self._key}. {what}"
            case errors.ModelContextWindowExceededError():
                said = f"the conversation is longer than the model's context window (context length exceeded). {what}"
            case errors.ModelQuotaExceededError():
                said = f"the account has no credit left at the provider. {what}"
            case errors.ModelNotFoundError():
                said = f"the provider has no such model. {what}"
            case errors.ModelRateLimitError() | errors.ModelUnavailableError() | errors.ModelServerError():
                return _refused(error, what)
            case _ if _undecodable(error):
                said = f"the provider's answer is malformed. {what}"
            case errors.ModelTimeoutError() | errors.ModelRequestTimeout():
                said = f"no response from the provider for {SILENCE_SECONDS:g} seconds. {what}"
            case errors.ModelConnectionError():
                said = f"the provider cannot be reached. {what}"
            case _:
                said = what
        return (Finished(ok=False, message=said),)


def usage_of(answer: ModelResponse) -> Usage:
    return _tokens(answer.usage, answer.model_name)


def _tokens(used: RequestUsage, model: str | None) -> Usage:
    uncached = used.input_tokens - used.cache_read_tokens - used.cache_write_tokens
    return Usage(
        input_tokens=max(0, uncached),
        output_tokens=used.output_tokens,
        cached_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        model=model,
    )


CACHED: Mapping[str, bool] = {
    "anthropic_cache_instructions": True,
    "anthropic_cache_tool_definitions": True,
    "anthropic_cache_messages": True,
}
"""Settings that enable Anthropic's cache. The caches of other providers need no settings (UAH-420)."""


def _settings(provider: str) -> ModelSettings:
    common = ModelSettings(max_retries=0, timeout=clock.scaled(SILENCE_SECONDS), framing_announcement="never")
    return cast("ModelSettings", {**common, **(CACHED if provider == "anthropic" else {})})


def _undecodable(error: errors.AgentRunError) -> bool:
    cause = error.__cause__
    return isinstance(error, errors.UnexpectedModelBehavior) or isinstance(cause, json.JSONDecodeError | UnicodeError)


def _refused(error: errors.ModelAPIError, what: str) -> tuple[Event, ...]:
    seconds = error.retry_after
    headers = (error.headers or {}) if isinstance(error, errors.ModelHTTPError) else {}
    moment = headers.get("anthropic-ratelimit-unified-reset") if seconds is None else None
    wait = retry.find_wait(f"resets_at: {moment}", clock.now()) if moment else None
    return (
        RateLimited(
            message=what,
            retry_after_seconds=seconds,
            resets_at=clock.timestamp(wait.moment) if wait and wait.moment else None,
        ),
        Finished(ok=False, message=what),
    )


def _one_line(error: Exception) -> str:
    said = _refusal_text(error) if isinstance(error, errors.ModelHTTPError) else None
    return redact(" ".join((said or str(error)).split()))[:500]


def _refusal_text(error: errors.ModelHTTPError) -> str | None:
    body = mapping_of(error.body)
    told = mapping_of(body.get("error")) or body
    message, kind = told.get("message"), told.get("type")
    if not isinstance(message, str) or not message.strip():
        return None
    named = f" {kind}" if isinstance(kind, str) and kind != "error" else ""
    meant = f" Did you mean {error.suggested_model_id}?" if error.suggested_model_id else ""
    return f"HTTP {error.status_code}{named}: {message}{meant}"


INSTRUCTIONS = """\
You are a coding agent. You work alone in a project on this machine: nobody reads along or answers questions while you \
work. Use the tools to look, to change files and to run commands; show the output of the tests that prove your work. \
Messages from the harness that supervises you may come in between; do what they say. When you have nothing more to do, \
answer without calling a tool: that ends your turn.

Project folder: {project}"""
GO_ON = "Your answer was cut off at the limit of its length. Go on where it ends, in smaller pieces."
MOST_CUT = 3  # answers in a row that were cut off


class Loop:
    def __init__(self, harness: Harness, brief: Brief, provider: TurnModel, tools: Sequence[Tool]) -> None:
        self._harness = harness
        self._provider = provider
        self._tools = {tool.name: tool for tool in tools}
        self._instructions = INSTRUCTIONS.format(project=brief.cwd)
        self._prompt = brief.prompt
        self._cut = 0
        self.messages: list[ModelMessage] = []

    def remember(self, kept: str) -> None:
        """Restore the conversation from ``kept``, which ``memory`` returned earlier."""
        self.messages = ModelMessagesTypeAdapter.validate_json(kept)

    def memory(self) -> str:
        """Return the conversation as text for ``remember``."""
        return ModelMessagesTypeAdapter.dump_json(self.messages).decode()

    async def run(self) -> Sequence[Event]:
        """Run the turn and return its final events. The last event is ``Finished``."""
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
        """Process the model's answer and return the parts of the next request. The turn ends if there are none."""
        for part in answer.parts:
            if isinstance(part, TextPart) and part.content.strip():
                self._harness.say(Text(part.content))
        self._harness.say(usage_of(answer))
        self._cut = self._cut + 1 if answer.finish_reason == "length" else 0
        if self._cut > MOST_CUT:
            raise Gone((Finished(ok=False, message="the model's answers keep exceeding the length limit"),))
        calls = answer.tool_calls
        if calls:
            return [await self._use(call) for call in calls]
        if self._cut:
            return [UserPromptPart(GO_ON)]
        return _prompts(await self._harness.may_go_on(last=True))

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
    return [
        ToolDefinition(name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description)
        for tool in tools
    ]


def _prompts(messages: Sequence[str]) -> list[ModelRequestPart]:
    return [UserPromptPart(message) for message in messages]
