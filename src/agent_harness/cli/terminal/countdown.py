"""What a person sees while a run waits for a rate limit to end, and the options that decide whether it does."""

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agent_harness.supervision.dispatch import RefusalPolicy

agent_option = click.option(
    "--agent",
    "agents",
    metavar="SPEC",
    multiple=True,
    help="Which agent: a kind, scripted:FILE, or command:WORDS; HARNESS_AGENT. Given again: who takes over.",
)
wait_option = click.option("--wait/--no-wait", default=None, help="Wait for a rate limit to end, or end then.")
now_option = click.option("--now", is_flag=True, help="Start once although a rate limit is known.")

REPEATED_SECONDS = 600.0  # how often a log that nobody overwrites is told


def patience(wait: bool | None, now: bool, *, as_json: bool, unattended: bool = False) -> "RefusalPolicy":
    """What a run does about a rate limit: what it was told, else it waits when it is watched or ``unattended``."""
    from agent_harness.supervision.dispatch import RefusalPolicy

    watched = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    waits = wait if wait is not None else unattended or (watched and not as_json)
    return RefusalPolicy(wait=waits, ignore_once=now, countdown=shown(as_json=as_json))


def shown(*, as_json: bool) -> Callable[[str], None]:
    """Shows the line of a countdown: in place on a terminal, else now and then."""
    stream = sys.stderr if as_json else sys.stdout
    if stream is not None and stream.isatty():
        return lambda line: _in_place(line, as_json=as_json)
    return _Seldom(as_json)


def _in_place(line: str, *, as_json: bool) -> None:
    width = shutil.get_terminal_size().columns
    with suppress(OSError, ValueError):
        click.echo(f"\r{line[: width - 1]}\x1b[K", nl=False, err=as_json)


class _Seldom:
    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._next = time.monotonic() + REPEATED_SECONDS

    def __call__(self, line: str) -> None:
        if line and time.monotonic() >= self._next:
            self._next = time.monotonic() + REPEATED_SECONDS
            with suppress(OSError, ValueError):
                click.echo(f"Still waiting: {line}", err=self._as_json)
