"""Commands that agents call on a task list: ``harness task …``, ``harness session …``, ``harness rescue …``.

One table maps each command to a ``TaskList`` method. ``harness mcp`` offers the same commands as MCP tools. The answer
is one JSON object on stdout, or text at a terminal or with ``--text``. The module imports nothing slow. Source:
``tasklist.md`` 13.3."""

from __future__ import annotations

import sys

from agent_harness.cli import project_here, say_json
from agent_harness.cli.verbs import STYLE, Argument, HelpAsked, Number, OneOf, Option, Program, Subcommand, guarded
from agent_harness.errors import Interrupted, NotAProject, TimedOut, UsageError, VerificationFailed
from agent_harness.kernel.terminal import is_terminal, printable
from agent_harness.protocols.tasklist.api import CATEGORIES, TaskList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.features.api import FeatureLayout

__all__ = ["LIST_NAMES", "MCP", "PROGRAMS", "main", "open_list", "serve_mcp", "show"]

_SAID = ("rescues", "tasks", "pruned")  # also when there are none
_OF_A_TASK = ("status", "priority", "depends_on", "validation", "error_log", "checkpoints")
_LONG = ("task", "validation", "stats", "plan", "tail", "files", "recovered", "tasks", "rescues", "pruned")


def main(words: list[str]) -> int:
    """Run a command line of this module and return its exit code. Never print a traceback."""
    group, *rest = words
    if group == "mcp":
        return serve_mcp(words)
    as_json = "--json" in rest or not ("--text" in rest or is_terminal())
    verb = " ".join(rest[:1] if group == "task" else words[:2]) or None
    try:
        return _run(group, rest)
    except BrokenPipeError:
        raise  # the reader has gone away
    except (Exception, KeyboardInterrupt) as error:  # a person never meets a traceback
        from agent_harness.cli import failure

        shown = error if isinstance(error, Exception) else Interrupted("Interrupted")
        if group == "rescue" and isinstance(error, NotAProject):  # typed by a person
            as_json = "--json" in rest
        return failure.show_any(shown, as_json=as_json, verb=verb)


def _run(group: str, words: list[str]) -> int:
    program = PROGRAMS[group]
    if not words:
        return _help(program, "", code=2)
    try:
        name = program.verb(words[0])
        parsed = program.parse(name, words[1:])
    except HelpAsked as asked:
        return _help(program, asked.verb, code=0)
    given: dict[str, Any] = {key.replace("-", "_"): value for key, value in parsed.items()}
    asked, as_json = given.pop("text", False), given.pop("json", False)
    as_text = (asked or is_terminal()) and not as_json
    if group == "rescue" and (layout := _feature_project(given)):
        from agent_harness.protocols.features import api

        own = {key: value for key, value in given.items() if key not in LIST_NAMES}
        show(f"{group} {name}", api.rescue(layout, name, **own), as_text=as_text)
        return 0
    task_list = open_list(**{key: given.pop(key) for key in LIST_NAMES if key in given})
    prefix = "" if group == "task" else f"{group}_"
    act = program.verbs[name].act or getattr(TaskList, f"{prefix}{name.replace('-', '_')}")
    show(name if group == "task" else f"{group} {name}", act(task_list, **given), as_text=as_text)
    return 0


def _feature_project(given: dict[str, Any]) -> FeatureLayout | None:
    from agent_harness.kernel import root

    if given.get("root"):
        return None
    found = project_here()
    if found.kind == "longtask" and root.find(kind="tasklist") is None:
        raise NotAProject(f"{found.path} is a long task. Use the lth commands for it", hint="lth rescue .")
    if found.kind != "features":
        return None
    from agent_harness.protocols.features import api

    return api.layout_of(found.path)


def _help(program: Program, verb: str, *, code: int) -> int:
    from agent_harness.cli.verbs import usage

    print(usage(program, verb), end="")
    return code


def open_list(*, now: str | None = None, **named: Any) -> TaskList:
    """Return the task list that the options in ``LIST_NAMES`` select."""
    root = named.pop("root", None)
    if not now:
        return TaskList.open(root, **named)
    from agent_harness.kernel import clock

    at = clock.parse(now)
    if at is None:
        raise UsageError(f"--now {now!r} is not a time", hint="--now 2026-01-31T09:30:00Z")
    return TaskList.open(root, now=at, **named)


def show(name: str, answer: JsonObject, *, as_text: bool) -> None:
    if not as_text:
        say_json(name, answer)
        return
    for line in _table(answer):
        print(printable(line))
    for key, value in answer.items():
        if value and key in (("files", "commits") if {"base", "ref"} <= answer.keys() else ("rescues",)):
            continue  # stands in the table
        if key == "next" or value in (None, {}) or (value == [] and key not in _SAID):
            continue
        for line in _told(key, value):
            print(printable(line))
    print(printable(f"next: {answer.get('next', 'harness status')}"))


