"""`harness init --adopt`: a project that has code and tests already; nothing overwritten, known failures recorded."""

import shutil

import pytest

from .calc import QUICK_PYTEST, CalcProject
from .script import CODE, append, claim, commit, prompt_to, proof_text, sh, stub_text, turn, write

PASSING = "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
FAILING = "def test_never():\n    assert False\n"


def files_of(calc: CalcProject) -> dict[str, str]:
    """Every file of the work tree, with HEAD and the refs; git makes folders of its own when it is asked."""
    found = calc.fingerprint()
    return {
        name: mark for name, mark in found.items() if not name.startswith((".git/harness", ".git/logs", ".git/index"))
    }


@pytest.fixture
def grown(bare: CalcProject) -> CalcProject:
    """A repository with code, a test that passes and one that fails."""
    bare.git("init", "-q", "-b", "main")
    bare.put(
        {
            "src/calc.py": CODE["add"],
            "tests/test_calc.py": PASSING,
            "tests/test_broken.py": FAILING,
            "pytest.ini": QUICK_PYTEST,
            ".gitignore": "__pycache__/\r\n.pytest_cache/",
            "README.md": "mine\n",
        }
    )
    bare.commit("Years of work")
    return bare


def test_a_project_in_the_folder_of_a_deleted_one_begins_anew(grown: CalcProject) -> None:
    """Its records outside of the folder are set aside; those of a project that is adopted again are not."""
    assert grown.harness("init", "--adopt").code == 0
    shutil.rmtree(grown.root / ".harness")
    assert "An earlier project was here" not in grown.harness("init", "--adopt").text
    for folder in (".harness", ".git"):
        shutil.rmtree(grown.root / folder)
    grown.git("init", "-q", "-b", "main")
    grown.commit("Another project")
    again = grown.harness("init", "--adopt", ".")
    assert again.code == 0 and "An earlier project was here; its state is now in " in again.text


def test_adopted_with_known_failures_and_built_upon(grown: CalcProject) -> None:
    """UAH-078, UAH-079, UAH-080, UAH-081, UAH-082, UAH-083, UAH-093, UAH-129, UAH-130, C23, C48."""
    done = grown.harness("init", "--adopt")
    assert done.code == 0, done.text
    assert "Known to pass: 1 tests. Known failures: 1." in done.out
    assert "tests/test_broken.py::test_never" in done.out
    assert grown.baseline["passing_tests"] == ["tests/test_calc.py::test_add"]
    assert grown.baseline["known_failures"] == ["tests/test_broken.py::test_never"]
    assert (grown.root / "README.md").read_text() == "mine\n"
    assert (grown.root / ".gitignore").read_bytes().startswith(b"__pycache__/\r\n.pytest_cache/\r\n")
    assert grown.changes() == []
    tracked = set(grown.git("ls-files").splitlines())
    assert {".harness.yaml", "features.json", "claude-progress.txt", "init.sh", "reset.sh"} <= tracked
    assert not [name for name in tracked if name.startswith(".harness/")]
    assert grown.git("log", "-1", "--format=%s") == "harness: project adopted"
    assert grown.harness("init", "--adopt").code == 4
    assert grown.run([turn(write("x", "x"))]).code == 7
    assert grown.harness("add-feature", "sub", "--test-file", "tests/test_sub.py").code == 0
    built = turn(
        append("src/calc.py", "\n\n" + CODE["sub"]),
        write("tests/test_sub.py", proof_text(2)),
        sh("python -m pytest tests/test_sub.py -v"),
        claim(1),
        commit("Implement sub"),
    )
    ran = grown.run([built])
    assert ran.code == 0, ran.text
    assert grown.passing() == [1]
    last = grown.run([built])
    assert last.code == 0, "a known failure is nobody's false positive\n" + last.text
    assert "All 1 features are passing!" in last.out


@pytest.mark.exhaustive
def test_what_passed_at_the_adoption_is_protected(grown: CalcProject) -> None:
    """UAH-305, C15."""
    assert grown.harness("init", "--adopt").code == 0
    assert grown.harness("add-feature", "sub", "--test-file", "tests/test_sub.py").code == 0
    head = grown.head
    breaking = turn(
        write("src/calc.py", CODE["sub"]),
        write("tests/test_sub.py", proof_text(2)),
        sh("python -m pytest tests/test_sub.py -v"),
        claim(1),
        times=9,
    )
    ran = grown.run([breaking])
    assert ran.code == 1, ran.text
    assert "Regression:" in ran.text
    assert grown.head == head


def test_nothing_that_exists_is_overwritten(grown: CalcProject) -> None:
    """C48."""
    kept = {
        ".harness.yaml": "project:\n  name: own\ntesting:\n  full: python -m pytest tests/ -q\n",
        "init.sh": "#!/bin/sh\n# own\n",
        "features.json": '{"project": "own", "features": [{"id": 5, "description": "d", "test_file": "tests/t.py"}]}\n',
        "claude-progress.txt": "own\n",
        "tests/t.py": stub_text(1),
    }
    grown.put(kept)
    grown.commit("Own files")
    done = grown.harness("init", "--adopt", "--json")
    assert done.code == 0, done.text
    assert {name: (grown.root / name).read_text() for name in kept} == kept
    assert done.json["created"] == ["reset.sh"], "a .gitignore was there already"


