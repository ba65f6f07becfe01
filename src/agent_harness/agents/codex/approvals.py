"""What the client asks for before it acts, answered by the guard rails (UAH-444, C32). Nobody else is there to answer.

Codex asks before every command and every change of a file. An approval never lifts the sandbox's own limits on
permissions: further ones are not granted.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents import toolcheck
from agent_harness.agents.base import ToolRules
from agent_harness.agents.codex import items

Answer = tuple[dict[str, Any], str | None]
"""What goes back to the client, and why something was refused."""


class Approvals:
    """Answers the requests of one turn."""

    def __init__(self, root: Path, rules: ToolRules) -> None:
        self._root, self._rules = root, rules
        self._changes: dict[str, list[str]] = {}

    def note(self, item: Mapping[str, Any]) -> None:
        """A change of files begins: the request for it names the item only."""
        if item.get("type") == "fileChange":
            self._changes[str(item.get("id"))] = items.changed_paths(item)

    def answer(self, method: str, params: Mapping[str, Any]) -> Answer | None:
        """The answer to a request; ``None`` for one that is not known."""
        answer = _ANSWERS.get(method)
        return answer(self, params) if answer else None

    def _command(self, params: Mapping[str, Any]) -> Answer:
        if params.get("networkApprovalContext"):
            return _decided("the network is not reached from the sandbox (agent.network)")
        if params.get("kind", "command") != "command":
            return {"decision": "accept"}, None  # input for a command that was judged before
        return _decided(self._refusal("shell", {"command": items.script_of(params.get("command"))}))

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
