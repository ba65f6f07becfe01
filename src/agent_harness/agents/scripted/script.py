"""Script of the scripted agent: its format, its errors, and the selection of an entry. Only ``load`` reads the disk.

``docs/scripted-agent.md`` describes the format. ``VERBS`` lists the verbs, which ``stage.py`` runs."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.errors import ConfigurationError

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
    """Description of the values that one verb of a script accepts."""

    keys: Mapping[str, Callable[[object], bool]] = field(default_factory=dict)
    short: str | None = None  # the key that a plain value stands for
    needs: tuple[str, ...] = ()  # "a|b": one of the two
    positional: tuple[str, ...] = ()  # the keys of a bare list, in order

    def problems(self, value: Any) -> Iterator[str]:
        """Yield the problems of a verb's value. Each text continues the verb's name."""
        found = self.named(value)
        if found is None:
            listed = f" or [{', '.join(self.positional)}]" if self.positional else ""
            form = f"a mapping of {', '.join(self.keys)}{listed}" if self.keys else "no value"
            yield f": takes {form}, not {one_line(value)}"
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
        """Return the verb's value as a mapping of keys, or None if its form is wrong."""
        if value is None:
            return {}
        if self.short is not None and self.keys[self.short] is _event:
            return {self.short: value}
        if isinstance(value, dict):
            return value
        if self.positional and isinstance(value, list):
            return dict(zip(self.positional, value, strict=False)) if len(value) <= len(self.positional) else None
        return {self.short: value} if self.short is not None else None


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
"""All verbs that a script may use."""


def normal_step(step: Any) -> Step:
    """Return a step as the name of its verb and a mapping of keys to values."""
    name, value = (step, None) if isinstance(step, str) else next(iter(step.items()))
    return ("run" if name == "sh" else name), VERBS[name].named(value) or {}


