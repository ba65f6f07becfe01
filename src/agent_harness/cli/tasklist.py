"""Commands for task lists: add, drive, activate, deactivate, and the task-list part of init, run and resume."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from agent_harness.cli import say_json
from agent_harness.cli.machine.options import Several
from agent_harness.cli.status import has_hooks
from agent_harness.cli.tasks import open_list
from agent_harness.cli.terminal import Positive, json_option, root_option, show
from agent_harness.cli.verbs import parts
from agent_harness.errors import UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.terminal import printable
from agent_harness.protocols.tasklist.api import ADD, TaskList, read_lines


def answer(verb: str, found: JsonObject, *, as_json: bool, said: str) -> int:
    """Print the answer as JSON, or as a text line and the next command."""
    if as_json:
        say_json(verb, found)
    else:
        show(said)
        show(f"next: {found.get('next', 'harness status')}")
    return 0


@click.command(
    epilog="""\b
Examples:
  harness add "Add rate limiting" --priority P0 --validate "pytest -q tests/test_limit.py"
  harness add "Add OAuth" --depends task-001 --timeout 120
  harness add "Rework the checks" --validate "sh check.sh" --may-change check.sh
  harness add --from tasks.jsonl""",
)
@click.argument("title", required=False)
@click.option("--priority", type=click.Choice(["P0", "P1", "P2"]), help="Priority; P0 comes first. [default: P1]")
@click.option("--depends", cls=Several, metavar="IDS", help="Id of a task that must be completed first.")
@click.option("--validate", metavar="CMD", help="Command that checks the task; exit code 0 means done.")
@click.option("--timeout", type=Positive(1), metavar="S", help="Time limit of the check in seconds. [default: 300]")
@click.option(
    "--may-change",
    cls=Several,
    metavar="GLOB",
    help="Protected file that the work may change, although the check depends on it.",
)
@click.option(
    "--max-attempts", type=click.IntRange(1), metavar="N", help="Stop retrying after N failed attempts. [default: 3]"
)
@click.option("--cleanup", metavar="CMD", help="Command to run after a failed attempt.")
@click.option(
    "--from",
    "source",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="Add the tasks in FILE, one JSON object per line.",
)
@click.option("--no-try", is_flag=True, help="Do not run the check now to find out if it already passes.")
@root_option
@json_option
def add(title: str | None, source: Any, no_try: bool, root: str | None, as_json: bool, **options: Any) -> int:
    """Add a task. On a terminal, the command asks for missing values.

    The harness runs the task's check once, in the sandbox, on the last commit. If the check already passes, the harness
    prints a warning. In a git repository without a project, the command creates a task list in the repository's top
    folder.
    """
    begun = _new_list_at() if root is None else None
    task_list = None if begun else open_list(root=root)
    if source is not None:
        if title:
            raise UsageError("a title and --from FILE cannot be used together", hint="harness add --help")
        if given := next((name for name, value in options.items() if value not in (None, ())), None):
            option = f"--{given.replace('_', '-')}"
            raise UsageError(f"{option} and --from FILE cannot be used together; set it in FILE", hint=ADD)
        try:
            tasks = read_lines(source.read())
        except UnicodeDecodeError:
            raise UsageError(f"{source.name} is not UTF-8 text", hint="harness add --help") from None
    else:
        if not title or not title.strip():
            raise UsageError("a task needs a title", hint='harness add "what is to be done" --validate "pytest -q"')
        if sys.stdin.isatty() and sys.stdout.isatty() and not as_json and not any(options.values()):
            options = _asked()
        tasks = [_task(title, **options)]
    if task_list is None:
        task_list, found = TaskList.begin(str(begun), tasks)
    else:
        found = task_list.add(tasks)
    missing = [each for each in tasks if not (each.get("validation") or {}).get("command")]
    said = f"Made a task list in {begun}.\n" if begun else ""
    said += f"Added {', '.join(found['task_ids']) or 'nothing'}."
    if missing and found["task_ids"]:
        said += " Without a check the task cannot be completed:\n"
        said += f"  harness task set {found['task_ids'][0]} validation.command='…'"
    tried = task_list.tried([] if no_try else found["task_ids"])
    found["passes_already"] = [task_id for task_id, passes in tried.items() if passes]
    said += "".join(f"\n{_passes_already(each)}" for each in found["passes_already"][:5])
    if not task_list.active and has_hooks(task_list.layout.root):
        said += "\nHooks are off in this project. To turn them on: harness activate"
    return answer("add", found, as_json=as_json, said=said)


def _passes_already(task_id: str) -> str:
    return (
        f"The check of {task_id} already passes, before any work. Set a check that fails until the task is done:\n"
        f"  harness task set {task_id} validation.command='…'"
    )


def _new_list_at() -> Path | None:
    """Return the repository's top folder if a new list may be created in this folder, otherwise None."""
    from agent_harness.kernel import root
    from agent_harness.kernel.git import Git

    if root.find() is not None:
        return None
    git = Git(Path.cwd())
    if not git.is_repository or git.top() == Path.home().resolve():
        return None
    return git.top()


