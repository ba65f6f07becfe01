"""``harness serve``: a real server and raw sockets; its refusals, a person's decisions there, its announcements."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from agent_harness.kernel import trusted_state
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.protocols.tasklist import proven
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.testing import HARNESS, run_process
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.long_task_project import LongTaskProject, book, book_checkpoint
from agent_harness.testing.task_list_project import TaskListProject, task

ATTACK = "</title></script><img src=x onerror=alert(1)><a href=http://x>"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PATIENCE = 20
"""A page waits so many times longer for what is done, so that a busy machine answers as an idle one does."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


class Served:
    """``harness serve`` in a separate process, and the browser's side of the connection."""

    def __init__(self, process: "subprocess.Popen[str]", environ: dict[str, str]) -> None:
        self.environ = environ
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        self.said = json.loads(line)
        self.port = int(self.said["port"])
        self.cookie = ""
        self.verb = "pause"  # of the form that attacks send

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def sign_in(self) -> "Served":
        found = self.get(self.said["url"].partition(self.host)[2])
        assert (found.status, found.headers["location"]) == (303, "/"), found
        self.cookie = found.headers["set-cookie"].partition(";")[0]
        return self

    def raw(self, *parts: bytes) -> Answer:
        """Send these bytes, however wrong, and return the answer."""
        with socket.create_connection(("127.0.0.1", self.port), 60) as connection:
            found = b""
            try:
                for part in parts:
                    connection.sendall(part)
                while piece := connection.recv(1 << 16):
                    found += piece
            except ConnectionError:  # cut off before it had said all, and so refused
                found = found or b"HTTP/1.1 400 cut off\r\n\r\n"
        return answer_of(found)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> Answer:
        """Send a request as a browser with the session cookie does; ``None`` leaves a header out."""
        given = {"Host": self.host, "Cookie": self.cookie or None, "Connection": "close"}
        if method == "POST":
            given |= {"Origin": f"http://{self.host}", "Content-Length": str(len(body)), **FORM}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value)]
        return self.raw("\r\n".join([*lines, "", ""]).encode(), body)

    def get(self, path: str = "/", **headers: str | None) -> Answer:
        return self.ask("GET", path, b"", **headers)

    def page(self, path: str = "/") -> "Page":
        found = self.get(path)
        assert found.status == 200, found
        return Page(found.text)

    def send(self, form: dict[str, str], **fields: str) -> Answer:
        """Send a form of a page, filled in."""
        given = {name: value for name, value in form.items() if name != "action"} | fields
        return self.ask("POST", form["action"], urlencode(given).encode())

    @contextmanager
    def stream(self, **headers: str) -> Iterator["Stream"]:
        with socket.create_connection(("127.0.0.1", self.port), 60) as connection:
            given = {"Host": self.host, "Cookie": self.cookie, **headers}
            lines = ["GET /events HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            yield Stream(connection)


class Stream:
    """Data of a connection that stays open."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.text = ""

    def until(self, what: str) -> str:
        end = time.monotonic() + 60
        while what not in self.text:
            assert time.monotonic() < end, self.text
            found = self._connection.recv(1 << 16)
            assert found, self.text
            self.text += found.decode()
        return self.text


class Page(HTMLParser):
    """The elements of a page, its text, and its forms by their action."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.forms: list[dict[str, str]] = []
        self.choices: list[str] = []
        self.source = text
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag == "form":
            self.forms.append({"action": given["action"]})
        elif tag == "input" and given.get("type") == "hidden":
            self.forms[-1][given["name"]] = given["value"]
        elif tag == "input" and given.get("type") == "radio":
            self.choices.append(given["value"])
        elif tag == "a":
            self.links.append(given["href"])

    def handle_data(self, data: str) -> None:
        self.text += data

    def form(self, verb: str) -> dict[str, str]:
        return next(each for each in self.forms if each["action"].endswith(f"/{verb}"))

    @property
    def verbs(self) -> list[str]:
        return [each["action"].rpartition("/")[2] for each in self.forms]


def answer_of(found: bytes) -> Answer:
    head, _, body = found.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(status=int((first.split() or ["0", "0"])[1]), headers=headers, text=body.decode("utf-8", "replace"))


@contextmanager
def serving(*words: object, cwd: Path, **environment: str) -> Iterator[Served]:
    environ = {**os.environ, "HARNESS_TIME_SCALE": str(PATIENCE), **environment}
    process = subprocess.Popen(
        [*HARNESS, "serve", "--json", *(() if "--port" in words else ("--port", "0")), *map(str, words)],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Served(process, environ)
    finally:
        process.terminate()
        process.communicate()


def task_list(root: Path) -> TaskListProject:
    made = TaskListProject(root)
    assert made.harness("add", "One", "--validate", "true").code == 0
    assert made.harness("add", ATTACK, "--validate", "true").code == 0
    return made


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TaskListProject, Served]]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("attacked")
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(folder / name.lower()))
        project = task_list(folder / "list")
        with serving(cwd=project.root) as served:
            yield project, served.sign_in()


