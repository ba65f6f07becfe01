"""Changes of installed files, in two groups: changes that influence every test run, and all other changes.
Only contents count. Reinstalling the same version or touching a file changes nothing. The expected content of a file
comes from its installer's ``RECORD`` file."""

import ast
import hashlib
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from agent_harness.errors import HarnessError
from agent_harness.kernel import process
from agent_harness.kernel.process import scrubbed_environment
from agent_harness.kernel.temporary import TemporaryFolder
from agent_harness.verification import sources
from agent_harness.verification.check import without_plugins
from agent_harness.verification.runner.installed import (
    LENT,
    PLUGIN,
    PROGRAM,
    RUNNER,
    START,
    Distribution,
    Installed,
    distributions,
    normal,
    text_of,
)
from agent_harness.verification.runner.interpreters import Interpreter
from agent_harness.verification.verdict import CRITICAL, IMPORTANT, WARN, Finding

_KNOWN_LINES = re.compile(
    r"import _virtualenv|import (__editable___\w+_finder); \1\.install\(\)"
    r"|import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '(local|stdlib)'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)(\.add_shim\(\))?;?"
)
_FINDER_TABLES = ("MAPPING", "NAMESPACES", "PATH_PLACEHOLDER")
_KNOWN_MODULES = frozenset(  # of setuptools 59 to 80, what is run at each start: whole, or a finder without its tables
    {
        "4c2531daa12158dcabb8bce3e03386640407dfd866d9f27fc0377dd2894d3a6a",
        "4d27a48545b57dd137ae35376fcf326d2064271084a487960686f8704b94de4a",
        "46849a60a7cc85189cf6b5ac62b3f135004862ce6a96540a81c95ef6fbc4dc3e",
        "4bf5b0bc8f8af7ce7096e96f7167cf4f776f2cc0983f5c8f876ca780b3a67781",
        "1542e30b6d07156f447ab4bcaec4a3a330feb93167d5dcaf548f6d6b2cdb852c",
        "a325c4f62f92a19daaa558088e4339afd78e14df40c20a7d51c9dc3a714dc237",
        "df81e6bcba34ee3e3952f776551fb669143b9490fdd6c4caeb32609f97e985b4",
        "8175b820a6abc93a012c813ea7985a41d822bb8e77ab47065ba1fc30b893ae95",
        "3eb6420f1b1805c66cc3b04b2f02057394d4c2251bbdf04903a1fde02b848b63",
        "4ced921b5fab5cc35f58cefd29a5babfeef3f9a4cd2f1808489034a6516c5aec",
        "cb5e343beaeba5b2c781c9456a4a77e9faab39a176638c6b6e2841d891e26ddc",
    }
)
_COMPILES = (
    "import py_compile, sys\n"
    "for line in sys.stdin.read().split(chr(0)):\n"
    "    source, _, target = line.partition(chr(1))\n"
    "    py_compile.compile(source, target, doraise=True)\n"
)
_COMPILE_SECONDS = 120.0
_IS_READ = re.compile(r" [0-9a-f]{64}$")  # an entry whose contents are known
_FEW = 20  # files of a folder of dependencies: fewer are not an installation of a tool that installs
_NAMED = 3  # changes written out in a message


