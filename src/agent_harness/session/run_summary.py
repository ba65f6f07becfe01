"""Summary of one run, printed at its end. It compares the records on disk before and after the run.

    proven     2 in this run: #7, #8; 8 of 9 in all
    checked    #9: it already passed before the work
    claims     3, 1 rejected: #7
    cost       $0.42 in 3 sessions, 12 min; $1.40 of $200.00 in all
    kept       1 rolled back, 1 not verified: harness rescue list
    needs you  nothing

Source: ``faces.md`` F-RUN-2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_harness.kernel.json import JsonObject
from agent_harness.session import needs, status_summary
from agent_harness.session.project_view import (
    CHECKED,
    PROVEN,
    Money,
    PastSession,
    ProjectReader,
    ProjectView,
    span,
)
from agent_harness.session.status_summary import labelled

__all__ = ["RunSummary"]

NAMED = 5


class RunSummary:
    """Summary of a run. Create this object before the run starts."""

    def __init__(self, reader: ProjectReader) -> None:
        self._reader = reader
        self._before = reader.load()

    def lines(self, end: JsonObject) -> list[str]:
        """Return the summary as lines of text, or no lines if nothing happened."""
        before, after = self._before, self._reader.load()
        sessions = after.sessions[len(before.sessions) :]
        claims = [each for each in after.claims[len(before.claims) :] if each.claim and not each.by_person]
        if not sessions and not claims:
            return []
        rejected = [each.item for each in claims if not each.accepted]
        names = {each.id: each.short_name for each in after.items}
        told = [labelled("proven", _proven(before, after))]
        if after.checked:
            now = [each for each in after.items if each.state == CHECKED]
            told += [labelled("checked", f"{each.short_name}: {each.reason}") for each in now[:NAMED]]
            told += [labelled("", f"and {len(now) - NAMED} more: harness status")] if len(now) > NAMED else []
        if claims:
            wrong = f", {len(rejected)} rejected: {_named(names.get(each, each) for each in rejected)}"
            told.append(labelled("claims", f"{len(claims)}{wrong if rejected else ', none rejected'}"))
        if sessions:
            told.append(labelled("cost", _cost(sessions, after.money)))
        if kept := [each for each in sessions if each.rescue_ref]:
            one = kept[0].number if len(kept) == 1 and after.kind == "features" else None
            listed = "lth rescue ." if after.kind == "longtask" else "harness rescue list"
            see = listed if one is None else f"harness diff {one}"
            told.append(
                labelled(
                    "kept", f"{status_summary.kept_text(status_summary.kept(each.outcome for each in kept))}: {see}"
                )
            )
        needed = after.state.needs or needs.of([], last_run=end)
        return told + [labelled("needs you", str(each)) for each in needed or ["nothing"]]


def _proven(before: ProjectView, after: ProjectView) -> str:
    was, now = ({each.id for each in seen.items if each.state == PROVEN} for seen in (before, after))
    new = [each.short_name for each in after.items if each.id in now - was]
    lost = [each.short_name for each in after.items if each.id in was - now]
    told = f"{len(new)} in this run: {_named(new)}" if new else "none in this run"
    told += f"; no longer proven: {_named(lost)}" if lost else ""
    return f"{told}; {after.proven} of {len(after.items)} in all"


def _cost(sessions: Sequence[PastSession], total: Money) -> str:
    seconds = [each.seconds for each in sessions if each.seconds is not None]
    took = f", {span(sum(seconds))}" if seconds else ""
    count = f"{len(sessions)} session{'' if len(sessions) == 1 else 's'}"
    limit = f" of ${total.limit_usd:.2f}" if total.limit_usd is not None else ""
    now, whole = Money.of(sessions), total
    if now.known_usd is None and whole.known_usd is None:
        return f"{status_summary.NOT_REPORTED} ({count}{took})"
    this, every = (str(each).removeprefix("cost ") for each in (now, whole))
    return f"{this} in {count}{took}; {every}{limit} in all"


def _named(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return f"{', '.join(known[:NAMED])}{more}"
