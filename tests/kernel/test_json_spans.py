"""What nobody changed keeps its text; what is written says exactly what the value is."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_harness.kernel.json import jsontext, list_file

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["tasks", "},\n    {", '"', "\\"]
)
NUMBERS = st.sampled_from(["1.10", "-0", "1e400", "-1E+99", "0.0", "7", "12345678901234567890123", "1" * 700])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS | NUMBERS.map(jsontext.Spelled),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TASKS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=4) | VALUES, max_size=6)
DOCUMENTS = st.dictionaries(TEXTS.filter(lambda name: name != "tasks"), VALUES, max_size=3)


class Layout:
    """JSON text in a layout that no program would choose."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.style = dice.choice(["ours", "ours", "line", "four", "odd"])

    def text(self, value: Any) -> str:
        """The text of a value; every layout says the same."""
        if self.style == "ours":
            return jsontext.dumps(value)
        if self.style == "line":
            return jsontext.line(value)
        if self.style == "four":
            return jsontext.dumps(value).replace("\n  ", "\n    ")
        return self.blank() + self.part(value) + self.blank()

    def blank(self) -> str:
        return self.dice.choice(["", "", " ", "\n", "\t ", "\n    ", " \r\n"])

    def part(self, value: Any) -> str:
        if isinstance(value, dict):
            inside = [
                f"{self.part(name)}{self.blank()}:{self.blank()}{self.part(each)}" for name, each in value.items()
            ]
            return "{" + self.blank() + f"{self.blank()},{self.blank()}".join(inside) + self.blank() + "}"
        if isinstance(value, list):
            inside = [self.part(each) for each in value]
            return "[" + self.blank() + f"{self.blank()},{self.blank()}".join(inside) + self.blank() + "]"
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=self.dice.random() < 0.5)
        return jsontext.line(value)


def written(document: list_file.ListDocument, changed: list[object] | None = None) -> str:
    return b"".join(document.parts(changed)).decode()


def change(value: Any, dice: random.Random, fresh: Any) -> list[object] | None:
    """Changes this and that, and says which tasks, where that must be said."""
    tasks: list[Any] = value["tasks"]
    told: list[object] = []
    for each in tasks:
        if isinstance(each, dict) and dice.random() < 0.4:
            inner = next((child for child in each.values() if isinstance(child, list)), None)
            if inner is not None and dice.random() < 0.5:
                inner.append(fresh)
            elif each and dice.random() < 0.3:
                each.pop(next(iter(each)))
            else:
                each[dice.choice(["new", *each])] = fresh
            told.append(each)
    moves: list[Callable[[], object]] = [
        lambda: tasks.append(fresh),
        lambda: tasks.insert(0, fresh),
        lambda: tasks and tasks.pop(dice.randrange(len(tasks))),
        tasks.reverse,
        lambda: value.update(new=fresh),
        lambda: value.update({dice.choice(list(value)): copy.deepcopy(fresh)}),
        lambda: value.pop(dice.choice(list(value))),
        lambda: value.update(tasks=[fresh]),
        lambda: None,
        lambda: None,
        lambda: None,
    ]
    dice.choice(moves)()
    return told if dice.random() < 0.7 else None


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS, TASKS, VALUES, st.randoms(use_true_random=False))
@example({}, [], None, random.Random(1))
def test_what_is_written_is_exactly_the_changed_value(
    members: dict[str, Any], tasks: list[Any], fresh: Any, dice: random.Random
) -> None:
    names = [*members, "tasks"]
    dice.shuffle(names)
    text = Layout(dice).text({name: {**members, "tasks": tasks}[name] for name in names})
    document = list_file.parse(text.encode(), "tasks")
    assert jsontext.line(document.value) == jsontext.line(jsontext.loads(text))
    told = change(document.value, dice, fresh)
    found = written(document, told)
    assert jsontext.line(jsontext.loads(found)) == jsontext.line(document.value)
    assert found.endswith("\n") and not found.endswith("\n\n")


