"""Notices about a project, and the time to send each notice. All functions are pure: they read only their arguments.

A notice lasts as long as its cause, for example until a question is answered. It is sent once, when the cause begins.
Notices within a minute are sent as one message. After twelve messages in a day, one last message says that there are
more notices. Source: ``faces.md`` F-NOTE-1, F-NOTE-2."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.session.project_view import DONE, NEEDS_YOU, ProjectView

EVENTS = ("question", "stopped", "done", "limit", "budget", "claim_rejected", "proven", "digest")
BY_DEFAULT = ("question", "stopped", "done")
REPEATED = ("limit", "budget", "claim_rejected", "proven")
"""Events that are sent at most once per item within ``AGAIN_SECONDS``. Questions, ends and completions are sent each
time, because a user who has answered must know when a question is asked again.
"""

TOGETHER_SECONDS = 60.0
LONG_WAIT_SECONDS = 30 * 60.0
AGAIN_SECONDS = 6 * 3600.0
MOST_A_DAY = 12
MOST_LINES = 10
BUDGET_SHARE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Notice of an event in a project. Notices about the same event have the same ``key``."""

    event: str  # one of EVENTS
    key: str
    title: str
    text: str = ""
    item: str | None = None
    answer: tuple[str, ...] = ()  # the commands that answer it

    def as_record(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__slots__} | {"answer": [*self.answer]}

    @classmethod
    def from_record(cls, record: JsonObject) -> Notice | None:
        texts = {name: record.get(name) for name in ("event", "key", "title", "text")}
        if not all(isinstance(each, str) for each in texts.values()):
            return None
        item, answer = record.get("item"), record.get("answer")
        given: Any = {**texts, "item": item if isinstance(item, str) else None}
        return cls(**given, answer=tuple(str(each) for each in answer) if isinstance(answer, list) else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    to: tuple[str, ...] = ()
    on: tuple[str, ...] = BY_DEFAULT
    quiet: tuple[int, int] | None = None  # minutes of the local day; from, until
    urgent: tuple[str, ...] = ()  # events that are sent in quiet hours too
    digest_hours: float = 24.0

    def rests(self, at: datetime) -> bool:
        if self.quiet is None:
            return False
        local = at.astimezone()
        minute, (begin, end) = local.hour * 60 + local.minute, self.quiet
        return begin <= minute < end if begin <= end else minute >= begin or minute < end


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyMemory:
    """Found and sent notices of a project, so that the harness sends no notice twice."""

    lasting: frozenset[str] = frozenset()  # keys of the notices that lasted at the last look
    claims: int | None = None  # how many verdicts were seen; ``None`` before the first look
    pending: tuple[tuple[str, Notice], ...] = ()  # (since when, notice), not sent yet
    told: tuple[tuple[str, str], ...] = ()  # (when, event and item) within the last hours
    day: str = ""
    of_day: int = 0  # messages of this day
    digest_at: str = ""
    digest: JsonObject = field(default_factory=dict)  # the counts at the last digest


def lasting(view: ProjectView, at: datetime) -> list[Notice]:
    """Return a notice for each condition that lasts at the time ``at``, such as an open question."""
    found = [
        Notice(
            event="question",
            key=f"question:{_digest(each.kind, each.item, each.message)}",
            title="needs you",
            text=each.message,
            item=each.item or each.kind,
            answer=each.answers or (each.answer,),
        )
        for each in view.state.questions
    ]
    open_items = [each for each in view.items if each.state not in (*DONE, "skipped")]
    if view.items and not open_items:
        title = "all is done" if view.checked else "all is proven"
        found.append(Notice(event="done", key=f"done:{len(view.items)}", title=title, text=view.line))
    for each in view.now:
        if each.alive and each.until and (each.until - at).total_seconds() > LONG_WAIT_SECONDS:
            until = f"paused until {each.until.astimezone():%H:%M}"
            found.append(Notice(event="limit", key=f"limit:{each.until:%d%H}", title=until, text=view.line))
    limit = view.money.limit_usd
    if limit and view.money.spent_usd >= BUDGET_SHARE * limit:
        text = f"{view.money} of ${limit:.2f} has been spent"
        found.append(Notice(event="budget", key=f"budget:{limit}", title="the budget is nearly used up", text=text))
    return found


def dead(view: ProjectView) -> list[Notice]:
    """Return a notice for each session whose process died before the session's end."""
    gone = [each for each in view.now if not each.alive]
    return [_stopped(view, f"session:{each.run or each.seen}") for each in gone]


def ended(view: ProjectView, run: str) -> list[Notice]:
    """Return a notice that the run stopped. Return [] if all items are done or a question explains the stop."""
    if view.items and all(each.state in (*DONE, "skipped") for each in view.items):
        return []
    if any(each.stops for each in view.state.questions) or any(each.state == NEEDS_YOU for each in view.items):
        return []
    return [_stopped(view, run)]


def _stopped(view: ProjectView, run: str) -> Notice:
    last = f" {view.sessions[-1].line}." if view.sessions else ""
    text = f"{view.counted}, {view.money}.{last}"
    return Notice(event="stopped", key=f"stopped:{run}", title="stopped", text=text, answer=("harness status",))


def noticed(
    memory: NotifyMemory, view: ProjectView, besides: Iterable[Notice], settings: NotifySettings, at: datetime
) -> NotifyMemory:
    """Check the project, and return the memory with new notices in ``pending``."""
    now = [*lasting(view, at), *besides]
    new = [each for each in now if each.key not in memory.lasting]
    seen = len(view.claims) if memory.claims is None else memory.claims
    for claim in view.claims[seen:]:
        event = "proven" if claim.accepted else "claim_rejected"
        item = str(claim.item)
        said = f"{item}: {claim.grade or 'proven' if claim.accepted else 'a claim was rejected'}"
        new.append(Notice(event=event, key=f"claim:{claim.n}", title=said, item=item, answer=(f"harness why {item}",)))
    memory, digest = _digested(memory, view, settings, at)
    told = tuple(each for each in memory.told if _age(each[0], at) < AGAIN_SECONDS)
    known = {name for _, name in told} | {_name(each) for _, each in memory.pending}
    since = clock.timestamp(at)
    fresh = {_name(each): each for each in [*new, *digest] if each.event in settings.on and _name(each) not in known}
    return replace(
        memory,
        lasting=frozenset(each.key for each in now),
        claims=len(view.claims),
        told=told,
        pending=(*memory.pending, *((since, each) for each in fresh.values())),
    )


def message(
    memory: NotifyMemory, settings: NotifySettings, at: datetime, *, last: bool = False
) -> tuple[NotifyMemory, Sequence[Notice]]:
    """Return the new memory and the notices to send now. If ``last`` is True, also return the waiting notices."""
    due = [each for each in memory.pending if not settings.rests(at) or each[1].event in settings.urgent]
    waited = max((_age(since, at) for since, _ in due), default=0.0)
    if not due or (waited < clock.scaled(TOGETHER_SECONDS) and not last):
        return memory, ()
    today = at.strftime("%Y-%m-%d")
    count = memory.of_day if memory.day == today else 0
    stamp = clock.timestamp(at)
    left = replace(
        memory,
        pending=tuple(each for each in memory.pending if each not in due),
        told=(*memory.told, *((stamp, _name(each)) for _, each in due if each.event in REPEATED)),
        day=today,
        of_day=count + 1,
    )
    if count > MOST_A_DAY:
        return replace(left, of_day=count), ()
    if count == MOST_A_DAY:
        more = Notice(event="digest", key=f"more:{today}", title="there is more", text="More is in harness status.")
        return left, (more,)
    return left, [each for _, each in due]


def body(project: str, notices: Sequence[Notice], view: ProjectView, at: datetime) -> JsonObject:
    """Return the message to send for these notices. It contains no code, agent output or paths."""
    first = notices[0]
    lines = [
        f"{each.title}: {each.text}" if each.text and len(notices) > 1 else each.text or each.title for each in notices
    ]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more: harness status"]
    money = view.money
    return {
        "v": 1,
        "id": _digest(project, *(each.key for each in notices), clock.timestamp(at)),
        "at": clock.timestamp(at),
        "event": first.event,
        "project": project,
        "item": first.item,
        "title": f"{project}: {first.title}" + (f", and {len(notices) - 1} more" if len(notices) > 1 else ""),
        "text": "\n".join(line.replace(view.path, project) for line in lines),
        "answer": [*first.answer],
        "cost_usd": None if money.unknown and not money.spent_usd else money.spent_usd,
        "proven": view.proven,
        "checked": view.checked,
        "total": len(view.items),
    }


def _digested(
    memory: NotifyMemory, view: ProjectView, settings: NotifySettings, at: datetime
) -> tuple[NotifyMemory, list[Notice]]:
    counts: JsonObject = {
        "proven": view.proven,
        "checked": view.checked,
        "rejected": sum(not each.accepted for each in view.claims),
        "spent": view.money.spent_usd,
        "sessions": len(view.sessions),
    }
    if not memory.digest_at:
        return replace(memory, digest_at=clock.timestamp(at), digest=counts), []
    if _age(memory.digest_at, at) < settings.digest_hours * 3600:
        return memory, []
    before = {name: memory.digest.get(name) or 0 for name in counts}
    grown = {name: counts[name] - before[name] for name in counts}
    after = replace(memory, digest_at=clock.timestamp(at), digest=counts)
    if not any(grown.values()):
        return after, []
    checked = f"{grown['checked']} checked, " if grown["checked"] else ""
    text = (
        f"{grown['proven']} proven, {checked}{grown['rejected']} claims rejected, ${grown['spent']:.2f} spent in "
        f"{grown['sessions']} sessions; {len(view.state.questions)} questions. {view.line}"
    )
    return after, [Notice(event="digest", key=f"digest:{clock.timestamp(at)}", title="the last day", text=text)]


def _name(notice: Notice) -> str:
    """Return the name that all repetitions of a notice share."""
    return f"{notice.event}:{notice.item}" if notice.event in REPEATED else notice.key


def _age(stamp: str, at: datetime) -> float:
    since = clock.parse(stamp)
    return (at - since).total_seconds() if since else timedelta.max.total_seconds()


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
