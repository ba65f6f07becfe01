"""Each failure by its words, and what only looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import failures

_ROWS = """
RATE_LIMIT       HTTP 429
RATE_LIMIT       status code: 429
RATE_LIMIT       {"error": {"code": 429}}
RATE_LIMIT       Too many requests
RATE_LIMIT       anthropic.RateLimitError: slow down
RATE_LIMIT       rate_limit_exceeded
RATE_LIMIT       You've hit your usage limit.
RATE_LIMIT       You\N{RIGHT SINGLE QUOTATION MARK}ve hit your usage limit.
RATE_LIMIT       Usage limit has been reached
RATE_LIMIT       You exceeded your current quota, please check your plan
RATE_LIMIT       Retry-After: 120
RATE_LIMIT       we are being rate-limited
RATE_LIMIT       please try again later
OVERLOADED       HTTP/1.1 529
OVERLOADED       {"type":"overloaded_error"}
OVERLOADED       the model is currently overloaded
TEST_FAIL        3 tests failed
TEST_FAIL        === 1 failed, 12 passed in 0.31s ===
TEST_FAIL        Tests: 2 failed, 8 passed, 10 total
TEST_FAIL        E   AssertionError: assert 1 == 2
TEST_FAIL        FAILED (failures=2)
TEST_FAIL        --- FAIL: TestRoot (0.00s)
TEST_FAIL        test result: FAILED. 3 passed; 1 failed
TEST_FAIL        Failures: 2
TEST_FAIL        npm ERR! Test failed.
TEST_FAIL        FAILED tests/test_api.py::test_rate_limit_exceeded - 1 failed, 3 passed
TEST_FAIL        1 failed in 0.02s
TEST_FAIL        expected 1 but received 2 in this test
AUTH             HTTP 401
AUTH             status: 403
AUTH             403 Forbidden
AUTH             invalid x-api-key or Invalid API key
AUTH             Your API key is expired
AUTH             authentication_error
AUTH             Not logged in. Please run `client login`
AUTH             token expired
AUTH             git@host: Permission denied (publickey)
CONTEXT_LIMIT    prompt is too long: 210000 tokens
CONTEXT_LIMIT    context_length_exceeded
BUDGET           budget exceeded
GIT              CONFLICT (content): Merge conflict in a.py
GIT              ! [rejected] main -> main (fetch first)
NETWORK          connect ECONNREFUSED 127.0.0.1:5432
NETWORK          the provider cannot be reached (anthropic): Connection error.
NETWORK          Connection failed: error sending request for url (https://api.openai.com/v1/responses)
NETWORK          Unable to connect. Is the computer able to access the url?
NETWORK          fatal: unable to access: Could not resolve host: github.com
TIMEOUT          the command timed out after 300 s
TIMEOUT          subprocess.TimeoutExpired
ENV_SETUP        sh: 1: pytest: command not found
ENV_SETUP        ModuleNotFoundError: No module named 'flask'
ENV_SETUP        OSError: [Errno 98] Address already in use
MISSING_CONTEXT  ENOENT: no such file or directory, open 'a'
MISSING_CONTEXT  I need more context to go on
DISK_FULL        OSError: [Errno 28] No space left on device
UNKNOWN          all 429 items done
UNKNOWN          see line 401 of the file
UNKNOWN          0 failed, 12 passed
UNKNOWN          Failures: 0
UNKNOWN          Renderer output: expected width 3, received width 4
UNKNOWN          the author's api key handling is documented
UNKNOWN          something broke
"""


@pytest.mark.parametrize("row", _ROWS.strip().splitlines())
def test_words_give_a_failure_away(row: str) -> None:
    name, text = row.split(maxsplit=1)
    assert failures.classify(text).name == name
    assert failures.classify(f"before\n{text}\nafter").name == name
    assert failures.classify("x" * 100_000 + "\n" + text).name == name


def test_a_failing_test_about_limits_is_a_failing_test() -> None:
    text = "tests/test_limits.py: AssertionError: the rate limit should say try again later"
    assert failures.classify(text).name == "TEST_FAIL"


def test_the_caller_knows_better_than_unknown() -> None:
    assert failures.classify("broken", otherwise="TASK_EXEC").name == "TASK_EXEC"
    assert failures.category("nonsense").name == "UNKNOWN"


def test_the_table_is_sound() -> None:
    names = [each.name for each in failures.CATEGORIES]
    assert len(set(names)) == len(names)
    assert {name for name, _ in failures.PATTERNS} <= set(names)
    for each in failures.CATEGORIES:
        assert failures.category(each.name) is each
        assert each.response
        assert not (each.retryable and each.who == "person")


@given(st.text())
def test_any_text_has_a_category(text: str) -> None:
    assert failures.classify(text) in failures.CATEGORIES


@pytest.mark.parametrize(
    "piece", ["expected ", "expected received ", "assert expected ", "9", "9 passed ", "9 failed", "jest "]
)
def test_hostile_text_is_no_problem(piece: str) -> None:
    failures.classify(piece * 200_000)
