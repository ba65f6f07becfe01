"""The command interface: prompt on stdin, environment, events on stdout, and other behaviour of programs."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.agents.base import Agent, Brief, McpServer, ToolRules
from agent_harness.agents.command import BLOCK_CHARACTERS, CommandAgent, line_of
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, Usage
from agent_harness.errors import HarnessError, ToolMissing
from agent_harness.kernel import owner, process
from agent_harness.testing.agent_conformance import check_agent

Make = Callable[..., Brief]
Run = Callable[[Agent, Brief], list[Event]]

BEHAVIOURS = {
    "answer": """
import json, sys
print("I was asked:", sys.stdin.read())
print(json.dumps({"type": "usage", "input_tokens": 120, "output_tokens": 30}))
""",
    "fail": "raise SystemExit(3)",
    "hang": """
import subprocess, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("hanging", flush=True)
time.sleep(600)
""",
    "count": """
import json
spent = {"type": "usage", "input_tokens": 1000, "cached_tokens": 500, "output_tokens": 70}
for event in (spent, {"type": "tool_call", "name": "sh", "id": "1"}, {"type": "tool_result", "id": "1"}, spent):
    print(json.dumps(event))
""",
    "deaf": "pass",
    "noise": """
import sys
out = sys.stdout.buffer
out.write(bytes(range(256)) + b"\\n")
out.write(b'{"type": "usage", "input_tokens": 1\\n')
out.write(b'{"type": "usage", "input_tokens": ' + b"[" * 50000 + b"]" * 50000 + b"}\\n")
out.write(b"pong\\n")
""",
}


def agent(text: str) -> CommandAgent:
    return CommandAgent([sys.executable, "-u", "-c", text])


def said(events: list[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Text))


def test_the_contract_of_an_agent() -> None:
    checked = check_agent(lambda behaviour: agent(BEHAVIOURS[behaviour]) if behaviour in BEHAVIOURS else None)
    assert len(checked) == 15


def test_what_the_program_is_given(brief: Make, turn_of: Run, tmp_path: Path) -> None:
    shows = """
import json, os, sys
names = [n for n in os.environ if n.startswith("HARNESS_")]
print(json.dumps({"env": {n: os.environ[n] for n in names}, "cwd": os.getcwd(), "prompt": sys.stdin.read(),
                  "again": sys.stdin.read()}))
"""
    given = brief(prompt="Grüße\n\nline", feature_id=3, round=2, model="m-1", environment={"EXTRA": "x"})
    found = json.loads(said(turn_of(agent(shows), given)))
    assert found["prompt"] == "Grüße\n\nline"
    assert found["again"] == ""
    assert Path(found["cwd"]) == tmp_path.resolve()
    environment = found["env"]
    environment.pop("HARNESS_RUN_ID")
    environment.pop("HARNESS_VERIFICATION__TRUST")  # a setting of the person who runs the tests
    assert environment == {
        "HARNESS_PROJECT_DIR": str(tmp_path),
        "HARNESS_SESSION": "7",
        "HARNESS_PROMPT_TYPE": "coding",
        "HARNESS_ROUND": "2",
        "HARNESS_FEATURE_ID": "3",
        "HARNESS_MODEL": "m-1",
    }


READS = """
import json, os, stat, sys
path = os.environ["HARNESS_MCP_CONFIG"]
print(json.dumps([path, stat.S_IMODE(os.stat(path).st_mode), json.load(open(path))]), flush=True)
"""
SERVERS = {"db": McpServer(command=("npx", "-y", "db"), env={"URL": "x"}), "plain": McpServer(command=("serve",))}


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "import signal; os.kill(os.getpid(), 9)"])
def test_the_servers_are_told_in_a_file_that_goes_with_the_turn(brief: Make, turn_of: Run, end: str) -> None:
    """UAH-446: readable for this user alone, outside the project, whatever the program's end."""
    given = brief(tools=ToolRules(mcp_servers=SERVERS))
    path, mode, told = json.loads(said(turn_of(agent(READS + end), given)).splitlines()[0])
    assert told == {
        "mcpServers": {
            "db": {"command": "npx", "args": ["-y", "db"], "env": {"URL": "x"}},
            "plain": {"command": "serve", "args": []},
        }
    }
    assert mode == 0o600
    assert not Path(path).is_relative_to(given.cwd)
    assert not Path(path).exists()


def test_a_turn_that_is_stopped_or_never_runs_leaves_no_file(brief: Make) -> None:
    given = brief(tools=ToolRules(mcp_servers=SERVERS))
    turn = agent(READS + "import time; time.sleep(600)").start(given)
    event = turn.next_event(60)
    assert isinstance(event, Text)
    path = Path(json.loads(event.text)[0])
    assert path.exists()
    turn.stop(0.1)
    assert not path.exists()
    folder = Path(tempfile.gettempdir())
    before = set(folder.glob("harness-mcp-*"))
    with pytest.raises(HarnessError):
        CommandAgent([sys.executable, "a\0b"]).start(given)
    assert set(folder.glob("harness-mcp-*")) <= before


