"""What the live views send to a terminal of 100 x 40, as bytes a second: over a slow line each of them counts.

An agent says a line a second, then nothing, so that only the clock moves; a view and the run itself are each on a
pseudo-terminal of their own.
"""

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pexpect
import timing

import project

SETTLE_SECONDS = 4.0
COUNT_SECONDS = 15.0

AGENT = """\
import pathlib, sys, time
here = pathlib.Path(__file__).parent
sys.stdin.read()
(here / "reached").touch()
for number in range(100_000):
    if not (here / "silent").exists():
        print(f"looking at file {number} of many, and at what is done in it with {number * 7} things", flush=True)
    time.sleep(1)
"""


def measure() -> Mapping[str, float]:
    """Bytes a second of `harness watch` and of the lines below `harness run`; of `watch` when only the clock moves."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        env = {**timing.environment(Path(folder)), "TERM": "xterm-256color"}
        root, agent = listed(Path(folder), env), Path(folder) / "agent.py"
        agent.write_text(AGENT)
        with terminal(root, env, "run", "--agent", f"command:{sys.executable} {agent}") as run:
            while not (Path(folder) / "reached").exists():
                drained([run], 0.2)
            with terminal(root, env, "watch") as watch:
                drained([run, watch], SETTLE_SECONDS)
                footer, live = drained([run, watch], COUNT_SECONDS)
                (Path(folder) / "silent").touch()
                drained([run, watch], SETTLE_SECONDS)
                _, still = drained([run, watch], COUNT_SECONDS)
    return {"wire-watch": live / COUNT_SECONDS, "wire-clock": still / COUNT_SECONDS, "wire-run": footer / COUNT_SECONDS}


def listed(folder: Path, env: Mapping[str, str]) -> Path:
    """A task list with ten tasks."""
    root = folder / "project"
    root.mkdir()
    git = ("git", "-c", "user.name=Bench", "-c", "user.email=bench@localhost")
    for words in (
        (*git, "init", "-q"),
        (*git, "commit", "-q", "--allow-empty", "-m", "Begin"),
        (project.HARNESS, "init", "."),
        *((project.HARNESS, "add", f"Thing {n} works as it should", "--validate", "false") for n in range(10)),
    ):
        subprocess.run(words, cwd=root, env=dict(env), check=True, capture_output=True)
    return root


@contextmanager
def terminal(root: Path, env: Mapping[str, str], *words: str) -> Iterator[Any]:
    """The harness on a pseudo-terminal; ended as a person would, at the end of the block."""
    program = pexpect.spawn(project.HARNESS, [*words], cwd=str(root), env={**env}, dimensions=(40, 100), encoding=None)
    try:
        yield program
    finally:
        for _ in range(2):
            if program.isalive():
                program.sendintr()
                with suppress(pexpect.EOF):
                    program.expect(pexpect.TIMEOUT, timeout=1)
        program.close(force=True)


def drained(programs: Sequence[Any], seconds: float) -> list[int]:
    """How many bytes each of them has written within that time."""
    count, end = [0] * len(programs), time.monotonic() + seconds
    while time.monotonic() < end:
        for place, program in enumerate(programs):
            try:
                if select.select([program.child_fd], [], [], 0)[0]:
                    count[place] += len(os.read(program.child_fd, 1 << 16))
            except OSError:
                raise SystemExit(f"{program.args} has ended") from None
        time.sleep(0.02)
    return count
