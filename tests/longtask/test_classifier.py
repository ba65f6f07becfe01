"""Failures read from a text: the classes, who refused, how long to wait, and `lth classify`."""

import io
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import retry
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.options import ClassifyOptions
from agent_harness.protocols.longtask.run import classifier, outcome
from agent_harness.protocols.longtask.run.classifier import classify_command
from agent_harness.testing.long_task_project import LongTaskProject

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

_CLASSES = """
rate_limit       HTTP 429
rate_limit       HTTP/1.1 429 Too Many Requests
rate_limit       status: 429
rate_limit       {"error": {"code": 429}}
rate_limit       API Error: Request rejected (429) \N{MIDDLE DOT} Enough for today
rate_limit       ERROR: exceeded retry limit, last status: 429 Too Many Requests
rate_limit       Too many requests
rate_limit       rate_limit_exceeded
rate_limit       {"type": "rate_limit_error"}
rate_limit       openai.RateLimitError: slow down
rate_limit       {"type":"usage_limit_reached","resets_in_seconds":13872}
rate_limit       insufficient_quota
rate_limit       quota exceeded
rate_limit       You exceeded your current quota
rate_limit       You exceeded your quota
rate_limit       You've hit your usage limit. Upgrade to Pro or try again in 2 days 17 hours 14 minutes.
rate_limit       You\N{RIGHT SINGLE QUOTATION MARK}ve hit your usage limit
rate_limit       Usage limit has been reached
rate_limit       usage limit reached
rate_limit       Rate limit hit
rate_limit       rate limit exceeded
rate_limit       Retry-After: 30
rate_limit       we are rate limited
rate_limit       rate-limiting in effect
rate_limit       ratelimited
rate_limit       please try again later
rate_limit       retry after a while
rate_limit       AssertionError in the client: HTTP 429
test_failure     3 tests failed
test_failure     one failing test
test_failure     AssertionError: 1 != 2
test_failure     ERR_ASSERTION
test_failure     npm ERR! code 1
test_failure     == 2 failed, 7 passed in 1.2s ==
test_failure     Tests:  1 failed, 3 passed, 4 total
test_failure     Tests  2 failed | 5 passed (7)
test_failure     FAILED (failures=2)
test_failure     --- FAIL: TestOne (0.00s)
test_failure     test result: FAILED. 1 passed; 1 failed
test_failure     Failures: 3
test_failure     assert x: expected 1, actual 2
test_failure     expected 1 received 2 in the spec
test_failure     test failed: says try again later when the rate limit is near
auth_error       HTTP 401
auth_error       error: 403
auth_error       401 Unauthorized
auth_error       403 Forbidden
auth_error       permission denied
auth_error       authentication failed
auth_error       AuthenticationError: no
auth_error       authorization error
auth_error       Invalid API key
auth_error       {"code": "invalid_api_key"}
auth_error       API key expired
auth_error       Not logged in
auth_error       Please run codex login
auth_error       token expired
missing_context  missing context
missing_context  I need more context
missing_context  cannot find the file
missing_context  file not found
missing_context  ENOENT
missing_context  No such file or directory
missing_context  Module not found: './a'
missing_context  ModuleNotFoundError: No module named 'flask'
missing_context  sh: 1: ollama: command not found
unknown          see line 401 of the file
unknown          all 429 rows done
unknown          the authentication chapter is drafted
unknown          documented how the API key is read
unknown          Renderer output: expected width 3, received width 4
unknown          0 failed, 12 passed
unknown          Failures: 0
unknown          disk quota exceeded
unknown          address already in use
unknown          it broke
"""


_ROWS: Sequence[str] = _CLASSES.strip().splitlines()
_ONE_A_CLASS: Sequence[str] = list({row.split()[0]: row for row in _ROWS}.values())


@pytest.mark.parametrize("row", _ROWS)
def test_words_name_the_class(row: str) -> None:
    name, text = row.split(maxsplit=1)
    for around in (text, f"before\n{text}\nafter", text.upper()):
        assert classifier.classify(around, now=NOW).name == name


def at_the_end_of_a_long_text(rows: Sequence[str]) -> None:
    for row in rows:
        name, text = row.split(maxsplit=1)
        assert classifier.classify("x " * 60_000 + "\n" + text, now=NOW).name == name


