"""Puts the real agent clients that `make test-clients` drives into ``.clients/``, or does nothing when they are there.

``requirements/clients.json`` pins each client's version, and for each platform the npm package, the hash of its archive
and the program in it. ``npm pack`` fetches an archive from the registry that npm is set up for; nothing in it is run.
Prints a line for each client that has no build for this platform; its tests are skipped, and that is no failure.
"""

import base64
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements" / "clients.json"
PLACE = ROOT / ".clients"
LIMIT_SECONDS = 900


def main() -> int:
    """0 when every client that has a build for this platform is in place; 1 with one line on stderr when one is not."""
    PLACE.mkdir(exist_ok=True)
    with (PLACE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in pins():
            build = build_of(name)
            if build is None:
                print(f"{name} has no pinned build for {this_platform()}; its tests are skipped.")
            elif not program(name).is_file() and (problem := install(name, build)):
                print(f"agent-harness: {name} {version(name)}: {problem}", file=sys.stderr)
                return 1
    return 0


def pins() -> dict[str, Any]:
    """What ``requirements/clients.json`` says, by the name of the client."""
    return json.loads(PINS.read_text(encoding="utf-8"))


def version(name: str) -> str:
    """The pinned version of a client."""
    return str(pins()[name]["version"])


def build_of(name: str) -> dict[str, str] | None:
    """Package, integrity and program of a client on this platform; ``None`` where there is no build."""
    return pins()[name]["builds"].get(this_platform())


def this_platform() -> str:
    """Such as ``linux-x86_64`` or ``darwin-arm64``."""
    return f"{platform.system().lower()}-{platform.machine().lower()}"


def program(name: str) -> Path:
    """Where the program of a client lies once it is installed. Call it only for a client that has a build."""
    build = build_of(name)
    assert build is not None, f"{name} has no build for {this_platform()}"
    return PLACE / f"{name}-{version(name)}" / build["program"]


def install(name: str, build: dict[str, str]) -> str | None:
    """Fetches, checks and unpacks one client, wholly or not at all; the first problem in one line, or ``None``."""
    print(f"Fetching {name} {version(name)} (only now, and when the pin changes) ...", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=PLACE) as folder:
        archive, problem = fetch(build["package"], Path(folder))
        if archive is None:
            return problem
        if (found := integrity(archive)) != build["integrity"]:
            return f"the archive's hash is {found}, and {PINS.name} pins {build['integrity']}"
        unpacked = unpack(archive, Path(folder) / "unpacked")
        if not (unpacked / build["program"]).is_file():
            return f"there is no {build['program']} in the archive"
        shutil.rmtree(PLACE / f"{name}-{version(name)}", ignore_errors=True)
        unpacked.rename(PLACE / f"{name}-{version(name)}")
    print(f"Ready after {time.monotonic() - began:.0f} s.", flush=True)
    return None


def fetch(package: str, folder: Path) -> tuple[Path | None, str]:
    """The archive of a package as the registry has it, and else ``None`` and why."""
    npm = shutil.which("npm")
    if npm is None:
        return None, "npm is not there; install Node.js (Debian: apt-get install npm)"
    command = [npm, "pack", package, "--pack-destination", str(folder), "--ignore-scripts", "--loglevel", "error"]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"npm could not fetch it within {LIMIT_SECONDS} s"
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode or not archives:
        return None, f"npm cannot fetch it: {last_line(done.stderr)}"
    return archives[0], ""


def last_line(output: bytes) -> str:
    """The last line of npm's complaint that says something, before the advice where its log file is."""
    lines = [line.removeprefix("npm error ").strip() for line in os.fsdecode(output).splitlines()]
    said = [line for line in lines if line and not line.startswith("A complete log")]
    return said[-1] if said else "it says nothing"


def integrity(archive: Path) -> str:
    """The hash of a file as npm writes it: ``sha512-`` and base64."""
    with archive.open("rb") as file:
        return "sha512-" + base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()


def unpack(archive: Path, folder: Path) -> Path:
    """Unpacks the archive, without letting it write outside of ``folder``; answers the package's own folder."""
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    return folder / "package"


if __name__ == "__main__":
    sys.exit(main())
