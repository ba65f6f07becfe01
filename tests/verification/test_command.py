"""A plain command judged on real commits: honest work passes, and an agent that bends the proof is not believed."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel.git import Git
from agent_harness.verification.command import Differences
from agent_harness.verification.command.runner import CommandCheck
from agent_harness.verification.judge import judge_command
from agent_harness.verification.remembered import Remembered
from agent_harness.verification.verdict import FAST, GREEN, NORMAL, NOT_RUN, OFF, RED, REJECT, STRICT, Verdict

from .sample import PYTEST, JudgedProject

Files = Mapping[str, str | bytes | None]
Make = Callable[..., JudgedProject]

CHECK = "#!/bin/sh\nset -e\ngrep -q done work.txt\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
MAKEFILE = "PYTEST = true\nCASES = one two\n\ntest: lint\n\tgrep -q done work.txt && cat $(CASES)\n\nlint:\n\t@true\n"
PACKAGE = '{"scripts": {"test": "sh check.sh", "start": "node app.js"}}\n'
BASE: Files = {
    ".gitignore": "__pycache__/\n.venv/\nnode_modules/\nbuild/\ndata/\n",
    "work.txt": "todo\n",
    "check.sh": CHECK,
    "Makefile": MAKEFILE,
    "package.json": PACKAGE,
    "calc.py": "def add(a, b):\n    return 0\n",
    "tests/test_calc.py": TEST,
    "tests/cases/some.json": "[1, 2]\n",
    "one": "done\n",
    "two": "done\n",
}
DONE: Files = {"work.txt": "done\n"}
ADDED: Files = {"calc.py": "def add(a, b):\n    return a + b\n"}
FAKED: Files = {"tests/fakes.py": "def add(a, b):\n    return a + b\n"}
FAKE_ADD, FAKE_ALL = TEST.replace("from calc", "from fakes"), TEST + "\n\nfrom fakes import *\n"
PY = f"{PYTEST} -q tests"
SKIPPING = """\
import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "unit" in str(item.path):
            item.add_marker(pytest.mark.skip)
