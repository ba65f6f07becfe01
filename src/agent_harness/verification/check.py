"""Parser for check commands, and the options that make a test run write a report. Direct calls of pytest get the
options as arguments, shell commands in ``PYTEST_ADDOPTS``. Other test runners write JUnit XML to ``{report}``."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from agent_harness.kernel.shell.reader import ShellCommand, read
from agent_harness.kernel.shell.wrappers import LAUNCHERS, name_of, program_at

RECORDER = "agent_harness_recorder"
_PYTEST = frozenset({"pytest", "py.test"})
PYTHON = re.compile(r"(python|pypy)[0-9.]*$")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_IMPORTS = re.compile(r"(?<![\w$])PYTHONPATH=(?=\S)")
_REPORT = "{report}"
KEEP_GOING = ("--maxfail=0", "--continue-on-collection-errors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Parsed command line of a check. ``words`` is empty if only a shell can read the command."""

    text: str
    variables: tuple[tuple[str, str], ...] = ()  # NAME=value written in front
    words: tuple[str, ...] = ()  # empty when only a shell can read it
    program: int = 0  # the word that names the interpreter or the runner
    arguments: int = 1  # where the runner's own arguments begin
    pytest: bool = False  # our options can be added to the words

    @property
    def reports_itself(self) -> bool:
        """True if the command contains ``{report}``, the path to which its test runner writes the report."""
        return _REPORT in self.text

    @property
    def launched(self) -> bool:
        """True if a launcher such as ``poetry run`` starts the program."""
        return self.program > 0 and name_of(self.words) in LAUNCHERS

    @property
    def head(self) -> tuple[str, ...]:
        """The command's words up to its interpreter or test runner, inclusive."""
        return self.words[: self.program + 1]

    @property
    def shown(self) -> str:
        return shlex.join(self.head) if self.words else self.text


def parse(text: str) -> Command:
    """Parse a command line. The words stay empty if the command uses shell syntax."""
    found = read(text)
    command = found.commands[0] if len(found.commands) == 1 and not found.fault else None
    if command is None or not _is_plain(text, command):
        return Command(text=text)
    words = [word.text for word in command.words]
    variables: list[tuple[str, str]] = []
    if words[:1] == ["env"] and len(words) > 2 and _VARIABLE.fullmatch(words[1]):
        words.pop(0)
    while words and (match := _VARIABLE.fullmatch(words[0])):
        variables.append((match[1], match[2]))
        words.pop(0)
    start = program_at(words)
    program, arguments = _runner_at(words, start) or (0, 0)
    if not arguments and start < len(words) and name_of(words) in LAUNCHERS:
        program = start
    return Command(
        text=text,
        variables=tuple(variables),
        words=tuple(words),
        program=program,
        arguments=arguments or program + 1,
        pytest=arguments > 0,
    )


def _runner_at(words: Sequence[str], start: int) -> tuple[int, int] | None:
    name = name_of(words[start:])
    if name in _PYTEST:
        return start, start + 1
    for at in range(start + 1, len(words)) if _starts_modules(name) else ():
        if tuple(words[at : at + 2]) == ("-m", "pytest"):
            return max(i for i in range(start, at) if _starts_modules(name_of(words[i:]))), at + 2
        if name == "coverage" and name_of(words[at:]) in _PYTEST:
            return at, at + 1
    return None


def _starts_modules(name: str) -> bool:
    return name == "coverage" or bool(PYTHON.match(name))


def _is_plain(text: str, command: ShellCommand) -> bool:
    around = command.keys or command.redirects or command.after or command.before or command.patterns
    means = any(word.expands or word.wildcard or word.tilde for word in command.words)
    return not (around or means or text[command.words[-1].end :].strip())


def report_options(
    report: str, cache: str, *, keep_going: bool, root: str | None = None, blocked: Sequence[str] = ()
) -> list[str]:
    """Return the pytest options that load the run recorder and write JUnit XML to ``report``."""
    options = [f"--junitxml={report}", "-o", "junit_family=xunit1", "-o", "junit_logging=no"]
    options += ["-o", f"cache_dir={cache}", "-p", RECORDER]
    options += [f"--rootdir={root}"] if root else []
    options += without_plugins(blocked)
    return options + (list(KEEP_GOING) if keep_going else [])


def without_plugins(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in ("-p", f"no:{name}")]


def with_report(
    command: Command, words: Sequence[str], report: str, options: Sequence[str], *, imports: str = ""
) -> tuple[str | list[str], dict[str, str]]:
    """Return the command and the environment variables of a run that writes a test report to ``report``."""
    variables = {name: value for name, value in command.variables if name != "PYTHONPATH"}
    text = _IMPORTS.sub(lambda found: f"{found[0]}{shlex.quote(imports)}:", command.text)
    if command.pytest:
        words = [word.replace(_REPORT, report) for word in words]
        end = words.index("--") if "--" in words else len(words)
        return [*words[:end], *options, *words[end:]], variables
    if command.reports_itself:
        return (
            [word.replace(_REPORT, report) for word in words] if words else text.replace(_REPORT, shlex.quote(report))
        ), variables
    return list(words) or text, {**variables, "PYTEST_ADDOPTS": shlex.join(options)}
