"""The evidence of a test run, anywhere in the stream."""

import pytest

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult, Usage
from agent_harness.supervision.supervisor import Evidence

FILE = "tests/e2e/test_add.py"
RULED = "==== 4 passed in 0.12s ===="
ROWS: list[tuple[str, list[Event], bool, str | None]] = [
    ("in one text", [Text(f"$ pytest {FILE} -v\n{RULED}")], True, "4 passed in 0.12s"),
    ("line by line", [Text(f"$ pytest {FILE} -v"), Text("collected 4 items"), Text(RULED)], True, "4 passed in 0.12s"),
    ("the result first", [Text(RULED), Text(f"that was {FILE}")], True, "4 passed in 0.12s"),
    ("call and result", [ToolCall(name="sh", input={"command": f"pytest {FILE}"}), ToolResult(output=RULED)], True,
     "4 passed in 0.12s"),
    ("an absolute path", [Text(f"/somewhere/x/{FILE}::test_a PASSED\n{RULED}")], True, "4 passed in 0.12s"),
    ("the latest result counts", [Text(f"{FILE}\n{RULED}"), Text("1 failed, 3 passed in 1s")], True,
     "1 failed, 3 passed in 1s"),
    ("the whole suite that shows the file", [ToolCall(name="sh", input={"command": "pytest"}),
     ToolResult(output=f"{FILE} ..\n{RULED}")], True, "4 passed in 0.12s"),
    ("node", [ToolCall(name="sh", input={"command": f"node --test {FILE}"}), ToolResult(output="# pass 3\n# fail 0")],
     True, "# pass 3"),
    ("cargo", [Text(f"{FILE}\ntest result: ok. 3 passed; 0 failed; 0 ignored; finished in 0.00s")], True,
     "test result: ok. 3 passed; 0 failed; 0 ignored; finished in 0.00s"),
    ("go", [Text(f"{FILE}\nok  \texample.com/calc\t0.002s")], True, "ok  \texample.com/calc\t0.002s"),
    ("only the file", [Text(f"all tests in {FILE} pass")], False, None),
    ("only the result", [Text(RULED)], False, "4 passed in 0.12s"),
    ("another file", [Text(f"my_{FILE}\n{FILE}x\n{RULED}")], False, "4 passed in 0.12s"),
    ("prose", [Text(f"{FILE}: 4 passed in my head")], False, None),
    ("a list of numbers in a call", [ToolCall(name="x", input={"a": [FILE]}), Text(RULED)], False, "4 passed in 0.12s"),
    ("nothing", [Usage(input_tokens=1)], False, None),
]  # fmt: skip


@pytest.mark.parametrize(("events", "shown", "result"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_evidence(events: list[Event], shown: bool, result: str | None) -> None:
    """UAH-309, UAH-499, UAH-538, C20."""
    found = Evidence(FILE)
    for event in events:
        found = found.after(event)
    assert (found.shown, found.result) == (shown, result)


def test_a_node_id_names_its_file() -> None:
    found = Evidence(f"./{FILE}::test_a").after(Text(f"$ pytest {FILE}\n{RULED}"))
    assert found.shown


@pytest.mark.parametrize(
    ("line", "passed"),
    [("4 passed in 1s", True), ("4 passed, 1 skipped in 1s", True), ("1 failed, 3 passed in 1s", False),
     ("4 passed, 1 error in 1s", False), ("2 errors in 1s", False), ("3 skipped in 1s", False)],
)  # fmt: skip
def test_passed_is_what_the_latest_line_says(line: str, passed: bool) -> None:
    assert Evidence(FILE).after(Text(line)).passed == passed
    assert not Evidence(FILE).passed


def test_a_feature_without_a_test_file_shows_nothing() -> None:
    assert not Evidence("").after(Text(RULED)).shown
