"""One turn of Codex through its app-server: JSON-RPC, one message a line, over standard input and output.

The server is started for the turn, told to begin or to go on with a thread, asked whether its sandbox can be made, and
given the prompt. ``turn/completed`` ends the turn; how the process ends then says nothing more.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_harness import __version__
from agent_harness.agents.base import Brief
from agent_harness.agents.codex import command, stream
from agent_harness.agents.codex.approvals import Approvals
from agent_harness.agents.codex.settings import CodexSettings
from agent_harness.agents.codex.stream import TurnTally
from agent_harness.agents.command import CommandTurn, line_of
from agent_harness.agents.events import Finished, RateLimited, Text, plain
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process

Record = Mapping[str, Any]

OPENING_SECONDS = 120.0  # for each step until the agent works
ANSWER_SECONDS = 30.0  # for a message to the running turn
LONGEST_TEXT = 2000  # of a line that is no message


class NoServer(Exception):
    """This client has no app-server that we can speak with."""


class RequestFailed(Exception):
    """The server answered a request with an error, or not at all."""


def begin(settings: CodexSettings, brief: Brief) -> "AppServerTurn":
    """A turn that runs. Raises ``NoServer``, and ``ToolMissing`` when the sandbox cannot be made."""
    turn = AppServerTurn(settings, brief)
    try:
        turn.open()
    except BaseException:
        turn.close()
        raise
    return turn


class AppServerTurn(CommandTurn):
    """One run of the app-server."""

    def __init__(self, settings: CodexSettings, brief: Brief) -> None:
        super().__init__(
            process.start(
                [settings.program, *command.overrides(), "app-server"],
                cwd=brief.cwd,
                env=command.environment(brief),
                merge_stderr=False,
                run_id=brief.run_id,
            )
        )
        self._settings, self._brief = settings, brief
        self._approvals = Approvals(brief.cwd, brief.tools, sandboxed=settings.sandbox != "danger-full-access")
        self._tally = TurnTally()
        self._answers: dict[int, Record] = {}
        self._asked = 0
        self._turn_id: str | None = None
        self._windows: Record = {}
        self._refused = False
        self._open = True

    # ---- the opening

    def open(self) -> None:
        """Everything up to the moment at which the agent works."""
        client = {"name": "agent-harness", "title": "agent-harness", "version": __version__}
        try:
            self._call("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
            self._write({"method": "initialized"})
            thread = self._thread()
        except RequestFailed as error:
            raise NoServer(str(error)) from error
        self.conversation = self._tally.thread = str(_mapping(thread.get("thread")).get("id"))
        path = _mapping(thread.get("thread")).get("path")
        if isinstance(path, str) and self.conversation:
            self._approvals.records[self.conversation] = Path(path)
        model = thread.get("model")
        self._tally.model = model if isinstance(model, str) else None
        self._try_the_sandbox()
        self._give_the_prompt()

    def _thread(self) -> Record:
        servers = command.mcp_config(self._brief.tools.mcp_servers)
        given = {
            "cwd": str(self._brief.cwd),
            "model": command.model_of(self._settings, self._brief),
            "sandbox": self._settings.sandbox,
            "approvalPolicy": "untrusted",  # asks before every command that does more than read
            "experimentalRawEvents": True,  # shows whether a command is to leave the sandbox
            **({"config": {"mcp_servers": servers}} if servers else {}),
        }
        if self._brief.conversation:
            with suppress(RequestFailed):
                return self._call("thread/resume", {**given, "threadId": self._brief.conversation})
            self._ready.append(Text("[the conversation is lost; a new one begins]"))
        return self._call("thread/start", given)

    def _try_the_sandbox(self) -> None:
        if self._settings.sandbox == "danger-full-access":
            return
        policy = command.sandbox_policy(self._settings, self._brief)
        try:
            tried = self._call(
                "command/exec", {"command": ["true"], "cwd": str(self._brief.cwd), "sandboxPolicy": policy}
            )
        except RequestFailed as error:
            tried = {"exitCode": None, "stderr": str(error)}
        if tried.get("exitCode") != 0:
            said = plain(str(tried.get("stderr") or "")).strip().rsplit("\n", 1)[-1]
            message = f"Codex cannot make its sandbox ({self._settings.sandbox}) on this machine: {said[:300]}"
            raise ToolMissing(message.rstrip(": "), hint=command.LOOSER)

    def _give_the_prompt(self) -> None:
        given = {
            "threadId": self.conversation,
            "input": _input(self._brief.prompt),
            "sandboxPolicy": command.sandbox_policy(self._settings, self._brief),
        }
        try:
            begun = self._call("turn/start", given)
        except RequestFailed as error:
            self._finish(Finished(ok=False, message=f"Codex did not begin: {error}"))
        else:
            self._turn_id = str(_mapping(begun.get("turn")).get("id"))

    # ---- messages

    def steer(self, text: str) -> bool:
        """True when the running turn has taken the message; the agent reads it in its next request."""
        if not self._running_turn():
            return False
        given = {"threadId": self.conversation, "expectedTurnId": self._turn_id, "input": _input(text)}
        try:
            self._call("turn/steer", given, ANSWER_SECONDS)
        except RequestFailed:
            return False
        return True

    def interrupt(self) -> bool:
        """Asks the server to end the turn; it answers with ``turn/completed``."""
        given = {"threadId": self.conversation, "turnId": self._turn_id}
        return self._running_turn() and self._ask("turn/interrupt", given) is not None

    def stop(self, grace_seconds: float = 5.0) -> None:
        """Ends the client and everything that it started."""
        self._open = False
        super().stop(grace_seconds)

    def close(self) -> None:
        """Kills the client at once."""
        self._open = False
        self._running.close()

    def _running_turn(self) -> bool:
        return self._open and self._turn_id is not None and self._claimed is None and not self._ended

    def _call(self, method: str, params: Record, seconds: float = OPENING_SECONDS) -> Record:
        """The result of a request; what comes before it is kept for ``next_event``. Raises ``RequestFailed``."""
        number = self._ask(method, params)
        until = time.monotonic() + seconds
        while number is not None and number not in self._answers and not self._running.at_end:
            left = until - time.monotonic()
            if left <= 0:
                break
            line = self._running.read_line(left)
            if line is not None:
                self._take(line)
        answer = self._answers.pop(number, None) if number is not None else None
        if answer is None:
            raise RequestFailed(f"{method} was not answered")
        if "error" in answer:
            raise RequestFailed(plain(str(_mapping(answer.get("error")).get("message") or answer.get("error")))[:300])
        return _mapping(answer.get("result"))

    def _ask(self, method: str, params: Record) -> int | None:
        self._asked += 1
        return self._asked if self._write({"id": self._asked, "method": method, "params": params}) else None

    def _write(self, message: Record) -> bool:
        return self._running.write(json.dumps(message).encode() + b"\n")

    # ---- lines

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._ready.append(Text(line_of(line)[:LONGEST_TEXT]))
        elif "method" not in message:
            number = message.get("id")
            if isinstance(number, int):
                self._answers[number] = message
        elif "id" in message:
            self._answer(message["id"], str(message["method"]), _mapping(message.get("params")))
        else:
            read = _NOTIFICATIONS.get(str(message["method"]))
            if read:
                read(self, _mapping(message.get("params")))

    def _answer(self, number: object, method: str, params: Record) -> None:
        answer = self._approvals.answer(method, params)
        if answer is None:
            self._write({"id": number, "error": {"code": -32601, "message": f"{method} is not known here"}})
            return
        result, why = answer
        self._write({"id": number, "result": result})
        if why and self._running_turn():
            self._ready.append(Text(f"[refused: {why}]"))
            told = _input(f"The harness refused that: {why}. Find another way.")
            self._ask("turn/steer", {"threadId": self.conversation, "expectedTurnId": self._turn_id, "input": told})

    def _raw_item(self, params: Record) -> None:
        self._approvals.note_raw(params)

    def _item_started(self, params: Record) -> None:
        item = _mapping(params.get("item"))
        self._approvals.note(item)
        self._ready.extend(stream.started(item))

    def _item_completed(self, params: Record) -> None:
        self._ready.extend(stream.completed(_mapping(params.get("item"))))

    def _usage(self, params: Record) -> None:
        used = self._tally.update(params)
        if used:
            self._refused = False
            self._ready.append(used)

    def _limits(self, params: Record) -> None:
        told = _mapping(params.get("rateLimits"))
        self._windows = {**self._windows, **{name: value for name, value in told.items() if value is not None}}

    def _error(self, params: Record) -> None:
        error = _mapping(params.get("error"))
        if params.get("willRetry"):
            self._ready.append(Text(f"[{plain(str(error.get('message')))[:300]}]"))
        elif params.get("threadId") == self.conversation:
            self._refuse(error)

    def _refuse(self, error: Record) -> None:
        refused: RateLimited | None = None if self._refused else stream.of_error(error, self._windows)
        if refused:
            self._refused = True
            self._ready.append(refused)

    def _completed(self, params: Record) -> None:
        turn = _mapping(params.get("turn"))
        if params.get("threadId") != self.conversation or self._claimed is not None:
            return
        error = _mapping(turn.get("error"))
        if error:
            self._refuse(error)
        status = turn.get("status")
        message = "" if status == "completed" else f"{status}: {error.get('message') or 'no reason was given'}"
        self._finish(Finished(ok=status == "completed", message=plain(message)[:600]))

    # ---- the end

    def _finish(self, end: Finished) -> None:
        self._claim(end)
        self._open = False
        self._running.close_input()

    def _end(self) -> None:
        claimed = self._claimed
        if claimed is None:
            self._take_errors()
            claimed = Finished(ok=False, message=self._reason(self._running.exit_code))
        self._ready.append(Finished(ok=claimed.ok, message=claimed.message, exit_code=self._running.exit_code))


_NOTIFICATIONS = {
    "rawResponseItem/completed": AppServerTurn._raw_item,
    "item/started": AppServerTurn._item_started,
    "item/completed": AppServerTurn._item_completed,
    "thread/tokenUsage/updated": AppServerTurn._usage,
    "account/rateLimits/updated": AppServerTurn._limits,
    "error": AppServerTurn._error,
    "turn/completed": AppServerTurn._completed,
}


def _input(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text.encode("utf-8", "replace").decode("utf-8")}]


def _mapping(value: object) -> Record:
    return value if isinstance(value, dict) else {}
