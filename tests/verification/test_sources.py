"""Rules on syntax trees: what changed, what is added, what asserts, what reaches beyond itself."""

import ast

import pytest

from agent_harness.verification import sources


def tree(text: str) -> ast.Module:
    found = sources.parse(text.encode())
    assert found is not None
    return found


@pytest.mark.parametrize("text", ["def f(:", "\0", "(" * 5000, "x" + ".a" * 5000, "-" * 5000 + "1"])
def test_what_does_not_parse_is_told_apart(text: str) -> None:
    assert sources.parse(text.encode()) is None


def test_a_wrong_encoding_and_nothing_do_not_parse() -> None:
    assert sources.parse(b"# coding: nonsense\n") is None
    assert sources.parse(b"x = '\xff'") is None
    assert sources.parse(None) is None


def test_layout_and_comments_do_not_matter() -> None:
    assert sources.same(b"def f():\n    return 1\n", b"# new\ndef f():  # odd\n        return (1)\n")
    assert not sources.same(b"x = 1", b"x = 2")
    assert not sources.same(b"x = (", b"x = (")


ADD = "def test_add():\n    assert add(1, 2) == 3\n"
STUB = "def test_sub():\n    pytest.fail('Not implemented')\n"
BOX = (
    "class TestBox:\n    def test_a(self):\n        assert one\n"
    "    def test_b(self):\n        raise NotImplementedError\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ADD, ADD + STUB),
        (ADD + STUB, ADD + "def test_sub():\n    assert sub(1, 2)\n"),
        (ADD, "import calc\n" + ADD),
        ("import a\n" + ADD, "from b import a\n" + ADD),
        (BOX, BOX.replace("raise NotImplementedError", "assert two")),
        ("from calc import add\n" + ADD, "from calc import sub\nfrom calc import add\n" + ADD),
        ("from calc import add\nfrom calc import sub\n" + ADD, "from calc import add, sub\n" + ADD),
        ("import pytest\n" + STUB, "import calc\ndef test_sub():\n    assert calc.sub(3, 2)\n"),
        ("def box():\n    raise NotImplementedError\n" + ADD, "def box():\n    return Box()\n" + ADD),
        (BOX, BOX + "    def test_c(self):\n        assert three\n"),
    ],
)
def test_additions_and_replaced_placeholders_are_no_change(before: str, after: str) -> None:
    assert sources.changed(tree(before), tree(after)) == []


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (ADD, "", "test_add"),
        (ADD, "def test_add():\n    pass\n", "test_add"),
        (ADD, "@pytest.mark.skip\n" + ADD, "test_add"),
        (ADD, ADD + "def test_add():\n    pass\n", "test_add"),
        (ADD, ADD + "test_add = None\n", "test_add"),
        (ADD, ADD + "del test_add\n", "test_add"),
        (ADD, ADD + "if True:\n    test_add = None\n", "test_add"),
        (ADD, ADD + "from fakes import *\n", "import *"),
        ("from calc import *\n" + ADD, "from fakes import *\n" + ADD, "import *"),
        ("from calc import add\n" + ADD, "from fakes import add\n" + ADD, "line 1"),
        ("from calc import add\n" + ADD, "from calc import sub as add\n" + ADD, "line 1"),
        ("import calc\n" + ADD.replace(" add(", " calc.add("), ADD.replace(" add(", " calc.add("), "line 1"),
        ("from calc import add\n", "from fakes import add\n", "line 1"),
        (ADD.replace("== 3", "== len([])"), ADD.replace("== 3", "== len([])") + "def len(x):\n    return 3\n", "len"),
        ("def refuse():\n    raise ValueError\n" + ADD, "def refuse():\n    pass\n" + ADD, "refuse"),
        ("def quiet():\n    pass\n" + ADD, "def quiet():\n    patch()\n" + ADD, "quiet"),
        (
            ADD,
            ADD.replace("    assert", "    assert monkeypatch.setattr('calc.add', fake) is None\n    assert"),
            "test_add",
        ),
        (ADD, ADD + "from x import y as test_add\n", "test_add"),
        (ADD, ADD + "pytestmark = pytest.mark.skip\n", "pytestmark"),
        (ADD, ADD + "def setup_module():\n    patch()\n", "setup_module"),
        (BOX, BOX.replace("assert one", "pass"), "TestBox::test_a"),
        (BOX, BOX.replace("class TestBox", "class Box"), "TestBox"),
        (BOX, BOX.replace("TestBox:", "TestBox(Odd):"), "TestBox"),
        ("LIMIT = 3\n", "LIMIT = 4\n", "line 1"),
    ],
)
def test_what_is_taken_away_or_overridden_is_named(before: str, after: str, named: str) -> None:
    assert named in sources.changed(tree(before), tree(after))


