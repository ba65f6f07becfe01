"""Access control of ``harness serve``: one-time codes, browser sessions, and the rules for each request.

The server stores no code. For each code, it stores a file whose name is the code's digest. ``harness serve --link`` in
another process adds a code. If two requests use the same code, only the request that deletes the file succeeds. Source:
``faces.md`` F-SRV-1..3."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest

from agent_harness.kernel import clock

__all__ = ["AccessRules", "BrowserSessions", "MOST_BYTES", "OneTimeCodes", "SECURITY_HEADERS"]

CODE_SECONDS = 60.0
MOST_BYTES = 64 * 1024
MOST_SESSIONS = 64

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "same-origin",  # with `no-referrer` browsers send forms with `Origin: null`
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""HTTP headers that are added to every response."""


class OneTimeCodes:
    """Login codes in the server's folder. A code is valid once and for one minute."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def make(self) -> str:
        """Return a new login code. Store only a digest of the code, as a file name."""
        code = secrets.token_urlsafe(32)
        os.close(os.open(self._path(code), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        return code

    def use(self, code: str) -> bool:
        """Delete a login code, because it is valid only once. Return True if the code was valid."""
        path = self._path(code)
        try:
            made = os.lstat(path).st_mtime
            os.unlink(path)
        except OSError:
            return False
        return 0 <= time.time() - made < clock.scaled(CODE_SECONDS)

    def _path(self, code: str) -> str:
        return os.path.join(self._folder, hashlib.sha256(code.encode("utf-8", "replace")).hexdigest() + ".code")

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class BrowserSessions:
    """Session cookies and their form tokens, which are stored only in memory."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}

    def new(self) -> str:
        """Begin a session and return its cookie."""
        while len(self._tokens) >= MOST_SESSIONS:
            del self._tokens[next(iter(self._tokens))]
        cookie = secrets.token_urlsafe(32)
        self._tokens[cookie] = secrets.token_urlsafe(32)
        return cookie

    def token(self, cookie: str) -> str | None:
        """Return the token that forms in this session must contain, or None if the cookie is unknown."""
        given = cookie.encode("utf-8", "replace")
        return next((token for known, token in self._tokens.items() if compare_digest(known.encode(), given)), None)


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    """Rules that the server checks before it handles a request."""

    port: int
    allowed_hosts: tuple[str, ...] = ()  # of a proxy that has its own login

    @property
    def cookie(self) -> str:
        # with the port, because two servers on one machine must not share cookies
        return f"harness-{self.port}"

    def hosts(self) -> tuple[str, ...]:
        return (*(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")), *self.allowed_hosts)

    def origins(self) -> tuple[str, ...]:
        ours = [f"http://{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        return (*ours, *(f"{scheme}://{name}" for name in self.allowed_hosts for scheme in ("https", "http")))

    def refusal(
        self, method: str, headers: Mapping[str, str], *, is_known: bool, has_code: bool
    ) -> tuple[int, str] | None:
        """Return the HTTP status and message for a refused request, or None for an allowed request."""
        if headers.get("host", "").lower() not in self.hosts():
            return 403, "This server answers only requests for names of this machine."
        if method not in ("GET", "POST"):
            return 405, "Only GET and POST are supported."
        if has_code and method == "GET":
            return None
        if not is_known:
            return 401, "Open the link that `harness serve` printed. For a new link: harness serve --link"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "This request came from another site."
        return self._refused_form(headers) if method == "POST" else None

    def _refused_form(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        length = headers.get("content-length", "")
        if headers.get("origin", "").lower() not in self.origins():
            return 403, "Forms are accepted only from pages of this server."
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
            return 415, "A form must be sent as application/x-www-form-urlencoded."
        if not (length.isascii() and length.isdecimal()):
            return 411, "A form must have a Content-Length."
        if int(length) > MOST_BYTES:
            return 413, f"A form may have at most {MOST_BYTES // 1024} KiB."
        return None
