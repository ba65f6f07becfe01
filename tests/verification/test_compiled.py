"""Rust and Go programs are read without a parser: where tests stand, and what may behave differently in them."""

import pytest

from agent_harness.verification.changes import CandidateChanges, FileChange
from agent_harness.verification.expecting.compiled import broken, broken_in_js, rust_parts, sees_tests
from agent_harness.verification.expecting.compiled import test_modules as modules_for_tests
from agent_harness.verification.runner_config import harm

CODE = "pub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n"
TESTS = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n}\n"
RAW = TESTS.replace("    }\n}", '        let _ = (r#"{\n}\n"#, \'"\', b\'{\', "\\"}"); // }\n    }\n}')


GO_SETS_ITS_OWN = """package calc

var (
	wants = []int{3}
	update = flag.Bool("update", false, "")
)

type fake struct{ n int }

func (f *fake) add() { f.n++ }

func TestAll(t *testing.T) {
	got, err := Half(4)
	var one struct{ A int }
	if err = json.Unmarshal(nil, &one); err != nil && got == 2 || got <= 3 {
		t.Fatal(&fake{n: 1}, &calc.Config{A: 1})
	}
	for i, c := range []struct{ a int }{{a: 1}} {
		got += i
		c.a, wants[0] = 2, 4
	}
}
"""


def change(path: str, after: str, before: str = "") -> FileChange:
    return FileChange(path=path, status="M", before=before.encode(), after=after.encode(), link=False, leads_out="")


@pytest.mark.parametrize("tests", [TESTS, RAW, TESTS.replace("test)", 'all(test, feature = "slow"))')])
def test_modules_for_tests_are_told_from_the_code_around_them(tests: str) -> None:
    code, found, hidden = rust_parts(f"{CODE}{tests}{CODE.replace('add', 'sum')}".encode())
    assert (code, found) == (f"{CODE}\n{CODE.replace('add', 'sum')}", tests)
    assert not hidden


@pytest.mark.parametrize(
    "more",
    [
        "#[test]\nfn more() {}\n",
        "#[tokio::test]\nasync fn more() {}\n",
        "#[cfg(not(test))]\nfn more() {}\n",
        "#[cfg_attr(test, derive(Debug))]\nstruct More;\n",
        "mod more_tests;\n",
        '#[cfg(test)]\n#[path = "x.rs"]\nmod tests;\n',
        "macro_rules! assert_eq {\n    ($($t:tt)*) => {};\n}\n",
        "use crate::fake as assert_eq;\n",
        "fn more() -> bool {\n    std::thread::current().name().is_some()\n}\n",
        'fn more() -> bool {\n    std::env::var("CARGO_MANIFEST_DIR").is_ok()\n}\n',
        "/* /* */ fn more() {} */\n",
        TESTS + "use self::tests as real;\n",
        "mod sums {\n    #[::core::prelude::v1::test]\n    fn adds() {}\n}\n",
        "#[cfg(doctest)]\nfn more() {}\n",
        "mod tests {\n    pub mod product;\n}\n",
        "macro_rules! case {\n    ($a:ident) => { #[$a] fn adds() {} };\n}\ncase!(test);\n",
        'fn more() -> bool {\n    std::env::var("CARGO").is_ok()\n}\n',
        'fn more() -> bool {\n    std::env::args().any(|each| each.contains("x"))\n}\n',
        'fn main() {\n    println!("{:?}", std::env::var("HOME"));\n}\n',
        "use std::thread::{current};\n",
        'fn more() -> bool {\n    std::path::Path::new("tests/mul.rs").exists()\n}\n',
        "fn more() {\n    debug_assert!({ r = 1; true });\n}\n",
        "macro_rules! case {\n    ($n:ident) => { #[test] fn $n() {} };\n}\ncase!(adds);\n",
        TESTS[:-2] + "    impl super::Calc {}\n}\n",
        TESTS.replace("mod", "#[macro_use]\nmod") + "fn more() {}\n",
    ],
)  # fmt: skip
def test_code_that_may_hide_or_see_its_tests_is_told(more: str) -> None:
    assert sees_tests(change("src/lib.rs", CODE + more, CODE), [])
    assert not sees_tests(change("src/lib.rs", CODE.replace("a + b", "b + a") + more, CODE + more), [])


