"""Contents of the logs, how long they are kept, and how they are found again."""

import ast
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.events import Text, ToolCall, ToolResult, Usage
from agent_harness.kernel import clock
from agent_harness.protocols import features
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.logs import SENTENCES, prune_daily, span
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.sessions.actions import ActionLog


class Logs:
    """A project folder with logs, and the command line on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".git").mkdir(parents=True)
        (root / "features.json").write_text('{"project": "calc", "features": []}')
        self.settings("")

    def settings(self, logging: str) -> None:
        (self.root / ".harness.yaml").write_text(f"project:\n  name: calc\nlogging: {{{logging}}}\n")

    @property
    def project(self) -> Project:
        return Project.open(self.root, load(self.root))

    def rows(self, name: str) -> list[dict[str, Any]]:
        path = self.root / ".harness/logs" / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def put(self, name: str, *rows: dict[str, Any]) -> None:
        path = self.root / ".harness/logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def log(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agent_harness.cli.main", "log", *words]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)

    def query(self, *words: str) -> list[dict[str, Any]]:
        done = self.log("query", *words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["rows"]


def at(**ago: float) -> str:
    return clock.timestamp(clock.now() - timedelta(**ago), fraction=True)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "calc")


# -- levels and sampling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        ("critical", {"critical"}),
        ("important", {"critical", "important"}),
        ("routine", {"critical", "important", "routine"}),
        ("debug", {"critical", "important", "routine", "debug"}),
    ],
)
def test_the_level_is_a_floor(logs: Logs, level: str, kept: set[str]) -> None:
    """UAH-197 UAH-432 UAH-433 UAH-435 C44: what lies below it is not written; important is the default."""
    logs.settings(f"level: {level}" if level != "important" else "")
    store = logs.project.store
    for number in range(200):
        for each in ("critical", "important", "routine", "debug"):
            store.event("something", each, session=number)
    assert {row["level"].lower() for row in logs.rows("events.jsonl")} == kept


def test_one_routine_event_in_ten_is_kept_and_always_the_same_ones(logs: Logs) -> None:
    """UAH-006 UAH-434 C44: at `routine` a tenth; nothing that matters is sampled; `debug` keeps everything."""
    logs.settings("level: routine")
    for _ in range(2):
        store = logs.project.store
        for number in range(300):
            store.event("file_read", "routine", session=number)
    found = [row["session"] for row in logs.rows("events.jsonl")]
    half = len(found) // 2
    assert found[:half] == found[half:]
    assert 10 <= half <= 60
    logs.settings("level: debug")
    before = len(logs.rows("events.jsonl"))
    store = logs.project.store
    for number in range(50):
        store.event("file_read", "routine", session=number)
    assert len(logs.rows("events.jsonl")) == before + 50


# -- retention ---------------------------------------------------------------------------------------------------------


def test_each_level_is_kept_as_long_as_it_says(logs: Logs) -> None:
    """UAH-198 UAH-432 UAH-433 UAH-434 UAH-435 C44: for ever, 90, 30 and 7 days."""
    for level, days in (("CRITICAL", 4000), ("IMPORTANT", 90), ("ROUTINE", 30), ("DEBUG", 7)):
        for age in (days - 1, days + 1):
            logs.put("events.jsonl", {"ts": at(days=age), "type": level, "level": level, "age": age})
    prune_daily(logs.project)
    assert [(row["type"], row["age"]) for row in logs.rows("events.jsonl")] == [
        ("CRITICAL", 3999),
        ("CRITICAL", 4001),
        ("IMPORTANT", 89),
        ("ROUTINE", 29),
        ("DEBUG", 6),
    ]


def test_retention_days_is_about_important_events_alone(logs: Logs) -> None:
    """UAH-198 C44: the setting takes the place of the 90 days and of nothing else."""
    logs.settings("retention_days: 10")
    for level in ("CRITICAL", "IMPORTANT", "ROUTINE"):
        logs.put("events.jsonl", {"ts": at(days=20), "type": "x", "level": level})
    prune_daily(logs.project)
    assert [row["level"] for row in logs.rows("events.jsonl")] == ["CRITICAL", "ROUTINE"]


def test_decisions_and_sessions_are_kept_for_ever_and_actions_a_month(logs: Logs) -> None:
    """UAH-432 UAH-434 UAH-436: why is kept, every command that was run is not."""
    for name in ("decisions.jsonl", "sessions.jsonl", "agent_actions.jsonl", "usage.jsonl"):
        logs.put(name, {"ts": at(days=31), "old": True}, {"ts": at(days=1), "old": False})
    prune_daily(logs.project)
    assert [len(logs.rows(name)) for name in ("decisions.jsonl", "sessions.jsonl")] == [2, 2]
    assert [len(logs.rows(name)) for name in ("agent_actions.jsonl", "usage.jsonl")] == [1, 1]


def test_transcripts_go_with_the_important_rows(logs: Logs) -> None:
    """UAH-198: a session's transcript is kept 90 days; other files in the folder are not ours to take."""
    folder = logs.root / ".harness/logs"
    (folder / "verdicts").mkdir(parents=True)
    aged = (("session-1.log", 91), ("session-2.log", 1), ("notes.txt", 400))
    for name, days in (*aged, ("verdicts/1-proof.txt", 91), ("verdicts/2-suite.txt", 1), ("verdicts/mine.txt", 400)):
        (folder / name).write_text("text")
        when = (clock.now() - timedelta(days=days)).timestamp()
        os.utime(folder / name, (when, when))
    prune_daily(logs.project)
    left = sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    assert left == ["2-suite.txt", "mine.txt", "notes.txt", "session-2.log"]


