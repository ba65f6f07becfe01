"""Content of `harness status`. It is read within milliseconds from the state files, without a lock. This module may
import only modules that load fast. Source: features.md UAH-053, UAH-054, UAH-438..442, C52."""

import os

from agent_harness.kernel import journal
from agent_harness.kernel.json import json_object, members_of, number_below
from agent_harness.kernel.rate_limits import LimitClock, sentence
from agent_harness.protocols.features import questions, records, selection
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.store import FeatureStore
from agent_harness.session import needs, now, run_snapshot, status_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from agent_harness.kernel.json import JsonObject


def read(layout: FeatureLayout, *, read_yaml: "Callable[[str], JsonObject] | None" = None) -> "JsonObject":
    """Return the content of `harness status` as JSON."""
    store = FeatureStore(layout, read_yaml=read_yaml)
    believed = store.open_session()
    under_way = believed or store.session_copy()
    document, state = proven_features(store, believed, under_way), store.state()
    passing, total = document.counts()
    facts = FeatureFacts(store, document, state, under_way)
    score = _score(store, state, passing, total)
    kept = status_summary.kept(map(outcome, status_summary.kept_rows(layout.log("sessions.jsonl"))))
    feature, records_now = facts.feature, now.told(os.path.dirname(path) if (path := store.now_path()) else None)
    at_work = run_snapshot.at_work(facts.parallel) or any(each["alive"] for each in records_now)
    return {
        "project": document.project,
        "root": layout.root,
        "initialised": store.initialised(),
        "session": state.last_session,
        "status": state.status,
        "features": {"passing": passing, "total": total, "percent": records.percent(passing, total)},
        "feature": feature and {"id": feature.id, "description": feature.description},
        "skipped": facts.skipped,
        "questions": [each.record for each in facts.asked],
        "paused": facts.paused,
        "handoff": state.handoff,
        "awaiting_manual": facts.awaiting,
        "left_by_run": facts.left,
        "items": [{"id": each.id, "state": facts.standing(each)} for each in document.features],
        "checked": {str(f.id): facts.checked[str(f.id)] for f in document.passing if str(f.id) in facts.checked},
        "next_prompt": state.next_prompt,
        "termination_reason": state.termination_reason,
        "stuck_count": state.stuck_count,
        "costs": _spent(store.costs(), len(document.passing)),
        "lint": _lint(store.quality()),
        "health": {"score": round(score, 3), "word": health_word(score)},
        "skipped_features": [
            {"id": f.id, "description": f.description, "reason": f.skip_reason} for f in document.features if f.skipped
        ],
        "file_alerts": list(records.texts(store.quality().get("file_alerts"))),
        "escalation": facts.asked[0].record if facts.asked else None,
        "last_failure": state.last_failure,
        "open_session": _open(under_way),
        "client_retry": _client_retry(layout) if under_way else None,
        "limits": [each.as_notice() for each in LimitClock().all()],
        "now": records_now,
        "claims": status_summary.claims(store.ledger(make=False)),
        "kept": sum(kept.values()),
        "kept_as": kept,
        "parallel": facts.parallel,
        "last_run": facts.last_run,
        "needs": [each._asdict() for each in facts.needs],
        "next": status_summary.AT_WORK if at_work and not facts.comes_first else facts.next,
    }


