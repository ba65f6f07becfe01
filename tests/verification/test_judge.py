"""Verdicts on real commits: honest work is accepted, and every cheat that we know of is not."""

import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent_harness.errors import Interrupted
from agent_harness.kernel import process
from agent_harness.verification.guard import read_by_tests
from agent_harness.verification.runner.execution import run_tests
from agent_harness.verification.verdict import OFF, Strictness, Verdict

from .sample import (
    ADD,
    ADD_CODE,
    ADD_IDS,
    ADD_TEST,
    FILES,
    HONEST,
    INI,
    PYTEST,
    SUB,
    SUB_CODE,
    SUB_TEST,
    SUITE,
    JudgedProject,
    codes,
)

Files = Mapping[str, str | bytes | None]
Make = Callable[..., JudgedProject]
SUB_ID = f"{SUB}::test_sub"
PROOF = f"{PYTEST} {SUB} -v"
STEPS = ("guard", "proof", "suite", "red", "twins")


def all_codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def test_honest_work_is_accepted(repo: JudgedProject) -> None:
    """UAH-293, UAH-294."""
    heard: list[tuple[object, ...]] = []
    verdict = repo.judge(HONEST, on_step=lambda *step: heard.append(step[:2]))
    assert verdict.accepted, verdict.findings
    assert verdict.findings == ()
    assert verdict.passing == {*ADD_IDS, SUB_ID}
    assert verdict.total == 4
    assert heard == [(step, state) for step in STEPS for state in ("started", "passed")]
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("worktree", "list").count("\n") == 0


def test_a_lie_without_code(repo: JudgedProject) -> None:
    """UAH-304, UAH-554, S03 a."""
    verdict = repo.judge({})
    assert codes(verdict) == ["proof_failed"]
    assert "Feature test failed when harness ran it." in verdict.reasons[0].message
    assert (verdict.suite, verdict.red) == (None, None)
    assert verdict.proof is not None
    assert "Not implemented" in verdict.proof.output


def test_wrong_code_is_rejected_and_the_repaired_code_accepted(repo: JudgedProject) -> None:
    """S03 b."""
    wrong = repo.judge({"src/calc.py": SUB_CODE.replace("a - b", "a + b"), SUB: SUB_TEST})
    assert codes(wrong) == ["proof_failed"]
    assert wrong.reasons[0].data["failing"] == [SUB_ID]
    assert repo.judge(HONEST).accepted


def test_breaking_an_older_feature_is_a_regression(repo: JudgedProject) -> None:
    """UAH-305, UAH-306, UAH-537, S06."""
    verdict = repo.judge({**HONEST, "src/calc.py": SUB_CODE.replace("return a + b", "return 0")})
    assert codes(verdict) == ["regression"]
    assert verdict.regressions == (ADD_IDS[0],)
    assert verdict.reasons[0].message == f"Regression: {ADD_IDS[0]} tests now failing"
    assert verdict.red is None


GREEN_HOOK = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)
BROKEN_ADD = SUB_CODE.replace("a + b", "0")
HOLLOW = "def test_one(): pass\n\n\ndef test_two(): pass\n"
PROTECTED, CONFIG, SHADOW = "protected_test_changed", "runner_config_changed", "shadowing_file"
WEAKENED: dict[str, tuple[Files, str]] = {
    "S08a-deleted": ({ADD: None}, PROTECTED),
    "S08b-hollow": ({ADD: HOLLOW, "src/calc.py": BROKEN_ADD}, PROTECTED),
    "S08c-skipped": ({ADD: "import pytest\n\npytestmark = pytest.mark.skip\n" + ADD_TEST}, PROTECTED),
    "S08d-conftest": ({"tests/conftest.py": GREEN_HOOK}, CONFIG),
    "S08d-conftest-at-the-top": ({"conftest.py": GREEN_HOOK, "src/calc.py": BROKEN_ADD}, CONFIG),
    "deselected": ({"pytest.ini": INI + "addopts = -k sub\n", "src/calc.py": BROKEN_ADD}, CONFIG),
    "shadowing": ({"pytest.py": "print('2 passed')\n", "src/calc.py": BROKEN_ADD}, SHADOW),
    "import-root-of-the-settings": ({"src/random.py": "x = 1\n"}, SHADOW),
    "started": ({"src/sitecustomize.py": "import os\n"}, SHADOW),
}


@pytest.mark.parametrize(("files", "code"), WEAKENED.values(), ids=WEAKENED.keys())
def test_weakened_tests_are_rejected_before_anything_runs(repo: JudgedProject, files: Files, code: str) -> None:
    """C54."""
    verdict = repo.judge({**HONEST, **files})
    assert codes(verdict) == [code]
    assert verdict.proof is None


