"""A model server in a network namespace that has nothing but loopback, and the words that put a client beside it.

Where the kernel lets nobody make a namespace (macOS, some containers), server and client run beside everything else;
the client's proxy is then the server itself, which refuses and records every way out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from agent_harness.kernel import journal

LOOPBACK = str(Path(__file__).with_name("loopback.py"))
ROOT = os.geteuid() == 0
ALONE = ("unshare", "--net") if ROOT else ("unshare", "--map-root-user", "--net")
BESIDE = ("--net",) if ROOT else ("--user", "--preserve-credentials", "--net")


@cache
def can_be_made() -> bool:
    """True when this machine lets us make such a namespace and enter it."""
    probe = [*ALONE, sys.executable, LOOPBACK, "nsenter", "--version"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=30, check=False).returncode == 0
    except OSError:
        return False


class Island:
    """A running server; a context manager that ends it. Scripts may be added while it runs."""

    def __init__(self, folder: Path) -> None:
        self._scripts_file = folder / "scripts.json"
        self._log = folder / "requests.jsonl"
        self._scripts: dict[str, Any] = {}
        self._write()
        server = [sys.executable, "-m", "agent_harness.testing.model_server"]
        server += ["--scripts", str(self._scripts_file), "--log", str(self._log)]
        alone = [*ALONE, sys.executable, LOOPBACK] if can_be_made() else []
        self._process = subprocess.Popen([*alone, *server], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().removeprefix("model server on ").strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def beside(self, command: Sequence[str]) -> list[str]:
        """The command in the server's network."""
        if not can_be_made():
            return list(command)
        return ["nsenter", "--target", str(self._process.pid), *BESIDE, "--", *command]

    def script(self, name: str, steps: Sequence[Any], *, start: str | None = None) -> None:
        """Adds a script that a prompt names, or that a message which matches ``start`` begins."""
        self._scripts[name] = {"steps": list(steps), **({"start": start} if start else {})}
        self._write()

    def _write(self) -> None:
        self._scripts_file.write_text(json.dumps(self._scripts))

    def requests(self) -> list[dict[str, Any]]:
        """What was asked of the server so far."""
        return list(journal.read(self._log))

    def conversations(self) -> list[Mapping[str, Any]]:
        """The bodies of the model calls, oldest first."""
        return [asked["body"] for asked in self.requests() if "script" in asked]

    def ways_out(self) -> list[str]:
        """What a client wanted to reach beyond this machine."""
        return [asked["refused"] for asked in self.requests() if "refused" in asked]
