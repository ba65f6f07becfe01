"""The jobs of `lth openclaw-recipe`, given to a real OpenClaw gateway; ``AGENT_HARNESS_OPENCLAW`` names its program.

OpenClaw is not among the pinned clients: it is large and wants a newer Node, which is looked for on PATH.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .island import Island

PROGRAM = os.environ.get("AGENT_HARNESS_OPENCLAW", "")
PORT, TOKEN = "18790", "dummy-token"
GATEWAY = ["gateway", "run", "--port", PORT, "--bind", "loopback", "--allow-unconfigured", "--auth", "token"]
LIMIT_SECONDS = 240.0

pytestmark = [
    pytest.mark.client,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PROGRAM, reason="AGENT_HARNESS_OPENCLAW names no program"),
]


class Gateway:
    """A running gateway in a home of its own, without a way to the network."""

    def __init__(self, folder: Path, island: Island) -> None:
        self.island = island
        path = os.pathsep.join([str(Path(PROGRAM).parent), os.environ["PATH"]])
        told = {"OPENCLAW_GATEWAY_PORT": PORT, "OPENCLAW_GATEWAY_TOKEN": TOKEN}
        proxy = {"HTTPS_PROXY": island.url, "HTTP_PROXY": island.url, "NO_PROXY": "127.0.0.1"}
        self.env = {"HOME": str(folder), "PATH": path, "LC_ALL": "C.UTF-8", **told, **proxy}
        self.log = folder / "gateway.log"
        self.process = self.started()

    def started(self) -> "subprocess.Popen[bytes]":
        """The gateway's process."""
        words = self.island.beside([PROGRAM, *GATEWAY, "--token", TOKEN])
        with self.log.open("ab") as log:
            return subprocess.Popen(words, env=self.env, stdout=log, stderr=subprocess.STDOUT)

    def ran(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """One command beside the gateway."""
        command = self.island.beside(words)
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)

    def answers(self) -> None:
        """Waits until it lists its jobs; one that gives up on a busy machine, as it does, is started again."""
        until = time.monotonic() + LIMIT_SECONDS
        while self.ran(PROGRAM, "cron", "list", "--json").returncode:
            assert time.monotonic() < until, self.log.read_text()[-2000:]
            if self.process.poll() is not None:
                self.process = self.started()
            time.sleep(0.5)

    def added(self, command: str) -> dict[str, Any]:
        """The job that a pasted command makes, as the gateway tells it."""
        done = self.ran("sh", "-c", command)
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    home = tmp_path / "home"
    home.mkdir()
    with Island(home) as island:
        running = Gateway(home, island)
        try:
            running.answers()
            yield running
        finally:
            running.process.terminate()
            running.process.wait(LIMIT_SECONDS)


def test_the_gateway_takes_both_jobs_and_runs_the_one_without_a_model(gateway: Gateway, tmp_path: Path) -> None:
    lth = [sys.executable, "-m", "agent_harness.cli.lth"]
    task = tmp_path / "it's a task"
    words = ["--template", "video-analysis", "--worker", "local-command", "--command", "touch artifacts/ran"]
    subprocess.run([*lth, "init", str(task), *words], check=True, capture_output=True)
    answer = json.loads(subprocess.run([*lth, "openclaw-recipe", str(task)], check=True, capture_output=True).stdout)
    schedule = answer["schedule"]

    job = gateway.added(answer["command"])
    assert (job["name"], job["sessionKey"]) == (schedule["name"], schedule["sessionKey"])
    assert (job["schedule"]["kind"], job["schedule"]["everyMs"]) == ("every", 1_800_000)
    assert job["payload"]["kind"] == "agentTurn" and job["payload"]["message"] == answer["message"]
    assert (job["payload"]["model"], job["payload"]["timeoutSeconds"]) == (schedule["model"], 300)
    assert job["payload"]["toolsAllow"] == schedule["tools"].split()

    job = gateway.added(answer["commandNoModel"])
    assert job["payload"]["kind"] == "command" and job["payload"]["argv"][1:3] == ["run", str(task)]
    done = gateway.ran(PROGRAM, "cron", "run", job["id"])
    until = time.monotonic() + LIMIT_SECONDS
    while not (task / "artifacts/ran").exists():
        assert time.monotonic() < until, done.stdout + done.stderr + gateway.log.read_text()[-2000:]
        time.sleep(0.2)
    while json.loads((task / "checkpoint.json").read_text())["status"] != "paused":
        assert time.monotonic() < until
        time.sleep(0.2)
