"""The near end of a bridge: an agent that runs as a program of ours, and is spoken to while it works.

The program (``worker`` is its end) runs in a process of its own, so that an SDK never lives in the harness and the
whole agent can be ended as a group. Both sides speak JSON lines. To the program go

    {"type": "brief", ...}         first, once: the brief, the adapter's settings, what an earlier turn left to be kept
    {"type": "steer", "text"}      a message for the running turn
    {"type": "interrupt"}          end the turn
    {"type": "go"}                 the answer to ``ask``

and from it come the events of the command seam (``events.py``), and three lines that are no events:

    {"type": "ask", "last": bool}  before a request to a model, and before the end of a turn (``last``)
    {"type": "conversation", "id"} the name under which a later turn can go on
    {"type": "keep", "text"}       a piece of what the adapter is to remember for that turn

``go`` is sent only after every event before the ``ask`` was handed out and its receiver came back for more. What the
receiver says about an event therefore reaches the very next request. A message is accepted until the ``go`` after a
last ``ask``: what ``steer`` says it delivered, the agent is told.
"""

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
    """Starts ``python -m module`` in the project and hands it the brief.

    ``settings`` are the adapter's own and end up in the child's memory only; ``kept`` is what ``BridgeTurn.kept`` held
    after an earlier turn; ``credentials`` are variables for the program alone. A program that cannot pass messages on
    is not ``steerable``. Raises what ``process.start`` raises.
    """
    running = process.start(
        [sys.executable, "-P", "-m", module],  # -P: a file of the project takes the place of no module
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
    """The brief as JSON values."""
    told = {**asdict(brief), "cwd": str(brief.cwd)}
    return {name: value for name, value in told.items() if name not in ("sandbox", "places")}


class BridgeTurn(CommandTurn):
    """One run of a bridged program."""

    def __init__(self, running: process.Running, *, steerable: bool = True) -> None:
        super().__init__(running)
        self._kept: list[str] = []
        self._steered_since_go = False
        self._accepts = steerable  # messages still reach the agent
        self._refused = False

    @property
    def kept(self) -> str | None:
        """What the program asked to be remembered for a later turn; ``None`` when it did not."""
        return "".join(self._kept) if self._kept else None

    def steer(self, text: str) -> bool:
        """True when the message will be in the agent's next request; False once no further request is to come."""
        if not self._accepts or not self.send({"type": "steer", "text": text}):
            return False
        self._steered_since_go = True
        return True

    def interrupt(self) -> bool:
        """Asks the program to end the turn; it answers with ``Finished``."""
        return self._claimed is None and not self._ended and self.send({"type": "interrupt"})

    def send(self, record: Mapping[str, object]) -> bool:
        """Writes one line to the program; False when it does not listen any more."""
        return self._running.write(json.dumps(record).encode() + b"\n")

    def _take(self, line: bytes) -> None:
        record = object_of_line(line)
        if record is None:  # no part of the conversation: only its end is remembered, as the reason of a bad end
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