def test_logs_are_pruned_once_a_day(logs: Logs) -> None:
    """C44: at the start of a run, and not at every one."""
    logs.put("events.jsonl", {"ts": at(days=100), "type": "a", "level": "IMPORTANT"})
    prune_daily(logs.project)
    logs.put("events.jsonl", {"ts": at(days=100), "type": "b", "level": "IMPORTANT"})
    prune_daily(logs.project)
    assert [row["type"] for row in logs.rows("events.jsonl")] == ["b"]


def test_what_is_no_record_or_has_no_time_is_left_alone(logs: Logs) -> None:
    """UAH-432: a torn line, a line of somebody else, a level that nobody knows."""
    path = logs.root / ".harness/logs/events.jsonl"
    text = '{"ts": "2001-01-01T00:00:00Z", "level": "DEBUG"}\n{"ts": "2001\nhello\n{"level": "DEBUG"}\n'
    text += '{"ts": "2001-01-01T00:00:00Z", "level": "ODD"}\n{"ts": 5, "level": ["DEBUG"]}\n'
    path.parent.mkdir(parents=True)
    path.write_text(text)
    prune_daily(logs.project)
    assert path.read_text() == text.partition("\n")[2]


# -- what the agent did ------------------------------------------------------------------------------------------------


def test_every_prefix_of_the_document_becomes_a_row(logs: Logs) -> None:
    """UAH-139 UAH-422 UAH-423 UAH-424 UAH-425 UAH-520: rows with their payload, in both forms of a feature."""
    text = """\
[FILE:READ] src/api/routes.py
[FILE:WRITE] src/api/profile.py
[CMD:RUN] poetry run pytest tests/e2e/test_profile.py -v
[CMD:OUTPUT]
[CMD:EXIT] 0
[VERIFY:START] Feature #12
[VERIFY:PASS] #12
[VERIFY:FAIL] #3
[DECISION] Using PATCH instead of PUT
[VISUAL:SCREENSHOT] .harness/screenshots/one.png
[VISUAL:VERIFY] The button is green
"""
    log = ActionLog(logs.project, 4, None, 12)
    log.see(Text(text=text))
    log.close(1.0)
    rows = [{k: v for k, v in row.items() if k not in ("ts", "session", "source")} for row in _actions(logs)]
    assert rows == [
        {"type": "file_read", "path": "src/api/routes.py"},
        {"type": "file_write", "path": "src/api/profile.py"},
        {"type": "cmd_run", "cmd": "poetry run pytest tests/e2e/test_profile.py -v"},
        {"type": "cmd_output", "text": ""},
        {"type": "cmd_exit", "code": 0},
        {"type": "verify_start", "feature": 12},
        {"type": "verify_pass", "feature": 12},
        {"type": "verify_fail", "feature": 3},
        {"type": "decision", "text": "Using PATCH instead of PUT"},
        {"type": "visual_screenshot", "path": ".harness/screenshots/one.png"},
        {"type": "visual_verify", "text": "The button is green"},
    ]
    assert logs.rows("events.jsonl") == []


def _actions(logs: Logs) -> list[dict[str, Any]]:
    return logs.rows("agent_actions.jsonl")


def test_a_decision_is_critical_and_says_where_it_was_made(logs: Logs) -> None:
    """UAH-090 UAH-432 UAH-436 UAH-521: decisions.jsonl holds decisions alone, with their session and feature."""
    log = ActionLog(logs.project, 4, None, 12)
    log.see(Text(text="[CMD:RUN] ls\n[DECISION] One table"))
    (row,) = logs.rows("decisions.jsonl")
    assert {k: v for k, v in row.items() if k != "ts"} == {
        "level": "CRITICAL",
        "session": 4,
        "feature_id": 12,
        "text": "One table",
    }


