"""Ctrl-C and termination: noticed where they can be handed off cleanly, and never in the middle of a settlement.

While the agent runs, a signal asks the supervisor to end it. Elsewhere it raises ``KeyboardInterrupt`` in the main
thread, except inside ``held()`` (settlements). Source: features.md S11 b; UAH-057, UAH-354.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_harness.kernel import clock

LOOK_SECONDS = 0.5  # how long a request to stop may go unseen


class Stop:
    """Whether a person or the system asked for the end."""

    def __init__(self, paused: Callable[[], bool] = lambda: False) -> None:
        """``paused`` says whether a person has asked for a pause from another terminal."""
        self._paused = paused
        self.number: int | None = None  # of the first signal that arrived
        self._asked = 0
        self._held = 0
        self._listening = 0

    def requested(self) -> str | None:
        """``"user_pause"`` once a signal arrived or a pause was asked for; asked while an agent runs."""
        return "user_pause" if self._asked or self._paused() else None

    def wait(self, seconds: float) -> bool:
        """Waits for so many seconds, after ``HARNESS_TIME_SCALE``; ``False`` as soon as the end is asked for."""
        until = time.monotonic() + clock.scaled(seconds)
        with self.listening():
            while (left := until - time.monotonic()) > 0 and not self.requested():
                time.sleep(min(left, LOOK_SECONDS))
            return not self.requested()

    @property
    def signalled(self) -> bool:
        """Whether a signal arrived: the end that the exit code tells of."""
        return self._asked > 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """A signal in here is remembered and raises nothing, however often it comes."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The block asks ``requested`` often; only a second signal raises in here."""
        self._listening += 1
        try:
            yield
        finally:
            self._listening -= 1

    def on_signal(self, number: int, _frame: object) -> None:
        self.number = self.number or number
        self._asked += 1
        if self._held or (self._listening and self._asked == 1):
            return
        raise KeyboardInterrupt


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def watched(paused: Callable[[], bool] = lambda: False) -> Iterator[Stop]:
    """Signals reach the ``Stop`` until the end of the block; other threads than the main one watch nothing."""
    stop = Stop(paused)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    watched_signals = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]  # nohup stays in force
    before = {number: signal.signal(number, stop.on_signal) for number in watched_signals}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
