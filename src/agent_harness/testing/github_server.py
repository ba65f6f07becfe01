"""Local server with the issues of one GitHub repository, for tests. Its answers, refusals and rate limits are those of
the real server.

    from agent_harness.testing.github_server import serve

    with serve("owner/calc") as hub:
        ...                             # a client with GITHUB_API_URL=hub.url and GITHUB_TOKEN=hub.token
        hub.close_by_person(3)          # action of a person in the browser
        hub.refuse(hub.rate_limited())  # result of the next request
        hub.issues                      # current issues

The server supports issues, labels, comments, pagination, pull requests in the list of issues, deleted and transferred
issues, invalid tokens, permissions, primary and secondary rate limits, outages, and connections closed without an
answer."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

__all__ = ["GitHubServer", "Refusal", "serve"]

ADDRESS = "127.0.0.1"
Json = dict[str, Any]

_DOCUMENTATION = "https://docs.github.com/rest"
_AT = "2026-01-05T09:00:00Z"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Error response that a request gets in place of its normal response."""

    # 0: close the connection without a response
    status: int
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    done: bool = False  # the request is carried out, and only its answer is lost


@dataclass
class GitHubServer:
    """GitHub server for tests. It serves the issues of one repository."""

    repository: str
    token: str = "a-token-of-the-tests"  # noqa: S105
    port: int = 0
    login: str = "harness-user"
    can_write: bool = True
    has_issues: bool = True
    issues: dict[int, Json] = field(default_factory=dict)
    comments: dict[int, list[str]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    _refusals: list[Refusal | None] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    def environment(self) -> dict[str, str]:
        return {"GITHUB_API_URL": self.url, "GITHUB_TOKEN": self.token}

    # ---- actions of people, and outages

    def refuse(self, *refusals: Refusal, after: int = 0) -> None:
        """Answer the next ``after`` requests normally. Then answer one request with each of ``refusals``."""
        with self._lock:
            self._refusals += [*[None] * after, *refusals]

    def next_refusal(self) -> Refusal | None:
        """Remove and return the refusal for the next request. None means that the request succeeds."""
        with self._lock:
            return self._refusals.pop(0) if self._refusals else None

    @staticmethod
    def rate_limited(seconds: float = 1) -> Refusal:
        """Return a refusal by the primary rate limit. This limit ends after ``seconds``."""
        reset = str(int(time.time() + seconds))
        headers = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
        return Refusal(status=403, message="API rate limit exceeded for user ID 1.", headers=headers)

    @staticmethod
    def told_to_wait(seconds: int = 1, status: int = 429) -> Refusal:
        """Return a refusal by a secondary rate limit. It tells the client how long to wait."""
        words = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        return Refusal(status=status, message=words, headers={"retry-after": str(seconds)})

    def write_by_person(
        self, title: str, body: str = "", *, labels: tuple[str, ...] = (), association: str = "NONE", **more: Any
    ) -> int:
        """Add an issue that another user wrote, and return the issue's number."""
        # a pull request if `more` contains pull_request
        with self._lock:
            return int(self.add(title, body, labels, login="somebody", association=association, **more)["number"])

    def close_by_person(self, number: int) -> None:
        with self._lock:
            self.issues[number] |= {"state": "closed", "state_reason": "not_planned"}

    def reopen_by_person(self, number: int) -> None:
        with self._lock:
            self.issues[number] |= {"state": "open", "state_reason": "reopened"}

    def delete(self, number: int) -> None:
        with self._lock:
            self.issues[number] = {}

    def transfer(self, number: int) -> None:
        """Move an issue to another repository. The server then redirects requests for this issue."""
        with self._lock:
            self.issues[number] = {"number": 900, "away": self.issues[number]}

    # ---- actions of clients

    def add(
        self,
        title: str,
        body: str,
        labels: tuple[str, ...],
        *,
        login: str = "",
        association: str = "OWNER",
        **more: Any,
    ) -> Json:
        number = len(self.issues) + 1
        place = f"{self.url}/repos/{self.repository}/issues/{number}"
        self.issues[number] = {
            "id": 1000 + number,
            "number": number,
            "url": place,
            "title": title,
            "body": body,
            "state": "open",
            "state_reason": None,
            "labels": [{"name": name} for name in labels],
            "user": {"login": login or self.login, "type": "User", "id": 7, "url": f"{self.url}/users/x"},
            "author_association": association,
            "created_at": _AT,
            "updated_at": _AT,
            **more,
        }
        return self.issues[number]

    def answer(self, method: str, path: str, query: Mapping[str, str], value: Json) -> tuple[int, Any, dict[str, str]]:
        parts = path.strip("/").split("/")
        with self._lock:
            if [part.lower() for part in parts[:3]] != ["repos", *self.repository.lower().split("/")]:
                return 404, _words("Not Found"), {}
            if method != "GET" and not self.can_write:
                return 403, _words("Resource not accessible by personal access token"), {}
            return self._issues(method, parts[3:], query, value)

    def _issues(self, method: str, rest: list[str], query: Mapping[str, str], value: Json) -> tuple[int, Any, Any]:
        if rest[:1] == ["away"]:
            return 200, {**self.issues[int(rest[1])]["away"], "number": 900}, {}
        if rest == ["issues"]:
            return self._create(value) if method == "POST" else self._listed(query)
        issue = self.issues.get(int(rest[1])) if rest[:1] == ["issues"] and rest[1].isdigit() else None
        if not issue:
            return (404, _words("Not Found"), {}) if issue is None else (410, _words("This issue was deleted"), {})
        if "away" in issue:
            return 301, _words("Moved Permanently"), {"location": f"{self.url}/repos/{self.repository}/away/{rest[1]}"}
        if rest[2:] == ["comments"] and method == "POST":
            self.comments.setdefault(issue["number"], []).append(str(value.get("body")))
            return 201, {"id": 1, "body": value.get("body")}, {}
        if method == "PATCH":
            issue.update({key: value[key] for key in ("state", "state_reason", "title", "body") if key in value})
        return 200, issue, {}

    def _create(self, value: Json) -> tuple[int, Any, Any]:
        if not self.has_issues:
            return 410, _words("Issues has been disabled in this repository."), {}
        if not isinstance(value.get("title"), str) or not value["title"] or len(value["title"]) > 256:
            wrong = [{"resource": "Issue", "field": "title", "code": "invalid"}]
            return 422, {**_words("Validation Failed"), "errors": wrong}, {}
        labels = tuple(str(name) for name in value.get("labels") or ())
        return 201, self.add(value["title"], str(value.get("body") or ""), labels), {}

    def _listed(self, query: Mapping[str, str]) -> tuple[int, Any, Any]:
        wanted = set(filter(None, query.get("labels", "").split(",")))
        state = query.get("state", "open")
        found = [
            issue
            for issue in self.issues.values()
            if "state" in issue
            and state in ("all", issue["state"])
            and wanted <= {label["name"] for label in issue["labels"]}
        ]
        found.sort(key=lambda issue: issue["number"], reverse=query.get("direction", "desc") == "desc")
        size, page = min(int(query.get("per_page", 30)), 100), int(query.get("page", 1))
        more = page * size < len(found)
        following = urlencode({**query, "page": page + 1})
        link = {"link": f'<{self.url}/repos/{self.repository}/issues?{following}>; rel="next"'} if more else {}
        return 200, found[(page - 1) * size : page * size], link


def _words(message: str) -> Json:
    return {"message": message, "documentation_url": _DOCUMENTATION}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "agent-harness-github-server"
    wbufsize = -1  # headers and body leave together
    hub: GitHubServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing, because ``requests`` records every request."""

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PATCH(self) -> None:
        self._handle()

    def _handle(self) -> None:
        place = urlsplit(self.path)
        value = self._body()
        self.hub.requests.append((self.command, place.path))
        refusal = self.hub.next_refusal()
        if refusal is not None and not refusal.done:
            self._refuse(refusal)
            return
        if self.headers.get("authorization", "").rpartition(" ")[2] != self.hub.token:
            self._send(401, _words("Bad credentials"), {})
            return
        query = {name: values[-1] for name, values in parse_qs(place.query).items()}
        answer = self.hub.answer(self.command, place.path, query, value)
        if refusal is not None:
            self._refuse(refusal)
        else:
            self._send(*answer)

    def _refuse(self, refusal: Refusal) -> None:
        if refusal.status == 0:
            self.close_connection = True
            self.connection.close()
        else:
            self._send(refusal.status, _words(refusal.message), refusal.headers)

    def _send(self, status: int, value: object, headers: Mapping[str, str]) -> None:
        content = json.dumps(value).encode()
        usual = {"content-type": "application/json; charset=utf-8", "x-ratelimit-remaining": "4999"}
        self.send_response(status)
        for name, text in {**usual, **headers, "content-length": str(len(content))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> Json:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            value = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class _GitHubServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of connections that either side closed."""


@contextmanager
def serve(repository: str) -> Iterator[GitHubServer]:
    """Serve a repository's issues on loopback inside the ``with`` block."""
    hub = GitHubServer(repository)
    http = _GitHubServer((ADDRESS, 0), type("BoundHandler", (_Handler,), {"hub": hub}))
    hub.port = int(http.server_address[1])
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
