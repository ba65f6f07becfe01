"""The verbs of a task list that agents call: ``harness task …``, ``harness session …``, ``harness rescue …``.

They answer with one JSON object on stdout, ``--text`` for people. Source: ``tasklist.md`` 13.3.
"""

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.api import TaskList

Record = dict[str, Any]

CATEGORIES = ("ENV_SETUP", "CONFIG", "TASK_EXEC", "TEST_FAIL", "TIMEOUT", "DEPENDENCY", "SESSION_TIMEOUT")
_SAID = ("rescues", "tasks", "pruned")  # also when there are none
_LONG = ("task", "validation", "stats", "plan", "tail", "files", "recovered", "tasks", "rescues", "pruned")


class Positive(click.FloatRange):
    """A finite number above 0, or from ``least`` on."""

    def __init__(self, least: float | None = None) -> None:
        super().__init__(min=least or 0, min_open=least is None)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not number < float("inf"):
            self.fail(f"{value} is no number that can be waited for.", param, ctx)
        return number


WHO = (
    click.option("--root", metavar="DIR", help="Where the task list is; else looked for upwards from here."),
    click.option("--worker", metavar="ID", help="Else HARNESS_WORKER_ID."),
    click.option("--session", metavar="ID", help="Else HARNESS_SESSION_ID, else the program that calls."),
    click.option("--token", metavar="TOKEN", help="The claim's token; else HARNESS_CLAIM_TOKEN."),
    click.option("--lock-timeout", type=Positive(), default=5.0, metavar="S", help="Seconds to wait for the lock."),
    click.option("--now", metavar="ISO", hidden=True, help="For tests: the time that it is."),
    click.option("--text", is_flag=True, help="Answer for people."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object; the default here."),
)

TASK_ID = click.argument("task_id", metavar="ID")
LEASE = click.option("--lease", type=Positive(), default=1800.0, metavar="S", help="Seconds, 1800.")
PUSHED = click.option("--allow-pushed", is_flag=True, help="Also go back over commits that were pushed.")


def verb(name: str) -> Callable[[Callable[..., Record]], Callable[..., int]]:
    """Makes a function of a task list into a verb: opens the list by the options in ``WHO``, prints the answer."""

    def wrap(act: Callable[..., Record]) -> Callable[..., int]:
        @functools.wraps(act)
        def run(**options: Any) -> int:
            text = options.pop("text") and not options.pop("as_json", False)
            options.pop("as_json", None)
            task_list = open_list(**{each: options.pop(each) for each in _WHO_NAMES})
            show(name, act(task_list, **options), as_text=text)
            return 0

        wrapped: Any = run
        for option in reversed(WHO):
            wrapped = option(wrapped)
        return wrapped

    return wrap


_WHO_NAMES = ("root", "worker", "session", "token", "lock_timeout", "now")


def open_list(
    *,
    root: str | None = None,
    worker: str | None = None,
    session: str | None = None,
    token: str | None = None,
    lock_timeout: float = 5.0,
    now: str | None = None,
) -> "TaskList":
    """The task list that the options name."""
    from agent_harness.errors import UsageError
    from agent_harness.kernel import clock
    from agent_harness.protocols.tasklist.api import TaskList

    at = clock.parse(now) if now else None
    if now and at is None:
        raise UsageError(f"--now {now!r} is no time", hint="--now 2026-01-31T09:30:00Z")
    return TaskList.open(root, worker=worker, session=session, token=token, lock_timeout=lock_timeout, now=at)


def show(name: str, answer: Record, *, as_text: bool) -> None:
    """Prints an answer: one JSON object, or lines for a person."""
    if not as_text:
        click.echo(json.dumps({"ok": True, "verb": name, **answer}, ensure_ascii=False, default=str))
        return
    from agent_harness.protocols.tasklist.status import printable

    for key, value in answer.items():
        if key == "next" or value in (None, {}) or (value == [] and key not in _SAID):
            continue
        plain = not isinstance(value, (dict, list)) or key not in _LONG
        told = f"{key}: {value if plain else json.dumps(value, ensure_ascii=False, indent=2) if value else 'none'}"
        click.echo("\n".join(map(printable, told.split("\n"))))
    click.echo(printable(f"next: {answer.get('next', 'harness status')}"))


# ---- harness task ----------------------------------------------------------------------------------------------------


@click.group(short_help="Claim, prove and close tasks (for agents).")
def task() -> None:
    """What an agent does with a task list. Every answer names the next command.

    \b
    harness task claim                                        the next task, yours until its lease ends
    harness task checkpoint task-001 1/3 "routes written"     say how far it is
    harness task complete task-001                            the harness proves it, commits, closes
    harness task fail task-001 --category TEST_FAIL "why"     give up this attempt; the work is rescued
    """


@task.command("next", short_help="What claim would take.")
@verb("next")
def next_(task_list: "TaskList") -> Record:
    """What `claim` would take; changes nothing. Exit 7: nothing can be claimed."""
    return task_list.next()


@task.command(short_help="Take the next task.", epilog="Example:  harness task claim --lease 3600")
@click.option("--task", "task_id", metavar="ID", help="This one and no other.")
@LEASE
@click.option("--dirty", type=click.Choice(["remember", "refuse"]), default="remember", help="A dirty work tree.")
@verb("claim")
def claim(task_list: "TaskList", task_id: str | None, lease: float, dirty: str) -> Record:
    """Take the next task, or say which one you hold already.

    Exit 7: nothing can be claimed. 5: another session, paused. 3: halted, a person must act. 9: a limit is reached.
    """
    return task_list.claim(task_id, lease_seconds=lease, dirty=dirty)


@task.command(short_help="Record a finished step.", epilog='Example:  harness task checkpoint task-001 2/4 "routes"')
@TASK_ID
@click.argument("step", metavar="M/N")
@click.argument("description", metavar="TEXT")
@verb("checkpoint")
def checkpoint(task_list: "TaskList", task_id: str, step: str, description: str) -> Record:
    """Record that step M of N is done, and renew the lease. The same M again takes the place of the one before."""
    done, _, total = step.partition("/")
    if not all(each.isascii() and each.isdecimal() and len(each) <= 9 for each in (done, total)):
        raise click.BadParameter(f"{step!r} is not of the form M/N", param_hint="M/N")
    return task_list.checkpoint(task_id, int(done), int(total), description)


@task.command(short_help="Hold on to a task.")
@TASK_ID
@LEASE
@verb("renew")
def renew(task_list: "TaskList", task_id: str, lease: float) -> Record:
    """Move the end of the lease forward. Exit 8: the task is no longer yours; stop touching its files."""
    return task_list.renew(task_id, lease_seconds=lease)


@task.command(
    "run-step",
    short_help="Run something long, and hold on.",
    epilog="Example:  harness task run-step task-001 --timeout 7200 -- make train",
    context_settings={"ignore_unknown_options": True},
)
@TASK_ID
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--timeout", type=Positive(), default=3600.0, metavar="S", help="Seconds; 3600.")
@verb("run-step")
def run_step(task_list: "TaskList", task_id: str, command: tuple[str, ...], timeout: float) -> Record:
    """Run a command that takes longer than the lease, which is renewed meanwhile. Its exit code is in the answer."""
    return task_list.run_step(task_id, command, timeout_seconds=timeout)


@task.command(short_help="Run what proves a task.")
@TASK_ID
@verb("validate")
def validate(task_list: "TaskList", task_id: str) -> Record:
    """Run the task's validation command, and remember a pass. Exit 1: FAIL, 124: TIMEOUT."""
    answer = task_list.validate(task_id)
    if answer["result"] == "PASS":
        return answer
    from agent_harness.errors import TimedOut, VerificationFailed

    kind = TimedOut if answer["result"] == "TIMEOUT" else VerificationFailed
    raise kind(
        f"the validation of {task_id}: {answer['result']} after {answer['seconds']} s",
        hint=answer.pop("next"),
        **answer,
    )


@task.command(short_help="Prove, commit and close a task.", epilog="Example:  harness task complete task-001")
@TASK_ID
@click.option("--no-commit", is_flag=True, help="Leave the work uncommitted.")
@click.option("-m", "message", metavar="TEXT", help="The commit's message after [ID]; else the title.")
@verb("complete")
def complete(task_list: "TaskList", task_id: str, no_commit: bool, message: str | None) -> Record:
    """Run the validation (unless it passed on just this tree), commit the work, close the task.

    Exit 1: the proof failed, the task is still yours. 124: it timed out. 8: no longer yours.
    """
    return task_list.complete(task_id, commit=not no_commit, message=message)


@task.command(
    short_help="Give up an attempt.", epilog='Example:  harness task fail task-001 --category TEST_FAIL "why"'
)
@TASK_ID
@click.argument("message", metavar="TEXT")
@click.option("--category", required=True, type=click.Choice(CATEGORIES), help="What kind of failure it is.")
@click.option("--no-rollback", is_flag=True, help="Leave the work tree as it is.")
@PUSHED
@verb("fail")
def fail(
    task_list: "TaskList", task_id: str, message: str, *, category: str, no_rollback: bool, allow_pushed: bool
) -> Record:
    """Close the attempt without a proof: the work goes into a rescue, the tree back to what it was at the claim."""
    return task_list.fail(
        task_id, category=category, message=message, rollback=not no_rollback, allow_pushed=allow_pushed
    )


@task.command(short_help="Give a task back untried.")
@TASK_ID
@click.argument("why", metavar="TEXT")
@verb("release")
def release(task_list: "TaskList", task_id: str, why: str) -> Record:
    """Give the task back: no attempt is counted, the work goes into a rescue."""
    return task_list.release(task_id, why)


@task.command(short_help="Fix what was interrupted.", epilog="Example:  harness task recover task-001 --decide resume")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--decide", type=click.Choice(["resume", "fail"]), help="Your judgement, where only you can judge.")
@verb("recover")
def recover(task_list: "TaskList", task_id: str | None, decide: str | None) -> Record:
    """Fix a damaged state from its backup, and the tasks that an interrupted session left."""
    return task_list.recover(task_id, decide=decide)


@task.command(short_help="Go back to the claim.")
@TASK_ID
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
@PUSHED
@verb("rollback")
def rollback(task_list: "TaskList", task_id: str, dry_run: bool, allow_pushed: bool) -> Record:
    """Bring the work tree back to what it was at the claim; what is taken away goes into a rescue."""
    return task_list.rollback(task_id, dry_run=dry_run, allow_pushed=allow_pushed)


@task.command("set", short_help="Correct a task by hand.", epilog="Example:  harness task set task-001 priority=P0")
@TASK_ID
@click.argument("fields", metavar="FIELD=VALUE", nargs=-1, required=True)
@verb("set")
def set_(task_list: "TaskList", task_id: str, fields: tuple[str, ...]) -> Record:
    """A person's correction: title, status (pending, failed), priority, depends_on, validation.command and others."""
    changes = {}
    for each in fields:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} is not of the form FIELD=VALUE", param_hint="FIELD=VALUE")
        changes[name] = value
    return task_list.set(task_id, changes)


