"""What the commands do on a feature project: init, run, verify, resume."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_harness.protocols.features.api import FeatureProject

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


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


def init(folder: Path, spec: Path, *, agent: str | None, as_json: bool) -> int:
    """Plans a new project from a specification."""
    from agent_harness.protocols.features.api import FeatureProject

    answer = FeatureProject.init(folder, spec, agent_spec=agent, say=_say(as_json))
    _answer(as_json, True, answer)
    return 0


def run(*, dry_run: bool, until_done: bool, sessions: int | None, agent: str | None, as_json: bool) -> int:
    """Runs the next session, or sessions until all is proven."""
    project = _open(as_json)
    if dry_run:
        _answer(as_json, True, project.preview())
        return 0
    limit = sessions or (None if until_done else 1)
    answer = project.run(agent_spec=agent, max_sessions=limit, until_done=until_done)
    _answer(as_json, answer["exit_code"] == 0, answer)
    return int(answer["exit_code"])


@click.command(epilog="Example:  harness verify --feature 3", short_help="Run one feature's tests.")
@click.option("--feature", "feature_id", required=True, type=int, metavar="N", help="The feature's id.")
@as_json_option
def verify(feature_id: int, as_json: bool) -> int:
    """Run one feature's tests on a clean checkout of the work tree's content; report, change nothing."""
    answer = _open(as_json).verify(feature_id)
    _answer(as_json, answer["passed"], answer)
    return 0 if answer["passed"] else 1


def resume(choose: str | None, *, as_json: bool) -> int:
    """Answers the question that stopped the runs."""
    answer = _open(as_json).resume(choose)
    _answer(as_json, True, answer)
    return 0
