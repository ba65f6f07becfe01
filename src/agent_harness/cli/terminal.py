"""Terminal input and output: questions, and the display while a run works or waits until a rate limit ends.

Without a terminal, every question is answered "no" (features.md UAH-076, C12)."""

import json
import os
import re
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

import click

from agent_harness.errors import HarnessError, SessionHeld
from agent_harness.kernel import clock, terminal
from agent_harness.session.status_summary import labelled

if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind
    from agent_harness.protocols.features.api import FeatureProject
    from agent_harness.protocols.longtask.api import LongTask
    from agent_harness.protocols.tasklist.api import TaskList
    from agent_harness.session.project_view import ProjectReader
    from agent_harness.supervision.dispatch import RefusalPolicy
    from agent_harness.views.screen import LinesBelow

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
root_option = click.option(
    "--root", metavar="DIR", help="Folder of the task list. [default: the nearest one, from here upwards]"
)
agent_option = click.option(
    "--agent",
    "agents",
    metavar="SPEC",
    multiple=True,
    help="Agent kind, scripted:FILE, or command:WORDS. Repeat to add fallback agents. [default: HARNESS_AGENT]",
)
wait_option = click.option(
    "--wait/--no-wait",
    default=None,
    help="Wait until rate limits end and an agent slot is free (--wait), or end the run instead (--no-wait).",
)
now_option = click.option("--now", is_flag=True, help="Start now, even if the account is known to be rate limited.")

_PIPE_SECONDS = 1.0
REPEATED_SECONDS = 600.0  # seconds between reports of a wait in a log
PROGRESS_SECONDS = 60.0  # seconds without output in a log before work in progress is reported
QUIET_SECONDS = 3.0
COPIED = ("next:", "fix:", "$ ", "harness ", "{", "}", "]", '"')
"""Prefixes of lines that users may copy, such as commands and settings. These lines are not wrapped."""
TICK_SECONDS = 1.0
REDRAW_SECONDS = 0.3
"""Minimum time in seconds from a printed line to the next redraw of the footer."""

Footer = Callable[[int, str], Sequence[str]]
"""Function that returns the footer lines of a run, for a terminal width in columns and the reason for a wait."""


class Positive(click.FloatRange):
    """Type of a finite number above 0. If ``least`` is set, the number must be at least ``least``."""

    def __init__(self, least: float | None = None) -> None:
        super().__init__(min=least or 0, min_open=least is None)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not number < float("inf"):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def patience(wait: bool | None, now: bool, *, as_json: bool, unattended: bool = False) -> "RefusalPolicy":
    """Return the policy for a run whose provider refuses requests or that finds no free agent slot."""
    from agent_harness.supervision.dispatch import RefusalPolicy

    watched = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    waits = wait if wait is not None else unattended or (watched and not as_json)
    told = screen(as_json=as_json).countdown
    return RefusalPolicy(wait=waits, wait_for_slot=wait is not False, ignore_once=now, countdown=told)


