"""init.sh and reset.sh with real processes: limits, fallbacks, and servers that live as long as the session."""

import os
import signal
import time
from pathlib import Path

import pytest

from agent_harness.errors import PreflightFailed
from agent_harness.protocols.features.preflight import DevelopmentEnvironment


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def environment(folder: Path, seconds: float = 300.0, **given: str | None) -> DevelopmentEnvironment:
    fields: dict[str, str | None] = {"init": "./init.sh", "reset": "./reset.sh", "health_check": None, "stop": None}
    said: list[str] = []
    log = folder / "log" / "init.log"
    return DevelopmentEnvironment(folder, **{**fields, **given}, log=log, say=said.append, script_seconds=seconds)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z" if Path("/proc").is_dir() else True


def test_reset_repairs_what_init_could_not(tmp_path: Path) -> None:
    """UAH-144, UAH-147, UAH-270, UAH-271, UAH-369, UAH-558, UAH-559."""
    script(tmp_path, "init.sh", "echo init >>order; test -f clean")
    script(tmp_path, "reset.sh", "echo reset >>order; touch clean")
    up = environment(tmp_path)
    up.up(auto_reset=True, max_reset_attempts=2)
    up.down()
    assert (tmp_path / "order").read_text().split() == ["init", "reset", "init"]


def test_without_auto_reset_reset_never_runs(tmp_path: Path) -> None:
    script(tmp_path, "init.sh", "echo port in use >&2; exit 3")
    script(tmp_path, "reset.sh", "touch ran")
    with pytest.raises(PreflightFailed, match=r"init\.sh failed.*port in use"):
        environment(tmp_path).up(auto_reset=False, max_reset_attempts=2)
    assert not (tmp_path / "ran").exists()


def test_a_reset_that_never_helps_is_tried_twice_and_asks_for_a_person(tmp_path: Path) -> None:
    """UAH-272, UAH-370."""
    script(tmp_path, "init.sh", "exit 1")
    script(tmp_path, "reset.sh", "echo x >>resets; exit 1")
    with pytest.raises(PreflightFailed, match=r"Could not recover clean state\. Manual intervention needed\."):
        environment(tmp_path).up(auto_reset=True, max_reset_attempts=2)
    assert len((tmp_path / "resets").read_text().split()) == 2


def test_a_server_that_init_leaves_lives_until_the_session_ends(tmp_path: Path) -> None:
    """UAH-144, C60."""
    script(tmp_path, "init.sh", "sleep 600 & echo $! >server.pid")
    up = environment(tmp_path, health_check="test -f server.pid")
    up.up(auto_reset=False, max_reset_attempts=0)
    up.healthy()
    pid = int((tmp_path / "server.pid").read_text())
    assert alive(pid)
    up.down()
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.05)
    try:
        assert not alive(pid)
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_failing_health_check_is_named(tmp_path: Path) -> None:
    """UAH-273."""
    script(tmp_path, "init.sh", "exit 0")
    up = environment(tmp_path, health_check="test -f never")
    up.up(auto_reset=False, max_reset_attempts=0)
    with pytest.raises(PreflightFailed, match="test -f never"):
        up.healthy()
    up.down()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_script_that_never_ends_is_ended_at_its_limit_with_its_children(tmp_path: Path) -> None:
    """UAH-145, C33, C60: an endless wait in a script holds nobody up, and nothing of it stays behind."""
    script(tmp_path, "init.sh", "sleep 600 & echo $! >child.pid; until false; do sleep 1; done")
    with pytest.raises(PreflightFailed, match=r"init\.sh failed"):
        environment(tmp_path, seconds=5.0).up(auto_reset=False, max_reset_attempts=0)
    pid = int((tmp_path / "child.pid").read_text())
    for _ in range(600):
        if not alive(pid):
            break
        time.sleep(0.1)
    assert not alive(pid)


def test_the_stop_command_of_the_settings_is_run_at_the_end(tmp_path: Path) -> None:
    """UAH-153."""
    script(tmp_path, "init.sh", "exit 0")
    up = environment(tmp_path, stop="echo down >>order")
    up.up(auto_reset=False, max_reset_attempts=0)
    assert not (tmp_path / "order").exists()
    up.down()
    assert (tmp_path / "order").read_text() == "down\n"
