"""Charts as SVG, each with a table of the same figures for readers who cannot see the chart.

Bars differ not only in colour, but also in their pattern. Source: ``faces.md`` 5, F-REP-4."""

from __future__ import annotations

from collections.abc import Sequence

from agent_harness.views.report.html import E, Element

__all__ = ["figures", "rows_of_bars", "steps"]

WIDTH, HEIGHT = 640, 160


def figures(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Element:
    """Return a table that scrolls. The first cell in each row is a row header."""
    return E(
        "div",
        E(
            "table",
            E("caption", caption),
            E("thead", E("tr", *(E("th", each, scope="col") for each in head))),
            E(
                "tbody",
                *(E("tr", E("th", row[0], scope="row"), *(E("td", each) for each in row[1:])) for row in rows),
            ),
        ),
        class_="wide",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def folded(summary: str, *children: Element | str | None) -> Element:
    return E("details", E("summary", summary), *children)


def steps(title: str, points: Sequence[tuple[str, float]], unit: str = "$") -> Element:
    """Return a step chart and a table of a growing sum. A point is a pair of time and sum."""
    most = max((value for _, value in points), default=0.0) or 1.0
    across = WIDTH / max(len(points), 1)
    path, before = [f"M0 {HEIGHT}"], HEIGHT
    for number, (_, value) in enumerate(points):
        height = round(HEIGHT - value / most * (HEIGHT - 10), 1)
        path += [f"L{number * across:.1f} {before}", f"L{number * across:.1f} {height}"]
        before = height
    path.append(f"L{WIDTH} {before}")
    last = f"{unit}{points[-1][1]:.2f}" if points else f"{unit}0.00"
    return E(
        "figure",
        E(
            "svg",
            E("title", f"{title}: {last} at the end"),
            E("path", d=" ".join(path), class_="line"),
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label=f"{title}: {last} at the end",
            preserveAspectRatio="none",
        ),
        folded(
            "The same as a table",
            figures(title, ("when", "sum"), [(when, f"{unit}{value:.2f}") for when, value in points]),
        ),
    )


def rows_of_bars(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, float, str]]]]) -> Element:
    """Return a bar chart with a row for each name. A bar is a tuple of tooltip, length and CSS class."""
    most = max((sum(each[1] for each in bars) for _, bars in rows), default=0.0) or 1.0
    line = 22
    drawn: list[Element] = []
    for number, (name, bars) in enumerate(rows):
        left, top = 110.0, number * line
        drawn.append(E("text", name, x="0", y=top + 14))
        for said, length, kind in bars:
            width = max(length / most * (WIDTH - 115), 1.5)
            bar = E(
                "rect",
                E("title", said),
                x=round(left, 1),
                y=top + 2,
                width=round(width - 0.5, 1),
                height=15,
                class_=kind,
            )
            drawn.append(bar)
            left += width
    marks = E(
        "defs",
        E(
            "pattern",
            E("rect", width="6", height="6", class_="ground"),
            E("path", d="M0 6L6 0", class_="hatch"),
            id="hatched",
            width="6",
            height="6",
            patternUnits="userSpaceOnUse",
        ),
    )
    box = f"0 0 {WIDTH} {max(len(rows), 1) * line}"
    return E("figure", E("svg", E("title", title), marks, *drawn, viewBox=box, role="img", aria_label=title))
