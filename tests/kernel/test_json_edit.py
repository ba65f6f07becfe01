"""Edits of a JSON text: any JSON, any place, and no other byte changes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel.json import edit

NAMES = st.text(st.sampled_from('ab"\\\n é'), max_size=4)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
STYLES: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, indent=4, ensure_ascii=False),
    lambda value: json.dumps(value, indent="\t").replace("\n", "\r\n"),
    lambda value: json.dumps(value, separators=(",", ":")),
]


@given(st.dictionaries(NAMES, VALUES, max_size=4), VALUES, st.sampled_from(STYLES))
def test_an_entry_is_added_and_taken_out_again(found: dict[str, Any], value: Any, style: Callable[[Any], str]) -> None:
    found = {name: child for name, child in found.items() if name != "hooks"}
    text = style(found)
    added = edit.append(text, ["hooks", "Stop"], value)
    assert json.loads(added) == {**found, "hooks": {"Stop": [value]}}
    twice = edit.append(added, ["hooks", "Stop"], 7)
    assert json.loads(twice)["hooks"]["Stop"] == [value, 7]
    assert json.loads(edit.put(twice, ["hooks", "Stop", 0], found))["hooks"]["Stop"] == [found, 7]
    assert json.loads(edit.remove(twice, ["hooks", "Stop", 0]))["hooks"]["Stop"] == [7]
    assert json.loads(edit.remove(edit.remove(twice, ["hooks", "Stop", 1]), ["hooks"])) == found
    if found:
        assert edit.remove(added, ["hooks"]) == text
        first = next(iter(found))
        assert json.loads(edit.remove(text, [first])) == {n: v for n, v in found.items() if n != first}


@given(st.dictionaries(NAMES, VALUES, max_size=4), NAMES, VALUES, st.sampled_from(STYLES))
def test_a_member_is_put_where_it_was_or_last(
    found: dict[str, Any], name: str, value: Any, style: Callable[[Any], str]
) -> None:
    text = style(found)
    made = edit.put(text, [name], value)
    assert list(json.loads(made).items()) == list({**found, name: value}.items())
    assert json.loads(edit.put(made, [name], value)) == json.loads(made)
    if name not in found:
        assert json.loads(edit.remove(made, [name])) == found


def test_every_other_byte_stays() -> None:
    text = '\ufeff{ "a":1.10,\r\n\t"b" : [ {"x":  null}, 2 ] , "c":"\\u00e9" }\r\n'
    assert edit.put(text, ["b", 0, "x"], True) == text.replace("null", "true")
    assert edit.put(text, ["b", 0, "y"], 1) == text.replace("null", 'null, "y": 1')
    assert edit.remove(text, ["b", 0]) == text.replace('{"x":  null}, ', "")
    assert edit.remove(text, ["b", 7]) == edit.put(text, ["z", "y"], 1) == text


def test_empty_is_an_object_or_array_without_entries() -> None:
    text = '{"a": [ ], "b": {}, "c": [0], "d": "", "e": null}'
    assert [name for name in "abcdef" if edit.is_empty(text, [name])] == ["a", "b"]


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[1", "", "{} {}", "NaN"])
def test_what_is_no_strict_json_is_not_edited(text: str) -> None:
    with pytest.raises(ValueError):
        edit.put(text, ["a"], 1)
    with pytest.raises(ValueError):
        edit.append(text, ["a"], 1)
    with pytest.raises(ValueError):
        edit.remove(text, ["a"])
