"""Validation of a session result from another process. Malformed members count as missing, negative usage as 0."""

from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features.records import amount, number

_KINDS: dict[str, type] = {
    **dict.fromkeys(("state", "row", "spent", "question", "kept", "wip", "outputs", "quality"), dict),
    **dict.fromkeys(("proven_tests", "gone_tests", "files_read"), list),
    **dict.fromkeys(("session", "total_tests"), int),
    "logs": str,
}
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")


def well_formed(result: JsonObject) -> JsonObject:
    """Return the result without members of a wrong type."""
    found = {name: value for name, value in result.items() if isinstance(value, _KINDS.get(name, object))}
    if spent := found.get("spent"):
        found["spent"] = _used(spent)
    return found


def _used(found: JsonObject) -> JsonObject:
    price = found.get("cost_usd")
    return {
        "started": str(found.get("started") or clock.timestamp()),
        **{name: max(0, number(found.get(name))) for name in _TOKENS},
        "cost_usd": None if price is None else amount(price),
        "assumed_usd": amount(found.get("assumed_usd")),
    }
