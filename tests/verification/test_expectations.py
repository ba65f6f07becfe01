"""Which values of a check are changed, and which stay: read without running anything."""

import ast
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_harness.verification.expectations import one_by_one, with_other_values
from agent_harness.verification.runner.no_tests import left_out, ran_no_test

from .noticing import samples

# Suffix, a line that a check may have, and what it is with other values; the same where nothing may change.
_LINES = [
    ("js", "assert.equal(add(1, 2), 3, 'adds 3');", "assert.equal(add(1, 2), 2, 'adds 3');"),
    ("js", "if (x === 3) { throw new Error('no 3') }", None),
    ("js", "assert.ok(x !== 9); assert(!(y === 5));", None),
    (
        "js",
        "expect(f('a')).toBe('b'); expect(f(1)).not.toBe(7);",
        "expect(f('a')).toBe('wqxzjkvwy'); expect(f(1)).not.toBe(7);",
    ),
    ("js", "if (out.includes('error 5')) process.exit(1);", None),
    ("js", "const m = require('./work-1.js'); import x from 'y';", None),
    ("js", "process.exit(failures === 0 ? 0 : 1);", None),
    ("js", "process.exit(f(2) === 4 ? 0 : 1);", "process.exit(f(2) === 3 ? 0 : 1);"),
    (
        "js",
        "// assert.equal(1, 2)\n/* x === 3 */ const r = /'[/]\"/; assert.equal(r, 7);",
        "// assert.equal(1, 2)\n/* x === 3 */ const r = /'[/]\"/; assert.equal(r, 6);",
    ),
    (
        "go",
        'if got := Mul(2, 3); got != 6 {\n\tt.Fatalf("6 wanted: %d", got)\n}',
        'if got := Mul(2, 3); got != 5 {\n\tt.Fatalf("6 wanted: %d", got)\n}',
    ),
    ("go", 'if got == 6 {\n\tt.Fatal("no")\n}', None),
    ("go", "if err != nil {\n\tt.Fatal(err)\n}", None),
    ("go", 'if strings.Contains(out, "panic 1") {\n\tt.Error(out)\n}', None),
    (
        "go",
        'if !strings.Contains(out, "abc") {\n\tt.Error(out)\n}',
        'if !strings.Contains(out, "awqxzjkvwyc") {\n\tt.Error(out)\n}',
    ),
    ("go", "require.Equal(t, 5, Add(2, 3))", "require.Equal(t, 4, Add(2, 3))"),
    ("go", r'require.Equal(t, "\x9c\u00e9a\x03", f())', r'require.Equal(t, "\x9c\u00e9qqxzjkvwy\x03", f())'),
    (
        "go",
        'for c := range []struct{in string; want int}{{"2d", 48}} {\n\tif P(c.in) != c.want {\n\t\tt.Fail()\n\t}\n}',
        'for c := range []struct{in string; want int}{{"2d", 38}} {\n\tif P(c.in) != c.want {\n\t\tt.Fail()\n\t}\n}',
    ),
    (
        "rs",
        'assert_eq!(mul(2, 3), 6, "six 6"); assert_ne!(f(), 3);',
        'assert_eq!(mul(2, 3), 5, "six 6"); assert_ne!(f(), 3);',
    ),
    (
        "rs",
        "assert!(f() == \"y\"); assert_eq!(g('a'), vec![1, 2]);",
        "assert!(f() == \"vqxzjkvwy\"); assert_eq!(g('a'), vec![2, 1]);",
    ),
    ("rs", 'assert_eq!(f(), "ab".to_string());', 'assert_eq!(f(), "qqxzjkvwyb".to_string());'),
    ("c", '#define N 3\nif (strcmp(f(), "no") == 0) abort();', None),
    ("c", 'assert(strcmp(f(), "hi") == 0);', 'assert(strcmp(f(), "di") == 0);'),
    ("java", 'assertEquals("sum 5", 5, add(2, 3));', 'assertEquals("sum 5", 4, add(2, 3));'),
    ("java", "assertNotEquals(5, add(2, 3)); assertThrows(X.class, () -> f(3));", None),
    ("cs", "Assert.Equal(3, Add(1, 2));", "Assert.Equal(2, Add(1, 2));"),
    (
        "php",
        "if (f(2) !== 4) { exit(1); }\n$this->assertSame(3, f(1));",
        "if (f(2) !== 3) { exit(1); }\n$this->assertSame(2, f(1));",
    ),
    ("rb", "raise 'no 3' unless add(1, 2) == 3", "raise 'no 3' unless add(1, 2) == 2"),
    (
        "rb",
        "assert_equal 5, add(2, 3)\nrefute_equal 6, add(2, 3)",
        "assert_equal 4, add(2, 3)\nrefute_equal 6, add(2, 3)",
    ),
    ("pl", 'die if $y eq "bad 1";\ndie unless $y eq "foo";', 'die if $y eq "bad 1";\ndie unless $y eq "flqxzjkvwyo";'),
    ("pl", "isnt(f(), 4, 'x'); is(f(), 5, 'five 5');", "isnt(f(), 4, 'x'); is(f(), 4, 'five 5');"),
    (
        "awk",
        '$1 == "x" && $2 != 12 { bad = 1 }\nEND { exit bad }',
        '$1 == "x" && $2 != 17 { bad = 1 }\nEND { exit bad }',
    ),
    (
        "sql",
        "SELECT CASE WHEN (SELECT sum(n) FROM t) = 12 THEN 'ok' END;",
        "SELECT CASE WHEN (SELECT sum(n) FROM t) = 17 THEN 'ok' END;",
    ),
    (
        "sql",
        "CREATE TABLE must(got, want, CHECK (got = want));\nINSERT INTO must SELECT n, 50 FROM t WHERE k = 'a';",
        "CREATE TABLE must(got, want, CHECK (got = want));\nINSERT INTO must SELECT n, 40 FROM t WHERE k = 'a';",
    ),
    ("sql", "SELECT n FROM t WHERE k = 'a' AND i = 3;", None),
    ("sh", "./p | grep -q '\"sum\": 5' || exit 1", "./p | grep -q '\"sum\": 384' || exit 1"),
    ("sh", "./p | grep -q 'total=[0-9]' || exit 1", "./p | grep -q 'oloqh=[0-9]' || exit 1"),
    ("py", "assert 'sum=abcdef' in f()", "assert 'sum=abcyef' in f()"),
    ("sh", "! grep -q 'ERROR 1' out && grep -v x out", None),
    ("sh", "grep -qE '^bad [0-9]+$' out && exit 1", None),
    ("sh", "if ./p | grep -q bad; then echo no >&2; exit 1; fi", None),
    ("sh", '[ -z "$(grep ERROR log)" ]\n[ $# -eq 0 ] || exit 2\ncd src/abc && . ./lib.sh', None),
    ("sh", "grep -m 1 -A 2 -e foo out || exit 1", "grep -m 1 -A 2 -e aqxzjkvwyll out || exit 1"),
    ("sh", '[ "$x" != yes ] && exit 1', '[ "$x" != yzqxzjkvwys ] && exit 1'),
    ("sh", "[ `./p 1` -eq 20 ] || exit 1 # = 20", "[ `./p 1` -eq 10 ] || exit 1 # = 20"),
    ("sh", "x=`./p | grep \\`./q\\` | grep -c ab`", "x=`./p | grep \\`./q\\` | grep -c qqxzjkvwyw`"),
    ("sh", "case $(./p) in ab) ;; *) exit 1 ;; esac", "case $(./p) in qqxzjkvwyw) ;; *) exit 1 ;; esac"),
    ("sh", "case $(./p) in abcd | c) ;; *) exit 1 ;; esac", "case $(./p) in qwxy | xqxzjkvwy) ;; *) exit 1 ;; esac"),
    ("sh", "./p | diff - /dev/fd/3 3<<-E\n\tab\n\tE", "./p | diff - /dev/fd/3 3<<-E\n\tqqxzjkvwyb\n\tE"),
    (
        "py",
        "assert f('x') == 'y', 'm == 3'\nassert g() != 4\nassert 3 not in h()",
        "assert f('x') == 'vqxzjkvwy', 'm == 3'\nassert g() != 4\nassert 3 not in h()",
    ),
    ("py", "if f(2) == 4:\n    raise SystemExit(1)", None),
    ("py", "import sys\nif len(sys.argv) != 2:\n    pass\nassert r.returncode == 0", None),
]


