"""Local model server that plays scripts. Real agent clients can work with it, without a model and without a network.

    from agent_harness.testing.model_server import serve

    with serve({"hello": [{"run": "echo hi > out.txt"}, "done"]}) as server:
        ...                                 # a client with base address server.url and the prompt "SCRIPT:hello"
        server.requests()                   # requests of the client, keys masked

The server supports the APIs Anthropic Messages, OpenAI Responses and OpenAI Chat Completions, with and without
streaming. If a client uses the server as a proxy, the server refuses and records each connection to another machine.
From a shell: ``python -m agent_harness.testing.model_server``. Documentation: ``docs/model-server.md``."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent_harness.testing.model_server.handler import Handler, RequestLog, Shared

__all__ = ["ModelServer", "serve"]

ADDRESS = "127.0.0.1"


class ModelServer:
    """Model server on loopback. It answers clients while ``run`` runs."""

    # a script file is read again for each request, so a test can add steps while a client works

    def __init__(
        self, scripts: Mapping[str, Any] | str | Path, *, port: int = 0, log: str | os.PathLike[str] | None = None
    ) -> None:
        self._shared = Shared(scripts, RequestLog(Path(log) if log is not None else None))
        self._shared.read()
        handler = type("BoundHandler", (Handler,), {"shared": self._shared})
        self._http = _ModelServer((ADDRESS, port), handler)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Base URL for Anthropic clients. OpenAI clients add ``/v1`` to it."""
        return f"http://{ADDRESS}:{self.port}"

    def requests(self) -> list[dict[str, Any]]:
        """Return all requests received until now, as rows of the request log."""
        return self._shared.log.records()

    def run(self) -> None:
        """Answer requests until another thread calls ``close``."""
        self._http.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        self._shared.closing.set()
        self._http.shutdown()
        self._http.server_close()


class _ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Print an error. Ignore errors of clients that disconnected during a request."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # pyrefly: ignore[bad-argument-type]


@contextmanager
def serve(
    scripts: Mapping[str, Any] | str | Path, *, port: int = 0, log: str | os.PathLike[str] | None = None
) -> Iterator[ModelServer]:
    """Run a model server during the ``with`` block."""
    # scripts: a script file or its parsed JSON value
    server = ModelServer(scripts, port=port, log=log)
    thread = threading.Thread(target=server.run, name="model-server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
