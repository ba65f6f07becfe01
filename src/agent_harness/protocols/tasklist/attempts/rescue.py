"""What rollbacks took away: looking at it, getting it back, and letting it go. Source: ``tasklist.md`` 11.3, 13.3.

A rescue is a commit under ``refs/harness/rescue/TASK/N``; git shows it like any other. It stays until a person prunes.
"""

import os
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from agent_harness.errors import UnsafeTree, UsageError
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.isolated import IsolatedView
from agent_harness.kernel.git.status import Links, joined, shown
from agent_harness.protocols.tasklist.attempts.attempt import (
    ABSENT,
    BASE_REFS,
    RESCUE_REFS,
    differences,
    entry_at,
)

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.workers.worker import Worker

__all__ = ["entries", "prune", "restore", "show"]

Record = dict[str, Any]

FORMAT = "--format=%(refname)%00%(objectname)%00%(creatordate:unix)%00%(subject)"
BEFORE = "Rescued before going back to "


def entries(worker: "Worker") -> list[Record]:
    """Every rescue, newest first: ``ref``, ``task_id``, ``number``, ``commit``, ``at``, ``subject``."""
    git = worker.git
    return _listed(git, RESCUE_REFS) if git else []


def show(worker: "Worker", ref: str) -> Record:
    """One rescue: its ``base`` (what the work tree went back to), the ``files`` that differ from it, ``commits``."""
    git, found = _find(worker, ref)
    base = _base(git, found)
    changes = git.changed_paths(base, found["commit"])
    tops = git.text("rev-parse", f"{found['commit']}^@").split()
    head = tops[0] if tops else base
    commits = git.commits_between(_first_parent(git, base), head)
    return {
        **found,
        "base": base,
        "files": [{"status": status, "path": shown(os.fsencode(path))} for status, path in changes],
        "commits": [{"commit": each.sha, "subject": shown(os.fsencode(each.subject))} for each in commits],
    }


def restore(worker: "Worker", ref: str, to: str | None = None) -> Record:
    """Gets a rescue back: all of its files in a new folder ``to``, else what it changed into the work tree.

    Into the work tree only where every file concerned is as the rescue's base had it, or as the rescue has it already;
    otherwise ``UnsafeTree``, with nothing touched. HEAD, branches and the index stay as they are.
    """
    git, found = _find(worker, ref)
    if to is not None:
        folder = os.path.join(worker.cwd, os.path.expanduser(to))
        _write_all(git, found["commit"], folder)
        return {"ref": found["ref"], "to": folder, "files": None}
    return {"ref": found["ref"], "to": os.fspath(git.top()), "files": _write_changes(git, found)}


def prune(worker: "Worker", older_than_days: float) -> Record:
    """Lets go of rescues, and of baselines of tasks that are not in progress, that are older: ``pruned``, ``kept``."""
    git = worker.git
    if git is None:
        return {"pruned": [], "kept": 0}
    state = worker.store.read()
    in_use = {task.base_ref for task in state.tasks if task.status == "in_progress"}
    limit = clock.timestamp(worker.store.now() - timedelta(days=max(0.0, older_than_days)))
    known = [*_listed(git, RESCUE_REFS), *_listed(git, BASE_REFS)]
    old = [each for each in known if each["at"] <= limit and each["ref"] not in in_use]
    for each in old:
        git.update_ref(each["ref"], None, each["commit"])
        if each["ref"].startswith(f"{RESCUE_REFS}/") and not each["is_own"]:
            shutil.rmtree(worker.layout.rescue_files(each["task_id"], each["number"]), ignore_errors=True)
    return {"pruned": [each["ref"] for each in old], "kept": len(known) - len(old)}


# ---- finding -----------------------------------------------------------------------------------------------------


def _listed(git: Git, refs: str) -> list[Record]:
    lines = git.text("for-each-ref", "--sort=-creatordate", FORMAT, f"{refs}/").splitlines()
    return [_entry(*line.split("\0", 3)) for line in lines]


def _entry(ref: str, commit: str, seconds: str, subject: str) -> Record:
    _, name, last = ref.rsplit("/", 2)
    number = last.partition("-")[0]
    return {
        "ref": ref,
        "task_id": unquote(name, errors="replace"),
        "number": int(number) if number.isdecimal() else 0,
        "commit": commit,
        "at": clock.timestamp(clock.moment(float(seconds))) if seconds else clock.timestamp(),
        "subject": shown(os.fsencode(subject)),
        "is_own": not number.isdecimal(),
    }


def _find(worker: "Worker", ref: str) -> tuple[Git, Record]:
    """The rescue of that name, in full or from the task on (``task-001/1``)."""
    git = worker.git
    known = _listed(git, RESCUE_REFS) if git else []
    wanted = (ref, f"{RESCUE_REFS}/{ref}")
    found = next((each for each in known if each["ref"] in wanted), None)
    if git is None or found is None:
        raise UsageError(f"there is no rescue {ref}", hint="harness rescue list")
    return git, found


def _base(git: Git, found: Record) -> str:
    """What the work tree went back to: the snapshot that the rescue's message names, else the commit below it."""
    named = found["subject"].removeprefix(BEFORE) if found["subject"].startswith(BEFORE) else ""
    base = git.commit_of(named) if named.isalnum() else None
    return base or _first_parent(git, found["commit"]) or git.empty_tree()


def _first_parent(git: Git, commit: str) -> str | None:
    return git.commit_of(f"{commit}^1")


# ---- writing -----------------------------------------------------------------------------------------------------


def _write_all(git: Git, commit: str, folder: str) -> None:
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UnsafeTree(f"{folder} is not an empty folder", hint="name a new folder")
    os.makedirs(folder, exist_ok=True)
    with git.room() as room, IsolatedView(git.repository, head=commit, raw=True) as view:
        index = room.path("rescue")
        view.call("read-tree", commit, index=index)
        view.call("checkout-index", "--all", f"--prefix={os.path.realpath(folder)}/", index=index)


def _write_changes(git: Git, found: Record) -> list[str]:
    changes = differences(git, _base(git, found), found["commit"])
    links = Links(os.fsencode(git.top()))
    for path, (before, after) in changes.items():
        is_known = any(entry_at(git, path, entry) == entry for entry in (before, after))
        if not is_known or links.above(path):
            hint = f"harness rescue restore {found['ref']} --to A-NEW-FOLDER"
            raise UnsafeTree(f"{shown(path)} is not as it was before the attempt; nothing was restored", hint=hint)
    with git.room() as room, IsolatedView(git.repository, head=found["commit"], raw=True) as view:
        index = room.path("rescue")
        view.call("read-tree", found["commit"], index=index)
        for path in [path for path, (_, after) in changes.items() if after == ABSENT]:
            _remove(git.file(path))
        there = [path for path, (_, after) in changes.items() if after != ABSENT]
        view.call("checkout-index", "--force", "-z", "--stdin", input=joined(there), index=index)
    return sorted(shown(path) for path in changes)


def _remove(path: bytes) -> None:
    """Removes a file whose content the base of the rescue has."""
    if os.path.lexists(path):
        os.unlink(path)
