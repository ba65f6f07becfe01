"""What an ACP agent can ask of the harness: permission, judged by the guard rails. It gets no files and no terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp import RequestError, schema

from agent_harness.agents.acp.program.updates import Updates, input_of
from agent_harness.agents.base import ToolRules
from agent_harness.agents.events import Text
from agent_harness.agents.guardrails.toolcheck import refusal

READING = ("read", "search", "think", "fetch")


class AcpClient:
    """Our side of the connection."""

    def __init__(self, root: Path, rules: ToolRules, updates: Updates, say: Any) -> None:
        self._root = root
        self._rules = rules
        self._updates = updates
        self._say = say

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """The agent tells what it does."""
        self._updates.take(update)

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        """Yes to what the guard rails let pass, no to the rest; nobody is asked."""
        why = refusal(_tool(tool_call), input_of(tool_call), self._root, self._rules)
        if why is not None:
            self._updates.flush()
            self._say(Text(f"[agent-harness] refused: {why}"))
        chosen = _option(options, ("reject_once", "reject_always") if why else ("allow_once", "allow_always"))
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        selected = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=selected)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """No extension is known."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Extensions are not listened to."""

    def on_connect(self, conn: Any) -> None:
        """Nothing is to be done."""


def _tool(call: schema.ToolCallUpdate) -> str:
    """The tool in the words of the guard rails: one that changes nothing is a reader."""
    return "Read" if call.kind in READING else (call.title or "other")


def _option(options: Sequence[schema.PermissionOption], kinds: Sequence[str]) -> str | None:
    return next((option.option_id for kind in kinds for option in options if option.kind == kind), None)
