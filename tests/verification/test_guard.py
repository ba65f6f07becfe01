"""The rules around tests, on contents alone."""

import subprocess
import sys
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from agent_harness.verification.changes import CandidateChanges, FileChange, Tree
from agent_harness.verification.command.named_files import Named
from agent_harness.verification.guard import ProtectedFiles, Survey, survey
from agent_harness.verification.protected_files import SessionClaim, behind, of_command, of_session
from agent_harness.verification.runner_config import is_test_file

Files = Mapping[str, str | None]

OLD, OWN = "tests/e2e/test_add.py", "tests/e2e/test_sub.py"
OLD_TEST = "def test_add():\n    assert add(1, 2) == 3\n"
OWN_STUB = "def test_sub():\n    pytest.fail('Not implemented')\n"
OWN_TEST = "def test_sub():\n    assert sub(3, 2) == 1\n"
BASE: Files = {
    "src/calc.py": "x = 1\n",
    OLD: OLD_TEST,
    OWN: OWN_STUB,
    "pyproject.toml": "[project]\nname = 'calc'\n[tool.pytest.ini_options]\naddopts = '-q'\n",
    "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef box():\n    return 1\n",
    "tests/fakes.py": "def fake():\n    return 1\n",
    "tests/answers.json": "[1]",
}


def changes(files: Files, *, base: Files = BASE, links: Collection[str] = ()) -> CandidateChanges:
    """The changes that writing these files over the base makes; ``None`` removes one."""
    after = {path: text for path, text in {**base, **files}.items() if text is not None}
    differing = sorted(path for path in {*base, *after} if base.get(path) != after.get(path))
    rows = []
    for path in differing:
        old, new = base.get(path), after.get(path)
        status = "A" if old is None else "D" if new is None else "M"
        before, content = (None if text is None else text.encode() for text in (old, new))
        rows.append(FileChange(path=path, status=status, before=before, after=content, link=path in links))
    return CandidateChanges(files=tuple(rows), before=frozenset(base), after=frozenset(after))


def surveyed(
    files: Files,
    *,
    base: Files = BASE,
    links: Collection[str] = (),
    test_files: Collection[str] = (OWN,),
    **protection: Any,
) -> Survey:
    given: dict[str, Any] = {"protected": (OLD,), **protection}
    return survey(changes(files, base=base, links=links), ProtectedFiles(test_files=test_files, **given))


def rejecting(found: Survey) -> set[str]:
    return {finding.code for finding in found.findings if finding.severity == "CRITICAL"}


def named(found: Survey) -> set[str]:
    return {finding.code for finding in found.findings}


def test_an_honest_session_is_not_flagged() -> None:
    found = surveyed({"src/calc.py": "x = 2\n", OWN: OWN_TEST, "README.md": "more", "src/new.py": "y = 1\n"})
    assert found.findings == ()
    assert found.test_side == (OWN,)
    assert found.kept == ()


@pytest.mark.parametrize(
    "files",
    [
        {OLD: None},
        {OLD: None, "tests/e2e/test_addition.py": OLD_TEST},
        {OLD: "def test_add():\n    pass\n"},
        {OLD: "import pytest\n\npytestmark = pytest.mark.skip\n\n" + OLD_TEST},
        {OLD: "import pytest\n" + OLD_TEST + "@pytest.fixture(autouse=True)\ndef kind():\n    yield\n"},
        {OLD: OLD_TEST + "def test_add():\n    pass\n"},
        {OLD: "def broken(:\n"},
        {"tests/fakes.py": "def fake():\n    return 2\n"},
        {"tests/fakes.py": None},
        {"tests/fakes.py": "def fake():\n    return 1\n\n\nfake = None\n"},
    ],
    ids=[
        *("gone", "moved-from-its-feature", "hollow", "skipped", "fixture", "overridden", "broken"),
        *("support", "support-gone", "support-overridden"),
    ],
)
def test_older_tests_are_protected(files: Files) -> None:
    assert rejecting(surveyed(files)) == {"protected_test_changed"}


def test_a_fixture_for_every_test_is_a_change_of_its_own_older_tests() -> None:
    base = {**BASE, OWN: OWN_TEST}
    fixture = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef kind(monkeypatch):\n    yield\n"
    assert rejecting(surveyed({OWN: OWN_TEST + fixture}, base=base, given=(OWN,))) == {"protected_test_changed"}
    assert rejecting(surveyed({OWN: OWN_TEST + fixture.replace("True", "False")}, base=base, given=(OWN,))) == set()


def test_another_features_stub_is_protected_too() -> None:
    base = {**BASE, "tests/test_mul.py": OWN_STUB}
    assert rejecting(surveyed({"tests/test_mul.py": OWN_TEST}, base=base)) == {"protected_test_changed"}


def test_a_link_in_the_place_of_a_test_is_a_change() -> None:
    assert rejecting(surveyed({OLD: "elsewhere.py"}, links=[OLD])) == {"protected_test_changed"}


def test_layout_alone_is_no_change() -> None:
    assert surveyed({OLD: "# a comment\n" + OLD_TEST.replace("1, 2", "1,2")}).findings == ()


