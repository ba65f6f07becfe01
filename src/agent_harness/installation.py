"""Source of this installation, and the shell commands that install optional parts.

The distribution has another name than the import package, because ``agent-harness`` in the public registry is another
project. Source: ``faces.md`` FIX-3."""

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
    """Return the shell command that installs an extra into this environment."""
    # --force creates the environment again, so the command also names the installed extras
    match _installer():
        case "uv tool":
            return f"uv tool install --force {_requirement(extra, *_installed_extras())}"
        case "pipx":
            return f"pipx install --force {_requirement(extra, *_installed_extras())}"
        case _:
            return f"{_pip_install()} {_requirement(extra)}"


def command_for_package(requirement: str) -> str:
    """Return the shell command that installs another package into this environment."""
    match _installer():
        case "uv tool":
            return f"uv tool install --with {shlex.quote(requirement)} {_requirement(*_installed_extras())}"
        case "pipx":
            return f"pipx inject {DISTRIBUTION} {shlex.quote(requirement)}"
        case _:
            return f"{_pip_install()} {shlex.quote(requirement)}"


def _installer() -> str:
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    return "pipx" if (prefix / "pipx_metadata.json").exists() else "pip"


def _pip_install() -> str:
    python = shlex.quote(sys.executable or "python3")
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"


def _installed_extras() -> set[str]:
    """Return the extras of this package whose required packages are all installed."""
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
    """Return how an install command names this package: folder, URL or registry name."""
    part = f"[{','.join(sorted({*extras}))}]" if extras else ""
    address, editable = _origin()
    if address.startswith("file:"):
        folder = unquote(urlsplit(address).path)
        return ("-e " if editable else "") + shlex.quote(f"{folder}{part}")
    return shlex.quote(f"{DISTRIBUTION}{part} @ {address}" if address else f"{DISTRIBUTION}{part}")


def _origin() -> tuple[str, bool]:
    """Return the URL from which this package was installed, and True if it is editable."""
    try:
        # PEP 610
        noted = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        address, version = noted.get("url", ""), noted.get("vcs_info") or {}
        if version:
            address = f"{version['vcs']}+{address}@{version['commit_id']}"
        return address, bool((noted.get("dir_info") or {}).get("editable"))
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return "", False
