"""Commands that plan, run, verify and resume a feature project, and ``harness log`` for every kind of project."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli import HOW_TO_BEGIN, NOTHING_HERE, project_here
from agent_harness.cli.machine.options import Several
from agent_harness.cli.terminal import (
    footer_of,
    forget_typed,
    json_option,
    patience,
    say_to,
    screen,
    show,
    show_answer,
    summed_up,
)
from agent_harness.errors import UsageError
from agent_harness.kernel.json import JsonObject

if TYPE_CHECKING:
    from agent_harness.kernel.root import Root
    from agent_harness.parallel.engine import EngineFactory
    from agent_harness.protocols.features.api import FeatureLayout, FeatureProject
    from agent_harness.session.log_rows import Filter


def answered(as_json: bool, fields: JsonObject, code: int = 0) -> int:
    """Print a JSON answer if ``as_json`` is True. Return the exit code ``code``."""
    if as_json:
        click.echo(json.dumps({"ok": code == 0, **fields}, ensure_ascii=False, default=str))
    return code


def opened(as_json: bool) -> "FeatureProject":
    from agent_harness.protocols.features import api

    return api.FeatureProject.open(Path(api.find().root), say=say_to(as_json=as_json))


def init(folder: Path, spec: Path, *, agents: tuple[str, ...], as_json: bool) -> int:
    from agent_harness.protocols.features.api import FeatureProject

    with screen(as_json=as_json).watching(list):
        found = FeatureProject.init(folder, spec, agents=agents, say=say_to(as_json=as_json))
    return answered(as_json, found)


def adopt(folder: Path, *, allow_failing: bool, check: str, as_json: bool) -> int:
    from agent_harness.protocols.features.api import FeatureProject

    with screen(as_json=as_json).watching(list):
        say = say_to(as_json=as_json)
        found = FeatureProject.adopt(folder, allow_failing=allow_failing, check=check, say=say)
    return answered(as_json, found)


def run(
    *,
    dry_run: bool,
    until_done: bool,
    sessions: int | None,
    feature_id: int | None,
    agents: tuple[str, ...],
    wait: bool | None,
    now: bool,
    as_json: bool,
    workers: int | None = None,
    branch: str | None = None,
    engine_factory: "EngineFactory | None" = None,
) -> int:
    project = opened(as_json)
    if workers is None and feature_id is None:
        workers = project.workers
    if branch is not None and not workers:
        raise UsageError("--branch needs --workers", hint="harness run --help")
    if engine_factory is not None and not workers:
        raise UsageError("--engine needs --workers", hint="harness run --workers 4 --engine URL")
    if dry_run:
        found = project.preview(
            feature_id, workers=workers, branch=branch, max_sessions=sessions, engine_factory=engine_factory
        )
        lines = found.pop("lines", ())
        for line in () if as_json else lines:
            show(line)
        return answered(as_json, found)
    limit = sessions or (None if until_done or workers else 1)
    footer = footer_of("features", project.layout.root)
    view = screen(as_json=as_json)
    with view.watching(project.now, project.keep_said, footer), summed_up(project, view.say) as summary:
        found = project.run(
            agents=agents,
            policy=patience(wait, now, as_json=as_json, unattended=until_done or bool(workers)),
            max_sessions=limit,
            until_done=until_done,
            feature_id=feature_id,
            workers=workers,
            branch=branch,
            engine_factory=engine_factory,
        )
        summary.following, summary.done = found.get("next") or project.next_command(), found
    code = answered(as_json, found, int(found["exit_code"]))
    if as_json or not _somebody_is_there():
        return code
    if found.get("complete"):
        _what_now(project)
    return _answered_now(project, code, found["escalation"]) if found.get("escalation") else code


def _somebody_is_there() -> bool:
    return all(stream is not None and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _project() -> "FeatureLayout":
    from agent_harness.protocols.features import api

    return api.find(NOTHING_HERE, HOW_TO_BEGIN)


def _answered_now(project: "FeatureProject", code: int, asked: JsonObject) -> int:
    """Ask the user the open question. Return 0 instead of exit code 3 if the user answers."""
    forget_typed()
    chosen = click.prompt("Choose an answer (word, letter, number; Enter: later)", default="", show_default=False)
    if not chosen.strip():
        return code  # the question stays open (C12)
    project.resume(chosen, feature_id=asked.get("feature_id"))
    return 0 if code == 3 else code


def _what_now(project: "FeatureProject") -> None:
    """Ask the user what to do with a project that is complete (UAH-484)."""
    forget_typed()
    chosen = click.prompt("Choose", default="e", type=click.Choice(["m", "a", "e"], case_sensitive=False))
    if chosen == "m":
        project.maintain()
    elif chosen == "a":
        show('To add a feature: harness add-feature "User can ..."')


@click.command(
    epilog="""\b