@pytest.mark.parametrize(
    ("path", "files", "is_module"),
    [
        ("src/util.rs", {"src/lib.rs": "#[cfg(test)]\nmod util;\n"}, True),
        ("src/util/mod.rs", {"src/lib.rs": "#[cfg(test)]\npub(crate) mod util;\n"}, True),
        ("src/util/data.rs", {"src/lib.rs": "#[cfg(test)]\nmod util;\n", "src/util.rs": "pub mod data;\n"}, True),
        ("src/util.rs", {"src/lib.rs": "mod util;\n"}, False),
        ("src/util.rs", {"src/lib.rs": "#[cfg(test)]\nmod util;\n", "src/main.rs": "mod util;\n"}, False),
        ("src/util.rs", {}, False),
        ("util/util.go", {"util/util.go": 'package util\n\nimport (\n\t"fmt"\n\t"testing"\n)\n'}, True),
        ("util/util.go", {"util/util.go": 'package util\n\nimport "fmt"\n\nvar name = "testing"\n'}, False),
    ],
)
def test_files_that_only_tests_compile_are_told(path: str, files: dict[str, str], is_module: bool) -> None:
    paths = frozenset({path, *files})
    changes = CandidateChanges(files=(change(path, "// other\n", "// one\n"),), before=paths, after=paths)
    found = modules_for_tests(changes, lambda each: files[each].encode() if each in files else None)
    assert found == ({path} if is_module else set())


EQUAL = "impl PartialEq for P {\n    fn eq(&self, _: &P) -> bool {\n        true\n    }\n}\n"
EXAMPLE = "/// Adds.\n///\n/// ```\n/// assert_eq!(calc::add(1, 2), 3);\n/// ```\n"


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (EXAMPLE.replace("3)", "-1)") + CODE, True),
        (EXAMPLE.replace("/// ```\n/// a", "/// ```no_run\n/// a") + CODE, True),
        (EXAMPLE.replace("3)", "-1)") + CODE + "mod old {\n" + EXAMPLE + CODE + "}\n", True),
        (f"/*\n{EXAMPLE}*/\n{CODE}", True),
        (CODE, True),
        (EXAMPLE.replace("Adds", "Returns the sum") + CODE + EXAMPLE + CODE.replace("add", "sum"), False),
        ("mod latest;\n" + "pub mod sums;\n" + EXAMPLE + CODE, False),
        ('fn main() {\n    println!("{}", std::env::args().count());\n}\n' + EXAMPLE + CODE, False),
        ('fn port() -> bool {\n    std::env::var("PORT").is_ok()\n}\n' + EXAMPLE + CODE, False),
        ("pub mod sums {\n" + CODE + "}\n" + EXAMPLE + CODE, True),
    ],
)  # fmt: skip
def test_examples_and_modules_of_the_base_stay_as_they_were(after: str, told: bool) -> None:
    before = "pub mod sums;\n" + EXAMPLE + CODE
    assert bool(sees_tests(change("src/lib.rs", after, before), [])) is told


def test_equality_that_was_derived_is_not_written_by_hand() -> None:
    derived = "#[derive(Debug, PartialEq)]\npub struct P(pub i64);\n"
    after = derived.replace(", PartialEq", "") + EQUAL
    assert sees_tests(change("src/lib.rs", after, derived), [])
    assert not sees_tests(change("src/lib.rs", derived + EQUAL.replace("P ", "Q "), derived), [])


