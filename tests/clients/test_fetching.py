"""`scripts/clients.py` against a package registry on loopback: all or nothing, and one line when it cannot be."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, VERSION = "@made/goldfish", "1.2.3"
pytestmark = [pytest.mark.client, pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not there")]


def archive() -> bytes:
    """A package with one program."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        for name, content in (
            ("package.json", json.dumps({"name": PACKAGE, "version": VERSION})),
            ("swim", "#!/bin/sh\n"),
        ):
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mode = len(content), 0o755
            members.addfile(member, io.BytesIO(content.encode()))
    return packed.getvalue()


ARCHIVE = archive()
INTEGRITY = "sha512-" + base64.b64encode(hashlib.sha512(ARCHIVE).digest()).decode()


class Registry(BaseHTTPRequestHandler):
    """Serves one package."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""

    def do_GET(self) -> None:
        """The package's page, or its archive."""
        host = f"http://{self.headers['host']}"
        dist = {"tarball": f"{host}/goldfish.tgz", "integrity": INTEGRITY}
        page = {"name": PACKAGE, "dist-tags": {"latest": VERSION}}
        version = {"name": PACKAGE, "version": VERSION, "dist": dist}
        whole = json.dumps({**page, "versions": {VERSION: version}}).encode()
        content = ARCHIVE if self.path.endswith(".tgz") else whole if "goldfish" in self.path else b""
        self.send_response(200 if content else 404)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def registry() -> Iterator[str]:
    """The address of the registry."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def fetch(checkout: Path, registry: str, **build: str) -> subprocess.CompletedProcess[str]:
    """Runs the script in a checkout whose pins name one client, ``fish``."""
    (checkout / "scripts").mkdir(parents=True, exist_ok=True)
    (checkout / "requirements").mkdir(exist_ok=True)
    shutil.copy(ROOT / "scripts" / "clients.py", checkout / "scripts")
    found = {"package": f"{PACKAGE}@{VERSION}", "integrity": INTEGRITY, "program": "swim", **build}
    place = f"{os.uname().sysname.lower()}-{os.uname().machine.lower()}"
    pins = {"fish": {"version": VERSION, "builds": {build.get("platform", place): found}}}
    (checkout / "requirements" / "clients.json").write_text(json.dumps(pins))
    env = {**os.environ, "NPM_CONFIG_REGISTRY": registry, "NPM_CONFIG_FETCH_RETRIES": "0"}
    command = [sys.executable, "scripts/clients.py"]
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)


def left(checkout: Path) -> list[str]:
    """What lies in the place of clients."""
    return sorted(path.name for path in (checkout / ".clients").iterdir() if path.name != ".lock")


def test_a_client_is_fetched_once(tmp_path: Path, registry: str) -> None:
    first = fetch(tmp_path, registry)
    assert (first.returncode, first.stderr) == (0, "")
    assert os.access(tmp_path / ".clients" / "fish-1.2.3" / "swim", os.X_OK)
    again = fetch(tmp_path, "http://127.0.0.1:9/")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert left(tmp_path) == ["fish-1.2.3"]


def test_another_archive_than_the_pinned_one_is_refused(tmp_path: Path, registry: str) -> None:
    done = fetch(tmp_path, registry, integrity="sha512-else")
    assert done.returncode == 1
    assert "pins sha512-else" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("build", "problem"),
    [({"package": "@made/whale@1.0.0"}, "npm cannot fetch it"), ({"program": "fly"}, "there is no fly in the archive")],
)
def test_a_failed_download_is_one_line(tmp_path: Path, registry: str, build: dict[str, str], problem: str) -> None:
    done = fetch(tmp_path, registry, **build)
    assert done.returncode == 1
    assert done.stderr.startswith(f"agent-harness: fish 1.2.3: {problem}")
    assert len(done.stderr.splitlines()) == 1
    assert left(tmp_path) == []


def test_without_a_registry_it_is_one_line(tmp_path: Path) -> None:
    done = fetch(tmp_path, "http://127.0.0.1:9/")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_a_platform_without_a_build_is_no_failure(tmp_path: Path, registry: str) -> None:
    done = fetch(tmp_path, registry, platform="plan9-vax")
    assert (done.returncode, done.stderr) == (0, "")
    assert "fish has no pinned build for" in done.stdout
