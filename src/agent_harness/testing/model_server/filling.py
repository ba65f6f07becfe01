"""A step made ready for one request: what it looks for in the conversation, and the client's own shell tool."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_harness.testing.model_server.conversation import Json, Message, members
from agent_harness.testing.model_server.script import Step

__all__ = ["NotFound", "fill"]

# The shell tool of each client: its name, the member that holds the command, and what else to send.
SHELLS: Mapping[str, tuple[str, Json]] = {
    "Bash": ("command", {"description": "Run the scripted command"}),
    "exec_command": ("cmd", {"yield_time_ms": 30_000}),
    "run_shell_command": ("command", {}),
    "bash": ("command", {}),
    "shell": ("command", {}),
}
_HOLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


class NotFound(Exception):
    """A pattern of the step's ``find`` is nowhere in the conversation."""


def fill(step: Step, turns: Sequence[Message], body: Mapping[str, Any]) -> Step:
    """The step with ``${name}`` replaced by what ``find`` found last, and ``run`` by the client's shell tool.

    Of a pattern with a group, the first group counts. A ``${name}`` that ``find`` does not name stays as it is.
    Raises ``NotFound``.
    """
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
    offered = _tool_names(body)
    for name, (member, more) in SHELLS.items():
        if name in offered:
            return {"tool": name, "input": {**more, member: block["run"]}}
    return {"text": f"(this client offers no shell tool for: {block['run']})"}


def _tool_names(body: Mapping[str, Any]) -> set[str]:
    tools = members(body, "tools")
    functions = [tool.get("function") for tool in tools]
    named = [*tools, *(function for function in functions if isinstance(function, dict))]
    return {str(tool.get("name")) for tool in named}
