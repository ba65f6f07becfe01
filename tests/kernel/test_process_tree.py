"""Nothing of a command is left, in whatever shape it comes. Every shape is real."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent_harness.kernel import owner
from agent_harness.kernel.process import end_orphans, new_run_id, orphans, run, start

TAG = "TEST_TAG"
PYTHON = f"{sys.executable} -S -E -c"
DAEMON = (
    f'{PYTHON} "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n'
    "open('pids','a').write(f'{os.getpid()}\\n')\ntime.sleep(1000)\""
)
CHAIN = f"""{PYTHON} "import os,signal
signal.signal(15, 1)
while True:
    if os.fork(): os._exit(0)
    os.setsid()
" """
SHAPES = {
    "child": "sleep 1000 &",
    "nested": "sh -c 'sh -c \"sleep 1000; true\"; true' &",
    "session": "setsid sleep 1000 &",
    "orphan session": "(setsid sleep 1000 &)",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 &",
    "daemon": f"{DAEMON} &",
    "without environment": "echo $$ >> pids; (env -i setsid sh -c 'echo $$ >> pids; sleep 1000' &)",
    "deaf": "(trap '' TERM INT HUP; setsid sh -c 'echo $$ >> pids; sleep 1000; sleep 1000' &)",
    "stopped": "(setsid sh -c 'echo $$ >> pids; kill -STOP $$; sleep 1000' &)",
    "chain": f"{CHAIN} &",
    "many": "for n in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c 'sleep 1000 & sleep 1000 & wait' &) ; done",
}