HELPER = """\
def check(done, code):
    "That it went well."
    assert done.code == code, done
    return done
"""


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (HELPER.replace("code):", "code, message=None):").replace(", done\n", ", message or done\n"), True),
        (
            HELPER.replace("code):", "code, *, quiet=True):").replace(
                "    return", "    if not quiet:\n        print(1)\n    return"
            ),
            True,
        ),
        (HELPER.replace("code):", "code, strict=True):").replace("    assert", "    if strict:\n        assert"), True),
        (
            HELPER.replace("code):", "code, strict=False):").replace("    assert", "    if strict:\n        assert"),
            False,
        ),
        (HELPER.replace("code):", "code, also=0):").replace("== code", "in (code, also)"), False),
        (HELPER.replace("code):", "code=0):"), False),
        (HELPER.replace("done, code", "code, done, more=1"), False),
        (HELPER.replace("code):", "code, lax=[]):"), False),
        (
            HELPER.replace("code):", "code, x=None):").replace("    assert", "    x = code = done.code\n    assert"),
            False,
        ),
        (HELPER.replace("code):", "code, **more):"), False),
        (HELPER.replace("code):", "code, more=1):") + "\n\ncheck = print\n", False),
        ("async " + HELPER.replace("code):", "code, more=1):"), False),
    ],
)
def test_a_helper_may_gain_parameters_that_change_nothing(text: str, passes: bool) -> None:
    base = {**BASE, "tests/fakes.py": HELPER}
    found = surveyed({"tests/fakes.py": text}, base=base)
    assert rejecting(found) == (set() if passes else {"protected_test_changed"})
    in_class = {"tests/fakes.py": "class Desk:\n" + "".join(f"    {line}\n" for line in HELPER.splitlines())}
    changed = {"tests/fakes.py": "class Desk:\n" + "".join(f"    {line}\n" for line in text.splitlines())}
    assert (rejecting(surveyed(changed, base={**BASE, **in_class})) == set()) is passes


def test_support_may_grow_and_other_files_are_kept() -> None:
    grown = surveyed({"tests/fakes.py": "def fake():\n    return 1\n\n\ndef other():\n    return 2\n"})
    assert grown.findings == ()
    assert grown.kept == ("tests/fakes.py",)
    found = surveyed({"tests/answers.json": "[2]", "tests/new.json": "[]"})
    assert [(finding.code, finding.severity) for finding in found.findings] == [("test_support_changed", "IMPORTANT")]
    assert found.kept == ("tests/answers.json",)
    assert found.test_side == ("tests/answers.json", "tests/new.json")


FREE = "tests/unit/test_free.py"
FREE_TEST = "from . import fakes\n\n\ndef test_free(box):\n    assert fakes.free(box) == 3\n"
WITH_FREE: Files = {**BASE, FREE: FREE_TEST}


@pytest.mark.parametrize(
    "text",
    [FREE_TEST, "# moved\n" + FREE_TEST, FREE_TEST.replace("from . ", "from .. ")],
    ids=["as-is", "layout", "up"],
)
def test_a_test_file_may_move(text: str) -> None:
    found = surveyed({FREE: None, "tests/integration/test_free_too.py": text}, base=WITH_FREE)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("test_moved", "IMPORTANT")]
    assert found.moved == {FREE: "tests/integration/test_free_too.py"}
    assert found.needs_cross_check, "the older tests are run where they were, too"


@pytest.mark.parametrize(
    "new",
    [
        {"tests/test_it.py": FREE_TEST.replace("== 3", "!= 4")},
        {"tests/test_it.py": FREE_TEST.replace("from . import fakes", "from . import mild as fakes")},
        {"tests/test_it.py": FREE_TEST.partition("def ")[0]},
        {"tests/free.py": FREE_TEST},
        {"tests/test_it.py": FREE_TEST, "tests/test_that.py": FREE_TEST},
    ],
    ids=["weaker", "another-import", "hollow", "not-collected", "two"],
)
def test_what_is_no_move(new: Files) -> None:
    assert rejecting(surveyed({FREE: None, **new}, base=WITH_FREE)) == {"protected_test_changed"}


@pytest.mark.parametrize(
    ("more", "passes"),
    [
        ("\n\ndef test_more():\n    assert 1 + 1 == 2\n", True),
        ("\n\nimport json\n\nLIMIT = 3\n\n\nclass TestMore:\n    def test_it(self):\n        assert json\n", True),
        ("\n\nfrom fakes import box\n", False),
        ("\n\nfakes = None\n", False),
        ("\n\nfakes.free = len\n", False),
        ("\n\ndef setup_module():\n    pass\n", False),
        ("\n\nprint(fakes)\n", False),
    ],
)
def test_another_features_test_file_may_gain_tests(more: str, passes: bool) -> None:
    found = surveyed({FREE: FREE_TEST + more}, base=WITH_FREE)
    assert rejecting(found) == (set() if passes else {"protected_test_changed"})
    if passes:
        assert found.needs_cross_check, "the older tests are run without it, too"


GROWING = """\
import pytest
from calc import add


def test_sums():
    total = add(1, 2)
    assert total == 3
    with pytest.raises(TypeError):
        add(1, None)
"""


