"""Agent kind ``codex``: one ``codex app-server`` process per turn over JSON-RPC, or ``codex exec`` without an
app-server.

    command     the settings, the command lines, the environment, and the sandbox in Codex's own format
    stream      the server's messages as events: items, tokens, refusals of the provider
    appserver   a turn of the app-server, and its requests, which the guard rails answer

A turn of ``codex exec --json`` cannot be steered. Codex then does not ask before it runs a command, so the guard rails
do not apply. The sandbox in the settings is the only limit. The turn reports this in a text event."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Brief, Turn, sandbox_of
from agent_harness.agents.codex import appserver, command, stream
from agent_harness.agents.codex.command import CodexSettings
from agent_harness.agents.command import CommandTurn, line_of, refusal_from_text, removed_on_error, servers_file
from agent_harness.agents.events import Finished, Text, Usage, mapping_of, object_of_line, plain
from agent_harness.agents.options import ClientAgent
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process

__all__ = ["CodexAgent", "CodexSettings"]

Record = Mapping[str, Any]

LONGEST_TEXT = 2000  # of a line that is not JSON
SAID = "[Codex runs without its app-server: it cannot be steered, and only its sandbox limits its commands]"


def _begin_execution(settings: CodexSettings, brief: Brief) -> "ExecutionTurn":
    if not (brief.tools.shell_enabled and brief.tools.filesystem_enabled):
        raise ToolMissing(
            "this Codex version has no app-server, and `codex exec` cannot disable shell or file tools",
            hint="codex app-server --help",
        )
    servers = servers_file(brief)
    with removed_on_error(servers):
        running = process.start(
            command.execution_words(settings, brief, servers),
            cwd=brief.cwd,
            env=command.environment(brief),
            input=brief.prompt.encode("utf-8", "replace"),
            merge_stderr=False,
            run_id=brief.run_id,
            own_temporary=True,
            sandbox=sandbox_of(brief),
        )
        return ExecutionTurn(running, command.model_of(settings, brief), servers)


class ExecutionTurn(CommandTurn):
    def __init__(self, running: process.Running, model: str | None, servers: Path | None = None) -> None:
        super().__init__(running, servers)
        self._model = model
        self._ready.append(Text(SAID))

    def _take(self, line: bytes) -> None:
        record = object_of_line(line)
        if record is not None:
            read = _LINES.get(str(record.get("type")))
            if read:
                read(self, record)
        else:
            self._ready.append(Text(line_of(line)[:LONGEST_TEXT]))

    def _thread(self, record: Record) -> None:
        name = record.get("thread_id")
        self.conversation = name if isinstance(name, str) else None

    def _turn_completed(self, record: Record) -> None:
        told = mapping_of(record.get("usage"))
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
            refused = refusal_from_text("\n".join(self._last_lines))
            self._ready.extend([refused] if refused else [])
        told = self._claimed.message if self._claimed else ""
        self._ready.append(Finished(ok=ok, message="" if ok else told or self._reason(code), exit_code=code))


_LINES: Mapping[str, Callable[[ExecutionTurn, Record], object]] = {
    "thread.started": ExecutionTurn._thread,
    "item.started": lambda turn, record: turn._ready.extend(stream.started(_item(record))),
    "item.completed": lambda turn, record: turn._ready.extend(stream.completed(_item(record))),
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
    """Return a ``codex exec`` item with the field names that the app-server uses."""
    known = mapping_of(record.get("item"))
    kind = str(known.get("type"))
    return {**{_NAMES.get(name, name): value for name, value in known.items()}, "type": _NAMES.get(kind, kind)}


class CodexAgent(ClientAgent[CodexSettings]):
    name = "codex"
    settings_class = CodexSettings
    install = "Install it (npm install -g @openai/codex), or set its path: agent: {kind: codex, program: …}"

    @property
    def account(self) -> str:
        return command.account()

    def start(self, brief: Brief) -> Turn:
        self.demand()
        try:
            return appserver.begin(self.settings, brief)
        except appserver.NoServer:
            return _begin_execution(self.settings, brief)