class Screen:
    """Output of a long command: printed lines, and a footer below these lines on a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.RLock()
        self._below: LinesBelow | None = None  # lines drawn below the others, if there ever were any
        self._shown: Sequence[str] = ()  # the lines that stand there now
        self._footer: Callable[[], Footer] | None = None
        self._redrawn = 0.0
        self._waiting = ""  # text of a countdown, which comes first
        self._last = ""
        self._said_at = time.monotonic()
        self._journal: Callable[[str], None] | None = None

    def say(self, text: str) -> None:
        """Print lines of progress, and store these lines in the run's journal."""
        if self._journal is not None:
            self._journal(text)
        self._put(text, time.strftime("%H:%M:%S ") if terminal.wants_times() else "")

    def show(self, text: str, *, err: bool = False) -> None:
        self._put(text, "", err=err)

    def _put(self, text: str, at: str, *, err: bool = False) -> None:
        """Print each line of ``text`` after the time ``at``. On a terminal, wrap long lines."""
        # the work continues even if the output is closed
        with self._lock, suppress(OSError, ValueError, AttributeError, RuntimeError):
            stream = sys.stderr if err else self._stream
            below = self._clear()
            live, colours = not terminal.is_plain(stream), terminal.has_colour(stream)
            for line in text.split("\n"):
                shown = terminal.printable(line.expandtabs())
                whole = not live or shown.lstrip().startswith(COPIED)  # users copy these
                for part in [shown] if whole else terminal.wrapped(shown, self._columns):
                    click.echo(at + (_coloured(part) if colours else part), file=stream, color=colours)
            self._last = text.strip().rpartition("\n")[2] or self._last
            self._said_at = time.monotonic()
            if below and self._said_at - self._redrawn >= REDRAW_SECONDS:
                self._redrawn = self._said_at
                self._draw(below)

    def countdown(self, line: str) -> None:
        """Show how long the run still waits. An empty ``line`` removes this text."""
        self._waiting = line
        if not terminal.is_plain(self._stream):
            if self._footer is None:  # which else says it
                self._draw([self._one(line)] if line else [])
        elif line and time.monotonic() - self._said_at >= REPEATED_SECONDS:
            self.say(f"Still waiting: {line}")

    @contextmanager
    def watching(
        self,
        look: Callable[[], list[str]],
        journal: Callable[[str], None] | None = None,
        footer: Callable[[], Footer] | None = None,
    ) -> Iterator[None]:
        """Redraw the footer every second inside the ``with`` block. ``journal`` receives the text of each ``say``."""
        self._journal, self._footer = journal, footer
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(look, over), daemon=True)
        with ExitStack() as after:
            if not terminal.is_plain(self._stream):
                self._take_terminal(after)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()
                self._journal = self._footer = None
                self._clear()

    def _take_terminal(self, after: ExitStack) -> None:
        """Prepare the terminal for a footer until ``after`` closes."""
        from agent_harness.supervision import interruption
        from agent_harness.views.screen import without_echo

        # such a signal ends the program like Ctrl-C
        after.enter_context(interruption.handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler))
        after.enter_context(interruption.announced(self._make_room))
        if self._footer is not None:
            after.enter_context(without_echo())

    def _make_room(self) -> None:
        """Clear the footer before a signal handler prints."""
        if self._lock.acquire(timeout=TICK_SECONDS):
            with suppress(OSError, ValueError, AttributeError):
                if self._below and (gone := self._below.gone()):
                    self._shown = ()
                    # directly, because the signal may have interrupted a buffered write
                    os.write(self._stream.fileno(), gone.encode())
            self._lock.release()

    def _watch(self, look: Callable[[], list[str]], over: threading.Event) -> None:
        footer: Footer | None = None
        while not over.wait(TICK_SECONDS):
            silent = time.monotonic() - self._said_at
            plain = terminal.is_plain(self._stream)
            if self._waiting and (plain or self._footer is None):
                continue
            try:
                if self._footer and not plain:
                    footer = footer or self._footer()
                    self._draw(footer(self._columns - 1, self._waiting))
                    continue
                seen = " | ".join(look())
            except (HarnessError, OSError, ValueError):  # the running project reports its errors itself
                seen = ""
            if not plain:
                self._draw([self._one(seen or (f"... {silent:.0f} s" if silent > QUIET_SECONDS else ""))])
            elif silent >= clock.scaled(PROGRESS_SECONDS):
                last = self._last
                self.say(f"Still running: {seen}" if seen else f"Still running; last output: {last}")
                self._last = last

    def _one(self, line: str) -> str:
        """Remove comma-separated parts from the end of the line until the line fits."""
        shown = terminal.printable(line)
        while len(shown) >= self._columns and ", " in shown:
            shown = shown.rpartition(", ")[0]
        return shown

    def _draw(self, lines: Sequence[str]) -> None:
        with self._lock, suppress(OSError, ValueError, AttributeError, RuntimeError):
            from agent_harness.views.screen import LinesBelow, is_in_front

            stream = self._stream
            if not is_in_front(stream):
                return
            known = stream.encoding or "utf-8"
            seen = [line.encode(known, stream.errors or "replace").decode(known) for line in lines if line]
            self._below = self._below or LinesBelow()
            self._shown = [terminal.fitted(line, self._columns - 1) for line in seen]
            if change := self._below.change(self._shown, shutil.get_terminal_size()):
                click.echo(change, nl=False, file=stream, color=True)

    def _clear(self) -> Sequence[str]:
        """Remove the footer from the terminal, and return the footer's lines."""
        with self._lock, suppress(OSError, ValueError, AttributeError, RuntimeError):
            shown, self._shown = self._shown, ()
            if self._below and (gone := self._below.gone()):
                click.echo(gone, nl=False, file=self._stream, color=True)
            return shown
        return ()

    @property
    def _stream(self) -> TextIO:
        return sys.stderr if self._as_json else sys.stdout

    @property
    def _columns(self) -> int:
        return shutil.get_terminal_size().columns


