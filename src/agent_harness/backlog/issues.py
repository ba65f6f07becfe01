"""Import issues from an issue tracker as work items. Source: ``docs/import.md``."""

from collections.abc import Iterable

from agent_harness.backlog.items import Backlog, BacklogItem, LeftOut, Sorter, one_line
from agent_harness.kernel.json import JsonObject

_RANKS = {"p0": 0, "critical": 0, "urgent": 0, "high": 0, "p1": 1, "medium": 1, "p2": 2, "p3": 2, "low": 2}


def read_issues(repository: str, rows: Iterable[JsonObject], *, anyone: bool, with_done: bool) -> Backlog:
    """Return the issues of a repository as work items."""
    sorter = Sorter()
    items = []
    for row in rows:
        name, title = f"#{row['number']}", one_line(row["title"])
        # the text of an issue becomes an agent's instructions
        if not (anyone or row["trusted"]):
            why = "the author has no write access to the repository (--anyone imports it)"
            sorter.left_out.append(LeftOut(what=f"{name} {title}", why=why))
            continue
        labels = (label.lower().rpartition(":")[2].rpartition("/")[2].strip() for label in row["labels"])
        ranks = (label.removeprefix("priority").strip(" -") for label in labels)
        items.append(
            BacklogItem(
                id=name,
                title=title,
                text="\n\n".join(each for each in (row["body"].strip(), row["url"]) if each),
                priority=min((_RANKS[each] for each in ranks if each in _RANKS), default=None),
                done=not row["open"],
            )
        )
    found = sorter.sorted(items, with_done=with_done)
    return Backlog(format="github", scope=repository, items=tuple(found), left_out=tuple(sorter.left_out))