class FeatureFacts:
    """Facts that `harness status` and all other views show."""

    def __init__(
        self,
        store: FeatureStore,
        document: records.FeatureList,
        state: records.SessionState,
        under_way: "JsonObject | None",
    ) -> None:
        passing, total = document.counts()
        self.asked = questions.waiting(state, document)
        self.checked = status_summary.checked(store.ledger(make=False))
        self.paused = store.pause() or state.paused
        self.handoff = state.handoff
        self.left = _left(store)
        self.parallel = run_snapshot.told(store.layout.parallel)
        self.skipped = [f.id for f in document.features if f.skipped]
        self.awaiting = [f.id for f in document.features if f.awaits_person]
        circle = any(each.kind == "dependency_cycle" for each in self.asked)
        self.feature = None if circle else selection.next_feature(document, state).feature
        self.is_complete = bool(total) and passing == total
        self.last_run = (
            needs.looks_of(needs.read_end(store.home()))
            if self.is_complete
            else needs.now_or_end_of(store.layout.root, store.home(), under_way=bool(under_way))
        )
        self.needs = needs.of(
            [(each.message, questions.hint(each)) for each in self.asked],
            held=run_snapshot.held(self.parallel),
            looks=[str(each) for each in self.awaiting],
            handed=bool(state.handoff),
            last_run=self.last_run,
            named=lambda item: f"#{item}",
        )
        one = (under_way or {}).get("feature_id")
        claimed = members_of(store.claims_of_run().get("items"))
        self._works_on = {*claimed, *([] if one is None else [str(one)])}  # also of killed sessions

    def standing(self, feature: records.Feature) -> str:
        """Return the feature's state as one word, such as proven, open or skipped."""
        needs_you = feature.awaits_person or any(each.feature_id == feature.id for each in self.asked)
        states = (
            (feature.passes and str(feature.id) in self.checked, status_summary.CHECKED),
            (feature.passes, status_summary.PROVEN),
            (feature.skipped, status_summary.SKIPPED),
            (str(feature.id) in self._works_on, status_summary.WORKING),
            (needs_you, status_summary.NEEDS_YOU),
        )
        return next((state for holds, state in states if holds), status_summary.OPEN)

    @property
    def comes_first(self) -> str | None:
        """Command that the user must run before any session can start, or None."""
        stopping = [each for each in self.asked if questions.stops(each)]
        rows: tuple[tuple[object, str], ...] = (
            (self.handoff, "harness hand-back"),
            (stopping, questions.hint(stopping[0]) if stopping else ""),
            (self.paused, "harness resume"),
            (self.left and not run_snapshot.at_work(self.parallel), str(self.left["next"]) if self.left else ""),
        )
        return next((command for holds, command in rows if holds), None)

    @property
    def next(self) -> str:
        """Command that the user should run next if no agent is running."""
        first, removes = self.comes_first or (self.left or {}).get("next"), self.last_run.get("command")
        waits, skipped = (None if self.feature else next(iter(ids), None) for ids in (self.awaiting, self.skipped))
        rows: tuple[tuple[object, str], ...] = (
            (first, str(first)),
            (removes, str(removes)),
            (self.is_complete, "harness report --open"),
            (waits is not None, f"harness manual-verify --feature {waits}"),
            (skipped is not None, f"harness why {skipped}"),
        )
        return next((command for holds, command in rows if holds), "harness run")


def outcome(row: "Mapping[str, Any]") -> str:
    """Return the session's result as readable text. ``row`` is from ``sessions.jsonl``."""
    if row.get("feature_completed") is True:
        return "verified"
    if row.get("rejected"):
        return "rejected"
    if row.get("asked"):
        return status_summary.KEPT_FOR_ANSWER
    reason = str(row.get("termination_reason") or "ended")
    return "ended without a claim" if reason == "complete" else f"handed off ({reason.replace('_', ' ')})"


def _left(store: FeatureStore) -> "JsonObject | None":
    left = store.left_by_run()
    if left is None:
        return None
    from shlex import quote

    proven = sorted(item for item, each in left["items"].items() if each.get("proven"))
    begun = sorted(item for item in left["items"] if item not in proven)
    where = f" --branch {quote(left['branch'])}" if left["branch"] else ""
    return {"proven": proven, "begun": begun, "next": f"harness run --workers {left['workers']}{where}"}


MOST_NAMED = 5
"""Maximum number of questions, skipped features, files or agents that are listed by default."""


