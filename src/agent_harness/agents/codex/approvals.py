"""What the client asks for before it acts, answered by the guard rails (UAH-444, C32). Nobody else is there to answer.

Codex asks before every command and every change of a file. A command that the model wants to run outside the sandbox
is asked about in the same words; only the model's own call tells, which the server shows beforehand (its raw items), or
which its record of the thread holds.
An approval never lifts the sandbox: such a command is refused, and further permissions are not granted.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.base import ToolRules
from agent_harness.agents.codex import stream
from agent_harness.agents.guardrails import toolcheck

LOOK_SECONDS = 10.0  # for a call that is not written down yet
PAUSE_SECONDS = 0.05
LAST_BYTES = 4_000_000


def call_arguments(path: Path, call: str) -> object:
    """What the model gave to a call, as the record has it, or ``None`` when it is not there in time."""
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
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    payload = record.get("payload") if isinstance(record, dict) else None
    if not isinstance(payload, dict) or record.get("type") != "response_item":
        return None
    item = payload.get("item", payload)
    return item if isinstance(item, dict) else None


Answer = tuple[dict[str, Any], str | None]
"""What goes back to the client, and why something was refused."""


class Approvals:
    """Answers the requests of one turn."""

    def __init__(self, root: Path, rules: ToolRules, *, sandboxed: bool) -> None:
        self._root, self._rules, self._sandboxed = root, rules, sandboxed
        self._changes: dict[str, list[str]] = {}
        self._shown: set[str] = set()  # threads whose raw items are shown
        self._inside: set[str] = set()  # calls that stay in the sandbox
        self.records: dict[str, Path] = {}  # by thread: where the client writes its calls down

    def note(self, item: Mapping[str, Any]) -> None:
        """A change of files begins: the request for it names the item only."""
        if item.get("type") == "fileChange":
            self._changes[str(item.get("id"))] = stream.changed_paths(item)

    def note_raw(self, params: Mapping[str, Any]) -> None:
        """The model's own words for a call, before it is asked about."""
        item = params.get("item")
        raw: Mapping[str, Any] = item if isinstance(item, dict) else {}
        self._shown.add(str(params.get("threadId")))
        if raw.get("call_id") and not _leaves_the_sandbox(raw.get("arguments")):
            self._inside.add(str(raw["call_id"]))

    def answer(self, method: str, params: Mapping[str, Any]) -> Answer | None:
        """The answer to a request; ``None`` for one that is not known."""
        answer = _ANSWERS.get(method)
        return answer(self, params) if answer else None

    def _command(self, params: Mapping[str, Any]) -> Answer:
        if params.get("networkApprovalContext"):
            return _decided("the network is not reached from the sandbox (agent.network)")
        if params.get("kind", "command") != "command":
            return {"decision": "accept"}, None  # input for a command that was judged before
        if self._sandboxed and not self._stays_inside(params):
            return _decided("commands are not run outside the sandbox (agent.sandbox)")
        return _decided(self._refusal("shell", {"command": stream.script_of(params.get("command"))}))

    def _stays_inside(self, params: Mapping[str, Any]) -> bool:
        """By the model's call; where that cannot be seen, by the reason that it gives for wanting more."""
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
            return _decided("which files it changes is not known")
        refused = (self._refusal("apply_patch", {"path": path}) for path in paths)
        return _decided(next((why for why in refused if why), None))

    def _elicitation(self, params: Mapping[str, Any]) -> Answer:
        meta = params.get("_meta")
        kind = meta.get("codex_approval_kind") if isinstance(meta, dict) else None
        ours = kind == "mcp_tool_call" and params.get("serverName") in self._rules.mcp_servers
        return {"action": "accept" if ours else "decline", "content": {} if ours else None}, None

    def _permissions(self, params: Mapping[str, Any]) -> Answer:
        return {"permissions": {}, "scope": "turn"}, "no further permissions are granted"

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
    "item/permissions/requestApproval": Approvals._permissions,
    "mcpServer/elicitation/request": Approvals._elicitation,
    "item/tool/requestUserInput": lambda *_: ({"answers": {}}, None),
    "item/tool/call": lambda *_: ({"contentItems": [], "success": False}, None),
    "execCommandApproval": lambda *_: ({"decision": "denied"}, None),
    "applyPatchApproval": lambda *_: ({"decision": "denied"}, None),
}