def test_a_trivial_test_proves_nothing(repo: JudgedProject) -> None:
    """C54, S08 e."""
    verdict = repo.judge({SUB: "def test_x():\n    pass\n"})
    assert codes(verdict) == ["proof_not_red"]
    assert "trivial_test" in all_codes(verdict)


def test_a_trivial_test_that_was_red_is_named_and_proves_nothing(repo: JudgedProject) -> None:
    """C54: nothing depends on what ``sub`` answers."""
    verdict = repo.judge({"src/calc.py": SUB_CODE, SUB: "from calc import sub\n\n\ndef test_x():\n    sub(1, 2)\n"})
    assert codes(verdict) == ["weak_test"]
    assert all_codes(verdict) == ["trivial_test", "weak_test"]


@pytest.mark.scenario
def test_pure_refactoring_needs_no_red(repo: JudgedProject) -> None:
    files = {"src/calc.py": ADD_CODE + "\n\nplus = add\n", SUB: ADD_TEST}
    assert codes(repo.judge(files, suite=None)) == ["proof_not_red"]
    assert repo.judge(files, suite=None, options=Strictness(requires_red=OFF)).accepted


@pytest.mark.scenario
def test_one_new_test_among_old_ones_is_enough(repo: JudgedProject) -> None:
    assert repo.judge({"src/calc.py": SUB_CODE, SUB: ADD_TEST + "\n\n" + SUB_TEST}).accepted


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\n\n\n@pytest.mark.skip\ndef test_sub():\n    assert False\n",
        "import pytest\n\n\n@pytest.mark.xfail\ndef test_sub():\n    assert False\n",
        "",
        "def test_sub(:\n",
        "import os\nos._exit(0)\n",
    ],
    ids=["skipped", "xfail", "empty", "broken", "ends-the-process"],
)
def test_an_own_test_that_does_not_pass_is_no_proof(repo: JudgedProject, text: str) -> None:
    assert codes(repo.judge({"src/calc.py": SUB_CODE, SUB: text})) == ["proof_failed"]


SKIPPED = {
    "in the test": f"{SUB_TEST}\n\ndef test_hard():\n    pytest.skip('too hard')\n",
    "by unittest": f"{SUB_TEST}\n\nclass TestHard(unittest.TestCase):\n"
    "    def test_it(self):\n        self.skipTest('hard')\n",
    "in a fixture": f"{SUB_TEST}\n\n@pytest.fixture\ndef hard():\n    pytest.skip('too hard')\n\n\n"
    "def test_hard(hard):\n    assert 0\n",
    "given up": f"{SUB_TEST}\n\ndef test_hard():\n    pytest.xfail('too hard')\n",
}


@pytest.mark.parametrize("text", SKIPPED.values(), ids=SKIPPED.keys())
def test_a_test_that_skips_itself_while_it_runs_proves_nothing(repo: JudgedProject, text: str) -> None:
    """C54: whoever skips the hard cases has not built them."""
    verdict = repo.judge({"src/calc.py": SUB_CODE, SUB: f"import unittest\n\nimport pytest\n{text}"})
    assert codes(verdict) == ["proof_failed"]
    assert "skipped while it ran" in verdict.reasons[0].message


def test_a_skip_that_comes_from_the_product_is_none_of_the_tests(repo: JudgedProject) -> None:
    code = SUB_CODE.replace(
        "    return a - b", "    if b > 1:\n        raise unittest.SkipTest('hard')\n    return a - b"
    )
    easy = "def test_easy():\n    assert sub(1, 1) == 0\n"
    test = f"from calc import sub\n\n\n{easy}\n\ndef test_sub():\n    assert sub(5, 3) == 2\n"
    verdict = repo.judge({"src/calc.py": f"import unittest\n\n\n{code}", SUB: test})
    assert codes(verdict) == ["proof_failed"]


@pytest.mark.parametrize("mark", ["skip(reason='later')", "skipif(True, reason='later')", "xfail(reason='later')"])
@pytest.mark.parametrize("workers", ["", "-n 2"])
@pytest.mark.scenario
def test_a_mark_may_skip_a_test_beside_others(repo: JudgedProject, mark: str, workers: str) -> None:
    text = f"{SUB_TEST}\n\n@pytest.mark.{mark}\ndef test_later():\n    assert 0\n"
    files = {"src/calc.py": SUB_CODE, SUB: f"import pytest\n\n{text}"}
    assert repo.judge(files, proof=PROOF.replace("-p no:xdist", workers)).accepted


def test_what_is_not_committed_proves_nothing(repo: JudgedProject) -> None:
    """Untracked, ignored, cached and flagged files make the tests pass in the folder, and not in the commit.

    UAH-010, UAH-560
    """
    repo.put({"src/calc.py": ADD_CODE + "\n\nfrom build.hidden import sub\n", SUB: SUB_TEST})
    repo.put({"build/hidden.py": "def sub(a, b):\n    return a - b\n"})
    commit = repo.commit()
    command = [*PYTEST.split(), SUB, "-q"]
    assert subprocess.run(command, cwd=repo.root, capture_output=True, check=False).returncode == 0
    assert codes(repo.judge(commit)) == ["proof_failed"]


