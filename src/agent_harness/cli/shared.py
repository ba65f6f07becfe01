"""Commands that work on every kind of project (init, run, resume, say), and ``harness projects``."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from agent_harness.cli import project_here
from agent_harness.cli.machine.options import Several
from agent_harness.cli.terminal import Positive, agent_option, json_option, now_option, show, show_answer, wait_option
from agent_harness.errors import Busy, HarnessError, NotAProject, Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_harness.kernel.json import JsonObject
    from agent_harness.kernel.root import Kind
    from agent_harness.kernel.trusted_state import Place
    from agent_harness.parallel.engine import EngineFactory


def kind_here(*, long_tasks: bool = False) -> "tuple[Kind, str]":
    """Return the kind and folder of the nearest project. Raise ``NotAProject`` for a long task unless ``long_tasks`` is
    True."""
    found = project_here()
    if found.kind == "longtask" and not long_tasks:
        raise NotAProject(f"{found.path} is a long task. Use the lth commands for it", hint="lth status .")
    return found.kind, found.path


def _refuse_another(folder: Path, wanted: str) -> None:
    from agent_harness.kernel import root

    found = root.find(str(folder), pin=False)
    if found and found.kind != wanted:
        raise Refused(
            f"{found.path} contains a {root.NAMES[found.kind]}. A {root.NAMES[wanted]} here would hide it",
            hint=f"cd {shlex.quote(found.path)} && {root.STATUS[found.kind]}  # or, for both: harness init --beside",
        )


@click.command(
    epilog="""\b
Examples:
  harness init .                                                 a task list in this folder
  harness init --spec SPEC.md --agent 'command:my-agent'         a project, planned from a specification
  harness init --adopt                                           a project, from existing code and tests""",
)
@click.argument("folder", metavar="[PATH]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--spec",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plan a feature project from this file, a specification in plain text.",
)
@click.option("--adopt", "adopts", is_flag=True, help="Create a feature project from the existing code and tests.")
@click.option("--allow-failing", is_flag=True, help="With --adopt: continue even if no test passes.")
@click.option(
    "--check", metavar="CMD", help="With --adopt: run the tests by this command. [default: found in the files]"
)
@agent_option
@click.option(
    "--mode", type=click.Choice(["exclusive", "concurrent"]), help="Task list: allow one worker, or several workers."
)
@click.option(
    "--max-tasks",
    type=click.IntRange(0),
    metavar="N",
    help="Task list: end a session after N completed or failed attempts; 0: no limit. [default: 20]",
)
@click.option(
    "--max-sessions",
    type=click.IntRange(0),
    metavar="N",
    help="Task list: maximum number of sessions; 0: no limit. [default: 50]",
)
@click.option("--with-init-sh", is_flag=True, help="Task list: also write a template of harness-init.sh.")
@click.option(
    "--gitignore/--no-gitignore",
    default=None,
    help="Task list: ignore harness files in .gitignore. [default: in .git/info/exclude]",
)
@click.option("--beside", is_flag=True, help="Continue even if this or a parent folder has a project of another kind.")
@json_option
def init(
    *,
    folder: Path | None,
    spec: Path | None,
    adopts: bool,
    allow_failing: bool,
    check: str | None,
    agents: tuple[str, ...],
    as_json: bool,
    mode: str | None,
    max_tasks: int | None,
    max_sessions: int | None,
    with_init_sh: bool,
    gitignore: bool | None,
    beside: bool,
) -> int:
    """Create a task list in PATH, or plan a feature project from a specification. No existing file is overwritten.

    A task list consists of harness-tasks.json, harness-progress.txt, and the marker that activates the hooks. For a
    feature project, an agent writes features.json. The harness checks and commits the file. With --adopt, no agent
    runs. Instead, the harness runs the test suite once, protects the passing tests, and records the failing tests as
    known. After an interruption, repeat the command to continue.
    """
    if adopts and spec is not None:
        raise UsageError("Give --adopt or --spec, not both", hint="harness init --help")
    if check and not adopts:
        raise UsageError("--check needs --adopt", hint="harness init --help")
    if not beside:
        _refuse_another(folder or Path.cwd(), "features" if adopts or spec else "tasklist")
    if adopts:
        from agent_harness.cli import features

        return features.adopt(folder or Path.cwd(), allow_failing=allow_failing, check=check or "", as_json=as_json)
    if spec is not None:
        from agent_harness.cli import features

        return features.init(folder or Path.cwd(), spec, agents=agents, as_json=as_json)
    if folder is None:
        raise UsageError(
            "harness init needs a folder (for a task list) or --spec FILE (for a feature project)",
            hint="harness init --help",
        )
    from agent_harness.cli import tasklist

    where = {True: "gitignore", False: "none", None: "exclude"}[gitignore]
    wanted = {"mode": mode, "max_tasks": max_tasks, "max_sessions": max_sessions}
    given = {name: value for name, value in wanted.items() if value is not None}
    return tasklist.init(folder, as_json=as_json, init_script=with_init_sh, gitignore=where, **given)


@click.command(
    epilog="""\b
