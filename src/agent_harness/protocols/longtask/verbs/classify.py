"""`classify`: what a text says about a failure, and with ``--record`` what the checkpoint makes of it.

Source: ``longtask.md`` 11.
"""

from __future__ import annotations

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.protocols.longtask.run.classifier import LONGEST_TEXT, classify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Record = dict[str, Any]

__all__ = ["classify_command"]


def classify_command(layout: LongTaskLayout, options: dict[str, object]) -> tuple[Record, int]:
    """The answer of ``lth classify``; with ``record`` the checkpoint and the log follow it."""
    from agent_harness.protocols.longtask import schema
    from agent_harness.protocols.longtask.run import outcome
    from agent_harness.protocols.longtask.store import LongTaskStore

    store = LongTaskStore(layout)
    task, _ = store.load()
    source = options.get("source")
    if source is not None and source not in schema.SOURCES:
        raise HarnessError(f"Unsupported source: {source}. Expected one of {', '.join(schema.SOURCES)}.")
    exit_code = _exit_code(options.get("exit-code"))
    text = _given_text(options)
    now = clock.now()
    found = classify(
        text,
        exit_code=exit_code,
        source=str(source) if source else None,
        fallback_wait_seconds=task.fallback_wait_seconds,
        now=now,
    )
    if options.get("record"):
        outcome.record_classification(store, found, text, options)
    return found, 0


def _exit_code(given: object) -> int | None:
    if given is None:
        return None
    try:
        return int(str(given))
    except ValueError:
        raise HarnessError(f"--exit-code must be an integer: {given}") from None


def _given_text(options: dict[str, object]) -> str:
    text, path = options.get("text"), options.get("file")
    if isinstance(text, str):
        return text
    if not isinstance(path, str):
        raise HarnessError("classify requires --text or --file.")
    return _read(path)


def _read(path: str) -> str:
    import os
    import sys

    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8", "replace")
        with open(os.path.expanduser(path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * LONGEST_TEXT))
            return file.read().decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise HarnessError(f"cannot read {path}: {reason}") from None