def compile_answers(repo: JudgedProject) -> None:
    """Puts compiled code into the folder that the source does not say, marked as never to be checked."""
    repo.put({"answers.py": SUB_CODE})
    cached = "importlib.util.cache_from_source('src/calc.py')"
    mode = "py_compile.PycInvalidationMode.UNCHECKED_HASH"
    code = f"import importlib.util, py_compile; py_compile.compile('answers.py', {cached}, invalidation_mode={mode})"
    repo.sh(sys.executable, "-c", code)
    repo.put({"answers.py": None})


@pytest.mark.scenario
def test_an_answer_in_the_cache_of_compiled_code_proves_nothing(repo: JudgedProject) -> None:
    compile_answers(repo)
    repo.put({SUB: SUB_TEST})
    cached = [str(path.relative_to(repo.root)) for path in (repo.root / "src/__pycache__").iterdir()]
    command = [*PYTEST.split(), SUB, "-q"]
    assert subprocess.run(command, cwd=repo.root, capture_output=True, check=False).returncode == 0
    assert codes(repo.judge(repo.commit())) == ["proof_failed"]
    verdict = repo.judge(repo.commit(force=cached))
    assert codes(verdict) == ["proof_failed"]
    assert "compiled_file" in all_codes(verdict)


def test_a_file_that_git_is_told_to_overlook(repo: JudgedProject) -> None:
    repo.git("update-index", "--assume-unchanged", "src/calc.py")
    commit = repo.commit({"src/calc.py": SUB_CODE, SUB: SUB_TEST})
    assert repo.git("show", f"{commit}:src/calc.py") + "\n" == ADD_CODE
    assert codes(repo.judge(commit)) == ["proof_failed"]


def test_a_commit_that_is_not_what_it_names_is_rejected(repo: JudgedProject) -> None:
    """Of a file whose content is read by the rules, and of one that only the checkout looks at."""
    for path in ("src/calc.py", "data.txt"):
        commit = repo.commit({**HONEST, "data.txt": "1\n"})
        name = repo.git("rev-parse", f"{commit}:{path}").strip()
        place = repo.root / ".git/objects" / name[:2] / name[2:]
        good = place.read_bytes()
        place.chmod(0o644)
        place.write_bytes(zlib.compress(b"blob 6\0x = 1\n\n"))
        assert codes(repo.judge(commit)) == ["damaged_commit"]
        place.write_bytes(good)


def test_a_server_that_the_agent_left_is_gone_before_the_tests(repo: JudgedProject, tmp_path: Path) -> None:
    """The agent's processes end with the agent; what only they could answer is not answered."""
    place = tmp_path / "s"
    serve = (
        "import os, socket, sys\nif os.fork(): sys.exit()\nos.setsid()\n"
        f"s = socket.socket(socket.AF_UNIX); s.bind({str(place)!r}); s.listen()\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "while True: s.accept()[0].sendall(b'1')\n"
    )
    wait = f'{sys.executable} -c "{serve}"; while [ ! -e {tmp_path}/ready ]; do sleep 0.05; done'
    process.run(wait, cwd=repo.root, env=dict(os.environ), timeout_seconds=60)
    asks = (
        "import socket\n\n\ndef test_sub():\n    s = socket.socket(socket.AF_UNIX)\n"
        f"    s.connect({str(place)!r})\n    assert s.recv(1) == b'1'\n"
    )
    assert (tmp_path / "ready").exists()
    assert codes(repo.judge({SUB: asks})) == ["proof_failed"]


def test_a_regression_hidden_by_new_test_code_is_found(repo: JudgedProject) -> None:
    """A new test that mends the broken product for all others: the suite is the older tests alone.

    UAH-562, C54
    """
    mends = "import calc\n\ncalc.add = lambda a, b: a + b\n\n\ndef test_nothing():\n    assert calc.add(1, 1) == 2\n"
    verdict = repo.judge({**HONEST, "src/calc.py": BROKEN_ADD, "tests/e2e/test_aaa.py": mends})
    assert codes(verdict) == ["regression"]
    assert "test_reaches_out" in all_codes(verdict)


def test_what_no_rule_sees_in_a_new_test_mends_nothing(repo: JudgedProject) -> None:
    mends = (
        "import calc\n\n\ndef _mended():\n    vars(calc).update(add=lambda a, b: a + b)\n\n\n_DONE = _mended()\n"
        "\n\ndef test_sub():\n    assert calc.sub(3, 2) == 1\n"
    )
    verdict = repo.judge({SUB: mends, "src/calc.py": BROKEN_ADD})
    assert codes(verdict) == ["regression"]
    assert [each.step for each in verdict.steps] == ["guard", "proof", "suite"]


