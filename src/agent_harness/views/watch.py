"""View of ``harness watch``: one project or all projects, as lines of a given width. Nothing is written.

    shop  6/7 proven  judging 0:42                              1 to 3 h left
    $0.98 of $200.00  now $0.11 of $10.00  16.8k in 3.9k out
    ! 1 question: Feature #8 has failed to complete in 3 sessions    a answers
    -- features ------------------------------------------------- 5-7 of 7
    > #7 working  Chosen names and shorty serve, end to end          $0.11
    -- agent: claude-code, sonnet ----------------------------------------
      9 passed in 2.03s
    -- harness -----------------------------------------------------------
      14:56:03 suite   runs, 71 tests

The data comes from the project's records and logs. Only new lines of the logs are read. Source: ``faces.md`` 4,
F-WATCH-1 to 5."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.terminal import fitted, padded, shortened, shown, width
from agent_harness.kernel.trusted_state import Place
from agent_harness.session import run_snapshot
from agent_harness.session.project_view import (
    DONE,
    NEEDS_YOU,
    OPEN,
    WORKING,
    Money,
    Now,
    ProjectView,
    amount,
    span,
)
from agent_harness.views import reading
from agent_harness.views.follow import FollowedLines
from agent_harness.views.transcript import ScrolledText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

__all__ = ["AllProjects", "WatchReader", "WatchView", "all_lines", "current", "footer", "lines", "time_left"]

LEAST = 60, 15
"""Minimum columns and lines for the full view; a smaller terminal shows only the first three lines."""
KEPT_ROWS = 200
LEAST_TEXT = 16
"""Minimum columns for a text that shares its line with a right-aligned text."""
_NAMED = {"features": "features", "tasklist": "tasks", "longtask": "long task"}


@dataclass(frozen=True, kw_only=True)
class WatchView:
    name: str
    view: ProjectView
    rows: tuple[JsonObject, ...]  # of its logs, the newest last
    slots: tuple[str, ...] = ()  # of a run of several agents that lives
    parallel: JsonObject | None = None

    def as_json(self) -> JsonObject:
        found = self.view
        return {
            "path": found.path,
            "kind": found.kind,
            "state": found.doing,
            "proven": found.proven,
            "checked": found.checked,
            "total": len(found.items),
            "cost_usd": found.money.known_usd,
            "cost_unknown_sessions": found.money.unknown,
            "left": time_left(found),
            "next": found.next,
            "items": [{"id": each.id, "title": each.title, "state": each.state} for each in found.items],
            "now": [_now_json(each) for each in found.now],
            "questions": [
                {"kind": each.kind, "item": each.item, "message": each.message, "answer": each.answer}
                for each in found.state.questions
            ],
            "needs": [each._asdict() for each in found.state.needs],
            "parallel": self.parallel,
            "log": [*self.rows][-20:],
            "gaps": [{"file": each.file, "why": each.why} for each in found.gaps],
        }


class WatchReader:
    """Reader of a project for the live view. Each ``load`` reads only new data."""

    def __init__(self, kind: Kind, folder: str) -> None:
        self.kind, self.folder = kind, folder
        self._reader = reading.reader_of(kind, folder)
        self._parallel = reading.parallel_of(kind, folder)
        self._lines = FollowedLines(reading.followed_of(kind, folder))
        self._rows: list[JsonObject] | None = None

    def load(self) -> WatchView:
        if self._rows is None:
            self._rows = self._lines.last()
        self._rows = [*self._rows, *self._lines.news()][-KEPT_ROWS:]
        told = run_snapshot.told(self._parallel) if self._parallel else None
        alive = told if told and told.get("alive") else None
        sign = "#" if self.kind == "features" else ""
        view = self._reader.load()
        slots = run_snapshot.lines(alive, lambda item: f"{sign}{item}") if alive else []
        return WatchView(
            name=view.state.name or self.folder.rstrip("/").rpartition("/")[2] or self.folder,
            view=view,
            rows=tuple(self._rows),
            slots=tuple(slots),
            parallel=told,
        )

    def transcript(self, seen: WatchView, item: str) -> reading.KeptTranscript:
        return reading.transcript_of(seen.view, item, home=self._reader.home, parallel=seen.parallel)


PANES = ("items", "agent", "harness")


def lines(
    seen: WatchView, columns: int, rows: int, chosen: str | None = None, text: ScrolledText | None = None
) -> list[str]:
    """Return the lines of the live view. ``text`` is the text in the focused pane."""
    head = _head(seen, columns)
    if columns < LEAST[0] or rows < LEAST[1]:
        return [fitted(each, columns) for each in head][:rows]
    left = rows - len(head)
    if text is not None:
        return [*head, *_looked_into(seen, columns, left, chosen or current(seen.view), text)]
    log = max(4, left // 3) if seen.rows else 0
    work = _at_work(seen, columns, max(4, left // 3))
    items = _items(seen, columns, max(2, left - log - len(work)), chosen or current(seen.view))
    log = max(0, left - len(items) - len(work))
    found = [*head, *items, *work]
    if log >= 2 and seen.rows:
        found += ["-- harness --", *(_log_line(row) for row in [*seen.rows][-(log - 1) :])]
    return _fitting(found, columns)[:rows]


def _fitting(found: Sequence[str], columns: int) -> list[str]:
    return [
        _rule(line, columns) if line.startswith(("-- ", "== ")) else shortened(shown(line), columns) for line in found
    ]


SMALL = 4
"""Number of rows of a pane without focus, including its title."""


def _looked_into(seen: WatchView, columns: int, rows: int, chosen: str | None, text: ScrolledText) -> list[str]:
    items, is_agent = _items(seen, columns, SMALL, chosen), text.title == "agent"
    log = ["-- harness --", *(_log_line(row) for row in [*seen.rows][1 - SMALL :])]
    other = log if is_agent else _at_work(seen, columns, SMALL)
    room = max(1, rows - len(items) - len(other) - 1)
    above, visible = text.window(room, columns - 2)
    place = f"{above + 1 if visible else 0}-{above + len(visible)} of {len(text.rows)}"
    of = f" of {text.of or chosen}" if text.of or chosen else ""
    told = [f"== {f'transcript{of}' if is_agent else text.title} == {place}", *(f"  {each}" for each in visible)]
    told += [""] * (room + 1 - len(told))
    return _fitting([*items, *told, *other] if is_agent else [*items, *other, *told], columns)


def log_lines(seen: WatchView) -> list[str]:
    return [_log_line(row).strip() for row in seen.rows]


def _head(seen: WatchView, columns: int) -> list[str]:
    view = seen.view
    doing = view.doing
    left = time_left(view) or ""
    rest = f"  {'?/? proven' if view.is_unreadable else view.counted}  {doing}"
    first = shortened(shown(seen.name), max(8, columns - len(rest) - (len(left) + 2 if left else 0))) + rest
    running = next((each for each in view.now if each.alive), None)
    third = "nothing needs you"
    if asked := view.state.questions:
        count = f"{len(asked)} question{'s' if len(asked) > 1 else ''}"
        third = _sides(f"! {count}: {asked[0].message}", "a answers", columns)
    elif needed := view.state.needs:
        third = _sides(f"! {needed[0].message}", needed[0].command, columns)
    elif view.gaps:
        names = ", ".join(os.path.basename(each.file) for each in view.gaps)
        third = _sides(f"! cannot be read: {names}", "harness doctor", columns)
    elif view.state.rests:
        third = f"rests: {view.state.rests}"
    several = _of_several(seen.parallel) if run_snapshot.at_work(seen.parallel) else None
    paid = _paid(view.money, running, columns) if several is None else _paid_by_several(view, several, columns)
    return [_sides(first, left, columns), paid, shortened(shown(third), columns)]


def _paid(money: Money, running: Now | None, columns: int) -> str:
    limit = f" of ${money.limit_usd:.2f}" if money.limit_usd is not None else ""
    parts = [f"{money}{limit}"] if money.sessions else []
    if running and running.tokens is not None:
        parts += filter(None, [f"now {running.cost_text}", running.pace(), running.tokens_text])
    return _as_fits(parts or ["nothing spent yet"], columns, "  ")


def _paid_by_several(view: ProjectView, now: str, columns: int) -> str:
    limit = view.money.limit_usd
    whole = f"{view.money} of ${limit:.2f}" if limit is not None and view.money.sessions else ""
    return _as_fits([*filter(None, (whole, now))] or ["nothing spent yet"], columns, "  ")


def _as_fits(parts: Sequence[str], columns: int, between: str) -> str:
    found = [*map(shown, parts)]
    while width(between.join(found)) > columns and len(found) > 1:
        found.pop()
    return between.join(found)


def _sides(left: str, right: str, columns: int) -> str:
    room = columns - len(right) - 1
    left = shown(left)
    if not right or room < LEAST_TEXT:
        return shortened(left, columns)
    return f"{padded(shortened(left, room), room)} {right}"


def _items(seen: WatchView, columns: int, rows: int, chosen: str | None) -> list[str]:
    found, room = seen.view.items, rows - 1
    at = next((n for n, each in enumerate(found) if each.id == chosen), 0)
    first = max(0, min(at - room // 2, len(found) - room))
    visible = found[first : first + room]
    money = seen.view.money_by_item()
    wide = max((width(each.short_name) for each in visible), default=0)
    state = max((len(each.state) for each in visible), default=0)
    text = [f"-- {_NAMED[seen.view.kind]} -- {first + 1 if visible else 0}-{first + len(visible)} of {len(found)}"]
    for each in visible:
        mark = ">" if each.id == chosen else " "
        cost = str(money[each.id]) if each.id in money else ""
        told = f"{mark} {padded(each.short_name, wide)} {each.state:<{state}}  {each.title}"
        text.append(_sides(told, cost, columns))
    return text


def current(view: ProjectView) -> str | None:
    """Return the id of the current item, or None. An item on which an agent works takes precedence."""
    by_state = {OPEN if each.again else each.state: each.id for each in reversed(view.items)}
    named = next((each.item for each in view.now if each.alive and each.item), None)
    at_work = next((each.id for each in view.items if named in (each.name, each.id)), None)
    return at_work or by_state.get(WORKING) or by_state.get(NEEDS_YOU) or by_state.get(OPEN)


def _at_work(seen: WatchView, columns: int, rows: int) -> list[str]:
    if seen.slots:
        found = ["-- agents --", *(f"  {each.strip()}" for each in seen.slots)]
        left = len(found) - rows + 1
        return found if left <= 1 else [*found[: rows - 1], f"  ... and {left} more lines: harness status"]
    text: list[str] = []
    now = seen.view.now[:2]
    room = max(0, rows - 2 * len(now))
    for number, each in enumerate(now):
        who = ", ".join(filter(None, (each.agent, each.model)))
        said = [*each.last][max(0, len(each.last) - room // (len(now) - number)) :]
        room -= len(said)
        text += [
            f"-- agent: {who} --",
            _as_fits(f"  {each.line()}".split(", "), columns, ", "),
            *(f"  {line}" for line in said),
        ]
    return text


def _rule(line: str, columns: int) -> str:
    sign = line[0]
    title, _, right = line[3:].rpartition(f" {sign}{sign}")  # a name may hold the sign
    right = f" {right.strip()}" if right.strip() else ""
    left = f"{sign}{sign} {shortened(shown(title), max(8, columns - len(right) - 6))} "
    return left + sign * max(2, columns - width(left) - len(right)) + right


def _log_line(row: JsonObject) -> str:
    at = clock.parse(row.get("at"))
    return f"  {f'{at.astimezone():%H:%M:%S}' if at else '        '} {row.get('text')}"


def _now_json(now: Now) -> JsonObject:
    return {
        "item": now.item,
        "agent": now.agent,
        "phase": now.phase,
        "step": now.step,
        "session": now.session,
        "turn": now.turn,
        "cost_usd": now.cost_usd,
        "tokens": dict(now.tokens) if now.tokens is not None else None,
        "last": [*now.last],
        "alive": now.alive,
    }


def footer(seen: WatchView, columns: int, waits: str = "") -> list[str]:
    """Return the status lines below a run's output. ``waits`` tells what the run waits for."""
    # F-RUN-1
    view = seen.view
    running = next((each for each in view.now if each.alive), None)
    several = run_snapshot.at_work(seen.parallel)
    doing = several or (running.doing() if running else "preparing")
    count = f"{view.proven}/{len(view.items)}"
    ends = f" -- {doing} -- {view.counted} "
    title = name = seen.name
    if running and not several:
        name = (running.item or "session").replace("Feature ", "")
        title = f"{name} {running.title}".strip()
    if columns - len(ends) - 5 < width(shown(name)):  # the item matters more than the word
        ends, title = f" -- {doing} -- {count} ", name
    title = shortened(shown(title), max(0, columns - len(ends) - 5)).rstrip()
    first = f"-- {title}{ends}" if title else ends[1:]
    said = waits or (_slots(seen) if several else "".join(running.last[-1:]) if running else "")
    money = view.money
    paid = [_of_several(seen.parallel)] if several else []
    if running and running.tokens is not None and not several:
        paid = [f"{running.cost_text} now"]
    if money.sessions and money.limit_usd is not None:
        paid.append(f"{money} of ${money.limit_usd:.2f}")
    elif money.sessions and not several:  # in a parallel run some of these are of this run
        paid.append(f"{money} before")
    used = running.tokens_text if running and not several else ""
    keys = "Ctrl-C ends this session" if view.kind == "longtask" else "Ctrl-C stops"
    parts = [*filter(None, (*paid, used)), keys]
    second = _sides(f"   {said}", time_left(view) or "", columns)
    third = "   " + _as_fits(parts, columns - 3, "   ")
    return [fitted(shown(each), columns) for each in (first + "-" * (columns - width(first)), second.rstrip(), third)]


