"""What sessions cost: the record in costs.yaml, and what is left of the budgets. Pure.

The record is written in the JSON subset of YAML: people and YAML tools read it, and ``status`` needs no YAML library.
Source: features.md section V, C17, C27, UAH-133..136.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_harness.kernel.json import JsonObject


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one session used."""

    session: int
    started: str
    feature_id: int | None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = 0.0  # None: the price of a call is not known
    assumed_usd: float = 0.0  # what calls of unknown price count for in the budgets, at a stated assumed price

    @property
    def tokens(self) -> JsonObject:
        written = {"cache_write": self.cache_write_tokens} if self.cache_write_tokens else {}
        return {"input": self.input_tokens, "output": self.output_tokens, "cached": self.cached_tokens, **written}


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """Limits in US dollars."""

    per_session: float
    per_feature: float
    total: float


def add_session(costs: Mapping[str, Any], spent: Spent, budgets: Budgets) -> JsonObject:
    """The record after one more session; unknown members are kept. A session counts once (see ``counted``)."""
    before = _object(costs.get("cumulative"))
    tokens = _object(before.get("total_tokens"))
    cumulative = {
        **before,
        "total_sessions": int(_number(before.get("total_sessions"))) + 1,
        "total_tokens": {**tokens, **{k: int(_number(tokens.get(k))) + n for k, n in spent.tokens.items()}},
        "total_cost_usd": _cents(_number(before.get("total_cost_usd")) + (spent.cost_usd or 0.0)),
        "by_feature": _by_feature(before.get("by_feature"), spent),
    }
    if spent.cost_usd is None:
        cumulative["assumed_cost_usd"] = _cents(_number(before.get("assumed_cost_usd")) + spent.assumed_usd)
        cumulative["sessions_of_unknown_price"] = int(_number(before.get("sessions_of_unknown_price"))) + 1
    return {
        **costs,
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


def totals(costs: Mapping[str, Any]) -> tuple[float, float]:
    """(dollars in total, dollars of the last session)."""
    return (
        _number(_object(costs.get("cumulative")).get("total_cost_usd")),
        _number(_object(costs.get("current_session")).get("cost_usd")),
    )


def counted(costs: Mapping[str, Any]) -> float:
    """Dollars that count against the project's budget: what is known, and what is assumed for unknown prices (C58)."""
    cumulative = _object(costs.get("cumulative"))
    return _number(cumulative.get("total_cost_usd")) + _number(cumulative.get("assumed_cost_usd"))


def of_feature(costs: Mapping[str, Any], feature_id: int) -> float:
    """Dollars that count against one feature's budget."""
    rows = _object(costs.get("cumulative")).get("by_feature")
    found = [r for r in rows if _object(r).get("feature_id") == feature_id] if isinstance(rows, list) else []
    return sum(_number(_object(r).get("cost_usd")) + _number(_object(r).get("assumed_cost_usd")) for r in found)


def available(costs: Mapping[str, Any], budgets: Budgets, feature_id: int | None) -> float:
    """Dollars the next session may spend: the least of what session, feature and project leave (C27)."""
    left = [budgets.per_session, budgets.total - counted(costs)]
    if feature_id is not None:
        left.append(budgets.per_feature - of_feature(costs, feature_id))
    return max(0.0, min(left))


def _by_feature(rows: object, spent: Spent) -> list[JsonObject]:
    known = [dict(r) for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []
    if spent.feature_id is None:
        return known
    row = next((r for r in known if r.get("feature_id") == spent.feature_id), None)
    if row is None:
        row = {"feature_id": spent.feature_id, "cost_usd": 0.0, "sessions": 0}
        known.append(row)
    row["cost_usd"] = _cents(_number(row.get("cost_usd")) + (spent.cost_usd or 0.0))
    if spent.cost_usd is None:
        row["assumed_cost_usd"] = _cents(_number(row.get("assumed_cost_usd")) + spent.assumed_usd)
    row["sessions"] = int(_number(row.get("sessions"))) + 1
    return known


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _cents(dollars: float) -> float:
    """Rounded to a hundredth of a cent, so that sums read well."""
    return round(dollars, 4)