@pytest.mark.parametrize(
    ("old", "new", "passes"),
    [
        ("import add", "import add, sub", True),
        ("import add", "import sub, add", True),
        ("import add", "import sub as add", False),
        ("import add", "import *", False),
        ("    with", "    assert add(2, 2) == 4\n    with", True),
        ("    with", "    with pytest.raises(TypeError):\n        add(None, 1)\n    with", True),
        ("    with", '    assert add(2, 2) == 4 or pytest.skip("odd")\n    with', False),
        ("    with", "    assert (total := 3)\n    with", False),
        ("    with", "    total = 3\n    with", False),
        ("    with", "    assert total.real == 3\n    with", True),
        ("    assert total", "    assert total.clear() is None\n    assert total", False),
        ("    assert total", "    assert 4 not in total\n    assert total", False),
        ("    assert total", "    assert [*total] and [each for each in total]\n    assert total", False),
        ("import pytest", "import pytest\nfrom unittest import SkipTest as AssertionError", False),
        ("    with", "    with pytest.raises(BaseException):\n        pytest.exit()\n    with", False),
        ("    with", "    with open(add):\n        add(1, 1)\n    with", False),
        ("        add(1, None)\n", "        add(1, None)\n    total = add(total, 1)\n    assert total == 4\n", True),
        ("        add(1, None)\n", '        add(1, None)\n    if total:\n        pytest.skip("enough")\n', False),
        ("        add(1, None)\n", "        add(1, None)\n    yield\n", False),
        ("        add(1, None)\n", "        add(1, None)\n        add(2, None)\n", False),
        ("        add(1, None)\n", "        add(1, None)\n    add = 3\n    assert add\n", False),
        ("    assert total == 3\n", "", False),
        ("def test_sums", "@pytest.mark.skip\ndef test_sums", False),
    ],
)
def test_an_older_test_may_ask_for_more(old: str, new: str, passes: bool) -> None:
    base = {**BASE, FREE: GROWING}
    found = surveyed({FREE: GROWING.replace(old, new)}, base=base)
    assert rejecting(found) == (set() if passes else {"protected_test_changed"})
    in_class = {FREE: GROWING.partition("def ")[0] + "class TestSums:\n" + indented(GROWING)}
    text = GROWING.replace(old, new)
    changed = {FREE: text.partition("\n\n\n")[0] + "\n\n\nclass TestSums:\n" + indented(text)}
    assert (rejecting(surveyed(changed, base={**BASE, **in_class})) == set()) is passes


def test_a_class_that_grew_is_not_replaced_behind_its_end() -> None:
    grown = "class TestIt:\n    def test_one(self):\n        assert fakes\n"
    base = {**BASE, FREE: grown}
    more = grown + "\n    def test_two(self):\n        assert 1 + 1 == 2\n"
    assert rejecting(surveyed({FREE: more}, base=base)) == set()
    assert rejecting(surveyed({FREE: more + "\n\nTestIt = None\n"}, base=base)) == {"protected_test_changed"}
    shared = {"base": {SHARED: grown}, "test_files": [f"{SHARED}::test_sub"], "protected": [f"{SHARED}::TestIt"]}
    assert rejecting(surveyed({SHARED: more + "\n\nTestIt = None\n"}, **shared)) == {"protected_test_changed"}


@pytest.mark.parametrize(
    ("more", "passes"),
    [
        ("def test_two(self):\n        self.assertEqual(2, 2)\n", True),
        ("def assertEqual(self, one, two):\n        pass\n", False),
        ("assertEqual = print\n", False),
        ("def run(self, result=None):\n        pass\n", False),
    ],
)
def test_a_class_gains_tests_and_no_member_that_it_could_inherit(more: str, passes: bool) -> None:
    test = "    def test_one(self):\n        self.assertEqual(1, 1)\n"
    class_ = f"import unittest\n\n\nclass TestIt(unittest.TestCase):\n{test}"
    found = surveyed({FREE: f"{class_}\n    {more}"}, base={**BASE, FREE: class_})
    assert rejecting(found) == (set() if passes else {"protected_test_changed"})
    shared = {"base": {SHARED: class_}, "test_files": [f"{SHARED}::test_sub"], "protected": [f"{SHARED}::TestIt"]}
    found = surveyed({SHARED: f"{class_}\n    {more}"}, **shared)
    assert rejecting(found) == (set() if passes else {"protected_test_changed"})


def test_added_code_of_an_older_test_file_rebinds_and_reorders_nothing() -> None:
    acting = (
        "import os\n\nos.environ['ADD'] = '1'\nfrom calc import add\n\n\ndef test_add():\n    assert add(1, 1) == 2\n"
    )
    base, more = {**BASE, FREE: acting}, "\n\ndef test_more():\n    assert add(2, 2) == 4\n"
    mocks = acting.replace("import os", "import os\nimport unittest.mock")
    assert rejecting(surveyed({FREE: mocks + more}, base=base)) == set()
    rebinds = acting + "\n\ndef test_more():\n    global add\n    add = min\n"
    late = acting.replace(
        "os.environ['ADD'] = '1'\nfrom calc import add", "from calc import add\nos.environ['ADD'] = '1'"
    )
    fake = acting.replace("import os", "import os\nfrom calc import fake as pytest")
    for files in ({FREE: rebinds}, {FREE: late + more}, {FREE: fake + more}):
        assert rejecting(surveyed(files, base=base)) == {"protected_test_changed"}


