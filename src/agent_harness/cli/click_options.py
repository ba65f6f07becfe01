"""The options that several click commands have in common, the values they take, and the lines a person is shown."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

__all__ = ["Positive", "json_option", "root_option", "say_to"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
root_option = click.option("--root", metavar="DIR", help="Where the task list is; else looked for upwards from here.")


class Positive(click.FloatRange):
    """A finite number above 0, or from ``least`` on."""

    def __init__(self, least: float | None = None) -> None:
        super().__init__(min=least or 0, min_open=least is None)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not number < float("inf"):
            self.fail(f"{value} is no number that can be waited for.", param, ctx)
        return number


def say_to(*, as_json: bool, shown: Callable[[str], str] = str) -> Callable[[str], None]:
    """Prints lines for a person: on stdout, or on stderr when stdout holds the JSON answer.

    Whoever reads them may go away; the work does not end for that. ``shown`` makes a line fit for a terminal.
    """

    def say(line: str) -> None:
        with suppress(OSError, ValueError, AttributeError):
            click.echo(shown(line), err=as_json)

    return say
