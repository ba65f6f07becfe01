"""What is installed where tests run, at one moment.

A plain run of tests loads programs, an interpreter with its library, ``.pth`` and ``sitecustomize`` files, pytest with
all that it requires, and a plugin of every distribution that registers one. ``look`` writes all of this down, and every
other file of code that is installed beside it: by size, times and inode, which no program of a user can give back to a
file that it has changed. Few contents are read; what a file has to hold is in the ``RECORD`` of its installer, which is
asked where a file differs (``installed_changes.py``). Source: features.md C54.
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
from pathlib import Path

from agent_harness.verification.runner.entries import Collected, Entries, parted
from agent_harness.verification.runner.interpreters import Interpreter, program_path
from agent_harness.verification.runner_config import SETTINGS_FILES

_CODE = (".py", ".pyc", ".so", ".pyd")
_METADATA = (".dist-info", ".egg-info")
START = frozenset({"sitecustomize.py", "usercustomize.py"})
_SETTINGS_ABOVE = (*SETTINGS_FILES, "conftest.py")
_NOT_LOADED = frozenset(  # parts of the library that no run of tests loads, or that are sites
    {"site-packages", "dist-packages", "test", "idlelib", "lib2to3", "turtledemo", "ensurepip", "pydoc_data"}
)
_PLUGINS = re.compile(r"^\[pytest11\]\s*$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_REQUIRES = re.compile(r"^Requires-Dist:\s*([\w.-]+)([^\n]*)", re.MULTILINE)
_IMPORTED = re.compile(r"\bimport[ \t]+([A-Za-z_]\w*)|__import__\(['\"]([A-Za-z_]\w*)")
PROGRAM, RUNNER, PLUGIN = "program ", "runner ", "plugin "  # before a name; a path begins with a slash


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What is installed in some places at one moment."""

    interpreters: tuple[Interpreter, ...] = ()
    programs: tuple[str, ...] = ()  # as commands name them
    search: str = ""  # the PATH on which they are found
    above: str = ""  # a project whose tests run in place: settings in the folders above it count
    sites: tuple[str, ...] = ()  # the folders of packages
    left: frozenset[str] = frozenset()  # entries that an earlier session has changed, as they were before it
    entries: Entries = field(default_factory=Entries)

    def now(self) -> "Installed":
        """The same places as they are now."""
        return look(self.interpreters, self.programs, search=self.search, above=self.above, known=self.entries)

    def programs_now(self) -> "Installed":
        """The programs alone as they are now."""
        return look((), self.programs, search=self.search, known=self.entries)

    def programs_of(self, other: "Installed") -> "Installed":
        """What is known of those entries that a look at the programs alone has."""
        wanted = dict.fromkeys((*(PROGRAM + name for name in self.programs), *other.entries))
        return replace(self, entries=Entries({key: self.entries[key] for key in wanted if key in self.entries}))

    def includes(self, other: "Installed") -> bool:
        """Whether whatever is looked at in the other places is looked at here, too."""
        same = (self.search, self.above) == (other.search, other.above)
        return same and {*other.interpreters} <= {*self.interpreters} and {*other.programs} <= {*self.programs}

    def together(self, other: "Installed") -> "Installed":
        """The other places and these, with nothing of what is there; these are left out where they are elsewhere."""
        if (self.search, self.above) != (other.search, other.above):
            return other
        both = dict.fromkeys((*other.interpreters, *self.interpreters))
        return replace(other, interpreters=(*both,), programs=(*dict.fromkeys((*other.programs, *self.programs)),))


