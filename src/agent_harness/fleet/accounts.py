"""Accounts of the agents that a fleet starts, and the limit of agents of each account. SC-60."""

import os
from pathlib import Path

from agent_harness.agents import registry
from agent_harness.errors import HarnessError
from agent_harness.fleet import slices
from agent_harness.fleet.roster import Member, Roster
from agent_harness.kernel import host
from agent_harness.kernel.rate_limits import LimitClock

_LOGIN = ":login"


def rooms(roster: Roster) -> dict[str, int]:
    """Return the agents of each limited account: by fleet.yaml, and here by ``host.json`` and its throttle.

    Agents of other machines are bounded by fleet.yaml alone: the throttles are those of this one.
    """
    found = {named(name): agents for name, agents in roster.accounts.items()}
    if roster.engine is not None:
        return found
    for account, terms in host.terms_of_accounts().items():
        found[account] = min(terms.agents, found.get(account, terms.agents))
    limits = LimitClock()
    for account in limits.throttled():
        if throttle := limits.throttle(account, host.account_terms(account).agents):
            found[account] = min(throttle.size, found.get(account, throttle.size))
    return found


def named(name: str) -> str:
    """Return the account for a name: that of a client, such as ``claude-code`` or ``claude-code:login``, or the name
    itself.
    """
    kind = name.removesuffix(_LOGIN)
    if kind not in registry.KINDS or kind in registry.NEEDED:
        return name
    try:
        return registry.from_spec(kind).account
    except HarnessError:
        return name


def of_member(member: Member) -> str:
    """Return the account of the first agent that a run of the project takes; empty if it is unknown."""
    if member.kind == slices.KIND:
        return slices.account(member)
    try:
        configured = None
        if member.kind == "features" and not member.agents:
            from agent_harness.protocols.features import api

            configured = api.settings(Path(member.path)).agent
        found = registry.resolve_all(member.agents, configured=configured, environ=os.environ, root=Path(member.path))
        return found[0].account
    except (HarnessError, OSError):
        return ""
