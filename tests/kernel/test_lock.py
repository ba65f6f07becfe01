"""One owner at a time: among our own processes, with shell scripts, through deaths, deletions and thefts."""

import errno
import fcntl
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_harness.errors import LockBusy, NotOwner, Refused, StateDamaged
from agent_harness.kernel import files, journal, lock, owner
from agent_harness.kernel.lock import Lock, directory_for

# The commands by which shell scripts take part; they are the contract, letter for letter.
_SHELL_LOCK = r"""
ROOT="$PWD"
SEARCH="$PWD"
while [ "$SEARCH" != "/" ] && [ ! -f "$SEARCH/harness-tasks.json" ]; do
  SEARCH="$(dirname "$SEARCH")"
done
if [ -f "$SEARCH/harness-tasks.json" ]; then
  ROOT="$SEARCH"
fi

PWD_HASH="$(
  printf '%s' "$ROOT" |
    (shasum -a 256 2>/dev/null || sha256sum 2>/dev/null) |
    awk '{print $1}' |
    cut -c1-16
)"
LOCKDIR="/tmp/harness-${PWD_HASH:-unknown}.lock"
if ! mkdir "$LOCKDIR" 2>/dev/null; then
  LOCK_PID=$(cat "$LOCKDIR/pid" 2>/dev/null)
  if [ -n "$LOCK_PID" ] && kill -0 "$LOCK_PID" 2>/dev/null; then
    echo "ERROR: Another harness session is active (pid=$LOCK_PID)"; exit 1
  fi
  STALE="$LOCKDIR.stale.$$"
  if mv "$LOCKDIR" "$STALE" 2>/dev/null; then
    rm -rf "$STALE"
    mkdir "$LOCKDIR" || { echo "ERROR: Lock contention"; exit 1; }
    echo "WARN: Removed stale lock${LOCK_PID:+ from pid=$LOCK_PID}"
  else
    echo "ERROR: Another agent reclaimed the lock"; exit 1
  fi
fi
echo "$$" > "$LOCKDIR/pid"
trap 'rm -rf "$LOCKDIR"' EXIT
"""