class Tree:
    """A folder, a tag that every process of one test carries, and the pids that it wrote down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tag = new_run_id()
        self.env = {**os.environ, TAG: self.tag}

    def left(self) -> list[int]:
        tagged = {*owner.processes_tagged(TAG, self.tag), *owner.processes_tagged(orphans.RUN_ID, self.tag)}
        with suppress(FileNotFoundError):
            tagged.update(filter(owner.exists, map(int, (self.folder / "pids").read_text().split())))
        return sorted(tagged)

    def until_started(self, number: int) -> None:
        """Waits until so many processes wrote their pids down."""
        until = time.monotonic() + 60
        while not (pids := self.folder / "pids").exists() or len(pids.read_text().split()) < number:
            assert time.monotonic() < until, "the command did not start"
            time.sleep(0.02)

    def until_gone(self) -> None:
        until = time.monotonic() + 60
        while self.left():
            assert time.monotonic() < until, f"still running: {self.left()}"
            time.sleep(0.02)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    yield tree
    for pid in owner.processes_tagged(TAG, tree.tag):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_nothing_is_left_after_a_command_that_ended(tree: Tree, shape: str) -> None:
    done = run(f"{shape}\nsleep 0.1; exit 7", cwd=tree.folder, env=tree.env, timeout_seconds=120)
    assert done.exit_code == 7
    assert tree.left() == []


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_nothing_is_left_after_stop(tree: Tree, shape: str) -> None:
    with start(f"{shape}\necho ready; sleep 1000", cwd=tree.folder, env=tree.env) as running:
        assert running.read_line(60) == b"ready"
        running.stop(0.5)
        assert tree.left() == []
        assert running.exit_code == -signal.SIGTERM


def test_nothing_is_left_after_a_limit_on_a_deaf_command_with_all_of_them(tree: Tree) -> None:
    command = "\n".join(["trap '' TERM", *SHAPES.values(), "sleep 1000; sleep 1000"])
    assert run(command, cwd=tree.folder, env=tree.env, timeout_seconds=0.5).timed_out
    assert tree.left() == []


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler")
def test_a_fast_chain_of_sessions_is_caught(tree: Tree) -> None:
    source = "int fork(),setsid();void _exit(int);int main(){for(;;){if(fork()>0)_exit(0);setsid();}}"
    subprocess.run(["cc", "-w", "-x", "c", "-", "-o", tree.folder / "chain"], input=source.encode(), check=True)
    for _ in range(3):
        assert run("./chain & sleep 0.1", cwd=tree.folder, env=tree.env, timeout_seconds=120).exit_code == 0
        assert tree.left() == []


KILLED_LIFELINE = {
    "plain": "sleep 1000 &",
    "daemon": SHAPES["daemon"],
    "session": SHAPES["orphan session"],
    "deaf": SHAPES["deaf"],
    "group without environment": "env -i sh -c 'echo $$ >> pids; sleep 1000' & sleep 0.2",
}


@pytest.mark.parametrize("shape", KILLED_LIFELINE.values(), ids=KILLED_LIFELINE)
def test_nothing_is_left_when_the_lifeline_is_killed(tree: Tree, shape: str) -> None:
    command = f"{shape}\nsleep 0.2; kill -KILL $PPID; sleep 1000"
    done = run(command, cwd=tree.folder, env=tree.env, timeout_seconds=120)
    assert done.exit_code is None
    assert not done.timed_out
    tree.until_gone()  # who has lost its environment dies a moment later


def test_a_lifeline_that_the_command_freezes_is_woken(tree: Tree) -> None:
    done = run("(setsid sleep 1000 &); kill -STOP $PPID; exit 5", cwd=tree.folder, env=tree.env, timeout_seconds=120)
    assert done.exit_code == 5
    assert tree.left() == []


@pytest.mark.scenario
def test_a_lifeline_that_is_kept_frozen_is_replaced(tree: Tree) -> None:
    freezer = f"{PYTHON} \"import os\nwhile True: os.kill(int(os.environ['LIFELINE']), 19)\" &"
    command = f"export LIFELINE=$PPID; trap '' TERM; (env -i setsid sh -c 'echo $$ >> pids; sleep 1000' &)\n{freezer}\n"
    done = run(f"{command} sleep 0.3; exit 5", cwd=tree.folder, env=tree.env, timeout_seconds=120)
    assert done.exit_code in (None, 5)
    assert tree.left() == []


HARNESS = """
import json, os, sys
from agent_harness.kernel import process
print("up", flush=True)
running = process.start(sys.argv[1], cwd=os.getcwd(), env=dict(os.environ), run_id=os.environ["TEST_TAG"])
print(json.dumps(running.record), flush=True)
running.wait()
"""
CROWD = "(setsid sleep 1000 &); (env -i setsid sh -c 'echo $$ >> pids; sleep 1000' &); trap '' TERM; sleep 1000 & wait"


def _harness(tree: Tree, command: str) -> "subprocess.Popen[bytes]":
    env = {**tree.env, orphans.RUN_ID: tree.tag}
    return subprocess.Popen([sys.executable, "-c", HARNESS, command], cwd=tree.folder, env=env, stdout=subprocess.PIPE)


@pytest.mark.scenario
@pytest.mark.kill
def test_nothing_is_left_when_the_harness_is_killed_at_any_moment(tree: Tree) -> None:
    for number in range(24):
        with _harness(tree, CROWD) as harness:
            assert harness.stdout
            assert harness.stdout.readline() == b"up\n"
            time.sleep(number * 0.0015)  # start-up takes about 20 ms
            harness.kill()
        tree.until_gone()


@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_nothing_is_left_when_the_harness_ends_by_another_signal(tree: Tree, number: int) -> None:
    with _harness(tree, CROWD) as harness:
        assert harness.stdout
        harness.stdout.readline()
        harness.stdout.readline()
        harness.send_signal(number)
    tree.until_gone()


@pytest.mark.kill
def test_a_fork_of_the_harness_does_not_keep_the_tree_alive(tree: Tree) -> None:
    forking = HARNESS.replace("running.wait()", "if not os.fork():\n    import time; time.sleep(1000)\nrunning.wait()")
    forking = forking.replace('os.environ["TEST_TAG"]', "sys.argv[2]")
    words = [sys.executable, "-c", forking, CROWD, tree.tag]
    with subprocess.Popen(
        words, cwd=tree.folder, env=os.environ, stdout=subprocess.PIPE, start_new_session=True
    ) as harness:
        assert harness.stdout
        assert harness.stdout.readline() == b"up\n"
        harness.stdout.readline()
        harness.kill()
        tree.until_gone()
        os.killpg(harness.pid, signal.SIGKILL)


THREE = """
echo $$ >> pids
(setsid sh -c 'echo $$ >> pids; exec sleep 1000' &)
sleep 1000 & echo $! >> pids
wait
"""


def test_the_next_harness_ends_what_both_left(tree: Tree) -> None:
    with _harness(tree, THREE) as harness:
        assert harness.stdout
        harness.stdout.readline()
        record = json.loads(harness.stdout.readline())
        tree.until_started(3)
        os.kill(record["pid"], signal.SIGSTOP)
        harness.kill()
    assert (
        owner.state(owner.Owner(**{k: record[k] for k in ("pid", "start_time", "boot_id", "host", "uid")})) == "alive"
    )
    assert end_orphans(record) >= 3
    assert tree.left() == []
    assert end_orphans(record) == 0


def test_the_next_harness_ends_what_is_left_without_a_lifeline(tree: Tree) -> None:
    run_id = new_run_id()
    env = {**tree.env, orphans.RUN_ID: run_id}
    for words in (["sleep", "1000"], ["sh", "-c", "trap '' TERM; setsid sleep 1000 & sleep 1000; sleep 1000"]):
        subprocess.Popen(words, env=env, start_new_session=True).returncode = 0  # a stranger's child from here on
    assert end_orphans({**owner.current().as_record(), "pid": 2**22 + 1, "run_id": run_id}) >= 2
    assert tree.left() == []


def test_only_what_is_provably_ours_is_ended(tree: Tree) -> None:
    run_id = new_run_id()
    with subprocess.Popen(["sleep", "1000"], env={**tree.env, orphans.RUN_ID: "another-run-of-ours"}) as stranger:
        named = owner.of(stranger.pid)
        assert named
        record = {**named.as_record(), "run_id": run_id, "group": stranger.pid}
        nothing: dict[str, object] = {}
        for forged in (
            nothing,
            record,
            {**record, "start_time": "1"},
            {**record, "run_id": ""},
            {**record, "run_id": None},
            {**record, "run_id": ["another-run-of-ours"]},
            {**record, "run_id": "another-run"},
            {"run_id": run_id},
            {**record, "run_id": "another-run-of-ours", "host": "elsewhere"},
            {**record, "run_id": "another-run-of-ours", "boot_id": "earlier"},
        ):
            assert end_orphans(forged) == 0
        assert stranger.poll() is None
        stranger.kill()


def test_a_short_run_id_proves_nothing(tree: Tree) -> None:
    with subprocess.Popen(["sleep", "1000"], env={**tree.env, orphans.RUN_ID: "7"}) as stranger:
        with start("echo; sleep 1000", cwd=tree.folder, env=tree.env, run_id="7") as running:
            running.read_line(60)
            running.stop(1)
        assert stranger.poll() is None
        stranger.kill()


def test_a_run_does_not_end_itself(tree: Tree) -> None:
    program = (
        "import os\nfrom agent_harness.kernel import owner, process\n"
        "print(process.end_orphans({**owner.of(os.getppid()).as_record(), 'run_id': os.environ['HARNESS_RUN_ID']}))"
    )
    done = run([sys.executable, "-c", program], cwd=tree.folder, env=tree.env, timeout_seconds=120)
    assert (done.exit_code, done.output) == (0, b"0\n")


ELSEWHERE = """
import os, sys
from agent_harness.kernel import owner, process
_, tag, *commands = sys.argv
for command in commands:
    process.run(command, cwd=os.getcwd(), env={**os.environ, "TEST_TAG": tag}, timeout_seconds=60)
    print(len(owner.processes_tagged("TEST_TAG", tag)), flush=True)
"""
COMMANDS = [SHAPES["daemon"] + " echo", SHAPES["many"], f"{SHAPES['orphan session']}; sleep 0.1; kill -KILL $PPID"]


def _subreaper() -> list[str]:
    adopt = "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(36, 1); sys.exit(subprocess.call(sys.argv[1:]))"
    return [sys.executable, "-c", adopt]


@pytest.mark.parametrize(
    "wrapper",
    [_subreaper(), ["unshare", "--pid", "--fork", "--mount-proc"], ["nohup"]],
    ids=["subreaper", "pid 1", "nohup"],
)
def test_it_works_wherever_the_harness_runs(tree: Tree, wrapper: list[str]) -> None:
    if "unshare" in wrapper and subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces here")
    words = [*wrapper, sys.executable, "-c", ELSEWHERE, tree.tag, *COMMANDS]
    done = subprocess.run(words, cwd=tree.folder, capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, b"0\n0\n0\n"), done.stderr.decode()
    assert owner.processes_tagged(TAG, tree.tag) == []
