"""The ``harness watch`` view of one project: its panes, and the actions of its keys, which run harness commands.

For a dialog, the view is hidden and a plain question appears on the terminal. Source: ``faces.md`` 4."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import zip_longest

from agent_harness.errors import HarnessError
from agent_harness.kernel.terminal import fitted, printable, shown
from agent_harness.session.project_view import span
from agent_harness.views import watch
from agent_harness.views.reading import KeptTranscript
from agent_harness.views.screen import AlternateScreen, Hangup
from agent_harness.views.transcript import ScrolledText, TranscriptEnd
from agent_harness.views.watch import PANES, WatchReader

TICK_SECONDS = 0.5
FOOTER = "enter open  tab pane  p pause  s say  a answer  / find  ? keys  f follow  q leave"
PAGE_FOOTER = "esc back  {other}j k g G move  / find  f follow  ? keys  q leave"
NOTHING_CHOSEN = "No agent is running and no item is selected; select one with j and k"
KEYS = "keys"
HELP = """\
tab               go to the next pane: items, agent transcript, harness messages
j k up down g G   select an item, or move in the pane
enter             show the item's story; tab there: the transcript of its agent
esc               back
f                 follow the newest lines or the current item again
/                 find a word: in the next item, or in an earlier line
p                 pause                   r       resume
s                 send a message to the running agent
a                 answer the question
u                 undo the item, after you type yes
d w c             diff, why, costs
q                 quit; the run continues
"""


class OneProject:
    def __init__(self, screen: AlternateScreen, view: WatchReader, chosen: str | None = None) -> None:
        self._screen, self._view = screen, view
        self._chosen = chosen
        self._pages: list[ScrolledText] = []  # an item's story and transcript, or the keys, instead of the list
        self._pane = 0  # of PANES
        self._texts = {name: ScrolledText(name, self._grown(name)) for name in PANES[1:]}
        self._transcript: tuple[KeptTranscript | None, TranscriptEnd] = (None, TranscriptEnd(None))
        self._problem = ""
        self._missing = ""  # missing condition of the last key, until the next one
        self._looked = time.monotonic()
        self._seen = view.load()

    def loop(self) -> None:
        while True:
            self._look()
            self._paint()
            key = self._screen.key(TICK_SECONDS)
            if key == "q":
                return
            if key == "esc" and not self._pages and not self._pane:
                return
            if key is not None:
                self._missing = ""
                self._act(key)

    @property
    def _item(self) -> str | None:
        items = self._seen.view.items
        return self._chosen or watch.current(self._seen.view) or (items[0].id if len(items) == 1 else None)

    def _look(self) -> None:
        """Reload the project. If the reload fails, keep the last view."""
        try:
            seen = self._view.load()
            if seen.view.is_unreadable and not self._seen.view.is_unreadable:
                self._stays(f"{seen.view.gaps[0].file} cannot be read")
            else:
                self._seen, self._problem, self._looked = seen, "", time.monotonic()
            text = self._pages[0] if self._pages else self._texts.get(PANES[self._pane])
            if text:
                text.look()
        except OSError as error:
            self._stays(error.strerror or str(error))
        except HarnessError as error:
            self._stays(error.message)

    def _stays(self, why: str) -> None:
        age = span(time.monotonic() - self._looked)
        self._problem = f"! last update {age} ago: {why.replace(f'{self._view.folder}/', '')}"

    def _grown(self, pane: str) -> Callable[[], Sequence[str]]:
        return self._said_on_item if pane == "agent" else lambda: watch.log_lines(self._seen)

    def _said_on_item(self) -> Sequence[str]:
        item = self._texts["agent"].of = self._item
        return self._said_by_agent(item)

    def _said_by_agent(self, item: str | None) -> Sequence[str]:
        """Return the last transcript lines of the item's running or last session."""
        if item is None:
            return [NOTHING_CHOSEN]
        kept = self._view.transcript(self._seen, item)
        if kept != self._transcript[0]:
            self._transcript = kept, TranscriptEnd(kept.path, kept.why)
        return self._transcript[1].lines()

    def _paint(self) -> None:
        columns, rows = self._screen.size
        if self._pages:
            _, seen = self._pages[0].window(rows - 1, columns)
            other = f"tab {self._pages[1].title}  " if self._pages[1:] else ""
            footer = self._problem or PAGE_FOOTER.format(other=other)
        else:
            text = self._texts.get(PANES[self._pane])
            seen = watch.lines(self._seen, columns, rows - 1, self._chosen, text)
            footer = self._problem or self._missing or FOOTER
        blank = [""] * (rows - 1 - len(seen))
        is_small = not self._pages and (columns < watch.LEAST[0] or rows < watch.LEAST[1])
        self._screen.paint(seen if is_small else [*seen, *blank, _keys_that_fit(f" {footer}", columns)])

    def _act(self, key: str) -> None:
        if self._pages:
            self._act_in_page(key)
            return
        text = self._texts.get(PANES[self._pane])
        if key == "tab":
            self._turn_to((self._pane + 1) % len(PANES))
        elif text and key == "esc":
            self._turn_to(0)
        elif text and key == "/":
            self._aside(lambda: text.find(_ask("Find: ")), wait=False)
        elif not (text and text.move(key)):
            self._act_on_item(key)

    def _act_in_page(self, key: str) -> None:
        page = self._pages[0]
        if page.title == KEYS and key in ("esc", "enter", "tab", "?"):
            self._pages.pop(0)  # the page below is shown again
        elif key == "?":
            self._pages.insert(0, _page(KEYS, HELP.splitlines()))
        elif key in ("esc", "enter"):
            self._pages.clear()
        elif key == "tab":
            self._pages.reverse()
            self._pages[0].look()
        elif key == "/":
            self._aside(lambda: page.find(_ask("Find: ")), wait=False)
        else:
            page.move(key)

    def _turn_to(self, pane: int) -> None:
        self._pane = pane
        if text := self._texts.get(PANES[pane]):
            text.back = 0

    def _act_on_item(self, key: str) -> None:
        item = self._item
        acts: dict[str, Callable[[], object]] = {
            **{name: lambda: self._choose(key, item) for name in ("up", "k", "down", "j", "g", "G")},
            "f": lambda: self._choose("f", None),
            "?": lambda: self._open(_page(KEYS, HELP.splitlines())),
            "c": lambda: self._open(_page("costs", _said(["costs"]))),
            "/": lambda: self._aside(self._find, wait=False),
            "p": lambda: self._aside(lambda: _asked("Pause after the current operation?", ["pause"])),
            "r": lambda: self._aside(lambda: _asked("Resume?", ["resume"])),
            "a": lambda: self._aside(self._answer),
            "s": lambda: self._aside(self._say),
        }
        if item:
            named = f"#{item}"  # a number alone is a session to `diff`, and a word that begins with - an option
            story = "why", named, "--full"
            acts |= {
                "w": lambda: self._open(_page("story", _said([*story]))),
                "enter": lambda: self._open(
                    _page("story", _said([*story])), ScrolledText("transcript", lambda: self._said_by_agent(item))
                ),
                "d": lambda: self._aside(lambda: _run(["diff", named])),
                "u": lambda: self._aside(lambda: _undone(item)),
            }
        if key in acts:
            acts[key]()
        elif not item and key in ("w", "enter", "d", "u"):
            self._missing = NOTHING_CHOSEN

    def _open(self, *pages: ScrolledText) -> None:
        self._pages = [*pages]

    def _choose(self, key: str, item: str | None) -> None:
        ids = [each.id for each in self._seen.view.items]
        if not ids or key == "f":
            self._chosen = None
            return
        at = ids.index(item) if item in ids else 0
        to = {"up": at - 1, "k": at - 1, "down": at + 1, "j": at + 1, "g": 0, "G": len(ids) - 1}[key]
        self._chosen = ids[max(0, min(to, len(ids) - 1))]

    def _find(self) -> None:
        word = _ask("Find: ").lower()
        ids = [each.id for each in self._seen.view.items]
        start = ids.index(self._chosen) + 1 if self._chosen in ids else 0
        items = [*self._seen.view.items[start:], *self._seen.view.items[:start]]
        if word:
            hit = next((each.id for each in items if word in f"{each.name} {each.title}".lower()), None)
            self._chosen = hit or self._chosen

    def _answer(self) -> None:
        asked = self._seen.view.state.questions
        if not asked:
            print("Nothing needs you.")
            return
        first = asked[0]
        print(printable(first.message))
        for number, (option, meant) in enumerate(zip_longest(first.options, first.explained, fillvalue=""), 1):
            print(printable(f"  {number}  {option}{f': {meant}' if meant else ''}"))
        if first.options:
            said = _ask("Choose an answer (number or word; Enter: decide later): ")
            if said.isdecimal() and 1 <= int(said) <= len(first.options):
                said = first.options[int(said) - 1]
            words = ["resume", "--choose", said, *(["--feature", first.item] if first.item else [])] if said else []
        elif first.answer == "harness resume":
            words = ["resume"] if _ask("Resume? [y/n]: ").lower() in ("y", "yes") else []
        else:
            print(printable(first.answer))
            return
        self._look()
        if words and self._seen.view.state.questions[:1] != asked[:1]:
            print("The question has changed, so your answer was not recorded.")
        elif words:
            _run(words)

    def _say(self) -> None:
        from agent_harness.views.user_messages import slots_in

        slots = slots_in(self._seen.parallel, self._seen.view.kind)
        to: list[str] = []
        if len(slots) > 1:
            print("Several agents are running:", ", ".join(printable(str(each)) for each in slots))
            near = next((each for each in slots if self._chosen == each.item), None)
            named = _ask(f"Send to which agent (a slot or an item; Enter: {near.slot if near else 'none'}): ")
            if not (named := named or (near.slot if near else "")):
                return
            to = ["--to", named]
        if text := _ask("Message to the agent: "):
            _run(["say", *to, "--", text])

    def _aside(self, act: Callable[[], object], *, wait: bool = True) -> None:
        """Run a dialog on the normal terminal. Show the full-screen view again afterwards."""
        with self._screen.aside():
            try:
                act()
                if wait:
                    _ask("Enter: back to the list ")
            except KeyboardInterrupt:
                print()


