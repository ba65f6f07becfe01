"""The ledger of verdicts: one line for each claim, chained, whole after every kill, shared by processes."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent_harness.session import ledger
from agent_harness.session.ledger import ACCEPTED, REJECTED, ClaimVerdict, VerdictStep


def verdict(claim: str, *, said: str = ACCEPTED, item: str = "5") -> ClaimVerdict:
    step = VerdictStep(step="proof", result="passed", command="pytest", exit=0, passed=4, failed=0, seconds=0.5)
    return ClaimVerdict(item=item, verdict=said, id=claim, claim=(item,), steps=(step,), tools={"git": "2.40"})


@pytest.fixture
def path(tmp_path: Path) -> str:
    return os.fspath(tmp_path / "state" / ledger.FILE)


def test_lines_are_numbered_chained_and_read_back(path: str) -> None:
    """F-REC-1: ``n``, ``prev`` = SHA-256 of the line before; lines are read as they were written."""
    written = [ledger.write(path, verdict(name)) for name in ("a", "b", "c")]
    lines = Path(path).read_bytes().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert [row["prev"] for row in rows] == [None, *(hashlib.sha256(line).hexdigest() for line in lines[:2])]
    assert list(ledger.newest_first(path)) == written[::-1]
    assert ledger.check(path) == ledger.ChainReport(lines=3)
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_a_secret_in_a_command_is_written_nowhere(path: str) -> None:
    step = VerdictStep(step="proof", result="passed", command="API_TOKEN=abcdefgh12345678 make test")
    found = ledger.write(path, replace(verdict("a"), steps=(step,)))
    assert "abcdefgh12345678" not in Path(path).read_text()
    assert str(found.steps[0].command).endswith("make test")


def test_members_of_another_version_are_kept(path: str) -> None:
    record = {**verdict("a").as_record(), "n": "one", "weather": "fine", "steps": [3, {"step": "proof", "exit": "0"}]}
    found = ClaimVerdict.from_record(record)
    assert (found.n, found.rest, len(found.steps), found.steps[0].exit) == (0, {"weather": "fine"}, 1, None)
    assert found.as_record()["weather"] == "fine"


def test_the_same_claim_is_written_once(path: str) -> None:
    """A process that finishes the work of a killed harness repeats its steps; another verdict is another line."""
    first = ledger.write(path, verdict("a"))
    ledger.write(path, verdict("b"))
    assert ledger.write(path, verdict("a")) == first
    assert ledger.write(path, verdict("a", said=REJECTED)).n == 3
    assert ledger.check(path).lines == 3


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_torn_last_line_is_healed_by_the_next_writer(path: str, left: int) -> None:
    """A kill in the middle of a line loses no earlier one; the chain goes on behind the last whole line."""
    for name in ("a", "b"):
        ledger.write(path, verdict(name))
    whole = Path(path).read_bytes()
    third = ledger.write(path, verdict("c"))
    torn = Path(path).read_bytes()[len(whole) :][:left]
    Path(path).write_bytes(whole + torn)
    again = ledger.write(path, verdict("d"))
    found = ledger.check(path)
    assert found.whole
    if left == -1:  # only its line end was missing
        assert (again.n, found.lines, found.torn) == (4, 4, 0)
    else:
        assert (again.n, again.prev, found.lines, found.torn) == (3, third.prev, 3, 1)
    assert Path(path).read_bytes().startswith(whole)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: [lines[0].replace(b"accepted", b"rejected"), *lines[1:]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[1], lines[1], *lines[2:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
    ],
    ids=["altered", "taken out", "beheaded", "put in", "in another order"],
)
def test_a_changed_file_is_found_out(path: str, spoil) -> None:  # type: ignore[no-untyped-def]
    for name in ("a", "b", "c"):
        ledger.write(path, verdict(name))
    Path(path).write_bytes(b"".join(spoil(Path(path).read_bytes().splitlines(keepends=True))))
    found = ledger.check(path)
    assert not found.whole
    assert "does not follow" in found.problem


WRITER = """
import sys
from agent_harness.session import ledger
for number in range(int(sys.argv[3])):
    claim = f"{sys.argv[2]}-{number}"
    print(claim, flush=True)
    ledger.write(sys.argv[1], ledger.ClaimVerdict(item="5", verdict="accepted", id=claim, codes=("x" * 3000,)))
