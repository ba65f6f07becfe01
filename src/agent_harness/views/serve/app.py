"""Routes of ``harness serve``, the access check of every request, and the stream of change events.

One task checks for changes on behalf of all browsers, and only while a browser is connected. No other module uses
starlette. Source: ``faces.md`` F-SRV-3, F-SRV-5."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_harness.errors import Busy, HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.session.project_view import ProjectView
from agent_harness.views.report import values
from agent_harness.views.serve import pages
from agent_harness.views.serve.access import SECURITY_HEADERS, AccessRules, BrowserSessions, OneTimeCodes
from agent_harness.views.serve.pages import Frame, PlaceInLists
from agent_harness.views.serve.window import ACTIONS, Window

__all__ = ["application"]

LOOK_SECONDS = 1.0
PING_SECONDS = 15.0
MOST_STREAMS = 16
MOST_FIELDS = 20
SCRIPT = (Path(__file__).parent / "live.js").read_text("utf-8")


def application(window: Window, rules: AccessRules, codes: OneTimeCodes) -> ASGIApp:
    sessions = BrowserSessions()
    routes = _Routes(window, rules, sessions)
    app = Starlette(
        routes=[
            Route("/", routes.all_projects, methods=["GET"]),
            Route("/p/{key}", routes.one_project, methods=["GET"]),
            Route("/p/{key}/{verb}", routes.act, methods=["POST"]),
            Route("/limits/clear", routes.lift, methods=["POST"]),
            Route("/events", routes.events, methods=["GET"]),
            Route("/live.js", _asset(SCRIPT, "text/javascript"), methods=["GET"]),
            Route("/serve.css", _asset(pages.STYLE, "text/css"), methods=["GET"]),
        ],
        lifespan=routes.watching,
        exception_handlers={404: _not_found, 405: _not_found},
    )
    app.router.redirect_slashes = False
    return _AccessCheck(app, rules, sessions, codes)


def _asset(text: str, kind: str) -> Callable[[Request], Response]:
    return lambda _request: Response(text, media_type=kind)


async def _not_found(_request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return HTMLResponse(pages.refused(status, "Page not found."), status)


# ---- before everything else


class _AccessCheck:
    """ASGI wrapper that passes only permitted requests to the application."""

    def __init__(self, app: ASGIApp, rules: AccessRules, sessions: BrowserSessions, codes: OneTimeCodes) -> None:
        self._app, self._rules, self._sessions, self._codes = app, rules, sessions, codes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            self._codes.close()  # also if a signal ends the process right after
        elif scope["type"] == "http":
            answer = self._answer(scope)
            try:
                await (answer or self._app)(scope, receive, _with_headers(send))
            except Exception:  # an internal error, answered with 500
                if os.environ.get("HARNESS_DEBUG"):
                    raise
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _answer(self, scope: Scope) -> Response | None:
        headers: dict[str, str] = {}
        for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value  # repeated: matches nothing
        code = _code(scope) if scope["path"] == "/" else None
        cookie = _cookie(headers, self._rules.cookie)
        token = self._sessions.token(cookie) if cookie else None
        refused = self._rules.refusal(scope["method"], headers, is_known=bool(token), has_code=code is not None)
        if refused is not None:
            return HTMLResponse(pages.refused(*refused), refused[0])
        if code is not None and scope["method"] == "GET":
            return self._opened(code)
        scope["token"] = token
        return None

    def _opened(self, code: str) -> Response:
        if not self._codes.use(code):
            said = "This link was used already, or is older than a minute. For a new link: harness serve --link"
            return HTMLResponse(pages.refused(401, said), 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._rules.cookie, self._sessions.new(), httponly=True, samesite="strict", path="/")
        return answer


def _code(scope: Scope) -> str | None:
    found = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    return found["code"][0] if "code" in found else None


def _cookie(headers: Mapping[str, str], name: str) -> str | None:
    found: SimpleCookie = SimpleCookie()
    with suppress(CookieError):
        found.load(headers.get("cookie", ""))
    return found[name].value if name in found else None


def _with_headers(send: Send) -> Send:
    ours = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *ours]
        await send(message)

    return sent


# ---- the routes


class _Routes:
    def __init__(self, window: Window, rules: AccessRules, sessions: BrowserSessions) -> None:
        self._window, self._rules, self._sessions = window, rules, sessions
        self._reports: dict[str, tuple[tuple[object, ...], JsonObject]] = {}
        self._boot, self._number = secrets.token_hex(4), 0
        self._changed = asyncio.Condition()
        self._streams = 0

    @property
    def _revision(self) -> str:
        return f"{self._boot}-{self._number}"

    async def _frame(self, request: Request, problem: str = "") -> Frame:
        return Frame(
            limits=await run_in_threadpool(self._window.limits),
            token=request.scope["token"],
            revision=self._revision,
            read_only=self._window.read_only,
            holds="hold" in request.query_params,
            problem=problem,
        )

    # -- pages

    async def all_projects(self, request: Request) -> Response:
        return await self._overview(await self._frame(request))

    async def _overview(self, frame: Frame, status: int = 200) -> Response:
        found = await run_in_threadpool(self._window.look)
        return HTMLResponse(pages.all_projects(found, frame, at=clock.now()), status)

    async def one_project(self, request: Request) -> Response:
        place = PlaceInLists.of(request.query_params)
        return await self._project(request.path_params["key"], await self._frame(request), place=place)

    async def _project(
        self, key: str, frame: Frame, *, place: PlaceInLists = pages.FIRST, status: int = 200
    ) -> Response:
        return await run_in_threadpool(self._project_page, key, frame, place, status)

    def _project_page(self, key: str, frame: Frame, place: PlaceInLists, status: int) -> Response:
        project = self._window.project(key)
        if project is None:
            return HTMLResponse(pages.refused(404, "Project not found."), 404)
        seen = project.seen
        if isinstance(seen, str):
            return HTMLResponse(pages.refused(404, f"{project.name}: {seen}"), 404)
        found = self._report(key, seen.view)
        text = pages.one_project(project, seen, lambda: found, frame, at=clock.now(), place=place)
        return HTMLResponse(text, status)

    def _report(self, key: str, view: ProjectView) -> JsonObject:
        """Return the values for a project's report. Compute them again only if the project's records changed."""
        made_of = (view.state, view.sessions, view.claims, view.gaps, view.next)
        before, found = self._reports.get(key, ((), {}))
        if len(before) != len(made_of) or any(a is not b and a != b for a, b in zip(before, made_of, strict=True)):
            found = values.read(view, chain=None, at=clock.now(), most=pages.PER_PAGE["sessions"])
            self._reports[key] = made_of, found
        return {**found, "doing": view.doing}

    # -- actions

    async def act(self, request: Request) -> Response:
        """Carry out the action that a form requests, then redirect the browser to the page."""
        form = {name: found[0] for name, found in _fields(await request.body()).items()}
        key, verb = request.path_params["key"], request.path_params["verb"]
        if refused := self._refusal(request, form):
            return refused
        project = await run_in_threadpool(self._window.project, key)
        if project is None or verb not in ACTIONS:
            return HTMLResponse(pages.refused(404, "Page not found."), 404)
        back = "/" if form.get("all") == "yes" else f"/p/{key}"
        try:
            await run_in_threadpool(self._window.act, project, verb, form)
        except HarnessError as error:
            return await self._refused(request, "" if back == "/" else key, error)
        finally:
            await self._bump()
        return RedirectResponse(back, 303)

    async def lift(self, request: Request) -> Response:
        form = {name: found[0] for name, found in _fields(await request.body()).items()}
        if refused := self._refusal(request, form):
            return refused
        found = await run_in_threadpool(self._window.project, form.get("at", ""))
        key = found.key if found else ""
        try:
            await run_in_threadpool(self._window.lift, form.get("account", ""), form.get("limit", ""))
        except HarnessError as error:
            return await self._refused(request, key, error)
        finally:
            await self._bump()
        return RedirectResponse(f"/p/{key}" if key else "/", 303)

    def _refusal(self, request: Request, form: Mapping[str, str]) -> Response | None:
        if not secrets.compare_digest(form.get("token", "").encode(), str(request.scope["token"]).encode()):
            return HTMLResponse(pages.refused(403, "This form belongs to another session. Reload the page."), 403)
        if self._window.read_only:
            return HTMLResponse(pages.refused(403, "This server was started with --read-only."), 403)
        return None

    async def _refused(self, request: Request, key: str, error: HarnessError) -> Response:
        status = 409 if isinstance(error, Busy) else 400 if error.exit_code == 2 else 422
        frame = await self._frame(request, f"{error.message.strip()}{f' (next: {error.hint})' if error.hint else ''}")
        return await self._project(key, frame, status=status) if key else await self._overview(frame, status)

    # -- what has changed

    @asynccontextmanager
    async def watching(self, _app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch())
        yield
        task.cancel()

    async def _watch(self) -> None:
        before: object = None
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._streams:
                continue
            with suppress(Exception):  # read errors: try again at the next look
                found = await run_in_threadpool(self._window.stamp)
                if found != before:
                    before = found
                    await self._bump()

    async def _bump(self) -> None:
        async with self._changed:
            self._number += 1
            self._changed.notify_all()

    async def events(self, request: Request) -> Response:
        """Return an event stream that tells the browser when to reload the page."""
        if self._streams >= MOST_STREAMS:
            return Response("Too many pages are open.", 503, {"retry-after": "10"}, media_type="text/plain")
        seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
        self._streams += 1
        return _Stream(self._told(seen), self._stream_ended)

    def _stream_ended(self) -> None:
        self._streams -= 1

    async def _told(self, seen: str) -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        while True:
            if seen != self._revision:
                seen = self._revision
                yield f"id: {seen}\nevent: changed\ndata: changed\n\n"
            try:
                async with self._changed:
                    await asyncio.wait_for(self._changed.wait(), PING_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"


class _Stream(StreamingResponse):
    """Event stream that calls ``ended`` at its end."""

    def __init__(self, content: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _fields(body: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}
