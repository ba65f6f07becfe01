"""Processes of ``harness``, forked from a process that has already imported ``harness``. This saves a third of the time
of a short session.

A server process imports the modules of the commands, but runs no command itself. It forks a child process for each
command. The child gets the streams, variables, working directory and umask of the call, and ends like any process. The
server then imports the modules that the command has loaded, for later commands. A command needs a new process if its
variables change the start of Python."""

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

__all__ = ["run"]

_FROM_START = ("LANG", "LANGUAGE", "LC_", "PYTHON", "TZ")  # variables that a process reads when it starts
_MEASURE = 65536
_OURS = tuple(
    os.path.realpath(each) + os.sep
    for each in (Path(__file__).parents[2], Path(json.__file__).parents[1], *sys.path)
    if Path(each).is_dir()
)


def run(
    words: Sequence[str], *, cwd: Path | None, given: bytes, environ: Mapping[str, str] | None, seconds: float
) -> tuple[int, bytes, bytes] | None:
    """Run ``harness``. Return its exit code, stdout and stderr, or None if only a fresh process can run it."""
    variables = dict(os.environ if environ is None else environ)
    if _at_start(variables) != _at_start(os.environ) or not _BUSY.acquire(blocking=False):
        return None
    try:
        return _ForkServer.current().run([*words], cwd or Path.cwd(), given, variables, seconds)
    finally:
        _BUSY.release()


_BUSY = Lock()


def _at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in variables.items() if name.startswith(_FROM_START)}


class _ForkServer:
    _of: "tuple[int, _ForkServer] | None" = None

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        words = [sys.executable, "-m", __name__, str(theirs.fileno())]
        own = {"PATH": os.environ.get("PATH", os.defpath), **_at_start(os.environ)}  # and no mark of a test
        self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd="/", env=own)
        theirs.close()
        self._socket, self._answers = ours, ours.makefile("r", encoding="utf-8")
        atexit.register(self._close)

    @classmethod
    def current(cls) -> "_ForkServer":
        if cls._of is None or cls._of[0] != os.getpid() or cls._of[1]._process.poll() is not None:
            cls._of = os.getpid(), cls()
        return cls._of[1]

    def _close(self) -> None:
        self._socket.close()
        self._answers.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def run(
        self, words: list[str], cwd: Path, given: bytes, variables: dict[str, str], seconds: float
    ) -> tuple[int, bytes, bytes]:
        umask = os.umask(0o077)
        os.umask(umask)
        job = {"words": words, "cwd": str(cwd), "variables": variables, "umask": umask}
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        theirs = [stdin[0], stdout[1], stderr[1]]
        text = json.dumps(job).encode() + b"\n"
        socket.send_fds(self._socket, [text[:1]], theirs)
        self._socket.sendall(text[1:])
        for each in theirs:
            os.close(each)
        child = int(self._answers.readline())
        try:
            out, err = _spoken(stdin[1], (stdout[0], stderr[0]), given, time.monotonic() + seconds)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._answers.readline()
            raise subprocess.TimeoutExpired(words, seconds) from None
        return int(self._answers.readline()), out, err


def _spoken(stdin: int, streams: tuple[int, int], given: bytes, until: float) -> tuple[bytes, bytes]:
    found: dict[int, list[bytes]] = {each: [] for each in streams}
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for each in streams:
            selector.register(each, selectors.EVENT_READ)
            stack.callback(os.close, each)
        os.set_blocking(stdin, False)
        selector.register(stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(until - time.monotonic())
            if time.monotonic() > until:
                raise TimeoutError
            for key, _ in ready:
                if key.fd != stdin:
                    found[key.fd].append(os.read(key.fd, _MEASURE))
                    if not found[key.fd][-1]:
                        selector.unregister(key.fd)
                    continue
                with contextlib.suppress(BlockingIOError, BrokenPipeError):
                    given = given[os.write(stdin, given[:_MEASURE]) :] if given else given
                    if given:
                        continue
                selector.unregister(stdin)
                os.close(stdin)
    return b"".join(found[streams[0]]), b"".join(found[streams[1]])


# ---- the server ------------------------------------------------------------------------------------------------------


def _serve(number: int) -> int:
    """Fork a child process for each command that arrives on the socket."""
    # returns in both kinds of process: the command's exit code in a child, 0 in the server when the socket is closed
    own = socket.socket(fileno=number)
    from agent_harness.cli import app, main  # noqa: F401

    while True:
        first, streams, _, _ = socket.recv_fds(own, 1, 3)
        if not first:
            return 0
        text = bytearray(first)
        while not text.endswith(b"\n"):
            text += own.recv(_MEASURE)
        learnt, learns = os.pipe()
        gc.freeze()  # the end of a child does not go through what it has got from the server
        if (child := os.fork()) == 0:
            os.close(learnt)
            own.close()
            return _command(json.loads(text), streams, learns)
        os.close(learns)
        for each in streams:
            os.close(each)
        own.sendall(f"{child}\n".encode())
        with os.fdopen(learnt, "rb") as file:
            names = file.read().decode()
        _, status = os.waitpid(child, 0)
        own.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        _import(names.split())


def _command(job: dict[str, object], streams: Sequence[int], learns: int) -> int:
    from agent_harness.cli import main

    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    os.umask(int(str(job["umask"])))
    os.chdir(str(job["cwd"]))
    os.environ.clear()
    os.environ.update(job["variables"])  # type: ignore[arg-type]
    sys.argv = [str(main.__file__), *map(str, job["words"])]  # type: ignore[call-overload]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    random.seed()
    os.set_inheritable(learns, False)
    try:
        return main.main()
    finally:
        os.write(learns, " ".join(_learnt()).encode())
        os.close(learns)


def _learnt() -> list[str]:
    files = {name: getattr(each, "__file__", None) for name, each in list(sys.modules.items()) if name != "__main__"}
    return [name for name, file in files.items() if isinstance(file, str) and os.path.realpath(file).startswith(_OURS)]


def _import(names: Sequence[str]) -> None:
    for name in names:
        if name not in sys.modules and not name.startswith("temporalio"):  # its threads do not survive a fork
            with contextlib.suppress(Exception):
                importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(_serve(int(sys.argv[1])))
