"""``harness watch``: shows one project, or all projects, live on the terminal. Its keys run harness commands.

The view only reads, so leaving or killing it never affects a run. For a dialog, the view is hidden and a plain question
appears on the terminal. Source: ``faces.md`` 4."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from agent_harness.cli import project_here, say_json
from agent_harness.cli.watching import TICK_SECONDS, OneProject
from agent_harness.errors import UsageError
from agent_harness.kernel import clock, trusted_state
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.terminal import columns_of_terminal, fitted, is_plain, printable
from agent_harness.views import follow, watch
from agent_harness.views.screen import AlternateScreen, Hangup
from agent_harness.views.watch import AllProjects, WatchReader, WatchView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

SUMMARY_SECONDS = 60.0
PLAIN_WIDTH = 100


def main(*, item: str | None, everything: bool, plain: bool, once: bool, as_json: bool) -> int:
    """Show the project until the user quits. Return the exit code."""
    if everything:
        if item is not None:
            raise UsageError("--all and an item cannot be used together", hint="harness watch --help")
        return _all(once=once or as_json, plain=plain, as_json=as_json)
    found = project_here()
    view = WatchReader(found.kind, found.path)
    chosen = _named(view.load(), item) if item else None
    if as_json:
        say_json("watch", view.load().as_json())
        return 0
    if once:
        seen = view.load()
        rows = 3 + len(seen.view.items) + len(seen.slots) + 4 * len(seen.view.now) + 14
        for line in watch.lines(seen, _columns(), max(rows, watch.LEAST[1]), chosen):
            print(line)
        return 0
    if plain or is_plain(sys.stdout) or not sys.stdin.isatty():
        return _plain(view)
    with suppress(Hangup, KeyboardInterrupt):
        screen = AlternateScreen()
        with screen.shown():
            OneProject(screen, view, chosen).loop()
    return 0


def _named(seen: WatchView, word: str) -> str:
    """Return the id of the item with the id ``word``, or of the item in the slot ``word``."""
    from agent_harness.views import why

    workers = (seen.parallel or {}).get("workers")
    slots = {str(each.get("slot")): str(each.get("item")) for each in workers or () if isinstance(each, dict)}
    return why.item_of(seen.view, slots.get(word, word)).id


def _columns() -> int:
    return PLAIN_WIDTH if is_plain(sys.stdout) else columns_of_terminal()


def _plain(view: WatchReader) -> int:
    """Print new log lines as they appear, and a status line every minute, until the user presses Ctrl-C."""
    seen, shown, said_at = view.load(), 0, float("-inf")
    try:
        while True:
            rows = [*seen.rows]
            for row in rows[shown:]:
                print(printable(follow.line(row)), flush=True)
            shown = len(rows)
            if time.monotonic() - said_at >= clock.scaled(SUMMARY_SECONDS):
                print(printable(f"{time.strftime('%H:%M:%S')}  {seen.name}: {seen.view.line}"), flush=True)
                said_at = time.monotonic()
            time.sleep(TICK_SECONDS)
            before, seen = seen, view.load()
            shown -= len(before.rows) - _overlap(before.rows, seen.rows)
    except KeyboardInterrupt:
        return 0


def _overlap(before: Sequence[JsonObject], after: Sequence[JsonObject]) -> int:
    """Return how many rows of ``before`` the later list ``after`` still contains."""
    first = after[0] if after else None
    gone = next((n for n, row in enumerate(before) if row is first), len(before))
    return len(before) - gone


# ---- all projects


def _all(*, once: bool, plain: bool, as_json: bool) -> int:
    projects = AllProjects()
    found = projects.look(trusted_state.places())
    if as_json:
        rows: list[JsonObject] = [
            {"path": path, "kind": kind, "error": seen} if isinstance(seen, str) else seen.as_json()
            for path, kind, seen in found
        ]
        say_json("watch", {"projects": rows})
        return 0
    if once or plain or is_plain(sys.stdout) or not sys.stdin.isatty():
        for line in watch.all_lines(found, _columns()):
            print(line)
        return 0
    with suppress(Hangup, KeyboardInterrupt):
        screen = AlternateScreen()
        with screen.shown():
            _loop_all(screen, projects, found)
    return 0


def _loop_all(screen: AlternateScreen, projects: AllProjects, found: list[tuple[str, Kind, WatchView | str]]) -> None:
    chosen = found[0][0] if found else None
    while True:
        columns, rows = screen.size
        seen = watch.all_lines(found, columns, chosen)[: rows - 1]
        screen.paint([*seen, *[""] * (rows - 1 - len(seen)), fitted(" enter open  j k select  q quit", columns)])
        key = screen.key(TICK_SECONDS * 2)
        paths = [path for path, _, _ in found]
        at = paths.index(chosen) if chosen in paths else 0
        if key in ("q", "esc"):
            return
        if key in ("up", "k", "down", "j") and paths:
            chosen = paths[max(0, min(at + (1 if key in ("down", "j") else -1), len(paths) - 1))]
        elif key == "enter" and chosen in paths and not isinstance(found[at][2], str):
            here = os.getcwd()
            os.chdir(paths[at])  # its keys are commands, which look for the project in the current folder
            try:
                OneProject(screen, WatchReader(found[at][1], paths[at])).loop()
            finally:
                os.chdir(here)
        if key is None:
            found = projects.look(trusted_state.places())