def one_line(value: object) -> str:
    text = str(value) if isinstance(value, Exception | str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 120 else text[:117] + "..."


_OPTIONS: Mapping[str, type] = {
    "prefixes": bool,
    "tool_events": bool,
    "pace_seconds": float,
    "test_command": str,
    "features": str,
    "progress": str,
}
_WHEN: Mapping[str, type] = {
    "prompt_type": str,
    "feature": int,
    "task": str,
    "session": int,
    "round": int,
    "attempt": int,
    "prompt_contains": str,
}
_ENTRY = ("name", "when", "times", "do")


class ScriptError(ConfigurationError):
    """Error: the script is invalid. ``problems`` lists every problem."""

    code = "script"

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        self.problems = [f"{path}: {problem}" for problem in problems]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        hint = f"python -m agent_harness.agents.scripted --check {path}"
        super().__init__(self.problems[0] + more, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOptions:
    prefixes: bool = False  # print [CMD:RUN] and its like
    tool_events: bool = True  # emit tool_call and tool_result events
    pace_seconds: float = 0.0  # wait after each step, for people who watch
    test_command: str | None = None  # for ``evidence``; ``{test_file}`` is replaced
    features: str = "features.json"
    progress: str = "claude-progress.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTurn:
    """Entry of ``turns:`` with its condition, its steps and its maximum number of uses."""

    key: str  # its name, else its index: the key of its uses in the memory
    when: Mapping[str, tuple[Any, ...]]
    times: int | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    path: Path
    options: ScriptOptions
    entries: tuple[ScriptedTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Facts about the current turn. Conditions of script entries are compared with these facts."""

    prompt_type: str = "coding"
    feature: int | None = None
    task: str | None = None
    session: int = 1
    round: int = 0
    attempt: int = 1  # among the sessions on the feature
    prompt: str = field(default="", repr=False)

    def fits(self, when: Mapping[str, tuple[Any, ...]]) -> bool:
        return all(
            any(text in self.prompt for text in wanted) if key == "prompt_contains" else getattr(self, key) in wanted
            for key, wanted in when.items()
        )

    def __str__(self) -> str:
        named = (f"{key}={getattr(self, key)}" for key in _WHEN if key != "prompt_contains")
        return " ".join(pair for pair in named if not pair.endswith("=None"))


def choose(script: Script, occasion: Occasion, uses: Mapping[str, int]) -> ScriptedTurn | None:
    """Return the first entry whose condition is met and that may be used again, or None."""
    for entry in script.entries:
        if (entry.times is None or uses.get(entry.key, 0) < entry.times) and occasion.fits(entry.when):
            return entry
    return None


def load(path: Path) -> Script:
    found = _parsed(path)
    problems = list(_problems(found))
    if problems:
        raise ScriptError(path, problems)
    entries = tuple(_entry(index, item) for index, item in enumerate(found["turns"]))
    return Script(path=path, options=ScriptOptions(**(found.get("agent") or {})), entries=entries)


def _parsed(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptError(path, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ScriptError(path, [f"is not UTF-8: byte {error.start}"]) from error
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ScriptError(path, [f"is not JSON: {one_line(error)}"]) from error
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ScriptError(path, [f"{place}{one_line(error.problem or error.context or 'is not YAML')}"]) from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise ScriptError(path, [f"is not YAML: {one_line(error)}"]) from error


def _entry(index: int, item: Mapping[str, Any]) -> ScriptedTurn:
    wanted = (item.get("when") or {}).items()
    when = {key: tuple(value) if isinstance(value, list) else (value,) for key, value in wanted}
    steps = tuple(normal_step(step) for step in item.get("do") or ())
    return ScriptedTurn(key=item.get("name") or f"#{index}", when=when, times=item.get("times"), steps=steps)


# -- errors ------------------------------------------------------------------------------------------------------------


def _problems(found: Any) -> Iterator[str]:
    if not isinstance(found, dict):
        yield "a script is a mapping with `turns`"
        return
    yield from _unknown("", found, ("agent", "turns"))
    yield from _options(found.get("agent"))
    turns = found.get("turns")
    if not isinstance(turns, list) or not turns:
        yield "turns: a list with at least one entry is missing"
        return
    names: set[str] = set()
    for index, item in enumerate(turns):
        yield from _entry_problems(f"turns[{index}]", item, names)


def _options(options: Any) -> Iterator[str]:
    if options is None:
        return
    if not isinstance(options, dict):
        yield "agent: must be a mapping"
        return
    yield from _unknown("agent", options, _OPTIONS)
    for key, value in options.items():
        if key in _OPTIONS and not _is(value, _OPTIONS[key]):
            yield f"agent.{key}: must be {_called(_OPTIONS[key])}, not {value!r}"


def _entry_problems(place: str, item: Any, names: set[str]) -> Iterator[str]:
    if not isinstance(item, dict):
        yield f"{place}: must be a mapping with `do`"
        return
    yield from _unknown(place, item, _ENTRY)
    yield from _when_problems(f"{place}.when", item.get("when"))
    times, name = item.get("times"), item.get("name")
    if times is not None and (not _is(times, int) or times < 1):
        yield f"{place}.times: must be a whole number of at least 1, not {times!r}"
    if name is not None and (not isinstance(name, str) or name in names):
        yield f"{place}.name: must be a text that no other entry has, not {name!r}"
    names.add(str(name))
    steps = item.get("do")
    if not isinstance(steps, list):
        yield f"{place}.do: a list of steps is missing"
        return
    for index, step in enumerate(steps):
        yield from (f"{place}.do[{index}]{problem}" for problem in _step_problems(step))


def _when_problems(place: str, when: Any) -> Iterator[str]:
    if when is None:
        return
    if not isinstance(when, dict):
        yield f"{place}: must be a mapping"
        return
    yield from _unknown(place, when, _WHEN)
    for key, value in when.items():
        values = value if isinstance(value, list) else [value]
        if key in _WHEN and (not values or not all(_is(one, _WHEN[key]) for one in values)):
            yield f"{place}.{key}: must be {_called(_WHEN[key])} or a list of them, not {value!r}"


def _step_problems(step: Any) -> Iterator[str]:
    if isinstance(step, str):
        name, value = step, None
    elif isinstance(step, dict) and len(step) == 1:
        name, value = next(iter(step.items()))
    else:
        yield f": must be one verb with its value, not {one_line(step)}"
        return
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        yield f": unknown verb {name!r}{_meant(name, VERBS)}"
        return
    yield from (f".{name}{problem}" for problem in verb.problems(value))


def _unknown(place: str, found: Mapping[Any, Any], known: Iterable[str]) -> Iterator[str]:
    for key in found:
        if key not in known:
            yield f"{place}{': ' if place else ''}unknown key {key!r}{_meant(key, known)}"


def _meant(word: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(known)})"


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _called(kind: type) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number of at least 0", str: "a text"}[kind]
