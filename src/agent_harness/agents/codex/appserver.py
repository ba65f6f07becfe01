"""One turn of Codex through its app-server: JSON-RPC, one message per line, over standard input and output.

The server is started for the turn and starts or resumes a thread. The harness tests the server's sandbox and sends the
prompt. ``turn/completed`` ends the turn. After that, the exit status does not matter.

The guard rails answer the client's approval requests, because no user is present. Codex asks before every command and
file change. A request does not show whether the command would run outside the sandbox. Only the model's own call shows
this. The server sends the call before the request, as a raw item. If it does not, the call is in the thread's record.
The harness refuses a command outside the sandbox, and grants no additional permissions. (UAH-444, C32)"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_harness import __version__
from agent_harness.agents.base import Brief, ToolRules, sandbox_of
from agent_harness.agents.codex import command, stream
from agent_harness.agents.codex.command import CodexSettings
from agent_harness.agents.codex.stream import TurnTally
from agent_harness.agents.command import CommandTurn, line_of
from agent_harness.agents.events import Finished, RateLimited, Text, mapping_of, object_of_line, plain
from agent_harness.agents.guardrails import toolcheck
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process

Record = Mapping[str, Any]

OPENING_SECONDS = 120.0  # for each step until the agent works
ANSWER_SECONDS = 30.0  # for a message to the running turn
LONGEST_TEXT = 2000  # of a line that is not a message


class NoServer(Exception):
    """Error: the client has no usable app-server."""


class RequestFailed(Exception):
    """Error: the server returned an error for a request, or returned nothing."""


def begin(settings: CodexSettings, brief: Brief) -> "AppServerTurn":
    """Start a turn in the client's app-server. Raise ``NoServer`` if there is no usable app-server."""
    turn = AppServerTurn(settings, brief)
    try:
        turn.open()
    except BaseException:
        turn.close()
        raise
    return turn