def test_the_own_test_may_change() -> None:
    after = tree(ADD.replace("3", "4"))
    assert sources.changed(tree(ADD), after, free={"test_add"}) == []
    own = {"TestBox::test_a"}
    assert sources.changed(tree(BOX), tree(BOX.replace("assert one", "assert two")), free=own) == []


@pytest.mark.parametrize(
    ("body", "nothing"),
    [
        ("pass", True),
        ("assert True", True),
        ("assert 1", True),
        ("print(add(1, 2))", True),
        ("'''assert'''", True),
        ("pytest.fail('later')", True),
        ("assert add(1, 2) == 3", False),
        ("self.assertEqual(1, add(0, 1))", False),
        ("with pytest.raises(ValueError):\n        add()", False),
        ("mock.assert_called_once()", False),
        ("check_sum(3)", False),
        ("if add(1, 2) != 3:\n        raise ValueError", False),
    ],
)
def test_a_test_that_asserts_nothing(body: str, nothing: bool) -> None:
    assert sources.asserts_nothing(tree(f"def test_x(self):\n    {body}\n")) is nothing


def test_only_the_own_node_is_asked() -> None:
    both = tree(ADD + "class TestY:\n    def test_z(self):\n        pass\n")
    assert sources.asserts_nothing(both) is False
    assert sources.asserts_nothing(both, "TestY") is True
    assert sources.asserts_nothing(both, "TestY::test_z[1]") is True
    assert sources.asserts_nothing(both, "test_add[1]") is False
    assert sources.asserts_nothing(tree("x = 1")) is False


ASSERTING = "from calc import add\n\n\ndef test_x(self):\n    assert add(2, 3) == 5\n"


