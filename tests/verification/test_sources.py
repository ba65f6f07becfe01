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
