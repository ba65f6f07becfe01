"""Functions that derive commands that the settings omit, and insert a file name safely into a command. A command that
cannot be derived reliably stays ``None``. Source: ``features.md`` UAH-155..160, C17, C22."""

import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent_harness.kernel.shell.reader import read
from agent_harness.kernel.shell.wrappers import name_of, program_at

PLACEHOLDER = "{test_file}"

_WORD = re.compile(r"[^\s;&|()<>]+")
_OPERATORS = re.compile(r"[;&|()<>`]|\$\(")
_TESTS_FOLDER = re.compile(r"(?:\./)?(?:[\w.-]+/)*tests?(?:/[\w./*:\[\]-]*)?")
_TAKES_VALUE = frozenset(
    {
        *("-k", "-m", "-c", "-n", "-p", "-o", "-W", "-r", "--rootdir", "--confcutdir", "--config-file", "--basetemp"),
        *("--junitxml", "--cov", "--cov-report", "--dist", "--maxfail", "--tb", "--ignore", "--deselect", "--timeout"),
        *("--durations", "--log-file", "--override-ini", "--import-mode"),
    }
)


@dataclass(frozen=True)
class FoundTooling:
    poetry: bool = False  # pyproject.toml has [tool.poetry] and poetry is on PATH
    ruff_configured: bool = False
    ruff_on_path: bool = False
    src: bool = False  # there is a folder src/

    @property
    def runner(self) -> str:
        return "poetry run pytest" if self.poetry else "python3 -m pytest"

    @property
    def lint(self) -> str | None:
        """Command that starts ruff in this project, or None if ruff is neither configured nor on PATH."""
        if not (self.ruff_configured or self.ruff_on_path):
            return None
        folder = "src/" if self.src else "."
        if self.poetry and self.ruff_configured:
            return f"poetry run ruff check {folder}"
        return f"ruff check {folder}" if self.ruff_on_path else f"python3 -m ruff check {folder}"


def facts(project: Path, environ: Mapping[str, str]) -> FoundTooling:
    """Return the development tools that the project's files and PATH show. No tool is started."""
    tools = _tools(project / "pyproject.toml")
    path = environ.get("PATH", os.defpath)
    return FoundTooling(
        poetry="poetry" in tools and shutil.which("poetry", path=path) is not None,
        ruff_configured="ruff" in tools or any((project / name).is_file() for name in ("ruff.toml", ".ruff.toml")),
        ruff_on_path=not _is_foreign(project) and shutil.which("ruff", path=path) is not None,
        src=(project / "src").is_dir(),
    )


def _is_foreign(project: Path) -> bool:
    is_python = (project / "pyproject.toml").exists() or (project / "setup.py").exists()
    return not is_python and any((project / name).exists() for name in ("package.json", "go.mod", "Cargo.toml"))


def _tools(pyproject: Path) -> frozenset[str]:
    try:
        tool = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool")
    except (OSError, ValueError, RecursionError):
        return frozenset()
    return frozenset(tool) if isinstance(tool, dict) else frozenset()


def feature_command(full: str) -> str | None:
    """Return the test command for one file, made from the command ``full``, or None if that is impossible."""
    words = list(_WORD.finditer(full))
    runner = _runner(full)
    pairs = zip(words[1:], words, strict=False)
    paths = [w for w, before in pairs if _is_tests_path(w.group(), before.group(), runner is not None)]
    if paths:
        kept: list[str] = []
        at = 0
        for number, path in enumerate(paths):
            between = full[at : path.start()]
            if number and _OPERATORS.search(between):
                break
            kept.append(between.rstrip() if number else between + PLACEHOLDER)
            at = path.end()
        return "".join(kept) + full[at:]
    if runner is None:
        return _of_other_runner(full)
    return f"{full[: runner.end()]} {PLACEHOLDER}{full[runner.end() :]}"


_SELECTS = {
    **dict.fromkeys(("vitest", "jest", "mocha"), ("", f" {PLACEHOLDER}")),
    **dict.fromkeys(("node", "tsx"), ("--test", f" {PLACEHOLDER}")),
    **dict.fromkeys(("pnpm", "yarn", "bun"), ("test", f" {PLACEHOLDER}")),
    "npm": ("test", f" -- {PLACEHOLDER}"),
    "cargo": ("test", " --test {test_name}"),
    "go": ("test", " -run ^{test_name}"),
}
"""For each test runner but pytest, a word that its command needs, and the words that select the tests of one file."""


