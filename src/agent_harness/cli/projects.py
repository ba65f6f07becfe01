"""Commands that manage a project without running it: pause, skip, override, undo, take-over, hand-back and others."""

import json
import sys
from pathlib import Path

import click

from agent_harness.cli import features
from agent_harness.cli.features import answered
from agent_harness.cli.machine.options import Several
from agent_harness.cli.terminal import (
    agent_option,
    ask,
    footer_of,
    json_option,
    now_option,
    patience,
    root_option,
    say_to,
    screen,
    show,
    summed_up,
    wait_option,
)

yes_option = click.option("--yes", is_flag=True, help="Answer every question with yes.")
feature_option = click.option(
    "--feature", "feature_id", required=True, type=int, metavar="N", help="Id of the feature."
)


@click.command(
    epilog="""\b
Examples:
  harness pause
  harness pause "I am reviewing" """,
)
@click.argument("why", default="")
@root_option
@json_option
def pause(why: str, root: str | None, as_json: bool) -> int:
    """Pause a project or a task list until `harness resume`.

    A running session ends after its current operation. Its work is kept for the next session.
    """
    from agent_harness.cli import shared, tasklist

    if root is not None or shared.kind_here()[0] == "tasklist":
        return tasklist.answer("pause", tasklist.open_list(root=root).pause(why), as_json=as_json, said="Paused.")
    return answered(as_json, features.opened(as_json).pause(why or None))


@click.command(
    epilog="""\b
Examples:
  harness skip --feature 3 --reason "waits for the new API"
  harness skip --feature 3 --undo""",
)
@feature_option
@click.option("--reason", metavar="TEXT", help="Reason for the skip. The reason is stored in features.json.")
@click.option("--undo", is_flag=True, help="Include a skipped feature again.")
@json_option
def skip(feature_id: int, reason: str | None, undo: bool, as_json: bool) -> int:
    """Exclude a feature from all sessions, in one commit. Features that depend on the skipped feature stay blocked.

    The harness removes unfinished work on the feature from the branch, and keeps it in a rescue ref. No session starts.
    """
    return answered(as_json, features.opened(as_json).skip(feature_id, reason, undo=undo))


@click.command(
    epilog="Example:  harness override --feature 3 --passes true",
)
@feature_option
@click.option(
    "--passes", required=True, type=click.Choice(["true", "false"]), help="true: mark as passing; false: mark as open."
)
@yes_option
@json_option
def override(feature_id: int, passes: str, yes: bool, as_json: bool) -> int:
    """Mark a feature as passing or as open by your own decision, in one commit. Without a terminal, add --yes."""
    project = features.opened(as_json)
    if not ask(yes=yes, default_shown="y/N")("WARNING: This bypasses verification. Are you sure?"):
        return declined(as_json)
    return answered(as_json, project.override(feature_id, passes=passes == "true"))


