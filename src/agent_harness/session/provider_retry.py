"""Retries of a turn that the provider refused or failed, defined by one table.

    failure       sign                                 waits before retries, in seconds           then
    rate_limited  429, a used-up allowance             as requested, or 1, 2, 4 ... up to 300     until its end
    overloaded    529                                  30, 30, 30                                 paused
    network       the connection failed                1, 2                                       error
    no_response   no output for too long               0                                          error
    malformed     an answer that cannot be parsed      0                                          error
    auth          the key or login is not accepted     none                                       error
    money         the account has no money left        none                                       error

A wait never exceeds the session's time limit. If a longer wait is needed, the run waits, not the session
(``supervision/dispatch.py``). If another agent can continue, waits are short. Retries do not count against the feature.
Source: features.md UAH-374..378, UAH-388, C28, C35."""

import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent_harness.agents.events import RateLimited
from agent_harness.kernel import clock, failures, retry
from agent_harness.supervision.dispatch import spoken
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.supervisor import Outcome


class Journal(Protocol):
    """Receiver of a session's messages and log records."""

    def say(self, line: str) -> None: ...

    def event(self, event_type: str, **fields: object) -> None:
        """Write one record to the protocol's log."""
        ...


LONGEST_WAIT_SECONDS = 300.0
LONGEST_WITH_A_SPARE_SECONDS = 5.0
_MALFORMED = re.compile(
    r"\bmalformed\b|\bJSONDecodeError\b|\b(?:invalid|unexpected|unterminated|unparsable)\b[^\n]{0,40}\bJSON\b",
    re.IGNORECASE,
)
_SILENT = re.compile(
    r"\b(?:silent|no (?:response|answer|reply)) for \d|\bno response from the (?:provider|server|api)\b", re.IGNORECASE
)
_LAST_LINES, _LONGEST_LINE = 8, 2000
_TRIED_AGAIN = re.compile(r"\btwice over\b")
_OWN_AFFAIR = re.compile(r"\bpermission denied\b", re.IGNORECASE)  # says "not allowed", and nothing of the provider


@dataclass(frozen=True, kw_only=True)
class RetryRule:
    """Rule for retries after one kind of provider failure."""

    # seconds before each retry; None: the waits grow, and the number of retries is unlimited
    waits: tuple[float, ...] | None
    ends: str  # the reason of the session's ending
    advice: str


ALL_RETRIED = frozenset({"rate_limited", "overloaded", "network", "no_response", "malformed"})
"""Kinds of provider failure after which a turn may be retried within the session."""

TABLE: Mapping[str, RetryRule] = {
    "rate_limited": RetryRule(waits=None, ends="rate_limited", advice="Run again when the limit is reset."),
    "overloaded": RetryRule(waits=(30.0, 30.0, 30.0), ends="overloaded", advice="Paused. To continue: harness resume"),
    "network": RetryRule(waits=(1.0, 2.0), ends="refused", advice="Check the connection, then run again."),
    "no_response": RetryRule(waits=(0.0,), ends="refused", advice="Run again later."),
    "malformed": RetryRule(waits=(0.0,), ends="refused", advice="Read the transcript, then run again."),
    "auth": RetryRule(waits=(), ends="refused", advice="Check the agent's API key or login: harness doctor"),
    "money": RetryRule(waits=(), ends="refused", advice="Add credit to the agent's account, or use another account."),
}


@dataclass(frozen=True, kw_only=True)
class ProviderFailure:
    kind: str
    message: str
    asked_seconds: float | None = None  # the wait that the provider asks for
    tried_again: bool = False  # the client has done so itself

    @property
    def ends(self) -> str:
        return TABLE[self.kind].ends

    @property
    def sentence(self) -> str:
        return f"{self.message.rstrip('.')}. {TABLE[self.kind].advice}"


def provider_failure(outcome: Outcome) -> ProviderFailure | None:
    """Return the provider's failure that ended the turn, or None for any other end."""
    if outcome.reason in ("rate_limited", "finished") and not outcome.ok and (said := _wants_money(outcome)):
        return ProviderFailure(kind="money", message=said)
    if outcome.reason == "rate_limited":
        overloaded = failures.first_match(outcome.message, (("overloaded", failures.OVERLOADED),))
        kind = "overloaded" if overloaded else "rate_limited"
        return ProviderFailure(kind=kind, message=outcome.message, asked_seconds=_asked(outcome.rate_limit))
    if outcome.reason == "no_response":
        return ProviderFailure(kind="no_response", message=outcome.message)
    if outcome.reason != "finished" or outcome.ok:
        return None
    kind = _kind_of_failure(outcome.message, outcome.text_tail)
    again = _TRIED_AGAIN.search(outcome.message) is not None
    return ProviderFailure(kind=kind, message=outcome.message, tried_again=again) if kind else None