"""


@pytest.fixture
def repo(make_repo: Make) -> JudgedProject:
    return make_repo(BASE, resolved=False)


def judged(
    repo: JudgedProject, command: str, work: Files, *, remembered: Remembered | None = None, **options: object
) -> Verdict:
    """The verdict on a commit of this work on top of the base."""
    check = CommandCheck(**{"command": command, "timeout_seconds": 60.0, "trust": FAST, **options})  # type: ignore[arg-type]
    candidate = repo.commit(work)
    return judge_command(repo.client, check, base=repo.base, candidate=candidate, remembered=remembered)


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


# ---- honest work ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "work"),
    [
        ("sh check.sh", DONE),
        ("./check.sh", {**DONE, "check.sh": CHECK}),
        ("make test", DONE),
        ("cd . && make -s test >/dev/null", DONE),
        (PY, ADDED),
        ("grep -q done work.txt", DONE),
        (f'test "$({sys.executable} calc.py)" = 3', {"calc.py": "print(3)\n"}),
        (f"{sys.executable} calc.py | grep -qx 3", {"calc.py": "print(3)\n"}),
        (PY, {**ADDED, "tests/test_more.py": TEST.replace("test_add", "test_more")}),
        (
            PY,
            {
                **ADDED,
                "tests/test_calc.py": TEST
                + "    assert add(2, 2) == 4\n\n\ndef test_two():\n    assert add(0, 0) == 0\n",
            },
        ),
        (PY, {**ADDED, "tests/test_calc.py": f"# why\n{TEST}\n"}),
        (
            "make test",
            {**DONE, "Makefile": MAKEFILE.replace("one two", "one two three") + "\ndocs:\n\ttrue\n", "three": "done\n"},
        ),
        ("sh check.sh calc.py tests", {**DONE, **ADDED, "tests/more.sh": "true\n"}),
        ("sh check.sh", {**DONE, "package.json": PACKAGE.replace("app.js", "main.js"), "Makefile": "all:\n\ttrue\n"}),
    ],
)
def test_honest_work_passes(repo: JudgedProject, command: str, work: Files) -> None:
    repo.commit({"check.sh": CHECK})
    (repo.root / "check.sh").chmod(0o755)
    repo.base = repo.commit()
    verdict = judged(repo, command, work)
    assert (verdict.accepted, codes(verdict)) == (True, []), verdict
    assert (verdict.exit_code, verdict.where, verdict.red_before) == (0, "worktree", RED)


def test_work_that_is_not_done_fails_with_its_output(repo: JudgedProject) -> None:
    verdict = judged(repo, "echo looking in $PWD; sh check.sh; code=$?; echo gone 1>&2; exit $code", {"other": "x"})
    assert (verdict.accepted, verdict.exit_code, verdict.red_before) == (False, 1, NOT_RUN)
    assert verdict.output == f"looking in {repo.root}\ngone\n"
    assert codes(verdict) == []


def test_a_limit_ends_the_command(repo: JudgedProject) -> None:
    check = CommandCheck(command="sleep 600 & sleep 600", timeout_seconds=0.3)
    verdict = judge_command(repo.client, check, base=repo.base, candidate=repo.commit(DONE))
    assert (verdict.accepted, verdict.timed_out, verdict.exit_code) == (False, True, None)


def test_only_what_is_committed_counts(repo: JudgedProject) -> None:
    candidate = repo.commit({"other": "x"})
    repo.put({"work.txt": "done\n"})
    verdict = judge_command(
        repo.client, CommandCheck(command="grep -q done work.txt"), base=repo.base, candidate=candidate
    )
    assert not verdict.accepted
    assert (repo.root / "work.txt").read_text() == "done\n"


def test_a_run_changes_nothing_in_the_folder(repo: JudgedProject) -> None:
    verdict = judged(repo, "echo x > made-by-the-run; rm work.txt", DONE)
    assert verdict.accepted
    assert repo.git("status", "--porcelain") == ""


def test_it_runs_in_the_folder_of_the_project(repo: JudgedProject) -> None:
    repo.base = repo.commit({"sub/check.sh": "grep -q done ../work.txt\n"})
    candidate = repo.commit(DONE)
    git = Git(repo.root / "sub")
    verdict = judge_command(git, CommandCheck(command="sh check.sh"), base=repo.base, candidate=candidate)
    assert verdict.accepted
    forged = repo.commit({"sub/check.sh": "true\n"})
    verdict = judge_command(git, CommandCheck(command="sh check.sh"), base=repo.base, candidate=forged)
    assert [finding.data["path"] for finding in verdict.findings] == ["check.sh"]


MOVED: Files = {"tests/test_calc.py": None, "tests/unit/test_calc.py": TEST}


@pytest.mark.parametrize(
    "work",
    [
        MOVED,
        {**MOVED, "tests/unit/test_calc.py": f"# moved\n{TEST}"},
        {**MOVED, "tests/unit/__init__.py": ""},
    ],
    ids=["unchanged", "comment", "package"],
)
def test_a_test_file_that_moved_is_no_deletion(repo: JudgedProject, work: Files) -> None:
    """Its tests are shown to be run at the new place: the command fails once they fail there."""
    verdict = judged(repo, PY, {**ADDED, **work})
    assert (verdict.accepted, codes(verdict)) == (True, ["test_moved"]), verdict
    assert verdict.findings[0].message == "tests/test_calc.py was moved to tests/unit/test_calc.py."


@pytest.mark.parametrize(
    ("settings", "command", "work", "options"),
    [
        ({"pytest.ini": "[pytest]\nnorecursedirs = unit\n"}, PY, MOVED, {}),
        ({"tests/unit/conftest.py": SKIPPING, "tests/test_other.py": "def test_one(): pass\n"}, PY, MOVED, {}),
        ({}, PY, {**MOVED, "tests/unit/test_calc.py": TEST.replace("== 3", "!= 3")}, {}),
        ({}, PY, {"tests/test_calc.py": None, "elsewhere/test_calc.py": TEST}, {}),
        ({}, f"{PYTEST} -q tests/test_calc.py tests", MOVED, {}),
        ({}, PY, MOVED, {"isolation": "in_place"}),
    ],
    ids=["not collected", "skipped there", "other tests", "outside", "named by the command", "in the folder itself"],
)
def test_a_test_file_that_moved_to_where_its_tests_are_not_run_is_rejected(
    repo: JudgedProject, settings: Files, command: str, work: Files, options: dict[str, Any]
) -> None:
    other = "def test_other():\n    assert True\n"
    repo.base = repo.commit({"tests/test_more.py": other, "elsewhere/test_more_of_it.py": other, **settings})
    verdict = judged(repo, command, {**ADDED, **work}, **options)
    assert not verdict.accepted
    assert "protected_test_changed" in {finding.code for finding in verdict.reasons}
    assert "tests/test_calc.py" in verdict.reasons[0].message


# ---- agents that bend the proof --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "work", "code", "said"),
    [
        ("sh check.sh", {"check.sh": "exit 0\n"}, "check_changed", "check.sh .*line 1: '#!/bin/sh' is now 'exit 0'"),
        ("sh check.sh", {"check.sh": CHECK.replace("done", "todo")}, "check_changed", "line 3: 'grep -q done"),
        ("sh check.sh || exit 1", {"check.sh": CHECK.replace("set -e", "exit 0")}, "check_changed", "line 2"),
        ("sh check.sh", {"check.sh": None}, "check_changed", "deleted"),
        ("timeout 60 env A=1 bash ./check.sh | cat", {"check.sh": ""}, "check_changed", "is gone"),
        ("bash -c 'cd tests && sh ../check.sh'", {"check.sh": "true\n"}, "check_changed", "check.sh"),
        ("make test", {"Makefile": "test: lint\n\ttrue\n\nlint:\n\t@true\n"}, "check_changed", "the recipe of test"),
        ("make", {"Makefile": MAKEFILE.replace("test: lint", "fine:\n\ttrue\n\ntest: lint")}, "check_changed", "goal"),
        ("make test", {"Makefile": MAKEFILE.replace("one two", "one two || true")}, "check_changed", "CASES"),
        ("make test", {"Makefile": MAKEFILE + "\n.IGNORE:\n"}, "check_changed", "IGNORE"),
        ("make test", {"Makefile": MAKEFILE + "\nSHELL = /bin/true\n"}, "check_changed", "SHELL"),
        ("make test", {"Makefile": MAKEFILE + "\ntest:\n\ttrue\n"}, "check_changed", "recipe of test"),
        ("make test", {"Makefile": MAKEFILE.replace("test: lint", "test:")}, "check_changed", "fewer prerequisites"),
        (
            "npm test",
            {"package.json": PACKAGE.replace("sh check.sh", "true")},
            "check_changed",
            "script test is now 'true'",
        ),
        (
            "npm run test",
            {"package.json": PACKAGE.replace('"start"', '"pretest": "true", "start"')},
            "check_changed",
            "pretest",
        ),
        ("npm test", {"check.sh": "true\n"}, "check_changed", "check.sh"),
        (PY, {"tests/test_calc.py": None}, "protected_test_changed", "test_calc.py .*deleted"),
        (PY, {"tests/test_calc.py": TEST.replace("== 3", "== 0")}, "protected_test_changed", "test_add"),
        (
            PY,
            {"tests/test_calc.py": TEST.replace("    assert", "    return\n    assert")},
            "protected_test_changed",
            "test_add",
        ),
        (PY, {"tests/test_calc.py": TEST + "\n\ndef test_add():\n    pass\n"}, "protected_test_changed", "test_add"),
        (
            PY,
            {"tests/test_calc.py": "import pytest\npytestmark = pytest.mark.skip\n" + TEST},
            "protected_test_changed",
            "pytestmark",
        ),
        (PY, {"tests/test_calc.py": TEST + "    assert (add := 1)\n"}, "protected_test_changed", "test_add"),
        (PY, {"tests/test_calc.py": FAKE_ADD, **FAKED}, "protected_test_changed", "line 1"),
        (PY, {"tests/test_calc.py": FAKE_ALL, **FAKED}, "protected_test_changed", "import"),
        (PY, {"tests/cases/some.json": "[]\n"}, "protected_test_changed", "some.json"),
        (
            PY,
            {"conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"},
            "runner_config_changed",
            "hook",
        ),
        (
            PY,
            {"tests/conftest.py": "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef f():\n    pytest.skip()\n"},
            "runner_config_changed",
            "autouse",
        ),
        (
            PY,
            {"pytest.ini": "[pytest]\naddopts = --ignore=tests/test_calc.py\n"},
            "runner_config_changed",
            "pytest.ini",
        ),
        (PY, {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--co"\n'}, "runner_config_changed", "addopts"),
        (PY, {"pytest.py": ""}, "shadowing_file", "pytest.py"),
        (PY, {"calc.py": "import os\n\nos._exit(0)\n"}, "product_knows_tests", "ends the process"),
        ("bash -euo pipefail check.sh", {"check.sh": "true\n"}, "check_changed", "check.sh"),
        ("python3 -X dev verify.py", {"verify.py": "print('fine')\n"}, "check_changed", "verify.py"),
        ("python3 -Bm unittest tests.test_calc", {"tests/test_calc.py": ""}, "protected_test_changed", "test_calc"),
        ("./gradlew test", {"gradlew": "exit 0\n"}, "check_changed", "gradlew"),
        ("python3 manage.py test", {"src/a.test.js": ""}, "protected_test_changed", "a.test.js"),
        ("yarn jest", {"src/a.test.js": ""}, "protected_test_changed", "a.test.js"),
        ("for f in check.sh; do sh ./check.sh; done", {"check.sh": "true\n"}, "check_changed", "check.sh"),
        ("! sh check.sh; test $? = 1", {"check.sh": "true\n"}, "check_changed", "check.sh"),
        (PY, {"sitecustomize.py": ""}, "shadowing_file", "sitecustomize"),
        ("bats spec/a.bats", {"spec/a.bats": "@test 'x' {\n  true\n}\n"}, "protected_test_changed", "spec/a.bats"),
        (
            "npx jest",
            {"src/a.test.js": "test.skip('a', () => { expect(1).toBe(1) })\n"},
            "protected_test_changed",
            "a.test.js",
        ),
        ("sh run.sh tests/one.sh", {"tests/one.sh": "exit 0\n"}, "protected_test_changed", "line 1 'false'"),
        ("./run.sh tests/one.sh out.xml", {"tests/one.sh": None}, "protected_test_changed", "one.sh .*deleted"),
        ("sh run.sh -v tests", {"tests/one.sh": "exit 0\nfalse\n"}, "protected_test_changed", "'exit 0'"),
        (f"{sys.executable} run.py spec/a.bats", {"spec/a.bats": ""}, "protected_test_changed", "spec/a.bats"),
        ("diff got.txt golden/want.txt", {"golden/want.txt": "other\n"}, "check_changed", "want.txt"),
        (f"{sys.executable} verify.py | cat", {"verify.py": "print('fine')\n"}, "check_changed", "verify.py"),
    ],
)
def test_a_bent_proof_is_rejected(repo: JudgedProject, command: str, work: Files, code: str, said: str) -> None:
    repo.base = repo.commit(
        {
            "spec/a.bats": "@test 'x' {\n  false\n}\n",
            "src/a.test.js": "test('a', () => { expect(1).toBe(1) })\n",
            "golden/want.txt": "want\n",
            "got.txt": "got\n",
            "gradlew": "exit 1\n",
            "manage.py": "raise SystemExit(1)\n",
            "verify.py": "raise SystemExit(1)\n",
            "run.sh": 'sh "$1"\n',
            "run.py": "import os, sys\n\nos.execvp('sh', sys.argv)\n",
            "tests/one.sh": "false\n",
        }
    )
    verdict = judged(repo, command, work)
    assert (verdict.accepted, codes(verdict)) == (False, [code])
    assert not verdict.proof
    path = next(iter(work))
    assert path in verdict.findings[0].message
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(verdict.findings[0].message)


def test_a_link_in_the_place_of_the_script(repo: JudgedProject) -> None:
    (repo.root / "check.sh").unlink()
    (repo.root / "check.sh").symlink_to("/bin/true")
    verdict = judged(repo, "sh check.sh", {})
    assert (codes(verdict), verdict.proof) == (["check_changed"], None)
    assert "link" in verdict.findings[0].message


def test_the_script_behind_a_link_is_the_script(repo: JudgedProject) -> None:
    (repo.root / "verify").symlink_to("check.sh")
    repo.base = repo.commit()
    assert codes(judged(repo, "./verify", {"check.sh": "#!/bin/sh\ntrue\n"})) == ["check_changed"]
    repo.git("reset", "-q", "--hard", repo.base)
    (repo.root / "verify").unlink()
    assert codes(judged(repo, "./verify", {"verify": "#!/bin/sh\ntrue\n"})) == ["check_changed"]


def test_a_task_that_is_meant_to_change_its_proof(repo: JudgedProject) -> None:
    work: Files = {
        **ADDED,
        "tests/test_calc.py": TEST.replace("== 3", "== 3.0"),
        "pytest.ini": "[pytest]\naddopts = -q\n",
    }
    assert not judged(repo, PY, work).accepted
    repo.git("reset", "-q", "--hard", repo.base)
    verdict = judged(repo, PY, work, may_change=("tests/**", "pytest.ini"))
    assert (verdict.accepted, codes(verdict)) == (True, [])


def test_where_there_were_no_tests_nothing_is_protected(make_repo: Make) -> None:
    repo = make_repo({"README": "x\n"}, resolved=False)
    work = {**ADDED, "tests/test_calc.py": TEST, "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n'}
    verdict = judged(repo, PY, work)
    assert (verdict.accepted, verdict.red_before) == (True, RED)
    assert [finding.severity for finding in verdict.findings] == ["IMPORTANT"]


# ---- the code before -------------------------------------------------------------------------------------------------


def test_a_command_that_passed_before_proves_nothing(repo: JudgedProject) -> None:
    verdict = judged(repo, "test -f work.txt", DONE)
    assert (verdict.accepted, verdict.red_before, codes(verdict)) == (True, GREEN, ["green_before"])
    repo.git("reset", "-q", "--hard", repo.base)
    verdict = judged(repo, "test -f work.txt", DONE, requires_red=REJECT)
    assert (verdict.accepted, verdict.red_before, verdict.exit_code) == (False, GREEN, 0)
    repo.git("reset", "-q", "--hard", repo.base)
    verdict = judged(repo, "test -f work.txt", DONE, requires_red=OFF)
    assert (verdict.accepted, verdict.red_before, codes(verdict)) == (True, NOT_RUN, [])


@pytest.mark.scenario
def test_new_tests_that_fail_on_the_code_before_are_a_proof(repo: JudgedProject) -> None:
    repo.base = repo.commit(ADDED)
    new = "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 2) == 1\n"
    code = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"
    assert judged(repo, PY, {"calc.py": code, "tests/test_sub.py": new}).red_before == RED
    repo.git("reset", "-q", "--hard", repo.base)
    assert judged(repo, PY, {"notes": "x"}).red_before == GREEN


@pytest.mark.parametrize("command", [f"{PYTEST} -q tests/test_new.py", f"{sys.executable} tests/test_new.py"])
def test_a_new_test_file_that_passes_on_the_code_before_proves_nothing(repo: JudgedProject, command: str) -> None:
    """It was not there, so without it any command would have failed."""
    new = {"tests/test_new.py": "def test_it():\n    assert 1 is not None\n"}
    verdict = judged(repo, command, new)
    assert (verdict.accepted, verdict.red_before, codes(verdict)) == (True, GREEN, ["green_before"])
    assert verdict.not_asked and verdict.noticed is None
    assert not judged(repo, command, {**new, "work.txt": "done\n"}, requires_red=REJECT).accepted


def test_the_code_before_is_asked_once(repo: JudgedProject, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = f"echo x >> {seen}; grep -q done work.txt"
    remembered = Remembered(tmp_path / "red.json")
    assert judged(repo, command, DONE, remembered=remembered).red_before == RED
    assert judged(repo, command, {"more": "x"}, remembered=remembered).red_before == RED
    assert seen.read_text() == "x\n" * 3
    assert judged(repo, f"{command} # another", {"more": "y"}, remembered=remembered).red_before == RED
    assert seen.read_text() == "x\n" * 5


def test_what_other_tests_said_about_the_code_before_is_not_believed_of_new_ones(
    repo: JudgedProject, tmp_path: Path
) -> None:
    command, remembered = f"{PYTEST} -q tests/test_new.py", Remembered(tmp_path / "red.json")
    honest: Files = {**ADDED, "tests/test_new.py": TEST}
    assert judged(repo, command, honest, remembered=remembered).red_before == RED
    repo.git("reset", "-q", "--hard", repo.base)
    idle: Files = {"tests/test_new.py": "def test_it():\n    assert 1 is not None\n"}
    assert judged(repo, command, idle, remembered=remembered).red_before == GREEN


def test_work_that_changes_nothing_is_green_before(repo: JudgedProject) -> None:
    verdict = judge_command(repo.client, CommandCheck(command="true"), base=repo.base, candidate=repo.base)
    assert (verdict.accepted, verdict.red_before, verdict.unchanged) == (True, GREEN, True)


# ---- in the folder ---------------------------------------------------------------------------------------------------


def test_it_fails_there_and_passes_here(repo: JudgedProject) -> None:
    repo.put({"data/set.txt": "x\n", "build/out": "x\n"})
    verdict = judged(
        repo, "grep -q done work.txt && test -f data/set.txt", DONE, in_place_setting="config.where: in_place"
    )
    assert (verdict.accepted, verdict.where, verdict.exit_code) == (False, "worktree", 1)
    found = verdict.found("passes_only_in_place")
    assert found is not None
    assert found.message == (
        "The command fails in a checkout of the work (exit 1) and passes in the project folder; the checkout lacks "
        "ignored files: build, data. Commit the files that it needs, or run it in the project folder: "
        "config.where: in_place"
    )


def test_what_fails_in_both_is_only_a_failure(repo: JudgedProject) -> None:
    repo.put({"data/set.txt": "x\n"})
    assert codes(judged(repo, "test -f data/other.txt", DONE)) == []


def test_in_place_has_the_guard_and_the_code_before(repo: JudgedProject) -> None:
    repo.put({"data/set.txt": "x\n"})
    command = "grep -q done work.txt && test -f data/set.txt"
    verdict = judged(repo, command, DONE, isolation="in_place")
    assert (verdict.accepted, verdict.where, verdict.red_before) == (True, "in_place", RED)
    forged = judged(repo, "sh check.sh", {"check.sh": "exit 0\n"}, isolation="in_place")
    assert (codes(forged), forged.where, forged.proof) == (["check_changed"], "in_place", None)


def test_installed_dependencies_are_lent(repo: JudgedProject) -> None:
    shutil.copytree(Path(sys.prefix) / "bin", repo.root / ".venv/bin", symlinks=True, ignore=lambda _, names: names)
    (repo.root / ".venv/bin").mkdir(parents=True, exist_ok=True)
    (repo.root / ".venv/bin/tool").write_text("#!/bin/sh\ngrep -q done work.txt\n")
    (repo.root / ".venv/bin/tool").chmod(0o755)
    repo.put({"sub/node_modules/p/index.js": "x\n", "build/forged": "x\n", ".venv/pyvenv.cfg": ""})
    command = ".venv/bin/tool && test -f sub/node_modules/p/index.js && test ! -e build"
    verdict = judged(repo, command, {**DONE, "sub/a": "x\n"})
    assert (verdict.accepted, codes(verdict), verdict.red_before) == (True, [], RED), verdict.output


def test_what_came_into_them_is_left_out_and_asked_about_where_the_check_needs_it(repo: JudgedProject) -> None:
    tool = repo.root / "node_modules/.bin/tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("exit 0\n")
    (repo.root / "node_modules/.bin/other").write_text("grep -q done work.txt\n")
    came = Differences(lent={"lent node_modules\t.bin/tool": "node_modules/.bin/tool"})
    needs = judged(repo, "sh node_modules/.bin/tool", {"work.txt": "bad\n"}, installed=came)
    assert (needs.accepted, needs.reasons[0].code) == (False, "dependency_needed")
    assert needs.reasons[0].data["paths"] == ["node_modules/.bin/tool"]
    locked = judged(repo, "sh node_modules/.bin/tool", {"package-lock.json": "{}\n"}, installed=came)
    assert locked.accepted
    beside = judged(repo, "sh node_modules/.bin/other", DONE, installed=came)
    assert (beside.accepted, codes(beside)) == (True, ["dependencies_left_out"])


def test_an_editable_install_leads_to_the_checkout(repo: JudgedProject) -> None:
    """The code before is judged by what it was, although the environment imports the agent's folder."""
    site = repo.root / ".venv/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (site / "calc.pth").write_text(f"{repo.root}/src\n")
    (repo.root / ".venv/pyvenv.cfg").write_text("")
    repo.base = repo.commit({"src/calculator.py": "ANSWER = 0\n"})
    command = (
        f"PYTHONPATH=$PYTHONPATH:{repo.root}/src {sys.executable} -c 'import calculator; assert calculator.ANSWER'"
    )
    verdict = judged(repo, command, {"src/calculator.py": "ANSWER = 42\n"})
    assert (verdict.accepted, verdict.red_before) == (True, RED), verdict.output


