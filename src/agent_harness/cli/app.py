"""The ``harness`` command line: a click group that imports each command only when the command is used.

The help lines of all commands are in one table, so ``--help`` imports no command.
"""

import os
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import click

from agent_harness import __version__
from agent_harness.cli import failure
from agent_harness.cli.machine.options import once, strict
from agent_harness.errors import Interrupted, UsageError

COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (panel of at most nine, module:attribute, help line)
    "init": (
        "Everyday",
        "agent_harness.cli.shared:init",
        "Create a task list, or plan a project from a specification.",
    ),
    "add": ("Everyday", "agent_harness.cli.tasklist:add", "Add a task to the list."),
    "run": ("Everyday", "agent_harness.cli.shared:run", "Run agents on the next tasks or features."),
    "status": ("Everyday", "agent_harness.cli.shared:status", "Show progress and the next step."),
    "watch": ("Everyday", "agent_harness.cli.story:main", "Follow one project, or all of them, live."),
    "why": ("Everyday", "agent_harness.cli.story:main", "Explain why an item is proven, or is not."),
    "resume": ("Everyday", "agent_harness.cli.shared:resume", "Answer a pending question, or end a pause or halt."),
    "undo": ("Everyday", "agent_harness.cli.projects:undo", "Revert accepted work with a new commit."),
    "setup": ("Plan", "agent_harness.cli.machine.setup:setup", "Set up an agent, a project and hooks."),
    "import": ("Plan", "agent_harness.cli.backlog:import_", "Import tasks from another tool or a Markdown file."),
    "export": ("Plan", "agent_harness.cli.backlog:export", "Export tasks for another tool."),
    "add-feature": ("Plan", "agent_harness.cli.projects:add_feature", "Add a feature with its test stub."),
    "plan-features": ("Plan", "agent_harness.cli.projects:add_features", "Plan more features from a text."),
    "demo": ("Plan", "agent_harness.demo:demo", "Watch a scripted agent build a small project."),
    "help": (
        "Plan",
        "agent_harness.cli.machine.topics:help_",
        "Show help on a topic, such as start, night or undo.",
    ),
    "verify": ("Run", "agent_harness.cli.features:verify", "Run a feature's tests, or all, on a clean checkout."),
    "health": ("Run", "agent_harness.cli.projects:health", "Measure features, tests, lint and file sizes."),
    "cleanup": ("Run", "agent_harness.cli.projects:cleanup", "Run one cleanup session now."),
    "drive": ("Run", "agent_harness.cli.tasklist:drive", "Restart a client until its task list is done."),
    "scale": ("Run", "agent_harness.cli.parallel:main", "Change the number of workers of a parallel run."),
    "cancel": ("Run", "agent_harness.cli.parallel:main", "Cancel one attempt of a parallel run; keep its work."),
    "queue": ("Run", "agent_harness.cli.parallel:main", "Show and arrange the merge queue of a parallel run."),
    "workspace": ("Run", "agent_harness.cli.parallel:main", "Show and remove the working copies of parallel runs."),
    "worker": (
        "Fleets and machines",
        "agent_harness.cli.machine.engines:worker",
        "Run jobs for a coordinator on another machine.",
    ),
    "engine": (
        "Fleets and machines",
        "agent_harness.cli.machine.engines:engine",
        "Check the connection to remote workers.",
    ),
    "fleet": (
        "Fleets and machines",
        "agent_harness.cli.machine.fleet:fleet",
        "Run many projects with one shared limit on agents.",
    ),
    "projects": (
        "Fleets and machines",
        "agent_harness.cli.shared:projects",
        "List your projects, and forget deleted ones.",
    ),
    "serve": ("See", "agent_harness.cli.story:main", "Show projects in a browser; answer questions there."),
    "diff": ("See", "agent_harness.cli.story:main", "Show what a session or an item changed."),
    "costs": ("See", "agent_harness.cli.story:main", "Show what was spent, and on what."),
    "report": ("See", "agent_harness.cli.story:main", "Write a report as one HTML or Markdown page."),
    "log": ("See", "agent_harness.cli.features:log", "Show and search what happened."),
    "say": ("Decide", "agent_harness.cli.shared:say", "Send a message to the running agent."),
    "pause": ("Decide", "agent_harness.cli.projects:pause", "Pause a project."),
    "skip": ("Decide", "agent_harness.cli.projects:skip", "Skip a feature, or include it again."),
    "override": (
        "Decide",
        "agent_harness.cli.projects:override",
        "Mark a feature as passing or open, without a check.",
    ),
    "manual-verify": (
        "Decide",
        "agent_harness.cli.projects:manual_verify",
        "Record that you verified a feature yourself.",
    ),
    "take-over": (
        "Decide",
        "agent_harness.cli.projects:handoff",
        "Take over the project; no session starts meanwhile.",
    ),
    "hand-back": (
        "Decide",
        "agent_harness.cli.projects:takeback",
        "Return the project to the harness; your work is verified.",
    ),
    "rescue": ("Stop and restore", "agent_harness.cli.tasks:main", "List or restore rolled-back work."),
    "end-maintenance": (
        "Stop and restore",
        "agent_harness.cli.projects:stop",
        "Leave maintenance mode. (To stop a run: harness pause.)",
    ),
    "abort": (
        "Stop and restore",
        "agent_harness.cli.projects:abort",
        "End the work here; keep commits, logs and costs.",
    ),
    "uninstall": (
        "Stop and restore",
        "agent_harness.cli.machine.setup:uninstall",
        "Remove the harness from a project.",
    ),
    "config": ("Settings", "agent_harness.cli.projects:config", "Show the settings, and where each value comes from."),
    "agents": ("Settings", "agent_harness.cli.machine.agents:agents", "Show the agents that are installed here."),
    "limits": ("Settings", "agent_harness.cli.machine.agents:limits", "Show which accounts are rate limited."),
    "notify": ("Settings", "agent_harness.cli.machine.notify:notify", "Set who is notified, and of which events."),
    "doctor": ("Settings", "agent_harness.cli.machine.doctor:doctor", "Find problems and show how to fix them."),
    "completion": (
        "Settings",
        "agent_harness.cli.machine.completion:completion",
        "Print a completion script for a shell.",
    ),
    "migrate": ("Settings", "agent_harness.cli.projects:migrate", "Convert state files of an older version."),
    "version": ("Settings", "agent_harness.cli.projects:version", "Show the versions of the harness and of the state."),
    "selftest": ("Settings", "agent_harness.selftest:selftest", "Test the harness against lying agents (offline)."),
    "task": ("For agents and clients", "agent_harness.cli.tasks:main", "Claim, checkpoint, verify and complete tasks."),
    "session": ("For agents and clients", "agent_harness.cli.tasks:main", "Start and end a session on a task list."),
    "hooks": (
        "For agents and clients",
        "agent_harness.cli.machine.hooks:hooks",
        "Register the hooks with Claude Code or Codex.",
    ),
    "hook": (
        "For agents and clients",
        "agent_harness.cli.machine.hooks:hook",
        "Answer one hook event of an agent client.",
    ),
    "mcp": (
        "For agents and clients",
        "agent_harness.cli.tasks:serve_mcp",
        "Serve the task commands to a client over MCP.",
    ),
    "activate": (
        "For agents and clients",
        "agent_harness.cli.tasklist:activate",
        "Turn the hooks on for this task list.",
    ),
    "deactivate": (
        "For agents and clients",
        "agent_harness.cli.tasklist:deactivate",
        "Turn the hooks off for this task list.",
    ),
}

