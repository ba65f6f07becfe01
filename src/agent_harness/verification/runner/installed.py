"""Record of the installed files that influence a check and that an agent could change.
The record of a file holds size, times and inode. A user's program cannot restore all of these after a change. If they
differ, the content is compared with the installer's ``RECORD`` file (``installed_changes.py``). Files that no agent can
write are skipped (``places``). Source: features.md C54."""

import base64
import csv
import hashlib
import os
import posixpath
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from agent_harness.kernel.process.sandbox import SandboxSettings, left_open
from agent_harness.verification.runner.interpreters import Interpreter, program_path
from agent_harness.verification.runner_config import SETTINGS_FILES

_CODE = (".py", ".pyc", ".so", ".pyd")
_METADATA = (".dist-info", ".egg-info")
START = frozenset({"sitecustomize.py", "usercustomize.py"})
_PLUGINS = re.compile(r"^\[pytest11\]\s*$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_REQUIRES = re.compile(r"^Requires-Dist:\s*([\w.-]+)([^\n]*)", re.MULTILINE)
_IMPORTED = re.compile(r"\bimport[ \t]+([A-Za-z_]\w*)|__import__\(['\"]([A-Za-z_]\w*)")
PROGRAM, RUNNER, PLUGIN = "program ", "runner ", "plugin "  # before a name; a path begins with a slash
LENT = "lent "  # before a folder of the project, a tab, and a path in it
_MOST_LENT = 60_000  # files of a folder that is lent
_REBUILT = frozenset({".cache", ".vite", ".turbo", "__pycache__"})  # by whatever runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """Stamps and digests of installed files in several folders at one time."""

    interpreters: tuple[Interpreter, ...] = ()
    pythons: tuple[str, ...] = ()  # the interpreters that were there, also those that no agent can change
    programs: tuple[str, ...] = ()  # as commands name them
    search: str = ""  # the PATH on which they are found
    above: str = ""  # a project whose tests run in place: settings in the folders above it count
    root: str = ""  # the project: all code of the environments in it counts
    lent: tuple[str, ...] = ()  # folders of it that checkouts get, and that are not a Python environment
    closed: tuple[str, ...] = ()  # paths of the interpreters that no agent can write: of packages metadata counts
    sites: tuple[str, ...] = ()  # the folders of packages
    left: frozenset[str] = frozenset()  # entries that an earlier session has changed, as they were before it
    entries: Mapping[str, str] = field(default_factory=dict)

    def now(self, *, programs_only: bool = False) -> "Installed":
        """Return the current state. Read only files whose size, times or inode changed."""
        reader = _Reader(self.entries)
        for name in self.programs:
            path = program_path(name, root=Path("/"), path=self.search) or ""
            known = self.entries.get(PROGRAM + name, "").rpartition("\t")[0]
            reader.found[PROGRAM + name] = f"{reader.content(path, known)}\t{path}" if path else ""
        for link in self.lent:
            top = os.path.join(self.root, link)
            for entry in islice(_files_below(top, _REBUILT), _MOST_LENT):
                reader.stamp(f"{LENT}{link}\t{entry.path[len(top) + 1 :]}", entry, follow=False)
        if programs_only:
            rest = {key: text for key, text in self.entries.items() if not key.startswith((PROGRAM, LENT))}
            return replace(self, left=frozenset(), entries=rest | reader.found)
        sites = _sites(self.interpreters)
        self._packages(reader, sites)
        for folder in Path(self.above).parents if self.above else ():
            for name in (*SETTINGS_FILES, "conftest.py"):
                reader.read(f"{folder}/{name}")
        return replace(self, sites=tuple(sites), left=frozenset(), entries=reader.found)

    def _packages(self, reader: "_Reader", sites: Sequence[str]) -> None:
        inside = tuple(f"{each}/" for each in (self.root, os.path.realpath(self.root)) if self.root)
        whole = {site for site in sites if f"{site}/".startswith(inside)} if inside else set()
        found = [each for site in sites for each in distributions(site)]
        tops: set[str] = set()
        for each in _runners(found):
            reader.found[RUNNER + each.name] = each.as_runner()
            tops |= each.tops
        for each in reversed(found):  # the first of a name counts
            if each.site in whole:
                reader.read(f"{each.place}/RECORD")
            if each.plugins:
                reader.found[PLUGIN + each.name] = "\t".join((" ".join(each.plugins), each.place))
        for interpreter in self.interpreters:
            if interpreter.executable not in self.closed:
                reader.read(interpreter.executable)
            if interpreter.prefix not in self.closed:
                reader.read(f"{interpreter.prefix}/pyvenv.cfg")
        started = [reader.site(site, tops, whole=site in whole) for site in sites if site not in self.closed]
        for path in (path for paths in started for path in paths):
            reader.read(path)

    def includes(self, other: "Installed") -> bool:
        same = (self.search, self.above, self.root) == (other.search, other.above, other.root)
        same = same and {*other.lent} <= {*self.lent} and {*other.programs} <= {*self.programs}
        parts = {path for each in other.interpreters for path in each.places}
        return same and {*other.interpreters} <= {*self.interpreters} and {*self.closed} & parts <= {*other.closed}


def places(
    interpreters: Iterable[Interpreter | None],
    programs: Iterable[str],
    *,
    root: str,
    settings: SandboxSettings,
    confined: bool,
    search: str,
    above: str = "",
    lent: Sequence[str] = (),
) -> Installed:
    """Return a record of the interpreters and programs that an agent could change."""
    is_open = left_open([root], settings=settings) if confined else lambda _: True

    def may_change(path: str) -> bool:
        ways = (path, *map(str, Path(path).parents))
        return is_open(path) or any(os.path.islink(each) and is_open(os.path.dirname(each)) for each in ways)

    def may_be_another(name: str) -> bool:
        path = program_path(name, root=Path("/"), path=search)
        return path is None or may_change(path)

    known = [each for each in dict.fromkeys(interpreters) if each]
    kept = tuple(each for each in known if any(map(may_change, each.places)))
    may_come = any(map(may_change, search.split(os.pathsep)))
    return Installed(
        interpreters=kept,
        pythons=tuple(dict.fromkeys(each.executable for each in known)),
        programs=tuple(name for name in dict.fromkeys(programs) if may_come or may_be_another(name)),
        search=search,
        above=above,
        root=root,
        lent=tuple(lent),
        closed=tuple(dict.fromkeys(path for each in kept for path in each.places if not may_change(path))),
    )


class _Reader:
    """Collector of file stamps (size, times, inode) and digests."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.found: dict[str, str] = {}
        self._known = known

    def read(self, path: str) -> None:
        if content := self.content(path, self._known.get(path, "")):
            self.found[path] = content

    def content(self, path: str, known: str) -> str:
        try:
            stamp = stamp_of(os.stat(path))
        except OSError:
            return ""
        if known.startswith(f"{stamp} "):
            return known
        try:
            with Path(path).open("rb") as file:
                return f"{stamp} {hashlib.file_digest(file, 'sha256').hexdigest()}"
        except OSError:
            return f"{stamp} unreadable"

    def stamp(self, key: str, entry: os.DirEntry[str], *, follow: bool = True) -> None:
        try:
            self.found[key] = stamp_of(entry.stat(follow_symlinks=follow))
        except OSError:
            return

    def site(self, site: str, runners: Collection[str], *, whole: bool) -> list[str]:
        """Record the start-up files and test runners of a package folder. Return the files that ``.pth`` files
        import."""
        imported: list[str] = []
        for entry in _listed(site):
            is_runner = entry.name in runners
            if entry.name.endswith(".pth") or entry.name in START:
                self.read(entry.path)
                for name in _imported(Path(entry.path)) if entry.name.endswith(".pth") else ():
                    imported += [f"{site}/{name}.py", *map(str, sorted(Path(site, name).rglob("*.py")))]
            elif not (whole or is_runner):
                continue
            elif entry.is_symlink():
                target = os.path.realpath(entry.path)
                self.found[entry.path] = f"-> {target}"
                if is_runner:
                    self._folder(target, compiled=False)
            elif not entry.is_dir():
                if entry.name.endswith(_CODE):
                    self.stamp(entry.path, entry)
            elif entry.name != "__pycache__" and not entry.name.endswith(_METADATA):
                self._folder(entry.path, compiled=is_runner)
        return imported

    def _folder(self, folder: str, *, compiled: bool) -> None:
        for entry in _files_below(folder, () if compiled else ("__pycache__",)):
            if entry.name.endswith(_CODE):
                self.stamp(entry.path, entry)


def _files_below(folder: str, passed_over: Collection[str]) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        for entry in _listed(waiting.pop()):
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif entry.name not in passed_over:
                waiting.append(entry.path)


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def stamp_of(found: os.stat_result) -> str:
    """Return a file's size, times and inode as one text."""
    # after a change, a user's program cannot restore all of them
    return f"{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_ino}"


def with_changes(entries: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**entries, **changes}.items() if value is not None}


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _imported(pth: Path) -> list[str]:
    lines = [line for line in text_of(pth).splitlines() if line.startswith(("import ", "import\t"))]
    names = (first or second for line in lines for first, second in _IMPORTED.findall(line))
    return [name for name in names if name not in sys.stdlib_module_names]


