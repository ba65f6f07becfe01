"""The environment of a run: resolved beforehand, scrubbed, and led to the checkout instead of the project."""

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.verification.check import parse
from agent_harness.verification.runner.environment import plain_variables, resolve
from agent_harness.verification.runner.execution import run_tests
from agent_harness.verification.runner.interpreters import Interpreters
from agent_harness.verification.runner.linked_paths import Mapped, linkable, mapped
from agent_harness.verification.verdict import Run, passed

from .sample import HONEST, INI, SUB_CODE, SUB_TEST, JudgedProject, codes

Make = Callable[..., JudgedProject]
SITE = str(Path(pytest.__file__).parent.parent)
QUIET = "--disable-plugin-autoload"
FILES = {".gitignore": ".venv/\n", "src/calc.py": SUB_CODE, "tests/test_sub.py": SUB_TEST}
WRONG = "def sub(a, b):\n    return 0\n"


@pytest.fixture
def project(make_repo: Make) -> JudgedProject:
    """A project with a virtual environment inside that git ignores, and no settings that lead to its code."""
    repo = make_repo(FILES, resolved=False)
    venv.create(repo.root / ".venv", symlinks=True)
    (site_of(repo) / "borrowed.pth").write_text(f"{SITE}\n")
    return repo


def site_of(repo: JudgedProject) -> Path:
    return next((repo.root / ".venv/lib").glob("python*/site-packages"))


def run(repo: JudgedProject, command: str, **settings: Any) -> Run:
    environment = resolve(repo.root, [command], **settings)
    return run_tests(repo.client, repo.base, command, environment=environment, timeout_seconds=60)


# ---- editable installs ---------------------------------------------------------------------------------------------

FINDER = """\
from __future__ import annotations
import sys
from importlib.util import spec_from_file_location
from pathlib import Path
MAPPING: dict[str, str] = {mapping!r}
NAMESPACES: dict[str, list[str]] = {{}}

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            place = Path(MAPPING[name])
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            return spec_from_file_location(name, file)

def install():
    sys.meta_path.{how}
"""


def install(repo: JudgedProject, form: str) -> None:
    """An editable install of the project, as pip and the build backends make them."""
    site, src = site_of(repo), repo.root / "src"
    if form == "path":
        (site / "_calc.pth").write_text(f"{src}\n")
    elif form == "link":
        (site / "calc.py").symlink_to(src / "calc.py")
    else:
        how = "insert(0, Finder)" if form == "first" else "append(Finder)"
        (site / "__editable__.calc-1.pth").write_text(
            "import __editable___calc_finder; __editable___calc_finder.install()\n"
        )
        mapping = {"calc": str(src / "calc")}
        (site / "__editable___calc_finder.py").write_text(FINDER.format(mapping=mapping, how=how))


@pytest.mark.parametrize("form", ["path", "link", "finder"])
@pytest.mark.parametrize("links", [(), (".venv",)], ids=["alone", "lent"])
def test_an_editable_install_is_led_to_the_commit(project: JudgedProject, form: str, links: tuple[str, ...]) -> None:
    """The folder is broken and the commit is right: the commit counts. Then the other way round."""
    install(project, form)
    command = f".venv/bin/python -m pytest {QUIET} tests"
    project.put({"src/calc.py": WRONG})
    right = run(project, command, links=links)
    assert passed(right), (right.problem, right.output)
    project.base = project.commit()
    project.put({"src/calc.py": SUB_CODE})
    wrong = run(project, command, links=links)
    assert wrong.problem is None
    assert not passed(wrong)


def test_a_finder_that_comes_before_everything_is_seen(project: JudgedProject) -> None:
    install(project, "first")
    project.put({"src/calc.py": SUB_CODE + "\n"})
    done = run(project, f".venv/bin/python -m pytest {QUIET} tests")
    assert "instead of the commit: calc" in (done.problem or "")


def test_programs_that_tests_start_see_the_commit_too(project: JudgedProject) -> None:
    install(project, "path")
    code = "import calc; assert calc.sub(3, 2) == 1"
    text = (
        f"import subprocess, sys\n\n\ndef test_a():\n    subprocess.run([sys.executable, '-c', {code!r}], check=True)\n"
    )
    project.base = project.commit({"tests/test_sub.py": text})
    project.put({"src/calc.py": WRONG})
    done = run(project, f".venv/bin/python -m pytest {QUIET} tests")
    assert passed(done), done.output


