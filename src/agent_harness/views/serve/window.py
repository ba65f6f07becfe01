"""Content and actions of ``harness serve``: the projects, their changes, and commands as actions.

An action makes the same calls and events as its command, with ``by: serve``. If the project's state is no longer the
state that the page showed, the action is refused. A long action continues after the response, and the page shows its
progress. Source: ``faces.md`` 6, F-SRV-4, F-SRV-8."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.errors import Busy, HarnessError, Superseded, UsageError
from agent_harness.kernel import clock, trusted_state
from agent_harness.kernel.rate_limits import LimitClock, RateLimit
from agent_harness.kernel.redact import redact
from agent_harness.kernel.trusted_state import Place
from agent_harness.session.project_view import AskedQuestion, ProjectView
from agent_harness.views import user_messages
from agent_harness.views.watch import AllProjects, WatchView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind
    from agent_harness.protocols.longtask.verbs.person import TaskChoices

__all__ = [
    "ACTIONS",
    "Deed",
    "ServedProject",
    "Window",
    "answerable",
    "mark_of",
    "mark_of_limit",
    "offered",
    "revision_of",
]

BY = "serve"
ANSWER_SECONDS = 3.0
"""Seconds that a response waits for an action, which then continues in the background."""
KEPT_DEEDS = 5


@dataclass(frozen=True, kw_only=True)
class ServedProject:
    """Project that a page displays."""

    key: str  # in addresses
    path: str
    kind: Kind
    seen: WatchView | str  # a sentence if it cannot be read, or is gone
    deeds: tuple[Deed, ...] = ()
    choices: TaskChoices | None = None  # of a long task

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2] or self.path


@dataclass(kw_only=True)
class Deed:
    """Action that the user started on a page. It stores its output and any error."""

    verb: str
    at: str = field(default_factory=clock.timestamp)
    said: list[str] = field(default_factory=list)
    error: HarnessError | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class Window:
    """Projects that ``harness serve`` displays: those of the command line, or all known projects."""

    def __init__(self, named: Sequence[tuple[Kind, str]], *, read_only: bool = False) -> None:
        self.read_only = read_only
        self._named = [Place("", path, kind, "") for kind, path in named]
        self._views = AllProjects()
        self._looks = threading.Lock()  # readers keep their position in logs
        self._deeds: dict[str, deque[Deed]] = {}
        self._limits = LimitClock()

    def look(self) -> list[ServedProject]:
        """Return all projects. Projects that need the user come first, and projects that no longer exist come last."""
        with self._looks:
            places = self._named or trusted_state.places()
            tasks = {each.path: _choices(each.path) for each in places if each.kind == "longtask" and each.path}
            found = self._views.look(places)  # read after the choices, which are then never newer than the view
        gone = [(each.path, each.kind) for each in places if each.path and each.kind and each.gone]
        rows = [*found, *((path, kind, "it has been moved or deleted") for path, kind in gone)]
        return [
            ServedProject(
                key=hashlib.sha256(os.fsencode(path)).hexdigest()[:12],
                path=path,
                kind=kind,
                seen=seen,
                deeds=(*self._deeds.get(path, ()),),
                choices=tasks.get(path),
            )
            for path, kind, seen in rows
        ]

    def project(self, key: str) -> ServedProject | None:
        return next((each for each in self.look() if each.key == key), None)

    def limits(self) -> list[RateLimit]:
        return self._limits.all()

    def lift(self, account: str, mark: str) -> None:
        """Remove the rate limit of an account. Raise ``Superseded`` if the limit changed since the page was loaded."""
        found = next((each for each in self.limits() if each.account == account and mark_of_limit(each) == mark), None)
        if found is None or not self._limits.forget(account, shown=found, by=BY):
            raise Superseded("This rate limit has changed or ended since the page was loaded", hint="harness limits")

    def stamp(self) -> object:
        """Return a value that changes whenever a displayed project or rate limit changes."""
        limits: list[object] = [mark_of_limit(each) for each in self.limits()]
        return limits + [
            (each.path, each.seen)
            if isinstance(each.seen, str)
            else (each.path, each.seen.view, each.seen.rows[-1:], each.seen.slots, _told(each.deeds))
            for each in self.look()
        ]

    def act(self, project: ServedProject, verb: str, form: Mapping[str, str]) -> Deed:
        """Carry out an action with values from ``form``. Long actions continue in the background."""
        seen = project.seen
        if isinstance(seen, str):
            raise Superseded(f"{project.name}: {seen}", hint="harness projects")
        if verb != "answer" and verb not in offered(project):
            raise Superseded("The project's current state does not allow this action", hint="harness status")
        done = ACTIONS[verb](project, seen.view, form)
        deeds = self._deeds.setdefault(project.path, deque(maxlen=KEPT_DEEDS))
        if any(not each.ended.is_set() for each in deeds) and verb != "say":
            raise Busy("Another action is still running", hint="harness status")
        deed = Deed(verb=verb)
        deeds.append(deed)
        threading.Thread(target=_do, args=(deed, done), daemon=True).start()
        deed.ended.wait(clock.scaled(ANSWER_SECONDS))
        if deed.error is not None:
            deeds.remove(deed)
            raise deed.error
        return deed


def _do(deed: Deed, done: Callable[[Callable[[str], None]], object]) -> None:
    try:
        done(lambda text: deed.said.append(redact(text)))
    except HarnessError as error:
        deed.error = error
    except Exception as error:  # an internal error is reported on the page too
        deed.error = HarnessError(f"Unexpected error: {type(error).__name__}: {redact(str(error))}")
    finally:
        deed.ended.set()


def _choices(path: str) -> TaskChoices | None:
    from agent_harness.protocols.longtask.api import LongTask

    return LongTask(path).choices()


def _told(deeds: Sequence[Deed]) -> list[tuple[str, int, bool]]:
    return [(each.at, len(each.said), each.ended.is_set()) for each in deeds]


# ---- the state that an action is for


def mark_of(asked: AskedQuestion) -> str:
    """Return a digest of a question. It changes if the question's words or options change."""
    return hashlib.sha256(repr(asked).encode("utf-8", "replace")).hexdigest()[:16]


