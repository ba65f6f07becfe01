"""Tokens add up, prices are known or unknown, and nothing is guessed."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents import usage
from agent_harness.agents.events import Usage
from agent_harness.agents.usage import ASSUMED, SAMPLE_PRICE, Totals, add, is_assumed, merge, price

SAMPLE = Usage(input_tokens=145_000, output_tokens=32_000)


def test_the_sample_of_the_document_is_92_cents() -> None:
    """UAH-418."""
    assert round(price("claude-sonnet-4", SAMPLE) or 0, 2) == 0.92


def test_cached_tokens_are_not_charged_extra() -> None:
    """UAH-418."""
    cached = Usage(input_tokens=145_000, output_tokens=32_000, cached_tokens=500_000)
    assert price("claude-sonnet-4", cached) == price("claude-sonnet-4", SAMPLE)


UNKNOWN = [None, "", "claude-haiku-3", "claude-opus", "claude-sonnet-4-preview", "gpt-99", "x/y", "anthropic/", ":"]


@pytest.mark.parametrize("model", UNKNOWN)
def test_a_model_that_no_list_knows_has_no_price(model: str | None) -> None:
    """C58: an unknown price is reported as unknown, never guessed."""
    assert price(model, SAMPLE) is None
    totals = add(Totals(), SAMPLE, model)
    assert totals.cost_usd is None
    assert totals.budget_usd() == pytest.approx(0.915)


MILLION = 1_000_000
LISTED = [
    ("claude-sonnet-4-6", 3.0, 15.0, 0.3, 3.75),
    ("anthropic/claude-sonnet-4-6", 3.0, 15.0, 0.3, 3.75),
    ("anthropic:claude-sonnet-4-6", 3.0, 15.0, 0.3, 3.75),
    ("claude-haiku-4-5", 1.0, 5.0, 0.1, 1.25),
]


@pytest.mark.parametrize(("model", "given", "made", "read", "written"), LISTED, ids=[row[0] for row in LISTED])
def test_what_a_cache_gives_and_takes_is_priced_apart(
    model: str, given: float, made: float, read: float, written: float
) -> None:
    """The maintained list has separate prices for reading from a cache and for writing to one."""
    million = {
        "input_tokens": given,
        "output_tokens": made,
        "cached_tokens": read,
        "cache_write_tokens": written,
    }
    small = 10_000  # some models cost more beyond a number of tokens
    for name, dollars in million.items():
        used = Usage(**{name: small})  # pyrefly: ignore[bad-argument-type]
        assert price(model, used) == pytest.approx(dollars * small / MILLION)
    assert price("claude-sonnet-4", Usage(model=model, input_tokens=small)) == pytest.approx(given * small / MILLION)


@pytest.mark.parametrize("model", sorted(ASSUMED))
def test_what_is_assumed_without_the_list_is_never_below_it(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    calls = [
        Usage(**{name: tokens})  # pyrefly: ignore[bad-argument-type]
        for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        for tokens in (10_000, 250_000, 300_000)
    ]
    listed = [price(model, each) or 0.0 for each in calls]
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assumed = [price(model, each) for each in calls]
    assert all(a is not None and a >= b - 1e-9 for a, b in zip(assumed, listed, strict=True)), (assumed, listed)
    assert price(None, Usage(model=f"us.anthropic.{model}-20260101", input_tokens=10_000)) == assumed[0]


def test_without_the_list_other_models_have_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_assumed("claude-opus-5-5")
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert is_assumed("claude-opus-5-5") and not is_assumed("claude-sonnet-4")
    assert price("gpt-5.55", SAMPLE) is price("claude-opus-9", SAMPLE) is None
    assert price("claude-sonnet-4", SAMPLE) == pytest.approx(0.915)


def test_what_the_client_tells_of_all_calls_counts() -> None:
    totals = add(add(Totals(), Usage(input_tokens=1_000_000), "x"), Usage(input_tokens=10, cost_usd=2.0))
    assert totals.cost_usd is None
    totals = add(totals, Usage(told_usd=0.25, context_tokens=10))
    assert (totals.cost_usd, totals.budget_usd(), totals.calls) == (0.25, 0.25, 2)
    totals = add(add(totals, Usage(input_tokens=5), "x"), Usage(told_usd=0.5))
    assert (totals.cost_usd, totals.input_tokens) == (0.75, 1_000_015)
    assert add(totals, Usage(input_tokens=5), "x").cost_usd is None


def test_the_list_is_loaded_only_when_a_price_is_looked_up() -> None:
    text = "import sys, agent_harness.agents.usage, agent_harness.supervision; print('genai_prices' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_agents_own_figure_wins() -> None:
    assert price("claude-sonnet-4", Usage(input_tokens=1_000_000, cost_usd=0.01)) == 0.01
    assert price("unknown", Usage(input_tokens=1_000_000, cost_usd=0.0)) == 0.0


def test_one_call_without_a_price_makes_the_whole_unknown() -> None:
    totals = add(Totals(), Usage(input_tokens=10, cost_usd=0.5), "x")
    assert totals.cost_usd == 0.5
    totals = add(totals, Usage(input_tokens=1_000_000, output_tokens=1_000_000), "x")
    assert totals.cost_usd is None
    assert totals.priced_usd == 0.5
    assert totals.unpriced_calls == 1
    assert totals.budget_usd() == pytest.approx(0.5 + SAMPLE_PRICE.input_usd + SAMPLE_PRICE.output_usd)


def test_nothing_reported_is_told_apart_from_nothing_used() -> None:
    assert not Totals().reported
    assert Totals().cost_usd == 0.0
    assert add(Totals(), Usage(), "claude-sonnet-4").reported


def test_the_context_is_that_of_the_latest_call() -> None:
    totals = add(add(Totals(), Usage(input_tokens=900)), Usage(input_tokens=100))
    assert totals.context_tokens == 100
    assert merge(totals, Totals()).context_tokens == 100


CALLS = st.lists(
    st.builds(
        Usage,
        input_tokens=st.integers(0, 10**6),
        output_tokens=st.integers(0, 10**6),
        cached_tokens=st.integers(0, 10**6),
        cache_write_tokens=st.integers(0, 10**6),
        cost_usd=st.none() | st.sampled_from([0.0, 0.25, 1.5]),
    ),
    max_size=8,
)


@given(CALLS, CALLS)
def test_two_turns_merge_to_what_one_would_have_been(first: list[Usage], second: list[Usage]) -> None:
    def total(calls: list[Usage]) -> Totals:
        totals = Totals()
        for call in calls:
            totals = add(totals, call, "some-model")
        return totals

    both, whole = merge(total(first), total(second)), total(first + second)
    assert both.priced_usd == pytest.approx(whole.priced_usd)
    assert (both.input_tokens, both.output_tokens, both.cached_tokens) == (
        whole.input_tokens,
        whole.output_tokens,
        whole.cached_tokens,
    )
    assert (both.calls, both.unpriced_calls, both.context_tokens) == (
        whole.calls,
        whole.unpriced_calls,
        whole.context_tokens,
    )
    assert (both.cost_usd is None) == (whole.cost_usd is None)


# ---- what is left, by what was paid


@pytest.mark.parametrize(
    ("proven", "tried", "why"),
    [
        ([], False, "no session yet"),
        ([], True, "nothing is proven yet"),
        ([None, 0.0], True, "no cost was reported"),
    ],
)
def test_without_a_cost_to_go_by_the_estimate_is_unknown(proven: list[float | None], tried: bool, why: str) -> None:
    found = usage.estimate(left=3, proven=proven, spent_usd=1.0, tried=tried)
    assert (found["total_usd"], found["per_item_usd"], found["unknown"]) == (None, None, why)
    assert usage.estimate_line(found, "task") == f"Estimate for 3 open tasks: unknown: {why}"


def test_the_middle_half_of_the_proven_costs_times_what_is_left() -> None:
    """The costs of rejected work, plans and cleanups are shared out; an unknown cost is counted separately."""
    found = usage.estimate(left=10, proven=[0.5, 0.1, 0.4, 0.2, 0.3, None], spent_usd=2.0, tried=True)
    assert found["per_item_usd"] == [0.3, 0.5]
    assert found["total_usd"] == [3.0, 5.0]
    line = usage.estimate_line(found, "feature")
    assert line.startswith("Estimate for 10 open features: $3.00 to $5.00 (based on 5 proven at $0.30 to $0.50 each")
    assert line.endswith("; 1 of unknown cost)")
    one = usage.estimate(left=1, proven=[0.25], spent_usd=0.25, tried=True)
    assert one["total_usd"] == [0.25, 0.25]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.integers(0, 50), st.floats(0, 1000))
def test_an_estimate_is_a_range_that_no_less_was_paid_for(costs: list[float], left: int, spent: float) -> None:
    found = usage.estimate(left=left, proven=costs, spent_usd=spent, tried=True)
    low, high = found["per_item_usd"]
    assert min(costs) - 0.001 <= low <= high
    assert found["total_usd"] == pytest.approx([left * low, left * high], abs=0.01)
