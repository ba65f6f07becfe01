"""OpenAI Chat Completions API: functions that read the conversation in a request, and write the response, as a whole
and as stream events."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_harness.testing.model_server.script import (
    Event,
    Json,
    Message,
    ModelAnswer,
    Step,
    estimated_tokens,
    members,
    new_id,
    texts,
)

__all__ = ["answer", "error", "turns"]


def turns(body: Mapping[str, Any]) -> list[Message]:
    """Return the user, assistant and tool messages in their order. Omit instructions."""
    return [turn for message in members(body, "messages") if (turn := _turn(message))]


def _turn(message: Json) -> Message | None:
    said = texts(message.get("content"))
    match message.get("role"):
        case "assistant":
            return Message(True, said)
        case "tool":
            return Message(False, output=said)
        case "user":
            return Message(False, said)
        case _:
            return None


def answer(body: Mapping[str, Any], step: Step) -> ModelAnswer:
    """Return the model's response for a script step."""
    # without thinking, which the format does not support
    text = "".join(block["text"] for block in step.blocks if "text" in block)
    calls = [_call(block) for block in step.blocks if "tool" in block]
    finish = step.stop_reason or ("tool_calls" if calls else "stop")
    message: Json = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    cached = step.usage.get("cached_tokens", 0)
    taken = step.usage.get("input_tokens", estimated_tokens(body)) + cached + step.usage.get("cache_write_tokens", 0)
    made = step.usage.get("output_tokens", estimated_tokens(message))
    details = {"cached_tokens": cached}
    total = {"prompt_tokens": taken, "completion_tokens": made, "total_tokens": taken + made}
    usage = {**total, "prompt_tokens_details": details}
    head = {"id": new_id("chatcmpl-"), "created": int(time.time()), "model": body.get("model")}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    return ModelAnswer(whole, list(_events(head, text, calls, finish, usage)))


def error(status: int, kind: str, message: str, reset: Json) -> Json:
    """Return the body of an error response. ``reset`` tells when a rate limit ends."""
    return {"error": {"type": kind, "code": kind, "message": message, "param": None, **reset}}


def _call(block: Json) -> Json:
    called = {"name": block["tool"], "arguments": json.dumps(block.get("input", {}))}
    return {"id": new_id("call_"), "type": "function", "function": called}


def _events(head: Json, text: str, calls: Sequence[Json], finish: str, usage: Json) -> Iterator[Event]:
    def chunk(delta: Json, reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return None, {**head, "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for word in re.findall(r"\S+\s*|\s+", text):
        yield chunk({"content": word})
    for index, call in enumerate(calls):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, finish)
    yield None, {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
    yield None, "[DONE]"
