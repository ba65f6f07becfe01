"""Tests that cannot fail: told by mutants of the work and of what the tests expect."""

from collections.abc import Mapping

import pytest

from agent_harness.verification.changes import FileChange
from agent_harness.verification.noticing import mutants
from agent_harness.verification.runner.testreport import RecordedCall
from agent_harness.verification.verdict import Strictness

from .sample import HONEST, SUB, SUB_CODE, JudgedProject, codes

IMPORTS = "from calc import sub\n\n\n"
ALWAYS_EQUAL = SUB_CODE.replace(
    "return a - b", "return type('Same', (), {'__eq__': lambda self, other: True, '__hash__': lambda self: 0})()"
)
WEAK = {
    "tautology": (SUB_CODE, "def test_sub():\n    assert sub(5, 3) == sub(5, 3)\n"),
    "returns": (SUB_CODE, "@pytest.mark.filterwarnings('ignore')\ndef test_sub():\n    return sub(5, 3) == 2\n"),
    "only calls": (SUB_CODE, "def test_sub():\n    sub(5, 3)\n"),
    "a tuple is true": (SUB_CODE, "def test_sub():\n    held = (sub(5, 3) == 2, 'wrong')\n    assert held\n"),
    "swallowed": (
        SUB_CODE,
        "def test_sub():\n    try:\n        assert sub(5, 3) == 2\n    except AssertionError:\n        pass\n",
    ),
    "equal to all": (ALWAYS_EQUAL, "def test_sub():\n    assert sub(5, 3) == 2\n"),
    "two ways": (SUB_CODE, "def test_sub():\n    assert sub(5, 3) == 2 or True\n"),
    "of its own": (
        SUB_CODE,
        "def own(a, b):\n    return a - b\n\n\ndef test_sub():\n    sub(1, 1)\n    assert own(5, 3) == 2\n",
    ),
}


@pytest.mark.kept("tautology", "returns", "only calls", "equal to all", "two ways", "of its own")
@pytest.mark.parametrize(("code", "test"), WEAK.values(), ids=WEAK.keys())
def test_tests_that_cannot_fail_prove_nothing(repo: JudgedProject, code: str, test: str) -> None:
    """UAH-292, C54."""
    imports = "import pytest\n\n" + IMPORTS if "pytest" in test else IMPORTS
    verdict = repo.judge({"src/calc.py": code, SUB: imports + test})
    assert codes(verdict) == ["weak_test"]
    assert verdict.reasons[0].message.startswith("The feature's tests notice no change: they still pass when ")


PARAMETRIZED = """\
@pytest.mark.parametrize(("a", "b", "left"), [(5, 3, 2), pytest.param(1, 1, 0, id="none")])
def test_sub(a, b, left):
    assert sub(a, b) == left
"""
STRONG = {
    "compared": "def test_sub():\n    assert sub(5, 3) == 2\n",
    "parametrized": PARAMETRIZED,
    "looped": "def test_sub():\n    for a, left in [(5, 2), (4, 1)]:\n        assert sub(a, 3) == left\n",
    "by a name": "EXPECTED = {'two': 2}\n\n\ndef test_sub():\n    assert {'two': sub(5, 3)} == EXPECTED\n",
    "there and back": "@pytest.mark.parametrize('n', [1, 2])\ndef test_sub(n):\n    assert sub(n, 0) == n\n",
    "by a bound": "def test_sub():\n    assert sub(5, 3) < 3\n",
    "by unittest": "class Subs(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(sub(5, 3), 2)\n",
    "what is raised": "def test_sub():\n    with pytest.raises(TypeError, match='unsupported'):\n        sub('a', 1)\n",
}


@pytest.mark.kept("compared", "by unittest", "what is raised")
@pytest.mark.parametrize("test", STRONG.values(), ids=STRONG.keys())
@pytest.mark.scenario
def test_tests_that_can_fail_are_believed(repo: JudgedProject, test: str) -> None:
    verdict = repo.judge({"src/calc.py": SUB_CODE, SUB: f"import unittest\n\nimport pytest\n\n{IMPORTS}{test}"})
    assert verdict.accepted, verdict.findings


@pytest.mark.scenario
def test_what_a_person_wrote_before_is_the_specification(repo: JudgedProject) -> None:
    """A test file that the session leaves as it was is not asked whether it can fail."""
    repo.base = repo.commit({SUB: IMPORTS + "def test_sub():\n    assert sub\n"})
    assert repo.judge({"src/calc.py": SUB_CODE}).accepted


