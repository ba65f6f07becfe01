"""Commands that always end: with a time limit, bounded output, and no processes left behind.

``run`` waits for a command. ``start`` returns a running command, for agents. Each command runs in a separate session
under a supervisor process (``kernel/process/supervisor.py``). When the command ends, all its descendants have exited,
including daemons, even if the harness is killed. Both functions may be called from any thread.

An exit code is negative if a signal killed the command (-9 is SIGKILL)."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from agent_harness.kernel import owner
from agent_harness.kernel.process.client import SupervisorClient
from agent_harness.kernel.process.launch_spec import Sandbox, write_order
from agent_harness.kernel.process.output import CappedLog, Lines, OutputTail
from agent_harness.kernel.temporary import TemporaryFolder

GRACE_SECONDS = 2.0  # between TERM and KILL when a limit or ``stop`` ends a command
_STOP_LOOK_SECONDS = 0.1
_FOREVER = float("inf")
_STDERR_TAIL_BYTES = 65536
_STDERR_LOG_BYTES = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    exit_code: int | None  # None: ended by a limit or ``stop``, or killed together with its lifeline
    output: bytes  # standard output and error as they came, the last ``keep_bytes``
    truncated: bool  # there was more
    timed_out: bool
    stopped: bool  # by ``stop``
    seconds: float
    total_bytes: int
    over_limit: str = ""  # the limit that it exceeded, as the end of a sentence: "used 5 GiB of ..."

    @property
    def ending(self) -> str:
        """Text about the end of the command, such as ``timed out`` or ``exit 1``."""
        return "timed out" if self.timed_out else "exceeded a limit" if self.over_limit else f"exit {self.exit_code}"


def run(
    command: str | Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    timeout_seconds: float | None,
    input: bytes | None = None,  # noqa: A002
    keep_bytes: int = 65536,
    log: Path | None = None,
    log_limit_bytes: int = 8_000_000,
    on_output: Callable[[bytes], object] | None = None,
    on_errors: Callable[[bytes], object] | None = None,
    stop: Callable[[], bool] | None = None,
    grace_seconds: float = GRACE_SECONDS,
    run_id: str | None = None,
    sandbox: Sandbox | None = None,
) -> Completed:
    """Run a command. Return its result after all processes of the command have exited."""
    # background processes die a tenth of a second after the main process
    began = time.monotonic()
    deadline = _FOREVER if timeout_seconds is None else began + timeout_seconds
    tail = OutputTail(keep_bytes)
    tag = run_id or new_run_id()
    order = write_order(command, cwd=cwd, env=env, run_id=tag, sandbox=sandbox)
    written = CappedLog(log, log_limit_bytes) if log is not None else None
    take = _each(tail.add, written.write if written else None, on_output)
    try:
        with SupervisorClient(order, tag, sink=take, error_sink=on_errors, given=input or b"") as client:
            why = _watch(client, deadline, stop, grace_seconds)
    finally:
        if written:
            written.close()
    over_limit, output = client.over_limit, tail.bytes()
    return Completed(
        exit_code=None if why or over_limit else client.exit_code,
        output=output + f"\n[the harness killed the command: it {over_limit}]\n".encode() if over_limit else output,
        truncated=tail.total_bytes > len(output),
        timed_out=why == "limit",
        stopped=why == "stop",
        seconds=time.monotonic() - began,
        total_bytes=tail.total_bytes,
        over_limit=over_limit,
    )


def _watch(client: SupervisorClient, deadline: float, stop: Callable[[], bool] | None, grace_seconds: float) -> str:
    why = ""
    look_again = _STOP_LOOK_SECONDS if stop else _FOREVER
    while not client.finished:
        if not why and not client.exited:
            why = "limit" if time.monotonic() >= deadline else "stop" if stop and stop() else ""
            if why:
                client.terminate(grace_seconds)
        look = _FOREVER if why or client.exited else min(deadline - time.monotonic(), look_again)
        client.pump(look)
    return why


def start(
    command: str | Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    input: bytes | None = None,  # noqa: A002
    merge_stderr: bool = True,
    stderr_log: Path | None = None,
    on_output: Callable[[bytes], object] | None = None,
    on_errors: Callable[[bytes], object] | None = None,
    run_id: str | None = None,
    keep_background: bool = False,
    own_temporary: bool = False,
    sandbox: Sandbox | None = None,
) -> "Running":
    """Start a command. Raise ``ToolMissing`` or ``Refused`` if the command cannot be started."""
    # the run id must be unique and have at least 16 characters
    tag = run_id or new_run_id()
    with ExitStack() as kept:
        if own_temporary:
            temporary = kept.enter_context(TemporaryFolder())
            env = {**env, "TMPDIR": temporary.path}
            sandbox = sandbox and replace(sandbox, limits=sandbox.limits.on(*sandbox.limits.folders, temporary.path))
        # ``keep_background``: background processes run until ``stop`` is called or the harness ends
        order = write_order(command, cwd=cwd, env=env, run_id=tag, stays=keep_background, sandbox=sandbox)
        log = CappedLog(stderr_log, _STDERR_LOG_BYTES) if stderr_log is not None and not merge_stderr else None
        if log:
            kept.callback(log.close)
        heard = (on_output, on_errors)
        running = Running(order, tag, given=input, merge_stderr=merge_stderr, stderr_log=log, heard=heard)
        running.kept = kept.pop_all()
        return running


def exit_status(code: int) -> int:
    """Return the exit code as a shell reports it, which is 128 + n after signal n."""
    return 128 - code if code < 0 else code


def new_run_id() -> str:
    return os.urandom(16).hex()


class Running(SupervisorClient):
    """Running command. Only one thread may read its output."""

    def __init__(
        self,
        order: bytes,
        run_id: str,
        *,
        given: bytes | None,
        merge_stderr: bool,
        stderr_log: CappedLog | None,
        heard: tuple[Callable[[bytes], object] | None, Callable[[bytes], object] | None],
    ) -> None:
        self._lines = Lines()
        self._stderr = OutputTail(_STDERR_TAIL_BYTES)
        self.kept = ExitStack()  # closed once nothing of the command is left
        on_output, on_errors = heard
        # No sink may refer to this object: an unreferenced command must end at once, not at a garbage collection.
        output = _each(self._lines.feed, on_output)
        errors = None if merge_stderr else _each(self._stderr.add, on_errors, stderr_log.write if stderr_log else None)
        super().__init__(order, run_id, sink=output, error_sink=errors, given=given)
        self.owner = owner.of(self.lifeline.pid) if self.lifeline else None

    @property
    def group(self) -> int:
        """Pid of the command, which is also the id of its process group and session."""
        return self.pid

    @property
    def record(self) -> dict[str, object]:
        """Process record by which ``end_orphans`` finds the command after a crash."""
        facts: dict[str, object] = {"run_id": self.run_id, "group": self.group}
        return {**self.owner.as_record(), **facts} if self.owner else facts

    @property
    def at_end(self) -> bool:
        """True after the command and its descendants have exited and the caller has read every line."""
        return self.finished and not self._lines

    @property
    def stderr_tail(self) -> bytes:
        """Last 64 KiB of standard error. Empty if standard error is merged into the output."""
        return self._stderr.bytes()

    def read_line(self, timeout_seconds: float) -> bytes | None:
        """Return the next line without its line end, or ``None`` after the timeout or the last line."""
        until = time.monotonic() + timeout_seconds
        while (line := self._lines.pop()) is None and not self.finished:
            left = until - time.monotonic()
            self.pump(left)
            if left <= 0:
                return self._lines.pop()
        return line

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Read output until the command exits. Return the exit code, or ``None`` after the timeout."""
        until = _FOREVER if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.exited and (left := until - time.monotonic()) > 0:
            self.pump(left)
        return self.exit_code

    def stop(self, grace_seconds: float = 5.0) -> None:
        """Send SIGTERM, then SIGKILL after ``grace_seconds``, and wait until all processes have exited."""
        self.terminate(grace_seconds)
        while not self.ended:
            self.pump(_FOREVER)

    def close(self) -> None:
        """Kill all remaining processes of the command and release its resources."""
        try:
            super().close()
        finally:
            self._finish()

    def pump(self, timeout_seconds: float) -> None:
        super().pump(timeout_seconds)
        if self.finished:
            self._finish()

    def _finish(self) -> None:
        self._lines.end()
        self.kept.close()


def _each(*sinks: Callable[[bytes], object] | None) -> Callable[[bytes], object]:
    found = [sink for sink in sinks if sink is not None]

    def take(chunk: bytes) -> None:
        for sink in found:
            sink(chunk)

    return take if len(found) > 1 else found[0]
