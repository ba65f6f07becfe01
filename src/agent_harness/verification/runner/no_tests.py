"""Detection of test runs in which tests were skipped or none ran, from the output of the test runner.
Exit status 0 of such a run proves nothing."""

import re
from collections.abc import Callable

__all__ = ["left_out", "ran_no_test"]
_GO = re.compile(r"\bgo\s+(?:\S+\s+){0,6}?test\b|\bgotestsum\b")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def ran_no_test(command: str, output: str) -> str | None:
    """Return why a run with exit status 0 ran no test, or None if a test may have run."""
    text = _ESCAPES.sub("", output)
    answers = [each(command, text) for each in (_go, _cargo, _node, _unittest, _jest)]
    told = [each for each in answers if each is not None]
    return told[0] if told and all(told) else None


_LEFT_OUT = re.compile(
    r"(?m)^OK \([^)\n]*(?:skipped|expected failures)=\d+[^)\n]*\)|^(?:not )?ok \d+\b[^\n]*#\s*(?i:skip|todo)\b[^\n]*"
    r"|^[#\u2139] (?:skipped|todo) [1-9]\d*\s*$"
)


def left_out(output: str) -> str:
    """Return the output line that reports skipped tests or expected failures, or ""."""
    found = _LEFT_OUT.search(_ESCAPES.sub("", output))
    return found[0].strip() if found else ""


Reader = Callable[[str, str], "str | None"]  # empty: a test ran; None: this runner is not seen


def _go(command: str, text: str) -> str | None:
    packages = re.findall(r"(?m)^ok\s+\S+\s+(?:[\d.]+s|\(cached\))(.*)$", text)
    if not (packages or _GO.search(command) or "[no test files]" in text):
        return None
    if re.search(r"(?m)^\s*--- (?:PASS|FAIL)", text):
        return ""
    if any("[no tests to run]" not in rest for rest in packages):
        return "go test ran only tests that skip themselves" if re.search(r"(?m)^\s*--- SKIP", text) else ""
    if packages or "no tests to run" in text:
        return "go test found no tests to run"
    return "go test found no test files" if "[no test files]" in text else None


def _cargo(command: str, text: str) -> str | None:
    results = re.findall(r"(?m)^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", text)
    if not results or "running " not in text:
        return None
    if any(int(passed) or int(failed) for passed, failed, _ in results):
        return ""
    ignored = sum(int(each) for _, _, each in results)
    return f"cargo test ran no test ({ignored} ignored)" if ignored else "cargo test ran 0 tests"


def _node(command: str, text: str) -> str | None:
    counts = {
        name: int(count) for name, count in re.findall(r"(?m)^[#\u2139] (tests|pass|fail|skipped|todo) (\d+)\s*$", text)
    }
    if "tests" not in counts or "pass" not in counts:
        return None
    if counts["tests"] == 0:
        return "node --test ran 0 tests"
    if counts["pass"] or counts.get("fail"):
        return ""
    return f"node --test skipped all of its {counts['tests']} tests"


def _unittest(command: str, text: str) -> str | None:
    runs = [int(each) for each in re.findall(r"(?m)^Ran (\d+) tests? in ", text)]
    if not runs:
        return None
    if not any(runs):
        return "unittest ran 0 tests"
    skipped = sum(int(each) for each in re.findall(r"(?m)^(?:OK|FAILED) \(.*?skipped=(\d+)", text))
    return f"unittest skipped all of its {skipped} tests" if skipped >= sum(runs) else ""


def _jest(command: str, text: str) -> str | None:
    if re.search(r"(?m)^\s*No tests? (?:files? )?found", text):
        return "no tests were found"
    counts = re.findall(r"(?m)^\s*Tests:?\s+(.*)$", text)
    if not counts or not re.search(r"\b(?:jest|vitest)\b|Test (?:Suites|Files)", f"{command}\n{text}"):
        return None
    if any(re.search(r"\d+ (?:passed|failed)", each) for each in counts):
        return ""
    return "all tests were skipped"
