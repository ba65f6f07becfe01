"""Tokens and cost of a session: what was reported, what it cost where that is known, and what is not known.

A price is never guessed. An agent that reports its own cost is believed; a model of the table below is priced by it,
any other by the maintained price list genai-prices, where that is installed and knows the model. Every other call
counts as unpriced, and the cost of the whole is unknown. Source: features.md UAH-415..418, C58.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent_harness.agents.events import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens; what a cache gives is not charged extra (UAH-418)."""

    input_usd: float
    output_usd: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost, in US dollars."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / _MILLION


SAMPLE_PRICE = Price(input_usd=3.0, output_usd=15.0)
"""The two prices that the cost sample fixes: 145,000 in and 32,000 out are $0.92."""

PRICES: Mapping[str, Price] = {"claude-sonnet-4": SAMPLE_PRICE}
"""The models whose price is fixed here, whatever the price list says."""


def price(model: str | None, usage: Usage) -> float | None:
    """US dollars of one model call: the agent's own figure, else the table's, else the list's; ``None``: unknown.

    ``model`` is the one that was asked for; the one that answered, where the agent tells, is the one that is paid for.
    """
    if usage.cost_usd is not None:
        return usage.cost_usd
    name = usage.model or model or ""
    known = PRICES.get(name)
    return known.of(usage.input_tokens, usage.output_tokens) if known else _listed(name, usage)


def _listed(model: str, usage: Usage) -> float | None:
    """The price of a call by the list, whose input tokens include what the cache gave and took.

    ``PROVIDER/MODEL`` and ``PROVIDER:MODEL`` name the provider too.
    """
    try:
        import genai_prices
    except ImportError:  # the extra is not installed
        return None
    used = genai_prices.Usage(
        input_tokens=usage.input_tokens + usage.cached_tokens + usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    provider, _, rest = model.replace(":", "/", 1).partition("/")
    for name, of in ((model, None), (rest, provider)):
        if name:
            with contextlib.suppress(LookupError, ValueError):
                return float(genai_prices.calc_price(used, model_ref=name, provider_id=of).total_price)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The sum of the model calls of a turn, a session or a feature."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    calls: int = 0
    priced_usd: float = 0.0  # of the calls whose cost is known
    unpriced_calls: int = 0
    unpriced_input_tokens: int = 0
    unpriced_output_tokens: int = 0
    context_tokens: int = 0  # in the context window after the latest call

    @property
    def reported(self) -> bool:
        """False when the agent said nothing about its tokens, so that zero does not mean nothing was spent."""
        return self.calls > 0

    @property
    def cost_usd(self) -> float | None:
        """US dollars, or ``None`` as soon as one call has no known price; 0.0 when nothing was reported."""
        return None if self.unpriced_calls else self.priced_usd

    def budget_usd(self, assumed: Price = SAMPLE_PRICE) -> float:
        """US dollars to hold against a budget: unpriced calls count at the stated assumed price."""
        return self.priced_usd + assumed.of(self.unpriced_input_tokens, self.unpriced_output_tokens)


def add(totals: Totals, usage: Usage, model: str | None = None) -> Totals:
    """The totals with one more model call."""
    cost = price(model, usage)
    unpriced = cost is None
    taken = usage.input_tokens + usage.cache_write_tokens
    return replace(
        totals,
        input_tokens=totals.input_tokens + usage.input_tokens,
        output_tokens=totals.output_tokens + usage.output_tokens,
        cached_tokens=totals.cached_tokens + usage.cached_tokens,
        cache_write_tokens=totals.cache_write_tokens + usage.cache_write_tokens,
        calls=totals.calls + 1,
        priced_usd=totals.priced_usd + (cost or 0.0),
        unpriced_calls=totals.unpriced_calls + unpriced,
        unpriced_input_tokens=totals.unpriced_input_tokens + (taken if unpriced else 0),
        unpriced_output_tokens=totals.unpriced_output_tokens + (usage.output_tokens if unpriced else 0),
        context_tokens=usage.context,
    )


def merge(first: Totals, second: Totals) -> Totals:
    """The totals of two turns, the second after the first."""
    return Totals(
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cached_tokens=first.cached_tokens + second.cached_tokens,
        cache_write_tokens=first.cache_write_tokens + second.cache_write_tokens,
        calls=first.calls + second.calls,
        priced_usd=first.priced_usd + second.priced_usd,
        unpriced_calls=first.unpriced_calls + second.unpriced_calls,
        unpriced_input_tokens=first.unpriced_input_tokens + second.unpriced_input_tokens,
        unpriced_output_tokens=first.unpriced_output_tokens + second.unpriced_output_tokens,
        context_tokens=second.context_tokens if second.calls else first.context_tokens,
    )
