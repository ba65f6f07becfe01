"""What is installed where a task's validation may run tests: before an attempt, when it is judged, and at its end.

Attempts of one run follow each other with nothing of an agent at work between them. So one that has changed nothing is
left open for the next: a look before each proof and one at the end of the run find all that three for each attempt do.
"""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent_harness.errors import HarnessError
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts.attempt import folder_of, place_of
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import IN_PLACE
from agent_harness.verification.command import Differences, FirstLook, InstalledRecord, around, released, stands_alone

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.worker import Worker
    from agent_harness.protocols.tasklist.records import Task


_record_at = lru_cache(maxsize=1)(InstalledRecord)  # it knows what this process has looked at


def look(worker: "Worker", task: "Task") -> None:
    """Looks around before anybody works on the task; not again where the attempt before it has changed nothing."""
    record, command = _record_at(proven.installed_path(worker.layout, worker.id, make=True)), task.validation_command
    if record.path is None or command is None:
        return
    record.first = FirstLook(*worker.first_look) if worker.first_look else None
    by, folder = worker.goes_on, folder_of(worker)
    known = record.places() if record.is_unchanged or record.was_left(by) else None
    if known and stands_alone(command) and record.goes_on(known, by):
        return
    in_place = place_of(worker) is None or worker.store.look().config.isolation == IN_PLACE
    wanted = around([(command, folder)], in_place=in_place)
    if record.goes_on(wanted, by):
        return
    if record.is_open:
        record.end(project=Path(folder))
    record.begin((known.together(wanted) if known else wanted).now(), project=Path(folder), by=by)


def since(worker: "Worker", task: "Task") -> Differences:
    """What has changed since then, but for what the task may change."""
    return _record_of(worker).changes(
        project=Path(folder_of(worker)),
        frees=released(task.may_change),
        programs_only=stands_alone(task.validation_command or ""),
    )


def note_end(worker: "Worker", task: "Task", *, completed: bool) -> None:
    """What an attempt has changed stays a change for the next one, unless a person's word for it was used.

    Where it has changed nothing and the run goes on, it is left open: what comes after the look before its proof counts
    as changed by the next one.
    """
    record, has_more = _record_of(worker), task.may_change or (task.cleanup and not completed)
    if has_more or not (worker.goes_on and record.is_unchanged):
        record.end(project=Path(folder_of(worker)), frees=released(task.may_change if completed else ()))


def rest(worker: "Worker", *, is_left_open: bool = False) -> None:
    """Before a run waits or ends: what is installed from now on is no agent's doing, where that can be written down.

    ``is_left_open``: it is a part of another run, which goes on, and calls ``close`` for each place in the end.
    """
    with suppress(HarnessError):
        record = _record_of(worker)
        if record.is_open and not (is_left_open and record.leave()):
            record.end(project=Path(folder_of(worker)), by=worker.goes_on)


def close(folder: str, slot: str) -> None:
    """Ends what attempts of a slot have left open in this folder of its place."""
    with suppress(HarnessError, OSError):
        InstalledRecord(proven.installed_path(TaskListLayout(folder), slot)).close(project=Path(folder))


def _record_of(worker: "Worker") -> InstalledRecord:
    return _record_at(proven.installed_path(worker.layout, worker.id))
