"""Output in bounded room: tail, log, lines."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.kernel.process.output import (
    CUT_MARK,
    LINE_LIMIT_BYTES,
    CappedLog,
    Lines,
    OutputTail,
)

CHUNKS = st.lists(st.binary(max_size=40).map(lambda part: part.replace(b"\0", b"\n")), max_size=30)


@given(CHUNKS, st.integers(0, 50))
def test_the_tail_is_the_end_of_everything(chunks: list[bytes], keep: int) -> None:
    tail = OutputTail(keep)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert tail.bytes() == whole[max(0, len(whole) - keep) :]
    assert tail.total_bytes == len(whole)


@given(CHUNKS)
def test_lines_are_the_same_however_they_arrive(chunks: list[bytes]) -> None:
    lines = Lines()
    for chunk in chunks:
        lines.feed(chunk)
    lines.end()
    assert list(iter(lines.pop, None)) == b"".join(chunks).removesuffix(b"\n").split(b"\n") or not b"".join(chunks)
    assert not lines


@pytest.mark.parametrize("size", [LINE_LIMIT_BYTES - 1, LINE_LIMIT_BYTES, LINE_LIMIT_BYTES + 1, 5 * LINE_LIMIT_BYTES])
@pytest.mark.parametrize("step", [65536, 999_983])
def test_a_line_over_the_limit_is_cut_and_marked(size: int, step: int) -> None:
    lines = Lines()
    text = b"x" * size + b"\nnext\n" + b"y" * size
    for start in range(0, len(text), step):
        lines.feed(text[start : start + step])
    lines.end()
    mark = CUT_MARK if size > LINE_LIMIT_BYTES else b""
    cut = min(size, LINE_LIMIT_BYTES)
    assert list(iter(lines.pop, None)) == [b"x" * cut + mark, b"next", b"y" * cut + mark]


def test_a_cut_line_is_handed_out_before_its_end_comes() -> None:
    lines = Lines()
    lines.feed(b"x" * (LINE_LIMIT_BYTES + 1))
    assert lines.pop() == b"x" * LINE_LIMIT_BYTES + CUT_MARK


@pytest.mark.parametrize("line", [b"", b"short", b"x" * 10_000])
def test_unread_lines_are_bounded_and_the_latest_stay(line: bytes) -> None:
    lines = Lines()
    count = 200_000 if len(line) < 100 else 2000
    for number in range(count):
        lines.feed(line + b"%d\n" % number)
    kept = list(iter(lines.pop, None))
    assert kept[-1] == line + b"%d" % (count - 1)
    assert len(kept) + lines.dropped == count
    latest_chunk = len(kept[-1]) + 50  # is never dropped for itself
    assert 2 << 20 < sum(map(len, kept)) + 50 * len(kept) <= (4 << 20) + latest_chunk


@settings(max_examples=50)
@given(st.lists(st.binary(min_size=1, max_size=3000), max_size=40), st.integers(0, 3000))
def test_a_log_never_outgrows_its_limit(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], before: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(b"b" * before)
    log = CappedLog(path, 4096)
    for chunk in chunks:
        log.write(chunk)
        assert path.stat().st_size <= 4096
    log.close()
    log.close()
    whole, text = b"b" * before + b"".join(chunks), path.read_bytes()
    if len(whole) <= 4096:
        assert text == whole
    else:
        head, mark, tail = text.partition(b"\n[... ")
        assert whole.startswith(head)
        assert mark
        assert whole.endswith(tail.partition(b"cut here ...]\n")[2])


def test_a_log_says_how_much_is_missing(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log", 4096)
    for number in range(1000):
        log.write(b"line %05d\n" % number)
    log.close()
    head, _, rest = (tmp_path / "log").read_bytes().partition(b"\n[... ")
    missing, _, tail = rest.partition(b" bytes cut here ...]\n")
    assert tail.startswith(b"line ")
    assert 0 <= int(missing) - (11_000 - len(head) - len(tail)) < 200  # earlier marks are counted too


def test_a_log_is_for_its_owner_only(tmp_path: Path) -> None:
    CappedLog(tmp_path / "log", 4096).close()
    assert os.stat(tmp_path / "log").st_mode & 0o077 == 0


def test_a_reader_that_keeps_up_misses_no_line_of_a_chunk_however_short_its_lines_are() -> None:
    lines = Lines()
    seen = 0
    for _ in range(3):
        lines.feed(b"\n" * (1 << 18))
        while lines.pop() is not None:
            seen += 1
    assert (seen, lines.dropped) == (3 << 18, 0)