def _slots(seen: WatchView) -> str:
    sign = "#" if seen.view.kind == "features" else ""
    rows = run_snapshot.workers(seen.parallel)
    return "   ".join(f"{each.get('slot')} {sign}{each.get('item')} {each.get('phase')}" for each in rows)


def _of_several(parallel: JsonObject | None) -> str:
    budget = (parallel or {}).get("budget")
    spent, limit = (amount(budget.get(name)) if isinstance(budget, dict) else None for name in ("spent", "limit"))
    if spent is None:
        return ""
    return f"${spent:.2f}{'' if limit is None else f' of ${limit:.2f}'} now"


NEARLY = 1.2
"""Ratio below which the lower and upper time estimates are shown as one estimate."""


def time_left(view: ProjectView) -> str | None:
    """Estimate the time for the remaining items. Return None if fewer than three items are proven."""
    # F-WATCH-2
    proven = {each.id for each in view.items if each.state in DONE}
    still = sum(each.is_left for each in view.items)
    taken: dict[str, float] = {}
    for each in view.sessions:
        if each.item in proven and each.seconds is not None:
            taken[each.item] = taken.get(each.item, 0.0) + each.seconds
    known = sorted(taken.values())
    if len(known) < 3 or not still:
        return None
    low, high = (known[round((len(known) - 1) * part)] * still for part in (0.25, 0.75))
    short, long = span(low), span(high)
    return f"about {long} left" if short == long or high < low * NEARLY else f"{short} to {long} left"


