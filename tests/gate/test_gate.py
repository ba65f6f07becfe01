"""``harness gate`` in a repository that knows nothing of the harness: honest changes, lies, and what cannot be run.

A verdict by test ids starts pytest four to ten times. Rules that hold for every command are shown with a shell script.
"""

import shutil
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.cli.main import main
from agent_harness.testing import CommandResult, run_in_process
from agent_harness.testing.repo import Repo

SOURCE = "def add(a, b):\n    return a + b\n"
DOUBLE = f"{SOURCE}\n\ndef double(a):\n    return 2 * a\n"
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    ".gitignore": "__pycache__/\nREADME.md.orig\n",
    "docs/conf.py": "source_suffix = {'.md': 'markdown'}\n",
    "src/calc.py": SOURCE,
    "tests/test_add.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}
TEST = "from calc import double\n\n\ndef test_double():\n    assert double(4) == 8\n"
SCRIPT = {
    "Makefile": "test:\n\tsh check.sh\n",
    "check.sh": "#!/bin/sh\n. src/license.sh\ntest -e value.txt && test $TERMS = 3\n",
    "src/license.sh": "TERMS=3\n",
    "value.txt": "1\n",
}
HOLLOW = "import calc\n\n\ndef test_double():\n    assert calc\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    found = Repo.with_files(tmp_path / "project", FILES)
    found.git("switch", "-q", "-c", "work")
    return found


@pytest.fixture
def scripted(tmp_path: Path) -> Repo:
    found = Repo.with_files(tmp_path / "scripted", SCRIPT)
    found.git("switch", "-q", "-c", "work")
    return found


def gate(repo: Repo, *words: str) -> CommandResult:
    return run_in_process(main, "harness", "gate", *words, cwd=repo.path)


def judged(repo: Repo, *words: str) -> tuple[int, str, str, set[str]]:
    """Return the exit code, the verdict, the word and the codes of the critical findings."""
    before = everything(repo)
    ran = gate(repo, "--json", *words)
    assert everything(repo) == before, "the gate writes nothing"
    found = ran.json
    codes = {each["code"] for each in found["findings"] if each["severity"] == "CRITICAL"}
    return ran.code, found["verdict"], found["shown"], codes


def everything(repo: Repo) -> tuple[object, ...]:
    git = repo.path / ".git"
    kept = {path: path.read_bytes() for path in (git / "config", git / "HEAD", git / "index") if path.exists()}
    return kept, repo.git("for-each-ref"), repo.files(), sorted(each.name for each in git.iterdir())


def honest(repo: Repo) -> None:
    repo.write("src/calc.py", DOUBLE).write("tests/test_double.py", TEST).commit("Double")


def breaks(repo: Repo) -> None:
    repo.write("src/calc.py", DOUBLE.replace("a + b", "a - b")).write("tests/test_double.py", TEST).commit("Double")


def hollow(repo: Repo) -> None:
    repo.write("src/calc.py", DOUBLE).write("tests/test_double.py", HOLLOW).commit("Double")


def wrong(repo: Repo) -> None:
    repo.write("src/calc.py", DOUBLE.replace("2 * a", "a")).write("tests/test_double.py", TEST).commit("Double")


def bends(repo: Repo) -> None:
    text = "import pytest\n\n\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    text += "    report = yield\n    report.outcome = 'passed'\n    return report\n"
    wrong(repo)
    repo.write("conftest.py", text).commit("Settings")


def weakens(repo: Repo) -> None:
    only_product(repo)
    repo.write("tests/test_add.py", FILES["tests/test_add.py"].replace("== 3", "> 0")).commit("Tests")


def only_product(repo: Repo) -> None:
    repo.write("src/calc.py", f"# sums\n{SOURCE}").commit("Comment")


def only_documents(repo: Repo) -> None:
    repo.write("README.md", "# calc\n").commit("Readme")


def documents_that_a_test_reads(repo: Repo) -> None:
    repo.git("switch", "-q", "main")
    text = "from pathlib import Path\n\n\ndef test_readme():\n    assert 'calc' in Path('README.md').read_text()\n"
    repo.write("README.md", "# calc\n").write("tests/test_readme.py", text).commit("Readme")
    repo.git("switch", "-q", "-C", "work")
    repo.write("README.md", "# sums\n").commit("Readme")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (honest, (0, "accepted", "proven", set())),
        (only_product, (0, "accepted", "not shown", set())),
        (only_documents, (0, "accepted", "not shown", set())),
        (documents_that_a_test_reads, (1, "rejected", "regression")),
        pytest.param(breaks, (1, "rejected", "regression"), marks=pytest.mark.scenario),
        (hollow, (1, "rejected", "proof_not_red")),
        pytest.param(wrong, (1, "rejected", "proof_failed"), marks=pytest.mark.scenario),
        (bends, (1, "rejected", "runner_config_changed")),
        (weakens, (3, "needs a person", "protected_test_changed")),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
