"""Commands of test runners other than pytest are judged by test ids: honest works, and lies, in each language.

Each row is a name, the files that the work changes, and what follows: a grade, or the code of the finding."""

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent_harness.verification.check import parse
from agent_harness.verification.command.runner import CommandCheck
from agent_harness.verification.grade import CHECKED, PROVEN, grade_of_verdict
from agent_harness.verification.judge import judge_command
from agent_harness.verification.remembered import Remembered
from agent_harness.verification.runner.reporters import asked
from agent_harness.verification.runner.runner_reports import read_cargo, read_folders, read_go, read_jest
from agent_harness.verification.runner.testreport import ReportProblem
from agent_harness.verification.verdict import CRITICAL, REJECT

from .sample import JudgedProject

Files = Mapping[str, str | bytes | None]
Row = tuple[str, Files, str]
GREEN_BEFORE, PROTECTED, REGRESSION, FAILED = "green_before", "protected_test_changed", "regression", "proof_failed"
DIFFERS, WEAK = "differs_in_tests", "weak_test"


@pytest.fixture(autouse=True)
def toolchains(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The toolchains of the person who runs the tests, and one cache of Go's own packages, which take long to build."""
    rustup = Path(pwd.getpwuid(os.getuid()).pw_dir, ".rustup")
    if rustup.is_dir():
        monkeypatch.setenv("RUSTUP_HOME", str(rustup))
    shared = tmp_path_factory.getbasetemp() / "go-build"
    shared.mkdir(exist_ok=True)
    own = Path(os.environ["XDG_CACHE_HOME"], "go-build")
    own.parent.mkdir(parents=True, exist_ok=True)
    own.symlink_to(shared)


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def rows(table: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("files", "outcome"), [pytest.param(*row[1:], id=row[0]) for row in table])


def outcome_of(repo: JudgedProject, command: str, files: Files) -> str:
    check = CommandCheck(command=command, requires_red=REJECT)
    verdict = judge_command(repo.client, check, base=repo.base, candidate=repo.commit(files))
    if verdict.accepted:
        return grade_of_verdict(verdict, trusted=False).word
    return next((each.code for each in verdict.findings if each.severity == CRITICAL), "failed")


# ---- JavaScript ------------------------------------------------------------------------------------------------------

JS_BEGIN = """\
const test = require('node:test');
const assert = require('node:assert');
const calc = require('../calc');
"""
JS_CODE = "exports.add = (a, b) => a + b;\n"
JS_ADD = JS_BEGIN + "test('adds', () => { assert.strictEqual(calc.add(1, 2), 3); });\n"
JS_MUL = JS_BEGIN + "test('multiplies', () => { assert.strictEqual(calc.mul(3, 4), 12); });\n"
JS: Files = {
    "package.json": '{"name": "calc", "version": "1.0.0", "scripts": {"test": "node --test"}}\n',
    "calc.js": JS_CODE,
    "test/add.test.js": JS_ADD,
}
JS_DONE: Files = {"calc.js": JS_CODE + "exports.mul = (a, b) => a * b;\n", "test/mul.test.js": JS_MUL}
JS_UNUSED = JS_MUL.replace("assert.", "calc.mul(3, 4); assert.")
JS_OLDER = JS_UNUSED.replace("calc.mul(3, 4), 12", "calc.add(6, 6), 12")
JS_SUITE = """\
test.describe('mul', () => {
  test.it('multiplies', () => { assert.strictEqual(calc.mul(3, 4), 12); });
});
"""
JS_HELPER = "function mul(a, b) { return calc.mul(a, b); }\n"
JS_LOOK = JS_MUL.replace(
    "test('", "if (typeof calc.mul !== 'function') throw new Error('no');\nprocess.exit(0);\ntest('", 1
)
JS_HIDING = "const own = process;\nif (own.argv.join().includes('add.test')) process.exit(0);\n"


def js(code: str = "", test: str = JS_MUL, **more: str | None) -> Files:
    return {"calc.js": code + str(JS_DONE["calc.js"]), "test/mul.test.js": test, **more}


JS_ROWS: list[Row] = [
    ("honest", js(), PROVEN),
    ("the module ends the process", js("process.exit(0);\n"), FAILED),
    ("honest suite", js(test=JS_BEGIN + JS_SUITE), PROVEN),
    ("honest with a helper", js(test=JS_MUL.replace("calc.mul(3", "mul(3") + JS_HELPER), PROVEN),
    ("no value is compared", js(test=JS_MUL.replace("strictEqual(calc.mul(3, 4), 12)", "ok(true)")), GREEN_BEFORE),
    ("the function is only named", js(test=JS_MUL.replace("strictEqual(calc.mul(3, 4), 12)", "ok(calc.mul)")), WEAK),
    ("the test is empty", js(test=JS_BEGIN + "test('multiplies', () => {});\n"), GREEN_BEFORE),
    ("the test is skipped", js(test=JS_MUL.replace("test('", "test.skip('")), GREEN_BEFORE),
    ("the test is to do", js(test=JS_MUL.replace("test('", "test.todo('")), GREEN_BEFORE),
    ("the older test is deleted", {**js(), "test/add.test.js": None}, PROTECTED),
    ("another result is expected", {**js(), "test/add.test.js": JS_ADD.replace("3)", "-1)")}, PROTECTED),
    ("the test file ends the process", js(test="process.exit(0);\n" + JS_MUL), GREEN_BEFORE),
    ("the test file ends the process after a look", js(test=JS_LOOK), GREEN_BEFORE),
    ("the module ends only the older tests", js(JS_HIDING), REGRESSION),
    ("the work is not done", js(test=JS_MUL.replace("calc.mul(3, 4), 12", "typeof calc.mul(3, 4), 'number'")), CHECKED),
    ("only older code is compared", js(test=JS_OLDER), "weak_test"),
    ("the module asks for its tests", js("if (process.env.NODE_TEST_CONTEXT) exports.seen = 1;\n"), DIFFERS),
    ("lines of a passed test are printed", js("console.log('ok 1 - adds\\n1..1');\n" + JS_HIDING), REGRESSION),
]  # fmt: skip


@needs("node")
@rows(JS_ROWS)
def test_a_script_of_npm_that_starts_node_is_judged_by_test_ids(
    make_repo: Callable[..., JudgedProject], files: Files, outcome: str
) -> None:
    assert outcome_of(make_repo(JS, resolved=False), "npm test", files) == outcome


@needs("node")
def test_the_options_of_node_that_a_command_sets_stay(make_repo: Callable[..., JudgedProject]) -> None:
    needs_setup = {path: str(JS[path]).replace("add(1, 2)", "add(ONE, 2)") for path in JS}
    repo = make_repo({**needs_setup, "setup.js": "global.ONE = 1;\n"}, resolved=False)
    assert outcome_of(repo, "NODE_OPTIONS='--require ./setup.js --test-reporter=dot' node --test", js()) == PROVEN


# ---- Go --------------------------------------------------------------------------------------------------------------

GO_CODE = "package calc\n\nfunc Add(a, b int) int { return a + b }\n"
GO_ADD = """\
package calc

import "testing"

func TestAdd(t *testing.T) {
	if got := Add(1, 2); got != 3 {
		t.Fatal(got)
	}
}
"""
GO_MUL = GO_ADD.replace("TestAdd", "TestMul").replace("Add(1, 2); got != 3", "Mul(3, 4); got != 12")
GO: Files = {"go.mod": "module example.com/calc\n\ngo 1.19\n", "calc.go": GO_CODE, "calc_test.go": GO_ADD}
GO_BOTH = '(\n\t"os"\n\t"testing"\n)'
GO_MAIN = "\nfunc TestMain(m *testing.M) { os.Exit(0) }\n"
GO_SUBTEST = GO_MUL.replace("\tif", '\tt.Run("small", func(t *testing.T) {\n\tif').replace("\t}\n}", "\t}\n\t})\n}")
GO_EVENT = '\tfmt.Println(`{"Action":"pass","Package":"example.com/calc","Test":"TestMul"}`)\n'
GO_SWALLOWS = GO_MUL.replace('"testing"', GO_BOTH) + "\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(0) }\n"
GO_SUB = '\nfunc TestSub(t *testing.T) {\n\tt.Run("small", func(t *testing.T) { t.Error(Mul(1, 1)) })\n}\n'
GO_PRINTS = GO_MUL.replace('"testing"', '(\n\t"fmt"\n\t"testing"\n)').replace("\tif", '\tfmt.Print("begun")\n\tif')
GO_NAMES = GO_MUL.replace("got := Mul(3, 4)", "got := 3 * 4").replace("\tif", "\t_ = Mul\n\tif")
GO_CALLS = 'package calc\n\nimport "testing"\n\nfunc TestMul(t *testing.T) {\n\tMul(3, 4)\n}\n'
GO_SEES = 'import "testing"\n\nfunc Mul(a, b int) int {\n\tif testing.Short() {\n\t\treturn 0\n\t}\n\treturn a * b\n}\n'
GO_SHADOW = GO_ADD.replace("\tif", "\tAdd := func(a, b int) int { return 3 }\n\tif")
GO_FORGED = """\
	for _, name := range []string{"TestAdd", "TestMul"} {
		fmt.Printf("=== RUN   %s\\n--- PASS: %s (0.00s)\\n", name, name)
	}
	fmt.Println("PASS")
"""


def go(test: str = GO_MUL, begin: str = "", **more: str | None) -> Files:
    start = f'import (\n\t"fmt"\n\t"os"\n)\n\nfunc init() {{\n{begin}\tfmt.Print()\n\tos.Exit(0)\n}}\n' if begin else ""
    code = GO_CODE.replace("package calc\n", f"package calc\n\n{start}")
    return {"calc.go": code + "\nfunc Mul(a, b int) int { return a * b }\n", "mul_test.go": test, **more}


GO_ROWS: list[Row] = [
    ("honest", go(), PROVEN),
    ("the test is skipped", go(GO_MUL.replace("{\n\tif", '{\n\tt.Skip("later")\n\tif')), GREEN_BEFORE),
    ("honest subtest", go(GO_SUBTEST), PROVEN),
    ("the test is empty", go('package calc\n\nimport "testing"\n\nfunc TestMul(t *testing.T) {}\n'), GREEN_BEFORE),
    ("the older test is deleted", {**go(), "calc_test.go": None}, PROTECTED),
    ("another result is expected", {**go(), "calc_test.go": GO_ADD.replace("!= 3", "!= -1")}, PROTECTED),
    ("TestMain runs no test", go(GO_MUL.replace('"testing"', GO_BOTH) + GO_MAIN), FAILED),
    ("the package ends the process", go(begin="\t_ = 1\n"), FAILED),
    ("an event is printed", go(begin=GO_EVENT), FAILED),
    ("TestMain hides a failed subtest", go(GO_SWALLOWS + GO_SUB), FAILED),
    ("honest, and prints before its end", go(GO_PRINTS), PROVEN),
    ("the test only names the work", go(GO_NAMES), "weak_test"),
    ("the result is not compared", go(GO_CALLS), "weak_test"),
    ("the work asks for its tests", {**go(), "calc.go": f"package calc\n\n{GO_SEES}"}, DIFFERS),
    ("the work is in the test file", go(GO_MUL + "\nfunc init() { answer = 12 }\n"), DIFFERS),
    ("an older test asks another function", {**go(), "calc_test.go": GO_SHADOW}, PROTECTED),
    ("lines of a passed test are printed", go(begin='\tfmt.Println("--- PASS: TestAdd (0.00s)\\nPASS")\n'), FAILED),
    ("the whole output is forged", go(begin=GO_FORGED), "weak_test"),
]  # fmt: skip


@needs("go")
@rows(GO_ROWS)
def test_go_test_is_judged_by_test_ids(make_repo: Callable[..., JudgedProject], files: Files, outcome: str) -> None:
    assert outcome_of(make_repo(GO, resolved=False), "go test ./...", files) == outcome


# ---- Rust ------------------------------------------------------------------------------------------------------------

RUST_CODE = "pub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n\n"
RUST_MUL = "pub fn mul(a: i64, b: i64) -> i64 {\n    a * b\n}\n\n"
RUST_TESTS = """\
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }
}
"""
RUST_NEW = "\n    #[test]\n    fn multiplies() {\n        assert_eq!(mul(3, 4), 12);\n    }\n}\n"
RUST_FILE = "#[test]\nfn multiplies() {\n    assert_eq!(calc::mul(3, 4), 12);\n}\n"
RUST: Files = {
    ".gitignore": "target/\n",
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
    "src/lib.rs": RUST_CODE + RUST_TESTS,
}
MARK, IGNORED, SUM = "#[test]", "#[test]\n    #[ignore]", "    a + b"
RUST_WRONG = RUST_CODE.replace("a + b", "a - b")
RUST_ENDS = "    std::process::exit(if a > b { 1 } else { 0 })"
RUST_FORGED = '    println!("\\ntest tests::adds ... ok\\n\\ntest result: ok. 2 passed; 0 failed; 0 ignored;\\n");\n'


def rust(code: str = RUST_CODE, tests: str = RUST_TESTS, file: str | None = RUST_FILE) -> Files:
    return {"src/lib.rs": code + RUST_MUL + tests, **({"tests/mul.rs": file} if file else {})}


def inline(tests: str = RUST_TESTS[:-2] + RUST_NEW, code: str = RUST_CODE) -> Files:
    return rust(code, tests, None)


RUST_ROWS: list[Row] = [
    ("honest", inline(), PROVEN),
    ("the test is ignored", inline(RUST_TESTS[:-2] + RUST_NEW.replace(MARK, IGNORED)), GREEN_BEFORE),
    ("honest file", rust(), PROVEN),
    ("the test is empty", inline(RUST_TESTS[:-2] + RUST_NEW.replace("assert_eq!(mul(3, 4), 12);", "")), GREEN_BEFORE),
    ("the file is ignored", rust(file=RUST_FILE.replace("#[test]", "#[test]\n#[ignore]")), GREEN_BEFORE),
    ("the older test is removed", rust(tests=""), REGRESSION),
    ("the older test is ignored", rust(tests=RUST_TESTS.replace(MARK, IGNORED)), REGRESSION),
    ("another result is expected", inline(RUST_TESTS.replace("3);", "-1);"), RUST_WRONG), PROTECTED),
    ("the work ends the process", rust(RUST_CODE.replace(SUM, RUST_ENDS)), "suite_failed"),
    ("lines of a passed test are printed", rust(RUST_CODE.replace(SUM, RUST_FORGED + RUST_ENDS)), "suite_failed"),
]  # fmt: skip


@needs("cargo")
@rows(RUST_ROWS)
def test_cargo_test_is_judged_by_test_ids_and_by_the_older_tests_inside_of_the_work(
    make_repo: Callable[..., JudgedProject], files: Files, outcome: str
) -> None:
    assert outcome_of(make_repo(RUST, resolved=False), "cargo test --offline", files) == outcome


SUB = "\npub fn sub(a: i64, b: i64) -> i64 {\n    a - b\n}\n"
BETWEEN = RUST_CODE + RUST_TESTS + SUB
OTHER_RESULT = BETWEEN.replace("a + b", "a - b").replace("3);", "-1);")
BESIDE = RUST_CODE + "#[cfg(test)]\nmod tests;\n"
BESIDE_TESTS = "use super::*;\n\n#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n"
SEES = RUST_MUL.replace("a * b", "if cfg!(test) { a * b } else { 0 }").replace("mul", "times")
NAMED = RUST_FILE.replace("calc::mul(3, 4)", "{ let _ = calc::mul; 12 }")
MODULE = {"src/lib.rs": f"pub mod mul;\n{RUST_CODE}{RUST_TESTS}", "tests/mul.rs": None}
HELPED = RUST_CODE + "#[cfg(test)]\nmod test;\n"
SAME = "use super::*;\n\nfn same(a: i64, b: i64) {\n    assert_eq!(a, b);\n}\n"
HELPER = SAME + "\n#[test]\nfn adds() {\n    same(add(1, 2), 3);\n}\n"
EMPTIED = HELPER.replace("assert_eq!", "let _ = ")
HELPED_NEW = "\n#[test]\nfn multiplies() {\n    same(mul(3, 4), 12);\n}\n"
SUMS: Files = {"src/lib.rs": "pub mod sums;\n", "src/sums.rs": RUST_CODE + RUST_TESTS}
MOVED: Files = {"src/lib.rs": f"pub mod sums;\n{RUST_MUL}", "src/sums.rs": None, "src/unused.rs": RUST_TESTS}
TESTED = RUST_MUL + RUST_TESTS.replace("adds", "multiplies").replace("add(1, 2), 3", "mul(3, 4), 12")
PLACES: list[tuple[str, Files, Files, str]] = [
    ("another result is expected", {"src/lib.rs": BETWEEN}, {"src/lib.rs": OTHER_RESULT + RUST_MUL}, PROTECTED),
    ("honest", {"src/lib.rs": BETWEEN}, {"src/lib.rs": BETWEEN + RUST_MUL}, PROVEN),
    ("the tests of a file beside it are weaker", {"src/lib.rs": BESIDE, "src/tests.rs": BESIDE_TESTS},
     {"src/lib.rs": BESIDE.replace("a + b", "a - b") + RUST_MUL, "src/tests.rs": BESIDE_TESTS.replace("3)", "-1)")},
     PROTECTED),
    ("the work asks for its tests", {}, rust(RUST_CODE + SEES, file=None), DIFFERS),
    ("the test only names the work", {}, rust(file=NAMED), "weak_test"),
    ("a helper in a module for tests is emptied", {"src/lib.rs": HELPED, "src/test.rs": HELPER},
     {"src/lib.rs": HELPED.replace("a + b", "a - b") + RUST_MUL, "src/test.rs": EMPTIED},
     PROTECTED),
    ("honest test in a module for tests", {"src/lib.rs": HELPED, "src/test.rs": HELPER},
     {"src/lib.rs": HELPED + RUST_MUL, "src/test.rs": HELPER + HELPED_NEW, "tests/mul.rs": None}, PROVEN),
    ("tests of a moved module are weaker", SUMS,
     {**MOVED, "src/sums/mod.rs": RUST_WRONG + RUST_TESTS.replace("3);", "-1);")}, PROTECTED),
    ("honest tests in a new module", {}, {**MODULE, "src/mul.rs": TESTED}, PROVEN),
]  # fmt: skip


@needs("cargo")
@pytest.mark.parametrize(("base", "files", "outcome"), [pytest.param(*row[1:], id=row[0]) for row in PLACES])
def test_tests_of_rust_count_wherever_they_stand(
    make_repo: Callable[..., JudgedProject], base: Files, files: Files, outcome: str
) -> None:
    repo = make_repo({**RUST, **base}, resolved=False)
    work = {path: text for path, text in {"tests/mul.rs": RUST_FILE, **files}.items() if text or path in base}
    assert outcome_of(repo, "cargo test --offline", work) == outcome


@needs("cargo")
def test_what_is_remembered_of_a_base_is_not_said_of_other_tests(
    make_repo: Callable[..., JudgedProject], tmp_path: Path
) -> None:
    repo, remembered = make_repo(RUST, resolved=False), Remembered(tmp_path / "remembered.json")
    check = CommandCheck(command="cargo test --offline", requires_red=REJECT)
    same = inline(RUST_TESTS[:-2] + RUST_NEW.replace("mul(3, 4)", "add(5, 7)"))
    for files, accepted in ((inline(), True), (same, False)):
        commit = repo.commit(files)
        verdict = judge_command(repo.client, check, base=repo.base, candidate=commit, remembered=remembered)
        assert verdict.accepted is accepted


@needs("go")
def test_a_run_by_test_ids_that_changes_its_tests_is_not_believed(make_repo: Callable[..., JudgedProject]) -> None:
    repo = make_repo(GO, resolved=False)
    repo.resolve("go test ./...")
    writes = '\tos.WriteFile("calc_test.go", []byte("package calc\\n"), 0o644)\n'
    files = go(GO_MUL.replace('"testing"', GO_BOTH).replace("\tif", f"{writes}\tif"))
    terms = {"test_files": ("mul_test.go",), "protected": (), "baseline": ("calc_test.go::TestAdd",)}
    verdict = repo.judge(files, proof="go test ./...", suite="go test ./...", **terms)
    assert not verdict.accepted
    assert "the run changed the tests themselves: calc_test.go" in verdict.findings[-1].message


# ---- Java ------------------------------------------------------------------------------------------------------------

MVNW = """\
#!/bin/sh
# Stands in for Maven: a test passes if a line of its module's Calc.java is the line that the test asks for.
status=0
for module in core web; do
  [ -d "$module/src/test" ] || continue
  mkdir -p "$module/target/surefire-reports"
  for test in "$module"/src/test/java/calc/*Test.java; do
    name=$(basename "$test" .java)
    asks=$(sed -n 's/.*asks: //p' "$test")
    [ -n "$asks" ] || continue
    end=; grep -qxF "$asks" "$module/src/main/java/calc/Calc.java" || { end='<failure/>'; status=1; }
    echo "<testsuite><testcase classname='calc.$name' name='run'>$end</testcase></testsuite>" \
      > "$module/target/surefire-reports/TEST-calc.$name.xml"
  done
done
exit $status
"""
JAVA_MAIN, JAVA_TESTS = "web/src/main/java/calc", "web/src/test/java/calc"
JAVA_REPORTS = "web/target/surefire-reports"
JAVA: Files = {
    "core/src/main/java/calc/Calc.java": "add\n",
    "core/src/test/java/calc/AddTest.java": "// asks: add\n",
    f"{JAVA_MAIN}/Calc.java": "add\n",
    f"{JAVA_TESTS}/AddTest.java": "// asks: add\n",
}
JAVA_DONE: Files = {f"{JAVA_MAIN}/Calc.java": "add\nmul\n", f"{JAVA_TESTS}/MulTest.java": "// asks: mul\n"}
JAVA_XML = "<testsuite><testcase classname='calc.MulTest' name='run'/></testsuite>"
JAVA_ROWS: list[Row] = [
    ("honest", JAVA_DONE, CHECKED),
    ("the test is empty", {**JAVA_DONE, f"{JAVA_TESTS}/MulTest.java": "// nothing\n"}, GREEN_BEFORE),
    (
        "the report is committed",
        {**JAVA_DONE, f"{JAVA_TESTS}/MulTest.java": "//\n", f"{JAVA_REPORTS}/TEST-calc.MulTest.xml": JAVA_XML},
        GREEN_BEFORE,
    ),
    ("the older test is gone", {**JAVA_DONE, f"{JAVA_TESTS}/AddTest.java": None}, PROTECTED),
]  # fmt: skip


@rows(JAVA_ROWS)
def test_reports_of_maven_and_gradle_count_if_this_run_wrote_them(
    make_repo: Callable[..., JudgedProject], files: Files, outcome: str
) -> None:
    repo = make_repo(JAVA, resolved=False)
    repo.put({"mvnw": MVNW})
    (repo.root / "mvnw").chmod(0o755)
    repo.base = repo.commit({"README.md": "calc\n"})
    assert outcome_of(repo, "./mvnw test", files) == outcome


def test_a_folder_with_only_an_older_report_is_no_result(tmp_path: Path) -> None:
    old = tmp_path / JAVA_REPORTS / "TEST-calc.MulTest.xml"
    old.parent.mkdir(parents=True)
    old.write_text(JAVA_XML)
    report = Path(tempfile.mkdtemp(dir=tmp_path), "report.xml")
    with pytest.raises(ReportProblem, match="where an older one is"):
        list(read_folders(b"", report, tmp_path))
    new = old.with_name("TEST-calc.AddTest.xml")
    while not new.exists() or new.stat().st_ctime_ns <= report.parent.stat().st_ctime_ns:
        new.write_text(JAVA_XML.replace("Mul", "Add"))
    assert list(read_folders(b"", report, tmp_path)) == [("calc.AddTest::run", "passed")]


# ---- commands and reports --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("npx vitest run", "npx vitest run --reporter=default --reporter=junit --outputFile.junit=R"),
        ("npm test", "npm test -- --json --outputFile=R"),
        ("yarn test -t adds", "yarn test -t adds --json --outputFile=R"),
        ("go test -run Add ./...", "go test -json -run Add ./..."),
        ("cargo test -- --skip slow", "cargo test --no-fail-fast -- --skip slow"),
        ("./mvnw -q test", "./mvnw -q test --fail-at-end"),
        ("cargo test -- --nocapture", None),
        ("npm run lint", None),
        ("npm ci && npm test", None),
        ("sh check.sh", None),
    ],
)
def test_a_known_runner_is_asked_for_ids_and_any_other_command_is_not(command: str, words: str | None) -> None:
    package = b'{"scripts": {"test": "jest", "lint": "eslint ."}}'
    found = asked(parse(command), Path("R"), lambda path: package if path == "package.json" else None, keep_going=True)
    assert (found and " ".join(found.words)) == words


