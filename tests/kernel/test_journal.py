"""A history only grows, loses no line to neighbours, and heals where a crash tore it."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.errors import Refused, StateDamaged
from agent_harness.kernel import journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_records_come_back_in_order(path: Path) -> None:
    records: list[dict[str, object]] = [{"n": 1, "text": "a\nb\x00\u2028é"}, {"n": 2, "deep": {"list": [1.5, None]}}]
    for record in records:
        journal.append(path, record)
    assert list(journal.read(path)) == records
    assert journal.tail(path, 1) == records[1:]
    assert path.read_bytes().count(b"\n") == 2


def test_a_missing_history_is_empty_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / ".harness" / "logs" / "events.jsonl"
    assert list(journal.read(path)) == journal.tail(path, 5) == journal.tail_lines(path, 5) == []
    journal.append(path, {"n": 1})
    assert list(journal.read(path)) == [{"n": 1}]


def test_a_folder_need_not_be_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    journal.append("here.jsonl", {"n": 1})
    assert list(journal.read("here.jsonl")) == [{"n": 1}]


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text(st.characters(exclude_categories=["Cs"])))))
def test_reading_and_tailing_agree(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]) -> None:
    path = tmp_path_factory.mktemp("history") / "events.jsonl"
    records = [{name.encode("utf-8", "replace").decode(): value for name, value in r.items()} for r in records]
    for record in records:
        journal.append(path, record)
    assert list(journal.read(path)) == records
    assert journal.tail(path, 3) == records[-3:]


def test_a_torn_line_is_passed_over_and_does_not_swallow_the_next(path: Path) -> None:
    journal.append(path, {"n": 1})
    with path.open("a") as file:
        file.write('{"n": 2, "tor')
    journal.append(path, {"n": 3})
    with path.open("a") as file:
        file.write('{"n": 4}')
    assert list(journal.read(path)) == journal.tail(path, 9) == [{"n": 1}, {"n": 3}, {"n": 4}]
    journal.append(path, {"n": 5})
    assert [record["n"] for record in journal.read(path)] == [1, 3, 4, 5]


def test_what_is_no_record_is_passed_over(path: Path) -> None:
    lines = [b"", b"[1]", b"null", b"text", b"\xff\xfe", b'{"n": 1}', b"\0" * 50, b'{"a": 1, "a": 2}', b"{" * 500]
    path.write_bytes(b"\n".join([*lines, b'  {"n": 2}  \r', b'"x"', b""]))
    assert list(journal.read(path)) == journal.tail(path, 9) == [{"n": 1}, {"n": 2}]


def test_the_tail_costs_the_same_however_long_the_history(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"n": 1}\n{"n": 2}\n')
    assert journal.tail(path, 2) == [{"n": 1}, {"n": 2}]
    assert journal.tail_lines(path, 1) == ['{"n": 2}']


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 200_000])
def test_lines_longer_than_a_block_are_whole(path: Path, size: int) -> None:
    records = [{"text": letter * size} for letter in "abc"]
    for record in records:
        journal.append(path, record)
    assert journal.tail(path, 2) == records[1:]
    assert journal.tail(path, 9) == list(journal.read(path)) == records


def test_a_line_without_end_does_not_fill_the_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"n": 1}\n{"n": "')
        file.seek(journal.MAX_LINE_BYTES * 3, os.SEEK_CUR)
        file.write(b'"}\n{"n": 2}\n')
    assert list(journal.read(path)) == [{"n": 1}, {"n": 2}]
    assert journal.tail(path, 9) == [{"n": 1}, {"n": 2}]
    assert all(len(line) <= journal.MAX_LINE_BYTES + 200_000 for line in journal.tail_lines(path, 9))


# ---- text


@given(st.text(), st.integers(8, 200))
def test_a_line_of_text_is_one_line_within_its_limit(
    tmp_path_factory: pytest.TempPathFactory, text: str, limit: int
) -> None:
    path = tmp_path_factory.mktemp("history") / "progress.txt"
    journal.append_line(path, text, limit_bytes=limit)
    raw = path.read_bytes()
    assert len(raw) <= limit
    assert raw.endswith(b"\n")
    assert len(raw.decode().splitlines()) == 1


def test_text_keeps_its_words_and_loses_its_line_ends(path: Path) -> None:
    journal.append_line(path, "one\ntwo\r\n\x1b[31mred\ttab é 😀 \u2028")
    assert path.read_text() == "one\\ntwo\\r\\n\\x1b[31mred\\ttab é 😀 \\u2028\n"
    journal.append_line(path, "é" * 100, limit_bytes=20)
    assert journal.tail_lines(path, 1) == ["éééééééé…"]


def test_the_last_lines_leave_out_empty_ones(path: Path) -> None:
    path.write_bytes(b"one\n\n  \ntwo\xff\nthree")
    assert journal.tail_lines(path, 2) == ["two\ufffd", "three"]
    assert journal.tail_lines(path, 9) == ["one", "two\ufffd", "three"]
    assert journal.tail_lines(path, 0) == []


# ---- hostile places


def test_a_history_is_never_written_through_a_link(path: Path) -> None:
    target = path.parent / "target"
    target.write_text("keep\n")
    path.symlink_to(target)
    with pytest.raises(Refused, match="cannot be added to"):
        journal.append(path, {})
    assert target.read_text() == "keep\n"


def test_pipes_and_folders_are_refused_without_a_wait(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(StateDamaged, match="is not a regular file"):
        journal.append(path, {})
    with pytest.raises(StateDamaged, match="is not a regular file"):
        list(journal.read(path))
    path.unlink()
    path.mkdir()
    with pytest.raises(Refused, match="cannot be added to: Is a directory"):
        journal.append(path, {})


# ---- many writers and sudden ends

_WRITER = """
import sys
from agent_harness.kernel import journal
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for n in range(count):
    journal.append(path, {"name": name, "n": n, "text": name * (n * 7919 % 9000), "end": n})
"""


def test_eight_writers_lose_nothing(path: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(path)]
    writers = [subprocess.Popen([*command, name, "500"]) for name in "abcdefgh"]
    assert [writer.wait() for writer in writers] == [0] * 8
    seen = [(record["name"], record["n"]) for record in journal.read(path)]
    assert len(seen) == 8 * 500
    for name in "abcdefgh":
        assert [n for other, n in seen if other == name] == list(range(500))


@pytest.mark.kill
def test_writers_killed_at_any_moment_harm_nobody(path: Path) -> None:
    chance = random.Random(7)
    with subprocess.Popen([sys.executable, "-c", _WRITER, path, "survivor", "1500"]) as survivor:
        for turn in range(12):
            size = path.stat().st_size if path.exists() else 0
            with subprocess.Popen([sys.executable, "-c", _WRITER, path, f"killed{turn}", "1000000"]) as writer:
                while not path.exists() or path.stat().st_size < size + chance.randrange(200_000):
                    assert writer.poll() is None
                writer.send_signal(signal.SIGKILL)
        assert survivor.wait() == 0
    records = list(journal.read(path))
    assert all(record["n"] == record["end"] for record in records)
    assert [record["n"] for record in records if record["name"] == "survivor"] == list(range(1500))
    for turn in range(12):
        numbers = [record["n"] for record in records if record["name"] == f"killed{turn}"]
        assert numbers == list(range(len(numbers)))