def test_no_checkout_is_left(repo: JudgedProject) -> None:
    judged(repo, "sh check.sh", DONE)
    assert os.listdir(Path(os.environ["XDG_CACHE_HOME"], "agent-harness/worktrees")) == []


# ---- tests that cannot fail ----------------------------------------------------------------------------------------

NEW = "from roman import roman\n\n\ndef test_four():\n    {}\n"
ROMAN: Files = {"roman.py": "def roman(n):\n    return {1: 'I', 4: 'IV'}[n]\n"}
EQUAL = """\
class Any(str):
    __hash__ = None

    def __eq__(self, other):
        return True


def roman(n):
    return Any()
"""
SKIPS = "import unittest\n\n\ndef roman(n):\n    raise unittest.SkipTest('hard')\n"
READS = """\
import pathlib
import re


def roman(n):
    return re.search('== "([IVX]+)"', pathlib.Path("tests/test_roman.py").read_text())[1]
"""
GIVEN = NEW.format('assert roman(4) == "IV"')
NAMED = f"{PYTEST} -q tests/test_roman.py"


@pytest.mark.parametrize(
    ("asserts", "said"),
    [
        ('assert roman(4) == "IV"', None),
        ('assert roman(4).startswith("I")', None),
        ("assert roman(4) == roman(4)", "another value of its type, and when roman.py::roman answers otherwise"),
        ("assert roman(4)", "roman.py::roman answers another value of its type"),
        ("roman(4)", "roman.py::roman answers another value of its type"),
        ('assert (roman(4) == "IV", "four")', "roman.py::roman answers another value of its type"),
    ],
)
def test_tests_that_the_work_brings_along_can_fail(repo: JudgedProject, asserts: str, said: str | None) -> None:
    verdict = judged(repo, NAMED, {**ROMAN, "tests/test_roman.py": NEW.format(asserts)}, trust=NORMAL)
    assert (verdict.accepted, codes(verdict)) == ((True, []) if said is None else (False, ["weak_test"])), verdict
    assert said is None or said in verdict.findings[0].message
    assert (verdict.noticed, verdict.red_before, verdict.not_asked, verdict.unchanged) == (said is None, RED, "", False)
    assert [each.step for each in verdict.steps if each.seconds][:3] == ["proof", "red", "twins"]
    assert verdict.seconds > max(each.seconds or 0 for each in verdict.steps)