def test_an_adoption_that_cannot_run_the_tests_is_resumed_by_the_same_command(grown: CalcProject) -> None:
    """UAH-003."""
    settings = (
        "project:\n  name: own\ntesting:\n  full: no-such-program tests/ -q\n  feature: python -m pytest {test_file}\n"
    )
    grown.put({".harness.yaml": settings})
    grown.commit("Wrong command")
    head = grown.head
    refused = grown.harness("init", "--adopt")
    assert refused.code == 4, refused.text
    assert "harness init --adopt" in refused.err
    assert not (grown.root / ".harness/session_state.json").exists()
    assert (grown.head, grown.changes()) == (head, []), "nothing is committed that could not be run"
    grown.put({".harness.yaml": settings.replace("no-such-program", "python -m pytest")})
    done = grown.harness("init", "--adopt")
    assert done.code == 0, done.text
    assert grown.changes() == []


JUNIT = "<testsuite><testcase classname='test' name='mul'/></testsuite>"
REPORTS = f'import sys\nopen(sys.argv[1], "w").write("{JUNIT}")\n'


def test_another_runner_than_pytest_is_named_by_a_person(bare: CalcProject) -> None:
    """UAH-003. The first try changes nothing; a feature then gets a stub like the project's tests."""
    bare.git("init", "-q", "-b", "main")
    bare.put({"run.py": REPORTS, "test/mul.test.js": "test('mul')\n", ".gitignore": "node_modules\n"})
    bare.commit("Not Python")
    head = bare.head
    refused = bare.harness("init", "--adopt", "--check", "python run.py")
    assert refused.code == 4, refused.text
    assert "Known here are pytest, `node --test`, vitest, jest, `go test`" in refused.err
    assert "and every runner that writes JUnit XML to {report}, such as" in refused.err
    assert "Nothing was committed, and no file was changed." in refused.err
    assert (bare.head, bare.changes()) == (head, [])
    runner = "testing:\n  full: python run.py {report}\n  feature: python run.py {report} {test_file}\n"
    bare.put({".harness.yaml": f"project:\n  name: own\n{runner}"})
    done = bare.harness("init", "--adopt")
    assert done.code == 0, done.text
    assert "Created: .gitignore" not in done.out
    assert "Added to .gitignore" in done.out
    added = bare.harness("add-feature", "User can subtract")
    assert added.code == 0, added.text
    assert (bare.root / "test/user_can_subtract.test.js").read_text().startswith('it("User can subtract", () => {')
    unknown = bare.harness("add-feature", "User can divide", "--test-file", "test/div.test.lua")
    assert unknown.code == 0, unknown.text
    assert "let the agent write it" in unknown.out


@pytest.mark.parametrize("trouble", ["dirty", "no commit", "below", "link"])
def test_what_is_unsafe_is_refused_with_the_disk_unchanged(grown: CalcProject, trouble: str) -> None:
    """UAH-266, C48."""
    cwd = grown.root
    if trouble == "dirty":
        grown.put({"README.md": "changed\n"})
    elif trouble == "no commit":
        sub = grown.base / "young"
        sub.mkdir()
        grown = CalcProject(grown.base, sub, grown.environ)
        grown.git("init", "-q")
        cwd = sub
    elif trouble == "below":
        cwd = grown.root / "src"
    else:
        (grown.root / "init.sh").symlink_to("/bin/true")
        grown.commit("A link")
    before = files_of(grown)
    refused = grown.harness("init", "--adopt", cwd=cwd)
    assert refused.code == 4, refused.text
    assert "next: " in refused.err
    assert files_of(grown) == before


def test_a_suite_of_which_nothing_passes_is_adopted_only_on_request(bare: CalcProject) -> None:
    bare.git("init", "-q", "-b", "main")
    bare.put({"tests/test_calc.py": "import no_such_plugin\n\n" + FAILING, "pytest.ini": QUICK_PYTEST})
    bare.commit("A project that needs what is not installed")
    refused = bare.harness("init", "--adopt")
    assert refused.code == 4, refused.text
    assert "No test passes, 1 fail: ModuleNotFoundError: No module named 'no_such_plugin'" in refused.err
    assert "--allow-failing" in refused.err
    assert not (bare.root / ".harness/session_state.json").exists()
    done = bare.harness("init", "--adopt", "--allow-failing")
    assert done.code == 0, done.text
    assert "Known to pass: 0 tests. Known failures: 1." in done.out


def test_a_feature_may_name_what_it_changes_beside_its_own_files(grown: CalcProject) -> None:
    assert grown.harness("init", "--adopt").code == 0
    assert grown.harness("add-feature", "sub", "--may-change", "tests/test_calc.py").code == 0
    feature = grown.features["features"][0]
    assert feature["may_change"] == ["tests/test_calc.py"]
    renamed = PASSING.replace("test_add", "test_addition")
    shown = sh(f"python -m pytest {feature['test_file']} -v")
    steps = [append("src/calc.py", "\n\n" + CODE["sub"]), write(feature["test_file"], proof_text(2)), shown, claim(1)]
    spoilt = [append("src/calc.py", "\n\ndef add(a, b):\n    return 0\n")]
    prompt = grown.root.parent / "prompt"
    lie = grown.run([turn(prompt_to(prompt), steps, write("tests/test_calc.py", PASSING), spoilt, times=9)])
    assert lie.code == 1, lie.text
    assert "A person allows this feature to change, beside its own files: tests/test_calc.py" in prompt.read_text()
    assert grown.passing() == []
    ran = grown.run([turn(steps, write("tests/test_calc.py", renamed), commit("Clearer"))])
    assert ran.code == 0, ran.text
    assert grown.passing() == [1]
    assert "tests/test_calc.py::test_addition" in grown.baseline["passing_tests"]