Examples:
  harness run --dry-run
  harness run --until-done --agent scripted:script.yaml          feature project
  harness run --max-tasks 5 --agent 'command:my-agent'           task list""",
)
@click.option("--dry-run", is_flag=True, help="Show the next steps, and change nothing.")
@click.option("--until-done", is_flag=True, help="Feature project: run sessions until all features are proven.")
@click.option("--sessions", type=click.IntRange(1), metavar="N", help="Feature project: run at most N sessions.")
@click.option("--feature", "feature_id", type=int, metavar="N", help="Feature project: work on this feature.")
@click.option("--once", is_flag=True, help="Task list: run only one task.")
@click.option("--max-tasks", type=click.IntRange(1), metavar="N", help="Task list: run at most N attempts.")
@click.option(
    "--max-minutes",
    type=Positive(),
    metavar="M",
    help="Task list: limit each attempt to this many minutes. [default: 60]",
)
@click.option(
    "--max-cost", type=Positive(), metavar="USD", help="Task list: budget of this run in US dollars. [default: 10]"
)
@click.option(
    "--branch", metavar="NAME", help="Target branch of the parallel agents' work. [default: the current branch]"
)
@click.option(
    "--workers", type=click.IntRange(1, 256), metavar="N", help="Run N agents in parallel, each in its own workspace."
)
@click.option(
    "--engine", metavar="URL", envvar="HARNESS_ENGINE", help="Where workers run: temporal://HOST:PORT. [default: here]"
)
@click.option("--exchange", metavar="DIR", help="Use this folder, which all machines share, instead of a git remote.")
@agent_option
@wait_option
@now_option
@json_option
def run(
    *,
    dry_run: bool,
    until_done: bool,
    sessions: int | None,
    feature_id: int | None,
    once: bool,
    max_tasks: int | None,
    max_minutes: float | None,
    max_cost: float | None,
    branch: str | None,
    workers: int | None,
    engine: str | None,
    exchange: str | None,
    agents: tuple[str, ...],
    wait: bool | None,
    now: bool,
    as_json: bool,
) -> int:
    """Run agents: one session of a feature project, or one task after another of a task list. The harness verifies all
    work.

    If the provider of an agent refuses requests, the next --agent takes over. If there is no other agent, a run waits
    if it runs at a terminal, works on a task list, or has --until-done. Any other run ends. `harness limits` shows
    until when a provider refuses requests.

    Exit code: 0 done or saved cleanly, 1 rejected, 3 a person must decide, 4 refused before the agent, 5 busy, paused
    or rate limited, 7 nothing can be done now, 9 a limit is reached, 130 interrupted.
    """
    kind, folder = kind_here()
    engine_factory = _engine(engine, exchange, workers)
    if not dry_run:
        from agent_harness.views import begin_telling

        if said := begin_telling(kind, folder):
            show(said, err=True)
    common: dict[str, Any] = {"agents": agents, "now": now, "dry_run": dry_run, "as_json": as_json, "wait": wait}
    if kind == "features":
        from agent_harness.cli import features

        given = {"--max-tasks": max_tasks, "--max-minutes": max_minutes, "--max-cost": max_cost}
        _refuse({"--once": once, **given}, kind)
        _refuse_both("--feature", feature_id is not None, workers)
        own: dict[str, Any] = {"until_done": until_done, "sessions": sessions, "feature_id": feature_id}
        common |= {"workers": workers, "branch": branch, "engine_factory": engine_factory}
        return features.run(**common, **own)
    from agent_harness.cli import tasklist

    _refuse({"--sessions": sessions, "--feature": feature_id is not None}, kind)
    _refuse_both("--once", once, workers)
    workers = workers or (None if once else tasklist.workers_set())
    if not workers:
        _refuse_without_workers(branch, engine_factory)
    limits: dict[str, Any] = {
        "max_tasks": 1 if once else max_tasks,
        "max_minutes": max_minutes,
        "max_cost_usd": max_cost,
        "workers": workers,
        "branch": branch,
        "engine_factory": engine_factory,
    }
    given = {name: value for name, value in limits.items() if value is not None}
    common["wait"] = False if once and wait is None else wait
    return tasklist.run(**common, **given)


def _refuse_both(option: str, is_given: bool, workers: int | None) -> None:
    if is_given and workers:
        raise UsageError(f"{option} and --workers cannot be used together", hint="harness run --help")


def _refuse_without_workers(branch: str | None, engine_factory: object) -> None:
    if branch is not None:
        raise UsageError("--branch needs --workers", hint="harness run --help")
    if engine_factory is not None:
        raise UsageError("--engine needs --workers", hint="harness run --workers 4 --engine URL")


def _was_typed(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _engine(url: str | None, exchange: str | None, workers: int | None) -> "EngineFactory | None":
    """Return a function that creates the remote engine, or None if the run uses no remote engine."""
    factory = None
    if url and (workers or _was_typed("engine")):
        from functools import partial

        from agent_harness.engines import engine_for
        from agent_harness.engines.address import address_of, with_exchange

        url = url if exchange is None else with_exchange(url, exchange)
        factory = None if address_of(url) is None else partial(engine_for, url)
    if exchange is not None and factory is None:
        raise UsageError("--exchange needs --engine", hint="harness run --workers 4 --engine URL --exchange DIR")
    return factory


def _refuse(given: dict[str, object], kind: str) -> None:
    wrong = [name for name, value in given.items() if value]
    if wrong:
        here, other = ("feature project", "task list")[:: 1 if kind == "features" else -1]
        raise UsageError(f"{wrong[0]} works only in a {other}; this is a {here}", hint="harness run --help")


@click.command(
    epilog="""\b
