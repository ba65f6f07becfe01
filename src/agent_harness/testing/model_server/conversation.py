"""What a request has said so far, in one form for every protocol; the answer that a step of a script comes to."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ModelAnswer", "Event", "Json", "Message", "estimated_tokens", "members", "new_id", "texts"]

Json = dict[str, Any]
Event = tuple[str | None, Json | str]  # name and content of one server-sent event


@dataclass(frozen=True)
class Message:
    """One message: the model's, or what came to the model."""

    by_model: bool
    text: str = ""  # what a person or the client wrote; markers are looked for here
    output: str = ""  # what tools answered


@dataclass(frozen=True)
class ModelAnswer:
    """One response, as a whole and as the events of a stream."""

    whole: Json
    events: Sequence[Event] = field(default=())


def texts(content: object) -> str:
    """The text in a message's content, whatever its shape; empty when there is none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    found = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, (str, dict))]
    return "\n".join(text for text in found if isinstance(text, str))


def members(body: Mapping[str, Any], name: str) -> list[Json]:
    """The objects in a list of the request; nothing else that may be there."""
    listed = body.get(name)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def estimated_tokens(value: object) -> int:
    """Four characters of JSON are one token, and nothing is less than one."""
    return max(1, len(json.dumps(value)) // 4)


def new_id(prefix: str) -> str:
    """An id that no other answer has."""
    return f"{prefix}{os.urandom(10).hex()}"
