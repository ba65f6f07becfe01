"""A running command: lines, input, stop, and what a crash needs to know."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_harness.errors import Refused, ToolMissing
from agent_harness.kernel import owner
from agent_harness.kernel.process import Running, start
from agent_harness.kernel.process.output import CUT_MARK

Start = Callable[..., Running]
WAIT_SECONDS = 120.0


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Start]:
    begun: list[Running] = []

    def in_folder(words: str | list[str], **settings: object) -> Running:
        given: dict[str, object] = {"cwd": tmp_path, "env": dict(os.environ)}
        begun.append(start(words, **{**given, **settings}))  # type: ignore[arg-type]
        return begun[-1]

    yield in_folder
    for running in begun:
        running.close()
        running.close()


def _lines(running: Running) -> list[bytes]:
    lines = []
    while not running.at_end:
        line = running.read_line(WAIT_SECONDS)
        if line is not None:
            lines.append(line)
    return lines


def test_lines_come_one_by_one_and_then_the_end(begin: Start) -> None:
    running = begin("echo one; echo; printf 'last' >&2; exit 4")
    assert _lines(running) == [b"one", b"", b"last"]
    assert running.at_end
    assert running.exited
    assert running.exit_code == 4
    assert running.read_line(0) is None


def test_no_line_in_time_is_none_and_nothing_is_lost(begin: Start, tmp_path: Path) -> None:
    running = begin("printf 'be'; until [ -e go ]; do sleep 0.02; done; echo gun", input=b"")
    assert running.read_line(0.2) is None
    assert running.read_line(0) is None
    assert not running.at_end
    assert running.exit_code is None
    (tmp_path / "go").touch()
    assert running.read_line(WAIT_SECONDS) == b"begun"
    assert _lines(running) == []


def test_a_line_is_there_before_the_command_ends(begin: Start) -> None:
    running = begin("echo ready; sleep 1000")
    assert running.read_line(WAIT_SECONDS) == b"ready"
    assert not running.exited


def test_a_long_line_is_cut_and_marked(begin: Start) -> None:
    lines = _lines(begin("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo next"))
    assert lines == [b"x" * (1 << 20) + CUT_MARK, b"next"]


def test_a_million_lines(begin: Start) -> None:
    running, total, count = begin(["seq", "1000000"]), 0, 0
    while (line := running.read_line(WAIT_SECONDS)) is not None:
        total += int(line)
        count += 1
    assert (count, total, running.at_end) == (1_000_000, 500_000_500_000, True)


def test_the_end_comes_although_a_background_child_holds_the_pipe(begin: Start) -> None:
    assert _lines(begin("(setsid sleep 1000 &) ; sleep 1000 & echo over")) == [b"over"]


def test_a_command_that_closes_its_output_is_not_over(begin: Start, tmp_path: Path) -> None:
    running = begin("echo a; exec >&- 2>&-; until [ -e go ]; do sleep 0.02; done; exit 6")
    assert running.read_line(WAIT_SECONDS) == b"a"
    assert running.read_line(0.2) is None
    assert not running.at_end
    (tmp_path / "go").touch()
    assert running.wait(WAIT_SECONDS) == 6


def test_input_is_written_and_closed(begin: Start) -> None:
    assert _lines(begin(["cat"], input=b"prompt\nmore")) == [b"prompt", b"more"]
    assert _lines(begin(["wc", "-c"], input=b"x" * 3_000_000)) == [b"3000000"]
    assert _lines(begin(["cat"], input=b"")) == []


def test_open_input_is_a_conversation(begin: Start) -> None:
    running = begin(["cat"])
    for text in (b"hello", b"again"):
        assert running.write(text + b"\n")
        assert running.read_line(WAIT_SECONDS) == text
    running.close_input()
    assert not running.write(b"late\n")
    assert _lines(running) == []
    assert running.exit_code == 0


def test_much_input_moves_while_output_is_read(begin: Start) -> None:
    running = begin(["cat"])
    text = b"x" * 999 + b"\n"
    assert running.write(text * 5000)
    running.close_input()
    assert _lines(running) == [text[:-1]] * 5000


def test_writing_to_a_command_that_reads_no_more_says_so(begin: Start) -> None:
    running = begin("exec <&-; echo closed; sleep 1000")
    assert running.read_line(WAIT_SECONDS) == b"closed"
    assert not running.write(b"hello")
    gone = begin("exit 0")
    assert gone.wait(WAIT_SECONDS) == 0
    assert not gone.write(b"hello")
    gone.close_input()


def test_another_thread_may_write_and_stop(begin: Start) -> None:
    running = begin("read line; echo got $line; sleep 1000")
    threads = [threading.Thread(target=running.write, args=(b"word\n",))]
    threads[0].start()
    assert running.read_line(WAIT_SECONDS) == b"got word"
    threads.append(threading.Thread(target=running.stop, args=(5,)))
    threads[1].start()
    assert running.read_line(WAIT_SECONDS) is None
    for thread in threads:
        thread.join()
    assert running.at_end
    assert running.exit_code == -signal.SIGTERM


def test_stop_lets_a_command_finish_in_its_grace(begin: Start) -> None:
    running = begin("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done")
    assert running.read_line(WAIT_SECONDS) == b"ready"
    running.stop(60)
    assert running.exit_code == 5
    assert _lines(running)[-1] == b"bye"  # some shells tell of the sleep that ended too
    running.stop(60)
    assert running.exit_code == 5


def test_stop_kills_after_the_grace_and_a_flood_does_not_hold_it(begin: Start) -> None:
    running = begin("trap '' TERM; echo ready; while :; do echo line; done")
    assert running.read_line(WAIT_SECONDS) == b"ready"
    running.stop(0.2)
    assert running.exit_code == -signal.SIGKILL
    assert set(_lines(running)) <= {b"line", b"lin", b"li", b"l"}
    assert running.at_end


def test_stop_ends_a_stopped_command(begin: Start) -> None:
    running = begin("echo ready; kill -STOP $$; sleep 1000")
    assert running.read_line(WAIT_SECONDS) == b"ready"
    running.stop(60)
    assert running.exit_code == -signal.SIGTERM


def test_leaving_the_block_ends_the_command(begin: Start) -> None:
    with begin("trap '' TERM; sleep 1000; sleep 1000") as running:
        group = running.group
    assert not owner.exists(group)
    assert running.at_end


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.parametrize("merge_stderr", [True, False])
def test_a_forgotten_command_ends(tmp_path: Path, merge_stderr: bool) -> None:
    group = start("sleep 1000", cwd=tmp_path, env=dict(os.environ), merge_stderr=merge_stderr).group
    until = time.monotonic() + WAIT_SECONDS
    while owner.exists(group):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_waiting_keeps_the_output_moving_and_the_latest_of_it(begin: Start) -> None:
    running = begin("seq 2000000; exit 2")
    assert running.wait(0) is None
    assert running.wait(WAIT_SECONDS) == 2
    lines = _lines(running)
    assert lines[-1] == b"2000000"
    assert len(lines) < 200_000


def test_standard_error_apart(begin: Start, tmp_path: Path) -> None:
    running = begin("echo out; echo err >&2; echo out", merge_stderr=False, stderr_log=tmp_path / "log")
    assert _lines(running) == [b"out", b"out"]
    assert running.stderr_tail == (tmp_path / "log").read_bytes() == b"err\n"


def test_much_standard_error_is_bounded_and_does_not_hold_the_command(begin: Start, tmp_path: Path) -> None:
    running = begin("seq 5000000 >&2; echo done", merge_stderr=False, stderr_log=tmp_path / "log")
    assert _lines(running) == [b"done"]
    assert running.stderr_tail.endswith(b"4999999\n5000000\n")
    assert len(running.stderr_tail) == 65536
    assert 4_000_000 < (tmp_path / "log").stat().st_size <= 8_000_000
    assert _lines(begin("seq 100000 >&2; echo done", merge_stderr=False)) == [b"done"]


def test_the_record_is_for_json_and_names_the_lifeline(begin: Start) -> None:
    running = begin("echo $PPID $$ $HARNESS_RUN_ID; sleep 1000", run_id="a-run-id-of-the-caller")
    line = running.read_line(WAIT_SECONDS)
    record = json.loads(json.dumps(running.record))
    assert line
    assert line.decode().split() == [str(record["pid"]), str(record["group"]), record["run_id"]]
    assert record["run_id"] == running.run_id == "a-run-id-of-the-caller"
    assert owner.Owner.from_record(record) == running.owner == owner.of(record["pid"])


def test_run_ids_differ(begin: Start) -> None:
    first, second = begin("sleep 1000"), begin("sleep 1000")
    assert first.run_id != second.run_id


def test_the_background_stays_when_asked_for_and_goes_with_stop(begin: Start, tmp_path: Path) -> None:
    running = begin("(setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; until [ -s pid ]; do sleep 0.02; done; exit 3",
                    keep_background=True)  # fmt: skip
    assert running.wait(WAIT_SECONDS) == 3
    server = int((tmp_path / "pid").read_text())
    assert running.read_line(0.3) is None
    assert owner.exists(server)
    assert not running.at_end
    running.stop(1)
    assert not owner.exists(server)
    assert running.at_end
    assert running.exit_code == 3


def test_the_background_goes_with_close_too(begin: Start) -> None:
    running = begin("sleep 1000 & echo $!", keep_background=True)
    line = running.read_line(WAIT_SECONDS)
    assert line
    running.close()
    assert not owner.exists(int(line))


def test_what_cannot_start_says_so(begin: Start, tmp_path: Path) -> None:
    with pytest.raises(ToolMissing):
        begin(["no-such-program"])
    with pytest.raises(Refused):
        begin(["true"], cwd=tmp_path / "missing")
    with pytest.raises(Refused):
        begin(["true"], merge_stderr=False, stderr_log=tmp_path / "missing" / "log")


def test_an_idle_wait_costs_no_processor_time(begin: Start) -> None:
    running = begin("(sleep 1000 &); sleep 1000")
    began = time.process_time()
    assert running.read_line(1.5) is None
    assert time.process_time() - began < 0.3  # a busy wait takes 1.5
    assert running.owner
    fields = Path(f"/proc/{running.owner.pid}/stat").read_text().rpartition(")")[2].split()
    assert (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") < 0.5


READER = """
import os, sys, time
from agent_harness.kernel import process
def memory():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])
command, way = sys.argv[1:]
before = memory()
if way == "run":
    done = process.run(command, cwd="/", env=dict(os.environ), timeout_seconds=600, log="log", on_output=len)
    read = done.total_bytes
