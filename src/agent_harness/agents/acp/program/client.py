"""What the agent asks of us, answered by the guard rails, and what it tells, turned into our events."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from acp import RequestError, schema

from agent_harness.agents.base import ToolRules
from agent_harness.agents.events import Event, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.guardrails.toolcheck import refusal

OUTPUT_CHARACTERS = 20_000
_TOO_LONG = 8_000  # a text without a line end is handed on from here


class Updates:
    """Takes the updates of one turn and says them as events."""

    def __init__(self, say: Callable[[Event], None]) -> None:
        self._say = say
        self._text = ""
        self._open: set[str] = set()
        self._cost = 0.0  # of the session so far, as the agent last told it
        self._context: int | None = None
        self.silent = False  # while an earlier session is told again

    def take(self, update: object) -> None:
        """One update of the agent."""
        if self.silent:
            if isinstance(update, schema.UsageUpdate) and update.cost is not None:
                self._cost = max(self._cost, update.cost.amount)
        elif isinstance(update, schema.AgentMessageChunk):
            self._add(update.content)
        elif isinstance(update, schema.ToolCallStart):
            self.flush()
            self._open.add(update.tool_call_id)
            self._say(ToolCall(name=update.kind or "other", input=input_of(update), id=update.tool_call_id))
            if update.status in ("completed", "failed"):
                self._end(update.tool_call_id, update.status, update.content, update.raw_output)
        elif isinstance(update, schema.ToolCallProgress):
            if update.status in ("completed", "failed") and update.tool_call_id in self._open:
                self.flush()
                self._end(update.tool_call_id, update.status, update.content, update.raw_output)
        elif isinstance(update, schema.UsageUpdate):
            self.flush()
            self._context = update.used
            told = update.cost is not None and update.cost.currency.upper() == "USD"
            cost = update.cost.amount if update.cost is not None and told else None
            self._say(Usage(cost_usd=None if cost is None else max(0.0, cost - self._cost), context_tokens=update.used))
            self._cost = self._cost if cost is None else max(cost, self._cost)

    def finish(self, used: schema.Usage | None) -> None:
        """The turn is over: what is held back is said, and the tokens where the agent tells them."""
        self.flush()
        if used is not None and used.total_tokens:
            self._say(
                Usage(
                    input_tokens=used.input_tokens,
                    output_tokens=used.output_tokens,
                    cached_tokens=used.cached_read_tokens or 0,
                    cache_write_tokens=used.cached_write_tokens or 0,
                    cost_usd=0.0 if self._cost else None,  # the cost was told on the way
                    context_tokens=self._context,
                )
            )

    def flush(self) -> None:
        """Says the text that is held back."""
        if self._text.strip():
            self._say(Text(self._text.rstrip("\n")))
        self._text = ""

    def _add(self, content: object) -> None:
        if not isinstance(content, schema.TextContentBlock):
            return
        self._text += content.text
        whole, newline, rest = self._text.rpartition("\n")
        if newline:
            self._text = whole
            self.flush()
            self._text = rest
        elif len(rest) > _TOO_LONG:
            self.flush()

    def _end(self, name: str, status: str, content: Any, raw: object) -> None:
        self._open.discard(name)
        texts = []
        for part in content or []:
            if isinstance(part, schema.ContentToolCallContent) and isinstance(part.content, schema.TextContentBlock):
                texts.append(part.content.text)
            elif isinstance(part, schema.FileEditToolCallContent):
                texts.append(f"edited {part.path}")
        text = "\n".join(texts) or (raw if isinstance(raw, str) else "")
        self._say(ToolResult(output=text[:OUTPUT_CHARACTERS], id=name, is_error=status == "failed"))


def input_of(call: schema.ToolCallStart | schema.ToolCallUpdate) -> Mapping[str, Any]:
    """What a tool is called with: its own input, its title, and the first place that it names."""
    raw = call.raw_input
    given: dict[str, Any] = dict(raw) if isinstance(raw, dict) else {}
    if call.title:
        given.setdefault("title", call.title)
    places = [place.path for place in call.locations or []]
    places += [part.path for part in call.content or [] if isinstance(part, schema.FileEditToolCallContent)]
    if places and not {"path", "file_path", "notebook_path"} & set(given):
        given["path"] = places[0]
    return given


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
        why = refusal(
            "Read" if tool_call.kind in READING else (tool_call.title or "other"),
            input_of(tool_call),
            self._root,
            self._rules,
        )
        if why is not None:
            self._updates.flush()
            self._say(Text(f"[agent-harness] refused: {why}"))
        chosen = next(
            (
                option.option_id
                for kind in (("reject_once", "reject_always") if why else ("allow_once", "allow_always"))
                for option in options
                if option.kind == kind
            ),
            None,
        )
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
