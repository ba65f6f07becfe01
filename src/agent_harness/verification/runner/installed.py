"""What is installed where a check starts an interpreter, at one moment: what an agent could have changed of it.

A run of tests loads an interpreter, ``.pth`` and start-up files, pytest with all that it requires, and a plugin of
every distribution that registers one. ``look`` writes these down, and in an environment that lies in the project every
other file of code as well: by size, times and inode, which no program of a user can give back to a changed file.
What a file has to hold is in the ``RECORD`` of its installer, which is asked where a file differs
(``installed_changes.py``). What no agent can write is not looked at (``open_to``). Source: features.md C54.
"""

import base64
import csv
import hashlib
import os
import posixpath
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path

from agent_harness.kernel.process.sandbox import SandboxSettings, left_open
from agent_harness.verification.runner.interpreters import Interpreter, program_path
from agent_harness.verification.runner_config import SETTINGS_FILES

_CODE = (".py", ".pyc", ".so", ".pyd")
_METADATA = (".dist-info", ".egg-info")
START = frozenset({"sitecustomize.py", "usercustomize.py"})
_SETTINGS_ABOVE = (*SETTINGS_FILES, "conftest.py")
_PLUGINS = re.compile(r"^\[pytest11\]\s*$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_REQUIRES = re.compile(r"^Requires-Dist:\s*([\w.-]+)([^\n]*)", re.MULTILINE)
_IMPORTED = re.compile(r"\bimport[ \t]+([A-Za-z_]\w*)|__import__\(['\"]([A-Za-z_]\w*)")
PROGRAM, RUNNER, PLUGIN = "program ", "runner ", "plugin "  # before a name; a path begins with a slash
LENT = "lent "  # before a folder of the project, a tab, and a path in it
_MOST_LENT = 60_000  # files of folders that are lent
_REBUILT = frozenset({".cache", ".vite", ".turbo", "__pycache__"})  # by whatever runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What is installed in some places at one moment."""

    interpreters: tuple[Interpreter, ...] = ()
    pythons: tuple[str, ...] = ()  # the interpreters that were there, also those that no agent can change
    programs: tuple[str, ...] = ()  # as commands name them
    search: str = ""  # the PATH on which they are found
    above: str = ""  # a project whose tests run in place: settings in the folders above it count
    root: str = ""  # the project: all code of the environments in it counts
    lent: tuple[str, ...] = ()  # folders of it that checkouts get, and that are no Python environment
    sites: tuple[str, ...] = ()  # the folders of packages
    left: frozenset[str] = frozenset()  # entries that an earlier session has changed, as they were before it
    entries: Mapping[str, str] = field(default_factory=dict)

    def now(self, *, programs_only: bool = False) -> "Installed":
        """The same places as they are now, or only the programs."""
        seen = look(
            () if programs_only else self.interpreters,
            self.programs,
            search=self.search,
            above="" if programs_only else self.above,
            root=self.root,
            lent=self.lent,
            known=self.entries,
        )
        return replace(seen, pythons=self.pythons)

    def includes(self, other: "Installed") -> bool:
        """Whether whatever is looked at in the other places is looked at here, too."""
        same = (self.search, self.above, self.root) == (other.search, other.above, other.root)
        same = same and {*other.lent} <= {*self.lent}
        return same and {*other.interpreters} <= {*self.interpreters} and {*other.programs} <= {*self.programs}


def open_to(
    found: Iterable[Interpreter | None], project: str | os.PathLike[str], settings: SandboxSettings, *, confined: bool
) -> list[Interpreter]:
    """Those of the interpreters that an agent of this project may change; ``confined``: it works in a sandbox."""
    known = [each for each in dict.fromkeys(found) if each]
    if not confined:
        return known
    is_open = left_open([project], settings=settings)
    return [each for each in known if any(map(is_open, (each.executable, each.prefix, *each.sites)))]


def look(
    interpreters: Iterable[Interpreter],
    programs: Iterable[str] = (),
    *,
    search: str = "",
    above: str = "",
    root: str = "",
    lent: Sequence[str] = (),
    known: Mapping[str, str] | None = None,
) -> Installed:
    """What is installed for these interpreters; ``known`` are entries of before, whose contents are not read again."""
    places, names = tuple(dict.fromkeys(interpreters)), tuple(dict.fromkeys(programs))
    reader = _Reader(known or {})
    for name in names:
        reader.program(name, program_path(name, root=Path("/"), path=search) or "")
    sites = _sites(places)
    inside = tuple(f"{each}/" for each in (root, os.path.realpath(root)) if root)
    whole = {site for site in sites if f"{site}/".startswith(inside)} if inside else set()
    found = [each for site in sites for each in distributions(site)]
    runners = _runners(found)
    tops: set[str] = set()
    for each in runners:
        reader.found[RUNNER + each.name] = each.as_runner()
        tops |= each.tops
    for each in reversed(found):  # the first of a name counts
        if each.site in whole:
            reader.read(f"{each.place}/RECORD")
        if each.plugins:
            reader.found[PLUGIN + each.name] = "\t".join((" ".join(each.plugins), each.place))
    for path in (path for each in places for path in (each.executable, f"{each.prefix}/pyvenv.cfg")):
        reader.read(path)
    for site in sites:
        reader.site(site, tops, whole=site in whole)
    reader.imported()
    for path in (f"{folder}/{name}" for folder in Path(above).parents for name in _SETTINGS_ABOVE if above):
        reader.read(path)
    for link in lent:
        reader.lent(root, link)
    return Installed(
        interpreters=places,
        programs=names,
        search=search,
        above=above,
        root=root,
        lent=tuple(lent),
        sites=tuple(sites),
        entries=reader.found,
    )


def _sites(interpreters: Iterable[Interpreter]) -> list[str]:
    """The folders of packages of interpreters, and those that a ``.pth`` file adds to them."""
    own = dict.fromkeys(site for each in interpreters for site in each.sites)
    lines = ((site, line) for site in own for pth in Path(site).glob("*.pth") for line in text_of(pth).splitlines())
    added = (os.path.join(site, line) for site, line in lines if line[:1] not in ("", "#") and "\0" not in line)
    return [*own, *dict.fromkeys(path for path in added if path not in own and distributions(path))]


class _Reader:
    """Collects entries: the stamp of a file, and the digest of those few whose contents cannot be had otherwise."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.found: dict[str, str] = {}
        self._known = known
        self._imports: list[str] = []

    def program(self, name: str, path: str) -> None:
        """Where a program is found, and what it holds."""
        known = self._known.get(PROGRAM + name, "").rpartition("\t")[0]
        self.found[PROGRAM + name] = f"{self._content(path, known.partition(chr(9))[2])}\t{path}" if path else ""

    def read(self, path: str) -> None:
        """A file with its digest; nothing where there is none."""
        if content := self._content(path, self._known.get(path, "")):
            self.found[path] = content

    def _content(self, path: str, known: str) -> str:
        try:
            stamp = stamp_of(os.stat(path))
        except OSError:
            return ""
        return known if known.startswith(f"{stamp} ") else f"{stamp} {_digest(path)}"

    def site(self, site: str, runners: Collection[str], *, whole: bool) -> None:
        """The code that an interpreter runs from a folder of packages when it starts, and the runners' or all."""
        for entry in _listed(site):
            if entry.name.endswith(".pth") or entry.name in START:
                self.read(entry.path)
                for name in _imported(Path(entry.path)) if entry.name.endswith(".pth") else ():
                    for path in (f"{site}/{name}.py", *map(str, sorted(Path(site, name).rglob("*.py")))):
                        self._imports.append(path)
            elif whole or entry.name in runners:
                self._entry(entry, is_runner=entry.name in runners)

    def imported(self) -> None:
        """The code that the ``.pth`` files of all folders import, with its content."""
        for path in self._imports:
            self.read(path)

    def _entry(self, entry: os.DirEntry[str], *, is_runner: bool) -> None:
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            self.found[entry.path] = f"-> {target}"
            if is_runner:
                self.folder(target, compiled=False)
        elif entry.is_dir():
            if entry.name != "__pycache__" and not entry.name.endswith(_METADATA):
                self.folder(entry.path, compiled=is_runner)
        elif entry.name.endswith(_CODE):
            self.found[entry.path] = stamp_of(entry.stat())

    def lent(self, root: str, link: str) -> None:
        """What lies in a folder that is lent: what an installer keeps of a file, and then what nobody can keep."""
        top = os.path.join(root, link)
        waiting, room = [top], _MOST_LENT
        while waiting and room > 0:
            for entry in _listed(waiting.pop()):
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] if entry.name not in _REBUILT else []
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                room -= 1
                said = f"{found.st_size}.{found.st_mtime_ns} {found.st_ctime_ns}.{found.st_ino}"
                self.found[f"{LENT}{link}\t{entry.path[len(top) + 1 :]}"] = said

    def folder(self, folder: str, *, compiled: bool) -> None:
        """All code below a folder."""
        waiting = [folder]
        while waiting:
            for entry in _listed(waiting.pop()):
                if entry.is_dir(follow_symlinks=False):
                    if compiled or entry.name != "__pycache__":
                        waiting.append(entry.path)
                elif entry.name.endswith(_CODE):
                    try:
                        self.found[entry.path] = stamp_of(entry.stat())
                    except OSError:  # a link to nothing
                        continue


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def stamp_of(found: os.stat_result) -> str:
    """What no program of a user can give back to a file that it has changed."""
    return f"{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_ino}"


