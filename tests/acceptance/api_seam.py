"""The API seam: a provider on loopback that plays the scripts, for an agent that asks a model.

It knows no name of a tool. Commands go to the tool whose schema has a text ``command`` or ``cmd``, whole files to the
one with ``path`` and ``content``; everything else is a command. What a turn is about it asks with the first command.
"""

import json
import shlex
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent_harness.agents.scripted.script import Occasion, Script, choose, load
from agent_harness.testing.model_server import anthropic_messages
from agent_harness.testing.model_server.handler import kind_of
from agent_harness.testing.model_server.script import Step, new_id

from .seam import Seam

Json = dict[str, Any]
KEY = "sk-ant-api03-scripted-0123456789"
QUESTION = (
    'echo "occasion $HARNESS_PROMPT_TYPE $HARNESS_SESSION $HARNESS_ROUND ${HARNESS_FEATURE_ID:-none} '
    '${HARNESS_TASK_ID:-none}"; pwd'
)
GARBLED = 'data: {"type": "message_start", "mess\n\n'


class ApiSeam(Seam):
    """The ``api`` agent; what the harness says reaches it before its very next request."""

    name = "api"
    steers = True

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.provider = Provider()

    @property
    def environ(self) -> Mapping[str, str]:
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.provider.url}

    @property
    def requests(self) -> list[Json]:
        """The body of every request so far."""
        return self.provider.requests

    def spec(self, script: Path) -> str:
        self.provider.play(load(script))
        return "api:anthropic"

    def close(self) -> None:
        self.provider.close()


