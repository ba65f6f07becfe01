"""Tokens and cost of a session. The cost is the sum of all known prices. Calls without a known price are counted
separately.

A price is never guessed. If an agent reports a cost, for each call or at the end of a turn, this cost is used. If not,
the model's price comes from ``PRICES``, the maintained list genai-prices (if it is installed) or ``ASSUMED``, in this
order. A cost computed from ``ASSUMED`` is never lower than the client's own number. A call of any other model has no
price. The total cost is then unknown. Source: features.md UAH-415..418, C58."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_harness.agents.events import Usage
from agent_harness.kernel.json import JsonObject, dollars, jsontext, token_count

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a model in US dollars per million tokens."""

    # UAH-418: no separate price for cached input

    input_usd: float
    output_usd: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / _MILLION


SAMPLE_PRICE = Price(input_usd=3.0, output_usd=15.0)
"""Price that the specification's cost example gives: 145,000 input and 32,000 output tokens cost $0.92."""

PRICES: Mapping[str, Price] = {"claude-sonnet-4": SAMPLE_PRICE}
"""Fixed prices of some models. A fixed price overrides the price list."""

ASSUMED: Mapping[str, Price] = {
    name: Price(input_usd=given, output_usd=out)
    for name, given, out in (
        ("claude-fable-5", 10.0, 50.0),
        ("claude-mythos-5", 10.0, 50.0),
        ("claude-opus-5-5", 4.0, 20.0),
        ("claude-opus-5", 5.0, 25.0),
        ("claude-opus-4-8", 5.0, 25.0),
        ("claude-opus-4-7", 5.0, 25.0),
        ("claude-opus-4-6", 5.0, 25.0),
        ("claude-opus-4-5", 5.0, 25.0),
        ("claude-opus-4-1", 15.0, 75.0),
        ("claude-opus-4-0", 15.0, 75.0),
        ("claude-sonnet-5-5", 2.0, 10.0),
        ("claude-sonnet-5", 2.0, 10.0),
        ("claude-sonnet-4-6", 3.0, 15.0),
        ("claude-sonnet-4-5", 3.0, 15.0),
        ("claude-sonnet-4-0", 3.0, 15.0),
        ("claude-haiku-5-5", 0.5, 2.5),
        ("claude-haiku-4-5", 1.0, 5.0),
        ("gpt-5.6-cyber", 12.5, 75.0),
        ("gpt-5.5-cyber", 12.5, 75.0),
        ("gpt-5.5-pro", 30.0, 180.0),
        ("gpt-5.4-pro", 30.0, 180.0),
        ("gpt-5.2-pro", 21.0, 168.0),
        ("gpt-5-pro", 15.0, 120.0),
        ("gpt-5.6", 5.0, 30.0),
        ("gpt-5.5", 5.0, 30.0),
        ("gpt-5.4", 2.5, 15.0),
        ("gpt-5.3", 1.75, 14.0),
        ("gpt-5.2", 1.75, 14.0),
        ("gpt-5.1", 1.25, 10.0),
        ("gpt-5", 1.25, 10.0),
        ("codex-mini", 1.5, 6.0),
    )
}
"""Prices of Claude Code's and Codex's models, by the beginning of the model name. They apply if no price list is
installed.
"""

_CACHE_READ, _CACHE_WRITE = 0.1, 2.0
"""Cost of cache reads and cache writes as fractions of the input price, at the most expensive terms: one hour of cache
time.
"""
_LONG_INPUT, _LONG_TIMES = 200_000, (2.0, 1.5)
"""Number of input tokens above which some models cost more, and the factors by which input and output then cost
more.
"""


def price(model: str | None, usage: Usage) -> float | None:
    """Return the cost of a model call in US dollars, or None if the cost is unknown."""
    if usage.cost_usd is not None:
        return usage.cost_usd
    name = usage.model or model or ""
    known = PRICES.get(name)
    if known:
        return known.of(usage.input_tokens, usage.output_tokens)
    listed = _listed(name, usage)
    return _assumed(name, usage) if listed is None else listed


def is_assumed(model: str) -> bool:
    """Return True if the price of this model comes only from ``ASSUMED``."""
    return model not in PRICES and _family(model) is not None and _listed(model, Usage()) is None


def _family(model: str) -> Price | None:
    """Return the price of a model in ``ASSUMED``, or None if there is none."""
    # provider prefixes and dates in model names are ignored
    for begin in sorted(ASSUMED, key=len, reverse=True):
        rest = model.partition(begin)[2] if begin in model else None
        if rest is not None and rest[:1] in ("", "-", "@", ":", "["):
            return ASSUMED[begin]
    return None


def _assumed(model: str, usage: Usage) -> float | None:
    """Return the cost at prices in ``ASSUMED``, or None if ``ASSUMED`` does not list the model."""
    # at the most expensive rates that may apply
    known = _family(model)
    if known is None:
        return None
    read = 1.0 if "-pro" in model else _CACHE_READ  # which has no discount for cached input
    taken = usage.input_tokens + read * usage.cached_tokens + _CACHE_WRITE * usage.cache_write_tokens
    is_long = usage.input_tokens + usage.cached_tokens + usage.cache_write_tokens > _LONG_INPUT
    more, more_out = _LONG_TIMES if is_long else (1.0, 1.0)
    return (taken * more * known.input_usd + usage.output_tokens * more_out * known.output_usd) / _MILLION


