"""Standard error apart from the output, the time between TERM and KILL, and a tag that the caller chooses."""

import os
import signal
from pathlib import Path

from agent_harness.kernel import process


def test_standard_error_goes_its_own_way(tmp_path: Path) -> None:
    out, err = bytearray(), bytearray()
    done = process.run(
        "echo one; echo two >&2; cat; echo three",
        cwd=tmp_path,
        env=os.environ,
        timeout_seconds=60,
        input=b"given\n",
        on_output=out.extend,
        on_errors=err.extend,
    )
    assert (bytes(out), bytes(err), done.output) == (b"one\ngiven\nthree\n", b"two\n", b"one\ngiven\nthree\n")


def test_a_command_has_its_grace(tmp_path: Path) -> None:
    command = "trap 'echo asked; sleep 0.3; echo tidied; exit 0' TERM; echo on; while :; do sleep 0.05; done"
    for grace, tidied in ((30.0, True), (0.0, False)):
        seen = bytearray()
        done = process.run(
            command,
            cwd=tmp_path,
            env=os.environ,
            timeout_seconds=60,
            on_output=seen.extend,
            stop=lambda: b"on" in seen,  # noqa: B023  # it is called within this turn of the loop
            grace_seconds=grace,
        )
        assert (done.stopped, done.exit_code, b"tidied" in seen) == (True, None, tidied)


def test_a_tag_of_the_callers_own(tmp_path: Path) -> None:
    tag = process.new_run_id()
    done = process.run(
        'echo "$HARNESS_RUN_ID"; kill -9 $$', cwd=tmp_path, env=os.environ, timeout_seconds=60, run_id=tag
    )
    assert (done.output.decode().strip(), done.exit_code) == (tag, -signal.SIGKILL)
