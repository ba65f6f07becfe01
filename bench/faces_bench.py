"""What the commands that tell a person take, on 200 tasks with 300 sessions, as multiples of a bare start."""

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import reader_bench
import timing

import project

ROUNDS = 15


def measure() -> Mapping[str, float]:
    """Ratios of `why`, `costs`, `watch --once`, `report`, `status --line`, and of `serve` until its first page."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        made = [sys.executable, __file__, folder]
        root = subprocess.run(
            made, env={**os.environ, **env}, capture_output=True, text=True, check=True
        ).stdout.strip()
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "why": [project.HARNESS, "why", "task-005"],
            "costs": [project.HARNESS, "costs"],
            "watch": [project.HARNESS, "watch", "--once"],
            "report": [project.HARNESS, "report", "--out", f"{folder}/report.html"],
            "status-line": [project.HARNESS, "status", "--line"],
        }
        seconds = timing.medians(commands, cwd=Path(root), env=env, rounds=ROUNDS)
        seconds["serve"] = statistics.median(first_page(Path(root), env) for _ in range(ROUNDS))
    return {f"face-{name}": seconds[name] / seconds["bare"] for name in seconds if name != "bare"}


def first_page(root: Path, env: Mapping[str, str]) -> float:
    """Seconds from the start of `harness serve` until a browser has its first page."""
    began = time.perf_counter()
    words = [project.HARNESS, "serve", "--json", "--port", "0"]
    with subprocess.Popen(words, cwd=root, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = json.loads(process.stdout.readline())["url"]
        browser = http.client.HTTPConnection(link.split("/")[2])
        browser.request("GET", "/?" + link.partition("?")[2])
        opened = browser.getresponse()
        opened.read()
        browser.request("GET", "/", headers={"Cookie": str(opened.getheader("set-cookie")).partition(";")[0]})
        page = browser.getresponse()
        if page.status != 200 or b"<main" not in page.read():
            raise SystemExit(f"the first page was answered with {page.status}")
        took = time.perf_counter() - began
        browser.close()
        process.terminate()
    return took


def make(folder: Path) -> Path:
    """The task list, with its sessions and verdicts."""
    root = folder / "project"
    _, place = reader_bench.task_list(root)
    reader_bench.write_claims(root, place)
    return root


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
