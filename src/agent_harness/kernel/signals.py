"""Signals of this process, handed to a function for a while."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["handled"]


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