def _wants_money(outcome: Outcome) -> str | None:
    """Return the output line that says that the account has no money, or None."""
    now = clock.now()
    lines = [outcome.message, *reversed(outcome.text_tail.rstrip().split("\n")[-_LAST_LINES:])]
    found = (line.strip()[:_LONGEST_LINE] for line in lines if failures.wants_money(line[:_LONGEST_LINE], now))
    return next(found, None)


def _kind_of_failure(message: str, tail: str) -> str | None:
    last = tail.rstrip().rsplit("\n", 1)[-1].strip()
    if _MALFORMED.search(message) or (last.startswith("{") and not _is_json(last)):
        return "malformed"
    if _SILENT.search(message):
        return "no_response"
    found = failures.classify(message).name
    if found == "NETWORK":
        return "network"
    return "auth" if found == "AUTH" and not _OWN_AFFAIR.search(message) else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _asked(refused: RateLimited | None) -> float | None:
    at = clock.parse(refused.resets_at) if refused else None
    return max(0.0, (at - clock.now()).total_seconds()) if at else refused.retry_after_seconds if refused else None


def wait_before(failure: ProviderFailure, tries: int, left_seconds: float, *, spare: bool = False) -> float | None:
    """Return the seconds to wait before the next retry, or None for no retry."""
    # another agent can continue the work
    if spare and failure.kind == "rate_limited":
        left_seconds = min(left_seconds, LONGEST_WITH_A_SPARE_SECONDS)
    waits = TABLE[failure.kind].waits
    if failure.tried_again:
        wait = None
    elif waits is not None:
        wait = waits[tries - 1] if tries <= len(waits) else None
    elif failure.asked_seconds is not None and failure.asked_seconds > left_seconds:
        wait = None  # it would only be refused again
    else:
        wait = retry.next_delay(tries, failure.asked_seconds, cap=LONGEST_WAIT_SECONDS)
    return wait if wait is not None and wait <= left_seconds else None


@dataclass
class ProviderRetry:
    """Retries of turns that failed because of the provider."""

    journal: Journal
    stop: Stop
    began: float  # when the session's time limit began to run, of the monotonic clock
    timeout_seconds: float  # that limit
    spare: bool = False  # another agent can take over from one that is refused
    on_wait: Callable[[float], None] = lambda _seconds: None  # hears before each wait how many seconds it is
    _tries: dict[str, int] = field(default_factory=dict)

    def run(
        self, turn: Callable[[bool], Outcome], is_enough: Callable[[], bool], kinds: Collection[str] = ALL_RETRIED
    ) -> tuple[Outcome, ProviderFailure | None]:
        """Run a turn with retries. Return the outcome of the last try, with its provider failure or None."""
        self._tries.clear()
        again = False
        while True:
            outcome = turn(again)
            failure = provider_failure(outcome)
            # a failed turn that left work to verify is not tried again
            if failure is None or is_enough():
                return outcome, None
            # a provider that served a part of the turn starts the count again
            was_served = outcome.usage.reported and TABLE[failure.kind].waits != (0.0,)
            tries = self._tries[failure.kind] = 1 if was_served else self._tries.get(failure.kind, 0) + 1
            left = self.timeout_seconds - (time.monotonic() - self.began) / clock.time_scale()
            wait = wait_before(failure, tries, left, spare=self.spare) if failure.kind in kinds else None
            if wait is None:
                return outcome, failure
            self._report(failure, wait)
            self.on_wait(wait)
            if not self.stop.wait(wait):
                return replace(outcome, reason="user_pause", ok=False), None
            again = True

    def _report(self, failure: ProviderFailure, wait: float) -> None:
        when = f"in {spoken(wait)}" if wait else "now"
        self.journal.say(f"The provider failed ({failure.message}); trying again {when}.")
        self.journal.event(
            "provider_retry",
            tries=self._tries[failure.kind],
            kind=failure.kind,
            wait_seconds=wait,
            message=failure.message,
        )
