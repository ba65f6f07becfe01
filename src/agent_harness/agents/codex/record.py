"""The client's own record of a thread: where a call of the model is found that the server does not show."""

import json
import time
from pathlib import Path
from typing import Any

LOOK_SECONDS = 10.0  # for a call that is not written down yet
PAUSE_SECONDS = 0.05
LAST_BYTES = 4_000_000


def call_arguments(path: Path, call: str) -> object:
    """What the model gave to a call, as the record has it, or ``None`` when it is not there in time."""
    until = time.monotonic() + LOOK_SECONDS
    while True:
        found = _find(path, call)
        if found is not None or time.monotonic() >= until:
            return None if found is None else found.get("arguments", "{}")
        time.sleep(PAUSE_SECONDS)


def _find(path: Path, call: str) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LAST_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    wanted = json.dumps(call).encode()
    for line in reversed(lines):
        item = _item(line) if wanted in line else None
        if item and item.get("call_id") == call and not str(item.get("type")).endswith("_output"):
            return item
    return None


def _item(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    payload = record.get("payload") if isinstance(record, dict) else None
    if not isinstance(payload, dict) or record.get("type") != "response_item":
        return None
    item = payload.get("item", payload)
    return item if isinstance(item, dict) else None