def _asked() -> JsonObject:
    found: JsonObject = {
        "priority": click.prompt("Priority", type=click.Choice(["P0", "P1", "P2"]), default="P1", show_choices=True),
        "depends": parts(click.prompt("Depends on (task ids, separated by commas)", default="", show_default=False)),
        "validate": click.prompt("Command that checks the task", default="", show_default=False),
    }
    if found["validate"]:
        found["timeout"] = click.prompt("Time limit of that command in seconds", type=Positive(1), default=300.0)
    return found


def _task(
    title: str,
    *,
    priority: str | None = None,
    depends: Sequence[str] = (),
    validate: str | None = None,
    timeout: float | None = None,
    may_change: tuple[str, ...] = (),
    max_attempts: int | None = None,
    cleanup: str | None = None,
) -> JsonObject:
    found: JsonObject = {"title": title}
    if priority:
        found["priority"] = priority
    if depends:
        found["depends_on"] = [*depends]
    if validate or timeout or may_change:
        proof: JsonObject = {"command": validate or None}
        found["validation"] = proof
        if timeout:
            proof["timeout_seconds"] = int(timeout) if timeout == int(timeout) else timeout
        if may_change:
            proof["may_change"] = [*may_change]
    if max_attempts:
        found["max_attempts"] = max_attempts
    if cleanup:
        found["on_failure"] = {"cleanup": cleanup}
    return found


@click.command(epilog="Example:  harness activate")
@root_option
@json_option
def activate(root: str | None, as_json: bool) -> int:
    """Make the hooks of agent clients act on this task list."""
    return answer("activate", open_list(root=root).activate(), as_json=as_json, said="Hooks are on in this project.")


@click.command(epilog="Example:  harness deactivate")
@root_option
@json_option
def deactivate(root: str | None, as_json: bool) -> int:
    """Make the hooks of agent clients ignore this task list. The list does not change."""
    found = open_list(root=root).deactivate()
    return answer("deactivate", found, as_json=as_json, said="Hooks are off in this project.")


# ---- shared commands on a task list --------------------------------------------------------------------------------


def init(folder: Path, *, as_json: bool, **options: Any) -> int:
    found = TaskList.init(str(folder), **options)
    said = f"Made {', '.join(found['created']) or 'nothing new'} in {found['root']}."
    if "set_aside" in found:
        said += f"\nAn earlier task list was here; its state is now in {found['set_aside']}."
    if found["kept"]:
        said += f" Not changed: {', '.join(found['kept'])}."
    if found["ignored_in"]:
        said += f"\nThe harness's own files are ignored in {found['ignored_in']}."
    return answer("init", found, as_json=as_json, said=said)


def resume(*, as_json: bool) -> int:
    found = open_list().resume()
    was = [word for word, there in (("the pause", found["was_paused"]), ("the halt", found["halt"])) if there]
    said = f"Ended {' and '.join(was)}." if was else "Nothing to resume."
    return answer("resume", found, as_json=as_json, said=said)


def workers_set() -> int | None:
    """Return the number of workers in the settings, or None for a run with one agent."""
    return open_list().workers


def run(*, agents: tuple[str, ...], wait: bool | None, now: bool, dry_run: bool, as_json: bool, **limits: Any) -> int:
    task_list = open_list()
    if dry_run:
        found = task_list.preview(**limits)
        found.pop("estimate_line")
        said = "\n".join([*map(printable, found.pop("lines")), "No changes made."])
        return answer("run", found, as_json=as_json, said=said)
    from agent_harness.cli.terminal import footer_of, patience, screen, summed_up

    footer = footer_of("tasklist", task_list.layout.root)
    view = screen(as_json=as_json)
    with view.watching(task_list.now, task_list.keep_said, footer), summed_up(task_list, view.say) as summary:
        done = task_list.run(
            agents=agents,
            policy=patience(wait, now, as_json=as_json, unattended=True),
            say=view.say,
            **limits,
        )
        summary.following, summary.done = done.get("hint") or done["next"], done
    if as_json:
        say_json("run", {**done, "ok": done["exit_code"] == 0})
    return int(done["exit_code"])


@click.command(
    epilog="Example:  harness drive -- claude 'Work on the harness task list: /harness run'",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option(
    "--times", type=click.IntRange(1), default=50, metavar="N", help="Start the client at most N times. [default: 50]"
)
@root_option
@json_option
def drive(command: tuple[str, ...], times: int, root: str | None, as_json: bool) -> int:
    """Start an agent client repeatedly in this terminal, until no task of the list is left to do.

    The command stops when the list is done, halted or paused, after three starts in a row without progress, or on
    Ctrl-C. While the client's account is rate limited, the command waits. `harness limits` shows until when.
    """
    task_list = open_list(root=root)
    from agent_harness.cli.terminal import screen

    view = screen(as_json=as_json)
    done = task_list.drive(command, times=times, say=view.say, countdown=view.countdown)
    if as_json:
        say_json("drive", done)
    return int(done["exit_code"])