@dataclass(frozen=True, slots=True)
class Change:
    """Changed file, or new pytest plugin, that can influence test runs."""

    path: str  # as a person would release it
    what: str = ""  # for people
    undo: str = ""  # what puts it back: a command, or what to do
    names: tuple[str, ...] = ()  # of plugins, as pytest knows them


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    steering: Mapping[str, Change] = field(default_factory=dict)  # by entry: runs, or is run by, every run of tests
    plugins: Mapping[str, Change] = field(default_factory=dict)  # by entry
    packages: tuple[str, ...] = ()  # distributions that came, went or changed, and steer nothing
    compiled: tuple[str, ...] = ()  # compiled code of what runs tests
    lent: Mapping[str, str] = field(default_factory=dict)  # by entry: paths in lent folders that came or changed
    renewed: tuple[str, ...] = ()  # lent folders that were installed anew
    pythons: tuple[str, ...] = ()  # the interpreters that were there before
    known: frozenset[str] = frozenset()  # entries of which people have been told after an earlier session

    def without(self, frees: Callable[[str], bool]) -> "Differences":
        return replace(
            self,
            steering={key: each for key, each in self.steering.items() if not frees(each.path)},
            plugins={key: each for key, each in self.plugins.items() if not frees(each.path)},
            lent={key: path for key, path in self.lent.items() if not frees(path)},
        )

    @property
    def blocked(self) -> tuple[str, ...]:
        return tuple(sorted({name for each in self.plugins.values() for name in each.names}))

    @property
    def blocking(self) -> str:
        return shlex.join(without_plugins(self.blocked))

    @property
    def findings(self) -> list[Finding]:
        found: list[Finding] = []
        if self.steering:
            each = list(dict.fromkeys(self.steering.values()))
            more = f" and {len(each) - _NAMED} more" if len(each) > _NAMED else ""
            said = f"{'; '.join(change.what for change in each[:_NAMED])}{more}"
            message = (
                f"Files that run the tests changed during the session: {said}. To restore the first: {each[0].undo}."
            )
            paths = list(dict.fromkeys(change.path for change in each))[:50]
            found.append(Finding("environment_changed", CRITICAL, message, {"path": paths[0], "paths": paths}))
        if any(key not in self.known for key in self.plugins):
            message = (
                f"Pytest plugins that were installed during the session are not loaded: {', '.join(self.blocked[:5])}."
            )
            paths = sorted(each.path for each in self.plugins.values())[:50]
            found.append(Finding("plugins_not_loaded", WARN, message, {"paths": paths}))
        if self.packages:
            message = f"Installed packages changed during the session: {', '.join(self.packages[:5])}."
            found.append(Finding("packages_changed", IMPORTANT, message, {"packages": list(self.packages[:50])}))
        if self.renewed:
            message = f"Reinstalled during the session, and not compared: {', '.join(self.renewed[:5])}."
            found.append(Finding("packages_changed", WARN, message, {"packages": list(self.renewed)}))
        if self.lent:
            paths = sorted(self.lent.values())[:50]
            message = (
                f"Checks run without the files that were added to installed dependencies: {', '.join(paths[:_NAMED])}."
            )
            found.append(Finding("dependencies_left_out", WARN, message, {"paths": paths}))
        return found


def differences(before: Installed, now: Installed, *, project: Path) -> Differences:
    old, new = before.entries, now.entries
    apart = sorted({key for key, _ in old.items() ^ new.items()}, key=lambda key: (key.startswith("/"), key))
    differing = [key for key in apart if not _same(key, old.get(key), new.get(key))]
    if not differing:
        return Differences(pythons=before.pythons, known=before.left)
    lent, renewed = _lent_changes(old, [key for key in differing if key.startswith(LENT)])
    case = _Comparison(before, now, project)
    for key in differing:
        if not key.startswith(LENT):
            case.judge(key)
    return Differences(
        steering=case.steering,
        plugins=case.plugins,
        packages=tuple(sorted(case.packages)),
        compiled=tuple(case.compiled),
        lent=lent,
        renewed=renewed,
        pythons=before.pythons,
        known=before.left,
    )


