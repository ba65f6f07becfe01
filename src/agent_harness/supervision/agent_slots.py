"""Slots for agents: a running agent occupies a slot of the machine and a slot of its provider account.

The harness takes a slot before the agent starts. It releases the slot at the end of the session or of the process.
``host.json`` limits the number of slots of an account. After the provider refused a request, a throttle lowers this
limit. Source: SC-40, SC-43, SC-44."""

from agent_harness.kernel import clock, host
from agent_harness.kernel.host import HostSlot, throttles
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.rate_limits import LimitClock

__all__ = ["taken"]


def taken(account: str, told: JsonObject, limits: LimitClock) -> HostSlot | str:
    """Return a slot for an agent of ``account``, or a text that says why no slot is free."""
    # ``harness limits --host`` shows ``told``
    most, terms = host.limits()[host.AGENTS], host.account_terms(account)
    tokens = terms.input_tokens_per_minute
    if limits.throttle(account, terms.agents) is None and terms.agents >= most and tokens is None:
        return _of_host(account, told, most)
    with host.choosing():
        working = host.working(account)
        left = limits.seconds_to_begin(account, terms.agents, working)
        if left is None:
            return f"All agents allowed for {account} are running; waiting for one: harness limits"
        if left:
            return f"Agents of {account} start one at a time after a rate limit: harness limits"
        if tokens and not throttles.has_tokens(
            host.input_since(account, clock.scaled(throttles.WINDOW)), working, tokens
        ):
            return (
                f"Agents of {account} used almost all input tokens that the provider allows; waiting: harness "
                "limits --host"
            )
        found = _of_host(account, told, most)
        if isinstance(found, HostSlot):
            limits.note_start(account, terms.agents)
        return found


def _of_host(account: str, told: JsonObject, most: int) -> HostSlot | str:
    found = host.take(host.AGENTS, {**told, "account": account})
    return found or f"All {most} agent slots of this machine are in use; waiting for one: harness limits --host"
