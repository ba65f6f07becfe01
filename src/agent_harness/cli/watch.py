"""``harness watch``: a project, or all of them, on the terminal; the keys are verbs of the command line.

It only looks: leaving it, losing the connection or killing it never touches a run. Every dialog leaves the picture and
is a plain question. Source: ``faces.md`` 4.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress

from agent_harness.errors import NotAProject, UsageError
from agent_harness.faces import follow, watch
from agent_harness.faces.screen import AlternateScreen, Hangup
from agent_harness.faces.watch import AllProjects, ProjectLook, ProjectView
from agent_harness.kernel import clock, root, trusted_state
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.kernel.terminal import fitted, is_plain, printable
from agent_harness.session.picture import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

TICK_SECONDS = 0.5
SUMMARY_SECONDS = 60.0
PLAIN_WIDTH = 100
FOOTER = "enter open  p pause  s say  a answer  d diff  w why  / find  ? keys  q leave"
HELP = """\
j k up down g G   choose an item          enter   its story
esc               back                    f       follow the work again
p                 pause                   r       resume
s                 say a line to the agent at work
a                 answer the question     u       undo the item, after a typed yes
d w c             diff, why, costs        /       find an item by a word
q                 leave; the run goes on
"""


def main(*, item: str | None, everything: bool, plain: bool, once: bool, as_json: bool) -> int:
    """Watches what is here, or with ``everything`` all projects, until a person leaves; the exit code."""
    if everything:
        if item is not None:
            raise UsageError("--all and an item exclude each other", hint="harness watch --help")
        return _all(once=once or as_json, plain=plain, as_json=as_json)
    from agent_harness.cli.status import HOW_TO_BEGIN, NOTHING_HERE

    found = root.find()
    if found is None:
        raise NotAProject(NOTHING_HERE, hint=HOW_TO_BEGIN)
    view = ProjectView(found.kind, found.path)
    chosen = _named(view.look(), item) if item else None
    if as_json:
        _print_json(view.look().as_json())
        return 0
    if once:
        for line in _snapshot(view.look(), chosen):
            print(line)
        return 0
    if plain or is_plain(sys.stdout) or not sys.stdin.isatty():
        return _plain(view)
    with suppress(Hangup, KeyboardInterrupt):
        screen = AlternateScreen()
        with screen.shown():
            _OneProject(screen, view, chosen).loop()
    return 0


def _named(seen: ProjectLook, word: str) -> str:
    """The id of the item that is meant, by its id or by the slot that works on it."""
    from agent_harness.faces import why

    workers = (seen.parallel or {}).get("workers")
    slots = {str(each.get("slot")): str(each.get("item")) for each in workers or () if isinstance(each, dict)}
    return why.item_of(seen.picture, slots.get(word, word)).id


def _snapshot(seen: ProjectLook, chosen: str | None) -> list[str]:
    rows = 3 + len(seen.picture.items) + len(seen.slots) + 4 * len(seen.picture.now) + 14
    return watch.lines(seen, PLAIN_WIDTH, max(rows, watch.LEAST[1]), chosen)


def _print_json(found: JsonObject) -> None:
    print(jsontext.spaced({"ok": True, "verb": "watch", **found}))


def _plain(view: ProjectView) -> int:
    """The log as it grows, and a line a minute on where it stands."""
    seen, shown, said_at = view.look(), 0, float("-inf")
    try:
        while True:
            rows = [*seen.rows]
            for row in rows[shown:]:
                print(printable(follow.line(row)), flush=True)
            shown = len(rows)
            if time.monotonic() - said_at >= clock.scaled(SUMMARY_SECONDS):
                print(printable(f"{time.strftime('%H:%M:%S')}  {seen.name}: {seen.picture.line}"), flush=True)
                said_at = time.monotonic()
            time.sleep(TICK_SECONDS)
            before, seen = seen, view.look()
            shown -= len(before.rows) - _overlap(before.rows, seen.rows)
    except KeyboardInterrupt:
        return 0


def _overlap(before: Sequence[JsonObject], after: Sequence[JsonObject]) -> int:
    """How many of the rows before are still there: the oldest go."""
    first = after[0] if after else None
    gone = next((n for n, row in enumerate(before) if row is first), len(before))
    return len(before) - gone


class _OneProject:
    """The view of one project, and what its keys do."""

    def __init__(self, screen: AlternateScreen, view: ProjectView, chosen: str | None = None) -> None:
        self._screen, self._view = screen, view
        self._chosen = chosen
        self._told: list[str] | None = None  # an item's story, or the keys, in place of the picture
        self._top = 0
        self._problem = ""
        self._looked = time.monotonic()
        self._seen = view.look()

    def loop(self) -> None:
        """Until the person leaves."""
        while True:
            self._look()
            self._paint()
            key = self._screen.key(TICK_SECONDS)
            if key == "q":
                return
            if key == "esc" and self._told is None:
                return
            if key is not None:
                self._act(key)

    def _look(self) -> None:
        try:
            self._seen, self._problem, self._looked = self._view.look(), "", time.monotonic()
        except OSError as error:  # the last picture stays
            age = span(time.monotonic() - self._looked)
            self._problem = f"! {error.strerror}; this is how it was {age} ago"

    def _paint(self) -> None:
        columns, rows = self._screen.size
        if self._told is not None:
            self._top = max(0, min(self._top, len(self._told) - rows + 1))
            shown = [fitted(printable(line), columns) for line in self._told[self._top : self._top + rows - 1]]
            footer = "esc back  j k up down  q leave"
        else:
            shown = watch.lines(self._seen, columns, rows - 1, self._chosen)
            footer = self._problem or FOOTER
        blank = [""] * (rows - 1 - len(shown))
        is_small = columns < watch.LEAST[0] or rows < watch.LEAST[1]
        self._screen.paint(shown if is_small else [*shown, *blank, fitted(f" {footer}", columns)])

    def _act(self, key: str) -> None:
        if self._told is not None:
            if key in ("esc", "enter"):
                self._told = None
            self._top += {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -20, "pagedown": 20}.get(key, 0)
            return
        item = self._chosen or watch.current(self._seen.picture)
        acts: dict[str, Callable[[], object]] = {
            **{name: lambda: self._choose(key, item) for name in ("up", "k", "down", "j", "g", "G")},
            "f": lambda: self._choose("f", None),
            "?": lambda: self._tell([*HELP.splitlines()]),
            "c": lambda: self._tell(_said(["costs"])),
            "/": lambda: self._aside(self._find, wait=False),
            "p": lambda: self._aside(lambda: _asked("Pause after the current operation?", ["pause"])),
            "r": lambda: self._aside(lambda: _asked("Go on again?", ["resume"])),
            "a": lambda: self._aside(self._answer),
            "s": lambda: self._aside(_said_to_agent),
        }
        if item:
            acts |= {
                **{name: lambda: self._tell(_said(["why", item, "--full"])) for name in ("enter", "w")},
                "d": lambda: self._aside(lambda: _run(["diff", item])),
                "u": lambda: self._aside(lambda: _undone(item)),
            }
        if key in acts:
            acts[key]()

    def _tell(self, lines: list[str]) -> None:
        self._told, self._top = lines, 0

    def _choose(self, key: str, item: str | None) -> None:
        ids = [each.id for each in self._seen.picture.items]
        if not ids or key == "f":
            self._chosen = None
            return
        at = ids.index(item) if item in ids else 0
        to = {"up": at - 1, "k": at - 1, "down": at + 1, "j": at + 1, "g": 0, "G": len(ids) - 1}[key]
        self._chosen = ids[max(0, min(to, len(ids) - 1))]

    def _find(self) -> None:
        word = _ask("Find: ").lower()
        ids = [each.id for each in self._seen.picture.items]
        start = ids.index(self._chosen) + 1 if self._chosen in ids else 0
        items = [*self._seen.picture.items[start:], *self._seen.picture.items[:start]]
        if word:
            hit = next((each.id for each in items if word in f"{each.name} {each.title}".lower()), None)
            self._chosen = hit or self._chosen

    def _answer(self) -> None:
        asked = self._seen.picture.state.questions
        if not asked:
            print("Nothing needs you.")
            return
        first = asked[0]
        print(printable(first.message))
        for number, option in enumerate(first.options, 1):
            print(f"  {number}  {printable(option)}")
        if not first.options:
            print(printable(first.answer))
            return
        said = _ask("Choose (a number or a word; Enter: later): ")
        if said.isdecimal() and 1 <= int(said) <= len(first.options):
            said = first.options[int(said) - 1]
        if said:
            _run(["resume", "--choose", said, *(["--feature", first.item] if first.item else [])])

    def _aside(self, act: Callable[[], object], *, wait: bool = True) -> None:
        """A dialog, on the terminal as it was before."""
        with self._screen.aside():
            try:
                act()
                if wait:
                    _ask("Enter: back to the picture ")
            except KeyboardInterrupt:
                print()


def _ask(question: str) -> str:
    sys.stdout.write(question)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        raise Hangup
    return line.strip()


def _asked(question: str, words: list[str]) -> None:
    if _ask(f"{question} [y/n]: ").lower() in ("y", "yes"):
        _run(words)


def _said_to_agent() -> None:
    if text := _ask("Say to the agent: "):
        _run(["say", text])


def _undone(item: str) -> None:
    if _ask(f"Take {item} back by a new commit? Type yes: ") == "yes":
        _run(["undo", item])


def _run(words: list[str]) -> int:
    """A command of ours, on this terminal."""
    from agent_harness.cli.app import main as command

    return command(words)


def _said(words: list[str]) -> list[str]:
    """What a command of ours prints."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        _run(words)
    return text.getvalue().splitlines()


