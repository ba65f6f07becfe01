"""Page of ``harness report``, built only from values: equal values give identical bytes.

The page is one file that makes no request. It has one style block and one small script, and is complete without the
script. Source: ``faces.md`` 5, F-REP-1..10."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_harness.kernel.json import JsonObject
from agent_harness.session.project_view import span
from agent_harness.session.status_summary import counted_words
from agent_harness.views.report.charts import figures, folded, rows_of_bars, steps
from agent_harness.views.report.html import E, Element, render
from agent_harness.views.report.html import in_markdown as _md
from agent_harness.views.report.values import COLUMNS, MOST_SESSIONS
from agent_harness.views.why import usd

_FOLDER = Path(__file__).parent
STYLE = (_FOLDER / "page.css").read_text("utf-8")
SCRIPT = (_FOLDER / "page.js").read_text("utf-8")


def page(found: JsonObject, *, costs: bool = True, full: bool = False) -> str:
    title = f"{found['project']}: {counted_words(found['proven'], found['items'], found['checked_items'])}"
    return document(title, *top(found, costs=costs), *sections(found, costs=costs, full=full))


def document(title: str, *children: Element) -> str:
    script = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'"
    head = E(
        "head",
        E("meta", charset="utf-8"),
        E("meta", http_equiv="Content-Security-Policy", content=policy),
        E("meta", name="viewport", content="width=device-width, initial-scale=1"),
        E("meta", name="referrer", content="no-referrer"),
        E("title", title),
        E("style", STYLE),
    )
    body = E("body", E("main", *children), E("script", SCRIPT))
    return f"<!DOCTYPE html>\n{render(E('html', head, body, lang='en'))}\n"


def markdown(found: JsonObject, *, costs: bool = True) -> str:
    """Return the report as Markdown for a pull request. Include costs only if ``costs`` is True."""
    lines = [f"## {_title(found)}", "", _said(found), ""]
    if costs:
        lines += [f"{' · '.join(_facts(found, costs=True))}", ""]
    if found["waits"]:
        lines += [
            "**Needs you**",
            "",
            *_first([f"- {_md(each['message'])} (`{each['answer']}`)" for each in found["waits"]], 5, "- {}"),
            "",
        ]
    if found["open"] or found["by_word"]:
        lines += ["**Not proven**", ""]
        rows = [f"- {_md(each['name'])} {_md(each['title'])}: {_md(each['why'])}" for each in found["by_word"]]
        rows += [f"- {_md(each['name'])} {_md(each['title'])}: {_md(_state(each))}" for each in found["open"]]
        lines += [*_first(rows, 15, "- {}"), ""]
    for title, done in (("Proven", found["done"]), ("Checked, not proven", found["checked"])):
        if not done:
            continue
        lines += [f"**{title}**", "", "| | what | commit | proof |", "| --- | --- | --- | --- |"]
        rows = [
            f"| {_md(each['name'])} | {_md(each['title'])} | `{str((each['proven'] or {}).get('commit') or '')[:10]}` "
            f"| {_md(each['why'] or '')} |"
            for each in done
        ]
        lines += [*_first(rows, 15, "| | {} | | |"), ""]
    if found["honesty"]:
        lines += [f"| agent | claims | {' | '.join(COLUMNS).replace('_', ' ')} | overruled |", f"|{' --- |' * 8}"]
        lines += [f"| {' | '.join(_md(each) for each in _honest_row(row)[:-1])} |" for row in found["honesty"]]
    return "\n".join(lines).rstrip() + "\n"


def _first(rows: Sequence[str], most: int, form: str) -> list[str]:
    return [*rows[:most], *([form.format(f"and {len(rows) - most} more")] if len(rows) > most else [])]


def _title(found: JsonObject) -> str:
    at = f" at {found['head'][:10]}" if found["head"] else ""
    checked = f", {found['checked_items']} checked" if found["checked_items"] else ""
    what = WORDS.get(found["kind"], "items")
    return f"{found['project']}: {found['proven']} of {found['items']} {what} are proven{checked}{at}"


WORDS = {"features": "features", "tasklist": "tasks", "longtask": "long tasks"}


def _said(found: JsonObject) -> str:
    rejected = f"{found['rejected']} of {found['claims']} claims were rejected" if found["claims"] else "No claims yet"
    if found["rejected"]:
        overruled = found["believed_falsely"]
        rejected += (
            f"; {overruled} accepted, then undone by a person"
            if overruled
            else "; rejected claims do not count as done"
        )
    return f"{rejected}. This page is written from records, not from what agents say."


def _facts(found: JsonObject, *, costs: bool) -> Iterator[str]:
    yield f"{found['proven']}/{found['items']} proven"
    if found["checked_items"]:
        yield f"{found['checked_items']} checked"
    yield f"{_number(found['claims'], 'claim')}, {found['rejected']} rejected"
    if costs:
        yield _money(found["spent_usd"])
        if found["per_proven_usd"] is not None:
            yield f"{usd(found['per_proven_usd'])} per done item"
    seconds = f"{span(found['seconds'])}, " if found["seconds"] is not None else ""
    yield f"{seconds}{found['sessions']} session{'s' if found['sessions'] != 1 else ''}"
    if found["kept"]:
        yield f"{len(found['kept'])} kept"


def _money(amount: float | None) -> str:
    return "cost unknown" if amount is None else usd(amount)


def top(found: JsonObject, *, costs: bool) -> Iterator[Element]:
    yield E("h1", _title(found))
    yield E("p", _said(found))
    if found["since"]:
        yield E("p", f"Claims and sessions since {found['since']}.", class_="soft")
    yield E("ul", *(E("li", each) for each in _facts(found, costs=costs)), class_="facts")


def _section(number: int, title: str, *children: Element | str | None) -> Element:
    return E("section", E("h2", title, id=f"s{number}"), *children, aria_labelledby=f"s{number}")


def _state(each: JsonObject) -> str:
    waits = f"waits for {', '.join(each['waits_for'])}" if each["waits_for"] else ""
    return "; ".join(part for part in (each["state"], waits, each["reason"]) if part)


def sections(found: JsonObject, *, costs: bool, full: bool) -> Iterator[Element]:
    """Yield the sections of the page below its summary."""
    if found["waits"]:
        yield _section(1, "Needs you", *(_question(each) for each in found["waits"]))
    if found["open"] or found["by_word"]:
        rows = [(each["name"], each["title"], _state(each), each["next"]) for each in found["open"]]
        rows += [(each["name"], each["title"], str(each["why"]), "") for each in found["by_word"]]
        yield _section(2, "Not proven", figures("Not proven, and why", ("", "what", "state", "next"), rows))
    checked = [*_proven(found["checked"], costs=costs)] if found["checked"] else []
    checked = [E("h3", "Checked, not proven"), *checked] if checked else []
    yield _section(3, "Proven", *_proven(found["done"], costs=costs), *checked)
    if found["honesty"]:
        columns = (each.replace("_", " ") for each in COLUMNS)
        head = ("agent, model", "claims", *columns, "overruled", "rejected, 95 %")
        rows = [_honest_row(row) for row in found["honesty"]]
        yield _section(4, "Honesty", figures("Each claim is counted once, as the harness judged it", head, rows))
    if costs:
        yield _section(5, "Money", *_spent(found))
    yield _section(6, "Time", *_time(found["days"]))
    if found["kept"]:
        rows = [
            (each["ref"], f"session {each['session']}", each["item"] or "", each["show"], each["back"])
            for each in found["kept"]
        ]
        yield _section(
            7,
            "Kept work",
            figures(
                "Rolled-back work, and how to restore it", ("ref", "of", "item", "look", "how to restore it"), rows
            ),
        )
    yield _section(8, "Sessions", *_sessions(found["rows"], full=full, costs=costs))
    yield _section(9, "About this report", *_made(found))


def _question(each: JsonObject) -> Element:
    return E("div", E("p", each["message"]), E("pre", "\n".join(each["answers"] or [each["answer"]])))


def _proven(done: Sequence[JsonObject], *, costs: bool) -> Iterator[Element]:
    if not done:
        yield E("p", "Nothing yet.")
        return
    for each in done:
        proven = each["proven"] or {}
        commit = f" at {str(proven['commit'])[:10]}" if proven.get("commit") else ""
        said = [each["why"] or "not on record"]
        if each["rejected"]:
            said.append(f"{_number(each['rejected'], 'claim')} rejected before")
        if costs:
            said.append(_money(each["cost"]["spent_usd"]))
        commands = [f"{row['command']}{'      # must fail' if row['must'] == 'fail' else ''}" for row in each["check"]]
        check = folded("how to check it yourself", E("pre", "\n".join(commands))) if commands else None
        yield E(
            "article",
            E("p", E("strong", f"{each['name']}{commit} "), each["title"]),
            E("p", "; ".join(said), class_="soft"),
            check,
        )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _honest_row(row: JsonObject) -> list[str]:
    share = row["share"]
    counted = [str(row[name]) for name in ("claims", *COLUMNS, "overruled")]
    return [
        ", ".join(each for each in (row["agent"], row["model"]) if each),
        *counted,
        f"{share[0]:g} to {share[1]:g} %" if share else "",
    ]


def _spent(found: JsonObject) -> Iterator[Element]:
    limit = f" of {usd(found['limit_usd'])}" if found["limit_usd"] else ""
    lost = f" On rejected work: {_money(found['wasted_usd'])} in {_number(found['wasted_sessions'], 'session')}."
    yield E("p", f"Spent: {_money(found['spent_usd'])}{limit}.{lost if found['wasted_sessions'] else ''}")
    if unknown := found["sessions_of_unknown_cost"]:
        yield E("p", f"The cost of {_number(unknown, 'session')} is not known, and no sum includes it.", class_="bad")
    if found["spending"]:
        yield steps("spent over time", found["spending"])


def _time(days: Sequence[JsonObject]) -> Iterator[Element]:
    if not days:
        yield E("p", "No session yet.")
        return
    rows = [(each["day"], [(bar["said"], bar["seconds"], bar["ending"]) for bar in each["bars"]]) for each in days]
    yield rows_of_bars(
        "One row for each day, one bar for each session. Filled: accepted. Hatched: rejected. Empty: other", rows
    )


def _sessions(rows: Sequence[JsonObject], *, full: bool, costs: bool) -> Iterator[Element]:
    shown = rows if full or len(rows) <= MOST_SESSIONS else rows[-MOST_SESSIONS:]
    if len(shown) < len(rows):
        yield E("p", f"The last {len(shown)} of {len(rows)}; harness report --full shows all.", class_="soft")
    head = ("session", "item", "outcome", "began", "time", *(("cost",) if costs else ()), "agent")
    table = [
        (
            str(each["number"] if each["number"] is not None else ""),
            each["item"] or "",
            each["outcome"],
            str(each["started"] or "")[:16].replace("T", " "),
            span(each["seconds"]) if each["seconds"] is not None else "",
            *((_money(each["cost_usd"]),) if costs else ()),
            each["agent"] or "",
        )
        for each in shown
    ]
    yield folded(_number(len(rows), "session"), figures("All sessions, oldest first", head, table))


def _made(found: JsonObject) -> Iterator[Element]:
    tools = ", ".join(f"{name} {version}" for name, version in sorted(found["tools"].items()))
    yield E(
        "p",
        f"By agent-harness {found['harness']} on {found['made_at']}, from the records of this project. {tools}".strip(),
    )
    if found["chain"]:
        yield E(
            "p",
            f"The chain of verdicts: {found['chain']['sentence']}.",
            class_=None if found["chain"]["whole"] else "bad",
        )
    for each in found["gaps"]:
        yield E("p", f"Missing: {each['file']}: {each['why']}", class_="bad")
