"""Record of the installed packages in the places where a task's check may run.

The harness scans the packages before an attempt, at verification and at the end of the attempt. No agent runs between
two attempts of a run. If an attempt changed no package, its record therefore stays open, and the next attempt uses it
without a new scan. One scan before each verification and one scan at the end of the run are then enough."""

from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent_harness.errors import HarnessError
from agent_harness.kernel.process.sandbox import kind_for, settings_from
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts.attempt import folder_of, place_of
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import IN_PLACE
from agent_harness.verification.command import (
    Differences,
    FirstLook,
    InstalledRecord,
    around,
    linked_by,
    released,
    starts_python,
)

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import SessionConfig, Task


_MOST_OPEN = 200  # tasks whose checks are read
_record_at = lru_cache(maxsize=1)(InstalledRecord)  # it knows what this process has checked


def look(caller: "Caller", task: "Task") -> None:
    """Record the installed packages before an attempt."""
    record = _record_at(proven.installed_path(caller.layout, caller.id, make=True))
    if record.path is None or task.validation_command is None:
        return
    record.first = FirstLook(*caller.first_look) if caller.first_look else None
    by, folder, state = caller.goes_on, folder_of(caller), caller.store.look()
    in_place = _in_place(caller, state.config)
    open_ones = (each for each in state.tasks if each.status != "completed" and not each.given_up)
    # this attempt could install a package that affects a later task
    later = (each.validation_command for each in islice(open_ones, _MOST_OPEN))
    wanted = around(
        [(command, folder) for command in dict.fromkeys((task.validation_command, *later)) if command],
        in_place=in_place,
        settings=settings_from(state.config.sandbox),
        linked=linked_by(folder) if caller.git and not in_place else (),
        confined=bool(caller.goes_on),  # a direct claim has no sandbox of the harness
    )
    if record.goes_on(wanted, by):
        return
    if record.is_open:
        record.end(project=Path(folder))
    record.begin(wanted.now(), project=Path(folder), by=by)


def since(caller: "Caller", task: "Task") -> Differences:
    """Return the forbidden changes to installed packages since the attempt began."""
    folder = folder_of(caller)
    return _record_of(caller).changes(
        project=Path(folder),
        frees=released(task.may_change),
        programs_only=not starts_python(task.validation_command or "", folder),
    )


def note_end(caller: "Caller", task: "Task", *, completed: bool) -> None:
    """Record the end of an attempt. Package changes without permission also count for the next attempt."""
    record, has_more = _record_of(caller), task.may_change or (task.cleanup and not completed)
    if has_more or not (caller.goes_on and record.is_unchanged):
        frees = released(task.may_change if completed else ())
        config = caller.store.read().config
        held = not _in_place(caller, config) and kind_for(settings_from(config.sandbox)) is not None
        again = not (completed and held)
        record.end(project=Path(folder_of(caller)), frees=frees, again=again)


def _in_place(caller: "Caller", config: "SessionConfig") -> bool:
    return place_of(caller) is None or config.isolation == IN_PLACE


def rest(caller: "Caller", *, is_left_open: bool = False) -> None:
    """Close the record of installed packages before a run waits or ends."""
    with suppress(HarnessError):
        record = _record_of(caller)
        if record.is_open and not (is_left_open and record.leave()):
            record.end(project=Path(folder_of(caller)), by=caller.goes_on)


def close(folder: str, slot: str) -> None:
    with suppress(HarnessError, OSError):
        InstalledRecord(proven.installed_path(TaskListLayout(folder), slot)).close(project=Path(folder))


def _record_of(caller: "Caller") -> InstalledRecord:
    return _record_at(proven.installed_path(caller.layout, caller.id))