def mark_of_limit(limit: RateLimit) -> str:
    return hashlib.sha256(repr(limit.as_record()).encode("utf-8", "replace")).hexdigest()[:16]


def revision_of(project: ServedProject, view: ProjectView) -> str:
    """Return a digest of the project's state, with which the server detects changes since the page load."""
    if project.kind == "longtask":
        return project.choices.revision if project.choices else ""
    state = view.state
    return hashlib.sha256(repr((state.rests, state.questions)).encode("utf-8", "replace")).hexdigest()[:16]


def answerable(project: ServedProject, asked: AskedQuestion, view: ProjectView) -> bool:
    """Return True if an answer now would reach this question and no other question."""
    if project.kind == "longtask":
        return bool(project.choices and project.choices.words)
    # the command answers an item's first question
    about = (each for each in view.state.questions if asked.item is None or each.item == asked.item)
    return next(about, None) == asked


def _as_shown(project: ServedProject, view: ProjectView, form: Mapping[str, str]) -> None:
    if form.get("revision") != revision_of(project, view):
        raise Superseded("The project has changed meanwhile. Reload the page", hint="harness status")


# ---- the actions: the same calls as the commands of their names

Say = Callable[[str], None]
Action = Callable[[ServedProject, ProjectView, Mapping[str, str]], Callable[[Say], object]]


def _answer(project: ServedProject, view: ProjectView, form: Mapping[str, str]) -> Callable[[Say], object]:
    asked = next((each for each in view.state.questions if mark_of(each) == form.get("question")), None)
    if asked is None or not answerable(project, asked, view):
        raise Superseded("This question has already been answered", hint="harness status")
    if project.kind == "longtask":
        _as_shown(project, view, form)
        return _decided(project, form.get("choose", ""), form)
    if project.kind == "tasklist":
        from agent_harness.protocols.tasklist.api import TaskList

        return lambda say: TaskList.open(project.path).resume(by=BY, shown=asked)
    choose = form.get("choose", "")
    if choose not in asked.options:
        raise UsageError("Choose one of the answers", hint=asked.answer)
    budget = _amount(form.get("budget", ""))
    feature = int(asked.item) if asked.item else None
    return lambda say: _feature_project(project, say).resume(choose, budget_usd=budget, feature_id=feature, shown=asked)