def _digest(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"


def with_changes(entries: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The same entries but for these; ``None`` leaves one out."""
    return {key: value for key, value in {**entries, **changes}.items() if value is not None}


def text_of(path: Path) -> str:
    """A text file as far as it can be read; nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _imported(pth: Path) -> list[str]:
    """The installed modules that the lines of a ``.pth`` file run."""
    lines = [line for line in text_of(pth).splitlines() if line.startswith(("import ", "import\t"))]
    names = (first or second for line in lines for first, second in _IMPORTED.findall(line))
    return [name for name in names if name not in sys.stdlib_module_names]


# ---- distributions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distribution:
    """What an installer has installed, by its folder of metadata."""

    site: str
    place: str  # of the metadata
    name: str
    version: str

    @cached_property
    def plugins(self) -> tuple[str, ...]:
        """The names of the plugins of pytest that it registers."""
        found = _PLUGINS.search(text_of(Path(self.place, "entry_points.txt")))
        lines = (line.partition("=") for line in found[1].splitlines()) if found else ()
        return tuple(sorted(name.strip() for name, sign, _ in lines if sign))

    @property
    def requires(self) -> list[str]:
        """The distributions that it stands on."""
        wanted = _REQUIRES.findall(text_of(Path(self.place, "METADATA")).partition("\n\n")[0])
        names = [name for name, terms in wanted if "extra ==" not in terms]
        names += re.findall(r"^([\w.-]+)", text_of(Path(self.place, "requires.txt")).partition("\n[")[0], re.MULTILINE)
        return [normal(name) for name in names]

    @cached_property
    def contents(self) -> dict[str, str]:
        """The digest of each of its files, by path in the site, as its installer wrote them down."""
        try:
            rows = list(csv.reader(text_of(Path(self.place, "RECORD")).splitlines()))
        except csv.Error:
            return {}
        return {posixpath.normpath(row[0]): row[1].removeprefix("sha256=") for row in rows if len(row) > 1}

    @property
    def is_old(self) -> bool:
        """Whether its installer wrote no digests down."""
        return not any(self.contents.values())

    @cached_property
    def tops(self) -> frozenset[str]:
        """The entries of the site that are its own, and not shared as a namespace."""
        if not self.contents:
            names = set(text_of(Path(self.place, "top_level.txt")).split())
            return frozenset((*names, *(f"{name}.py" for name in names)))
        modules = {path for path in self.contents if "/" not in path}
        parted = map(str.partition, self.contents, repeat("/"))
        return frozenset((*modules, *(top for top, _, name in parted if name == "__init__.py")))

    def holds(self, path: str) -> bool:
        """Whether one of its files is what its installer has written."""
        try:
            with Path(self.site, path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").digest()
        except OSError:
            return False
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.contents.get(path)

    def as_runner(self) -> str:
        """Its version, and a digest of what it holds; then when it was installed, what is its own, and where."""
        code = sorted(f"{path} {digest}" for path, digest in self.contents.items() if path.endswith(_CODE) and digest)
        digest = hashlib.sha256("\n".join(code).encode("utf-8", "surrogateescape")).hexdigest()
        try:
            stamp = stamp_of(os.stat(os.path.join(self.place, "RECORD")))
        except OSError:
            stamp = ""
        return "\t".join((self.version, digest, stamp, " ".join(sorted(self.tops)), self.place))


def normal(name: str) -> str:
    """The name of a distribution as all its spellings have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(site: str) -> list[Distribution]:
    """What is installed in a folder of packages."""
    found: list[Distribution] = []
    for entry in _listed(site):
        if entry.name.endswith(_METADATA):
            name, _, version = re.sub(r"-py[0-9.]+$", "", entry.name.rpartition(".")[0]).rpartition("-")
            found.append(Distribution(site, entry.path, normal(name), version))
    return found


def _runners(found: Sequence[Distribution]) -> list[Distribution]:
    """Pytest, whatever registers a plugin of it, and all that these stand on."""
    by_name = {each.name: each for each in reversed(found)}
    queue = [each for each in found if each.name == "pytest" or each.plugins]
    reached: dict[str, Distribution] = {}
    while queue:
        each = queue.pop()
        if each.name not in reached:
            reached[each.name] = each
            queue += [by_name[name] for name in each.requires if name in by_name]
    return [reached[name] for name in sorted(reached)]
