"""The command of a project's tests, found in the files of a commit. No tool is started."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import Refused
from agent_harness.kernel.git import Git
from agent_harness.verification.check import parse
from agent_harness.verification.runner import reporters
from agent_harness.verification.runner_config import decides, is_test_file

_GOAL = re.compile(rb"(?m)^(test|check)[ \t]*:(?!=)")
_LOCKED = {"uv.lock": "uv run", "poetry.lock": "poetry run"}
_NO_TESTS = "no test specified"
_SET = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")


@dataclass(frozen=True, kw_only=True)
class FoundCheck:
    command: str
    source: str  # the file that says so, or the option
    script: str = ""  # what ``npm test`` runs


def reports_ids(git: Git, commit: str, command: str) -> bool:
    """Return True if the runner of ``command`` reports the ids of its tests."""
    return parse(command).pytest or reporters.knows(command, lambda path: git.show(commit, path))


def found(git: Git, commit: str, *, hint: str) -> FoundCheck:
    """Return the command of the project's tests. Raise ``Refused`` if the files of ``commit`` show none."""
    for look in (_pytest, _tox, _nox, _package, _go, _cargo, _maven, _gradle, _makefile):
        if check := look(git, commit):
            return check
    raise Refused(
        "How this project runs its tests could not be found: no pytest settings, tox.ini, noxfile.py, script `test` "
        "in a valid package.json, go.mod, Cargo.toml, pom.xml, gradlew or Makefile with a test goal",
        hint=hint,
        cause="no command that runs the tests was found",
    )


def _pytest(git: Git, commit: str) -> FoundCheck | None:
    source = next((name for name in _SET if decides(name, git.show(commit, name))), "")
    if not source:
        names = git.text("ls-tree", "-r", "--name-only", "-z", commit).split("\0")
        source = next((name for name in names if name.endswith(".py") and is_test_file(name)), "")
    if not source:
        return None
    own = (Path(git.root, folder, "bin", "python") for folder in (".venv", "venv"))
    python = next((str(each.relative_to(git.root)) for each in own if each.exists()), "")
    if not python:
        there = (words for file, words in _LOCKED.items() if git.show(commit, file) is not None)
        locked = next((words for words in there if shutil.which(words.split()[0])), "")
        return FoundCheck(command=f"{locked or 'python3 -m'} pytest", source=source)
    return FoundCheck(command=f"{python} -m pytest", source=source)


def _package(git: Git, commit: str) -> FoundCheck | None:
    try:
        given = json.loads(git.show(commit, "package.json") or b"{}")
        script = given["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(script, str) or _NO_TESTS in script:
        return None
    managers = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun run"}
    manager = next((name for file, name in managers.items() if git.show(commit, file) is not None), "npm")
    starts = "" if "pretest" in given["scripts"] else script
    return FoundCheck(command=f"{manager} test", source="package.json", script=starts)


def _named(file: str, command: str) -> Callable[[Git, str], FoundCheck | None]:
    return lambda git, commit: FoundCheck(command=command, source=file) if git.show(commit, file) is not None else None


def _cargo(git: Git, commit: str) -> FoundCheck | None:
    text = git.show(commit, "Cargo.toml")
    # without the option, a package at the root would be the only one that is tested
    all_packages = " --workspace" * (b"[workspace" in (text or b""))
    return FoundCheck(command=f"cargo test{all_packages}", source="Cargo.toml") if text is not None else None


_go = _named("go.mod", "go test ./...")
_maven, _gradle = _named("pom.xml", "mvn -q test"), _named("gradlew", "./gradlew test")
_tox, _nox = _named("tox.ini", "tox"), _named("noxfile.py", "nox")


def _makefile(git: Git, commit: str) -> FoundCheck | None:
    goal = _GOAL.search(git.show(commit, "Makefile") or b"")
    return FoundCheck(command=f"make {goal[1].decode()}", source="Makefile") if goal else None


def with_files(git: Git, commit: str, command: str, files: tuple[str, ...]) -> str:
    """Return the command that runs only ``files``."""
    if not parse(command).pytest:
        return reporters.of_files(command, files, lambda path: git.show(commit, path))
    return f"{command} {' '.join(shlex.quote(each if not each.startswith('-') else f'./{each}') for each in files)}"
