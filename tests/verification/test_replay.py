"""Calls of the work are made again outside of tests: who answers otherwise there is found, and nobody else is."""

import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent_harness.kernel.process.sandbox import AUTO, kind_for, of_check
from agent_harness.verification.differential_replay import difference
from agent_harness.verification.runner.testreport import Calls, RecordedCall
from agent_harness.verification.verdict import OFF, Strictness

from .sample import ADD_CODE, INI, SUB, SUB_TEST, JudgedProject, codes

Files = Mapping[str, str | bytes | None]
Make = Callable[..., JudgedProject]
ALONE = {"baseline": (), "suite": None, "options": Strictness(requires_red=OFF, mutants=False)}  # nothing else is asked
HEAD = "import os\nimport pathlib\nimport sys\n\n\n"
DETECTING = {
    "runner": "'pytest' in sys.modules",
    "variable": "'PYTEST_CURRENT_TEST' in os.environ",
    "arguments": "any('pytest' in word for word in sys.orig_argv)",
    "caller": "sys._getframe(1).f_code.co_name.startswith('test')",
    "file of the caller": "'test' in sys._getframe(1).f_code.co_filename.rsplit('/', 1)[-1]",
    "folder": "'worktrees' in os.getcwd()",
    "record of calls": "sys.getprofile() is not None",
    "temporary folder": "'TMPDIR' in os.environ",
    "writes": "open(os.devnull, 'w').write('x') and open('calls.log', 'a').write('x') and 'pytest' in sys.modules",
    "thread": "[__import__('threading').Thread(target=int).start()] and 'pytest' in sys.modules",
    "variable of a runner": "'CI' in os.environ",
    "network": "pathlib.Path('/proc/self/net/dev').read_text().count(':') == 1",
    "plugin": "any(name.startswith('agent_harness') for name in sys.modules)",
}