def _ask(question: str) -> str:
    sys.stdout.write(printable(question))
    sys.stdout.flush()
    line = os.read(sys.stdin.fileno(), 8192)  # one line, and nothing after it
    if not line:
        raise Hangup
    return line.decode("utf-8", "replace").strip()


def _asked(question: str, words: list[str]) -> None:
    if _ask(f"{question} [y/n]: ").lower() in ("y", "yes"):
        _run(words)


def _undone(item: str) -> None:
    if _ask(f"Undo {item} with a new commit? Type yes: ") == "yes":
        _run(["undo", "--yes", "--", item])


def _run(words: list[str]) -> int:
    """Run a harness command that prints to this terminal."""
    from agent_harness.cli.app import main as command

    return command(words)


def _said(words: list[str]) -> list[str]:
    """Run a harness command, and return the lines that it prints."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        _run(words)
    return text.getvalue().splitlines()


def _page(title: str, lines: Sequence[str]) -> ScrolledText:
    page = ScrolledText(title, lambda: lines, from_end=False)
    page.look()
    return page


def _keys_that_fit(footer: str, columns: int) -> str:
    """Return the key hints that fit into the width. Always include the last hint, which tells how to quit."""
    parts = shown(footer).split("  ")
    while len("  ".join(parts)) > columns and len(parts) > 2:
        parts.pop(-2)
    return fitted("  ".join(parts), columns)
