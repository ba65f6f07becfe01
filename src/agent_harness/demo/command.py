"""``harness demo``: a whole project, built before your eyes by a scripted agent."""

from pathlib import Path

import click


@click.command(epilog="Example:  harness demo --plain", short_help="Watch a project being built.")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Plain lines for logs instead of the live view.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout at the end.")
def demo(path: Path | None, plain: bool, as_json: bool) -> int:
    """Build a small real program over several sessions, in a new folder that is kept.

    The agent is scripted: no model is called and nothing is spent. On the way it lies, breaks an older feature, and
    the harness itself is killed; the end shows every claim against its verdict.
    """
    from agent_harness.demo import demo_command

    return demo_command(path, plain, as_json)