Examples:
  harness resume
  harness resume --choose retry
  harness resume --choose increase --budget 20
  harness resume --choose accept-change --feature 3""",
)
@click.option(
    "--choose", metavar="WORD", help="Feature project: answer the pending question with a word, letter or number."
)
@click.option(
    "--budget",
    type=Positive(),
    metavar="USD",
    help="Feature project: the new budget in US dollars, with --choose increase.",
)
@click.option(
    "--feature", "feature_id", type=int, metavar="N", help="Feature project: answer the question about feature N."
)
@json_option
def resume(choose: str | None, budget: float | None, feature_id: int | None, as_json: bool) -> int:
    """Answer the question that stopped a feature project, or end its pause. On a task list, end a pause or a halt.

    No session starts.
    """
    kind, _ = kind_here()
    if kind == "features":
        from agent_harness.cli import features

        return features.resume(choose, budget=budget, feature_id=feature_id, as_json=as_json)
    from agent_harness.cli import tasklist

    _refuse({"--choose": choose, "--budget": budget, "--feature": feature_id}, kind)
    return tasklist.resume(as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  harness say "Use SQLite, not a file."
  harness say "Leave the old API as it is." --json
  harness say --to w2 "Mind the time zones."      one of several agents
  harness say --to task-003 "Mind the time zones." """,
)
@click.argument("text")
@click.option(
    "--to", metavar="SLOT|ITEM", help="Send to the agent in this slot or on this item, if several agents run."
)
@json_option
def say(text: str, to: str | None, as_json: bool) -> int:
    """Send a message to the running agent. If the agent's client supports this, the agent gets the message in its
    current turn. Otherwise, the agent gets the message with its next prompt.

    If no session runs, the next session gets the message. A message for an ITEM on which no agent works goes to that
    item's next session. The harness records the message. A message counts against no limit.
    """
    from agent_harness.views import user_messages

    kind, folder = kind_here(long_tasks=True)
    left = user_messages.say(kind, folder, text, by=user_messages.user(), to=to)
    message = left.message
    told = {"text": message.text, "by": message.by, "at": message.at, "to": left.to, "told": left.when}
    show_answer({"verb": "say", **told}, [left.sentence], as_json=as_json)
    return 0


