"""Ctrl-C and termination during `lth run`: remembered, and asked about where the run can end in order.

A signal never interrupts a change of the checkpoint; the worker under way is stopped. Source: ``longtask.md`` 14.
"""

from __future__ import annotations

import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Signals"]

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """A context manager; ``number`` is the first signal that came. What was ignored before (nohup) stays ignored."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in _WATCHED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, _frame: object) -> None:
        self.number = self.number or number
