"""Handling of Ctrl-C and termination signals: the harness stops at a safe point, never while it writes results.

While an agent runs, a signal makes the supervisor end the agent. At other times the signal raises ``KeyboardInterrupt``
in the main thread, except inside ``held()``. After each signal, the harness immediately prints its effect on stderr.
Source: features.md S11 b, UAH-057, UAH-354."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from agent_harness.kernel import clock

AGENT_ENDS = (
    "Stopping: the agent may finish its current call, within two minutes. Then its work is saved. Ctrl-C again stops "
    "it now."
)
IS_WRITTEN = "Stopping as soon as the current write is complete."
UNDOES = "Stopping."
NOW = "Stopping now."
LOOK_SECONDS = 0.5  # how long a request to stop may go unseen


class Stop:
    """Request to stop the run, from a signal or from the user."""

    def __init__(self, paused: Callable[[], bool] = lambda: False, *, told: str | None = None) -> None:
        # ``told`` is printed after each signal; if it is None, a text that fits the current operation
        self._paused = paused
        self._told = told
        self._waits = False
        self.number: int | None = None  # of the first signal that arrived
        self._asked = 0
        self._held = 0
        self._listening = 0

    def requested(self) -> str | None:
        """Return ``"user_pause"`` after a signal or a pause request, otherwise ``None``."""
        return "user_pause" if self._asked or self._paused() else None

    def wait(self, seconds: float) -> bool:
        """Wait for ``seconds``. Return False if a stop request ends the wait."""
        until = time.monotonic() + clock.scaled(seconds)
        with self.listening(waits=True):
            while (left := until - time.monotonic()) > 0 and not self.requested():
                time.sleep(min(left, LOOK_SECONDS))
            return not self.requested()

    @property
    def signalled(self) -> bool:
        return self._asked > 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """During the block, record signals instead of raising ``KeyboardInterrupt``."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    @contextmanager
    def listening(self, *, waits: bool = False) -> Iterator[None]:
        """Mark a block that polls ``requested``, so that the first signal raises no exception."""
        self._listening += 1
        self._waits = waits
        try:
            yield
        finally:
            self._listening -= 1
            self._waits = False

    def _answer(self) -> str:
        """Return a sentence for the user about the effect of the last signal."""
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
    """During the block, call ``make_room`` after each signal and before the harness's message."""
    # so that a full-screen display can clear space
    _ANNOUNCED.append(make_room)
    try:
        yield
    finally:
        _ANNOUNCED.remove(make_room)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def watched(paused: Callable[[], bool] = lambda: False, *, told: str | None = None) -> Iterator[Stop]:
    """Yield a ``Stop`` that records termination signals during the block."""
    # works only in the main thread
    stop = Stop(paused, told=told)
    with handled(_SIGNALS, stop.on_signal):
        yield stop


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle these signals with ``handler`` during the block, then restore the previous handlers."""
    # an ignored signal stays ignored, as ``nohup`` requires
    is_main = threading.current_thread() is threading.main_thread()
    heard = [number for number in numbers if is_main and signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
