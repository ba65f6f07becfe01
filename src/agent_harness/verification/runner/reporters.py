"""Reports with test ids of test runners other than pytest. The project needs no change: a flag or a variable makes the
runner write a report, or its printed lines are read.

The tested process can write such a report, or print such lines, itself. What can be told is refused: a run that ended
with another result than its report, a block of tests that never ended, counts that differ from the shown tests, and a
Go test that no test file contains. A process that prints a complete and consistent forgery cannot be told from a real
run. Therefore these reports only add reasons to refuse: the exit status must still be 0, and only a check that fails
with changed expected values is called proven."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from agent_harness.kernel.process import Completed
from agent_harness.kernel.shell.wrappers import name_of, program_at
from agent_harness.verification.check import Command, parse
from agent_harness.verification.runner import runner_reports
from agent_harness.verification.runner.runner_reports import ReadFile, Rows
from agent_harness.verification.runner.testreport import PLUGIN_FOLDER, Report, ReportProblem, report_of

_PRINTED_BYTES = 32 * 1024 * 1024  # of a runner whose printed lines are its report
_REPORTER = PLUGIN_FOLDER / "agent_harness_reporter.mjs"
_NODE_VALUED = "--test-reporter-destination"
_HIDING = ("-q", "--quiet", "--nocapture", "--show-output", "--format", "-Z")


class Asked(NamedTuple):
    """A command that writes a report with test ids, and how the report is read."""

    words: Sequence[str]
    read: Callable[[bytes, Path, Path], Rows]  # what was printed, the report's file, the project's folder
    node_options: str = ""
    by_lines: bool = False  # what the runner prints is the report
    shown: Callable[[bytes], bytes] = bytes  # what the runner prints without our flags

    @property
    def keeps(self) -> int:
        return _PRINTED_BYTES if self.by_lines else 65536

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the run, with the given options of node, but no reporter among them."""
        told = re.sub(r'"--test-reporter[^"]*"|--test-reporter\S*', "", given.get("NODE_OPTIONS", ""))
        return {**given, **({"NODE_OPTIONS": f"{told} {self.node_options}".lstrip()} if self.node_options else {})}

    def refused(self, done: Completed) -> bool:
        """Return True if the runner is too old for the report."""
        return done.exit_code == 9 and b"NODE_OPTIONS" in done.output

    def report(self, done: Completed, file: Path, folder: Path) -> Report:
        """Return the report of a run that ended. Raise ``ReportProblem`` if it cannot be read, or contradicts the exit
        status."""
        if self.by_lines and done.truncated:
            raise ReportProblem(f"the tests printed more than {_PRINTED_BYTES} bytes")
        found = report_of(_numbered(self.read(done.output, file, folder)))
        if done.exit_code and not found.failing:
            raise ReportProblem(f"the process ended with {done.exit_code}, but its report shows no failed test")
        return found


def _numbered(rows: Rows) -> Iterator[tuple[str, str]]:
    """Give the second test of one name a number, so that a missing one is noticed."""
    seen: Counter[str] = Counter()
    for name, outcome in rows:
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), outcome


def asked(command: Command, file: Path, read: ReadFile, *, keep_going: bool = False) -> Asked | None:
    """Return the command that reports test ids, or None for a test runner that is not known."""
    if command.pytest or not command.words:
        return None
    words = list(command.words)
    at = program_at(words)
    through, runner = _script(words[at:], read)
    found = next(filter(None, (each(runner, file, keep_going) for each in _RUNNERS)), None)
    if found is None:
        return None
    given = found.words
    if through is not None:
        if found.by_lines:
            return None
        flags = found.words[len(runner) :]
        given = [*through, *flags] if flags else words[at:]
    return found._replace(words=[*words[:at], *given])


def knows(command: str, read: ReadFile) -> bool:
    """Return True if the runner of ``command`` reports test ids."""
    return asked(parse(command), Path("report"), read) is not None


