"""The scripted agent's own reading and editing of ``features.json``: one word changes, every other byte stays."""

from collections.abc import Iterable, Iterator
from typing import Any

from agent_harness.kernel.json import edit, jsontext


def test_file_of(text: str, feature: int) -> str | None:
    """The test file of a feature, or ``None`` when there is no such feature or it names none."""
    return next((found.get("test_file") for _, found in _features(text) if found.get("id") == feature), None)


def with_passes(text: str, features: Iterable[int], passes: bool) -> str:
    """The text with ``passes`` of these features set; raises ``KeyError`` for one that is not there."""
    places = {found.get("id"): place for place, found in reversed([*_features(text)])}
    for feature in features:
        text = edit.put(text, ["features", places[feature], "passes"], passes)
    return text


def _features(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The place in the list, and the value, of each feature in the text."""
    listed = jsontext.loads(text).get("features")
    for place, found in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(found, dict):
            yield place, found