@pytest.mark.scenario
def test_what_a_person_has_written_as_acceptance_test_stays(repo: JudgedProject) -> None:
    waiting = (
        'import calc\nimport pytest\n\n\n@pytest.mark.skip("to be built")\n'
        + SUB_TEST.partition("import calc\n\n\n")[2]
    )
    begun = waiting.replace('@pytest.mark.skip("to be built")\n', "")
    repo.base = repo.commit({SUB: waiting})
    weak = {"src/calc.py": SUB_CODE.replace("a - b", "a + b"), SUB: begun.replace("== 1", "== 5")}
    assert codes(repo.judge(weak)) == ["protected_test_changed"]
    assert codes(repo.judge({SUB: "def test_other():\n    assert True\n"})) == ["protected_test_changed"]
    more = {**HONEST, SUB: begun + "\n\ndef test_none():\n    assert calc.sub(1, 1) == 0\n"}
    verdict = repo.judge(more)
    assert verdict.accepted, verdict.findings
    assert repo.judge({**HONEST, SUB: SUB_TEST.replace("(3, 2)", "(4, 3)")}, own_may_change=True).accepted


CHECKED = {"pytest.ini": INI + "python_files = test_*.py check_*.py\naddopts = --doctest-modules\n"}


@pytest.mark.scenario
def test_a_test_that_only_its_id_tells_is_an_older_test(make_repo: Make) -> None:
    check = "import calc\n\n\ndef test_sum():\n    assert calc.add(2, 2) == 4\n"
    repo = make_repo({**FILES, **CHECKED, "checks/check_sum.py": check})
    baseline = [*ADD_IDS, "checks/check_sum.py::test_sum"]
    suite = f"{PYTEST} tests checks"
    weak = {**HONEST, "checks/check_sum.py": check.replace("== 4", "is not None")}
    assert codes(repo.judge(weak, baseline=baseline, suite=suite)) == ["protected_test_changed"]
    repo.git("reset", "-q", "--hard", repo.base)
    more = {**HONEST, "checks/check_sum.py": check + "\n\ndef test_more():\n    assert calc.add(1, 1) == 2\n"}
    verdict = repo.judge(more, baseline=baseline, suite=suite)
    assert verdict.accepted, verdict.findings
    assert "checks/check_sum.py::test_more" in verdict.passing


@pytest.mark.scenario
def test_examples_of_documentation_that_pass_are_older_tests(make_repo: Make) -> None:
    documented = 'def add(a, b):\n    """The sum.\n\n    >>> add(1, 2)\n    3\n    """\n    return a + b\n'
    sub = "\n\ndef sub(a, b):\n    return a - b\n"
    repo = make_repo({**FILES, **CHECKED, "src/calc.py": documented})
    settings = {"baseline": [*ADD_IDS, "src/calc.py::calc.add"], "suite": f"{PYTEST} tests src"}
    other = documented.replace("return a + b", "return a + b if a != 1 else 7").replace("    3\n", "    7\n")
    assert codes(repo.judge({**HONEST, "src/calc.py": other + sub}, **settings)) == ["protected_test_changed"]
    repo.git("reset", "-q", "--hard", repo.base)
    more = documented.replace("The sum.", "What two numbers come to.").replace(
        "    3\n", "    3\n    >>> add(0, 0)\n    0\n"
    )
    assert repo.judge({**HONEST, "src/calc.py": more + sub}, **settings).accepted


@pytest.mark.scenario
def test_data_that_older_tests_read_is_judged_as_it_was_too(make_repo: Make) -> None:
    golden = "import pathlib\n" + ADD_TEST.replace("== 3", "== int(pathlib.Path('golden/sum.txt').read_text())")
    repo = make_repo({**FILES, ADD: golden, "golden/sum.txt": "3\n", "golden/other.txt": "0\n"})
    run = run_tests(repo.client, repo.base, SUITE, environment=repo.environment, keep_going=True)
    assert run.report
    read = read_by_tests(run.report.opened)
    assert read == ["golden/sum.txt"]
    bent = SUB_CODE.replace("return a + b", "return a + b + (a == 1)")
    verdict = repo.judge({**HONEST, "src/calc.py": bent, "golden/sum.txt": "4\n"}, files_read=read)
    assert codes(verdict) == ["protected_test_changed"]
    assert "golden/sum.txt" in verdict.reasons[0].message
    repo.git("reset", "-q", "--hard", repo.base)
    verdict = repo.judge({**HONEST, "golden/sum.txt": "03\n"}, files_read=read)
    assert verdict.accepted, verdict.findings
    assert all_codes(verdict) == ["test_support_changed"]