def head(found: "Mapping[str, Any]", *, everything: bool = False) -> list[str]:
    """Return the summary lines at the top of `harness status`."""
    kept, several = status_summary.kept_text(found["kept_as"]), run_snapshot.at_work(found["parallel"])
    heard = _now_lines("", [each for each in found["now"] if each["alive"] or found["open_session"]])
    return status_summary.lines(
        found,
        **_counted(found),
        doing=[f"{several}."] if several else heard or ["Paused."] * bool(found["paused"]),
        cost=_cost(found["costs"]),
        kept_line=f"{kept}: harness log sessions" if kept else None,
        most=None if everything else MOST_NAMED,
    )


def glance(found: "Mapping[str, Any]") -> str:
    """Return the project's status as one short line."""
    costs, counted = found["costs"], _counted(found)
    stops = any(questions.stops(each) for each in map(records.Question, found["questions"]))
    doing = status_summary.doing(found, stops=stops, is_done=_is_complete(found), unnamed="session")
    unknown = costs["nothing_reported"] or (costs["sessions_of_unknown_price"] and not costs["total_usd"])
    cost = "cost unknown" if unknown else f"${costs['total_usd']:.2f}" if found["session"] else None
    return status_summary.glance(**counted, doing=doing.replace("Feature ", ""), cost=cost)


def _counted(found: "Mapping[str, Any]") -> "JsonObject":
    features, checked = found["features"], len(found["checked"])
    name = found["project"] or os.path.basename(found["root"])
    return {"name": name, "proven": features["passing"] - checked, "checked": checked, "total": features["total"]}


def _is_complete(found: "Mapping[str, Any]") -> bool:
    features = found["features"]
    return bool(features["total"]) and features["passing"] == features["total"]


def _cost(costs: "Mapping[str, Any]") -> str | None:
    unknown = costs["sessions_of_unknown_price"]
    if costs["nothing_reported"] or (unknown and not costs["total_usd"]):
        return status_summary.NOT_REPORTED
    if not costs["total_usd"]:
        return None
    least = "at least " if unknown else ""
    limit = f" of ${costs['limit_usd']:.2f}" if costs["limit_usd"] else ""
    each = f", {least}${costs['per_verified_usd']:.2f} for each proven" if costs["per_verified_usd"] is not None else ""
    return f"{least}${costs['total_usd']:.2f}{limit}{each}"


def lines(found: "Mapping[str, Any]", *, everything: bool = False) -> list[str]:
    """Return the lines of `harness status`, summary first."""
    features = found["features"]
    feature, current = found["feature"], "no feature can be worked on now"
    is_complete = _is_complete(found)
    if is_complete:
        current = "all features are passing"
    elif feature:
        current = f"Ready for Feature #{feature['id']} ({feature['description']})"
    rows = [
        *map(sentence, found["limits"]),
        *head(found, everything=everything),
        "",
        f"Project: {found['project']}",
        *([f"Session: {found['session']} ({found['status']})"] if found["session"] else []),
        f"Features: {features['passing']}/{features['total']} passing ({features['percent']}%)",
        f"Current: {current}",
        *(_session_lines(found, is_complete=is_complete) if found["session"] else ["Sessions: none yet"]),
    ]
    if lint := found["lint"]:
        new = sum(lint["introduced"].values())
        rows.append(
            f"Lint: {records.lint_line(*(lint[name] for name in ('errors', 'warnings', 'kinds', 'files')))}"
            + (f"; {new} introduced by the last accepted session" if new else "")
        )
    if found["open_session"]:
        rows += [
            _open_line(found["open_session"]),
            *_now_lines("  ", found["now"]),
            *([f"{again['at']}: {again['message']}"] if (again := found["client_retry"]) else []),
        ]
    else:
        rows += _now_lines("Now: ", [each for each in found["now"] if each["alive"]])
    most = None if everything else run_snapshot.MOST_AGENTS
    rows += run_snapshot.lines(found["parallel"], lambda item: f"#{item}", most=most)
    rows += _left_lines(found["left_by_run"], everything=everything)
    if found["last_failure"]:
        rows.append("Last failure: " + " ".join(str(found["last_failure"]).split())[:300])
    alerts = [f"Files: {alert}" for alert in found["file_alerts"]]
    skipped = [
        f"Skipped: Feature #{each['id']} ({each['description']})" + (f": {each['reason']}" if each["reason"] else "")
        for each in found["skipped_features"]
    ]
    for part in (alerts, skipped):
        rows += status_summary.first_of(part, MOST_NAMED, everything=everything)
    rows += _question_lines(found["questions"] if everything else found["questions"][:MOST_NAMED])
    if waits := [f"Feature #{i}" for i in found["awaiting_manual"]]:
        rows.append(f"You must verify: {status_summary.names(waits, MOST_NAMED, everything=everything)}")
    if found["handoff"]:
        rows.append("You have taken over. To let agents continue: harness hand-back")
    if paused := found["paused"]:
        why = paused.get("reason") if isinstance(paused, dict) else None
        rows.append(f"Paused{f': {why}' if why else ''}. To continue: harness resume")
    return rows


