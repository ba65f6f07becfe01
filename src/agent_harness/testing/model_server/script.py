"""Scripts of model answers, and the selection of the next step in a conversation. No state is stored between requests.

A message selects a script by its marker, ``SCRIPT:name``, or by matching the script's ``start`` pattern. The step is
the number of model answers since the last message that selected a script. No state is therefore needed for retries,
resumed sessions, parallel sessions, and sub-agents that have their own marker. Source: ``docs/model-server.md``."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from agent_harness.errors import UsageError

Json = dict[str, Any]
Event = tuple[str | None, Json | str]  # name and content of one server-sent event


@dataclass(frozen=True)
class Message:
    by_model: bool
    text: str = ""  # text of a person or the client; it may hold markers
    output: str = ""  # results of tools


@dataclass(frozen=True)
class ModelAnswer:
    """Response of the model, both as one object and as stream events."""

    whole: Json
    events: Sequence[Event] = field(default=())


def texts(content: object) -> str:
    """Return the text in a message's content, or "" if the content has no text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    found = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, (str, dict))]
    return "\n".join(text for text in found if isinstance(text, str))


def members(body: Mapping[str, Any], name: str) -> list[Json]:
    """Return the objects in the request's list ``name``."""
    listed = body.get(name)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def estimated_tokens(value: object) -> int:
    """Return the estimated number of tokens in ``value``."""
    # one token for every four characters of JSON, at least one
    return max(1, len(json.dumps(value)) // 4)


def new_id(prefix: str) -> str:
    return f"{prefix}{os.urandom(10).hex()}"


MARKER = re.compile(r"SCRIPT:([A-Za-z0-9_-]+)")
COMPACTION = re.compile(r"create a detailed summary of the conversation|CONTEXT CHECKPOINT COMPACTION", re.IGNORECASE)
DEFAULT, END, COMPACT = "@default", "@end", "@compact"


@dataclass(frozen=True, kw_only=True)
class Step:
    blocks: Sequence[Json] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    delay_seconds: float = 0.0  # before the answer begins
    pace_seconds: float = 0.0  # between the events of a stream
    stop_reason: str | None = None
    error: Mapping[str, Any] | None = None
    times: int | None = None  # number of errors in one conversation before the blocks; None: always
    find: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False  # the connection breaks in the middle


@dataclass(frozen=True)
class PromptScript:
    steps: Sequence[Step]
    start: re.Pattern[str] | None = None


Scripts = Mapping[str, PromptScript]


@dataclass(frozen=True)
class Cue:
    script: str | None
    index: int
    step: Step


def choose(scripts: Scripts, turns: Sequence[Message]) -> Cue:
    """Return the script step for the current position in a conversation."""
    # if no step applies, the step of @default, @end or @compact
    name, index = _place(scripts, turns)
    last = next((turn.text for turn in reversed(turns) if not turn.by_model and turn.text), "")
    if COMPACTION.search(last):
        marker = f"SCRIPT:{name}" if name else ""
        return Cue(COMPACT, 0, _only(scripts, COMPACT, f"A summary of the work so far. {marker}"))
    if name is None:
        return Cue(None, 0, _only(scripts, DEFAULT, "ok"))
    if name not in scripts:
        return Cue(name, index, Step(blocks=({"text": f"(there is no script named {name})"},)))
    steps = scripts[name].steps
    return Cue(name, index, steps[index] if index < len(steps) else _only(scripts, END, "(end of the script)"))


def _place(scripts: Scripts, turns: Sequence[Message]) -> tuple[str | None, int]:
    for place in range(len(turns) - 1, -1, -1):
        name = None if turns[place].by_model else _named(scripts, turns[place].text)
        if name is not None:
            speakers = [False, *(turn.by_model for turn in turns[place + 1 :])]
            return name, sum(now and not before for before, now in pairwise(speakers))
    return None, 0


def _named(scripts: Scripts, text: str) -> str | None:
    found = MARKER.findall(text)
    if found:
        return str(found[-1])
    return next((name for name, script in scripts.items() if script.start and script.start.search(text)), None)


def _only(scripts: Scripts, name: str, otherwise: str) -> Step:
    given = scripts.get(name)
    return given.steps[0] if given and given.steps else Step(blocks=({"text": otherwise},))


# The shell tool of each client: its name, the member for the command, and further members.
SHELLS: Mapping[str, tuple[str, Json]] = {
    "Bash": ("command", {"description": "Run the scripted command"}),
    "exec_command": ("cmd", {"yield_time_ms": 30_000}),
    "run_shell_command": ("command", {}),
    "bash": ("command", {}),
    "shell": ("command", {}),
}
_HOLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


class NotFound(Exception):
    """Exception: a pattern in the step's ``find`` does not match the conversation."""


def fill(step: Step, turns: Sequence[Message], body: Mapping[str, Any]) -> Step:
    """Return the step with its placeholders filled in. Raise ``NotFound`` if a pattern does not match."""
    # ${name} becomes the last match of the pattern `name` in `find`, or its first group; an unknown ${name} stays
    # `run` becomes a call of the client's shell tool
    found = {name: _last_match(name, pattern, turns) for name, pattern in step.find.items()}
    blocks = [_with_tool(_filled(block, found), body) for block in step.blocks]
    return replace(step, blocks=blocks)


def _last_match(name: str, pattern: str, turns: Sequence[Message]) -> str:
    for turn in reversed(turns):
        for text in (turn.output, turn.text):
            matches = list(re.finditer(pattern, text))
            if matches:
                return matches[-1].group(1 if matches[-1].re.groups else 0) or ""
    raise NotFound(f"the script looks for {name}, and nothing in the conversation matches {pattern}")


def _filled(value: Any, found: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _HOLE.sub(lambda hole: found.get(hole.group(1), hole.group(0)), value)
    if isinstance(value, list):
        return [_filled(item, found) for item in value]
    if isinstance(value, dict):
        return {name: _filled(item, found) for name, item in value.items()}
    return value


def _with_tool(block: Json, body: Mapping[str, Any]) -> Json:
    if "run" not in block:
        return block
    tools = members(body, "tools")
    functions = [tool.get("function") for tool in tools]
    named = [*tools, *(function for function in functions if isinstance(function, dict))]
    offered = {str(tool.get("name")) for tool in named}
    for name, (member, more) in SHELLS.items():
        if name in offered:
            return {"tool": name, "input": {**more, member: block["run"]}}
    return {"text": f"(this client offers no shell tool for: {block['run']})"}


_NUMBER = (int, float)
STEP_KEYS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "blocks": ((str, dict, list, tuple), "a block or a list of blocks"),
    "usage": ((dict,), "an object of token counts"),
    "delay_seconds": (_NUMBER, "a number"),
    "pace_seconds": (_NUMBER, "a number"),
    "stop_reason": ((str,), "a text"),
    "error": ((dict,), "an object such as {status, message}"),
    "times": ((int,), "a whole number"),
    "find": ((dict,), "an object of patterns by name"),
    "cut": ((bool,), "true or false"),
}
BLOCK_KINDS = ("text", "thinking", "run", "tool")
SAYS = "a text, {text}, {thinking}, {run} or {tool, input}"
DOCS = "see docs/model-server.md"


def read_scripts(given: Mapping[str, Any] | str | Path) -> Scripts:
    """Return the scripts in a JSON file or JSON value. Raise ``UsageError`` if a script is invalid."""
    if isinstance(given, Mapping):
        return _scripts("scripts", given)
    try:
        value = json.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{given} cannot be read: {error.strerror}", hint=DOCS) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{given} is not JSON: {error}", hint=DOCS) from error
    return _scripts(str(given), value)


