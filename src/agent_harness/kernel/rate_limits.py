"""Rate limits by account, with their end time, shared by all harness processes of this user.

    $XDG_STATE_HOME/agent-harness/limits/ACCOUNT.json     the rate limit of an account
    $XDG_STATE_HOME/agent-harness/limits/ACCOUNT.gate     the number of its agents that may run after a refusal

The files survive a kill and a reboot. They never stop a run: a damaged file counts as no limit. A limit that cannot be
written is known only to its process. The end of a limit comes from the first of these sources that has an end:

    structured   the reset time or wait that the provider reports in a separate field
    text         the wait in the provider's message (``kernel/retry.py``)
    contract     the wait that the user set for a refusal without a time (``rateLimitPolicy`` of a long task)
    guess        a wait that grows with consecutive refusals, from half a minute to five minutes

When a limit is lifted, the time of the lift is stored for processes that recorded the old end. Reading imports little
and creates nothing.

Source: ``features.md`` C28, UAH-374, UAH-375; ``docs/architecture.md``, promise 6; for throttles ``scale.md`` SC-43."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, root, trusted_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from agent_harness.kernel.host.throttles import Throttle
    from agent_harness.kernel.json import JsonObject
    from agent_harness.kernel.lock import Lock

FIRST_GUESS_SECONDS = 30.0
LONGEST_GUESS_SECONDS = 300.0
FORGOTTEN_AFTER_SECONDS = 86_400.0
"""Longest time in seconds between two refusals that count as consecutive."""

_FOLDER = "limits"
_ENDING, _THROTTLE = ".json", ".gate"
_LONGEST_SAID = 300
_LONGEST_NAME = 120
_READ = 2000  # characters of a message that are looked at
_LOCK_SECONDS = 20.0
_SLACK_SECONDS = 2.0
_GUESSED = ("guess", "contract")
_LONGEST_QUIET = 40 * 86_400.0  # longer than any limit; a later time in a throttle is invalid


class RateLimit:
    __slots__ = ("account", "attempt", "noted_at", "said", "source", "told_until", "until")

    def __init__(
        self,
        account: str,
        *,
        until: datetime,
        said: str,
        source: str,
        attempt: int,
        noted_at: datetime,
        told_until: datetime | None = None,
    ) -> None:
        self.account = account
        self.until = until
        self.said = said
        self.source = source  # structured, text, contract, guess
        self.attempt = attempt  # refusals in a row, from 1
        self.noted_at = noted_at
        self.told_until = told_until  # what the provider says, where that is too late to wait for

    def seconds_left(self, now: datetime) -> float:
        return max(0.0, (self.until - now).total_seconds())

    def as_record(self) -> JsonObject:
        return {
            "account": self.account,
            "until": clock.timestamp(self.until, fraction=True),
            "said": self.said,
            "source": self.source,
            "attempt": self.attempt,
            "noted_at": clock.timestamp(self.noted_at, fraction=True),
            **({"told_until": clock.timestamp(self.told_until, fraction=True)} if self.told_until else {}),
        }

    def as_notice(self) -> JsonObject:
        """Return the rate limit as JSON for the user, with the command that lifts the limit."""
        return {
            "account": self.account,
            "until": clock.timestamp(self.until),
            "until_local": clock.local(self.until),
            "lift": clearing(self.account),
            **({"told_until_local": clock.local(self.told_until)} if self.told_until else {}),
        }

    def __str__(self) -> str:
        by = (
            "the provider gave no reset time"
            if self.source in _GUESSED
            else f"as reported by the provider ({self.source})"
        )
        told = clock.timestamp(self.told_until) if self.told_until else None
        end = spoken_end(clock.timestamp(self.until), told)
        return f"{self.account} is refused until {end}, {by}, attempt {self.attempt}"


def sentence(notice: JsonObject) -> str:
    end = spoken_end(notice["until_local"], notice.get("told_until_local"))
    return f"Rate limited: {notice['account']} until {end}; to continue now: {notice['lift']}"


def spoken_end(until: str, told_until: str | None) -> str:
    """Return the end of a rate limit as text for the user."""
    return f"{told_until} (will ask again at {until})" if told_until else until


def clearing(account: str) -> str:
    from shlex import quote

    return f"harness limits clear {quote(account)}"


def reopening(
    now: datetime,
    *,
    attempt: int,
    resets_at: str | None,
    retry_after_seconds: float | None,
    said: str,
    guess_seconds: float | None = None,
) -> tuple[float, str]:
    """Return the seconds until the harness asks the provider again, and the source of this number."""
    from agent_harness.kernel import retry

    reset = clock.parse(resets_at)
    seconds = (reset - now).total_seconds() if reset else retry_after_seconds
    if seconds is not None and 0 < seconds < float("inf"):
        return min(seconds, retry.LONGEST_SECONDS), "structured"
    in_prose = retry.seconds_asked(said[:_READ], now)
    if in_prose:
        # the user's wait and the guess count only if the provider states no time
        return float(in_prose), "text"
    if guess_seconds is not None:
        return min(guess_seconds, retry.LONGEST_SECONDS), "contract"
    guess = retry.next_delay(attempt, None, base=FIRST_GUESS_SECONDS, cap=LONGEST_GUESS_SECONDS)
    return guess, "guess"


_unkept: dict[str, RateLimit] = {}
"""Rate limits that could not be written to disk. Only this process observes these limits."""


class LimitClock:
    """Store of this user's rate limits on disk."""

    __slots__ = ("_folder", "_is_own", "_now", "_project")

    def __init__(self, folder: str | None = None, *, now: Callable[[], datetime] = clock.now) -> None:
        project = None if folder else root.find(pin=False)  # agents work in it
        self._project = project.path if project else None
        self._is_own = not folder
        self._folder = folder
        self._now = now

    def in_force(self, account: str) -> RateLimit | None:
        """Return the account's rate limit, or ``None`` if no limit applies now."""
        found = self._read(account)
        now = self._now()
        if found and _has_jumped(found, now):
            found = self._anchored_anew(account)
        return found if found and found.until > now else None

    def all(self) -> list[RateLimit]:
        found = [limit for account in self._accounts() if (limit := self.in_force(account))]
        return sorted(found, key=lambda limit: (limit.until, limit.account))

    def note(
        self,
        account: str,
        *,
        said: str,
        resets_at: str | None = None,
        retry_after_seconds: float | None = None,
        guess_seconds: float | None = None,
    ) -> RateLimit:
        """Record that the provider refused a request, and return the account's rate limit."""
        made: list[RateLimit] = []

        def act() -> RateLimit:
            now = self._now()
            before = self._read(account)
            made.append(_after(before, account, now, (said, resets_at, retry_after_seconds, guess_seconds)))
            self._narrow(account, now, made[-1])
            return made[-1]

        kept = self._changed(account, act)
        if kept is None and not made:
            act()
        if kept is None and self._is_own:
            _unkept[account] = made[-1]
        return kept or made[-1]

    def forget(
        self,
        account: str,
        *,
        noted_before: datetime | None = None,
        shown: RateLimit | None = None,
        by: str | None = None,
    ) -> bool:
        """Lift the rate limit of an account. Return True if a limit was lifted."""
        if noted_before and self._read(account) is None:
            return False
        _unkept.pop(account, None)
        if not self._place(make=True):
            return False
        try:
            with self._locked():
                found = self._read(account)
                # a refusal after the start of the successful call stays
                if noted_before and (found is None or found.noted_at >= noted_before):
                    return False
                # the user was shown another limit
                if shown and (found is None or found.as_record() != shown.as_record()):
                    return False
                if noted_before is None:
                    files.unlink(self._path(account, _THROTTLE))
                lifted = {"account": account, "lifted_at": clock.timestamp(self._now(), fraction=True)}
                files.write_json(self._path(account), {**lifted, "by": by} if by else lifted)
        except (HarnessError, OSError):
            return False
        return found is not None

    def decided_since(self, account: str, seen: datetime) -> datetime | None:
        """Return the end of a limit recorded after ``seen``, or the time of a lift after ``seen``, else ``None``."""
        self.in_force(account)  # restarts the count if the wall clock was set back
        record = self._record(account)
        lifted = clock.parse(record.get("lifted_at")) if record.get("account") == account else None
        if lifted:
            return lifted if lifted > seen else None
        found = _limit_in(record, account)
        return found.until if found and found.noted_at > seen else None

    # -- throttles

    def throttle(self, account: str, most: int) -> Throttle | None:
        """Return the account's throttle, or ``None`` if no throttle applies now."""
        if not self._place() or not os.path.lexists(self._path(account, _THROTTLE)):
            return None
        from agent_harness.kernel.host import throttles

        found = self._read_throttle(account)
        return throttles.grown(found, most, _seconds(self._now())) if found else None

    def throttled(self) -> list[str]:
        return self._accounts(_THROTTLE)

    def seconds_to_begin(self, account: str, most: int, working: int) -> float | None:
        """Return the seconds until another agent may start, or ``None`` while too many agents work."""
        from agent_harness.kernel.host import throttles

        throttle = self.throttle(account, most)
        if throttle is None:
            return 0.0 if working < most else None
        left = throttles.seconds_to_wait(throttle, working, _seconds(self._now()))
        return None if left is None else clock.scaled(left)

    def note_start(self, account: str, most: int) -> None:
        """Record in the account's throttle that an agent starts. The caller must hold ``host.choosing``."""
        from agent_harness.kernel.host import throttles

        if self.throttle(account, most) is None:
            return
        try:
            with self._locked():
                if throttle := self.throttle(account, most):
                    self._write_throttle(account, throttles.started(throttle, _seconds(self._now())))
        except (HarnessError, OSError):
            return

    def _narrow(self, account: str, now: datetime, limit: RateLimit) -> None:
        from agent_harness.kernel import host
        from agent_harness.kernel.host import throttles

        if not self._place():
            return
        # the caller must hold the lock
        most, at = host.account_terms(account).agents, _seconds(now)
        found = self._read_throttle(account)
        found = throttles.grown(found, most, at) if found else None
        wait = limit.seconds_left(now) / clock.time_scale()
        try:
            self._write_throttle(account, throttles.refused(found, most, at, wait))
        except (HarnessError, OSError):
            return

    def _read_throttle(self, account: str) -> Throttle | None:
        from agent_harness.kernel.host.throttles import Throttle

        try:
            record = files.read_json(self._path(account, _THROTTLE), exact=False)
        except (HarnessError, OSError):
            return None
        counts = [record.get(name) for name in ("size", "began")]
        moments = [clock.parse(record.get(name)) for name in ("refused_at", "quiet_since", "last_start")]
        if record.get("account") != account or not all(type(each) is int and 0 <= each < 10**6 for each in counts):
            return None
        at = [_seconds(each) for each in moments if each is not None]
        if len(at) < len(moments) or at[1] > _seconds(self._now()) + _LONGEST_QUIET:
            return None
        size, began = (int(str(each)) for each in counts)
        return Throttle(size=max(1, size), began=began, refused_at=at[0], quiet_since=at[1], last_start=at[2])

    def _write_throttle(self, account: str, throttle: Throttle) -> None:
        moments = {
            name: getattr(throttle, name) * clock.time_scale() for name in ("refused_at", "quiet_since", "last_start")
        }
        told = {name: clock.timestamp(clock.moment(at), fraction=True) for name, at in moments.items()}
        record = {"account": account, "size": throttle.size, "began": throttle.began, **told}
        files.write_json(self._path(account, _THROTTLE), record)

    # -- other machines ------------------------------------------------------------------------------------------------

    def told(self) -> list[JsonObject]:
        """Return the stored rate limits and lifts of all accounts, which another machine can ``adopt``."""
        return [record for account in self._accounts() if (record := self._record(account))]

    def adopt(self, account: str, theirs: JsonObject) -> bool:
        """Store another machine's rate limit if that limit is newer than the local record."""
        limit = _limit_in({**theirs, "account": account}, account)
        at = limit.noted_at if limit else clock.parse(theirs.get("lifted_at"))
        if at is None or not self._place(make=True):
            return False
        told = limit.as_record() if limit else {"account": account, "lifted_at": clock.timestamp(at, fraction=True)}
        try:
            with self._locked():
                known = self._record(account)
                mine = clock.parse(known.get("noted_at")) or clock.parse(known.get("lifted_at"))
                # lifts of a limit travel too, and the newest record wins
                if mine and mine >= at:
                    return False
                files.write_json(self._path(account), told)
        except (HarnessError, OSError):
            return False
        return True

    # -- the files -----------------------------------------------------------------------------------------------------

    def _anchored_anew(self, account: str) -> RateLimit | None:
        # the clock was set back: the limit starts again, with its full length
        def act() -> RateLimit | None:
            now, found = self._now(), self._read(account)
            if found is None or not _has_jumped(found, now):
                return found
            from agent_harness.kernel import retry

            seconds = min(max((found.until - found.noted_at).total_seconds(), 0.0), retry.LONGEST_SECONDS)
            found.noted_at, found.until = now, now + clock.timedelta(seconds=seconds)
            return found

        return self._changed(account, act)

    def _changed(self, account: str, act: Callable[[], RateLimit | None]) -> RateLimit | None:
        if not self._place(make=True):
            return None
        try:
            with self._locked():
                files.sweep(self._path(account))
                made = act()
                if made:
                    files.write_json(self._path(account), made.as_record())
                return made
        except (HarnessError, OSError):
            return None

    def _place(self, *, make: bool = False) -> str | None:
        if self._is_own:  # looked up each time: another process may have created the default folder by now
            self._folder = trusted_state.of_user(_FOLDER, project=self._project, make=make)
        return self._folder

    def _locked(self) -> Lock:
        from agent_harness.kernel.lock import Lock

        return Lock(self._folder or "", timeout_seconds=_LOCK_SECONDS, compatible=False, file="lock")

    def _read(self, account: str) -> RateLimit | None:
        record = self._record(account)
        found, unkept = _limit_in(record, account), _unkept.get(account) if self._is_own else None
        told = found.noted_at if found else clock.parse(record.get("lifted_at"))
        return unkept if unkept and (told is None or told < unkept.noted_at) else found

    def _record(self, account: str) -> JsonObject:
        try:
            return files.read_json(self._path(account), exact=False) if self._place() else {}
        except (HarnessError, OSError):
            return {}

    def _accounts(self, ending: str = _ENDING) -> list[str]:
        try:
            names = sorted(os.listdir(self._place() or ""))
        except OSError:
            return []
        found = []
        for name in names:
            if name.endswith(ending):
                try:
                    account = files.read_json(os.path.join(self._folder or "", name), exact=False).get("account")
                except (HarnessError, OSError):
                    continue
                if isinstance(account, str) and os.path.basename(self._path(account, ending)) == name:
                    found.append(account)
        return found

    def _path(self, account: str, ending: str = _ENDING) -> str:
        return os.path.join(self._folder or "", f"{_file_name(account)}{ending}")