def test_an_older_test_file_gains_no_hook() -> None:
    hook = "\n\ndef pytest_generate_tests(metafunc):\n    pass\n"
    assert rejecting(surveyed({FREE: FREE_TEST + hook}, base=WITH_FREE)) == {"protected_test_changed"}


def indented(text: str) -> str:
    """The functions of a module, as those of a class."""
    return "".join(f"    {line}\n" for line in text.partition("\n\n\n")[2].splitlines())


SHARED = "tests/test_all.py"
BOTH = OLD_TEST + "\n\n" + OWN_STUB


@pytest.mark.parametrize(
    ("text", "rejected"),
    [
        (OLD_TEST + "\n\n" + OWN_TEST, False),
        (BOTH + "def test_more():\n    assert 1\n", False),
        ("def test_add():\n    pass\n\n\n" + OWN_TEST, True),
        (OWN_TEST, True),
        ("pytestmark = skip\n" + OLD_TEST + OWN_TEST, True),
        ("def x(:", True),
    ],
)
def test_a_file_that_features_share(text: str, rejected: bool) -> None:
    for own in (f"{SHARED}::test_sub", SHARED):
        found = surveyed({SHARED: text}, base={SHARED: BOTH}, test_files=[own], protected=[f"{SHARED}::test_add"])
        assert rejecting(found) == ({"protected_test_changed"} if rejected else set())
        assert found.kept == (SHARED,)


def test_an_own_node_that_passed_before_may_change() -> None:
    base = {SHARED: OLD_TEST + OWN_TEST}
    files = {SHARED: OLD_TEST + OWN_TEST.replace("== 1", "== 2")}
    protected = [f"{SHARED}::test_add"]
    assert rejecting(surveyed(files, base=base, test_files=[f"{SHARED}::test_sub"], protected=protected)) == set()
    assert rejecting(surveyed(files, base=base, test_files=[SHARED], protected=protected)) == {"protected_test_changed"}


CONFTEST = BASE["tests/conftest.py"] or ""
HOOK = "def pytest_runtest_makereport(item, call):\n    pass\n"