@pytest.fixture
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    place = tmp_path / "project"
    place.mkdir()
    (place / "harness-tasks.json").write_text("{}")
    yield place
    left = list(Path("/tmp").glob(Path(directory_for(place)).name + "*"))
    for path in left:
        shutil.rmtree(path)
    if request.node.get_closest_marker("kill"):  # a process killed while it removes its directory leaves it aside
        left = [path for path in left if ".stale." not in path.name]
    assert left == []


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Stands for ``/tmp`` where a test leaves something behind in it."""
    place = tmp_path / "shared"
    place.mkdir()
    return place


def shell(root: Path, then: str) -> subprocess.Popen[str]:
    """The shell's lock, and a command under it; both stdin and stdout are ours."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(["sh", "-c", _SHELL_LOCK + then], cwd=root, **pipes)  # type: ignore[call-overload]


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    prelude = "import sys; from agent_harness.kernel import files, journal, lock; from agent_harness import errors\n"
    command = [sys.executable, "-c", prelude + script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


_HOLD = "with lock.Lock(sys.argv[1]):\n print('held', flush=True); sys.stdin.read()\n"


# ---- among our own


def test_a_second_holder_waits_and_then_is_told_who_it_is(root: Path) -> None:
    with Lock(root), pytest.raises(LockBusy) as caught:
        Lock(root, timeout_seconds=0.05).acquire()
    assert str(caught.value) == f"{root} is locked by {owner.current()}"
    assert caught.value.data["holder"] == str(owner.current())
    with Lock(root, timeout_seconds=0):
        pass


def test_the_lock_comes_free_when_the_holder_leaves_with_an_error(root: Path) -> None:
    with pytest.raises(ValueError, match="in between"), Lock(root):
        raise ValueError("in between")
    with Lock(root, timeout_seconds=0):
        pass


def test_taking_it_twice_is_a_mistake(root: Path) -> None:
    with Lock(root) as held, pytest.raises(RuntimeError, match="held already"):
        held.acquire()


def test_one_object_can_be_used_again_and_released_twice(root: Path) -> None:
    again = Lock(root)
    for _ in range(3):
        with again:
            again.verify()
    again.release()
    with pytest.raises(NotOwner):
        again.verify()


def test_a_root_behind_a_link_is_the_same_root(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert directory_for(link) == directory_for(root)
    with Lock(link), pytest.raises(LockBusy):
        Lock(root, timeout_seconds=0).acquire()


def test_the_files_are_private_and_stay(root: Path) -> None:
    with Lock(root):
        directory = Path(directory_for(root))
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert (directory / "pid").read_text() == f"{os.getpid()}\n"
        record = json.loads((directory / "owner.json").read_text())
        assert record["start_time"] == owner.current().start_time
        assert sorted(record) == ["at", "boot_id", "host", "pid", "start_time", "token", "uid"]
    file = root / ".harness-lock"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    inode = file.stat().st_ino
    with Lock(root):
        assert file.stat().st_ino == inode


def test_another_file_makes_its_folder_and_leaves_the_shell_alone(root: Path) -> None:
    with Lock(root, file=".harness/lock", compatible=False), Lock(root):
        assert lock.holder(root, ".harness/lock") == owner.current()
        assert json.loads((root / ".harness" / "lock").read_text())["pid"] == os.getpid()


def test_people_can_see_who_holds_it(root: Path) -> None:
    assert lock.holder(root) is None
    with python(_HOLD, root) as other:
        assert said(other) == "held"
        assert lock.holder(root) == owner.of(other.pid)
        other.communicate()
    assert lock.holder(root) is None
    assert lock.holder(root / "missing") is None


def test_a_child_does_not_inherit_it(root: Path) -> None:
    with Lock(root):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    with Lock(root, timeout_seconds=0):
        child.kill()
    child.wait()


@pytest.mark.kill
def test_a_killed_holder_frees_it_at_once_and_is_known(root: Path) -> None:
    with python(_HOLD, root) as other:
        assert said(other) == "held"
        other_owner = owner.of(other.pid)
        other.kill()
    assert Path(directory_for(root)).exists()
    with Lock(root, timeout_seconds=0) as own:
        assert own.previous == other_owner
    with Lock(root) as own:
        assert own.previous is None


_COUNT = """
from agent_harness.kernel.lock import Lock
root, name = sys.argv[1:]
done = 0
while True:
    try:
        with Lock(root, timeout_seconds=900) as held:
            state = files.read_json(root + "/state.json")
            if state["total"] >= 320: break
            state["total"] += 1
            state["by"][name] = state["by"].get(name, 0) + 1
            files.write_json(root + "/state.json", state, backup=True, before=held.verify)
    except errors.NotOwner:
        continue
    done += 1
    journal.append(root + "/" + name, {"done": done})
"""


@pytest.mark.kill
def test_sixteen_processes_lose_no_update_though_some_are_killed(root: Path) -> None:
    files.write_json(root / "state.json", {"total": 0, "by": {}})
    chance = random.Random(7)
    names = [f"worker{number}" for number in range(16)]
    workers = [python(_COUNT, root, name) for name in names]
    for turn, worker in enumerate(workers[:8], 1):
        while files.read_json(root / "state.json")["total"] < turn * 25 + chance.randrange(20):
            assert any(other.poll() is None for other in workers)
        worker.send_signal(signal.SIGKILL)
    for worker in workers:
        worker.communicate()
    assert {worker.returncode for worker in workers[:8]} <= {-signal.SIGKILL, 0}
    assert {worker.returncode for worker in workers[8:]} == {0}
    state = files.read_json(root / "state.json")
    assert state["total"] == sum(state["by"].values()) == 320
    for name in names:
        told = len(list(journal.read(root / name)))
        assert told <= state["by"].get(name, 0) <= told + (name in names[:8])
    with Lock(root, timeout_seconds=0):
        pass


# ---- with shell scripts


def test_a_shell_script_excludes_us(root: Path) -> None:
    (root / "deep").mkdir()
    with shell(root / "deep", "echo held; read _") as script:
        assert said(script) == "held"
        with pytest.raises(LockBusy, match=f"locked by process {script.pid}$"):
            Lock(root, timeout_seconds=0.05).acquire()
        with Lock(root, compatible=False):
            pass
        script.communicate("\n")
    with Lock(root, timeout_seconds=0):
        pass


def test_we_exclude_a_shell_script(root: Path) -> None:
    with Lock(root), shell(root, "echo held") as script:
        assert said(script) == f"ERROR: Another harness session is active (pid={os.getpid()})"
        assert script.wait() == 1
    with shell(root, "echo held") as script:
        assert said(script) == "held"


@pytest.mark.kill
def test_each_side_takes_over_from_a_killed_other(root: Path) -> None:
    with shell(root, "echo held; read _") as script:
        assert said(script) == "held"
        script.kill()
    with Lock(root, timeout_seconds=0):
        pass
    with python(_HOLD, root) as other:
        assert said(other) == "held"
        other.kill()
    with shell(root, "echo held") as script:
        assert said(script) == f"WARN: Removed stale lock from pid={other.pid}"
        assert said(script) == "held"


_COUNT_WITH_SCRIPTS = """
done = 0
while done < 30:
    try:
        with lock.Lock(sys.argv[1], timeout_seconds=900) as held:
            count = int(files.read_bytes(sys.argv[1] + "/count"))
            files.replace(sys.argv[1] + "/count", str(count + 1), before=held.verify)
    except errors.NotOwner:
        continue  # a script does not wait for our pid, and took the directory half made
    done += 1
"""


def test_both_sides_together_lose_no_update(root: Path) -> None:
    (root / "count").write_text("0")
    workers = [python(_COUNT_WITH_SCRIPTS, root) for _ in range(3)]
    successes = 0
    while any(worker.poll() is None for worker in workers):
        with shell(root, "n=$(cat count); echo $((n + 1)) > count") as script:
            script.communicate()
        successes += script.returncode == 0
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    assert int((root / "count").read_text()) == 3 * 30 + successes


def test_a_slow_script_gets_time_to_write_its_pid(root: Path) -> None:
    directory = Path(directory_for(root))
    directory.mkdir()
    with pytest.raises(LockBusy, match="a process that is just starting"):
        Lock(root, timeout_seconds=0.05).acquire()
    os.utime(directory, (time.time() - 3, time.time() - 3))
    with Lock(root, timeout_seconds=0):
        pass


# ---- losing it


def test_a_directory_taken_by_a_script_is_noticed_before_the_write(root: Path) -> None:
    files.write_json(root / "state.json", {"turn": 1})
    with Lock(root) as held:
        shutil.rmtree(directory_for(root))
        with shell(root, "echo held; read _") as script:
            assert said(script) == "held"
            with pytest.raises(NotOwner, match="was lost"):
                files.write_json(root / "state.json", {"turn": 2}, before=held.verify)
            held.release()
            assert (Path(directory_for(root)) / "pid").read_text() == f"{script.pid}\n"
            script.communicate("\n")
    assert files.read_json(root / "state.json") == {"turn": 1}


def test_a_pid_written_over_ours_is_noticed(root: Path) -> None:
    with Lock(root) as held:
        pid = Path(directory_for(root), "pid")
        pid.write_text("1\n")
        with pytest.raises(NotOwner):
            held.verify()
        pid.write_text(f"{os.getpid()}\n")


def test_a_lock_file_replaced_under_us_is_noticed(root: Path) -> None:
    with Lock(root, compatible=False) as held:
        (root / ".harness-lock").unlink()
        with Lock(root, compatible=False, timeout_seconds=0), pytest.raises(NotOwner):
            held.verify()


def test_a_lock_file_deleted_under_us_is_made_again(root: Path) -> None:
    with Lock(root, file=".harness/lock", compatible=False) as held:
        shutil.rmtree(root / ".harness")
        held.verify()
        with pytest.raises(LockBusy):
            Lock(root, file=".harness/lock", compatible=False, timeout_seconds=0).acquire()
        assert lock.holder(root, ".harness/lock") == owner.current()
    with Lock(root, file=".harness/lock", compatible=False, timeout_seconds=0):
        pass


def test_a_waiter_notices_that_the_file_was_replaced(root: Path) -> None:
    with Lock(root, compatible=False):
        (root / ".harness-lock").unlink()
        with Lock(root, compatible=False, timeout_seconds=1):
            pass


# ---- places where it cannot be had


def test_a_lock_file_is_never_followed_nor_waited_for(root: Path) -> None:
    file = root / ".harness-lock"
    file.symlink_to(root / "elsewhere")
    with pytest.raises(Refused, match="cannot be opened"):
        Lock(root).acquire()
    assert not (root / "elsewhere").exists()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(StateDamaged, match="not a regular file"):
        Lock(root).acquire()


def test_a_missing_root_is_refused_and_not_made(root: Path) -> None:
    with pytest.raises(Refused, match="No such file or directory"):
        Lock(root / "missing", file=".harness/lock").acquire()
    assert not (root / "missing").exists()
    with pytest.raises(Refused, match="cannot be"):
        Lock(root / "harness-tasks.json").acquire()


def test_a_missing_shared_folder_is_refused_and_frees_the_rest(root: Path, shared: Path) -> None:
    with pytest.raises(Refused, match="cannot be made"):
        Lock(root, shared_folder=str(shared / "missing")).acquire()
    with Lock(root, timeout_seconds=0):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="needs two users")
def test_what_another_user_put_there_is_denied_at_once_and_left_alone(root: Path, shared: Path) -> None:
    directory = Path(directory_for(root, str(shared)))
    for make in (directory.mkdir, directory.touch, lambda: directory.symlink_to(root)):
        make()
        os.chown(directory, 65534, 65534, follow_symlinks=False)
        with pytest.raises(Refused, match="belongs to another user") as caught:
            Lock(root, shared_folder=str(shared), timeout_seconds=600).acquire()
        assert caught.value.data["reason"] == "lock_denied"
        assert os.path.lexists(directory)
        directory.rmdir() if directory.is_dir() and not directory.is_symlink() else directory.unlink()


# ---- disks without flock


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_flock")
def test_a_directory_in_the_root_stands_in_for_flock(root: Path) -> None:
    with Lock(root, compatible=False) as held:
        assert (root / ".harness-lock.d" / "owner.json").exists()
        held.verify()
        assert lock.holder(root) == owner.current()
        with pytest.raises(LockBusy, match=str(owner.current())):
            Lock(root, compatible=False, timeout_seconds=0.05).acquire()
    assert lock.holder(root) is None
    assert not (root / ".harness-lock.d").exists()
    with Lock(root) as held:
        held.verify()
        assert Path(directory_for(root)).exists()


@pytest.mark.usefixtures("no_flock")
def test_a_holder_on_another_host_lives_as_long_as_it_gives_signs(root: Path) -> None:
    directory = root / ".harness-lock.d"
    directory.mkdir()
    (directory / "owner.json").write_text(json.dumps({**owner.current().as_record(), "host": "elsewhere"}))
    with pytest.raises(LockBusy, match="elsewhere"):
        Lock(root, timeout_seconds=0).acquire()
    os.utime(directory, (0, time.time() - 121))
    with Lock(root, timeout_seconds=0) as held:
        os.utime(directory, (0, time.time() - 121))
        held.verify()
        assert directory.stat().st_mtime > time.time() - 60


@pytest.mark.usefixtures("no_flock")
def test_other_errors_of_the_disk_are_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(Refused, match="cannot be locked: Input/output error"):
        Lock(root).acquire()
    assert lock.holder(root) is None
