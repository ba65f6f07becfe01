"""Changes that a session made, or that were made for an item, as shown by git diff. Source: ``faces.md`` 3.

The user names a session or an item. ``S7`` is a session, and ``#7`` is an item. A plain number is a session or, if
there is no such session, an item. A rescue ref names the session whose work the ref keeps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent_harness.errors import HarnessError, NothingEligible, UsageError
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.merge_queue import trailers
from agent_harness.session import status_summary
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.project_view import Item, PastSession, ProjectView
from agent_harness.session.status_summary import shown_reason
from agent_harness.views import why

__all__ = ["WorkDiff", "chosen", "paths_of", "show"]

ACCEPTED, WIP = "accepted", "work in progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDiff:
    name: str  # for people
    state: str  # ACCEPTED, WIP, or a text of ``status_summary.why_kept``
    base: str
    tip: str  # a commit or a ref
    folder: str  # of the work tree

    def as_json(self, paths: Sequence[tuple[str, str]]) -> JsonObject:
        named = {"what": self.name, "state": self.state, "base": self.base, "tip": self.tip}
        return {**named, "files": [{"status": status, "path": path} for status, path in paths]}

    @property
    def line(self) -> str:
        kept = f", kept in {self.tip}" if self.state not in (ACCEPTED, WIP) else ""
        return (
            f"{self.name}: {shown_reason(self.state)}{kept} ({self.base[:7]}..{self.tip[:7] if not kept else self.tip})"
        )


def chosen(view: ProjectView, named: str | None) -> WorkDiff:
    """Return the changes of the session, item or rescue ref with the name ``named``."""
    wanted = (named or "").strip()
    if kept := [each for each in view.sessions if each.rescue_ref in (wanted, f"refs/harness/{wanted}")]:
        return _of_session(view, kept[-1])
    number = wanted.upper().removeprefix("SESSION").strip().removeprefix("S").strip()
    if number.isdecimal() and not wanted.startswith("#"):
        mine = [each for each in view.sessions if each.number == int(number)]
        if mine:
            return _of_session(view, mine[-1])
        if wanted != number:
            known = ", ".join(f"S{n}" for n in [*dict.fromkeys(each.number for each in view.sessions)][-10:])
            raise UsageError(
                f"No session {number} in this project. Sessions: {known or 'none'}", hint="harness log sessions"
            )
    try:
        item = why.item_of(view, named)
    except UsageError as error:
        raise UsageError(error.message, hint=(error.hint or "harness status").replace(" why ", " diff ")) from None
    return _of_item(view, item)


def _of_item(view: ProjectView, item: Item) -> WorkDiff:
    """Return the whole diff of a proven item. For other items, return the last session's changes."""
    claims, mine = why.histories(view, item.id)[item.id]
    line = next((each for each in reversed(claims) if each.accepted), None)
    folder = item.folder or view.path
    if line is not None and line.commit and (whole := line.red_base or line.base) and whole != line.commit:
        base, tip = _landed(line, folder) or (whole, line.commit)
        return WorkDiff(name=item.name, state=ACCEPTED, base=base, tip=tip, folder=folder)
    left = [
        each
        for each in mine
        if (each.rescue_ref and view.kind != "longtask") or (each.base and each.head and each.base != each.head)
    ]
    name = shlex.quote(item.id)
    if not mine:
        raise NothingEligible(f"No session has worked on {item.name}", hint=f"harness why {name}")
    return _of_session(view, left[-1] if left else mine[-1])


def _landed(line: ClaimVerdict, folder: str) -> tuple[str, str] | None:
    """Return the commit that merged the accepted work, as (parent id, id), or None."""
    if not line.commit:
        return None
    tip = why.commits_moved(folder, [line]).get(line.commit, line.commit)  # it may have been rebased
    with suppress(HarnessError, OSError):
        if before := trailers.before(Git(folder), tip, line.item):
            return before, tip
    return None


def _of_session(view: ProjectView, session: PastSession) -> WorkDiff:
    item = next((each for each in view.items if each.id == session.item), None)
    folder = (item.folder if item else None) or view.path
    on = f" on {item.name}" if item else ""
    name = f"Session {session.number}{on}" if session.number is not None else f"A session{on}"
    claims, mine = why.histories(view, session.item)[session.item]
    believed = [each for each, its in why.with_sessions(claims, mine) if its is session and each.accepted]
    if believed and (landed := _landed(believed[-1], folder)):
        return WorkDiff(name=name, state=ACCEPTED, base=landed[0], tip=landed[1], folder=folder)
    if session.rescue_ref and session.base and view.kind != "longtask":  # there: the state before it
        state = status_summary.why_kept(session.outcome)
        return WorkDiff(name=name, state=state, base=session.base, tip=session.rescue_ref, folder=folder)
    if session.base and session.head and session.base != session.head:
        state = ACCEPTED if believed or session.outcome in why.DONE else WIP
        return WorkDiff(name=name, state=state, base=session.base, tip=session.head, folder=folder)
    following = "lth rescue ." if view.kind == "longtask" else "harness rescue list"
    raise NothingEligible(f"{name} has no commit to show: {session.outcome}", hint=following)


def paths_of(found: WorkDiff, *, tests: bool = False) -> list[tuple[str, str]]:
    """Return the status letter and path of each changed file. Raise ``NothingEligible`` if a commit is missing."""
    try:
        git = Git(found.folder)
        for commit in (found.base, found.tip):
            if git.commit_of(commit) is None:
                raise NothingEligible(f"{found.name}: {commit} no longer exists", hint="harness log sessions")
        changed = [(each.status, each.path) for each in git.changed_paths(found.base, found.tip)]
    except OSError as error:
        raise HarnessError(f"{found.folder}: {error.strerror}", hint="harness status") from None
    return [each for each in changed if not tests or why.is_test_side(each[1])]


def show(found: WorkDiff, *, form: Sequence[str], tests: Sequence[str] = ()) -> int:
    """Show the changes with ``git diff`` in the user's pager. Return the exit status of git."""
    import subprocess

    paths = ["--", *(f":(top,literal){each}" for each in tests)] if tests else ["--"]
    # --no-ext-diff and --no-textconv: programs that the repository's configuration names must not run
    words = ["git", "-C", found.folder, "diff", "--no-ext-diff", "--no-textconv", *form, found.base, found.tip, *paths]
    done = subprocess.run(words, check=False, env={**os.environ, "GIT_PAGER": _pager()})
    return done.returncode


def _pager() -> str:
    import subprocess

    if named := os.environ.get("GIT_PAGER"):
        return named
    # --global, because agents can change the repository's configuration
    words = ["git", "config", "--global", "--get", "core.pager"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return done.stdout.strip() or os.environ.get("PAGER") or "less"
