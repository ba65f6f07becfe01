"""The function that an item names is there, and is noticed by its tests by itself."""

import pytest

from agent_harness.verification.changes import FileChange, Tree
from agent_harness.verification.noticing.named_functions import named_in

from .sample import ADD_CODE, SUB, JudgedProject, codes

CODE = (
    "import re\n\n\ndef clean(text):\n    return text.strip()\n\n\ndef slugify(text):\n    return clean(text).lower()\n"
)
STUB = "def slugify(text):\n    raise NotImplementedError\n"
METHODS = "class Basket:\n    def add(self, price):\n        pass\n\n    def total(self):\n        return 0\n"
NOTHING = "nothing in the code has the name slugify"
NAMED: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "with a parenthesis": ("Add slugify(text).", CODE, [("slugs.py::slugify", "")]),
    "in backticks": ("A `slugify` for titles", CODE, [("slugs.py::slugify", "")]),
    "with its module": ("words.slugs.slugify(text) is lower case", CODE, [("slugs.py::slugify", "")]),
    "with an underscore": (
        "Now is_slug says more",
        "def is_slug(text):\n    return bool(text)\n",
        [("slugs.py::is_slug", "")],
    ),
    "a method": ("`Basket.total()` is the sum", METHODS, [("slugs.py::Basket.total", "")]),
    "another thing as well": ("Add slugify(text) in the way of print() and `count`", CODE, [("slugs.py::slugify", "")]),
    "nothing": ("Titles become short names (slugs)", CODE, []),
    "a name that is bound": ("Add `slugify(text)`", "slugify = str.upper\n", [("slugify", "")]),
    "a table of this name": ("Add `slugs`", "slugs = {}\n", []),
    "a placeholder": ("Add slugify(text)", STUB, [("slugs.py::slugify", "slugs.py::slugify is only a placeholder")]),
    "another name": ("Add `slugify(text)` to words", "def to_slug(text):\n    return text\n", [("slugify", NOTHING)]),
    "another name of a library": ("Quote it as PHP's `slugify()` does", "def to_slug(text):\n    return text\n", []),
    "one that others fill in": (
        "Add `slugify(text)`",
        f"class Base:\n    @abstractmethod\n{STUB}".replace("\ndef", "\n    def").replace(
            "\n    raise", "\n        raise"
        ),
        [("slugs.py::Base.slugify", "")],
    ),
}


@pytest.mark.parametrize(("text", "code", "wanted"), NAMED.values(), ids=NAMED.keys())
def test_what_a_text_names(text: str, code: str, wanted: list[tuple[str, str]]) -> None:
    work = [FileChange(path="src/words/slugs.py", status="A", after=code.encode())]
    found = named_in(text, work, Tree((), lambda _: None), gone=())
    short = [(each.where.removeprefix("src/words/"), each.problem.replace("src/words/", "")) for each in found]
    assert short == wanted


def test_a_placeholder_that_was_planned_and_left() -> None:
    tree = Tree(("words/slugs.py", "tests/slugs.py"), lambda path: STUB.encode() if path.startswith("words") else b"")
    work = [FileChange(path="words/other.py", status="A", after=b"def parts(text):\n    return text.split()\n")]
    [found] = named_in("Add `slugify(text)` to words.slugs", work, tree, gone=("words/other.py",))
    assert found.problem == "words/slugs.py::slugify is only a placeholder"
    assert not named_in("Add `parts(text)`, which `slugify(text)` will use", work, tree, gone=())[0].problem


def test_of_one_name_in_two_modules_the_one_that_is_meant() -> None:
    work = [FileChange(path=f"words/{name}.py", status="A", after=CODE.encode()) for name in ("slugs", "_slugs")]
    found = named_in("`words.slugs.slugify(text)` is lower case", work, Tree((), lambda _: None), gone=())
    assert [each.where for each in found] == ["words/slugs.py::slugify"]
    assert len(named_in("Add `slugify(text)`", work, Tree((), lambda _: None), gone=())) == 2


NEIGHBOUR = ADD_CODE + "\n\ndef less(a):\n    return a - 1\n\n\ndef sub(a, b):\n    return a\n"
ONLY_THE_NEIGHBOUR = "from calc import less, sub\n\n\ndef test_less():\n    assert less(3) == 2\n    sub(3, 1)\n"
BOTH = "from calc import less, sub\n\n\ndef test_both():\n    assert less(3) == 2\n    assert sub(3, 1) == 2\n"
ASKED = "Add `sub(a, b)` to calc, beside `add(a, b)`"


def test_a_proof_of_the_neighbour_is_none(repo: JudgedProject) -> None:
    verdict = repo.judge({"src/calc.py": NEIGHBOUR, SUB: ONLY_THE_NEIGHBOUR}, asked=ASKED)
    assert codes(verdict) == ["weak_test"]
    message = verdict.reasons[0].message
    assert message.startswith("The feature mentions sub, but its tests still pass when src/calc.py::sub returns None")
    assert message.endswith("call sub in a test, and check its result.")


def test_the_function_that_is_named_is_noticed(repo: JudgedProject) -> None:
    work = NEIGHBOUR.replace("return a\n", "return a - b\n")
    verdict = repo.judge({"src/calc.py": work, SUB: BOTH}, asked=ASKED)
    assert verdict.accepted, verdict.findings


def test_tests_that_compare_nothing_are_no_proof(repo: JudgedProject) -> None:
    test = "import calc\n\n\ndef test_sub():\n    assert callable(calc.sub)\n"
    verdict = repo.judge({"src/calc.py": f"{ADD_CODE}\n\nsub = max\n", SUB: test})
    assert codes(verdict) == ["weak_test"]
    assert "compare no value that could differ" in verdict.reasons[0].message
