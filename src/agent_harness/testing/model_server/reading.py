"""Scripts read from JSON and checked: a mistake is found before a client runs into it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from agent_harness.errors import UsageError
from agent_harness.testing.model_server.conversation import Json
from agent_harness.testing.model_server.script import PromptScript, Scripts, Step

__all__ = ["read_scripts"]

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
    """Scripts from their JSON file, or from the same as values. ``UsageError`` names file, script and step."""
    if isinstance(given, Mapping):
        return _scripts("scripts", given)
    try:
        value = json.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{given} cannot be read: {error.strerror}", hint=DOCS) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{given} is no JSON: {error}", hint=DOCS) from error
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
        raise _wrong(where, f"is no regular expression: {error}") from error


def _wrong(where: str, problem: str) -> UsageError:
    return UsageError(f"{where} {problem}", hint=DOCS)
