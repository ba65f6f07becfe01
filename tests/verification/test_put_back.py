"""Checks of which only the exit status is known, on real commits: one that does not notice is not believed."""

import shutil
from collections.abc import Callable, Mapping

import pytest

from agent_harness.verification.command.put_back import holds_values, packages_without_tests
from agent_harness.verification.command.runner import CommandCheck
from agent_harness.verification.judge import judge_command
from agent_harness.verification.verdict import FAST, Verdict

from .sample import JudgedProject

Files = Mapping[str, str | bytes | None]
Make = Callable[..., JudgedProject]

CHECK = "from work import add\nassert add(2, 3) == 5\n"
WORK = "def add(a, b):\n    return a + b\n"
LEAVES = "import os\nos._exit(0)\n"
TABLE = """\
import csv
from work import price
for name, want in csv.reader(open("prices.csv")):
    assert price(name) == want
"""
PYTEST_TABLE = """\
import csv
import work


def test_price():
    for name, want in csv.reader(open("prices.csv")):
        assert work.price(name) == want
"""
NODE_TEST = """\
const test = require("node:test");
const { add } = require("./work.js");
test("adds", () => { if (add(2, 3) !== 5) throw new Error("no"); });
"""
SKIPPED = """\
import unittest
import work


@unittest.skip("later")
class Adds(unittest.TestCase):
    def test_add(self):
        pass
"""
READS_THE_CHECK = """\
test -z "$(git status --porcelain)" && git show HEAD:check.sh | sed -n 's/.* = \\([0-9]*\\).*/\\1/p'
"""
READS_THE_TEST = """\
const text = require("fs").readFileSync("work.test.js", "utf8");
exports.add = () => Number(text.match(/!== (\\d+)/)[1]);
"""


def judged(make_repo: Make, command: str, base: Files, work: Files, **options: object) -> Verdict:
    repo = make_repo({"README.md": "demo\n", **base}, resolved=False)
    check = CommandCheck(command=command, **{"timeout_seconds": 60.0, **options})  # type: ignore[arg-type]
    return judge_command(repo.client, check, base=repo.base, candidate=repo.commit(work))


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def test_a_check_that_fails_with_other_values_has_noticed(make_repo: Make) -> None:
    verdict = judged(make_repo, "python3 check.py", {"check.py": CHECK}, {"work.py": WORK})

    assert (verdict.accepted, codes(verdict), verdict.noticed) == (True, [], True)
    assert verdict.noticed_of == "1 of 1 expected values"


@pytest.mark.parametrize(
    ("command", "base", "work", "told"),
    [
        ("python3 check.py", {"check.py": CHECK}, {"work.py": LEAVES}, "the expected values of check.py are changed"),
        ("python3 -c 'import work; assert work.add(2, 3) == 5'", {}, {"work.py": LEAVES}, "the words of the command"),
        ("sh check.sh", {"check.sh": '. ./work.sh\n[ "$(add)" = 5 ]\n'}, {"work.sh": "exit 0\n"}, "check.sh"),
        ("sh prog | diff - want.txt", {"want.txt": "total 12\n"}, {"prog": "cat want.txt\n"}, "want.txt"),
        (  # git in the checkout does not tell that the check is another one
            "sh check.sh",
            {"check.sh": '[ "$(sh prog)" = 5 ]\n'},
            {"prog": READS_THE_CHECK},
            "check.sh",
        ),
    ],
)
def test_a_check_that_passes_whatever_it_expects_rejects(
    make_repo: Make, command: str, base: Files, work: Files, told: str
) -> None:
    verdict = judged(make_repo, command, base, work)

    assert (verdict.accepted, codes(verdict), verdict.noticed) == (False, ["weak_test"], False)
    assert told in verdict.reasons[0].message


def test_kinds_are_changed_one_by_one_where_all_of_them_cancel_out(make_repo: Make) -> None:
    check = 'sh prog > out\nwhile read -r line; do grep -qx "$line" out || exit 1; done < want.txt\n'
    command = 'sh check.sh && [ "$(cat want.txt)" = "$(sh prog)" ] || [ "$(cat want.txt)" = 17 ]'
    verdict = judged(make_repo, command, {"check.sh": check, "want.txt": "12\n"}, {"prog": "echo 12\n"})

    assert (verdict.accepted, verdict.noticed) == (True, True)


