"""A client's input is read safely, and leads to the right task list (tasklist.md 2, 3)."""

import json
import os
from pathlib import Path

import pytest

from agent_harness.hooks.event import Event, find_root, parse, read
from hooks.lists import event, make, task


@pytest.mark.parametrize(
    "raw", [b"", b"x", b"[]", b'"x"', b"7", b"null", b"\xff\xfe", b'{"a":', b"[" * 100_000, b'{"a":' * 50_000, b"NaN"]
)
def test_what_is_no_object_counts_as_empty(raw: bytes) -> None:
    assert parse(raw) == {}


def test_half_of_a_character_spoils_nothing() -> None:
    raw = b'{"session_id": "s", "last_assistant_message": "cut \\ud83d", "session_id": "t"}'
    assert parse(raw)["session_id"] == "t"
    assert parse(b'{"session_id": "s", "m": "\xf0\x9f"}')["session_id"] == "s"


def test_wrong_types_count_as_absent() -> None:
    odd = event(session_id=7, stop_hook_active="true", background_tasks={"a": 1}, agent_id=None)
    assert (odd.session_id, odd.flag("stop_hook_active"), odd.entries("background_tasks")) == ("", None, [])
    assert odd.identities("agent_id", "teammate_name") == []


def test_blank_names_identify_nobody() -> None:
    assert event({"HARNESS_WORKER_ID": "  "}, agent_id=" a ", teammate_name="").identities(
        "agent_id", "teammate_name"
    ) == ["a"]


def test_a_payload_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_harness.hooks.event.MAX_BYTES", 100)
    reader, writer = os.pipe()
    os.write(writer, json.dumps({"a": "x" * 200}).encode())
    os.close(writer)
    assert read(reader) == {}
    os.close(reader)
    assert read(reader) == {}


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("one", "two"):
        make(tmp_path / name, task(1))
        (tmp_path / name / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "two" / "a" / "b")
    return tmp_path


def test_the_order_of_the_starting_points(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, second = str(two / "one"), str(two / "two")
    assert find_root(event()) == second
    assert find_root(event(cwd=f"{one}/a/b")) == one
    assert find_root(event({"CLAUDE_PROJECT_DIR": f"{one}/a"}, cwd=second)) == one
    monkeypatch.setenv("HARNESS_STATE_ROOT", second)
    assert find_root(event({"CLAUDE_PROJECT_DIR": one}, cwd=one)) == second


def test_a_wrong_pin_leads_nowhere(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_STATE_ROOT", str(two))
    assert find_root(event(cwd=str(two / "one"))) is None


@pytest.mark.parametrize("cwd", [7, "", None, ["x"]])
def test_a_folder_of_the_wrong_type_counts_as_absent(two: Path, cwd: object) -> None:
    assert find_root(event(cwd=cwd)) == str(two / "two")


@pytest.mark.parametrize("cwd", ["/nowhere/at/all", "a\0b", "\ud800", "x" * 9000])
def test_a_folder_that_is_not_there_is_passed_over(two: Path, cwd: str) -> None:
    assert find_root(event(cwd=cwd)) is None
    assert find_root(Event({"cwd": str(two / "one")}, {"CLAUDE_PROJECT_DIR": cwd})) == str(two / "one")


def test_links_are_resolved(two: Path) -> None:
    (two / "link").symlink_to(two / "one" / "a")
    assert find_root(event(cwd=str(two / "link"))) == str(two / "one")
