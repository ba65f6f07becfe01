"""The output on terminals of 60, 80 and 100 columns in the twelve situations in which a person looks at a project.

The lines are those of the real program in a pseudo-terminal. Times and ids of commits are masked in place, numbers
never. `VIEWS_GOLDEN=write` rewrites the files in ``tests/golden/views``: review the changes. Source:
``faces.md`` B3, F-TERM-1 to 5.
"""

import os
import re
from pathlib import Path

import pytest

from agent_harness.kernel.terminal import width

from .situations import LIES, SITUATIONS, shop
from .terminal import Terminal

GOLDEN = Path(__file__).parent.parent / "golden/views"
WIDTHS = (60, 80, 100)
WIDEST = 200
COMMANDS = ("check it", "and before", "then", "next", "Answer with", " " * 11 + "cd ")
"""Lines that begin so are copied into a shell: no break is put into them."""
MASKS = (
    (r"A session is active: run-\S+\s+until\s+\S+", "A session is active: ..."),
    (r"\[\S+Z\] \[SESSION-\d+\] LOCK acquired\s+\(pid=\d+\)", "[...] LOCK acquired"),
    (
        r"\d{4}-\d\d-\d\d(?=[\sT])|\d\d-\d\d(?= \d\d:)|(?<!\d)\d{1,2}:\d\d(?::\d\d)?(?!\d)",
        lambda found: re.sub(r"\d", "0", found[0]),
    ),
    (
        r"((?:\bcommit\s+|base=|\bat\s+|source=|--detach \S+ ))([0-9a-f]{7,40})\b",
        lambda found: found[1] + "c" * len(found[2]),
    ),
    (r"\b\d+ s\b", "0 s"),
    (r"(?<=yaml-)[0-9a-f]{8}\b", "c" * 8),
    (r"\(char\s+\d+\)", lambda found: re.sub(r"\d+", "0", found[0])),
)
FIRST, LAST = 22, 5
"""Of an answer that is longer, so many lines are looked at."""
QUICK = ("fresh", "question")
EACH = [pytest.param(name, marks=() if name in QUICK else (pytest.mark.scenario,)) for name in SITUATIONS]


def printed(root: Path, columns: int, *words: str) -> list[str]:
    """Return the lines of a command on a terminal of so many columns, in order, masked."""
    terminal = Terminal(root, *words, columns=columns, lines=24)
    terminal.ended()
    text = terminal.received.decode().replace("\r\n", "\n").replace(str(root), "/shop")
    text = re.sub(r"(-- harness -+\n).*", r"\1", text, flags=re.DOTALL) if words[0] == "watch" else text
    for pattern, to in MASKS:
        text = re.sub(pattern, to, text)
    lines = text.rstrip("\n").split("\n")
    left = len(lines) - FIRST - LAST
    return [*lines[:FIRST], f"... {left} lines ...", *lines[-LAST:]] if left > 1 else lines


def numbers(lines: list[str]) -> set[str]:
    return set(re.findall(r"[$#\d][\d.,:/]*\d[k]?|\d", "\n".join(lines)))


def states(lines: list[str]) -> set[tuple[str, str]]:
    """Return the texts that are shown for each item."""
    return set(re.findall(r"^[> ] (task-\d+|#\d+)\s+(\w+)", "\n".join(lines), re.MULTILINE))


def verdicts(lines: list[str]) -> list[str]:
    return re.findall(r"accepted|REJECTED|rejected|proven|FAIL|PASS", " ".join(lines))


def is_same(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("VIEWS_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def holds(lines: list[str], columns: int, widest: list[str]) -> None:
    """Check that only commands are wider than the terminal, and that numbers, verdicts and states are all there."""
    wide = [line for line in lines if width(line) > columns and len(line.split()) > 1 and not line.startswith(COMMANDS)]
    assert wide == []
    if not any(line.endswith(" lines ...") for line in lines):
        assert numbers(lines) <= numbers(widest)
        assert verdicts(lines) == verdicts(widest)
        assert states(lines) == states(widest)
    assert "\x1b" not in "".join(lines)


@pytest.mark.kept("damaged", "fresh", "question")
@pytest.mark.parametrize("name", EACH)
def test_every_situation_is_seen_whole_at_every_width(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3, F-TERM-4, F-TERM-5: an encoding that lacks characters gets replacements, and colours change no word."""
    told: list[str] = []
    with SITUATIONS[name](tmp_path) as root:
        item = "2" if name == "question" else "task-001"
        for words in (("status",), ("watch", "--once"), ("why", item)):
            widest = printed(root, WIDEST, *words)
            for columns in WIDTHS:
                lines = printed(root, columns, *words)
                told += [f"== harness {' '.join(words)}, {columns} columns", *lines, ""]
                holds(lines, columns, widest)
            monkeypatch.setenv("FORCE_COLOR", "1")
            monkeypatch.delenv("NO_COLOR")
            assert re.sub(r"\x1b\[[\d;]*m", "", "\n".join(printed(root, 80, *words))) == "\n".join(
                printed(root, 80, *words)
            )
            monkeypatch.setenv("NO_COLOR", "1")
            monkeypatch.delenv("FORCE_COLOR")
            monkeypatch.setenv("PYTHONIOENCODING", "ascii")
            plain = printed(root, 60, *words)
            holds(plain, 60, [line.encode("ascii", "replace").decode() for line in printed(root, 400, *words)])
            if not "\n".join(widest).isascii():
                told += [f"== harness {' '.join(words)}, 60 columns, ASCII", *plain, ""]
            monkeypatch.delenv("PYTHONIOENCODING")
            assert "\n".join(plain).isascii()
    text = "\n".join(told)
    if name == "damaged":  # where its message is broken depends on the length of the folder's name
        error = re.compile(r"^harness:\s.*?(?=^next:)", re.MULTILINE | re.DOTALL)
        text = error.sub(lambda found: f"{' '.join(found[0].split())}\n", text)
    is_same(name, text)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_end_of_a_run_is_seen_whole_at_every_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-RUN-2: proven, claims, cost, kept work and the next step; colours change no word."""
    told: list[str] = []
    for columns in (*WIDTHS, 101):
        root = shop(tmp_path / str(columns)).root
        (root / "go").touch()
        (root / "script.yaml").write_text(LIES)
        if columns == 101:
            monkeypatch.setenv("FORCE_COLOR", "1")
            monkeypatch.delenv("NO_COLOR")
        terminal = Terminal(root, "run", "--max-tasks", "1", "--agent", "scripted:script.yaml", columns=columns)
        terminal.ended()
        lines = [line for line in terminal.all_lines if line]
        lines = "\n".join(lines[next(n for n, line in enumerate(lines) if line.startswith("proven ")) :])
        for pattern, to in MASKS:
            lines = re.sub(pattern, to, lines)
        if columns == 101:
            assert b"\x1b[3" in terminal.received
            assert lines == told[-2], "colours change no word"
            continue
        told += [f"== the end of harness run, {columns} columns", lines, ""]
    is_same("end-of-run", "\n".join(told))
