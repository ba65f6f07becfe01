"""One command on one commit: what is believed, and what is not."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import owner
from agent_harness.verification.checkout import Overlay
from agent_harness.verification.runner.execution import run_tests
from agent_harness.verification.verdict import Run, passed

from .sample import ADD_CODE, INI, PYTEST, SUITE, JudgedProject

Make = Callable[..., JudgedProject]
WITH_XDIST = f"{PYTEST} -p xdist"


def run(repo: JudgedProject, command: str = SUITE, **settings: Any) -> Run:
    settings.setdefault("timeout_seconds", 60.0)
    return run_tests(repo.client, repo.git("rev-parse", "HEAD"), command, environment=repo.environment, **settings)


def project(text: str, **files: str) -> dict[str, str]:
    return {"pytest.ini": INI, "src/calc.py": ADD_CODE, "tests/test_all.py": text, **files}


IDS = """\
import unittest
import pytest


class TestBox:
    class TestInner:
        def test_deep(self): pass

    @pytest.mark.parametrize("x", ["a b", "c::d", "e[f]", "ü", "/", "\\x07", "\\n", ""])
    def test_many(self, x): pass


class Old(unittest.TestCase):
    def test_unit(self): self.assertTrue(True)
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    def test_parts(self):
        for i in range(2):
            with self.subTest(i=i): self.assertTrue(True)


class Base:
    def test_inherited(self): pass


class TestHeir(Base): pass


@pytest.mark.parametrize("id", [pytest.param(1, id="name with spaces"), pytest.param(2, id="日本")])
def test_named(id): pass


def test_with_ünïcode(): pass


@pytest.mark.xfail
def test_xfail(): assert False


@pytest.mark.xfail
def test_xpass(): pass


@pytest.mark.skip
def test_skip(): pass


def test_fails(): assert False


@pytest.fixture
def broken(): raise ValueError


@pytest.fixture
def torn():
    yield
    raise ValueError


