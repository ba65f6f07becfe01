"""Imported modules that are in no commit and belong to no installed package.

An agent may leave its work in the folder of installed packages. The check then passes on this machine only."""

import ast
import json
import sys
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

from agent_harness.gate.change import GateChange
from agent_harness.kernel import process
from agent_harness.verification import sources
from agent_harness.verification.check import parse
from agent_harness.verification.runner.environment import plain_variables
from agent_harness.verification.runner.interpreters import Interpreters
from agent_harness.verification.verdict import CRITICAL, Finding

_ASKS = """\
import importlib.metadata, importlib.util, json, sys
sites = json.loads(sys.argv[1])
found = {}
for name in sys.argv[2:]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        continue
    for place in [*filter(None, [spec and spec.origin]), *(spec and spec.submodule_search_locations or ())]:
        if any(place.startswith(site + '/') for site in sites):
            found[name] = place
            break
owned = importlib.metadata.packages_distributions() if found else {}
print('strays:' + json.dumps({name: place for name, place in found.items() if name not in owned}))
"""
_SECONDS = 60.0


def strays(change: GateChange, command: str, allow: Collection[str]) -> list[Finding]:
    """Return a finding for each imported module that is only among the installed packages of this machine."""
    importing = _imports(change)
    behind = Interpreters(plain_variables()).behind(parse(command), Path(change.git.root)) if importing else None
    if behind is None:
        return []
    words = [behind.executable, "-I", "-c", _ASKS, json.dumps(behind.sites), *importing]
    ran = process.run(words, cwd=Path("/"), env=plain_variables(), timeout_seconds=_SECONDS)
    line = next((each for each in ran.output.splitlines() if each.startswith(b"strays:")), b"strays:{}")
    found: dict[str, str] = json.loads(line.removeprefix(b"strays:"))
    return [
        Finding(
            "environment_changed",
            CRITICAL,
            f"{importing[name]} imports {name}, which is in no commit and belongs to no installed package: {place}",
            {"path": place, "file": importing[name]},
        )
        for name, place in found.items()
        if not any(fnmatchcase(place, pattern) for pattern in allow)
    ]


def _imports(change: GateChange) -> dict[str, str]:
    """Return the modules that changed files import and the repository does not contain, with a file for each."""
    own = change.modules(change.head)
    found: dict[str, str] = {}
    for path in (each for each in change.paths if each.endswith(".py")):
        tree = sources.parse(change.git.show(change.head, path))
        for node in ast.walk(tree) if tree else ():
            absolute = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else absolute
            for name in {each.partition(".")[0] for each in names} - own - sys.stdlib_module_names:
                found.setdefault(name, path)
    return found
