"""Checks of a client's tool calls by the guard rails, as a function and as the hook that clients run."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.base import ToolRules
from agent_harness.agents.guardrails.toolcheck import hook_command, refusal

RULES = ToolRules()
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "sudo ls"}),
    ("Bash", {"command": "cd src && rm -rf /"}),
    ("exec_command", {"cmd": "sudo ls"}),
    ("shell", {"command": ["sudo", "ls"]}),
    ("Monitor", {"command": "sudo ls"}),
    ("Write", {"file_path": "/etc/passwd", "content": ""}),
    ("Write", {"file_path": ".git/config", "content": ""}),
    ("Edit", {"file_path": "../other/x.py"}),
    ("NotebookEdit", {"notebook_path": "/etc/x.ipynb"}),
    ("Read", {"file_path": "/etc/passwd"}),
]
ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "python -m pytest tests -v && git commit -qam done"}),
    ("Write", {"file_path": "src/calc.py", "content": "sudo"}),
    ("Read", {"file_path": "src/calc.py"}),
    ("Glob", {"pattern": "**/*.py"}),
    ("Task", {"prompt": "sudo make me a sandwich"}),
    ("mcp__db__query", {"path": "/", "command": "sudo"}),
]


@pytest.mark.parametrize(("tool", "given"), REFUSED, ids=str)
def test_what_is_refused(tool: str, given: dict[str, Any], tmp_path: Path) -> None:
    """UAH-208, UAH-211, UAH-444, C32."""
    assert refusal(tool, given, tmp_path, RULES)


@pytest.mark.parametrize(("tool", "given"), ALLOWED, ids=str)
def test_what_is_allowed(tool: str, given: dict[str, Any], tmp_path: Path) -> None:
    assert refusal(tool, given, tmp_path, RULES) is None


def test_tools_that_are_switched_off(tmp_path: Path) -> None:
    """UAH-206, UAH-209."""
    assert refusal("Glob", {"pattern": "*"}, tmp_path, ToolRules(filesystem_enabled=False))
    assert refusal("Bash", {"command": "ls"}, tmp_path, ToolRules(shell_enabled=False))


def asked(call: str, root: Path) -> dict[str, Any]:
    """Return the hook's answer, as the client would get it: through a shell, from a folder below the project."""
    below = root / "sub dir"
    below.mkdir(exist_ok=True)
    done = subprocess.run(
        ["sh", "-c", hook_command(root, RULES)],
        input=call,
        cwd=below,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return answer


def test_the_hook_denies_and_lets_pass(tmp_path: Path) -> None:
    """UAH-444: the answer is the client's own word for a refusal; without a refusal it is empty."""
    answer = asked(json.dumps({"tool_name": "Bash", "tool_input": {"command": "sudo ls"}}), tmp_path)
    decided = answer["hookSpecificOutput"]
    assert (decided["hookEventName"], decided["permissionDecision"]) == ("PreToolUse", "deny")
    assert "sudo" in decided["permissionDecisionReason"]
    assert asked(json.dumps({"tool_name": "Read", "tool_input": {"file_path": "a.py"}}), tmp_path) == {}


@pytest.mark.parametrize("call", ["", "no json", "[]", '{"tool_name": "Bash"}', '{"tool_name": 3, "tool_input": 4}'])
def test_a_call_that_cannot_be_read_is_refused(call: str, tmp_path: Path) -> None:
    assert asked(call, tmp_path)["hookSpecificOutput"]["permissionDecision"] == "deny"