ASKS = f"{sys.executable} asks.py"
ASKING: Files = {"asks.py": "import roman\n\nassert roman.roman(4) == 'IV'\n"}


@pytest.mark.parametrize(
    ("command", "work", "noticed", "of"),
    [
        (ASKS, ROMAN, True, "1 of 1 expected values"),
        (ASKS, {"roman.py": "import os\n\nos._exit(0)\n"}, False, "0 of 1 expected values"),
        ("grep -q done work.txt", DONE, True, "1 of 1 expected values"),
        ("test -f roman.py", ROMAN, None, ""),
    ],
)
def test_any_command_fails_where_it_expects_other_values(
    make_repo: Make, command: str, work: Files, noticed: bool | None, of: str
) -> None:
    repo = make_repo({**BASE, **ASKING}, resolved=False)
    verdict = judged(repo, command, work, trust=NORMAL)
    assert (verdict.noticed, verdict.noticed_of, verdict.accepted) == (noticed, of, noticed is not False), verdict
    assert codes(verdict) == (["weak_test"] if noticed is False else [])
    assert (verdict.not_asked == "by exit status alone") == (noticed is None)
    assert judged(repo, command, {**work, "more": "x"}, trust=FAST).not_asked == "trust: fast"


OTHER = """\
import unittest


class T(unittest.TestCase):
    def test_one(self):
        self.assertEqual(1 + 1, 2)

    def test_four(self):
        from roman import roman
        self.assertEqual(roman(4), "IV")

    def test_three(self):
        self.assertEqual(1 + 2, 3)
"""


