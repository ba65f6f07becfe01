"""Anthropic Messages API: functions that read the conversation in a request, and write the response, as a whole and as
stream events."""

import json
import re
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

SIGNATURE = "c2NyaXB0ZWQ="


def turns(body: Mapping[str, Any]) -> list[Message]:
    """Return the messages in their order. Tool results are separate from text."""
    return [_turn(message) for message in members(body, "messages")]


def _turn(message: Json) -> Message:
    content = message.get("content")
    results = [part for part in members(message, "content") if part.get("type") == "tool_result"]
    output = "\n".join(texts(part.get("content")) for part in results)
    return Message(message.get("role") == "assistant", texts(content), output)


def answer(body: Mapping[str, Any], step: Step) -> ModelAnswer:
    blocks = [_block(block) for block in step.blocks]
    calls = any(block["type"] == "tool_use" for block in blocks)
    whole = {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": blocks,
        "stop_reason": step.stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": _usage(body, blocks, step.usage),
    }
    return ModelAnswer(whole, list(_events(whole)))


def error(status: int, kind: str, message: str, reset: Json) -> Json:
    # the reset time of a rate limit is only in the headers
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": new_id("req_")}


def _block(block: Json) -> Json:
    if "tool" in block:
        return {"type": "tool_use", "id": new_id("toolu_"), "name": block["tool"], "input": block.get("input", {})}
    if "thinking" in block:
        return {"type": "thinking", "thinking": block["thinking"], "signature": SIGNATURE}
    return {"type": "text", "text": block["text"]}


def _usage(body: Mapping[str, Any], blocks: Sequence[Json], given: Mapping[str, int]) -> Json:
    return {
        "input_tokens": given.get("input_tokens", estimated_tokens(body)),
        "cache_creation_input_tokens": given.get("cache_write_tokens", 0),
        "cache_read_input_tokens": given.get("cached_tokens", 0),
        "output_tokens": given.get("output_tokens", estimated_tokens(blocks)),
    }


def _events(whole: Json) -> Iterator[Event]:
    begun: Json = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield _event("message_start", message=begun)
    for index, block in enumerate(whole["content"]):
        empty, deltas = _pieces(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage=whole["usage"])
    yield _event("message_stop")


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    match block["type"]:
        case "tool_use":
            piece = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            return {**block, "input": {}}, [piece]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [thought, signed]
        case _:
            words = re.findall(r"\S+\s*|\s+", block["text"]) or [""]
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in words]


def _event(kind: str, **members_: object) -> Event:
    return kind, {"type": kind, **members_}
