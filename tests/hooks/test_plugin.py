"""The plugin: its manifests agree with the package, and its commands run the plugin's scripts."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import agent_harness
from hooks.lists import SCRIPTS, make, task

PLUGIN = SCRIPTS.parent
HOOKS: dict[str, Any] = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]


def test_the_manifests_name_the_version_of_the_package() -> None:
    plugin = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    market = json.loads((PLUGIN / ".claude-plugin" / "marketplace.json").read_text())
    (listed,) = market["plugins"]
    assert plugin["version"] == listed["version"] == agent_harness.__version__
    assert plugin["name"] == listed["name"] == "harness"
    assert (PLUGIN / listed["source"]).resolve() == PLUGIN.resolve()


def test_the_marketplace_of_the_repository_names_the_same_plugin() -> None:
    root = Path(__file__).parents[2]
    (listed,) = json.loads((root / ".claude-plugin" / "marketplace.json").read_text())["plugins"]
    plugin = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    assert {name: listed[name] for name in ("name", "version", "description")} == {
        name: plugin[name] for name in ("name", "version", "description")
    }
    assert (root / listed["source"]).resolve() == PLUGIN.resolve()


def test_every_event_of_the_specification_is_registered() -> None:
    assert sorted(HOOKS) == ["SessionStart", "Stop", "SubagentStop", "TeammateIdle"]
    assert HOOKS["SessionStart"][0]["matcher"] == "startup|resume|clear|compact"
    assert {hook["timeout"] for groups in HOOKS.values() for group in groups for hook in group["hooks"]} == {10}


@pytest.mark.parametrize("event", HOOKS)
def test_each_command_runs_its_script_and_nothing_once_that_is_gone(event: str, tmp_path: Path) -> None:
    root = make(tmp_path / "a list", task(1), task(2, "in_progress"))
    (hook,) = HOOKS[event][0]["hooks"]
    given = json.dumps({"hook_event_name": event, "session_id": "s", "teammate_name": "w"}).encode()

    def run(plugin: Path) -> subprocess.CompletedProcess[bytes]:
        env = {**os.environ, "CLAUDE_PLUGIN_ROOT": str(plugin)}
        return subprocess.run(
            ["sh", "-c", hook["command"]], cwd=root, env=env, input=given, capture_output=True, check=False
        )

    (tmp_path / "with a blank").symlink_to(PLUGIN)
    assert run(tmp_path / "with a blank").stdout
    gone = run(tmp_path / "gone")
    assert (gone.returncode, gone.stdout, gone.stderr) == (0, b"", b"")
