"""What the agent changed in features.json: its claims, and what it may not touch. Pure.

Legal is ``passes`` from false to true and ``last_updated``; anything else is a violation that names the feature and
the field. Source: features.md C14, C21, UAH-110..112, UAH-301..303.
"""

import json
from dataclasses import dataclass

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features.records import Feature, FeatureList

_FREE_MEMBERS = frozenset({"features", "last_updated"})


@dataclass(frozen=True, kw_only=True)
class ClaimedChanges:
    """Feature ids newly claimed, in the order of the file, and every illegal change, one line each."""

    claims: tuple[int, ...] = ()
    violations: tuple[str, ...] = ()


def compare(before: FeatureList, after: FeatureList | None) -> ClaimedChanges:
    """The difference between the features.json of before and the agent's; ``None`` means that it is not readable."""
    if after is None:
        return ClaimedChanges(violations=("features.json does not parse, or is no file",))
    listed = after.record.get("features")
    if not isinstance(listed, list):
        return ClaimedChanges(violations=("features.json: 'features' is not a list",))
    old, new = _by_id(before), _by_id(after)
    names = [name for name in {**before.record, **after.record} if name not in _FREE_MEMBERS]
    violations = [
        f"features.json: {name!r} was changed"
        for name in names
        if not _same(before.record.get(name), after.record.get(name))
    ]
    violations += [f"Feature #{i}: removed" for i in old if i not in new]
    violations += [f"Feature #{i}: added" for i in new if i not in old]
    if len(new) != len(listed):
        violations.append("features.json: an entry is no object, has no id, or repeats one")
    elif [i for i in new if i in old] != [i for i in old if i in new]:
        violations.append("features.json: the order of the features was changed")
    claims: list[int] = []
    for feature_id in (i for i in old if i in new):
        if new[feature_id].passes and not old[feature_id].passes:
            claims.append(old[feature_id].id)
        violations += _fields(feature_id, old[feature_id].record, new[feature_id].record)
    return ClaimedChanges(claims=tuple(claims), violations=tuple(violations))


def _by_id(document: FeatureList) -> dict[object, Feature]:
    """The features by what stands as their id, of whatever type it is."""
    found: dict[object, Feature] = {}
    for feature in document.features:
        key = feature.record.get("id")
        found[key if isinstance(key, int | str) else repr(key)] = feature
    return found


def _fields(feature_id: object, old: JsonObject, new: JsonObject) -> list[str]:
    lines = []
    for name in {**old, **new}:
        if _same(old.get(name), new.get(name)) and (name in old) == (name in new):
            continue
        if name == "passes" and old.get(name) is not True and new.get(name) is True:
            continue
        lines.append(f"Feature #{feature_id}: {name!r} was changed")
    return lines


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)