@task.command(short_help="Write the numbers into the log.")
@verb("stats")
def stats(task_list: "TaskList") -> Record:
    """The numbers of the list, also as a STATS line in the log."""
    return task_list.stats()


# ---- harness session -------------------------------------------------------------------------------------------------


@click.group(short_help="Begin and end a session (for agents).")
def session() -> None:
    """A session is one context window of an agent. Only one is active at a time, unless the list is concurrent."""


@session.command(short_help="Begin a session.", epilog="Example:  harness session start")
@click.option("--take-over", is_flag=True, help="The other session is known to be dead (a person's decision).")
@verb("session start")
def start(task_list: "TaskList", take_over: bool) -> Record:
    """Take the session lease, fix what was interrupted, run harness-init.sh, count the session.

    Exit 5: another session is active. 9: max_sessions is reached. 3: halted. 4: the environment cannot be set up.
    """
    return task_list.session_start(take_over=take_over)


@session.command(short_help="End a session.")
@verb("session end")
def end(task_list: "TaskList") -> Record:
    """Write the numbers into the log, give the session lease back, rest the hooks when no work is left."""
    return task_list.session_end()


# ---- harness rescue --------------------------------------------------------------------------------------------------


@click.group(short_help="What rollbacks took away.")
def rescue() -> None:
    """Every rollback keeps what it takes away under a private ref, until a person prunes it."""


