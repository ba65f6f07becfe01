"""The tools of the api agent: offered as the settings say, limited, and refused by the guard rails."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.api.tools import ToolAnswer, own_tools
from agent_harness.agents.base import Brief, ToolRules


def tools(root: Path, rules: ToolRules) -> Mapping[str, Any]:
    brief = Brief(prompt="", cwd=root, session=1, prompt_type="coding", tools=rules)
    return {tool.name: tool for tool in own_tools(brief, lambda: False)}


def call(root: Path, name: str, rules: ToolRules | None = None, **given: Any) -> ToolAnswer:
    return asyncio.run(tools(root, rules or ToolRules())[name].run(given))


def test_tools_are_offered_unless_they_are_switched_off(tmp_path: Path) -> None:
    """UAH-206, UAH-209, UAH-443."""
    assert {"shell", "read_file", "write_file"} <= set(tools(tmp_path, ToolRules()))
    assert set(tools(tmp_path, ToolRules(filesystem_enabled=False))) == {"shell"}
    assert "shell" not in tools(tmp_path, ToolRules(shell_enabled=False))


def test_a_command_is_ended_at_its_limit(tmp_path: Path) -> None:
    """UAH-210, UAH-445: also if the model asks for more time."""
    rules = ToolRules(shell_timeout_seconds=1)
    answer = call(tmp_path, "shell", rules, command="echo begun; sleep 600; echo never", timeout_seconds=500)
    assert answer.is_error
    assert "begun" in answer.text
    assert "ended after 1 seconds" in answer.text
    assert "never" not in answer.text


def test_what_the_guard_rails_refuse_is_answered_with_the_reason(tmp_path: Path) -> None:
    """UAH-211, UAH-444, UAH-529, UAH-530, C32: nothing of it happens."""
    (tmp_path / "project").mkdir()
    (tmp_path / "kept").mkdir()
    root = tmp_path / "project"
    refused = call(root, "shell", command="sudo ls; touch ran")
    assert (refused.is_error, refused.text) == (True, "Refused: agents may not run sudo")
    assert not (root / "ran").exists()
    try:
        answer = call(root, "write_file", path="../kept/file", content="x")
    except PermissionError as error:
        assert "outside" in str(error)
    else:
        assert answer.is_error
    assert list((tmp_path / "kept").iterdir()) == []
