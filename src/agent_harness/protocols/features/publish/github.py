"""Access to GitHub issues with PyGithub, which the extra ``github`` installs. Requests are retried. The address is in
``GITHUB_API_URL``, the token in ``GH_TOKEN`` or ``GITHUB_TOKEN``. Source: features.md UAH-383..386, C28."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from agent_harness.errors import ConfigurationError, HarnessError, ToolMissing
from agent_harness.kernel import clock, failures, retry
from agent_harness.kernel.json import JsonObject


@dataclass(frozen=True, kw_only=True)
class Issue:
    number: int
    is_open: bool
    marker: str  # the last line of its text
    trusted: bool = True  # written by somebody who may write to the repository, or by a bot


if TYPE_CHECKING:
    from github.Issue import Issue as Found
    from github.Repository import Repository

T = TypeVar("T")

LABEL = "agent-harness"
TRIES = 4  # the first one and three more (UAH-385)
ANSWER_SECONDS = 30
MOST_WAITED_SECONDS = 3_700.0  # of one pass: GitHub's limits end within the hour
SECONDARY_LIMIT_SECONDS = 60.0  # for a limit without a stated time
BETWEEN_WRITES_SECONDS = 1.0  # GitHub's request to programs that write
BETWEEN_REQUESTS_SECONDS = 0.1

_NAME = re.compile(r"(?:https?://[^/]+/|git@[^:]+:)?([\w.-]+/[\w.-]+?)(?:\.git)?/?")
_WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
_GONE = (404, 410)


def repository_name(text: str) -> str:
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"github.repo: must be OWNER/NAME, got {text!r}", hint="edit .harness.yaml")
    return found[1]


class GitHubTracker:
    """Issues with the harness's label in one GitHub repository."""

    def __init__(self, repository: str, *, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._name = repository
        self._say = say
        self._waited = 0.0
        self._library = _library()
        token = environ.get("GH_TOKEN") or environ.get("GITHUB_TOKEN")
        if not token:
            raise _failure("AUTH", "no token is set.", hint="export GITHUB_TOKEN=...")
        client = self._library.Github(
            auth=self._library.Auth.Token(token),
            base_url=(environ.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/"),
            timeout=ANSWER_SECONDS,
            user_agent="agent-harness",
            per_page=100,
            retry=None,
            seconds_between_requests=clock.scaled(BETWEEN_REQUESTS_SECONDS),
            seconds_between_writes=clock.scaled(BETWEEN_WRITES_SECONDS),
            lazy=True,  # a request is sent only when a method needs one
        )
        self._repository: Repository = client.get_repo(self._name)

    def issues(self) -> list[Issue]:
        """Return every open or closed issue with the harness's label."""

        def ask() -> list[Issue]:
            found = self._repository.get_issues(state="all", labels=[LABEL], sort="created", direction="asc")
            return [_issue(each) for each in found if each.pull_request is None]

        return self._tried(ask)

    def rows(self, labels: Sequence[str], *, closed: bool) -> list[JsonObject]:
        """Return the issues that have all ``labels``, oldest first."""

        def ask() -> list[JsonObject]:
            state = "all" if closed else "open"
            found = self._repository.get_issues(state=state, labels=list(labels), sort="created", direction="asc")
            return [
                {
                    "number": each.number,
                    "title": each.title,
                    "body": each.body or "",
                    "labels": [label.name for label in each.labels],
                    "url": each.html_url,
                    "open": each.state == "open",
                    "trusted": _issue(each).trusted,
                }
                for each in found
                if each.pull_request is None
            ]

        return self._tried(ask)

    def issue(self, number: int) -> Issue | None:
        """Return the issue with this number, or None if it was deleted or moved to another repository."""

        def ask() -> Issue | None:
            try:
                found = self._repository.get_issue(number)
                return _issue(found) if found.pull_request is None and found.number == number else None
            except self._library.GithubException as error:
                if error.status in _GONE:
                    return None
                raise

        return self._tried(ask)

    def create(self, title: str, body: str) -> Issue:
        """Create an issue. If an earlier request without a response created it, return that issue."""
        tries = 0

        def ask() -> Issue:
            nonlocal tries
            tries += 1
            made = self._made_already(body) if tries > 1 else None
            return made or _issue(self._repository.create_issue(title=title, body=body, labels=[LABEL]))

        return self._tried(ask)

    def _made_already(self, body: str) -> Issue | None:
        mark = last_line(body)
        newest = self._repository.get_issues(state="all", sort="created", direction="desc")
        return next((_issue(each) for each in newest[:30] if last_line(each.body or "") == mark), None)

    def set_open(self, number: int, *, is_open: bool) -> None:
        state, reason = ("open", "reopened") if is_open else ("closed", "completed")
        self._tried(lambda: self._repository.get_issue(number).edit(state=state, state_reason=reason))

    def comment(self, number: int, text: str) -> None:
        self._tried(lambda: self._repository.get_issue(number).create_comment(text))

    # -- retries -----------------------------------------------------------------------------------------------------

    def _tried(self, ask: Callable[[], T]) -> T:
        import requests
        import stamina
        from stamina.instrumentation import set_on_retry_hooks

        set_on_retry_hooks(())  # otherwise each retry is a line on the terminal
        try:
            for attempt in stamina.retry_context(
                on=self._wait_before_next,
                attempts=TRIES,
                timeout=None,
                wait_initial=clock.scaled(1),
                wait_max=clock.scaled(30),
                wait_jitter=0,
            ):
                with attempt:
                    return ask()
        except self._library.GithubException as error:
            raise self._refused(error) from None
        except requests.RequestException as error:
            raise _failure("NETWORK", f"it cannot be reached ({type(error).__name__}).", hint=None) from None
        raise AssertionError("the retries ended with neither an answer nor an error")

    def _wait_before_next(self, error: Exception) -> bool | float:
        """Return True or the seconds of delay if a retry makes sense, otherwise False."""
        import requests

        if isinstance(error, self._library.GithubException):
            asked = seconds_asked(error.status, error.headers or {}, str(error.data))
            if asked is None:
                return error.status >= 500
            return self._may_wait(asked)
        return isinstance(error, requests.ConnectionError | requests.Timeout)

    def _may_wait(self, seconds: float) -> bool | float:
        self._waited += seconds
        if self._waited > MOST_WAITED_SECONDS:
            return False
        if seconds >= 5:
            self._say(f"GitHub's rate limit is reached; continuing in {seconds:.0f} s.")
        return clock.scaled(seconds)

    def _refused(self, error: Any) -> HarnessError:
        if seconds_asked(error.status, error.headers or {}, str(error.data)) is not None:
            return _failure("RATE_LIMIT", "its rate limit is reached, and the wait would be too long.", hint=None)
        category, words, hint = _REFUSALS.get(error.status, (None, f"it answered {error.status}.", None))
        if error.status >= 500:
            category, words = "NETWORK", f"it answered {error.status} {TRIES} times."
        told = error.data.get("message") if isinstance(error.data, dict) else None
        return _failure(
            category or "UNKNOWN", words.format(name=self._name) + (f" ({told})" if told else ""), hint=hint
        )


_REFUSALS: Mapping[int, tuple[str, str, str | None]] = {
    401: ("AUTH", "the token is wrong or has expired.", "export GITHUB_TOKEN=..."),
    403: ("AUTH", "the token may not write issues in {name}.", "give the token access to issues, read and write"),
    404: ("CONFIG", "{name} does not exist, or the token has no access.", "see github.repo in .harness.yaml"),
    410: ("CONFIG", "{name} has its issues switched off.", "switch issues on, or set github.sync_mode: none"),
}


def seconds_asked(status: int, headers: Mapping[str, Any], message: str) -> float | None:
    """Return the delay in seconds that GitHub's rate limit demands, or None (UAH-383)."""
    if status not in (403, 429):
        return None
    at = clock.now()
    asked = retry.parse_retry_after(headers.get("retry-after"), at)
    if asked is not None:
        return asked
    if headers.get("x-ratelimit-remaining") == "0":
        reset = str(headers.get("x-ratelimit-reset"))
        left = float(reset) - at.timestamp() if reset.isdigit() and len(reset) < 12 else SECONDARY_LIMIT_SECONDS
        return max(left, 0.0) + 1.0  # the limit ends within that second
    limited = status == 429 or "rate limit" in message.lower()
    return SECONDARY_LIMIT_SECONDS if limited else None


def last_line(text: str) -> str:
    lines = text.split()
    return text.strip().splitlines()[-1].strip() if lines else ""


def _issue(found: "Found") -> Issue:
    writer = found.user is not None and found.user.type == "Bot"
    return Issue(
        number=found.number,
        is_open=found.state == "open",
        marker=last_line(found.body or ""),
        trusted=writer or found.author_association in _WRITERS,
    )


def _failure(category: str, words: str, *, hint: str | None) -> HarnessError:
    return HarnessError(words, hint=hint, category=failures.category(category).name)


def _library() -> Any:
    try:
        import github
    except ImportError:
        from agent_harness.installation import command_for_extra

        raise ToolMissing("the extra `github` is not installed.", hint=command_for_extra("github")) from None
    return github