def _seconds(at: datetime) -> float:
    return at.timestamp() / clock.time_scale()


def _after(
    before: RateLimit | None,
    account: str,
    now: datetime,
    refusal: tuple[str, str | None, float | None, float | None],
) -> RateLimit:
    from agent_harness.kernel.redact import redact

    said, resets_at, retry_after_seconds, guess_seconds = refusal
    in_force = before is not None and not _has_jumped(before, now) and before.until > now
    in_a_row = before is not None and abs((now - before.until).total_seconds()) < FORGOTTEN_AFTER_SECONDS
    attempt = before.attempt + (not in_force) if before and (in_force or in_a_row) else 1
    seconds, source = reopening(
        now,
        attempt=attempt,
        resets_at=resets_at,
        retry_after_seconds=retry_after_seconds,
        said=said,
        guess_seconds=guess_seconds,
    )
    gives_way = source == "guess" or (source == "contract" and before is not None and before.source not in _GUESSED)
    if before and in_force and gives_way:
        return before
    line = " ".join(redact(said[:_READ]).split())[:_LONGEST_SAID]
    until = now + clock.timedelta(seconds=clock.scaled(seconds))
    told = _told_end(now, source, resets_at, retry_after_seconds, said)
    return RateLimit(account, until=until, said=line, source=source, attempt=attempt, noted_at=now, told_until=told)


