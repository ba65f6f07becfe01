"""Number of concurrent agents of an account after its provider refused a request: pure rules.

    refused for up to ten minutes            the number is halved, to at least one
    refused for longer (limit used up)       the number stays
    refused again within a minute            counts as the same refusal
    as soon as a retry is allowed            one agent starts, the others follow 15 s apart
    ten minutes without a refusal            one more, up to the account's limit; then the throttle ends

Times are seconds of one clock, which may have been set back. ``rate_limits`` decides when agents may start again.
Source: ``scale.md`` SC-43, SC-44."""

from dataclasses import dataclass, replace

MINUTE = 60.0
APART = 15.0
QUIET = 600.0
USED_UP = 600.0
WINDOW, SHARE = 300.0, 0.9


@dataclass(frozen=True, kw_only=True)
class Throttle:
    size: int  # agents that may work at once
    refused_at: float  # when the last counted refusal came
    quiet_since: float  # start of the next ten minutes without a refusal
    began: int = 0  # agents started since a retry was allowed, up to ``size``
    last_start: float = 0.0  # of the last of these


def refused(throttle: Throttle | None, most: int, now: float, wait: float) -> Throttle:
    """Return the account's new throttle after the provider refused a request."""
    opens = now + max(0.0, wait)
    if throttle and 0 <= now - throttle.refused_at < MINUTE:
        return replace(throttle, quiet_since=max(opens, throttle.quiet_since), began=0)
    size = min(throttle.size, most) if throttle else most
    return Throttle(size=size if wait > USED_UP else max(1, size // 2), refused_at=now, quiet_since=opens)


def grown(throttle: Throttle, most: int, now: float) -> Throttle | None:
    """Return the throttle at ``now``, or ``None`` if the throttle no longer delays or limits agents."""
    steps = max(0, int((now - throttle.quiet_since) // QUIET))
    size = min(most, throttle.size + steps)
    began = size if steps else min(throttle.began, size)
    if size >= most and began >= size:
        return None
    return replace(throttle, size=size, began=began, quiet_since=throttle.quiet_since + steps * QUIET)


def seconds_to_wait(throttle: Throttle, working: int, now: float) -> float | None:
    """Return the seconds until another agent may start, or ``None`` while too many agents work."""
    if working >= throttle.size:
        return None
    if throttle.began in (0, throttle.size):
        return 0.0
    return min(APART, max(0.0, throttle.last_start + APART - now))


def has_tokens(used: int, working: int, per_minute: int) -> bool:
    """Return True if the account's token limit leaves room for one more average agent."""
    # SC-44: agents may use nine tenths of the limit
    one = used / working if working else 0
    return used + one <= SHARE * per_minute * WINDOW / 60


def started(throttle: Throttle, now: float) -> Throttle:
    return replace(throttle, began=min(throttle.size, throttle.began + 1), last_start=now)
