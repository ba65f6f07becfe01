"""How this package came here, and so which command adds an optional part of it; source: ``faces.md`` FIX-3.

The distribution's name is not that of the import package: ``agent-harness`` in the public registry is a stranger's.
"""

import json
import re
import shlex
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["DISTRIBUTION", "command_for_extra", "command_for_package"]

DISTRIBUTION = "proven-harness"


def command_for_extra(extra: str) -> str:
    """The shell command that installs an optional part for the Python that runs now, from where we came from.

    What makes the environment anew is told the parts that are there as well, which it would take away.
    """
    match _installer():
        case "uv tool":
            return f"uv tool install --force {_requirement(extra, *_installed_extras())}"
        case "pipx":
            return f"pipx install --force {_requirement(extra, *_installed_extras())}"
        case _:
            return f"{_pip_install()} {_requirement(extra)}"


def command_for_package(requirement: str) -> str:
    """The shell command that adds another package to the environment that we run in."""
    match _installer():
        case "uv tool":
            return f"uv tool install --with {shlex.quote(requirement)} {_requirement(*_installed_extras())}"
        case "pipx":
            return f"pipx inject {DISTRIBUTION} {shlex.quote(requirement)}"
        case _:
            return f"{_pip_install()} {shlex.quote(requirement)}"


def _installer() -> str:
    """Who keeps this environment; the tools leave a receipt in it."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    return "pipx" if (prefix / "pipx_metadata.json").exists() else "pip"


def _pip_install() -> str:
    """Installs into the environment that runs now, whichever is first on PATH."""
    python = shlex.quote(sys.executable or "python3")
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"


def _installed_extras() -> set[str]:
    """The optional parts of which every package is here."""
    try:
        parted = [(each, re.search(r"extra == ['\"](\w+)", each)) for each in metadata.requires(DISTRIBUTION) or []]
    except metadata.PackageNotFoundError:
        return set()
    named = [(found[1], re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each, found in parted if found]
    missing = {extra for extra, package in named if not _is_installed(package)}
    return {extra for extra, _ in named} - missing


def _is_installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def _requirement(*extras: str) -> str:
    """Where we came from, as an installer takes it: a folder, an address, else the registry."""
    part = f"[{','.join(sorted({*extras}))}]" if extras else ""
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
