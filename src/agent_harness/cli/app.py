"""The ``harness`` command line: a click group that imports each command only when the command is used.

The help lines of all commands are in one table, so ``--help`` imports no command."""

import os
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import click

from agent_harness import __version__
from agent_harness.cli import failure
from agent_harness.cli.commands import COMMANDS, FORMER, MEANT, is_fast, loaded
from agent_harness.cli.machine.options import once, strict
from agent_harness.errors import Interrupted, UsageError

EXAMPLES = """\
Examples:

  harness demo                                   watch a demo without a model
  harness init .                                 create a task list here
  harness add "Add a limit" --validate "pytest -q"
  harness run --agent 'command:my-agent'         run an agent on each task
  harness hooks install --client claude-code     or let your session do them
  harness init --spec SPEC.md                    plan a project from a file
  harness run --until-done                       run until all are proven
  harness help night                             show how to run unattended
"""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return _handed_on(cmd_name, loaded(cmd_name)) if is_fast(cmd_name) else strict(loaded(cmd_name))

    def make_parser(self, ctx: click.Context) -> Any:
        return once(super().make_parser(ctx), ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command with this name or former name. For an unknown name, raise an error with a similar name."""
        args = [FORMER.get(each, each) for each in args[:1]] + args[1:]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from agent_harness.cli.verbs import nearest

            near = MEANT.get(args[0]) or nearest(args[0], COMMANDS)
            meant = f" Did you mean '{near}'?" if near else ""
            raise UsageError(
                f"No such command '{args[0]}'.{meant}", hint=f"harness {near or ''} --help".replace("  ", " ")
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write help lines for the everyday commands, and only the names of the other commands."""
        first, *others = in_panels()
        with formatter.section(first[0]):
            formatter.write_dl(first[1])
        with formatter.section("More commands (to describe each command: harness help commands)"):
            widest = max(len(panel) for panel, _ in others)
            for panel, rows in others:
                names = textwrap.wrap(", ".join(name for name, _ in rows), 78 - widest - 4, break_on_hyphens=False)
                lines = (f"  {label:<{widest}}  {line}\n" for label, line in zip([panel] + [""] * 9, names))  # noqa: B905
                formatter.write("".join(lines))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{EXAMPLES}")


def in_panels() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each help panel with the names and help lines of its commands."""
    panels = dict.fromkeys(row[0] for row in COMMANDS.values())
    return [(each, [(name, row[2]) for name, row in COMMANDS.items() if row[0] == each]) for each in panels]


def _handed_on(name: str, main: Callable[[list[str]], int]) -> click.Command:
    """Return a click command that passes its arguments unparsed to ``main``."""
    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    return click.Command(name, settings, lambda words: main([name, *words]), [words], add_help_option=False)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="harness %(version)s")
@click.option("--plain", is_flag=True, help="Print plain lines with times, as with HARNESS_PLAIN=1.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    help="When to print colors. [default: NO_COLOR and FORCE_COLOR decide]",
)
def cli(plain: bool, color: str | None) -> None:
    """Run coding agents unattended, and keep only the work that passes its checks.

    The harness gives work to agents, runs the checks itself, and keeps only proven work. Other work goes back to the
    agent or is rolled back. Git keeps rolled-back work. The commands apply to the task list or feature project that
    contains the current folder.
    """
    if plain:
        os.environ["HARNESS_PLAIN"] = "1"
    if color:
        os.environ["HARNESS_COLOR"] = color  # and not FORCE_COLOR, which linters and tests of the project would hear


def main(words: list[str]) -> int:
    """Run one command line and return its exit code (``docs/exit-codes.md``). Never raise an exception."""
    as_json = "--json" in words
    try:
        code = cli.main(args=words, prog_name="harness", standalone_mode=False)
        _flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except Exception as error:  # a person never meets a traceback
        return failure.show_any(_as_ours(error), as_json=as_json)
    except KeyboardInterrupt:
        return failure.show(Interrupted("Interrupted"), as_json=as_json)


def _flush() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _as_ours(error: Exception) -> Exception:
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help" if context else "harness --help"
        return UsageError(" ".join(error.format_message().split()), hint=hint)
    return Interrupted("Interrupted") if isinstance(error, click.Abort) else error