class Provider:
    """A server of Anthropic Messages with one script at a time."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self._lock = threading.Lock()
        self._player = Player(None)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"provider": self}))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def play(self, script: Script) -> None:
        self._player = Player(script)

    def answer(self, body: Json) -> "Step | Refusal":
        with self._lock:
            self.requests.append(body)
            return self._player.answer(body)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class Refusal:
    """An error of the provider; without a status, an answer that does not parse."""

    def __init__(self, status: int | None, headers: Mapping[str, str] | None = None, message: str = "") -> None:
        self.status = status
        self.headers = dict(headers or {})
        self.message = message or f"scripted {status}"


class Player:
    """Position in a script: the occasion of the turn that is played, and the steps that are left."""

    def __init__(self, script: Script | None) -> None:
        self._script = script
        self._uses: dict[str, int] = {}
        self._sessions: dict[int | None, list[int]] = {}
        self._played: tuple[int, int] | None = None  # session and round of the latest turn that was served
        self._refused = False  # the latest answer was a refusal
        self._asked: str | None = None  # the prompt whose occasion was asked for
        self._occasion = Occasion()
        self._root = Path()
        self._steps: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._tools = Tools({})

    def answer(self, body: Json) -> Step | Refusal:
        """The answer to one request."""
        self._tools = Tools(body)
        last = body["messages"][-1]
        results = list(texts_of(last, "tool_result"))
        prompt = "\n".join(texts_of(last, "text"))
        if not results and self._refused:
            self._choose(replace(self._occasion, prompt=prompt))  # another try of the same turn
        elif not results:
            self._asked = prompt
            return step([self._tools.command(QUESTION)])
        elif self._asked is not None:
            self._begin(self._asked, results[0])
            self._asked = None
        return self._next()

    def _begin(self, prompt: str, told: str) -> None:
        """Notes what a turn is about; a message to a turn that has ended already is answered, and no more."""
        words, root, *_ = told.splitlines()
        _, kind, session, number, feature, task = words.split()
        self._root = Path(root)
        place = (int(session), int(number))
        if place == self._played:
            return
        self._played = place
        known = self._sessions.setdefault(None if feature == "none" else int(feature), [])
        if place[0] not in known:
            known.append(place[0])
        occasion = Occasion(
            prompt_type=kind,
            feature=None if feature == "none" else int(feature),
            task=None if task == "none" else task,
            session=place[0],
            round=place[1],
            attempt=known.index(place[0]) + 1,
            prompt=prompt,
        )
        self._choose(occasion)

    def _choose(self, occasion: Occasion) -> None:
        """Takes the steps of the entry that fits, as the program does."""
        assert self._script
        self._occasion, self._refused = occasion, False
        entry = choose(self._script, occasion, self._uses)
        self._steps = deque(entry.steps if entry else [("say", {"text": "I have nothing more to try."})])
        if entry:
            self._uses[entry.key] = self._uses.get(entry.key, 0) + 1
        elif occasion.round == 0:
            self._steps = deque([("http", {"status": 400})])  # as the program, which fails then

    def _next(self) -> Step | Refusal:
        """Plays up to the next command; a call that does nothing stands in where there is none and more to come."""
        blocks: list[Json] = []
        used: Mapping[str, Any] | None = None
        while self._steps:
            verb, given = self._steps.popleft()
            if verb == "usage" and used is None:
                used = given
            elif verb in ("http", "rate_limit", "bad_json", "exit") and not blocks and used is None:
                return self._refuse(verb, given)
            elif verb in ("usage", "http", "rate_limit", "bad_json", "exit"):
                self._steps.appendleft((verb, given))
                blocks.append(self._tools.nothing())
                break
            elif verb == "end":
                self._steps.clear()
            elif verb == "prompt_to":
                with (self._root / given["path"]).open("a", encoding="utf-8") as file:
                    file.write(self._occasion.prompt + "\n")
            elif verb in TEXTS:
                blocks.append({"text": TEXTS[verb](self, given)})
            else:
                blocks.append(COMMANDS[verb](self, given))
                break
        return step(blocks or [{"text": "Done."}], used)

    def _refuse(self, verb: str, given: Mapping[str, Any]) -> Refusal:
        """The turn ends here."""
        self._steps.clear()
        self._refused = True
        if verb == "bad_json":
            return Refusal(None)
        if verb == "exit":
            return Refusal(400, message=f"scripted exit {given['status']}")
        wait = given.get("retry_after_seconds")
        return Refusal(given.get("status", 429), {"retry-after": str(wait)} if wait is not None else None)

    # -- verbs

    def feature(self, one: object) -> int:
        found = self._occasion.feature if one == "this" else int(str(one))
        assert found is not None, "`this` means the feature of the session"
        return found

    def test_file(self, feature: int) -> str:
        listed = json.loads((self._root / "features.json").read_text())["features"]
        return next(record["test_file"] for record in listed if record["id"] == feature)

    def evidence(self, given: Mapping[str, Any]) -> Json:
        feature = self.feature(given["id"])
        return self._tools.command(given.get("command") or f"python -m pytest {self.test_file(feature)} -v")

    def forged(self, given: Mapping[str, Any]) -> str:
        file, passed = self.test_file(self.feature(given["id"])), given.get("passed", 4)
        return f"$ python -m pytest {file} -v\n{file}::test_1 PASSED\n===== {passed} passed in 0.12s ====="

    def command(self, text: str) -> Json:
        return self._tools.command(text)

    def written(self, given: Mapping[str, Any]) -> Json:
        path, text = given["path"], given["text"]
        if given.get("executable") or Path(path).is_absolute():
            mode = f" && chmod +x {shlex.quote(path)}" if given.get("executable") else ""
            return self.command(poured(path, text, ">") + mode)
        return self._tools.file(path, text)

    def claimed(self, given: Mapping[str, Any]) -> Json:
        """Flips ``passes`` as the program does, so that no other byte of the file moves."""
        ids = given["ids"] if isinstance(given["ids"], list) else [given["ids"]]
        numbers = [self.feature(one) for one in ids]
        program = (
            "import pathlib, sys; from agent_harness.agents.scripted.stage import with_passes; "
            "p = pathlib.Path('features.json'); "
            f"p.write_bytes(with_passes(p.read_bytes().decode(), {numbers}, {given.get('passes', True)}).encode())"
        )
        return self.command(f"{shlex.quote(sys.executable)} -P -c {shlex.quote(program)}")


TEXTS = {
    "say": lambda _, given: given["text"],
    "decide": lambda _, given: f"Decision: {given['text']}",
    "forge": lambda player, given: player.forged(given),
}
COMMANDS = {
    "run": lambda player, given: player.command(given["command"]),
    "read": lambda player, given: player.command(f"cat {shlex.quote(given['path'])}"),
    "write": lambda player, given: player.written(given),
    "append": lambda player, given: player.command(poured(given["path"], given["text"], ">>")),
    "progress": lambda player, given: player.command(
        poured(given.get("path", "claude-progress.txt"), given["text"].rstrip("\n") + "\n", ">>")
    ),
    "claim": lambda player, given: player.claimed(given),
    "evidence": lambda player, given: player.evidence(given),
    "commit": lambda player, given: player.command(f"git add -A && git commit -q -m {shlex.quote(given['message'])}"),
    "sleep": lambda player, given: player.command(f"sleep {given['seconds']}"),
}


class Tools:
    """The tools that a request offers."""

    def __init__(self, body: Json) -> None:
        self._offered = [(tool["name"], tool["input_schema"]) for tool in body.get("tools", ())]

    def command(self, text: str) -> Json:
        for name, schema in self._offered:
            for key in ("command", "cmd"):
                if schema["properties"].get(key, {}).get("type") == "string":
                    return {"tool": name, "input": {key: text}}
        raise AssertionError(f"no tool takes a command: {self._offered}")

    def file(self, path: str, text: str) -> Json:
        for name, schema in self._offered:
            if {"path", "content"} <= set(schema["properties"]):
                return {"tool": name, "input": {"path": path, "content": text}}
        return self.command(poured(path, text, ">"))

    def nothing(self) -> Json:
        """A call that changes nothing and is no command, where one is offered."""
        free = (name for name, schema in self._offered if not schema.get("required"))
        name = next(free, None)
        return self.command("true") if name is None else {"tool": name, "input": {}}


def poured(path: str, text: str, how: str) -> str:
    folder = shlex.quote(str(Path(path).parent))
    return f"mkdir -p {folder} && printf %s {shlex.quote(text)} {how} {shlex.quote(path)}"


def step(blocks: list[Json], used: Mapping[str, Any] | None = None) -> Step:
    known = {name: int(value) for name, value in (used or {}).items() if name.endswith("_tokens")}
    return Step(blocks=blocks, usage={"input_tokens": 0, "output_tokens": 0} | known)


def texts_of(message: Json, kind: str) -> Iterator[str]:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content:
        if part.get("type") == kind:
            inner = part.get("text", part.get("content"))
            yield inner if isinstance(inner, str) else "\n".join(each.get("text", "") for each in inner or ())


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    provider: Provider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the requests are kept."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            found = self.provider.answer(body)
        except Exception as error:
            found = Refusal(400, message=f"the script cannot be played: {type(error).__name__}: {error}")
        if isinstance(found, Step):
            self._send(200, "text/event-stream", "".join(events(body, found)))
        elif found.status is None:
            self._send(200, "text/event-stream", GARBLED)
        else:
            kind = kind_of({"status": found.status})
            told = anthropic_messages.error(found.status, kind, found.message, {})
            self._send(found.status, "application/json", json.dumps(told), found.headers)

    def _send(self, status: int, kind: str, text: str, headers: Mapping[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        more = {"content-type": kind, "content-length": str(len(data)), "request-id": new_id("req_")}
        for name, value in {**more, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def events(body: Json, played: Step) -> Iterator[str]:
    for name, content in anthropic_messages.answer(body, played).events:
        yield f"event: {name}\ndata: {content if isinstance(content, str) else json.dumps(content)}\n\n"