def _session_lines(found: "Mapping[str, Any]", *, is_complete: bool) -> list[str]:
    why = f" ({found['termination_reason']})" if found["termination_reason"] else ""
    return [
        f"Last session: {found['status']}{why}",
        *([] if is_complete else [f"Next prompt: {found['next_prompt']}", f"Stuck count: {found['stuck_count']}"]),
        *_cost_lines(found["costs"]),
        f"Health: {found['health']['word']}",
    ]


def _left_lines(left: "JsonObject | None", *, everything: bool) -> list[str]:
    if left is None:
        return []
    items = [*(f"#{i} (proven)" for i in left["proven"]), *(f"#{i}" for i in left["begun"])]
    told = status_summary.names(items, MOST_NAMED, everything=everything)
    return [f"A run with several agents left work: {told}. To continue: {left['next']}"]


def _question_lines(asked: "list[JsonObject]") -> "list[str]":
    rows: list[str] = []
    for each in map(records.Question, asked):
        waits = "Needs your answer" if questions.stops(each) else "A question that does not stop the run"
        if each.kind in questions.KEEPING:
            waits = f"Feature #{each.feature_id} needs your answer"
        rows.append(f"{waits}: {each.message}")
        rows += [f"  {line}" for line in each.details if line and each.kind in questions.KEEPING]
        rows.append(f"Answer with: {questions.hint(each)}")
    return rows


def _now_lines(begin: str, found: "list[JsonObject]") -> list[str]:
    return [f"{begin}{line}" for line in now.lines(found)]


def _lint(measured: "JsonObject") -> "JsonObject | None":
    errors, warnings = records.number(measured.get("lint_errors")), records.number(measured.get("lint_warnings"))
    if not errors and not warnings:
        return None
    kinds = sorted(records.counts(measured.get("lint_kinds")).items(), key=lambda row: (-row[1], row[0]))
    files, introduced = (records.counts(measured.get(name)) for name in ("lint_files", "lint_introduced"))
    return {"errors": errors, "warnings": warnings, "kinds": dict(kinds), "files": files, "introduced": introduced}


def health_word(score: float) -> str:
    # UAH-442
    return "GOOD" if score > 0.8 else "FAIR" if score > 0.6 else "POOR"


def weigh(
    *, features: "tuple[int, int]", tests: "tuple[int, int]", lint_errors: int, lines: "list[int]", max_lines: int
) -> float:
    """Return the weighted health score, from 0 to 1 (C52)."""
    large = sum(1 for each in lines if each > max_lines)
    return (
        0.4 * (features[0] / features[1] if features[1] else 0.0)
        + 0.3 * (tests[0] / tests[1] if tests[1] else 1.0)
        + 0.2 * max(0.0, 1 - lint_errors / max(sum(lines), 1))
        + 0.1 * (1 - large / max(len(lines), 1))
    )