def test_words_at_the_end_of_a_long_text_name_the_class() -> None:
    at_the_end_of_a_long_text(_ONE_A_CLASS)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_all_words_at_the_end_of_a_long_text_name_the_class() -> None:
    at_the_end_of_a_long_text(_ROWS)


@pytest.mark.parametrize(
    ("text", "name", "seconds"),
    [
        ("You've hit your usage limit. Try again in 2 days 17 hours 14 minutes.", "rate_limit", 234_840),
        ('{"error":{"type":"usage_limit_reached","resets_in_seconds":13872}}', "rate_limit", 13_872),
        ("rate_limit_exceeded", "rate_limit", None),
        ("HTTP 429. Retry after 5 minutes", "rate_limit", 300),
        ("failed at line 401", "unknown", None),
        (f"rate limit reached, retry after {'9' * 400}", "rate_limit", 31 * 86_400),
    ],
)
def test_row_12_messages_of_real_clients(text: str, name: str, seconds: int | None) -> None:
    found = classifier.classify(text, exit_code=1, now=NOW)
    assert (found.name, found.retry_after_seconds) == (name, seconds)


def test_row_12_exit_0_is_a_success_whatever_the_text_says() -> None:
    found = classifier.classify("HTTP 429 too many requests", exit_code=0, now=NOW)
    assert found.name == "success"
    assert found.status == "paused"
    assert found.blocked_until is found.retry_after_seconds is None
    assert "fallbackWaitSeconds" not in found.as_record()


def test_the_answer_of_a_rate_limit_with_a_time() -> None:
    found = classifier.classify("Codex CLI: 429 Too Many Requests. Retry after 120 seconds.", now=NOW)
    assert list(found.as_record()) == [
        "class",
        "source",
        "statusSuggestion",
        "blockedUntil",
        "retryAfterSeconds",
        "fallbackWaitSeconds",
        "confidence",
        "summary",
    ]
    assert found.blocked_until == "2026-01-31T12:02:00.000Z"
    assert (found.source, found.confidence) == ("codex-cli", 0.9)


def test_the_answer_of_a_rate_limit_without_a_time() -> None:
    found = classifier.classify("too many requests", fallback_wait_seconds=60, now=NOW)
    assert found.blocked_until == "2026-01-31T12:01:00.000Z"
    assert (found.retry_after_seconds, found.fallback_wait_seconds, found.confidence) == (None, 60, 0.78)


@pytest.mark.parametrize(
    ("name", "status", "confidence"),
    [
        ("auth_error", "needs-human", 0.82),
        ("test_failure", "paused", 0.74),
        ("missing_context", "needs-human", 0.7),
        ("unknown", "needs-human", 0.2),
        ("success", "paused", 0.6),
    ],
)
def test_what_each_class_suggests(name: str, status: str, confidence: float) -> None:
    assert classifier.CLASSES[name] == (status, confidence)
    assert outcome.NEXT_STEPS[name]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Codex and kimi", "codex-cli"),
        ("KIMI said no", "kimi-cli"),
        ("the MiniMax model", "openclaw-provider"),
        ("openclaw", "openclaw-provider"),
        ("cron woke it", "scheduler"),
        ("a GraphQL call", "external-api"),
        ("the rest api", "external-api"),
        ("codexes and crony", "manual"),
        ("", "manual"),
    ],
)
def test_who_refused(text: str, source: str) -> None:
    assert classifier.source_of(text) == source
    assert classifier.classify(text, source="scheduler", now=NOW).source == "scheduler"


def test_the_summary_is_the_line_that_decided_and_holds_no_secret() -> None:
    text = "started\nHTTP 429 with key sk-abcdefghijklmnopqrstuvwxyz0123456789\nbye"
    summary = classifier.classify(text, now=NOW).summary
    assert summary.startswith("HTTP 429 with key")
    assert "abcdefghijklmnop" not in summary
    assert len(classifier.classify("broke " * 1000, now=NOW).summary) == 300


@given(st.text())
def test_any_text_has_a_class(text: str) -> None:
    found = classifier.classify(text, exit_code=1, now=NOW)
    assert found.name in classifier.CLASSES
    assert found.summary