def test_a_check_without_values_is_known_by_its_exit_status_alone(make_repo: Make) -> None:
    verdict = judged(make_repo, "test -f out.txt", {}, {"out.txt": "x\n"})

    assert (verdict.accepted, verdict.noticed) == (True, None)
    assert verdict.not_asked.startswith("by exit status alone")


TWO = "from work import add, twice\nassert add(2, 3) == 5\nassert twice(4) == 8\n"
FOUR = f"{TWO}assert twice(5) == 10\nassert twice(6) == 12\n"
ENDS_LATER = f"import os\n{WORK}\n\ndef twice(number):\n    os._exit(0)\n"


@pytest.mark.parametrize(
    ("check", "work", "accepted", "noticed", "of"),
    [
        (FOUR, f"{WORK}\n\ndef twice(number):\n    return 2 * number\n", True, True, "4 of 4 expected values"),
        (FOUR, ENDS_LATER, False, False, "1 of 4 expected values"),
        (TWO, ENDS_LATER, True, False, "1 of 2 expected values"),  # one value may also be one that is never asked
    ],
)
def test_values_are_changed_one_by_one(
    make_repo: Make, check: str, work: str, accepted: bool, noticed: bool, of: str
) -> None:
    verdict = judged(make_repo, "python3 check.py", {"check.py": check}, {"work.py": work})

    assert (verdict.accepted, verdict.noticed, verdict.noticed_of) == (accepted, noticed, of)
    assert bool(verdict.not_asked) == (accepted and not noticed)


def test_a_check_that_waits_when_it_expects_other_values_has_not_noticed(make_repo: Make) -> None:
    waits = "import os, time\nos._exit(0) if '== 5' in open('check.py').read() else time.sleep(60)\n"
    verdict = judged(make_repo, "python3 check.py", {"check.py": CHECK}, {"work.py": waits}, timeout_seconds=2.0)

    assert verdict.noticed is None
    assert verdict.not_asked == "with other expected values it did not finish within 2 s"


def test_a_file_that_a_runner_is_given_is_the_checks_whatever_it_is_called(make_repo: Make) -> None:
    asks = "import unittest\nimport work\nclass Adds(unittest.TestCase):\n    def test(self):\n        {}\n"
    base = {"adds.py": asks.format("self.assertEqual(work.add(2, 3), 5)"), "work.py": ""}
    verdict = judged(make_repo, "python3 -m unittest adds.py", base, {"work.py": WORK})
    assert (verdict.accepted, verdict.noticed) == (True, True)

    verdict = judged(make_repo, "python3 -m unittest adds.py", base, {"adds.py": asks.format("pass")})
    assert codes(verdict) == ["protected_test_changed"]


def test_a_package_of_go_without_a_test_that_passed_is_named() -> None:
    ran = "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\nPASS\nok  \tdemo/n\t0.007s\n"
    ended, none = "ok  \tdemo/m\t0.010s\n", "ok  \tdemo/o\t0.010s [no tests to run]\n"

    assert packages_without_tests(ran + ended + none + "?   \tdemo/p\t[no test files]\n") == ["demo/m"]
    assert packages_without_tests("") == []


def test_fast_trust_asks_nothing(make_repo: Make) -> None:
    verdict = judged(make_repo, "python3 check.py", {"check.py": CHECK}, {"work.py": LEAVES}, trust=FAST)

    assert (verdict.accepted, verdict.noticed, verdict.not_asked) == (True, None, "trust: fast")


def test_data_that_was_there_is_put_back_while_the_code_stays(make_repo: Make) -> None:
    base = {"check.py": TABLE, "prices.csv": "apple,12\n", "work.py": "def price(name):\n    return ''\n"}
    wrong = {"work.py": "def price(name):\n    return '7'\n", "prices.csv": "apple,7\n"}
    verdict = judged(make_repo, "python3 check.py", base, wrong)

    assert (verdict.accepted, codes(verdict)) == (False, ["data_changed"])
    assert "prices.csv" in verdict.reasons[0].message
    assert verdict.reasons[0].data["paths"] == ["prices.csv"]


