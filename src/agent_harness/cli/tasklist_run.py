"""``harness run`` on a task list, and ``harness drive``: who keeps an agent going until the list is done."""

from typing import Any

import click

from agent_harness.cli.click_options import json_option, root_option, say_to
from agent_harness.cli.tasklist import answer
from agent_harness.cli.tasks import open_list, show
from agent_harness.kernel.terminal import printable

Record = dict[str, Any]


def run(*, agents: tuple[str, ...], wait: bool | None, now: bool, dry_run: bool, as_json: bool, **limits: Any) -> int:
    """Works the list down with an agent."""
    task_list = open_list()
    if dry_run:
        found = {**task_list.next(), "next": "harness run"}
        return answer("run", found, as_json=as_json, said=f"Next: {found['task_id']}: {found['title']}")
    from agent_harness.cli.terminal.countdown import patience

    done = task_list.run(
        agents=agents,
        policy=patience(wait, now, as_json=as_json, unattended=True),
        say=say_to(as_json=as_json, shown=printable),
        **limits,
    )
    if as_json:
        show("run", {**done, "ok": done["exit_code"] == 0}, as_text=False)
    return int(done["exit_code"])


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
    task_list = open_list(root=root)
    from agent_harness.cli.terminal.countdown import shown

    say = say_to(as_json=as_json, shown=printable)
    done = task_list.drive(command, times=times, say=say, countdown=shown(as_json=as_json))
    if as_json:
        show("drive", done, as_text=False)
    return int(done["exit_code"])
