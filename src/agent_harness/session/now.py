"""What the sessions under way are doing at this moment, in a small file for whoever looks: ``status``, a footer.

The file lies in the user's state folder of the project, is replaced at most once a second, and is gone when its session
has ended. Whoever reads it asks for the process that wrote it: a dead one's clock does not run on. Nothing is decided
by it, so a disk that does not take it stops nobody. Source: ``faces.md`` F-REC-4.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.kernel.json import JsonObject

__all__ = ["NowRecord", "keep_said", "line", "read"]

WRITE_SECONDS = 1.0
LAST_LINES = 3
LAST_CHARACTERS = 200


class NowRecord:
    """The record of one session while it lives; without a path it writes nothing."""

    def __init__(
        self,
        path: str | None = None,
        *,
        item: str | None = None,
        title: str = "",
        session: int = 0,
        agent: str = "",
        budget_usd: float | None = None,
    ) -> None:
        """``budget_usd`` is what the session may spend."""
        self._path = path
        self._fixed = {"item": item, "title": title, "session": session, "agent": agent, "budget_usd": budget_usd}
        self._phase = {"phase": "preflight", "since": time.time()}
        self._last: list[str] = []
        self._used: JsonObject = {"model": None, "tokens": None, "cost_usd": None}
        self._began = time.time()
        self._next = 0.0  # of the monotonic clock, when it may be written again
        self._waits = False

    def phase(self, name: str) -> None:
        """The session is at another step now: ``agent``, ``judging``."""
        self._phase = {"phase": name, "since": time.time()}
        self._next = 0.0
        self._write()

    def said(self, text: str) -> None:
        """The agent said, or did, something; the secrets in it are masked."""
        from agent_harness.kernel.redact import redact
        from agent_harness.kernel.terminal import one_line

        if self._path is not None and text.strip():
            last = one_line(redact(text.strip().rpartition("\n")[2]))
            self._last = [*self._last, last[:LAST_CHARACTERS]][-LAST_LINES:]
        self._write()

    def used(self, tokens: Mapping[str, int], cost_usd: float | None, *, model: str | None = None) -> None:
        """What the agent has used so far in this session; ``None`` for a cost that is not known."""
        self._used = {"model": model, "tokens": {**tokens}, "cost_usd": cost_usd}
        self._write()

    def close(self) -> None:
        """The session has ended."""
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)

    def tick(self) -> None:
        """To be called now and then: writes what came too soon after the write before it."""
        if self._waits:
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._waits = time.monotonic() < self._next
        if self._waits:
            return
        self._next = time.monotonic() + WRITE_SECONDS
        part = f"{self._path}.part"
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(self._record(), file, ensure_ascii=True)
            os.replace(part, self._path)

    def _record(self) -> JsonObject:
        from agent_harness.kernel import owner

        return {
            "v": 1,
            "owner": owner.current().as_record(),
            **self._fixed,
            **self._phase,
            **self._used,
            "began": self._began,
            "last": self._last,
        }


LOG_BYTES = 1_000_000
LOG_FILES = 5


def keep_said(path: str, text: str) -> None:
    """Adds what a run says to its own log, each line with time and zone, masked; five files of a megabyte are kept.

    A terminal that was closed, or a log that was lost, takes nothing away. Source: ``faces.md`` F-REC-6.
    """
    from agent_harness.kernel import clock
    from agent_harness.kernel.redact import redact
    from agent_harness.kernel.terminal import printable

    at = clock.now().astimezone().isoformat(timespec="seconds")
    lines = [f"{at} {printable(redact(line))}" for line in text.split("\n") if line.strip()]
    folder = os.path.dirname(path)
    with suppress(OSError):
        if os.path.islink(folder) or os.path.islink(os.path.dirname(folder)):
            return  # whoever put the link there is not followed
        if not os.path.isdir(folder):
            os.mkdir(folder)
        if os.path.lexists(path) and (os.path.islink(path) or os.lstat(path).st_size > LOG_BYTES):
            _turn_over(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(f"{line}\n" for line in lines))


def _turn_over(path: str) -> None:
    names = [path, *(f"{path}.{number}" for number in range(1, LOG_FILES))]
    for older, newer in zip(reversed(names), list(reversed(names))[1:], strict=False):
        with suppress(FileNotFoundError):
            os.replace(newer, older)


def read(folder: str | None) -> list[JsonObject]:
    """The sessions that are alive by the records in this folder; a file that is none is passed over."""
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(folder or os.devnull)):
            if name.startswith("now") and name.endswith(".json"):
                with suppress(OSError, ValueError), open(os.path.join(str(folder), name), encoding="utf-8") as file:
                    found.append(json.load(file))
    return [each for each in found if isinstance(each, dict) and each.get("v") == 1 and _is_alive(each)]


def _is_alive(record: Mapping[str, Any]) -> bool:
    from agent_harness.kernel import owner

    who = owner.Owner.from_record(record.get("owner"))
    return who is not None and owner.state(who) == "alive"


def line(found: Mapping[str, Any], at: float | None = None) -> str:
    """One session for a person: what it works on, its step and for how long, tokens, cost and its pace.

    What is not known is not shown; ``at`` is a moment of ``time.time``.
    """
    at = time.time() if at is None else at
    tokens, cost, began = found.get("tokens"), found.get("cost_usd"), _number(found.get("began"), at)
    parts = [f"{found.get('phase')} {_spent(at - _number(found.get('since'), at))}"]
    if isinstance(tokens, dict):
        parts.append(f"{_short(tokens.get('input'))} in {_short(tokens.get('output'))} out")
        budget = found.get("budget_usd")
        of = f" of ${budget:.2f}" if isinstance(budget, int | float) else ""
        parts.append("cost unknown" if not isinstance(cost, int | float) else f"${cost:.2f}{of}")
        if isinstance(cost, int | float) and cost and at - began >= 60:
            parts.append(f"${cost / (at - began) * 60:.2f}/min")
    return f"{found.get('item') or 'session'} ({found.get('agent')}): {', '.join(parts)}"


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _spent(seconds: float) -> str:
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _short(count: object) -> str:
    number = _number(count, 0.0)
    return f"{number / 1000:.1f}k" if number >= 1000 else f"{number:.0f}"