# ---- all projects


ORDER = ("needs you", "running", "waiting", "stopped", "idle", "done", "unreadable")


class AllProjects:
    """Readers of all existing projects of the user, one for each project."""

    def __init__(self) -> None:
        self._views: dict[str, WatchReader] = {}

    def look(self, places: Sequence[Place]) -> list[tuple[str, Kind, WatchView | str]]:
        """Return each project's folder, kind, and state or error. Projects that need the user come first."""
        found: list[tuple[str, Kind, WatchView | str]] = []
        for each in places:
            if not each.path or each.gone or each.kind is None:
                continue
            try:
                view = self._views.get(each.path) or WatchReader(each.kind, each.path)
                self._views[each.path] = view
                found.append((each.path, each.kind, view.load()))
            except (HarnessError, OSError) as error:
                found.append((each.path, each.kind, str(error)))
        # SC-63
        return sorted(found, key=lambda row: (ORDER.index(class_of(row[2])), row[0]))


def class_of(seen: WatchView | str) -> str:
    if isinstance(seen, str):
        return "unreadable"
    doing, alive = seen.view.doing, any(each.alive for each in seen.view.now)
    if doing in ("needs you", "done"):
        return doing
    if alive or seen.view.several:
        return "waiting" if doing.startswith("waiting") else "running"
    return "stopped" if doing.startswith("stopped") else "idle"