@pytest.mark.parametrize("command", ["test_own", "test_own.T.test_four", "tests.test_other.T.test_four", "-k four"])
def test_tests_that_the_command_does_not_run_are_not_asked(make_repo: Make, command: str) -> None:
    repo = make_repo({**BASE, "tests/__init__.py": "", "tests/test_other.py": OTHER, "test_other.py": OTHER})
    own = "import unittest\nfrom roman import roman\n\n\nclass T(unittest.TestCase):\n    def test_four(self):\n"
    work = {**ROMAN, "test_own.py": own + "        self.assertEqual(roman(4), 'IV')\n"}
    verdict = judged(repo, f"{sys.executable} -m unittest -q {command}", work, trust=NORMAL)
    assert (verdict.accepted, verdict.noticed, verdict.not_asked) == (True, True, ""), verdict


@pytest.mark.parametrize(("speaks", "accepted"), [("", False), ("# skipped where there is no roman\n", True)])
def test_tests_that_the_work_skips_are_no_proof(make_repo: Make, speaks: str, accepted: bool) -> None:
    skips = "import unittest\n\n\ndef roman(n):\n    raise unittest.SkipTest('hard')\n"
    repo = make_repo({"test_other.py": speaks + OTHER.replace("1 + 2", "3"), "notes": "x\n"}, resolved=False)
    verdict = judged(repo, f"{sys.executable} -m unittest test_other", {"roman.py": skips}, trust=FAST)
    assert (verdict.accepted, codes(verdict)) == (accepted, [] if accepted else ["proof_failed"]), verdict


