"""Ctrl-C and termination: noticed where they can be handed off cleanly, and never in the middle of a settlement.

While the agent runs, a signal asks the supervisor to end it. Elsewhere it raises ``KeyboardInterrupt`` in the main
thread, except inside ``held()`` (settlements). Whoever sent it is answered at once, with one line on stderr that says
what happens now. Source: features.md S11 b; UAH-057, UAH-354.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from agent_harness.kernel import clock

AGENT_ENDS = (
    "Stopping: the agent may finish the call at hand, for two minutes at most; then its work is put in order. "
    "Ctrl-C again stops it now."
)
IS_WRITTEN = "Stopping as soon as what is being written is whole."
UNDOES = "Stopping."
NOW = "Stopping now."
LOOK_SECONDS = 0.5  # how long a request to stop may go unseen


class Stop:
    """Whether a person or the system asked for the end."""

    def __init__(self, paused: Callable[[], bool] = lambda: False, *, told: str | None = None) -> None:
        """``paused`` says whether a person has asked for a pause from another terminal.

        ``told`` is the answer to a signal where one thing happens whatever was under way.
        """
        self._paused = paused
        self._told = told
        self._waits = False
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
        with self.listening(waits=True):
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
    def listening(self, *, waits: bool = False) -> Iterator[None]:
        """The block asks ``requested`` often; only a second signal raises in here. ``waits``: no agent runs in it."""
        self._listening += 1
        self._waits = waits
        try:
            yield
        finally:
            self._listening -= 1
            self._waits = False

    def _answer(self) -> str:
        """What happens after the signal that has just come."""
        if self._told or self._held:
            return self._told or IS_WRITTEN
        if self._asked > 1:
            return NOW
        return AGENT_ENDS if self._listening and not self._waits else UNDOES

    def on_signal(self, number: int, _frame: object) -> None:
        self.number = self.number or number
        self._asked += 1
        for make_room in _ANNOUNCED:
            make_room()
        with suppress(OSError):  # nobody reads it
            os.write(2, f"\n{self._answer()}\n".encode())
        if self._held or (self._listening and self._asked == 1):
            return
        raise KeyboardInterrupt


_ANNOUNCED: list[Callable[[], None]] = []


@contextmanager
def announced(make_room: Callable[[], None]) -> Iterator[None]:
    """In the block ``make_room`` is called before a signal is answered: where more stands on a terminal than lines."""
    _ANNOUNCED.append(make_room)
    try:
        yield
    finally:
        _ANNOUNCED.remove(make_room)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def watched(paused: Callable[[], bool] = lambda: False, *, told: str | None = None) -> Iterator[Stop]:
    """Signals reach the ``Stop`` until the end of the block; other threads than the main one watch nothing."""
    stop = Stop(paused, told=told)
    with handled(_SIGNALS, stop.on_signal):
        yield stop


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Calls ``handler`` for these signals in the block, and what handled them before afterwards.

    A signal that is ignored stays ignored, as ``nohup`` asks for. Only the main thread may handle any; elsewhere this
    does nothing.
    """
    is_main = threading.current_thread() is threading.main_thread()
    heard = [number for number in numbers if is_main and signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