def test_a_task_has_its_own_name(brief: Make, turn_of: Run) -> None:
    shows = "import os; print(os.environ['HARNESS_TASK_ID'], 'HARNESS_FEATURE_ID' in os.environ)"
    assert said(turn_of(agent(shows), brief(task_id="task-9"))) == "task-9 False"


def test_our_secrets_stay_and_the_agents_own_go_along(
    brief: Make, turn_of: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_000000000000000000000000000000000000")
    monkeypatch.setenv("HARNESS_CLAIM_TOKEN", "secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-agent")
    shows = (
        "import os; print([n for n in ('GITHUB_TOKEN','HARNESS_CLAIM_TOKEN','ANTHROPIC_API_KEY') if n in os.environ])"
    )
    assert said(turn_of(agent(shows), brief())) == "['ANTHROPIC_API_KEY']"


def test_events_and_text_in_their_order(brief: Make, turn_of: Run) -> None:
    speaks = """
print("one")
print("two")
print('{"type": "tool_call", "name": "shell", "input": {"command": "ls"}}')
print("three")
print('{"type": "usage", "input_tokens": 5}')
"""
    events = turn_of(agent(speaks), brief())
    order = [e.text if isinstance(e, Text) else type(e).__name__ for e in events]
    assert "\n".join(order) == "one\ntwo\nToolCall\nthree\nUsage\nFinished"
    assert events[-1] == Finished(ok=True, exit_code=0)


@pytest.mark.parametrize(("code", "ok"), [(0, True), (1, False), (77, False)])
def test_the_exit_status_says_how_the_turn_ended(code: int, ok: bool, brief: Make, turn_of: Run) -> None:
    end = turn_of(agent(f"print('last words'); raise SystemExit({code})"), brief())[-1]
    assert isinstance(end, Finished)
    assert (end.ok, end.exit_code) == (ok, code)
    assert ok or "last words" in end.message


def test_a_program_that_dies_by_a_signal(brief: Make, turn_of: Run) -> None:
    end = turn_of(agent("import os; os.kill(os.getpid(), 9)"), brief())[-1]
    assert isinstance(end, Finished)
    assert (end.ok, end.exit_code) == (False, -9)
    assert "signal 9" in end.message


def test_finished_with_ok_false_is_a_failure_whatever_the_exit_status(brief: Make, turn_of: Run) -> None:
    speaks = """print('{"type": "finished", "ok": false, "message": "I gave up"}')"""
    assert turn_of(agent(speaks), brief())[-1] == Finished(ok=False, message="I gave up", exit_code=0)


def test_text_and_usage_after_finished_still_count(brief: Make, turn_of: Run) -> None:
    speaks = """
print('{"type": "finished", "message": "done"}')
print("bye")
print('{"type": "usage", "input_tokens": 5}')
"""
    events = turn_of(agent(speaks), brief())
    assert [type(event) for event in events] == [Text, Usage, Finished]
    assert events[-1] == Finished(ok=True, message="done", exit_code=0)


def test_a_program_that_lingers_after_finished_is_ended(
    brief: Make, turn_of: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_harness.agents.command.LINGER_SECONDS", 0.2)
    speaks = """import time; print('{"type": "finished"}'); time.sleep(600)"""
    assert isinstance(turn_of(agent(speaks), brief())[-1], Finished)


def test_standard_error_is_no_part_of_the_stream_and_is_not_lost(brief: Make, turn_of: Run) -> None:
    speaks = """
import sys
sys.stderr.write('{"type": "usage", "input_tokens": 99}\\nboom: it broke\\n')
print('{"type": "usage", "input_tokens": 5}')
raise SystemExit(1)
"""
    events = turn_of(agent(speaks), brief())
    assert [event.input_tokens for event in events if isinstance(event, Usage)] == [5]
    assert "boom: it broke" in said(events)
    end = events[-1]
    assert isinstance(end, Finished)
    assert "boom: it broke" in end.message


def test_standard_error_in_between_tears_no_event_apart(brief: Make, turn_of: Run) -> None:
    """A program that is slow to flush writes its events in pieces."""
    speaks = """
import os, time
os.write(1, b'{"type": "usage", "inp')
os.write(2, b"a warning\\n")
time.sleep(0.05)
os.write(1, b'ut_tokens": 5}\\n')
"""
    assert Usage(input_tokens=5) in turn_of(agent(speaks), brief())


def test_a_client_that_gives_up_on_a_limit_is_rate_limited(brief: Make, turn_of: Run) -> None:
    speaks = "import sys; sys.exit('API Error: 429 Too Many Requests, retry after 30s')"
    events = turn_of(agent(speaks), brief())
    (refused,) = [event for event in events if isinstance(event, RateLimited)]
    assert refused.retry_after_seconds == 30.0
    fine = "print('API Error: 429 Too Many Requests, retry after 30s')"
    assert not [event for event in turn_of(agent(fine), brief()) if isinstance(event, RateLimited)]


def test_background_children_keep_nobody_waiting_and_are_gone(brief: Make, turn_of: Run) -> None:
    given = brief()
    speaks = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); print('started')"
    assert isinstance(turn_of(agent(speaks), given)[-1], Finished)
    assert owner.processes_tagged("HARNESS_RUN_ID", str(given.run_id)) == []


def test_the_process_record_finds_orphans(brief: Make) -> None:
    given = brief()
    turn = agent(BEHAVIOURS["hang"]).start(given)
    try:
        while not isinstance(turn.next_event(5.0), Text):
            pass
        record = turn.process
        assert record is not None
        json.dumps(record)
        assert record["run_id"] == given.run_id
        assert process.end_orphans(record) >= 1
    finally:
        turn.stop(0.2)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no-such-program-here"], "no-such-program-here"),
        (["./agent.sh"], "./agent.sh"),
        (["/nowhere/agent"], "/nowhere"),
    ],
)
def test_a_program_that_is_not_there(words: list[str], why: str, brief: Make) -> None:
    with pytest.raises(ToolMissing, match=why) as caught:
        CommandAgent(words).start(brief())
    assert "\n" not in caught.value.message


