"""The contract of an agent, kept by the adapters of the real clients; and what only the real ones can show."""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import claude_code, codex
from agent_harness.agents.base import Agent, Brief, McpServer, ToolRules
from agent_harness.agents.events import Event, Finished, Text, ToolResult, Usage
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process
from agent_harness.testing import write_tool_server
from agent_harness.testing.agent_conformance import WORD, check_agent, events_of
from agent_harness.testing.repo import Repo

from .client import SCRIPTS, ClaudeCode, Client, Codex

pytestmark = [pytest.mark.client, pytest.mark.timeout(900)]

MARK = "conformance-7391"
USAGE = {"input_tokens": 1000, "cached_tokens": 500, "output_tokens": 70}
PLAYS: dict[str, list[Any]] = {
    "answer": [f"You said {MARK}."],
    "fail": [{"error": {"status": 400, "message": "no such thing"}}],
    "hang": [[{"text": "hanging"}, {"run": "until test -e never; do sleep 0.1; done"}], "It is over."],
    "count": [{"blocks": {"run": "echo one"}, "usage": USAGE}, {"blocks": "Done.", "usage": USAGE}],
    "listen": [
        [{"text": "ready"}, {"run": "until test -e go-on; do sleep 0.1; done"}],
        {"run": "true; sleep 1"},  # the message is on its way to the model
        {"run": "true; sleep 1"},
        {"find": {"word": WORD}, "blocks": "I was told ${word}."},
    ],
}
ANSWER = "def answer(name, given):\n    return os.environ['ANSWER']"
Make = Callable[..., Agent]