Examples:
  harness verify --feature 3
  harness verify --all""",
)
@click.option("--feature", "feature_id", type=int, metavar="N", help="Id of the feature.")
@click.option("--all", "everything", is_flag=True, help="Run the tests of every feature.")
@json_option
def verify(feature_id: int | None, everything: bool, as_json: bool) -> int:
    """Run the tests of one feature, or all tests, on a clean checkout of the work tree's content. No file changes."""
    if everything == (feature_id is not None):
        raise UsageError("Give --feature N or --all", hint="harness verify --help")
    project = opened(as_json)
    with screen(as_json=as_json).watching(project.now):
        found = project.verify_all() if feature_id is None else project.verify(feature_id)
    return answered(as_json, found, 0 if found["passed"] else 1)


def resume(choose: str | None, *, budget: float | None, feature_id: int | None, as_json: bool) -> int:
    with screen(as_json=as_json).watching(list):
        found = opened(as_json).resume(choose, budget_usd=budget, feature_id=feature_id)
    code = int(found.get("exit_code") or 0)
    if not as_json and found.get("next"):
        show(f"next: {found['next']}")
    return answered(as_json, found, code)


# ---- what happened, and why; reads only ------------------------------------------------------------------------------


LEVELS = ("critical", "important", "routine", "debug")
SOURCES = ("events", "decisions", "actions", "usage")


class LogGroup(click.Group):
    """Command group that also accepts ``--follow [ITEM]`` instead of a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--follow" in args:
            args = ["follow", *(each for each in args if each != "--follow")]
        return super().parse_args(ctx, args)


@click.group(
    cls=LogGroup,
    epilog="""\b