LAZY: Files = {"check.sh": "exit 0\n"}
WORK: Files = {"prog.sh": "echo 3\n"}


@pytest.mark.parametrize(
    ("command", "work", "before", "noticed", "unchanged"),
    [
        ("sh check.sh", LAZY, GREEN, None, True),
        ("sh check.sh", {**LAZY, **WORK}, GREEN, None, False),
        ("sh check.sh", {"check.sh": "[ 1 = 1 ]\n", **WORK}, GREEN, None, False),
        ("sh checks/all.sh", {"checks/all.sh": "exit 0\n", **WORK}, GREEN, None, False),
        ("make -s check", {"Makefile": "check:\n\ttrue\n", **WORK}, GREEN, None, False),
        ("sh check.sh", {"check.sh": "test -f prog.sh\n", **WORK}, RED, None, False),
        ("sh check.sh", {"check.sh": '[ "$(sh prog.sh)" = 3 ]\n', **WORK}, RED, True, False),
        ("make -s check", {"Makefile": 'check:\n\t[ "$$(sh prog.sh)" = 3 ]\n', **WORK}, RED, True, False),
        ("sh prog.sh", WORK, RED, None, False),  # the work itself
    ],
)
def test_a_check_that_the_work_brings_is_laid_over_the_code_before(
    make_repo: Make, command: str, work: Files, before: str, noticed: bool | None, unchanged: bool
) -> None:
    verdict = judged(make_repo({"notes": "x\n"}, resolved=False), command, work, trust=NORMAL)
    assert (verdict.accepted, verdict.red_before, verdict.noticed) == (True, before, noticed), verdict
    assert verdict.unchanged == unchanged


@pytest.mark.parametrize(
    ("test", "work", "trust", "passed", "code"),
    [
        (GIVEN, ROMAN, NORMAL, True, []),
        (GIVEN, ROMAN, STRICT, True, []),
        (GIVEN, {"roman.py": EQUAL}, NORMAL, False, ["weak_test"]),
        (GIVEN, {"roman.py": READS}, NORMAL, False, ["weak_test"]),
        (NEW.format("roman(4)"), ROMAN, NORMAL, True, ["weak_test"]),  # a person wrote it: they are told
        (NEW.format("roman(4)"), ROMAN, STRICT, False, ["weak_test"]),
        (NEW.format("roman(4)"), ROMAN, FAST, True, []),
        (GIVEN, {"roman.py": "TABLE = {4: 'IV'}\nroman = TABLE.get\n"}, NORMAL, True, []),  # no function was changed
    ],
)
@pytest.mark.scenario
def test_tests_that_a_person_wrote(
    make_repo: Make, test: str, work: Files, trust: str, passed: bool, code: list[str]
) -> None:
    repo = make_repo({**BASE, "tests/test_roman.py": test}, resolved=False)
    verdict = judged(repo, NAMED, work, trust=trust)
    assert (verdict.accepted, codes(verdict)) == (passed, code), verdict


@pytest.mark.parametrize(
    ("given", "passed"),
    [(GIVEN, False), (f"import pytest\n{GIVEN}    pytest.skip('no more here')\n", True)],
    ids=["the product skips", "a person skips"],
)
def test_a_test_that_is_skipped_while_it_runs(make_repo: Make, given: str, passed: bool) -> None:
    one = "\n\ndef test_one():\n    assert True\n"
    repo = make_repo({**BASE, "tests/test_roman.py": given + one}, resolved=False)
    verdict = judged(repo, NAMED, ROMAN if passed else {"roman.py": SKIPS})
    assert (verdict.accepted, codes(verdict)) == (passed, [] if passed else ["proof_failed"]), verdict


def test_an_exit_of_0_without_a_whole_run_is_no_proof(repo: JudgedProject) -> None:
    ends = "import importlib\n\n\ndef add(a, b):\n    getattr(importlib.import_module('o' + 's'), '_ex' + 'it')(0)\n"
    verdict = judged(repo, PY, {"calc.py": ends})
    assert (verdict.accepted, codes(verdict)) == (False, ["proof_failed"]), verdict
    assert "not trusted" in verdict.findings[0].message


@pytest.mark.parametrize("words", ["--collect-only", "-p no:junitxml", "-x --maxfail=3", "-k add"])
def test_options_of_a_person(repo: JudgedProject, words: str) -> None:
    assert judged(repo, f"{PY} {words}", ADDED, requires_red=OFF).accepted


def test_a_python_that_takes_no_plugin_is_asked_without_it(repo: JudgedProject) -> None:
    isolated = PY.replace(" -m pytest", " -I -m pytest")
    verdict = judged(repo, isolated, ADDED)
    assert "agent_harness_recorder" not in verdict.output, verdict