def test_without_prefixes_tool_calls_and_results_are_tracked_and_it_is_said(logs: Logs) -> None:
    """UAH-202 UAH-427 UAH-429 UAH-430 C43: the word "error" alone is no test run."""
    log = ActionLog(logs.project, 4, None, 12)
    log.see(ToolCall(id="1", name="bash", input={"command": "python -m pytest -q"}))
    log.see(ToolResult(id="1", output="an error passed by\n1 failed, 3 passed in 0.12s\n", is_error=False))
    log.close(1.0)
    assert [(row["type"], row["source"]) for row in _actions(logs)] == [("cmd_run", "tool"), ("test_run", "output")]
    (event,) = logs.rows("events.jsonl")
    assert event["message"] == "Agent output not fully structured, using fallback"


def test_routine_and_debug_rows_come_only_when_they_are_asked_for(logs: Logs) -> None:
    """UAH-434 UAH-435: files and commands are routine; tokens and how long turns take are debug."""
    for level, wanted in (("important", set()), ("debug", {"cmd_run", "token_usage", "agent_turn"})):
        logs.settings(f"level: {level}, warn_on_missing_prefixes: false")
        log = ActionLog(logs.project, 4, None, 12)
        log.see(Text(text="[CMD:RUN] ls"))
        log.see(Usage(input_tokens=10, output_tokens=2))
        log.close(1.0)
        assert {row["type"] for row in logs.rows("events.jsonl")} == wanted


def test_secrets_are_masked_in_every_log(logs: Logs) -> None:
    """UAH-139: what an agent prints may hold a key."""
    log = ActionLog(logs.project, 4, None, 12)
    log.see(
        Text(text="[CMD:RUN] curl -H 'Authorization: Bearer abcdefghijklmnop1234'\n[DECISION] API_KEY=hunter2hunter2")
    )
    text = json.dumps(_actions(logs) + logs.rows("decisions.jsonl"))
    assert "abcdefghijklmnop1234" not in text
    assert "hunter2hunter2" not in text


# -- finding it again --------------------------------------------------------------------------------------------------


@pytest.fixture
def story(logs: Logs) -> Logs:
    """Three sessions' worth of rows."""
    logs.put(
        "events.jsonl",
        {"ts": at(days=3), "type": "session_started", "level": "IMPORTANT", "session": 1, "feature_id": 1},
        {"ts": at(days=2), "type": "verification_failed", "level": "CRITICAL", "session": 2, "feature_id": 2,
         "message": "Feature test failed: Login page"},
        {"ts": at(hours=2), "type": "feature_completed", "level": "IMPORTANT", "session": 3, "feature_id": 2,
         "commit": "abc", "message": "Feature #2 (Login) verified"},
    )  # fmt: skip
    logs.put("decisions.jsonl", {"ts": at(days=2, hours=1), "session": 2, "text": "Using the library requests"})
    logs.put(
        "agent_actions.jsonl",
        {"ts": at(hours=3), "session": 3, "type": "cmd_run", "cmd": "pytest tests/login.py", "source": "prefix"},
        {"ts": at(hours=3), "session": 3, "type": "file_write", "path": "src/login.py", "source": "git"},
    )
    row = {"started_at": at(days=2), "duration_seconds": 90, "tokens_used": {"input": 1, "output": 2}}
    logs.put(
        "sessions.jsonl",
        {**row, "session_id": 2, "feature_id": 2, "feature_completed": False, "cost_usd": None, "rejected": "no"},
        {**row, "session_id": 3, "feature_id": 2, "feature_completed": True, "cost_usd": 0.5,
         "termination_reason": "complete"},
    )  # fmt: skip
    return logs


@pytest.mark.parametrize(
    ("words", "types"),
    [
        (["login"], ["verification_failed", "cmd_run", "file_write", "feature_completed"]),
        (["LOGIN pytest"], ["cmd_run"]),
        (["library"], [None]),
        (["--level", "critical"], [None, "verification_failed"]),
        (["--session", "3", "--source", "actions"], ["cmd_run", "file_write"]),
        (["--feature", "2"], ["verification_failed", "feature_completed"]),
        (["--type", "cmd_run", "--type", "session_started"], ["session_started", "cmd_run"]),
        (["--since", "1d"], ["cmd_run", "file_write", "feature_completed"]),
        (["--until", "60h"], ["session_started"]),
        (["--limit", "1"], ["feature_completed"]),
        (["no such thing"], []),
    ],
)
def test_a_query_finds_what_fits(story: Logs, words: list[str], types: list[str | None]) -> None:
    """UAH-073 UAH-522: words in any case, sessions, features, levels, types, logs, times, and how many; by time."""
    assert [row.get("type") for row in story.query(*words)] == types


