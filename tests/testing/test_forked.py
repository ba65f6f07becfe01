"""A command that is forked from a process with all imports gives what a process that was started gives."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_harness.testing import HARNESS, forked


def started(words: list[str], cwd: Path, given: bytes) -> tuple[int, bytes, bytes]:
    done = subprocess.run([*HARNESS, *words], cwd=cwd, input=given, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--version"], b""),
        (["status"], b""),
        (["no-such-command"], b""),
        (["init", "--spec", "-"], b"# A program\n"),
        (["task", "hook", "é"], b"\xff{"),
    ],
)
def test_it_answers_as_a_process_that_was_started(words: list[str], given: bytes, tmp_path: Path) -> None:
    found = forked.run(words, cwd=tmp_path, given=given, environ=None, seconds=60)
    assert found == started(words, tmp_path, given)


def test_one_that_takes_too_long_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run(["status"], cwd=tmp_path, given=b"", environ=None, seconds=0)
    found = forked.run(["--version"], cwd=tmp_path, given=b"", environ=None, seconds=60)
    assert found
    assert found[0] == 0


def test_what_a_start_reads_is_started(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    assert forked.run(["--version"], cwd=tmp_path, given=b"", environ=environ, seconds=60) is None
