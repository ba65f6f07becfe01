"""Environment in which a script plays: stdout for text and events, the project folder, a shell, and stored facts.

The stored facts are kept from turn to turn. ``script`` validates the values of each verb before the verb runs here."""

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.agents.scripted.script import Occasion, ScriptOptions, Step
from agent_harness.kernel.json import edit, jsontext


@dataclass(slots=True)
class Memory:
    """Number of uses of each script entry, and the sessions of each feature."""

    # kept in the git directory, so that a rollback does not remove them

    path: Path
    uses: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, list[int]] = field(default_factory=dict)  # feature → sessions that worked on it

    @classmethod
    def open(cls, project: Path, script: Path) -> "Memory":
        """Return the stored memory of a script. The memory is empty if its file is missing or damaged."""
        name = hashlib.sha256(f"{project.resolve()}\0{script.resolve()}".encode()).hexdigest()[:16]
        path = _folder(project) / f"{name}.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(path, dict(found["uses"]), dict(found["sessions"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(path)

    def attempt(self, feature: int | None, session: int) -> int:
        """Return the number of this session among the feature's sessions, counted from 1."""
        known = self.sessions.setdefault(str(feature), [])
        if session not in known:
            known.append(session)
        return known.index(session) + 1

    def use(self, key: str) -> None:
        """Count one more use of an entry. Call this method before the entry plays."""
        # so that a killed turn counts too
        self.uses[key] = self.uses.get(key, 0) + 1
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({"uses": self.uses, "sessions": self.sessions}), encoding="utf-8")
        temporary.replace(self.path)


def _folder(project: Path) -> Path:
    asked = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return Path(asked.stdout.strip()) / "agent-scripted"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "agent-scripted"


_SHOWN_BYTES = 262_144  # of a command's output, half from its beginning and half from its end
_RESULT_CHARACTERS = 16_384  # of it in a tool_result event