def test_a_query_reads_well_and_says_when_there_is_more(story: Logs) -> None:
    """UAH-073 UAH-522: a row a line for people; older rows are announced; nothing found is no error."""
    done = story.log("query", "login", "--limit", "2")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert "S3   IMPORTANT feature_completed  Feature #2 (Login) verified" in done.stdout
    assert "--limit 8" in done.stderr
    assert story.log("query", "nothing of the kind").stdout == "No log row matches.\n"


def test_a_session_is_summed_up(story: Logs) -> None:
    """UAH-124 UAH-523: how it ended, what it cost, what it wrote, decided, and what went wrong."""
    done = story.log("sessions")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "Session 2: Feature #2, rejected; 2 min, cost unknown",
        "  decided: Using the library requests",
        "  problem: verification_failed: Feature test failed: Login page",
        "Session 3: Feature #2, verified; 2 min, $0.50",
        "  wrote src/login.py",
        "  ran 1 command(s), showed 0 test result(s)",
    ]
    (one,) = json.loads(story.log("sessions", "--session", "3", "--json").stdout)["sessions"]
    assert (one["commit"], one["files_written"]) == ("abc", ["src/login.py"])


def test_times_of_rows_name_their_zone(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """FIX-13: local time, or UTC where it is asked for; a sentence instead of members."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    logs.put("events.jsonl", {"ts": "2026-01-31T09:30:00Z", "type": "pushed", "session": 2, "commit": "abc"})
    assert logs.log("query").stdout == "2026-01-31 18:30:00 JST  S2   IMPORTANT pushed  pushed abc\n"
    assert logs.log("query", "--utc").stdout.startswith("2026-01-31 09:30:00 UTC  S2 ")


def test_every_event_without_a_message_has_a_sentence() -> None:
    """FIX-13: what the sources write as an event is in the table, or says it itself."""
    silent: set[str] = set()
    for path in (Path(features.__file__).parent).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "event":
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and not {"message", None} & {k.arg for k in node.keywords}:
                    silent.add(str(first.value))
    assert len(silent) > 20
    assert silent <= set(SENTENCES)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 s"), (8, "8 s"), (59.6, "1 min"), (720, "12 min"), (11100, "3 h 05")]
)
def test_spans_are_in_the_unit_that_fits(seconds: float, shown: str) -> None:
    """FIX-14."""
    assert span(seconds) == shown


def test_a_problem_is_said_once_and_its_first_id_is_whole(logs: Logs) -> None:
    """FIX-14: two events of one problem are one line, and no id is cut in its middle."""
    ids = [f"tests/test_long.py::test_{n}_{'x' * 60}" for n in range(9)]
    row = {"ts": at(minutes=1), "session": 1, "level": "CRITICAL", "type": "regression", "message": ", ".join(ids)}
    logs.put("sessions.jsonl", {"ts": at(minutes=1), "session_id": 1, "feature_id": 1, "duration_seconds": 8})
    logs.put("events.jsonl", row, row)
    (problem,) = [each for each in logs.log("sessions").stdout.splitlines() if "problem:" in each]
    assert "; 8 s," in logs.log("sessions").stdout
    assert problem.startswith(f"  problem: regression: {ids[0]}, ")
    assert problem.endswith(" and 6 words more")


def test_odd_rows_and_broken_settings_stop_no_query(story: Logs) -> None:
    """UAH-073: an agent can write to the logs, and a person can break the settings; neither steers the terminal."""
    (story.root / ".harness.yaml").write_text("project: [")
    deep = "[" * 600 + "]" * 600
    path = story.root / ".harness/logs/events.jsonl"
    with path.open("a") as file:
        file.write('{"ts": 5, "type": ["x"], "level": {}, "session": "many", "message": "odd \\u001b[2J"}\n')
        file.write(f'{{"ts": "9999", "type": "deep", "message": {deep}}}\n{{"torn": \n')
    done = story.log("query", "odd")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert story.log("query", "anything").returncode == 0
    assert story.log("sessions").returncode == 0


@pytest.mark.parametrize(
    "words",
    [["query", "--since", "yesterday"], ["query", "--since", "999999w"], ["query", "--level", "loud"], ["sing"], []],
)
def test_wrong_words_are_one_line(story: Logs, words: list[str]) -> None:
    """C50: exit code 2, one line and the next command, nothing written."""
    done = story.log(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_without_a_project_there_is_nothing_to_ask(tmp_path: Path) -> None:
    """C50: no project here."""
    command = [sys.executable, "-m", "agent_harness.cli.main", "log", "query", "x", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["hint"]