def pause_with(served: Served, **headers: str | None) -> Answer:
    form = served.page().form(served.verb)
    body = urlencode({name: value for name, value in form.items() if name != "action"}).encode()
    return served.ask("POST", form["action"], body, **headers)


def pause_without(served: Served, *left_out: str, **fields: str) -> Answer:
    form = {name: value for name, value in served.page().form(served.verb).items() if name not in left_out}
    return served.send(form | fields)


def link(served: Served) -> str:
    """Return the path of another link, not used yet."""
    words = [*HARNESS, "serve", "--link", "--port", str(served.port)]
    found = run_process(words, cwd=Path.cwd(), environ=served.environ, seconds=60)
    assert found.code == 0, found
    return found.out.strip().partition(served.host)[2]


def expired(served: Served) -> Answer:
    path = link(served)
    (file,) = Path(served.environ["XDG_STATE_HOME"], "agent-harness/serve", str(served.port)).glob("*.code")
    before = time.time() - 60 * PATIENCE - 1
    os.utime(file, (before, before))
    return served.get(path, Cookie=None)


def replayed(served: Served) -> Answer:
    path = link(served)
    assert served.get(path, Cookie=None).status == 303
    return served.get(path, Cookie=None)


def token_of_another(served: Served) -> Answer:
    other = served.get(link(served), Cookie=None).headers["set-cookie"].partition(";")[0]
    return pause_with(served, Cookie=other)


def chunked(served: Served) -> Answer:
    head = f"POST {served.page().form(served.verb)['action']} HTTP/1.1\r\nHost: {served.host}\r\n"
    head += f"Cookie: {served.cookie}\r\n"
    head += f"Origin: http://{served.host}\r\nContent-Type: {FORM['Content-Type']}\r\n"
    return served.raw(f"{head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n".encode())


def claimed_longer(served: Served) -> Answer:
    head = f"POST {served.page().form(served.verb)['action']} HTTP/1.1\r\nHost: {served.host}\r\n"
    head += f"Cookie: {served.cookie}\r\n"
    head += f"Origin: http://{served.host}\r\nContent-Type: {FORM['Content-Type']}\r\n"
    return served.raw(f"{head}Connection: close\r\nContent-Length: 70000\r\n\r\n".encode())


def plain(text: str) -> Callable[[Served], Answer]:
    return lambda served: served.raw(text.replace("HOST", served.host).replace("COOKIE", served.cookie).encode())


