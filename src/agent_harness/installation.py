"""How this package came here, and so which command adds an optional part of it; source: ``faces.md`` FIX-3.

The distribution's name is not that of the import package: ``agent-harness`` in the public registry is a stranger's.
"""

import json
import shlex
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["DISTRIBUTION", "command_for_extra", "command_for_package"]

DISTRIBUTION = "proven-harness"


def command_for_extra(extra: str) -> str:
    """The shell command that installs an optional part for the Python that runs now, from where we came from."""
    requirement = _requirement(extra)
    match _installer():
        case "uv tool":
            return f"uv tool install --force {requirement}"
        case "pipx":
            return f"pipx install --force {requirement}"
        case _:
            return f"{_pip()} install {requirement}"


def command_for_package(requirement: str) -> str:
    """The shell command that adds another package to the environment that we run in."""
    match _installer():
        case "uv tool":
            return f"uv tool install --with {shlex.quote(requirement)} {_requirement()}"
        case "pipx":
            return f"pipx inject {DISTRIBUTION} {shlex.quote(requirement)}"
        case _:
            return f"{_pip()} install {shlex.quote(requirement)}"


def _installer() -> str:
    """Who keeps this environment; the tools leave a receipt in it."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    return "pipx" if (prefix / "pipx_metadata.json").exists() else "pip"


def _pip() -> str:
    """Installs into the environment that runs now, whichever is first on PATH."""
    python = shlex.quote(sys.executable or "python3")
    return f"{python} -m pip" if find_spec("pip") else f"uv pip --python {python}"


def _requirement(extra: str = "") -> str:
    """Where we came from, as an installer takes it: a folder, an address, else the registry."""
    part = f"[{extra}]" if extra else ""
    address, editable = _origin()
    if address.startswith("file:"):
        folder = unquote(urlsplit(address).path)
        return ("-e " if editable else "") + shlex.quote(f"{folder}{part}")
    return shlex.quote(f"{DISTRIBUTION}{part} @ {address}" if address else f"{DISTRIBUTION}{part}")


def _origin() -> tuple[str, bool]:
    """The address that the installer noted (PEP 610), and whether the folder itself is imported."""
    try:
        noted = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        address, version = noted.get("url", ""), noted.get("vcs_info") or {}
        if version:
            address = f"{version['vcs']}+{address}@{version['commit_id']}"
        return address, bool((noted.get("dir_info") or {}).get("editable"))
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return "", False