@click.command(
    epilog="""\b
Examples:
  harness undo 3 --dry-run
  harness undo task-003
  harness undo S8                    the work that session 8 got accepted""",
)
@click.argument("what", metavar="ITEM|SESSION")
@click.option("--dry-run", is_flag=True, help="Show the changes. Change nothing, and run no test.")
@yes_option
@json_option
def undo(what: str, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Revert an accepted feature or task. Name the item by its id, or by the session whose work was accepted (S8).

    First, the harness runs the test suite, or the checks of the completed tasks, without the item's work. Then the
    harness reverts the work in one new commit, and the item is open again. The history is not rewritten.

    The undo is refused if another item's check would fail, if later work changed the same lines, or if the undo would
    change uncommitted files. An undo cannot be undone, but `harness run` works on the item again. Without a terminal,
    add --yes.
    """
    from agent_harness.cli import shared, tasklist

    if shared.kind_here()[0] == "tasklist":
        task_list = tasklist.open_list()
        if not dry_run and not ask(yes=yes)(f"Undo {task_list.accepted(what)}?"):
            return declined(as_json)
        found = task_list.undo(what, dry_run=dry_run, say=say_to(as_json=as_json))
        return tasklist.answer("undo", found, as_json=as_json, said="Nothing was changed." if dry_run else "Done.")
    project = features.opened(as_json)
    if not dry_run and not ask(yes=yes)(f"Undo {project.accepted(what)}?"):
        return declined(as_json)
    return answered(as_json, project.undo(what, dry_run=dry_run))


@click.command("manual-verify", epilog="Example:  harness manual-verify --feature 3")
@feature_option
@yes_option
@json_option
def manual_verify(feature_id: int, yes: bool, as_json: bool) -> int:
    """Verify a feature manually and record the result as a commit. Without a terminal, add --yes."""
    found = features.opened(as_json).manual_verify(feature_id, ask(yes=yes))
    return answered(as_json, found, 0 if found["recorded"] else 1)


@click.command(epilog="Example:  harness take-over")
@json_option
def handoff(as_json: bool) -> int:
    """Take over the project yourself: no session starts until `harness hand-back`."""
    return answered(as_json, features.opened(as_json).handoff())


@click.command(epilog="Example:  harness hand-back")
@yes_option
@json_option
def takeback(yes: bool, as_json: bool) -> int:
    """Return the project to the harness. The harness counts your commits and runs the feature's tests. Then it asks you
    if the feature passes.

    No session starts.
    """
    return answered(as_json, features.opened(as_json).takeback(ask(yes=yes)))


@click.command(epilog="Example:  harness abort --yes")
@yes_option
@json_option
def abort(yes: bool, as_json: bool) -> int:
    """End running work and move the harness's state aside. Commits, logs and costs are kept.

    `harness resume` starts again from features.json.
    """
    from agent_harness.protocols.features.api import ABORT_WARNING

    project = features.opened(as_json)
    show(ABORT_WARNING, err=as_json)
    if not ask(yes=yes, default_shown="y/N")("Confirm"):
        return declined(as_json)
    return answered(as_json, project.abort())


def declined(as_json: bool) -> int:
    if not as_json:
        show(
            "Nothing was changed."
            if sys.stdin.isatty()
            else "Nothing was changed, because there is no terminal to ask for confirmation. Add --yes."
        )
    return answered(as_json, {"confirmed": False, "changed": False}, 1)


@click.command(epilog="Example:  harness health")
@json_option
def health(as_json: bool) -> int:
    """Measure features, tests, lint and file sizes on a clean checkout of the work tree's content. No file changes."""
    with screen(as_json=as_json).watching(list):
        found = features.opened(as_json).health()
    return answered(as_json, found)


@click.command(
    "add-feature",
    epilog="""\b
Examples:
  harness add-feature "User can take the remainder"
  harness add-feature "Report as CSV" --depends-on 6 --step "Export" --step "Compare"
  harness add-feature "Split calc.py in two" --no-requires-red --priority 1
  harness add-feature "A dark theme" --verification hybrid --manual-check "The contrast is enough"
""",
)
@click.argument("description")
@click.option("--category", metavar="WORD", help="Category of the feature. [default: core]")
@click.option(
    "--test-file",
    metavar="FILE",
    help="Test file. With pytest, the default is named after the feature, next to the other tests.",
)
@click.option("--step", "steps", multiple=True, metavar="TEXT", help="A verification step. The option may be repeated.")
@click.option(
    "--depends-on",
    "depends_on",
    cls=Several,
    type=int,
    metavar="N",
    help="Id of a feature that must be completed first.",
)
@click.option(
    "--priority",
    type=int,
    metavar="N",
    help="Features with a lower number come first; those without a number come last.",
)
@click.option(
    "--size",
    type=click.Choice(["small", "medium", "large", "xlarge"]),
    help="Size of the feature. [default: from the number of steps]",
)
@click.option(
    "--requires-red/--no-requires-red",
    default=True,
    help="Require that the feature's tests fail without the work (default), or allow tests that pass, as in a "
    "refactoring.",
)
@click.option(
    "--verification",
    type=click.Choice(["automated", "hybrid", "manual"]),
    help="How the feature is verified. [default: automated]",
)
@click.option(
    "--automated-check", "automated_checks", multiple=True, metavar="TEXT", help="A check that the agent performs."
)
@click.option(
    "--manual-check",
    "manual_checks",
    multiple=True,
    metavar="TEXT",
    help="A check that a person performs; for --verification hybrid or manual.",
)
@click.option(
    "--visual-step",
    "visual_steps",
    multiple=True,
    metavar="TEXT",
    help="A step that checks the feature in a browser. The option may be repeated.",
)
@click.option(
    "--may-change",
    cls=Several,
    metavar="GLOB",
    help="A protected file (older tests, conftest.py, test settings) that the feature's sessions may change.",
)
@json_option
def add_feature(
    *,
    description: str,
    category: str | None,
    test_file: str | None,
    steps: tuple[str, ...],
    depends_on: tuple[int, ...],
    priority: int | None,
    size: str | None,
    requires_red: bool,
    verification: str | None,
    automated_checks: tuple[str, ...],
    manual_checks: tuple[str, ...],
    visual_steps: tuple[str, ...],
    may_change: tuple[str, ...],
    as_json: bool,
) -> int:
    """Add a feature after the last feature, in one commit. With pytest, also create a failing test stub. No session
    starts."""
    found = features.opened(as_json).add_feature(
        description,
        category=category,
        test_file=test_file,
        steps=steps,
        depends_on=depends_on,
        priority=priority,
        size=size,
        requires_red=requires_red,
        verification_type=verification,
        automated_checks=automated_checks,
        manual_checks=manual_checks,
        visual_steps=visual_steps,
        may_change=may_change,
    )
    return answered(as_json, found)


@click.command(
    epilog="""\b
Examples:
  harness config
  harness config --show-origin
  harness config costs""",
)
@click.argument("key", required=False)
@click.option("--show-origin", is_flag=True, help="Show the source of each value: default, file, environment.")
@json_option
def config(key: str | None, show_origin: bool, as_json: bool) -> int:
    """Show all settings of the project with their values, or only those of one section or key."""
    from agent_harness.errors import UsageError
    from agent_harness.protocols.features import api

    settings = api.settings(api.find().root)
    rows = [row for row in settings.rows() if key is None or row[0] == key or row[0].startswith(f"{key}.")]
    if not rows:
        raise UsageError(f"There is no setting {key!r}", hint="harness config")
    if as_json:
        found = [{"key": name, "value": value, "origin": origin} for name, value, origin in rows]
        return answered(True, {"settings": found, "warnings": list(settings.warnings)})
    for name, value, origin in rows:
        shown = "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
        show(f"{f'{origin:<12}' if show_origin else ''}{name}: {shown}".rstrip())
    for warning in settings.warnings:
        show(f"Warning: {warning}", err=True)
    return 0


@click.command(epilog="Example:  harness version")
@json_option
def version(as_json: bool) -> int:
    """Show the versions of the harness, its state format, and this project's state. No file changes."""
    from agent_harness.errors import NotAProject
    from agent_harness.protocols.features import api

    try:
        found = features.opened(as_json).version()
    except NotAProject:
        found = api.version()
    if not as_json:
        show(f"Harness version: {found['harness_version']}\nSchema version: {found['schema_version']}")
        show(f"Project state schema: {found['state_schema'] or 'none'}\nStatus: {found['status']}")
        if found["migration_needed"]:
            show("\nTo upgrade:\n  harness migrate    now, with a backup\n  harness run        migrates first")
    return answered(as_json, found)


@click.command(
    epilog="""\b
Examples:
  harness migrate
  harness migrate --no-backup""",
)
@click.option("--no-backup", is_flag=True, help="Convert the state without keeping a copy of the old state.")
@json_option
def migrate(no_backup: bool, as_json: bool) -> int:
    """Convert the project state of an older harness to this version. The harness keeps a copy of the old state."""
    return answered(as_json, features.opened(as_json).migrate(backup=not no_backup))


@click.command(epilog="Example:  harness cleanup --agent 'command:my-agent'")
@agent_option
@wait_option
@now_option
@json_option
def cleanup(agents: tuple[str, ...], wait: bool | None, now: bool, as_json: bool) -> int:
    """Run one session that reduces large files, lint errors and duplication, but changes no functionality. The exit
    codes are those of `harness run`."""
    project = features.opened(as_json)
    view, footer = screen(as_json=as_json), footer_of("features", project.layout.root)
    with view.watching(project.now, project.keep_said, footer), summed_up(project, view.say) as summary:
        found = project.cleanup(agents=agents, policy=patience(wait, now, as_json=as_json))
        summary.following, summary.done = found.get("next") or project.next_command(), found
    return answered(as_json, found, int(found["exit_code"]))


@click.command(epilog="Example:  harness end-maintenance")
@json_option
def stop(as_json: bool) -> int:
    """End the maintenance mode of a completed project. To end a session, use `harness pause`."""
    return answered(as_json, features.opened(as_json).stop())


@click.command(
    "plan-features",
    epilog="Example:  harness plan-features --spec MORE.md --agent 'command:my-agent'",
)
@click.option(
    "--spec",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File that describes the new features in plain text.",
)
@agent_option
@json_option
def add_features(spec: Path, agents: tuple[str, ...], as_json: bool) -> int:
    """Let an agent plan more features, each with a failing test stub. If the agent changes anything else, the harness
    rolls the plan back."""
    project = features.opened(as_json)
    with screen(as_json=as_json).watching(project.now, project.keep_said):
        found = project.add_features(spec, agents=agents)
    return answered(as_json, found)
