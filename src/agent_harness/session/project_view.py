"""Read-only view of a project for commands, screens and pages. The view has the same values for every protocol.

    view = reader.load()          # reads new records only
    print(view.line, view.items, view.sessions, view.claims, view.gaps)

All values come from files on disk, without a lock. The view therefore also works if a process has died. If the last
line of a file is unfinished, a later ``load`` reads this line. An unreadable file becomes a ``Gap``, never an error. An
unknown value is None. Each protocol implements ``Source``. Source: ``faces.md`` F-REC-4, F-REC-7."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, owner
from agent_harness.kernel.journal import Follower, News
from agent_harness.kernel.json import JsonObject, text, texts, whole
from agent_harness.session.ledger import FILE, ChainReport, ClaimVerdict, check
from agent_harness.session.needs import Need
from agent_harness.session.status_summary import (
    AT_WORK,
    BLOCKED,
    CHECKED,
    DONE,
    FAILED,
    NEEDS_YOU,
    OPEN,
    PROVEN,
    SKIPPED,
    UNPROVEN,
    WORKING,
)

TYPE_CHECKING = False
if not TYPE_CHECKING:
    from agent_harness.session.values import dataclass, field, fields

    T, Protocol = None, object

    class Generic:
        # only a type checker needs ``typing.Generic``, and its import takes long
        def __class_getitem__(cls, _of):
            return cls

else:
    from dataclasses import dataclass, field, fields
    from typing import Any, Generic, Protocol, TypeVar

    from agent_harness.kernel.root import Kind

    T = TypeVar("T")

__all__ = [
    "BLOCKED",
    "CHECKED",
    "DONE",
    "FAILED",
    "NEEDS_YOU",
    "OPEN",
    "PROVEN",
    "SKIPPED",
    "UNPROVEN",
    "WORKING",
    "AskedQuestion",
    "Gap",
    "Item",
    "Money",
    "Now",
    "PastSession",
    "ProjectView",
    "ProjectReader",
    "Source",
    "StatePart",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Item of a project: a feature, a task, or a whole long task."""

    id: str  # as sessions and claims name it
    name: str  # for people: "Feature #3"
    title: str
    state: str  # PROVEN, CHECKED, OPEN, WORKING, FAILED, BLOCKED, SKIPPED, UNPROVEN, NEEDS_YOU
    reason: str = ""  # why it is in this state, as far as it is known
    waits_for: tuple[str, ...] = ()  # the ids of items that come first
    proof: str | None = None  # what proves it: a command, or its test file
    test_files: tuple[str, ...] = ()  # of which the proof consists
    folder: str | None = None  # where its proof is run, absolute
    folders: Mapping[str, str] = field(default_factory=dict)  # the same of each criterion that names another place
    again: bool = False  # failed, and the next run tries it once more
    next: str = ""  # the command to type now, unless the project needs another first

    @property
    def short_name(self) -> str:
        return self.name.replace("Feature ", "")

    @property
    def is_left(self) -> bool:
        return self.again or self.state in (OPEN, WORKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSession:
    """Session, attempt at a task, or slice of a long task."""

    number: int | None  # of the session; of a slice, its place among them
    item: str | None  # ``None``: no item, as for a cleanup
    outcome: str  # for people
    started: str | None = None
    ended: str | None = None
    seconds: float | None = None
    agent: str | None = None
    model: str | None = None  # several with commas
    prompt_type: str | None = None
    base: str | None = None  # the commit before it
    head: str | None = None  # and after it
    rescue_ref: str | None = None  # its rolled-back work
    attempt: int | None = None  # at its item, if a session has several
    turns: int | None = None
    tokens: Mapping[str, int] | None = None  # input, output, cached
    cost_usd: float | None = None  # ``None``: unknown
    assumed_usd: float = 0.0  # counts in the budgets for an unknown cost

    @property
    def line(self) -> str:
        number = f"{self.number}: " if self.number is not None else ""
        cost = f"${self.cost_usd:.2f}" if self.cost_usd is not None else "cost unknown"
        told = [
            *([span(self.seconds)] if self.seconds is not None else []),
            cost,
            *([self.agent] if self.agent else []),
        ]
        return f"Session {number}{self.item or 'no item'}, {self.outcome}; {', '.join(told)}"

    def as_json(self) -> JsonObject:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    kind: str
    message: str
    item: str | None = None
    options: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()  # what each option does
    details: tuple[str, ...] = ()  # said below the message
    stops: bool = True  # no session starts before it is answered
    answer: str = ""  # the command, and as a comment what else may be chosen
    answers: tuple[str, ...] = ()  # a command for each option


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Amounts of money in US dollars."""

    spent_usd: float = 0.0
    sessions: int = 0
    unknown: int = 0  # sessions of unknown cost
    assumed_usd: float = 0.0  # what those count for in the budgets
    limit_usd: float | None = None

    @property
    def known_usd(self) -> float | None:
        return None if self.unknown and not self.spent_usd and self.unknown >= self.sessions else self.spent_usd

    def __str__(self) -> str:
        if not self.spent_usd and self.unknown:
            return "cost unknown"
        return f"{'at least ' if self.unknown else ''}${self.spent_usd:.2f}"

    @classmethod
    def of(cls, sessions: Iterable[PastSession]) -> Money:
        found = [*sessions]
        return cls(
            spent_usd=round(sum(each.cost_usd or 0.0 for each in found), 4),
            sessions=len(found),
            unknown=sum(each.cost_usd is None for each in found),
            assumed_usd=round(sum(each.assumed_usd for each in found), 4),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """File that could not be read."""

    file: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """Current activity of one session."""

    # for a dead session, these are the last known values
    item: str | None = None  # for people: "Feature #3", "task-001"
    title: str = ""
    session: int | None = None
    turn: int = 0
    run: str | None = None  # the tag of the agent's processes
    phase: str = ""  # preflight, agent, judging, settling, waiting
    step: str | None = None  # of the judging: guard, proof, suite, red, lint, criterion
    since: datetime | None = None  # when the phase began
    began: datetime | None = None  # when the session did
    until: datetime | None = None  # the end of the wait
    agent: str = ""
    model: str | None = None
    tokens: Mapping[str, int] | None = None  # input, output, cached
    cost_usd: float | None = None
    cost_unknown: bool = False  # the price of something is unknown
    session_left: float | None = None  # US dollars of the session's budget
    last: tuple[str, ...] = ()  # last text or activity of the agent
    can: tuple[str, ...] = ()  # the verbs that reach the session while it runs
    alive: bool = False  # the process that wrote it lives, as the process table says
    seen: datetime | None = None  # when it was written

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Now:
        who = owner.Owner.from_record(record.get("owner"))
        tokens, budget = record.get("tokens"), record.get("budget")
        known: JsonObject = {name: parse(record.get(name)) for name, parse in _NOW.items()}
        known |= {name: known[name] or "" for name in ("title", "phase", "agent")}
        known["turn"] = known["turn"] or 0
        known["session_left"] = amount(budget.get("session_left")) if isinstance(budget, dict) else None
        known["tokens"] = (
            {str(k): n for k, n in tokens.items() if whole(n) is not None} if isinstance(tokens, dict) else None
        )
        unknown = record.get("cost_unknown") is True
        return cls(**known, cost_unknown=unknown, alive=who is not None and owner.state(who) == "alive")

    @property
    def limit_usd(self) -> float | None:
        return None if self.session_left is None else self.session_left + (self.cost_usd or 0.0)

    def line(self, at: datetime | None = None) -> str:
        """Return the session's activity as one line."""
        at = at or clock.now()
        name = f"{self.item or 'session'} ({self.agent})"
        if not self.alive:
            return f"{name}: stopped, last seen {self.seen.astimezone():%H:%M}" if self.seen else f"{name}: stopped"
        parts = [self.doing(at)]
        if self.tokens is not None:
            parts += [self.tokens_text, self.cost_text]
            parts += filter(None, [self.pace(at)])
        return f"{name}: {', '.join(parts)}"

    def pace(self, at: datetime | None = None) -> str:
        minutes = ((at or clock.now()) - self.began).total_seconds() / 60 if self.began else 0.0
        return f"${self.cost_usd / minutes:.2f}/min" if self.cost_usd and minutes >= 1 else ""

    def doing(self, at: datetime | None = None) -> str:
        if self.phase == "waiting" and self.until:
            return f"waiting until {self.until.astimezone():%H:%M}"
        since = clock_text(((at or clock.now()) - self.since).total_seconds()) if self.since else ""
        return f"{self.phase} {since}{f' ({self.step})' if self.step else ''}".strip()

    @property
    def tokens_text(self) -> str:
        used = self.tokens
        return "" if used is None else f"{_short(used.get('input', 0))} in {_short(used.get('output', 0))} out"

    @property
    def cost_text(self) -> str:
        if self.cost_usd is None or self.cost_unknown:
            return "cost unknown"
        return f"${self.cost_usd:.2f}" + (f" of ${self.limit_usd:.2f}" if self.limit_usd is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """Content of a project's state files."""

    name: str = ""
    items: tuple[Item, ...] = ()
    questions: tuple[AskedQuestion, ...] = ()
    needs: tuple[Need, ...] = ()  # actions of a person: the answers to these questions first
    money: Money | None = None  # from the state, if it is there; else the sum over the sessions
    rests: str | None = None  # why no session starts: paused, in a person's hands
    next: str = ""  # the command to type while no agent works
    comes_first: bool = False  # it must be typed before a session starts


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectView:
    """State of one project, as read from its files."""

    kind: Kind
    path: str
    state: StatePart
    sessions: tuple[PastSession, ...] = ()
    claims: tuple[ClaimVerdict, ...] = ()
    now: tuple[Now, ...] = ()  # also of the dead
    several: str | None = None  # state of a living parallel run, in a few words
    gaps: tuple[Gap, ...] = ()

    @property
    def items(self) -> tuple[Item, ...]:
        return self.state.items

    @property
    def proven(self) -> int:
        return sum(each.state == PROVEN for each in self.items)

    @property
    def checked(self) -> int:
        return sum(each.state == CHECKED for each in self.items)

    @property
    def done(self) -> int:
        return self.proven + self.checked

    @property
    def counted(self) -> str:
        return f"{self.proven}/{len(self.items)} proven{f', {self.checked} checked' if self.checked else ''}"

    @property
    def money(self) -> Money:
        return self.state.money or Money.of(self.sessions)

    @property
    def next(self) -> str:
        """Command that the user should type next."""
        at_work = self.several or any(each.alive for each in self.now)
        return AT_WORK if at_work and not self.state.comes_first else self.state.next

    def asked_of(self, item: Item) -> list[AskedQuestion]:
        """Return the questions that block this item."""
        return [each for each in self.state.questions if each.item in (item.id, None) and (each.stops or each.item)]

    def next_of(self, item: Item) -> str:
        """Return the command that the user should type next for an item."""
        if item.state in DONE:
            return item.next
        if asked := self.asked_of(item):
            return asked[0].answer
        if item.state == WORKING or (item.is_left and not item.waits_for and self.next != self.state.next):
            return self.next
        begins = item.is_left and not item.waits_for
        return self.next if begins and self.state.comes_first else item.next

    def money_by_item(self) -> dict[str, Money]:
        found: dict[str, list[PastSession]] = {}
        for each in self.sessions:
            found.setdefault(each.item or "", []).append(each)
        return {item: Money.of(sessions) for item, sessions in found.items() if item}

    @property
    def is_unreadable(self) -> bool:
        return bool(self.gaps) and not self.items

    @property
    def doing(self) -> str:
        """Activity of the project in a few words."""
        if any(each.stops for each in self.state.questions):
            return "needs you"
        if self.several:
            return self.several
        if running := [each for each in self.now if each.alive]:
            return running[0].doing()
        if any(each.state == WORKING for each in self.items) and self.now:
            return "stopped" + (f", seen {seen.astimezone():%H:%M}" if (seen := self.now[0].seen) else "")
        if self.items and self.done == len(self.items):
            return "done"
        asks = "needs you" if self.state.needs else "idle"
        return self.state.rests or ("unreadable" if self.is_unreadable else asks)

    @property
    def line(self) -> str:
        parts = [] if self.is_unreadable else [self.doing, self.counted]
        parts += [str(self.money)] if self.money.spent_usd or self.money.unknown else []
        parts += [f"cannot be read: {', '.join(each.file for each in self.gaps)}"] if self.gaps else []
        return "; ".join(parts)


# ---- reading


class Source(Protocol):
    """Interface for reading the files of one project."""

    kind: Kind
    path: str

    def home(self) -> str | None:
        """Return the project's state folder, which is outside the project, or None."""
        ...

    def now(self) -> Sequence[Now]:
        """Return the activity of the project's sessions, including dead sessions."""
        ...

    def several(self) -> str | None:
        """Return a few words about the active parallel run, or None."""
        ...

    def state_files(self) -> Sequence[str]:
        """Return the paths of the files that determine the project's state."""
        ...

    def state(self, read: Read) -> StatePart:
        """Return the project's state. Use ``read`` to read each file."""
        ...

    def journals(self) -> Sequence[str]:
        """Return the paths of the session history files, oldest first."""
        ...

    def sessions(self, rows: Iterable[JsonObject], before: tuple[PastSession, ...]) -> tuple[PastSession, ...]:
        """Return the sessions in ``before``, updated and extended by the new ``rows``."""
        ...

    def recordings(self) -> Sequence[str]:
        """Return the ``glob`` patterns that match the transcripts of sessions."""
        ...


class Read(Protocol):
    """Function that reads one file. After an error it returns ``otherwise``."""

    def __call__(self, file: str, read: Callable[[], T], otherwise: T) -> T: ...


UNREADABLE = (HarnessError, OSError, ValueError, TypeError, AttributeError, KeyError)
"""Exceptions that reading a damaged file can raise, whatever the file contains."""


class ProjectReader:
    """Reader of one project. After the first ``load``, it reads only new records."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sessions = _Histories(source.sessions)
        self._claims = _Histories(_claims)
        self._stamps: object = None
        self._state_gaps: list[Gap] = []
        self._view = ProjectView(kind=source.kind, path=source.path, state=StatePart())

    def load(self) -> ProjectView:
        """Return the current view of the project, or the previous object if nothing has changed."""
        home, before = self._source.home(), self._view
        now, several = tuple(self._source.now()), self._source.several()
        found = ProjectView(
            kind=before.kind,
            path=before.path,
            state=self._state((several is not None, any(each.alive for each in now))),
            sessions=self._sessions.look([*self._source.journals()]),
            claims=self._claims.look([os.path.join(home, FILE)] if home else []),
            now=now,
            several=several,
            gaps=(*self._state_gaps, *self._sessions.gaps(), *self._claims.gaps()),
        )
        same = found.state is before.state and found.sessions is before.sessions and found.claims is before.claims
        same = same and (now, several, found.gaps) == (before.now, before.several, before.gaps)
        self._view = before if same else found
        return self._view

    @property
    def home(self) -> str | None:
        return self._source.home()

    def recordings(self) -> list[str]:
        """Return the paths of the sessions' transcripts."""
        import glob

        found = (path for pattern in self._source.recordings() for path in sorted(glob.glob(pattern)))
        # paths that lead outside the project are left out
        root = os.path.realpath(self._source.path)
        return [path for path in found if os.path.realpath(path).startswith(os.path.join(root, ""))]

    def chain(self) -> ChainReport | None:
        home = self._source.home()
        return check(os.path.join(home, FILE)) if home else None

    def _state(self, alive: tuple[bool, ...]) -> StatePart:
        stamps = [alive, *(files.stamp_of(path) for path in self._source.state_files())]
        if stamps == self._stamps:
            return self._view.state
        self._stamps = stamps
        self._state_gaps.clear()
        return self._read("state", lambda: self._source.state(self._read), StatePart())

    def _read(self, file: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except UNREADABLE as error:
            self._state_gaps.append(Gap(file=file, why=str(error) or type(error).__name__))
            return otherwise


class _Histories(Generic[T]):
    """Records of several history files, oldest first."""

    def __init__(self, fold: Callable[[Iterable[JsonObject], tuple[T, ...]], tuple[T, ...]]) -> None:
        self._fold = fold
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._values: tuple[T, ...] = ()
        self._followers: dict[str, Follower] = {}
        self._unreadable: dict[str, str] = {}
        self._damaged: dict[str, int] = {}

    def look(self, paths: Sequence[str]) -> tuple[T, ...]:
        if [*self._followers] != [*paths[: len(self._followers)]]:
            self._begin_anew()
        found = [self._news(path) for path in paths]
        if any(each.anew for each in found):
            self._begin_anew()
            found = [self._news(path) for path in paths]
        if rows := [row for each in found for row in each.records]:
            self._values = self._fold(rows, self._values)
        return self._values

    def gaps(self) -> list[Gap]:
        lines = {path: f"{count} damaged lines were ignored" for path, count in self._damaged.items()}
        return [Gap(file=os.path.basename(path), why=why) for path, why in {**lines, **self._unreadable}.items()]

    def _news(self, path: str) -> News:
        follower = self._followers.setdefault(path, Follower(path))
        self._unreadable.pop(path, None)
        try:
            news = follower.news()
        except UNREADABLE as error:
            self._unreadable[path] = str(error)
            return News([])
        if news.damaged:
            self._damaged[path] = self._damaged.get(path, 0) + news.damaged
        return news


def _claims(rows: Iterable[JsonObject], before: tuple[ClaimVerdict, ...]) -> tuple[ClaimVerdict, ...]:
    return (*before, *(ClaimVerdict.from_record(row) for row in rows if row.get("v") == 1))


def clock_text(seconds: float) -> str:
    """Return a duration in seconds as text, such as ``0:42`` or ``1:02:22``."""
    spent = max(0, int(seconds))
    hours, minutes = spent // 3600, spent // 60 % 60
    return f"{hours}:{minutes:02}:{spent % 60:02}" if hours else f"{minutes}:{spent % 60:02}"


def span(seconds: float) -> str:
    """Return a duration in seconds as rounded text, such as ``8 s``, ``12 min`` or ``3 h 05``."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02}"


def _short(count: int) -> str:
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)


# ---- members of a record, read safely whatever they are


def models(value: object) -> str | None:
    """Return a model name or a list of model names as text."""
    return ", ".join(texts(value)) or text(value)


def amount(value: object) -> float | None:
    """Return ``value`` if it is a plausible number, otherwise None."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12
    return float(value) if known else None  # type: ignore[arg-type]  # a number by now


_NOW = {
    **dict.fromkeys(("item", "run", "step", "model", "title", "phase", "agent"), text),
    **dict.fromkeys(("since", "began", "until", "seen"), clock.parse),
    **dict.fromkeys(("last", "can"), lambda value: tuple(texts(value))),
    **dict.fromkeys(("session", "turn"), whole),
    "cost_usd": amount,
}
