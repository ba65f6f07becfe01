"""Exchange of rate limits between machines, so that all machines that use one API key observe one rate limit.

An account that is identified by an API key is the same on all machines. The account of a login or a script belongs to
one machine. The coordinator stores the rate limit of such an account as ``ACCOUNT@HOST``. If a person lifts this limit,
the coordinator informs only that machine. Source: SC-57."""

import socket
from collections.abc import Iterable
from datetime import datetime

from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.kernel.redact import redact

__all__ = ["known_here", "news_of", "take_in"]

MOST = 20
_LONGEST = 300
_KEY = ":key-"
_MEMBERS = ("account", "until", "noted_at", "lifted_at", "attempt", "source", "said")


def known_here() -> list[JsonObject]:
    """Return the rate limits that the coordinator sends with a job."""
    # those of API keys and of accounts on other machines
    return _sent(each for each in LimitClock().told() if _KEY in _name(each) or "@" in _name(each))


def news_of(since: datetime) -> list[JsonObject]:
    """Return the rate limits of API keys and all limits noted since ``since``, for the coordinator."""
    return _sent(each for each in LimitClock().told() if _KEY in _name(each) or _at(each) >= since)


def take_in(records: object, host: object, *, of_others: bool) -> None:
    """Store the rate limits that the machine ``host`` reported."""
    # with ``of_others``, also those of accounts that exist only on that machine, such as logins
    here = socket.gethostname()
    for each in records[:MOST] if isinstance(records, list) else ():
        account = _name(each) if isinstance(each, dict) else ""
        if not account or len(account) > _LONGEST or not account.isprintable():
            continue
        if _KEY not in account and host != here:
            if account.endswith(f"@{here}"):
                account = account.removesuffix(f"@{here}")
            elif of_others and isinstance(host, str) and "@" not in account:
                account = f"{account}@{host[:100]}"
            else:
                continue
        LimitClock().adopt(account, each)


def _sent(records: Iterable[JsonObject]) -> list[JsonObject]:
    # with secrets masked
    newest = sorted(records, key=_at, reverse=True)[:MOST]
    found = [{name: each[name] for name in _MEMBERS if name in each} for each in newest]
    return [each | ({"said": redact(str(each["said"]))[:_LONGEST]} if "said" in each else {}) for each in found]


def _name(record: JsonObject) -> str:
    return str(record.get("account") or "")


def _at(record: JsonObject) -> datetime:
    return clock.parse(record.get("noted_at")) or clock.parse(record.get("lifted_at")) or clock.moment(0)
