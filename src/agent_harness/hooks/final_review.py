"""Further reviews of finished work. The session that finished the work does these reviews before it may end. By
default, there are no such reviews, but a task list can turn them on.

The file ``.harness-reflect`` contains the session and its number of reviews. Source: ``tasklist.md`` 6.5, 6.6.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.hooks import messages
from agent_harness.hooks.event import Decision, allow, block
from agent_harness.kernel import digest, files
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from agent_harness.hooks.event import Event
    from agent_harness.protocols.tasklist.layout import TaskListLayout

__all__ = ["begin", "decide", "go_on"]

MOST = 20
REQUEST = 2000
TRANSCRIPT_BYTES = 4 << 20

POINTS = """\
1. Is every requirement of the request met? Read it again, word by word.
2. Which edge cases and errors are not handled?
3. Is the quality of the code what you would want to review?
4. Do tests and documentation say what is there now?
5. Do the parts agree with one another?
Fix what you find, run the validations of the tasks that you touch, then stop."""


def begin(event: Event, layout: TaskListLayout, looks: int, final: str) -> Decision | None:
    """Start the first of ``looks`` reviews. Return ``None`` if the review cannot be recorded."""
    if not event.session_id:
        return None
    armed = {"session": _key(event.session_id), "done": 0, "of": min(looks, MOST), "final": final}
    return _step(event, layout, armed)


def go_on(event: Event, layout: TaskListLayout) -> Decision | None:
    """Return the decision on a stop during the final review, or ``None`` without a review."""
    try:
        armed = files.read_json(layout.reflect, exact=False)
    except (HarnessError, OSError):
        return None
    if not event.session_id or armed.get("session") != _key(event.session_id):
        return None
    return _step(event, layout, armed)


def _step(event: Event, layout: TaskListLayout, armed: dict[str, Any]) -> Decision | None:
    found = (_said(entry) for entry in _transcript(event.text("transcript_path")))
    request = next((text for text in found if text), "")  # the person's first request, if known
    made = decide(armed, messages.cut(request, REQUEST))
    try:
        if made.kind != "block":
            os.unlink(layout.reflect)
        elif os.path.islink(layout.reflect):
            return None
        else:
            files.replace(layout.reflect, jsontext.dumps({**armed, "done": _count(armed, "done") + 1}), mode=0o600)
    except (HarnessError, OSError):
        return None
    return made


def decide(armed: dict[str, Any], request: str) -> Decision:
    """Return the decision to request one more review or to allow the stop."""
    done, of = _count(armed, "done"), _count(armed, "of")
    if done >= of:
        final = armed.get("final")
        return allow("reflected", messages.cut(final, messages.REASON) if isinstance(final, str) else "")
    lines = [f"[Self-Reflect] iteration {done + 1}/{of}: all tasks are done; look at the whole once more."]
    lines += [f"The request was:\n{request}"] if request else []
    return block("reflect", "\n".join([*lines, POINTS]))


def _count(armed: dict[str, Any], name: str) -> int:
    found = armed.get(name)
    return min(found, MOST) if isinstance(found, int) and not isinstance(found, bool) else MOST


def _key(session_id: str) -> str:
    return digest.blake2b(session_id.encode("utf-8", "surrogatepass"), 16)


def _transcript(path: str) -> Iterator[dict[str, Any]]:
    try:
        with os.fdopen(files.open_regular(path, os.O_RDONLY), "rb") as file:
            lines = file.read(TRANSCRIPT_BYTES).split(b"\n")
    except (HarnessError, OSError, ValueError):
        return
    for line in lines:
        try:
            entry = jsontext.loads(line, exact=False)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _said(entry: dict[str, Any]) -> str:
    """Return the user's message in a transcript entry, or an empty text for other entries."""
    message = entry.get("message")
    if entry.get("type") != "user" or not isinstance(message, dict):
        return ""
    if entry.get("isMeta") is True or entry.get("isCompactSummary") is True:
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if any(each.get("type") == "tool_result" for each in parts):
        return ""
    texts = [each["text"] for each in parts if each.get("type") == "text" and isinstance(each.get("text"), str)]
    return "\n".join(texts).strip()
