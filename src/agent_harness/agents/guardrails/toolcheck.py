"""Check of a client's tool call against the guard rails. (UAH-444, C32)

The module is also a program. Clients that run a hook before each tool call run this file with the bare interpreter. The
program reads the call on standard input and answers in the hook's format. It refuses a call that it cannot read."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # `python -S -E toolcheck.py RULES`: the package is found beside this file
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from agent_harness.agents.base import ToolRules
from agent_harness.agents.guardrails import check_command, check_path

COMMANDS = ("command", "cmd")
"""Input fields of a tool that contain a shell command."""
PATHS = ("file_path", "notebook_path", "path")
"""Input fields of a tool that contain the path of a file or folder."""
READERS = frozenset({"Read", "Glob", "Grep", "LS", "view_image"})
"""File tools that only read. Every other tool with a path is assumed to write."""
FILE_TOOLS = ("Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep")


def refusal(tool: str, given: Mapping[str, object], root: Path, rules: ToolRules) -> str | None:
    """Return the reason to refuse a tool call, or None if the call is allowed."""
    # MCP tools are not checked
    if tool.startswith("mcp__"):
        return None
    if tool in FILE_TOOLS and not rules.filesystem_enabled:
        return "file tools are disabled in this project (tools.filesystem.enabled)"
    for name in COMMANDS:
        command = given.get(name)
        if isinstance(command, list):
            command = shlex.join(str(word) for word in command)
        if isinstance(command, str) and (why := check_command(command, root, rules)):
            return why
    for name in PATHS:
        path = given.get(name)
        if isinstance(path, str) and (why := check_path(path, root, rules, write=tool not in READERS)):
            return why
    return None


# ---- as a hook


def hook_command(root: Path, rules: ToolRules) -> str:
    """Return the shell command of the hook that checks a client's tool calls in ``root``."""
    record: dict[str, Any] = {**asdict(rules), "mcp_servers": {}}
    told = json.dumps({"root": str(root), "rules": record})
    return shlex.join([sys.executable, "-S", "-E", str(Path(__file__).resolve()), told])


def hook_answer(call: str, told: str) -> str:
    """Return the answer of the hook ``PreToolUse`` that refuses a call, or "" if the call is allowed."""
    # ``told`` holds the root and the rules as JSON
    try:
        given, settings = json.loads(call), json.loads(told)
        rules: dict[str, Any] = settings["rules"]
        frozen: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in rules.items()}
        why = refusal(given["tool_name"], given["tool_input"], Path(settings["root"]), ToolRules(**frozen))
    except Exception as error:  # a hook that dies lets the tool run
        why = f"the tool call cannot be parsed: {type(error).__name__}"
    if why is None:
        return ""
    decided = {"permissionDecision": "deny", "permissionDecisionReason": f"agent-harness: {why}"}
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **decided}})


if __name__ == "__main__":
    sys.stdout.write(hook_answer(sys.stdin.read(), sys.argv[1]))
