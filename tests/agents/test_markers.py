"""Prefixes and tool calls become rows; both spellings of a feature are read."""

import pytest

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.markers import (
    Actions,
    is_pytest_result,
    pytest_result,
    row_of_call,
    row_of_line,
    shell_command,
)

ROWS = [
    ("[FILE:READ] src/api/routes.py", {"type": "file_read", "path": "src/api/routes.py"}),
    ("[FILE:WRITE] src/api/profile.py", {"type": "file_write", "path": "src/api/profile.py"}),
    ("[CMD:RUN] poetry run pytest x.py -v", {"type": "cmd_run", "cmd": "poetry run pytest x.py -v"}),
    ("[CMD:OUTPUT]", {"type": "cmd_output", "text": ""}),
    ("[CMD:EXIT] 0", {"type": "cmd_exit", "code": 0}),
    ("[CMD:EXIT] -9", {"type": "cmd_exit", "code": -9}),
    ("[VERIFY:START] Feature #12", {"type": "verify_start", "feature": 12}),
    ("[VERIFY:PASS] Feature #12", {"type": "verify_pass", "feature": 12}),
    ("[VERIFY:PASS] #12", {"type": "verify_pass", "feature": 12}),
    ("[VERIFY:PASS] feature 12", {"type": "verify_pass", "feature": 12}),
    ("[VERIFY:FAIL] #3", {"type": "verify_fail", "feature": 3}),
    ("[DECISION] Using PATCH instead of PUT", {"type": "decision", "text": "Using PATCH instead of PUT"}),
    ("[VISUAL:SCREENSHOT] shots/a.png", {"type": "visual_screenshot", "path": "shots/a.png"}),
    ("[VISUAL:VERIFY] the button is blue", {"type": "visual_verify", "text": "the button is blue"}),
    ("  - `[FILE:READ] a.py`", {"type": "file_read", "path": "a.py"}),
    ("> [CMD:EXIT] 1", {"type": "cmd_exit", "code": 1}),
    # nothing usable
    ("[FILE:READ]", None),
    ("[CMD:EXIT] soon", None),
    ("[VERIFY:PASS] all of it", None),
    ("[FILE:DELETE] a.py", None),
    ("see [CMD:RUN] above", None),
    ("[file:read] a.py", None),
    ("", None),
]


@pytest.mark.parametrize(("line", "row"), ROWS, ids=[line or "empty" for line, _ in ROWS])
def test_a_prefix_is_this_row(line: str, row: dict[str, object] | None) -> None:
    assert row_of_line(line) == row


def test_a_row_keeps_only_so_much() -> None:
    row = row_of_line("[DECISION] " + "x" * 100_000)
    assert row is not None
    assert len(str(row["text"])) == 2000


SUMMARIES = [
    ("============ 4 passed in 0.12s ============", "4 passed in 0.12s"),
    ("4 passed in 0.12s", "4 passed in 0.12s"),
    ("== 1 failed, 3 passed, 2 warnings in 61.02s (0:01:01) ==", "1 failed, 3 passed, 2 warnings in 61.02s (0:01:01)"),
    ("=== 2 errors in 0.40s ===", "2 errors in 0.40s"),
    ("  │  ==== 4 passed in 2.34s ====   │", "4 passed in 2.34s"),
    ("all 4 tests passed in 0.12s", None),
    ("I think 4 passed in 0.12s", None),
    ("4 passed", None),
    ("== no tests ran in 0.01s ==", None),
    ("passed in 2s", None),
    ("9" * 400 + " passed in 1s", None),
]


@pytest.mark.parametrize(("line", "result"), SUMMARIES, ids=[line[:50] for line, _ in SUMMARIES])
def test_a_pytest_result_line_is_known(line: str, result: str | None) -> None:
    assert pytest_result(line) == result
    assert is_pytest_result(line) == (result is not None)


CALLS = [
    (ToolCall(name="Bash", input={"command": "ls -l"}), {"type": "cmd_run", "cmd": "ls -l"}),
    (ToolCall(name="exec_command", input={"cmd": ["git", "status"]}), {"type": "cmd_run", "cmd": "git status"}),
    (ToolCall(name="anything", input={"command": "make"}), {"type": "cmd_run", "cmd": "make"}),
    (ToolCall(name="Write", input={"file_path": "a.py", "content": "x"}), {"type": "file_write", "path": "a.py"}),
    (ToolCall(name="Edit", input={"file_path": "a.py"}), {"type": "file_write", "path": "a.py"}),
    (ToolCall(name="Read", input={"file_path": "a.py"}), {"type": "file_read", "path": "a.py"}),
    (ToolCall(name="editor", input={"command": "create", "path": "a.py"}), {"type": "file_write", "path": "a.py"}),
    (ToolCall(name="editor", input={"command": "view", "path": "a.py"}), {"type": "file_read", "path": "a.py"}),
    (ToolCall(name="WebSearch", input={"query": "x"}), None),
    (ToolCall(name="Write", input={"file_path": 3}), None),
    (ToolCall(name="", input={}), None),
]


@pytest.mark.parametrize(("call", "row"), CALLS, ids=[f"{call.name}-{index}" for index, (call, _) in enumerate(CALLS)])
def test_a_tool_call_is_this_row(call: ToolCall, row: dict[str, object] | None) -> None:
    assert row_of_call(call) == row


def test_a_shell_that_hides_its_command_is_still_a_shell() -> None:
    assert shell_command(ToolCall(name="bash", input={"script": "ls"})) == ""
    assert shell_command(ToolCall(name="search", input={"query": "ls"})) is None


def rows_of(events: list[Event]) -> tuple[list[str], bool]:
    actions = Actions()
    rows: list[str] = []
    for event in events:
        actions, more = actions.after(event)
        rows.extend(f"{row['type']}/{row['source']}" for row in more)
    return rows, actions.structured


def test_a_prefix_and_its_tool_call_are_one_row() -> None:
    told: list[Event] = [
        Text("[CMD:RUN] ls\n$ ls"),
        ToolCall(name="shell", input={"command": "ls"}),
        Text("[CMD:EXIT] 0"),
    ]
    assert rows_of(told) == (["cmd_run/prefix", "cmd_exit/prefix"], True)


def test_without_prefixes_tool_calls_and_results_tell() -> None:
    quiet: list[Event] = [
        Text("I write the code now."),
        ToolCall(name="write_file", input={"path": "a.py"}),
        ToolCall(name="shell", input={"command": "pytest"}),
        ToolResult(output="a.py::test PASSED\n== 1 passed in 0.1s =="),
        Usage(input_tokens=1),
    ]
    assert rows_of(quiet) == (["file_write/tool", "cmd_run/tool", "test_run/output"], False)


def test_rows_come_to_an_end() -> None:
    flood = [Text("\n".join(["[CMD:RUN] ls"] * 700)) for _ in range(20)]
    actions = Actions()
    found: list[object] = []
    for event in flood:
        actions, more = actions.after(event)
        found += [row["type"] for row in more]
    assert found == ["cmd_run"] * 5000 + ["rows_left_out"]
    assert actions.structured
