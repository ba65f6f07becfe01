"""The interpreters that commands start: found as a shell would find them, and asked where their packages are."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from agent_harness.errors import HarnessError
from agent_harness.kernel import process
from agent_harness.verification.check import Command

_MARK = "agent-harness-interpreter:"
_PROBE = (
    "import json, site, sys, sysconfig\n"
    "paths = sysconfig.get_paths()\n"
    "sites = [*getattr(site, 'getsitepackages', list)(), paths['purelib'], paths['platlib']]\n"
    "sites += [site.getusersitepackages()] if hasattr(site, 'getusersitepackages') else []\n"
    "print('"
    + _MARK
    + "' + json.dumps({'executable': sys.executable, 'prefix': sys.prefix, 'scripts': paths['scripts'],"
    " 'sites': list(dict.fromkeys(sites)), 'version': sys.version.split()[0],"
    " 'library': [paths['stdlib'], paths['platstdlib']]}))"
)
_LIMIT_SECONDS = 60.0
_PYTHON = re.compile(r"(python|pypy)[0-9.]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python installation or virtual environment."""

    executable: str
    prefix: str
    scripts: str  # where its console scripts are
    sites: tuple[str, ...]  # where its packages are
    library: tuple[str, ...]  # where its standard library is
    version: str = ""

    def as_record(self) -> dict[str, Any]:
        """The members of the JSON record."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_record(cls, record: object) -> Self | None:
        """What ``as_record`` wrote, or an interpreter said of itself; ``None`` for anything else."""
        found = record if isinstance(record, dict) else {}
        try:
            return cls(
                executable=found["executable"],
                prefix=found["prefix"],
                scripts=found["scripts"],
                sites=tuple(found["sites"]),
                library=tuple(found["library"]),
                version=found["version"],
            )
        except (KeyError, TypeError):
            return None


def interpreter_behind(command: Command, *, root: Path, variables: Mapping[str, str]) -> Interpreter | None:
    """The interpreter that ``command`` would start in ``root``; ``None`` when it starts none that can be asked."""
    for words in _ways_to_ask(command, root, variables):
        found = _ask(words, root, variables)
        if found:
            return found
    return None


def is_python(name: str) -> bool:
    """True for the name of an interpreter, such as ``python3.12``."""
    return _PYTHON.match(name) is not None


def program_path(word: str, *, root: Path, path: str) -> str | None:
    """The absolute path of a program word as a shell in ``root`` would find it; links are kept."""
    if "/" in word:
        absolute = os.path.join(root, word)  # noqa: PTH118  (keeps an absolute word, and links)
        return absolute if os.access(absolute, os.X_OK) else None
    return shutil.which(word, path=path)


def _ways_to_ask(command: Command, root: Path, variables: Mapping[str, str]) -> list[list[str]]:
    probe = ["-I", "-c", _PROBE]
    path = variables.get("PATH", os.defpath)
    if command.launched:
        return [[*command.words[: command.program], "python", *probe]]
    if command.words:
        found = program_path(command.words[command.program], root=root, path=path)
        if found is None:
            return []
        python = found if _PYTHON.match(Path(found).name) else interpreter_of_script(found)
        if python:
            return [[python, *probe]]
    return [[name, *probe] for name in ("python", "python3") if shutil.which(name, path=path)]


def interpreter_of_script(path: str) -> str | None:
    """The Python that a console script names in its first lines."""
    try:
        with Path(path).open("rb") as file:
            lines = file.read(2048).decode(errors="replace").splitlines()
    except OSError:
        return None
    if not lines or not lines[0].startswith("#!"):
        return None
    candidates = [lines[0][2:].strip()]
    if len(lines) > 1 and "exec" in lines[1]:  # '''exec' "/long path/python" "$0" "$@"
        candidates += re.findall(r"exec'? ['\"]?([^'\"]+)['\"]? ['\"]?\$0", lines[1])
    for candidate in reversed(candidates):
        if _PYTHON.search(Path(candidate).name) and os.access(candidate, os.X_OK):
            return candidate
    return None


def _ask(words: Sequence[str], root: Path, variables: Mapping[str, str]) -> Interpreter | None:
    try:
        done = process.run(list(words), cwd=root, env=variables, timeout_seconds=_LIMIT_SECONDS)
    except HarnessError:
        return None
    for line in done.output.decode(errors="replace").splitlines():
        if line.startswith(_MARK):
            return Interpreter.from_record(_facts(line.removeprefix(_MARK)))
    return None


def _facts(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
