"""An agent that prints without end fills neither memory nor the transcript; one that says nothing costs nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, os, pathlib, resource, sys
from agent_harness.agents.base import Brief
from agent_harness.agents.scripted import ScriptedAgent
from agent_harness.supervision.monitors import Budget, ContextWindow, BudgetLimit, WallClock
from agent_harness.supervision.stalls import RepeatedError, Stall
from agent_harness.supervision.supervisor import supervise

def largest():
    # Of this program alone: ru_maxrss also counts the process that started it.
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**20
    return next(int(line.split()[1]) // 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM:"))

here = pathlib.Path(sys.argv[1])
monitors = [
    WallClock(timeout_seconds=float(sys.argv[2])), ContextWindow(window_tokens=200_000), Stall(window_tokens=200_000),
    RepeatedError(), Budget(limits=(BudgetLimit(name="Session", limit_usd=10),)),
]
brief = Brief(prompt="", cwd=here, session=1, prompt_type="coding")
before = os.times()
outcome = supervise(ScriptedAgent(here / "play.json"), brief, monitors=monitors, transcript=here / "t.txt",
                    on_started=lambda record: None, test_file="tests/test_a.py")
after = os.times()
print(json.dumps({
    "reason": outcome.reason, "input": outcome.usage.input_tokens, "tail": outcome.text_tail[-20:],
    "megabytes": largest(),
    "cpu": after.user + after.system - before.user - before.system, "seconds": outcome.seconds,
}))
"""


def supervised(folder: Path, *steps: Any, seconds: float = 3600) -> dict[str, Any]:
    """Run a separate harness that supervises this script, and return its measurements of itself."""
    (folder / "play.json").write_text(json.dumps({"turns": [{"do": list(steps)}]}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(seconds)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def flood(folder: Path, megabytes: int, line_bytes: int) -> None:
    steps = [{"usage": [5, 5]}, {"flood": {"megabytes": megabytes, "line_bytes": line_bytes}}, {"usage": [5, 5]}]
    found = supervised(folder, *steps, {"say": "the end"})
    assert (found["reason"], found["input"]) == ("finished", 10)
    assert found["tail"].endswith("the end")
    assert found["megabytes"] < 80
    text = (folder / "t.txt").read_text()
    assert len(text) <= 8_000_000
    assert "bytes of output left out here" in text
    assert "[end] ended its turn" in text


def test_much_output(tmp_path: Path) -> None:
    flood(tmp_path, 30, 4_000)


@pytest.mark.slow
@pytest.mark.parametrize("line_bytes", [120, 4_000, 3_000_000])
def test_a_gigabyte(line_bytes: int, tmp_path: Path) -> None:
    flood(tmp_path, 1_000, line_bytes)


@pytest.mark.slow
def test_an_agent_that_sleeps_costs_nothing(tmp_path: Path) -> None:
    found = supervised(tmp_path, {"say": "thinking"}, {"sleep": 600}, seconds=60)
    assert found["reason"] == "timeout"
    assert found["cpu"] / found["seconds"] < 0.01
    assert found["megabytes"] < 80
