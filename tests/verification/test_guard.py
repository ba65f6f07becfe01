"""The rules around tests, on contents alone."""

from collections.abc import Collection, Mapping

import pytest

from agent_harness.verification.changes import CandidateChanges, FileChange
from agent_harness.verification.guard import Duty, Survey, survey

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
    **duty: Collection[str],
) -> Survey:
    given = {"protected": (OLD,), **duty}
    return survey(changes(files, base=base, links=links), Duty(test_files=test_files, **given))


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
        {OLD: OLD_TEST + "def test_more():\n    assert 1 == 1\n"},
        {OLD: "def broken(:\n"},
        {"tests/fakes.py": "def fake():\n    return 2\n"},
        {"tests/fakes.py": None},
        {"tests/fakes.py": "def fake():\n    return 1\n\n\nfake = None\n"},
    ],
    ids=["gone", "moved", "hollow", "skipped", "added-to", "broken", "support", "support-gone", "support-overridden"],
)
def test_older_tests_are_protected(files: Files) -> None:
    assert rejecting(surveyed(files)) == {"protected_test_changed"}


def test_another_features_stub_is_protected_too() -> None:
    base = {**BASE, "tests/test_mul.py": OWN_STUB}
    assert rejecting(surveyed({"tests/test_mul.py": OWN_TEST}, base=base)) == {"protected_test_changed"}


def test_a_link_in_the_place_of_a_test_is_a_change() -> None:
    assert rejecting(surveyed({OLD: "elsewhere.py"}, links=[OLD])) == {"protected_test_changed"}


def test_layout_alone_is_no_change() -> None:
    assert surveyed({OLD: "# a comment\n" + OLD_TEST.replace("1, 2", "1,2")}).findings == ()


def test_support_may_grow_and_other_files_are_kept() -> None:
    grown = surveyed({"tests/fakes.py": "def fake():\n    return 1\n\n\ndef other():\n    return 2\n"})
    assert grown.findings == ()
    assert grown.kept == ("tests/fakes.py",)
    found = surveyed({"tests/answers.json": "[2]", "tests/new.json": "[]"})
    assert [(finding.code, finding.severity) for finding in found.findings] == [("test_support_changed", "IMPORTANT")]
    assert found.kept == ("tests/answers.json",)
    assert found.test_side == ("tests/answers.json", "tests/new.json")


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
        {"pyproject.toml": "broken ="},
        {"pyproject.toml": None},
        {"jest.config.js": "module.exports = {}"},
        {".gitattributes": "*.py working-tree-encoding=UTF-7\n"},
        {"package.json": '{"scripts": {"test": "true"}}'},
        {OWN: "pytest_plugins = ['odd']\n" + OWN_TEST},
    ],
    ids=lambda files: next(iter(files)),
)
def test_runner_configuration_may_not_bend_results(files: Files) -> None:
    assert rejecting(surveyed(files)) == {"runner_config_changed"}


@pytest.mark.parametrize(
    "files",
    [
        {"tests/e2e/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef other():\n    return 2\n"},
        {"tests/conftest.py": CONFTEST + "@pytest.fixture\ndef other():\n    return 2\n"},
        {"pyproject.toml": (BASE["pyproject.toml"] or "").replace("'calc'", "'other'")},
        {"pyproject.toml": (BASE["pyproject.toml"] or "") + "markers = ['slow: takes long']\n"},
        {"setup.cfg": "[metadata]\nname = calc\n"},
        {".gitattributes": "*.png filter=lfs\n*.py eol=lf\n"},
        {"tox.ini": "[tox]\nenv_list = py\n"},
        {"package.json": '{"dependencies": {}, "scripts": {"start": "node ."}}'},
    ],
    ids=lambda files: next(iter(files)),
)
def test_harmless_configuration(files: Files) -> None:
    found = surveyed(files)
    assert rejecting(found) == set()
    assert set(found.kept) == {path for path in files if path.endswith("conftest.py")}


def test_a_conftest_behind_a_link_cannot_be_read() -> None:
    assert rejecting(surveyed({"conftest.py": "box"}, links=["conftest.py"])) == {"runner_config_changed"}


def test_files_that_the_commands_start_and_plugins_that_the_base_loads() -> None:
    base = {**BASE, "run.sh": "pytest\n", "tests/plug.py": "def pytest_configure():\n    pass\n"}
    duty = {"runner_files": ["run.sh"], "plugins": ["plug"]}
    assert rejecting(surveyed({"run.sh": "true\n"}, base=base, **duty)) == {"runner_config_changed"}
    assert rejecting(surveyed({"tests/plug.py": HOOK}, base=base, **duty)) == {"runner_config_changed"}
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
        "agent_harness_witness.py",
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
    assert found.reaches_out
    assert [finding.code for finding in found.findings] == ["test_reaches_out"]
    base = {OWN: "import calc\ncalc.add = None\n"}
    assert surveyed({OWN: "\nimport calc\ncalc.add = None\n" + OWN_TEST}, base=base, protected=()).findings == ()


def test_product_code_that_knows_about_tests_is_named() -> None:
    found = surveyed({"src/calc.py": "import os\nx = os.environ.get('PYTEST_CURRENT_TEST')\n"})
    assert [(finding.code, finding.severity) for finding in found.findings] == [("product_knows_tests", "IMPORTANT")]
    assert named(surveyed({"src/calc.py": "import os\nos._exit(0)\n"})) == {"product_knows_tests"}
    assert named(surveyed({"src/__pycache__/calc.pyc": "x"})) == {"compiled_file"}
