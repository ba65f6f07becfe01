"""Where the clients run there is nothing but loopback: a fact of the kernel, not a setting of the client."""

import sys
from pathlib import Path

import pytest

from agent_harness.kernel import process

from . import island as place
from .island import Island

pytestmark = pytest.mark.client

PROBE = """
import socket
import urllib.request
print(urllib.request.urlopen("{url}/v1/models").status)
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.skipif(not place.can_be_made(), reason="this machine lets nobody make a network namespace")
def test_there_is_nothing_but_loopback(island: Island, tmp_path: Path) -> None:
    probe = [sys.executable, "-c", PROBE.format(url=island.url)]
    done = process.run(island.beside(probe), cwd=tmp_path, env={}, timeout_seconds=60)
    assert done.output.decode().splitlines() == ["200", "Network is unreachable"]
