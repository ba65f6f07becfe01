"""Pages that are followed step by step: what their console blocks type works, and prints what they show.

In a block a line with ``$`` is typed, with the lines of a here-document or after a backslash; all others are what it
prints, from its first line on. A line ``...`` stands for any lines, ``...`` in a line for any text. A command ends
with 0, or as its comment says: ``# ends with 3``. All of a page is typed into one shell, in an empty folder.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [*sorted(f"tutorials/{path.name}" for path in (DOCS / "tutorials").glob("*.md")), "long-tasks.md"]
MARK = "----- ended with"
SECONDS = 240
KILLED = """\
```console
$ mkdir -p ~/src/shop && cd ~/src/shop && git init -q && git commit -q --allow-empty -m Begin && harness init .
$ for n in 1 2 3; do harness add "Part $n" --validate "grep -q made task-00$n.txt" || exit; done
$ cat > ~/agent.yaml <<'END'
turns:
  - do:
      - run: while [ ! -e ~/held ] || { [ $HARNESS_TASK_ID = task-003 ] && [ ! -e ~/go ]; }; do sleep 0.2; done
      - run: echo made > "$HARNESS_TASK_ID.txt"
END
$ export HARNESS_AGENT=scripted:$HOME/agent.yaml
$ harness run --workers 3 > ~/run.log 2>&1 & pid=$!
$ until harness queue hold task-001; do sleep 0.2; done; touch ~/held
$ until harness status | grep '1 of 3 proven' && harness queue | grep 'held  attempt'; do sleep 0.5; done
$ kill -9 $pid; wait $pid; touch ~/go
$ cd ~
```
"""
"""The list of docs/runbook.md, whose run was killed: one candidate is held, one task was under way."""


class Typed(NamedTuple):
    """A command of a page, the status it is to end with, and the lines it is said to print."""

    command: str
    status: int
    prints: list[str]


def typed(page: str) -> Iterator[Typed]:
    """The commands of a page in their order."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        lines = block.splitlines()
        while lines:
            command = [lines.pop(0).removeprefix("$ ")]
            while command[-1].endswith("\\"):
                command.append(lines.pop(0))
            for word in re.findall(r"<<'(\w+)'", command[0]):
                while command[-1] != word:
                    command.append(lines.pop(0))
            prints = []
            while lines and not lines[0].startswith("$ "):
                prints.append(lines.pop(0))
            status = re.search(r"# ends with (\d+)$", command[-1])
            yield Typed("\n".join(command), int(status[1]) if status else 0, prints)


def played(commands: list[Typed], folder: Path) -> list[tuple[int, str]]:
    """The status of each command and what it printed; ends with the first that ends otherwise than it is to."""
    lines = [
        f"{each.command}\nended=$?; echo; echo '{MARK}' $ended\n[ $ended = {each.status} ] || exit" for each in commands
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told = shell.communicate(timeout=SECONDS)[0]
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    ends = re.split(rf"\n?^{MARK} (\d+)\n", told, flags=re.MULTILINE)
    return [(int(status), said) for said, status in zip(ends[::2], ends[1::2], strict=False)]


def shows(prints: list[str], said: str) -> bool:
    """True when a page may show ``prints`` for what was ``said``."""
    wanted = "".join(
        r"(?:.*\n)*?" if line == "..." else ".*?".join(map(re.escape, line.split("..."))) + "\n" for line in prints
    )
    return re.fullmatch(wanted, said.strip("\n") + "\n") is not None


@pytest.mark.kept("tutorials/first-proven-task.md")
@pytest.mark.scenario
@pytest.mark.parametrize("name", [*PAGES, "runbook.md"])
def test_what_a_page_types_works_and_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    commands = list(typed((DOCS / name).read_text()))
    assert len(commands) > 5
    if name == "runbook.md":
        commands = [*typed(KILLED), *commands]
    ends = played(commands, tmp_path)
    for each, (status, said) in zip(commands, ends, strict=False):
        assert status == each.status, f"$ {each.command}\n{said}"
        assert not each.prints or shows(each.prints, said), f"$ {each.command}\n{said}"
    assert len(ends) == len(commands)


@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_fits_two_screens(name: str) -> None:
    if name.startswith("tutorials/"):
        assert len((DOCS / name).read_text().splitlines()) <= 120


def test_a_command_that_fails_or_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = "```console\n$ cat <<'END'\none\ntwo\nEND\none\n...\n$ false\n$ touch never\n```\n"
    commands = list(typed(page))
    assert [each.command for each in commands] == ["cat <<'END'\none\ntwo\nEND", "false", "touch never"]
    assert played(commands, tmp_path) == [(0, "one\ntwo\n"), (1, "")]
    assert not (tmp_path / "never").exists()
    assert (
        shows(["one", "..."], "one\ntwo\n")
        and shows(["o...e", "two"], "one\ntwo\n")
        and not shows(["one"], "one\ntwo\n")
    )