@pytest.mark.parametrize(
    "files",
    [
        {"conftest.py": HOOK},
        {"tests/conftest.py": CONFTEST + HOOK},
        {"tests/e2e/conftest.py": HOOK},
        {"src/conftest.py": HOOK},
        {"../conftest.py": HOOK},
        {"Conftest.py": HOOK},
        {"tests/conftest.py": None},
        {"tests/conftest.py": "def x(:"},
        {"tests/conftest.py": CONFTEST.replace("return 1", "return 2")},
        {"tests/conftest.py": CONFTEST + "@pytest.fixture\ndef box():\n    return 2\n"},
        {"pytest.ini": "[pytest]\n"},
        {"pytest.ini": ""},
        {"tests/pytest.ini": ""},
        {"tox.ini": "[pytest]\naddopts = -k add\n"},
        {"setup.cfg": "[tool:pytest]\npython_files = nothing.py\n"},
        {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-q -k add'\n"},
        {"pyproject.toml": "[tool.pytest]\naddopts = ['-q']\npython_files = ['x']\n"},
        {"pyproject.toml": (BASE["pyproject.toml"] or "").replace("'-q'", "'--strict-markers'")},
        {"pyproject.toml": (BASE["pyproject.toml"] or "").replace("'-q'", "'-q --strict-markers -k add'")},
        {"pyproject.toml": (BASE["pyproject.toml"] or "") + "xfail_strict = false\n"},
        {"pyproject.toml": (BASE["pyproject.toml"] or "") + "filterwarnings = ['error', 'ignore::UserWarning']\n"},
        {"pyproject.toml": (BASE["pyproject.toml"] or "") + "filterwarnings = ['error::evil.Planted']\n"},
        {"tox.ini": "[pytest]\nxfail_strict = true\n"},
        {"pyproject.toml": "broken ="},
        {"pyproject.toml": None},
        {"jest.config.js": "module.exports = {}"},
        {".gitattributes": "*.py working-tree-encoding=UTF-7\n"},
        {"package.json": '{"scripts": {"test": "true"}}'},
        {"package.json": '{"imports": {"#calc": {"testing": "./fake.js", "default": "./calc.js"}}}'},
        {"package.json": '{"exports": {"testing": "./fake.js", "default": "./calc.js"}}'},
        {"package.json": '{"browser": "./other.js"}'},
        {"package.json": '{"overrides": {"chai": "file:./fake"}}'},
        {".npmrc": '"node-options" = --import ./patch.mjs\n'},
        {".env.test": "ANSWER=12\n"},
        {"vite.config.js": "export default { test: { setupFiles: ['./patch.js'] } };\n"},
        {OWN: "pytest_plugins = ['odd']\n" + OWN_TEST},
    ],
    ids=lambda files: next(iter(files)),
)
def test_runner_configuration_may_not_bend_results(files: Files) -> None:
    assert rejecting(surveyed(files)) == {"runner_config_changed"}


@pytest.mark.parametrize(
    ("filters", "codes"),
    [
        (["error"], set()),
        (["error", "ignore:b"], set()),
        (["error", "error::UserWarning", "ignore:a"], set()),
        (["ignore:a", "ignore:b"], {"runner_config_changed"}),
        (["ignore:a", "error", "ignore:b"], {"runner_config_changed"}),
        (["error", "ignore:c"], {"runner_config_changed"}),
    ],
)
def test_a_warning_that_is_no_longer_ignored_only_adds_failures(filters: list[str], codes: set[str]) -> None:
    before, after = (
        {"pyproject.toml": f"[tool.pytest.ini_options]\nfilterwarnings = {each!r}\n"}
        for each in (["error", "ignore:a", "ignore:b"], filters)
    )
    assert rejecting(surveyed(after, base={**BASE, **before})) == codes


@pytest.mark.parametrize(
    "files",
    [
        {"tests/e2e/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef other():\n    return 2\n"},
        {"tests/conftest.py": CONFTEST + "@pytest.fixture\ndef other():\n    return 2\n"},
        {"pyproject.toml": (BASE["pyproject.toml"] or "").replace("'calc'", "'other'")},
        {"pyproject.toml": (BASE["pyproject.toml"] or "") + "markers = ['slow: takes long']\n"},
        {"pyproject.toml": (BASE["pyproject.toml"] or "").replace("'-q'", "'-q --strict-markers'")},
        {"pyproject.toml": (BASE["pyproject.toml"] or "") + "xfail_strict = true\n"},
        {
            "pyproject.toml": (BASE["pyproject.toml"] or "")
            + "filterwarnings = ['error', 'error::DeprecationWarning']\n"
        },
        {"setup.cfg": "[metadata]\nname = calc\n"},
        {".gitattributes": "*.png filter=lfs\n*.py eol=lf\n"},
        {"tox.ini": "[tox]\nenv_list = py\n"},
        {"package.json": '{"dependencies": {}, "scripts": {"start": "node ."}}'},
        {"package.json": '{"main": "calc.js", "type": "module", "exports": {".": "./calc.js"}}'},
    ],
    ids=lambda files: next(iter(files)),
)
def test_harmless_configuration(files: Files) -> None:
    found = surveyed(files)
    assert rejecting(found) == set()
    assert set(found.kept) == {path for path in files if path.endswith("conftest.py")}


OPTION = """\
def pytest_addoption(parser):
    parser.addoption("--database", action="store", default="sqlite", choices=["sqlite", "postgres"], help="which")
"""
GROUPED = """\


def pytest_addoption(parser):
    "What a person may ask for."
    group = parser.getgroup("calc", "Options of calc")
    group.addoption("--run-slow", action="store_true", default=False)
"""


@pytest.mark.parametrize("text", [OPTION, GROUPED], ids=["option", "group"])
def test_a_conftest_may_gain_options(text: str) -> None:
    found = surveyed({"tests/conftest.py": CONFTEST + text})
    assert (rejecting(found), found.kept) == (set(), ("tests/conftest.py",))
    base = {**BASE, "tests/conftest.py": CONFTEST + text}
    more = text.rstrip() + f"\n    {'group' if 'group' in text else 'parser'}.addoption('--other', type=int)\n"
    assert rejecting(surveyed({"tests/conftest.py": CONFTEST + more}, base=base)) == set()
    assert rejecting(surveyed({"tests/conftest.py": CONFTEST}, base=base)) == {"runner_config_changed"}


@pytest.mark.parametrize(
    "text",
    [
        OPTION.replace('"--database"', '"--keyword"'),
        OPTION.replace('"--database"', '"--marker", dest="markexpr"'),
        OPTION.replace('"--database"', '"-k"'),
        OPTION.replace('"sqlite", choices', "open('x'), choices"),
        OPTION.replace("choices=", "type=exec, choices="),
        OPTION + "    parser.addini('python_files', 'which')\n",
        OPTION + "    import calc\n",
        "import pytest\n\n\n@pytest.hookimpl(wrapper=True)\n" + OPTION,
        OPTION.replace("(parser)", "(parser, pluginmanager)"),
        OPTION + "\n\n" + HOOK,
    ],
)
def test_other_options_and_hooks_are_refused(text: str) -> None:
    assert rejecting(surveyed({"tests/conftest.py": CONFTEST + text})) == {"runner_config_changed"}


def test_every_option_that_pytest_keeps_under_another_name_is_known() -> None:
    """An option of the project by that name would give pytest's own another value."""
    program = (
        "from _pytest.config import get_config\n"
        "parser = get_config()._parser\n"
        "for group in (parser._anonymous, *parser._groups):\n"
        "    for option in group.options:\n"
        "        names = [name[2:].replace('-', '_') for name in option.names() if name.startswith('--')]\n"
        "        if option.dest not in names: print(option.dest)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    kept = done.stdout.split()
    assert "keyword" in kept
    for name in kept:
        option = OPTION.replace('"--database"', f'"--{name.replace("_", "-")}"')
        assert rejecting(surveyed({"conftest.py": option})) == {"runner_config_changed"}, name


def test_a_conftest_behind_a_link_cannot_be_read() -> None:
    assert rejecting(surveyed({"conftest.py": "box"}, links=["conftest.py"])) == {"runner_config_changed"}


def test_files_that_the_commands_start_and_plugins_that_the_base_loads() -> None:
    base = {**BASE, "run.sh": "pytest\n", "tests/plug.py": "def pytest_configure():\n    pass\n"}
    protection = {"runner_files": ["run.sh"], "plugins": ["plug"]}
    assert rejecting(surveyed({"run.sh": "true\n"}, base=base, **protection)) == {"runner_config_changed"}
    assert rejecting(surveyed({"tests/plug.py": HOOK}, base=base, **protection)) == {"runner_config_changed"}
    assert rejecting(surveyed({".venv/bin/pytest": "true"}, runner_files=[".venv/bin/pytest"])) == {
        "runner_config_changed"
    }


@pytest.mark.parametrize(
    "path",
    [
        "pytest.py",
        "pytest/__init__.py",
        "_pytest/__init__.py",
        "pluggy.py",
        "sitecustomize.py",
        "deep/below/usercustomize.py",
        "json.py",
        "json/__init__.py",
        "tests/e2e/random.py",
        "lib/typing.py",
        "pytest.cpython-311-x86_64-linux-gnu.so",
        "odd.pth",
        "agent_harness_recorder.py",
        "src/node_modules/chai/index.js",
    ],
)
def test_files_that_shadow_the_runner_or_the_standard_library(path: str) -> None:
    assert rejecting(surveyed({path: "x = 1\n"}, import_roots=["", "lib"])) == {"shadowing_file"}


def test_a_module_that_shadows_the_product_beside_the_tests() -> None:
    """Test folders come first on the path of imports: a second calc there would answer for the broken one."""
    found = surveyed({"tests/e2e/calc.py": "x = 1\n"}, import_roots=["", "src"])
    assert rejecting(found) == {"shadowing_file"}
    assert (
        surveyed({"tests/e2e/calc.py": "x = 1\n", "tests/e2e/__init__.py": ""}, import_roots=["", "src"]).findings == ()
    )
    assert (
        surveyed({"tests/e2e/other.py": "x = 1\n", "src/more.py": "x = 1\n"}, import_roots=["", "src"]).findings == ()
    )


def test_a_plugin_in_committed_metadata_shadows() -> None:
    points = {"odd.egg-info/entry_points.txt": "[pytest11]\nodd = odd\n"}
    assert rejecting(surveyed(points)) == {"shadowing_file"}
    base = {**BASE, "odd.egg-info/entry_points.txt": "[console_scripts]\nodd = odd:main\n"}
    assert rejecting(surveyed(points, base=base)) == {"shadowing_file"}
    assert rejecting(surveyed({"odd.egg-info/entry_points.txt": "[console_scripts]\na = odd:b\n"})) == set()


@pytest.mark.parametrize(
    "path",
    ["src/calc/types.py", "src/json.py", "app/queue/__init__.py", "weights.bin", "docs/random.md", "calendars.py"],
)
def test_names_that_shadow_nothing(path: str) -> None:
    assert surveyed({path: "x = 1\n"}).findings == ()


def test_a_module_that_was_there_before_is_the_projects_affair() -> None:
    base = {**BASE, "queue.py": "x = 1\n"}
    assert surveyed({"queue.py": "x = 2\n"}, base=base).findings == ()
    assert surveyed({"queue.py": None, "queue/__init__.py": "x = 1\n"}, base=base).findings == ()
    assert surveyed({"queue.py": None}, base=base).findings == ()


def test_binary_weights_are_no_path_file() -> None:
    assert surveyed({"model.pth": "PK\0\1"}).findings == ()


def test_a_trivial_own_test_is_named() -> None:
    found = surveyed({OWN: "def test_sub():\n    pass\n"})
    assert [(finding.code, finding.severity) for finding in found.findings] == [("trivial_test", "IMPORTANT")]


def test_test_code_that_reaches_out_is_named_once() -> None:
    found = surveyed({OWN: "import calc\ncalc.add = None\n" + OWN_TEST, "tests/test_new.py": "import gc\n"})
    assert found.needs_cross_check
    assert [finding.code for finding in found.findings] == ["test_reaches_out"]
    base = {OWN: "import calc\ncalc.add = None\n"}
    assert surveyed({OWN: "\nimport calc\ncalc.add = None\n" + OWN_TEST}, base=base, protected=()).findings == ()


def test_product_code_that_knows_about_tests_is_named() -> None:
    found = surveyed({"src/calc.py": "import os\nx = os.environ.get('PYTEST_CURRENT_TEST')\n"})
    assert [(finding.code, finding.severity) for finding in found.findings] == [("product_knows_tests", "IMPORTANT")]
    assert named(surveyed({"src/calc.py": "import os\nos._exit(0)\n"})) == {"product_knows_tests"}
    assert named(surveyed({"src/__pycache__/calc.pyc": "x"})) == {"compiled_file"}


WEAKENED: Files = {OLD: "def test_add():\n    assert add(1, 2)\n", "tests/conftest.py": CONFTEST + "\n\n" + HOOK}


def test_a_person_releases_protected_files_by_name() -> None:
    freed = surveyed(WEAKENED, may_change=("tests/e2e/test_add.py", "**/conftest.py"))
    assert rejecting(freed) == set()
    assert named(freed) == {"protected_test_changed", "runner_config_changed"}
    assert (freed.kept, freed.released) == ((), ("tests/conftest.py", OLD))


def test_an_older_test_file_gains_nothing_that_patches_the_product() -> None:
    """It would hide from every later session what breaks."""
    grown = OLD_TEST + "\n\ndef test_more():\n    setattr(calc, 'add', good)\n"
    assert rejecting(surveyed({OLD: grown}, protected=())) == {"protected_test_changed"}
    assert (
        rejecting(surveyed({OLD: OLD_TEST + "\n\ndef test_more():\n    assert add(2, 2) == 4\n"}, protected=()))
        == set()
    )


def test_a_released_test_file_may_ask_for_something_else_and_not_for_nothing() -> None:
    """The person has allowed another test; one that only runs the code is named."""
    emptied = surveyed({OLD: "def test_add():\n    pass\n"}, may_change=(OLD,))
    assert rejecting(emptied) == {"test_emptied"}
    weaker = surveyed({OLD: "def test_add():\n    add(1, 2)\n"}, may_change=(OLD,))
    assert rejecting(weaker) == set()
    assert named(weaker) == {"protected_test_changed", "test_weakened"}
    assert named(surveyed({OWN: "def test_sub():\n    pass\n"}, may_change=(OWN,))) == {"trivial_test"}


@pytest.mark.parametrize("free", ["tests/e2e/test_sub.py", "conftest.py", "tests/e2e/test_ad"])
def test_files_beside_the_released_ones_stay_protected(free: str) -> None:
    assert rejecting(surveyed(WEAKENED, may_change=(free,))) == {"protected_test_changed", "runner_config_changed"}


def test_nothing_releases_what_takes_the_place_of_a_module() -> None:
    assert rejecting(surveyed({"pytest.py": "x = 1\n"}, may_change=("pytest.py",))) == {"shadowing_file"}


# ---- one guard: what is refused to a session is refused to whoever works on a task, with a pytest command -----------


def of_task(files: Files, *, command: str = "pytest -q tests", base: Files = BASE, **given: Any) -> Survey:
    texts = {path: text.encode() for path, text in base.items() if text is not None}
    tree = Tree(texts.keys(), texts.get)
    return survey(changes(files, base=base), of_command(tree, behind([command], tree), **given))


PLUGIN = "def pytest_configure():\n    pass\n"
PATCHES = "import calc\n\ncalc.add = lambda one, two: 3\n"
AUTOMATIC = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef kind(calc):\n    calc.patch()\n"
ASKED = "def test_add(box):\n    assert add(box, 2) == 3\n"
ASKED_FIXTURE = f"import pytest\n{ASKED}@pytest.fixture\ndef box():\n    return 1\n"


@pytest.mark.parametrize(
    ("base", "files", "code"),
    [
        ({"tools/plug.py": PLUGIN, "pytest.ini": "[pytest]\naddopts = -p tools.plug\n"}, {"tools/plug.py": HOOK}, None),
        ({"plug.py": PLUGIN, "conftest.py": "pytest_plugins = ['plug']\n"}, {"plug.py": PLUGIN + HOOK}, None),
        ({"sub/pytest.ini": "[pytest]\npythonpath = lib\n"}, {"sub/lib/json.py": "x = 1\n"}, "shadowing_file"),
        ({}, {"tests/test_new.py": "pytest_plugins = ['odd']\n" + OLD_TEST}, None),
        ({}, {OLD: OLD_TEST + PATCHES}, "protected_test_changed"),
        ({}, {OLD: OLD_TEST + AUTOMATIC}, "protected_test_changed"),
        ({}, {OLD: OLD_TEST + AUTOMATIC.replace("autouse=True", "**{'autouse': True}")}, "protected_test_changed"),
        ({}, {OLD: "import pytest\npytest.importorskip('none')\n" + OLD_TEST}, "protected_test_changed"),
        ({}, {OLD: OLD_TEST + "def pytest_generate_tests(metafunc):\n    pass\n"}, "protected_test_changed"),
        ({OLD: ASKED}, {OLD: ASKED_FIXTURE}, "protected_test_changed"),
        ({"tests/test_two.py": OLD_TEST}, {"tests/test_two.py": None}, "protected_test_changed"),
    ],
)  # fmt: skip
def test_a_task_leaves_alone_what_a_session_does(base: Files, files: Files, code: str | None) -> None:
    whole = {**BASE, **base}
    assert rejecting(of_task(files, base=whole)) == {code or "runner_config_changed"}


def test_a_module_in_a_folder_of_a_search_path_takes_no_place() -> None:
    files = {"lib/json.py": "x = 1\n"}
    assert rejecting(of_task(files, command="PYTHONPATH=lib pytest -q tests")) == {"shadowing_file"}
    assert rejecting(of_task(files, import_roots=["lib"])) == {"shadowing_file"}
    assert rejecting(of_task(files)) == set()
    assert rejecting(of_task({"json.py": "x = 1\n"}, may_change=("json.py",))) == {"shadowing_file"}


@pytest.mark.parametrize(
    "text",
    [
        OLD_TEST + "def test_more():\n    assert add(2, 2) == 4\n",
        "import pytest\n" + OLD_TEST + "\n\n@pytest.fixture\ndef other():\n    return 1\n",
        OLD_TEST + "\n\nif __name__ == '__main__':\n    pytest.main()\n",
        "import sys\nsys.path.insert(0, 'src')\n" + OLD_TEST,
    ],
)
def test_given_tests_of_a_task_may_ask_for_more(text: str) -> None:
    assert rejecting(of_task({OLD: text})) == set()


def test_a_mark_by_which_a_given_test_waited_may_go() -> None:
    base = {**BASE, OLD: f"@pytest.mark.skip(reason='to be done')\n{OLD_TEST}"}
    assert rejecting(of_task({OLD: OLD_TEST}, base=base)) == set()
    assert rejecting(of_task({OLD: base[OLD]})) == {"protected_test_changed"}


def test_a_released_test_of_a_task_may_not_ask_for_nothing() -> None:
    assert named(of_task({OLD: OLD_TEST.replace("3", "4")}, may_change=("tests/**",))) == set()
    assert rejecting(of_task({OLD: "def test_add():\n    pass\n"}, may_change=("tests/**",))) == {"test_emptied"}


def test_scripts_for_tests_that_were_there_stay_beside_the_one_that_is_run() -> None:
    base = {"package.json": '{"scripts": {"test": "run-p test:*", "test:unit": "node --test", "start": "node ."}}'}
    bent = {"package.json": (base["package.json"]).replace("node --test", "true")}
    more = {"package.json": (base["package.json"]).replace('"start"', '"test:more": "node more.js", "start"')}
    routed = {"package.json": (base["package.json"]).replace("{", '{"imports": {"#a": {"testing": "./b.js"}}, ', 1)}
    assert rejecting(of_task(bent, command="npm test", base=base)) == {"check_changed"}
    assert rejecting(of_task(routed, command="npm test", base=base)) == {"check_changed"}
    assert rejecting(of_task(more, command="npm test", base=base)) == set()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({".npmrc": "node-options=--require ./patch.js\n"}, {"runner_config_changed"}),
        ({".npmrc": "save-exact=true\nregistry=https://example.invalid/\n"}, set()),
        (
            {"tests/__init__.py": "def load_tests(loader, tests, pattern):\n    return tests\n"},
            {"runner_config_changed"},
        ),
        ({"tests/__init__.py": "import unittest\n"}, set()),
        ({".proverc": "--exec ./fake\n"}, {"runner_config_changed"}),
    ],
)
def test_new_files_that_pick_the_tests_or_their_program(files: Files, found: set[str]) -> None:
    assert rejecting(surveyed(files)) == found