def _listed(model: str, usage: Usage) -> float | None:
    """Return the cost at genai-prices rates, or None if that package does not know the cost."""
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
    settled_usd: float = 0.0  # ``priced_usd`` and the following, as of the agent's last report of the whole cost
    settled_unpriced_calls: int = 0
    settled_unpriced_input_tokens: int = 0
    settled_unpriced_output_tokens: int = 0

    @property
    def reported(self) -> bool:
        """True if the agent reported tokens. Without a report, a cost of zero means an unknown cost."""
        return self.calls > 0

    @property
    def cost_usd(self) -> float | None:
        """Cost in US dollars, or None if the price of any call is unknown."""
        return None if self.unpriced_calls else self.priced_usd

    def budget_usd(self) -> float:
        """Return the cost that the harness compares with a budget."""
        # calls without a known price count at ``SAMPLE_PRICE``
        return self.priced_usd + SAMPLE_PRICE.of(self.unpriced_input_tokens, self.unpriced_output_tokens)


def add(totals: Totals, usage: Usage, model: str | None = None) -> Totals:
    """Return the totals plus ``usage``, which is a model call or a cost report."""
    if usage.told_usd is not None:
        return _settled(totals, usage.told_usd)
    cost = price(model, usage)
    call = Totals(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        calls=1,
        priced_usd=cost or 0.0,
        context_tokens=usage.context,
    )
    if cost is not None:
        return merge(totals, call)
    taken = usage.input_tokens + usage.cache_write_tokens
    unpriced = replace(call, unpriced_calls=1, unpriced_input_tokens=taken, unpriced_output_tokens=usage.output_tokens)
    return merge(totals, unpriced)


def _settled(totals: Totals, told_usd: float) -> Totals:
    """Return the totals with the reported cost. It replaces the cost counted since the last report."""
    cost = totals.settled_usd + told_usd
    return replace(
        totals,
        priced_usd=cost,
        settled_usd=cost,
        unpriced_calls=totals.settled_unpriced_calls,
        unpriced_input_tokens=totals.settled_unpriced_input_tokens,
        unpriced_output_tokens=totals.settled_unpriced_output_tokens,
    )


def merge(first: Totals, second: Totals) -> Totals:
    """Return the sum of two totals. The context size comes from ``second``, the newer total, if it has calls."""
    context = second.context_tokens if second.calls else first.context_tokens
    summed = {name: getattr(first, name) + getattr(second, name) for name in Totals.__slots__}
    return replace(Totals(**summed), context_tokens=context)


def estimate(*, left: int, proven: Sequence[float | None], spent_usd: float, tried: bool) -> JsonObject:
    """Estimate the cost of ``left`` open items from the costs of proven items."""
    # pairs are quartiles; other cost (rejected work, plans, cleanups) is spread over the proven items
    known = sorted(cost for cost in proven if cost)
    answer: JsonObject = {"items_left": left, "items_known": len(known), "items_unknown": len(proven) - len(known)}
    if not known:
        why = "no session yet" if not tried else "nothing is proven yet" if not proven else "no cost was reported"
        return {**answer, "per_item_usd": None, "total_usd": None, "unknown": why}
    beside = max(0.0, spent_usd - sum(known)) / len(known)
    each = [_quantile(known, part) + beside for part in (0.25, 0.75)]
    rounded = {"per_item_usd": [round(cost, 4) for cost in each], "total_usd": [round(left * cost, 4) for cost in each]}
    return {**answer, **rounded, "unknown": None}


def estimate_line(found: JsonObject, noun: str) -> str:
    """Return an estimate as a line of text. ``noun`` names the items, such as ``task``."""
    left = found["items_left"]
    begin = f"Estimate for {left} open {noun}{'' if left == 1 else 's'}: "
    if found["unknown"]:
        return f"{begin}unknown: {found['unknown']}"
    (low, high), (each_low, each_high) = found["total_usd"], found["per_item_usd"]
    known, unknown = found["items_known"], found["items_unknown"]
    told = f"based on {known} proven at ${each_low:.2f} to ${each_high:.2f} each, including rejected work"
    return f"{begin}${low:.2f} to ${high:.2f} ({told}{f'; {unknown} of unknown cost' if unknown else ''})"


def _quantile(ordered: Sequence[float], part: float) -> float:
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedUsage:
    """Usage that a client printed. A number is None if the client did not report it."""

    total_tokens: int  # input and output
    input_tokens: int | None = None  # uncached
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


def printed_usage(
    input_tokens: object, output_tokens: object, cached_tokens: object, cost_usd: object
) -> PrintedUsage | None:
    given, out = token_count(input_tokens), token_count(output_tokens)
    if given is None or out is None:
        return None
    return PrintedUsage(
        total_tokens=given + out,
        input_tokens=given,
        output_tokens=out,
        cached_tokens=token_count(cached_tokens),
        cost_usd=dollars(cost_usd),
    )


def printed_objects(text: str, mark: str) -> Iterator[JsonObject]:
    """Yield the JSON objects on lines with ``mark``. Start with the last line."""
    end = len(text)
    while (at := text.rfind(mark, 0, end)) >= 0:
        begin, stop = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        found = object_on(text[begin : stop if stop >= 0 else len(text)])
        if found is not None:
            yield found
        end = begin


def object_on(line: str) -> JsonObject | None:
    """Return the JSON object on a line. For a list, return its last object. Otherwise return None."""
    # the last one of a list
    if not line.lstrip().startswith(("{", "[")):
        return None
    try:
        found = jsontext.loads(line, exact=False)
    except (ValueError, RecursionError):
        return None
    last = found[-1] if isinstance(found, list) and found else found
    return last if isinstance(last, dict) else None
