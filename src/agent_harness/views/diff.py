"""What a session or an item changed, by git's own diff, and what became of it. Source: ``faces.md`` 3.

A number is a session, unless there is none of it; ``S7`` is a session and ``#7`` an item in any case. A rescue is the
session whose work it keeps.
"""

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
from agent_harness.session import headline
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.project_view import Item, PastSession, ProjectView
from agent_harness.views import why

__all__ = ["WorkDiff", "chosen", "paths_of", "show"]

ACCEPTED, WIP = "accepted", "work in progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDiff:
    """Two commits, and what became of the work between them."""

    name: str  # for people
    state: str  # ACCEPTED, WIP, or as ``headline.why_kept`` says
    base: str
    tip: str  # a commit or a ref
    folder: str  # of the work tree

    def as_json(self, paths: Sequence[tuple[str, str]]) -> JsonObject:
        """The members for an answer in JSON."""
        named = {"what": self.name, "state": self.state, "base": self.base, "tip": self.tip}
        return {**named, "files": [{"status": status, "path": path} for status, path in paths]}

    @property
    def line(self) -> str:
        """What is shown, for a person."""
        kept = f", kept in {self.tip}" if self.state not in (ACCEPTED, WIP) else ""
        return f"{self.name}: {self.state}{kept} ({self.base[:7]}..{self.tip[:7] if not kept else self.tip})"


def chosen(view: ProjectView, named: str | None) -> WorkDiff:
    """What is meant. ``UsageError`` where there is no such thing, ``NothingEligible`` where nothing was changed."""
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
    """All of an item that is proven; else its last session that left something."""
    claims = [each for each in view.claims if each.item == item.id and each.accepted]
    line = claims[-1] if claims else None
    folder = item.folder or view.path
    if line is not None and line.commit and (whole := line.red_base or line.base) and whole != line.commit:
        base, tip = _landed(line, folder) or (whole, line.commit)
        return WorkDiff(name=item.name, state=ACCEPTED, base=base, tip=tip, folder=folder)
    mine = [each for each in view.sessions if each.item == item.id]
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
    """(before it, it): the one commit that has brought accepted work to the branch beside that of others.

    Under the id that the branch has for it now; ``None`` where the work has come otherwise.
    """
    if not line.commit:
        return None
    tip = why.commits_moved(folder, [line]).get(line.commit, line.commit)
    with suppress(HarnessError, OSError):
        if before := trailers.before(Git(folder), tip, line.item):
            return before, tip
    return None


def _of_session(view: ProjectView, session: PastSession) -> WorkDiff:
    item = next((each for each in view.items if each.id == session.item), None)
    folder = (item.folder if item else None) or view.path
    on = f" on {item.name}" if item else ""
    name = f"Session {session.number}{on}" if session.number is not None else f"A session{on}"
    mine = [each for each in view.sessions if each.item == session.item]
    of_item = (each for each in view.claims if each.item == session.item)
    claims = [each for each, its in why.with_sessions(of_item, mine) if its is session]
    believed = [each for each in claims if each.accepted]
    if believed and (landed := _landed(believed[-1], folder)):
        return WorkDiff(name=name, state=ACCEPTED, base=landed[0], tip=landed[1], folder=folder)
    if session.rescue_ref and session.base and view.kind != "longtask":  # there it is what was before the slice
        state = headline.why_kept(session.outcome)
        return WorkDiff(name=name, state=state, base=session.base, tip=session.rescue_ref, folder=folder)
    if session.base and session.head and session.base != session.head:
        state = ACCEPTED if believed or session.outcome in why.DONE else WIP
        return WorkDiff(name=name, state=state, base=session.base, tip=session.head, folder=folder)
    following = "lth rescue ." if view.kind == "longtask" else "harness rescue list"
    raise NothingEligible(f"{name} left no commit: {session.outcome}", hint=following)


def paths_of(found: WorkDiff, *, tests: bool = False) -> list[tuple[str, str]]:
    """(letter, path) of every file that differs, or of the tests alone. ``NothingEligible`` where a commit is gone."""
    try:
        git = Git(found.folder)
        for commit in (found.base, found.tip):
            if git.commit_of(commit) is None:
                raise NothingEligible(f"{found.name}: {commit} is no longer kept", hint="harness log sessions")
        changed = [(each.status, each.path) for each in git.changed_paths(found.base, found.tip)]
    except OSError as error:
        raise HarnessError(f"{found.folder}: {error.strerror}", hint="harness status") from None
    return [each for each in changed if not tests or why.is_test_side(each[1])]


def show(found: WorkDiff, *, form: Sequence[str], tests: Sequence[str] = ()) -> int:
    """Git's own diff in git's own pager, as this person has set them; the repository's settings name no program here.

    ``form`` are options of git; with ``tests`` these paths alone.
    """
    import subprocess

    paths = ["--", *(f":(top,literal){each}" for each in tests)] if tests else ["--"]
    words = ["git", "-C", found.folder, "diff", "--no-ext-diff", "--no-textconv", *form, found.base, found.tip, *paths]
    done = subprocess.run(words, check=False, env={**os.environ, "GIT_PAGER": _pager()})
    return done.returncode


def _pager() -> str:
    """The pager of this person: an agent may have written the settings of the repository."""
    import subprocess

    if named := os.environ.get("GIT_PAGER"):
        return named
    words = ["git", "config", "--global", "--get", "core.pager"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return done.stdout.strip() or os.environ.get("PAGER") or "less"