def _changed(suffix: str, line: str) -> str:
    found = with_other_values("run-it", {f"check.{suffix}": f"{line}\n".encode()})
    return found[0].files[f"check.{suffix}"].decode().rstrip("\n") if found else line


@pytest.mark.parametrize(("suffix", "line", "other"), _LINES)
def test_only_values_that_have_to_hold_are_changed(suffix: str, line: str, other: str | None) -> None:
    assert _changed(suffix, line) == (other or line)


@pytest.mark.parametrize(
    "command", ["ruff check .", "test -f out.txt", "cc -o t t.c", "go test ./...", "sh build.sh -o 3", "npm test"]
)
def test_a_check_without_values_is_left_alone(command: str) -> None:
    assert with_other_values(command, {"build.sh": b"set -e\ncc -O2 -o prog main.c\n"}) == []


def test_all_kinds_come_first_and_then_each_by_itself() -> None:
    found = with_other_values(
        "make check && grep -q total out", {"Makefile": b'check:\n\ttest "$$(./p)" = 12\n'}, {"t.csv": b"a,b\nx,12\n"}
    )

    assert [each.places for each in found] == [3, 1, 1, 1]
    assert [each.what for each in found[1:]] == [
        "the expected values of Makefile are changed (1 place)",
        "the values in the words of the command are changed (1 place)",
        "the values in t.csv are changed (1 place)",
    ]
    assert found[0].files == {"Makefile": b'check:\n\ttest "$$(./p)" = 17\n', "t.csv": b"a,b\nx,17\n"}
    assert found[0].command != "make check && grep -q total out"
    assert found[1].command == "make check && grep -q total out"


