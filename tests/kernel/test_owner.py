"""Proof of death: pid, start time and boot, on real processes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import owner
from agent_harness.kernel.owner import Owner

_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def changed(known: Owner, **members: object) -> Owner:
    other = Owner.from_record(known.as_record() | members)
    assert other is not None
    return other


def test_this_process_is_alive_and_says_who_it_is() -> None:
    own = owner.current()
    assert (own.pid, own.uid, own.host) == (os.getpid(), os.getuid(), socket.gethostname())
    assert own.start_time
    assert owner.state(own) == "alive"
    assert own == owner.of(os.getpid())
    assert len({own, owner.current()}) == 1


def test_a_running_process_is_alive_and_a_gone_one_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    known = owner.of(sleeper.pid)
    assert known is not None
    assert owner.state(known) == "alive"
    sleeper.kill()
    sleeper.wait()
    assert owner.state(known) == "dead"
    assert owner.of(sleeper.pid) is None


def test_a_zombie_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    known = owner.of(sleeper.pid)
    assert known is not None
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    os.kill(sleeper.pid, 0)
    assert owner.state(known) == "dead"
    assert not owner.exists(sleeper.pid)


def test_a_pid_that_is_used_again_is_not_the_old_process() -> None:
    assert owner.state(changed(owner.current(), start_time="1")) == "dead"


@_linux
def test_another_boot_of_this_host_is_dead_even_when_the_pid_lives() -> None:
    assert owner.state(changed(owner.current(), boot_id="another-boot")) == "dead"


@_linux
def test_a_process_of_another_container_is_unknown() -> None:
    own = owner.current()
    assert owner.state(changed(own, boot_id=own.boot_id.partition("/")[0] + "/pid:[1]")) == "unknown"


def test_another_host_is_unknown_whatever_lives_here() -> None:
    assert owner.state(changed(owner.current(), host="elsewhere", boot_id="another-boot")) == "unknown"


def test_what_cannot_be_seen_is_no_proof_of_death() -> None:
    assert owner.state(changed(owner.current(), start_time="", boot_id="")) == "alive"


@pytest.mark.skipif(os.getuid() != 0, reason="needs two users")
def test_another_users_process_counts_as_existing(sleeper: subprocess.Popen[bytes]) -> None:
    script = f"import os; from agent_harness.kernel import owner; os.setuid(65534); print(owner.exists({sleeper.pid}))"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("pid", [0, -1, 1 << 31, 1 << 80])
def test_numbers_that_are_no_pids_do_not_exist(pid: int) -> None:
    assert not owner.exists(pid)
    assert owner.of(pid) is None


@_linux
def test_a_command_name_with_brackets_and_blanks_does_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "x) Z 1 (y"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "60"])
    try:
        known = owner.of(process.pid)
        assert known is not None
        assert known.start_time.isdecimal()
    finally:
        process.kill()
        process.wait()


def test_processes_are_found_by_their_tag() -> None:
    run = f"run-{os.getpid()}"
    tagged = {**os.environ, "HARNESS_RUN_ID": run, "OTHER": f"HARNESS_RUN_ID={run}-other"}
    with subprocess.Popen(["sleep", "60"], env=tagged) as process:
        assert owner.processes_tagged("HARNESS_RUN_ID", run) == [process.pid]
        assert owner.processes_tagged("HARNESS_RUN_ID", run[:-1]) == []
        assert owner.processes_tagged("HARNESS_RUN_ID", f"{run}-other") == []
        process.kill()


def test_a_system_without_proc_asks_psutil(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(owner, "_PROC", str(tmp_path))
    known = owner.of(sleeper.pid)
    assert known is not None
    assert (known.boot_id, known.uid) == ("", os.getuid())
    assert owner.state(known) == "alive"
    assert owner.state(changed(known, start_time="1.0")) == "dead"
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert owner.state(known) == "dead"
    sleeper.wait()
    assert owner.state(known) == "dead"
    run = f"run-{os.getpid()}-psutil"
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "HARNESS_RUN_ID": run}) as process:
        assert owner.processes_tagged("HARNESS_RUN_ID", run) == [process.pid]
        process.kill()


def test_a_record_comes_back_as_it_went() -> None:
    own = owner.current()
    assert Owner.from_record({**own.as_record(), "token": "more"}) == own


_junk = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s, max_size=2))
_names = st.sampled_from(["pid", "start_time", "boot_id", "host", "uid"])


@given(st.dictionaries(_names, _junk) | _junk)
def test_a_record_of_any_shape_is_an_owner_or_nothing(record: object) -> None:
    found = Owner.from_record(record)
    if found is not None:
        assert found.as_record() == record
        assert owner.state(found) in ("alive", "dead", "unknown")
