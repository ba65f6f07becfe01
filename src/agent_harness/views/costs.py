"""Costs of a project's sessions: in total, for each proven item, and for rejected claims.

Unknown costs are counted separately and never part of a sum. Source: ``faces.md`` 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.session.project_view import DONE, Money, PastSession, ProjectView
from agent_harness.session.status_summary import NOT_REPORTED
from agent_harness.views.why import histories, usd, wasted

__all__ = ["csv_lines", "lines", "read"]

NOBODY = "(unknown)"
REST = "(planning, or no longer on record)"
CENT = 0.005  # less than half a cent is rounding


def read(view: ProjectView, by: str = "item") -> JsonObject:
    """Return the project's costs in US dollars, in total and for each value of ``by``."""
    sessions, money = view.sessions, view.money
    lost = wasted_sessions(view)
    counted = Money.of(sessions)
    outside = _proven_outside(view)
    paid_for = view.done - outside
    each_usd = round(money.spent_usd / paid_for, 4) if paid_for and money.known_usd is not None else None
    left = sum(item.is_left for item in view.items)
    return {
        "kind": view.kind,
        "spent_usd": money.known_usd,
        "limit_usd": money.limit_usd,
        "sessions": max(money.sessions, counted.sessions),
        "sessions_of_unknown_cost": money.unknown,
        "assumed_usd": money.assumed_usd,
        "proven": view.proven,
        "checked": view.checked,
        "proven_outside": outside,
        "per_proven_usd": each_usd,
        "wasted_usd": Money.of(lost).known_usd,
        "wasted_sessions": len(lost),
        "wasted_of_unknown_cost": Money.of(lost).unknown,
        "left": left,
        "forecast_usd": round(each_usd * left, 4) if each_usd is not None and left else None,
        "by": by,
        "rows": [*_rows(sessions, lost, _KEYS[by]), *_rest(money, counted)],
        "assumed_models": sorted({each for session in sessions for each in _assumed(session.model)}),
        "gaps": [{"file": each.file, "why": each.why} for each in view.gaps],
    }


def _proven_outside(view: ProjectView) -> int:
    """Return the number of proven items without a recorded session."""
    if view.money.sessions > len(view.sessions):
        return 0  # some records are missing, so such items cannot be counted
    worked_on = {session.item for session in view.sessions}
    return sum(item.state in DONE and item.id not in worked_on for item in view.items)


def wasted_sessions(view: ProjectView) -> list[PastSession]:
    found = histories(view, *(each.item for each in view.sessions))
    return [lost for claims, sessions in found.values() for lost in wasted(sessions, claims)]


def _day(session: PastSession) -> str:
    at = clock.parse(session.ended or session.started)
    return at.astimezone().strftime("%Y-%m-%d") if at else NOBODY


_KEYS: dict[str, Callable[[PastSession], str]] = {
    "item": lambda each: each.item or "(none)",
    "agent": lambda each: each.agent or NOBODY,
    "model": lambda each: each.model or NOBODY,
    "day": _day,
}


def _rows(
    sessions: Sequence[PastSession], lost: Iterable[PastSession], key: Callable[[PastSession], str]
) -> list[JsonObject]:
    groups: dict[str, list[PastSession]] = {}
    for each in sessions:
        groups.setdefault(key(each), []).append(each)
    refused = {id(each) for each in lost}
    rows = []
    for name, mine in groups.items():
        money, gone = Money.of(mine), Money.of(each for each in mine if id(each) in refused)
        tokens = [each.tokens for each in mine if each.tokens]
        rows.append(
            {
                "name": name,
                "sessions": money.sessions,
                "spent_usd": money.known_usd,
                "of_unknown_cost": money.unknown,
                "wasted_usd": gone.known_usd,
                "wasted_sessions": gone.sessions,
                "input_tokens": sum(each.get("input", 0) for each in tokens) if tokens else None,
                "output_tokens": sum(each.get("output", 0) for each in tokens) if tokens else None,
                "seconds": round(sum(each.seconds or 0.0 for each in mine), 1),
            }
        )
    return rows


def _rest(money: Money, counted: Money) -> list[JsonObject]:
    usd, sessions = round(money.spent_usd - counted.spent_usd, 4), money.sessions - counted.sessions
    unknown = max(money.unknown - counted.unknown, 0)
    if usd < CENT and sessions < 1:
        return []
    spent = None if unknown and usd < CENT else max(usd, 0.0)
    row = {"name": REST, "sessions": max(sessions, 0), "spent_usd": spent, "of_unknown_cost": unknown}
    row |= {"wasted_usd": 0.0, "wasted_sessions": 0, "input_tokens": None, "output_tokens": None, "seconds": 0.0}
    return [row]