# ---- all projects of this user ---------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  harness projects
  harness projects --forget ~/old-shop""",
)
@click.option("--forget", cls=Several, metavar="PATH", help="Remove the stored state of a deleted project.")
@json_option
def projects(forget: tuple[str, ...], as_json: bool) -> int:
    """List the task lists, feature projects and long tasks on which you have used the harness.

    A project is listed after its first session or task, or if it is in fleet.yaml. A project that was moved or deleted
    is listed as gone. With --forget, the harness deletes the data that it stores about a deleted project. An existing
    project cannot be forgotten.
    """
    from agent_harness.kernel import trusted_state

    forgotten = [folder for path in forget for folder in _forget(path, trusted_state.places())]
    places = trusted_state.places()
    of_fleet, problems = _of_fleet({each.path for each in places})
    rows = [_row(each) for each in (*places, *of_fleet)]
    lines = [*(f"Removed {folder}" for folder in forgotten), *_project_lines(rows), *problems]
    show_answer({"projects": rows, "forgotten": forgotten, "problems": problems}, lines, as_json=as_json)
    return 0


def _of_fleet(known: "set[str | None]") -> "tuple[list[Place], list[str]]":
    from agent_harness.fleet import roster
    from agent_harness.kernel.trusted_state import Place

    if not os.path.lexists(roster.usual_file()):
        return [], []
    try:
        found = roster.read(roster.usual_file())
    except HarnessError as error:  # which hides no project that is known otherwise
        return [], [error.message]
    problems = [each for each in found.problems if not any(each.endswith(f": {path} is gone") for path in known)]
    return [
        Place("", each.path, cast("Kind", each.kind), "") for each in found.members if each.path not in known
    ], problems


def _forget(path: str, places: "Sequence[Place]") -> list[str]:
    from agent_harness.kernel import owner, trusted_state
    from agent_harness.session import now

    named = {os.path.abspath(path), os.path.realpath(path)}
    found = [each for each in places if each.path in named or each.folder in named]
    if not found:
        raise UsageError(f"No state is stored for {path}", hint="harness projects")
    gone = [each for each in found if each.gone] or found[:1]
    for each in gone:
        owner.refuse_agents(each.path or each.folder, "harness projects --forget")
        if now.running(each.folder):
            raise Busy(f"A session of the project in {each.path} is still running", hint="harness projects")
        trusted_state.forget(each)
    return [each.folder for each in gone]


def _row(place: "Place") -> "JsonObject":
    from agent_harness.views import reading

    state, gaps = None, list["JsonObject"]()
    if place.path and not place.gone:
        try:
            found = reading.reader_of(str(place.kind), place.path).load()
            state, gaps = found.line, [{"file": each.file, "why": each.why} for each in found.gaps]
        except HarnessError as error:  # settings with the path of the state are unreadable
            state, gaps = "cannot be read", [{"file": ".harness.yaml", "why": error.message}]
    return {
        "path": place.path,
        "kind": place.kind,
        "seen": place.seen,
        "gone": place.gone,
        "state": state,
        "gaps": gaps,
        "state_folder": place.folder or None,
    }


def _project_lines(rows: "list[JsonObject]") -> list[str]:
    from agent_harness.kernel import root

    there = [row for row in rows if row["path"] and not row["gone"]]
    lines = [f"{root.NAMES[row['kind']]:<15}  {_day(row['seen'])}  {row['path']}  {row['state']}" for row in there]
    for row in (row for row in rows if row["gone"]):
        lines.append(f"Gone: {row['path']} ({root.NAMES[row['kind']]}, seen {_day(row['seen'])})")
        lines.append(f"next: harness projects --forget {shlex.quote(row['path'])}")
    lines += [f"Of an unknown project: {row['state_folder']}" for row in rows if not row["path"]]
    return lines or ["No projects yet. To begin: harness setup"]


def _day(at: str) -> str:
    from agent_harness.kernel import clock

    found = clock.parse(at)
    return found.astimezone().strftime("%Y-%m-%d") if found else "?"