def _told(key: str, value: object) -> Iterator[str]:
    if key == "task" and isinstance(value, dict):
        value = {name: value.get(name) for name in _OF_A_TASK}
    if not isinstance(value, (dict, list)) or key not in _LONG:
        yield from (f"{key}: {value}" if value else f"{key}: {'none' if value == [] else value}").split("\n")
        return
    yield f"{key}:" if value else f"{key}: none"
    named = value.items() if isinstance(value, dict) else (("-", each) for each in value)
    for name, each in named:
        if each in (None, "", [], {}):
            continue
        mark = name if name == "-" else f"{name}:"
        text = (
            ", ".join(f"{k} {v}" for k, v in each.items() if v not in (None, [], {}))
            if isinstance(each, dict)
            else each
        )
        yield from (f"  {mark} {text}").split("\n")


def _table(answer: JsonObject) -> Iterator[str]:
    for each in answer.get("rescues") or []:
        held = each.get("what") or f"rolled back from {each['task_id']}"
        yield f"{each['ref'].removeprefix('refs/harness/')}  {each['at']}  {held}"
    if "base" in answer and "ref" in answer:
        yield from (f"  {each['status']} {each['path']}" for each in answer["files"])
        yield from (f"  commit {each['commit'][:10]} {each['subject']}" for each in answer["commits"])


# ---- the words of the verbs ------------------------------------------------------------------------------------------


def _step(word: str) -> tuple[int, int]:
    done, _, total = word.partition("/")
    if not all(each.isascii() and each.isdecimal() and len(each) <= 9 for each in (done, total)):
        raise ValueError(f"{word!r} must be of the form M/N, such as 2/4")
    return int(done), int(total)


def _assignment(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"{word!r} must be of the form FIELD=VALUE")
    return name, value


_LIST = (
    Option("--root", "DIR", "Folder of the task list. [default: the nearest one, from here upwards]"),
    Option("--worker", "ID", "Id of the worker. [default: HARNESS_WORKER_ID]"),
    Option("--session", "ID", "Id of the session. [default: HARNESS_SESSION_ID, else the calling program]"),
    Option("--token", "TOKEN", "Token of the claim. [default: HARNESS_CLAIM_TOKEN]"),
    Option("--lock-timeout", "S", "Wait at most this many seconds for the lock of the task list.", Number()),
    Option("--now", "ISO", "For tests: use this time as the current time.", hidden=True),
    Option("--text", None, "Print the answer as text."),
    Option("--json", None, "Print one JSON object. [default without a terminal]"),
)
LIST_NAMES = ("root", "worker", "session", "token", "lock_timeout", "now")

_ID = Argument("task_id", "ID")
_REF = Argument("ref", "REF")
_LEASE = Option("--lease", "S", "Length of the lease in seconds. [default: 1800]", Number(), name="lease_seconds")
_PUSHED = Option("--allow-pushed", None, "Also roll back commits that were pushed.")


def _verb(short: str, *takes: Argument | Option, **more: Any) -> Subcommand:
    return Subcommand(short, *takes, *_LIST, **more)


# ---- actions of verbs for which a method of TaskList is not enough --------------------------------------------------


def _checkpoint(task_list: TaskList, task_id: str, step: tuple[int, int], description: str) -> JsonObject:
    return task_list.checkpoint(task_id, *step, description)


def _set(task_list: TaskList, task_id: str, changes: tuple[tuple[str, str], ...]) -> JsonObject:
    return task_list.set(task_id, dict(changes))


def _validate(task_list: TaskList, task_id: str) -> JsonObject:
    answer = task_list.validate(task_id)
    if answer["result"] == "PASS":
        return answer
    kind = TimedOut if answer["result"] == "TIMEOUT" else VerificationFailed
    said = f"the validation of {task_id}: {answer['result']} after {answer['seconds']} s"
    why = answer["reasons"][0] if answer["reasons"] else f"exit code {answer['exit']}"
    raise kind(said if kind is TimedOut else f"{said}: {why}", hint=answer.pop("next"), **answer)


# ---- the verbs -------------------------------------------------------------------------------------------------------