def _told_end(
    now: datetime, source: str, resets_at: str | None, retry_after_seconds: float | None, said: str
) -> datetime | None:
    from agent_harness.kernel import retry

    if source == "text":
        return retry.later_end(said[:_READ], now)
    reset = clock.parse(resets_at)
    seconds = (reset - now).total_seconds() if reset else retry_after_seconds
    return retry.too_late(seconds, now) or (retry.later_end(said[:_READ], now) if source == "structured" else None)


def _has_jumped(limit: RateLimit, now: datetime) -> bool:
    from agent_harness.kernel import retry

    too_early = (limit.noted_at - now).total_seconds() > _SLACK_SECONDS
    return too_early or (limit.until - now).total_seconds() > retry.LONGEST_SECONDS + _SLACK_SECONDS


def _limit_in(record: JsonObject, account: str) -> RateLimit | None:
    until, noted_at = clock.parse(record.get("until")), clock.parse(record.get("noted_at"))
    attempt, said, source = record.get("attempt"), record.get("said"), record.get("source")
    if record.get("account") != account or until is None or noted_at is None:
        return None
    whole = isinstance(attempt, int) and not isinstance(attempt, bool) and 0 < attempt < 10**9
    return RateLimit(
        account,
        until=until,
        said=said[:_LONGEST_SAID] if isinstance(said, str) else "",
        source=source if source in ("structured", "text", "contract") else "guess",
        attempt=attempt if whole and isinstance(attempt, int) else 1,
        noted_at=noted_at,
        told_until=clock.parse(record.get("told_until")),
    )


def _file_name(account: str) -> str:
    plain = all(c.isascii() and (c.isalnum() or c in "-_.:@+") for c in account) and not account.startswith(".")
    if account and plain and len(account) <= _LONGEST_NAME:
        return account
    from agent_harness.kernel import digest

    # unique for long and unusual names too
    return f"sha256-{digest.sha256(account.encode('utf-8', 'replace'))}"