def test_a_changed_test_outside_of_a_module_is_told() -> None:
    test = "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n"
    assert sees_tests(change("src/lib.rs", CODE + test.replace("3", "4"), CODE + test), [])
    assert not sees_tests(change("tests/add.rs", test.replace("3", "4"), test), [])


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("calc.go", 'package calc\n\nimport "testing"\n', True),
        ("calc.go", 'package calc\n\nimport (\n\t"fmt"\n\t"testing"\n)\n', True),
        ("calc.go", 'var seen = flag.Lookup("test.v") != nil\n', True),
        ("calc.go", 'package calc\n\nimport ("testing")\n', True),
        ("calc.go", 'package calc\n\nimport r "runtime"\n', True),
        ("calc.go", "func seen() {\n\tflag.Visit(nil)\n}\n", True),
        ("calc.go", 'var seen = strings.Join(os.Args, " ")\n', True),
        ("calc.go", 'var seen = os.Getenv("PWD")\n', True),
        ("calc.go", 'var port, _ = os.LookupEnv("PORT")\n', False),
        ("calc.go", "var seen = os.Getenv(name)\n", True),
        ("calc.go", 'func seen() bool {\n\t_, err := os.Stat("calc.go")\n\treturn err == nil\n}\n', True),
        ("main.go", "package main\n\nfunc main() {\n\trun(os.Args[1:])\n}\n", False),
        ("calc.go", "//go:build !prod\n\npackage calc\n", True),
        ("calc.go", "//go:build linux && !arm64\n\npackage calc\n", False),
        ("calc.go", "// A comment about runtime.Callers and \"testing\"\npackage calc\n", False),
        ("calc_test.go", "package calc\n\nfunc half(a int) int { return a / 2 }\n", True),
        ("calc_test.go", "package calc\n\nfunc other(a int) int { return a / 2 }\n", False),
        ("calc_test.go", "package calc\n\nfunc Mul(a, b int) int { return a * b * one }\n", True),
        ("calc.go", 'package calc\n\nimport "fmt"; import "testing"\n', True),
        ("calc_test.go", "package calc\n\nfunc (p product) String() string { return p.a }\n", True),
        ("calc_test.go", "package calc\n\nvar _ = func() bool { on = true; return true }()\n", True),
        ("calc_test.go", "package calc\n\nfunc TestMain(m *testing.M) {\n\tcalc.On = true\n}\n", True),
        ("calc_test.go", "package calc\n\nfunc TestA(t *testing.T) {\n\twants[0] = -1\n}\n", True),
        ("calc_test.go", "package calc\n\nfunc TestA(t *testing.T) {\n\tp := &on\n\t*p = true\n}\n", True),
        ("calc_test.go", "package calc\n\nfunc TestA(t *testing.T) {\n\twas, on = on, true\n}\n", True),
        ("calc_test.go", GO_SETS_ITS_OWN, False),
        ("calc_test.go", "package calc\n\ntype fake struct{}\n\nfunc (fake) half(a int) int { return a }\n", False),
    ],
)  # fmt: skip
def test_go_code_that_sees_its_tests_or_needs_their_files_is_told(path: str, text: str, told: bool) -> None:
    work = change("half.go", "package calc\n\nfunc Half(a int) int { return half(a) }\n")
    assert bool(sees_tests(change(path, text), [work])) is told


ASSERT = "import assert from 'node:assert/strict';\n"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("if (!process.env.NODE_TEST_CONTEXT) return n;\n", True),
        ("const { NODE_TEST_CONTEXT: seen } = process.env;\n", True),
        ("const seen = process.argv[1].includes('test');\n", True),
        ("const seen = process.execArgv.length > 0;\n", True),
        ("const seen = require.main !== module;\n", True),
        ("const seen = new Error().stack.includes('test');\n", True),
        ("const seen = process['en' + 'v'].VITE;\n", True),
        ("if (import.meta.vitest) answer = 12;\n", True),
        ("export const seen = typeof describe === 'function';\n", True),
        ("if (process.env.NODE_ENV === 'test') answer = 12;\n", True),
        ("import { mock } from 'node:test';\n", True),
        (ASSERT + "assert.equal = () => {};\n", True),
        (ASSERT + "assert['ok'] = () => {};\n", True),
        (ASSERT + "Object.defineProperty(assert, 'ok', { value() {} });\n", True),
        ("require('assert').ok = () => {};\n", True),
        ("const { strict: check } = require('node:assert');\ncheck.ok = () => {};\n", True),
        ("globalThis.expect = () => {};\n", True),
        ("Object.is = () => true;\n", True),
        (ASSERT + "assert.equal(a, b);\nassert(a.ok === true);\nconst f = (x) => assert.ok(x);\n", False),
        ("if (require.main === module) main(process.argv.slice(2));\n", False),
        ("if (process.argv[1] === fileURLToPath(import.meta.url)) main();\n", False),
        ("const [, , name] = process.argv;\nconst port = process.env.PORT;\n", False),
        ("console.error(error.stack);\nthis.stack.push(1);\nresult.ok = true;\n", False),
        ("class Odd extends Error { constructor() { super(); Error.captureStackTrace(this, Odd); } }\n", False),
        ("export const latest = { test: 1 };\nif (/a/.test(name)) process.exit(1);\n", False),
    ],
)
def test_javascript_that_sees_its_tests_or_changes_assertions_is_told(more: str, told: bool) -> None:
    code = "export const add = (a, b) => a + b;\n"
    assert bool(sees_tests(change("src/calc.mjs", code + more, code), [])) is told
    assert not sees_tests(change("src/calc.mjs", more + code + code, code + more), [])