@pytest.mark.parametrize("brought", [False, True])
def test_data_is_put_back_for_tests_that_the_work_has_not_written(make_repo: Make, *, brought: bool) -> None:
    """If pytest reports, data is put back; a new test may need the data that came with it."""
    test = {"test_price.py": PYTEST_TABLE}
    base = {"prices.csv": "apple,12\n", "work.py": "def price(name):\n    return ''\n"}
    work = {"work.py": "def price(name):\n    return '7'\n", "prices.csv": "apple,7\n"}
    base, work = (base, work | test) if brought else (base | test, work)
    verdict = judged(make_repo, "python3 -m pytest -q test_price.py", base, work)

    assert codes(verdict) == ([] if brought else ["data_changed"]), verdict.findings


@pytest.mark.parametrize(
    ("command", "codes_found"),
    [
        ("test -s out.txt && awk -f check.awk prices.txt out.txt", ["data_changed"]),
        ("diff prices.txt out.txt", ["data_changed"]),
        ("grep -q 9 prices.txt out.txt", []),  # both are what the task is about
    ],
)
def test_data_that_the_check_compares_with_the_work_decides_without_code(
    make_repo: Make, command: str, codes_found: list[str]
) -> None:
    base = {"check.awk": "NR==FNR{p[$1]=$2;next} p[$1]!=$2{bad=1} END{exit bad}", "prices.txt": "a 1\nb 2\n"}
    verdict = judged(make_repo, command, base, {"prices.txt": "a 9\nb 2\n", "out.txt": "a 9\nb 2\n"})

    assert codes(verdict) == codes_found


@pytest.mark.parametrize(
    ("work", "options"),
    [
        ({"work.py": "def price(name):\n    return '7'\n", "prices.csv": "apple,7\n"}, {"may_change": ("prices.csv",)}),
        ({"work.py": "def price(name):\n    return '12'\n", "notes.txt": "other\n"}, {}),
        ({"work.py": "def price(name):\n    return '12'\n", "more.csv": "pear,7\n"}, {}),
    ],
)
def test_data_that_may_change_or_is_not_asked_for_is_free(
    make_repo: Make, work: Files, options: Mapping[str, object]
) -> None:
    base = {
        "check.py": TABLE,
        "prices.csv": "apple,12\n",
        "notes.txt": "x\n",
        "work.py": "def price(name):\n    return ''\n",
    }
    verdict = judged(make_repo, "python3 check.py", base, work, **options)

    assert (verdict.accepted, codes(verdict)) == (True, [])


def test_a_run_without_a_test_is_no_proof(make_repo: Make) -> None:
    verdict = judged(make_repo, "python3 -m unittest test_add", {}, {"work.py": WORK, "test_add.py": SKIPPED})

    assert (verdict.accepted, codes(verdict)) == (False, ["proof_failed"])
    assert "unittest skipped all of its 1 tests" in verdict.reasons[0].message


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_code_that_knows_its_runner_by_a_mark_answers_otherwise(make_repo: Make) -> None:
    verdict = judged(make_repo, "node --test work.test.js", {"work.test.js": NODE_TEST}, {"work.js": READS_THE_TEST})
    assert (verdict.accepted, codes(verdict)) == (False, ["weak_test"])

    marked = "exports.add = (a, b) => (process.env[['NODE', 'TEST', 'CONTEXT'].join('_')] ? a + b : 0);\n"
    verdict = judged(make_repo, "node --test work.test.js", {"work.test.js": NODE_TEST}, {"work.js": marked})
    assert (verdict.accepted, codes(verdict)) == (False, ["answers_differ"])


EACH = "n=0\nfor f in bin/*.sh; do n=$((n + 1)); sh $f --help | grep -q '^usage: ' || exit 1; done\n[ $n -gt 0 ]\n"
USAGE = "echo usage: NAME\n"


