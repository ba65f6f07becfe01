"""Server of ``harness serve``: on loopback only, at the first free port, with a folder in the user's state.

    $XDG_STATE_HOME/agent-harness/serve/PORT/
        server.json     the process that listens there
        DIGEST.code     a one-time code (``access``)

Source: ``faces.md`` F-SRV-1, F-SRV-2."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import uvicorn

from agent_harness.errors import HarnessError, NotAProject, Refused, UsageError
from agent_harness.kernel import files, owner, trusted_state
from agent_harness.views.serve.access import AccessRules, OneTimeCodes
from agent_harness.views.serve.app import application
from agent_harness.views.serve.window import Window

__all__ = ["USUAL_PORT", "links", "serve"]

USUAL_PORT = 8770
_TRIES = 50
_FOLDER = "serve"
_FILE = "server.json"
MOST_CONNECTIONS = 200


def serve(
    window: Window,
    *,
    port: int | None,
    allowed_hosts: Sequence[str],
    began: Callable[[str, int], object],
) -> None:
    """Serve the pages until the user interrupts the process. ``began`` receives the link and the port."""
    sockets, found = _listening(USUAL_PORT if port is None else port)
    with _folder(found) as folder:
        codes = OneTimeCodes(folder)
        rules = AccessRules(port=found, allowed_hosts=tuple(name.lower() for name in allowed_hosts))
        settings = uvicorn.Config(
            application(window, rules, codes),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        began(_link(found, codes), found)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets)


def links(port: int | None) -> list[str]:
    """Return a login link for each running server. With ``port``, return only the link of that server."""
    home = trusted_state.of_user(_FOLDER, make=False)
    names = sorted(os.listdir(home)) if home else []
    wanted = [name for name in names if name.isdecimal() and port in (None, int(name))]
    found = [
        _link(int(name), OneTimeCodes(os.path.join(home or "", name)))
        for name in wanted
        if _listens(os.path.join(home or "", name))
    ]
    if not found:
        raise NotAProject("`harness serve` is not running", hint="harness serve")
    return found


def _link(port: int, codes: OneTimeCodes) -> str:
    return f"http://127.0.0.1:{port}/?code={codes.make()}"


def _listens(folder: str) -> bool:
    try:
        who = owner.Owner.from_record(files.read_json(os.path.join(folder, _FILE)).get("owner"))
    except (OSError, HarnessError):
        return False
    return who is not None and owner.state(who) == "alive"


@contextmanager
def _folder(port: int) -> Iterator[str]:
    home = trusted_state.of_user(_FOLDER)
    if home is None:
        raise Refused("Cannot write the folder for login codes", hint="harness doctor")
    folder = os.path.join(home, str(port))
    shutil.rmtree(folder, ignore_errors=True)  # of a server that was killed: the port was free
    try:
        os.mkdir(folder, 0o700)
        files.write_json(os.path.join(folder, _FILE), {"v": 1, "owner": owner.current().as_record()})
        yield folder
    finally:
        OneTimeCodes(folder).close()


# ---- ports


def _listening(first: int) -> tuple[list[socket.socket], int]:
    """Return the first free port from ``first`` on, and sockets that listen on this port."""
    if not 0 <= first < 1 << 16:
        raise UsageError(f"{first} is not a port", hint="harness serve --port 8770")
    for port in [first] * 20 if first == 0 else range(first, min(first + _TRIES, 1 << 16)):
        with suppress(_PortTaken):
            return _at(port)
    raise Refused(f"No port from {first} upwards is free", hint="harness serve --port 0")


class _PortTaken(Exception):
    pass


def _at(port: int) -> tuple[list[socket.socket], int]:
    first = _socket(socket.AF_INET, "127.0.0.1", port)
    if first is None:
        raise Refused("Cannot listen on 127.0.0.1", hint="ip addr show lo")
    found = int(first.getsockname()[1])
    try:
        second = _socket(socket.AF_INET6, "::1", found)
    except _PortTaken:
        first.close()
        raise
    return [each for each in (first, second) if each is not None], found


def _socket(family: socket.AddressFamily, host: str, port: int) -> socket.socket | None:
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise _PortTaken from None
        return None