# ---- other ways to run pytest ----------------------------------------------------------------------------------------

WAYS = {
    "make": "make test",
    "make with a path": "make -s paths",
    "a folder": f"cd sub && {PYTEST} -q",
    "a variable": f"LEVEL=1 {PYTEST} -q sub/tests",
    "a shell": f"sh -c '{PYTEST} -q sub/tests'",
    "a script": "sh run.sh",
    "a program": f"{sys.executable} run.py",
    "two": f"{PYTEST} -q sub/tests && {PYTEST} -q other",
    "another answer first": f"{PYTEST} --version && {PYTEST} -q --collect-only sub/tests && {PYTEST} -q sub/tests",
}
PLACES: Files = {
    "Makefile": (
        f"test:\n\t@{PYTEST} -q sub/tests\n\nPYTHONPATH := sub\n\n"
        f"paths: export PYTHONPATH = sub\npaths:\n\t@cd sub && PYTHONPATH=. {PYTEST} -q tests\n"
    ),
    "sub/pytest.ini": "[pytest]\npythonpath = .\ntestpaths = tests\n",
    "sub/tests/test_roman.py": GIVEN,
    "other/test_other.py": "def test_other():\n    assert True\n",
    "run.sh": f"#!/bin/sh\nset -e\nexport PYTHONPATH=sub\n{PYTEST} -q sub/tests\n",
    "run.py": (
        "import subprocess\nimport sys\n\n"
        "sys.exit(subprocess.call([sys.executable, '-m', 'pytest', '-q', '--disable-plugin-autoload', 'sub/tests']))\n"
    ),
}
DETECTS = ROMAN["roman.py"].replace(  # type: ignore[union-attr]
    "    return", "    if 'pytest' not in __import__('sys').modules:\n        return '?'\n    return"
)
ENDS = "import importlib\n\n\ndef roman(n):\n    getattr(importlib.import_module('o' + 's'), '_ex' + 'it')(0)\n"


@pytest.mark.parametrize("command", WAYS.values(), ids=WAYS.keys())
def test_pytest_is_watched_however_it_is_started(make_repo: Make, command: str) -> None:
    repo = make_repo({**BASE, **PLACES}, resolved=False)
    honest = judged(repo, command, {"sub/roman.py": ROMAN["roman.py"]})
    assert (honest.accepted, codes(honest)) == (True, []), (honest.output, honest.findings)
    assert honest.proof and honest.proof.report
    repo.sh("git", "reset", "-q", "--hard", repo.base)
    assert codes(judged(repo, command, {"sub/roman.py": ENDS})) == ["proof_failed"]


@pytest.mark.scenario
@pytest.mark.parametrize("way", ["make", "a folder", "two"])
def test_mutants_and_calls_are_asked_however_it_is_started(make_repo: Make, way: str) -> None:
    """Code that equals everything or knows its tests is found, though no test file is named by itself."""
    repo = make_repo({**BASE, **PLACES}, resolved=False)
    expected: list[tuple[str | bytes | None, list[str]]] = [
        (ROMAN["roman.py"], []),
        (EQUAL, ["weak_test"]),
        (DETECTS, ["answers_differ"]),
    ]
    for code, found in expected:
        repo.sh("git", "reset", "-q", "--hard", repo.base)
        verdict = judged(repo, WAYS[way], {"sub/roman.py": code}, trust=NORMAL)
        assert codes(verdict) == found, (verdict.output, verdict.findings)


def test_what_takes_no_plugin_is_believed_by_its_exit_status(make_repo: Make) -> None:
    command = f"env -i {PYTEST} -q sub/tests"
    repo = make_repo({**BASE, **PLACES}, resolved=False)
    verdict = judged(repo, command, {"sub/roman.py": ROMAN["roman.py"]}, trust=NORMAL)
    assert verdict.proof and (verdict.accepted, verdict.proof.report) == (True, None), verdict


LEAVES = f"#!/bin/sh\n[ -e sub/done ] && exit 0\n{PYTEST} -q sub/tests\n"


@pytest.mark.parametrize("before", [{}, {"sub/tests/conftest.py": "import roman\n"}], ids=["tests", "a conftest"])
def test_a_pytest_that_starts_on_the_code_before_has_to_start(make_repo: Make, before: Files) -> None:
    """Running finds the rest: the candidate has its script leave before any test."""
    repo = make_repo({**BASE, **PLACES, **before, "run.sh": LEAVES}, resolved=False)
    verdict = judged(repo, "sh run.sh", {"sub/done": "", "sub/roman.py": EQUAL}, trust=NORMAL)
    assert (verdict.accepted, codes(verdict)) == (False, ["proof_failed"]), verdict
    assert "as it did on the base commit" in verdict.findings[0].message


def test_what_a_person_has_released_may_start_another_runner(make_repo: Make) -> None:
    repo = make_repo({**BASE, **PLACES, "run.sh": LEAVES}, resolved=False)
    work: Files = {"run.sh": "#!/bin/sh\nset -e\ngrep -q done work.txt\n", **DONE}
    assert codes(judged(repo, "sh run.sh", work)) == ["check_changed"]
    repo.sh("git", "reset", "-q", "--hard", repo.base)
    verdict = judged(repo, "sh run.sh", work, may_change=("run.sh",))
    assert (verdict.accepted, codes(verdict)) == (True, []), verdict


@pytest.mark.parametrize(
    "command",
    [
        "grep -q done work.txt # once there was pytest",
        "test -n '/tmp/pytest-of-me/pytest-3/x' && grep -q done work.txt",
        "grep -q done work.txt || { echo no pytest here; exit 1; }",
    ],
)
def test_a_command_that_only_speaks_of_pytest(repo: JudgedProject, command: str) -> None:
    verdict = judged(repo, command, DONE)
    assert (verdict.accepted, codes(verdict), verdict.red_before) == (True, [], RED), verdict
    assert judged(repo, command, {"more": "x", "work.txt": "todo\n"}).exit_code == 1


