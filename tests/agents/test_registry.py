"""The choice of an agent, its order, and the message if no choice is possible."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.command import CommandAgent
from agent_harness.agents.registry import CLIENTS, KINDS, resolve
from agent_harness.agents.scripted import ScriptedAgent
from agent_harness.errors import ConfigurationError, HarnessError, UsageError

NOWHERE = {"PATH": "/nowhere"}


def choose(
    spec: str | None = None, configured: Any = None, environ: dict[str, str] | None = None, root: Path | None = None
) -> Any:
    return resolve(spec, configured=configured, environ=NOWHERE | (environ or {}), root=root)


def test_the_command_line_wins_then_the_environment_then_the_settings() -> None:
    settings = {"kind": "command", "command": ["three"]}
    environ = {"HARNESS_AGENT": "command:two"}
    assert choose("command:one", settings, environ).words == ("one",)
    assert choose(None, settings, environ).words == ("two",)
    assert choose(None, settings).words == ("three",)


def test_words_are_split_as_a_shell_would() -> None:
    agent = choose("command:python3 'my agent.py' --say \"a b\"")
    assert isinstance(agent, CommandAgent)
    assert agent.words == ("python3", "my agent.py", "--say", "a b")


def test_the_settings_may_be_a_text_or_a_mapping() -> None:
    assert choose(None, "command:one two").words == ("one", "two")
    assert choose(None, {"kind": "command", "command": "one two"}).words == ("one", "two")
    assert choose(None, {"kind": "command", "command": ["one two"]}).words == ("one two",)


def test_settings_of_an_agent_can_be_given_where_a_specification_can() -> None:
    """A task list has no other settings for them, and a Codex that cannot make its sandbox needs one."""
    assert choose(json.dumps({"kind": "command", "command": ["one two"]})).words == ("one two",)
    loose = '{"kind": "codex", "sandbox": "danger-full-access"}'
    assert choose(None, environ={"HARNESS_AGENT": loose}).settings.sandbox == "danger-full-access"


def test_a_script_of_the_settings_is_relative_to_the_project(tmp_path: Path) -> None:
    agent = choose(None, {"kind": "scripted", "script": "play.yaml"}, root=tmp_path)
    assert isinstance(agent, ScriptedAgent)
    assert agent.script == tmp_path / "play.yaml"


def test_a_script_of_the_command_line_is_relative_to_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert choose("scripted:play.yaml").script == tmp_path / "play.yaml"


def test_the_first_client_on_path_is_taken(tmp_path: Path) -> None:
    for client in reversed(list(CLIENTS)):
        program = tmp_path / client
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert choose(environ={"PATH": str(tmp_path)}).name == CLIENTS[client]


def test_nothing_chosen_and_nothing_found() -> None:
    with pytest.raises(UsageError) as caught:
        choose()
    assert all(program in caught.value.message for program in CLIENTS)
    assert "npm install" in (caught.value.hint or "")
    assert "harness demo" in (caught.value.hint or "")
    assert "--agent 'command:" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("key", "spec"), [("ANTHROPIC_API_KEY", "--agent api"), ("OPENAI_API_KEY", "--agent api:openai/MODEL")]
)
def test_with_only_a_key_the_agent_that_needs_no_more_is_named(key: str, spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(environ={key: "sk-secret"})
    assert caught.value.hint == spec
    assert key in caught.value.message
    assert "sk-secret" not in caught.value.message


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("claude", "claude-code"),
        ("claude_code", "claude-code"),
        ("Codex", "codex"),
        ("gemini", "acp:gemini"),
        ("comand:x", "command"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(word: str, kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(word)
    assert f"did you mean {kind}?" in caught.value.message
    assert caught.value.hint == f"--agent {kind}"


WRONG: list[tuple[Any, Any, type[HarnessError], str]] = [
    ("gemini:x", None, UsageError, "unknown kind of agent 'gemini'"),
    ("", None, UsageError, "unknown kind"),
    ("command", None, UsageError, "command:WORDS"),
    ("command:", None, UsageError, "command:WORDS"),
    ("command:''", None, UsageError, "contains no command"),
    ("command:a 'b", None, UsageError, "cannot be split"),
    ("scripted", None, UsageError, "scripted:FILE"),
    ("{kind: codex}", None, UsageError, "is not a JSON object"),
    ('{"kind": "nope"}', None, ConfigurationError, "unknown kind of agent 'nope'"),
    (None, {"command": ["x"]}, ConfigurationError, "agent.kind is missing"),
    (None, {"kind": 3}, ConfigurationError, "agent.kind is missing"),
    (None, {"kind": "nope"}, ConfigurationError, "unknown kind of agent 'nope'"),
    (None, {"kind": "command"}, ConfigurationError, "agent.command must be a string or a list"),
    (None, {"kind": "command", "command": []}, ConfigurationError, "agent.command must be a string or a list"),
    (None, {"kind": "command", "command": ["x", 3]}, ConfigurationError, "agent.command must be a string or a list"),
    (None, {"kind": "command", "command": ["x"], "shell": True}, ConfigurationError, "agent.shell"),
    (None, {"kind": "scripted"}, ConfigurationError, "agent.script"),
    (None, {"kind": "scripted", "script": "x", "command": []}, ConfigurationError, "agent.command"),
]


@pytest.mark.parametrize(("spec", "configured", "error", "text"), WRONG)
def test_a_wrong_choice_is_one_clear_line(spec: Any, configured: Any, error: type[HarnessError], text: str) -> None:
    with pytest.raises(error) as caught:
        choose(spec, configured)
    assert text in caught.value.message
    assert "\n" not in caught.value.message


def says_the_way_out(error: HarnessError) -> None:
    assert all(kind in error.message for kind in KINDS)
    assert "harness demo" in (error.hint or "")
    assert "--agent 'command:" in (error.hint or "")
