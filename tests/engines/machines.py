"""A task list with a remote, workers with separate home folders and a server, for tests of runs over Temporal."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent_harness.testing import HARNESS, CommandResult
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject
from agent_harness.testing.temporal_server import TemporalServer

SCALE = "0.1"


def until(found: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


class Fleet:
    """A server, a list with a remote, and workers with separate home folders."""

    def __init__(self, path: Path, server: TemporalServer, *tasks: Any) -> None:
        self.path, self.server = path, server
        self.work = TaskListProject(path / "list", *tasks, git=True, session_count=0)
        self.remote = path / "remote.git"
        subprocess.run(["git", "init", "-q", "--bare", str(self.remote)], check=True)
        self.work.repo.git("remote", "add", "origin", str(self.remote))
        self.work.repo.git("push", "-q", "origin", "main")
        self.workers: list[subprocess.Popen[bytes]] = []

    def worker(
        self,
        *words: str,
        name: str = "",
        remote: str | None = None,
        within: Sequence[str] = (),
        harness: Sequence[str] = HARNESS,
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Start a worker; ``within`` is the command of a program that runs it, ``harness`` that of another harness."""
        home = self.path / (name or f"machine-{len(self.workers)}")
        home.mkdir(exist_ok=True)
        (home / ".gitconfig").write_text("[user]\n\tname = Hands\n\temail = hands@localhost\n")
        told = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "HARNESS_TIME_SCALE": SCALE}
        command = [*within, *harness, "worker", "--engine", self.server.url]
        command += ["--remote", remote or str(self.remote), *words]
        with (home / "worker.log").open("ab") as log:
            found = subprocess.Popen(command, cwd=home, env={**told, **environment}, stdout=log, stderr=log)
        self.workers.append(found)
        return found

    def log(self, name: str = "machine-0") -> str:
        return (self.path / name / "worker.log").read_text()

    def run(self, agent: str, workers: int = 3, *words: str) -> CommandResult:
        given = ("run", "--workers", str(workers), "--engine", self.server.url, "--agent", self.work.agent(agent))
        return self.work.harness(*given, *words, HARNESS_TIME_SCALE=SCALE)

    def begin(self, agent: str, workers: int = 3) -> subprocess.Popen[bytes]:
        words = [*HARNESS, "run", "--workers", str(workers), "--json"]
        words += ["--engine", self.server.url, "--agent", self.work.agent(agent)]
        with (self.path / "run.log").open("ab") as log:
            told = {**os.environ, "HARNESS_TIME_SCALE": SCALE}
            found = subprocess.Popen(words, cwd=self.work.root, env=told, stdout=log, stderr=log)
        self.workers.append(found)
        return found

    def landed(self) -> list[str]:
        return sorted(self.work.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split())

    def at_remote(self) -> list[str]:
        return Repo(self.remote, init=False).git("for-each-ref", "--format=%(refname)", "refs/harness").split()

    def close(self) -> None:
        for each in self.workers:
            each.send_signal(signal.SIGCONT)
            each.kill()
            each.wait()
