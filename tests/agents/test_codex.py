"""Codex as an agent: the adapter's requests to the client, and its use of the answers."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.base import Agent, Brief, McpServer, ToolRules
from agent_harness.agents.codex import CodexAgent, appserver, command
from agent_harness.agents.codex.command import CodexSettings
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.registry import resolve
from agent_harness.errors import ConfigurationError, ToolMissing
from agent_harness.supervision.monitors import NO_FACTS
from agent_harness.supervision.stalls import Stall
from agent_harness.testing.agent_conformance import events_of

MakeBrief = Callable[..., Brief]
Record = dict[str, Any]
PEER = Path(__file__).with_name("codex_peer.py")
DONE: Record = {
    "method": "turn/completed",
    "params": {"threadId": "thread-1", "turn": {"id": "turn-1", "status": "completed", "error": None}},
}


def note(method: str, **params: Any) -> Record:
    return {"method": method, "params": {"threadId": "thread-1", "turnId": "turn-1", **params}}


def item(phase: str, **parts: Any) -> Record:
    return note(f"item/{phase}", item=parts)


def failed(message: str, kind: Any = None) -> Record:
    error = {"message": message, "codexErrorInfo": kind}
    return note("turn/completed", turn={"id": "turn-1", "status": "failed", "error": error})


def totals(given: int, cached: int, made: int) -> Record:
    return {"inputTokens": given, "cachedInputTokens": cached, "outputTokens": made, "totalTokens": given + made}


def used(total: Record, last: Record, thread: str = "thread-1") -> Record:
    return note("thread/tokenUsage/updated", threadId=thread, tokenUsage={"total": total, "last": last})


@dataclass
class Played:
    """Turn of the adapter with a scripted client."""

    folder: Path
    brief: MakeBrief
    play: Record = field(default_factory=dict)

    def agent(self, **settings: Any) -> CodexAgent:
        (self.folder / "play.json").write_text(json.dumps({**self.play, "log": str(self.folder / "log")}))
        program = self.folder / "codex"
        words = shlex.join([sys.executable, str(PEER), str(self.folder / "play.json")])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)
        return CodexAgent(CodexSettings(program=str(program), **settings))

    def events(self, *steps: Record, settings: Record | None = None, **brief: Any) -> list[Event]:
        self.play["steps"] = [*steps, DONE]
        turn = self.agent(**(settings or {})).start(self.brief(**brief))
        try:
            return events_of(turn)
        finally:
            turn.stop()

    def heard(self, method: str) -> list[Record]:
        """Return the parameters of the messages to the client."""
        lines = [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]
        return [line["params"] for line in lines if line.get("method") == method]

    def answers(self) -> list[Record]:
        """Return the answers to the client's requests."""
        lines = [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]
        return [line for line in lines if "method" not in line]


@pytest.fixture
def client(tmp_path: Path, brief: MakeBrief) -> Played:
    folder = tmp_path / "client"
    folder.mkdir()
    return Played(folder, brief)


def test_a_turn_from_the_prompt_to_its_end(client: Played, tmp_path: Path) -> None:
    command_item = {"type": "commandExecution", "id": "c1", "command": "/bin/bash -lc 'ls src'"}
    events = client.events(
        item("completed", type="agentMessage", id="m1", text="I look."),
        item("started", **command_item),
        item("completed", **command_item, aggregatedOutput="calc.py\n", exitCode=0, status="completed"),
        used(totals(1000, 400, 50), totals(1000, 400, 50)),
        prompt="do it \ud800",
    )
    assert events == [
        Text("I look."),
        ToolCall(name="shell", input={"command": "ls src"}, id="c1"),
        ToolResult(output="calc.py\n", id="c1"),
        Usage(input_tokens=600, cached_tokens=400, output_tokens=50, context_tokens=1050, model="gpt-5.5"),
        Finished(exit_code=0),
    ]
    (begun,) = client.heard("turn/start")
    assert begun["input"] == [{"type": "text", "text": "do it ?"}]
    assert begun["sandboxPolicy"]["type"] == "workspaceWrite"
    (thread,) = client.heard("thread/start")
    assert (thread["cwd"], thread["sandbox"]) == (str(tmp_path), "workspace-write")
    assert (thread["model"], thread["approvalPolicy"]) == (None, "untrusted")


