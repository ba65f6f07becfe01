"""Which feature comes next, and why none does. Pure, and light enough for `status`.

Source: features.md UAH-452..456, C13, C53.
"""

from agent_harness.protocols.features import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.kernel.json import JsonObject


class Choice:
    """What to work on. ``feature`` is ``None`` when nothing is eligible; then ``waiting`` says what for."""

    __slots__ = ("all_proven", "feature", "waiting")

    def __init__(
        self, feature: "JsonObject | None", *, all_proven: bool = False, waiting: tuple[str, ...] = ()
    ) -> None:
        self.feature = feature
        self.all_proven = all_proven
        self.waiting = waiting


def next_feature(document: "Mapping[str, Any]", state: "Mapping[str, Any] | None" = None) -> Choice:
    """The partial feature of ``state`` first (UAH-462), then those that a session broke for good (C10).

    Else the eligible one of lowest priority value, then id. Eligible: not proven, not skipped by a person, not waiting
    for one, every dependency proven, or skipped in a way that keeps nobody waiting.
    """
    found = records.features_of(document)
    if state and state.get("next_prompt") == "continuation":
        partial = records.feature_by_id(document, records.number(state.get("current_feature"), -1))
        if partial is not None and _is_open(partial):
            return Choice(partial)
    done = settled(document)
    eligible = [f for f in found if _is_open(f) and _ready(f, done)]
    first = (state or {}).get("fix_first")
    broken = first if isinstance(first, list) else []
    if eligible:
        return Choice(min(eligible, key=lambda feature: (feature.get("id") not in broken, *_rank(feature))))
    remaining = [f for f in found if not records.passes(f) and not records.skipped(f)]
    return Choice(None, all_proven=bool(found) and not remaining, waiting=_waiting(found, done))


def chosen_feature(document: "Mapping[str, Any]", state: "Mapping[str, Any]", feature_id: int) -> "JsonObject":
    """The feature that a person chose, when a session on it can begin; else ``UsageError`` or ``NothingEligible``.

    While another feature is unfinished none can be chosen: its unproven commits would be pushed with the next proof.
    """
    from agent_harness.errors import NothingEligible, UsageError

    found = records.features_of(document)
    feature = records.feature_by_id(document, feature_id)
    if feature is None:
        known = ", ".join(str(f.get("id")) for f in found)
        raise UsageError(f"There is no Feature #{feature_id}; known ids: {known}", hint="harness status")
    if records.passes(feature):
        raise NothingEligible(f"Feature #{feature_id} is passing already.", hint="harness status")
    partial = next_feature(document, state).feature if state.get("next_prompt") == "continuation" else None
    if partial is not None and partial.get("id") == state.get("current_feature") != feature_id:
        raise NothingEligible(
            f"Feature #{partial.get('id')} is unfinished and comes first.",
            hint=f"harness run   or   harness skip --feature {partial.get('id')}",
        )
    if not (_is_open(feature) and _ready(feature, settled(document))):
        raise NothingEligible(f"{_waiting([feature], settled(document))[0]}.", hint="harness status")
    return feature


def proven(document: "Mapping[str, Any]") -> set[object]:
    """Ids of the features that pass."""
    return {f.get("id") for f in records.features_of(document) if records.passes(f)}


def settled(document: "Mapping[str, Any]") -> set[object]:
    """Ids of the features that keep nobody waiting: proven, or skipped after a regression (C53)."""
    found = records.features_of(document)
    return proven(document) | {
        f.get("id") for f in found if records.skipped(f) and f["skipped"].get("unblocks") is True
    }


def _is_open(feature: "JsonObject") -> bool:
    return not (records.passes(feature) or records.skipped(feature) or feature.get("awaiting_manual"))


def _ready(feature: "JsonObject", done: set[object]) -> bool:
    return all(i in done for i in records.dependencies(feature))


def _rank(feature: "JsonObject") -> "tuple[float, int]":
    priority = feature.get("priority")
    usable = isinstance(priority, int | float) and not isinstance(priority, bool)
    return (float(priority) if usable else float("inf"), records.number(feature.get("id")))


def _waiting(found: "list[JsonObject]", done: set[object]) -> tuple[str, ...]:
    lines = []
    for feature in found:
        if records.passes(feature):
            continue
        name = f"Feature #{feature.get('id')} ({records.description(feature)})"
        missing = [i for i in records.dependencies(feature) if i not in done]
        if records.skipped(feature):
            lines.append(f"{name} was skipped")
        elif feature.get("awaiting_manual"):
            lines.append(f"{name} awaits a person's verification")
        elif missing:
            lines.append(f"{name} waits for " + ", ".join(f"#{i}" for i in missing))
    return tuple(lines)
