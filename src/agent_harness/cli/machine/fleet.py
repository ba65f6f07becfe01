"""``harness fleet``: commands for many projects on one machine that share one limit on the number of agents."""

from __future__ import annotations

import json
import os
import sys

import click

from agent_harness.cli.terminal import json_option, say_to, show

__all__ = ["fleet"]

_file = click.option("--file", metavar="FILE", help="Path of fleet.yaml. [default: in the user's configuration folder]")


@click.group(
    epilog="""\b
Examples:
  harness fleet add ~/src/shop
  harness fleet run                        # starts runs, shares the agents among them
  harness fleet status
  harness fleet why ~/src/shop""",
)
def fleet() -> None:
    """Start runs in all projects of fleet.yaml. Projects share agents by priority and weight. Budgets apply per day."""


def _roster_file(named: str | None) -> str:
    from agent_harness.fleet import roster

    return os.path.abspath(os.path.expanduser(named)) if named else roster.usual_file()


@fleet.command("list", short_help="List the projects in fleet.yaml.", epilog="Example:  harness fleet list --json")
@_file
@json_option
def list_(file: str | None, as_json: bool) -> int:
    """Show the fleet's projects with priority, weight and workers, and the invalid rows of fleet.yaml."""
    from agent_harness.fleet import roster

    found = roster.read(_roster_file(file))
    if as_json:
        rows = [{name: getattr(each, name) for name in each.__slots__} for each in found.members]
        click.echo(json.dumps({"ok": True, "file": found.file, "projects": rows, "problems": found.problems}))
        return 0
    for each in found.members:
        show(f"priority {each.priority}, weight {each.weight:g}, {each.workers} workers  {each.path}")
    for line in found.problems or () if found.members else ("No projects: harness fleet add PATH", *found.problems):
        show(line)
    return 0


@fleet.command(short_help="Show the state of every project.", epilog="Example:  harness fleet status --json")
@_file
@json_option
def status(file: str | None, as_json: bool) -> int:
    """Show the state, number of agents, share and proven items of each project. Projects that need you come first. The
    command reads only stored snapshots of the runs."""
    from agent_harness.fleet import roster
    from agent_harness.fleet import status as of_fleet

    found = roster.read(_roster_file(file))
    rows = of_fleet.rows(found)
    if as_json:
        told = {"supervisor": of_fleet.supervisor(), "paused": of_fleet.is_paused(), "agents": found.agents}
        click.echo(json.dumps({"ok": True, **told, "projects": rows, "problems": found.problems}))
        return 0
    for line in of_fleet.lines(found, rows):
        show(line)
    return 0


@fleet.command(
    short_help="Start and scale the runs of all projects.",
    epilog="""\b
Examples:
  harness fleet run
  harness fleet run --once                 one round, for cron""",
)
@_file
@click.option("--once", is_flag=True, help="Do one round: start the runs that are due, then exit.")
def run(file: str | None, once: bool) -> int:
    """Start runs in projects that have work, share the agents among them, and restart crashed runs.

    The supervisor ends a run only if the daily budget is used up.

    Exit code: 0 stopped by a signal (the runs continue), 3 a setting is wrong, 5 another supervisor runs, 7 there is no
    fleet.yaml.
    """
    from agent_harness.fleet import roster
    from agent_harness.fleet.supervisor import FleetSupervisor
    from agent_harness.kernel import owner
    from agent_harness.supervision import interruption

    where = _roster_file(file)
    owner.refuse_agents(os.getcwd(), "harness fleet run")
    roster.read(where)
    with interruption.watched(lambda: False) as stop, stop.listening():
        return FleetSupervisor(lambda: roster.read(where), say_to(as_json=False), stop).run(once=once)


@fleet.command(short_help="Pause the fleet: start no new runs.", epilog="Example:  harness fleet pause")
def pause() -> int:
    """Stop the supervisor from starting new runs. Running work continues."""
    from agent_harness.fleet import status as of_fleet
    from agent_harness.kernel import files

    there = of_fleet.folder(make=True)
    if there is not None:
        files.replace(os.path.join(there, "pause"), "paused by a person\n")
    show("No new runs start. Running work continues. next: harness fleet resume")
    return 0


@fleet.command(short_help="End the pause of the fleet: start runs again.", epilog="Example:  harness fleet resume")
def resume() -> int:
    """End a pause of the fleet."""
    from agent_harness.fleet import status as of_fleet
    from agent_harness.kernel import files

    there = of_fleet.folder()
    if there is not None:
        files.unlink(os.path.join(there, "pause"))
    show("Runs start again. next: harness fleet status")
    return 0


@fleet.command(short_help="Add a project to fleet.yaml.", epilog="Example:  harness fleet add ~/src/shop")
@click.argument("path")
@_file
def add(path: str, file: str | None) -> int:
    """Add a project to fleet.yaml. The comments in the file are kept."""
    from agent_harness.fleet import roster

    show(roster.change(_roster_file(file), path, add=True))
    return 0


@fleet.command(short_help="Remove a project from fleet.yaml.", epilog="Example:  harness fleet remove ~/src/shop")
@click.argument("path")
@_file
def remove(path: str, file: str | None) -> int:
    """Remove a project from fleet.yaml. The project and its current run do not change."""
    from agent_harness.fleet import roster

    show(roster.change(_roster_file(file), path, add=False))
    return 0


@fleet.command(short_help="Explain how many agents a project gets.", epilog="Example:  harness fleet why ~/src/shop")
@click.argument("path")
@_file
def why(path: str, file: str | None) -> int:
    """Show how many agents one project gets, and what limits that number."""
    from agent_harness.fleet import roster, supervisor

    for line in supervisor.why(roster.read(_roster_file(file)), os.path.realpath(os.path.expanduser(path))):
        show(line)
    sys.stdout.flush()
    return 0
