"""Runs what proves a task, the harness itself and never the agent. Source: ``tasklist.md`` 11.5."""

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent_harness.errors import ConfigurationError, ToolMissing
from agent_harness.kernel import clock, files, process
from agent_harness.kernel.redact import redact
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts.attempt import place_of
from agent_harness.protocols.tasklist.attempts.commits import fingerprint
from agent_harness.protocols.tasklist.claims.lease_keeper import LeaseKeeper

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.workers.worker import Worker

__all__ = ["MissingCommand", "ProgramMissing", "again", "folder_of", "run", "still_proven"]

Record = dict[str, Any]

KEEP_BYTES = 64 << 10
TAIL_LINES = 40
LINE_CHARACTERS = 2000
SECONDS_TO_LOOK = 30.0

_SHELL = re.compile(r"[^\w./+,:@%-]")
"""A first word with any other character in it is more than the name of a program."""


class MissingCommand(ConfigurationError):
    """The task has nothing that could prove it; category CONFIG."""

    code = "missing_validation"


class ProgramMissing(ToolMissing):
    """The program that a validation begins with is not installed; category ENV_SETUP."""

    code = "program_missing"


def run(worker: "Worker", task: "Task") -> Record:
    """Runs the validation of a task in progress: ``result`` is PASS, FAIL or TIMEOUT.

    ``exit`` (none after a timeout), ``seconds``, ``tail`` (the last 40 lines), ``log`` (the last 64 KiB), ``tree`` (of
    everything not ignored, before the run; ``None`` without a baseline). The lease is renewed meanwhile. A pass is
    noted outside the project. ``MissingCommand``, ``ProgramMissing``, ``ProofChanged``; ``LeaseLost`` ends the command.
    """
    command = task.validation_command
    if command is None:
        hint = f"a person adds it: harness task set {task.id} validation.command='…', then: harness resume"
        raise MissingCommand(f"{task.id} has no validation.command in harness-tasks.json", hint=hint)
    proven.refuse_changed(worker.layout, task)
    _need_program(command, folder_of(worker), process.scrubbed_environment())
    before = fingerprint(worker, task)
    ran = _execute(worker, task, command, stop=LeaseKeeper(worker, task))
    if ran["result"] == "PASS":
        _record_pass(worker, task, command, before)
    return {**ran, "tree": before}


def again(worker: "Worker", task: "Task") -> bool:
    """Whether the validation of a task that is in nobody's hands passes on the files as they are."""
    command = task.validation_command
    return command is not None and _execute(worker, task, command)["result"] == "PASS"


def _execute(worker: "Worker", task: "Task", command: str, stop: Callable[[], bool] | None = None) -> Record:
    done = process.run(
        command,
        cwd=folder_of(worker),
        env=process.scrubbed_environment(),
        timeout_seconds=task.timeout_seconds,
        keep_bytes=KEEP_BYTES,
        stop=stop,
    )
    output = redact(done.output.decode("utf-8", "replace"))
    return {
        "result": "TIMEOUT" if done.timed_out else "PASS" if done.exit_code == 0 else "FAIL",
        "exit": done.exit_code,
        "seconds": round(done.seconds, 3),
        "tail": tail_of(output),
        "log": _write_log(worker, task, output),
    }


def folder_of(worker: "Worker") -> str:
    """Where commands of the project run: the task list's place in the work tree; outside of git its own folder."""
    place = place_of(worker)
    return place.folder if place else worker.layout.root


def still_proven(worker: "Worker", task: "Task") -> bool:
    """Whether this claim has a pass on record and neither the files nor the command have changed since."""
    found = proven.passed(worker.layout, task)
    trees = found.get("trees")
    if not isinstance(trees, list) or found.get("command") != task.validation_command:
        return False
    return fingerprint(worker, task) in [each for each in trees if isinstance(each, str)]


def tail_of(output: str) -> list[str]:
    """The last 40 lines; of very long ones the end."""
    return [line[-LINE_CHARACTERS:] for line in output.splitlines()[-TAIL_LINES:]]


def _record_pass(worker: "Worker", task: "Task", command: str, before: str | None) -> None:
    """Notes which trees have passed: the one that was there, and with what the run itself wrote into it."""
    after = fingerprint(worker, task)
    if before and after:
        record = {"command": command, "trees": sorted({before, after}), "at": clock.timestamp()}
        proven.note_pass(worker.layout, task, record)


def _write_log(worker: "Worker", task: "Task", output: str) -> str:
    path = worker.layout.validation_log(task.id, task.attempts + 1)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.replace(path, output, follow=False)
    return path


def _need_program(command: str, folder: str, environment: Mapping[str, str]) -> None:
    """``ProgramMissing`` when the shell knows no such command; what is more than a name is left to the shell."""
    word = command.split(maxsplit=1)[0]
    if _SHELL.search(word):
        return
    words = ("sh", "-c", 'command -v -- "$1"', "sh", word)
    found = process.run(words, cwd=folder, env=environment, timeout_seconds=SECONDS_TO_LOOK)
    if found.exit_code != 0:
        hint = "set the environment up (sh harness-init.sh), then run the same command again"
        raise ProgramMissing(f"the validation needs {word}, which is not installed", hint=hint)