def test_error(broken): pass
def test_teardown(torn): pass
def test_output(record_property): record_property("a", "b"); print("\\x00\\x1b[0m")
"""
FILE = "tests/test_all.py"
EXPECTED: dict[str, str] = {
    f"{FILE}::TestBox::TestInner::test_deep": "passed",
    f"{FILE}::TestBox::test_many[a b]": "passed",
    f"{FILE}::TestBox::test_many[c::d]": "passed",
    f"{FILE}::TestBox::test_many[e[f]]": "passed",
    f"{FILE}::TestBox::test_many[\\xfc]": "passed",
    f"{FILE}::TestBox::test_many[/]": "passed",
    f"{FILE}::TestBox::test_many[\\x07]": "passed",
    f"{FILE}::TestBox::test_many[\\n]": "passed",
    f"{FILE}::TestBox::test_many[]": "passed",
    f"{FILE}::Old::test_unit": "passed",
    f"{FILE}::Old::test_skipped": "skipped",
    f"{FILE}::Old::test_expected": "skipped",
    f"{FILE}::Old::test_parts": "passed",
    f"{FILE}::TestHeir::test_inherited": "passed",
    f"{FILE}::test_named[name with spaces]": "passed",
    f"{FILE}::test_named[\\u65e5\\u672c]": "passed",
    f"{FILE}::test_with_ünïcode": "passed",
    f"{FILE}::test_xfail": "skipped",
    f"{FILE}::test_xpass": "passed",
    f"{FILE}::test_skip": "skipped",
    f"{FILE}::test_fails": "failed",
    f"{FILE}::test_error": "error",
    f"{FILE}::test_teardown": "error",
    f"{FILE}::test_output": "passed",
    "tests/test_doc.py::test_doc.add": "passed",
    "tests/odd name/test_é x.py::test_x": "passed",
}


@pytest.mark.scenario
@pytest.mark.parametrize("extra", ["", " -n 2"], ids=["plain", "xdist"])
def test_every_kind_of_test_has_its_id(make_repo: Make, extra: str) -> None:
    doc = 'def add():\n    """\n    >>> 1 + 1\n    2\n    """\n'
    files = {"tests/test_doc.py": doc, "tests/odd name/test_é x.py": "def test_x(): pass\n"}
    repo = make_repo(project(IDS, **files))
    done = run(repo, f"{WITH_XDIST} tests --doctest-modules{extra}", keep_going=True)
    assert done.problem is None, done.output
    assert done.report is not None
    assert dict(done.report.cases) == EXPECTED
    assert not passed(done)
    ids = [name for name, outcome in EXPECTED.items() if outcome == "passed"]
    again = run_selected(repo, f"{WITH_XDIST} tests --doctest-modules{extra}", ids)
    assert again.report is not None
    assert again.report.passing == set(ids), again.output
    assert passed(again)


def run_selected(repo: JudgedProject, command: str, ids: list[str]) -> Run:
    from agent_harness.verification.runner.execution import RunAsked, execute, place_for

    with place_for(repo.client, repo.base, environment=repo.environment) as checkout:
        asked = RunAsked(seconds=60, keep_going=True, select=ids)
        return execute(checkout, command, asked, environment=repo.environment)


GREEN = "def test_a(): pass\ndef test_b(): pass\n"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("", SUITE),
        ("import pytest\npytestmark = pytest.mark.skip\n" + GREEN, SUITE),
        ("import pytest\n@pytest.mark.xfail\ndef test_a(): assert False\n", SUITE),
        ("def test_a(: pass\n", SUITE),
        ("import nothing_of_that_name\n", SUITE),
        (GREEN, f"{SUITE} --collect-only"),
        (GREEN, f"{SUITE} -k nothing"),
        (GREEN, f"{SUITE} --no-such-option"),
        (GREEN, f"{SUITE}; true"),
        (GREEN, f"{SUITE} -p no:junitxml"),
        (GREEN, "no-such-program-at-all tests"),
        (GREEN, "true"),
        (GREEN, "echo '2 passed in 0.01s'"),
        (GREEN + "def test_c(): assert False\n", SUITE),
        (GREEN + "def test_c(): assert False\n", f"{SUITE} || true"),
        ("import pytest\ndef test_a(): pass\ndef test_b(): pytest.exit('done', returncode=0)\n", SUITE),
        ("def test_a(): pass\ndef test_b(): raise KeyboardInterrupt\n", SUITE),
    ],
    ids=str,
)
def test_what_does_not_pass(make_repo: Make, text: str, command: str) -> None:
    done = run(make_repo(project(text)), command)
    assert not passed(done) or command.endswith("; true"), done


def test_what_passes(make_repo: Make) -> None:
    repo = make_repo(project(GREEN))
    for command in (SUITE, f"cd tests && {PYTEST} .", f"{WITH_XDIST} tests/ -v -n 2"):
        done = run(repo, command)
        assert passed(done), (done.problem, done.output)
        assert done.report is not None
        assert len(done.report.passing) == 2


def test_a_run_that_stopped_early_is_not_believed(make_repo: Make) -> None:
    repo = make_repo(project("def test_a(): assert False\n" + GREEN.replace("test_a", "test_c")))
    alone = run(repo, f"{SUITE} -x")
    assert "stopped early: 1 of 3" in (alone.problem or "")
    suite = run(repo, f"{SUITE} -x", keep_going=True)
    assert suite.problem is None
    assert suite.report is not None
    assert len(suite.report.cases) == 3
    shell = run(repo, f"true; {SUITE} --maxfail=1", keep_going=True)
    assert "stopped early" in (shell.problem or "")


def test_variables_of_the_caller_do_not_steer(make_repo: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k test_a")
    monkeypatch.setenv("PYTEST_PLUGINS", "nothing_of_that_name")
    monkeypatch.setenv("PYTHONSTARTUP", "nothing")
    monkeypatch.setenv("MY_SECRET_TOKEN", "hush-hush-hush")
    text = GREEN + "import os\ndef test_c():\n    print(os.environ)\n    assert 'MY_SECRET_TOKEN' not in os.environ\n"
    repo = make_repo(project(text))
    done = run(repo)
    assert passed(done), done.output
    assert done.report is not None
    assert len(done.report.cases) == 3


@pytest.mark.scenario
def test_a_hang_ends_at_the_limit_and_names_the_test(make_repo: Make) -> None:
    repo = make_repo(project("import time\ndef test_a(): pass\ndef test_hangs(): time.sleep(600)\n"))
    done = run(repo, timeout_seconds=4.0)
    assert done.timed_out
    assert not passed(done)
    assert done.problem == "it ran into its limit of 4 s in tests/test_all.py::test_hangs"


def test_much_output_is_cut_to_its_tail(make_repo: Make) -> None:
    text = "import sys\ndef test_a():\n    for i in range(10_000): print('x' * 1000, file=sys.stderr)\n"
    repo = make_repo(project(text))
    done = run(repo, f"{SUITE} -s")
    assert passed(done), done.problem
    assert len(done.output) <= 65536
    assert "1 passed" in done.output


def test_secrets_in_the_output_are_masked(make_repo: Make) -> None:
    token = "ghp_" + "a1B2" * 9
    done = run(make_repo(project(f"def test_a(): print('{token}'); assert False\n")))
    assert token not in done.output
    assert "1 failed" in done.output


def test_what_a_test_leaves_running_is_gone(make_repo: Make, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = (
        "import subprocess, sys\ndef test_a():\n"
        '    code = "import os, time; os.setsid(); time.sleep(600)"\n'
        f"    open({str(note)!r}, 'w').write(str(subprocess.Popen([sys.executable, '-c', code]).pid))\n"
    )
    done = run(make_repo(project(text)))
    assert passed(done), done.output
    assert owner.of(int(note.read_text())) is None


FORGED = '<testsuite><testcase file="tests/test_all.py" classname="tests.test_all" name="test_add"/></testsuite>'
FIND = "import sys, gc\nplace = next(a for a in sys.argv if a.startswith('--junitxml=')).partition('=')[2]\n"
FORGERIES = {
    "ends-the-process": "import os\nos._exit(0)\n",
    "ends-the-process-in-a-test": "def add(a, b):\n    import os\n    os._exit(0)\n",
    "exits": "import sys\nsys.exit(0)\n",
    "exits-at-the-end": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b):\n    return 0\n",
    "writes-the-report": FIND + f"open(place, 'w').write({FORGED!r})\nimport os\nos._exit(0)\n",
    "writes-the-report-at-the-end": FIND
    + f"import atexit, os\ndef end():\n    open(place, 'w').write({FORGED!r})\n    os._exit(0)\natexit.register(end)\n"
    + "def add(a, b):\n    return 0\n",
    "patches-the-report": "import _pytest.reports as r\nold = r.TestReport.from_item_and_call.__func__\n"
    "def new(cls, item, call):\n    found = old(cls, item, call)\n    found.outcome = 'passed'\n    return found\n"
    "r.TestReport.from_item_and_call = classmethod(new)\n",
    "patches-the-call": "import _pytest.runner as r\nold = r.CallInfo.from_call.__func__\n"
    "def new(cls, *a, **k):\n    found = old(cls, *a, **k)\n    found.excinfo = None\n    return found\n"
    "r.CallInfo.from_call = classmethod(new)\n",
    "patches-the-xml": "import _pytest.junitxml as j\nj._NodeReporter.append_failure = j._NodeReporter.append_pass\n"
    "import _pytest.main as m\nm.Session.testsfailed = property(lambda s: 0, lambda s, v: None)\n"
    "import atexit, os\natexit.register(os._exit, 0)\n",
    "patches-the-outcome-later": "import pytest\nclass Plug:\n    @pytest.hookimpl(hookwrapper=True, tryfirst=True)\n"
    "    def pytest_runtest_makereport(self):\n        y = yield\n        y.get_result().outcome = 'passed'\n"
    "import gc\nfrom _pytest.config import Config\n"
    "[c.pluginmanager.register(Plug()) for c in gc.get_objects() if isinstance(c, Config)]\n",
    "swallows-the-test": "import pytest\nclass Plug:\n    @pytest.hookimpl(tryfirst=True)\n"
    "    def pytest_pyfunc_call(self, pyfuncitem):\n        return True\n"
    "import gc\nfrom _pytest.config import Config\n"
    "[c.pluginmanager.register(Plug()) for c in gc.get_objects() if isinstance(c, Config)]\n",
    "raises-skip": "import pytest\ndef add(a, b):\n    pytest.skip('not now')\n",
    "exits-pytest": "import pytest\ndef add(a, b):\n    pytest.exit('done', returncode=0)\n",
}


@pytest.mark.parametrize("code", FORGERIES.values(), ids=FORGERIES.keys())
def test_product_code_that_fakes_its_own_run(make_repo: Make, code: str) -> None:
    text = "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
    if "def add" not in code:
        code += "\n\ndef add(a, b):\n    return 0\n"
    repo = make_repo({**project(text), "src/calc.py": code})
    done = run(repo)
    assert not passed(done), (done.problem, done.output)
    assert done.report is None or not done.report.passing, done


def test_a_patched_testcase_is_seen(make_repo: Make) -> None:
    code = "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef add(a, b):\n    return 0\n"
    text = "import calc, unittest\nclass T(unittest.TestCase):\n"
    text += "    def test_add(self): self.assertEqual(calc.add(1, 2), 3)\n"
    repo = make_repo({**project(text), "src/calc.py": code})
    for extra in ("", " -n 1"):
        done = run(repo, f"{WITH_XDIST} tests{extra}")
        assert "unittest.TestCase.assertEqual" in (done.problem or ""), done


def test_the_projects_own_hooks_are_no_forgery(make_repo: Make) -> None:
    """A conftest of the way back may turn outcomes as it likes, as long as it does not hide what was raised."""
    hook = (
        "import pytest\npytest_plugins = ['plug']\n\n@pytest.hookimpl(hookwrapper=True)\n"
        "def pytest_runtest_makereport(item, call):\n    y = yield\n    y.get_result().sections.append(('a', 'b'))\n"
    )
    plug = "def pytest_runtest_call(item):\n    pass\n"
    repo = make_repo({**project(GREEN), "conftest.py": hook, "src/plug.py": plug, "tests/conftest.py": "x = 1\n"})
    done = run(repo)
    assert passed(done), (done.problem, done.output)


def test_a_report_that_was_there_before_counts_for_nothing(make_repo: Make) -> None:
    """Committed, left over or copied: only what this run wrote is read."""
    repo = make_repo({**project("def test_add(): assert False\n"), "report.xml": FORGED, "build/report.xml": FORGED})
    repo.commit(force=["build/report.xml"])
    repo.resolve(SUITE, report="report.xml")
    for command in ("true", "sh -c true"):
        done = run(repo, command)
        assert (done.report, passed(done)) == (None, False)
        assert "no test report" in (done.problem or "")


def test_another_runner_writes_its_report_where_it_is_told(make_repo: Make) -> None:
    writes = f"import sys; open(sys.argv[1], 'w').write({FORGED!r})\n"
    repo = make_repo({"run.py": writes, ".gitignore": "out/\n", "out/keep": ""})
    done = run(repo, f"{sys.executable} run.py {{report}}")
    assert passed(done), done
    repo.resolve(SUITE, report="out.xml")
    assert passed(run(repo, f"{sys.executable} run.py out.xml"))
    assert passed(run(repo, f"true && {sys.executable} run.py out.xml"))


def test_a_link_in_the_place_of_the_report_is_not_followed(make_repo: Make, tmp_path: Path) -> None:
    (tmp_path / "forged.xml").write_text(FORGED)
    code = f"import os, sys; os.symlink({str(tmp_path / 'forged.xml')!r}, sys.argv[1])\n"
    repo = make_repo({"run.py": code})
    assert not passed(run(repo, f"{sys.executable} run.py {{report}}"))


def test_tests_do_not_see_where_they_report(make_repo: Make) -> None:
    text = (
        "import json, os, subprocess, sys\ndef test_a():\n"
        "    assert 'address' not in os.environ['AGENT_HARNESS_WITNESS']\n"
        "    assert 'PYTEST_ADDOPTS' not in os.environ\n"
        "def test_inner(tmp_path):\n    (tmp_path / 'test_in.py').write_text('def test_no(): assert False')\n"
        "    words = [sys.executable, '-m', 'pytest', '-p', 'agent_harness_recorder', str(tmp_path)]\n"
        "    assert subprocess.run(words).returncode == 1\n"
    )
    repo = make_repo(project(text))
    for command in (SUITE, f"true && {SUITE}"):
        done = run(repo, command)
        assert passed(done), (done.problem, done.output)
        assert done.report is not None
        assert len(done.report.cases) == 2


def test_two_sessions_of_one_command_count_together(make_repo: Make) -> None:
    repo = make_repo({**project("def test_a(): pass\n"), "more/test_b.py": "def test_b(): assert False\n"})
    done = run(repo, f"{PYTEST} more; {PYTEST} tests")
    assert done.report is not None
    assert dict(done.report.cases) == {"tests/test_all.py::test_a": "passed", "more/test_b.py::test_b": "failed"}
    assert not passed(done)


def test_rerunning_plugins_and_strict_settings_do_not_disturb(make_repo: Make) -> None:
    ini = "[pytest]\npythonpath = src\naddopts = --strict-config --strict-markers --lf -W error\nxfail_strict = true\n"
    done = run(make_repo({**project(GREEN), "pytest.ini": ini}))
    assert passed(done), (done.problem, done.output)


def test_code_from_the_agents_folder_is_not_believed(make_repo: Make) -> None:
    """Whatever leads there: here, a test that puts the project itself on the path."""
    repo = make_repo(project(GREEN), resolved=False)
    access = f"import sys\nsys.path.insert(0, {str(repo.root / 'src')!r})\nimport secret\n" + GREEN
    repo.commit({"src/secret.py": "x = 1\n", "tests/test_all.py": access, ".gitignore": "secret.py\n"})
    repo.resolve()
    for command in (SUITE, f"{WITH_XDIST} tests -n 1"):
        done = run(repo, command)
        assert "instead of the commit: secret" in (done.problem or ""), done.output
        assert not passed(done)


def test_what_is_stopped_is_not_believed(make_repo: Make) -> None:
    repo = make_repo(project("import time\ndef test_a(): time.sleep(600)\n"))
    done = run(repo, stop=lambda: True)
    assert (done.problem, passed(done)) == ("it was stopped", False)


def test_an_overlay_decides_which_files_are_there(make_repo: Make) -> None:
    repo = make_repo(project("def test_a(): assert False\n"))
    later = repo.commit({"tests/test_all.py": GREEN, "tests/test_more.py": GREEN})
    both = ["tests/test_all.py", "tests/test_more.py"]
    done = run_tests(repo.client, repo.base, SUITE, environment=repo.environment, overlays=[Overlay(later, both)])
    assert passed(done)
    back = run_tests(repo.client, later, SUITE, environment=repo.environment, overlays=[Overlay(repo.base, both)])
    assert back.report is not None
    assert dict(back.report.cases) == {"tests/test_all.py::test_a": "failed"}


def test_settings_above_the_checkout_are_nobodys(make_repo: Make) -> None:
    """A project without settings of its own: pytest looks upwards, and must find neither the cache's nor the home's."""
    repo = make_repo({"tests/e2e/test_all.py": GREEN, "setup.cfg": "[metadata]\nname = x\n"})
    for place in (Path.home(), Path.home() / ".cache/agent-harness/worktrees"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "pytest.ini").write_text("[pytest]\naddopts = -k test_a\n")
        (place / "conftest.py").write_text("raise SystemExit(0)\n")
    for command in (SUITE, f"{PYTEST} tests/e2e", f"true && {SUITE}"):
        done = run(repo, command)
        assert done.problem is None, done.output
        assert done.report is not None
        assert done.report.passing == {f"tests/e2e/test_all.py::test_{name}" for name in "ab"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", ""),
        ("tox.ini", "[pytest]\npythonpath = src\n"),
        ("setup.cfg", "[tool:pytest]\npythonpath = src\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = 'src'\n"),
        ("pyproject.toml", "[tool.pytest]\npythonpath = ['src']\n"),
    ],
)
def test_settings_of_the_project_are_found_as_ever(make_repo: Make, name: str, text: str) -> None:
    files = {"src/calc.py": ADD_CODE, "tests/test_all.py": "import calc\n" + GREEN if text else GREEN, name: text}
    done = run(make_repo(files), f"{PYTEST} tests")
    assert passed(done), done.output
    assert f"configfile: {name}" in done.output


DISTURBANCES = {
    "rewrites-a-test": "open('tests/test_z.py', 'w').write('def test_z(): pass')",
    "adds-a-conftest": "open('tests/inner/conftest.py', 'w').write('def pytest_pyfunc_call(): return True')",
    "removes-a-test": "import os; os.remove('tests/test_z.py')",
}


@pytest.mark.parametrize("code", DISTURBANCES.values(), ids=DISTURBANCES.keys())
def test_product_code_that_rewrites_tests_during_the_run(make_repo: Make, code: str) -> None:
    """Tests are collected one file after the other, and the product is imported by the first."""
    inner = "def test_z(): assert False\n"
    files = {"tests/test_z.py": inner, "tests/inner/test_y.py": inner, ".gitignore": "conftest.py\n"}
    repo = make_repo({**project("import calc\n" + GREEN), **files, "src/calc.py": code + "\n"})
    done = run(repo, keep_going=True)
    assert "the run changed the tests themselves: tests/" in (done.problem or ""), done.output
    assert done.report is None


def test_runs_may_write_other_files(make_repo: Make) -> None:
    text = GREEN + "def test_w():\n    open('src/calc.py', 'a').write('x')\n    open('new.txt', 'w').close()\n"
    assert passed(run(make_repo(project(text))))
