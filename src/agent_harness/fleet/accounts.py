"""Provider accounts that a fleet's agents use, and the maximum number of concurrent agents per account (SC-60)."""

import os
from pathlib import Path

from agent_harness.agents import registry
from agent_harness.errors import HarnessError
from agent_harness.fleet import slices
from agent_harness.fleet.roster import Member, Roster
from agent_harness.kernel import host
from agent_harness.kernel.rate_limits import LimitClock


def rooms(roster: Roster) -> dict[str, int]:
    """Return the agent limit of each account that has a limit."""
    # the limits of this machine do not count if agents run on other machines
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
    """Return the account of an agent kind. Return any other ``name`` unchanged."""
    kind = name.removesuffix(":login")
    if kind not in registry.KINDS or kind in registry.NEEDED:
        return name
    try:
        return registry.from_spec(kind).account
    except HarnessError:
        return name


def of_member(member: Member) -> str:
    """Return the account of the project's first agent, or an empty text."""
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
