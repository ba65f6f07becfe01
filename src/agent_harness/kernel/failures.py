"""Failure categories, each with a name, a next step and the text patterns that recognise the category. A failure is a
recorded value, not an exception. Sources: ``tasklist.md`` 12.1, ``features.md`` S, ``longtask.md`` 11."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from agent_harness.kernel import retry

if TYPE_CHECKING:
    from datetime import datetime

Row = tuple[str, tuple[str, ...]]
"""Name of a category, and the regular expressions that recognise the category in a text."""


@dataclass(frozen=True, slots=True)
class Category:
    """Kind of failure, with the next step and the party that takes this step."""

    name: str
    retryable: bool
    response: str
    who: Literal["harness", "agent", "person"]


CATEGORIES: tuple[Category, ...] = (
    Category("ENV_SETUP", True, "set the environment up again; stop if this fails twice", "harness"),
    Category("CONFIG", False, "stop; correct the file and the field that the message names", "person"),
    Category("TASK_EXEC", True, "roll back and try again", "harness"),
    Category("TEST_FAIL", True, "read the output of the tests and try another way", "agent"),
    Category("TIMEOUT", True, "end every process of the command, clean up, roll back and try again", "harness"),
    Category("DEPENDENCY", False, "skip the task, and every task that depends on it", "harness"),
    Category("SESSION_TIMEOUT", True, "check the result of the session and continue from there", "harness"),
    Category("RATE_LIMIT", True, "wait as long as the provider says", "harness"),
    Category("OVERLOADED", True, "wait 30 s, three times; then pause", "harness"),
    Category("AUTH", False, "stop; log in again or correct the key", "person"),
    Category("NETWORK", True, "try three times; then continue without it or pause", "harness"),
    Category("BUDGET", False, "stop; decide whether to spend more", "person"),
    Category("CONTEXT_LIMIT", True, "commit the work and continue in a new session", "harness"),
    Category("MISSING_CONTEXT", False, "supply the missing information", "person"),
    Category("GIT", False, "repair the branch; nothing is forced", "person"),
    Category("DISK_FULL", False, "free some space", "person"),
    Category("UNKNOWN", False, "read the output and decide", "person"),
)

# A status code counts only after such a word: "line 401" and "429 tests passed" are not statuses.
_STATUS = r"\b(?:https?|status|code|error|response)(?:[ _-]?(?:status|code|error)){0,2}[\"']?[ /:=(]{1,3}(?:1\.1 |2 )?"

OVERLOADED: tuple[str, ...] = (
    rf"{_STATUS}529\b",
    r"\boverloaded[ _]?error\b",
    r"\b(?:model|server|api)(?: is)?(?: currently)? overloaded\b",
)
"""Patterns of messages in which a provider reports that its service is overloaded for all users."""

REFUSED: tuple[str, ...] = (
    rf"{_STATUS}429\b",
    r"\b(?:api error|rejected)\b[^\n]{0,60}\(429\)",
    r"\btoo many requests\b",
    r"\brate[ _-]?limit[ _-]?(?:has been |was )?(?:exceeded|error|reached|hit)\b",
    r"\b(?:usage|session|weekly|daily)[ _]limit(?:[ _]has been)?[ _](?:reached|exceeded|hit)\b",
    r"\bhit your (?:usage|session|weekly|daily|rate) limit\b",
    r"\binsufficient_quota\b",
    r"\bquota (?:exceeded|exhausted)\b",
    r"\bexceeded your (?:current )?quota\b",
)
"""Patterns that occur only in messages of a provider that temporarily refuses this user."""

MONEY: tuple[str, ...] = (
    r"\b(?:credit )?balance (?:is )?(?:too low|insufficient|exhausted|used up)\b",
    r"\binsufficient[ _](?:quota|credits?|balance|funds)\b",
    r"\b(?:out of|no(?:t enough)?) (?:prepaid |api )?credits?\b",
    r"\bplan and billing\b",
    r"\bbilling (?:hard |soft )?limit\b",
    r"\bbilling[ _](?:is |was )?(?:not[ _]active|inactive|disabled|not[ _]enabled|error)\b",
    r"\bpayment[ _](?:is )?required\b",
    rf"{_STATUS}402\b",
)
"""Patterns of messages about an account without credit. Waiting does not help: the user must add credit."""

_LIMIT = re.compile(r"\b(?:limits?|usage|quota)\b", re.IGNORECASE)
_USED_UP = re.compile(r"\b(?:reached|hit|exceeded|exhausted|used up|out of)\b", re.IGNORECASE)

NOT_FOUND: tuple[str, ...] = (
    r"\bcommand not found\b",
    r"\bNo module named\b",
    r"\bModuleNotFoundError\b",
    r"\bcannot find module\b",
    r"\bmodule not found\b",
)
"""Patterns of messages about a program or module that is not installed."""

PATTERNS: tuple[Row, ...] = (
    ("DISK_FULL", (r"\bno space left on device\b", r"\bENOSPC\b", r"\bdisk quota exceeded\b")),
    ("OVERLOADED", OVERLOADED),
    ("RATE_LIMIT", (*REFUSED, r"\bretry-after[\"']?[:=] ?\"?\w")),
    (
        "CONTEXT_LIMIT",
        (
            r"\bcontext[ _]length[ _]exceeded\b",
            r"\bcontext window (?:is )?(?:full|exceeded)\b",
            r"\bmaximum context length\b",
            r"\bprompt is too long\b",
        ),
    ),
    (
        "BUDGET",
        (r"\b(?:budget|spending limit|cost limit) (?:was |is |has been )?(?:exceeded|reached|used up|exhausted)\b",),
    ),
    (
        "TEST_FAIL",
        (
            r"\btests? failed\b",
            r"\b(?:failing|failed) tests?\b",
            r"\b[1-9]\d{0,8} failed(?:,| in) ",
            r"\b[1-9]\d{0,8} failed\b.{0,60}\b\d{1,9} passed\b",
            r"\b\d{1,9} passed\b.{0,60}\b[1-9]\d{0,8} failed\b",
            r"\bFAILED \((?:failures|errors)=",
            r"^--- FAIL:",
            r"\btest result: FAILED\b",
            r"\bfailures: [1-9]",
            r"\bAssertionError\b",
            r"\bERR_ASSERTION\b",
            r"\bnpm ERR!",
            r"\bjest\b.{0,200}\bexpected\b.{0,200}\breceived\b",
            r"\bassert\w{0,20}\b.{0,200}\bexpected\b.{0,200}\b(?:actual|received)\b",
            r"\bexpected\b.{0,200}\breceived\b.{0,200}\b(?:tests?|spec|assert|fail)",
        ),
    ),
    (
        "AUTH",
        (
            rf"{_STATUS}40[13]\b",
            r"\bunauthorized\b",
            r"\bforbidden\b",
            r"\bpermission denied\b",
            r"\bauthentication[ _]?(?:has )?(?:failed|required|error|invalid|expired)\b",
            r"\bauth(?:orization)? error\b",
            r"\b(?:invalid|missing|incorrect|expired)[ _](?:x-)?api[ _-]?keys?\b",
            r"\bapi[ _-]?keys? (?:is |was |has )?(?:invalid|missing|incorrect|expired)\b",
            r"\bnot logged in\b",
            r"\bplease run\b.{0,40}\blogin\b",
            r"\btoken (?:has |is )?expired\b",
        ),
    ),
    (
        "GIT",
        (
            r"^CONFLICT \(",
            r"\bmerge conflict\b",
            r"\bnon-fast-forward\b",
            r"\bupdates were rejected\b",
            r"! \[rejected\]",
        ),
    ),
    ("RATE_LIMIT", (r"\brate[ _-]?limit(?:ed|ing|s)?\b", r"\btry again later\b", r"\bretry[ -]after\b")),
    (
        "NETWORK",
        (
            r"\b(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|ENOTFOUND|EAI_AGAIN)\b",
            r"\bconnection (?:refused|reset|timed out|error|failed|closed|aborted)\b",
            r"\b(?:cannot|could not) be reached\b",
            r"\b(?:failed to|unable to|could not) connect\b",
            r"\berror sending request\b",
            r"\bdns error\b",
            r"\bcould not resolve host\b",
            r"\bname resolution\b",
            r"\bnetwork is unreachable\b",
        ),
    ),
    (
        "TIMEOUT",
        (
            r"\btimed out\b",
            r"\bTimeoutE(?:rror|xpired)\b",
            r"\btimeout (?:after|of|exceeded)\b",
            r"\bdeadline exceeded\b",
        ),
    ),
    (
        "ENV_SETUP",
        (
            *NOT_FOUND,
            r"\baddress already in use\b",
            r"\bEADDRINUSE\b",
            r"\bcannot connect to the docker daemon\b",
        ),
    ),
    (
        "MISSING_CONTEXT",
        (
            r"\b(?:missing|not enough|need more) context\b",
            r"\b(?:cannot|could not|can't) find\b",
            r"\bfile not found\b",
            r"\bENOENT\b",
            r"\bno such file\b",
        ),
    ),
)
"""Patterns of all categories, in order. The category of a text is that of the first row that matches the text. For
example, a failing test that only mentions a refusal is classified as a failing test."""

_LONGEST = 65_536


def category(name: str) -> Category:
    return next((each for each in CATEGORIES if each.name == name), CATEGORIES[-1])


def classify(text: str, *, otherwise: str = "UNKNOWN") -> Category:
    """Return the failure category that matches the last 64 KiB of ``text``. The default is ``otherwise``."""
    found = first_match(text[-_LONGEST:], PATTERNS)
    return category(found[0] if found else otherwise)


def first_match(text: str, table: tuple[Row, ...]) -> tuple[str, int] | None:
    """Return the name and match position of the first row whose pattern matches ``text``, or ``None``."""
    for name, pattern in _compiled(table):
        if found := pattern.search(text):
            return name, found.start()
    return None


def names_limit(line: str, now: datetime) -> bool:
    """Return True if the line reports a used-up limit and states the end of this limit."""
    return bool(_LIMIT.search(line) and _USED_UP.search(line)) and retry.find_wait(line, now) is not None


def wants_money(line: str, now: datetime) -> bool:
    """Return True if the line reports an account without credit, but no waiting time."""
    return first_match(line, (("money", MONEY),)) is not None and retry.find_wait(line, now) is None


def rows(names: Mapping[str, str]) -> tuple[Row, ...]:
    return tuple((names[name], patterns) for name, patterns in PATTERNS if name in names)


@cache
def _compiled(table: tuple[Row, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    flags = re.IGNORECASE | re.DOTALL | re.MULTILINE
    return tuple((name, re.compile("|".join(patterns), flags)) for name, patterns in table)
