"""The commands of a feature project: init, run, status, verify, resume."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_harness.protocols.features.api import FeatureProject

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
agent_option = click.option(
    "--agent", metavar="SPEC", help="Which agent: a kind, scripted:FILE, or command:WORDS. See also HARNESS_AGENT."
)


def _say(as_json: bool) -> Callable[[str], None]:
    """Lines for a person: on stdout, or on stderr when stdout holds the JSON answer.

    Whoever reads them may go away; the session does not end for that.
    """

    def say(line: str) -> None:
        with suppress(OSError, ValueError, AttributeError):
            click.echo(line, err=as_json)

    return say


def _answer(as_json: bool, ok: bool, fields: dict[str, Any]) -> None:
    if as_json:
        click.echo(json.dumps({"ok": ok, **fields}, ensure_ascii=False, default=str))


def _open(as_json: bool) -> "FeatureProject":
    from agent_harness.cli.status import find_layout
    from agent_harness.protocols.features.api import FeatureProject

    return FeatureProject.open(Path(find_layout().root), say=_say(as_json))


@click.command(
    epilog="Example:  harness init --spec SPEC.md --agent 'command:my-agent --headless'",
    short_help="Plan a new project.",
)
@click.option("--spec", required=True, type=click.Path(path_type=Path), metavar="FILE", help="What to build, in prose.")
@agent_option
@as_json_option
def init(spec: Path, agent: str | None, as_json: bool) -> int:
    """Plan a new project from a specification: features, test stubs, scripts, and one commit.

    The initializer session writes features.json; the harness checks it, gives the agent one turn to mend it, and
    commits. The folder is the current one; it becomes a git repository if it is none.
    """
    from agent_harness.protocols.features.api import FeatureProject

    answer = FeatureProject.init(Path.cwd(), spec, agent_spec=agent, say=_say(as_json))
    _answer(as_json, True, answer)
    return 0


@click.command(
    epilog="Examples:  harness run --dry-run   |   harness run --until-done --agent scripted:script.yaml",
    short_help="Run the next session.",
)
@click.option("--dry-run", is_flag=True, help="Show what the next session would get; change nothing.")
@click.option("--until-done", is_flag=True, help="Session after session, until all is proven or a person is needed.")
@click.option("--sessions", type=click.IntRange(1), metavar="N", help="At most N sessions.")
@agent_option
@as_json_option
def run(dry_run: bool, until_done: bool, sessions: int | None, agent: str | None, as_json: bool) -> int:
    """Run one session on the next feature: preflight, agent, independent verification, commit or way back.

    Exit code: 0 accepted or handed off cleanly, 1 rejected, 3 a person must decide, 4 refused before the agent,
    5 another harness is running, 9 a budget is used up, 130 interrupted.
    """
    project = _open(as_json)
    if dry_run:
        _answer(as_json, True, project.preview())
        return 0
    limit = sessions or (None if until_done else 1)
    answer = project.run(agent_spec=agent, max_sessions=limit, until_done=until_done)
    _answer(as_json, answer["exit_code"] == 0, answer)
    return int(answer["exit_code"])


@click.command(short_help="Say where the project stands.")
@as_json_option
def status(as_json: bool) -> int:
    """Say where the project stands: features, last session, what comes next, costs, health. Reads only."""
    from agent_harness.cli import status as fast

    return fast.main(as_json)


@click.command(epilog="Example:  harness verify --feature 3", short_help="Run one feature's tests.")
@click.option("--feature", "feature_id", required=True, type=int, metavar="N", help="The feature's id.")
@as_json_option
def verify(feature_id: int, as_json: bool) -> int:
    """Run one feature's tests on a clean checkout of the work tree's content; report, change nothing."""
    answer = _open(as_json).verify(feature_id)
    _answer(as_json, answer["passed"], answer)
    return 0 if answer["passed"] else 1


@click.command(epilog="Example:  harness resume --choose retry", short_help="Answer a stored question.")
@click.option("--choose", metavar="WORD", help="The answer, as a word or its letter.")
@as_json_option
def resume(choose: str | None, as_json: bool) -> int:
    """Answer the question that stopped the runs, so that `harness run` goes on."""
    answer = _open(as_json).resume(choose)
    _answer(as_json, True, answer)
    return 0
