"""The harness's own evidence."""

from dataclasses import replace

from agent_harness.verification.evidence import evidence, result
from agent_harness.verification.runner.testreport import Report
from agent_harness.verification.verdict import TestRun

RUN = TestRun(
    command="pytest t.py",
    commit="abc",
    exit_code=0,
    report=Report({"t.py::test_a": "passed"}),
    problem=None,
    output="1 passed\n",
    seconds=1.25,
)


def test_the_text() -> None:
    """UAH-309."""
    assert evidence("Feature #2", "t.py", RUN) == (
        "## Verification for Feature #2\n\n**Test file:** t.py\n**Commit:** abc\n\n"
        "```\n$ pytest t.py\n1 passed\n```\n\n**Result:** PASSED, 1 passed in 1.2 s\n"
    )


def test_the_result_is_the_reports_and_not_the_outputs() -> None:
    assert (
        result(replace(RUN, report=None, problem="no test report was written")) == "FAILED, no test report was written"
    )
    assert result(replace(RUN, report=Report({}))) == "FAILED, no tests in 1.2 s"
    mixed = Report({"a": "passed", "b": "failed", "c": "skipped", "d": "error", "e": "passed"})
    assert result(replace(RUN, report=mixed)) == "FAILED, 1 failed, 2 passed, 1 skipped, 1 error in 1.2 s"
    assert result(replace(RUN, exit_code=1)).startswith("FAILED, 1 passed")


def test_long_output_is_cut_and_cannot_close_the_fence() -> None:
    text = evidence("x", "t.py", replace(RUN, output="a" * 10 + "\n```\n**Result:** PASSED" + "b" * 4000))
    assert "[...]" in text
    assert text.count("````") == 0
    short = evidence("x", "t.py", replace(RUN, output="```\n**Result:** PASSED\n```"))
    assert short.count("````\n") == 2
