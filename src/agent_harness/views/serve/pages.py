"""Pages of ``harness serve``, built from values. The forms are plain HTML, so the pages work without JavaScript.

``report.html`` escapes untrusted text. All parts that can change are inside the element ``main``. The script replaces
the changed elements there, and recognizes an element by its ``id``. Source: ``faces.md`` 6, F-SRV-5..7."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.rate_limits import RateLimit, clearing
from agent_harness.kernel.redact import redact
from agent_harness.session.project_view import AskedQuestion
from agent_harness.views import user_messages
from agent_harness.views.report import page as report
from agent_harness.views.report.charts import folded
from agent_harness.views.report.html import E, Element, render
from agent_harness.views.serve.window import (
    Deed,
    ServedProject,
    answerable,
    mark_of,
    mark_of_limit,
    offered,
    revision_of,
)
from agent_harness.views.watch import ORDER, WatchView, class_of, time_left

__all__ = ["PER_PAGE", "STYLE", "Frame", "PlaceInLists", "all_projects", "one_project", "refused"]

PER_PAGE = {"open": 100, "by_word": 50, "proven": 50, "checked": 50, "kept": 50, "sessions": 50}
"""Number of rows per page, for each list of the report."""
MOST_LINKS = 12
"""Maximum number of page links; a longer list links only the first, last and nearest pages."""
MOST_FIND = 100
"""Maximum number of characters in a search."""
LOG_LINES = 12
REFRESH_SECONDS = 10
STYLE = report.STYLE + (Path(__file__).parent / "serve.css").read_text("utf-8")


@dataclass(frozen=True, kw_only=True)
class Frame:
    token: str  # of the forms
    revision: str  # of the view, as the stream counts
    read_only: bool = False
    holds: bool = False  # does not reload by itself
    problem: str = ""  # the reason of a refused action
    limits: Sequence[RateLimit] = ()  # in force


@dataclass(frozen=True, kw_only=True)
class PlaceInLists:
    """Parts of a page address: the search word, and the page number in each list."""

    pages: Mapping[str, int] = field(default_factory=dict)  # of those that are not at their first one
    find: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> PlaceInLists:
        """Return the page numbers and the search word in a query string. An invalid page number counts as 1."""
        told = {name: query.get(name, "") for name in PER_PAGE}
        pages = {
            name: int(text) for name, text in told.items() if text.isascii() and text.isdecimal() and len(text) < 7
        }
        return cls(pages=pages, find=" ".join(query.get("find", "").split())[:MOST_FIND])

    def address(
        self, here: str, *, find: str | None = None, hold: bool = False, pages: Mapping[str, int] | None = None
    ) -> str:
        told: dict[str, object] = {name: page for name, page in {**self.pages, **(pages or {})}.items() if page != 1}
        word = self.find if find is None else find
        told |= {**({"find": word} if word else {}), **({"hold": 1} if hold else {})}
        return f"{here}?{urlencode(told)}" if told else here

    def part(self, rows: Sequence[JsonObject], name: str) -> tuple[int, int, list[JsonObject]]:
        """Return the current page number of a list, its number of pages, and the current page's rows."""
        most = PER_PAGE[name]
        last = max(1, -(-len(rows) // most))
        number = max(1, min(self.pages.get(name, 1), last))
        return number, last, [*rows[(number - 1) * most : number * most]]


FIRST = PlaceInLists()


def _page(
    title: str,
    here: str,
    frame: Frame,
    body: Sequence[Element | None],
    *,
    said: str,
    asks: str,
    place: PlaceInLists = FIRST,
) -> str:
    refresh = E("meta", http_equiv="refresh", content=str(REFRESH_SECONDS))
    hold, back = place.address(here, hold=True), place.address(here)
    again = E("p", "This page reloads every 10 seconds. ", E("a", "Hold it", href=hold), class_="soft")
    held = E("p", "Reloading is paused. ", E("a", "Resume reloading", href=back), class_="soft")
    head = E(
        "head",
        E("meta", charset="utf-8"),
        E("meta", name="viewport", content="width=device-width, initial-scale=1"),
        None if frame.holds or frame.problem else E("noscript", refresh),
        E("title", title),
        E("link", rel="stylesheet", href="/serve.css"),
        E("script", src="/live.js", defer=True),
    )
    main = E("main", *body, data_revision=frame.revision, data_said=said, data_asks=asks)
    shown = E(
        "body",
        E("p", frame.problem or None, class_="notice", role="alert", id="refused"),
        E("p", class_="notice", id="lost", role="status"),
        E("p", class_="apart", id="said", role="status"),
        E("p", class_="apart", id="asks", role="alert"),
        E("noscript", held if frame.holds else again),
        main,
    )
    return f"<!DOCTYPE html>\n{render(E('html', head, shown, lang='en'))}\n"


def refused(status: int, sentence: str) -> str:
    head = E("head", E("meta", charset="utf-8"), E("title", f"{status}"))
    return f"<!DOCTYPE html>\n{render(E('html', head, E('body', E('main', E('p', sentence))), lang='en'))}\n"


# ---- all projects


def all_projects(projects: Sequence[ServedProject], frame: Frame, *, at: datetime) -> str:
    """Return the page with all projects. Projects that need the user come first."""
    rooms: dict[str, list[ServedProject]] = {name: [] for name in ORDER}
    for each in projects:
        rooms[class_of(each.seen)].append(each)
    asks = sum(not isinstance(each.seen, str) and bool(each.seen.view.state.needs) for each in projects)
    title = f"{asks} need{'s' if asks == 1 else ''} you" if asks else "nothing needs you"
    body = [E("h1", f"Your projects: {title}"), _clock(at), *_limits(frame, "")]
    if not projects:
        body.append(E("p", "No projects yet. A project appears here after its first session or task."))
    for name, found in rooms.items():
        if found:
            body.append(E("h2", f"{name} ({len(found)})", id=f"is-{name.replace(' ', '-')}"))
            body += [_in_list(each, frame) for each in found]
    said = "; ".join(_announced(each) for each in projects)
    return _page(title, "/", frame, body, said=said, asks=_first_question(projects))


def _in_list(project: ServedProject, frame: Frame) -> Element:
    seen = project.seen
    if isinstance(seen, str):
        return E("article", E("h3", project.name), E("p", redact(seen)), class_="project", id=f"p-{project.key}")
    facts = [_state(project), *_numbers(seen)]
    return E(
        "article",
        E("h3", E("a", project.name, href=f"/p/{project.key}")),
        E("p", ", ".join(facts)),
        *_now(seen, most=1),
        *_questions(project, seen, frame, "/"),
        _controls(project, frame, "/"),
        *_deeds(project.deeds),
        class_="project",
        id=f"p-{project.key}",
    )


def _first_question(projects: Sequence[ServedProject]) -> str:
    asked = ((each.name, each.seen.view.state.needs) for each in projects if not isinstance(each.seen, str))
    return next((f"{name} needs you: {redact(found[0].message)}" for name, found in asked if found), "")


def _announced(project: ServedProject) -> str:
    """Return the project's state as text for screen readers."""
    seen = project.seen
    if isinstance(seen, str):
        return f"{project.name}: {redact(seen)}"
    # no time of day, because a screen reader announces every change
    return f"{project.name}: {class_of(seen)}, {seen.view.counted}"


def _state(project: ServedProject) -> str:
    seen = project.seen
    return seen if isinstance(seen, str) else redact(seen.view.doing)


def _numbers(seen: WatchView) -> Iterator[str]:
    view = seen.view
    yield view.counted
    money = view.money
    if money.sessions or money.spent_usd:
        yield str(money) + (f" of ${money.limit_usd:.2f}" if money.limit_usd is not None else "")
    if left := time_left(view):
        yield left


def _clock(at: datetime) -> Element:
    return E("p", f"State of {at.astimezone():%H:%M:%S %Z}.", class_="soft", id="as-of")


# ---- one project


def one_project(
    project: ServedProject,
    seen: WatchView,
    report_of: Callable[[], JsonObject],
    frame: Frame,
    *,
    at: datetime,
    place: PlaceInLists = FIRST,
) -> str:
    here = f"/p/{project.key}"
    found = report_of()
    lists = _lists(found, place.find)
    part = {name: place.part(rows, name)[2] for name, rows in lists.items()}
    shown: JsonObject = {**found, "waits": (), "rows": part["sessions"][::-1]}
    shown |= {member: part[name] for name, member in _MEMBERS.items()}
    body: list[Element | None] = [
        E("p", E("a", "All projects", href="/")),
        *report.top(found, costs=True),
        _clock(at),
        E("p", ", ".join([_state(project), *_numbers(seen)]), id="stands"),
        E("p", "Next: ", E("code", found["next"]), id="next") if found["next"] else None,
        *_questions(project, seen, frame, here),
        _controls(project, frame, here),
        *_limits(frame, project.key),
        *_deeds(project.deeds),
        *_running(seen),
        *_way_through(found, lists, here, place),
        *list(report.sections(shown, costs=True, full=True))[:-1],
    ]
    if seen.view.gaps:
        gaps = ", ".join(f"{each.file} ({each.why})" for each in seen.view.gaps)
        body.insert(2, E("p", f"Cannot be read: {gaps}", class_="bad"))
    title = f"{project.name}: {_state(project)}"
    asks = _first_question([project])
    return _page(title, here, frame, body, said=_announced(project), asks=asks, place=place)


def _lists(found: JsonObject, word: str) -> dict[str, list[JsonObject]]:

    def fits(each: JsonObject) -> bool:
        told = (each["id"], each["name"], each["title"], each.get("state", ""))
        return word.lower() in " ".join(map(str, told)).lower()

    items = {
        name: [each for each in found[_MEMBERS[name]] if fits(each)]
        for name in ("open", "by_word", "proven", "checked")
    }
    return {**items, "kept": found["kept"], "sessions": found["rows"][::-1]}


_MEMBERS = {"open": "open", "by_word": "by_word", "proven": "done", "checked": "checked", "kept": "kept"}
"""Name of the report value for each paged list."""
_LISTS = {
    # the title of each list, and its section's id
    "open": ("Not proven", "s2"),
    "by_word": ("Marked done by a person", "s2"),
    "proven": ("Proven", "s3"),
    "checked": ("Checked, not proven", "s3"),
    "kept": ("Kept work", "s7"),
    "sessions": ("Sessions, newest first", "s8"),
}


def _way_through(
    found: JsonObject, lists: Mapping[str, list[JsonObject]], here: str, place: PlaceInLists
) -> Iterator[Element]:
    """Yield the search form, and the links to the other pages of the lists."""
    if not place.find and all(len(lists[name]) <= most for name, most in PER_PAGE.items()):
        return
    field = E("input", type="search", name="find", value=place.find, maxlength=str(MOST_FIND), id="find")
    found_word = [E("label", "An item that has ", field), " ", E("button", "find")]
    yield E("form", *found_word, method="get", action=here, role="search", autocomplete="off", id="search")
    if place.find:
        count = sum(len(lists[name]) for name in ("open", "by_word", "proven", "checked"))
        said = f"{count} of {found['items']} items have {place.find!r}. "
        yield E("p", said, E("a", "All of them", href=place.address(here, find="")), id="found")
    ways = [way for name in _LISTS if (way := _pages_of(name, lists[name], here, place))]
    if ways:
        yield E("nav", *ways, aria_label="Parts", id="parts")


def _pages_of(name: str, rows: list[JsonObject], here: str, place: PlaceInLists) -> Element | None:
    title, mark = _LISTS[name]
    part, last, here_now = place.part(rows, name)
    if last == 1:
        return None
    first = (part - 1) * PER_PAGE[name] + 1
    near = {1, last, *range(part - 2, part + 3)} if last > MOST_LINKS else range(1, last + 1)
    row: list[Element | str] = [f"{title}, {first} to {first + len(here_now) - 1} of {len(rows)}: "]
    for number in sorted(each for each in near if 1 <= each <= last):
        current = "page" if number == part else None
        to = place.address(here, pages={name: number})
        row.append(E("a", str(number), href=f"{to}#{mark}", aria_current=current))
    return E("p", *row, class_="row")


def _running(seen: WatchView) -> Iterator[Element]:
    yield E("h2", "Now", id="now")
    yield from _now(seen)
    if seen.slots:
        yield E("pre", "\n".join(redact(each.strip()) for each in seen.slots), id="slots")
    if not seen.view.now and not seen.slots:
        yield E("p", "No session is running.", id="none-runs")
    if seen.rows:
        lines = (_log_line(each) for each in seen.rows[-LOG_LINES:])
        yield E("pre", "\n".join(lines), id="log", tabindex="0", role="region", aria_label="Messages of the harness")


def _now(seen: WatchView, most: int = 4) -> Iterator[Element]:
    for number, each in enumerate(seen.view.now[:most]):
        if most == 1 and not each.alive:
            return
        who = f", {each.model}" if each.model else ""
        said = "\n".join(redact(line) for line in each.last[-1 if most == 1 else -3 :])
        yield E("p", redact(each.line()) + redact(who), id=None if most == 1 else f"now-{number}")
        if said:
            yield E("pre", said)


def _log_line(row: JsonObject) -> str:
    at = clock.parse(row.get("at"))
    return f"{f'{at.astimezone():%H:%M:%S}' if at else '        '}  {row.get('text')}"


# ---- a person's decisions


def _form(project: ServedProject, verb: str, frame: Frame, back: str, *children: Element | str | None) -> Element:
    return E(
        "form",
        E("input", type="hidden", name="token", value=frame.token),
        E("input", type="hidden", name="all", value="yes") if back == "/" else None,
        *children,
        method="post",
        action=f"/p/{project.key}/{verb}",
        autocomplete="off",
        id=f"{verb}-{project.key}" if verb != "answer" else None,
    )


def _questions(project: ServedProject, seen: WatchView, frame: Frame, back: str) -> Iterator[Element]:
    for each in seen.view.state.questions:
        mark = mark_of(each)
        told = [E("p", E("strong", redact(each.message)))]
        told += [E("p", redact(line), class_="soft") for line in each.details]
        if frame.read_only or not answerable(project, each, seen.view):
            told.append(E("p", "Answer with: ", E("code", each.answer)))
        else:
            told.append(_form(project, "answer", frame, back, *_answers(project, each, mark)))
        yield E("section", *told, class_="asks", id=f"q-{project.key}-{mark}", aria_label="A question")
    for need in seen.view.state.needs[len(seen.view.state.questions) :]:
        yield E("p", f"{redact(need.message)}: ", E("code", redact(need.command)), class_="asks")


def _answers(project: ServedProject, asked: AskedQuestion, mark: str) -> Iterator[Element]:
    yield E("input", type="hidden", name="question", value=mark)
    explained = (*asked.explained, *[""] * len(asked.options))
    options = dict(zip(asked.options, explained, strict=False))
    if project.choices:  # a long task's
        yield E("input", type="hidden", name="revision", value=project.choices.revision)
        options = project.choices.words
    choices = [
        E("label", E("input", type="radio", name="choose", value=word, required=True), f" {word}", _meaning(meant))
        for word, meant in options.items()
    ]
    if choices:
        yield E("fieldset", E("legend", "Choose an answer"), *choices)
    if project.choices:
        field = E("input", name="text", maxlength="4000", size="40")
        yield E("label", "The next step, or a note ", field)
    if "increase" in asked.options:
        field = E("input", name="budget", inputmode="decimal", size="8")
        yield E("label", "New budget in US dollars for `increase`; empty doubles it ", field)
    yield E("button", "answer" if choices else "go on")


def _meaning(meant: str) -> str | None:
    return f": {redact(meant)}" if meant else None


def _limits(frame: Frame, key: str) -> Iterator[Element]:
    for each in frame.limits:
        mark = mark_of_limit(each)
        until = f"{each.until.astimezone():%H:%M:%S %Z}"
        told = E("p", E("strong", f"{redact(each.account)} is refused until {until}"), f": {redact(each.said)}")
        form: Element = E("p", "To try now: ", E("code", clearing(each.account)))
        if not frame.read_only:
            form = E(
                "form",
                E("input", type="hidden", name="token", value=frame.token),
                E("input", type="hidden", name="at", value=key),
                E("input", type="hidden", name="account", value=each.account),
                E("input", type="hidden", name="limit", value=mark),
                E("button", "stop waiting"),
                " waiting runs try again now",
                method="post",
                action="/limits/clear",
                autocomplete="off",
            )
        yield E("section", told, form, class_="project", id=f"limit-{mark}", aria_label="A rate limit")


def _controls(project: ServedProject, frame: Frame, back: str) -> Element | None:
    seen = project.seen
    verbs = offered(project)
    if frame.read_only or not verbs or isinstance(seen, str):
        return None
    shown = E("input", type="hidden", name="revision", value=revision_of(project, seen.view))
    form = {
        "pause": lambda: (shown, E("button", "pause")),
        "resume": lambda: (shown, E("button", "continue now" if project.kind == "longtask" else "resume")),
        "handoff": lambda: (shown, E("button", "take over"), " work on the project yourself"),
        "takeback": lambda: (
            shown,
            E(
                "label",
                E("input", type="checkbox", name="mark", value="yes"),
                " mark features whose tests pass",
            ),
            E("button", "hand back"),
        ),
        "say": lambda: (
            _to_whom(seen),
            E("label", "say to the agent ", E("input", name="text", maxlength="4000", size="40", required=True)),
            " ",
            E("button", "say"),
        ),
    }
    first = [_form(project, verb, frame, back, *form[verb]()) for verb in verbs]
    return E("div", *first, class_="row", id=f"controls-{project.key}")


def _to_whom(seen: WatchView) -> Element | None:
    """Return a form field that selects the receiver of a message, or None for fewer than two agents."""
    slots = user_messages.slots_in(seen.parallel, seen.view.kind)
    if len(slots) < 2:
        return None
    choices = [E("option", redact(str(each)), value=each.slot) for each in slots]
    return E("label", "to ", E("select", E("option", "choose", value=""), *choices, name="to", required=True), " ")


def _deeds(deeds: Sequence[Deed]) -> Iterator[Element]:
    lines: list[Element] = []
    for each in reversed(deeds):
        at = clock.parse(each.at)
        how = "done" if each.ended.is_set() else "under way"
        if each.error is not None:
            how = f"refused: {redact(each.error.message)}"
        said = "; ".join(line.strip().replace("\n", " ") for line in each.said[-3:])
        lines.append(E("li", f"{at.astimezone():%H:%M:%S} {each.verb}: {how}. {said}" if at else each.verb))
    if lines:
        yield folded("Your actions", E("ul", *lines)) if len(lines) > 1 else E("ul", *lines)
