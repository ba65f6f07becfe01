"""Values of the report page, read from the project's view and git. Nothing is changed.

Each claim is counted once (F-REP-6): as accepted, or in the column of its first code that has a column. An unknown
value is ``None``, never 0. Source: ``faces.md`` 5."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from agent_harness import __version__
from agent_harness.errors import HarnessError, Refused
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.session.ledger import ChainReport, ClaimVerdict
from agent_harness.session.project_view import CHECKED, DONE, Item, PastSession, ProjectView
from agent_harness.views import costs, why

MOST_SESSIONS = 300
COLUMNS = ("accepted", "proof_failed", "broke_others", "out_of_bounds", "nothing_shown")
PROOF = frozenset(
    {"answers_differ", "data_changed", "proof_failed", "proof_not_red", "green_before", "no_proof_run", "timed_out"}
    | {"weak_test", "trivial_test", "unsteady_test"}
)
BROKE = frozenset({"regression", "suite_failed", "fails_in_suite", "tests_gone", "flaky_test"})
NOTHING = frozenset({"no_evidence", "criteria_unmet", "only_checked", "unchanged"})


def read(
    view: ProjectView,
    *,
    chain: ChainReport | None,
    at: datetime,
    since: datetime | None = None,
    most: int = MOST_SESSIONS,
) -> JsonObject:
    """Return the values for the report. ``since`` limits the sessions and claims, but not the items and total costs."""
    claims = [each for each in view.claims if _within(each.at, since)]
    sessions = [each for each in view.sessions if _within(each.started or each.ended, since)]
    judged = [each for each in claims if not each.by_person and each.claim]
    contradicted = {(each.of, not each.accepted) for each in claims if each.by_person}
    rejected = [each for each in judged if not each.accepted]
    found = costs.read(view)
    changed = _changed(view)
    completed = [each for each in view.items if each.state in DONE]
    histories = why.histories(view, *(each.id for each in completed))
    moved = why.commits_moved(view.path, view.claims)
    done = [_done(view, each, changed, moved, histories[each.id]) for each in completed]
    by_proof = [each for each in done if not _by_word(each)]
    seconds = [each.seconds for each in sessions if each.seconds is not None]
    git = Git(view.path)
    return {
        "project": os.path.basename(view.path),
        "path": view.path,
        "kind": view.kind,
        "head": git.head() if git.is_repository else None,
        "made_at": clock.timestamp(at),
        "since": clock.timestamp(since) if since else None,
        "harness": __version__,
        "doing": view.doing,
        "next": view.next,
        "proven": view.proven,
        "checked_items": view.checked,
        "items": len(view.items),
        "claims": len(judged),
        "rejected": len(rejected),
        "believed_falsely": sum((each.n, True) in contradicted for each in judged if each.accepted),
        "spent_usd": found["spent_usd"],
        "limit_usd": found["limit_usd"],
        "per_proven_usd": found["per_proven_usd"],
        "wasted_usd": found["wasted_usd"],
        "wasted_sessions": found["wasted_sessions"],
        "sessions_of_unknown_cost": found["sessions_of_unknown_cost"],
        "sessions": len(sessions),
        "seconds": round(sum(seconds), 1) if seconds else None,
        "waits": _waits(view),
        "open": _open_items(view),
        "done": [each for each in by_proof if each["state"] != CHECKED],
        "checked": [each for each in by_proof if each["state"] == CHECKED],
        "by_word": [each for each in done if _by_word(each)],
        "honesty": _honesty(judged, contradicted),
        "spending": _spending(sessions, most),
        "days": _days(sessions, most),
        "kept": _kept(sessions),
        "rows": [{**each.as_json(), "line": redact(each.line)} for each in sessions],
        "chain": {"whole": chain.whole, "sentence": chain.sentence} if chain else None,
        "tools": dict(next((each.tools for each in reversed(view.claims) if each.tools), {})),
        "gaps": [{"file": each.file, "why": each.why} for each in view.gaps],
    }


def _waits(view: ProjectView) -> list[JsonObject]:
    asked: list[JsonObject] = [
        {
            "message": redact(each.message),
            "item": each.item,
            "options": [*each.options],
            "answer": each.answer,
            "answers": [*each.answers],
        }
        for each in view.state.questions
    ]
    others = view.state.needs[len(view.state.questions) :]
    none: JsonObject = {"item": None, "options": [], "answers": []}
    return asked + [{**none, "message": redact(each.message), "answer": each.command} for each in others]


def _open_items(view: ProjectView) -> list[JsonObject]:
    return [
        {
            "id": each.id,
            "name": each.name,
            "title": redact(each.title),
            "state": each.state,
            "reason": redact(each.reason),
            "waits_for": [*each.waits_for],
            "next": view.next_of(each),
        }
        for each in view.items
        if each.state not in DONE
    ]


def _by_word(done: JsonObject) -> bool:
    """Return True if the item is done only because a person marked it as done."""
    return bool(done["proven"]) and done["proven"]["by"] == "person"


def _within(stamp: str | None, since: datetime | None) -> bool:
    if since is None:
        return True
    at = clock.parse(stamp)
    return at is not None and at >= since


def _done(
    view: ProjectView, item: Item, changed: why.Changes, moved: Mapping[str, str], history: why.History
) -> JsonObject:
    found = why.explain(view, item, changed=changed, history=history, moved=moved)
    last = next((each for each in reversed(found["claims"]) if each["verdict"] == "accepted"), None)
    return {
        "id": item.id,
        "name": item.name,
        "state": item.state,
        "title": redact(item.title),
        "proof": found["proof"],
        "proven": found["proven"],
        "red_before": any(each["must"] == "fail" for each in found["check"]),
        "why": redact(last["why"]) if last else None,
        "rejected": sum(each["verdict"] != "accepted" and each["by"] == "agent" for each in found["claims"]),
        "cost": found["cost"],
        "check": found["check"],
    }


def _changed(view: ProjectView) -> dict[tuple[str, str], list[str]]:
    """Return the paths that each accepted claim changed. A key is the pair of commits (before, after)."""
    pairs = {
        (before, each.commit)
        for each in view.claims
        if each.accepted and each.commit and (before := each.red_base or each.base)
    }
    git = Git(view.path)
    found: dict[tuple[str, str], list[str]] = {}
    if not pairs or not git.is_repository:
        return found
    with git.objects() as objects:
        for before, commit in sorted(pairs):
            with suppress(HarnessError, OSError, KeyError):
                changes = objects.differences(objects.tree_of(before), objects.tree_of(commit))
                found[before, commit] = [os.fsdecode(path) for path in changes]
    return found


def _honesty(judged: Sequence[ClaimVerdict], contradicted: set[tuple[int | None, bool]]) -> list[JsonObject]:
    rows: dict[tuple[str, str], JsonObject] = {}
    for each in judged:
        named = (each.agent or "not known", each.model or "")
        row = rows.setdefault(
            named, {"agent": named[0], "model": named[1], "claims": 0, "overruled": 0} | dict.fromkeys(COLUMNS, 0)
        )
        row["claims"] += 1
        row[_column(each)] += 1
        row["overruled"] += (each.n, each.accepted) in contradicted
    for row in rows.values():
        row["share"] = wilson(row["claims"] - row["accepted"], row["claims"])
    return [rows[name] for name in sorted(rows)]


def _column(claim: ClaimVerdict) -> str:
    if claim.accepted:
        return "accepted"
    for code in claim.codes:
        for column, codes in (("proof_failed", PROOF), ("broke_others", BROKE), ("nothing_shown", NOTHING)):
            if code in codes:
                return column
    return "out_of_bounds"


def wilson(part: int, whole: int) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of a share in percent, or None if ``whole`` is below five."""
    if whole < 5:
        return None
    z, share = 1.96, part / whole
    middle = share + z * z / (2 * whole)
    width = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    scale = 1 + z * z / whole
    return round(100 * max((middle - width) / scale, 0.0), 1), round(100 * min((middle + width) / scale, 1.0), 1)