BY_CAT = """\
import subprocess
import calc


def test_table():
    table = subprocess.run(["cat", "data/sums.csv"], capture_output=True, text=True, check=True).stdout
    for a, b, total, *_ in (line.split(",") for line in table.split()):
        assert calc.add(int(a), int(b)) == int(total)
"""
READS = "import csv\n\n\ndef rows():\n    return [row[:3] for row in csv.reader(open('data/sums.csv'))]\n"
MORE = READS.replace("row[:3]", "[*row[:3], row[3]]")
OLDER = """\
import calc
import table


def test_table():
    for a, b, total, *_ in table.rows():
        assert calc.add(int(a), int(b)) == int(total)
"""
DATA: dict[str, tuple[Files, Files, list[str]]] = {
    "a program reads it": (
        {"tests/test_table.py": BY_CAT},
        {"src/calc.py": SUB_CODE.replace("a + b", "a + b + 1"), "data/sums.csv": "1,2,4\n"},
        [PROTECTED],
    ),
    "the product reads it": (
        {"tests/test_table.py": OLDER, "src/table.py": READS},
        {"src/calc.py": SUB_CODE.replace("a + b", "a + b + 1"), "data/sums.csv": "1,2,4\n"},
        [PROTECTED],
    ),
    "a row more": ({"tests/test_table.py": BY_CAT}, {"data/sums.csv": "1,2,3\n2,2,4\n"}, []),
    "a column that the product needs": (
        {"tests/test_table.py": OLDER, "src/table.py": READS},
        {"src/table.py": MORE, "data/sums.csv": "1,2,3,x\n"},
        [],
    ),
}


@pytest.mark.parametrize(("base", "work", "wanted"), DATA.values(), ids=DATA.keys())
def test_data_that_nobody_was_seen_to_read_is_put_back_for_the_older_tests(
    make_repo: Make, base: Files, work: Files, wanted: list[str]
) -> None:
    repo = make_repo({**FILES, "data/sums.csv": "1,2,3\n", ADD: "def test_one():\n    pass\n", **base})
    verdict = repo.judge({**HONEST, **work}, baseline=["tests/test_table.py::test_table"], protected=())
    assert codes(verdict) == wanted, verdict.findings
    if wanted:
        assert verdict.reasons[0].message.startswith("The session changes data/sums.csv; with its base version, ")


@pytest.mark.scenario
def test_a_test_that_comes_and_goes_only_now_is_no_flaky_one(repo: JudgedProject, tmp_path: Path) -> None:
    seen = f"import pathlib\n\nSEEN = pathlib.Path({str(tmp_path / 'seen')!r})\n\n\n"
    late = SUB_CODE.replace(
        "return a + b", "if not SEEN.exists():\n        SEEN.touch()\n        return 0\n    return a + b"
    )
    verdict = repo.judge({**HONEST, "src/calc.py": seen + late})
    assert codes(verdict) == ["unsteady_test"]
    assert verdict.flaky == ()


UNIT = {
    "tests/unit/__init__.py": "",
    "tests/unit/helpers.py": "import calc\n\n\ndef added(a, b):\n    return calc.add(a, b)\n",
    "tests/unit/test_free.py": "from .helpers import added\n\n\ndef test_free():\n    assert added(2, 2) == 4\n",
}


@pytest.mark.scenario
def test_a_test_file_that_moved_is_known_by_its_new_name(make_repo: Make) -> None:
    """With all of its folder; what other tests would miss is a regression."""
    repo = make_repo({**FILES, **UNIT})
    baseline = [*ADD_IDS, "tests/unit/test_free.py::test_free"]
    away = {f"tests/small/{Path(name).name}": text for name, text in UNIT.items()}
    moved = {**dict.fromkeys(UNIT), **away}
    verdict = repo.judge({**HONEST, **moved}, baseline=baseline)
    assert verdict.accepted, verdict.findings
    assert verdict.passing == {*ADD_IDS, SUB_ID, "tests/small/test_free.py::test_free"}
    assert verdict.found("test_moved")


def test_a_test_file_that_moved_does_not_hide_what_broke(make_repo: Make) -> None:
    repo = make_repo({**FILES, **UNIT})
    baseline = [*ADD_IDS, "tests/unit/test_free.py::test_free"]
    away = {f"tests/small/{Path(name).name}": text for name, text in UNIT.items()}
    bent = SUB_CODE.replace("a + b", "a + b if (a, b) in ((1, 2), (-1, 1)) else 0")
    verdict = repo.judge({**HONEST, **dict.fromkeys(UNIT), **away, "src/calc.py": bent}, baseline=baseline)
    assert codes(verdict) == ["regression"]
    assert verdict.regressions == ("tests/unit/test_free.py::test_free",)