_TASK = {
    "next": _verb(
        "Show the task that claim would take.",
        purpose="Show the task that `claim` would take, and change nothing. Exit code: 7 no task can be claimed.",
        example="harness task next",
    ),
    "claim": _verb(
        "Claim the next task.",
        Option("--task", "ID", "Claim only this task.", name="task_id"),
        _LEASE,
        Option("--dirty", "WORD", "Allow uncommitted changes in the work tree.", OneOf("remember", "refuse")),
        purpose="Claim the next task, or show the task that you have already claimed.\n\n"
        "Exit code: 7 no task can be claimed, 5 another session is active or the list is paused, 3 the list is halted "
        "and a person must act, 9 a limit is reached.",
        example="harness task claim --lease 3600",
    ),
    "checkpoint": _verb(
        "Record a finished step.",
        _ID,
        Argument("step", "M/N", _step),
        Argument("description", "TEXT"),
        purpose="Record that step M of N is done, and renew the lease. A new record of step M replaces the old one.",
        example='harness task checkpoint task-001 2/4 "routes"',
        act=_checkpoint,
    ),
    "renew": _verb(
        "Renew the lease of a task.",
        _ID,
        _LEASE,
        purpose="Extend the lease of the task. Exit code: 8 you no longer own the task and must not change its files.",
        example="harness task renew task-001",
    ),
    "run-step": _verb(
        "Run a long command, and renew the lease meanwhile.",
        _ID,
        Argument("command", "-- CMD...", many=True),
        Option(
            "--timeout", "S", "Time limit of the command in seconds. [default: 3600]", Number(), name="timeout_seconds"
        ),
        purpose="Run a command that takes longer than the lease. The harness renews the lease while the command runs. "
        "The answer contains the command's exit code.",
        example="harness task run-step task-001 --timeout 7200 -- make train",
        forwards=True,
    ),
    "validate": _verb(
        "Run the check of a task.",
        _ID,
        purpose="Run the task's check, and record a success. Exit code: 1 the check failed, 124 the check timed out.",
        example="harness task validate task-001",
        act=_validate,
    ),
    "complete": _verb(
        "Verify, commit and complete a task.",
        _ID,
        Option("--no-commit", None, "Do not commit the work.", name="commit", sets=False),
        Option("-m", "TEXT", "Commit message after [ID]. [default: the task's title]", name="message"),
        purpose="Run the task's check, commit the work and complete the task. If the check already passed on exactly "
        "these files, it does not run again.\n\n"
        "Exit code: 1 the check failed and you still own the task, 124 the check timed out, 8 you no longer own the "
        "task.",
        example="harness task complete task-001",
    ),
    "accept": _verb(
        "Accept rejected work as it is.",
        _ID,
        Argument("patterns", "PATTERN...", many=True, required=False),
        purpose="Accept work that was rejected because it changes files that its check depends on. Only people may use "
        "this command. The harness restores the work of the last attempt from its rescue and verifies it again. This "
        "time, files that match a PATTERN may differ. If the verification succeeds, the harness commits the work and "
        "completes the task.\n\n"
        "Without a PATTERN, the command confirms that a task is done. This works only if the attempt changed nothing "
        "and the check passed before.\n\n"
        "Exit code: 1 the check failed, 4 files have changed since the attempt or no work waits. In both cases the "
        "task does not change.",
        example="harness task accept task-001 check.sh",
    ),
    "fail": _verb(
        "End an attempt as failed.",
        _ID,
        Argument("message", "TEXT"),
        Option("--category", "WORD", "Category of the failure.", OneOf(*CATEGORIES), required=True),
        Option("--no-rollback", None, "Do not roll back the work tree.", name="rollback", sets=False),
        _PUSHED,
        purpose="End the attempt as failed, without running the check. The harness moves the work into a rescue, and "
        "restores the work tree to its state before the attempt.",
        example='harness task fail task-001 --category TEST_FAIL "why"',
    ),
    "release": _verb(
        "Release a task without counting an attempt.",
        _ID,
        Argument("why", "TEXT"),
        purpose="Release the task. The harness does not count an attempt, and keeps the work in a rescue.",
        example='harness task release task-001 "no time"',
    ),
    "recover": _verb(
        "Repair an interrupted attempt.",
        Argument("task_id", "[ID]", required=False),
        Option(
            "--decide",
            "WORD",
            "Your decision about the interrupted work.",
            OneOf("resume", "fail"),
        ),
        purpose="Restore a damaged state file from its backup, and repair tasks that an interrupted session left in "
        "progress.",
        example="harness task recover task-001 --decide resume",
    ),
    "rollback": _verb(
        "Restore the work tree to its state before the attempt.",
        _ID,
        Option("--dry-run", None, "Show what would change, and change nothing."),
        _PUSHED,
        purpose="Restore the work tree to its state before the attempt. The removed work is kept in a rescue.",
        example="harness task rollback task-001 --dry-run",
    ),
    "set": _verb(
        "Change a field of a task.",
        _ID,
        Argument("changes", "FIELD=VALUE", _assignment, many=True),
        purpose="Change a field of a task: title, status (pending, failed), priority, depends_on, validation.command "
        "and others. Agents may not use this command.",
        example="harness task set task-001 priority=P0",
        act=_set,
    ),
    "reset": _verb(
        "Make failed tasks pending again.",
        Argument("task_ids", "[ID...]", required=False, many=True),
        Option("--failed", None, "Reset all failed tasks that are not retried any more."),
        purpose="Make the named failed tasks pending again, and reset their number of attempts to 0. If one of the "
        "tasks cannot be reset, no task is reset.",
        example="harness task reset --failed",
    ),
    "stats": _verb(
        "Write statistics to the log.",
        purpose="Print the statistics of the task list, and write them to the log as a STATS line.",
        example="harness task stats --text",
    ),
}