def test_a_program_that_cannot_be_executed_is_one_clear_line(brief: Make, tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text("#!/no/such/interpreter\n")
    with pytest.raises(HarnessError):
        CommandAgent([str(program)]).start(brief())
    program.chmod(0o755)
    with pytest.raises(HarnessError):
        CommandAgent([str(program)]).start(brief())


def test_a_relative_program_is_one_of_the_project(brief: Make, turn_of: Run, tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\necho from the project\n")
    program.chmod(0o755)
    assert said(turn_of(CommandAgent(["./agent.sh"]), brief())) == "from the project"


def test_problem_is_told_before_anything_starts() -> None:
    assert CommandAgent(["no-such-program-here"]).problem() is not None
    assert CommandAgent([sys.executable]).problem() is None
    assert CommandAgent(["./later.sh"]).problem() is None


LINES = [
    (b"plain", "plain"),
    (b"\x1b[1;32mgreen\x1b[0m", "green"),
    (b'\x1b[0m{"type": "usage"}', '{"type": "usage"}'),
    (b"\x1b]0;title\x07text", "text"),
    (b"a\0b\x08c", "abc"),
    (b"tab\tstays", "tab\tstays"),
    (b"10%\r20%\r", "10%\n20%"),
    (b"\xff\xfe caf\xc3\xa9", "�� café"),
    (b"\x1b[", "["),
    (b"", ""),
]


@pytest.mark.parametrize(("data", "text"), LINES, ids=[repr(data) for data, _ in LINES])
def test_a_line_without_what_only_terminals_understand(data: bytes, text: str) -> None:
    assert line_of(data) == text


def test_much_text_comes_in_few_blocks_and_whole(brief: Make, turn_of: Run) -> None:
    events = turn_of(agent("print('x' * 79 + '\\n' + '\\n'.join(map(str, range(20000))))"), brief())
    blocks = [event for event in events if isinstance(event, Text)]
    assert said(events).split("\n")[1:] == [str(number) for number in range(20000)]
    assert len(blocks) < 200
    assert max(len(block.text) for block in blocks) < BLOCK_CHARACTERS + 100


def test_an_event_between_much_text_is_not_lost(brief: Make, turn_of: Run) -> None:
    speaks = """
for number in range(2000):
    print("y" * 50)
    if number % 100 == 0:
        print('{"type": "usage", "input_tokens": 1}')
"""
    assert sum(event.input_tokens for event in turn_of(agent(speaks), brief()) if isinstance(event, Usage)) == 20


def test_a_tool_call_of_every_shape(brief: Make, turn_of: Run) -> None:
    speaks = """print('{"type": "tool_call", "name": "x", "input": {"a": {"b": [1, null, "c"]}}}')"""
    (call,) = [event for event in turn_of(agent(speaks), brief()) if isinstance(event, ToolCall)]
    assert call.input == {"a": {"b": [1, None, "c"]}}


def test_nothing_of_the_turn_holds_descriptors(brief: Make, turn_of: Run) -> None:
    turn_of(agent("pass"), brief())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        turn_of(agent("print('x')"), brief())
    assert len(os.listdir("/proc/self/fd")) <= before
