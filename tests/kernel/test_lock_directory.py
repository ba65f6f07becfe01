"""Who is judged alive and who dead, row by row; and a removal that never hits a successor."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import Refused
from agent_harness.kernel import lock_directory, owner
from agent_harness.kernel.lock_directory import LockDirectory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "harness-1234.lock"


def gone() -> int:
    """The pid of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def put(path: Path, *, pid: str | None = None, record: dict[str, Any] | str | None = None, age: float = 0.0) -> None:
    """A lock directory as somebody else may have left it, so many seconds old."""
    path.mkdir()
    if pid is not None:
        (path / "pid").write_text(pid)
    if record is not None:
        (path / "owner.json").write_text(record if isinstance(record, str) else json.dumps(record))
    os.utime(path, (time.time(), time.time() - age))


def own(**members: object) -> dict[str, Any]:
    return {**owner.current().as_record(), **members}


def _cut(path: Path) -> None:
    """What a full disk, or a crash of the machine, leaves of a number: the one of a process that lives."""
    put(path, pid="1", record=own(pid=int(f"1{gone()}")))


_HELD: list[tuple[str, Callable[[Path], object], str]] = [
    ("our own process", lambda p: put(p, pid=f"{os.getpid()}\n", record=own(), age=9e9), f"process {os.getpid()} on"),
    ("owner without pid file", lambda p: put(p, record=own(), age=9e9), f"process {os.getpid()} on"),
    ("pid only", lambda p: put(p, pid=f"{os.getpid()}\n", age=9e9), f"process {os.getpid()}"),
    ("pid without newline", lambda p: put(p, pid=f" {os.getpid()} ", age=9e9), f"process {os.getpid()}"),
    ("damaged owner, live pid", lambda p: put(p, pid="1", record="{", age=9e9), "process 1"),
    ("pid written over the owner", lambda p: put(p, pid="1\n", record=own(pid=gone()), age=9e9), "process 1"),
    ("another host, fresh", lambda p: put(p, record=own(host="far"), age=119), f"process {os.getpid()} on far"),
    ("another container, fresh", lambda p: put(p, record=own(boot_id=_elsewhere()), age=119), "process"),
    ("nothing in it yet", lambda p: put(p, age=1.5), "a process that is just starting"),
    ("pid not written yet", lambda p: put(p, pid="", age=1.5), "a process that is just starting"),
    ("a clock a little ahead", lambda p: put(p, age=-1.5), "a process that is just starting"),
]

_STALE: list[tuple[str, Callable[[Path], object]]] = [
    ("dead pid", lambda p: put(p, pid=f"{gone()}\n")),
    ("dead owner, pid cut in its middle", _cut),
    ("dead owner", lambda p: put(p, pid="", record=own(pid=gone()))),
    ("pid used again", lambda p: put(p, pid=f"{os.getpid()}\n", record=own(start_time="1"))),
    ("before the last boot", lambda p: put(p, pid=f"{os.getpid()}\n", record=own(boot_id="other"))),
    ("another host, silent", lambda p: put(p, record=own(host="far"), age=121)),
    ("another container, silent", lambda p: put(p, record=own(boot_id=_elsewhere()), age=121)),
    ("empty and old", lambda p: put(p, age=2.5)),
    ("empty and from the future", lambda p: put(p, age=-1000)),
    ("pid 0", lambda p: put(p, pid="0\n", age=2.5)),
    ("negative pid", lambda p: put(p, pid="-1\n", age=2.5)),
    ("no number", lambda p: put(p, pid="nonsense", age=2.5)),
    ("number in other digits", lambda p: put(p, pid="١٢", age=2.5)),
    ("enormous pid", lambda p: put(p, pid="9" * 4000)),
    ("a file", lambda p: p.write_text("x")),
    ("a link to nowhere", lambda p: p.symlink_to("nowhere")),
    ("a pipe", os.mkfifo),
]


def _elsewhere() -> str:
    return owner.current().boot_id.partition("/")[0] + "/pid:[1]"