def _spending(sessions: Iterable[PastSession], most: int) -> list[tuple[str, float]]:
    spent, found = 0.0, list[tuple[str, float]]()
    for each in sessions:
        if each.cost_usd is not None:
            spent += each.cost_usd
            found.append((str(each.ended or each.started or "")[:16].replace("T", " "), round(spent, 4)))
    if len(found) > most:  # the last sum of each day
        found = [*{when[:10]: (when[:10], value) for when, value in found}.values()]
    return found


def _days(sessions: Sequence[PastSession], most: int) -> list[JsonObject]:
    days: dict[str, list[JsonObject]] = {}
    for each in sessions:
        if day := str(each.started or each.ended or "")[:10]:
            said = f"session {each.number}: {each.item or 'no item'}, {each.outcome}"
            bar = {"said": redact(said), "seconds": each.seconds or 0.0, "ending": _ending(each)}
            days.setdefault(day, []).append(bar)
    if len(sessions) > most:
        for day, bars in days.items():
            sums = {kind: [each for each in bars if each["ending"] == kind] for kind in ("good", "bad", "other")}
            days[day] = [
                {
                    "said": f"{len(found)} sessions, {kind}",
                    "seconds": sum(each["seconds"] for each in found),
                    "ending": kind,
                }
                for kind, found in sums.items()
                if found
            ]
    return [{"day": day, "bars": days[day]} for day in sorted(days)]


def _ending(session: PastSession) -> str:
    if session.outcome in why.DONE:
        return "good"
    return "bad" if session.outcome.startswith(("rejected", "failed")) else "other"


def _kept(sessions: Iterable[PastSession]) -> list[JsonObject]:
    return [
        {
            "ref": each.rescue_ref,
            "session": each.number,
            "item": each.item,
            "show": f"harness diff S{each.number} --stat",
            "back": f"harness rescue restore {each.rescue_ref}",
        }
        for each in sessions
        if each.rescue_ref
    ]


# ---- to be shown to others


def shareable(text: str, view: ProjectView) -> str:
    """Return the report page without this machine's paths, names and git remotes. Raise ``Refused`` if a secret may
    remain."""
    home, user, host = (
        os.path.expanduser("~"),
        os.environ.get("USER") or os.path.basename(os.path.expanduser("~")),
        socket.gethostname(),
    )
    remotes: list[str] = []
    git = Git(view.path)
    if git.is_repository:
        remotes = [
            each.split("\t")[1].rsplit(" ", 1)[0] for each in git.text("remote", "-v").splitlines() if "\t" in each
        ]
    changes = [(each, "REMOTE") for each in remotes]
    changes += [(os.path.realpath(view.path), "PROJECT"), (view.path, "PROJECT"), (home, "HOME")]
    changes += [(each, mask) for each, mask in ((host, "HOST"), (user, "USER")) if len(each) > 3]
    for what, mask in changes:
        if what and what != "/":
            text = text.replace(what, mask)
    if home != "/" and home in text:
        raise Refused(
            "The report was not written, because it contains the path of your home folder", hint="harness report"
        )
    if redact(text) != text:
        raise Refused(
            "The report was not written, because it contains text that looks like a secret",
            hint="harness report  # then check the page",
        )
    return text
