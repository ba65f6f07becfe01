"""Parser for the value of ``--engine``.

The value is ``temporal://HOST:PORT/NAMESPACE?pool=NAME&remote=NAME`` or ``local:``."""

import os
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from agent_harness.errors import UsageError

__all__ = ["EngineAddress", "address_of", "with_exchange", "with_priority"]

HEARTBEAT_SECONDS = 90.0
LEAST_HEARTBEAT_SECONDS = 30.0
_HINT = "temporal://HOST:PORT/NAMESPACE?pool=NAME&remote=NAME"


@dataclass(frozen=True, kw_only=True)
class EngineAddress:
    """Parsed value of the option ``--engine``."""

    host: str
    port: int
    namespace: str
    pool: str  # or several pools, separated by commas: each is asked if the one before refuses a job
    remote: str
    # Without a heartbeat for so many seconds, another worker starts the job. Longer than server outages (SC-53).
    heartbeat: float = HEARTBEAT_SECONDS
    exchange: str = ""  # a folder with the same path on all machines, in place of the remote
    priority: int = 3  # 1 first, 5 last
    weight: float = 1.0

    @property
    def pools(self) -> tuple[str, ...]:
        return tuple(self.pool.split(","))

    @property
    def target(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"temporal://{self.target}/{self.namespace}?pool={self.pool}"


def address_of(url: str) -> EngineAddress | None:
    """Return the parsed engine URL, or None for ``local:``. Raise ``UsageError`` for an invalid URL."""
    if url in ("local", "local:"):
        return None
    parts = urlsplit(url)
    if parts.scheme != "temporal":
        raise UsageError(f"Unknown engine URL scheme: {url.partition(':')[0] or url!r}", hint=f"local:  # or {_HINT}")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "The engine URL must not contain a password", hint="set TEMPORAL_API_KEY, or use a Temporal profile"
        )
    try:
        port = parts.port or 7233
    except ValueError:
        raise UsageError(f"The port of {url} is not a number", hint=_HINT) from None
    pairs = parse_qsl(parts.query)
    words = dict(pairs)
    if len(words) < len(pairs):
        raise UsageError(f"{url} sets an option twice", hint=_HINT)
    if unknown := {*words} - {"pool", "remote", "heartbeat", "exchange", "priority", "weight"}:
        raise UsageError(f"Unknown option in {url}: {', '.join(sorted(unknown))}", hint=_HINT)
    exchange = words.get("exchange") or ""
    if exchange and ("remote" in words or not os.path.isabs(exchange)):
        told = f"exchange must be an absolute path and cannot be combined with remote, got {exchange}"
        raise UsageError(told, hint="temporal://HOST:PORT/NAMESPACE?exchange=/mnt/share/harness")
    pool = words.get("pool") or "default"
    if not all(pool.split(",")) or len({*pool.split(",")}) < len(pool.split(",")):
        raise UsageError(
            f"pool must list different names, separated by commas, got {pool}",
            hint="temporal://HOST:PORT/NAMESPACE?pool=big,small",
        )
    priority = words.get("priority") or "3"
    if priority not in ("1", "2", "3", "4", "5"):
        raise UsageError(f"priority must be between 1 and 5, got {priority}", hint=_HINT)
    return EngineAddress(
        host=parts.hostname or "127.0.0.1",
        port=port,
        namespace=parts.path.strip("/") or "default",
        pool=pool,
        remote=words.get("remote") or "origin",
        heartbeat=_seconds(words.get("heartbeat")),
        exchange=exchange,
        priority=int(priority),
        weight=_weight(words.get("weight") or "1"),
    )


def with_exchange(url: str, folder: str) -> str:
    """Add the exchange folder to an engine URL. Raise ``UsageError`` for the URL ``local:``."""
    whole = os.path.abspath(os.path.expanduser(folder))
    found = f"{url}{'&' if '?' in url else '?'}{urlencode({'exchange': whole})}"
    if url in ("local", "local:"):
        raise UsageError("--exchange works only with workers on other machines", hint=f"--engine {_HINT}")
    address_of(found)
    return found


def with_priority(url: str, priority: int, weight: float) -> str:
    """Add this priority and weight to an engine URL. Values that the URL already contains stay."""
    if address_of(url) is None:
        return url
    said = dict(parse_qsl(urlsplit(url).query))
    given = {
        name: value for name, value in (("priority", str(priority)), ("weight", f"{weight:g}")) if name not in said
    }
    return f"{url}{'&' if said else '?'}{urlencode(given)}" if given else url


def _weight(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.001 <= found <= 1000.0:
        raise UsageError(f"weight must be between 0.001 and 1000, got {text}", hint=_HINT)
    return found


def _seconds(text: str | None) -> float:
    if text is None:
        return HEARTBEAT_SECONDS
    if not text.isascii() or not text.isdecimal() or int(text) < LEAST_HEARTBEAT_SECONDS:
        raise UsageError(f"heartbeat must be at least {LEAST_HEARTBEAT_SECONDS:.0f} seconds, got {text}", hint=_HINT)
    return float(text)
