"""Where a script is played: stdout with text and events, the project folder, the shell; and what outlives a turn."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.agents.scripted.script import Occasion, ScriptOptions


@dataclass(slots=True)
class Memory:
    """Counts of one script in one project, kept in ``path``."""

    path: Path
    uses: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, list[int]] = field(default_factory=dict)  # feature → sessions that worked on it

    @classmethod
    def open(cls, project: Path, script: Path) -> "Memory":
        """What is remembered; a missing or damaged memory is an empty one."""
        name = hashlib.sha256(f"{project.resolve()}\0{script.resolve()}".encode()).hexdigest()[:16]
        path = _folder(project) / f"{name}.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(path, dict(found["uses"]), dict(found["sessions"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(path)

    def attempt(self, feature: int | None, session: int) -> int:
        """Which session on this feature this is, counted from 1."""
        known = self.sessions.setdefault(str(feature), [])
        if session not in known:
            known.append(session)
        return known.index(session) + 1

    def use(self, key: str) -> None:
        """Counts one use of an entry, durably, before it is played: a turn that is killed has been used."""
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
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "agent-harness" / "scripted"


_SHOWN_BYTES = 262_144  # of a command's output, half from its beginning and half from its end
_RESULT_CHARACTERS = 16_384  # of it in a tool_result event


class Stage:
    """What a playing script can reach."""

    def __init__(self, options: ScriptOptions, occasion: Occasion, project: Path, scripts: Path) -> None:
        self.options = options
        self.occasion = occasion
        self.project = project
        self.scripts = scripts  # the folder of the script file
        self._calls = 0

    def text(self, text: str) -> None:
        """Prints text; a line that could pass for an event is wrapped into one."""
        for line in text.split("\n"):
            if line.lstrip().startswith("{"):
                self.event({"type": "text", "text": line})
            else:
                self.raw(line.encode("utf-8", "replace") + b"\n")

    def event(self, record: Mapping[str, object]) -> None:
        """Prints one event of the command seam."""
        self.raw(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def prefix(self, kind: str, payload: object = "") -> None:
        """Prints one prefixed line, when the script asks for prefixes."""
        if self.options.prefixes:
            self.text(f"[{kind}] {payload}".rstrip())

    def raw(self, data: bytes) -> None:
        """Puts bytes on stdout at once."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def path(self, name: str) -> Path:
        """A path of the project."""
        return self.project / name

    def call(self, name: str, given: Mapping[str, object]) -> str:
        """Announces a tool call; returns its id."""
        self._calls += 1
        made = f"call-{self._calls}"
        if self.options.tool_events:
            self.event({"type": "tool_call", "id": made, "name": name, "input": given})
        return made

    def result(self, call: str, output: str, *, is_error: bool = False) -> None:
        """Tells what a tool call gave."""
        if self.options.tool_events:
            short = _middle_left_out(output, _RESULT_CHARACTERS)
            self.event({"type": "tool_result", "id": call, "output": short, "is_error": is_error})

    def run(self, command: str, timeout_seconds: float | None = None) -> int:
        """Runs a shell command in the project and shows it, its output and its exit status, as agents do.

        Returns its status, 124 after the timeout. Background children keep nobody waiting.
        """
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


def _middle_left_out(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[... {len(text) - limit} characters left out ...]\n{text[-limit // 2 :]}"
