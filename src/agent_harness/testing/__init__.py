"""Builders for tests: real projects of each protocol, real repositories, and servers on loopback.

This module contains the common parts: running a command, and its result. Most tests run a command in the calling
process, which avoids a Python start for each command. Tests of signals, kills, terminal encodings, start-up or
concurrent commands start a separate process instead.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["HARNESS", "LTH", "NOON", "CommandResult", "run_in_process", "run_process", "write_tool_server"]

HARNESS = (sys.executable, "-m", "agent_harness.cli.main")
"""Command line that starts ``harness`` as a process."""
LTH = (sys.executable, "-m", "agent_harness.cli.lth")
"""Command line that starts ``lth`` as a process."""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""Start time of a clock that a test controls."""


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command. A traceback in the output raises ``AssertionError``."""

    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "Traceback (most recent call last)" not in self.text, self.text

    @property
    def text(self) -> str:
        """Text of stdout, followed by stderr."""
        return self.out + self.err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"


def run_in_process(
    main: Callable[[], int],
    *words: str,
    cwd: Path | None = None,
    given: bytes = b"",
    environ: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run ``main`` in this process, with ``words`` as arguments and ``given`` as stdin."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(each, encoding="utf-8") for each in (io.BytesIO(given), out)]
    streams.append(io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace"))  # as Python opens stderr
    with contextlib.chdir(cwd or Path.cwd()), _variables(environ or {}), _called(*streams, words=words):
        code = main()
    for stream in streams[1:]:
        stream.flush()
    return _ran(code, out.getvalue(), err.getvalue())


def run_process(
    words: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    given: bytes = b"",
    environ: Mapping[str, str] | None = None,
    seconds: float = 120,
) -> CommandResult:
    """Run a command in a separate process for at most ``seconds``."""
    # forked from a process that has already imported the harness, if possible
    if tuple(words[: len(HARNESS)]) == HARNESS:
        from agent_harness.testing import forked

        rest = [os.fspath(word) for word in words[len(HARNESS) :]]
        if ran := forked.run(rest, cwd=cwd, given=given, environ=environ, seconds=seconds):
            return _ran(*ran)
    done = subprocess.run(words, cwd=cwd, env=environ, input=given, capture_output=True, check=False, timeout=seconds)
    return _ran(done.returncode, done.stdout, done.stderr)


def _ran(code: int, out: bytes, err: bytes) -> CommandResult:
    return CommandResult(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


@contextlib.contextmanager
def _variables(added: Mapping[str, str]) -> Iterator[None]:
    kept = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


@contextlib.contextmanager
def _called(
    stdin: io.TextIOWrapper, stdout: io.TextIOWrapper, stderr: io.TextIOWrapper, *, words: Sequence[str]
) -> Iterator[None]:
    kept = sys.argv, sys.stdin
    sys.argv, sys.stdin = [*words], stdin
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            yield
    finally:
        sys.argv, sys.stdin = kept


TOOL_SERVER = """\
#!{python}
import json, os, pathlib, sys

{answer}

def result_of(asked):
    if asked["method"] == "initialize":
        told = {{"name": "tools", "version": "1"}}
        version = asked["params"]["protocolVersion"]
        return {{"protocolVersion": version, "capabilities": {{"tools": {{}}}}, "serverInfo": told}}
    if asked["method"] == "tools/list":
        return {{"tools": json.loads({tools!r})}}
    if asked["method"] == "tools/call":
        text = answer(asked["params"]["name"], asked["params"].get("arguments") or {{}})
        return {{"content": [{{"type": "text", "text": text}}]}}
    return None

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = result_of(asked)
    said = {{"error": {{"code": -32601, "message": "no"}}}} if result is None else {{"result": result}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **said}}), flush=True)
"""


def write_tool_server(path: Path, tools: Mapping[str, Sequence[str]], answer: str) -> Path:
    """Write an executable MCP server that uses stdin and stdout. Return the server's path."""
    # tools: the text arguments of each tool
    # answer: Python source of `def answer(name, given)`; it can use json, os, pathlib and sys
    listed = [
        {
            "name": name,
            "description": name,
            "inputSchema": {"type": "object", "properties": {each: {"type": "string"} for each in texts}},
        }
        for name, texts in tools.items()
    ]
    path.write_text(TOOL_SERVER.format(python=sys.executable, answer=answer.strip(), tools=json.dumps(listed)))
    path.chmod(0o755)
    return path
