"""One turn of Claude Code: a process, the messages that go to it, and its right end.

The client ends a turn of the model with a ``result``. There may be several: a message that came late, or a sub-agent
that ends in the background, begins another. Standard input is closed once nothing more is to come, and the lines are
read to their end; the last result decides.
"""

import json
import os
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_harness.agents import limits
from agent_harness.agents.base import Brief
from agent_harness.agents.claude_code import command, stream
from agent_harness.agents.claude_code.settings import ClaudeCodeSettings
from agent_harness.agents.command import CommandTurn, line_of
from agent_harness.agents.events import Finished, Text
from agent_harness.kernel import process

LINGER_SECONDS = 10.0  # between the last result and the end of a process that something in the background holds
UNHEARD_SECONDS = 60.0  # the same, while a message is on its way
LONGEST_TEXT = 2000  # of a line that is no JSON


class ClaudeTurn(CommandTurn):
    """One run of the client; started a second time, without its memory, when the conversation is lost."""

    def __init__(self, settings: ClaudeCodeSettings, brief: Brief) -> None:
        self._settings, self._brief = settings, brief
        self._mcp_file = _private_file(command.mcp_config(brief.tools.mcp_servers)) if brief.tools.mcp_servers else None
        self._resumes = bool(brief.conversation)
        try:
            super().__init__(self._start())
        except BaseException:
            self._forget_file()
            raise

    def _start(self) -> process.Running:
        brief = self._brief
        self.conversation = brief.conversation if self._resumes and brief.conversation else str(uuid.uuid4())
        self._stream = stream.Stream(resumed=self._resumes)
        self._sent = 0
        self._open = True  # standard input
        self._over = False  # stopped by us after the last result
        running = process.start(
            command.words(
                self._settings, brief, session=self.conversation, resumes=self._resumes, mcp_file=self._mcp_file
            ),
            cwd=brief.cwd,
            env=command.environment(brief),
            merge_stderr=False,
            run_id=brief.run_id,
        )
        self._say(running, brief.prompt)
        return running

    # ---- messages

    def steer(self, text: str) -> bool:
        """True when the client was given the message; it takes it up at the next tool call, or as a further turn."""
        return self._open and not self._ended and self._say(self._running, text)

    def interrupt(self) -> bool:
        """Asks the client to end the model's turn; it answers with a ``result``."""
        asked = {"type": "control_request", "request_id": "interrupt", "request": {"subtype": "interrupt"}}
        return self._open and not self._ended and _write(self._running, asked)

    def _say(self, running: process.Running, text: str) -> bool:
        message = {"role": "user", "content": text.encode("utf-8", "replace").decode("utf-8")}
        written = _write(running, {"type": "user", "message": message})
        self._sent += written
        return written

    # ---- lines

    def _take(self, line: bytes) -> None:
        if line.startswith(stream.DELTA):
            return
        record = _record(line)
        if record is None:
            self._ready.append(Text(line_of(line)[:LONGEST_TEXT]))
            return
        self._ready.extend(self._stream.events(record))
        self.conversation = self._stream.session or self.conversation
        self._look_for_the_end()

    def _look_for_the_end(self) -> None:
        """Closes standard input when nothing more is to come, and sets how long the client may live on after that."""
        read = self._stream
        if not read.at_rest or read.waits_for_agents:
            self._lingers_until, self._over = float("inf"), False
            return
        waits = self._sent > read.heard
        if not waits and self._open:
            self._open = False
            self._running.close_input()
        self._over = True
        if self._lingers_until == float("inf"):
            self._lingers_until = time.monotonic() + (UNHEARD_SECONDS if waits else LINGER_SECONDS)

    # ---- the end

    def _end(self) -> None:
        result = self._stream.result
        errors = self._running.stderr_tail.decode("utf-8", "replace")
        if self._resumes and not self._stopped and stream.lost_conversation(result, errors):
            self._ready.append(Text("[the conversation is lost; a new one begins]"))
            self._running.close()
            self._resumes = False
            self._lingers_until = float("inf")
            self._running = self._start()
            return
        self._forget_file()
        code = self._running.exit_code
        well = result is not None and result.get("is_error") is False
        ok = well and (code == 0 or (self._over and self._lingers_until <= time.monotonic()))
        if not well:
            self._take_errors()
        why = "" if ok else stream.reason(result) if result and not well else self._reason(code)
        if not ok and not self._stream.refused and (refused := limits.from_text("\n".join(self._last_lines))):
            self._ready.append(refused)
        self._ready.append(Finished(ok=ok, message=why, exit_code=code))

    def stop(self, grace_seconds: float = 5.0) -> None:
        """Ends the client and everything that it started."""
        self._stopped = True
        self._open = False
        super().stop(grace_seconds)
        self._forget_file()

    _stopped = False

    def _forget_file(self) -> None:
        if self._mcp_file is not None:
            self._mcp_file.unlink(missing_ok=True)


def _write(running: process.Running, message: Mapping[str, object]) -> bool:
    return running.write(json.dumps(message).encode() + b"\n")


def _record(line: bytes) -> Mapping[str, object] | None:
    with suppress(ValueError, RecursionError):
        value = json.loads(line)
        return value if isinstance(value, dict) else None
    return None


def _private_file(text: str) -> Path:
    """A new file that nobody else may read: what servers are given does not belong on a command line."""
    handle, name = tempfile.mkstemp(prefix="harness-mcp-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)