def of_files(command: str, files: Collection[str], read: ReadFile) -> str:
    """Return the command that runs only these test files. Return ``command`` if its runner is not given files."""
    parsed = parse(command)
    at = program_at(parsed.words)
    through, runner = _script(parsed.words[at:], read)
    name, names = name_of(runner), [f"./{each}" for each in files]
    if name in ("node", "tsx", "vitest", "jest") and not parsed.variables:
        return shlex.join([*parsed.words[:at], *(through or runner), *names])
    if name == "go" and "./..." in command:
        folders = sorted({str(PurePosixPath(each).parent) for each in files})
        return command.replace("./...", shlex.join(f"./{each}" for each in folders))
    return command


# ---- which runner a command starts ---------------------------------------------------------------------------------


def _script(words: Sequence[str], read: ReadFile) -> tuple[list[str] | None, list[str]]:
    """Return the words that pass flags to a script of ``package.json``, and the words of its test runner."""
    name, rest = name_of(words), list(words[1:])
    if name not in ("npm", "pnpm", "yarn", "bun"):
        return None, list(words)
    goal = "test" if rest[:1] in (["test"], ["t"]) and name != "bun" else next(iter(rest[1:2]), "")
    if goal != "test" and rest[:1] not in (["run"], ["run-script"]):
        return None, list(words)
    try:
        document = json.loads(read("package.json") or b"{}")
        parsed = parse(str(document["scripts"][goal]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, list(words)
    through = [*words, "--"] if name == "npm" and "--" not in words else [*words]
    return through, list(parsed.words[program_at(parsed.words) :])


def _node(words: list[str], file: Path, _: bool) -> Asked | None:
    if name_of(words) not in ("node", "tsx") or "--test" not in words:
        return None
    return Asked(words, runner_reports.read_node, _node_options(words, file))


def _vitest(words: list[str], file: Path, _: bool) -> Asked | None:
    if name_of(words) != "vitest":
        return None
    shown = [] if any(each.startswith("--reporter") for each in words) else ["--reporter=default"]
    return Asked([*words, *shown, "--reporter=junit", f"--outputFile.junit={file}"], runner_reports.read_vitest)


def _jest(words: list[str], file: Path, _: bool) -> Asked | None:
    given = [*words, "--json", f"--outputFile={file}"]
    return Asked(given, runner_reports.read_jest) if name_of(words) == "jest" else None


def _go(words: list[str], _: Path, __: bool) -> Asked | None:
    if name_of(words) != "go" or words[1:2] != ["test"]:
        return None
    given = [*words[:2], "-json", *words[2:]]
    return Asked(given, runner_reports.read_go, by_lines=True, shown=runner_reports.go_output)


def _cargo(words: list[str], _: Path, keep_going: bool) -> Asked | None:
    at = next((at for at, each in enumerate(words) if each in ("test", "t")), 0)
    if name_of(words) != "cargo" or not at or not all(each.startswith(("+", "-")) for each in words[1:at]):
        return None
    if set(_HIDING) & set(words):  # names are not printed, or what tests print stands between them
        return None
    going = ["--no-fail-fast"] if keep_going and "--no-fail-fast" not in words else []
    return Asked([*words[: at + 1], *going, *words[at + 1 :]], runner_reports.read_cargo, by_lines=True)


def _of_java(words: list[str], _: Path, keep_going: bool) -> Asked | None:
    name = name_of(words)
    if name not in ("mvn", "mvnw", "gradle", "gradlew") or not {"test", "verify", "check", "build"} & set(words):
        return None
    going = ["--fail-at-end" if name.startswith("mvn") else "--continue"] if keep_going else []
    return Asked([*words, *going], runner_reports.read_folders)


_RUNNERS = (_node, _vitest, _jest, _go, _cargo, _of_java)
"""One function for each test runner. It returns the command that reports test ids, or None for another program."""


def _node_options(words: Sequence[str], file: Path) -> str:
    own = [each for each in words if each.startswith("--test-reporter") and not each.startswith(_NODE_VALUED)]
    told = any(each.startswith(_NODE_VALUED) for each in words)
    shown = [] if own else ["--test-reporter=tap", f"{_NODE_VALUED}=stdout"]
    ours = [f'"--test-reporter={_REPORTER}"', f'"{_NODE_VALUED}={file}"']
    # of several reporters, each needs a destination
    return " ".join([*shown, *ours, *([f"{_NODE_VALUED}=stdout"] if own and not told else [])])