def all_lines(found: Sequence[tuple[str, Kind, WatchView | str]], columns: int, chosen: str | None = None) -> list[str]:
    """Return a heading and a line for each project. Omit less important columns on a narrow screen."""
    rows = [_row(path, seen, path == chosen) for path, _, seen in found]
    told = [each for each in rows if each.error is None]
    doing = max([len("STATE"), *(width(each.doing) for each in told)])
    cost = max([len("COST"), *(len(each.cost) for each in told)])
    proven = max([len("PROVEN"), *(len(each.proven) for each in told)])
    room = columns - doing - cost - proven - 5
    name = max(7, min(18, room, max([7, *(width(each.name) for each in rows)])))
    item = min(MOST_ITEM, max([len("ITEM"), *(width(each.item) for each in told)]))
    has_items = room - name - item - 3 >= LEAST_TEXT  # beside the column NEEDS YOU
    item_head = f" {'ITEM':<{item}}" if has_items else ""
    text = [f"  {'PROJECT':<{name}} {'STATE':<{doing}}{item_head} {'PROVEN':>{proven}} {'COST':>{cost}}  NEEDS YOU"]
    for each in rows:
        begin = f"{each.sign} {padded(shortened(each.name, name), name)} "
        if each.error is not None:
            text.append(f"{begin}cannot be read: {each.error}")
            continue
        at_item = f" {padded(shortened(each.item, item), item)}" if has_items else ""
        begin += f"{padded(each.doing, doing)}{at_item} {each.proven:>{proven}} {each.cost:>{cost}}"
        text.append(f"{begin}  {each.needs}".rstrip())
    return [shortened(line, columns).rstrip() for line in text]