def _coloured(line: str) -> str:
    return _VERDICTS.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]], bold=True), line)


_COLOURS = {
    **dict.fromkeys(("PASSED", "verified.", "completed", "accepted"), "green"),
    **dict.fromkeys(("FAILED", "REJECTED", "Regression:", "failed", "Rolled back"), "red"),
    **dict.fromkeys(("Warning:", "Still waiting:", "Stopping:"), "yellow"),
}
_VERDICTS = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in _COLOURS))


@cache
def screen(*, as_json: bool) -> Screen:
    """Return the only screen of this process, through which all code writes to the terminal."""
    return Screen(as_json=as_json)


def show(text: str, *, err: bool = False) -> None:
    screen(as_json=False).show(text, err=err)


def show_answer(found: Mapping[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"ok": True, **found}, ensure_ascii=False, default=str))
    else:
        show("\n".join(lines))


def say_to(*, as_json: bool) -> Callable[[str], None]:
    return screen(as_json=as_json).say


def footer_of(kind: "Kind", folder: str) -> Callable[[], Footer]:
    """Return a function that creates a run's footer."""

    def make() -> Footer:
        # loaded only by a run that shows a footer
        from agent_harness.views import watch

        view = watch.WatchReader(kind, folder)
        return lambda columns, waits: watch.footer(view.load(), columns, waits)

    return make


class EndOfRun:
    """Result of a run (``done``), and the next command for the user (``following``)."""

    # None after an error, because the error's message names it
    following: str | None = None
    done: Mapping[str, Any] = {}


@contextmanager
def summed_up(project: "FeatureProject | TaskList | LongTask", say: Callable[[str], None]) -> Iterator[EndOfRun]:
    """Print a summary of the run at the end of the ``with`` block."""
    from agent_harness.cli import failure
    from agent_harness.session import needs
    from agent_harness.session.run_summary import RunSummary

    # F-RUN-2, F-REP-10
    reader = project.reader()
    summary, end = RunSummary(reader), EndOfRun()
    needs.keep_end(reader.home)
    try:
        yield end
    except Exception as raised:
        error = failure.for_people(raised)
        reason = needs.HELD if isinstance(error, SessionHeld) else error.code
        end.done = {"exit_code": error.exit_code, "reason": reason, "message": error.message, "hint": error.hint}
        raise
    finally:
        ended = needs.end_of(end.done)
        needs.keep_end(reader.home, ended)
        lines: list[str] = []
        with suppress(HarnessError, OSError, ValueError):  # what ended the run is said, whatever became of its records
            lines = summary.lines(ended)
            if lines and project.reports:
                lines.append(labelled("report", _written(reader)))
        if end.following:
            lines.append(f"next: {end.following}")
        if lines:
            say("\n".join(lines))


def _written(reader: "ProjectReader") -> str:
    from agent_harness.cli.story import write_report

    try:
        return write_report(reader)
    except (HarnessError, OSError, ValueError) as error:
        return f"not written: {error}"


def ask(*, yes: bool, default_shown: str = "y/n") -> Callable[[str], bool]:
    """Return a function that asks a yes/no question and returns True if the user says yes."""

    def answer(question: str) -> bool:
        if yes:
            click.echo(f"{terminal.printable(question)} yes, by --yes", err=True)
            return True
        click.echo(f"{terminal.printable(question)} [{default_shown}]: ", nl=False, err=True)
        given = _line()
        if not sys.stdin or not sys.stdin.isatty():
            show(given.strip() or "no", err=True)
        return given.strip().lower() in ("y", "yes")

    return answer


def forget_typed() -> None:
    """Discard input that the user typed before the question appeared."""
    import termios

    with suppress(OSError, ValueError, AttributeError, termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _line() -> str:
    if sys.stdin is None or sys.stdin.closed:
        return ""
    try:
        if not sys.stdin.isatty() and not select.select([sys.stdin], [], [], _PIPE_SECONDS)[0]:
            return ""
        return sys.stdin.readline()
    except (OSError, ValueError):
        return ""