@pytest.mark.parametrize(
    ("path", "content", "other"),
    [
        ("a.json", '{"n": 12, "k": ["x y", true], "z": -3}', '{"n": 17, "k": ["u v", false], "z": -2}'),
        ("a.csv", "item,price\napple,12\n", "item,price\napple,17\n"),
        ("a.txt", "total: 12\nfine\n", "total: 17\nfije\n"),
        ("a.html", "<p class='x1'>12 items</p>", "<p class='x1'>17 itzms</p>"),
    ],
)
def test_data_keeps_its_shape_and_its_keys(path: str, content: str, other: str) -> None:
    (changed,) = with_other_values("cmp out want", {}, {path: content.encode()})

    assert changed.files[path].decode() == other


def test_changed_checks_parse_as_before() -> None:
    for sample in samples():
        for changed in with_other_values(sample.command, sample.of("check"), sample.of("data")):
            assert (
                changed == with_other_values(sample.command, sample.of("check"), sample.of("data"))[0] or changed.places
            )
            files = {**changed.files, "command.sh": changed.command.encode()}
            for path, content in files.items():
                before = sample.of("check").get(path) or sample.of("data").get(path) or sample.command.encode()
                assert content.count(b"\n") == before.count(b"\n")
                assert [content.count(quote) for quote in (b'"', b"'", b"`")] == [
                    before.count(q) for q in (b'"', b"'", b"`")
                ]
                if path.endswith(".py"):
                    ast.parse(content)
                elif path.endswith(".sh"):
                    assert subprocess.run(["sh", "-n"], input=content, check=False).returncode == 0


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_changed_javascript_parses(tmp_path: Path) -> None:
    lines = [_changed(suffix, line) for suffix, line, _ in _LINES if suffix == "js" and "import" not in line]
    (tmp_path / "all.js").write_text("\n".join(f"{{ {line} }}" for line in lines if "\n" not in line))

    assert subprocess.run(["node", "--check", "all.js"], cwd=tmp_path, check=False).returncode == 0