@pytest.mark.parametrize("condition", DETECTING.values(), ids=DETECTING.keys())
def test_code_that_knows_that_it_is_tested(
    repo: JudgedProject, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR")  # as most people have none
    monkeypatch.setattr(tempfile, "tempdir", None)  # a fixture may have asked before
    repo.resolve()
    if "/net/" in condition and (
        kind_for(AUTO) != "namespaces" or len(socket.if_nameindex()) < 2 or not _has_landlock()
    ):
        pytest.skip("a check sees the same network as everybody, or a replay without namespaces cannot be held")
    code = f"{HEAD}{ADD_CODE}\n\ndef sub(a, b):\n    if not ({condition}):\n        return 0\n    return a - b\n"
    verdict = repo.judge({"src/calc.py": code, SUB: SUB_TEST}, **ALONE)
    assert codes(verdict) == ["answers_differ"]
    assert "calc.sub(3, 2) answers 1 in its test, and answers 0 outside of it" in verdict.reasons[0].message


def _has_landlock() -> bool:
    return of_check([], temporary=".", namespaces=False)[0].kind == "landlock"


ANSWERS = [  # in the recorded call, again in a test, outside of tests, and whether that counts
    ("1", "1", "1", False),
    ("1", "1", "0", True),
    ("1", "1", "raises ValueError", True),
    ("raises", "raises ValueError", "raises ValueError", False),
    ("raises", "raises ValueError", "1", True),
    ("1", "1", None, False),
    ("1", "2", "0", False),
]


def test_which_answers_outside_of_tests_are_others() -> None:
    def differs(recorded: str, inside: str, outside: str | None) -> bool:
        seen = Calls(recorded=[RecordedCall("calc", "sub", "[[3, 2], {}]", recorded)])
        found = difference(seen, lambda calls: [inside] * len(calls), lambda calls, _: [outside] * len(calls), ())
        return found.names == ("sub",)

    found = [(made, again, outside, differs(made, again, outside)) for made, again, outside, _ in ANSWERS]
    assert found == ANSWERS


def test_how_many_calls_could_be_asked_is_known(repo: JudgedProject) -> None:
    code = f"{ADD_CODE}\n\ndef sub(a, b):\n    return a - b\n"
    replayed = repo.judge({"src/calc.py": code, SUB: SUB_TEST}, **ALONE).replayed
    assert replayed is not None
    assert replayed.share == "1 of 1 calls were replayed"
    starts = code.replace("    return a - b", "    return int(os.popen(f'echo {a - b}').read())")
    replayed = repo.judge({"src/calc.py": f"import os\n\n\n{starts}"}, **ALONE).replayed
    assert replayed is not None
    assert replayed.share == "0 of 1 calls were replayed"


OBJECTS = """import dataclasses


@dataclasses.dataclass
class Sum:
    a: int

    def sub(self):
        return self.a


def sub(a):
    return Sum(a)
"""
IN_OBJECTS: dict[str, tuple[str, str]] = {
    "a method": (
        """\
class Calc:
    def __init__(self, a):
        self.a = a

    def sub(self, b):
        return self.a - b if {tested} else 0
""",
        "    assert calc.Calc(3).sub(2) == 1\n",
    ),
    "a method of a fixture's object": (
        """\
class Calc:
    def __init__(self, a):
        self.a = a

    def sub(self, b):
        return self.a - b if {tested} else 0
""",
        "    assert made.sub(2) == 1\n",
    ),
    "what a method leaves": (
        """\
class Calc:
    def __init__(self, a):
        self.a = a

    def sub(self, b):
        self.a -= b if {tested} else 0
""",
        "    one = calc.Calc(3)\n    one.sub(1)\n    one.sub(1)\n    assert one.a == 1\n",
    ),
    "a method after others": (
        """\
class Calc:
    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        return self

    def sub(self):
        return sum(self.rows) if {tested} else 0
""",
        "    assert calc.Calc().add(1).add(2).sub() == 3\n",
    ),
    "a constructor": (
        "class Calc:\n    def __init__(self, a):\n        self.a = a if {tested} else 0\n",
        "    assert calc.Calc(3).a == 3\n",
    ),
    "a class method": (
        "class Calc:\n    @classmethod\n    def sub(cls, a, b):\n        return a - b if {tested} else 0\n",
        "    assert calc.Calc.sub(3, 2) == 1\n",
    ),
    "a static method": (
        "class Calc:\n    @staticmethod\n    def sub(a, b):\n        return a - b if {tested} else 0\n",
        "    assert calc.Calc().sub(3, 2) == 1\n",
    ),
    "a property": (
        """\
class Calc:
    def __init__(self, a, b):
        self._given = (a, b)

    @property
    def sub(self):
        return self._given[0] - self._given[1] if {tested} else 0
""",
        "    assert calc.Calc(3, b=2).sub == 1\n",
    ),
    "a dataclass": (
        """\
import dataclasses


@dataclasses.dataclass(frozen=True)
class Calc:
    a: int
    b: int = 2

    def sub(self):
        return self.a - self.b if {tested} else 0
""",
        "    assert calc.Calc(3).sub() == 1\n",
    ),
    "slots and a base": (
        """\
class Base:
    __slots__ = ('__a',)

    def __init__(self, a):
        self.__a = a

    def sub(self, b):
        return self.__a - b if {tested} else 0


class Calc(Base):
    def __init__(self):
        super().__init__(3)
""",
        "    assert calc.Calc().sub(2) == 1\n",
    ),
    "a function of objects": (
        """\
import enum
import typing


class Kind(enum.Enum):
    ONE = 1


class Row(typing.NamedTuple):
    a: int


class Bare:
    pass


def sub(kind, row, bare, rows):
    return row.a - kind.value if {tested} else 0
""",
        "    assert calc.sub(calc.Kind.ONE, calc.Row(3), calc.Bare(), [calc.Row(1)]) == 2\n",
    ),
}
DETECT = "'pytest' in __import__('sys').modules"


@pytest.mark.parametrize(("code", "test"), IN_OBJECTS.values(), ids=IN_OBJECTS.keys())
def test_objects_that_know_that_they_are_tested(repo: JudgedProject, code: str, test: str) -> None:
    text = "import calc\nimport pytest\n\n\n@pytest.fixture\ndef made():\n    return calc.Calc(3)\n\n\n"
    text += f"def test_sub({'made' if 'made' in test else ''}):\n{test}"
    verdict = repo.judge({"src/calc.py": code.replace("{tested}", DETECT), SUB: text}, **ALONE)
    assert codes(verdict) == ["answers_differ"], verdict.findings
    honest = repo.judge({"src/calc.py": code.replace("{tested}", "True"), SUB: text}, **ALONE)
    assert honest.accepted, honest.findings


HONEST_WAYS: dict[str, tuple[str, str]] = {
    "a registry": (
        "ALL = {}\n\n\ndef put(name, value):\n    ALL[name] = value\n\n\ndef sub(name):\n    return ALL.get(name)\n",
        "    calc.put('x', 3)\n    assert calc.sub('x') == 3\n",
    ),
    "a counter": (
        "_N = [0]\n\n\ndef sub():\n    _N[0] += 1\n    return _N[0]\n",
        "    assert calc.sub() == 1\n    assert calc.sub() == 2\n",
    ),
    "a file of the test": (
        "from pathlib import Path\n\n\ndef sub(path):\n    return Path(path).read_text()\n",
        "    (tmp_path / 'a').write_text('b')\n    assert calc.sub(str(tmp_path / 'a')) == 'b'\n",
    ),
    "a variable of the test": (
        "import os\n\n\ndef sub(name):\n    return os.environ.get(name, '')\n",
        "    monkeypatch.setenv('CALC_X', '1')\n    assert calc.sub('CALC_X') == '1'\n",
    ),
    "a variable of all tests": (
        "import os\n\n\ndef sub():\n    return os.environ.get('CALC_MODE', 'plain')\n",
        "    assert calc.sub() == 'testing'\n",
    ),
    "a setting of all tests": (
        "MODE = ['plain']\n\n\ndef sub():\n    return MODE[0]\n",
        "    assert calc.sub() == 'set up'\n",
    ),
    "a mock": (
        "import time\n\n\ndef sub():\n    return time.time()\n",
        "    monkeypatch.setattr(calc.time, 'time', lambda: 5)\n    assert calc.sub() == 5\n",
    ),
    "chance and time": (
        "import random\nimport time\n\n\ndef sub(n):\n    return [random.randrange(9), time.time_ns(), n]\n",
        "    assert calc.sub(1)[2] == 1\n",
    ),
    "an order without meaning": (
        "def sub(text):\n    return list(set(text))\n",
        "    assert sorted(calc.sub('abcdefgh')) == list('abcdefgh')\n",
    ),
    "its folder": (
        "import os\n\n\ndef sub():\n    return os.getcwd()\n",
        "    assert calc.sub() == os.getcwd()\n",
    ),
    "what it is given": (
        "def sub(rows):\n    rows.append(1)\n    return len(rows)\n",
        "    rows = [1]\n    assert calc.sub(rows) == 2\n    assert calc.sub(rows) == 3\n",
    ),
    "what is raised": (
        "def sub(n):\n    if n < 0:\n        raise ValueError(n)\n    return (n for n in range(n))\n",
        "    with pytest.raises(ValueError):\n        calc.sub(-1)\n    assert list(calc.sub(2)) == [0, 1]\n",
    ),
    "objects": (
        OBJECTS,
        "    assert calc.sub(1).sub() == 1\n    assert calc.sub(1) == calc.Sum(1)\n",
    ),
    "a stream of its own": (
        """\
import sys


class Out:
    def __init__(self, to=None):
        self.to = to or sys.stdout

    def sub(self, text):
        print(text, file=self.to)
        return len(text)
""",
        "    assert calc.Out().sub('abc') == 3\n",
    ),
    "the name of the program": (
        "import argparse\n\n\ndef sub():\n    return argparse.ArgumentParser(description='x').format_help()\n",
        "    assert 'usage' in calc.sub()\n",
    ),
    "an object that a test has changed": (
        "class Sum:\n    def __init__(self):\n        self.a = 1\n\n    def sub(self):\n        return self.a\n",
        "    one = calc.Sum()\n    one.a = 5\n    assert one.sub() == 5\n",
    ),
    "an object that others have changed": (
        """\
ALL = {}


class Sum:
    def __init__(self):
        self.n = len(ALL)
        ALL[self.n] = self

    def sub(self):
        return self.n
""",
        "    assert [calc.Sum().sub() for _ in range(3)] == [0, 1, 2]\n",
    ),
    "an object with a lock, a clock and a folder": (
        """\
import os
import threading
import time


class Sum:
    def __init__(self):
        self.lock = threading.Lock()
        self.at, self.where, self.key = time.time(), os.getcwd(), hash('x')

    def sub(self):
        with self.lock:
            return 5
""",
        "    assert calc.Sum().sub() == 5\n",
    ),
    "an object with a mock": (
        """\
class Sum:
    def __init__(self, get):
        self.get = get

    def sub(self):
        return self.get('x')
""",
        "    from unittest.mock import Mock\n\n    assert calc.Sum(Mock(return_value=3)).sub() == 3\n",
    ),
    "objects of objects": (
        """\
class Node:
    def __init__(self, up=None):
        self.up, self.below = up, []
        if up:
            up.below.append(self)

    def depth(self):
        return 1 + (self.up.depth() if self.up else 0)
""",
        """\
    top = calc.Node()
    one = calc.Node(top)
    assert (calc.Node(one).depth(), top.depth()) == (3, 1)
""",
    ),
    "a method that fails halfway": (
        """\
class Stack:
    def __init__(self):
        self.rows = []

    def put(self, row):
        self.rows.append(row)
        if row < 0:
            raise ValueError(row)
        return len(self.rows)
""",
        """\
    one = calc.Stack()
    with pytest.raises(ValueError):
        one.put(-1)
    assert one.put(1) == 2
""",
    ),
    "a subclass of the test": (
        """\
class Base:
    def __init__(self, a):
        self.a = a

    def sub(self):
        return self.a + self.more()

    def more(self):
        return 0
""",
        """\
    class Mine(calc.Base):
        def more(self):
            return 5

    assert Mine(1).sub() == 6
""",
    ),
    "something that closes": (
        """\
class Door:
    def __enter__(self):
        self.open = True
        return self

    def __exit__(self, *_):
        self.open = False

    def walk(self):
        return self.open
""",
        "    with calc.Door() as door:\n        assert door.walk()\n    assert not door.walk()\n",
    ),
    "its name": (
        "def sub(*names, sep='-', **more):\n    return sep.join([*names, *more]) + __name__\n",
        "    assert calc.sub('a', 'b', c=1) == 'a-b-ccalc'\n",
    ),
    "what is imported late": (
        "def sub(text):\n    import json\n\n    return json.loads(text)\n",
        "    assert calc.sub('[1]') == [1]\n    with pytest.raises(ValueError):\n        calc.sub('[')\n",
    ),
    "a cache": (
        "import functools\n\n\n@functools.lru_cache\ndef sub(a):\n    return {a: frozenset({a, 2.5})}\n",
        "    assert calc.sub(1) is calc.sub(1)\n    assert calc.sub(1) == {1: {1, 2.5}}\n",
    ),
    "a file of the project": (
        "from pathlib import Path\n\n\ndef sub():\n    return Path('pytest.ini').read_text()[:8]\n",
        "    assert calc.sub() == '[pytest]'\n",
    ),
}
CONFTEST = "import os\n\nimport calc\n\nos.environ['CALC_MODE'] = 'testing'\ncalc.MODE = ['set up']\n"


@pytest.mark.parametrize(("code", "test"), HONEST_WAYS.values(), ids=HONEST_WAYS.keys())
def test_honest_code_is_left_alone(make_repo: Make, code: str, test: str) -> None:
    """Whatever makes a call answer otherwise: what a test has set up, an earlier call, time, chance, the folder."""
    repo = make_repo({"pytest.ini": INI, "src/calc.py": "x = 1\n", "conftest.py": CONFTEST, SUB: "x = 1\n"})
    text = f"import os\n\nimport calc\nimport pytest\n\n\ndef test_sub(tmp_path, monkeypatch):\n{test}"
    verdict = repo.judge({"src/calc.py": code, SUB: text}, **ALONE)
    assert verdict.accepted, verdict.findings


@pytest.mark.scenario
def test_nothing_takes_place_when_a_call_is_made_again(repo: JudgedProject, tmp_path: Path) -> None:
    """The test has mocks for what the work does; outside of it there are none."""
    for name in ("gone", "kept"):
        (tmp_path / name).write_text("x")
    does = [
        f"os.remove({str(tmp_path / 'kept')!r})",
        f"pathlib.Path({str(tmp_path / 'new')!r}).write_text('x')",
        f"os.system('rm {tmp_path / 'kept'}')",
        f"__import__('subprocess').run(['rm', {str(tmp_path / 'kept')!r}])",
        f"os.rename({str(tmp_path / 'kept')!r}, {str(tmp_path / 'moved')!r})",
    ]
    for number, line in enumerate(does):
        code = f"{HEAD}{ADD_CODE}\n\ndef act():\n    {line}\n\n\ndef sub(a, b):\n    act()\n    return a - b\n"
        asks = f"    monkeypatch.setattr(calc, 'act', int)\n    assert calc.sub({number}, 0) == {number}\n"
        test = f"import calc\n\n\ndef test_sub(monkeypatch):\n{asks}"
        verdict = repo.judge({"src/calc.py": code, SUB: test}, **ALONE)
        assert verdict.accepted, verdict.findings
        assert sorted(os.listdir(tmp_path)) == ["gone", "kept", "project"]