def rewritten(body: str, before: str = "", decorator: str = "", parameters: str = "self") -> ast.Module:
    """The same test with another body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return tree(f"from calc import add\n{before}\n\n{decorator}def test_x({parameters}):\n{lines}")


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("with pytest.raises(ValueError):\n    add(1)", ""),
        ("with pytest.raises(AttributeError):\n    point.x = 3", ""),
        ("with pytest.raises(TypeError):\n    a < b", ""),
        ("same(add(2, 3), 5)", "def same(a, b):\n    assert a == b\n"),
        ("same(add(2, 3), 5)", "def same(a, b):\n    if a != b:\n        raise ValueError(a)\n"),
        ("ok(add(2, 3) == 5)", "ok = lambda b: verify(b)\n"),
        ("check_page('/')", "@pytest.fixture\ndef check_page():\n    return verify\n"),
        ("def check(a, b):\n    assert add(a, b) == 5\ncheck(2, 3)", ""),
        ("class Heard:\n    def got(self, x):\n        assert x == 5\nadd(Heard())", ""),
        ("for a in (1, 2):\n    with self.subTest(a=a):\n        self.assertEqual(add(a, 1), a + 1)", ""),
        ("np.testing.assert_allclose(add(1, 2), 3)", ""),
        ("m = Mock()\nadd(m)\nm.assert_called_once_with(3)", ""),
        ("@given(st.integers())\ndef inner(n):\n    assert add(n, 0) == n\ninner()", ""),
        ("assert doctest.testmod(calc).failed == 0", ""),
        ("if add(2, 3) != 5:\n    raise AssertionError", ""),
        ("if add(2, 3) != 5:\n    self.fail('no')", ""),
        ("try:\n    add('a', 1)\nexcept TypeError:\n    pass\nelse:\n    pytest.fail('no')", ""),
        ("try:\n    add(1, 2)\nexcept Exception as error:\n    pytest.fail(str(error))", ""),
        ("for x in items:\n    if x == add(1, 2):\n        break\nelse:\n    raise AssertionError('none')", ""),
        ("match add(2, 3):\n    case 5:\n        pass\n    case _:\n        pytest.fail('no')", ""),
        ("while True:\n    assert add(1, 2) == 3\n    break", ""),
        ("with suppress(OSError):\n    assert add(1, 2) == 3", ""),
        ("expect(page).to_have_title('x')", ""),
    ],
)
def test_an_older_test_that_asks_in_another_way_is_neither_empty_nor_weakened(body: str, before: str) -> None:
    after = rewritten(body, before)
    assert (sources.emptied(tree(ASSERTING), after), sources.weakened(tree(ASSERTING), after)) == ([], [])
    assert not sources.asserts_nothing(after)


@pytest.mark.parametrize(
    "body",
    [
        "add(2, 3)",
        "print(add(2, 3))",
        "import calc.more",
        "self.app.run()",
        "self.run_case()",
        "run_case('add')",
        "money + other",
        "with opened as f:\n    pass",
        "benchmark(add, 1, 2)",
        "subprocess.run(['calc'], check=True)",
        "assert add(2, 3) == add(2, 3)",
        "assert add(2, 3) == 6 or True",
        "self.assertEqual(add(2, 3), add(2, 3))",
        "try:\n    assert add(2, 3) == 6\nexcept AssertionError:\n    pass",
    ],
)
def test_a_test_that_only_runs_code_can_fail_and_asks_for_less(body: str) -> None:
    after = rewritten(body)
    assert sources.emptied(tree(ASSERTING), after) == []
    assert sources.weakened(tree(ASSERTING), after) == ["test_x"]
    assert sources.assertions(after) < sources.assertions(tree(ASSERTING))
    assert sources.emptied(after, rewritten("pass")) == ["test_x"]


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("pass", ""),
        ("return\nassert add(2, 3) == 5", ""),
        ("if False:\n    assert add(2, 3) == 5", ""),
        ("while 0:\n    assert add(2, 3) == 5", ""),
        ("for a in []:\n    assert add(a, 3) == 5", ""),
        ("for a in range(0):\n    assert add(a, 3) == 5", ""),
        ("assert True", ""),
        ("assert 1 + 1 == 2", ""),
        ("assert (add, 'five')", ""),
        ("self.assertTrue(True)", ""),
        ("print('fine')", ""),
        ("try:\n    assert add(2, 3) == 5\nexcept Exception:\n    pass", ""),
        ("try:\n    assert add(2, 3) == 5\nexcept:\n    print('no')", ""),
        ("try:\n    assert add(2, 3) == 5\nexcept BaseException:\n    pytest.skip('no')", ""),
        ("try:\n    assert add(2, 3) == 5\nfinally:\n    return", ""),
        ("with contextlib.suppress(Exception):\n    assert add(2, 3) == 5", ""),
        ("with pytest.raises(ValueError):\n    raise ValueError", ""),
        ("pytest.skip('no')\nassert add(2, 3) == 5", ""),
        ("raise unittest.SkipTest('no')", ""),
        ("def inner():\n    assert add(2, 3) == 5", ""),
        ("check(1)", "def check(*given):\n    pass\n"),
        ("check(1)", "check = lambda *given: None\n"),
        ("def check(*given):\n    pass\ncheck(1)", ""),
    ],
)
def test_an_older_test_that_can_no_longer_fail_is_named(body: str, before: str) -> None:
    after = rewritten(body, before)
    assert sources.emptied(tree(ASSERTING), after) == ["test_x"]
    assert sources.weakened(tree(ASSERTING), after) == []


def test_an_older_test_is_empty_by_its_decorator_or_its_second_definition() -> None:
    skipped = rewritten("assert add(2, 3) == 5", decorator="@pytest.mark.skip(reason='no')\n")
    assert sources.emptied(tree(ASSERTING), skipped) == ["test_x"]
    assert sources.emptied(tree(ASSERTING), tree(ASSERTING + "def test_x():\n    pass\n")) == ["test_x"]


def test_an_older_test_that_asks_for_another_fixture_instead_is_weakened() -> None:
    after = rewritten("pass", parameters="self, checked_pages")
    assert sources.emptied(tree(ASSERTING), after) == []
    assert sources.weakened(tree(ASSERTING), after) == ["test_x"]


def test_helpers_that_call_each_other_come_to_an_end() -> None:
    """However many there are, and in a circle."""
    chain = "".join(f"def h{n}():\n    h{n + 1}()\n    h{n + 1}()\n" for n in range(400))
    assert sources.asserts_nothing(rewritten("h0()", chain + "def h400():\n    h0()\n"))


@pytest.mark.parametrize("depth", [240, 300])
def test_code_that_is_too_deep_to_be_copied_is_no_extension(depth: int) -> None:
    """It is read, and stands on the way of nothing."""
    deep = "def test_x(a):\n    assert a" + ".b" * depth + "\n"
    assert "test_x" in sources.changed(tree(deep), tree(deep.replace("(a)", "(a, c=1)")))
    assert not sources.is_moved(deep.encode(), deep.encode())


@pytest.mark.parametrize(
    "text",
    [
        "import calc\ncalc.add = lambda a, b: 3",
        "from src import calc\ndef test_x():\n    calc.add = None",
        "import sys\nsys.modules['calc'] = fake",
        "setattr(calc, 'add', f)",
        "exec('x')",
        "import os\nos._exit(0)",
        "from unittest.mock import patch\npatch('calc.add').start()",
        "import _pytest.runner",
        "from builtins import open",
        "import gc",
        "import calc\ncalc.__dict__['add'] = f",
        "pytest_plugins = ['odd']",
        "import calc\ndel calc.add",
        "globals()['test_add'] = None",
    ],
)
def test_code_that_reaches_out(text: str) -> None:
    assert sources.reaches_out(tree(text))


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['A'] = '1'",
        "def test_x(monkeypatch):\n    monkeypatch.setattr('calc.add', f)",
        "from unittest.mock import patch\n@patch('calc.add')\ndef test_x(m):\n    pass",
        "def test_x():\n    box = Box()\n    box.size = 3",
        "import re\nre.compile('x')",
        "class TestX:\n    def setup_method(self):\n        self.value = 1",
        "server.start()",
    ],
)
def test_code_that_stays_at_home(text: str) -> None:
    assert sources.reaches_out(tree(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\n\n@pytest.fixture\ndef box():\n    return Box()\n",
        "import pytest\nfrom calc import Box\n\n@pytest.fixture(autouse=False)\ndef box():\n    yield Box()\n",
        '"""Fixtures."""\nLIMIT = 3\nNAMES: list[str] = []\n\ndef make_box(size=LIMIT):\n    return Box(size)\n',
        "class Fake:\n    kind = 'x'\n    def go(self):\n        return 1\n",
    ],
)
def test_a_harmless_conftest(text: str) -> None:
    assert sources.harm_in_conftest(tree(text).body, tree(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def pytest_runtest_makereport(item, call):\n    pass\n",
        "async def pytest_sessionfinish():\n    pass\n",
        "from odd import pytest_runtest_makereport\n",
        "from odd import hook as pytest_runtest_call\n",
        "from odd import *\n",
        "pytest_runtest_call = odd\n",
        "pytest_plugins = ['odd']\n",
        "@pytest.fixture(autouse=True)\ndef quiet():\n    yield\n",
        "@pytest.fixture(**{'autouse': True})\ndef quiet():\n    yield\n",
        "@odd\ndef box():\n    pass\n",
        "@pytest.hookimpl\ndef anything():\n    pass\n",
        "import sys\nsys.modules['calc'] = None\n",
        "import pytest\npytest.fail = print\n",
        "def box():\n    import pytest\n    pytest.raises = None\n",
        "exec('x = 1')\n",
        "x = eval('1')\n",
        "x = run()\n",
        "run()\n",
        "if True:\n    x = 1\n",
        "def box(x=run()):\n    pass\n",
        "class A:\n    run()\n",
        "class A:\n    x = run()\n",
        "collect_ignore = ['test_add.py']\n",
        "def setup_module():\n    pass\n",
    ],
)
def test_a_conftest_that_could_bend_results(text: str) -> None:
    assert sources.harm_in_conftest(tree(text).body, tree(text))


@pytest.mark.parametrize(
    ("text", "acts"),
    [
        ("import os\nos.environ['A'] = '1'", True),
        ("import os\nos.environ.setdefault('A', '1')", True),
        ("if True:\n    calc.mode = 1", True),
        ("del calc.mode", True),
        ("try:\n    run()\nfinally:\n    pass", True),
        ("import sys\nsys.path.insert(0, 'src')\nfrom calc import add\nLIMIT: int = size()\n", False),
        ('"""Text."""\nclass TestX:\n    def test_y(self):\n        run()\n', False),
        ("try:\n    import tomllib\nexcept ImportError:\n    tomllib = None", False),
    ],
)
def test_test_code_that_acts_when_it_is_imported(text: str, acts: bool) -> None:
    assert sources.acts_at_import(tree(text)) is acts


@pytest.mark.parametrize(
    "text",
    [
        "import pathlib\nDATA = pathlib.Path(__file__).parent / 'data'\n",
        "from pathlib import Path\nDATA = (Path(__file__).resolve().parents[1] / 'a').joinpath('b')\n",
        "import os\nDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data')\n",
        "from os import path\nDATA = path.dirname(__file__)\n",
        "import logging\nLOG = logging.getLogger(__name__)\n",
        "import os\nSLOW = os.environ.get('SLOW', '0')\n",
        "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Row:\n    name: str\n",
        "NAMES = frozenset({'a', 'b'})\n",
    ],
)
def test_values_that_the_standard_library_makes_are_harmless(text: str) -> None:
    assert sources.harm_in_conftest(tree(text).body, tree(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from planted import Path\nDATA = Path(__file__)\n",
        "from pathlib import Path\nPath = planted\nDATA = Path(__file__)\n",
        "from pathlib import Path\n\n\ndef Path(name):\n    return patch(name)\n\n\nDATA = Path(__file__)\n",
        "from pathlib import Path\nfrom planted import *\nDATA = Path(__file__)\n",
        "from pathlib import Path\nDATA = Path('src/calc.py').write_text('x = 1')\n",
        "from pathlib import Path\nDATA = Path(patch())\n",
        "import os\nos.path = planted\nDATA = os.path.join('a')\n",
        "import os\nDATA = os.system('true')\n",
        "import os\nDATA = os.path.join.__call__('a')\n",
        "import planted\nDATA = planted.box().resolve()\n",
        "from planted import frozenset\nNAMES = frozenset(())\n",
        "from planted import dataclass\n\n\n@dataclass(frozen=True)\nclass Row:\n    name: str\n",
    ],
)
def test_what_only_carries_such_a_name_is_not(text: str) -> None:
    assert sources.harm_in_conftest(tree(text).body, tree(text))


def test_a_module_below_one_that_is_imported_overrides_nothing() -> None:
    """``import a.b`` binds ``a``, to what it was."""
    before, test = "import unittest\n", "def test_x(self):\n    assert unittest\n"
    old = ast.parse(f"{before}{test}")
    assert sources.changed(old, ast.parse(f"import unittest.mock\n{before}{test}")) == []
    assert sources.changed(old, ast.parse(f"{before}from fakes import unittest\n{test}")) == ["unittest"]