def _lent_changes(old: Mapping[str, str], differing: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the changed paths in linked folders, and the linked folders that an installer rewrote."""
    by_folder: dict[str, list[str]] = {}
    for key in differing:
        by_folder.setdefault(key.partition("\t")[0], []).append(key)
    there = {folder: sum(key.startswith(f"{folder}\t") for key in old) for folder in by_folder}
    renewed = {
        folder for folder, keys in by_folder.items() if sum(key in old for key in keys) * 2 > there[folder] > _FEW
    }
    kept = (key for folder, keys in by_folder.items() if folder not in renewed for key in keys)
    lent = {key: key.removeprefix(LENT).replace("\t", "/", 1) for key in kept}
    return lent, tuple(folder.removeprefix(LENT) for folder in by_folder if folder in renewed)


def _same(key: str, old: str | None, new: str | None) -> bool:
    if old is None or new is None or old == new:
        return old == new
    parts = 2 if key.startswith(RUNNER) else 1 if key.startswith(PLUGIN) else 0
    if parts:
        return old.split("\t")[:parts] == new.split("\t")[:parts]
    return old.partition(" ")[2] == new.partition(" ")[2] != ""


class _Comparison:
    """Comparison of two records. It groups the changed entries by their influence on test runs."""

    def __init__(self, before: Installed, now: Installed, project: Path) -> None:
        self.steering: dict[str, Change] = {}
        self.plugins: dict[str, Change] = {}
        self.packages: set[str] = set()
        self.compiled: list[str] = []
        self._old, self._new = before.entries, now.entries
        self._given, self._project = os.fspath(project), os.path.realpath(project)
        self._interpreters = before.interpreters
        self._owners: dict[str, dict[str, Distribution]] = {"": {}}  # by folder of packages, and path in it
        self._sites = sorted({*before.sites, *now.sites}, key=len, reverse=True)
        rows = {key.removeprefix(RUNNER): row.split("\t") for key, row in self._old.items() if key.startswith(RUNNER)}
        self._versions = {name: row[0] for name, row in rows.items()}
        self._places = {name: posixpath.dirname(row[4]) for name, row in rows.items()}
        self._runner_of = {top: name for name, row in rows.items() for top in row[3].split()}
        given = (row.split("\t")[0].split() for key, row in self._old.items() if key.startswith(PLUGIN))
        self._known_plugins = {name for names in given for name in names}

    @cached_property
    def _packages(self) -> dict[str, list[Distribution]]:
        return {site: distributions(site) for site in self._sites}

    @cached_property
    def _tops(self) -> set[str]:
        placed = ((site, path) for key in self._old for site, path in (self._placed(key),) if site)
        return {f"{site}/{path.partition('/')[0]}" for site, path in placed}

    def _placed(self, path: str) -> tuple[str, str]:
        site = next((each for each in self._sites if path.startswith(f"{each}/")), "")
        return site, path.removeprefix(f"{site}/")

    def judge(self, key: str) -> None:
        old, new, name = self._old.get(key), self._new.get(key), key.partition(" ")[2]
        site, path = self._placed(key)
        if key.startswith(PROGRAM):
            if old:
                was, is_now = old.rpartition("\t")[2], (new or "").rpartition("\t")[2]
                undo = f"remove {is_now}" if is_now not in ("", was) else f"install {name} again"
                said = f"{was} was changed" if is_now == was else f"{name} was {was}, and is {is_now or 'gone'} now"
                self._steers(key, is_now or was, said, undo)
        elif key.startswith(PLUGIN):
            self._plugin(key, old, new)
        elif key.startswith(RUNNER):
            if old is not None:  # else it is there already, or comes as a package
                was, now, place = old.split("\t")[0], new.split("\t")[0] if new else "gone", old.split("\t")[4]
                said = f"{now} now" if now != was else "different now, with the same version number"
                self._steers(key, place, f"{name} {was} is {said}", self._again(name, was, place))
        elif key.endswith("/RECORD"):
            folder = posixpath.basename(posixpath.dirname(key))
            self.packages.add(normal(folder.removesuffix(".dist-info").rpartition("-")[0]))
        elif "/__pycache__/" in key:
            self.compiled += [key] if new is not None else []
        elif not site:
            self._changed(key, key, old, new)
        elif self._steers_from(site, path, old, new):
            whole = f"{site}/{path.partition('/')[0]}"
            self._changed(key, whole if old is None and whole not in self._tops else key, old, new)

    def _plugin(self, key: str, old: str | None, new: str | None) -> None:
        """Block a new pytest plugin. If it replaces an older plugin, report it instead."""
        if new is None or not self._versions:
            return
        names, place = new.split("\t")
        fresh = {*names.split()} - {*(old or "").split("\t")[0].split()}
        if taken := sorted(fresh & self._known_plugins):
            said = f"{self._shown(place)} takes the place of the plugin {taken[0]}"
            self._steers(key, place, said, self._removed(place))
        elif fresh:
            self.plugins[key] = Change(self._shown(place), names=tuple(sorted(fresh)))

    def _steers_from(self, site: str, path: str, old: str | None, new: str | None) -> bool:
        """Return True if a changed file affects test runs. If not, perhaps record its package, or report an unknown
        file."""
        key, top, owner = f"{site}/{path}", path.partition("/")[0], self._owner(site, path)
        runner = self._runner_of.get(top)
        if path in START or (path.endswith(".pth") and "/" not in path):
            return new is not None and (path in START or not self._is_plain(Path(key)))
        if new is not None and _IS_READ.search(new):  # a .pth file runs it
            return not _is_known(Path(key))
        if new is None and runner is not None:  # missed where the runner is still there
            return _same(RUNNER + runner, self._old[RUNNER + runner], self._new.get(RUNNER + runner))
        if new is not None and owner is not None and owner.holds(path):
            return self._places.get(owner.name, site) != site  # a second one that may come first
        if new is not None and (old is not None or owner is not None or runner is not None):
            return True
        if new is None or self._is_known_top(site, top, new):
            self.packages.add(top.removesuffix(".py"))
        else:
            place = f"{site}/{top}"
            self._steers(key, place, f"no installer put {self._shown(place)} there", self._removed(place))
        return False

    def _is_known_top(self, site: str, top: str, new: str) -> bool:
        """Return True if an entry is old, links into the project or belongs to an old package format."""
        known = f"{site}/{top}" in self._tops or top.endswith(".egg")
        old_ones = (each for each in self._packages[site] if not any(each.contents.values()))
        is_own = Path(new.removeprefix("-> ")).is_relative_to(self._project)
        return known or is_own or any(top in each.tops for each in old_ones)

    def _steers(self, key: str, path: str, what: str, undo: str) -> None:
        self.steering[key] = Change(self._shown(path), what, undo)

    def _changed(self, key: str, path: str, old: str | None, new: str | None) -> None:
        site, name = self._placed(path)
        owner = self._owner(site, name)
        undo = self._removed(path) if old is None else f"give {self._shown(path)} its content back"
        if owner is not None and old is not None:
            undo = self._again(owner.name, self._versions.get(owner.name, owner.version), owner.place)
        said = "is new" if old is None else "is gone" if new is None else "was changed"
        self._steers(key, path, f"{self._shown(path)} {said}", undo)

    def _shown(self, path: str) -> str:
        return path.removeprefix(f"{self._given}/").removeprefix(f"{self._project}/")

    def _removed(self, path: str) -> str:
        return f"rm -r {shlex.quote(self._shown(path))}"

    def _again(self, name: str, version: str, place: str) -> str:
        found = _interpreter_of(place, self._interpreters)
        python = shlex.quote(self._shown(found.executable if found else "python"))
        return f"{python} -m pip install --force-reinstall --no-deps {name}=={version}"

    def _owner(self, site: str, path: str) -> Distribution | None:
        if site not in self._owners:
            owners = sorted(self._packages[site], key=lambda each: each.name in self._versions)
            self._owners[site] = {file: each for each in owners for file in each.contents}
        found = self._owners[site].get(path)
        is_of_runner = path.partition("/")[0] in self._runner_of
        # only a test runner may own a test runner's file
        return None if found and is_of_runner and found.name not in self._versions else found

    def _is_plain(self, pth: Path) -> bool:
        """Return True if a ``.pth`` file only adds project folders and contains only known import lines."""
        for line in map(str.strip, text_of(pth).splitlines()):
            if line.startswith(("import ", "import\t")):
                plain = _KNOWN_LINES.fullmatch(line) is not None
            elif line[:1] in ("", "#"):
                continue
            else:
                inside = "\0" not in line and Path(os.path.realpath(pth.parent / line))
                plain = bool(inside and inside.is_relative_to(self._project))
            if not plain:
                return False
        return True


def _is_known(module: Path) -> bool:
    """Return True if a module is unchanged setuptools code that Python runs at each start."""
    lines = text_of(module).splitlines(keepends=True)
    tables = [line for line in lines if line.startswith(_FINDER_TABLES)]
    rest = "".join(line for line in lines if line not in tables).removesuffix("\n")
    whole = {hashlib.sha256(text.encode()).hexdigest() for text in ("".join(lines), rest)}
    return bool(whole & _KNOWN_MODULES) and all(map(_is_table, tables))


def _is_table(line: str) -> bool:
    tree = sources.parse(line.encode())
    only = tree.body[0] if tree and len(tree.body) == 1 else None
    value = only.value if isinstance(only, ast.Assign | ast.AnnAssign) else None
    plain = (ast.Dict, ast.List, ast.Constant, ast.BinOp, ast.Add, ast.Load)
    return value is not None and all(isinstance(node, plain) for node in ast.walk(value))


def _interpreter_of(path: str, interpreters: Iterable[Interpreter]) -> Interpreter | None:
    return next((each for each in interpreters if path.startswith(tuple(f"{site}/" for site in each.sites))), None)


# ---- compiled code ---------------------------------------------------------------------------------------------------


def without_compiled(found: Differences, interpreters: Iterable[Interpreter]) -> Differences:
    again = bool(found.compiled) and compiled_anew(found.compiled, interpreters)
    return replace(found, compiled=()) if again else found


def compiled_anew(paths: Sequence[str], interpreters: Iterable[Interpreter]) -> bool:
    """Recompile the bytecode files of test runners, or delete those without a source. Return False if this fails."""
    known, work = [*interpreters], dict[str, list[str]]()
    try:
        for path in paths:
            folder, name = os.path.split(path)
            source = os.path.join(os.path.dirname(folder), f"{name.partition('.')[0]}.py")
            compiler = _interpreter_of(path, known)
            tag = f".cpython-{''.join(compiler.version.split('.')[:2])}.pyc" if compiler else "none"
            if compiler and name.endswith(tag) and os.path.exists(source):
                work.setdefault(compiler.executable, []).append(f"{source}\1{path}")
            elif os.path.lexists(path):
                os.unlink(path)
        with TemporaryFolder() as empty:
            for python, lines in work.items():
                words = [python, "-I", "-S", "-B", "-X", f"pycache_prefix={empty.path}", "-c", _COMPILES]
                done = process.run(
                    words,
                    cwd=empty.path,
                    env=scrubbed_environment(),
                    timeout_seconds=_COMPILE_SECONDS,
                    input=os.fsencode("\0".join(lines)),
                )
                if done.exit_code:
                    return False
    except (OSError, HarnessError):
        return False
    return True
