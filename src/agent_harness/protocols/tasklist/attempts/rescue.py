"""Commands that list, show, restore and delete rescues: the work that rollbacks removed from the work tree.

A rescue is a commit under ``refs/harness/rescue/TASK/N``. Ordinary git commands can show it. The rescue stays until the
user deletes it. Source: ``tasklist.md`` 11.3, 13.3."""

import os
import shutil
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote

from agent_harness.errors import UnsafeTree, UsageError
from agent_harness.kernel import clock, snapshot
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import Links, shown
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.tasklist.attempts.attempt import (
    BASE_REFS,
    RESCUE_REFS,
    entry_at,
)

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller


@dataclass(frozen=True, kw_only=True)
class RescueEntry:
    ref: str
    task_id: str
    number: int
    commit: str
    at: str
    subject: str
    is_own: bool  # the person's uncommitted files, not the work of an attempt


def entries(caller: "Caller") -> list[JsonObject]:
    """Return all rescues (commits with rolled-back work), newest first."""
    git = caller.git
    return [asdict(each) for each in _listed(git, RESCUE_REFS)] if git else []


def show(caller: "Caller", ref: str) -> JsonObject:
    """Return the details of one rescue (a commit with rolled-back work)."""
    git, found = _find(caller, ref)
    base = snapshot.rescue_base(git, found.commit, found.subject)
    tops = git.text("rev-parse", f"{found.commit}^@").split()
    head = tops[0] if tops else base
    commits = git.commits_between(git.commit_of(f"{base}^1"), head)
    return {**asdict(found), "base": base, **snapshot.contents(git.changed_paths(base, found.commit), commits)}


def restore(caller: "Caller", ref: str, to: str | None = None) -> JsonObject:
    """Restore rolled-back work into the work tree or the folder ``to``. Raise ``UnsafeTree``, with nothing changed,
    if an affected file of the work tree equals neither the rescue nor its base."""
    git, found = _find(caller, ref)
    if to is not None:
        folder = os.path.join(caller.cwd, os.path.expanduser(to))
        snapshot.write_rescued(git, found.commit, folder)
        return {"ref": found.ref, "to": folder, "files": None}
    return {"ref": found.ref, "to": os.fspath(git.top()), "files": _write_changes(git, found)}


def prune(caller: "Caller", older_than_days: float) -> JsonObject:
    """Delete old rescues and old unused baselines. Return the deleted refs and the number of kept refs."""
    git = caller.git
    if git is None:
        return {"pruned": [], "kept": 0}
    state = caller.store.read()
    in_use = {task.base_ref for task in state.tasks if task.status == "in_progress"}
    limit = clock.timestamp(caller.store.now() - timedelta(days=max(0.0, older_than_days)))
    known = [*_listed(git, RESCUE_REFS), *_listed(git, BASE_REFS)]
    old = [each for each in known if each.at <= limit and each.ref not in in_use]
    for each in old:
        git.update_ref(each.ref, None, each.commit)
        if each.ref.startswith(f"{RESCUE_REFS}/") and not each.is_own:
            shutil.rmtree(caller.layout.rescue_files(each.task_id, each.number), ignore_errors=True)
    return {"pruned": [each.ref for each in old], "kept": len(known) - len(old)}


# ---- finding ---------------------------------------------------------------------------------------------------------


def _listed(git: Git, refs: str) -> list[RescueEntry]:
    return [_entry(each) for each in snapshot.kept_refs(git, f"{refs}/")]


def _entry(kept: snapshot.KeptRef) -> RescueEntry:
    _, name, last = kept.ref.rsplit("/", 2)
    number = last.partition("-")[0]
    return RescueEntry(
        **kept._asdict(),
        task_id=unquote(name, errors="replace"),
        number=int(number) if number.isdecimal() else 0,
        is_own=not number.isdecimal(),
    )


def _find(caller: "Caller", ref: str) -> tuple[Git, RescueEntry]:
    git = caller.git
    known = _listed(git, RESCUE_REFS) if git else []
    wanted = (ref, f"{RESCUE_REFS}/{ref}", f"refs/harness/{ref}")
    found = next((each for each in known if each.ref in wanted), None)
    if git is None or found is None:
        raise UsageError(f"No rescue ref named {ref}", hint="harness rescue list")
    return git, found


# ---- writing ---------------------------------------------------------------------------------------------------------


def _write_changes(git: Git, found: RescueEntry) -> list[str]:
    changes = git.differences(snapshot.rescue_base(git, found.commit, found.subject), found.commit)
    links = Links(os.fsencode(git.top()))
    for path, (before, after) in changes.items():
        is_known = any(entry_at(git, path, entry) == entry for entry in (before, after))
        if not is_known or links.above(path):
            hint = f"harness rescue restore {found.ref} --to A-NEW-FOLDER"
            raise UnsafeTree(f"{shown(path)} was changed after the attempt; nothing was restored", hint=hint)
    return snapshot.write_changes(git, found.commit, changes)  # the base of the rescue keeps what is removed