Examples:
  harness log --follow
  harness log --follow task-001
  harness log query "library" --since 2d
  harness log sessions --last 3""",
)
@click.option(
    "--follow",
    "_follow",
    is_flag=True,
    help="Print the last 20 log lines, then new lines. With ITEM, print only lines about this item.",
)
def log(_follow: bool) -> None:
    """Search the logs of a project. The command only reads, so it works while a session runs."""


@log.command(hidden=True, short_help="Follow the log.", epilog="Example:  harness log --follow 3 --json")
@click.argument("item", required=False)
@json_option
def follow(item: str | None, as_json: bool) -> int:
    """Print the last 20 log lines, then new lines as they are written. With ITEM, print only lines about this item.
    Stop with Ctrl-C."""
    from itertools import chain

    from agent_harness.views import follow as faces_follow
    from agent_harness.views import why
    from agent_harness.views.reading import followed_of, reader_of

    found = project_here()
    items = reader_of(found.kind, found.path).load() if item else None
    chosen = why.item_of(items, item) if items else None
    lines = faces_follow.FollowedLines(followed_of(found.kind, found.path), items.items if items else (), chosen)
    first = lines.last()
    if chosen and not first:
        show(f"The log has no lines about {chosen.name} yet. Waiting for new lines (Ctrl-C stops)", err=True)
    try:
        for row in chain(first, faces_follow.coming(lines)):
            if as_json:
                click.echo(json.dumps(row, ensure_ascii=False))
            else:
                show(faces_follow.line(row))
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass  # the reader has seen enough
    return 0


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
@click.option("--session", type=click.IntRange(0), metavar="N", help="Show only rows of session N.")
@click.option("--feature", type=int, metavar="N", help="Show only rows about this feature.")
@click.option("--item", metavar="ID", help="Show only rows about this feature or task.")
@click.option("--level", type=click.Choice(LEVELS), help="Show only rows of this level or a higher level.")
@click.option("--type", "types", cls=Several, metavar="NAME", help="Show only rows of this type.")
@click.option("--source", "sources", cls=Several, type=click.Choice(SOURCES), help="One log.")
@click.option(
    "--since", metavar="WHEN", help="Show only rows after WHEN: 30m, 2h or 3d ago, or a date or time (UTC by default)."
)
@click.option("--until", metavar="WHEN", help="Show only rows before WHEN, in the same form as for --since.")
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="Show the newest N rows. [default: 50]")
@click.option("--utc", is_flag=True, help="Show times in UTC instead of local time.")
@json_option
def query(
    *,
    text: str,
    session: int | None,
    feature: int | None,
    item: str | None,
    level: str | None,
    types: tuple[str, ...],
    sources: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int,
    utc: bool,
    as_json: bool,
) -> int:
    """Show the newest log rows that contain every word of TEXT, oldest first."""
    from agent_harness.kernel import root
    from agent_harness.session import log_rows

    fields: dict[str, Any] = {"session": session, "feature": feature, "item": item, "level": level, "types": types}
    here = root.find()
    if here is not None and here.kind != "features":
        if sources or feature is not None:
            raise UsageError(
                "--source and --feature work only in a project with features.json", hint="harness log query --item ID"
            )
        wanted = log_rows.wanted_of(text, since=since, until=until, **fields)
        found, lines = _rows_of(here, wanted, limit, utc=utc)
    else:
        from agent_harness.protocols.features import api

        found = api.log_query(_project(), text, since=since, until=until, sources=sources, limit=limit, **fields)
        lines = api.log_lines(found, utc=utc)
    show_answer(found, lines or ["No log row matches."], as_json=as_json)
    if found["more"] and not as_json:
        show(f"Older rows exist. To show them: --limit {limit * 4}", err=True)
    return 0


def _rows_of(here: "Root", wanted: "Filter", limit: int, *, utc: bool) -> "tuple[JsonObject, list[str]]":
    from agent_harness.session import log_rows
    from agent_harness.views.reading import log_rows_of

    fitting = (row for row in log_rows_of(here.kind, here.path) if wanted.fits(row))
    found = log_rows.newest([fitting], limit)
    return found, [log_rows.line(row, str(row.get("message") or ""), utc=utc) for row in found["rows"]]


@log.command(
    short_help="Summarize the last sessions.",
    epilog="""\b
Examples:
  harness log sessions
  harness log sessions --session 7 --json""",
)
@click.option("--last", type=click.IntRange(1), default=5, metavar="N", help="Show the last N sessions. [default: 5]")
@click.option("--session", type=click.IntRange(0), metavar="N", help="Show only session N.")
@json_option
def sessions(last: int, session: int | None, as_json: bool) -> int:
    """Summarize sessions. Show the result, cost, changed files, decisions and errors of each session."""
    from agent_harness.kernel import root
    from agent_harness.protocols.features import api

    here = root.find()
    if other := here if here and here.kind != "features" else None:
        found = _sessions_of(other, last + 1, session)
    else:
        found = api.log_sessions(_project(), last=last + 1, session=session)
    if is_more := session is None and len(found) > last:
        found = found[-last:]
    lines = [str(each.pop("line")) for each in found] if other else api.log_summary_lines(found)
    if is_more:
        lines.append(f"Older sessions exist. To show more: harness log sessions --last {4 * last}")
    show_answer({"sessions": found}, lines or ["No session has ended yet."], as_json=as_json)
    return 0


def _sessions_of(here: "Root", last: int, session: int | None) -> "list[JsonObject]":
    from agent_harness.views.reading import reader_of

    known = reader_of(here.kind, here.path).load().sessions
    found = [each for each in known if session in (None, each.number)]
    chosen = found[-last:] if session is None else found
    return [each.as_json() | {"line": each.line} for each in chosen]
