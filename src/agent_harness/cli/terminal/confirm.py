"""Yes or no from a person. Nobody there means no (features.md UAH-076, C12)."""

import select
import sys
from collections.abc import Callable

import click

_PIPE_SECONDS = 1.0


def ask(*, yes: bool, default_shown: str = "y/n") -> Callable[[str], bool]:
    """A function that asks one question on stderr and gives the answer; ``yes`` answers all of them.

    Without a terminal an answer that already waits on stdin counts, and anything else is no.
    """

    def answer(question: str) -> bool:
        click.echo(f"{question} [{default_shown}]: ", nl=yes, err=True)
        if yes:
            return True
        given = _line()
        if not sys.stdin or not sys.stdin.isatty():
            click.echo(given or "no", err=True)
        return given.strip().lower() in ("y", "yes")

    return answer


def _line() -> str:
    if sys.stdin is None or sys.stdin.closed:
        return ""
    try:
        if not sys.stdin.isatty() and not select.select([sys.stdin], [], [], _PIPE_SECONDS)[0]:
            return ""
        return sys.stdin.readline()
    except (OSError, ValueError):
        return ""
