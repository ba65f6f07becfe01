"""Functions that list, restore and prune work that was removed from the branch. Private git refs keep this work until a
person prunes it. Source: features.md C09, C26."""

import os
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import timedelta

from agent_harness.errors import UnsafeTree, UsageError
from agent_harness.kernel import clock, snapshot
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.objects import ABSENT
from agent_harness.kernel.git.status import Links, shown
from agent_harness.kernel.json import JsonObject

REFS = "refs/harness/"
KINDS = {
    "rolled-back": "rolled back with Session {}",
    "set-aside": "set aside for Feature #{}",
    "rewritten": "left behind when Session {} rewrote history",
    "unadopted": "not taken over from Session {}",
    "kept": "kept from Session {} until a person answers",
    "rescue": "taken away from {}",
}
"""Kinds of removed work, which are folders of refs below ``refs/harness``, each with a description."""

_PLAN = "rolled back with a plan for more features"


@dataclass(frozen=True, kw_only=True)
class KeptWork:
    """Work that the harness removed from the branch and kept in a commit."""

    ref: str
    kind: str
    what: str
    commit: str
    at: str
    subject: str


def entries(git: Git) -> list[KeptWork]:
    return [_entry(each) for each in snapshot.kept_refs(git, *(f"{REFS}{kind}" for kind in KINDS))]


def listed(git: Git) -> JsonObject:
    found = entries(git)
    following = f"harness rescue show {_short(found[0].ref)}" if found else "harness status"
    return {"rescues": [asdict(each) for each in found], "next": following}


def show(git: Git, ref: str) -> JsonObject:
    """Return the commits and changed files of the kept work at ``ref``."""
    found = find(git, ref)
    base = _base(git, found)
    below = git.commit_of(f"{base}^1") if found.subject.startswith("Rescued ") else base
    tip = git.commit_of(f"{found.commit}^1") if found.subject.startswith("Rescued ") else found.commit
    return {
        **asdict(found),
        "base": base,
        **snapshot.contents(git.changed_paths(base, found.commit), git.commits_between(below, tip or found.commit)),
        "next": f"harness rescue restore {_short(found.ref)} --to A-NEW-FOLDER",
    }


def restore(git: Git, cwd: str, ref: str, to: str | None = None, *, without: tuple[str, ...] = ()) -> JsonObject:
    """Restore the kept work at ``ref`` into the new folder ``to``, or into the work tree.

    If an affected file of the work tree has changed, raise ``UnsafeTree`` and change nothing."""
    found = find(git, ref)
    if to is not None:
        folder = os.path.join(cwd, os.path.expanduser(to))
        snapshot.write_rescued(git, found.commit, folder)
        return {"ref": found.ref, "to": folder, "files": None, "next": f"cd {to}"}
    return {
        "ref": found.ref,
        "to": os.fspath(git.top()),
        "files": _write_changes(git, found, without),
        "next": "git status",
    }


def prune(git: Git, older_than_days: float, *, waiting: Collection[str] = ()) -> JsonObject:
    """Delete kept work that is older than ``older_than_days`` days. The refs in ``waiting`` stay."""
    limit = clock.timestamp(clock.now() - timedelta(days=older_than_days))
    known = entries(git)
    old = [each for each in known if each.at <= limit and each.ref not in waiting]
    for each in old:
        git.update_ref(each.ref, None, each.commit)
    return {"pruned": [each.ref for each in old], "kept": len(known) - len(old), "next": "harness rescue list"}


def find(git: Git, ref: str) -> KeptWork:
    """Return the kept work whose full or short ref is ``ref``. A short ref is ``rolled-back/3``."""
    found = next((each for each in entries(git) if ref in (each.ref, _short(each.ref))), None)
    if found is None:
        raise UsageError(f"No rescue ref named {ref}", hint="harness rescue list")
    return found


def _entry(kept: snapshot.KeptRef) -> KeptWork:
    kind, _, name = _short(kept.ref).partition("/")
    number = re.sub(r"-\d+$", "", name)  # a second one of the same name has a number
    what = _PLAN if name.startswith("plan-") else KINDS[kind].format(number)
    return KeptWork(**kept._asdict(), kind=kind, what=what)


def _short(ref: str) -> str:
    return ref.removeprefix(REFS)


def _base(git: Git, found: KeptWork) -> str:
    """Return the commit from which the kept work started."""
    if found.subject.startswith("Rescued "):
        return snapshot.rescue_base(git, found.commit, found.subject)
    fork = git.text("merge-base", "HEAD", found.commit, check=False).strip()
    return fork or snapshot.rescue_base(git, found.commit, found.subject)


def _write_changes(git: Git, found: KeptWork, without: tuple[str, ...]) -> list[str]:
    both = git.differences(_base(git, found), found.commit)
    changes = {path: entries for path, entries in both.items() if os.fsdecode(path) not in without}
    head = git.head()
    moved = git.differences(_base(git, found), head) if head else {}
    dirty = {os.fsencode(each.path) for each in git.status()}
    links = Links(os.fsencode(git.top()))
    for path, (before, _) in changes.items():
        in_the_way = before == ABSENT and os.path.lexists(git.file(path))
        if path in moved or path in dirty or in_the_way or links.above(path):
            hint = f"harness rescue restore {_short(found.ref)} --to A-NEW-FOLDER"
            raise UnsafeTree(f"{shown(path)} was changed after this work was removed; nothing was restored", hint=hint)
    return snapshot.write_changes(git, found.commit, changes)  # HEAD keeps what is removed