@pytest.fixture
def agent(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Our adapter of the client, which it starts beside the model server."""
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in client.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HARNESS_SANDBOX", "off")  # its program enters another network, which no sandbox lets it do
    if isinstance(client, Codex):
        client.configure(tmp_path)
    count = 0

    def make(*before: str, **settings: Any) -> Agent:
        nonlocal count
        count += 1
        program = tmp_path / f"client-{count}"
        words = shlex.join(client.island.beside([*before, client.program]))
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)
        if isinstance(client, ClaudeCode):
            chosen = claude_code.ClaudeCodeSettings(program=str(program), model="claude-sonnet-4-6", **settings)
            return claude_code.ClaudeCodeAgent(chosen)
        return codex.CodexAgent(codex.CodexSettings(program=str(program), **settings))

    return make


def brief_in(folder: Path, **more: Any) -> Brief:
    folder.mkdir(exist_ok=True)
    given: dict[str, Any] = {"prompt": "SCRIPT:play", "session": 1, "prompt_type": "coding"}
    return Brief(cwd=folder, run_id=os.urandom(16).hex(), **(given | more))


def played(agent: Agent, brief: Brief) -> list[Event]:
    turn = agent.start(brief)
    try:
        return events_of(turn, seconds=240)
    finally:
        turn.stop()


def test_the_contract_of_an_agent(client: Client, agent: Make) -> None:
    """Every clause that a real client can be made to show: order, exact tokens, messages, interrupts, ends by force."""

    def make(behaviour: str) -> Agent | None:
        if behaviour not in PLAYS:
            return None
        client.island.script("play", PLAYS[behaviour], start=MARK)
        return agent()

    checked = check_agent(make)
    assert "a message reaches the running turn, if that is declared" in checked
    assert len(checked) == 14


def test_the_guard_rails_hold_inside_the_client(client: Client, agent: Make, tmp_path: Path) -> None:
    """UAH-444, C32: the command is not run, and the model hears why."""
    tools = ToolRules(denied_commands=("touch forbidden",))
    client.island.script("play", [{"run": "touch forbidden"}, {"run": "touch allowed"}, "I give up."])
    events = played(agent(), brief_in(tmp_path / "project", tools=tools))
    assert events[-1] == Finished(exit_code=0)
    assert not (tmp_path / "project" / "forbidden").exists()
    assert (tmp_path / "project" / "allowed").exists()
    assert [event.is_error for event in events if isinstance(event, ToolResult)] == [True, False]
    assert "touch forbidden" in json.dumps(
        client.island.conversations()[-1]["messages" if is_claude(client) else "input"]
    )


def is_claude(client: Client) -> bool:
    return isinstance(client, ClaudeCode)


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_the_model_does_not_get_out_of_the_sandbox(client: Client, agent: Make, tmp_path: Path) -> None:
    """A command that is to run without the sandbox is refused, also in a conversation that is gone on with."""
    out = {"tool": "exec_command", "input": {"cmd": "touch escaped", "sandbox_permissions": "require_escalated"}}
    client.island.script("play", [out, {"run": "touch allowed"}, "I give up."])
    turn = agent().start(brief_in(tmp_path / "project"))
    events_of(turn, seconds=240)
    turn.stop()
    (tmp_path / "project" / "allowed").unlink()
    played(agent(), brief_in(tmp_path / "project", conversation=turn.conversation))
    assert (tmp_path / "project" / "allowed").exists()
    assert not (tmp_path / "project" / "escaped").exists()


@pytest.mark.parametrize("client", ["claude-code"], indirect=True)
def test_sub_agents_are_counted_to_the_last_token(client: Client, agent: Make, tmp_path: Path) -> None:
    """UAH-415: a sub-agent works in the background, and the turn ends when its report was heard."""
    told = {"description": "look", "prompt": "SCRIPT:sub", "subagent_type": "general-purpose"}
    client.island.script(
        "play",
        [
            {"blocks": {"tool": "Agent", "input": told}, "usage": USAGE},
            {"blocks": "I wait.", "usage": USAGE},
            {"blocks": "Now I know.", "usage": USAGE},
        ],
    )
    client.island.script(
        "sub", [{"blocks": {"run": "sleep 1; echo inner"}, "usage": USAGE}, {"blocks": "x", "usage": USAGE}]
    )
    events = played(agent(), brief_in(tmp_path / "project"))
    assert events[-1] == Finished(exit_code=0)
    used = [event for event in events if isinstance(event, Usage)]
    calls = len(client.island.conversations())
    assert calls >= 5
    assert sum(event.input_tokens for event in used) == sum_of(client, "input_tokens")
    assert sum(event.output_tokens for event in used) == sum_of(client, "output_tokens")


def sum_of(client: Client, name: str) -> int:
    """What the server has given out: every step that the scripts play has the same usage."""
    played = [asked for asked in client.island.requests() if "script" in asked]
    return USAGE[name] * len(played)


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_no_folder_becomes_trusted_by_being_worked_in(client: Client, agent: Make, tmp_path: Path) -> None:
    """The user's settings stay as they were, and what a repository brings along for the client does not hold."""
    config = client.home / ".codex" / "config.toml"
    config.write_text(config.read_text().partition("[projects.")[0])
    before = config.read_bytes()
    made = agent()
    repo = Repo(tmp_path / "a.project").write("README.md", "A project.\n")
    started = tmp_path / "started"
    brought = f'[mcp_servers.brought]\ncommand = "touch"\nargs = ["{started}"]\n'
    repo.write(".codex/config.toml", brought).commit("First")
    for place in (repo.path, repo.path / "part"):
        client.island.script("play", [{"run": "touch done"}, "It is done."])
        assert played(made, brief_in(place))[-1] == Finished(exit_code=0)
        assert (place / "done").exists()
        assert config.read_bytes() == before
        assert not started.exists()


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_hooks_that_are_taken_out_leave_the_settings_as_they_were(client: Client, tmp_path: Path) -> None:
    """Also the hashes by which Codex trusted them, written by Codex itself."""
    repo = Repo(tmp_path / "a.project").write("README.md", "A project.\n")
    repo.commit("First")
    assert isinstance(client, Codex)
    client.configure(repo.path)
    settings = client.home / ".codex" / "config.toml"
    before = settings.read_bytes()
    client.install_our_hooks(repo.path)
    assert settings.read_text().count("trusted_hash") == 3
    words = [str(SCRIPTS / "harness"), "hooks", "uninstall", "--client", "codex", "--project"]
    done = process.run(words, cwd=repo.path, env=client.env, timeout_seconds=60)
    assert done.exit_code == 0, done.output
    assert settings.read_bytes() == before


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_commands_of_the_model_have_the_path_of_the_harness(
    client: Client, agent: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the profile of a login shell sets another one, as that of Debian does."""
    (client.home / ".profile").write_text("export PATH=/usr/bin:/bin\n")
    program = tmp_path / "activated" / "only-here"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch found\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    client.island.script("play", [{"run": "only-here"}, "It is done."])
    assert played(agent(), brief_in(tmp_path / "project"))[-1] == Finished(exit_code=0)
    assert (tmp_path / "project" / "found").exists()


@pytest.mark.parametrize("client", ["codex"], indirect=True)
@pytest.mark.parametrize(("bent", "state"), [(False, "ok"), (True, "wrong")])
def test_doctor_proves_the_path_of_commands(client: Client, tmp_path: Path, bent: bool, state: str) -> None:
    """Without the user's model, and without a trace: Codex runs a command for a scripted model on loopback."""
    (client.home / ".profile").write_text("export PATH=/usr/bin:/bin\n")
    settings = client.home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('[shell_environment_policy]\nset = { PATH = "/usr/bin:/bin" }\n' if bent else "")
    words = client.island.beside([str(SCRIPTS / "harness"), "doctor", "--json"])
    env = {**client.env, "HARNESS_AGENT": "codex"}
    done = process.run(words, cwd=tmp_path, env=env, timeout_seconds=120)
    (row,) = [each for each in json.loads(done.output)["checks"] if each["name"] == "codex PATH"]
    assert row["state"] == state, row
    assert ("finds python3 at /usr/bin/python3, but the harness finds it at" in row["message"]) == bent
    left = {each.name for each in settings.parent.iterdir()}
    assert left - {"tmp"} == {settings.name}  # there it makes its helper programs, at each start
    assert client.island.requests() == []


def test_the_client_says_whether_it_is_signed_in(client: Client, tmp_path: Path) -> None:
    """Asked without a network, and believed: once it is not, and once it is."""
    path = os.pathsep.join([str(SCRIPTS), str(Path(client.program).parent), "/usr/bin:/bin"])
    home = {"HOME": str(client.home), "PATH": path, "LC_ALL": "C.UTF-8"}
    login = {".claude": (".credentials.json", CLAUDE_LOGIN), ".codex": ("auth.json", '{"OPENAI_API_KEY": "sk-dummy"}')}
    folder = ".claude" if is_claude(client) else ".codex"
    seen = []
    for _ in range(2):
        words = client.island.beside([str(SCRIPTS / "harness"), "agents", "--json"])
        answer = process.run(words, cwd=tmp_path, env=home, timeout_seconds=120)
        (row,) = [each for each in json.loads(answer.output)["agents"] if each["spec"] == client.name]
        seen.append(row["signed_in"])
        assert row["too_old"] is False
        client.home.joinpath(folder).mkdir(exist_ok=True)
        client.home.joinpath(folder, login[folder][0]).write_text(login[folder][1])
    assert seen == [False, True]


CLAUDE_LOGIN = json.dumps(
    {"claudeAiOauth": {"accessToken": "x", "refreshToken": "x", "expiresAt": 1000, "scopes": ["user:inference"]}}
)


def test_a_conversation_that_is_gone_on_with_is_counted_once(client: Client, agent: Make, tmp_path: Path) -> None:
    """Two turns: together what the server has given out, each step once."""
    total = 0
    conversation: str | None = None
    for _ in range(2):
        client.island.script("play", PLAYS["count"])
        turn = agent().start(brief_in(tmp_path / "project", conversation=conversation))
        events = events_of(turn, seconds=240)
        turn.stop()
        conversation = turn.conversation
        total += sum(event.output_tokens for event in events if isinstance(event, Usage))
    assert total == sum_of(client, "output_tokens") == 4 * USAGE["output_tokens"]


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_a_sandbox_that_cannot_be_made_is_refused(client: Client, agent: Make, tmp_path: Path) -> None:
    """Where no namespaces are to be had, the setting that helps is named, and with it the work is done."""
    inside = (
        'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin --inh-caps=-all -- "$@"'
    )
    poor = ("unshare", "--user", "--map-root-user", "sh", "-c", inside, "sh")
    client.island.script("play", [{"run": "touch done"}, "It is done."])
    with pytest.raises(ToolMissing) as caught:
        agent(*poor).start(brief_in(tmp_path / "project"))
    assert "danger-full-access" in (caught.value.hint or "")
    assert client.island.conversations() == []
    events = played(agent(*poor, sandbox="danger-full-access"), brief_in(tmp_path / "project"))
    assert events[-1] == Finished(exit_code=0)
    assert (tmp_path / "project" / "done").exists()


def test_a_server_of_the_settings_is_offered_to_the_model(client: Client, agent: Make, tmp_path: Path) -> None:
    """UAH-212: the client starts it and calls it; what it is given is on no command line."""
    server = write_tool_server(tmp_path / "server.py", {"answer": []}, ANSWER)
    servers = {"sums": McpServer(command=(str(server),), env={"ANSWER": "forty-two"})}
    call = {"tool": "mcp__sums__answer"} if is_claude(client) else {"tool": "answer", "namespace": "mcp__sums"}
    client.island.script("play", [call, "I know it now."])
    events = played(agent(), brief_in(tmp_path / "project", tools=ToolRules(mcp_servers=servers)))
    assert events[-1] == Finished(exit_code=0), events
    assert any(isinstance(event, ToolResult) and "forty-two" in event.output for event in events), events
    assert any(isinstance(event, Text) and "I know it now." in event.text for event in events)


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_a_server_is_offered_without_an_app_server_too(client: Client, agent: Make, tmp_path: Path) -> None:
    """UAH-212: `codex exec` starts it with what it is given."""
    server = write_tool_server(tmp_path / "server.py", {"answer": []}, ANSWER)
    servers = {"sums": McpServer(command=(str(server),), env={"ANSWER": "forty-two"})}
    older = ("sh", "-c", 'for word; do [ "$word" = app-server ] && exit 2; done; exec "$@"', "sh")
    client.island.script("play", [{"tool": "answer", "namespace": "mcp__sums"}, "I know it now."])
    events = played(agent(*older), brief_in(tmp_path / "project", tools=ToolRules(mcp_servers=servers)))
    assert isinstance(events[0], Text)
    assert "runs without its app-server" in events[0].text
    assert any(isinstance(event, ToolResult) and "forty-two" in event.output for event in events), events
    assert events[-1] == Finished(exit_code=0), events
