"""Tokens add up, prices are known or unknown, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents.events import Usage
from agent_harness.agents.usage import SAMPLE_PRICE, Totals, add, merge, price

SAMPLE = Usage(input_tokens=145_000, output_tokens=32_000)


def test_the_sample_of_the_document_is_92_cents() -> None:
    assert round(price("claude-sonnet-4", SAMPLE) or 0, 2) == 0.92


def test_cached_tokens_are_not_charged_extra() -> None:
    cached = Usage(input_tokens=145_000, output_tokens=32_000, cached_tokens=500_000)
    assert price("claude-sonnet-4", cached) == price("claude-sonnet-4", SAMPLE)


@pytest.mark.parametrize("model", [None, "", "claude-haiku-3", "claude-opus", "gpt-5", "claude-sonnet-4-preview"])
def test_any_other_model_has_no_known_price(model: str | None) -> None:
    assert price(model, SAMPLE) is None


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
