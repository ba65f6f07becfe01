"""Discovery of agents: programs on PATH, versions, logins by their traces, extras."""

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


CLAUDE = 'case "$*" in --version) echo "{version} (Claude Code)";; "auth status") echo \'{said}\';; *) exit 9;; esac'
CODEX_SAYS = 'case "$*" in --version) echo codex-cli 0.169.0;; "login status") echo "{said}" >&2; exit {code};; esac'


@pytest.mark.parametrize(
    ("name", "text", "spec", "signed_in", "words"),
    [
        (
            "claude",
            CLAUDE.format(version="2.1.330", said='{ "loggedIn": true }'),
            "claude-code",
            True,
            "signed in (rep",
        ),
        (
            "claude",
            CLAUDE.format(version="2.1.330", said='{ "loggedIn": false }'),
            "claude-code",
            False,
            "not signed in (reported by the program)",
        ),
        ("claude", CLAUDE.format(version="2.1.330", said="{}"), "claude-code", None, "sign-in unknown (not seen)"),
        (
            "codex",
            CODEX_SAYS.format(said="Logged in using ChatGPT", code=0),
            "codex",
            True,
            "signed in (reported by the program)",
        ),
        (
            "codex",
            CODEX_SAYS.format(said="Not logged in", code=1),
            "codex",
            False,
            "not signed in (reported by the program)",
        ),
        ("codex", CODEX_SAYS.format(said="Error checking login status", code=1), "codex", None, "sign-in unknown"),
        ("opencode", "echo opencode 1.2.3", "acp:opencode", None, "sign-in unknown"),
    ],
)
def test_whether_a_client_is_signed_in_is_what_it_says_and_else_unknown(
    bin: Path,  # noqa: A002
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    spec: str,
    signed_in: bool | None,
    words: str,
) -> None:
    for variable in discovery.LOGINS["claude"].variables:
        monkeypatch.delenv(variable, raising=False)
    program(bin, name, text)
    there = one(spec)
    assert there.signed_in is signed_in
    assert there.signing_in.startswith(words)
    assert (there.sign_in or "").startswith(name) == (signed_in is False)
    assert app.main(["agents", "--json"]) == 0
    (row,) = [each for each in json.loads(capsys.readouterr().out)["agents"] if each["spec"] == spec]
    assert row["signed_in"] is signed_in


def test_what_is_older_than_what_is_known_to_work_is_said_and_not_asked(
    bin: Path,  # noqa: A002
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """An old client may take a later client's sign-in command for a prompt."""
    monkeypatch.chdir(tmp_path)
    for variable in discovery.LOGINS["claude"].variables:
        monkeypatch.delenv(variable, raising=False)
    program(bin, "claude", f"echo \"$*\" >> {tmp_path}/asked; echo '2.0.9 (Claude Code)'")
    there = one("claude-code")
    assert (there.too_old, there.oldest, there.signed_in) == (True, discovery.OLDEST["claude"], None)
    assert (tmp_path / "asked").read_text() == "--version\n"
    assert app.main(["agents"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"2.0.9 (Claude Code) is too old; the oldest supported version is {there.oldest}; sign-in unknown (not seen)"
        in said
    )
    app.main(["doctor", "--json"])
    rows = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert rows["version"]["mend"] == "npm install -g @anthropic-ai/claude-code"
    program(bin, "claude", f"echo '{there.oldest} (Claude Code)'")
    assert one("claude-code").too_old is False
    program(bin, "opencode", "echo 0.0.1")
    assert one("acp:opencode").too_old is None


def test_a_provider_of_the_user_s_own_needs_no_login_of_codex(
    bin: Path,  # noqa: A002
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    program(bin, "codex", CODEX_SAYS.format(said="Not logged in", code=1))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    provider = 'model_provider = "own"\n[model_providers.own]\nname = "own"\n'
    (tmp_path / "config.toml").write_text(provider)
    assert one("codex").signing_in == "sign-in unknown (a custom provider)"
    (tmp_path / "config.toml").write_text(f'{provider}env_key = "OWN_KEY"\n')
    assert one("codex").signed_in is False
    monkeypatch.setenv("OWN_KEY", "sk-hidden")
    assert one("codex").signing_in == "signed in (key in OWN_KEY)"


@pytest.mark.exhaustive
@pytest.mark.scenario
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
    assert "A run uses: claude-code (source: the first client on PATH)" in said
    assert app.main(["agents", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["keys"] == ["OPENAI_API_KEY"]
    assert {each["name"] for each in told["extras"]} == {"api", "acp", "github", "notify", "otel", "serve", "temporal"}
    assert told["chosen"]["kind"] == "claude-code"
    assert "hidden" not in said + json.dumps(told)