def test_only_new_and_changed_functions_are_broken() -> None:
    new = "pub fn mul(a: i64) -> i64 {\n    a\n}\n\nfn name() -> String {\n    String::new()\n}\n"
    found, sure = broken([change("src/lib.rs", CODE + TESTS + new, CODE), change("tests/it.rs", "fn it() {}\n")])
    assert list(found) == ["src/lib.rs"] and sure
    text = found["src/lib.rs"].decode()
    assert text.startswith(CODE) and text.endswith(TESTS)
    assert text.count("return 113") == 1 and text.count('"~".to_string()') == 1
    work = [change("a.go", "package a\n\nfunc F(x interface{}) bool { return true }\n\nfunc init() {}\n")]
    assert broken(work)[0]["a.go"].count(b"if true { return *new(bool) };") == 1
    found, sure = broken(work, fails=True)
    assert found["a.go"].count(b'if true { panic("changed") };') == 1 and not sure


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        ("func F(a int) (int, error)", "return 113, *new(error)"),
        ("func (c *Calc) F(in <-chan int) (n int, err error)", "return "),
        ("func F[T any](a T) func(int) int", "return *new(func(int) int)"),
        ("func F() (map[string]int, []int)", "return *new(map[string]int), *new([]int)"),
        ("fn f<F: Fn(i64) -> i64>(f: F) -> bool", "return false"),
        ("fn f<F>(f: F) -> u8 where F: Fn(i64) -> i64", "return 113"),
        ("fn f(&self) -> Result<String, Error>", 'return Ok("~".to_string())'),
        ("fn f(&mut self, a: i64)", "return "),
        ("fn f() -> Option<&'a str>", "return None"),
        ("fn f() -> impl Fn(i64) -> i64", None),
        ("fn f() -> Self", None),
    ],
)  # fmt: skip
def test_a_broken_function_gives_a_value_of_its_type(head: str, answer: str | None) -> None:
    path = "a.go" if head.startswith("func") else "src/a.rs"
    text = broken([change(path, f"{head} {{ x }}\n")])[0][path].decode()
    assert text == (f"{head} {{ if true {{ {answer} }};  x }}\n" if answer is not None else f"{head} {{ x }}\n")


@pytest.mark.parametrize(
    ("code", "other"),
    [
        ("exports.mul = (a, b) =>@ a * b;\n", "113"),
        ("const mul = async (a) => {@\n  a;\n};\n", "113"),
        ("export function f(a = g()) {@\n  return `x`;\n}\n", '"~"'),
        ("class A {\n  b(c: number): string {@\n    if (c) {}\n  }\n}\n", "113"),
        ("const mul = a =>@ a", "113"),
        ("const say = (n) =>@ `${n}`;\n", '"~"'),
    ],
)  # fmt: skip
def test_new_functions_of_javascript_are_broken(code: str, other: str) -> None:
    old = "export const old = (a) => a;\n"
    work = [change("calc.ts", old + code.replace("@", ""), old)]
    undone = "if (true) return undefined; " if "{@" in code else " true ? undefined :"
    assert broken_in_js(work, valued=False)["calc.ts"].decode() == old + code.replace("@", undone)
    assert f" {other}" in broken_in_js(work, valued=True)["calc.ts"].decode()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("[lib]\ntest = false\n", "it sets lib"),
        ("[profile.test]\npanic = 'abort'\n", "it sets profile"),
        ("[dev-dependencies]\na = { path = './', features = ['x'] }\n", "it sets dev-dependencies"),
        ("[target.'cfg(unix)'.dev-dependencies]\na = { path = '../a', features = ['x'] }\n", "it sets target"),
        ("[dev-dependencies]\na = { path = '../a' }\nb = { version = '1', features = ['x'] }\n", None),
        ("[dependencies]\na = '1'\n", None),
        ("[", "it cannot be read"),
    ],
)
def test_settings_of_cargo_that_decide_what_is_tested_are_protected(more: str, why: str | None) -> None:
    before = b"[package]\nname = 'a'\nversion = '1.0.0'\n"
    assert harm("Cargo.toml", before, before + more.encode()) == why


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("<dependencies><dependency>b</dependency></dependencies>\n", None),
        ("<build><testSourceDirectory>other</testSourceDirectory></build>\n", "it sets more than dependencies"),
    ],
)
def test_settings_of_maven_that_decide_what_is_tested_are_protected(more: str, why: str | None) -> None:
    assert harm("pom.xml", b"<project>\n</project>\n", f"<project>\n{more}</project>\n".encode()) == why
