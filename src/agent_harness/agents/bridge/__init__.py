"""The harness's side of a bridge to an agent that runs as a separate program and receives messages while it works.

The program (its side is ``worker``) runs in a separate process. An SDK therefore never runs in the harness, and the
whole agent can be ended as one process group. Both sides send JSON lines. The harness sends:

    {"type": "brief", ...}         first, once: the brief, the adapter's settings, the stored text of an earlier turn
    {"type": "steer", "text"}      a message for the running turn
    {"type": "interrupt"}          a request to end the turn
    {"type": "go"}                 the answer to ``ask``

The program sends the events of the command interface (``events.py``), and three lines that are not events:

    {"type": "ask", "last": bool}  before a request to a model, and before the end of a turn (``last``)
    {"type": "conversation", "id"} the id with which a later turn can continue
    {"type": "keep", "text"}       a piece of text that the adapter stores for a later turn

The harness sends ``go`` only after its monitors have processed all events before the ``ask``. A monitor's message about
an event can therefore be part of the next request. The program accepts messages until it receives the ``go`` for an
``ask`` with ``last``. So the agent receives every message that ``steer`` reports as delivered."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agent_harness.agents.base import Brief, sandbox_of
from agent_harness.agents.command import CommandTurn, environment_of, line_of, refusal_from_text
from agent_harness.agents.events import Finished, RateLimited, event_from, object_of_line
from agent_harness.kernel import process


def start(
    module: str,
    brief: Brief,
    *,
    settings: Mapping[str, object] | None = None,
    kept: str | None = None,
    steerable: bool = True,
    credentials: Mapping[str, str] | None = None,
) -> "BridgeTurn":
    """Start ``python -m module`` in the project, send the brief to the program, and return the running turn."""
    # ``settings`` are never stored on disk; ``credentials`` are variables of this program only
    running = process.start(
        [sys.executable, "-P", "-m", module],  # -P: a file of the project replaces no module
        cwd=brief.cwd,
        env=process.scrubbed_environment({**environment_of(brief), **(credentials or {})}, keep_agent_credentials=True),
        merge_stderr=False,
        run_id=brief.run_id,
        own_temporary=True,
        sandbox=sandbox_of(brief),
    )
    turn = BridgeTurn(running, steerable=steerable)
    turn.send({"type": "brief", "brief": brief_record(brief), "settings": dict(settings or {}), "kept": kept})
    return turn


def brief_record(brief: Brief) -> dict[str, Any]:
    told = {**asdict(brief), "cwd": str(brief.cwd)}
    return {name: value for name, value in told.items() if name not in ("sandbox", "places")}


class BridgeTurn(CommandTurn):
    def __init__(self, running: process.Running, *, steerable: bool = True) -> None:
        super().__init__(running)
        self._kept: list[str] = []
        self._steered_since_go = False
        self._accepts = steerable  # messages still reach the agent
        self._refused = False

    @property
    def kept(self) -> str | None:
        return "".join(self._kept) if self._kept else None

    def steer(self, text: str) -> bool:
        if not self._accepts or not self.send({"type": "steer", "text": text}):
            return False
        self._steered_since_go = True
        return True

    def interrupt(self) -> bool:
        return self._claimed is None and not self._ended and self.send({"type": "interrupt"})

    def send(self, record: Mapping[str, object]) -> bool:
        """Send a JSON line to the program. Return False if the program does not read any more."""
        return self._running.write(json.dumps(record).encode() + b"\n")

    def _take(self, line: bytes) -> None:
        record = object_of_line(line)
        if record is None:  # not part of the conversation: only its end is kept, as the reason of a failure
            self._last_lines.append(line_of(line)[-500:])
            return
        answer = _ANSWERS.get(str(record.get("type")))
        if answer is not None:
            answer(self, record)
            return
        event = event_from(record)
        if isinstance(event, Finished):
            self._claim(event)
            self._accepts = False
        elif event is not None:
            self._refused = self._refused or isinstance(event, RateLimited)
            self._ready.append(event)

    def _answer_ask(self, record: Mapping[str, Any]) -> None:
        if record.get("last") is True and not self._steered_since_go:
            self._accepts = False
        self._steered_since_go = False
        self.send({"type": "go"})

    def _name_conversation(self, record: Mapping[str, Any]) -> None:
        name = record.get("id")
        self.conversation = name if isinstance(name, str) and name else None

    def _keep(self, record: Mapping[str, Any]) -> None:
        text = record.get("text")
        self._kept.append(text if isinstance(text, str) else "")

    def _end(self) -> None:
        self._accepts = False
        code = self._running.exit_code
        if self._claimed is not None and (code == 0 or not self._claimed.ok):
            self._ready.append(Finished(ok=self._claimed.ok, message=self._claimed.message, exit_code=code))
            return
        self._take_errors()
        refused = None if self._refused else refusal_from_text("\n".join(self._last_lines))
        if refused is not None:
            self._ready.append(refused)
        self._ready.append(Finished(ok=False, message=self._reason(code), exit_code=code))


_ANSWERS = {
    "ask": BridgeTurn._answer_ask,
    "conversation": BridgeTurn._name_conversation,
    "keep": BridgeTurn._keep,
}