@pytest.mark.scenario
def test_mutants_can_be_left_out(repo: JudgedProject) -> None:
    work = {"src/calc.py": SUB_CODE, SUB: IMPORTS + "def test_sub():\n    sub(5, 3)\n"}
    assert repo.judge(work, options=Strictness(mutants=False)).accepted
    heard: list[str] = []
    assert repo.judge(HONEST, on_step=lambda step, state, _: heard.append(f"{step} {state}")).accepted
    assert heard[-2:] == ["twins started", "twins passed"]


def change(after: str | bytes, before: str | None = None) -> FileChange:
    text = after if isinstance(after, bytes) else after.encode()
    return FileChange(path="work.py", status="A", before=before.encode() if before else None, after=text)


BODIES: Mapping[str, tuple[str, str]] = {
    "one line": ("def f(): return 1\n", "def f(): return None\n"),
    "docstring": (
        'def f():\n    """What."""\n    a = 1\n    return (\n        a\n    )  # x\n',
        'def f():\n    """What."""\n    return None  # x\n',
    ),
    "generator": ("def f():\n    for n in (1, 2):\n        yield n\n", "def f():\n    return; yield\n"),
    "decorated inside": ("def f():\n    @g\n    def h(): ...\n    return h\n", "def f():\n    return None\n"),
    "method": (
        "class A:\n    x = 1\n\n    def f(self):\n        return 'é', 1\n",
        "class A:\n    x = 1\n\n    def f(self):\n        return None\n",
    ),
    "semicolons": ("def f(): a = 1; b = 2; return a\n", "def f(): return None\n"),
}


@pytest.mark.kept("one line", "docstring", "decorated inside", "method")
@pytest.mark.parametrize(("source", "expected"), BODIES.values(), ids=BODIES.keys())
def test_only_bodies_are_other_in_a_mutant_of_the_work(source: str, expected: str) -> None:
    found = mutants.of_work([change(source)])
    assert found.mutants[0].files["work.py"].decode() == expected
    for mutant in found.mutants:
        compile(mutant.files["work.py"], "work.py", "exec")


def test_only_what_was_changed_is_sabotaged() -> None:
    before = "TABLE = 1\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 1\n"
    found = mutants.of_work([change(before.replace("return 1", "return 2", 1), before)])
    assert found.mutants[0].what == "work.py::f returns None"
    assert found.mutants[0].files["work.py"].decode().count("return 1") == 1
    assert not found.beyond
    assert mutants.of_work(
        [change(before.replace("TABLE = 1", "TABLE = 2").replace("return 1", "return 2"), before)]
    ).beyond
    assert mutants.of_work([change(before + "\n# a comment\n", before)]).mutants == ()
    assert mutants.of_work([change(b"\xff\xfe"), change("def f(:\n")]).mutants == ()
    one, two = "def g():\n        return 2\n", "def g():\n        return 3\n"
    of_two = f"import os\n\n\ndef f():\n    return 1\n\n\nif os.name == 'nt':\n    {one}else:\n    {two}"
    assert (
        mutants.of_work([change(of_two.replace("return 1", "return 0"), of_two)]).mutants[0].what
        == "work.py::f returns None"
    )
    said = 'def f():\n    """One."""\n    return 1\n'
    assert mutants.of_work([change(said.replace("One", "1"), said)]).mutants == ()
    assert mutants.of_work([change(said.replace("return 1", "return 2"), said)]).mutants


EXPECTED: Mapping[str, tuple[str, str]] = {
    "text": ("def test():\n    assert f('a') == 'é' 'b'\n", "def test():\n    assert f('a') == 'ébb'\n"),
    "number": ("def test():\n    assert -1 == f(2)\n", "def test():\n    assert -1000004 == f(2)\n"),
    "nested": (
        "def test():\n    assert f() == {'k': [1, (b'x',)]}\n",
        "def test():\n    assert f() == {'k': [1000004, (b'x~',)]}\n",
    ),
    "inside": ("def test():\n    assert 'x' in f(1)\n", "def test():\n    assert 'x~' in f(1)\n"),
    "approximately": (
        "def test():\n    assert f() == approx(1, abs=2)\n",
        "def test():\n    assert f() == approx(1000004, abs=2)\n",
    ),
    "by a share": (
        "def test():\n    assert f() == approx(100, rel=0.9)\n",
        "def test():\n    assert f() == approx(151, rel=0.9)\n",
    ),
}
LEFT = {
    "what must not be": "def test():\n    assert f() != 1\n    assert not f() == 2\n",
    "a bound": "def test():\n    assert f() < 1\n",
    "a date": "def test():\n    assert f() == date(2020, 1, 2)\n",
    "used as input": "def test():\n    text = 'a'\n    assert f(text) == text\n",
    "a truth": "def test():\n    assert f() == True\n    assert f() is None\n",
    "a message": "def test():\n    assert f(), 'wrong'\n",
}