EXAMPLES = """\
Examples:

  harness demo                                   a sample run, without a model
  harness init .                                 a task list in this folder
  harness add "Add a limit" --validate "pytest -q"
  harness run --agent 'command:my-agent'         the harness does the tasks
  harness hooks install --client claude-code     or your own session does them
  harness init --spec SPEC.md                    a project, from a specification
  harness run --until-done                       until every feature is proven
  harness help night                             how to run unattended
"""


FORMER = {
    "add-features": "plan-features",
    "handoff": "take-over",
    "place": "workspace",
    "recall": "cancel",
    "stop": "end-maintenance",
    "takeback": "hand-back",
}
"""Former names of commands and their current names. Former names still work, but help and completion omit them."""

MEANT = {"logs": "log", "ls": "status", "list": "status", "cost": "costs", "stop-now": "pause"}
"""Map from names that users type by mistake to the commands that they probably mean."""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        import importlib

        module, _, attribute = COMMANDS[cmd_name][1].partition(":")
        found = getattr(importlib.import_module(module), attribute)
        return strict(found) if isinstance(found, click.Command) else _handed_on(cmd_name, found)

    def make_parser(self, ctx: click.Context) -> Any:
        return once(super().make_parser(ctx), ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Also accept former names. The error for an unknown name suggests the most similar command."""
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
        """Describe only the everyday commands, and name the others, so that the help fits on one screen."""
        first, *others = in_panels()
        with formatter.section(first[0]):
            formatter.write_dl(first[1])
        with formatter.section("More (harness help commands has a line for each)"):
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
@click.option("--plain", is_flag=True, help="Print plain lines with times. Same as HARNESS_PLAIN=1.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    help="When to use colors. [default: by NO_COLOR, FORCE_COLOR]",
)
def cli(plain: bool, color: str | None) -> None:
    """Run coding agents unattended, and keep only the work that passes its checks.

    The harness gives work to the agents, runs the checks itself, and keeps only proven work. Work that is not proven is
    returned to the agent or rolled back; it is never lost. The commands apply to the task list or feature project that
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
    """Flush stdout. A reader that closed the pipe does not change the exit code."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _as_ours(error: Exception) -> Exception:
    if isinstance(error, click.ClickException):
        return UsageError(" ".join(error.format_message().split()), hint=_help_for(error))
    return Interrupted("Interrupted") if isinstance(error, click.Abort) else error


def _help_for(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path} --help" if context else "harness --help"