@pytest.mark.parametrize("count", [0, 1, 2, 30, 400])
@pytest.mark.parametrize("style", ["ours", "line", "four"])
def test_long_lists_are_read_in_runs_and_every_element_is_found_again(count: int, style: str) -> None:
    layout = Layout(random.Random(3))
    layout.style = style
    odd: list[Any] = ["},\n    {", 7, {"a": [{}, {}]}]
    inner: list[Any] = [{"a": [{}, {}]}]
    tasks = [{"id": f"t{n}", "deep": inner * (n % 4), "é": odd[n % 3]} for n in range(count)]
    text = layout.text({"version": 2, "tasks": tasks, "n": 1.5})
    for number in range(0, count, max(1, count // 9)):
        document = list_file.parse(text.encode(), "tasks")
        assert jsontext.dumps(document.value) == jsontext.dumps(jsontext.loads(text))
        element = document.value["tasks"][number]
        element["id"] = "new"
        found = written(document, [element])
        assert jsontext.loads(found) == document.value
        old = layout.text({"": [{**tasks[0], "id": f"t{number}"}]}).split('"id"')[1].split(",")[0]
        assert len(found) - len(text) < 2 * len(jsontext.dumps(element)) + len(old)


HAND = """{ "version":2,
  "tasks" : [
    {"id": "a",   "cost": 1.10, "\\u00e9": "\\u00e9"},   17,
    { "id": "b" }, null, "x"
  ],
  "mine": {"k":  [1,2]}
}"""


def test_what_a_person_laid_out_stays_where_nothing_is_changed() -> None:
    document = list_file.parse(HAND.encode(), "tasks")
    element = document.value["tasks"][2]
    element["status"] = "done"
    document.value["revision"] = 1
    new = '{\n      "id": "b",\n      "status": "done"\n    }'
    assert written(document, [element]) == (
        HAND.replace('{ "id": "b" }', new).replace("[1,2]}\n}", '[1,2]},\n  "revision": 1\n}') + "\n"
    )


def test_a_list_in_the_shape_of_the_protocol_keeps_it() -> None:
    tasks = [{"id": str(n), "needs": [*"ab"]} for n in range(300)]
    value = {"version": 2, "tasks": tasks, "session": None}
    for told in (True, False):
        document = list_file.parse(jsontext.dumps(value).encode(), "tasks")
        document.value["tasks"][7]["needs"].append("6")
        document.value["tasks"].append({"id": "new"})
        document.value.update(session={"n": 1}, revision=3)
        found = written(document, [document.value["tasks"][7]] if told else None)
        assert found == jsontext.dumps(document.value)


def test_members_come_and_go() -> None:
    document = list_file.parse(HAND.encode(), "tasks")
    del document.value["mine"]
    document.value["halt"] = {"why": "x"}
    found = written(document, [])
    assert found == HAND.partition(',\n  "mine"')[0] + ',\n  "halt": {\n    "why": "x"\n  }\n}\n'
    document = list_file.parse(HAND.encode(), "tasks")
    del document.value["version"]
    assert written(document, []) == jsontext.dumps(document.value)


@pytest.mark.parametrize("value", [True, 1.0])
def test_a_value_of_another_kind_is_another_value(value: object) -> None:
    document = list_file.parse(b'{"tasks": [{"n": 1}], "m": 1}', "tasks")
    document.value["tasks"][0]["n"] = document.value["m"] = value
    assert written(document) == '{"tasks": [{\n      "n": X\n    }], "m": X}\n'.replace("X", jsontext.line(value))


DEEP = '{"tasks": [%s, {"a": 1}]}'
DAMAGED = [
    "",
    "{",
    "{}x",
    '{"tasks": [1,]}',
    '{"tasks": [1 2]}',
    '{"tasks": [1], }',
    '{"tasks": [1]} {}',
    '{"tasks": [{"a": 1, "b": 2, "a": 3}]}',
    '{"tasks": [], "tasks": []}',
    '{"m": 1, "\\u006d": 1, "tasks": []}',
    '{"tasks": [{"a": NaN}]}',
    '{"tasks": [{"a": "\\ud800"}]}',
    '{"tasks": [1], "a": "\\uD800"}',
    '{"tasks": ["\n"]}',
    DEEP % ("[" * 99 + "]" * 99),
    DEEP % ('{"a":' * 99 + "1" + "}" * 99),
    '{"tasks": [], "a": ' + "[" * 100 + "]" * 100 + "}",
    "[" * 9999,
    '{"tasks": [' + "[" * 9999,
]


@pytest.mark.parametrize("text", DAMAGED)
def test_damage_is_told_as_by_a_plain_read(text: str) -> None:
    with pytest.raises(ValueError) as plain:
        jsontext.loads(text)
    with pytest.raises(ValueError) as caught:
        list_file.parse(text.encode(), "tasks")
    assert str(caught.value) == str(plain.value)


def test_damage_far_down_a_long_list_is_told() -> None:
    tasks = [{"id": str(n), "text": "x" * 200} for n in range(200)]
    text = jsontext.dumps({"tasks": tasks})
    for bad in ('"id": "150", "id": "150"', '"id": NaN', '"id": "\\ud800"', '"id": ' + "[" * 98 + "]" * 98, '"id": 01'):
        with pytest.raises(ValueError) as plain:
            jsontext.loads(text.replace('"id": "150"', bad))
        with pytest.raises(ValueError) as caught:
            list_file.parse(text.replace('"id": "150"', bad).encode(), "tasks")
        assert str(caught.value) == str(plain.value)
    deep = text.replace('"id": "150"', '"id": ' + "[" * 97 + "]" * 97)
    assert written(list_file.parse(deep.encode(), "tasks"), []) == deep


def test_zero_bytes_and_what_is_no_text_are_told() -> None:
    for content in (b'{"tasks": [\0]}', b'{"tasks": ["\xff"]}'):
        with pytest.raises(ValueError, match=r"zero byte|not valid UTF-8"):
            list_file.parse(content, "tasks")


@pytest.mark.parametrize("text", ["[1, 2]", "7", '{"tasks": {"a": 1}}', '{"a": 1}', "{}", '{"tasks": []}', "\ufeff{}"])
def test_what_has_no_such_list_is_written_whole_or_by_its_members(text: str) -> None:
    document = list_file.parse(text.encode(), "tasks")
    assert jsontext.loads(written(document)) == jsontext.loads(text)
    if isinstance(document.value, dict):
        document.value["tasks"] = [{"id": "é"}]
        assert jsontext.loads(written(document, [])) == document.value


def test_a_byte_order_mark_and_letters_of_many_bytes_move_nothing() -> None:
    text = '{"é": "\N{GRINNING FACE}", "tasks": [{"ü": 1}, {"b": 2}, {"ß": 3}]}'
    for start in ("", "\ufeff"):
        document = list_file.parse((start + text + " \n\n").encode(), "tasks")
        document.value["tasks"][1]["b"] = "ö"
        found = written(document, [document.value["tasks"][1]])
        assert found == text.replace('{"b": 2}', '{\n      "b": "ö"\n    }') + "\n"


def test_what_is_no_json_is_not_written() -> None:
    document = list_file.parse(b'{"tasks": [{}]}', "tasks")
    document.value["tasks"][0]["x"] = {1, 2}
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        document.parts(document.value["tasks"])