def _decided(project: ServedProject, word: str, form: Mapping[str, str]) -> Callable[[Say], object]:
    from agent_harness.protocols.longtask.api import LongTask

    def act(say: Say) -> None:
        task = LongTask(project.path)
        with task.telling(say):
            say(task.decide(word, form.get("text", ""), shown=form.get("revision", ""), by=BY))

    return act


def _amount(text: str) -> float | None:
    try:
        found = float(text) if text.strip() else None
    except ValueError:
        found = -1.0
    if found is not None and not 0 < found < float("inf"):
        raise UsageError(
            "The budget must be a number of US dollars", hint="harness resume --choose increase --budget 20"
        )
    return found


def _feature_project(project: ServedProject, say: Say) -> FeatureProject:
    from agent_harness.protocols.features.api import FeatureProject

    return FeatureProject.open(Path(project.path), say=say, by=BY)


def _pause(project: ServedProject, view: ProjectView, form: Mapping[str, str]) -> Callable[[Say], object]:
    _as_shown(project, view, form)
    why = form.get("why", "").strip()
    if project.kind == "tasklist":
        from agent_harness.protocols.tasklist.api import TaskList

        return lambda say: TaskList.open(project.path).pause(why, by=BY)
    return lambda say: _feature_project(project, say).pause(why or None)


def _resume(project: ServedProject, view: ProjectView, form: Mapping[str, str]) -> Callable[[Say], object]:
    _as_shown(project, view, form)
    if project.kind == "longtask":
        return _decided(project, "active", form)
    if project.kind == "tasklist":
        from agent_harness.protocols.tasklist.api import TaskList

        return lambda say: TaskList.open(project.path).resume(by=BY)
    return lambda say: _feature_project(project, say).resume()


def _say(project: ServedProject, _view: ProjectView, form: Mapping[str, str]) -> Callable[[Say], object]:
    by, to = f"{user_messages.user()} (by: {BY})", form.get("to") or None

    def act(say: Say) -> None:
        say(user_messages.say(project.kind, project.path, form.get("text", ""), by=by, to=to).sentence)

    return act


def _handoff(project: ServedProject, view: ProjectView, form: Mapping[str, str]) -> Callable[[Say], object]:
    _as_shown(project, view, form)
    return lambda say: _feature_project(project, say).handoff()


def _takeback(project: ServedProject, view: ProjectView, form: Mapping[str, str]) -> Callable[[Say], object]:
    _as_shown(project, view, form)
    marks = form.get("mark") == "yes"
    return lambda say: _feature_project(project, say).takeback(lambda _question: marks)


ACTIONS: dict[str, Action] = {
    "answer": _answer,
    "pause": _pause,
    "resume": _resume,
    "say": _say,
    "handoff": _handoff,
    "takeback": _takeback,
}
"""Actions by name; ``offered`` returns the actions that a project allows."""


def offered(project: ServedProject) -> tuple[str, ...]:
    """Return the names of the actions, except answers, that the project's state allows."""
    if isinstance(project.seen, str):
        return ()
    if project.kind == "longtask":
        return ("resume", "say") if project.choices and project.choices.waits else ("say",)
    state = project.seen.view.state
    if state.rests == "in your hands":
        return ("takeback",)
    hand = ("handoff",) if project.kind == "features" and state.rests is None else ()
    if state.rests == "paused":
        return ("say",) if any(each.stops for each in state.questions) else ("resume", "say")
    return ("pause", "say", *hand)


if TYPE_CHECKING:
    from agent_harness.protocols.features.api import FeatureProject