def _score(store: FeatureStore, state: records.SessionState, passing: int, total: int) -> float:
    # C23
    known, quality = len(store.baseline().passing), store.quality()
    sizes = members_of(store.file_sizes().get("files"))
    return weigh(
        features=(passing, total),
        tests=(max(0, known - len(state.red_tests or ())), known),
        lint_errors=records.number(quality.get("lint_errors")),
        lines=[records.number(row.get("lines")) for row in sizes.values()],
        max_lines=records.number(quality.get("max_lines"), 500),
    )


def proven_features(
    store: FeatureStore, believed: "JsonObject | None", copied: "JsonObject | None"
) -> records.FeatureList:
    """Return features.json without the passing marks that nobody has verified."""
    before = json_object((believed or {}).get("features"))
    if before is not None:
        return store.believed(records.FeatureList(before))
    document = store.believed(store.features())
    earlier = json_object((copied or {}).get("features"))
    if earlier is None:
        return document
    # a session record inside the project is not trusted: it can only remove claims
    marked = [f.id for f in records.FeatureList(earlier).passing]
    found = [f.record if f.id in marked else {**f.record, "passes": False} for f in document.features]
    return records.FeatureList({**document.record, "features": found})


def _open(under_way: "JsonObject | None") -> "JsonObject | None":
    if not under_way:
        return None
    from agent_harness.kernel import owner

    who = owner.Owner.from_record(under_way.get("harness"))
    alive = who is not None and owner.state(who) == "alive"
    named = {name: under_way.get(name) for name in ("session", "feature_id", "phase")}
    return {**named, "running": alive}


def _client_retry(layout: FeatureLayout) -> "JsonObject | None":
    last = journal.tail(layout.log("events.jsonl"), 1)
    if not last or last[0].get("type") != "client_retry":
        return None
    return {"at": str(last[0].get("ts")), "message": str(last[0].get("message"))}


def _open_line(found: "Mapping[str, Any]") -> str:
    work = "a cleanup" if found["feature_id"] is None else f"Feature #{found['feature_id']}"
    plans = found["phase"] in ("planning", "planned")
    name = "an agent that plans more features" if plans else f"Session {found['session']} on {work}"
    return f"Now: {name} is running" if found["running"] else f"Now: {name} was interrupted; `harness run` recovers it"


def _spent(costs: records.CostRecord, verified: int) -> "JsonObject":
    # C58
    return {
        "total_usd": costs.total_usd,
        "last_session_usd": costs.last_session_usd,
        "limit_usd": number_below(members_of(costs.record.get("budgets")).get("total_project_usd"), 1e12),
        "verified": verified,
        "per_verified_usd": round(costs.total_usd / verified, 4) if verified else None,
        "by_feature": {str(row.get("feature_id")): row.get("cost_usd") for row in costs.by_feature},
        "sessions_of_unknown_price": costs.unpriced_sessions,
        "assumed_usd": costs.assumed_usd,
        "nothing_reported": costs.silent,
    }


def _cost_lines(costs: "Mapping[str, Any]") -> list[str]:
    last, unknown = costs["last_session_usd"], costs["sessions_of_unknown_price"]
    if costs["nothing_reported"]:
        return [f"Costs: {status_summary.NOT_REPORTED}"]
    rows = [f"Costs: ${costs['total_usd']:.2f} total, {'unknown' if last is None else f'${last:.2f}'} last session"]
    if costs["verified"] and (costs["total_usd"] or unknown):
        least = "at least " if unknown else ""
        count = f"{costs['verified']} verified feature{'s' if costs['verified'] > 1 else ''}"
        rows.append(f"Cost per verified feature: {least}${costs['per_verified_usd']:.2f} ({count})")
    if unknown:
        sessions = f"{unknown} session{'s' if unknown > 1 else ''}"
        rows.append(f"Cost not reported: {sessions}, counted as ${costs['assumed_usd']:.2f} against the budgets")
    return rows
