"""``harness doctor``: what is wrong is named, with the command that mends it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.cli import doctor


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a disk without room")
def test_a_disk_without_room_is_noticed(tmp_path: Path) -> None:
    """Before a verb meets it (tasklist.md 13.3)."""
    assert doctor.disk(str(tmp_path)).state in ("ok", "warning")
    full = doctor.disk("/proc")
    assert (full.state, full.message) == ("wrong", "the disk is full: 0.0 MiB are free")
    assert (full.mend or "").startswith("df -h /proc")
    assert doctor.disk(str(tmp_path / "gone")).message.endswith("No such file or directory")


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="mounts a small disk")
def test_a_full_disk_is_what_mends_first(tmp_path: Path) -> None:
    """The lock cannot be looked at there, and the answer is still one line a look."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (folder / "harness-tasks.json").write_text('{"tasks": []}')
        (folder / "big").write_bytes(b"x" * 50_000)
        command = [sys.executable, "-m", "agent_harness.cli.main", "doctor"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 4
        assert "XX  disk" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    finally:
        subprocess.run(["umount", folder], check=True)
