"""One turn of ``codex exec --json``: for clients whose app-server cannot be spoken with. It cannot be steered.

Nobody is asked before a command here: the sandbox of the settings is the only limit, and the project's guard rails do
not hold. The turn says so.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from agent_harness.agents import limits
from agent_harness.agents.base import Brief
from agent_harness.agents.codex import command, stream
from agent_harness.agents.codex.settings import CodexSettings
from agent_harness.agents.command import CommandTurn, line_of
from agent_harness.agents.events import Finished, Text, Usage, plain
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process

Record = Mapping[str, Any]

LONGEST_TEXT = 2000  # of a line that is no JSON
SAID = "[Codex runs without its app-server: it cannot be steered, and only its sandbox limits its commands]"


def begin(settings: CodexSettings, brief: Brief) -> "ExecutionTurn":
    """A turn that runs. Raises ``ToolMissing`` where the settings want more than the sandbox gives."""
    if not (brief.tools.shell_enabled and brief.tools.filesystem_enabled):
        raise ToolMissing(
            "this Codex has no app-server, and `codex exec` cannot keep shell or file tools switched off",
            hint="codex app-server --help",
        )
    running = process.start(
        command.execution_words(settings, brief),
        cwd=brief.cwd,
        env=command.environment(brief),
        input=brief.prompt.encode("utf-8", "replace"),
        merge_stderr=False,
        run_id=brief.run_id,
    )
    return ExecutionTurn(running, command.model_of(settings, brief))


class ExecutionTurn(CommandTurn):
    """One run of ``codex exec``."""

    def __init__(self, running: process.Running, model: str | None) -> None:
        super().__init__(running)
        self._model = model
        self._ready.append(Text(SAID))

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            read = _LINES.get(str(record.get("type")))
            if read:
                read(self, record)
        else:
            self._ready.append(Text(line_of(line)[:LONGEST_TEXT]))

    def _thread(self, record: Record) -> None:
        name = record.get("thread_id")
        self.conversation = name if isinstance(name, str) else None

    def _started(self, record: Record) -> None:
        self._ready.extend(stream.started(_item(record)))

    def _completed(self, record: Record) -> None:
        self._ready.extend(stream.completed(_item(record)))

    def _turn_completed(self, record: Record) -> None:
        used = record.get("usage")
        told = used if isinstance(used, dict) else {}
        names = ("input_tokens", "output_tokens", "cached_input_tokens")
        given, made, cached = (n if isinstance(n := told.get(name), int) else 0 for name in names)
        self._ready.append(
            Usage(
                input_tokens=max(0, given - cached),
                output_tokens=made,
                cached_tokens=cached,
                model=self._model,
            )
        )
        self._claim(Finished(ok=True))

    def _turn_failed(self, record: Record) -> None:
        error = record.get("error")
        message = error.get("message") if isinstance(error, dict) else record.get("message")
        self._last_lines.append(plain(str(message))[:500])
        self._claim(Finished(ok=False, message=plain(str(message))[:600]))

    def _end(self) -> None:
        code = self._running.exit_code
        ok = self._claimed is not None and self._claimed.ok and code == 0
        if not ok:
            self._take_errors()
            refused = limits.from_text("\n".join(self._last_lines))
            self._ready.extend([refused] if refused else [])
        told = self._claimed.message if self._claimed else ""
        self._ready.append(Finished(ok=ok, message="" if ok else told or self._reason(code), exit_code=code))


_LINES: Mapping[str, Callable[[ExecutionTurn, Record], None]] = {
    "thread.started": ExecutionTurn._thread,
    "item.started": ExecutionTurn._started,
    "item.completed": ExecutionTurn._completed,
    "turn.completed": ExecutionTurn._turn_completed,
    "turn.failed": ExecutionTurn._turn_failed,
}

_NAMES = {
    "agent_message": "agentMessage",
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "mcp_tool_call": "mcpToolCall",
    "web_search": "webSearch",
    "aggregated_output": "aggregatedOutput",
    "exit_code": "exitCode",
}


def _item(record: Record) -> Record:
    """The item in the words of the app-server."""
    item = record.get("item")
    known = item if isinstance(item, dict) else {}
    kind = str(known.get("type"))
    return {**{_NAMES.get(name, name): value for name, value in known.items()}, "type": _NAMES.get(kind, kind)}