def _of_other_runner(full: str) -> str | None:
    words = _words(full)
    needed, selects = _SELECTS.get(name_of(words), ("", ""))
    if not selects or "--" in words or needed not in (*words, ""):
        return None
    return full.replace("./...", "./{test_folder}") + selects


def _words(command: str) -> list[str]:
    """Return the words of the program that a command starts, or no words for several commands."""
    found = read(command).commands
    words = found[0].plain if len(found) == 1 else []
    return words[program_at(words) :]


def runner_of(command: str) -> str:
    """Return the name of the test runner that a command starts, or "" for several commands."""
    return "pytest" if _runner(command) else name_of(_words(command))


_STOPS = re.compile(r"\s+(?:--exitfirst|--maxfail(?:=|\s+)\d+)(?=\s|$)")
_LETTERS = re.compile(r"\s+-([hlqsvx]*x[hlqsvx]*)(?=\s|$)")


def without(command: str, tests: Iterable[str]) -> str:
    """Return a pytest command that skips ``tests`` and continues after a failed test."""
    runner = _runner(command)
    if runner is None:
        return command
    rest = _STOPS.sub("", command[runner.end() :])
    rest = _LETTERS.sub(lambda found: f" -{kept}" if (kept := found[1].replace("x", "")) else "", rest)
    left_out = "".join(f" --{'deselect' if '::' in each else 'ignore'}={shlex.quote(each)}" for each in tests)
    return f"{command[: runner.end()]}{left_out}{rest}"


def paths_of(command: str, root: Path) -> list[str]:
    """Return the words of a pytest command that are existing paths below ``root``."""
    runner = _runner(command)
    found = [word.group().strip("\"'").partition("::")[0] for word in _WORD.finditer(command)] if runner else []
    return [word for word in found[1:] if word and not word.startswith("-") and (root / word).exists()]


def _runner(command: str) -> re.Match[str] | None:
    return next((word for word in _WORD.finditer(command) if _PYTEST.fullmatch(word.group())), None)


_PYTEST = re.compile(r"(?:.*/)?(?:pytest|py\.test)")


def _is_tests_path(word: str, before: str, pytest: bool) -> bool:
    word = word.strip("\"'")
    return before not in _TAKES_VALUE and _TESTS_FOLDER.fullmatch(word) is not None and (pytest or "/" in word)


def quoting_problem(template: str) -> str | None:
    """Return why this template cannot name a test file safely, or None if it can."""
    if not _PLACED.search(template):
        return f"must contain {PLACEHOLDER}"
    bare = _PLACED.sub(" ", template)
    if _NAMES.search(bare) or any(_quote_open(template[: m.start()]) for m in _PLACED.finditer(template)):
        return f"must have {PLACEHOLDER} outside of quotes"
    return None


_NAMES = re.compile(r"\{(test_file|test_folder|test_name)\}")
_PLACED = re.compile(rf"""(["']?){_NAMES.pattern}\1""")


def _quote_open(text: str) -> bool:
    quote, escaped = "", False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
    return bool(quote) or escaped


def with_file(template: str, test_file: str) -> str:
    """Insert the quoted path of the test file into the command."""
    if "\0" in test_file or not test_file:
        raise ValueError("a test file needs a name without NUL characters")
    # no program may read the path as an option
    file = f"./{test_file}" if test_file.startswith("-") else test_file
    values = {
        "test_file": file,
        "test_folder": str(PurePosixPath(file).parent),
        "test_name": name_of_tests(file),
    }
    return _PLACED.sub(lambda found: shlex.quote(values[found[2]]), template)


def name_of_tests(test_file: str) -> str:
    """Return the name that selects the tests of a file: for Go, the start of their names; otherwise, the file's
    name."""
    stem = PurePosixPath(test_file).name.partition(".")[0]
    if not test_file.endswith(".go"):
        return stem
    return "Test" + "".join(each[:1].upper() + each[1:] for each in re.split(r"[\W_]+", stem.removesuffix("_test")))