def _scripts(where: str, value: object) -> Scripts:
    if not isinstance(value, Mapping):
        raise _wrong(where, "must be an object of scripts by name")
    return {str(name): _script(f"{where}: {name}", script) for name, script in value.items()}


def _script(where: str, value: object) -> PromptScript:
    parts: Mapping[str, object] = value if isinstance(value, Mapping) else {"steps": value}
    steps = parts.get("steps")
    if not isinstance(steps, (list, tuple)) or set(parts) - {"start", "steps"}:
        raise _wrong(where, "must be a list of steps, or {start, steps}")
    read = [_step(f"{where}: step {number}", step) for number, step in enumerate(steps)]
    return PromptScript(read, _pattern(f"{where}: start", parts["start"]) if "start" in parts else None)


def _step(where: str, value: object) -> Step:
    if not isinstance(value, Mapping) or any(kind in value for kind in BLOCK_KINDS):
        return Step(blocks=_blocks(where, value))
    for name, given in value.items():
        kinds, words = STEP_KEYS.get(name, ((), f"one of {', '.join(STEP_KEYS)}"))
        if not isinstance(given, kinds):
            raise _wrong(where, f"{name!r} is not {words}")
    if not isinstance(value.get("error", {}).get("status", 500), int):
        raise _wrong(where, "the status of 'error' is not a whole number")
    for name, pattern in value.get("find", {}).items():
        _pattern(f"{where}: find {name}", pattern)
    return Step(**cast("Any", {**value, "blocks": _blocks(where, value.get("blocks", []))}))


def _blocks(where: str, value: object) -> list[Json]:
    return [_block(where, block) for block in (value if isinstance(value, (list, tuple)) else [value])]


def _block(where: str, value: object) -> Json:
    block = {"text": value} if isinstance(value, str) else value
    kinds = [kind for kind in BLOCK_KINDS if isinstance(block, Mapping) and kind in block]
    if not isinstance(block, Mapping) or len(kinds) != 1 or not isinstance(block[kinds[0]], str):
        raise _wrong(where, f"{value!r} is not one of {SAYS}")
    return dict(block)


def _pattern(where: str, value: object) -> re.Pattern[str]:
    try:
        return re.compile(cast("str", value))
    except (re.error, TypeError) as error:
        raise _wrong(where, f"is not a regular expression: {error}") from error


def _wrong(where: str, problem: str) -> UsageError:
    return UsageError(f"{where} {problem}", hint=DOCS)
