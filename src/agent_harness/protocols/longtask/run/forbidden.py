"""Folders in which no agent and no criteria command may start, regardless of the form in which a path is written.

Source: ``longtask.md`` 9."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from agent_harness.protocols.longtask.records import Contract, RecordView


ALWAYS: tuple[str, ...] = ("/", "~", "~/.ssh/**", "~/.openclaw/**", "~/.claude/**", "~/.codex/**")
"""Patterns of folders that are forbidden for every agent.

``P/**`` matches P and everything below P. Any other ``*`` does not match ``/``.
"""


class ForbiddenFolder(HarnessError):
    """Error for an agent that would work in a forbidden folder. Nothing has been started."""

    code = "forbidden_folder"


def expanded(path: str, base: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser("~") + path[1:]
    return _normal(os.path.join(base, path))


def patterns(task: Contract, config: RecordView, given: Iterable[str] = ()) -> list[str]:
    """Return the patterns of all folders in which the agent must not work."""
    found = [*ALWAYS, *config.texts("forbiddenCwdPatterns"), *task.policy.texts("forbiddenCwdPatterns")]
    for constraint in task.constraints:
        found += constraint.patterns
    return [each.strip() for each in (*found, *given) if each.strip()]


def matched(cwd: str, forbidden: Iterable[str], base: str) -> str | None:
    """Return the first pattern that matches the folder, or None."""
    if "\0" in cwd:
        raise ForbiddenFolder(f"Not a valid folder name: {cwd!r}")
    places = {_normal(cwd), _normal(os.path.realpath(_normal(cwd)))}
    for pattern in forbidden:
        forms = {expanded(pattern, base), _resolved(expanded(pattern, base))}
        if any(_compiled(form).fullmatch(place) for form in forms for place in places):
            return pattern
    return None


def refuse(worker: str, cwd: str, forbidden: Iterable[str], base: str) -> None:
    if pattern := matched(cwd, forbidden, base):
        raise ForbiddenFolder(f"Refusing to start {worker} in forbidden cwd {cwd} (matched {pattern}).")


def _normal(path: str) -> str:
    short = os.path.normpath(path)
    # POSIX keeps two leading slashes
    return short[1:] if short.startswith("//") else short


def _resolved(pattern: str) -> str:
    fixed = pattern.split("*", 1)[0]
    folder = fixed if fixed == pattern else os.path.dirname(fixed)
    return _normal(os.path.realpath(folder) + pattern[len(folder) :]) if "\0" not in pattern else pattern


def _compiled(pattern: str) -> re.Pattern[str]:
    import re

    below = pattern.endswith("/**")
    words = pattern[:-3] if below else pattern
    text = "".join(_STARS.get(part, re.escape(part)) for part in re.split(r"(\*+)", words))
    return re.compile(f"{text}(?:/.*)?" if below else text, re.DOTALL)


_STARS = {"*": "[^/]*", "**": ".*"}
