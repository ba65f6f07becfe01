"""What the commands that tell a person take, on 200 tasks with 300 sessions, as multiples of a bare start."""

import http.client
import json
import os
import re
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
PROJECTS = 10


def measure() -> Mapping[str, float]:
    """Ratios of `why`, `costs`, `watch --once`, `report`, `status --line`, and of `serve` until its first page.

    And of `report` of a project as small as the demo's, and the milliseconds of the page of the large one alone.
    """
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
        small = as_the_demo(Path(folder) / "small")
        one = timing.medians({name: commands[name] for name in ("bare", "report")}, cwd=small, env=env, rounds=ROUNDS)
        page = subprocess.run(
            [sys.executable, __file__, "page", root], env={**os.environ, **env}, capture_output=True, check=True
        )
    found = {f"view-{name}": seconds[name] / seconds["bare"] for name in seconds if name != "bare"}
    return {
        **found,
        "view-report-demo": one["report"] / one["bare"],
        "view-report-time": float(page.stdout),
    }


def as_the_demo(root: Path) -> Path:
    """A list of seven tasks and ten sessions."""
    tasks = [
        {"id": f"task-{n:03}", "title": f"Thing {n}", "status": "pending", "validation": {"command": "true"}}
        for n in range(1, 8)
    ]
    (root / ".harness/sessions").mkdir(parents=True)
    (root / "harness-tasks.json").write_text(json.dumps({"version": 2, "tasks": tasks}))
    used = {"at": reader_bench.LATER, "result": "failed", "cost_usd": 0.1, "agent": "x"}
    rows = [{"session": n, "task_id": f"task-{n % 7 + 1:03}", **used} for n in range(1, 11)]
    (root / ".harness/sessions/costs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return root


def page_milliseconds(root: str) -> float:
    """What the page takes from the records on, the least of some times in this process."""
    from agent_harness.kernel import clock
    from agent_harness.views.reading import reader_of
    from agent_harness.views.report import page, values

    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        reader = reader_of("tasklist", root)
        page.page(values.read(reader.load(), chain=reader.chain(), at=clock.now()))
        took.append(time.perf_counter() - began)
    return min(took) * 1000


def serving() -> Mapping[str, float]:
    """The largest memory in MB of a server of ten projects whose pages were all asked for, and what it takes idle."""
    import live_bench

    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        roots = [
            subprocess.run(
                [sys.executable, __file__, f"{folder}/{n}"],
                env={**os.environ, **env},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for n in range(PROJECTS)
        ]
        words = [project.HARNESS, "serve", *roots, "--json", "--port", "0"]
        with subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            link = json.loads(process.stdout.readline())["url"]
            browser = http.client.HTTPConnection(link.split("/")[2])
            cookie = _signed_in(browser, link)
            pages = set(re.findall(r'href="(/p/[0-9a-f]+)"', _page(browser, "/", cookie)))
            if len(pages) != PROJECTS:
                raise SystemExit(f"{len(pages)} projects are shown")
            for path in pages:
                _page(browser, path, cookie)
            browser.close()
            stream = http.client.HTTPConnection(link.split("/")[2])  # as a page that is open has one
            stream.request("GET", "/events", headers={"Cookie": cookie})
            if stream.getresponse().status != 200:
                raise SystemExit("the stream was refused")
            time.sleep(live_bench.SETTLE_SECONDS)
            before, began = live_bench.processor_seconds(process.pid), time.monotonic()
            time.sleep(live_bench.WATCH_SECONDS)
            spent, took = live_bench.processor_seconds(process.pid) - before, time.monotonic() - began
            memory = live_bench.largest_megabytes(process.pid)
            stream.close()
            process.terminate()
    return {"serve-memory": memory, "serve-idle": 100 * spent / took}


def writing() -> Mapping[str, float]:
    """Microseconds of the processor that one write of ``now.json`` takes, the least of some hundred."""
    from agent_harness.session.now import NowRecord

    with tempfile.TemporaryDirectory() as folder:
        record = NowRecord(f"{folder}/now.json", item="task-001", title="Something", session=7, agent="x")
        record.used({"input": 10, "output": 10, "cached": 10}, 0.5, model="m")
        for number in range(3):
            record.said(f"line {number} " + "x" * 200)
        took = []
        for _ in range(300):
            began = time.process_time()
            record.step("proof")  # is written at once
            took.append(time.process_time() - began)
    return {"now-write": statistics.median(took) * 1e6}


def _signed_in(browser: http.client.HTTPConnection, link: str) -> str:
    """The cookie that the link gives."""
    browser.request("GET", "/?" + link.partition("?")[2])
    opened = browser.getresponse()
    opened.read()
    return str(opened.getheader("set-cookie")).partition(";")[0]


def _page(browser: http.client.HTTPConnection, path: str, cookie: str) -> str:
    browser.request("GET", path, headers={"Cookie": cookie})
    page = browser.getresponse()
    text = page.read().decode()
    if page.status != 200 or "<main" not in text:
        raise SystemExit(f"{path} was answered with {page.status}")
    return text


def first_page(root: Path, env: Mapping[str, str]) -> float:
    """Seconds from the start of `harness serve` until a browser has its first page."""
    began = time.perf_counter()
    words = [project.HARNESS, "serve", "--json", "--port", "0"]
    with subprocess.Popen(words, cwd=root, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = json.loads(process.stdout.readline())["url"]
        browser = http.client.HTTPConnection(link.split("/")[2])
        _page(browser, "/", _signed_in(browser, link))
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
    print(page_milliseconds(sys.argv[2]) if sys.argv[1] == "page" else make(Path(sys.argv[1])))