@rescue.command("list", short_help="All rescues.")
@verb("rescue list")
def list_(task_list: "TaskList") -> Record:
    """All rescues: ref, task, time, commit, number of files."""
    return task_list.rescue_list()


@rescue.command("show", short_help="What one holds.")
@click.argument("ref", metavar="REF")
@verb("rescue show")
def show_(task_list: "TaskList", ref: str) -> Record:
    """What one rescue holds."""
    return task_list.rescue_show(ref)


@rescue.command(short_help="Get one back.")
@click.argument("ref", metavar="REF")
@click.option("--to", metavar="DIR", help="All of its files in a new folder; else what it changed, in the work tree.")
@verb("rescue restore")
def restore(task_list: "TaskList", ref: str, to: str | None) -> Record:
    """Write what a rescue holds into a new folder, or what the attempt had changed into the work tree again.

    Nothing is overwritten: where a file has changed since, the work tree stays as it is (exit 4).
    """
    return task_list.rescue_restore(ref, to=to)


@rescue.command(short_help="Forget old ones.", epilog="Example:  harness rescue prune --older-than 30")
@click.option("--older-than", required=True, type=Positive(0), metavar="DAYS", help="Age in days.")
@verb("rescue prune")
def prune(task_list: "TaskList", older_than: float) -> Record:
    """Forget rescues that are older than so many days."""
    return task_list.rescue_prune(older_than_days=older_than)
