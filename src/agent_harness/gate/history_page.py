"""Page of ``harness gate --history --report``: one file that makes no request. All text of commits is escaped."""

from agent_harness.gate.history import NOT_JUDGED, summary
from agent_harness.kernel.json import JsonObject
from agent_harness.views.report.charts import figures, folded
from agent_harness.views.report.html import E, Element
from agent_harness.views.report.page import document

_ORDER = ("rejected", "needs a person", NOT_JUDGED, "accepted")


def page(found: JsonObject) -> str:
    title = f"The last {len(found['changes'])} changes of {found['branch']}, as the gate judges them"
    sections = (_section(verdict, [row for row in found["changes"] if row["verdict"] == verdict]) for verdict in _ORDER)
    return document(title, E("h1", title), E("p", summary(found)), *sections)


def _section(verdict: str, rows: list[JsonObject]) -> Element:
    title = f"{verdict.capitalize()}: {len(rows)}"
    table = [
        (
            row["commit"][:10],
            row["subject"],
            row["author"].partition(" <")[0],
            row["shown"] or row["cause"],
            row["reason"],
        )
        for row in rows
    ]
    looks = E("pre", "\n".join(f"{row['look']}\n{row['diff']}" for row in rows))
    shown = figures(title, ("commit", "subject", "author", "word", "reason"), table)
    return E("section", E("h2", title), shown if rows else None, folded("commands to look at them", looks))