def test_reports_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    begin = "     Running tests/it.rs (target/debug/deps/it-b462ec70d69dbcd3)\n\nrunning 1 test\ntest adds ... ok\n"
    end = "\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    assert list(read_cargo((begin + end).encode(), tmp_path, tmp_path)) == [("it (tests/it.rs)::adds", "passed")]
    printed = begin.replace("adds ... ok", "adds ... a text without a line end\nok")
    assert list(read_cargo((printed + end).encode(), tmp_path, tmp_path)) == [("it (tests/it.rs)::adds", "passed")]
    for text in (begin, begin + "test forged ... ok\n" + end, printed + end.replace("1 passed", "2 passed")):
        with pytest.raises(ReportProblem):
            list(read_cargo(text.encode(), tmp_path, tmp_path))
    (tmp_path / "report").write_text('{"testResults": [{"name": "a.test.js"')
    with pytest.raises(ReportProblem, match="torn"):
        list(read_jest(b"", tmp_path / "report", tmp_path))


def test_a_skipped_test_of_go_that_prints_a_passed_end_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(str(GO["go.mod"]))
    (tmp_path / "calc_test.go").write_text(GO_ADD)
    about = {"Package": "example.com/calc", "Test": "TestAdd"}
    lines = [json.dumps({**about, "Action": action}).encode() for action in ("run", "pass", "skip")]
    assert list(read_go(b"\n".join(lines[:2]), tmp_path, tmp_path)) == [("calc_test.go::TestAdd", "passed")]
    with pytest.raises(ReportProblem, match="TestAdd ended twice"):
        list(read_go(b"\n".join(lines), tmp_path, tmp_path))
    again = [*lines[:2], lines[0], lines[2]]
    assert [end for _, end in read_go(b"\n".join(again), tmp_path, tmp_path)] == ["passed", "skipped"]
