"""Readers of the reports of test runners other than pytest: each yields the id and the outcome of every test.
An id begins with the file of the test where the report shows it, or where the file can be found. Reports are untrusted.
A report that is torn, or that contradicts itself, raises ``ReportProblem``."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from agent_harness.verification.changes import LIMIT_BYTES
from agent_harness.verification.runner.testreport import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
    ReportProblem,
    opened,
    read_cases,
)

_LEFT_OUT = frozenset({".git", "node_modules", "target", "build", "vendor", ".gradle", ".venv"})
_GO_TEST = re.compile(rb"(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w*)\(")
_GO_END = re.compile(r"\S[ \t]*--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$")
_GO_UNBUILT = re.compile(r"^FAIL\s+(\S+)\s+\[")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_TARGET = re.compile(
    r"^\s+(?:Running (?:unittests )?(?P<path>\S+)(?: \((?P<binary>[^)]*)\))?|Doc-tests (?P<docs>\S+))$"
)
_BEGUN = re.compile(r"^running (\d+) tests?$")
_LINE = re.compile(r"^test (?P<name>\S.*?)(?: - should panic)? \.\.\. (?P<end>ok|FAILED|ignored)(?:, .*)?$")
_STARTED = re.compile(
    r"test (\S+(?: - .*\(line \d+\)\S*)?)(?: - should panic)? \.\.\. "
)  # and then what the test printed
_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
_ENDS = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}
_DOCTEST = re.compile(r"^(?P<file>\S+) - (?P<item>.*?)\s*\(line \d+\).*$")
_GO_ENDS = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
_XML_FOLDERS = ("target/surefire-reports", "target/failsafe-reports", "build/test-results")
_JAVA_SUFFIXES = {".java", ".kt", ".groovy", ".scala"}
Row = tuple[str, str]  # the id of a test, and its outcome
Rows = Iterable[Row]
ReadFile = Callable[[str], bytes | None]  # the content of a file of the project, by its path


def reader_of(folder: Path) -> ReadFile:
    """Return a function that reads files below ``folder``, but no links."""

    def read(path: str) -> bytes | None:
        with suppress(ReportProblem), opened(folder / path) as file:
            return file.read(LIMIT_BYTES)
        return None

    return read


def _content(file: Path) -> bytes:
    with opened(file) as found:
        return found.read()


def _below(path: str, folder: Path) -> str:
    with suppress(ValueError):
        return PurePosixPath(os.path.realpath(path)).relative_to(os.path.realpath(folder)).as_posix()
    return path


def read_node(_: bytes, file: Path, folder: Path) -> Iterator[Row]:
    read = reader_of(folder)
    for line in _content(file).splitlines():
        try:
            path, name, outcome = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            raise ReportProblem("the test report is torn") from None
        if outcome in (PASSED, FAILED, SKIPPED):
            place = _below(str(path or name), folder)
            # a file without tests of its own is one test; a file that ended before its tests is none
            whole = str(name) == str(path or name)
            ended = whole and outcome == PASSED and b"node:test" in (read(place) or b"")
            yield (place if whole else f"{place}::{name}"), (SKIPPED if ended else outcome)


def read_vitest(_: bytes, file: Path, __: Path) -> Iterator[Row]:
    return ((case.id, case.outcome) for case in read_cases(file))


def read_jest(_: bytes, file: Path, folder: Path) -> Iterator[Row]:
    ends = {"passed": PASSED, "failed": FAILED}
    try:
        for result in json.loads(_content(file))["testResults"]:
            path, rows = _below(str(result["name"]), folder), result["assertionResults"]
            for row in rows:
                name = " > ".join(map(str, [*row["ancestorTitles"], row["title"]]))
                yield f"{path}::{name}", ends.get(row["status"], SKIPPED)
            if result["status"] == "failed" and not any(row["status"] == "failed" for row in rows):
                yield path, ERROR
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ReportProblem("the test report is torn, or not the JSON of jest") from None


def _events(printed: bytes) -> Iterator[dict[str, object] | str]:
    for line in printed.decode("utf-8", "replace").splitlines():
        event: object = line
        if line.startswith("{"):
            with suppress(ValueError, RecursionError):
                event = json.loads(line)
        yield event if isinstance(event, dict) and "Action" in event else line


def go_output(printed: bytes) -> bytes:
    """Return what ``go test -v`` prints."""
    texts = (f"{each}\n" if isinstance(each, str) else str(each.get("Output", "")) for each in _events(printed))
    return "".join(texts).encode()


def read_go(printed: bytes, _: Path, folder: Path) -> Iterator[Row]:
    # a line that a test prints is the text of an "output" event; only lines like those of `go test -v` make events
    places, begun = _GoTests(folder), set[tuple[str, str]]()
    failed, told, ended = set[str](), set[str](), dict[tuple[str, str], str]()
    for event in _events(printed):
        if isinstance(event, str):
            failed |= {unbuilt[1]} if (unbuilt := _GO_UNBUILT.match(event)) else set()
            continue
        package, test, action = (str(event.get(name, "")) for name in ("Package", "Test", "Action"))
        if late := _GO_END.search(str(event.get("Output", ""))):  # behind what a test printed without a line end
            action, test = late[1].lower(), late[2]
        if test and action == "run":
            begun.add((package, test))
            ended.pop((package, test), None)
        elif action == "skip" and ended.get((package, test)) == "pass":
            raise ReportProblem(f"{test} ended twice, so the tests print lines like those of the test runner")
        elif ((package, test) in begun and action in _GO_ENDS) or (test and action == "fail"):
            begun.discard((package, test))
            ended[package, test] = action
            told |= {package} if action == "fail" else set()
            if node := places.id_of(package, test):
                yield node, _GO_ENDS[action]
        elif action == "fail" and not test:
            failed.add(package)
    yield from ((places.folder_of(package), ERROR) for package in sorted(failed - told))


class _GoTests:
    """Files of the Go tests in a project, by package and function."""

    def __init__(self, folder: Path) -> None:
        self._modules: dict[str, str] = {}
        self._files: dict[tuple[str, str], str] = {}
        read = reader_of(folder)
        for path in _files_below(folder):
            place = PurePosixPath(path)
            if place.name == "go.mod" and (name := re.search(rb"(?m)^module\s+(\S+)", read(path) or b"")):
                self._modules[name[1].decode("utf-8", "replace").strip('"')] = str(place.parent)
            elif path.endswith("_test.go"):
                for function in _GO_TEST.findall(read(path) or b""):
                    self._files[str(place.parent), function.decode()] = path

    def folder_of(self, package: str) -> str:
        fits = [name for name in self._modules if f"{package}/".startswith(f"{name}/")]
        module = max(fits, key=len, default=package)
        return os.path.normpath(f"{self._modules.get(module, package)}/{package[len(module) + 1 :]}")

    def id_of(self, package: str, test: str) -> str | None:
        file = self._files.get((self.folder_of(package), test.partition("/")[0]))
        return file and f"{file}::{test}"


def _files_below(folder: Path, left_out: Collection[str] = _LEFT_OUT) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in left_out]
        yield from (os.path.relpath(f"{place}/{name}", folder) for name in names)


def read_cargo(printed: bytes, _: Path, folder: Path) -> Iterator[Row]:
    target, early = "", "a test program ended before its tests did"
    rows: list[Row] | None = None
    shows = False
    for line in _ESCAPES.sub("", printed.decode("utf-8", "replace")).splitlines():
        if found := _TARGET.match(line):
            if rows is not None:
                raise ReportProblem(early)
            target = _target(found, folder)
        elif _BEGUN.match(line) and rows is None:
            rows, shows = list[Row](), False
        elif line == "failures:":
            shows = True  # what failed tests printed
        elif rows is not None and not shows and (row := _row(line)):
            rows.append(row)
        elif rows is not None and (found := _RESULT.match(line)):
            rows = [(name, outcome or (PASSED if found[2] == "0" else FAILED)) for name, outcome in rows]
            counts = Counter(outcome for _, outcome in rows)
            if [counts[each] for each in (PASSED, FAILED, SKIPPED)] != [int(each) for each in found.groups()]:
                raise ReportProblem("the tests print lines like those of the test runner, so which passed is not known")
            yield from ((_rust_id(target, name), outcome) for name, outcome in rows)
            rows = None
    if rows is not None:
        raise ReportProblem(early)


def _row(line: str) -> Row | None:
    """Return a test and its outcome. The outcome is "" if something was printed before it."""
    found, begun = _LINE.match(line), _STARTED.search(line)
    return (found["name"], _ENDS[found["end"]]) if found else (begun[1], "") if begun else None


def _target(found: re.Match[str], folder: Path) -> str:
    if found["docs"]:
        return f"doc-tests {found['docs']}"
    # the sources of the work hold unit tests as well, so such an id names no file of tests
    binary = re.sub(r"-[0-9a-f]{16}$", "", PurePosixPath(found["binary"] or found["path"]).name)
    is_file = "/tests/" in f"/{found['path']}" and (folder / found["path"]).is_file()
    return found["path"] if is_file else f"{binary} ({found['path']})"


def _rust_id(target: str, name: str) -> str:
    # the line of a documentation test changes with the text above it
    documented = _DOCTEST.match(name) if target.startswith("doc-tests ") else None
    return f"{target} {documented['file']}::{documented['item']}" if documented else f"{target}::{name}"


def read_folders(_: bytes, file: Path, folder: Path) -> Iterator[Row]:
    """Yield the tests of the JUnit XML files that Maven and Gradle wrote into their own folders in this run."""
    began = file.parent.stat().st_ctime_ns  # made just before the run; a checkout may bring reports of other runs
    new, old = list[PurePosixPath](), set[PurePosixPath]()
    sources: dict[str, list[PurePosixPath]] = {}
    for path in map(PurePosixPath, sorted(_files_below(folder, {".git", "node_modules"}))):
        if path.suffix in _JAVA_SUFFIXES:
            sources.setdefault(path.stem, []).append(path)
        elif fnmatch(path.name, "TEST-*.xml") and any(f"/{each}/" in f"/{path}" for each in _XML_FOLDERS):
            is_new = (folder / path).lstat().st_ctime_ns > began
            (new.append if is_new else old.add)(path if is_new else path.parent)
    if without := sorted(map(str, old - {each.parent for each in new})):
        raise ReportProblem(f"no test report was written to {without[0]}, where an older one is")
    if not new:
        raise ReportProblem("no test report was written")
    for path in new:
        for case in read_cases(folder / path):
            name = case.classname.partition("$")[0].replace(".", "/")
            places = map(str, sources.get(PurePosixPath(name).name, ()))
            fits = [each for each in places if f"/{each}".rpartition(".")[0].endswith(f"/{name}")]
            # of several modules, the one of the report
            source = max(fits, key=lambda each: len(os.path.commonpath([each, str(path)])), default=case.classname)
            yield f"{source}::{case.name}", case.outcome
