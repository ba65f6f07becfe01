"""A person at a terminal: what they are asked, and what they see while a run works or waits for a rate limit to end.

Nobody there means no (features.md UAH-076, C12).
"""

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
from agent_harness.session.headline import labelled

if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind
    from agent_harness.protocols.features.api import FeatureProject
    from agent_harness.protocols.longtask.api import LongTask
    from agent_harness.protocols.tasklist.api import TaskList
    from agent_harness.session.project_view import ProjectReader
    from agent_harness.supervision.dispatch import RefusalPolicy
    from agent_harness.views.screen import LinesBelow

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
root_option = click.option("--root", metavar="DIR", help="Where the task list is; else looked for upwards from here.")
agent_option = click.option(
    "--agent",
    "agents",
    metavar="SPEC",
    multiple=True,
    help="Which agent: a kind, scripted:FILE, or command:WORDS; HARNESS_AGENT. Given again: who takes over.",
)
wait_option = click.option(
    "--wait/--no-wait", default=None, help="Wait for a rate limit to end, and for a slot here, or end then."
)
now_option = click.option("--now", is_flag=True, help="Start once although a rate limit is known.")

_PIPE_SECONDS = 1.0
REPEATED_SECONDS = 600.0  # how often a log that nobody overwrites is told of a wait
PROGRESS_SECONDS = 60.0  # how long a log that nobody overwrites may say nothing of work that goes on
QUIET_SECONDS = 3.0
COPIED = ("next:", "fix:", "$ ", "harness ", "{", "}", "]", '"')
"""Lines that begin so are commands and settings, which people copy: no break is put into them."""
TICK_SECONDS = 1.0
REDRAW_SECONDS = 0.3
"""After a line that is said, those below it come back at once only so often; else with the next tick."""

Footer = Callable[[int, str], Sequence[str]]
"""The lines below a run that goes on, for so many columns; and what it waits for."""


class Positive(click.FloatRange):
    """A finite number above 0, or from ``least`` on."""

    def __init__(self, least: float | None = None) -> None:
        super().__init__(min=least or 0, min_open=least is None)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not number < float("inf"):
            self.fail(f"{value} is no number that can be waited for.", param, ctx)
        return number


def patience(wait: bool | None, now: bool, *, as_json: bool, unattended: bool = False) -> "RefusalPolicy":
    """What a run does about a rate limit: what it was told, else it waits when it is watched or ``unattended``.

    For a slot on this machine it waits unless it was told not to.
    """
    from agent_harness.supervision.dispatch import RefusalPolicy

    watched = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    waits = wait if wait is not None else unattended or (watched and not as_json)
    told = screen(as_json=as_json).countdown
    return RefusalPolicy(wait=waits, wait_for_slot=wait is not False, ignore_once=now, countdown=told)


