"""What ``run`` promises: it ends, in bounded room, and says how it went."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import Refused, ToolMissing
from agent_harness.kernel import owner
from agent_harness.kernel.process import Completed, run
from agent_harness.kernel.process.supervisor import children

Run = Callable[..., Completed]
LIMIT_SECONDS = 120.0


@pytest.fixture
def command(tmp_path: Path) -> Run:
    def in_folder(words: str | list[str], **settings: object) -> Completed:
        given: dict[str, object] = {"cwd": tmp_path, "env": dict(os.environ), "timeout_seconds": LIMIT_SECONDS}
        return run(words, **{**given, **settings})  # type: ignore[arg-type]

    return in_folder


def test_output_and_exit_code_of_a_plain_command(command: Run) -> None:
    done = command(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.exit_code, done.output, done.total_bytes) == (3, b"out\nerr\n", 8)
    assert not (done.truncated or done.timed_out or done.stopped)


def test_a_text_is_a_command_of_the_shell(command: Run, tmp_path: Path) -> None:
    assert command("pwd && echo a | tr a b").output.decode() == f"{tmp_path}\nb\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGHUP])
def test_death_by_signal_is_a_negative_exit_code(command: Run, number: signal.Signals) -> None:
    assert command(f"kill -{int(number)} $$").exit_code == -number


@pytest.mark.parametrize("code", [0, 1, 126, 127, 255])
def test_every_exit_code_passes_through(command: Run, code: int) -> None:
    assert command(f"exit {code}").exit_code == code


def test_the_environment_is_the_one_given(command: Run) -> None:
    done = command(["/usr/bin/env"], env={"A": "1", "ODD": "a=b\nc", "PATH": "/usr/bin"})
    text = re.sub(rb"HARNESS_RUN_ID=[0-9a-f]{32}\n", b"", done.output)
    assert sorted(text.decode().split("\n")) == ["", "A=1", "ODD=a=b", "PATH=/usr/bin", "c"]


def test_bytes_that_are_no_text_pass_through_words_and_environment(command: Run) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    done = command(["sh", "-c", 'printf %s "$1$ODD"', "sh", odd], env={**os.environ, "ODD": odd})
    assert done.output == b"\xff\xfe\xff\xfe"


def test_the_command_starts_with_clean_signals_and_descriptors(command: Run) -> None:
    done = command("grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd")
    of_the_c_library = 0b11 << 31  # signals 32 and 33: nobody may set them, and posix_spawn (make uses it) ignores 32
    held = [int(mask, 16) & ~of_the_c_library for mask in re.findall(rb"Sig\w+:\s(\w+)", done.output)]
    assert held == [0, 0]
    assert re.findall(rb"^(\d+)$", done.output, re.M) in ([b"0", b"1", b"2"], [b"0", b"1", b"2", b"3"])  # ls's own


def test_the_command_leads_its_own_session_without_terminal(command: Run) -> None:
    done = command([sys.executable, "-c", "import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())"])
    assert done.output == b"True\n"


def test_a_program_is_found_from_the_folder_and_the_path_given(command: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for place in (tmp_path / "tool", tmp_path / "bin" / "other"):
        place.write_text("#!/bin/sh\necho $0\n")
        place.chmod(0o755)
    assert command(["./tool"]).exit_code == 0
    assert command(["other"], env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}).exit_code == 0
    assert command(["other"], env={"PATH": "bin:/usr/bin:/bin"}).exit_code == 0
    with pytest.raises(ToolMissing):
        command(["other"])


def test_what_cannot_start_says_so_in_one_line(command: Run, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with pytest.raises(ToolMissing, match="not executable"):
        command([str(plain)])
    plain.chmod(0o755)
    with pytest.raises(ToolMissing, match="cannot be started"):
        command([str(plain)])
    with pytest.raises(ToolMissing, match="not found"):
        command(["no-such-program"])
    nothing: list[str] = []
    for words in (nothing, ["echo", "a\0b"], ["echo", "\ud83d"], ["true", "x" * 10_000_000]):
        with pytest.raises(Refused):
            command(words)
    with pytest.raises(Refused):
        command("true", cwd=tmp_path / "missing")
    with pytest.raises(Refused):
        command("true", env={"A": "\0"})
    with pytest.raises(Refused):
        command("true", log=tmp_path / "missing" / "log")


def test_the_wall_clock_limit_ends_a_command(command: Run) -> None:
    done = command("echo before; sleep 1000", timeout_seconds=0.3)
    assert (done.exit_code, done.output, done.timed_out) == (None, b"before\n", True)


def test_the_limit_ends_a_command_that_ignores_term_and_prints_for_ever(command: Run) -> None:
    done = command("trap '' TERM INT HUP; while :; do echo line; done", timeout_seconds=0.3, keep_bytes=100)
    assert done.timed_out
    assert done.exit_code is None
    assert len(done.output) == 100


def test_the_limit_ends_a_stopped_command(command: Run) -> None:
    done = command("trap 'echo told; exit' TERM; kill -STOP $$; sleep 1000 & wait", timeout_seconds=0.3)
    assert done.timed_out
    assert done.output == b"told\n"


def test_a_command_told_to_end_may_still_say_something(command: Run) -> None:
    done = command("trap 'echo bye; exit 0' TERM; echo hello; while :; do :; done", timeout_seconds=0.5)
    assert (done.output, done.exit_code, done.timed_out) == (b"hello\nbye\n", None, True)


def test_stop_ends_a_command(command: Run) -> None:
    seen = bytearray()
    done = command("echo ready; sleep 1000", on_output=seen.extend, stop=lambda: b"ready" in seen)
    assert (done.exit_code, done.stopped, done.timed_out) == (None, True, False)


def test_background_children_that_hold_the_pipe_do_not_hold_us(command: Run) -> None:
    done = command("sleep 1000 & (sleep 1000 &) ; nohup sleep 1000 & echo over")
    assert done.exit_code == 0
    assert b"over\n" in done.output


def test_what_a_background_reader_still_prints_is_not_lost(command: Run) -> None:
    program = "import sys; rest = sys.stdin.read(); print(len(rest))"
    done = command(["bash", "-c", f"seq 10000 > >({sys.executable} -S -E -c '{program}')"])
    assert done.output == b"48894\n"


def test_input_reaches_the_command_and_ends(command: Run) -> None:
    assert command(["wc", "-c"], input=b"x" * 10_000_000).output.split() == [b"10000000"]
    assert command(["cat"]).output == b""


def test_input_that_nobody_reads_does_not_hold_us(command: Run) -> None:
    assert command("sleep 0.2", input=b"x" * 10_000_000).exit_code == 0
    assert command("exec <&-; echo closed; sleep 0.1", input=b"x" * 10_000_000).output == b"closed\n"


def test_input_and_output_move_at_the_same_time(command: Run) -> None:
    done = command(["cat"], input=b"0123456789" * 1_000_000, keep_bytes=10)
    assert (done.total_bytes, done.output, done.truncated) == (10_000_000, b"0123456789", True)


def test_only_the_last_bytes_are_kept_and_all_are_streamed(command: Run) -> None:
    streamed: list[int] = []
    done = command(
        "head -c 30000000 /dev/zero; echo end", keep_bytes=10, on_output=lambda part: streamed.append(len(part))
    )
    assert done.output == b"\0\0\0\0\0\0end\n"
    assert done.truncated
    assert sum(streamed) == done.total_bytes == 30_000_004


def test_nothing_is_kept_when_nothing_is_asked_for(command: Run) -> None:
    done = command("echo hello", keep_bytes=0)
    assert (done.output, done.total_bytes, done.truncated) == (b"", 6, True)


def test_the_log_holds_start_and_end_within_its_limit(command: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command("echo start; seq 1000000; echo end", log=log, log_limit_bytes=100_000)
    text = log.read_bytes()
    assert len(text) <= 100_000
    assert text.startswith(b"start\n1\n2\n")
    assert text.endswith(b"999999\n1000000\nend\n")
    assert len(re.findall(rb"\n\[\.\.\. \d+ bytes cut here \.\.\.\]\n", text)) == 1


def test_the_log_is_there_while_the_command_runs(command: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command("echo first; until [ -e go ]; do sleep 0.02; done", log=log, stop=lambda: _seen_then_go(log))
    assert log.read_bytes() == b"first\n"


def _seen_then_go(log: Path) -> bool:
    if log.read_bytes() == b"first\n":
        (log.parent / "go").touch()
    return False


def test_a_log_is_no_way_to_another_file(command: Run, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(Refused):
            command("echo harm", log=tmp_path / name)
    assert (tmp_path / "victim").read_text() == "mine"


def test_an_error_of_the_listener_ends_the_command_and_passes_on(command: Run, tmp_path: Path) -> None:
    def refuse(_: bytes) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        command("echo $$ > pid; echo hello; sleep 1000", on_output=refuse)
    assert not owner.exists(int((tmp_path / "pid").read_text()))


def test_any_thread_may_run_commands(command: Run) -> None:
    outputs: list[bytes] = []
    threads = [
        threading.Thread(target=lambda n=n: outputs.append(command(f"sleep 0.1; echo {n}; sleep 1000 &").output))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outputs) == [b"%d\n" % n for n in range(8)]


def test_no_descriptor_and_no_zombie_is_left(command: Run) -> None:
    command("true")
    before, kept = sorted(os.listdir("/proc/self/fd")), children()
    for words in ("true", "sleep 1000 & exit 1", "exec >&- 2>&-; sleep 0.1"):
        command(words)
    with pytest.raises(ToolMissing):
        command(["no-such-program"])
    with pytest.raises(Refused):
        command(["true", "x" * 10_000_000])
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert children() == kept


def test_waiting_costs_no_processor_time(command: Run) -> None:
    began = time.process_time()
    command("sleep 1.5", stop=lambda: False)
    assert time.process_time() - began < 0.3  # a busy wait takes 1.5


def test_it_works_with_standard_streams_closed(tmp_path: Path) -> None:
    program = (
        "import os\nfrom agent_harness.kernel import process\n"
        "done = process.run('cat; echo hello', cwd='/', env=dict(os.environ), timeout_seconds=60, input=b'given ')\n"
        "open('answer', 'wb').write(done.output)"
    )
    words = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, program]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert (tmp_path / "answer").read_bytes() == b"given hello\n"


def test_no_descriptor_left_is_said_in_one_line(command: Run) -> None:
    program = (
        "import os, resource\nfrom agent_harness.errors import Refused\nfrom agent_harness.kernel import process\n"
        "process.run('true', cwd='/', env=dict(os.environ), timeout_seconds=60)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))\n"
        "try: process.run('true', cwd='/', env=dict(os.environ), timeout_seconds=60)\n"
        "except Refused as error: print(error)"
    )
    done = command([sys.executable, "-c", program])
    assert b"Too many open files" in done.output
    assert done.output.count(b"\n") == 1


INTERRUPTED = """
import os, sys
from agent_harness.kernel import owner, process
def tell(part):
    print(part.decode(), flush=True, end="")
try:
    process.run(sys.argv[1], cwd="/", env=dict(os.environ), timeout_seconds=600, on_output=tell)
except KeyboardInterrupt:
    left = [pid for pid in owner.processes_tagged("TEST_TAG", os.environ["TEST_TAG"]) if pid != os.getpid()]
    print("interrupted", left, flush=True)
"""


def test_ctrl_c_ends_the_tree_and_passes_on() -> None:
    tree = "trap '' INT TERM; (setsid sleep 1000 &) ; sleep 1000 & echo ready; sleep 1000; sleep 1000"
    harness = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tree],
        stdout=subprocess.PIPE,
        env={**os.environ, "TEST_TAG": os.urandom(16).hex()},
    )
    with harness:
        assert harness.stdout
        assert harness.stdout.readline() == b"ready\n"
        harness.send_signal(signal.SIGINT)
        assert harness.stdout.read() == b"interrupted []\n"
    assert harness.returncode == 0
