"""Actions of the agent, read from its output. An action is a line with a prefix such as ``[CMD:RUN]``, or a tool call.

A row has a ``type`` and its data, as stored in ``agent_actions.jsonl``. The writer adds ``ts``. Rows are the agent's
reports, not verified facts. Source: features.md UAH-139, UAH-422..431."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult

Row = dict[str, object]

LIMIT = 2000  # characters of one value that a row keeps
MOST_ROWS = 5000  # of one session; an agent may print prefixes without end

_LINE = re.compile(
    r"[\s>*`-]{0,12}\[(?P<kind>FILE:READ|FILE:WRITE|CMD:RUN|CMD:OUTPUT|CMD:EXIT"
    r"|VERIFY:START|VERIFY:PASS|VERIFY:FAIL|DECISION|VISUAL:SCREENSHOT|VISUAL:VERIFY)\]`?[ \t]*(?P<rest>.*)"
)
_FEATURE = re.compile(r"(?:Feature\s*)?#?\s*(\d{1,9})\b", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,9}\b")
_SUMMARY = re.compile(
    r"=*[ \t]?(?:\d{1,9} (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|reruns?"
    r"|subtests passed)(?:, )?){1,9}"
    r" in \d{1,9}(?:\.\d{1,9})?s(?: \([\d:]{1,20}\))?[ \t]?=*"
)
_OTHER_SUMMARY = re.compile(  # node --test, cargo test, go test, jest and vitest, mocha, Maven, Gradle, PHPUnit
    r"[#\u2139] pass \d{1,9}|test result: ok\. \d{1,9} passed;.{0,200}"
    r"|ok[ \t]+\S{1,200}[ \t]+(?:\(cached\)|\d[\d.]{0,9}s)(?:[ \t]+coverage:.{0,80})?"
    r"|Tests:?[ \t]{1,20}(?:\d{1,9} \w{1,20}[,| \t]{1,4}){0,4}\d{1,9} passed\b.{0,80}|\d{1,9} passing \(\d{1,9}m?s\)"
    r"|(?:\[INFO\] )?Tests run: \d{1,9}, Failures: 0, Errors: 0\b.{0,200}|BUILD SUCCESSFUL in \d.{0,20}"
    r"|OK \(\d{1,9} tests?, \d{1,9} assertions?\)"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_SHELLS = frozenset(("bash", "shell", "sh", "run", "exec", "exec_command", "execute", "terminal", "run_command"))
_WRITERS = ("write", "edit", "multiedit", "write_file", "edit_file", "apply_patch", "create", "str_replace", "insert")
_READERS = ("read", "read_file", "view", "open")
_FILE_TOOLS = dict.fromkeys(_WRITERS, "file_write") | dict.fromkeys(_READERS, "file_read")
_PATH_KEYS = ("path", "file_path", "filename", "file")


def row_of_line(line: str) -> Row | None:
    """Return the row for a line with a prefix, such as ``[CMD:RUN] make``, or None."""
    if "[" not in line:
        return None
    match = _LINE.match(line)
    return _MAKERS[match["kind"]](match["rest"].strip()[:LIMIT]) if match else None


def is_pytest_result(line: str) -> bool:
    """Return True for a line such as ``== 4 passed in 0.12s ==``, with or without the ``=`` signs."""
    return pytest_result(line) is not None


def pytest_result(line: str) -> str | None:
    """Return a pytest result without its ``=`` signs and quote marks, or ``None`` for any other line."""
    if " in " not in line:
        return None
    line = line.strip(" \t>|`*\u2502")[:400]
    return line.strip("= \t") if _SUMMARY.fullmatch(line) else None


def run_result(line: str) -> str | None:
    """Return the line in which a test runner reports its result, without decoration. Return ``None`` for other
    lines."""
    if (found := pytest_result(line)) is not None:
        return found
    line = _ESCAPES.sub("", line[:800]).strip(" \t>|`*\u2502\r")[:400]
    return line if _OTHER_SUMMARY.fullmatch(line) else None


def shell_command(call: ToolCall) -> str | None:
    """Return the command that a shell tool runs ("" if unknown), or None for any other tool."""
    shell = call.name.lower() in _SHELLS
    if not shell and _path(call) is not None:  # an editor whose verbs are called commands
        return None
    for key in ("command", "cmd"):
        value = call.input.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return " ".join(str(word) for word in value)
    return "" if shell else None


def row_of_call(call: ToolCall) -> Row | None:
    """Return a row for a call that runs a command or uses a file, or None."""
    # UAH-428..429
    command = shell_command(call)
    if command is not None:
        return {"type": "cmd_run", "cmd": command[:LIMIT]}
    path = _path(call)
    kind = _FILE_TOOLS.get(call.name.lower()) or _FILE_TOOLS.get(str(call.input.get("command")).lower())
    return {"type": kind, "path": path[:LIMIT]} if path is not None and kind else None


def _path(call: ToolCall) -> str | None:
    return next((str(call.input[key]) for key in _PATH_KEYS if isinstance(call.input.get(key), str)), None)


@dataclass(frozen=True, slots=True)
class Actions:
    """Record of the action types that the agent reports with prefixes such as ``[CMD:RUN]``."""

    # tool calls of these types get no rows

    prefixed: frozenset[str] = field(default_factory=frozenset)
    given: int = 0  # rows so far

    @property
    def structured(self) -> bool:
        return bool(self.prefixed)

    def after(self, event: Event) -> tuple["Actions", tuple[Row, ...]]:
        """Return the record with ``event`` added, and the rows to store for this event."""
        known, rows = self._rows(event)
        if not rows:
            return known, ()
        room = MOST_ROWS - self.given
        if len(rows) > room:
            last: Row = {"type": "rows_left_out", "source": "harness"}
            rows = (*rows[:room], last) if room >= 0 else ()
        return replace(known, given=min(self.given + len(rows), MOST_ROWS + 1)), rows

    def _rows(self, event: Event) -> tuple["Actions", tuple[Row, ...]]:
        if isinstance(event, Text):
            return self._after_text(event.text)
        row = row_of_call(event) if isinstance(event, ToolCall) else None
        if row is not None and row["type"] not in self.prefixed:
            return self, ({**row, "source": "tool"},)
        if isinstance(event, ToolResult):
            return self, tuple(_test_runs(event.output))
        return self, ()

    def _after_text(self, text: str) -> tuple["Actions", tuple[Row, ...]]:
        if "[" not in text and " in " not in text:
            return self, ()
        rows: list[Row] = []
        for line in text.split("\n"):
            row = row_of_line(line)
            if row is not None:
                rows.append({**row, "source": "prefix"})
        seen = self.prefixed.union(str(row["type"]) for row in rows)
        return (replace(self, prefixed=seen) if rows else self), (*rows, *_test_runs(text))


def _test_runs(output: str) -> Iterator[Row]:
    if " in " not in output:
        return
    for result in filter(None, map(pytest_result, output.split("\n"))):
        yield {"type": "test_run", "result": result, "source": "output"}


def _value(kind: str, key: str) -> Callable[[str], Row | None]:
    return lambda rest: {"type": kind, key: rest.strip("`")} if rest.strip("`") else None


def _feature(kind: str) -> Callable[[str], Row | None]:
    def make(rest: str) -> Row | None:
        match = _FEATURE.match(rest)
        return {"type": kind, "feature": int(match[1])} if match else None

    return make


def _exit(rest: str) -> Row | None:
    match = _NUMBER.match(rest)
    return {"type": "cmd_exit", "code": int(match[0])} if match else None


_MAKERS: Mapping[str, Callable[[str], Row | None]] = {
    "FILE:READ": _value("file_read", "path"),
    "FILE:WRITE": _value("file_write", "path"),
    "CMD:RUN": _value("cmd_run", "cmd"),
    "CMD:OUTPUT": lambda rest: {"type": "cmd_output", "text": rest},
    "CMD:EXIT": _exit,
    "VERIFY:START": _feature("verify_start"),
    "VERIFY:PASS": _feature("verify_pass"),
    "VERIFY:FAIL": _feature("verify_fail"),
    "DECISION": _value("decision", "text"),
    "VISUAL:SCREENSHOT": _value("visual_screenshot", "path"),
    "VISUAL:VERIFY": _value("visual_verify", "text"),
}
