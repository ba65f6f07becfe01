"""The limit of Stop: it counts blocks, resets on progress, and always ends (tasklist.md 6.3)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.hooks import stop_limit
from agent_harness.hooks.stop_limit import (
    Call,
    Stops,
    counted,
    limit_from,
)
from agent_harness.protocols.tasklist.layout import TaskListLayout


def call(signature: str = "a", *, at: float = 100.0, new_turn: bool = False, message: str = "m") -> Call:
    return Call(signature, message, new_turn=new_turn, at=at, started_at=at)


def blocks(entry: dict[str, Any], *calls: Call, limit: int = 7) -> list[bool]:
    """Return for each call in turn whether it was blocked."""
    kept = []
    for each in calls:
        entry, count = counted(entry, each, limit)
        kept.append(not count.reached)
    return kept


def test_it_lets_go_after_the_limit_and_stays_so() -> None:
    assert blocks({}, *(call(at=n * 60) for n in range(1, 12))) == [True] * 7 + [False] * 4


def test_progress_starts_over() -> None:
    calls = [call(at=n * 60) for n in range(1, 9)] + [call("b", at=n * 60) for n in range(9, 18)]
    assert blocks({}, *calls) == [True] * 7 + [False] + [True] * 7 + [False] * 2


def test_a_new_turn_starts_over_and_an_absent_flag_does_not() -> None:
    calls = [call(at=n * 60) for n in range(1, 9)]
    assert blocks({}, *calls, call(at=900, new_turn=True), call(at=960)) == [True] * 7 + [False, True, True]


def test_the_hard_limit_ends_any_session() -> None:
    kept = blocks({}, *(call(str(n), at=n * 60) for n in range(1200)))
    assert kept == [True] * stop_limit.HARD_LIMIT + [False] * (1200 - stop_limit.HARD_LIMIT)


SAME = [
    ("side by side", Call("a", "m", new_turn=False, at=101.0, started_at=99.9), 1),
    ("nothing says when it began", Call("a", "m", new_turn=False, at=101.0, started_at=None), 1),
    ("began after the answer", Call("a", "m", new_turn=False, at=101.0, started_at=100.5), 2),
    ("later", Call("a", "m", new_turn=False, at=102.5, started_at=99.9), 2),
    ("other words", Call("a", "n", new_turn=False, at=101.0, started_at=99.9), 2),
    ("progress", Call("b", "m", new_turn=False, at=101.0, started_at=99.9), 1),
    ("clock set back", Call("a", "m", new_turn=False, at=50.0, started_at=49.0), 2),
]


@pytest.mark.parametrize(("row", "second", "expected"), SAME, ids=[row[0] for row in SAME])
def test_two_registrations_of_one_hook_count_as_one_call(row: str, second: Call, expected: int) -> None:
    entry, _ = counted({}, call(at=100.0), 7)
    _, count = counted(entry, second, 7)
    assert (count.blocks, count.reached) == (expected, False)


@pytest.mark.parametrize(("given", "limit"), [("", 7), ("x", 7), ("1", 3), ("5", 5), ("999", 50), ("-4", 3)])
def test_the_limit_stays_within_its_bounds(given: str, limit: int) -> None:
    assert limit_from({"HARNESS_MAX_BLOCKS": given}) == limit
    assert limit_from({}) == 7


ODD: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["blocks", "total", "signature", "message", "at", "x"]), ODD))
def test_whatever_stands_in_the_file_is_no_trouble(entry: dict[str, Any]) -> None:
    after, _ = counted(entry, call(), 7)
    assert isinstance(after, dict)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(3, 50))
def test_blocks_are_bounded_by_progress(progress: list[int], limit: int) -> None:
    """At most the limit for every step of progress, and once more."""
    done = 0
    calls: list[Call] = []
    for number, step in enumerate(progress * 8):
        done += step == 3 and number % 7 == 0
        calls.append(call(str(done), at=number * 60))
    assert sum(blocks({}, *calls, limit=limit)) <= limit * (done + 1)


# ---- on disk


@pytest.fixture
def stops(tmp_path: Path) -> Stops:
    return Stops(TaskListLayout(tmp_path))


def test_counts_are_kept_by_session(stops: Stops, tmp_path: Path) -> None:
    assert [stops.count("a", call(at=60 * n), 7).blocks for n in (1, 2)] == [1, 2]
    assert stops.count("b", call(), 7).blocks == 1
    assert [path.name for path in (tmp_path / ".harness").iterdir()] == ["stops.json"]
    stops.forget("a")
    assert (stops.entry("a")["blocks"], stops.entry("a")["total"]) == (0, 2)


def test_old_sessions_make_room(stops: Stops, tmp_path: Path) -> None:
    for number in range(stop_limit.KEPT_SESSIONS + 20):
        stops.write(f"s{number}", {"blocks": 1})
    kept = json.loads((tmp_path / ".harness" / "stops.json").read_text())["sessions"]
    assert len(kept) == stop_limit.KEPT_SESSIONS
    assert f"s{stop_limit.KEPT_SESSIONS + 19}" in kept


@pytest.mark.parametrize("key", ["", "x" * 9000, "é\ud800\n"])
def test_any_session_id_is_a_key(stops: Stops, key: str) -> None:
    assert stops.count(key, call(at=60), 7).recorded
    assert stops.count(key, call(at=120), 7).blocks == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"sessions": 7}', b'{"sessions": {"a": 7}}', b"\xff\0"])
def test_a_damaged_file_starts_over(stops: Stops, tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness" / "stops.json").write_bytes(content)
    assert [stops.count("a", call(at=60 * n), 7).blocks for n in (1, 2)] == [1, 2]


def test_a_link_in_its_place_is_replaced_and_never_followed(stops: Stops, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("{}")
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness" / "stops.json").symlink_to(other)
    assert stops.count("a", call(), 7).recorded
    assert other.read_text() == "{}"
    assert not (tmp_path / ".harness" / "stops.json").is_symlink()


def test_a_count_that_cannot_be_written_says_so(stops: Stops, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / ".harness").symlink_to(elsewhere)
    assert not stops.count("a", call(), 7).recorded
    assert list(elsewhere.iterdir()) == []
    (tmp_path / ".harness").unlink()
    (tmp_path / ".harness").write_text("")
    assert not stops.count("a", call(), 7).recorded
    (tmp_path / ".harness").unlink()
    (tmp_path / ".harness" / "stops.json").mkdir(parents=True)
    assert not stops.count("a", call(), 7).recorded
    assert os.listdir(tmp_path / ".harness") == ["stops.json"]