def test_totals_become_calls_and_sub_agents_are_counted(client: Played) -> None:
    """UAH-415: absolute totals of each thread, once; a sub-agent does not fill the context of the agent."""
    events = client.events(
        used(totals(9000, 0, 900), totals(1000, 0, 100)),
        used(totals(500, 100, 20), totals(500, 100, 20), thread="sub"),
        used(totals(9000, 0, 900), totals(1000, 0, 100)),
        used(totals(9300, 200, 910), totals(300, 200, 10)),
    )
    found = [event for event in events if isinstance(event, Usage)]
    assert [(one.input_tokens, one.cached_tokens, one.output_tokens) for one in found] == [
        (1000, 0, 100),
        (400, 100, 20),
        (100, 200, 10),
    ]
    assert [one.context for one in found] == [1100, 1100, 310]


def test_what_is_told_of_earlier_turns_is_no_call_of_this_one(client: Played) -> None:
    """A resumed thread reports its last usage again, sometimes late: it is recognised by its turn."""
    earlier = used(totals(9000, 0, 900), totals(1000, 0, 100))
    earlier["params"]["turnId"] = "turn-0"
    client.play["earlier"] = [earlier]
    events = client.events(earlier, used(totals(9300, 200, 910), totals(300, 200, 10)), conversation="thread-1")
    found = [event for event in events if isinstance(event, Usage)]
    assert [(one.input_tokens, one.cached_tokens, one.output_tokens) for one in found] == [(100, 200, 10)]


def test_running_totals_make_nobody_stuck(client: Played) -> None:
    """UAH-330: the totals grow by a whole prompt with each call, the context by the tokens read."""
    contexts = [31_000, 33_000, 35_000, 37_000]
    sums = [sum(contexts[: n + 1]) for n in range(len(contexts))]
    events = client.events(*[used(totals(all_, 0, 0), totals(n, 0, 0)) for all_, n in zip(sums, contexts, strict=True)])
    found = [event for event in events if isinstance(event, Usage)]
    assert [one.context for one in found] == contexts
    assert said_by(Stall(check_interval_tokens=6_001), found) == []
    assert said_by(Stall(check_interval_tokens=6_000), found) == ["stuck"]


def said_by(stall: Stall, events: list[Usage]) -> list[str]:
    state = stall.begin()
    reasons: list[str] = []
    for event in events:
        state, asked = stall.step(state, event, NO_FACTS, 0.0)
        reasons += [one.reason for one in asked]
    return reasons


def test_a_message_reaches_the_running_turn(client: Played) -> None:
    client.play["steps"] = [
        item("completed", type="agentMessage", id="m1", text="ready"),
        {"hear": "turn/steer"},
        item("completed", type="agentMessage", id="m2", text="heard"),
        {"hear": "turn/interrupt"},
        note("turn/completed", turn={"id": "turn-1", "status": "interrupted", "error": None}),
    ]
    turn = client.agent().start(client.brief())
    try:
        assert turn.next_event(60) == Text("ready")
        assert turn.steer("mind the goldfish")
        assert turn.next_event(60) == Text("heard")
        assert turn.interrupt()
        end = events_of(turn)[-1]
        assert isinstance(end, Finished)
        assert not end.ok
        assert not turn.steer("too late")
        assert not turn.interrupt()
    finally:
        turn.stop()
    (steered,) = client.heard("turn/steer")
    assert (steered["expectedTurnId"], steered["input"][0]["text"]) == ("turn-1", "mind the goldfish")


def asks(kind: str, number: int = 7, **params: Any) -> Record:
    return {"id": number, **note(kind, **params)}


def test_the_guard_rails_answer_what_the_client_asks(client: Played) -> None:
    """UAH-444, C32: nobody else can be asked; a refusal names the reason, to the agent and in the record."""
    ask = "item/commandExecution/requestApproval"
    change = {"type": "fileChange", "id": "f1", "changes": [{"path": "../out.txt", "kind": {"type": "add"}}]}
    events = client.events(
        asks(ask, command="/bin/bash -lc 'pytest -q'", itemId="c1"),
        {"hear": "answer"},
        asks(ask, command="/bin/bash -lc 'sudo ls'", itemId="c2"),
        {"hear": "turn/steer"},
        item("started", **change),
        asks("item/fileChange/requestApproval", itemId="f1"),
        {"hear": "turn/steer"},
        asks("item/permissions/requestApproval", itemId="p1"),
        {"hear": "turn/steer"},
        asks("something/new"),
        {"hear": "answer"},
    )
    accepted, command_refused, change_refused, permissions, unknown = client.answers()
    assert accepted["result"] == {"decision": "accept"}
    assert command_refused["result"] == change_refused["result"] == {"decision": "decline"}
    assert permissions["result"]["permissions"] == {}
    assert unknown["error"]["code"] == -32601
    told = [each["input"][0]["text"] for each in client.heard("turn/steer")]
    assert "sudo" in told[0]
    assert "out.txt" in told[1]
    assert sum(isinstance(event, Text) and event.text.startswith("[refused: ") for event in events) == 3