@pytest.mark.parametrize(("make", "who"), [row[1:] for row in _HELD], ids=[row[0] for row in _HELD])
def test_held(path: Path, make: Callable[[Path], object], who: str) -> None:
    make(path)
    before = path.stat().st_ino
    holder = LockDirectory(str(path)).try_take()
    assert holder is not None
    assert holder.startswith(who)
    assert path.stat().st_ino == before


@pytest.mark.parametrize("make", [row[1] for row in _STALE], ids=[row[0] for row in _STALE])
def test_stale(path: Path, make: Callable[[Path], object]) -> None:
    make(path)
    taken = LockDirectory(str(path))
    assert taken.try_take() is None
    assert taken.confirm()
    taken.release()
    assert list(path.parent.iterdir()) == []


def test_a_zombie_holds_nothing(path: Path) -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    put(path, pid=f"{process.pid}\n")
    assert LockDirectory(str(path)).try_take() is None
    process.wait()


def test_a_link_is_removed_and_what_it_names_is_left_alone(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    put(target, pid=f"{gone()}\n", age=9e9)
    path.symlink_to(target)
    assert LockDirectory(str(path)).try_take() is None
    assert (target / "pid").exists()
    assert not path.is_symlink()


def test_links_inside_a_stale_directory_are_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "number").write_text(str(os.getpid()))
    put(path)
    (path / "pid").symlink_to(tmp_path / "number")  # no pid of ours: links do not count
    (path / "folder").mkdir()
    (path / "folder" / "deep").symlink_to(tmp_path / "kept")
    os.utime(path, (0, 0))
    assert LockDirectory(str(path)).try_take() is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["harness-1234.lock", "kept", "number"]
    assert (tmp_path / "kept" / "file").exists()


def test_a_successor_that_came_after_the_judgement_is_put_back(path: Path) -> None:
    put(path, pid=f"{gone()}\n", age=9e9)
    seen = lock_directory._look(str(path))
    assert seen is not None
    (path / "pid").unlink()
    path.rmdir()
    put(path, pid=f"{os.getpid()}\n")
    lock_directory._remove(str(path), seen)
    assert (path / "pid").read_text() == f"{os.getpid()}\n"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_holder_that_woke_up_after_the_judgement_is_put_back(path: Path) -> None:
    put(path, age=2.5)
    seen = lock_directory._look(str(path))
    assert seen is not None
    (path / "pid").write_text(f"{os.getpid()}\n")
    lock_directory._remove(str(path), seen)
    assert LockDirectory(str(path)).try_take() == f"process {os.getpid()}"


def test_release_removes_only_our_own(path: Path) -> None:
    first = LockDirectory(str(path))
    assert first.try_take() is None
    (path / "pid").unlink()
    (path / "owner.json").unlink()
    path.rmdir()
    second = LockDirectory(str(path))
    assert second.try_take() is None
    (path / "pid").write_text("1\n")
    first.release()
    assert path.exists()
    assert not first.confirm()
    (path / "pid").write_text(f"{os.getpid()}\n")
    second.release()
    second.release()
    assert not path.exists()


def test_a_directory_is_ours_though_somebody_dropped_a_file_in_it(path: Path) -> None:
    taken = LockDirectory(str(path))
    assert taken.try_take() is None
    (path / "extra").touch()
    assert taken.confirm()
    taken.release()
    assert not path.exists()


def test_a_place_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be made: No such file or directory"):
        LockDirectory(str(tmp_path / "missing" / "x.lock")).try_take()


def test_a_pid_is_never_without_its_owner(path: Path) -> None:
    """Killed between the two, a holder leaves no bare number, which is soon another process's."""
    killed = """
import os, signal, sys
from agent_harness.kernel.lock_directory import LockDirectory
seen = []
def hear(event, args):
    if event == "open" and args[0] in ("pid", "owner.json") and args[2] & os.O_CREAT:
        seen.append(args[0])
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hear)
LockDirectory(sys.argv[1]).try_take()
"""
    assert subprocess.run([sys.executable, "-c", killed, path], check=False).returncode == -signal.SIGKILL
    assert [each.name for each in path.iterdir()] == ["owner.json"]
    assert LockDirectory(os.fspath(path)).try_take() is None