def test_the_verdict_on_a_change(repo: Repo, change: Callable[[Repo], None], expected: tuple[object, ...]) -> None:
    change(repo)
    code, verdict, shown, codes = judged(repo)
    if code == 0:
        assert (code, verdict, shown, codes) == expected
    else:
        assert (code, verdict) == expected[:2]
        assert expected[2] in codes


def test_an_older_test_in_a_file_that_gains_tests_still_counts(repo: Repo) -> None:
    repo.write("src/calc.py", DOUBLE.replace("a + b", "a - b"))
    repo.write("tests/extra.py", "import calc\n\ncalc.add = lambda a, b: 3\n")
    more = (
        "\n\ndef test_double():\n    from calc import double\n    import extra\n\n    assert extra and double(4) == 8\n"
    )
    repo.write("tests/test_add.py", f"import extra\n{FILES['tests/test_add.py']}{more}").commit("Double")
    assert judged(repo)[:2] == (1, "rejected")


def test_code_is_no_document_and_a_tag_is_no_branch(scripted: Repo) -> None:
    scripted.write("src/license.sh", "TERMS=4\n").commit("Terms")
    scripted.git("tag", "main", "work~1")
    assert judged(scripted)[:2] == (1, "rejected")
    scripted.git("tag", "-f", "main", "work")
    assert judged(scripted)[:2] == (1, "rejected")


def test_a_person_allows_a_change_of_an_older_test(scripted: Repo) -> None:
    scripted.write("check.sh", "#!/bin/sh\n. src/license.sh\ntrue\n").commit("Weaker")
    ran = gate(scripted)
    assert ran.code == 3
    assert "harness gate --allow check.sh" in ran.out
    assert "check.sh:3: " in ran.out
    assert gate(scripted, "--allow", "check.sh").code == 0


@pytest.mark.scenario
def test_the_question_shows_the_older_and_the_newer_expectation(repo: Repo) -> None:
    weakens(repo)
    sides = ("old tests/test_add.py:5: assert add(1, 2) == 3", "new tests/test_add.py:5: assert add(1, 2) > 0")
    assert "\n".join(f"    {each}" for each in sides) in gate(repo).out


def test_what_the_tests_must_show_is_the_users_choice(scripted: Repo) -> None:
    scripted.write("value.txt", "2\n").commit("Two")
    ran = gate(scripted, "--require", "checked")
    assert (ran.code, "NEEDS A PERSON: not shown" in ran.out) == (3, True), ran
    assert "add a test that shows the change" in ran.out
    (scripted.path / "src/inner").mkdir()
    ran = run_in_process(main, "harness", "gate", cwd=scripted.path / "src/inner")
    assert (ran.code, "not shown" in ran.out) == (0, True), ran


def test_work_among_the_installed_packages_needs_a_person(repo: Repo, tmp_path: Path) -> None:
    repo.git("switch", "-q", "main")
    repo.write("check.py", "import sys\n\nsys.path.insert(0, 'src')\nimport calc\n\nassert calc.add(1, 2) == 3\n")
    repo.commit("Check")
    repo.git("switch", "-q", "-C", "work")
    venv.create(tmp_path / "env", symlinks=True)
    site = next((tmp_path / "env/lib").glob("python*/site-packages"))
    (site / "work_of_an_agent.py").write_text(DOUBLE)
    repo.write("src/calc.py", "from work_of_an_agent import add, double\n").commit("Double")
    command = f"{tmp_path}/env/bin/python check.py"
    ran = gate(repo, "--check", command)
    assert ran.code == 3, ran
    assert "src/calc.py imports work_of_an_agent, which is in no commit" in ran.out
    assert gate(repo, "--check", command, "--allow", f"{site}/work_of_an_agent.py").code == 0


def test_a_test_that_failed_before_does_not_count(repo: Repo) -> None:
    repo.git("switch", "-q", "main")
    repo.write("tests/test_old.py", "def test_old():\n    assert False\n").commit("Red")
    repo.git("switch", "-q", "-C", "work")
    only_product(repo)
    ran = gate(repo)
    assert (ran.code, "ACCEPTED: not shown" in ran.out) == (0, True), ran
    assert "1 failed before and do not count" in ran.out