def shown(call: str, **arguments: Any) -> Record:
    raw = {"type": "function_call", "call_id": call, "arguments": json.dumps(arguments)}
    return note("rawResponseItem/completed", item=raw)


def test_no_approval_lets_a_command_out_of_the_sandbox(client: Played) -> None:
    """The request does not show it; the model's own call does, or if that is not shown, the given reason."""
    ask, ls = "item/commandExecution/requestApproval", "/bin/bash -lc 'ls'"
    steps = (
        asks(ask, itemId="c0", command=ls),
        {"hear": "answer"},
        asks(ask, itemId="c0", command=ls, reason="I need more"),
        {"hear": "turn/steer"},
        shown("c1", cmd="ls"),
        asks(ask, itemId="c1", command=ls),
        {"hear": "answer"},
        shown("c2", cmd="ls", sandbox_permissions="require_escalated"),
        asks(ask, itemId="c2", command=ls),
        {"hear": "turn/steer"},
        asks(ask, itemId="c3", command=ls),
        {"hear": "turn/steer"},
    )
    client.events(*steps)
    decisions = [each["result"]["decision"] for each in client.answers()]
    assert decisions == ["accept", "decline", "accept", "decline", "decline"]
    (client.folder / "log").unlink()
    client.events(
        shown("c2", sandbox_permissions="require_escalated"),
        steps[-2],
        {"hear": "answer"},
        settings={"sandbox": "danger-full-access"},
    )
    assert [each["result"]["decision"] for each in client.answers()] == ["accept"]


def test_a_server_of_the_settings_may_be_called_and_no_other(client: Played) -> None:
    """UAH-212: the servers are handed over inside the conversation, never on a command line."""
    rules = ToolRules(mcp_servers={"db": McpServer(command=("npx", "db"), env={"URL": "secret"})})
    ask = "mcpServer/elicitation/request"
    meta = {"codex_approval_kind": "mcp_tool_call"}
    client.events(
        asks(ask, serverName="db", _meta=meta),
        {"hear": "answer"},
        asks(ask, serverName="other", _meta=meta),
        {"hear": "answer"},
        tools=rules,
    )
    assert [each["result"]["action"] for each in client.answers()] == ["accept", "decline"]
    (thread,) = client.heard("thread/start")
    assert thread["config"]["mcp_servers"]["db"] == {"command": "npx", "args": ["db"], "env": {"URL": "secret"}}


def limits(events: list[Event]) -> list[RateLimited]:
    return [event for event in events if isinstance(event, RateLimited)]


def test_a_limit_ends_when_its_window_does(client: Played) -> None:
    """UAH-374: the windows of the account come before the words."""
    windows = {
        "primary": {"usedPercent": 100, "resetsAt": 1795350849},
        "secondary": {"usedPercent": 30, "resetsAt": 1795999999},
    }
    message = "You have hit your usage limit. Try again at 12:53 PM."
    events = client.events(
        note("account/rateLimits/updated", rateLimits=windows),
        note("error", error={"message": message, "codexErrorInfo": "usageLimitExceeded"}, willRetry=False),
        failed(message, "usageLimitExceeded"),
    )
    assert [(one.message, one.resets_at) for one in limits(events)] == [(message, "2026-11-22T12:34:09Z")]
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.ok, end.message) == (False, f"failed: {message}")


@pytest.mark.parametrize(
    ("kind", "refuses"),
    [
        ("serverOverloaded", True),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, True),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, False),
        ("contextWindowExceeded", False),
        (["odd"], False),
    ],
    ids=str,
)
def test_which_errors_are_refusals(client: Played, kind: Any, refuses: bool) -> None:
    events = client.events(failed("It did not work", kind))
    assert len(limits(events)) == refuses
    end = events[-1]
    assert isinstance(end, Finished)
    assert not end.ok