def look(
    interpreters: Iterable[Interpreter],
    programs: Iterable[str] = (),
    *,
    search: str = "",
    above: str = "",
    known: Entries | None = None,
) -> Installed:
    """What is installed for these interpreters; ``known`` are entries of before, whose contents are not read again."""
    places, names = tuple(dict.fromkeys(interpreters)), tuple(dict.fromkeys(programs))
    reader = _Reader(known or Entries())
    for name in names:
        path = program_path(name, root=Path("/"), path=search) or ""
        reader.note(PROGRAM + name, path)
        reader.read(path)
    for interpreter in places:
        reader.read(interpreter.executable)
        reader.read(f"{interpreter.prefix}/pyvenv.cfg")
    sites = _sites(places)
    found = [each for site in sites for each in distributions(site)]
    runners = _runners(found)
    tops: set[str] = set()
    for each in runners:
        reader.note(RUNNER + each.name, each.as_runner())
        tops |= each.tops
    for each in reversed(found):  # the first of a name counts
        reader.read(f"{each.place}/RECORD")
        if each.plugins:
            reader.note(PLUGIN + each.name, "\t".join((" ".join(each.plugins), each.place)))
    for site in sites:
        reader.site(site, tops)
    for library in dict.fromkeys(path for each in places for path in each.library):
        reader.folder(library, leave_out=_NOT_LOADED, compiled=True)
    for folder in Path(above).parents if above else ():
        for name in _SETTINGS_ABOVE:
            reader.read(str(folder / name))
    return Installed(
        interpreters=places,
        programs=names,
        search=search,
        above=above,
        sites=tuple(sites),
        entries=reader.found(),
    )


def _sites(interpreters: Iterable[Interpreter]) -> list[str]:
    """The folders of packages of interpreters, and those that a ``.pth`` file adds to them."""
    own = dict.fromkeys(site for each in interpreters for site in each.sites)
    lines = ((site, line) for site in own for pth in Path(site).glob("*.pth") for line in text_of(pth).splitlines())
    added = (os.path.join(site, line) for site, line in lines if line[:1] not in ("", "#") and "\0" not in line)
    return [*own, *dict.fromkeys(path for path in added if path not in own and distributions(path))]


class _Reader:
    """Collects entries: the stamp of a file, and the digest of those few whose contents cannot be had otherwise."""

    def __init__(self, known: Entries) -> None:
        self._collected = Collected(known)
        self._known = known

    def found(self) -> Entries:
        """All of them."""
        return Entries.of_folders(self._collected.folders)

    def note(self, key: str, value: str) -> None:
        """What is known under a name; it takes the place of what was noted before."""
        folder, name = parted(key)
        self._collected.add(folder, {name: value})

    def read(self, path: str) -> None:
        """A file with its digest; nothing where there is none."""
        try:
            stamp = stamp_of(os.stat(path)) if path else ""
        except OSError:
            return
        if stamp:
            known = self._known.get(path, "")
            self.note(path, known if known.startswith(f"{stamp} ") else f"{stamp} {_digest(path)}")

    def site(self, site: str, runners: Collection[str]) -> None:
        """All code of a folder of packages, and the code that an interpreter runs from it when it starts."""
        start: list[str] = []
        own: dict[str, str] = {}
        for entry in _listed(site):
            if entry.name.endswith(".pth") or entry.name in START:
                self.read(entry.path)
                start += _imported(Path(entry.path)) if entry.name.endswith(".pth") else ()
            elif entry.is_symlink():
                target = os.path.realpath(entry.path)
                own[entry.name] = f"-> {target}"
                if entry.name in runners:
                    self.folder(target)
            elif entry.is_dir():
                if entry.name != "__pycache__" and not entry.name.endswith(_METADATA):
                    self.folder(entry.path, compiled=entry.name in runners)
            elif entry.name.endswith(_CODE):
                own[entry.name] = stamp_of(entry.stat())
        self._note_all(site, own)
        for name in start:
            for path in (f"{site}/{name}.py", *map(str, sorted(Path(site, name).rglob("*.py")))):
                self.read(path)

    def folder(self, folder: str, *, leave_out: Collection[str] = (), compiled: bool = False) -> None:
        """All code below a folder."""
        files: dict[str, str] = {}
        for entry in _listed(folder):
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in leave_out and (compiled or entry.name != "__pycache__"):
                    self.folder(entry.path, compiled=compiled)
            elif entry.name.endswith(_CODE):
                try:
                    files[entry.name] = stamp_of(entry.stat())
                except OSError:  # a link to nothing
                    continue
        self._note_all(folder, files)

    def _note_all(self, folder: str, files: Mapping[str, str]) -> None:
        if files:
            self._collected.add(os.path.join(folder, ""), files)


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
        return frozenset((*modules, *(top for top, _, name in map(_parted, self.contents) if name == "__init__.py")))

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


def _parted(path: str) -> tuple[str, str, str]:
    return path.partition("/")


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
