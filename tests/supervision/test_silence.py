"""An agent that prints nothing, and a wait that a person can end."""

import os
import signal
import threading
import time
from typing import Any

from agent_harness.supervision import interruption
from agent_harness.supervision.supervisor import Silence


def test_an_agent_that_says_nothing_is_ended(bench: Any) -> None:
    """UAH-376 C28."""
    outcome = bench.play({"sleep": 600}, silence_seconds=1)
    assert (outcome.reason, outcome.ok) == ("no_response", False)
    assert outcome.message == "The agent showed no activity for 1 s."


def test_the_limit_runs_from_the_latest_event_and_not_while_a_tool_works() -> None:
    """UAH-376 C28."""
    silence = Silence(120.0, 1000.0)
    assert silence.ends_at == 1120.0
    silence.heard(1050.0, open_calls=1)
    assert silence.ends_at is None
    silence.heard(1060.0, open_calls=0)
    assert silence.ends_at == 1180.0
    assert Silence(None, 1000.0).ends_at is None


def test_a_wait_lasts_as_long_as_it_says(monkeypatch: Any) -> None:
    """C28."""
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.01")
    began = time.monotonic()
    assert interruption.Stop().wait(30.0)
    assert time.monotonic() - began >= 0.3


def test_a_pause_and_a_signal_end_a_wait() -> None:
    """UAH-057 C28."""
    assert not interruption.Stop(lambda: True).wait(3600.0)
    with interruption.watched() as stop:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert not stop.wait(3600.0)
        assert stop.signalled
