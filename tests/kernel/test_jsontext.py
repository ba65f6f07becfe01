"""What is read is written back to the letter, and what could not be is refused."""

import copy
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel.json import jsontext

_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_texts = st.text(st.characters(exclude_categories=["Cs"]))
_values = st.recursive(
    _scalars | _texts, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4)
)


@given(_values)
def test_text_is_what_the_standard_library_writes(value: Any) -> None:
    assert jsontext.dumps(value) == json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    assert jsontext.line(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@given(_values)
def test_an_answer_is_the_line_that_the_standard_library_writes(value: Any) -> None:
    assert jsontext.spaced(value) == json.dumps(value, ensure_ascii=False)


def test_an_answer_names_what_json_has_no_form_for() -> None:
    held = {"path": Path("a/b"), "pair": (1, 2), 3: None}
    assert jsontext.spaced(held) == '{"path": "a/b", "pair": [1, 2], "3": null}'


@given(_values)
def test_reading_gives_back_what_was_written(value: Any) -> None:
    text = jsontext.dumps(value)
    assert jsontext.loads(text) == value
    assert jsontext.dumps(jsontext.loads(text.encode())) == text
    assert jsontext.loads(jsontext.line(value)) == value


_digits = st.text("0123456789", min_size=1, max_size=30)
_numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.just("0") | _digits.map(lambda text: "1" + text),
    st.just("") | _digits.map(lambda text: "." + text),
    st.just("") | st.builds("{}{}".format, st.sampled_from(["e", "E", "e-", "E+"]), st.integers(0, 999).map(str)),
)


@given(st.lists(_numbers, min_size=1))
def test_every_number_keeps_its_spelling(numbers: list[str]) -> None:
    text = "[" + ",".join(numbers) + "]"
    assert jsontext.line(jsontext.loads(text)) == text


@pytest.mark.parametrize("text", ["1.10", "-0.0", "-0", "1e400", "-1E+999", "0.1e-400", "1" * 5000, "-" + "9" * 601])
def test_odd_numbers_keep_their_spelling_through_copies(text: str) -> None:
    number = jsontext.loads(text)
    for twin in (number, copy.copy(number), copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert jsontext.line([twin]) == f"[{text}]"


def test_numbers_still_count() -> None:
    value = jsontext.loads(
        '{"cost": 1.10, "attempts": 3, "zero": -0, "far": 1e400, "big": 123456789012345678901234567890}'
    )
    assert value["cost"] * 2 == pytest.approx(2.2)
    assert value["attempts"] + 1 == 4
    assert value["zero"] == 0
    assert value["far"] == math.inf
    assert value["big"] == 123456789012345678901234567890


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("\0\0\0", "zero byte"),
        ('{"a": "\0"}', "zero byte"),
        (b'{"a": "\xff"}', "not valid UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not valid UTF-8"),
        (b"\xff\xfe{\x00}\x00", "zero byte"),
        ("{'a': 1}", "line 1 column 2"),
        ('{"a": 1', "line 1 column 8"),
        ('{"a": 1,}', "line 1 column"),
        ("{}\n{}", "more than one JSON value: the second at line 2 column 1"),
        ("\n\n  nonsense", "no JSON value at line 3 column 3"),
        ('{"a": "\n"}', "control character"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 1, "b": 2, "a": 1}', "the member 'a' occurs twice"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ('{"\\uDC00": 1}', "lone surrogate"),
        ("[" * 101 + "]" * 101, "nested deeper than 100 levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested deeper than 100 levels"),
        ("[" * 1_000_000, "nested deeper than 100 levels"),
        ('{"a":' * 200_000, "nested deeper than 100 levels"),
    ],
)
def test_damage_has_one_clear_line(text: str | bytes, why: str) -> None:
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ValueError) as caught:
        jsontext.loads(raw)
    assert why.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200) | _texts)
def test_any_input_is_a_value_or_a_value_error(text: bytes | str) -> None:
    try:
        value = jsontext.loads(text)
    except ValueError:
        return
    assert jsontext.loads(jsontext.dumps(value)) == value


def test_the_deepest_value_that_is_read_can_be_written() -> None:
    for text in ("[" * 100 + "1" + "]" * 100, "[" * 100 + "]" * 100):
        assert jsontext.line(jsontext.loads(text)) == text
    with pytest.raises(ValueError, match="deeper than 100"):
        jsontext.dumps([jsontext.loads("[" * 100 + "]" * 100)])


def test_a_value_that_contains_itself_is_refused() -> None:
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(ValueError, match="deeper than 100"):
        jsontext.dumps(ring)


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, object(), b"bytes", {"a": [-math.inf]}])
def test_what_is_no_json_is_not_written(value: object) -> None:
    with pytest.raises(ValueError, match=r"not a JSON number|cannot be written as JSON"):
        jsontext.dumps(value)


def test_pairs_of_surrogates_are_one_character() -> None:
    assert jsontext.loads('"\\ud83d\\ude00 \\\\ud800"') == "\N{GRINNING FACE} \\ud800"


def test_a_byte_order_mark_is_passed_over() -> None:
    assert jsontext.loads("\ufeff{}".encode()) == {}


def test_members_keep_their_order_and_any_plain_name() -> None:
    assert jsontext.line({"b": 1, "a": 2, 3: 4, None: 5, True: 6}) == '{"b":1,"a":2,"3":4,"null":5,"true":6}'


def test_damage_is_told_also_where_nothing_else_has_loaded_json() -> None:
    program = (
        "from agent_harness.kernel.json import jsontext\n"
        "import sys\n"
        "for text in ('{', '[1,', '{\"a\" 1}', '\"x'):\n"
        "    try: jsontext.loads(text)\n"
        "    except ValueError as error: print(error)\n"
    )
    source = str(Path(jsontext.__file__).parents[3])
    command = [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {source!r})\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 4