def test_tests_that_a_pattern_finds_were_there_as_well() -> None:
    new = FileChange(path="tests/__init__.py", status="A", before=None, after=b"def load_tests(*_):\n    return 0\n")
    before = frozenset({"tests/check_a.py"})
    protection = ProtectedFiles(tests={"tests", *before}, alone=True)
    assert rejecting(survey(CandidateChanges(files=(new,), before=before, after=before | {new.path}), protection))


@pytest.mark.parametrize(
    "path",
    [
        "t/table.t",
        "crates/a/tests/rle.rs",
        "pkg/a_test.go",
        "web/__tests__/a.js",
        "TestLeap.java",
        "a.spec.mts",
        "test-a.js",
    ],
)
def test_test_files_of_other_runners(path: str) -> None:
    assert is_test_file(path)


@pytest.mark.parametrize("path", ["src/rle.rs", "tests/common/mod.rs", "t/lib/Help.pm"])
def test_other_files_of_these_runners(path: str) -> None:
    assert not is_test_file(path)


IMPORTS = "import { add } from './calc.js';\nimport test from 'node:test';\ntest('adds', () => equal(add(1, 2), 3));\n"
MORE = "test('multiplies', () => equal(mul(1, 2), 2));\n"


@pytest.mark.parametrize("path", ["years.test.js", "test/years.js"])
@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (IMPORTS.replace("{ add }", "{ add, mul }") + MORE, True),
        (IMPORTS.replace("{ add }", "{ add, equal }") + MORE, False),
        (IMPORTS.replace("./calc", "./fake"), False),
        (IMPORTS.replace("3)", "add(1, 2))"), False),
    ],
)
def test_an_older_test_of_javascript_may_only_gain_tests(path: str, text: str, passes: bool) -> None:
    base = {path: IMPORTS, "calc.js": "exports.add = 1;\n"}
    texts = {each: content.encode() for each, content in base.items()}
    tree, work = Tree(texts.keys(), texts.get), changes({path: text}, base=base)
    claim = SessionClaim(
        base="", candidate="", test_files=[path], protected=[path], baseline=[f"{path}::adds"], own_may_change=True
    )
    protection = of_session(tree, work, claim, checks=Named(), environment=Named(), import_roots=())
    assert rejecting(survey(work, protection)) == (set() if passes else {"protected_test_changed"})
    assert (path in protection.older) is not is_test_file(path)
