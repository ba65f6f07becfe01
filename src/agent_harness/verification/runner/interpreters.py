"""Python interpreters that commands start.
The harness finds them as a shell would, and asks them for their package folders."""

import filecmp
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from agent_harness.errors import HarnessError
from agent_harness.kernel import process
from agent_harness.verification.check import PYTHON, Command

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
_CHOOSING = (".python-version", ".tool-versions")  # by which shims of pyenv, asdf and mise choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    executable: str
    prefix: str
    scripts: str  # where its console scripts are
    sites: tuple[str, ...]  # where its packages are
    library: tuple[str, ...]  # where its standard library is
    version: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        return (self.executable, self.prefix, *self.sites)

    def as_record(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def called(self, name: str) -> Self | None:
        path = Path(self.executable).with_name(name)
        same = path.exists() and os.path.realpath(path) == os.path.realpath(self.executable)
        return replace(self, executable=os.fspath(path)) if same else None

    @classmethod
    def from_record(cls, record: object) -> Self | None:
        """Return the interpreter in a record, or None if the record is invalid."""
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


@dataclass(frozen=True, slots=True)
class Interpreters:
    """Finder of the interpreters that commands start. It stores its results."""

    variables: Mapping[str, str]
    answers: dict[tuple[str, Path], Interpreter | None] = field(default_factory=dict)

    def behind(self, command: Command, root: Path) -> Interpreter | None:
        """Return the interpreter that ``command`` would start, or None if the interpreter is unknown."""
        if command.launched:
            return _ask([*command.words[: command.program], "python"], root, self.variables)
        return next(filter(None, (self._asked(path, root) for path in self._candidates(command, root))), None)

    def _candidates(self, command: Command, root: Path) -> Iterator[str]:
        search = self.variables.get("PATH", os.defpath)
        if command.words:
            found = program_path(command.words[command.program], root=root, path=search)
            python = found and (found if is_python(Path(found).name) else interpreter_of_script(found))
            if python or not found:
                yield from filter(None, (python,))
                return
        yield from filter(None, (program_path(name, root=root, path=search) for name in ("python", "python3")))

    def _asked(self, path: str, root: Path) -> Interpreter | None:
        if (path, root) not in self.answers:
            same = (each for (other, at), each in self.answers.items() if at == root and _one_program(other, path))
            known = next(filter(None, (each and each.called(Path(path).name) for each in same)), None)
            self.answers[path, root] = known or self._answer(path, root)
        return self.answers[path, root]

    def _answer(self, path: str, root: Path) -> Interpreter | None:
        key = (path, root, _decided_by(path, root, self.variables), frozenset(self.variables.items()))
        if key not in _ANSWERS and (said := _ask([path], root, self.variables)):
            _ANSWERS[key] = said
        return _ANSWERS.get(key)


_ANSWERS: dict[tuple[str, Path, tuple[str, ...], frozenset[tuple[str, str]]], Interpreter] = {}


def _decided_by(path: str, root: Path, variables: Mapping[str, str]) -> tuple[str, ...]:
    home = variables.get("HOME", "")
    settings = [parent / "pyvenv.cfg" for parent in [*Path(path).parents][:2]]
    chosen = [folder / name for folder in (root, *root.parents, Path(home)) for name in _CHOOSING]
    of_pyenv = Path(variables.get("PYENV_ROOT", f"{home}/.pyenv"), "version")
    return tuple(map(_stamp_at, (Path(path), *settings, *chosen, of_pyenv)))


def _stamp_at(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_dev}.{found.st_ino}"


def _one_program(path: str, other: str) -> bool:
    if Path(path).parent != Path(other).parent:
        return False
    try:
        # a link, or a copied shim that checks its own name
        return Path(path).samefile(other) or filecmp.cmp(path, other, shallow=False)
    except OSError:
        return False


def is_python(name: str) -> bool:
    return PYTHON.match(name) is not None


def program_path(word: str, *, root: Path, path: str) -> str | None:
    """Return the path of the program that a shell in ``root`` would start, or None."""
    if "/" in word:
        absolute = os.path.join(root, word)  # noqa: PTH118  (keeps an absolute word, and links)
        return absolute if os.access(absolute, os.X_OK) else None
    return shutil.which(word, path=path)


def interpreter_of_script(path: str) -> str | None:
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
        if PYTHON.search(Path(candidate).name) and os.access(candidate, os.X_OK):
            return candidate
    return None


def _ask(words: Sequence[str], root: Path, variables: Mapping[str, str]) -> Interpreter | None:
    try:
        done = process.run([*words, "-I", "-c", _PROBE], cwd=root, env=variables, timeout_seconds=_LIMIT_SECONDS)
    except HarnessError:
        return None
    for line in done.output.decode(errors="replace").splitlines():
        if line.startswith(_MARK):
            try:
                return Interpreter.from_record(json.loads(line.removeprefix(_MARK)))
            except ValueError:
                return None
    return None
