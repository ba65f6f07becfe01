"""Rust and Go programs are read without a parser: where tests stand, and what may behave differently in them."""

import pytest

from agent_harness.verification.changes import FileChange
from agent_harness.verification.expecting.compiled import broken, broken_in_js, rust_parts, sees_tests
from agent_harness.verification.runner_config import harm

CODE = "pub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n"
TESTS = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n}\n"
RAW = TESTS.replace("    }\n}", '        let _ = (r#"{\n}\n"#, \'"\', b\'{\', "\\"}"); // }\n    }\n}')


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
        "/* /* */ #[test] */\n",
        "macro_rules! case {\n    ($n:ident) => { #[test] fn $n() {} };\n}\ncase!(adds);\n",
        TESTS[:-2] + "    impl super::Calc {}\n}\n",
        TESTS.replace("mod", "#[macro_use]\nmod") + "fn more() {}\n",
    ],
)  # fmt: skip
def test_code_that_may_hide_or_see_its_tests_is_told(more: str) -> None:
    assert sees_tests(change("src/lib.rs", CODE + more, CODE), [])
    assert not sees_tests(change("src/lib.rs", CODE.replace("a + b", "b + a") + more, CODE + more), [])


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
        ("calc.go", "//go:build !prod\n\npackage calc\n", True),
        ("calc.go", "//go:build linux && !arm64\n\npackage calc\n", False),
        ("calc.go", "// A comment about runtime.Callers and \"testing\"\npackage calc\n", False),
        ("calc_test.go", "package calc\n\nfunc half(a int) int { return a / 2 }\n", True),
        ("calc_test.go", "package calc\n\nfunc other(a int) int { return a / 2 }\n", False),
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
    found = broken([change("src/lib.rs", CODE + TESTS + new, CODE), change("tests/it.rs", "fn it() {}\n")])
    assert list(found) == ["src/lib.rs"]
    text = found["src/lib.rs"].decode()
    assert text.startswith(CODE) and text.endswith(TESTS)
    assert text.count("return 113") == 1 and text.count('"~".to_string()') == 1
    go = broken([change("a.go", "package a\n\nfunc F(x interface{}) bool { return true }\n\nfunc init() {}\n")])
    assert go["a.go"].count(b'panic("changed")') == 1


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
        ("[dev-dependencies]\na = { path = '.', features = ['x'] }\n", "it sets dev-dependencies"),
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
