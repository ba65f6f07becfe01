"""The log of requests: what came, and which step it was answered with. Keys are masked before anything is kept."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.kernel import journal
from agent_harness.kernel.redact import MASK, is_secret_name

__all__ = ["RequestLog"]


class RequestLog:
    """One JSON object a request, in a file or, without one, in memory. Safe to share between threads."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._count = 0

    def add(self, **facts: Any) -> None:
        """Records a request with its number ``n`` and the time ``t``, seconds since 1970."""
        with self._lock:
            self._count += 1
            record = {"n": self._count, "t": round(time.time(), 3), **facts}
            if self._path is None:
                self._kept.append(record)
            else:
                journal.append(self._path, record)

    def records(self) -> list[dict[str, Any]]:
        """All requests so far, oldest first; those of earlier runs too when the file had some."""
        with self._lock:
            return list(self._kept) if self._path is None else list(journal.read(self._path))


def masked(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with every key, token and cookie replaced by ``***``."""
    return {name: MASK if is_secret_name(name) else value for name, value in headers.items()}
