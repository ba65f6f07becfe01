"""Feature sessions of real clients through ``harness run``: a verified commit, and everything that gets in its way."""

import json
import re
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import clock

from .client import ClaudeCode, Client
from .features import ClientProject, client_project

pytestmark = [pytest.mark.client, pytest.mark.timeout(900)]

SESSION = "Feature #1|Continuing Partial Feature"
SAID_AT_75 = "You've used 75% of available context"
SAID_AT_90 = "Context is nearly full. You must now:"
RESET_SECONDS = 7200


@pytest.fixture
def calc(client: Client, tmp_path: Path) -> ClientProject:
    """A project with one feature."""
    return client_project(tmp_path, client)


def test_a_session_ends_with_a_verified_commit(calc: ClientProject) -> None:
    """The client is found on PATH by its kind, its work is accepted and pushed, its tokens are counted."""
    usage = {"input_tokens": 1000, "cached_tokens": 500, "output_tokens": 70}
    steps = [{"blocks": step, "usage": usage} for step in calc.honest(1)]
    calc.client.island.script("work", steps, start=SESSION)
    ran = calc.harness_run()
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.remote() == calc.head
    total = calc.costs["cumulative"]["total_tokens"]
    assert (total["input"], total["cached"], total["output"]) == (5000, 2500, 350)
    calc.cross_cutting()


def test_warnings_reach_the_model_while_it_works(calc: ClientProject) -> None:
    """UAH-338, UAH-339: at 75 and at 90 % of the window, in requests of the same session."""
    calc.configure("context:\n  window_tokens: 100000\nprogress:\n  check_interval_tokens: 10000000\n")
    filling = [
        {"blocks": {"run": f"echo {tokens}; sleep 1"}, "usage": {"input_tokens": tokens, "output_tokens": 10}}
        for tokens in (76_000, 76_500, 91_000, 91_500)
    ]
    work = [{"blocks": step, "usage": {"input_tokens": 500, "output_tokens": 10}} for step in calc.honest(1)]
    calc.client.island.script("work", [*filling, *work], start=SESSION)
    ran = calc.harness_run()
    assert ran.code == 0, ran.text
    at_75, at_90 = calc.told_the_model(SAID_AT_75), calc.told_the_model(SAID_AT_90)
    assert at_75, "the model was never told at 75 %"
    assert at_90, "the model was never told at 90 %"
    assert 0 < at_75[0] <= at_90[0]
    assert calc.passing() == [1]


def test_a_used_up_allowance_ends_the_try_with_its_reset(calc: ClientProject) -> None:
    """UAH-374, C28: by what the client says in a structured way; nothing is counted against the feature."""
    limit: dict[str, Any] = {"status": 429, "message": "Enough for today", "reset_seconds": RESET_SECONDS}
    if isinstance(calc.client, ClaudeCode):  # a key has no allowance, a login has
        del calc.environ["ANTHROPIC_API_KEY"]
        calc.environ["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-loopback"
        limit["headers"] = {"anthropic-ratelimit-unified-representative-claim": "five_hour"}
    else:
        at = str(int(time.time()) + RESET_SECONDS)
        limit |= {"type": "usage_limit_reached"}
        limit["headers"] = {
            "x-codex-primary-used-percent": "100",
            "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": at,
        }
    calc.client.island.script("work", [{"error": limit}], start=SESSION)
    began, start = datetime.now(UTC), calc.head
    ran = calc.harness_run()
    assert ran.code != 0, ran.text
    assert (calc.head, calc.passing(), calc.state["stuck_count"]) == (start, [], 0)
    log = (calc.root / ".harness/logs/session-1.log").read_text()
    told = re.search(r"\[rate limited\].*\(until: ([^)]+)\)", log)
    assert told, log
    moment = clock.parse(told[1])
    assert moment is not None
    assert 0 <= (moment - began).total_seconds() - RESET_SECONDS + 2 <= 600


def test_a_model_that_never_answers_is_left(calc: ClientProject) -> None:
    """UAH-376: nothing of the client is left, and nothing is lost."""
    calc.configure("session:\n  response_seconds: 8\n")
    start = calc.head
    calc.client.island.script("work", [{"blocks": "I am late.", "delay_seconds": 600}], start=SESSION)
    ran = calc.harness_run()
    assert ran.code == 1, ran.text
    assert (calc.head, calc.passing()) == (start, [])
    calc.wait_until(lambda: not calc.processes(), f"the end of {calc.processes()}", seconds=120)


def test_a_killed_harness_leaves_no_client_and_the_next_run_goes_on(calc: ClientProject) -> None:
    """S11: kill -9 in the middle of the work."""
    ready, never = calc.base / "ready", calc.base / "never"
    waits = {"run": f"touch {ready}; until test -e {never}; do sleep 0.1; done"}
    calc.client.island.script("work", [{"run": calc.work("implement", 1)}, waits], start=SESSION)
    running = calc.start("run", agent=calc.client.name)
    calc.wait_until(ready.exists, "the agent at work")
    running.send_signal(signal.SIGKILL)
    running.wait()
    calc.wait_until(lambda: not calc.processes(), "the end of every client", seconds=120)
    calc.client.island.script("work", calc.honest(1), start=SESSION)
    ran = calc.harness_run()
    assert ran.code == 0, ran.text
    assert "Session 1 was interrupted" in ran.text
    assert calc.passing() == [1]
    assert calc.remote() == calc.head


def test_a_lie_is_rejected_and_the_fix_is_asked_for_in_the_same_conversation(calc: ClientProject) -> None:
    """S03: a claim without work is sent back, then rolled back."""
    calc.client.island.script("lie", [{"run": calc.work("claim", 1)}, "All is done."], start=SESSION)
    start = calc.remote()
    ran = calc.harness_run()
    assert ran.code == 1, ran.text
    assert calc.passing() == []
    assert calc.remote() == start
    last = json.dumps(calc.client.island.conversations()[-1])
    assert last.count("All is done.") >= 1, "a fix round forgets what was said before it"