def test_an_install_during_the_session_is_led_to_the_commit(project: JudgedProject) -> None:
    command = f".venv/bin/python -m pytest {QUIET} tests"
    environment = resolve(project.root, [command])
    install(project, "path")
    project.put({"src/calc.py": WRONG})
    done = run_tests(project.client, project.base, command, environment=environment, timeout_seconds=60)
    assert passed(done), done.output
    assert environment.looked_at_again()[1] == []


def test_what_editable_installs_name(tmp_path: Path) -> None:
    root, site = tmp_path / "p", tmp_path / "site"
    for folder in ("src/pkg", "lib/deep/ns/part", "odd", ".venv/site", "one"):
        (root / folder).mkdir(parents=True)
    (root / "src/pkg/__init__.py").touch()
    site.mkdir()
    (site / "a.pth").write_text(f"# comment\n\n{root / 'src'}\n{tmp_path}\n../p/one\nimport missing_module\n")
    mapping = {"pkg": str(root / "src/pkg"), "ns.part": str(root / "lib/deep/ns/part"), "other": str(root / "odd")}
    (site / "b.pth").write_text("import __editable___x_finder; __editable___x_finder.install()\n")
    (site / "__editable___x_finder.py").write_text(FINDER.format(mapping=mapping, how="append(Finder)"))
    (site / "c.pth").write_text("import _editable_impl_y\n")
    (site / "_editable_impl_y.py").write_text(f"F.map_module('pkg', {str(root / 'src/pkg/__init__.py')!r})\n")
    (site / "d.pth").write_bytes(b"\xff\xfe\0")
    found = mapped([str(site), str(root / ".venv/site"), str(tmp_path / "missing")], root)
    assert found == Mapped(("src", "one", "lib/deep"), (("other", "odd"),))


GENERATED = """\
# file generated by setuptools-scm
__all__ = ["__version__", "__version_tuple__", "version", "version_tuple"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple, Union

    VERSION_TUPLE = Tuple[Union[int, str], ...]
else:
    VERSION_TUPLE = object

version: str
version_tuple: VERSION_TUPLE

__version__ = version = '2.1.1.dev3+g71901257f'
__version_tuple__ = version_tuple = (2, 1, 1, 'dev3', 'g71901257f')
"""


@pytest.mark.parametrize(
    ("more", "lent"),
    [
        ("", True),
        ("__commit_id__ = commit_id = None\n", True),
        ("def add(a, b): return a + b\n", False),
        ("add = int.__add__\n", False),
        ("version = open('work').read()\n", False),
        ("from work import version\n", False),
        ("TABLE = (1, 2)\n", False),
        (f"version = {'work' * 50!r}\n", False),
        ("def\n", False),
    ],
)
def test_a_generated_file_is_lent_only_if_it_holds_nothing_but_a_version(tmp_path: Path, more: str, lent: bool) -> None:
    (tmp_path / "_version.py").write_text(GENERATED + more)
    (tmp_path / "made.py").write_text(GENERATED)
    assert linkable(tmp_path, ["_version.py", "made.py"]) == (("_version.py",) if lent else ())


def test_a_package_under_another_name(project: JudgedProject) -> None:
    site = site_of(project)
    (site / "b.pth").write_text("import __editable___x_finder; __editable___x_finder.install()\n")
    mapping = {"arithmetic": str(project.root / "src/code")}
    (site / "__editable___x_finder.py").write_text(FINDER.format(mapping=mapping, how="append(Finder)"))
    test = SUB_TEST.replace("import calc", "import arithmetic as calc")
    project.base = project.commit({"src/code/__init__.py": SUB_CODE, "tests/test_sub.py": test})
    project.put({"src/code/__init__.py": WRONG})
    done = run(project, f".venv/bin/python -m pytest {QUIET} tests")
    assert passed(done), (done.problem, done.output)


# ---- programs ------------------------------------------------------------------------------------------------------