ATTACKS: dict[str, tuple[int, Callable[[Served], Answer]]] = {
    # what is tried: the status, and how
    "a name that leads here (DNS rebinding)": (403, lambda s: s.get(Host=f"evil.example:{s.port}")),
    "a host without our port": (403, lambda s: s.get(Host="127.0.0.1")),
    "a host with another port": (403, lambda s: s.get(Host="127.0.0.1:1")),
    "two hosts": (
        400,
        plain("GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\nCookie: COOKIE\r\nConnection: close\r\n\r\n"),
    ),
    "no host": (400, plain("GET / HTTP/1.1\r\nCookie: COOKIE\r\nConnection: close\r\n\r\n")),
    "no host, in old words": (403, plain("GET / HTTP/1.0\r\nCookie: COOKIE\r\nConnection: close\r\n\r\n")),
    "another host in the target": (
        404,
        plain("GET http://evil.example/ HTTP/1.1\r\nHost: HOST\r\nCookie: COOKIE\r\nConnection: close\r\n\r\n"),
    ),
    "a page without a cookie": (401, lambda s: s.get(Cookie=None)),
    "a script without a cookie": (401, lambda s: s.get("/live.js", Cookie=None)),
    "a stream without a cookie": (401, lambda s: s.get("/events", Cookie=None)),
    "an action without a cookie": (401, lambda s: pause_with(s, Cookie=None)),
    "an invented cookie": (401, lambda s: s.get(Cookie=f"harness-{s.port}=guessed")),
    "the cookie of another server": (401, lambda s: s.get(Cookie=s.cookie.replace(str(s.port), "8770"))),
    "an invented code": (401, lambda s: s.get("/?code=guessed", Cookie=None)),
    "a code that was used": (401, replayed),
    "a code that is a minute old": (401, expired),
    "a code at another path": (401, lambda s: s.get("/live.js" + link(s)[1:], Cookie=None)),
    "a code that only its head is asked for": (405, lambda s: s.ask("HEAD", link(s), Cookie=None)),
    "an action by GET": (405, lambda s: s.get(s.page().form(s.verb)["action"])),
    "a preflight": (405, lambda s: s.ask("OPTIONS", "/", Origin="http://evil.example")),
    "a PUT": (405, lambda s: s.ask("PUT", "/")),
    "no origin": (403, lambda s: pause_with(s, Origin=None)),
    "a null origin": (403, lambda s: pause_with(s, Origin="null")),
    "a foreign origin": (403, lambda s: pause_with(s, Origin="http://evil.example")),
    "an origin at another port": (403, lambda s: pause_with(s, Origin="http://127.0.0.1:1")),
    "an origin that begins as ours": (403, lambda s: pause_with(s, Origin=f"http://{s.host}.evil.example")),
    "another site asks, with the cookie": (403, lambda s: s.get(Sec_Fetch_Site="cross-site")),
    "another port asks, with the cookie": (403, lambda s: s.get("/events", Sec_Fetch_Site="same-site")),
    "a form as text": (415, lambda s: pause_with(s, Content_Type="text/plain")),
    "a form as JSON": (415, lambda s: pause_with(s, Content_Type="application/json")),
    "a form in parts": (415, lambda s: pause_with(s, Content_Type="multipart/form-data; boundary=x")),
    "a form that is too long": (413, claimed_longer),
    "a form of no told length": (411, chunked),
    "a form without its token": (403, lambda s: pause_without(s, "token")),
    "a form with an invented token": (403, lambda s: pause_without(s, token="guessed")),
    "a form with the token of another session": (403, token_of_another),
    "a form for another state": (409, lambda s: pause_without(s, revision="0")),
    "a form of no known field": (403, lambda s: s.ask("POST", s.page().form(s.verb)["action"], b"\xff\x00&" * 99)),
    "an action that there is not": (404, lambda s: s.send(s.page().form(s.verb) | {"action": "/p/x/abort"})),
    "an action that this project has not": (
        409,
        lambda s: s.send(s.page().form(s.verb) | {"action": s.page().form(s.verb)["action"][:-5] + "handoff"}),
    ),
    "a way out of the folder": (404, lambda s: s.get("/../../../../etc/passwd")),
    "the same, written otherwise": (404, lambda s: s.get("/p/%2e%2e%2f%2e%2e%2fetc%2fpasswd")),
    "another file": (404, lambda s: s.get("//serve.css/../app.py")),
    "a project that is not shown": (404, lambda s: s.get("/p/000000000000")),
    "a web socket": (404, lambda s: s.get("/ws", Connection="Upgrade, close", Upgrade="websocket")),
    "a heap of headers": (400, lambda s: s.get(X="x" * 200_000)),
    "no request": (400, lambda s: s.raw(b"\x16\x03\x01 hello\r\n\r\n")),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_refused_and_changes_nothing(what: str, attacked: tuple[TaskListProject, Served]) -> None:
    """F-SRV-2, F-SRV-3, bar B5."""
    project, served = attacked
    status, attack = ATTACKS[what]
    found = attack(served)
    assert found.status == status, found
    assert not project.store.paused()
    assert not any(name.startswith("access-control") for name in found.headers)
    assert "One" not in found.text or status == 409
    if status not in (400,):  # those are answered before anything of ours looks
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert (found.headers["cache-control"], found.headers["referrer-policy"]) == ("no-store", "same-origin")
        assert found.headers["x-content-type-options"] == "nosniff"


def test_it_listens_on_loopback_alone_and_its_link_opens_it_once(attacked: tuple[TaskListProject, Served]) -> None:
    """F-SRV-1, F-SRV-2."""
    _, served = attacked
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    listens = [row[1].partition(":")[0] for row in rows if row[1].endswith(f":{served.port:04X}") and row[3] == "0A"]
    assert set(listens) <= {"0100007F", "00000000000000000000000001000000"}
    opened = served.get(link(served), Cookie=None)
    assert (opened.status, opened.headers["location"]) == (303, "/")
    assert re.fullmatch(
        rf"harness-{served.port}=[\w-]+; HttpOnly; Path=/; SameSite=strict", opened.headers["set-cookie"]
    )
    assert "code" not in served.get().text


def test_what_somebody_wrote_stays_text(attacked: tuple[TaskListProject, Served]) -> None:
    """F-SRV-3: nothing on the pages comes from another site or links to one."""
    _, served = attacked
    first = served.page()
    (project,) = (each for each in first.links if each.startswith("/p/"))
    page = served.page(project)
    assert ATTACK in page.text
    assert {"img", "iframe", "object"}.isdisjoint(page.tags)
    assert page.tags.count("script") == 1
    assert all(each.startswith("/") for each in (*first.links, *page.links))
    assert "style=" not in page.source


def test_a_hundred_streams_leave_sixteen_and_their_end_makes_room(attacked: tuple[TaskListProject, Served]) -> None:
    """F-SRV-5."""
    _, served = attacked
    with ExitStack() as stack:
        streams = [stack.enter_context(served.stream()) for _ in range(100)]
        heads = [each.until("\r\n\r\n").split()[1] for each in streams]
        assert (heads.count("200"), heads.count("503")) == (16, 84)
        assert served.get().status == 200
    end = time.monotonic() + 60
    while True:
        with served.stream() as again:
            if again.until("\r\n\r\n").split()[1] == "200":
                return
        assert time.monotonic() < end


def test_a_pause_and_its_end_are_those_of_the_command(tmp_path: Path) -> None:
    """F-SRV-8: the log names the view. A change on disk is announced, and a decision on the old state is superseded."""
    project = task_list(tmp_path / "list")
    with serving(cwd=project.root) as served:
        served.sign_in()
        before = served.page()
        assert before.verbs == ["pause", "say"]
        with served.stream() as stream:
            stream.until("event: changed")
            stream.text = ""
            assert served.send(before.form("pause")).headers["location"] == "/"
            assert project.store.paused()
            stream.until("event: changed")
            after = served.page()
            assert ("paused" in after.text, after.verbs) == (True, ["resume", "say"])
            late = served.send(before.form("pause"))
            assert late.status == 409
            assert "resume" in Page(late.text).verbs
            stream.text = ""
            assert project.harness("resume").code == 0  # in another program
            stream.until("event: changed")
            assert served.page().verbs == ["pause", "say"]
        assert served.send(after.form("resume")).status == 409
        assert served.send(served.page().form("say"), text=" ").status == 400
        log = Path(project.layout.progress).read_text()
        assert "paused by a person (by: serve)" in log


def test_waiting_for_a_limit_ends_and_only_for_the_one_that_was_shown(tmp_path: Path) -> None:
    """F-SRV-4, F-SRV-8: the clock that every run asks says that the limit was lifted, and by which view."""
    project, limits = task_list(tmp_path / "list"), LimitClock()
    limits.note("codex:login", said=f"usage limit {ATTACK}", retry_after_seconds=7200)
    with serving(project.root, cwd=tmp_path) as served:
        served.sign_in()
        shown = served.page(next(each for each in served.page().links if each.startswith("/p/")))
        assert ("codex:login is refused until" in shown.text, "img" in shown.tags) == (True, False)
        form = shown.form("clear")
        assert served.send({**form, "token": "x"}).status == 403
        limits.note("codex:login", said="again", retry_after_seconds=3600)
        late = served.send(form)
        assert (late.status, "usage limit" in late.text, ": again" in late.text) == (409, False, True)
        assert limits.in_force("codex:login") is not None
        with served.stream() as stream:
            stream.until("event: changed")
            stream.text = ""
            done = served.send(served.page().form("clear"))
            assert (done.status, done.headers["location"]) == (303, "/")
            stream.until("event: changed")
        assert limits.all() == []
        assert "is refused until" not in served.page().text
        (kept,) = Path(str(trusted_state.of_user("limits"))).glob("codex*.json")
        assert json.loads(kept.read_text())["by"] == "serve"


def test_a_page_has_fifty_sessions_and_stays_small_and_so_do_its_assets(tmp_path: Path) -> None:
    """F-SRV-6: 200 tasks and 300 sessions are pages of less than 100 KB; the browser stores nothing."""
    rows = [
        task(f"task-{n:03}", title=f"Thing {n} answers on port {8000 + n}", status="failed" if n % 3 else "pending")
        for n in range(1, 201)
    ]
    project = TaskListProject(tmp_path / "list", *rows, session_count=300)
    costs = Path(project.layout.costs)
    costs.parent.mkdir(parents=True)
    used = {"result": "failed", "cost_usd": 0.5, "agent": "codex", "model": "m", "at": "2026-01-05T09:10:00Z"}
    costs.write_text(
        "".join(json.dumps({"session": n, "task_id": f"task-{n % 200 + 1:03}", **used}) + "\n" for n in range(1, 301))
    )
    record = proven.ledger(project.layout)
    for n in range(1, 301):
        line = ClaimVerdict(
            item=f"task-{n % 200 + 1:03}",
            verdict="rejected",
            id=f"{n}",
            claim=("x",),
            codes=("proof_failed",),
            session=n,
        )
        ledger.write(record, line)
    with serving(cwd=project.root) as served:
        served.sign_in()
        (here,) = {each for each in served.page().links if each.startswith("/p/")}
        seen: list[str] = []
        for part in range(1, 7):
            found = served.get(f"{here}?sessions={part}")
            assert (found.status, len(found.text.encode()) < 100_000) == (200, True), len(found.text)
            seen += re.findall(r"Session (\d+)|<th scope=\"row\">(\d+)</th>", found.text)
            assert found.headers["cache-control"] == "no-store"
        assert f"{here}?sessions=6#s8" in served.page(here).links
        assert f"{here}?sessions=7#s8" not in served.page(here).links
        assets = {path: served.get(path).text for path in ("/live.js", "/serve.css")}
        assert sum(len(text.encode()) for text in assets.values()) <= 40_000
        assert not re.search(r"localStorage|sessionStorage|indexedDB|caches|cookie|serviceWorker", assets["/live.js"])
        assert len(served.get().text.encode()) < 100_000


def test_every_item_of_a_long_list_is_reached_without_a_script(tmp_path: Path) -> None:
    """F-SRV-9: by the numbers of its pages, which say how many there are, and by a word; a page stays small."""
    rows = [task(f"task-{n:04}", title=f"Thing {n} answers on port {10_000 + n}") for n in range(1, 1_401)]
    project = TaskListProject(tmp_path / "list", *rows)
    with serving(cwd=project.root) as served:
        served.sign_in()
        (here,) = {each for each in served.page().links if each.startswith("/p/")}
        known, left, seen = set[str](), [here], set[str]()
        while left:
            path = left.pop().partition("#")[0]
            known.add(path)
            found = served.page(path)
            assert len(found.source.encode()) < 100_000
            seen |= set(re.findall(r"task-\d{4}", found.text))
            left += (
                {each.partition("#")[0] for each in found.links if "open=" in each and "hold" not in each}
                - known
                - {*left}
            )
        assert seen == {each["id"] for each in rows}
        assert len(known) == 14
        assert "Not proven, 1301 to 1400 of 1400" in served.page(f"{here}?open=14").text
        assert "task-1400" in served.page(f"{here}?open=999").text
        assert "task-0001" in served.page(f"{here}?open=-1&sessions=x").text
        word = served.page(f"{here}?find=port+11399")
        assert ("task-1399" in word.text, "task-1398" in word.text, "1 of 1400 items" in word.text) == (
            True,
            False,
            True,
        )
        assert here in word.links
        attack = served.get(f"{here}?{urlencode({'find': ATTACK})}")
        assert ("0 of 1400 items" in attack.text, "<img" in attack.text) == (True, False)
        held = served.page(f"{here}?open=3&find=thing")
        assert f"{here}?open=3&find=thing&hold=1" in held.links


def feature_project(root: Path, **asked: Any) -> FeatureListProject:
    project = FeatureListProject.made(root, False, False)
    ask(project, **asked)
    return project


def ask(project: FeatureListProject, **members: Any) -> None:
    asked = {"type": "verification_failed", "feature_id": 1, "options": ["retry", "skip", "manual", "abort"], **members}
    state = {"last_session": 1, "stuck_count": 0, "pending_escalation": asked}
    project.put({".harness/session_state.json": json.dumps(state)})


def test_a_question_is_answered_as_by_the_command_and_only_the_one_that_was_shown(tmp_path: Path) -> None:
    """F-SRV-4, F-SRV-8."""
    project = feature_project(tmp_path / "calc", message="Its tests failed three times.")
    with serving(project.root, cwd=tmp_path) as served:
        served.sign_in()
        first = served.page()
        assert "1 needs you" in first.text
        assert first.choices == ["retry", "skip", "manual", "abort"]
        assert "the next run tries again" in first.text
        ask(project, message="Another question by now.")
        late = served.send(first.form("answer"), choose="skip")
        assert (late.status, "Another question by now." in late.text) == (409, True)
        assert project.state["pending_escalation"]["message"] == "Another question by now."
        assert project.events("escalation_answered") == []
        assert served.send(served.page().form("answer"), choose="drop-table").status == 400
        assert served.send(served.page().form("answer"), choose="manual").status == 303
        until(lambda: project.events("handed_to_person"))  # a busy machine ends it behind the page
        (told,) = project.events("escalation_answered")
        assert (told["answer"], told["by"]) == ("manual", "serve")
        (handed,) = project.events("handed_to_person")
        assert handed["by"] == "serve"
        until(lambda: served.page().verbs == ["takeback"])


def test_a_question_that_is_another_under_the_lock_is_not_answered(tmp_path: Path) -> None:
    """The state that the page showed may have changed before the lock was taken."""
    from agent_harness.errors import Superseded
    from agent_harness.protocols.features.api import FeatureProject, layout_of, reader

    project = feature_project(tmp_path / "calc", message="First?")
    (shown,) = reader(layout_of(project.root)).load().state.questions
    ask(project, message="Second?")
    with pytest.raises(Superseded):
        FeatureProject.open(project.root).resume("skip", shown=shown)
    assert project.state["pending_escalation"]["message"] == "Second?"


def long_task(root: Path, **state: Any) -> LongTaskProject:
    return LongTaskProject.made(root, contract=book(), state=book_checkpoint(**state))


def in_log(task: LongTaskProject, kind: str) -> list[dict[str, Any]]:
    rows = (json.loads(line) for path in (task.root / "runs").glob("*.jsonl") for line in path.read_text().splitlines())
    return [row for row in rows if row["type"] == kind]


def test_a_long_task_that_needs_a_person_is_decided_as_by_the_command(tmp_path: Path) -> None:
    """F-SRV-4, F-SRV-8: its choices are commands of ``lth``, for the task that was shown, and name the view."""
    task = long_task(tmp_path / "book", status="needs-human", nextStep=ATTACK)
    with serving(task.root, cwd=tmp_path) as served:
        served.sign_in()
        first = served.page()
        assert (first.verbs, "img" in first.tags) == (["answer", "say"], False)
        assert first.choices == ["active", "written holds", "written fails", "done"]
        assert served.send(first.form("answer"), choose="drop-table").status == 400
        assert served.send({**first.form("answer"), "token": "x"}, choose="active").status == 403
        assert served.send({**first.form("answer"), "revision": "0"}, choose="active").status == 409
        early = served.send(first.form("answer"), choose="done")
        assert (early.status, "verification failed" in early.text) == (422, True)
        assert (task.checkpoint["status"], in_log(task, "progress_recorded")) == ("needs-human", [])

        assert served.send(first.form("answer"), choose="written holds", text="Read it.").status == 303
        (told,) = in_log(task, "evidence_recorded")
        assert (told["by"], told["evidence"][0]["summary"], told["evidence"][0]["status"]) == (
            "serve",
            "Read it.",
            "passed",
        )
        late = served.send(first.form("answer"), choose="active")
        assert (late.status, task.checkpoint["status"]) == (409, "needs-human")
        assert served.send(served.page().form("answer"), choose="active", text="Write the end.").status == 303
        assert (task.checkpoint["status"], task.checkpoint["nextStep"]) == ("active", "Write the end.")
        assert in_log(task, "progress_recorded")[0]["by"] == "serve"
        assert served.page().verbs == ["say"]

        task.lth("record", "--status", "needs-human", "--note", "Look.")
        assert served.send(served.page().form("answer"), choose="done").status == 303
        until(lambda: task.checkpoint["status"] == "done")
        page = served.page()
        assert ("1/1 proven" in page.text, page.verbs) == (True, ["say"])


def test_a_long_task_that_waits_goes_on_and_has_no_other_verb(tmp_path: Path) -> None:
    """F-SRV-4: actions without a command are not offered: a long task is not paused, handed over or taken back."""
    until_then = "2100-01-01T00:00:00.000Z"
    task = long_task(tmp_path / "book", status="blocked", blockedUntil=until_then)
    with serving(task.root, cwd=tmp_path) as served:
        served.sign_in()
        page = served.page()
        assert page.verbs == ["resume", "say"]
        for verb in ("pause", "handoff", "takeback"):
            form = page.form("resume")
            assert served.send(form | {"action": form["action"].replace("resume", verb)}).status == 409
        task.lth("record", "--status", "blocked", "--blocked-until", "2101-01-01T00:00:00.000Z")
        late = served.send(page.form("resume"))
        assert (late.status, task.checkpoint["status"]) == (409, "blocked")
        assert served.send(served.page().form("resume")).status == 303
        assert (task.checkpoint["status"], task.checkpoint["blockedUntil"]) == ("active", None)
        assert in_log(task, "progress_recorded")[-1]["by"] == "serve"
    with serving(task.root, "--read-only", cwd=tmp_path) as served:
        task.lth("record", "--status", "needs-human")
        page = served.sign_in().page()
        assert (page.forms, "lth status ." in page.text) == ([], True)


OTHERWISE = ("an action that this project has not", "an action that there is not")
"""Attacks that speak of the verbs of a task list."""


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_attack_on_a_long_task_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """F-SRV-2, F-SRV-3: the same for the form that answers it."""
    task = long_task(tmp_path / "book", status="needs-human", nextStep=ATTACK)
    before = task.checkpoint
    with serving(task.root, cwd=tmp_path) as served:
        served.sign_in().verb = "answer"
        for what, (status, attack) in ATTACKS.items():
            if what not in OTHERWISE:
                found = attack(served)
                assert found.status == status, (what, found)
                assert (task.checkpoint, in_log(task, "progress_recorded")) == (before, []), what


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_project_is_handed_over_and_taken_back(tmp_path: Path) -> None:
    project = FeatureListProject.made(tmp_path / "calc", False)
    with serving(project.root, cwd=tmp_path) as served:
        served.sign_in()
        (here,) = (each for each in served.page().links if each.startswith("/p/"))
        assert served.send(served.page(here).form("handoff")).headers["location"] == here
        assert served.send(served.page(here).form("takeback")).status == 303
        until(lambda: "pause" in served.page(here).verbs)
        assert project.events("taken_back")[0]["by"] == "serve"


def until(found: Callable[[], object]) -> Any:
    end = time.monotonic() + 120
    while not (got := found()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return got


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_session_that_runs_is_seen_told_and_paused_and_outlives_the_server(tmp_path: Path) -> None:
    """F-SRV-5, F-SRV-8: a long action continues in the background, and no other one starts meanwhile."""
    settings = "project:\n  name: calc\nenvironment: {init: 'true', reset: 'true'}\n"
    project = FeatureListProject.made(tmp_path / "calc", False, settings=settings)
    waits = f"touch {tmp_path}/begun; : '<b>look around</b>'; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    run = project.start("run", agent=[{"do": [{"run": waits}]}])
    with run, ExitStack() as stack:
        stack.callback((tmp_path / "go").touch)
        served = stack.enter_context(serving(project.root, cwd=tmp_path, HARNESS_TIME_SCALE="1")).sign_in()
        until(lambda: (tmp_path / "begun").exists() or run.poll() is not None)
        assert run.poll() is None, project.started()
        (here,) = (each for each in served.page().links if each.startswith("/p/"))
        page = until(lambda: "<b>look around</b>" in (seen := served.page(here)).text and seen)
        assert "running (1)" in served.page().text
        assert "Feature #1" in page.text
        assert served.send(page.form("say"), text="Use SQLite.").status == 303
        until(lambda: "say: done. The agent gets the message" in served.page(here).text)
        assert served.send(served.page(here).form("pause")).status == 303
        paused = served.page(here)
        assert "pause: under way" in paused.text
        busy = served.send(paused.form("resume"))
        assert (busy.status, "Another action is still running" in busy.text) == (409, True)
        (tmp_path / "go").touch()
        until(lambda: "pause: done" in served.page(here).text)
        assert project.events("paused")[-1]["by"] == "serve"
        assert "rests: paused" in project.harness("watch", "--once").out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_one_of_several_agents_is_told_by_its_slot(tmp_path: Path) -> None:
    """F-SAY, F-SRV-8: the form asks for the slot; without a choice, or for an unknown slot, nothing is sent."""
    jobs = [task(name, validation={"command": f"test -f {name}.txt", "timeout_seconds": 60}) for name in ("a", "b")]
    project = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    waits = f"touch {tmp_path}/$HARNESS_TASK_ID; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    agent = project.agent(f'{waits}; echo 1 > "$HARNESS_TASK_ID.txt"')
    with project.start("run", "--workers", "2", "--agent", agent) as run, ExitStack() as stack:
        stack.callback((tmp_path / "go").touch)
        served = stack.enter_context(serving(project.root, cwd=tmp_path)).sign_in()
        until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
        (here,) = (each for each in served.page().links if each.startswith("/p/"))
        page = until(lambda: "w2 (" in (seen := served.page(here)).text and seen)
        assert {"w1 (a)", "w2 (b)"} == set(re.findall(r"w\d \(\w\)", page.text.partition("say to the agent")[0][-60:]))
        nobody = served.send(page.form("say"), text="Use SQLite.")
        assert (nobody.status, "several agents are running" in nobody.text) == (422, True)
        assert served.send(page.form("say"), text="Use SQLite.", to="w9").status == 400
        assert served.send(page.form("say"), text="Use SQLite.", to="w2").status == 303
        assert "w2 (b) gets the message" in served.page(here).text
        (tmp_path / "go").touch()
        assert run.wait(240) == 0


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_end_of_the_server_ends_no_run(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("task-001", validation={"command": "test -f done.txt"}))
    go = tmp_path / "go"
    agent = project.agent(f"touch begun; while [ ! -e {go} ]; do sleep 0.05; done; touch done.txt")
    with project.start("run", "--once", "--agent", agent) as run:
        with serving(cwd=project.root) as served:
            served.sign_in()
            until((project.root / "begun").exists)
            assert "task-001" in until(lambda: "running (1)" in (seen := served.page()).text and seen).text
        go.touch()
        run.communicate()
        assert run.returncode == 0
    assert project.raw["tasks"][0]["status"] == "completed"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_read_only_all_kinds_and_what_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that needs a person is first; a project that is gone is a row that says so."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = task_list(tmp_path / "list")
    gone = task_list(tmp_path / "gone")
    novel = LongTaskProject.of_book(tmp_path / "book")
    asks = feature_project(tmp_path / "calc", message="What now?")
    LimitClock().note("codex:login", said="", retry_after_seconds=7200)
    with serving(project.root, gone.root, novel.root, asks.root, "--read-only", cwd=tmp_path) as served:
        served.sign_in()
        gone.root.rename(tmp_path / "moved")
        page = served.page()
        assert page.forms == []
        assert page.text.index("What now?") < page.text.index("idle")
        assert "it has been moved or deleted" in page.text
        assert "harness resume --choose retry" in page.text
        assert "harness limits clear codex:login" in page.text
        for each in page.links:
            if each.startswith("/p/"):
                served.page(each)
        token = "x"
        assert served.send({"action": f"{page.links[-1]}/pause", "token": token}).status == 403
    with serving("--all", cwd=tmp_path) as served:
        assert "list" in served.sign_in().page().text


def test_who_may_not_start_it_and_what_it_needs(tmp_path: Path) -> None:
    """An agent cannot start it; without the extra, one line names the command that installs it."""
    project = task_list(tmp_path / "list")
    agent = project.harness("serve", HARNESS_RUN_ID="r", HARNESS_PROJECT_DIR=str(project.root))
    assert (agent.code, "a decision for the user" in agent.err) == (4, True), agent
    link_of_agent = project.harness("serve", "--link", HARNESS_RUN_ID="r", HARNESS_STATE_ROOT=str(project.root))
    assert link_of_agent.code == 4
    without = "import sys; sys.modules['uvicorn'] = None; from agent_harness.cli.main import main; sys.exit(main())"
    missing = run_process([sys.executable, "-c", without, "serve"], cwd=project.root, seconds=60)
    assert missing.code == 4, missing
    assert "the extra `serve` is not installed" in missing.err
    assert "install" in missing.err.partition("next: ")[2]
    assert "[serve]" in missing.err
    empty = tmp_path / "empty"
    empty.mkdir()
    none = run_process([*HARNESS, "serve"], cwd=empty, seconds=60)
    assert (none.code, "harness serve --all" in none.err) == (4, True), none
    assert run_process([*HARNESS, "serve", "--link", "--port", "1"], cwd=empty, seconds=60).code == 4


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_port_that_is_taken_is_left_for_the_next(tmp_path: Path) -> None:
    project = task_list(tmp_path / "list")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serving("--port", port, cwd=project.root) as served:
            assert served.port > port
            served.sign_in()
