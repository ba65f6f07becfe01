"""What an interpreter loads before any test: recorded before the agent starts, compared before its work is judged.

An agent runs as the same user and can change the environment that judges it: a ``.pth`` file with code, a patched
pytest, another interpreter behind the same name. This finds the plain ways. What was recorded can be stored and
compared by a later harness (``Environment.fingerprint``), so that a change does not become normal by waiting.
"""

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from agent_harness.verification.runner.interpreter import Interpreter
from agent_harness.verification.verdict import CRITICAL, IMPORTANT, Finding

_RUNNER_PACKAGES = ("_pytest", "pytest", "pluggy", "iniconfig")
_LOADED_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_KNOWN_LINES = re.compile(
    r"import _virtualenv|import (__editable___\w+_finder); \1\.install\(\)"
    r"|import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '(local|stdlib)'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)(\.add_shim\(\))?;?"
)
_PACKAGE = "package:"  # before a member of a package folder that is recorded by its name only
_INSIDE = "//"  # between a runner's package and a file in it


def take(interpreters: Collection[Interpreter], programs: Collection[str]) -> dict[str, str]:
    """Digest by path of what these interpreters and programs load first, and the names of installed packages."""
    found: dict[str, str] = {}
    for path in (*programs, *(i.executable for i in interpreters)):
        found[path] = _digest(Path(path))
    for interpreter in interpreters:
        marker = Path(interpreter.prefix, "pyvenv.cfg")
        if marker.exists():
            found[str(marker)] = _digest(marker)
        for site in interpreter.sites:
            found.update(_site(Path(site)))
    return found


def compare(before: Mapping[str, str], now: Mapping[str, str], *, project: Path) -> list[Finding]:
    """One finding for what would run code in every test run, one for packages that came or went."""
    differing = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    installed = {path for path in differing if path.startswith(_PACKAGE) or _is_new_runner(path, before)}
    steering = [path for path in differing if path not in installed and _steers(path, now, project)]
    packages = sorted({_package_of(path) for path in installed})
    findings: list[Finding] = []
    if steering:
        message = f"What runs the tests changed during the session: {', '.join(steering[:3])}."
        findings.append(Finding("environment_changed", CRITICAL, message, {"paths": steering[:50]}))
    if packages:
        message = f"Installed packages changed during the session: {', '.join(Path(p).name for p in packages[:5])}."
        findings.append(Finding("packages_changed", IMPORTANT, message, {"paths": packages[:50]}))
    return findings


def _is_new_runner(path: str, before: Mapping[str, str]) -> bool:
    """Part of a runner that was installed nowhere before: until then no test could run, so nothing was bent."""
    package, inside, _ = path.partition(_INSIDE)
    part = f"/{Path(package).name}{_INSIDE}"
    return bool(inside) and not any(part in known for known in before)


def _package_of(path: str) -> str:
    return path.removeprefix(_PACKAGE).partition(_INSIDE)[0]


def _steers(path: str, now: Mapping[str, str], project: Path) -> bool:
    """A changed ``.pth`` that only names folders of the project, or known code, steers nothing; the rest does."""
    if not path.endswith(".pth"):
        return "/__pycache__/" not in path or path in now
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return False
    return not all(_is_plain(line.strip(), Path(path), project) for line in lines)


def _is_plain(line: str, pth: Path, project: Path) -> bool:
    if not line or line.startswith("#"):
        return True
    if line.startswith(("import ", "import\t")):
        return _KNOWN_LINES.fullmatch(line) is not None
    return "\0" not in line and Path(os.path.realpath(pth.parent / line)).is_relative_to(os.path.realpath(project))


def _site(site: Path) -> Iterator[tuple[str, str]]:
    try:
        entries = sorted(site.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.suffix == ".pth" or entry.name in _LOADED_AT_START:
            yield str(entry), _digest(entry)
        elif entry.name in _RUNNER_PACKAGES:
            for path in sorted(entry.rglob("*.py*")):
                yield f"{entry}{_INSIDE}{path.relative_to(entry)}", _digest(path)
        elif entry.name != "__pycache__":
            yield _PACKAGE + str(entry), ""


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"