def test_a_test_file_that_moved_to_what_makes_it_pass_is_rejected(make_repo: Make) -> None:
    """Its tests are the same ones, and what they stand on is found in another folder now."""
    repo = make_repo({**FILES, **UNIT})
    baseline = [*ADD_IDS, "tests/unit/test_free.py::test_free"]
    away = {f"tests/small/{Path(name).name}": text for name, text in UNIT.items()}
    fakes = {
        "tests/small/helpers.py": "def added(a, b):\n    return 4\n",
        "tests/small/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef box():\n    return 4\n",
    }
    for path, text in fakes.items():
        moved = {**dict.fromkeys(UNIT), **away, path: text}
        kept = {name: text for name, text in moved.items() if name != "tests/unit/helpers.py"}
        assert "protected_test_changed" in codes(repo.judge({**HONEST, **kept}, baseline=baseline))
        repo.git("reset", "-q", "--hard", repo.base)


@pytest.mark.scenario
def test_a_test_that_takes_the_place_of_an_inherited_one_is_rejected(make_repo: Make) -> None:
    mixed = "from .cases import Cases\n\n\nclass TestMore(Cases):\n    def test_own(self):\n        assert Cases\n"
    cases = "import calc\n\n\nclass Cases:\n    def test_free(self):\n        assert calc.add(2, 2) == 4\n"
    unit = {"tests/unit/__init__.py": "", "tests/unit/cases.py": cases, "tests/unit/test_more.py": mixed}
    repo = make_repo({**FILES, **unit})
    ids = [f"tests/unit/test_more.py::TestMore::{name}" for name in ("test_own", "test_free")]
    hollow = {"tests/unit/test_more.py": mixed + "\n    def test_free(self):\n        assert Cases\n"}
    verdict = repo.judge({**HONEST, **hollow}, baseline=[*ADD_IDS, *ids])
    assert codes(verdict) == ["protected_test_changed"]
    assert (
        "replaces tests of other features: tests/unit/test_more.py::TestMore::test_free" in verdict.reasons[0].message
    )
    repo.git("reset", "-q", "--hard", repo.base)
    more = {"tests/unit/test_more.py": mixed + "\n    def test_other(self):\n        assert Cases\n"}
    assert repo.judge({**HONEST, **more}, baseline=[*ADD_IDS, *ids]).accepted


@pytest.mark.scenario
def test_tests_added_to_anothers_file_count_and_hide_nothing(repo: JudgedProject) -> None:
    more = ADD_TEST + "\n\ndef test_three():\n    assert calc.add(0, 0) == 0\n"
    verdict = repo.judge({**HONEST, ADD: more})
    assert verdict.accepted, verdict.findings
    assert verdict.passing == {*ADD_IDS, SUB_ID, f"{ADD}::test_three"}
    mends = ADD_TEST + "\n\ndef test_aaa():\n    vars(calc).update(add=lambda a, b: a + b)\n    assert calc\n"
    first = "import calc\n\n\ndef test_aaa():\n    vars(calc).update(add=lambda a, b: a + b)\n    assert calc\n"
    for text in (mends, first + mends.partition("import calc\n")[2]):
        broken = {**HONEST, "src/calc.py": BROKEN_ADD, ADD: text}
        assert codes(repo.judge(broken))[0] in ("regression", "protected_test_changed")


def test_product_code_that_ends_the_process_is_rejected(repo: JudgedProject) -> None:
    verdict = repo.judge(
        {SUB: SUB_TEST, "src/calc.py": ADD_CODE + "\n\ndef sub(a, b):\n    import os\n    os._exit(0)\n"}
    )
    assert codes(verdict) == ["proof_failed"]
    assert "ended before its session was over in tests/e2e/test_sub.py::test_sub" in verdict.reasons[0].message


@pytest.mark.scenario
def test_a_shared_test_file_keeps_its_older_tests(make_repo: Make) -> None:
    path = "tests/test_all.py"
    both = ADD_TEST + "\n\ndef test_sub():\n    raise NotImplementedError\n"
    repo = make_repo({"pytest.ini": INI, "src/calc.py": ADD_CODE, path: both})
    settings = {
        "test_files": [f"{path}::test_sub"],
        "protected": [f"{path}::test_one", f"{path}::test_two"],
        "baseline": [f"{path}::test_one", f"{path}::test_two"],
        "proof": f"{PYTEST} {path}::test_sub",
    }
    honest = ADD_TEST + "\n\ndef test_sub():\n    assert calc.sub(3, 2) == 1\n"
    verdict = repo.judge({"src/calc.py": SUB_CODE, path: honest}, **settings)
    assert verdict.accepted, verdict.findings
    assert f"{path}::test_sub" in verdict.passing
    assert len(verdict.passing) == 3
    weak = honest.replace("== 3", "> 0")
    assert codes(repo.judge({path: weak}, **settings)) == ["protected_test_changed"]


