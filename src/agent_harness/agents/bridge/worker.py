"""The program's side of a bridge, which exchanges messages with the harness.

The package docstring lists the message lines. After a ``Harness`` is created, standard output is only for messages to
the harness. Other output goes to standard error. All code runs in one event loop."""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from agent_harness.agents.base import Brief, McpServer, ToolRules
from agent_harness.agents.events import Event, Finished, Text, record_of

LONGEST_LINE_BYTES = 900_000  # the harness cuts lines over 1 MiB
PIECE_CHARACTERS = 100_000
SHOWN_CHARACTERS = 4_000  # of each text in the input of a tool call that does not fit into a line


class HarnessGone(Exception):
    """Error: the harness closed its side of the bridge, so nobody receives the results."""


class Harness:
    def __init__(self) -> None:
        sys.stdout.flush()
        self._out = os.dup(1)
        os.dup2(2, 1)
        self._heard = bytearray()
        self._order: asyncio.Future[Mapping[str, Any]] | None = None
        self._go: asyncio.Future[None] | None = None
        self._messages: deque[str] = deque()
        self.interrupted = asyncio.Event()
        self.gone = asyncio.Event()

    async def order(self) -> Mapping[str, Any]:
        """Begin to read from the harness, and return the first record."""
        loop = asyncio.get_running_loop()
        self._order = loop.create_future()
        os.set_blocking(0, False)
        loop.add_reader(0, self._hear)
        return await self._order

    def say(self, event: Event) -> None:
        """Send an event to the harness. Split a long text into several events."""
        if isinstance(event, Text) and len(event.text) > PIECE_CHARACTERS:
            for piece in _pieces(event.text):
                self.send(record_of(Text(piece)))
        else:
            self.send(record_of(event))

    def send(self, record: Mapping[str, Any]) -> None:
        """Send a JSON line to the harness. Raise ``HarnessGone`` if the harness does not read any more."""
        line = _line(record)
        if len(line) > LONGEST_LINE_BYTES:
            line = _line(_shortened(record))
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._out, rest) :]
        except BrokenPipeError as error:
            raise HarnessGone from error

    def name_conversation(self, name: str, kept: str = "") -> None:
        """Send the id and the text of the conversation. The harness stores both for a later turn."""
        for piece in _pieces(kept):
            self.send({"type": "keep", "text": piece})
        self.send({"type": "conversation", "id": name})

    async def may_go_on(self, *, last: bool = False) -> list[str]:
        """Wait until the harness has processed all events. Return the new messages from the harness."""
        # with ``last``, the turn ends if there are no messages
        self._go = asyncio.get_running_loop().create_future()
        if self.gone.is_set():
            raise HarnessGone
        self.send({"type": "ask", "last": last})
        await self._go
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def _hear(self) -> None:
        try:
            heard = os.read(0, 1 << 20)
        except BlockingIOError:
            return
        if not heard:
            asyncio.get_running_loop().remove_reader(0)
            self.gone.set()
            for waiting in (self._order, self._go):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(HarnessGone())
            return
        *lines, rest = heard.split(b"\n")
        for line in lines:
            self._take(bytes(self._heard + line))
            self._heard.clear()
        self._heard += rest

    def _take(self, line: bytes) -> None:
        record = json.loads(line)
        match record.get("type"):
            case "brief" if self._order is not None and not self._order.done():
                self._order.set_result(record)
            case "steer":
                self._messages.append(record["text"])
            case "interrupt":
                self.interrupted.set()
            case "go" if self._go is not None and not self._go.done():
                self._go.set_result(None)


def ending(work: "asyncio.Task[Sequence[Event]]", what: str) -> Sequence[Event]:
    """Return the final events of ``work``. An unexpected error becomes a ``Finished`` event."""
    error = work.exception()
    if error is None:
        return work.result()
    if isinstance(error, HarnessGone):
        raise error
    import traceback

    traceback.print_exception(error)
    told = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return (Finished(ok=False, message=f"the {what} agent stopped: {told}"),)


def run(turn: Callable[[Harness], Coroutine[Any, Any, None]]) -> NoReturn:
    """Run one turn, then exit this process without further waiting."""
    # without a wait for threads of libraries or processes of the agent
    with suppress(HarnessGone):
        asyncio.run(turn(Harness()))
    sys.stderr.flush()
    os._exit(0)


def brief_from(record: Mapping[str, Any]) -> Brief:
    tools: Mapping[str, Any] = record["tools"]
    servers = {
        name: McpServer(command=tuple(server["command"]), env=server["env"])
        for name, server in tools["mcp_servers"].items()
    }
    lists = {name: tuple(value) for name, value in tools.items() if isinstance(value, list)}
    rules: dict[str, Any] = {**tools, **lists, "mcp_servers": servers}
    given: dict[str, Any] = {**record, "cwd": Path(record["cwd"]), "tools": ToolRules(**rules)}
    return Brief(**given)


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, default=str).encode() + b"\n"


def _shortened(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _shortened(value) if isinstance(value, dict) else _cut(value) for name, value in record.items()}


def _cut(value: object) -> object:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) <= SHOWN_CHARACTERS:
        return value
    return f"{text[:SHOWN_CHARACTERS]}... ({len(text) - SHOWN_CHARACTERS} characters more)"