_SESSION = {
    "start": _verb(
        "Start a session.",
        Option("--take-over", None, "Take over the session lease. Do this only if the other session is dead."),
        purpose="Take the session lease, repair interrupted tasks, run harness-init.sh, and count the session.\n\n"
        "Exit code: 5 another session is active, 9 max_sessions is reached, 3 the list is halted, 4 the environment "
        "cannot be set up.",
        example="harness session start",
    ),
    "end": _verb(
        "End a session.",
        purpose="Write the statistics to the log, and release the session lease. If no work is left, turn the hooks "
        "off.",
        example="harness session end",
    ),
}

_RESCUE = {
    "list": _verb(
        "List rescues.",
        purpose="List all rescues with ref, task, time, commit and number of files.",
        example="harness rescue list",
    ),
    "show": _verb(
        "Show the content of a rescue.",
        _REF,
        purpose="Show the content of one rescue.",
        example="harness rescue show rescue/task-001/1",
    ),
    "restore": _verb(
        "Restore a rescue.",
        _REF,
        Option("--to", "DIR", "Write all files into this new folder. [default: restore the changes in the work tree]"),
        purpose="Write the files of a rescue into a new folder, or restore the attempt's changes in the work tree.\n\n"
        "The command overwrites no changed file. If a file has changed since the attempt, the command changes nothing "
        "and exits with 4.",
        example="harness rescue restore rescue/task-001/1 --to ../looked-at",
    ),
    "prune": _verb(
        "Delete old rescues.",
        Option(
            "--older-than",
            "DAYS",
            "Delete rescues older than N days.",
            Number(0),
            name="older_than_days",
            required=True,
        ),
        purpose="Delete rescues that are older than N days.",
        example="harness rescue prune --older-than 30",
    ),
}

PROGRAMS = {
    "task": Program(
        "harness task",
        "Commands that an agent uses on a task list. Every answer names the next command.",
        _TASK,
        STYLE,
        examples=[
            "harness task claim                                        claim the next task until its lease ends",
            'harness task checkpoint task-001 1/3 "routes written"     record progress',
            "harness task complete task-001                            verify and commit the work",
            'harness task fail task-001 --category TEST_FAIL "why"     end this attempt; keep its work',
        ],
    ),
    "session": Program(
        "harness session",
        "A session is one agent's work in one context window. Only a concurrent task list allows several sessions at a "
        "time.",
        _SESSION,
        STYLE,
    ),
    "rescue": Program(
        "harness rescue",
        "Every rollback keeps the removed work in a rescue, a private git ref. Only people delete rescues.",
        _RESCUE,
        STYLE,
    ),
}


# ---- the same verbs as tools of MCP ----------------------------------------------------------------------------------

MCP = Program(
    "harness",
    "",
    {
        "mcp": Subcommand(
            "Serve status, next, claim, checkpoint, validate, complete, fail, release and log_query over MCP, on stdin "
            "and stdout. An agent client starts this command. When the client closes the input, the command finishes "
            "the running calls and exits.\n\n"
            "For unattended clients, allow the tools beforehand: `claude -p` with --allowedTools mcp__harness, `codex "
            'exec` with default_tools_approval_mode = "approve" in the server\'s section of config.toml.',
            Option("--root", "DIR", "Folder of the project. [default: searched from the working directory upwards]"),
            example="claude mcp add harness -- harness mcp",
        )
    },
    STYLE,
)


def serve_mcp(words: list[str]) -> int:
    """Run ``harness mcp`` and return its exit code (``docs/exit-codes.md``). Never print a traceback."""

    def run(words: list[str]) -> int:
        root = MCP.parse("mcp", words[1:]).get("root")
        if sys.stdin is None or sys.stdout is None:
            raise UsageError("harness mcp reads from stdin and answers on stdout, but one of the two is closed")
        from agent_harness import mcp_server

        mcp_server.serve(None if root is None else str(root))
        return 0

    return guarded(MCP, run, words)