def test_the_end_of_a_sub_agent_is_not_the_end(client: Played) -> None:
    sub = note("turn/completed", threadId="sub", turn={"id": "t9", "status": "completed", "error": None})
    events = client.events(sub, item("completed", type="agentMessage", id="m1", text="I go on."))
    assert events == [Text("I go on."), Finished(exit_code=0)]


def test_a_server_that_dies_is_no_success(client: Played) -> None:
    client.play |= {"dies": True, "steps": [item("completed", type="agentMessage", id="m1", text="Well...")]}
    turn = client.agent().start(client.brief())
    end = events_of(turn)[-1]
    turn.stop()
    assert isinstance(end, Finished)
    assert (end.ok, end.exit_code) == (False, 3)


def test_a_conversation_is_gone_on_with_and_a_lost_one_begun_anew(client: Played) -> None:
    turn = client.agent().start(client.brief(conversation="thread-1"))
    turn.stop()
    assert turn.conversation == "thread-1"
    assert client.heard("thread/start") == []
    (client.folder / "log").unlink()
    client.play["lost"] = ["thread-0"]
    events = client.events(conversation="thread-0")
    assert events == [Text("[the conversation was lost; starting a new conversation]"), Finished(exit_code=0)]


def test_a_sandbox_that_cannot_be_made_is_refused_with_the_way_out(client: Played) -> None:
    """Exit code 4, before the agent does anything; without a sandbox nothing is tried."""
    client.play["sandbox"] = 1
    with pytest.raises(ToolMissing) as caught:
        client.agent().start(client.brief())
    assert caught.value.exit_code == 4
    assert "workspace-write" in caught.value.message
    assert "bwrap: No permissions" in caught.value.message
    assert "danger-full-access" in (caught.value.hint or "")
    assert client.heard("turn/start") == []
    assert client.events(settings={"sandbox": "danger-full-access"}) == [Finished(exit_code=0)]


EXEC: list[Record] = [
    {"type": "thread.started", "thread_id": "thread-7"},
    {"type": "item.started", "item": {"id": "i1", "type": "command_execution", "command": "bash -lc 'ls'"}},
    {
        "type": "item.completed",
        "item": {"id": "i1", "type": "command_execution", "aggregated_output": "a\n", "exit_code": 0},
    },
    {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "Done."}},
    {"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}},
]


def test_without_an_app_server_the_work_is_done_all_the_same(client: Played) -> None:
    client.play |= {"no_server": True, "exec": EXEC}
    turn = client.agent(model="gpt-5.5").start(client.brief(prompt="do it", conversation="thread-6"))
    assert not turn.steer("hello")
    assert not turn.interrupt()
    events = events_of(turn)
    turn.stop()
    assert isinstance(events[0], Text)
    assert "cannot be steered" in events[0].text
    assert events[1:] == [
        ToolCall(name="shell", input={"command": "ls"}, id="i1"),
        ToolResult(output="a\n", id="i1"),
        Text("Done."),
        Usage(input_tokens=60, cached_tokens=40, output_tokens=7, model="gpt-5.5"),
        Finished(exit_code=0),
    ]
    assert turn.conversation == "thread-7"
    told = json.loads((client.folder / "log").read_text())
    assert told["prompt"] == "do it"
    assert told["words"][-3:] == ["resume", "thread-6", "-"]


def test_without_an_app_server_too_a_server_gets_what_it_is_given(client: Played) -> None:
    """UAH-212: arguments and variables, and neither is on the command line of the client."""
    shows = ("sh", "-c", 'printf "%s %s %s" "$0" "$1" "$URL"', "secret-argument", "two words")
    client.play |= {"no_server": True, "exec": EXEC}
    rules = ToolRules(mcp_servers={"db": McpServer(command=shows, env={"URL": "secret-variable"})})
    assert events_of(client.agent().start(client.brief(tools=rules)))[-1] == Finished(exit_code=0)
    told = json.loads((client.folder / "log").read_text())
    assert told["servers"] == {"db": "secret-argument two words secret-variable"}
    assert "secret" not in " ".join(told["words"])
    (file,) = (word for word in json.loads(settings_of(told["words"])["mcp_servers.db.args"]) if word.endswith(".json"))
    assert not Path(file).exists()


