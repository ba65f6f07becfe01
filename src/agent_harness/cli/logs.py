"""``harness log``: what happened in a feature project, and why; reads only."""

import json
from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli.click_options import json_option
from agent_harness.errors import NotAProject

if TYPE_CHECKING:
    from agent_harness.protocols.features.layout import FeatureLayout

LEVELS = ("critical", "important", "routine", "debug")
SOURCES = ("events", "decisions", "actions", "usage")


@click.group(
    short_help="Find out what happened, and why.",
    epilog="""\b
Examples:
  harness log query "library" --since 2d
  harness log sessions --last 3""",
)
def log() -> None:
    """Find out what happened in a feature project, and why. Reads only; works while a session runs."""


@log.command(
    short_help="Search the logs.",
    epilog="""\b
Examples:
  harness log query "library"
  harness log query --level critical --since 2d
  harness log query --session 7 --source actions --type cmd_run
  harness log query "pytest failed" --feature 3 --json""",
)
@click.argument("text", default="")
@click.option("--session", type=click.IntRange(0), metavar="N", help="Rows of one session.")
@click.option("--feature", type=int, metavar="N", help="Rows about one feature.")
@click.option("--level", type=click.Choice(LEVELS), help="This level and what matters more.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Rows of this type; may be given again.")
@click.option("--source", "sources", multiple=True, type=click.Choice(SOURCES), help="One log; may be given again.")
@click.option("--since", metavar="WHEN", help="30m, 2h, 3d ago, or a date or time (UTC unless it says).")
@click.option("--until", metavar="WHEN", help="The same, for the end.")
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="The newest N rows; 50.")
@json_option
def query(
    *,
    text: str,
    session: int | None,
    feature: int | None,
    level: str | None,
    types: tuple[str, ...],
    sources: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Show the newest rows of the logs in which every word of TEXT occurs, oldest first."""
    from agent_harness.kernel import clock
    from agent_harness.protocols.features.logs import query as logs_query

    at = clock.now()
    wanted = logs_query.Filter(
        words=tuple(text.split()),
        session=session,
        feature=feature,
        level=level,
        types=types,
        since=logs_query.moment(since, at) if since else None,
        until=logs_query.moment(until, at) if until else None,
    )
    found = logs_query.query(_layout(), wanted, sources=sources, limit=limit)
    _show(found, [logs_query.line(row) for row in found["rows"]] or ["Nothing in the logs fits."], as_json=as_json)
    if found["more"] and not as_json:
        click.echo(f"There are older rows; see them with --limit {limit * 4}.", err=True)
    return 0


@log.command(
    short_help="Sum up the last sessions.",
    epilog="""\b
Examples:
  harness log sessions
  harness log sessions --session 7 --json""",
)
@click.option("--last", type=click.IntRange(1), default=5, metavar="N", help="How many; 5.")
@click.option("--session", type=click.IntRange(0), metavar="N", help="Only this one.")
@json_option
def sessions(last: int, session: int | None, as_json: bool) -> int:
    """Sum up sessions: how each ended, what it cost, what was written, decided, and went wrong."""
    from agent_harness.protocols.features.logs import query as logs_query

    found = logs_query.summaries(_layout(), last=last, session=session)
    lines = [text for each in found for text in logs_query.summary_lines(each)]
    _show({"sessions": found}, lines or ["No session has ended yet."], as_json=as_json)
    return 0


def _layout() -> "FeatureLayout":
    """The feature project at or above the working directory."""
    from agent_harness.cli.status import find_layout
    from agent_harness.kernel import root

    found = root.find()
    if found is not None and found.kind == "tasklist":
        raise NotAProject("A task list has one log, harness-progress.txt", hint="harness status --tail 50")
    return find_layout()


def _show(found: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    click.echo(json.dumps({"ok": True, **found}, ensure_ascii=False, default=str) if as_json else "\n".join(lines))
