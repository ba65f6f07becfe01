"""Limits on concurrent agents and check runs on this machine, over all projects of the user.

Files below $XDG_STATE_HOME/agent-harness/host/:

    host.json          {"agents": 8, "tests": 1, "accounts": {ACCOUNT: {"agents": 4}}}: the limits
    lock               held while the next agent of an account is selected
    agents/K.lock      held by the run of an agent while the agent works
    agents/K.json      the agent's work and account
    tests/K.lock ...   the same files for check runs before a merge
    input/DIGEST       input tokens of an account with a token limit: one line per entry, time and number

Without a setting in ``host.json``, the limits are eight agents, eight agents per account, and check runs on half of the
cores. The kernel releases the locks of a process that dies. Source: ``scale.md`` SC-40, SC-43, SC-44."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress

from agent_harness.errors import HarnessError
from agent_harness.kernel import digest, files, trusted_state
from agent_harness.kernel.json import jsontext, members_of
from agent_harness.kernel.lock import LockFile, await_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agent_harness.kernel.json import JsonObject

FOLDER = "host"
AGENTS, TESTS, INPUT = "agents", "tests", "input"
MOST = 1024
_MOST_TOKENS = 10**12
_CHOOSING_SECONDS = 2.0
_LONGEST_INPUT = 256 * 1024


class AccountTerms:
    __slots__ = ("agents", "input_tokens_per_minute")

    def __init__(self, agents: int, input_tokens_per_minute: int | None = None) -> None:
        self.agents = agents
        self.input_tokens_per_minute = input_tokens_per_minute  # uncached ones; ``None``: not set


class HostSlot:
    """Slot for one agent or check run on this machine, held until ``release``."""

    __slots__ = ("_lock", "_path")

    def __init__(self, lock: LockFile | None = None, path: str = "") -> None:
        self._lock = lock
        self._path = path

    def tell(self, told: JsonObject) -> None:
        """Store a description of the slot's use, which ``harness limits`` shows."""
        if not self._path:
            return
        try:
            descriptor = files.open_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            files.overwrite(descriptor, jsontext.dumps(told).encode())
        finally:
            os.close(descriptor)

    def release(self) -> None:
        if self._lock:
            self._lock.release()


def _settings() -> JsonObject:
    folder = trusted_state.of_user(FOLDER, make=False)
    try:
        return files.read_json(os.path.join(folder, "host.json"), exact=False) if folder else {}
    except (OSError, HarnessError):
        return {}


def limits() -> Mapping[str, int]:
    return _limits(_settings())


def _limits(found: JsonObject) -> dict[str, int]:
    usual = {AGENTS: 8, TESTS: max(1, (os.cpu_count() or 1) // 2)}
    return {kind: _count(found.get(kind), MOST) or count for kind, count in usual.items()}


def account_terms(account: str) -> AccountTerms:
    return _terms(_settings(), account)


def terms_of_accounts() -> Mapping[str, AccountTerms]:
    """Return the limits of every account in ``host.json``."""
    found = _settings()
    return {account: _terms(found, account) for account in members_of(found.get("accounts"))}


def _terms(found: JsonObject, account: str) -> AccountTerms:
    own = members_of(members_of(found.get("accounts")).get(account))
    most = _count(own.get("agents"), MOST) or _limits(found)[AGENTS]
    return AccountTerms(most, _count(own.get("input_tokens_per_minute"), _MOST_TOKENS))


def _count(value: object, most: int) -> int | None:
    return value if type(value) is int and 1 <= value <= most else None


def take(kind: str, told: JsonObject) -> HostSlot | None:
    """Take a free slot of this kind, or return ``None`` if all slots are taken."""
    folder = trusted_state.of_user(FOLDER)
    if folder is None:
        return HostSlot()
    try:
        there = trusted_state.made_inside(folder, kind)
        for number in range(1, limits()[kind] + 1):
            lock = LockFile(os.path.join(there, f"{number}.lock"))
            if lock.try_take() is None:
                agent_slot = HostSlot(lock, os.path.join(there, f"{number}.json"))
                agent_slot.tell(told)
                return agent_slot
    except (OSError, HarnessError):  # a disk that is full, or knows no such locks: nobody counts
        return HostSlot()
    return None


def note_input(account: str, tokens: int) -> None:
    """Record input tokens that an agent of the account used."""
    path = _input_path(account, make=True)
    if path is None or tokens <= 0:
        return
    with suppress(OSError, HarnessError):
        descriptor = files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, f"{time.time():.3f} {tokens}\n".encode())
        finally:
            os.close(descriptor)


def input_since(account: str, seconds: float) -> int:
    """Return the input tokens that the account used in the last ``seconds`` seconds."""
    path, now = _input_path(account), time.time()
    try:
        content = files.read_bytes(path) if path else b""
    except (OSError, HarnessError):
        return 0
    lines = [each for each in map(_input_line, content.splitlines()) if each and now - seconds < each[0] <= now + 1]
    if path and len(content) > _LONGEST_INPUT:
        with suppress(OSError, HarnessError):
            # drops old entries: call this only within ``choosing``
            files.replace(path, "".join(f"{at:.3f} {tokens}\n" for at, tokens in lines))
    return sum(tokens for _, tokens in lines)


def _input_line(line: bytes) -> tuple[float, int] | None:
    at, _, tokens = line.partition(b" ")
    try:
        return float(at), min(max(0, int(tokens)), _MOST_TOKENS)
    except ValueError:
        return None


def _input_path(account: str, *, make: bool = False) -> str | None:
    folder = trusted_state.of_user(FOLDER, make=make)
    if not folder:
        return None
    with suppress(OSError):
        if make:
            trusted_state.made_inside(folder, INPUT)
    there = os.path.join(folder, INPUT)
    if os.path.islink(there):
        return None
    return os.path.join(there, digest.sha256(account.encode("utf-8", "replace"))[:24])


@contextmanager
def choosing() -> Iterator[None]:
    """During the block, hold the lock that lets only one process choose agents."""
    folder = trusted_state.of_user(FOLDER)
    descriptor = -1
    with suppress(OSError, HarnessError):
        if folder:
            descriptor = files.open_regular(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            # if the lock stays taken, go on without it
            await_lock(descriptor, _CHOOSING_SECONDS)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def holders() -> list[JsonObject]:
    """Return all slots in use, each with the description that its holder stored."""
    folder = trusted_state.of_user(FOLDER, make=False)
    return [each for kind in (AGENTS, TESTS) for each in _holders(folder, kind)] if folder else []


def working(account: str) -> int:
    folder = trusted_state.of_user(FOLDER, make=False)
    return sum(each.get("account") == account for each in _holders(folder, AGENTS)) if folder else 0


def _holders(folder: str, kind: str) -> list[JsonObject]:
    there = os.path.join(folder, kind)
    found: list[JsonObject] = []
    names = os.listdir(there) if os.path.isdir(there) and not os.path.islink(there) else []
    for number in sorted(int(name[:-5]) for name in names if name.endswith(".lock") and name[:-5].isdecimal()):
        try:
            holder = LockFile(os.path.join(there, f"{number}.lock")).holder()
        except (OSError, HarnessError):
            continue
        if holder is None:
            continue
        row: JsonObject = {"kind": kind, "number": number, "pid": holder.pid}
        with suppress(OSError, HarnessError):
            row = {**files.read_json(os.path.join(there, f"{number}.json"), exact=False), **row}
        found.append(row)
    return found
