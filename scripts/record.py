"""Records the demo for the README: ``docs/demo.svg``, a picture that moves by CSS alone, and ``docs/demo.cast``.

Runs the real ``harness demo`` in a terminal of 100 x 30 and looks at each whole picture. One that shows nothing new but
the clock is dropped, a pause lasts two seconds at most, and the record of a slow machine is played so much faster that
it ends in time. Of the two tables at the end the first stays until it can be read.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pexpect
import pyte

DOCS = Path(__file__).resolve().parent.parent / "docs"
COLUMNS, LINES = 100, 30
APART_SECONDS, PAUSE_SECONDS, READING_SECONDS, MOST_SECONDS = 0.6, 2.0, 8.0, 75.0
WIDE, HIGH, SIZE = 8.4, 18, 14
ERASED = b"\r\x1b[2K\x1b[1A"  # how each picture but the first begins
TABLES = re.compile(rb"(?=Claims and verdicts)|(?=Promised and seen)|(?<=Everything ended as promised[.])")
FOLDER = re.compile(r"[^\s'\"]*/harness-demo-\w+")
SGR = {"red": 31, "green": 32, "brown": 33, "magenta": 35, "cyan": 36, "bold": 1}
STYLE = f"""\
svg{{--ground:#f6f8fa;--ink:#1f2328;--red:#cf222e;--green:#116329;--brown:#7d4e00;--magenta:#8250df;--cyan:#0f5f70}}
@media(prefers-color-scheme:dark){{svg{{--ground:#0d1117;--ink:#e6edf3;--red:#ff7b72;--green:#56d364;--brown:#e3b341;
--magenta:#d2a8ff;--cyan:#76e3ea}}}}rect{{fill:var(--ground)}}text{{fill:var(--ink)}}.red{{fill:var(--red)}}
.green{{fill:var(--green)}}.brown{{fill:var(--brown)}}.magenta{{fill:var(--magenta)}}.cyan{{fill:var(--cyan)}}
text{{font:{SIZE}px ui-monospace,Menlo,Consolas,monospace;white-space:pre;visibility:hidden}}.bold{{font-weight:bold}}
@keyframes s{{from,to{{visibility:visible}}}}.last{{animation-fill-mode:forwards!important}}
@media(prefers-reduced-motion:reduce){{text{{animation:none!important}}.last{{visibility:visible}}}}
"""
Piece = tuple[int, int, str, str]
"""Text on the screen: its column, its line, itself, and its style."""
Frame = tuple[float, frozenset[Piece]]


def recorded() -> list[Frame]:
    """The demo as it looks from moment to moment; ``SystemExit`` when it does not end as it promises."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    now, seen, written = 0.0, 0.0, b""
    for passed, written in drawn():
        if TABLES.search(written):
            break
        stream.feed(written)
        picture = looked_at(screen)
        is_new = not frames or any(y for _, y, *_ in picture ^ frames[-1][1])  # line 0 has the clock
        if is_new and passed - seen >= APART_SECONDS:
            now, seen = now + min(passed - seen, PAUSE_SECONDS), passed
            frames.append((now, picture))
        stream.feed(ERASED)
    before, *pages = TABLES.split(written)
    if len(pages) != 3:
        raise SystemExit("the demo did not end as it promises")
    faster = max(1.0, now / MOST_SECONDS)
    frames, now = [(at / faster, picture) for at, picture in frames], now / faster
    for pause, page in ((PAUSE_SECONDS, before + pages[0]), (READING_SECONDS, pages[1])):
        stream.feed(page)
        now += pause
        frames.append((now, looked_at(screen)))
    return frames


def drawn() -> Iterator[tuple[float, bytes]]:
    """What the demo writes, from one whole picture to the next, and after how many seconds; its tables in one piece."""
    with tempfile.TemporaryDirectory() as home:
        said = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": home}
        command = ["-m", "agent_harness.cli.main", "demo"]
        demo: Any = pexpect.spawn(sys.executable, command, dimensions=(LINES, COLUMNS), env=said)
        began = time.monotonic()
        while demo.expect_exact([ERASED, pexpect.EOF], timeout=60) == 0:
            yield time.monotonic() - began, demo.before
        yield time.monotonic() - began, demo.before


def looked_at(screen: pyte.Screen) -> frozenset[Piece]:
    """All that stands on the screen, parted by styles, borders and more than one blank."""
    found: set[Piece] = set()
    for y in range(LINES):
        x = 0
        for style, cells in groupby((screen.buffer[y][x] for x in range(COLUMNS)), key=style_of):
            run = "".join(cell.data for cell in cells)
            pieces = re.finditer(r"│|[^\s│]+(?: [^\s│]+)*", run)
            found.update((x + each.start(), y, FOLDER.sub("~/demo", each[0]), style) for each in pieces)
            x += len(run)
    return frozenset(found)


def style_of(cell: Any) -> str:
    """The classes of a cell: its colour, where it has one of ours, and whether it is bold."""
    return " ".join(word for word in (cell.fg if cell.fg in SGR else "", "bold" if cell.bold else "") if word)


def as_svg(frames: list[Frame]) -> str:
    """One element a piece, visible from the frame that brings it to the one that takes it away."""
    elements: list[str] = []
    since: dict[Piece, float] = {}
    for at, picture in frames:
        elements += [element(piece, since[piece], at) for piece in sorted(since.keys() - picture)]
        since = {piece: since.get(piece, at) for piece in picture}
    elements += [element(piece, since[piece], None) for piece in sorted(since)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDE + 24:g} {LINES * HIGH + 24}" role="img">'
        f"<title>harness demo: an agent builds a program, lies, and is caught</title><style>{STYLE}</style>"
        f'<rect width="100%" height="100%" rx="8"/>\n' + "\n".join(elements) + "\n</svg>\n"
    )


def element(piece: Piece, since: float, until: float | None) -> str:
    """One piece as SVG; without an ``until`` it stays for ever."""
    x, y, text, style = piece
    words = f"{style} {'' if until else 'last'}".strip()
    shown = f"{until - since if until else 0.1:.2f}s {since:.2f}s"
    return (
        f'<text x="{12 + x * WIDE:.4g}" y="{12 + SIZE + y * HIGH}" style="animation:s {shown}"'
        + (f' class="{words}"' if words else "")
        + (f' textLength="{len(text) * WIDE:.0f}"' if len(text) > 8 else "")
        + f">{escape(text, quote=False)}</text>"
    )


def as_cast(frames: list[Frame]) -> str:
    """The same for players of terminals: asciicast 2, of each frame the lines that changed."""
    lines = [json.dumps({"version": 2, "width": COLUMNS, "height": LINES, "title": "harness demo"})]
    shown = dict.fromkeys(range(LINES), "")
    for at, picture in frames:
        rows = dict.fromkeys(range(LINES), "")
        for x, y, text, style in sorted(picture):
            codes = "".join(f"\x1b[{SGR[word]}m" for word in style.split())
            rows[y] += f"\x1b[{x + 1}G{codes}{text}\x1b[0m"
        changed = "".join(f"\x1b[{y + 1}H\x1b[2K{row}" for y, row in rows.items() if row != shown[y])
        lines.append(json.dumps([round(at, 2), "o", changed], ensure_ascii=False))
        shown = rows
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    looks = recorded()
    (DOCS / "demo.svg").write_text(as_svg(looks), encoding="utf-8")
    (DOCS / "demo.cast").write_text(as_cast(looks), encoding="utf-8")
