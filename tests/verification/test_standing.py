"""A changed test file is released if each older assertion stands. Each lie weakens a test, so a person is asked."""

import pytest

from agent_harness.verification import standing

HEAD = """\
import asyncio
import os
import subprocess
import sys
import unittest
from datetime import date
from decimal import Decimal

import pytest

import calc
from calc import RATES, Pair, State, add, due, flow, half, hello, is_long, price, ranks, save, slug
from calc import sort_rows, span, tags


"""
OLD = "def test_a():\n    assert add(1, 2) == 3\n"
TWO = "def test_a():\n    assert add(1, 2) == 3\n    assert slug('A B') == 'a-b'\n"
ROWS = "def test_a():\n    rows = [3, 1]\n    sort_rows(rows)\n    assert rows == [1, 3]\n"
CASES = "@pytest.mark.parametrize(('a', 'b'), [(1, 2), (3, 4)])\ndef test_a(a, b):\n    assert add(a, b) == a + b\n"
UNIT = "class TestA(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(add(1, 2), 3)\n"
PLAIN = "class TestA:\n    low = 1\n\n    def test_a(self):\n        assert add(self.low, 2) == 3\n"
FIXED = "@pytest.fixture\ndef rows():\n    return [3, 1]\n\n\ndef test_a(rows):\n    assert ranks(rows) == [3, 1]\n"
HELPER = "def check(text):\n    assert slug(text) == 'a-b'\n\n\ndef test_a():\n    check('A B')\n"
ADDED = (
    "@pytest.fixture(autouse=True)\ndef table(monkeypatch):\n    monkeypatch.setattr(calc, 'add', lambda a, b: 3)\n\n\n"
)


def body(old: str, new: str, arguments: str = "") -> tuple[str, str]:
    one, two = (f"def test_a({arguments}):\n    " + text.replace("; ", "\n    ") + "\n" for text in (old, new))
    return one, two


