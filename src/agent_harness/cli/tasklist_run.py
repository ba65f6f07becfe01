"""``harness run`` on a task list, and ``harness drive``: who keeps an agent going until the list is done."""

from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli.tasklist import answer, json_option, root_option
from agent_harness.cli.tasks import open_list, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_harness.protocols.tasklist.api import TaskList

Record = dict[str, Any]


def _say(as_json: bool) -> "Callable[[str], None]":
    """Lines for a person; whoever reads them may go away, and the run does not end for that."""
    from contextlib import suppress

    from agent_harness.protocols.tasklist.status import printable

    def say(line: str) -> None:
        with suppress(OSError, ValueError, AttributeError):
            click.echo(printable(line), err=as_json)

    return say


def run(*, agents: tuple[str, ...], wait: bool | None, now: bool, dry_run: bool, as_json: bool, **limits: Any) -> int:
    """Works the list down with an agent."""
    task_list = open_list()
    if dry_run:
        found = {**task_list.next(), "next": "harness run"}
        return answer("run", found, as_json=as_json, said=f"Next: {found['task_id']}: {found['title']}")
    _refuse_empty(task_list)
    import os

    from agent_harness.agents import registry
    from agent_harness.cli.terminal.countdown import patience
    from agent_harness.protocols.tasklist.runner import run as runner_run
    from agent_harness.supervision.dispatch import Dispatcher, startable

    say = _say(as_json)
    found = registry.resolve_all(agents, configured=None, environ=os.environ)
    allowed = startable(found, say, "harness run --agent SPEC")
    dispatcher = Dispatcher(allowed, patience(wait, now, as_json=as_json, unattended=True), say)
    done = runner_run.run(task_list.worker, dispatcher, say=say, **limits)
    if as_json:
        show("run", {**done, "ok": done["exit_code"] == 0}, as_text=False)
    return int(done["exit_code"])


def _refuse_empty(task_list: "TaskList") -> None:
    """``NothingEligible`` before an agent is looked for; what is damaged is the session's to fix."""
    from agent_harness.errors import NothingEligible, StateDamaged
    from agent_harness.protocols.tasklist.records import ADD

    try:
        state = task_list.store.read()
    except StateDamaged:
        return
    if not state.tasks:
        raise NothingEligible("there are no tasks yet", hint=ADD)


@click.command(
    short_help="Keep an interactive client going.",
    epilog="Example:  harness drive -- claude 'Work on the harness task list: /harness run'",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--times", type=click.IntRange(1), default=50, metavar="N", help="Starts it at most N times; 50.")
@root_option
@json_option
def drive(command: tuple[str, ...], times: int, root: str | None, as_json: bool) -> int:
    """Start a client again and again, in this terminal, until no work is left on the task list.

    It stops when the list is done, halted or paused, when three starts in a row moved nothing, or on Ctrl-C. While the
    client's account is known to be rate limited it waits; `harness limits` shows until when.
    """
    from agent_harness.protocols.tasklist.runner import drive as runner_drive

    task_list = open_list(root=root)
    from agent_harness.cli.terminal.countdown import shown

    done = runner_drive.drive(
        task_list.worker, command, times=times, say=_say(as_json), countdown=shown(as_json=as_json)
    )
    if as_json:
        show("drive", done, as_text=False)
    return int(done["exit_code"])
