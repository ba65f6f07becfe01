"""The harness's side of a supervisor process: starts the supervisor, reads and writes the pipes of its command, and
ensures that both end. Each call of ``pump`` polls all pipes once, without a thread or busy waiting. If the supervisor
itself is killed or frozen, this module ends every process that provably belongs to the command."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

from agent_harness.errors import HarnessError, Refused, ToolMissing
from agent_harness.kernel.process import limits, orphans, supervisor

Sink = Callable[[bytes], object]

CHUNK_BYTES = 1 << 18
_START_SECONDS = 60.0
_LATE_SECONDS = supervisor.KILL_SECONDS + 2.0  # how late a lifeline may be before this end takes over
_LAST_BYTES = 4 << 20  # read at most after the end, should a stranger hold the pipe and keep writing
_LONGEST_POLL_SECONDS = 10.0  # another thread's ``stop`` may have set a nearer moment meanwhile
_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


class SupervisorClient:
    """Command under a supervisor process. The command ends together with the harness."""

    def __init__(
        self, order: bytes, run_id: str, *, sink: Sink, error_sink: Sink | None = None, given: bytes | None = None
    ) -> None:
        """Start the command. Raise ``ToolMissing`` or ``Refused`` if the command cannot be started."""
        self.run_id = run_id
        self.pid = 0
        # negative after a signal, None as long as no exit was observed
        self.exit_code: int | None = None
        # the exceeded limit, as the end of a sentence
        self.over_limit = ""
        # the command and its descendants have exited
        self.ended = False
        self.lifeline: subprocess.Popen[bytes] | None = None
        self._stays = order.startswith(b"stay\0")
        self._poller = select.poll()
        self._lock = threading.RLock()  # held while the pipes are moved, waiting included
        self._closing = threading.RLock()  # held while a descriptor is closed, or written to from outside
        self._open: set[int] = set()
        self._sinks: dict[int, Sink] = {}
        self._control = self._status = self._report = self._input = self._command = -1
        self._heard = b""
        self._said_end = False
        self._failure = ""
        self._take_over_at: float | None = None
        self._last_bytes = 0
        self._unwritten = bytearray(given or b"")
        self._input_ends = given is not None
        try:
            self._spawn(sink, error_sink)
            self._give(order)
            self._await_start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def exited(self) -> bool:
        """True after the command itself has exited, even if descendants still run."""
        return self.ended or self.exit_code is not None

    @property
    def finished(self) -> bool:
        return self.ended and self._open.isdisjoint(self._sinks)

    def pump(self, timeout_seconds: float) -> None:
        """Wait at most ``timeout_seconds`` until a pipe is ready, then transfer the data of all ready pipes."""
        with self._lock:
            last = self.ended
            ready = [descriptor for descriptor, _ in self._poller.poll(self._deadline(timeout_seconds) * 1000)]
            for descriptor in ready:
                if descriptor in self._open:
                    self._move(descriptor)
            if last and self._sinks.keys().isdisjoint(ready):
                self._close(*self._sinks)
            if not self.ended and self._take_over_at is not None and time.monotonic() >= self._take_over_at:
                self._take_over()

    def terminate(self, grace_seconds: float) -> None:
        """Ask the supervisor to send SIGTERM now and SIGKILL after ``grace_seconds``."""
        # the caller must ``pump`` until the command ends
        if not self.ended:
            with self._closing, contextlib.suppress(OSError):
                if self._control in self._open:
                    os.write(self._control, b"%.3f\n" % max(0.0, grace_seconds))
            self._expect_end(max(0.0, grace_seconds))

    def write(self, text: bytes) -> bool:
        """Queue bytes for the command's standard input. Return False if the input is already closed."""
        with self._lock:
            if self._input not in self._open or self._input_ends:
                return False
            self._unwritten += text
            self._write_input()
            return self._input in self._open

    def close_input(self) -> None:
        """Close the command's standard input after all queued bytes are written."""
        with self._lock:
            self._input_ends = True
            self._write_input()

    def close(self) -> None:
        """Kill all remaining processes of the command and close the pipes."""
        try:
            with self._lock:
                if self.lifeline is not None and not self.ended:
                    self._sinks = dict.fromkeys(self._sinks, lambda _: None)
                    self._close(self._control)
                    self._expect_end(0.0)
                    while not self.ended:
                        self.pump(_LATE_SECONDS)
        finally:
            self._close(*self._open)

    def __del__(self) -> None:
        self._close(*self._open)  # the lifeline sees it, and ends a forgotten command

    # starting

    def _spawn(self, sink: Sink, error_sink: Sink | None) -> None:
        control, self._control = self._pipe()
        self._status, status = self._pipe()
        self._report, report = self._pipe()
        stdin, self._input = self._pipe()
        output, stdout = self._pipe(CHUNK_BYTES)
        errors, stderr = self._pipe(CHUNK_BYTES) if error_sink else (output, stdout)
        self._sinks = {errors: error_sink or sink, output: sink}
        ends = (control, status, report)
        # some Python builds need the library paths
        passed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
        try:
            self.lifeline = subprocess.Popen(
                [sys.executable or "python3", "-S", "-E", "-I", supervisor.__file__, *map(str, ends)],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=ends,
                cwd="/",
                env={**passed, orphans.RUN_ID: self.run_id},
                start_new_session=True,
            )
        except OSError as error:
            raise _not_started(f"cannot be started: {error.strerror}") from error
        self._close(*ends, stdin, stdout, stderr)
        for descriptor in (self._status, self._report, *self._sinks):
            self._poller.register(descriptor, select.POLLIN)
        for descriptor in self._open:
            os.set_blocking(descriptor, False)

    def _pipe(self, size: int = 0) -> tuple[int, int]:
        try:
            reader, writer = map(_above_standard, os.pipe())
        except OSError as error:
            raise _not_started(f"cannot be started: {error.strerror}") from error
        self._open.update((reader, writer))
        if size:
            with contextlib.suppress(OSError, AttributeError):  # over the user's share of pipe memory; macOS
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, size)
        return reader, writer

    def _give(self, order: bytes) -> None:
        rest = memoryview(len(order).to_bytes(8, "big") + order)
        poller = select.poll()
        poller.register(self._control, select.POLLOUT)
        while rest:
            if not poller.poll(_START_SECONDS * 1000):
                raise _not_started("did not read its launch order")
            try:
                rest = rest[os.write(self._control, rest) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return  # the end of the status pipe says the same

    def _await_start(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while self._report in self._open and not self.ended:
            if time.monotonic() >= until:
                raise _not_started("was not ready in time")
            self.pump(until - time.monotonic())
        if self._failure:
            raise _failure(*self._failure.split())
        if not self.pid:
            raise _not_started("exited immediately")
        self._write_input()

    # moving

    def _deadline(self, timeout_seconds: float) -> float:
        if self.ended:
            return 0.0
        if self._take_over_at is not None:
            timeout_seconds = min(timeout_seconds, self._take_over_at - time.monotonic())
        return max(0.0, min(timeout_seconds, _LONGEST_POLL_SECONDS))

    def _move(self, descriptor: int) -> None:
        if descriptor in self._sinks:
            self._read_output(descriptor)
        elif descriptor == self._status:
            self._read_status()
        elif descriptor == self._report:
            self._failure = os.read(self._report, 4096).decode("ascii")
            self._close(self._report)
        elif descriptor == self._input:
            self._write_input()
        else:
            self._close(self._command)
            self._command_died()

    def _read_output(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return
        self._last_bytes += len(chunk) if self.ended else 0
        if not chunk or self._last_bytes > _LAST_BYTES:
            self._close(descriptor)
        if chunk:
            self._sinks[descriptor](chunk)

    def _write_input(self) -> None:
        if self._input not in self._open:
            return
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self._input, self._unwritten[:CHUNK_BYTES])]
        except BlockingIOError:
            self._poller.register(self._input, select.POLLOUT)
            return
        except OSError:  # nobody reads it any more
            self._unwritten.clear()
            self._close(self._input)
            return
        with contextlib.suppress(KeyError):
            self._poller.unregister(self._input)
        if self._input_ends:
            self._close(self._input)

    def _read_status(self) -> None:
        text = os.read(self._status, 4096)
        *lines, self._heard = (self._heard + text).split(b"\n")
        for line in lines:
            self._hear(*line.decode("ascii").split())
        if not text:
            self._close(self._status)
            if self._said_end:
                self._conclude(rounds=1)
            else:
                self._take_over()

    def _hear(self, word: str, *rest: str) -> None:
        if word == "started":
            self.pid = int(rest[0])
            self._watch_command()
        elif word == "limit":
            self.over_limit = limits.told(" ".join(rest))
        elif word == "exited":
            self.exit_code = int(rest[0])
            self._close(self._input)
            self._command_died()
        elif word == "ended":
            self._said_end = True

    # the end

    def _command_died(self) -> None:
        if not self._stays:
            self._expect_end(0.0)

    def _expect_end(self, grace_seconds: float) -> None:
        moment = time.monotonic() + grace_seconds + _LATE_SECONDS
        self._take_over_at = moment if self._take_over_at is None else min(moment, self._take_over_at)
        if self.lifeline is not None:
            # the supervisor may be suspended
            self.lifeline.send_signal(signal.SIGCONT)

    def _watch_command(self) -> None:
        try:
            self._command = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return
        self._open.add(self._command)
        # otherwise the pid may be reused
        if self.lifeline is not None and supervisor.parent_of(self.pid) == self.lifeline.pid:
            self._poller.register(self._command, select.POLLIN)
        else:
            self._close(self._command)

    def _take_over(self) -> None:
        """Kill the supervisor and every process of its command."""
        if self._command in self._open:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._command, signal.SIGKILL, None, _GROUP)
        if self.lifeline is not None and self.lifeline.poll() is None:
            orphans.end_descendants(self.lifeline.pid)
            self.lifeline.kill()
        self._conclude(rounds=2)

    def _conclude(self, *, rounds: int) -> None:
        if self.lifeline is not None:
            self.lifeline.wait()
        orphans.sweep(self.run_id, rounds=rounds)
        self.ended = True
        self._close(self._control, self._status, self._report, self._input, self._command)

    def _close(self, *descriptors: int) -> None:
        with self._closing:
            for descriptor in descriptors:
                if descriptor in self._open:
                    self._open.discard(descriptor)
                    with contextlib.suppress(KeyError):
                        self._poller.unregister(descriptor)
                    os.close(descriptor)


def _above_standard(descriptor: int) -> int:
    if descriptor > 2:
        return descriptor
    higher = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return higher


def _not_started(what: str) -> HarnessError:
    return Refused(f"The process that supervises a command {what}.")


def _failure(step: str, number: str) -> HarnessError:
    reason = os.strerror(int(number))
    if step == "program":
        return ToolMissing(
            f"The program cannot be started: {reason}.", hint="Run the command yourself to see the reason."
        )
    if step == "sandbox":
        hint = "harness doctor  # lists the sandboxes; set HARNESS_SANDBOX to another one, or to off"
        return Refused(f"The command cannot be started in its sandbox: {reason}.", hint=hint)
    return Refused(f"The command cannot be started ({step}): {reason}.")