class Stage:
    def __init__(self, options: ScriptOptions, occasion: Occasion, project: Path, scripts: Path) -> None:
        self.options = options
        self.occasion = occasion
        self.project = project
        self.scripts = scripts  # the folder of the script file
        self._calls = 0

    def text(self, text: str) -> None:
        """Print text. A line that begins with ``{`` becomes a text event."""
        # otherwise it would be read as an event
        for line in text.split("\n"):
            if line.lstrip().startswith("{"):
                self.event({"type": "text", "text": line})
            else:
                self.raw(line.encode("utf-8", "replace") + b"\n")

    def event(self, record: Mapping[str, object]) -> None:
        self.raw(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def prefix(self, kind: str, payload: object = "") -> None:
        """Print a line with a prefix such as ``[CMD:RUN]`` if the script enables prefixes."""
        if self.options.prefixes:
            self.text(f"[{kind}] {payload}".rstrip())

    def raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def path(self, name: str) -> Path:
        return self.project / name

    def call(self, name: str, given: Mapping[str, object]) -> str:
        self._calls += 1
        made = f"call-{self._calls}"
        if self.options.tool_events:
            self.event({"type": "tool_call", "id": made, "name": name, "input": given})
        return made

    def result(self, call: str, output: str, *, is_error: bool = False) -> None:
        if self.options.tool_events:
            half, more = _RESULT_CHARACTERS // 2, len(output) - _RESULT_CHARACTERS
            short = f"{output[:half]}\n[... {more} characters left out ...]\n{output[-half:]}" if more > 0 else output
            self.event({"type": "tool_result", "id": call, "output": short, "is_error": is_error})

    def run(self, command: str, timeout_seconds: float | None = None) -> int:
        """Run a shell command, and print the command and its output. Return the exit status."""
        self.prefix("CMD:RUN", command)
        self.text(f"$ {command}")
        call = self.call("shell", {"command": command})
        status, output = self._shell(command, timeout_seconds)
        self.prefix("CMD:OUTPUT")
        if output:
            self.text(output.removesuffix("\n"))
        self.result(call, output, is_error=status != 0)
        self.prefix("CMD:EXIT", status)
        return status

    def _shell(self, command: str, timeout_seconds: float | None) -> tuple[int, str]:
        with tempfile.TemporaryFile() as output:
            started = subprocess.Popen(
                ["sh", "-c", command], cwd=self.project, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            try:
                status = started.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
                status = 124
            size = output.seek(0, os.SEEK_END)
            output.seek(0)
            head = output.read(_SHOWN_BYTES // 2 if size > _SHOWN_BYTES else size)
            if size > _SHOWN_BYTES:
                output.seek(-_SHOWN_BYTES // 2, os.SEEK_END)
                head += f"\n[... {size - _SHOWN_BYTES} bytes left out ...]\n".encode() + output.read()
        return (status if status >= 0 else 128 - status), head.decode("utf-8", "replace")


Given = Mapping[str, Any]

DEFAULT_TEST_COMMAND = "python -m pytest {test_file} -v"
_REFUSALS: Mapping[int, str] = {
    401: "authentication_error: the API key is not valid",
    429: "rate_limit_error: too many requests",
    529: "overloaded_error: the model is overloaded",
}


class TurnEnds(Exception):
    """Exception that ends the turn with the exit status ``status``."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class CannotPlay(Exception):
    """Error: a step is impossible in the project, such as a claim for a missing feature."""


def play(stage: Stage, step: Step) -> None:
    """Run a step. Raise ``TurnEnds`` if the step ends the turn, or ``CannotPlay`` if the step fails."""
    name, given = step
    try:
        _VERBS[name](stage, given)
    except (OSError, ValueError, KeyError) as error:
        raise CannotPlay(f"{name}: {type(error).__name__}: {error}") from error
    if stage.options.pace_seconds:
        time.sleep(stage.options.pace_seconds)


def _decide(stage: Stage, given: Given) -> None:
    if stage.options.prefixes:
        stage.prefix("DECISION", given["text"])
    else:
        stage.text(f"Decision: {given['text']}")


def _read(stage: Stage, given: Given) -> None:
    stage.prefix("FILE:READ", given["path"])
    call = stage.call("read_file", {"path": given["path"]})
    content = stage.path(given["path"]).read_text(encoding="utf-8", errors="replace")
    stage.result(call, content)


def _write(stage: Stage, given: Given) -> None:
    text = given.get("text")
    data = text.encode() if text is not None else (stage.scripts / given["from"]).read_bytes()
    target = stage.path(given["path"])
    stage.prefix("FILE:WRITE", given["path"])
    call = stage.call("write_file", {"path": given["path"], "bytes": len(data)})
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    if given.get("executable"):
        target.chmod(target.stat().st_mode | 0o111)
    stage.result(call, f"{len(data)} bytes written")


def _append_to(stage: Stage, path: str, text: str) -> None:
    stage.prefix("FILE:WRITE", path)
    call = stage.call("append_file", {"path": path, "bytes": len(text.encode())})
    stage.path(path).parent.mkdir(parents=True, exist_ok=True)
    with stage.path(path).open("a", encoding="utf-8") as file:
        file.write(text)
    stage.result(call, "appended")


def _claim(stage: Stage, given: Given) -> None:
    ids = given["ids"] if isinstance(given["ids"], list) else [given["ids"]]
    path = stage.path(stage.options.features)
    numbers = [_number(stage, one) for one in ids]
    with path.open(encoding="utf-8", newline="") as file:
        text = file.read()
    try:
        text = with_passes(text, numbers, given.get("passes", True))
    except KeyError as error:
        raise CannotPlay(f"claim: {path.name} has no feature {error.args[0]}") from error
    stage.prefix("FILE:WRITE", stage.options.features)
    call = stage.call("edit_file", {"path": stage.options.features, "features": numbers})
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
    stage.result(call, "edited")


def _evidence(stage: Stage, given: Given) -> None:
    feature = _number(stage, given["id"])
    command = given.get("command") or _test_command(stage, feature)
    stage.prefix("VERIFY:START", f"Feature #{feature}")
    status = stage.run(command)
    stage.prefix("VERIFY:PASS" if status == 0 else "VERIFY:FAIL", f"Feature #{feature}")


def _forge(stage: Stage, given: Given) -> None:
    feature = _number(stage, given["id"])
    passed = given.get("passed", 4)
    file = _test_file(stage, feature)
    stage.text(f"$ {_test_command(stage, feature)}")
    stage.text(f"{' test session starts ':=^70}\ncollected {passed} items\n")
    for number in range(1, passed + 1):
        stage.text(f"{file}::test_{number} PASSED [{100 * number // passed:3}%]")
    stage.text(f"\n{f' {passed} passed in 0.12s ':=^70}")
    stage.prefix("VERIFY:PASS", f"Feature #{feature}")


def _prompt_to(stage: Stage, given: Given) -> None:
    with stage.path(given["path"]).open("a", encoding="utf-8") as file:
        file.write(stage.occasion.prompt + "\n")


def _rate_limit(stage: Stage, given: Given) -> None:
    told = {key: value for key, value in given.items() if key != "times"}
    for _ in range(given.get("times", 1)):
        stage.event({"type": "rate_limited", "message": "the provider refuses for now", **told})


def _http(stage: Stage, given: Given) -> None:
    """Report an error from a provider. The turn ends unless the error is a rate limit."""
    status = given["status"]
    message = f"API error {status} {_REFUSALS.get(status, 'the request failed')}"
    if status in (429, 529):
        _rate_limit(stage, {"message": message, **{k: v for k, v in given.items() if k != "status"}})
        return
    stage.text(message)
    raise TurnEnds(1)


def _bad_json(stage: Stage, given: Given) -> None:
    usage = b'{"type": "usage", "input_tokens": '
    lines = {
        "truncated": usage + b"120",
        "not_an_object": b'["usage", 120]',
        "unknown_type": b'{"type": "telemetry", "input_tokens": 120}',
        "binary": bytes(range(128, 256)) + usage + b"7}",
        "nul": b"\0\0" + usage + b"\0 12}",
        "ansi": b"\x1b[31m" + usage + b"12}\x1b[0m",
        "deep": usage + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "huge": usage + b"1" * 2_000_000 + b"}",
        "negative": usage + b'-120, "output_tokens": -1e99}',
        "texts": usage + b'"120", "output_tokens": [3], "cost_usd": "free"}',
    }
    stage.raw(lines[given.get("kind", "truncated")] + b"\n")


def _flood(stage: Stage, given: Given) -> None:
    line = b"x" * max(0, given.get("line_bytes", 100) - 1) + b"\n"
    block = line * max(1, 262_144 // len(line))
    for _ in range(int(given["megabytes"] * 1_000_000 / len(block)) + 1):
        stage.raw(block)


def _end(stage: Stage, given: Given) -> None:
    if "message" in given:
        stage.event({"type": "finished", "ok": True, "message": given["message"]})
    raise TurnEnds(0)


def _exit(stage: Stage, given: Given) -> None:
    raise TurnEnds(given["status"])


_VERBS: Mapping[str, Callable[[Stage, Given], object]] = {
    "say": lambda stage, given: stage.text(given["text"]),
    "decide": _decide,
    "read": _read,
    "write": _write,
    "append": lambda stage, given: _append_to(stage, given["path"], given["text"]),
    "run": lambda stage, given: stage.run(given["command"], given.get("timeout_seconds")),
    "claim": _claim,
    "evidence": _evidence,
    "forge": _forge,
    "progress": lambda stage, given: _append_to(
        stage, given.get("path", stage.options.progress), given["text"].rstrip("\n") + "\n"
    ),
    "commit": lambda stage, given: stage.run(f"git add -A && git commit -q -m {shlex.quote(given['message'])}"),
    "usage": lambda stage, given: stage.event({"type": "usage", **given}),
    "sleep": lambda stage, given: time.sleep(given["seconds"]),
    "ignore_term": lambda stage, given: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "prompt_to": _prompt_to,
    "rate_limit": _rate_limit,
    "http": _http,
    "bad_json": _bad_json,
    "flood": _flood,
    "event": lambda stage, given: stage.event(given["event"]),
    "end": _end,
    "exit": _exit,
}


# -- lookups of the verbs ------------------------------------------------------------------------------------------


def _number(stage: Stage, one: object) -> int:
    if one != "this":
        return int(str(one))
    if stage.occasion.feature is None:
        raise CannotPlay("`this` means the session's feature, but this session has no feature")
    return stage.occasion.feature


def _test_file(stage: Stage, feature: int) -> str:
    text = stage.path(stage.options.features).read_text(encoding="utf-8")
    found = test_file_of(text, feature)
    if not found:
        raise CannotPlay(f"{stage.options.features} has no test_file for feature {feature}")
    return found


def _test_command(stage: Stage, feature: int) -> str:
    wanted = stage.options.test_command or _configured(stage.path(".harness.yaml")) or DEFAULT_TEST_COMMAND
    return wanted.replace("{test_file}", _test_file(stage, feature))


def _configured(settings: Path) -> str | None:
    if not settings.is_file():
        return None
    from ruamel.yaml import YAML

    found = YAML(typ="safe", pure=True).load(settings.read_text(encoding="utf-8"))
    testing = found.get("testing") if isinstance(found, dict) else None
    feature = testing.get("feature") if isinstance(testing, dict) else None
    return feature if isinstance(feature, str) else None


def test_file_of(text: str, feature: int) -> str | None:
    return next((found.get("test_file") for _, found in _features(text) if found.get("id") == feature), None)


def with_passes(text: str, features: Iterable[int], passes: bool) -> str:
    """Return a feature file's text with ``passes`` set in these features. Raise ``KeyError`` if a feature is
    missing."""
    places = {found.get("id"): place for place, found in reversed([*_features(text)])}
    for feature in features:
        text = edit.put(text, ["features", places[feature], "passes"], passes)
    return text


def _features(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    listed = jsontext.loads(text).get("features")
    for place, found in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(found, dict):
            yield place, found