@pytest.mark.parametrize(
    "suffix", ["js", "go", "rs", "c", "pl", "rb", "php", "awk", "sql", "sh", "mk", "txt", "json", "csv"]
)
def test_whatever_a_file_holds_is_read(suffix: str) -> None:
    pieces = [
        "'",
        '"',
        "`",
        "\\",
        "(",
        ")",
        "{",
        "}",
        "[",
        "$(",
        "<<EOF\n",
        "==",
        "!=",
        "if ",
        "x",
        "3",
        "\n",
        "#",
        "/",
        "assert.equal(",
    ]
    pieces += ["case $x in ", "esac", ";", "&&", "||", "|", " ", "want = ", "strcmp(", ",", "[ ", "grep ", "\t"]
    chance = random.Random(suffix)
    for _ in range(60):
        text = "".join(chance.choices(pieces, k=120))
        for changed in with_other_values("x", {f"a.{suffix}": text.encode()}):
            assert changed.files[f"a.{suffix}"].decode().count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("go test -run TestMul ./...", "ok  \tdemo\t0.003s [no tests to run]\n", "no tests to run"),
        ("go test ./...", "?   \tdemo\t[no test files]\n", "no test files"),
        ("go test -v ./...", "=== RUN   TestA\n--- SKIP: TestA (0.00s)\nPASS\nok  \tdemo\t0.003s\n", "skip themselves"),
        ("go test ./...", "?   \ta\t[no test files]\nok  \tb\t0.003s\n", None),
        ("go test -v ./...", "--- SKIP: TestA (0.00s)\n--- PASS: TestB (0.00s)\nok  \tdemo\t0.003s\n", None),
        (
            "cargo test mul",
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n",
            "0 tests",
        ),
        (
            "cargo test",
            "running 1 test\ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n",
            "1 ignored",
        ),
        (
            "cargo test",
            "running 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored;\nrunning 0 tests\n",
            None,
        ),
        ("node --test", "# tests 0\n# suites 0\n# pass 0\n# fail 0\n# skipped 0\n", "0 tests"),
        ("npm test", "\u2139 tests 2\n\u2139 pass 0\n\u2139 fail 0\n\u2139 skipped 2\n", "skipped all of its 2"),
        ("node --test", "# tests 1\n# pass 1\n# fail 0\n# skipped 0\n", None),
        ("python3 -m unittest", "\nRan 0 tests in 0.000s\n\nOK\n", "0 tests"),
        ("python3 -m unittest", "s\nRan 1 test in 0.000s\n\nOK (skipped=1)\n", "skipped all of its 1"),
        ("python3 -m unittest", ".s\nRan 2 tests in 0.000s\n\nOK (skipped=1)\n", None),
        ("npx vitest run", "No test files found, exiting with code 0\n", "no tests were found"),
        ("npx jest", "Test Suites: 1 skipped, 0 of 1 total\nTests:       1 skipped, 1 total\n", "skipped"),
        ("npx jest", "Test Suites: 1 passed, 1 total\nTests:       1 passed, 1 total\n", None),
        (
            "go test ./a && cargo test",
            "ok  \ta\t0s [no tests to run]\nrunning 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored;\n",
            None,
        ),
        ("sh check.sh", "fine\n", None),
    ],
)
def test_runs_without_a_test_are_seen(command: str, output: str, told: str | None) -> None:
    found = ran_no_test(command, output)

    assert (found is None) == (told is None)
    assert told is None or told in (found or "")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Ran 3 tests in 0.1s\n\nOK (skipped=1)\n", "OK (skipped=1)"),
        ("Ran 3 tests in 0.1s\n\nOK (expected failures=1)\n", "OK (expected failures=1)"),
        ("ok 1 - a\nnot ok 2 - b # todo later\n", "not ok 2 - b # todo later"),
        ("ok 1 - a # skip no network\n", "ok 1 - a # skip no network"),
        ("\u2139 pass 1\n\u2139 skipped 2\n\u2139 todo 0\n", "\u2139 skipped 2"),
        ("# pass 1\n# skipped 0\n# todo 0\nOK\n", ""),
    ],
)
def test_tests_that_a_run_left_out_are_seen(output: str, line: str) -> None:
    assert left_out(output) == line


