"""Progress file for people and agents, to which the harness only appends. Each entry has a heading ``SESSION N -
YYYY-MM-DD HH:MM`` and parts with upper-case labels. Source: features.md section I (UAH-140..143), UAH-248, UAH-341."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_harness.kernel import clock, files

RULE = "=" * 80
LINE = "-" * 80

Part = tuple[str, Sequence[str] | str]

_HEADING = re.compile(r"^SESSION (\d+) - ", re.MULTILINE)
_TAIL_BYTES = 65536


@dataclass(frozen=True, kw_only=True)
class SessionEntry:
    session: int
    text: str

    def part(self, label: str) -> list[str]:
        """Return the lines below ``LABEL:`` without their bullets."""
        lines: list[str] = []
        inside = False
        for line in self.text.splitlines():
            if line.startswith(f"{label}:"):
                inside = True
                rest = line.removeprefix(f"{label}:").strip()
                lines += [rest] if rest else []
            elif inside and re.match(r"^[A-Z][A-Z' ]+:", line):
                break
            elif inside and line.strip() and not line.startswith("---"):
                lines.append(line.strip().removeprefix("- ").strip())
        return lines


def header(project: str) -> str:
    return (
        f"{RULE}\nCLAUDE PROGRESS LOG - {project}\n{RULE}\n\n"
        "This file tells what was done, session by session. The harness sums up the recent\n"
        "entries at the start of every session; nobody needs to read the whole file.\n"
    )


def recent_entries(path: str) -> list[SessionEntry]:
    """Return the entries at the end of the progress file, oldest first."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    found = list(_HEADING.finditer(text))
    ends = [m.start() for m in found[1:]] + [len(text)] * bool(found)
    return [
        SessionEntry(session=int(m.group(1)), text=text[m.start() : end].rstrip().rstrip("-").rstrip())
        for m, end in zip(found, ends, strict=True)
    ]


def recent_decisions(path: str, told: Iterable[tuple[int, str]] = (), sessions: int = 3) -> list[tuple[int, str]]:
    """Return the decisions of the newest sessions. Decisions of the latest session come first (UAH-248)."""
    found: dict[int, dict[str, None]] = {}
    written = ((entry.session, line) for entry in recent_entries(path) for line in entry.part("DECISIONS"))
    for session, text in (*written, *told):
        line = " ".join(text.split())
        if line.lower().strip("-. ") not in ("", "none"):
            found.setdefault(session, {})[line] = None
    return [(session, line) for session in sorted(found, reverse=True)[:sessions] for line in found[session]]


def has_entry(path: str, session: int) -> bool:
    return any(entry.session == session for entry in recent_entries(path))


def entry(session: int, parts: Sequence[Part]) -> str:
    heading = f"\n{LINE}\nSESSION {session} - {clock.now():%Y-%m-%d %H:%M}\n{LINE}\n"
    body = []
    for label, lines in parts:
        listed = [lines] if isinstance(lines, str) else ["", *[f"- {line}" for line in lines]]
        body.append(f"{label}: {listed[0]}".rstrip() + "".join(f"\n{line}" for line in listed[1:]))
    return heading + "\n" + "\n\n".join(body) + "\n"


def append(path: str, text: str) -> None:
    """Append text to the file in one atomic write, starting on a new line."""
    try:
        before = files.read_bytes(path)
    except FileNotFoundError:
        before = b""
    if before and not before.endswith(b"\n"):
        before += b"\n"
    files.replace(path, before + text.encode())