def test_uncommitted_files_are_judged_on_request(scripted: Repo) -> None:
    scripted.write("value.txt", "2\n")
    ran = gate(scripted)
    assert (ran.code, "harness gate --worktree" in ran.err) == (4, True), ran
    assert judged(scripted, "--worktree")[:3] == (0, "accepted", "not shown")
    scripted.write("src/license.sh", "TERMS=4\n")
    assert judged(scripted, "--worktree")[:2] == (1, "rejected")


def test_any_other_command_is_judged_by_its_exit_status(scripted: Repo) -> None:
    scripted.write("value.txt", "2\n").commit("Two")
    assert "make test (found in Makefile)" in gate(scripted).out
    assert judged(scripted)[:3] == (0, "accepted", "not shown")
    scripted.git("rm", "-q", "value.txt")
    assert judged(scripted.commit("Gone"))[:2] == (1, "rejected")


def test_a_generated_version_is_there_and_no_other_generated_file(tmp_path: Path) -> None:
    files = {".gitignore": "_version.py\n", "pkg/__init__.py": "from pkg._version import version\n"}
    repo = Repo.with_files(tmp_path / "project", {**files, "Makefile": "test:\n\tpython3 -c 'import pkg'\n"})
    repo.git("switch", "-q", "-c", "work")
    repo.write("pkg/other.py", "").commit("Other")
    repo.write("pkg/_version.py", "version = '1.0'\n")
    assert judged(repo)[:2] == (0, "accepted")
    repo.write("pkg/_version.py", "version = str(1.0)\n")
    assert judged(repo)[:2] == (1, "rejected")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--base", "nowhere"), 2, "'nowhere' is not a commit of this repository"),
        (("--check", " "), 2, "--check has no command"),
        (("--check", "no-such-program"), 4, "`no-such-program` cannot be run"),
        (("--test", "tests/none.py::test_a"), 2, "--test tests/none.py::test_a: "),
        (("--head", "main"), 4, "main contains no change after main"),
    ],
)
def test_what_cannot_be_judged_is_one_line_with_the_next_command(
    repo: Repo, words: tuple[str, ...], code: int, said: str
) -> None:
    honest(repo)
    ran = gate(repo, *words)
    assert (ran.code, said in ran.err) == (code, True), ran
    assert "harness gate" in ran.err or "git " in ran.err


def test_a_folder_without_git_or_tests(tmp_path: Path) -> None:
    repo = Repo.with_files(tmp_path / "project", {"a.c": "int a;\n"})
    repo.git("switch", "-q", "-c", "work")
    repo.write("a.c", "int b;\n").commit("B")
    ran = gate(repo)
    assert (ran.code, "harness gate --check 'COMMAND THAT RUNS THE TESTS'" in ran.err) == (4, True), ran
    (tmp_path / "plain").mkdir()
    ran = run_in_process(main, "harness", "gate", cwd=tmp_path / "plain")
    assert (ran.code, "is not in a git repository" in ran.err) == (4, True), ran


JS_ADD = """\
const test = require('node:test');
const assert = require('node:assert');
const calc = require('../calc');
test('adds', () => { assert.strictEqual(calc.add(1, 2), 3); });
"""
JS_CODE = "exports.add = (a, b) => a + b;\n"
JS_DOUBLE = f"{JS_CODE}exports.double = (a) => 2 * a;\n"
JS_TEST = JS_ADD.replace("'adds'", "'doubles'").replace("add(1, 2), 3", "double(4), 8")
JS_WRONG = {"calc.js": JS_DOUBLE.replace("a + b", "a - b"), "test/add.test.js": JS_ADD.replace("3)", "-1)")}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("files", "judgement"),
    [
        ({"calc.js": JS_DOUBLE, "test/double.test.js": JS_TEST}, (0, "accepted", "proven", set[str]())),
        (JS_WRONG, (3, "needs a person", "proven", {"protected_test_changed"})),
        ({"calc.js": f"process.exit(0);\n{JS_DOUBLE}"}, (1, "rejected", "not shown", {"regression"})),
    ],
    ids=["honest", "another result is expected", "the module ends the process"],
)
def test_a_project_in_javascript_is_judged_by_test_ids(
    tmp_path: Path, files: dict[str, str], judgement: tuple[int, str, str, set[str]]
) -> None:
    package = '{"name": "calc", "scripts": {"test": "node --test"}}\n'
    repo = Repo.with_files(
        tmp_path / "project", {"package.json": package, "calc.js": JS_CODE, "test/add.test.js": JS_ADD}
    )
    repo.git("switch", "-q", "-c", "work")
    for path, text in files.items():
        repo.write(path, text)
    repo.commit("Work")
    assert judged(repo) == judgement
