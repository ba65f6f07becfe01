"""What each verb of a script does on a stage. Their values are valid by then: ``shapes.py`` has the table."""

import shlex
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.scripted import feature_list
from agent_harness.agents.scripted.script import Step
from agent_harness.agents.scripted.stage import Stage

Given = Mapping[str, Any]

DEFAULT_TEST_COMMAND = "python -m pytest {test_file} -v"
_REFUSALS: Mapping[int, str] = {
    401: "authentication_error: the API key is not valid",
    429: "rate_limit_error: too many requests",
    529: "overloaded_error: the model is overloaded",
}


class TurnEnds(Exception):
    """The script ends this turn with an exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class CannotPlay(Exception):
    """A step does not fit the project, e.g. it claims a feature that does not exist."""


def play(stage: Stage, step: Step) -> None:
    """Does one step; raises ``TurnEnds`` or ``CannotPlay``."""
    name, given = step
    try:
        _VERBS[name](stage, given)
    except (OSError, ValueError, KeyError) as error:
        raise CannotPlay(f"{name}: {type(error).__name__}: {error}") from error
    if stage.options.pace_seconds:
        time.sleep(stage.options.pace_seconds)


def _say(stage: Stage, given: Given) -> None:
    stage.text(given["text"])


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


def _append(stage: Stage, given: Given) -> None:
    _append_to(stage, given["path"], given["text"])


def _append_to(stage: Stage, path: str, text: str) -> None:
    stage.prefix("FILE:WRITE", path)
    call = stage.call("append_file", {"path": path, "bytes": len(text.encode())})
    stage.path(path).parent.mkdir(parents=True, exist_ok=True)
    with stage.path(path).open("a", encoding="utf-8") as file:
        file.write(text)
    stage.result(call, "appended")


def _run(stage: Stage, given: Given) -> None:
    stage.run(given["command"], given.get("timeout_seconds"))


def _claim(stage: Stage, given: Given) -> None:
    ids = given["ids"] if isinstance(given["ids"], list) else [given["ids"]]
    path = stage.path(stage.options.features)
    numbers = [_number(stage, one) for one in ids]
    with path.open(encoding="utf-8", newline="") as file:
        text = file.read()
    try:
        text = feature_list.with_passes(text, numbers, given.get("passes", True))
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


def _progress(stage: Stage, given: Given) -> None:
    _append_to(stage, given.get("path", stage.options.progress), given["text"].rstrip("\n") + "\n")


def _commit(stage: Stage, given: Given) -> None:
    stage.run(f"git add -A && git commit -q -m {shlex.quote(given['message'])}")


def _usage(stage: Stage, given: Given) -> None:
    stage.event({"type": "usage", **given})


def _sleep(stage: Stage, given: Given) -> None:
    time.sleep(given["seconds"])


def _ignore_term(stage: Stage, given: Given) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _prompt_to(stage: Stage, given: Given) -> None:
    with stage.path(given["path"]).open("a", encoding="utf-8") as file:
        file.write(stage.occasion.prompt + "\n")


def _rate_limit(stage: Stage, given: Given) -> None:
    told = {key: value for key, value in given.items() if key != "times"}
    for _ in range(given.get("times", 1)):
        stage.event({"type": "rate_limited", "message": "the provider refuses for now", **told})


def _http(stage: Stage, given: Given) -> None:
    """429 and 529 are refusals to wait for; any other error of an API ends a client."""
    status = given["status"]
    message = f"API error {status} {_REFUSALS.get(status, 'the request failed')}"
    if status in (429, 529):
        _rate_limit(stage, {"message": message, **{k: v for k, v in given.items() if k != "status"}})
        return
    stage.text(message)
    raise TurnEnds(1)


def _bad_json(stage: Stage, given: Given) -> None:
    stage.raw(_bad_line(given.get("kind", "truncated")) + b"\n")


def _bad_line(kind: str) -> bytes:
    usage = b'{"type": "usage", "input_tokens": '
    return {
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
    }[kind]


def _flood(stage: Stage, given: Given) -> None:
    line = b"x" * max(0, given.get("line_bytes", 100) - 1) + b"\n"
    block = line * max(1, 262_144 // len(line))
    for _ in range(int(given["megabytes"] * 1_000_000 / len(block)) + 1):
        stage.raw(block)


def _event(stage: Stage, given: Given) -> None:
    stage.event(given["event"])


def _end(stage: Stage, given: Given) -> None:
    if "message" in given:
        stage.event({"type": "finished", "ok": True, "message": given["message"]})
    raise TurnEnds(0)


def _exit(stage: Stage, given: Given) -> None:
    raise TurnEnds(given["status"])


_VERBS: Mapping[str, Callable[[Stage, Given], None]] = {
    "say": _say,
    "decide": _decide,
    "read": _read,
    "write": _write,
    "append": _append,
    "run": _run,
    "claim": _claim,
    "evidence": _evidence,
    "forge": _forge,
    "progress": _progress,
    "commit": _commit,
    "usage": _usage,
    "sleep": _sleep,
    "ignore_term": _ignore_term,
    "prompt_to": _prompt_to,
    "rate_limit": _rate_limit,
    "http": _http,
    "bad_json": _bad_json,
    "flood": _flood,
    "event": _event,
    "end": _end,
    "exit": _exit,
}


# -- what the verbs look up ------------------------------------------------------------------------------------------


def _number(stage: Stage, one: object) -> int:
    if one != "this":
        return int(str(one))
    if stage.occasion.feature is None:
        raise CannotPlay("`this` means the feature of the session, and this session has none")
    return stage.occasion.feature


def _test_file(stage: Stage, feature: int) -> str:
    text = stage.path(stage.options.features).read_text(encoding="utf-8")
    found = feature_list.test_file_of(text, feature)
    if not found:
        raise CannotPlay(f"{stage.options.features} names no test_file for feature {feature}")
    return found


def _test_command(stage: Stage, feature: int) -> str:
    """The command for one feature's tests: the script's, else that of ``.harness.yaml``, else plain pytest."""
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
