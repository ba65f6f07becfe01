"""Which agents there are: programs on PATH, versions, logins by their traces, extras."""

import json
import os
from pathlib import Path

import pytest

from agent_harness.agents import discovery
from agent_harness.cli import app


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: A001
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    for name in discovery.KEYS:
        monkeypatch.delenv(name, raising=False)
    return folder


def one(spec: str) -> discovery.FoundAgent:
    return next(each for each in discovery.agents(os.environ) if each.spec == spec)


def test_a_client_is_found_with_its_version_and_what_it_can_do(bin: Path) -> None:  # noqa: A002
    assert not one("claude-code").ready
    assert one("claude-code").problem == "claude is not on PATH"
    path = program(bin, "claude", "echo '2.1.330 (Claude Code)'; echo more")
    there = one("claude-code")
    assert (there.program, there.version, there.ready) == (str(path), "2.1.330 (Claude Code)", True)
    assert {"steer", "interrupt", "usage"} <= set(there.can)


def test_a_login_shows_by_a_variable_or_a_file_and_never_by_its_content(
    bin: Path,  # noqa: A002
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    program(bin, "codex", "echo codex-cli 1.0")
    assert one("codex").login == "not seen"
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    (tmp_path / "auth.json").touch()
    assert one("codex").login == "not seen"
    (tmp_path / "auth.json").write_text('{"token": "sk-hidden"}')
    assert one("codex").login == f"login in {tmp_path / 'auth.json'}"
    program(bin, "gemini", "exit 1")
    monkeypatch.setenv("GEMINI_API_KEY", "sk-hidden")
    assert one("acp:gemini").login == "key in GEMINI_API_KEY"
    assert one("acp:gemini").version is None
    assert "hidden" not in json.dumps([each.as_json() for each in discovery.agents(os.environ)])


def test_a_program_that_hangs_is_ended_with_what_it_started(bin: Path, tmp_path: Path) -> None:  # noqa: A002
    pid = tmp_path / "pid"
    path = program(bin, "claude", f"sleep 1000 & echo $! > {pid}; wait")
    assert discovery.version_of(str(path), timeout_seconds=3.0) is None
    if pid.exists():  # else it was ended before it came so far
        assert not Path(f"/proc/{pid.read_text().strip()}").exists()


ODD = [
    ("exit 3", None),
    ("true", None),
    ("printf 'a\\033[31mb\\n'", "a[31mb"),
    ("head -c 100000 /dev/zero", None),
    ("echo 'WARNING: no alias in /tmp/1.5'; echo 'codex-cli 0.169.0'", "codex-cli 0.169.0"),
]


@pytest.mark.parametrize(("text", "version"), ODD)
def test_odd_answers_are_no_trouble(bin: Path, text: str, version: str | None) -> None:  # noqa: A002
    assert discovery.version_of(str(program(bin, "claude", text))) == version


def test_who_is_chosen_and_by_whose_word(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: A002
    none = discovery.chosen(os.environ, None, None)
    assert none["kind"] is None and none["problem"] and none["hint"]
    program(bin, "codex", "true")
    assert discovery.chosen(os.environ, None, None)["kind"] == "codex"
    settings = {"kind": "command", "command": ["no-such-program-here"]}
    by_file = discovery.chosen(os.environ, settings, None)
    assert (by_file["kind"], by_file["source"]) == ("command", "agent: in .harness.yaml")
    assert "no-such-program-here" in by_file["problem"]
    monkeypatch.setenv("HARNESS_AGENT", "command:true")
    assert discovery.chosen(os.environ, settings, None)["source"] == "HARNESS_AGENT"


def test_the_command_shows_it_to_people_and_programs(
    bin: Path,  # noqa: A002
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    program(bin, "claude", "echo 9.9.9")
    assert app.main(["agents"]) == 0
    said = capsys.readouterr().out
    assert "ok  claude-code            9.9.9" in said
    assert "--  not here:              codex, acp:gemini" in said
    assert "A run takes: claude-code (by the first client on PATH)" in said
    assert app.main(["agents", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["keys"] == ["OPENAI_API_KEY"]
    assert {each["name"] for each in told["extras"]} == {"api", "acp", "github"}
    assert told["chosen"]["kind"] == "claude-code"
    assert "hidden" not in said + json.dumps(told)