@pytest.mark.scenario
def test_new_fixtures_in_a_conftest(repo: JudgedProject) -> None:
    conftest = "import pytest\n\n\n@pytest.fixture\ndef three():\n    return 3\n"
    uses = "import calc\n\n\ndef test_sub(three):\n    assert calc.sub(three, 2) == 1\n"
    verdict = repo.judge({"src/calc.py": SUB_CODE, SUB: uses, "tests/conftest.py": conftest})
    assert verdict.accepted, verdict.findings
    assert SUB_ID in verdict.passing


def test_a_test_that_disappears_counts_as_failing(repo: JudgedProject) -> None:
    """UAH-306: here its parameters are the product's to say."""
    ids = "import calc, pytest\n\n\n@pytest.mark.parametrize('x', calc.CASES)\ndef test_case(x):\n    assert x\n"
    repo.base = repo.commit({ADD: ids, "src/calc.py": ADD_CODE + "CASES = [1, 2]\n"})
    baseline = [f"{ADD}::test_case[1]", f"{ADD}::test_case[2]"]
    verdict = repo.judge({SUB: SUB_TEST, "src/calc.py": SUB_CODE + "CASES = [1]\n"}, baseline=baseline)
    assert verdict.regressions == (f"{ADD}::test_case[2]",)


@pytest.mark.scenario
def test_a_flaky_test_is_no_regression(repo: JudgedProject, tmp_path: Path) -> None:
    """C62: it comes and goes on the code before, too."""
    flag = tmp_path / "flag"
    other = "was = f.exists()\n    f.unlink() if was else f.touch()\n    assert not was"
    once = f"f = pathlib.Path({str(flag)!r})\n    {other}"
    flaky = "import pathlib\n" + ADD_TEST.replace("assert calc.add(1, 2) == 3", once)
    repo.base = repo.commit({ADD: flaky})
    flag.touch()
    verdict = repo.judge(HONEST)
    assert verdict.accepted, verdict.findings
    assert verdict.flaky == (ADD_IDS[0],)
    assert all_codes(verdict) == ["flaky_test"]
    assert ADD_IDS[0] in verdict.passing


def test_a_suite_that_cannot_be_judged_rejects(repo: JudgedProject) -> None:
    for suite, why in ((f"{PYTEST} nothing/", "gave no usable result"), ("true", "no test report was written")):
        verdict = repo.judge(HONEST, suite=suite)
        assert codes(verdict) == ["suite_failed"]
        assert why in verdict.reasons[0].message


@pytest.mark.scenario
def test_stubs_and_modules_that_are_not_there_yet_stop_nobody(repo: JudgedProject) -> None:
    """C23: only tests of the baseline count."""
    repo.base = repo.commit({"tests/e2e/test_pow.py": "import power_of_tomorrow\n"})
    assert repo.judge(HONEST, suite=f"{SUITE} -x").accepted


@pytest.mark.scenario
def test_tests_of_the_assigned_feature_are_judged_by_its_proof(repo: JudgedProject) -> None:
    verdict = repo.judge(HONEST, baseline=[*ADD_IDS, f"{SUB}::test_that_was_renamed"])
    assert verdict.accepted


@pytest.mark.scenario
def test_without_a_claim_only_rules_and_suite_count(repo: JudgedProject) -> None:
    quiet = repo.judge({"README.md": "more"}, proof=None, test_files=())
    assert quiet.accepted
    assert (quiet.proof, quiet.red) == (None, None)
    assert codes(repo.judge({"src/calc.py": "def add(a, b):\n    return 0\n"}, proof=None)) == ["regression"]


@pytest.mark.parametrize(
    ("lint", "options", "accepted", "found"),
    [
        ("sh -c 'exit 0'", Strictness(), True, []),
        ("sh -c 'exit 1'", Strictness(), True, ["lint"]),
        ("sh -c 'exit 1'", Strictness(lint_rejects=True), False, ["lint"]),
        ("no-such-linter src", Strictness(lint_rejects=True), True, ["lint_unavailable"]),
        (f"{sys.executable} -m no_such_linter", Strictness(lint_rejects=True), True, ["lint_unavailable"]),
        ("no-such-linter && true", Strictness(lint_rejects=True), True, ["lint_unavailable"]),
    ],
)
def test_lint(repo: JudgedProject, lint: str, options: Strictness, accepted: bool, found: list[str]) -> None:
    """UAH-295, UAH-307, UAH-361, C55."""
    verdict = repo.judge(HONEST, proof=None, suite=None, lint=lint, options=options)
    assert (verdict.accepted, all_codes(verdict)) == (accepted, found)


def test_the_linter_sees_the_commit(repo: JudgedProject) -> None:
    verdict = repo.judge(HONEST, proof=None, suite=None, lint="test -f src/calc.py && ! test -e build")
    assert all_codes(verdict) == []