def shim(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_launcher_says_which_environment_and_is_not_asked_again(
    project: JudgedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``poetry run`` chooses an environment by its folder; the checkout is another folder."""
    install(project, "path")
    asked = tmp_path / "asked"
    shim(tmp_path / "bin", "poetry", f'echo x >> {asked}; shift; PATH="{project.root}/.venv/bin:$PATH"; exec "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    command = f"poetry run python -m pytest {QUIET} tests"
    environment = resolve(project.root, [command, "poetry run missing-tool"])
    assert asked.read_text().count("x") == 2
    done = run_tests(project.client, project.base, command, environment=environment, timeout_seconds=60)
    assert passed(done), (done.problem, done.output)
    assert asked.read_text().count("x") == 2
    words = environment.words(parse(command), project.root)
    assert words[0] == str(project.root / ".venv/bin/python")


def test_programs_are_found_before_the_agent_can_put_others_in_their_place(
    make_repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo({"pytest.ini": INI, **FILES}, resolved=False)
    shim(tmp_path / "first", "other", "exit 0")
    monkeypatch.setenv("PATH", f".:relative::{tmp_path / 'first'}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = f"python -m pytest {QUIET} tests"
    environment = resolve(repo.root, [command])
    assert all(entry.startswith("/") for entry in environment.variables["PATH"].split(":"))
    shim(tmp_path / "first", "python", "echo '9 passed'; exit 0")
    shim(repo.root, "python", "echo '9 passed'; exit 0")
    repo.base = repo.commit()
    done = run_tests(repo.client, repo.base, command, environment=environment, timeout_seconds=60)
    assert passed(done), done.output


def test_a_shim_that_chooses_by_folder_is_asked_once(
    make_repo: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version managers choose by a file in the current folder, which would be the candidate's."""
    repo = make_repo({"pytest.ini": INI, **FILES}, resolved=False)
    for name in ("python", "pytest"):
        choose = f'[ -e .python-version ] && exit 0; exec {Path(sys.executable).parent}/{name} "$@"'
        shim(tmp_path / "shims", name, choose)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{os.environ['PATH']}")
    commands = [f"python -m pytest {QUIET} tests", f"pytest {QUIET} tests"]
    environment = resolve(repo.root, commands)
    repo.base = repo.commit({".python-version": "9.9"})
    for command in commands:
        done = run_tests(repo.client, repo.base, command, environment=environment, timeout_seconds=60)
        assert passed(done), done


def test_a_shim_is_asked_again_once_something_else_may_be_meant(tmp_path: Path) -> None:
    """An answer holds in one process: for all items of a run."""
    folder, asked = tmp_path / "work", tmp_path / "asked"
    folder.mkdir()

    def times() -> int:
        found = Interpreters(plain_variables() | {"PATH": f"{tmp_path / 'shims'}"}).behind(parse("python x.py"), folder)
        assert found and found.executable.startswith(str(Path(sys.executable).parent)), found
        return len(asked.read_text().splitlines())

    says = f'echo x >> {asked}; exec {sys.executable} "$@"'
    shim(tmp_path / "shims", "python", says)
    assert [times(), times()] == [1, 1]
    (tmp_path / ".python-version").write_text("3.12\n")
    assert [times(), times()] == [2, 2]
    shim(tmp_path / "shims", "python", f"{says} #")
    assert [times(), times()] == [3, 3]


def test_the_callers_import_folders_are_led_to_the_commit(make_repo: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repo(FILES, resolved=False)
    monkeypatch.setenv("PYTHONPATH", f"{repo.root / 'src'}:/nowhere:")
    repo.put({"src/calc.py": WRONG})
    done = run(repo, f"{sys.executable} -m pytest {QUIET} tests")
    assert passed(done), (done.problem, done.output)


@pytest.mark.parametrize("line", ["#!{python}", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"'])
def test_the_interpreter_of_a_console_script(tmp_path: Path, line: str) -> None:
    script = tmp_path / "pytest"
    script.write_text(line.format(python=sys.executable) + "\nimport sys\n")
    script.chmod(0o755)
    environment = resolve(tmp_path, [f"{script} tests"])
    assert [Path(found.prefix) for found in environment.interpreters.values()] == [Path(sys.prefix)]


def test_an_environment_that_the_session_makes_is_used_and_named(make_repo: Make) -> None:
    repo = make_repo({"pytest.ini": INI, **FILES}, resolved=False)
    command = f".venv/bin/python -m pytest {QUIET} tests"
    repo.resolve(command)
    venv.create(repo.root / ".venv", symlinks=True)
    (site_of(repo) / "borrowed.pth").write_text(f"{SITE}\n")
    install(repo, "path")
    verdict = repo.judge({"README.md": "x"}, proof=None, suite=command, baseline=["tests/test_sub.py::test_sub"])
    assert verdict.accepted, verdict.findings
    assert [finding.code for finding in verdict.findings] == ["environment_unknown"]


def test_what_is_not_there_is_no_error_yet(tmp_path: Path) -> None:
    environment = resolve(tmp_path, ["no-such-program tests", "cd x && no-such-program", ""])
    assert environment.words(parse("no-such-program tests"), tmp_path) == ["no-such-program", "tests"]


# ---- what runs the tests -------------------------------------------------------------------------------------------


@pytest.fixture
def uncompiled(project: JudgedProject) -> Path:
    """The folder of pytest in an environment of the project, as an installer leaves it that compiles nothing."""
    site = site_of(project)
    for name in ("_pytest", "pytest", "pluggy", "iniconfig"):
        shutil.copytree(Path(SITE, name), site / name, ignore=shutil.ignore_patterns("__pycache__"))
    (site / "a_first.pth").write_text("")
    return site / "_pytest"


@pytest.mark.scenario
def test_an_environment_that_the_first_run_compiles_is_no_changed_one(project: JudgedProject, uncompiled: Path) -> None:
    command = f".venv/bin/python -m pytest {QUIET} tests"
    install(project, "path")
    project.resolve(command)
    subprocess.run([*command.split(), "-q"], cwd=project.root, check=False, capture_output=True)  # the agent's own
    assert any((uncompiled / "__pycache__").iterdir())
    verdict = project.judge({"README.md": "x"}, proof=None, suite=command, baseline=["tests/test_sub.py::test_sub"])
    assert verdict.accepted, verdict.findings


def test_code_that_an_agent_compiled_itself_is_not_loaded(project: JudgedProject, uncompiled: Path) -> None:
    """It says that every test passes, and claims to belong to a source that nobody changed."""
    command = f".venv/bin/python -m pytest {QUIET} tests"
    install(project, "path")
    project.resolve(command)
    source = uncompiled / "python.py"
    bent = project.root / "bent.py"
    bent.write_text(source.read_text() + "\nFunction.runtest = lambda self: None\n")
    compiled = importlib.util.cache_from_source(str(source))
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(bent), compiled, str(source), doraise=True, invalidation_mode=mode)
    bent.unlink()
    project.put({"src/calc.py": WRONG})
    assert subprocess.run(command.split(), cwd=project.root, check=False, capture_output=True).returncode == 0
    suite = project.judge({"src/calc.py": WRONG}, proof=None, suite=command, baseline=["tests/test_sub.py::test_sub"])
    assert not suite.accepted


@pytest.mark.parametrize(
    "command",
    [
        "env PYTHONPATH=src {python} -m pytest {quiet} tests",
        "PYTHONPATH=src {python} -m pytest {quiet} tests",
        "PYTHONPATH=src {python} -m pytest {quiet} tests && true",
        "export PYTHONPATH=src; {python} -m pytest {quiet} tests",
        "PYTHONPATH='src:lib' {python} -m pytest {quiet} tests || exit 1",
    ],
)
@pytest.mark.scenario
def test_a_command_may_set_its_own_import_folders(make_repo: Make, command: str) -> None:
    """They are those of the checkout; the folder itself is broken."""
    repo = make_repo({**FILES, "pytest.ini": "[pytest]\n"}, resolved=False)
    text = command.format(python=sys.executable, quiet=QUIET)
    repo.put({"src/calc.py": WRONG})
    done = run(repo, text)
    assert passed(done), (done.problem, done.output)
    repo.base = repo.commit()
    repo.put({"src/calc.py": SUB_CODE})
    assert not passed(run(repo, text))


def test_a_changed_environment_rejects(project: JudgedProject) -> None:
    project.resolve(f".venv/bin/python -m pytest {QUIET} tests")
    (site_of(project) / "odd.pth").write_text("import os; os.environ['ODD'] = '1'\n")
    verdict = project.judge(HONEST, proof=None, suite=None)
    assert codes(verdict) == ["environment_changed"]
    assert "odd.pth" in verdict.reasons[0].message


def test_a_folder_that_is_not_lent_is_named_once(project: JudgedProject) -> None:
    command = f".venv/bin/python -m pytest {QUIET} tests"
    install(project, "path")
    project.resolve(command, links=["missing", ".venv"])
    verdict = project.judge({}, proof=None, suite=command, baseline=())
    assert verdict.accepted, verdict.findings
    found = [(finding.code, finding.message) for finding in verdict.findings]
    assert found == [("link_refused", "missing was not linked into the checkout: it does not exist.")]