GO = """\
func TestTwice(t *testing.T) {
	for number, want := range map[int]int{3: 6, 21: 42} {
		if got := Twice(number); got != want {
			t.Errorf("%d", got)
		}
	}
}
"""
MAKE = "release:\n\tgrep -q 1.0 NEWS\n\ncheck:\n\tpython3 app.py 3 | grep -qx 6\n"
SHELL = '[ "$1" != --all ] || exec make\n\n[ "$(sh prog 3)" = 6 ]\n[ "$(sh prog 21)" = 42 ]\n'


def test_a_map_that_a_loop_of_go_goes_over_is_a_table() -> None:
    changed = with_other_values("go test ./...", {"n_test.go": GO.encode()})

    assert b"{3: 5, 21: 32}" in changed[0].files["n_test.go"]


@pytest.mark.parametrize(
    ("command", "path", "text", "lines"),
    [
        ("make -s check", "Makefile", MAKE, [5]),  # no other goal
        ("sh check.sh", "check.sh", SHELL, [4, 3]),  # no argument of the check, and the last one first
        ("python3 check.py", "check.py", "".join(f"assert f({n}) == {n}\n" for n in range(9)), [9, 1, 5, 3]),
    ],
)
def test_single_values_are_those_that_the_command_asks_for(
    command: str, path: str, text: str, lines: list[int]
) -> None:
    found = one_by_one(command, {path: text.encode()}, most=4)

    assert [each.what.partition(" of ")[0] for each in found] == [f"one value in line {line}" for line in lines]


RUST = """\
#[test]
fn adds() {
    assert_eq!(add(1, 2), 3);
}

#[test]
fn doubles() {
    assert_eq!(twice(2), 4);
    assert_eq!(twice(3), 6);
}
"""
JS = """\
t("one", () => a.equal(f(1), 1));
t("two", () => {
  a.equal(f(2), 2);
});
t("three", () => a.equal(f(3), 3));
"""


@pytest.mark.parametrize(
    ("command", "path", "text", "lines"),
    [
        ("cargo test doubles", "tests/a.rs", RUST, [9, 8]),
        ("cargo test -p adds --test adds doub -- --exact", "tests/a.rs", RUST, [9, 8]),
        ("cargo test", "tests/a.rs", RUST, [9, 3, 8]),
        ("cargo test of_no_such_name", "tests/a.rs", RUST, [9, 3, 8]),
        ("go test -run '^TestTwice$' ./...", "n_test.go", GO + GO.replace("Twice", "Thrice"), [2, 2]),
        ("node --test --test-name-pattern=two a.js", "a.js", JS, [3]),
        ("npx jest a -t three", "a.js", JS, [5]),
    ],
)
def test_single_values_are_those_of_the_tests_that_the_command_names(
    command: str, path: str, text: str, lines: list[int]
) -> None:
    found = one_by_one(command, {path: text.encode()}, most=4)

    assert [each.what.partition(" of ")[0] for each in found] == [f"one value in line {line}" for line in lines]


@pytest.mark.parametrize(
    ("path", "piece"),
    [
        ("a.js", "assert.equal(("),
        ("a.js", "assert.equal("),
        ("a.py", "x = f()\nif x != 3: raise SystemExit(1)\n"),
        ("a.py", "assert f() == 'ä'; "),
        ("a.js", "=/["),
        ("a.js", "`$"),
        ("a.c", "if (a == 1 && "),
        ("a.go", "want := []int{"),
        ("a.pl", "'\\"),
        ("a.sh", "case $x in a) "),
        ("a.sh", "if a; then $("),
        ("Makefile", "\t\\\n"),
        ("a.yaml", "a: - b "),
        ("a.csv", "a,1\n"),
    ],
)
def test_reading_a_large_file_comes_to_an_end(path: str, piece: str) -> None:
    with_other_values("x", {path: (piece * 20_000).encode()[:60_000]})