def _paid_by_now(view: ProjectView) -> str:
    running = [each for each in view.now if each.alive and each.tokens is not None]
    money = view.money
    spent = money.spent_usd + sum(each.cost_usd or 0.0 for each in running)
    unknown = money.unknown + sum(each.cost_unknown for each in running)
    return str(Money(spent_usd=spent, unknown=unknown)) if money.sessions or running else ""


MOST_ITEM = 12


def _item_of(view: ProjectView) -> str:
    asked = next((each.item for each in view.state.questions if each.item), None)
    running = sorted((each for each in view.now if each.item), key=lambda each: not each.alive)
    name = asked or next((each.item for each in running), None)
    found = next((each for each in view.items if name in (each.id, each.name)), None)
    return found.short_name if found else "-"


@dataclass(frozen=True, kw_only=True)
class _Row:
    sign: str
    name: str
    doing: str = ""
    item: str = ""
    proven: str = ""
    cost: str = ""
    needs: str = ""
    error: str | None = None


def _row(path: str, seen: WatchView | str, is_chosen: bool) -> _Row:
    mark, name = ">" if is_chosen else " ", shown(path.rstrip("/").rpartition("/")[2])
    if isinstance(seen, str):
        return _Row(sign=mark, name=name, error=shown(seen))
    view = seen.view
    asked = view.state.questions
    return _Row(
        sign="!" if asked and not is_chosen else mark,
        name=name,
        doing=shown(view.doing),
        item=shown(_item_of(view)),
        proven="?/?" if view.is_unreadable else f"{view.proven}/{len(view.items)}",
        cost=_paid_by_now(view),
        needs=shown(asked[0].message) if asked else "",
    )