"""


def writer(path: str, name: str, count: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", WRITER, path, name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_two_writers_take_turns(path: str) -> None:
    both = [writer(path, name, 40) for name in ("left", "right")]
    assert [each.communicate()[0].count("\n") for each in both] == [40, 40]
    assert ledger.check(path) == ledger.ChainReport(lines=80)


@pytest.mark.kill
def test_a_killed_writer_loses_nothing_that_was_written(path: str) -> None:
    """kill -9 at any moment: every line that the writer went past is there, once, and the chain holds."""
    for round_ in range(5):
        with writer(path, f"round{round_}", 10_000) as process:
            assert process.stdout is not None
            said = [process.stdout.readline().strip() for _ in range(7 + 3 * round_)]
            process.send_signal(signal.SIGKILL)
            process.communicate()
        ledger.write(path, ClaimVerdict(item="5", verdict=ACCEPTED, id=said[-1]))
        names = [each.id for each in ledger.newest_first(path)]
        assert all(names.count(each) == 1 for each in said)
    assert ledger.check(path).whole


def test_reading_the_end_does_not_read_the_whole_file(path: str) -> None:
    """The number and the sum of the line before are read from the end, however long the file is."""
    line = json.dumps({"v": 1, "n": 7, "item": "5", "verdict": "accepted", "codes": ["y" * 1000]}) + "\n"
    Path(path).parent.mkdir()
    Path(path).write_text(line * 20_000)

    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])

    before = bytes_read()
    assert ledger.write(path, verdict("a")).n == 8
    assert bytes_read() - before < 1_000_000


def test_the_output_of_a_step_is_kept_masked_and_by_the_number_of_its_verdict(path: str, tmp_path: Path) -> None:
    """F-REC-2: the last 64 KiB, secrets masked."""
    folder = os.fspath(tmp_path / "verdicts")
    ledger.write(path, verdict("a"))
    secret = "API_KEY=sk-ant-api03-" + "q" * 40
    kept = ledger.keep_output(folder, path, "proof", command="make", output="x" * 70_000 + secret, ended="exit 1")
    text = Path(kept).read_text()
    assert Path(kept).name == "2-proof.txt"
    assert text.startswith("$ make\n")
    assert text.endswith("[exit 1]\n")
    assert "q" * 40 not in text
    assert 60_000 < len(text) <= ledger.OUTPUT_BYTES + 100
    other = ledger.keep_output(folder, path, "proof", command="make", output="", ended="exit 1")
    assert Path(other).name == "3-proof.txt"
    assert Path(ledger.keep_output(folder, path, "suite", command="a", output="", ended="")).name == "2-suite.txt"


KEEPER = """
import sys
from agent_harness.session import ledger
for number in range(60):
    said = {"command": "make", "output": f"{sys.argv[3]}-{number}", "ended": "exit 1"}
    ledger.keep_output(sys.argv[1], sys.argv[2], "proof", **said)
"""


def test_workers_that_keep_outputs_at_once_keep_them_all(path: str, tmp_path: Path) -> None:
    """None takes the file of another one, though all begin with the same number."""
    folder = tmp_path / "verdicts"
    words = [[sys.executable, "-c", KEEPER, os.fspath(folder), path, name] for name in ("a", "b", "c", "d")]
    assert [each.wait() for each in [subprocess.Popen(line) for line in words]] == [0] * 4
    kept = {each.read_text().splitlines()[1] for each in folder.iterdir()}
    assert kept == {f"{name}-{number}" for name in ("a", "b", "c", "d") for number in range(60)}


def test_outputs_go_when_important_events_go(tmp_path: Path) -> None:
    for name in ("1-proof.txt", "2-suite.txt", "notes.txt"):
        (tmp_path / name).write_text("x")
    os.utime(tmp_path / "1-proof.txt", (0, 0))
    os.utime(tmp_path / "notes.txt", (0, 0))
    (tmp_path / f"3-proof.txt.tmp.{2**22 + 1}.abc").write_text("half of what a killed writer had")
    (tmp_path / f"4-proof.txt.tmp.{os.getpid()}.abc").write_text("of one that lives")
    assert ledger.prune_outputs(os.fspath(tmp_path)) == 2
    (tmp_path / f"4-proof.txt.tmp.{os.getpid()}.abc").unlink()
    assert {each.name for each in tmp_path.iterdir()} == {"2-suite.txt", "notes.txt"}