COLUMNS = ("sessions", "spent_usd", "of_unknown_cost", "wasted_usd", "wasted_sessions")
COLUMNS_MORE = ("input_tokens", "output_tokens", "seconds")


def csv_lines(found: JsonObject) -> str:
    """Return the costs as CSV text with one line for each row. A field is empty if its value is unknown."""
    import csv
    import io

    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    names = (*COLUMNS, *COLUMNS_MORE)
    table.writerow([found["by"], *names])
    for row in found["rows"]:
        name = str(row["name"])
        safe = f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t", "\r") else name  # no formula for a spreadsheet
        table.writerow([safe, *("" if row[each] is None else row[each] for each in names)])
    return out.getvalue()


def _assumed(models: str | None) -> Iterator[str]:
    """Yield the models whose cost is only an estimate from the harness's own price list."""
    from agent_harness.agents import usage

    yield from (each for each in map(str.strip, (models or "").split(",")) if each and usage.is_assumed(each))


def lines(found: JsonObject) -> list[str]:
    if not found["sessions"]:
        return ["Nothing spent: no session has ended yet.", "next: harness run"]
    unknown = found["sessions_of_unknown_cost"]
    least = "at least " if unknown else ""
    spent = NOT_REPORTED if found["spent_usd"] is None else f"{least}{usd(found['spent_usd'])}"
    limit = f" of ${found['limit_usd']:.2f}" if found["limit_usd"] is not None else ""
    count = f"{found['sessions']} session{'s' if found['sessions'] != 1 else ''}"
    rows = [f"Spent       {spent}{limit} ({count})"]
    if done := found["proven"] + found["checked"]:
        each = "not known" if found["per_proven_usd"] is None else f"{least}{usd(found['per_proven_usd'])}"
        more = (
            f"; {outside} more without a session on record, at unknown cost"
            if (outside := found["proven_outside"])
            else ""
        )
        word = "Per proven " if not found["checked"] else "Per done   "
        rows.append(f"{word} {each}, {done - outside} {'done' if found['checked'] else 'proven'}{more}")
    if found["wasted_sessions"]:
        number, silent = found["wasted_sessions"], found["wasted_of_unknown_cost"]
        lost = NOT_REPORTED if found["wasted_usd"] is None else usd(found["wasted_usd"])
        more = f", {silent} of them without a cost" if silent and found["wasted_usd"] is not None else ""
        rows.append(f"Wasted      {lost} ({number} session{'s' * (number != 1)} whose work was rejected{more})")
    if unknown:
        rows.append(f"No cost     {unknown} of {count}; counted as ${found['assumed_usd']:.2f} against budgets")
    if found["forecast_usd"] is not None:
        rows.append(f"Left        {found['left']} open, about {usd(found['forecast_usd'])} at this rate")
    if found["assumed_models"]:
        from agent_harness.installation import command_for_extra

        named = ", ".join(found["assumed_models"])
        rows.append(f"Assumed     {named}: the client reports no cost, so built-in prices are used. For exact prices:")
        rows.append(f"            {command_for_extra('api')}")
    rows += [f"Not read    {each['file']}: {each['why']}" for each in found["gaps"]]
    table = [(found["by"], "spent", "sessions", "wasted")]
    table += [(str(row["name"]), _spent(row), str(row["sessions"]), _lost(row)) for row in found["rows"]]
    widths = [max(len(row[place]) for row in table) for place in range(4)]
    rows.append("")
    for name, paid, number, lost in table:
        rows.append(f"{paid:>{widths[1]}}  {number:>{widths[2]}}  {lost:>{widths[3]}}  {name}")
    return rows


def _spent(row: JsonObject) -> str:
    if row["spent_usd"] is None:
        return "unknown"
    more = f" + {row['of_unknown_cost']} unknown" if row["of_unknown_cost"] else ""
    return f"{usd(row['spent_usd']).replace('less than ', '<')}{more}"


def _lost(row: JsonObject) -> str:
    if not row["wasted_sessions"]:
        return "-"
    return "unknown" if row["wasted_usd"] is None else usd(row["wasted_usd"]).replace("less than ", "<")