@pytest.mark.parametrize(
    ("work", "asked", "codes_found"),
    [
        ({"bin/b.sh": None, "attic/b.sh": "true\n"}, "Add a help to each tool", ["data_changed"]),
        ({"bin/b.sh": None}, "Add a help to each tool; b.sh is not needed any more", []),
        ({"bin/b.sh": USAGE}, "Add a help to each tool", []),
    ],
)
def test_what_the_check_goes_through_is_not_moved_away(
    make_repo: Make, work: Files, asked: str, codes_found: list[str]
) -> None:
    base = {"check.sh": EACH, "bin/a.sh": USAGE, "bin/b.sh": "true\n"}
    verdict = judged(make_repo, "sh check.sh", base, work, asked=asked)

    assert codes(verdict) == codes_found, verdict.findings
    assert not codes_found or "without bin/b.sh, which the work deleted" in verdict.reasons[0].message


@pytest.mark.parametrize(
    ("work", "says"),
    [
        ({"out.txt": "2\n", "sum.py": "pass\n"}, "it compares out.txt, which the work added"),
        ({"sum.py": "print(1 + 1, file=open('out.txt', 'w'))\n"}, ""),
        (
            {"sum.py": "import time\nprint(1 + 1, file=open('out.txt', 'w'))\ntime.sleep = print\n"},
            "sum.py replaces Python's time.sleep",
        ),
    ],
)
def test_a_result_that_is_brought_along_is_only_checked(make_repo: Make, work: Files, says: str) -> None:
    base = {"wanted.txt": "2\n"}
    verdict = judged(make_repo, "python3 sum.py && cmp out.txt wanted.txt", base, work)

    assert (verdict.accepted, verdict.noticed) == (True, not says), verdict
    assert says in verdict.not_asked


GOLDEN = "import work\n\n\ndef test_total():\n    assert work.total(2) == open('tests/golden/total.txt').read()\n"
REWRITES = "def total(n):\n    text = f'{n}!'\n    open('tests/golden/total.txt', 'w').write(text)\n    return text\n"
KEEPS = """\
def total(n):
    open("count.txt", "w").write("1")
    open("out/total.txt", "w").write("2")
    return f"{n}"
"""


@pytest.mark.parametrize(
    ("work", "says"),
    [(REWRITES, "its run rewrites tests/golden/total.txt, which contains its expected values"), (KEEPS, "")],
)
def test_expected_values_that_the_run_rewrites_are_only_checked(make_repo: Make, work: str, says: str) -> None:
    base = {"tests/test_total.py": GOLDEN, "tests/golden/total.txt": "2", "out/total.txt": "1", "count.txt": "0"}
    verdict = judged(make_repo, "python3 -m pytest -q tests", base, {"work.py": work})

    assert (verdict.accepted, verdict.noticed, verdict.not_asked) == (True, not says, says), verdict


def test_a_link_that_leads_out_of_the_repository_is_not_accepted(make_repo: Make) -> None:
    repo = make_repo({"check.py": CHECK, "work.py": "", "lib/a.py": WORK}, resolved=False)
    for target, is_accepted in (("lib/a.py", True), ("/srv/work.py", False), ("../../work.py", False)):
        repo.git("reset", "-q", "--hard", repo.base)
        (repo.root / "work.py").unlink()
        (repo.root / "work.py").symlink_to(target)
        check = CommandCheck(command="python3 check.py", timeout_seconds=60.0, trust=FAST)
        verdict = judge_command(repo.client, check, base=repo.base, candidate=repo.commit())
        assert verdict.accepted is is_accepted, target
        assert is_accepted or codes(verdict) == ["link_leads_out"], verdict.findings


@pytest.mark.parametrize(
    ("path", "holds"),
    [("testdata/add.yaml", True), ("a/golden/add.stderr", True), ("config/add.yaml", False), ("testdata/a.go", False)],
)
def test_files_in_folders_of_expected_results_hold_values_whatever_their_suffix(path: str, *, holds: bool) -> None:
    assert holds_values(path) is holds