class AppServerTurn(CommandTurn):
    def __init__(self, settings: CodexSettings, brief: Brief) -> None:
        super().__init__(
            process.start(
                [settings.program, *command.overrides(brief.cwd), "app-server"],
                cwd=brief.cwd,
                env=command.environment(brief),
                merge_stderr=False,
                run_id=brief.run_id,
                own_temporary=True,
                sandbox=sandbox_of(brief),
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
        """Connect to the server, open a thread, test the sandbox and send the prompt."""
        client = {"name": "agent-harness", "title": "agent-harness", "version": __version__}
        try:
            self._call("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
            self._write({"method": "initialized"})
            thread = self._thread()
        except RequestFailed as error:
            raise NoServer(str(error)) from error
        self.conversation = self._tally.thread = str(mapping_of(thread.get("thread")).get("id"))
        path = mapping_of(thread.get("thread")).get("path")
        if isinstance(path, str) and self.conversation:
            self._approvals.records[self.conversation] = Path(path)
        model = thread.get("model")
        self._tally.model = model if isinstance(model, str) else None
        self._try_the_sandbox()
        self._give_the_prompt()

    def _thread(self) -> Record:
        servers = {name: server.as_json() for name, server in self._brief.tools.mcp_servers.items()}
        given = {
            "cwd": str(self._brief.cwd),
            "model": command.model_of(self._settings, self._brief),
            "sandbox": self._settings.sandbox,
            "approvalPolicy": "untrusted",  # asks before every command that does more than read
            "experimentalRawEvents": True,  # shows if a command would leave the sandbox
            **({"config": {"mcp_servers": servers}} if servers else {}),
        }
        if self._brief.conversation:
            with suppress(RequestFailed):
                return self._call("thread/resume", {**given, "threadId": self._brief.conversation})
            self._ready.append(Text("[the conversation was lost; starting a new conversation]"))
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
            message = f"Codex cannot create its sandbox ({self._settings.sandbox}) on this machine: {said[:300]}"
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
            self._finish(Finished(ok=False, message=f"Codex did not start the turn: {error}"))
        else:
            self._turn_id = self._tally.turn = str(mapping_of(begun.get("turn")).get("id"))

    # ---- messages

    def steer(self, text: str) -> bool:
        if not self._running_turn():
            return False
        given = {"threadId": self.conversation, "expectedTurnId": self._turn_id, "input": _input(text)}
        try:
            self._call("turn/steer", given, ANSWER_SECONDS)
        except RequestFailed:
            return False
        return True

    def interrupt(self) -> bool:
        given = {"threadId": self.conversation, "turnId": self._turn_id}
        return self._running_turn() and self._ask("turn/interrupt", given) is not None

    def stop(self, grace_seconds: float = 5.0) -> None:
        self._open = False
        super().stop(grace_seconds)

    def close(self) -> None:
        self._open = False
        self._running.close()

    def _running_turn(self) -> bool:
        return self._open and self._turn_id is not None and self._claimed is None and not self._ended

    def _call(self, method: str, params: Record, seconds: float = OPENING_SECONDS) -> Record:
        """Send a request and return the result. Raise ``RequestFailed`` if the server returns no valid result."""
        # lines that arrive before the answer become events
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
            raise RequestFailed(f"codex app-server did not answer {method}")
        if "error" in answer:
            raise RequestFailed(plain(str(mapping_of(answer.get("error")).get("message") or answer.get("error")))[:300])
        return mapping_of(answer.get("result"))

    def _ask(self, method: str, params: Record) -> int | None:
        self._asked += 1
        return self._asked if self._write({"id": self._asked, "method": method, "params": params}) else None

    def _write(self, message: Record) -> bool:
        return self._running.write(json.dumps(message).encode() + b"\n")

    # ---- lines

    def _take(self, line: bytes) -> None:
        message = object_of_line(line)
        if message is None:
            self._ready.append(Text(line_of(line)[:LONGEST_TEXT]))
        elif "method" not in message:
            number = message.get("id")
            if isinstance(number, int):
                self._answers[number] = message
        elif "id" in message:
            self._answer(message["id"], str(message["method"]), mapping_of(message.get("params")))
        else:
            read = _NOTIFICATIONS.get(str(message["method"]))
            if read:
                read(self, mapping_of(message.get("params")))

    def _answer(self, number: object, method: str, params: Record) -> None:
        answer = self._approvals.answer(method, params)
        if answer is None:
            self._write({"id": number, "error": {"code": -32601, "message": f"the method {method} is not known"}})
            return
        result, why = answer
        self._write({"id": number, "result": result})
        if why and self._running_turn():
            self._ready.append(Text(f"[refused: {why}]"))
            told = _input(f"The harness refused that: {why}. Find another way.")
            self._ask("turn/steer", {"threadId": self.conversation, "expectedTurnId": self._turn_id, "input": told})

    def _item_started(self, params: Record) -> None:
        item = mapping_of(params.get("item"))
        self._approvals.note(item)
        self._ready.extend(stream.started(item))

    def _usage(self, params: Record) -> None:
        used = self._tally.update(params)
        if used:
            self._refused = False
            self._ready.append(used)

    def _limits(self, params: Record) -> None:
        told = mapping_of(params.get("rateLimits"))
        self._windows = {**self._windows, **{name: value for name, value in told.items() if value is not None}}

    def _error(self, params: Record) -> None:
        error = mapping_of(params.get("error"))
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
        turn = mapping_of(params.get("turn"))
        if params.get("threadId") != self.conversation or self._claimed is not None:
            return
        error = mapping_of(turn.get("error"))
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


_NOTIFICATIONS: Mapping[str, Callable[[AppServerTurn, Record], object]] = {
    "rawResponseItem/completed": lambda turn, params: turn._approvals.note_raw(params),
    "item/started": AppServerTurn._item_started,
    "item/completed": lambda turn, params: turn._ready.extend(stream.completed(mapping_of(params.get("item")))),
    "thread/tokenUsage/updated": AppServerTurn._usage,
    "account/rateLimits/updated": AppServerTurn._limits,
    "error": AppServerTurn._error,
    "turn/completed": AppServerTurn._completed,
}


def _input(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text.encode("utf-8", "replace").decode("utf-8")}]


# ---- approvals

LOOK_SECONDS = 10.0  # for a call that is not written down yet
PAUSE_SECONDS = 0.05
LAST_BYTES = 4_000_000


def call_arguments(path: Path, call: str) -> object:
    """Return a call's arguments from the thread's file, or None if the file does not show them in time."""
    until = time.monotonic() + LOOK_SECONDS
    while True:
        found = _find(path, call)
        if found is not None or time.monotonic() >= until:
            return None if found is None else found.get("arguments", "{}")
        time.sleep(PAUSE_SECONDS)


def _find(path: Path, call: str) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LAST_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    wanted = json.dumps(call).encode()
    for line in reversed(lines):
        item = _item(line) if wanted in line else None
        if item and item.get("call_id") == call and not str(item.get("type")).endswith("_output"):
            return item
    return None


def _item(line: bytes) -> dict[str, Any] | None:
    record = object_of_line(line) or {}
    payload = record.get("payload")
    if not isinstance(payload, dict) or record.get("type") != "response_item":
        return None
    item = payload.get("item", payload)
    return item if isinstance(item, dict) else None


Answer = tuple[dict[str, Any], str | None]
"""Answer to an approval request. If the request is refused, the answer includes the reason."""


class Approvals:
    def __init__(self, root: Path, rules: ToolRules, *, sandboxed: bool) -> None:
        self._root, self._rules, self._sandboxed = root, rules, sandboxed
        self._changes: dict[str, list[str]] = {}
        self._shown: set[str] = set()  # threads whose raw items are shown
        self._inside: set[str] = set()  # calls that stay in the sandbox
        self.records: dict[str, Path] = {}  # by thread: the client's record of its calls

    def note(self, item: Mapping[str, Any]) -> None:
        """Store the paths of a file change. The later approval request contains only the id of this change."""
        if item.get("type") == "fileChange":
            self._changes[str(item.get("id"))] = stream.changed_paths(item)

    def note_raw(self, params: Mapping[str, Any]) -> None:
        """Record whether the model's call stays inside the sandbox, before the call's approval request arrives."""
        raw = mapping_of(params.get("item"))
        self._shown.add(str(params.get("threadId")))
        if raw.get("call_id") and not _leaves_the_sandbox(raw.get("arguments")):
            self._inside.add(str(raw["call_id"]))

    def answer(self, method: str, params: Mapping[str, Any]) -> Answer | None:
        """Return the answer to an approval request, or ``None`` for an unknown kind of request."""
        answer = _ANSWERS.get(method)
        return answer(self, params) if answer else None

    def _command(self, params: Mapping[str, Any]) -> Answer:
        if params.get("networkApprovalContext"):
            return _decided("the sandbox has no network access (agent.network)")
        if params.get("kind", "command") != "command":
            return {"decision": "accept"}, None  # input for a command that was judged before
        if self._sandboxed and not self._stays_inside(params):
            return _decided("commands are not run outside the sandbox (agent.sandbox)")
        return _decided(self._refusal("shell", {"command": stream.script_of(params.get("command"))}))

    def _stays_inside(self, params: Mapping[str, Any]) -> bool:
        thread, call = str(params.get("threadId")), str(params.get("itemId"))
        if thread in self._shown:
            return call in self._inside
        if thread in self.records:
            arguments = call_arguments(self.records[thread], call)
            return arguments is not None and not _leaves_the_sandbox(arguments)
        return not params.get("reason")

    def _change(self, params: Mapping[str, Any]) -> Answer:
        paths = self._changes.get(str(params.get("itemId")))
        if not paths or params.get("grantRoot"):
            return _decided("the files that it changes are unknown")
        refused = (self._refusal("apply_patch", {"path": path}) for path in paths)
        return _decided(next((why for why in refused if why), None))

    def _elicitation(self, params: Mapping[str, Any]) -> Answer:
        meta = params.get("_meta")
        kind = meta.get("codex_approval_kind") if isinstance(meta, dict) else None
        ours = kind == "mcp_tool_call" and params.get("serverName") in self._rules.mcp_servers
        return {"action": "accept" if ours else "decline", "content": {} if ours else None}, None

    def _refusal(self, tool: str, given: Mapping[str, object]) -> str | None:
        return toolcheck.refusal(tool, given, self._root, self._rules)


def _leaves_the_sandbox(arguments: object) -> bool:
    try:
        told = json.loads(arguments) if isinstance(arguments, str) else {}
    except (ValueError, RecursionError):
        return False  # no call of a tool that takes such an argument
    if not isinstance(told, dict):
        return False
    return told.get("sandbox_permissions") not in (None, "use_default") or bool(told.get("with_escalated_permissions"))


def _decided(why: str | None) -> Answer:
    return {"decision": "decline" if why else "accept"}, why


_ANSWERS: Mapping[str, Any] = {
    "item/commandExecution/requestApproval": Approvals._command,
    "item/fileChange/requestApproval": Approvals._change,
    "item/permissions/requestApproval": lambda *_: (
        {"permissions": {}, "scope": "turn"},
        "no further permissions are granted",
    ),
    "mcpServer/elicitation/request": Approvals._elicitation,
    "item/tool/requestUserInput": lambda *_: ({"answers": {}}, None),
    "item/tool/call": lambda *_: ({"contentItems": [], "success": False}, None),
    "execCommandApproval": lambda *_: ({"decision": "denied"}, None),
    "applyPatchApproval": lambda *_: ({"decision": "denied"}, None),
}
