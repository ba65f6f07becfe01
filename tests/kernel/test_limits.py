"""Limits on what a command takes: it is ended, all of it and nothing else, and told; everything below is left alone."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from agent_harness.errors import Refused
from agent_harness.kernel import process
from agent_harness.kernel.process import limits, sandbox
from agent_harness.kernel.process.launch_spec import Sandbox
from agent_harness.kernel.process.limits import Limits
from agent_harness.kernel.process.sandbox import SandboxSettings

pytestmark = pytest.mark.skipif(not limits.held(), reason="this system does not show what a command takes")

HOG = "x = []\nwhile len(x) < 64: x.append(bytearray(10_000_000))\nimport time; time.sleep(600)"
GROUP = "f() {{ [ $1 -gt 0 ] || exec sleep {0}; f $(($1-1)) & f $(($1-1)) & wait; }}; f 9"
SESSIONS = """
import os
for _ in range(9):
    if os.fork() == 0:
        os.setsid()
os.execlp("sleep", "sleep", "{0}")
"""
THREADS = "import threading, time\nfor _ in range(600): threading.Thread(target=time.sleep, args=({0},)).start()"
# Each of these has its end by itself: at most 1,024 processes, and none for longer than a minute.
MANY = {"a group": GROUP, "sessions": SESSIONS, "threads": THREADS}


@pytest.fixture(params=[*sandbox.KINDS, "off"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of sandbox that this machine offers, and none."""
    monkeypatch.setenv("HARNESS_SANDBOX", request.param)
    try:
        sandbox.kind_for(sandbox.AUTO)
    except Refused:
        pytest.skip(f"this machine has no {request.param}")
    return request.param


def allowed(folder: Path, *, memory: int | None = None, processes: int | None = None) -> Sandbox:
    return sandbox.of_agent([folder], settings=SandboxSettings(memory=memory, processes=processes))


def run(command: str | list[str], folder: Path, confined: Sandbox) -> process.Completed:
    env = process.scrubbed_environment()
    return process.run(command, cwd=folder, env=env, timeout_seconds=120, sandbox=confined)


def running(mark: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]


def test_a_command_that_takes_too_much_memory_is_ended_and_told(kind: str, tmp_path: Path) -> None:
    done = run([sys.executable, "-c", HOG], tmp_path, allowed(tmp_path, memory=200 << 20))
    assert done.exit_code is None
    assert not done.timed_out
    assert done.over_limit.startswith("used ")
    assert done.over_limit.endswith("of memory, more than 200 MiB (limit: sandbox.memory)")
    assert done.ending == "exceeded a limit"
    assert done.over_limit in done.output.decode()


def test_what_several_processes_take_together_counts_and_what_they_share_counts_once(tmp_path: Path) -> None:
    together = "import os\nos.fork()\nx = bytearray(b'x') * 150_000_000\nimport time; time.sleep(600)"
    assert run([sys.executable, "-c", together], tmp_path, allowed(tmp_path, memory=250 << 20)).over_limit
    shared = "import os, time\nx = bytearray(b'x') * 150_000_000\nos.fork(); os.fork(); time.sleep(1.5)"
    assert run([sys.executable, "-c", shared], tmp_path, allowed(tmp_path, memory=300 << 20)).exit_code == 0


def test_mapped_files_are_no_memory_of_a_command(tmp_path: Path) -> None:
    script = (
        "import mmap, time\nf = open('data', 'w+b'); f.truncate(300_000_000)\n"
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
        "sum(m[at] for at in range(0, 300_000_000, 4096)); time.sleep(1)"
    )
    assert run([sys.executable, "-c", script], tmp_path, allowed(tmp_path, memory=150 << 20)).exit_code == 0


@pytest.mark.parametrize("how", MANY)
def test_a_command_that_multiplies_is_ended_whole(kind: str, tmp_path: Path, how: str) -> None:
    if how == "sessions" and kind == "off":
        pytest.skip("what leaves its session is found one by one without a sandbox")
    seconds = f"59.{os.getpid()}{abs(hash((kind, how))) % 1000}"
    text = MANY[how].format(seconds)
    done = run(text if how == "a group" else [sys.executable, "-c", text], tmp_path, allowed(tmp_path, processes=150))
    assert done.exit_code is None
    assert "processes and threads, more than 150 (limit: sandbox.processes)" in done.over_limit
    assert not running(seconds)


def test_a_command_that_stays_below_is_left_alone(kind: str, tmp_path: Path) -> None:
    script = (
        "i=0; while [ $i -lt 300 ]; do /bin/true & i=$((i+1)); [ $((i % 20)) = 0 ] && wait; done; sleep 0.5; echo well"
    )
    confined = allowed(tmp_path, processes=120, memory=200 << 20)
    done = run(script, tmp_path, confined)
    assert (done.exit_code, done.output, done.over_limit) == (0, b"well\n", "")


