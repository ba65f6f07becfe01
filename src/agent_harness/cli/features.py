"""What the commands do on a feature project: init, run, verify, resume."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli.click_options import json_option, say_to
from agent_harness.cli.terminal.countdown import patience
from agent_harness.errors import UsageError

if TYPE_CHECKING:
    from agent_harness.protocols.features.api import FeatureProject


def answer(as_json: bool, ok: bool, fields: dict[str, Any]) -> None:
    """One JSON object on stdout, where it is wanted."""
    if as_json:
        click.echo(json.dumps({"ok": ok, **fields}, ensure_ascii=False, default=str))


def opened(as_json: bool) -> "FeatureProject":
    """The project at or above the working directory."""
    from agent_harness.cli.status import find_layout
    from agent_harness.protocols.features.api import FeatureProject

    return FeatureProject.open(Path(find_layout().root), say=say_to(as_json=as_json))


def init(folder: Path, spec: Path, *, agents: tuple[str, ...], as_json: bool) -> int:
    """Plans a new project from a specification."""
    from agent_harness.protocols.features.api import FeatureProject

    found = FeatureProject.init(folder, spec, agents=agents, say=say_to(as_json=as_json))
    answer(as_json, True, found)
    return 0


def adopt(folder: Path, *, as_json: bool) -> int:
    """Makes a feature project of a repository that has code and tests."""
    from agent_harness.protocols.features.api import FeatureProject

    answer(as_json, True, FeatureProject.adopt(folder, say=say_to(as_json=as_json)))
    return 0


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
) -> int:
    """Runs the next session, sessions until all is proven, or sessions on one feature."""
    project = opened(as_json)
    if dry_run:
        answer(as_json, True, project.preview(feature_id))
        return 0
    limit = sessions or (None if until_done else 1)
    found = project.run(
        agents=agents,
        patience=patience(wait, now, as_json=as_json, unattended=until_done),
        max_sessions=limit,
        until_done=until_done,
        feature_id=feature_id,
    )
    answer(as_json, found["exit_code"] == 0, found)
    code = int(found["exit_code"])
    if as_json or not _somebody_is_there():
        return code
    if found.get("complete"):
        _what_now(project)
    return _answered_now(project, code) if found.get("escalation") else code


def _somebody_is_there() -> bool:
    """Whether a person sits at a terminal; a closed stream is nobody."""
    return all(stream is not None and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _answered_now(project: "FeatureProject", code: int) -> int:
    """Lets the person at the terminal answer the question at once; the exit code. Enter leaves it stored (C12)."""
    chosen = click.prompt("Choose (a word, its letter or number; Enter: later)", default="", show_default=False)
    if not chosen.strip():
        return code
    project.resume(chosen)
    return 0 if code == 3 else code


def _what_now(project: "FeatureProject") -> None:
    """Asks the person at the terminal what is to become of a project that is complete (UAH-484)."""
    chosen = click.prompt("Choose", default="e", type=click.Choice(["m", "a", "e"], case_sensitive=False))
    if chosen == "m":
        project.maintain()
    elif chosen == "a":
        click.echo('Add one with: harness add-feature "User can ..."')


@click.command(
    short_help="Run a feature's tests, or all.",
    epilog="""\b
Examples:
  harness verify --feature 3
  harness verify --all""",
)
@click.option("--feature", "feature_id", type=int, metavar="N", help="The feature's id.")
@click.option("--all", "everything", is_flag=True, help="The whole suite, feature by feature.")
@json_option
def verify(feature_id: int | None, everything: bool, as_json: bool) -> int:
    """Run one feature's tests, or all tests, on a clean checkout of the work tree's content; report, change nothing."""
    if everything == (feature_id is not None):
        raise UsageError("Give --feature N or --all", hint="harness verify --help")
    project = opened(as_json)
    found = project.verify_all() if feature_id is None else project.verify(feature_id)
    answer(as_json, found["passed"], found)
    return 0 if found["passed"] else 1


def resume(choose: str | None, *, budget: float | None, as_json: bool) -> int:
    """Ends a pause, answers the question that stopped the runs."""
    found = opened(as_json).resume(choose, budget_usd=budget)
    answer(as_json, True, found)
    return 0