class Screen:
    """What a command that takes long shows a person: its lines, and on a terminal some more below them that change.

    Lines go to stdout, or to stderr when stdout holds the JSON answer. What agents wrote in them cannot steer the
    terminal. Whoever reads them may go away; the work does not end for that. Threads may use it at once.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.RLock()
        self._below: LinesBelow | None = None  # what is drawn below the others, where anything ever was
        self._shown: Sequence[str] = ()  # the lines that stand there now
        self._footer: Callable[[], Footer] | None = None
        self._redrawn = 0.0
        self._waiting = ""  # what a countdown says; it comes before all else
        self._last = ""
        self._said_at = time.monotonic()
        self._journal: Callable[[str], None] | None = None

    def say(self, text: str) -> None:
        """What happens: one or more lines, with the time before each where plain lines were asked for."""
        if self._journal is not None:
            self._journal(text)
        self._put(text, time.strftime("%H:%M:%S ") if terminal.wants_times() else "")

    def show(self, text: str, *, err: bool = False) -> None:
        """An answer: one or more lines; on stderr with ``err``."""
        self._put(text, "", err=err)

    def _put(self, text: str, at: str, *, err: bool = False) -> None:
        """Lines fit for the stream, broken at words where a terminal is narrower."""
        with self._lock, suppress(OSError, ValueError, AttributeError, RuntimeError):
            stream = sys.stderr if err else self._stream
            below = self._clear()
            live, colours = not terminal.is_plain(stream), terminal.has_colour(stream)
            for line in text.split("\n"):
                shown = terminal.printable(line.expandtabs())
                whole = not live or shown.lstrip().startswith(COPIED)
                for part in [shown] if whole else terminal.wrapped(shown, self._columns):
                    click.echo(at + (_coloured(part) if colours else part), file=stream, color=colours)
            self._last = text.strip().rpartition("\n")[2] or self._last
            self._said_at = time.monotonic()
            if below and self._said_at - self._redrawn >= REDRAW_SECONDS:
                self._redrawn = self._said_at
                self._draw(below)

    def countdown(self, line: str) -> None:
        """The line of a countdown: below the others on a terminal, now and then elsewhere; empty at its end."""
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
        """While the block runs: what ``look`` says is shown below the lines once a second, or what ``footer`` makes.

        Without a terminal it is a line of its own after a minute in which nothing was said. What is said meanwhile goes
        to the ``journal`` too.
        """
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
        """Whatever ends the block, what is below goes and the terminal is as it was."""
        from agent_harness.supervision import interruption
        from agent_harness.views.screen import without_echo

        after.enter_context(interruption.handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler))
        after.enter_context(interruption.announced(self._make_room))
        if self._footer is not None:
            after.enter_context(without_echo())

    def _make_room(self) -> None:
        """Before somebody else writes, who is in a hurry: a signal may have come in the middle of a line."""
        if self._lock.acquire(timeout=TICK_SECONDS):
            with suppress(OSError, ValueError, AttributeError):
                if self._below and (gone := self._below.gone()):
                    self._shown = ()
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
            except (HarnessError, OSError, ValueError):  # the project at work says what is wrong with it
                seen = ""
            if not plain:
                self._draw([self._one(seen or (f"... {silent:.0f} s" if silent > QUIET_SECONDS else ""))])
            elif silent >= clock.scaled(PROGRESS_SECONDS):
                last = self._last
                self.say(f"Still at work: {seen}" if seen else f"Still at work, last said: {last}")
                self._last = last

    def _one(self, line: str) -> str:
        """The line as it fits: no number is cut, what comes last goes first."""
        shown = terminal.printable(line)
        while len(shown) >= self._columns and ", " in shown:
            shown = shown.rpartition(", ")[0]
        return shown

    def _draw(self, lines: Sequence[str]) -> None:
        """Shows these lines, which are printable, below all that was said."""
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
        """Takes the lines away that stand below the others; which they were."""
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
    """The verdicts in a line in colours of the terminal's own; the words say it without them too."""
    return _VERDICTS.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]], bold=True), line)


_COLOURS = {
    **dict.fromkeys(("PASSED", "verified.", "completed", "accepted"), "green"),
    **dict.fromkeys(("FAILED", "REJECTED", "Regression:", "failed", "Rolled back"), "red"),
    **dict.fromkeys(("Warning:", "Still waiting:", "Stopping:"), "yellow"),
}
_VERDICTS = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in _COLOURS))


@cache
def screen(*, as_json: bool) -> Screen:
    """The screen of this process: everything that shares a terminal goes through the one."""
    return Screen(as_json=as_json)


def show(text: str, *, err: bool = False) -> None:
    """Shows a person an answer that is no JSON: see ``Screen.show``."""
    screen(as_json=False).show(text, err=err)


def say_to(*, as_json: bool) -> Callable[[str], None]:
    """Shows a person one or more lines: see ``Screen.say``."""
    return screen(as_json=as_json).say


def footer_of(kind: "Kind", folder: str) -> Callable[[], Footer]:
    """What makes the lines below a run on this project; nothing is loaded for it before it is asked."""

    def make() -> Footer:
        from agent_harness.views import watch

        view = watch.WatchReader(kind, folder)
        return lambda columns, waits: watch.footer(view.load(), columns, waits)

    return make


class EndOfRun:
    """What is said last: ``following`` is the command to type next, where the run has come to its end.

    ``done`` is its answer, with its exit code, why it ended, and maybe a hint.
    """

    following: str | None = None
    done: Mapping[str, Any] = {}


@contextmanager
def summed_up(project: "FeatureProject | TaskList | LongTask", say: Callable[[str], None]) -> Iterator[EndOfRun]:
    """Says what the run in the block has come to, also where an error ends it, which then says what is next.

    Where the settings have it, the page of `harness report` is written before. F-RUN-2, F-REP-10.
    """
    from agent_harness.session import needs
    from agent_harness.session.run_summary import RunSummary

    reader = project.reader()
    summary, end = RunSummary(reader), EndOfRun()
    needs.keep_end(reader.home)
    try:
        yield end
    except HarnessError as error:
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
    """Where the page is; else why there is none, which fails no run."""
    from agent_harness.cli.story import write_report

    try:
        return write_report(reader)
    except (HarnessError, OSError, ValueError) as error:
        return f"not written: {error}"


def ask(*, yes: bool, default_shown: str = "y/n") -> Callable[[str], bool]:
    """A function that asks one question on stderr and gives the answer; ``yes`` answers all of them.

    Without a terminal an answer that already waits on stdin counts, and anything else is no.
    """

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
    """Before a question: what was typed while nobody saw it is no answer."""
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