@pytest.mark.parametrize(
    "piece", ["retry after ", "try again in 1 d ", "resets ", "9,999", "wait ", "until 9", "x-reset-after-"]
)
def test_hostile_text_takes_no_time(piece: str) -> None:
    retry.seconds_asked(piece * (131_072 // len(piece)), NOW)


# ---- the command


def test_classify_writes_nothing(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.lth("classify", "--text", "HTTP 429", "--source", "kimi-cli", code=0).json
    assert (answer["class"], answer["source"], answer["fallbackWaitSeconds"]) == ("rate_limit", "kimi-cli", 14_400)
    assert project.untouched() == []


def test_classify_reads_a_file(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    text = tmp_path / "output.txt"
    text.write_bytes(b"\xff\xfe 401 Unauthorized")
    assert project.lth("classify", "--file", str(text), code=0).json["class"] == "auth_error"
    assert project.lth("classify", "--file", str(text), "--exit-code", "0", code=0).json["class"] == "success"


def test_classify_reads_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = LongTaskProject.of_book(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"permission denied")))
    found, code = classify_command(LongTaskLayout(project.root), ClassifyOptions({"file": "-"}))
    assert (found["class"], code) == ("auth_error", 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "classify requires --text or --file."),
        (("--file", "nowhere.txt"), "cannot read nowhere.txt"),
        (("--file", "."), "cannot read ."),
        (("--text", "x", "--source", "nobody"), "source"),
        (("--text", "x", "--exit-code", "one"), "exit-code"),
    ],
)
def test_row_15_classify_refuses_in_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    done = project.lth("classify", *words, code=1)
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert done.out == ""


def test_classify_record_of_a_rate_limit(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    session = tmp_path / ".codex/sessions/2026/a.jsonl"
    session.parent.mkdir(parents=True)
    session.touch()
    words = ("--text", f"codex: HTTP 429, retry after 1h, see {session}.", "--record")
    answer = project.lth("classify", *words, code=0).json
    state = project.checkpoint
    assert state["status"] == "blocked"
    assert state["blockedUntil"] == answer["blockedUntil"]
    assert state["nextStep"] == outcome.NEXT_STEPS["rate_limit"]
    assert state["blocker"]["type"] == "rate_limit"
    assert state["blocker"]["source"] == "codex-cli"
    assert state["blocker"]["retryAfterSeconds"] == 3600
    assert state["blocker"]["requiresHuman"] is False
    assert "workerCooldowns" not in state
    assert [each["type"] for each in state["evidence"]] == ["codex-session"]
    assert state["evidence"][0]["path"] == str(session)
    assert project.kinds() == ["rate_limited", "checkpoint_written"]
    assert "worker" not in project.events("rate_limited")[0]
    assert project.reasons() == ["classified rate_limit"]
    assert not list((tmp_path / "evidence").iterdir())


def test_classify_record_finds_the_newest_session_of_codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    for number, name in enumerate(("sessions/2026/01/s.jsonl", "archived_sessions/old.jsonl")):
        path = tmp_path / "codex" / name
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
        os.utime(path, (1_700_000_000 - number, 1_700_000_000 - number))
    project.lth("classify", "--text", "Codex CLI: 429 Too Many Requests", "--record", code=0)
    (item,) = project.checkpoint["evidence"]
    assert (item["type"], item["path"]) == ("codex-session", str(tmp_path / "codex/sessions/2026/01/s.jsonl"))
    project.lth("classify", "--text", "kimi: 429 Too Many Requests", "--record", code=0)
    assert len(project.checkpoint["evidence"]) == 1


def test_classify_record_of_other_classes(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.lth("classify", "--text", "y" * 600, "--record", code=0)
    assert project.checkpoint["status"] == "needs-human"
    assert project.checkpoint["blocker"]["requiresHuman"] is True
    event = project.events("failure_classified")[0]
    assert event["reason"] == "unknown"
    assert event["note"] == "y" * 497 + "..."
    project.lth("classify", "--text", "fine", "--exit-code", "0", "--record", code=0)
    assert project.checkpoint["status"] == "paused"
    assert project.checkpoint["blocker"] is None
    assert project.reasons() == ["classified unknown", "classified success"]
    project.loads()