@pytest.mark.scenario
@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("make test", {"Makefile": f"test:\n\t@{PYTEST} -q --junitxml=found.xml sub/tests\n"}),
        (f"{PYTEST} -q sub/none || {PYTEST} -q sub/tests", {}),
        (f"PYTEST_ADDOPTS='-k four' sh -c '{PYTEST} -q sub/tests'", {"sub/tests/test_no.py": "def test(): 1 / 0\n"}),
        (f"env PYTHONPATH= {PYTEST} -q sub/tests >/dev/null 2>&1", {}),
        (
            f"{sys.executable} run.py",
            {"run.py": "import os\nimport subprocess\n\nenv = dict(os.environ, PYTHONPATH=\"sub\")\n"
             f"raise SystemExit(subprocess.call(\"{PYTEST} -q sub/tests\", shell=True, env=env))\n"},
        ),
    ],
    ids=["a report of its own", "one after the other", "options of its own", "no plugin, said to nobody", "a program"],
)  # fmt: skip
def test_what_a_command_does_with_pytest_is_its_own_affair(make_repo: Make, command: str, files: Files) -> None:
    repo = make_repo({**BASE, **PLACES, **files}, resolved=False)
    verdict = judged(repo, command, {"sub/roman.py": ROMAN["roman.py"]}, trust=NORMAL)
    assert (verdict.accepted, codes(verdict), verdict.red_before) == (True, [], RED), verdict


WITH_ROWS = """\
import pytest

from roman import roman

ROWS = [(1, "I"), (2, "II"), (3, "III"), (4, "IV"), (5, "V"), (6, "VI")]


@pytest.mark.parametrize(("number", "text"), ROWS)
def test_rows(number, text):
    assert roman(number) == text
"""


@pytest.mark.scenario
@pytest.mark.parametrize(
    "command",
    [
        f"{PYTEST} -q sub/tests/test_roman.py",
        f"{PYTEST} -q 'sub/tests/test_roman.py::test_rows[4-IV]'",
        "make test",
        f"cd sub && {PYTEST} -q -x",
    ],
)
def test_expected_values_that_are_part_of_the_ids_of_tests(make_repo: Make, command: str) -> None:
    """They are other ones on the mutant that expects other values."""
    repo = make_repo({**BASE, **PLACES, "sub/tests/test_roman.py": WITH_ROWS}, resolved=False)
    verdict = judged(repo, command, {"sub/roman.py": EQUAL}, trust=NORMAL)
    assert (verdict.accepted, codes(verdict)) == (False, ["weak_test"]), verdict
    repo.sh("git", "reset", "-q", "--hard", repo.base)
    honest = "def roman(n):\n    return ['', 'I', 'II', 'III', 'IV', 'V', 'VI'][n]\n"
    verdict = judged(repo, command, {"sub/roman.py": honest}, trust=NORMAL)
    assert (verdict.accepted, codes(verdict)) == (True, []), verdict


@pytest.mark.scenario
def test_tests_that_only_crash_notice_nothing(repo: JudgedProject) -> None:
    """However many do before the run on a mutant is ended."""
    calls = "import pytest\n\nfrom roman import roman\n\n\n@pytest.mark.parametrize('n', [1, 4] * 4)\n"
    new = f"{calls}def test_roman(n):\n    roman(n).strip()\n"
    verdict = judged(repo, NAMED, {**ROMAN, "tests/test_roman.py": new}, trust=NORMAL)
    assert (verdict.accepted, codes(verdict)) == (False, ["weak_test"]), verdict


SKIPPING_HELPERS: Files = {
    "sub/tests/needs.py": "import pytest\n\n\ndef docker():\n    pytest.skip('none here')\n",
    "sub/tests/test_more.py": "from needs import docker\n\n\ndef test_more():\n    docker()\n",
    "sub/tests/test_own.py": (
        "import pytest\n\nfrom roman import roman\n\n\ndef test_own():\n    pytest.skip(roman(4))\n"
    ),
}


@pytest.mark.scenario
def test_tests_of_before_that_skip_themselves_in_a_folder(make_repo: Make) -> None:
    """By a module beside them, as on the code before; or by their own words, where that code could not run them."""
    repo = make_repo({**BASE, **PLACES, **SKIPPING_HELPERS}, resolved=False)
    verdict = judged(repo, WAYS["a folder"], {"sub/roman.py": ROMAN["roman.py"]})
    assert (verdict.accepted, codes(verdict)) == (True, []), verdict
    repo.sh("git", "reset", "-q", "--hard", repo.base)
    verdict = judged(repo, WAYS["a folder"], {"sub/roman.py": SKIPS, "sub/tests/test_new.py": "def test(): assert 1\n"})
    assert (verdict.accepted, codes(verdict)) == (False, ["proof_failed"]), verdict


ENDS_LATER = """\
import atexit
import importlib

atexit.register(lambda: getattr(importlib.import_module("o" + "s"), "_ex" + "it")(0))


def roman(n):
    return "I" * n
"""


@pytest.mark.parametrize("way", ["make", "two"])
def test_an_end_of_the_process_that_hides_failed_tests(make_repo: Make, way: str) -> None:
    repo = make_repo({**BASE, **PLACES}, resolved=False)
    verdict = judged(repo, WAYS[way], {"sub/roman.py": ENDS_LATER})
    assert (verdict.accepted, codes(verdict)) == (False, ["proof_failed"]), verdict
    assert "which it did not do on the base commit" in verdict.findings[0].message


def test_a_command_that_never_fails_is_told_of(make_repo: Make) -> None:
    repo = make_repo({**BASE, **PLACES}, resolved=False)
    verdict = judged(repo, f"cd sub && {PYTEST} -q | cat", {"sub/roman.py": "def roman(n):\n    return 'no'\n"})
    assert (verdict.accepted, codes(verdict)) == (True, ["green_before"]), verdict
