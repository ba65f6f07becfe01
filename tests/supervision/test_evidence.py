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


SUITE = "node --test"
LATEST = ToolResult(output="# tests 3\n# pass 3")
SUITES: list[tuple[str, list[Event], bool]] = [
    ("a call", [ToolCall(name="sh", input={"command": "cd x && node --test --watch 2>&1 | tail"}), LATEST], True),
    ("a text", [Text("$ node --test"), LATEST], True),
    ("through npm", [ToolResult(output="> calc@1.0.0 test\n> node --test\n\n# pass 3")], True),
    ("another file", [ToolCall(name="sh", input={"command": "node --test test/b.test.js"}), LATEST], False),
    ("prose", [Text("I have run node --test, and it passed"), LATEST], False),
    ("no result", [Text("$ node --test")], False),
]  # fmt: skip


@pytest.mark.parametrize(("events", "shown"), [row[1:] for row in SUITES], ids=[row[0] for row in SUITES])
def test_a_run_of_the_whole_suite_counts(events: list[Event], shown: bool) -> None:
    found = Evidence("test/a.test.js", SUITE)
    for event in events:
        found = found.after(event)
    assert found.shown == shown


@pytest.mark.parametrize(
    "line",
    ["Tests:       1 skipped, 3 passed, 4 total", "      Tests  3 passed (3)", "  3 passing (12ms)",
     "\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[32m3 passed\x1b[39m\x1b[22m\x1b[90m (3)\x1b[39m",
     "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0", "OK (3 tests, 5 assertions)", "BUILD SUCCESSFUL in 2s"],
)  # fmt: skip
def test_the_result_of_every_runner_is_known(line: str) -> None:
    assert Evidence(FILE).after(Text(f"{FILE}\n{line}")).shown