@pytest.mark.scenario
def test_in_place_says_what_it_cannot_promise(repo: JudgedProject) -> None:
    repo.resolve(SUITE, isolation="in_place")
    verdict = repo.judge(HONEST)
    assert verdict.accepted, verdict.findings
    assert all_codes(verdict) == ["not_isolated", "red_proof_skipped"]
    assert codes(repo.judge({**HONEST, ADD: None})) == ["protected_test_changed"]


@pytest.mark.scenario
def test_in_place_compiled_answers_count_for_nothing(repo: JudgedProject) -> None:
    repo.resolve(SUITE, isolation="in_place")
    compile_answers(repo)
    assert codes(repo.judge({SUB: SUB_TEST})) == ["proof_failed"]


@pytest.mark.scenario
def test_the_first_work_of_all_is_judged_against_nothing(repo: JudgedProject) -> None:
    candidate = repo.commit(HONEST)
    repo.base = repo.client.empty_tree()
    verdict = repo.judge(candidate, protected=(), baseline=())
    assert verdict.accepted, verdict.findings
    assert [(finding.code, finding.severity) for finding in verdict.findings] == [
        ("runner_config_changed", "IMPORTANT")
    ]
    assert verdict.passing == {*ADD_IDS, SUB_ID}


def test_submodules_are_named(repo: JudgedProject, tmp_path: Path) -> None:
    other = JudgedProject(tmp_path / "other")
    other.root.mkdir()
    other.git("init", "-q")
    other.commit({"x.txt": "x"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "vendor")
    assert all_codes(repo.judge({}, proof=None, suite=None)) == ["submodules_empty"]


def test_stopping(repo: JudgedProject) -> None:
    with pytest.raises(Interrupted):
        repo.judge(HONEST, stop=lambda: True)


@pytest.mark.scenario
def test_a_project_in_a_folder_of_its_repository(make_repo: Make) -> None:
    repo = make_repo({f"app/{path}": text for path, text in FILES.items()}, resolved=False)
    top, repo.root = repo.root, repo.root / "app"
    repo.resolve()
    verdict = repo.judge(HONEST)
    assert verdict.accepted, verdict.findings
    assert verdict.passing == {*ADD_IDS, SUB_ID}
    (top / "conftest.py").write_text(GREEN_HOOK)
    repo.git("add", "-A", "..")
    assert codes(repo.judge({})) == ["runner_config_changed"]


@pytest.mark.scenario
def test_unusual_names(make_repo: Make) -> None:
    odd = "tests/ü b/test_é.py"
    repo = make_repo({"pytest.ini": INI, "src/calc.py": ADD_CODE, odd: ADD_TEST, SUB: FILES[SUB]})
    own = [f"{odd}::test_{name}" for name in ("one", "two")]
    verdict = repo.judge(HONEST, protected=[odd], baseline=own)
    assert verdict.accepted, verdict.findings
    assert set(own) < verdict.passing
    assert codes(repo.judge({odd: None}, protected=[odd])) == ["protected_test_changed"]


ONE_TEST_LESS = ADD_TEST.partition("def test_two")[0]


@pytest.mark.scenario
def test_a_released_test_file_may_lose_a_test(repo: JudgedProject) -> None:
    files = {**HONEST, ADD: ONE_TEST_LESS}
    assert codes(repo.judge(files)) == ["protected_test_changed"]
    verdict = repo.judge(files, may_change=[ADD])
    assert verdict.accepted, verdict.findings
    assert verdict.passing == {ADD_IDS[0], SUB_ID}
    assert [f.data["tests"] for f in verdict.findings if f.code == "tests_gone"] == [[ADD_IDS[1]]]


@pytest.mark.parametrize(
    "lie",
    [
        {ADD: None},
        {ADD: "def broken(:\n"},
        {ADD: "import pytest\n\npytestmark = pytest.mark.skip\n\n" + ADD_TEST},
        {ADD: ADD_TEST, "src/calc.py": SUB_CODE.replace("return a + b", "return 0")},
        {ADD: "import nowhere\n" + ONE_TEST_LESS},
    ],
    ids=["last test of a verified feature", "unreadable", "skipped", "code broken", "no collection"],
)
@pytest.mark.scenario
def test_a_released_test_file_hides_no_regression(repo: JudgedProject, lie: Files) -> None:
    verdict = repo.judge({**HONEST, **lie}, may_change=[ADD])
    assert not verdict.accepted
    assert set(codes(verdict)) & {"regression", "suite_failed"}


@pytest.mark.scenario
def test_released_settings_take_no_other_tests_away(repo: JudgedProject) -> None:
    settings = {"pytest.ini": INI + f"addopts = --deselect={ADD_IDS[1]}\n"}
    assert codes(repo.judge({**HONEST, **settings}, may_change=["pytest.ini"])) == ["regression"]
    assert repo.judge({**HONEST, "pytest.ini": INI + "addopts = -ra\n"}, may_change=["pytest.ini"]).accepted