def _sites(interpreters: Iterable[Interpreter]) -> list[str]:
    """Return the package folders of the interpreters, and the package folders that ``.pth`` files add to them."""
    own = dict.fromkeys(site for each in interpreters for site in each.sites)
    lines = ((site, line) for site in own for pth in Path(site).glob("*.pth") for line in text_of(pth).splitlines())
    added = (os.path.join(site, line) for site, line in lines if line[:1] not in ("", "#") and "\0" not in line)
    return [*own, *dict.fromkeys(path for path in added if path not in own and distributions(path))]


# ---- distributions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distribution:
    """Installed distribution. ``site`` is its package folder, and ``place`` is its metadata folder."""

    site: str
    place: str  # of the metadata
    name: str
    version: str

    @cached_property
    def plugins(self) -> tuple[str, ...]:
        found = _PLUGINS.search(text_of(Path(self.place, "entry_points.txt")))
        lines = (line.partition("=") for line in found[1].splitlines()) if found else ()
        return tuple(sorted(name.strip() for name, sign, _ in lines if sign))

    @property
    def requires(self) -> list[str]:
        wanted = _REQUIRES.findall(text_of(Path(self.place, "METADATA")).partition("\n\n")[0])
        names = [name for name, terms in wanted if "extra ==" not in terms]
        names += re.findall(r"^([\w.-]+)", text_of(Path(self.place, "requires.txt")).partition("\n[")[0], re.MULTILINE)
        return [normal(name) for name in names]

    @cached_property
    def contents(self) -> dict[str, str]:
        """Digests of the distribution's files by path, as the installer recorded them."""
        try:
            rows = list(csv.reader(text_of(Path(self.place, "RECORD")).splitlines()))
        except csv.Error:
            return {}
        return {posixpath.normpath(row[0]): row[1].removeprefix("sha256=") for row in rows if len(row) > 1}

    @cached_property
    def tops(self) -> frozenset[str]:
        """Entries of the package folder that belong only to this distribution."""
        if not self.contents:
            names = set(text_of(Path(self.place, "top_level.txt")).split())
            return frozenset((*names, *(f"{name}.py" for name in names)))
        parted = [path.partition("/") for path in self.contents]
        return frozenset(top for top, below, name in parted if not below or name == "__init__.py")

    def holds(self, path: str) -> bool:
        try:
            with Path(self.site, path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").digest()
        except OSError:
            return False
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.contents.get(path)

    def as_runner(self) -> str:
        """Return one text with a test runner's version, code digest and installation, for comparison."""
        code = sorted(f"{path} {digest}" for path, digest in self.contents.items() if path.endswith(_CODE) and digest)
        digest = hashlib.sha256("\n".join(code).encode("utf-8", "surrogateescape")).hexdigest()
        try:
            stamp = stamp_of(os.stat(os.path.join(self.place, "RECORD")))
        except OSError:
            stamp = ""
        return "\t".join((self.version, digest, stamp, " ".join(sorted(self.tops)), self.place))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(site: str) -> list[Distribution]:
    found: list[Distribution] = []
    for entry in _listed(site):
        if entry.name.endswith(_METADATA):
            name, _, version = re.sub(r"-py[0-9.]+$", "", entry.name.rpartition(".")[0]).rpartition("-")
            found.append(Distribution(site, entry.path, normal(name), version))
    return found


def _runners(found: Sequence[Distribution]) -> list[Distribution]:
    """Return pytest, the distributions that provide pytest plugins, and all their dependencies."""
    by_name = {each.name: each for each in reversed(found)}
    queue = [each for each in found if each.name == "pytest" or each.plugins]
    reached: dict[str, Distribution] = {}
    while queue:
        each = queue.pop()
        if each.name not in reached:
            reached[each.name] = each
            queue += [by_name[name] for name in each.requires if name in by_name]
    return [reached[name] for name in sorted(reached)]
