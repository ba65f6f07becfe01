"""``harness notify``: manages the targets of notifications and sends test messages."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from agent_harness.cli import say_json
from agent_harness.cli.machine.options import Several
from agent_harness.cli.terminal import Positive, json_option, show
from agent_harness.errors import HarnessError, Refused, UsageError
from agent_harness.kernel import owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_harness.kernel.json import JsonObject


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  harness notify add webhook:https://hooks.example.org/harness
  harness notify add 'command:notify-send'
  harness notify add 'ntfy://ntfy.example.org/my-topic'          through apprise
  harness notify set --on question,stopped,done,limit --quiet 22:00-07:00 --urgent question
  harness notify test""",
)
@json_option
@click.pass_context
def notify(context: click.Context, as_json: bool) -> None:
    """Notify you outside the terminal when a question waits, a run has ended, or all items are proven.

    `webhook:URL` and `command:PROGRAM` are built in. The harness passes any other address to apprise, which supports
    Slack, Discord, mail, ntfy and 170 other services. Apprise needs the extra `notify`. The settings are per user, not
    per project, so an agent cannot change them. Write secrets as environment variables: ${NAME}. Without a subcommand,
    the command shows the targets and their events.
    """
    if context.invoked_subcommand is not None:
        return
    from agent_harness.views.notify import sending, watcher

    found = sending.read()
    failed = watcher.failures()
    if as_json:
        members: JsonObject = {"to": [sending.shown(each) for each in found.to], "on": [*found.on]}
        quiet = _hours(found.quiet) if found.quiet else None
        members |= {"quiet": quiet, "urgent": [*found.urgent], "digest_hours": found.digest_hours, "failed": failed}
        say_json("notify", members)
        return
    if not found.to:
        show(
            "There is no notification target.\nnext: harness notify add command:notify-send  # or webhook:URL, or ntfy://HOST/TOPIC"
        )
        return
    show("\n".join(f"{sending.shown(each)}" for each in found.to))
    quiet = (
        f"; quiet {_hours(found.quiet)}" + (f", but {', '.join(found.urgent)}" if found.urgent else "")
        if found.quiet
        else ""
    )
    show(f"on {', '.join(found.on)}{quiet}")
    for each in failed[-5:]:
        show(f"not delivered: {each}")
    show("next: harness notify test")


def _hours(quiet: tuple[int, int]) -> str:
    return "-".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in quiet)


@notify.command(short_help="Add a notification target.", epilog="Example:  harness notify add 'command:notify-send'")
@click.argument("target")
@json_option
def add(target: str, as_json: bool) -> int:
    """Add a notification TARGET: webhook:URL, command:PROGRAM, or an apprise address."""
    from agent_harness.views.notify import sending

    owner.refuse_agents(None, "harness notify add")
    sending.add(target)
    return _answered(
        "add", {"target": sending.shown(target)}, as_json, f"Added the notification target {sending.shown(target)}"
    )


@notify.command(short_help="Remove a target.", epilog="Example:  harness notify remove 'command:notify-send'")
@click.argument("target")
@json_option
def remove(target: str, as_json: bool) -> int:
    """Remove a notification TARGET. Type the target exactly as you added it."""
    from agent_harness.views.notify import sending

    owner.refuse_agents(None, "harness notify remove")
    sending.remove(target)
    return _answered(
        "remove", {"target": sending.shown(target)}, as_json, f"Removed the notification target {sending.shown(target)}"
    )


