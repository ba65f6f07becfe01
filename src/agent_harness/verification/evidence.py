"""What the harness itself saw, as text: the counterpart of the evidence that an agent must show (UAH-309)."""

from collections import Counter

from agent_harness.verification.runner.testreport import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
)
from agent_harness.verification.verdict import TestRun, passed

_ORDER = (FAILED, PASSED, SKIPPED, ERROR)
_FENCE = "```"


def evidence(title: str, test_file: str, run: TestRun, *, limit_characters: int = 4000) -> str:
    """Heading, test file, commit, command, the end of the output, and the result, which comes from the report."""
    output = run.output.rstrip()
    if len(output) > limit_characters:
        output = "[...]\n" + output[-limit_characters:]
    fence = _FENCE
    while fence in output:
        fence += "`"
    lines = [
        f"## Verification for {title}",
        "",
        f"**Test file:** {test_file}",
        f"**Commit:** {run.commit}",
        "",
        f"{fence}\n$ {run.command}\n{output}\n{fence}",
        "",
        f"**Result:** {result(run)}",
    ]
    return "\n".join(lines) + "\n"


def result(run: TestRun) -> str:
    """One line: ``PASSED, 4 passed in 2.3 s``, or what speaks against it."""
    word = "PASSED" if passed(run) else "FAILED"
    if run.report is None:
        return f"{word}, {run.problem or 'no report'}"
    counts = Counter(run.report.cases.values())
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _ORDER if counts[outcome]) or "no tests"
    return f"{word}, {told} in {run.seconds:.1f} s"
