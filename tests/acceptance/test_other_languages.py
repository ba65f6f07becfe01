"""Feature projects in JavaScript, Go and Rust: the adoption, the stub of a new feature, and its verification."""

import os
import pwd
import shutil
from pathlib import Path

import pytest

from .calc import CalcProject
from .script import claim, commit, say, sh, turn, write


@pytest.fixture(autouse=True)
def normal_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_VERIFICATION__TRUST", "normal")


@pytest.fixture
def toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the place of the Rust toolchain, which is usually in the home folder; a check gets another one."""
    rustup = Path(pwd.getpwuid(os.getuid()).pw_dir, ".rustup")
    if rustup.is_dir():
        monkeypatch.setenv("RUSTUP_HOME", str(rustup))


def adopted(bare: CalcProject, files: dict[str, str]) -> str:
    """Adopt a project with these files, add a feature, and return the feature's test file."""
    bare.git("init", "-q", "-b", "main")
    bare.put(files)
    bare.commit("Years of work")
    done = bare.harness("init", "--adopt")
    assert done.code == 0, done.text
    assert "Known to pass: 1 tests." in done.out
    added = bare.harness("add-feature", "User can subtract")
    assert added.code == 0, added.text
    assert bare.changes() == []
    return str(bare.features["features"][0]["test_file"])


def built(bare: CalcProject, test_file: str, *, code: tuple[str, str], test: str, shows: str) -> None:
    """Let an agent lie about the feature, and then let another one build it."""
    lie = turn(say(f"$ {shows}\n# pass 3\nok  \tcalc\t0.1s\ntest result: ok. 3 passed; 0 failed"), claim(1), times=9)
    lied = bare.run([lie])
    assert lied.code == 1, lied.text
    assert bare.passing() == []
    honest = bare.run([turn(write(*code), write(test_file, test), sh(shows), claim(1), commit("Subtract"))])
    assert honest.code == 0, honest.text
    assert "asks for it once" not in honest.text, "the run of the whole suite is evidence"
    assert bare.passing() == [1]
    assert bare.changes() == []


SCRIPT = "export const add = (a, b) => a + b;\n"
SCRIPT_TEST = (
    "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport * as calc from '../calc.js';\n"
)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_javascript(bare: CalcProject) -> None:
    """C20, C48."""
    package = '{"type": "module", "scripts": {"test": "node --test"}}\n'
    test = SCRIPT_TEST + "test('adds', () => assert.equal(calc.add(2, 3), 5));\n"
    file = adopted(bare, {"package.json": package, "calc.js": SCRIPT, "test/add.spec.js": test})
    assert file == "test/user_can_subtract.spec.js"
    stub = (bare.root / file).read_text()
    assert stub.startswith("import { test } from 'node:test';\n") and "Not implemented" in stub
    code = ("calc.js", SCRIPT + "export const sub = (a, b) => a - b;\n")
    proof = SCRIPT_TEST + "test('subtracts', () => assert.equal(calc.sub(5, 3), 2));\n"
    built(bare, file, code=code, test=proof, shows="node --test")


@pytest.mark.skipif(shutil.which("go") is None, reason="no go")
def test_go(bare: CalcProject) -> None:
    head = 'package calc\n\nimport "testing"\n\n'
    code = "package calc\n\nfunc Add(a, b int) int { return a + b }\n"
    test = head + 'func TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fatal("add")\n\t}\n}\n'
    file = adopted(
        bare, {"go.mod": "module example.com/m\n\ngo 1.19\n", "calc/calc.go": code, "calc/add_test.go": test}
    )
    assert file == "calc/user_can_subtract_test.go"
    assert "func TestUserCanSubtract(t *testing.T)" in (bare.root / file).read_text()
    proof = head + 'func TestUserCanSubtract(t *testing.T) {\n\tif Sub(5, 3) != 2 {\n\t\tt.Fatal("sub")\n\t}\n}\n'
    grown = code + "\nfunc Sub(a, b int) int { return a - b }\n"
    built(bare, file, code=("calc/calc.go", grown), test=proof, shows="go test ./...")


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
@pytest.mark.usefixtures("toolchain")
def test_rust(bare: CalcProject) -> None:
    manifest = '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n'
    code = "pub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n"
    test = "#[test]\nfn adds() {\n    assert_eq!(calc::add(2, 3), 5);\n}\n"
    lock = 'version = 4\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n'
    files = {"Cargo.toml": manifest, "Cargo.lock": lock, "src/lib.rs": code, "tests/add.rs": test}
    file = adopted(bare, {**files, ".gitignore": "target\n"})
    assert file == "tests/user_can_subtract.rs"
    grown = code + "\npub fn sub(a: i64, b: i64) -> i64 {\n    a - b\n}\n"
    proof = "#[test]\nfn subtracts() {\n    assert_eq!(calc::sub(5, 3), 2);\n}\n"
    built(bare, file, code=("src/lib.rs", grown), test=proof, shows="cargo test")


def test_what_cannot_be_run_leaves_everything_as_it_was(bare: CalcProject) -> None:
    bare.git("init", "-q", "-b", "main")
    bare.put({"README.md": "mine\n"})
    bare.commit("Start")
    head = bare.head
    for command in ("", "no-such-program test", "true"):
        refused = bare.harness("init", "--adopt", "--check", command)
        assert refused.code == 4, refused.text
        assert "next: harness init --adopt --check 'COMMAND THAT RUNS THE TESTS'" in refused.err
        assert (bare.head, bare.changes()) == (head, [])
    for broken in ('{"scripts": {"test": ', "[" * 100_000, '{"scripts": ["test"]}'):
        bare.put({"package.json": broken})
        bare.commit("A package")
        refused = bare.harness("init", "--adopt")
        assert (refused.code, "valid package.json" in refused.err) == (4, True), refused.text
        assert bare.changes() == []
    bare.put({"tests/test_a.py": "def test_a():\n    pass\n"})
    bare.commit("A test")
    done = bare.harness("init", "--adopt", "--check", "python -m pytest tests -q")
    assert done.code == 0, done.text
    assert "full: python -m pytest tests -q\n" in (bare.root / ".harness.yaml").read_text()
    assert "feature: python -m pytest {test_file} -q\n" in (bare.root / ".harness.yaml").read_text()
