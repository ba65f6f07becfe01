"""OpenAI Responses API: functions that read the conversation in a request, and write the response, as a whole and as
stream events."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_harness.testing.model_server.openai_chat import error
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

FROM_THE_MODEL = frozenset(["function_call", "custom_tool_call", "local_shell_call", "reasoning", "tool_search_call"])


def turns(body: Mapping[str, Any]) -> list[Message]:
    """Return messages, tool calls and tool results in their order. Omit instructions."""
    given = body.get("input")
    if isinstance(given, str):
        return [Message(False, given)]
    return [turn for item in members(body, "input") if (turn := _turn(item))]


def _turn(item: Json) -> Message | None:
    kind, role = str(item.get("type") or "message"), item.get("role")
    if kind == "message":
        spoken = Message(role == "assistant", texts(item.get("content")))
        return None if role in ("developer", "system") else spoken
    if kind.endswith("_output"):
        return Message(False, output=texts(item.get("output")))
    return Message(True) if kind in FROM_THE_MODEL else None


def answer(body: Mapping[str, Any], step: Step) -> ModelAnswer:
    items = [_item(block) for block in step.blocks]
    whole = {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "model": body.get("model"),
        "status": "completed",
        "output": items,
        "usage": _usage(body, items, step.usage),
        "error": None,
    }
    return ModelAnswer(whole, list(_events(whole)))


def _item(block: Json) -> Json:
    if "thinking" in block:
        return {
            "type": "reasoning",
            "id": new_id("rs_"),
            "summary": [{"type": "summary_text", "text": block["thinking"]}],
        }
    if "tool" in block:
        given = block.get("input", {})
        call = {"call_id": new_id("call_"), "name": block["tool"], "status": "completed"}
        if isinstance(given, str):  # a custom tool takes plain text
            return {"type": "custom_tool_call", "id": new_id("ctc_"), **call, "input": given}
        space = {"namespace": block["namespace"]} if "namespace" in block else {}
        return {"type": "function_call", "id": new_id("fc_"), **call, "arguments": json.dumps(given), **space}
    part: Json = {"type": "output_text", "text": block["text"], "annotations": []}
    return {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": [part]}


def _usage(body: Mapping[str, Any], items: Sequence[Json], given: Mapping[str, int]) -> Json:
    cached = given.get("cached_tokens", 0)
    taken = given.get("input_tokens", estimated_tokens(body)) + cached + given.get("cache_write_tokens", 0)
    made = given.get("output_tokens", estimated_tokens(items))
    return {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": taken + made,
    }


EMPTIED: Mapping[str, Json] = {"message": {"content": []}, "function_call": {"arguments": ""}}
"""Members that are empty when an output item is announced in a stream; later events contain their content."""


def _events(whole: Json) -> Iterator[Event]:
    begun: Json = {**whole, "status": "in_progress", "output": [], "usage": None}
    pieces: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        emptied = EMPTIED.get(item["type"], {})
        empty = {**item, "status": "in_progress", **emptied}
        pieces.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        pieces += [{**piece, "item_id": item["id"], "output_index": index} for piece in _pieces(item)]
        pieces.append({"type": "response.output_item.done", "output_index": index, "item": item})
    pieces.append({"type": "response.completed", "response": whole})
    for number, piece in enumerate(pieces):
        yield piece["type"], {**piece, "sequence_number": number}


def _pieces(item: Json) -> list[Json]:
    if item["type"] == "message":
        return _text_pieces(item["content"][0]["text"])
    if item["type"] == "function_call":
        kind, given = "response.function_call_arguments", item["arguments"]
        return [{"type": f"{kind}.delta", "delta": given}, {"type": f"{kind}.done", "arguments": given}]
    return []


def _text_pieces(text: str) -> list[Json]:
    place = {"content_index": 0}
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    words = [{"type": "response.output_text.delta", "delta": word, **place} for word in re.findall(r"\S+\s*|\s+", text)]
    return [
        {"type": "response.content_part.added", "part": part, **place},
        *words,
        {"type": "response.output_text.done", "text": text, **place},
        {"type": "response.content_part.done", "part": {**part, "text": text}, **place},
    ]
