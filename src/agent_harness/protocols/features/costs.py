"""Pure functions that compute the costs of sessions. The file costs.yaml contains only JSON, which is also YAML, so
that ``status`` needs no YAML library. Source: features.md section V, C17, C27, UAH-133..136."""

from dataclasses import dataclass

from agent_harness.agents.usage import Totals
from agent_harness.kernel.json import JsonObject, members_of
from agent_harness.protocols.features.records import CostRecord, amount, number


@dataclass(frozen=True, kw_only=True)
class Spent:
    session: int
    started: str
    feature_id: int | None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = 0.0  # None: the price of a call is not known
    assumed_usd: float = 0.0  # budget share of calls of unknown price, at a stated assumed price

    @classmethod
    def by(cls, used: Totals, *, session: int, started: str, feature_id: int | None) -> "Spent":
        return cls(
            session=session,
            started=started,
            feature_id=feature_id,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
            cache_write_tokens=used.cache_write_tokens,
            cost_usd=used.cost_usd,
            assumed_usd=used.budget_usd() if used.cost_usd is None else 0.0,
        )

    @property
    def tokens(self) -> JsonObject:
        written = {"cache_write": self.cache_write_tokens} if self.cache_write_tokens else {}
        return {"input": self.input_tokens, "output": self.output_tokens, "cached": self.cached_tokens, **written}


@dataclass(frozen=True, kw_only=True)
class Budgets:
    per_session: float
    per_feature: float
    total: float


def add_session(costs: CostRecord, spent: Spent, budgets: Budgets) -> CostRecord:
    before = costs.cumulative
    tokens = members_of(before.get("total_tokens"))
    cumulative = {
        **before,
        "total_sessions": number(before.get("total_sessions")) + 1,
        "total_tokens": {**tokens, **{k: number(tokens.get(k)) + n for k, n in spent.tokens.items()}},
        "total_cost_usd": _cents(costs.total_usd + (spent.cost_usd or 0.0)),
        "by_feature": _by_feature(costs, spent),
    }
    if spent.cost_usd is None:
        cumulative["assumed_cost_usd"] = _cents(costs.assumed_usd + spent.assumed_usd)
        cumulative["sessions_of_unknown_price"] = costs.unpriced_sessions + 1
    after = {
        **costs.record,
        "current_session": {
            "session_id": spent.session,
            "started": spent.started,
            "tokens": spent.tokens,
            "cost_usd": None if spent.cost_usd is None else _cents(spent.cost_usd),
        },
        "cumulative": cumulative,
        "budgets": {
            "per_session_usd": budgets.per_session,
            "per_feature_usd": budgets.per_feature,
            "total_project_usd": budgets.total,
        },
    }
    return CostRecord(after)


def add_later(costs: CostRecord, feature_id: int, dollars: float) -> CostRecord:
    spent = Spent(session=0, started="", feature_id=feature_id, cost_usd=dollars)
    more = {"total_cost_usd": _cents(costs.total_usd + dollars), "by_feature": _by_feature(costs, spent, sessions=0)}
    return CostRecord({**costs.record, "cumulative": {**costs.cumulative, **more}})


def counted(costs: CostRecord) -> float:
    """Return the project's costs in dollars, including assumed costs (C58)."""
    return costs.total_usd + costs.assumed_usd


def of_feature(costs: CostRecord, feature_id: int) -> float:
    """Return the feature's costs in dollars, including assumed costs."""
    found = [row for row in costs.by_feature if row.get("feature_id") == feature_id]
    return sum(amount(row.get("cost_usd")) + amount(row.get("assumed_cost_usd")) for row in found)


def available(costs: CostRecord, budgets: Budgets, feature_id: int | None) -> float:
    """Return the dollars that the next session may spend (C27)."""
    left = [budgets.per_session, budgets.total - counted(costs)]
    if feature_id is not None:
        left.append(budgets.per_feature - of_feature(costs, feature_id))
    return max(0.0, min(left))


def _by_feature(costs: CostRecord, spent: Spent, sessions: int = 1) -> list[JsonObject]:
    known = [dict(row) for row in costs.by_feature]
    if spent.feature_id is None:
        return known
    row = next((r for r in known if r.get("feature_id") == spent.feature_id), None)
    if row is None:
        row = {"feature_id": spent.feature_id, "cost_usd": 0.0, "sessions": 0}
        known.append(row)
    row["cost_usd"] = _cents(amount(row.get("cost_usd")) + (spent.cost_usd or 0.0))
    if spent.cost_usd is None:
        row["assumed_cost_usd"] = _cents(amount(row.get("assumed_cost_usd")) + spent.assumed_usd)
    row["sessions"] = number(row.get("sessions")) + sessions
    return known


def _cents(dollars: float) -> float:
    return round(dollars, 4)
