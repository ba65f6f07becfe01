"""Reports are untrusted: what is no whole JUnit XML file is no report."""

import json
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.verification.runner.testreport import (
    ReportProblem,
    RunRecorder,
    read_junit,
    report_of,
    worst,
)

CASE = '<testcase file="tests/test_a.py" classname="tests.test_a" name="test_x" time="0.1"/>'
WHOLE = f'<testsuites><testsuite failures="0" errors="0" time="1.5">{CASE}</testsuite></testsuites>'


def read(folder: Path, text: str | bytes) -> object:
    place = folder / "report.xml"
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_junit(place)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('file="tests/test_a.py" classname="tests.test_a" name="test_x"', "tests/test_a.py::test_x"),
        ('file="tests/test_a.py" classname="tests.test_a.TestY" name="test_x"', "tests/test_a.py::TestY::test_x"),
        (
            'file="tests/test_a.py" classname="tests.test_a.TestY.TestZ" name="t[a.b]"',
            "tests/test_a.py::TestY::TestZ::t[a.b]",
        ),
        ('file="README.md" classname="README.md" name="README.md"', "README.md::README.md"),
        ('file="base.py" classname="tests.test_b.TestY" name="test_x"', "tests.test_b.TestY::test_x"),
        ('classname="suite one" name="adds"', "suite one::adds"),
        ('classname="" name="tests.test_bad"', "tests.test_bad"),
    ],
)
def test_ids(tmp_path: Path, attributes: str, expected: str) -> None:
    report = read(tmp_path, f"<testsuite><testcase {attributes}/></testsuite>")
    assert report == report_of([(expected, "passed")])


@pytest.mark.parametrize(
    ("inner", "outcome"),
    [
        ("", "passed"),
        ("<system-out>failure</system-out>", "passed"),
        ("<failure/>", "failed"),
        ("<error/>", "error"),
        ("<failure/><error/>", "error"),
        ("<skipped/>", "skipped"),
        ('<skipped type="pytest.xfail"/>', "skipped"),
        ("<properties><property name='a' value='b'/></properties>", "passed"),
    ],
)
def test_outcomes(tmp_path: Path, inner: str, outcome: str) -> None:
    report = read(tmp_path, f'<testsuite><testcase classname="a" name="b">{inner}</testcase></testsuite>')
    assert report == report_of([("a::b", outcome)])


def test_an_id_that_comes_twice_keeps_its_worst_outcome() -> None:
    report = report_of([("a", "passed"), ("a", "error"), ("b", "skipped"), ("b", "passed")])
    assert (report.passing, report.failing) == ({"b"}, {"a"})


@given(st.lists(st.sampled_from(["passed", "failed", "error", "skipped"]), min_size=1))
def test_no_pass_hides_a_failure(outcomes: list[str]) -> None:
    assert (worst(outcomes) in {"failed", "error"}) == bool({"failed", "error"} & set(outcomes))


BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;">]>'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "4 passed",
        "<html/>",
        WHOLE[:-5],
        WHOLE[: len(WHOLE) // 2],
        BOMB + WHOLE,
        (BOMB + WHOLE).encode("utf-16"),
        '<!DOCTYPE a SYSTEM "file:///etc/passwd">' + WHOLE,
        '<testsuite failures="1">' + CASE + "</testsuite>",
        b"\xff\xfe\x00\x01",
    ],
    ids=["empty", "prose", "other-xml", "torn", "half", "bomb", "bomb-utf16", "external", "hidden-failure", "binary"],
)
def test_what_is_no_report(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(ReportProblem):
        read(tmp_path, content)


@given(cut=st.integers(min_value=0, max_value=len(WHOLE) - 1))
def test_a_report_torn_anywhere_is_none(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    with pytest.raises(ReportProblem):
        read(tmp_path_factory.mktemp("torn"), WHOLE[:cut])


def test_a_missing_report_a_link_a_folder_and_a_pipe_are_none(tmp_path: Path) -> None:
    (tmp_path / "real.xml").write_text(WHOLE)
    (tmp_path / "link.xml").symlink_to(tmp_path / "real.xml")
    (tmp_path / "folder.xml").mkdir()
    os.mkfifo(tmp_path / "pipe.xml")
    for name in ("missing.xml", "link.xml", "folder.xml", "pipe.xml"):
        with pytest.raises(ReportProblem):
            read_junit(tmp_path / name)


def test_deep_nesting_costs_nothing(tmp_path: Path) -> None:
    depth = 100_000
    report = read(tmp_path, "<testsuite>" + "<a>" * depth + "</a>" * depth + CASE + "</testsuite>")
    assert report == report_of([("tests/test_a.py::test_x", "passed")])


def test_a_test_that_reads_the_pipe_leaves_no_reader_behind(tmp_path: Path) -> None:
    with RunRecorder(tmp_path) as recorder:
        taken = os.open(recorder.address, os.O_RDWR)
        thieves = [threading.Thread(target=os.read, args=(taken, 65536), daemon=True) for _ in range(4)]
        for each in thieves:
            each.start()
        for _ in range(2):
            time.sleep(0.2)  # all wait; whoever reads a line waits behind the others from then on
            os.write(taken, b"\n")
        time.sleep(0.2)
    assert "witness" not in {each.name for each in threading.enumerate()}
    while any(each.is_alive() for each in thieves):
        os.write(taken, b"\n")
        time.sleep(0.01)
    os.close(taken)


def test_every_line_that_was_written_before_the_end_is_read(tmp_path: Path) -> None:
    line = json.dumps([1, "session", "x" * 5000]).encode() + b"\n"
    with RunRecorder(tmp_path) as recorder:
        pipe = os.open(recorder.address, os.O_WRONLY)
        for number in range(2, 52):
            os.write(pipe, line.replace(b"[1,", b"[%d," % number))
        os.close(pipe)
    assert len(recorder.sessions) == 50