else:
    read = 0
    with process.start(command, cwd="/", env=dict(os.environ), merge_stderr=False) as running:
        if way == "slow":
            for _ in range(100):
                read += len(running.read_line(60) or b"")
                time.sleep(0.005)
            running.stop(0)
        elif way == "wait":
            running.wait(600)
        while not running.at_end:
            read += len(running.read_line(60) or b"")
print(read, memory() - before)
"""
FLOODS = {
    "lines": "yes 'forty-nine characters and a line end are a line..' | head -c {size}",
    "no line end": "head -c {size} /dev/zero",
    "line ends only": "yes '' | head -c {size}",
}


def _flood(tmp_path: Path, flood: str, way: str, size: int) -> None:
    size = size // 20 if flood == "line ends only" else size  # each is a line to read
    words = [sys.executable, "-c", READER, FLOODS[flood].format(size=size), way]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    read, grown_kib = map(int, done.stdout.split())
    assert grown_kib < 40_000
    if way == "run":
        assert read == size
        assert (tmp_path / "log").stat().st_size <= 8_000_000
    elif way == "fast" and flood == "lines":
        assert read == size - size // 50


@pytest.mark.parametrize("way", ["run", "fast", "slow", "wait"])
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_does_not_fill_memory(tmp_path: Path, flood: str, way: str) -> None:
    _flood(tmp_path, flood, way, 200_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["run", "fast", "slow", "wait"])
@pytest.mark.parametrize("flood", FLOODS)
def test_a_gigabyte_does_not_fill_memory(tmp_path: Path, flood: str, way: str) -> None:
    _flood(tmp_path, flood, way, 1_000_000_000)
