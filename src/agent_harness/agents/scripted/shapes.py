"""The verbs of a script and the values they take: one literal table. What they do is in ``verbs.py``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Step = tuple[str, Mapping[str, Any]]

BAD_JSON = ("truncated", "not_an_object", "unknown_type", "binary", "nul", "ansi", "deep", "huge", "negative", "texts")


def _text(value: object) -> bool:
    return isinstance(value, str)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return _whole(value) and value >= 0  # type: ignore[operator]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _id(value: object) -> bool:
    return value == "this" or _whole(value)


def _ids(value: object) -> bool:
    return _id(value) or (isinstance(value, list) and bool(value) and all(map(_id, value)))


def _kind(value: object) -> bool:
    return value in BAD_JSON


def _event(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


_CALLED: Mapping[Callable[[object], bool], str] = {
    _text: "a text",
    _whole: "a whole number",
    _count: "a whole number of at least 0",
    _number: "a number of at least 0",
    _flag: "true or false",
    _id: "a feature's number, or `this`",
    _ids: "a feature's number, a list of them, or `this`",
    _kind: "one of " + ", ".join(BAD_JSON),
    _event: "a mapping with `type`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """The keys of one verb; ``short`` is the key that a bare value stands for."""

    keys: Mapping[str, Callable[[object], bool]] = field(default_factory=dict)
    short: str | None = None
    needs: tuple[str, ...] = ()  # "a|b": one of the two
    positional: tuple[str, ...] = ()  # the keys that a bare list stands for, in order

    def problems(self, value: Any) -> Iterator[str]:
        """What is wrong with the verb's value, each with the place after the verb's name."""
        found = self.named(value)
        if found is None:
            yield f": takes {self._form()}, not {one_line(value)}"
            return
        for key, one in found.items():
            if key not in self.keys:
                yield f": unknown key {key!r} (known: {', '.join(self.keys) or 'none'})"
            elif not self.keys[key](one):
                yield f".{key}: must be {_CALLED[self.keys[key]]}, not {one_line(one)}"
        for need in self.needs:
            if not any(key in found for key in need.split("|")):
                yield f": {need.replace('|', ' or ')!r} is missing"

    def named(self, value: Any) -> Mapping[str, Any] | None:
        """The value as keys; ``None`` when its form is not one of this verb's."""
        if value is None:
            return {}
        if self.short is not None and self.keys[self.short] is _event:
            return {self.short: value}
        if isinstance(value, dict):
            return value
        if self.positional and isinstance(value, list):
            return dict(zip(self.positional, value, strict=False)) if len(value) <= len(self.positional) else None
        return {self.short: value} if self.short is not None else None

    def _form(self) -> str:
        if not self.keys:
            return "no value"
        listed = f" or [{', '.join(self.positional)}]" if self.positional else ""
        return f"a mapping of {', '.join(self.keys)}{listed}"


_RUN = Verb(keys={"command": _text, "timeout_seconds": _number}, short="command", needs=("command",))
_USAGE = {
    "input_tokens": _whole,
    "output_tokens": _whole,
    "cached_tokens": _whole,
    "cost_usd": _number,
    "context_tokens": _whole,
}
_REFUSAL = {"times": _count, "retry_after_seconds": _number, "resets_at": _text}

VERBS: Mapping[str, Verb] = {
    "say": Verb(keys={"text": _text}, short="text", needs=("text",)),
    "decide": Verb(keys={"text": _text}, short="text", needs=("text",)),
    "read": Verb(keys={"path": _text}, short="path", needs=("path",)),
    "write": Verb(
        keys={"path": _text, "text": _text, "from": _text, "executable": _flag},
        needs=("path", "text|from"),
        positional=("path", "text"),
    ),
    "append": Verb(keys={"path": _text, "text": _text}, needs=("path", "text"), positional=("path", "text")),
    "run": _RUN,
    "sh": _RUN,
    "claim": Verb(keys={"ids": _ids, "passes": _flag}, short="ids", needs=("ids",)),
    "evidence": Verb(keys={"id": _id, "command": _text}, short="id", needs=("id",)),
    "forge": Verb(keys={"id": _id, "passed": _count}, short="id", needs=("id",)),
    "progress": Verb(keys={"text": _text, "path": _text}, short="text", needs=("text",)),
    "commit": Verb(keys={"message": _text}, short="message", needs=("message",)),
    "usage": Verb(keys=_USAGE, positional=("input_tokens", "output_tokens", "cached_tokens", "cost_usd")),
    "sleep": Verb(keys={"seconds": _number}, short="seconds", needs=("seconds",)),
    "ignore_term": Verb(),
    "prompt_to": Verb(keys={"path": _text}, short="path", needs=("path",)),
    "rate_limit": Verb(keys={"message": _text, **_REFUSAL}, short="message"),
    "http": Verb(keys={"status": _count, **_REFUSAL}, short="status", needs=("status",)),
    "bad_json": Verb(keys={"kind": _kind}, short="kind"),
    "flood": Verb(keys={"megabytes": _number, "line_bytes": _count}, short="megabytes", needs=("megabytes",)),
    "event": Verb(keys={"event": _event}, short="event", needs=("event",)),
    "end": Verb(keys={"message": _text}, short="message"),
    "exit": Verb(keys={"status": _count}, short="status", needs=("status",)),
}
"""Every verb that a script may use."""


def normal_step(step: Any) -> Step:
    """A valid step as its verb and its keys; ``sh`` is ``run``."""
    name, value = (step, None) if isinstance(step, str) else next(iter(step.items()))
    return ("run" if name == "sh" else name), VERBS[name].named(value) or {}


def one_line(value: object) -> str:
    """A value or an error as one short line."""
    text = str(value) if isinstance(value, Exception | str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 120 else text[:117] + "..."