# ---- all projects


def _all(*, once: bool, plain: bool, as_json: bool) -> int:
    projects = AllProjects()
    found = projects.look(trusted_state.places())
    if as_json:
        rows: list[JsonObject] = [
            {"path": path, "kind": kind, "error": seen} if isinstance(seen, str) else seen.as_json()
            for path, kind, seen in found
        ]
        _print_json({"projects": rows})
        return 0
    if once or plain or is_plain(sys.stdout) or not sys.stdin.isatty():
        for line in watch.all_lines(found, PLAIN_WIDTH):
            print(line)
        return 0
    with suppress(Hangup, KeyboardInterrupt):
        screen = AlternateScreen()
        with screen.shown():
            _loop_all(screen, projects, found)
    return 0


def _loop_all(screen: AlternateScreen, projects: AllProjects, found: list[tuple[str, Kind, ProjectLook | str]]) -> None:
    chosen = found[0][0] if found else None
    while True:
        columns, rows = screen.size
        shown = watch.all_lines(found, columns, chosen)[: rows - 1]
        screen.paint([*shown, *[""] * (rows - 1 - len(shown)), fitted(" enter open  j k choose  q leave", columns)])
        key = screen.key(TICK_SECONDS * 2)
        paths = [path for path, _, _ in found]
        at = paths.index(chosen) if chosen in paths else 0
        if key in ("q", "esc"):
            return
        if key in ("up", "k", "down", "j") and paths:
            chosen = paths[max(0, min(at + (1 if key in ("down", "j") else -1), len(paths) - 1))]
        elif key == "enter" and chosen in paths and not isinstance(found[at][2], str):
            here = os.getcwd()
            os.chdir(paths[at])  # its keys are commands, which look for the project where they are called
            try:
                _OneProject(screen, ProjectView(found[at][1], paths[at])).loop()
            finally:
                os.chdir(here)
        if key is None:
            found = projects.look(trusted_state.places())