def settings_of(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for before, word in pairwise(words) if before == "-c")


def test_an_exit_that_contradicts_is_no_success(client: Played) -> None:
    client.play |= {"no_server": True, "exec": EXEC, "exit": 1}
    turn = client.agent().start(client.brief())
    end = events_of(turn)[-1]
    turn.stop()
    assert isinstance(end, Finished)
    assert (end.ok, end.exit_code) == (False, 1)


def test_tools_that_are_off_are_not_left_to_a_client_that_asks_nobody(client: Played) -> None:
    client.play |= {"no_server": True, "exec": EXEC}
    with pytest.raises(ToolMissing):
        client.agent().start(client.brief(tools=ToolRules(shell_enabled=False)))


def test_git_may_be_written_in_the_workspace(brief: MakeBrief, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    policy = command.sandbox_policy(CodexSettings(), brief(cwd=tmp_path))
    assert policy == {"type": "workspaceWrite", "writableRoots": [str(tmp_path / ".git")], "networkAccess": False}
    tree = tmp_path / "tree"
    own = tmp_path / ".git" / "worktrees" / "tree"
    own.mkdir(parents=True)
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n")
    (own / "commondir").write_text("../..\n")
    assert command.git_folders(tree) == [own, tmp_path / ".git"]


def test_the_keys_that_the_configuration_names_are_kept(
    brief: MakeBrief, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text('[model_providers.x]\nenv_key = "MISTRAL_API_KEY"\n')
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    monkeypatch.setenv("MISTRAL_API_KEY", "m")
    monkeypatch.setenv("GITHUB_TOKEN", "g")
    env = command.environment(brief())
    assert env["MISTRAL_API_KEY"] == "m"
    assert "GITHUB_TOKEN" not in env
    (tmp_path / "config.toml").write_text("[[[")
    assert "MISTRAL_API_KEY" not in command.environment(brief())


def settled(given: Record) -> Agent:
    return resolve(None, configured={"kind": "codex", **given}, environ={"PATH": "/nowhere"})


def test_settings_are_read() -> None:
    agent = settled({"model": "m", "sandbox": "read-only", "network": True, "program": "/x/codex"})
    assert isinstance(agent, CodexAgent)
    assert agent.settings == CodexSettings(model="m", sandbox="read-only", network=True, program="/x/codex")
    words = resolve("codex:gpt-5.5", configured=None, environ={})
    assert isinstance(words, CodexAgent)
    assert (words.settings.model, words.settings.model_wins) == ("gpt-5.5", True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"permission_mode": "x"}, "agent.permission_mode"),
        ({"sandbox": "none"}, "agent.sandbox is 'none'"),
        ({"network": "yes"}, "agent.network must be true or false"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(given: Record, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settled(given)
    assert text in caught.value.message


def test_a_call_is_found_in_the_record_of_the_client(tmp_path: Path) -> None:
    """A call of a resumed thread that the server does not show."""
    call = {"type": "function_call", "call_id": "c1", "arguments": '{"cmd": "ls"}'}
    output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    rows = [{"type": "response_item", "payload": item} for item in (call, output)]
    file = tmp_path / "rollout.jsonl"
    file.write_text("\n".join(["torn {", *map(json.dumps, rows), ""]))
    assert appserver.call_arguments(file, "c1") == '{"cmd": "ls"}'


def test_a_command_of_an_old_conversation_stays_in_the_sandbox(client: Played, tmp_path: Path) -> None:
    file = tmp_path / "rollout.jsonl"
    calls = {"c1": {"cmd": "ls"}, "c2": {"cmd": "ls", "sandbox_permissions": "require_escalated"}}
    rows = [
        {"type": "response_item", "payload": {"type": "function_call", "call_id": name, "arguments": json.dumps(told)}}
        for name, told in calls.items()
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    client.play["path"] = str(file)
    ask, ls = "item/commandExecution/requestApproval", "/bin/bash -lc 'ls'"
    client.events(
        asks(ask, itemId="c1", command=ls),
        {"hear": "answer"},
        asks(ask, itemId="c2", command=ls),
        {"hear": "turn/steer"},
        conversation="thread-1",
    )
    assert [each["result"]["decision"] for each in client.answers()] == ["accept", "decline"]
