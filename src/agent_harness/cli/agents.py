"""``harness agents``: which agents are found here, what each can do, and which one a run would take."""

import json
import os
from pathlib import Path
from typing import Any

import click

from agent_harness.cli.click_options import json_option


@click.command(short_help="Show the agents that are found here.", epilog="Example:  harness agents --json")
@json_option
def agents(as_json: bool) -> int:
    """Show the agents on this machine: program, version, login where it shows without a network, what each can do.

    Also which extras are installed, and which agent a run without --agent takes. Reads no key, asks no provider.
    """
    from agent_harness.agents import discovery

    there, extras = discovery.agents(os.environ), discovery.extras()
    choice = discovery.chosen(os.environ, *settings_here())
    if as_json:
        answer = {
            "ok": True,
            "agents": [each.as_json() for each in there],
            "keys": discovery.keys(os.environ),
            "extras": extras,
            "chosen": choice,
        }
        click.echo(json.dumps(answer, ensure_ascii=False))
        return 0
    for each in there:
        sign = "ok" if each.ready else "--"
        told = [each.version, f"login: {each.login}", f"can {', '.join(each.can)}"] if each.ready else [each.problem]
        click.echo(f"{sign}  {each.spec:<22} {'; '.join(t for t in told if t)}")
    click.echo("ok  command:WORDS          any program that reads a prompt on standard input")
    for extra in extras:
        told = "installed" if extra["installed"] else f"missing: {extra['install']}"
        click.echo(f"{'ok' if extra['installed'] else '--'}  extra {extra['name']:<16} {extra['serves']}; {told}")
    click.echo(f"A run takes: {choice['kind'] or 'none'} (by {choice['source']})")
    if choice["problem"]:
        click.echo(f"  but: {choice['problem']}")
    click.echo("next: harness run --agent SPEC" if choice["problem"] else "next: harness run")
    return 0


def settings_here() -> tuple[Any, Path | None]:
    """What the settings of the feature project here say about the agent, and its folder."""
    from agent_harness.errors import HarnessError
    from agent_harness.kernel import root

    try:
        project = root.find()
        if project is None or project.kind != "features":
            return None, None
        from agent_harness.protocols.features.config import load

        return load(Path(project.path)).agent, Path(project.path)
    except HarnessError:
        return None, None