@notify.command(
    "set", short_help="Set events and quiet hours.", epilog="Example:  harness notify set --quiet 22:00-07:00"
)
@click.option(
    "--on",
    cls=Several,
    metavar="EVENTS",
    help="Notify on this event: question, stopped, done, limit, ... [default: the first three]",
)
@click.option("--quiet", metavar="HH:MM-HH:MM", help="Send nothing in these local hours. 'none' ends the quiet hours.")
@click.option(
    "--urgent", cls=Several, metavar="EVENTS", help="Also send this event in quiet hours. 'none' selects no event."
)
@click.option(
    "--digest-hours", type=Positive(), metavar="H", help="Hours between digests, if digests are enabled. [default: 24]"
)
@json_option
def set_(on: Sequence[str], quiet: str | None, urgent: Sequence[str], digest_hours: float | None, as_json: bool) -> int:
    """Set which events send notifications, and the quiet hours."""
    from agent_harness.views.notify import notices, sending

    owner.refuse_agents(None, "harness notify set")
    members: JsonObject = {}
    for name, given in (("on", on), ("urgent", urgent)):
        if given:
            words = [each for each in given if each != "none"]
            if wrong := [each for each in words if each not in notices.EVENTS]:
                raise UsageError(f"Unknown event {wrong[0]!r}", hint=f"one of {', '.join(notices.EVENTS)}")
            members[name] = words or None
    if quiet is not None:
        if quiet != "none" and sending.hours_of(quiet) is None:
            raise UsageError(
                f"{quiet!r} is not a time range such as 22:00-07:00", hint="harness notify set --quiet 22:00-07:00"
            )
        members["quiet"] = None if quiet == "none" else quiet
    if digest_hours is not None:
        members["digest_hours"] = digest_hours
    if not members:
        raise UsageError("No setting to change is given", hint="harness notify set --help")
    sending.change(**members)
    return _answered("set", members, as_json, "Set.")


@notify.command(short_help="Send a test message to all targets.", epilog="Example:  harness notify test")
@json_option
def test(as_json: bool) -> int:
    """Send a test message to every target, and show each target's answer."""
    from agent_harness.kernel import clock
    from agent_harness.views.notify import sending

    targets = sending.read().to
    if not targets:
        raise Refused("There is no target for notifications", hint="harness notify add webhook:https://...")
    message: JsonObject = {
        "v": 1,
        "id": "test",
        "at": clock.timestamp(),
        "event": "test",
        "project": "test",
        "item": None,
        "title": "agent-harness: a test",
        "text": "You will get a message here when a project needs you.",
        "answer": ["harness status"],
        "cost_usd": 0.0,
        "proven": 0,
        "total": 0,
    }
    answers_by = {each: sending.send(each, message) for each in targets}
    for each, why in answers_by.items():
        if why is None:
            sending.settle(each)
    found = [(sending.shown(each), why) for each, why in answers_by.items()]
    if as_json:
        answers = [{"target": target, "delivered": why is None, "why": why} for target, why in found]
        say_json("notify test", {"answers": answers})
    else:
        for target, why in found:
            show(f"{target}: {why or 'delivered'}")
    return 0 if all(why is None for _, why in found) else 1


@notify.command(
    short_help="Look for new events in the projects, and send notifications.", epilog="Example:  harness notify check"
)
@json_option
def check(as_json: bool) -> int:
    """Look for new events in the projects, and send notifications. The command also reports a run that was killed.

    The command is intended for cron and systemd timers. `harness notify install` prints their configuration.
    """
    from agent_harness.kernel import trusted_state
    from agent_harness.views.notify import notices
    from agent_harness.views.notify.watcher import ProjectWatch
    from agent_harness.views.reading import reader_of

    looked = 0
    for place in trusted_state.places():
        if not place.path or not place.kind or place.gone:
            continue
        with suppress(HarnessError, OSError):
            project = ProjectWatch(place.kind, place.path, reader=reader_of(place.kind, place.path))
            lock = project.lock()
            if lock is None or lock.try_take() is not None:
                continue  # a run's own watcher tells of it
            try:
                project.look(notices.dead(project.view()), last=True)
                looked += 1
            finally:
                lock.release()
    return _answered("check", {"projects": looked}, as_json, f"Checked {looked} projects.")


@notify.command(
    short_help="Print a crontab line that runs `harness notify check`.",
    epilog="Example:  harness notify install >> lines-for-cron",
)
def install() -> int:
    """Print a cron line, and a systemd timer, that run `harness notify check` every ten minutes. No file changes."""
    import shutil

    program = shutil.which("harness") or f"{sys.executable} -m agent_harness.cli.main"
    show(
        f"""\
# crontab -e
*/10 * * * * {program} notify check

# or: ~/.config/systemd/user/harness-notify.service
[Service]
Type=oneshot
ExecStart={program} notify check

# and ~/.config/systemd/user/harness-notify.timer; then: systemctl --user enable --now harness-notify.timer
[Timer]
OnCalendar=*:0/10
[Install]
WantedBy=timers.target"""
    )
    return 0


def _answered(verb: str, members: JsonObject, as_json: bool, said: str) -> int:
    if as_json:
        say_json(f"notify {verb}", members)
    else:
        show(said)
    return 0