def test_nobody_else_is_ended(kind: str, tmp_path: Path) -> None:
    """Another command of the same harness, and a process of the user, which are there meanwhile."""
    mark = f"58.{os.getpid()}"
    env = process.scrubbed_environment()
    with (
        process.start(f"sleep {mark}", cwd=tmp_path, env=env, sandbox=allowed(tmp_path)) as other,
        psutil.Popen(["sleep", f"{mark}1"]) as mine,
    ):
        text = SESSIONS.format(f"{mark}2")
        run([sys.executable, "-c", text], tmp_path, allowed(tmp_path, processes=150))
        assert not other.exited
        assert mine.poll() is None
        mine.kill()
        other.stop(0)


def test_what_a_command_left_running_is_watched_as_well(kind: str, tmp_path: Path) -> None:
    if kind == "bubblewrap":
        pytest.skip("it ends what a command leaves")
    (tmp_path / "hog.py").write_text(HOG)
    with process.start(
        f"{sys.executable} hog.py & exit 0",
        cwd=tmp_path,
        env=process.scrubbed_environment(),
        keep_background=True,
        sandbox=allowed(tmp_path, memory=200 << 20),
    ) as started:
        assert started.wait(60) == 0
        until = time.monotonic() + 60
        while not started.over_limit and time.monotonic() < until:
            started.read_line(0.1)
        assert "sandbox.memory" in started.over_limit


def test_a_disk_keeps_its_room(tmp_path: Path) -> None:
    place = Path("/dev/shm")
    if not os.access(place, os.W_OK):
        pytest.skip("no disk of which nobody else takes room")
    found = os.statvfs(place)
    room = found.f_bavail * found.f_frsize - (16 << 20)
    if room <= 32 << 20:
        pytest.skip(f"too little room in {place}")
    confined = Sandbox(
        kind="none", base="rw", network="open", rules=(), limits=Limits(free_disk=room, folders=(str(place),))
    )
    file = place / f"harness-test-{os.getpid()}"
    try:
        done = run(f"head -c 24000000 /dev/zero > {file}; sleep 600", tmp_path, confined)
        assert done.exit_code is None
        assert done.over_limit.startswith("left ")
        assert done.over_limit.endswith("(limit: sandbox.free_disk)")
        failed = run(f"head -c 8000000 /dev/zero >> {file}; sleep 0.3; exit 1", tmp_path, confined)
        assert failed.exit_code == 1  # there was no room when it began: that it is full is not its doing
        assert not failed.over_limit
    finally:
        file.unlink(missing_ok=True)


def test_the_kernel_ends_a_command_before_the_harness(tmp_path: Path) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    done = run("cat /proc/self/oom_score_adj", tmp_path, allowed(tmp_path))
    assert int(done.output) == max(own, 500)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("4 GiB", 4 << 30), ("4g", 4 << 30), ("500 MB", 500_000_000), ("1.5GiB", 3 << 29), (1 << 30, 1 << 30)],
)
def test_amounts(given: object, wanted: int) -> None:
    assert limits.bytes_from(given) == wanted
    assert limits.bytes_from("50%") == limits.memory_of_machine() // 2


@pytest.mark.parametrize("given", ["off", False, 0, "0"])
def test_no_limit(given: object) -> None:
    assert limits.bytes_from(given) == limits.count_from(given) == 0


@pytest.mark.parametrize("given", ["", "much", True, None, -4, "4 PiB", [], {}])
@pytest.mark.parametrize("read", [limits.bytes_from, limits.count_from])
def test_what_is_no_amount_is_said(read: Callable[[object], int], given: object) -> None:
    with pytest.raises(ValueError, match="must be a"):
        read(given)


def test_settings_of_a_file() -> None:
    found = sandbox.settings_from({"memory": "2 GiB", "processes": 500, "free_disk": "off"})
    assert (found.memory, found.processes, found.free_disk) == (2 << 30, 500, 0)
    usual = sandbox.limits_from(sandbox.settings_from({"memory": "4", "processes": "many"}))
    assert usual == sandbox.limits_from(sandbox.AUTO)  # what is no limit, or one that nothing can keep, is passed over
    assert usual.memory == limits.memory_of_machine() * 4 // 5
    assert usual.processes >= 16


def test_a_record_says_where_there_was_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no limit" not in sandbox.told()
    assert sandbox.told(SandboxSettings(memory=0)).endswith("no limit of memory and processes")
    monkeypatch.setattr(limits, "held", lambda: False)  # a system that shows no processes
    assert sandbox.told().endswith("no limit of memory and processes")