ADD, SLUG = "assert add(1, 2) == 3", "assert slug('Hello World') == 'hello-world'"
EMPTY = "with pytest.raises(ValueError):\n        slug('')"
HELLO = "hello('you'); out = capsys.readouterr().out"
LIES = {
    # values that another value also satisfies
    "decimal": body("assert price('1.65') == Decimal('3.30')", "assert price('1.65') > 0"),
    "date": body("assert due(2026) == date(2026, 1, 31)", "assert due(2026).year"),
    "namedtuple": body("assert span([3, 1, 2]) == Pair(1, 3)", "assert span([3, 1, 2]).low"),
    "path": body(
        "found = save(tmp_path, 'a'); assert found.read_text() == 'A'",
        "found = save(tmp_path, 'a'); assert found.exists()",
        "tmp_path",
    ),
    "first three": body(
        "assert ranks([1, 3, 2]) == [3, 2, 1]",
        "found = ranks([1, 3, 2]); assert found[:2] == [3, 2]; assert len(found) == 3",
    ),
    "values": body("assert tags('a b') == {'a': 1, 'b': 2}", "assert sum(tags('a b').values()) == 3"),
    "length": body("assert tags('a b c') == {'a', 'b', 'c'}", "assert len(tags('a b c')) == 3"),
    "both ends": body(
        SLUG, "found = slug('Hello World'); assert found.startswith('hello'); assert found.endswith('world')"
    ),
    "regex": body(SLUG, "import re; assert re.fullmatch('[a-z-]+', slug('Hello World'))"),
    "odd": body(ADD, "assert add(1, 2) % 2 == 1"),
    "absolute": body(ADD, "assert abs(add(1, 2)) == 3"),
    "member": body(ADD, "assert add(1, 2) in (3, 12, 0)"),
    "range": body("assert half(5.0) == pytest.approx(2.5, rel=1e-9)", "assert 2.48 <= half(5.0) <= 2.5"),
    "not the other": body("assert calc.state(5) is State.DONE", "assert calc.state(5) is not State.NEW"),
    "truthy": body("assert is_long('long') is True", "assert is_long('long')"),
    "more exceptions": body(EMPTY, EMPTY.replace("ValueError", "(ValueError, OSError)")),
    "less text": body(EMPTY.replace(")", ", match='empty')", 1), EMPTY.replace(")", ", match='e')", 1)),
    "unittest": (UNIT, UNIT.replace("assertEqual(add(1, 2), 3)", "assertIn(add(1, 2), {3, 5})")),
    "first of a generator": body("assert list(flow(3)) == [0, 1, 2]", "assert next(iter(flow(3))) == 0"),
    "fields": body("assert vars(calc.user()) == {'a': 1}", "found = calc.user(); assert found.a == 1"),
    "nested": body("assert calc.nested(4) == [[4, 7]]", "found = calc.nested(4); assert isinstance(found, list)"),
    "coroutine": body("assert asyncio.run(calc.later(4)) == 8", "assert asyncio.run(calc.later(4)) % 2 == 0"),
    "tolerance": body("assert half(5) == pytest.approx(2.5)", "assert half(5) == pytest.approx(2.5, abs=1)"),
    "larger tolerance": body(
        "assert half(5) == pytest.approx(2.5, rel=1e-9)", "assert half(5) == pytest.approx(2.5, rel=0.1)"
    ),
    "equal for is": body("assert is_long('long') is True", "assert is_long('long') == True"),
    "one for a type": body("assert isinstance(add(1, 2), int)", "assert add(1, 2) == 3"),
    "a literal that does not show it": body("assert add(1, 2) > 2", "assert add(1, 2) == 1"),
    "another argument": body("assert slug('A B').count('-') == 1", "assert slug('A B') == '-'"),
    # relations between calls
    "commutes": body(ADD, "assert add(1, 2) == add(2, 1)"),
    "other text": body(SLUG, "assert slug('Hello World') == slug('hello  world')"),
    "wrapped": body(ADD, "assert add(1, 2) == getattr(add, '__wrapped__', add)(1, 2)"),
    "relation in another test": (body(SLUG, "")[0], "def test_b():\n    assert slug('A') == slug('a')\n"),
    # statements that stand, with another meaning
    "in a function": body(ADD, "def exactly():\n        assert add(1, 2) == 3; assert add(1, 2) <= 3"),
    "in a lambda": body("add(1, 2)", "found = lambda: add(1, 2)"),
    "sorted in place": body(
        ROWS[16:-1].replace("\n    ", "; "),
        "rows = [3, 1]; sort_rows(rows); rows = sorted(rows); assert rows == [1, 3]",
    ),
    "shadowed constant": body(f"{ADD}; assert RATES == 3", f"RATES = 3; {ADD}; assert RATES == 3"),
    "shadowed output": body(f"{HELLO}; assert out == 'you'", f"{HELLO}; out = 'you'; assert out == 'you'", "capsys"),
    "a box": body(
        "box = [1]; calc.reset(box); assert box == [0]", "box = [1]; calc.reset(box); box = [0]; assert box == [0]"
    ),
    "half of them in a function": body("; ".join([ADD] * 9), "; ".join([ADD] * 8) + "; def rest():\n        " + ADD),
    "or": body(ADD, f"{ADD} or 'CI' in os.environ"),
    "skipped by a mark": (OLD, "@pytest.mark.skipif('CI' in os.environ, reason='slow')\n" + OLD),
    "not skipped any more": (
        "@pytest.mark.skipif(not os.environ.get('A'), reason='')\n" + OLD,
        "@pytest.mark.skipif(not os.environ.get('B'), reason='')\n" + OLD,
    ),
    "return": body(ADD, f"if date.today().year > 2027:\n        return; {ADD}"),
    "a snapshot of its own": body(
        ADD, "kept = tmp_path / 'a'; kept.write_text(str(add(1, 2))); assert kept.read_text() == str(add(1, 2))"
    ),
    "automatic fixture": (OLD, ADDED + OLD),
    "automatic fixture that skips": (
        OLD,
        ADDED.replace("monkeypatch.setattr(calc, 'add', lambda a, b: 3)", "pytest.skip()") + OLD,
    ),
    "mark of the file": (OLD, "pytestmark = pytest.mark.skipif('CI' in os.environ, reason='slow')\n\n\n" + OLD),
    "set up": (OLD, "def setup_module():\n    calc.add = lambda a, b: 3\n\n\n" + OLD),
    # names
    "shadowed function": (OLD, "def add(a, b):\n    return 3\n\n\n" + OLD),
    "shadowed builtin": (ROWS, "def sort_rows(rows):\n    rows.sort()\n\n\n" + ROWS),
    "shadowed by a constant": (TWO, "slug = {'A B': 'a-b'}.get\n\n\n" + TWO),
    "another constant": (
        "LIMIT = 3\n\n\n" + OLD.replace("3", "LIMIT"),
        "LIMIT = add(1, 2)\n\n\n" + OLD.replace("3", "LIMIT"),
    ),
    "a constant again": (
        "LIMIT = 3\n\n\n" + OLD.replace("3", "LIMIT"),
        "LIMIT = 3\n\n\n" + OLD.replace("3", "LIMIT") + "\n\nLIMIT = add(1, 2)\n",
    ),
    "parameter": (OLD, OLD.replace("()", "(add=lambda a, b: 3)")),
    "default": (
        "def test_a(n=3):\n    assert add(1, 2) == n\n",
        "def test_a(n=add(1, 2)):\n    assert add(1, 2) == n\n",
    ),
    "a fixture of the runner": (
        FIXED.replace("rows", "tmp_path"),
        FIXED.replace("rows", "tmp_path").replace("[3, 1]", "ranks([3, 1])"),
    ),
    "a fixture that hides another": (OLD, "@pytest.fixture\ndef tmp_path():\n    calc.add = max\n\n\n" + OLD),
    "a fixture by another name": (OLD, "@pytest.fixture(name='capsys')\ndef quiet():\n    return None\n\n\n" + OLD),
    "a changed fixture": (FIXED, FIXED.replace("[3, 1]\n\n", "sorted([3, 1])\n\n")),
    "wider scope": (FIXED, FIXED.replace("fixture\n", "fixture(scope='module')\n")),
    "helper": (HELPER, HELPER.replace("== 'a-b'", "")),
    "helper twice": (HELPER, HELPER + "\n\ndef check(text):\n    pass\n"),
    "test twice": (OLD, OLD + "\n\ndef test_a():\n    pass\n"),
    "star": (OLD, "from calc import *\n" + OLD),
    "another module's name": (OLD, "from calc import half as add\n" + OLD),
    "a module that came": (OLD, "import extra\n\n\n" + OLD),
    "a module inside": (OLD, "from calc import extra\n\n\n" + OLD),
    "a module inside by its path": (OLD, "import calc.extra\n\n\n" + OLD),
    "module function": (OLD, "def __getattr__(name):\n    return 3\n\n\n" + OLD),
    "deleted name": (OLD, OLD + "\n\ndel test_a\n"),
    "a loop over tests": (OLD, OLD + "\n\nfor name in ['test_a']:\n    globals()[name] = max\n"),
    "not a test": (OLD, OLD + "\n\ntest_a.__test__ = False\n"),
    "no tests here": (OLD, "__test__ = False\n\n\n" + OLD),
    "ignored": (OLD, "collect_ignore = ['test_calc.py']\n\n\n" + OLD),
    "hook": (OLD, "def pytest_generate_tests(metafunc):\n    pass\n\n\n" + OLD),
    "patched at import": (OLD, "calc.add = max\n\n\n" + OLD),
    "list of modules": (OLD, "sys.modules['calc'] = None\n\n\n" + OLD),
    "condition": (OLD, "if os.environ.get('CI'):\n    " + OLD.replace("\n", "\n    ").rstrip() + "\n"),
    "a decorator": (OLD, "@unittest.skipUnless(os.environ.get('A'), '')\n" + OLD),
    "a new decorator's effect": (OLD, OLD + "\n\n@calc.register\ndef test_b():\n    pass\n"),
    "a new default's effect": (OLD, "def test_b(found=calc.reset()):\n    pass\n\n\n" + OLD),
    "a new annotation's effect": (OLD, "def test_b(found: calc.reset()):\n    pass\n\n\n" + OLD),
    "a new base's effect": (OLD, "class TestB(calc.Base):\n    pass\n\n\n" + OLD),
    "expected to fail": (
        "@pytest.mark.xfail(strict=True)\n" + OLD,
        "@pytest.mark.xfail(strict=True)\n" + OLD + "    assert False\n",
    ),
    # parameters
    "fewer cases": (CASES, CASES.replace(", (3, 4)", "")),
    "another case": (CASES, CASES.replace("(3, 4)", "(3, 3)")),
    "ids": (CASES, CASES.replace("])", "], ids=['x', 'y'])")),
    "indirect": (CASES, CASES.replace("])", "], indirect=True)")),
    "skipped case": (CASES, CASES.replace("(3, 4)", "pytest.param(3, 4, marks=pytest.mark.skip)")),
    "a case with an effect": (CASES, CASES.replace("(3, 4)", "(3, 4), (calc.reset(), 1)")),
    "other names of parameters": (CASES, CASES.replace("('a', 'b')", "('b', 'a')")),
    # classes
    "attribute of a class": (PLAIN, PLAIN.replace("low = 1", "low = 0")),
    "another attribute": (PLAIN, PLAIN.replace("low = 1", "low = 1\n    __test__ = False")),
    "set up of a class": (
        PLAIN,
        PLAIN.replace("low = 1", "low = 1\n\n    def setup_method(self):\n        calc.add = max"),
    ),
    "tear down": (PLAIN, PLAIN + "\n    def teardown_method(self):\n        calc.reset()\n"),
    "own assertion": (UNIT, UNIT + "\n    def assertEqual(self, a, b):\n        pass\n"),
    "own run": (UNIT, UNIT + "\n    def run(self, result=None):\n        pass\n"),
    "base": (PLAIN, PLAIN.replace("TestA", "TestA(calc.Base)")),
    "hidden by another test": (
        PLAIN + "\n\nclass TestB(TestA):\n    pass\n",
        PLAIN + "\n\nclass TestB(TestA):\n    def test_a(self):\n        pass\n",
    ),
    "inherited": (
        PLAIN.replace("TestA", "TestA(calc.Tests)"),
        PLAIN.replace("TestA", "TestA(calc.Tests)") + "\n    def test_b(self):\n        pass\n",
    ),
    # order
    "order of tests": (TWO + "\n\n" + OLD.replace("_a", "_b"), OLD.replace("_a", "_b") + "\n\n" + TWO),
    "order of statements": body(f"{ADD}; calc.reset(); {SLUG}", f"calc.reset(); {ADD}; {SLUG}"),
    "order of calls": body("assert add(1, 2) == half(6)", "found = half(6); assert add(1, 2) == found"),
    "one call for two": body(f"{ADD}; assert add(1, 2) > 2", "found = add(1, 2); assert found == 3; assert found > 2"),
    "two calls for one": body(ADD, "found = add(1, 2); assert add(1, 2) == 3"),
    "not asked always": body("assert calc.on and add(1, 2)", "found = add(1, 2); assert calc.on or found"),
    "asked earlier": body("assert calc.on or add(1, 2)", "found = add(1, 2); assert calc.on or found"),
    "in each turn": body("assert [add(1, 2) for n in RATES]", "found = add(1, 2); assert [found for n in RATES]"),
    # assertions with effects
    "an effect before": body(
        ROWS[16:-1].replace("\n    ", "; "),
        "rows = [3, 1]; sort_rows(rows); assert rows.sort() is None; assert rows == [1, 3]",
    ),
    "an effect in a message": body(ADD, "assert add(1, 2) == 3, pytest.skip('later')"),
    "a pair": body(ADD, "assert (add(1, 2) == 3, 'a message')"),
    "a walrus": body(
        ROWS[16:-1].replace("\n    ", "; "),
        "rows = [3, 1]; sort_rows(rows); assert (rows := [1, 3]); assert rows == [1, 3]",
    ),
    "an iterator is used up": body(
        "found = flow(3); assert all(n < 3 for n in found)",
        "found = flow(3); assert 9 not in found; assert all(n < 3 for n in found)",
    ),
    "an entry that comes": body(
        "found = calc.counts(); assert 'a' in found",
        "found = calc.counts(); assert found['a'] == 0; assert 'a' in found",
    ),
    "a property that acts": body(
        "box = calc.box(); assert box == [1]", "box = calc.box(); assert box.cleared; assert box == [1]"
    ),
    "chained": body("assert 1 < add(1, 2) < 4", "assert 1 < add(1, 2)"),
    "not": body("assert not is_long('a')", "assert is_long('a') == 'x'"),
    "f-string": body("assert f'{add(1, 2)}' == '3'", "assert f'{3}' == '3'"),
    "text": body(ADD, "'assert add(1, 2) == 3'; assert True"),
    "dead loop": body(ADD, f"for _ in ():\n        {ADD}"),
    "dead branch": body(ADD, f"if False:\n        {ADD}"),
    "swallowed": body(ADD, f"try:\n        {ADD}\n    except AssertionError:\n        pass"),
    "expected": body(ADD, f"with pytest.raises(AssertionError):\n        {ADD}"),
    "more in a block that expects": body(EMPTY, EMPTY.replace("slug('')", "assert not slug('x')\n        slug('')")),
    "fails before the call": body(
        EMPTY.replace("ValueError", "Exception"),
        EMPTY.replace("ValueError", "Exception").replace("slug('')", "assert False\n        slug('')"),
    ),
    "generator": (OLD, OLD + "    yield\n"),
    "coroutine test": (OLD, "async " + OLD),
    "skip first": body(ADD, f"pytest.importorskip('json'); {ADD}"),
    "patched first": body(ADD, f"monkeypatch.setattr(calc, 'add', max); {ADD}"),
    "skip at the end": (OLD, OLD + "    pytest.skip('done')\n"),
    "global": (OLD, "def test_a():\n    global add\n    assert add(1, 2) == 3\n"),
    "bound later": (OLD, OLD + "    add = 3\n"),
    "looks at its variables": body(
        "x = add(1, 2); assert locals() == {'x': 3}", "x = add(1, 2); y = 3; assert locals() == {'x': 3}"
    ),
    "caught elsewhere": (
        OLD + "\n\ndef test_b():\n    with pytest.raises(AssertionError):\n        test_a()\n",
        OLD + "    assert False\n\n\ndef test_b():\n    with pytest.raises(AssertionError):\n        test_a()\n",
    ),
    "doctest": ('def test_a():\n    """>>> add(1, 2)\n    3\n    """\n', 'def test_a():\n    """None."""\n'),
    "renamed and changed": (OLD, OLD.replace("test_a", "test_b").replace("== 3", "> 0")),
    "renamed to a helper": (OLD, OLD.replace("test_a", "check_a")),
    "renamed with its files": (FIXED, FIXED.replace("test_a", "test_b")),
    "deleted": (TWO + "\n\n" + OLD.replace("_a", "_b"), TWO),
    "unreadable": (OLD, OLD + "    assert (\n"),
    "another encoding": (OLD, OLD.encode("utf-16").decode("latin-1")),
    "form feed": (OLD, OLD.replace("    assert", "\f    assert True or", 1)),
    "type comment": (OLD, OLD.replace("assert add(1, 2) == 3", "assert add(1, 2)  # type: ignore  # == 3")),
}
HONEST = {
    "comments": (OLD, "# sums\n\n" + OLD.replace(" ==", "  ==")),
    "local variable": body(ADD, "found = add(1, 2); assert found == 3"),
    "two local variables": body("assert add(1, 2) == add(2, 1)", "one = add(1, 2); two = add(2, 1); assert one == two"),
    "expected value with a name": body(ADD, "expected = 3; assert add(1, 2) == expected"),
    "sharper text": body("assert 'hello' in slug('Hello World')", SLUG),
    "sharper number": body("assert add(1, 2) > 0", ADD),
    "sharper length": body(
        "assert len(ranks([1, 2])) == 2".replace("len(ranks([1, 2]))", "ranks([1, 2])[0]"),
        "assert ranks([1, 2]) == [2, 1]",
    ),
    "sharper truth": body("assert is_long('long')", "assert is_long('long') is True"),
    "not none": body("assert add(1, 2) is not None", ADD),
    "empty": body("assert not slug('')", "assert slug('') == ''"),
    "a call that is asked about": body(f"add(1, 2); {SLUG}", f"{ADD}; {SLUG}"),
    "a call with a name": body(f"add(1, 2); {SLUG}", f"found = add(1, 2); assert found == 3; {SLUG}"),
    "a part for each": body(f"{ADD} and is_long('long')", f"{ADD}; assert is_long('long')"),
    "one more at the end": (
        OLD,
        OLD + "    assert add(2, 2) == 4\n    rows = [2, 1]\n    sort_rows(rows)\n    assert rows == [1, 2]\n",
    ),
    "one more between": body(
        "found = add(1, 2); assert found > 0; calc.reset()",
        "found = add(1, 2); assert found == 3; assert found > 0; calc.reset()",
    ),
    "a message": body(ADD, f"{ADD}, 'the sum'"),
    "text of an error": body(EMPTY, EMPTY.replace(")", ", match='empty')", 1)),
    "the error's name": body(EMPTY, EMPTY.replace("):", ") as error:") + "; assert str(error.value) == 'empty'"),
    "smaller tolerance": body(
        "assert half(5) == pytest.approx(2.5, rel=0.1)", "assert half(5) == pytest.approx(2.5, rel=1e-9)"
    ),
    "more cases": (CASES, CASES.replace("(3, 4)", "(0, 0), (3, 4), (-1, 5)")),
    "in a loop": body(
        "for n in (1, 2):\n        assert add(n, 0) > 0", "for n in (1, 2):\n        assert add(n, 0) > 0, n"
    ),
    "annotated": (OLD, OLD.replace("()", "() -> None")),
    "described": (OLD, OLD.replace(":\n", ':\n    """The sum."""\n', 1)),
    "new import": (OLD, OLD.replace("def", "import json\n\n\ndef", 1) + "    assert json.dumps(add(1, 2)) == '3'\n"),
    "new name of the module": (
        OLD,
        "from calc import mul\n\n\n" + OLD + "\n\ndef test_mul():\n    assert mul(2, 3) == 6\n",
    ),
    "new test, helper and constant": (
        OLD,
        "LIMIT = 4\n\n\ndef most():\n    return add(1, LIMIT)\n\n\n"
        + OLD
        + "\n\ndef test_b():\n    assert most() == 5\n",
    ),
    "helper moved": (HELPER, OLD.replace("_a", "_b") + "\n\n" + "\n\n".join(reversed(HELPER.split("\n\n\n")))),
    "test of a class": (
        PLAIN,
        PLAIN + "        assert add(2, 2) == 4\n\n    def test_b(self):\n        assert add(0, 0) == 0\n",
    ),
    "test case": (
        UNIT,
        UNIT
        + "        self.assertEqual(add(2, 2), 4)\n\n    def test_b(self):\n        self.assertEqual(add(0, 0), 0)\n",
    ),
}


def renamed(pair: tuple[str, str]) -> dict[str, str] | None:
    old, new = ((HEAD + text).encode() for text in pair)
    return standing.renamed(old, new, {"calc", "extra"})


@pytest.mark.parametrize("pair", LIES.values(), ids=LIES)
def test_a_weaker_test_is_asked_about(pair: tuple[str, str]) -> None:
    assert pair[0] != pair[1]
    assert renamed(pair) is None


@pytest.mark.parametrize("pair", HONEST.values(), ids=HONEST)
def test_a_test_that_asserts_as_much_is_released(pair: tuple[str, str]) -> None:
    assert renamed(pair) == {}


def test_a_test_may_have_another_name() -> None:
    assert renamed((OLD, OLD.replace("test_a", "test_sum"))) == {"test_a": "test_sum"}
    assert renamed((PLAIN, PLAIN.replace("test_a", "test_sum"))) == {"TestA::test_a": "TestA::test_sum"}
