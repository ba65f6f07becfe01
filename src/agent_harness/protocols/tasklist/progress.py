"""Log of a task list in ``harness-progress.txt``, with one line for each event. New lines are only appended.

    [2025-07-01T10:20:00Z] [SESSION-1] ERROR [task-002] [TASK_EXEC] Redis connection refused

Source: ``tasklist.md`` 6.2, 13.1."""

from __future__ import annotations

from agent_harness.kernel import clock, journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.tasklist.layout import TaskListLayout


KINDS = ("INIT", "Starting", "Completed", "ERROR", "CHECKPOINT", "ROLLBACK", "RECOVERY", "STATS", "LOCK", "WARN")
MAX_TEXT = 500
UNCOUNTED = ("CONFIG", "ENV_SETUP")
"""Error categories that do not count as the outcome of an attempt."""

_CONDENSED = ("Starting", "Completed", "ERROR", "CHECKPOINT", "ROLLBACK", "RECOVERY", "WARN")
_NEVER_BEGUN = ("Circular dependency detected", "Blocked by failed")
_MAYBE_SECRET = ("=", ":", "-", "_", "AKIA", "AIza", "eyJ")


class LogLine:
    __slots__ = ("at", "category", "kind", "session", "task", "text")

    def __init__(self, at: str, session: int, kind: str, *, task: str | None, category: str | None, text: str) -> None:
        self.at = at  # as written
        self.session = session
        self.kind = kind
        self.task = task
        self.category = category
        self.text = text

    @property
    def time(self) -> datetime | None:
        return clock.parse(self.at)


def entry(
    kind: str,
    session: int,
    *,
    at: datetime | None = None,
    task: str | None = None,
    category: str | None = None,
    text: str = "",
    note: str = "",
) -> str:
    """Return a log line without a newline, with secrets in ``text`` masked."""
    parts = [f"[{clock.timestamp(at)}]", f"[SESSION-{session}]", kind]
    if task is not None:  # an id that cannot be mistaken for the end of its brackets, or for two lines
        parts.append(f"[{_one_line(task).replace(']', ')')[:200]}]")
    parts += [f"[{category}]"] if category else []
    parts += [_plain(text, MAX_TEXT - len(note) - 1 if note else MAX_TEXT)] if text else []
    # the harness's own words: neither masked nor cut
    parts += [note] if note else []
    return " ".join(parts)


def _plain(text: str, most: int) -> str:
    line = _one_line(text)
    if any(sign in line for sign in _MAYBE_SECRET):
        from agent_harness.kernel.redact import redact

        line = redact(line)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _one_line(text: str) -> str:
    return (
        text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n") if "\n" in text or "\r" in text else text
    )


def quoted(text: str) -> str:
    short = text if len(text) <= MAX_TEXT - 50 else f"{text[: MAX_TEXT - 51]}…"
    return '"' + short.replace('"', '\\"') + '"'


def parse(line: str) -> LogLine | None:
    """Return the parts of a log line, or ``None`` if the text is not a log line."""
    at, found, rest = _bracketed(line)
    if not found:
        return None
    name, found, rest = _bracketed(rest.removeprefix(" "))
    number = name.removeprefix("SESSION-")
    if not found or number == name or not number.isdecimal():
        return None
    kind, _, rest = rest.removeprefix(" ").partition(" ")
    if kind not in KINDS:
        return None
    task = category = None
    if kind not in ("INIT", "LOCK", "STATS"):
        first, found, after = _bracketed(rest)
        if found:
            second, two, beyond = _bracketed(after.removeprefix(" "))
            if kind == "ERROR" and not two and first.isupper():  # an error without a task
                category, rest = first, after
            elif kind == "ERROR" and two:
                task, category, rest = first, second, beyond
            else:
                task, rest = first, after
    return LogLine(at, int(number), kind, task=task, category=category, text=rest.removeprefix(" "))


def _bracketed(text: str) -> tuple[str, bool, str]:
    if not text.startswith("["):
        return "", False, text
    inside, closed, rest = text[1:].partition("]")
    return (inside, True, rest) if closed else ("", False, text)


def tail(layout: TaskListLayout, count: int) -> list[str]:
    return journal.tail_lines(layout.progress, count)


def outcomes(layout: TaskListLayout, session: int) -> int:
    """Return the number of attempts that have ended in a session."""
    count = 0
    seen: set[str] = set()
    # only back to an earlier session: the time does not grow with the log
    for found in _backwards(layout):
        if found.session < session:
            break
        if found.session != session or found.task is None:
            continue
        if found.kind == "Starting":
            seen.discard(found.task)
        elif is_outcome(found) and found.task not in seen:
            seen.add(found.task)
            count += 1
    return count


def is_outcome(found: LogLine) -> bool:
    """Return True if the log line reports the end of an attempt."""
    if found.kind != "ERROR":
        return found.kind == "Completed"
    return found.category not in (None, *UNCOUNTED) and not (
        found.category == "DEPENDENCY" and found.text.startswith(_NEVER_BEGUN)
    )


def last_error_time(layout: TaskListLayout, task_id: str) -> datetime | None:
    for found in _backwards(layout):
        if found.kind == "ERROR" and found.task == task_id:
            return found.time
    return None


def _backwards(layout: TaskListLayout) -> Iterator[LogLine]:
    for line in journal.backwards(layout.progress):
        found = parse(line)
        if found:
            yield found


_CRITICAL = ("ERROR",)
_ROUTINE = ("STATS", "LOCK", "CHECKPOINT")


def rows(layout: TaskListLayout) -> Iterator[JsonObject]:
    """Yield the lines of the log, newest first, as rows for a view."""
    for found in _backwards(layout):
        level = "CRITICAL" if found.kind in _CRITICAL else "ROUTINE" if found.kind in _ROUTINE else "IMPORTANT"
        named = [f"[{each}]" for each in (found.task, found.category) if each]
        yield {
            "log": "progress",
            "ts": found.at,
            "session": found.session,
            "task": found.task,
            "category": found.category,
            "level": level,
            "type": found.kind,
            "message": " ".join([*named, found.text]),
        }


def told(line: str) -> tuple[str, str] | None:
    found = parse(line)
    return (found.at, line.partition("] ")[2]) if found else None


def last_stats(layout: TaskListLayout) -> str | None:
    found = tail(layout, 200)
    chosen = next((line for line in reversed(found) if " STATS " in line), found[-1] if found else None)
    return chosen[:220] if chosen else None


def condensed(layout: TaskListLayout, *, lines: int = 200, characters: int = 6000) -> list[str]:
    """Return the log's recent lines about tasks, for the agent's prompt."""
    kept: list[str] = []
    room = characters
    for line in reversed(tail(layout, lines)):
        found = parse(line)
        if found is None or found.kind not in _CONDENSED:
            continue
        short = line.partition("] [SESSION-")[2].partition("] ")[2]
        room -= len(short) + 1
        if room < 0:
            break
        kept.append(short)
    return kept[::-1]


def stats_text(stats: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in stats.items())