@pytest.mark.parametrize(("source", "expected"), EXPECTED.values(), ids=EXPECTED.keys())
def test_expected_values_are_other_ones(source: str, expected: str) -> None:
    mutant = mutants.of_tests([change(source)])
    assert mutant is not None
    assert mutant.files["work.py"].decode() == expected
    assert "work.py:2" in mutant.what


@pytest.mark.kept("what must not be", "a bound", "used as input", "a message")
@pytest.mark.parametrize("source", LEFT.values(), ids=LEFT.keys())
def test_what_would_prove_nothing_is_left_alone(source: str) -> None:
    assert mutants.of_tests([change(source)]) is None


ANSWERING = """\
class Stack:
    def pop(self):
        return self.items.pop()


def numbers(n):
    yield n


async def length(text):
    return len(text)


def words(text):
    return set(text.split())


def first(text):
    return Span(text)
"""


def test_answers_of_every_kind_have_another_one_of_their_type() -> None:
    answers = {"Stack.pop": "3 on work.Stack(items=[])", "numbers": "-1", "length": "{'n': [2]}", "words": "set(['a'])"}
    calls = [RecordedCall("work", name, "", answer) for name, answer in {**answers, "first": "work.Span(at=1)"}.items()]
    fixed, otherwise, again = mutants.of_answers([change(ANSWERING)], calls)
    text = fixed.files["work.py"].decode()
    for line in (
        "return 1000006",
        "yield -1000004",
        "return {'n': [1000005]}",
        "return set(['~'])",
        "return Span(text)",
    ):
        assert line in text
    assert otherwise.files["work.py"].count(b"@(lambda") == 4
    assert again.files["work.py"].count(b"@(lambda") == 3  # neither a generator nor a coroutine
    assert len(mutants.of_answers([change(ANSWERING)], calls, {("work.py", "length")})) == 1


MONEY = "class Money:\n    def __init__(self, *a):\n        self.a = a\n"


@pytest.mark.parametrize(
    ("test", "changed"),
    [
        ("assert add() == Money(350, 'EUR')", ["Money(526, 'EUR')", "Money(350, 'EURR')"]),
        ("want = [Money(-1)]\n    assert add() == want", ["[Money(-2)]"]),
        ("assert Money(1) == Money(1)", ["Money(1) == Money(2)"]),
        ("assert add() in (Money(1), Money(2))", []),
        ("assert add() == Money(1) or add() == Money(2)", []),
        ("assert add() == Decimal('1')", []),
        ("assert add() < Money(1)", []),
    ],
)
def test_one_value_of_an_object_is_changed(test: str, changed: list[str]) -> None:
    tests = FileChange(path="test_a.py", status="M", after=f"def test_a():\n    {test}\n".encode())
    work = FileChange(path="money.py", status="A", after=MONEY.encode())

    found = mutants.of_fields([tests], [work])
    assert [text in each.files["test_a.py"].decode() for each, text in zip(found, changed, strict=True)] == [
        True for _ in changed
    ]
    assert all(each.lines["test_a.py::test_a"].endswith("of test_a.py") for each in found)


@pytest.mark.parametrize(
    ("equal", "told"),
    [("self.a == other.a", ""), ("self.a[1:] == other.a[1:]", f"when one value in line 5 of {SUB} is changed")],
)
def test_a_value_that_the_work_does_not_compare_is_only_checked(repo: JudgedProject, equal: str, told: str) -> None:
    code = SUB_CODE.replace("return a - b", "return Money(a - b, 'EUR')")
    code += f"\n\n{MONEY}\n    def __eq__(self, other):\n        return {equal}\n\n    __hash__ = None\n"
    test = "from calc import Money, sub\n\n\ndef test_sub():\n    assert sub(5, 3) == Money(2, 'EUR')\n"
    verdict = repo.judge({"src/calc.py": code, SUB: test})

    assert (verdict.accepted, verdict.noticed) == (True, not told), verdict
    assert told in verdict.not_asked


KEYS = "def sub(a, b):\n    return {'left': None, 'right': None}\n"


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("assert set(sub(5, 3)) == {'left', 'right'}\n    assert len(sub(1, 1)) == 2", ["weak_test"]),
        ("assert sub(5, 3) == {'left': None, 'right': None}", []),
    ],
)
def test_tests_that_ask_for_keys_alone_prove_nothing(repo: JudgedProject, test: str, found: list[str]) -> None:
    code = SUB_CODE.partition("def sub")[0] + KEYS
    verdict = repo.judge({"src/calc.py": code, SUB: f"{IMPORTS}def test_sub():\n    {test}\n"}, options=Strictness())
    assert codes(verdict) == found
