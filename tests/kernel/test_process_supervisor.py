"""The lifeline by itself: what it is given, what it says, what it withstands."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_harness.kernel import owner
from agent_harness.kernel.process import new_run_id, run, start, supervisor
from agent_harness.kernel.process.launch_spec import write_order

SCRIPT = supervisor.__file__


class Spoken:
    """A lifeline that was started by hand, with its two pipes."""

    def __init__(self, folder: Path, *before: str) -> None:
        self.folder = folder
        told, self.control = os.pipe()
        self.status, said = os.pipe()
        self.report, reported = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-I", *(before or [SCRIPT]), str(told), str(said), str(reported)],
            pass_fds=(told, said, reported),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for end in (told, said, reported):
            os.close(end)

    def tell(self, command: str | list[str]) -> None:
        order = write_order(command, cwd=self.folder, env=dict(os.environ), run_id=new_run_id())
        os.write(self.control, len(order).to_bytes(8, "big") + order)

    def hang_up(self) -> None:
        os.close(self.control)
        self.control = -1

    def everything_said(self) -> list[str]:
        with open(self.status, closefd=False) as status:
            return status.read().split("\n")[:-1]


@pytest.fixture
def spoken(tmp_path: Path) -> Iterator[Spoken]:
    spoken = Spoken(tmp_path)
    yield spoken
    if spoken.control >= 0:
        spoken.hang_up()
    os.close(spoken.status)
    os.close(spoken.report)
    spoken.process.communicate()


def test_it_says_start_exit_and_end(spoken: Spoken) -> None:
    spoken.tell("exit 3")
    started, exited, ended = spoken.everything_said()
    assert started.split()[0] == "started"
    assert (exited, ended) == ("exited 3", "ended")
    assert os.read(spoken.report, 100) == b""


def test_it_says_what_could_not_start(spoken: Spoken) -> None:
    program = spoken.folder / "odd"
    program.write_bytes(b"\0\0")
    program.chmod(0o755)
    spoken.tell([str(program)])
    assert spoken.everything_said()[1:] == ["exited 127", "ended"]
    assert os.read(spoken.report, 100) == b"program 8"


def test_it_works_without_waitid_pidfds_and_proc(tmp_path: Path) -> None:
    poorer = (
        "import os; del os.waitid, os.pidfd_open; os.readlink = lambda _: ''\n"
        f"exec(compile(open({SCRIPT!r}).read(), {SCRIPT!r}, 'exec'))"
    )
    spoken = Spoken(tmp_path, "-c", poorer)
    spoken.tell("sleep 1000 & trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done")
    assert spoken.process.stdout
    assert spoken.process.stdout.readline() == b"ready\n"
    os.write(spoken.control, b"1000\n")
    assert spoken.everything_said()[1:] == ["exited 3", "ended"]
    for descriptor in (spoken.control, spoken.status, spoken.report):
        os.close(descriptor)
    spoken.process.communicate()  # the background sleep held its output until it was killed


def test_a_line_ends_the_command_and_zero_gives_no_grace(spoken: Spoken) -> None:
    spoken.tell("trap '' TERM; (setsid sleep 1000 &) ; echo ready; sleep 1000; sleep 1000")
    assert spoken.process.stdout
    assert spoken.process.stdout.readline() == b"ready\n"
    assert os.read(spoken.status, 100).startswith(b"started ")
    os.write(spoken.control, b"1000\n")
    os.write(spoken.control, b"0.000\n")
    assert spoken.everything_said() == ["exited -9", "ended"]


def test_the_end_of_the_control_pipe_ends_the_command(spoken: Spoken) -> None:
    spoken.tell("trap '' TERM; sleep 1000; sleep 1000")
    assert os.read(spoken.status, 100).startswith(b"started ")
    spoken.hang_up()
    assert spoken.everything_said() == ["exited -9", "ended"]


@pytest.mark.parametrize("part", [b"", b"\0\0\0", (100).to_bytes(8, "big") + b"stay"])
def test_half_an_order_starts_nothing(spoken: Spoken, part: bytes) -> None:
    os.write(spoken.control, part)
    spoken.hang_up()
    assert spoken.everything_said() == []
    assert spoken.process.wait() == 0


def test_a_command_that_outlives_nobody_hears_no_pipe(spoken: Spoken) -> None:
    spoken.tell(["cat", "/proc/self/stat"])
    assert spoken.everything_said()[-1] == "ended"
    assert spoken.process.stdout
    assert select.select([spoken.process.stdout], [], [], 60)[0]
    assert int(spoken.process.stdout.read().split()[3]) == spoken.process.pid  # it was the command's parent


def test_no_signal_but_kill_ends_it(tmp_path: Path) -> None:
    numbers = [str(int(n)) for n in signal.valid_signals() if n not in (signal.SIGKILL, signal.SIGSTOP)]
    command = "for n in " + " ".join(numbers) + "; do kill -$n $PPID || exit 1; done; sleep 0.1; kill -0 $PPID; exit 9"
    assert run(command, cwd=tmp_path, env=dict(os.environ), timeout_seconds=120).exit_code == 9


def test_its_command_line_and_environment_tell_nothing_of_the_command(tmp_path: Path) -> None:
    env = {**os.environ, "SECRET_TOKEN": "geheim"}
    words = ["sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline; echo; tr '\\0' ' ' < /proc/$PPID/environ", "harness run"]
    command_line, environment = run(words, cwd=tmp_path, env=env, timeout_seconds=120).output.decode().split("\n")
    assert "harness run" not in command_line
    assert command_line.split()[1:5] == ["-S", "-E", "-I", SCRIPT]
    assert {entry.partition("=")[0] for entry in environment.split()} <= {"HARNESS_RUN_ID", "LD_LIBRARY_PATH"}


def test_an_order_of_any_size_arrives(tmp_path: Path) -> None:
    env = {**os.environ, **{f"LONG_{n}": "x" * 100_000 for n in range(10)}}
    done = run(["sh", "-c", "echo ${#LONG_0} ${#LONG_9}"], cwd=tmp_path, env=env, timeout_seconds=120)
    assert done.output == b"100000 100000\n"


def test_it_starts_with_few_modules(tmp_path: Path) -> None:
    show = f"import runpy, sys; runpy.run_path({SCRIPT!r}, run_name='x')"
    lines = [
        "import sys; before = set(sys.modules)",
        f"exec(compile(open({SCRIPT!r}).read(), 'x', 'exec'), {{'__name__': 'x'}})",
        "print(*sorted(set(sys.modules) - before))",
    ]
    done = run([sys.executable, "-S", "-E", "-I", "-c", "\n".join(lines)], cwd=tmp_path, env={}, timeout_seconds=120)
    allowed = {"os", "os.path", "posixpath", "genericpath", "stat", "_stat", "select", "_collections_abc"}
    assert set(done.output.decode().split()) <= allowed, show


def test_children_are_the_same_by_either_way() -> None:
    with subprocess.Popen(["sleep", "1000"]) as one, subprocess.Popen(["sleep", "1000"]) as other:
        assert {one.pid, other.pid} <= set(supervisor.children())
        assert sorted(supervisor.children()) == sorted(supervisor.children_by_scan(os.getpid()))
        one.kill()
        other.kill()
    assert not {one.pid, other.pid} & set(supervisor.children())


def test_the_parent_of_a_process() -> None:
    assert supervisor.parent_of(os.getpid()) == os.getppid()
    assert supervisor.parent_of(2**22 + 1) is None


def test_it_holds_nothing_of_the_command(tmp_path: Path) -> None:
    with start("exec >&- 2>&-; exec sleep 1000", cwd=tmp_path, env=dict(os.environ)) as running:
        assert running.owner
        held = {os.readlink(entry) for entry in Path(f"/proc/{running.owner.pid}/fd").iterdir()}
        assert os.readlink(f"/proc/{running.owner.pid}/cwd") == "/"
        assert os.devnull in held
        while Path(f"/proc/{running.group}/comm").read_text() != "sleep\n":
            time.sleep(0.01)  # the shell is still closing what it was told to close
        for entry in Path(f"/proc/{running.group}/fd").iterdir():
            assert os.readlink(entry) not in held
        assert owner.of(running.owner.pid) == running.owner
