"""The environment that tests run in: which interpreter, which programs, which variables, which import folders.

``resolve`` is called before the agent starts, while nothing in the project's folder can have been bent by it, and its
answer is used for every run of the session. So the agent cannot choose another interpreter. It runs as the same user
and can change the environment that judges it: a ``.pth`` file with code, a patched pytest, another interpreter behind
the same name. The fingerprint finds the plain ways: it is taken before the agent starts and compared before its work is
judged. It can be stored and compared by a later harness, so that a change does not become normal by waiting. Source:
features.md C54; ``docs/decisions/judge-a-commit.md``.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_harness.errors import HarnessError
from agent_harness.kernel import process
from agent_harness.kernel.process import scrubbed_environment
from agent_harness.kernel.process.sandbox import AUTO, SandboxSettings
from agent_harness.verification.check import Command, parse
from agent_harness.verification.runner.lending import Mapped, import_folders, mapped
from agent_harness.verification.runner.testreport import PLUGIN_FOLDER
from agent_harness.verification.verdict import CRITICAL, IMPORTANT, Finding
from agent_harness.verification.workspace import Workspace

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
_RUNNER_PACKAGES = ("_pytest", "pytest", "pluggy", "iniconfig")
_LOADED_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_KNOWN_LINES = re.compile(
    r"import _virtualenv|import (__editable___\w+_finder); \1\.install\(\)"
    r"|import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '(local|stdlib)'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)(\.add_shim\(\))?;?"
)
_PACKAGE = "package:"  # before a member of a package folder that is recorded by its name only
_INSIDE = "//"  # between a runner's package and a file in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python installation or virtual environment."""

    executable: str
    prefix: str
    scripts: str  # where its console scripts are
    sites: tuple[str, ...]  # where its packages are
    library: tuple[str, ...]  # where its standard library is
    version: str = ""


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
            return _read(line.removeprefix(_MARK))
    return None


def _read(text: str) -> Interpreter | None:
    try:
        facts = json.loads(text)
        return Interpreter(
            executable=facts["executable"],
            prefix=facts["prefix"],
            scripts=facts["scripts"],
            sites=tuple(facts["sites"]),
            library=tuple(facts["library"]),
            version=facts["version"],
        )
    except (ValueError, KeyError, TypeError):
        return None


def fingerprint_of(interpreters: Collection[Interpreter], programs: Collection[str]) -> dict[str, str]:
    """Digest by path of what these interpreters and programs load first, and the names of installed packages."""
    found: dict[str, str] = {}
    for path in (*programs, *(i.executable for i in interpreters)):
        found[path] = _digest(Path(path))
    for interpreter in interpreters:
        marker = Path(interpreter.prefix, "pyvenv.cfg")
        if marker.exists():
            found[str(marker)] = _digest(marker)
        for site in interpreter.sites:
            found.update(_site(str(Path(site))))
    return found


def fingerprint_changes(before: Mapping[str, str], now: Mapping[str, str], *, project: Path) -> list[Finding]:
    """One finding for what would run code in every test run, one for packages that came or went."""
    differing = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    installed = {path for path in differing if path.startswith(_PACKAGE) or _is_new_runner(path, before)}
    steering = [path for path in differing if path not in installed and _steers(path, project)]
    packages = sorted({path.removeprefix(_PACKAGE).partition(_INSIDE)[0] for path in installed})
    findings: list[Finding] = []
    if steering:
        message = f"What runs the tests changed during the session: {', '.join(steering[:3])}."
        findings.append(Finding("environment_changed", CRITICAL, message, {"paths": steering[:50]}))
    if packages:
        message = f"Installed packages changed during the session: {', '.join(Path(p).name for p in packages[:5])}."
        findings.append(Finding("packages_changed", IMPORTANT, message, {"paths": packages[:50]}))
    return findings


def recompiled(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether compiled code of a runner came or changed: any first run does that, and so could an agent."""
    return any(_is_compiled(path) and before.get(path) != digest for path, digest in now.items())


def _is_compiled(path: str) -> bool:
    return "/__pycache__/" in path


def _is_new_runner(path: str, before: Mapping[str, str]) -> bool:
    """Part of a runner that was installed nowhere before: until then no test could run, so nothing was bent."""
    package, inside, _ = path.partition(_INSIDE)
    part = f"/{Path(package).name}{_INSIDE}"
    return bool(inside) and not any(part in known for known in before)


def _steers(path: str, project: Path) -> bool:
    """A changed ``.pth`` that only names folders of the project, or known code, steers nothing; the rest does."""
    if not path.endswith(".pth"):
        return not _is_compiled(path)
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


def _site(site: str) -> Iterator[tuple[str, str]]:
    """By names alone: a site has hundreds of entries, and this is done twice a session."""
    try:
        names = sorted(os.listdir(site))  # noqa: PTH208
    except OSError:
        return
    for name in names:
        entry = os.path.join(site, name)  # noqa: PTH118
        if name.endswith(".pth") or name in _LOADED_AT_START:
            yield entry, _digest(Path(entry))
        elif name in _RUNNER_PACKAGES:
            for path in sorted(Path(entry).rglob("*.py*")):
                yield f"{entry}{_INSIDE}{path.relative_to(entry)}", _digest(path)
        elif name != "__pycache__":
            yield _PACKAGE + entry, ""


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"


WORKTREE, IN_PLACE = "worktree", "in_place"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """Everything about a run that does not come from the commit."""

    root: Path  # the project
    isolation: str = WORKTREE
    links: tuple[str, ...] = ()  # ignored folders of the project lent to the checkout
    report: str | None = None  # where a runner that is not pytest writes its JUnit XML, inside the project
    variables: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)  # first words -> what is started
    interpreters: Mapping[tuple[str, ...], Interpreter] = field(default_factory=dict)  # first words -> interpreter
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    sandbox: SandboxSettings = AUTO  # of what is run
    own_bytecode: bool = False  # compiled code that lies beside the sources is not believed

    @property
    def sites(self) -> tuple[str, ...]:
        """Package folders of all interpreters."""
        return tuple(dict.fromkeys(site for found in self.interpreters.values() for site in found.sites))

    @property
    def kept(self) -> tuple[str, ...]:
        """Folders inside the project from which code may come: package folders and what is lent."""
        libraries = [path for found in self.interpreters.values() for path in found.library]
        return (*self.sites, *libraries, *(str(self.root / link) for link in self.links))

    @property
    def tools(self) -> dict[str, str]:
        """The versions of Python and pytest in which the first of the commands runs, where they can be seen."""
        found = next(iter(self.interpreters.values()), None)
        names = (name.name for site in (found.sites if found else ()) for name in Path(site).glob("pytest-*.dist-info"))
        pytest = next((name.removeprefix("pytest-").removesuffix(".dist-info") for name in names), "")
        known = {"python": found.version if found else "", "pytest": pytest}
        return {name: version for name, version in known.items() if version}

    def mapped(self) -> Mapped:
        """What stands for the project in the package folders now: mapping only ever leads to the checkout."""
        return mapped(self.sites, self.root)

    def looked_at_again(self) -> tuple["RunEnvironment", list[Finding]]:
        """This environment as tests may be run in it now, and what of the recorded one is no longer the same.

        Where a runner's compiled code is new, every run compiles its own: then nobody else's is loaded.
        """
        now = _recorded(self.interpreters, self.programs)
        findings = fingerprint_changes(self.fingerprint, now, project=self.root)
        return replace(self, own_bytecode=recompiled(self.fingerprint, now)), findings

    def completed(self, command: Command) -> "RunEnvironment":
        """This environment, or one that also knows the interpreter of a command that was not there when it was made.

        A project whose first session makes its virtual environment has none beforehand.
        """
        if command.head in self.interpreters:
            return self
        found = interpreter_behind(command, root=self.root, variables=self.variables)
        if found is None:
            return self
        programs = dict(self.programs)
        if command.words:
            programs[command.head] = _started(command, found, self.root, self.variables["PATH"])
        return replace(self, interpreters={**self.interpreters, command.head: found}, programs=programs)

    def words(self, command: Command, cwd: Path) -> list[str]:
        """The command's words with its program as it was found before the agent started."""
        if not command.words:
            return []
        started = self.programs.get(command.head, command.head)
        return [*(self._placed(word, cwd) for word in started), *command.words[command.program + 1 :]]

    def _placed(self, word: str, cwd: Path) -> str:
        """A path like ``.venv/bin/python`` that the checkout does not have is taken from the project."""
        if "/" not in word or word.startswith(("/", "-")) or (cwd / word).exists():
            return word
        return str(self.root / word) if (self.root / word).exists() else word

    def variables_for(self, command: Command, space: Workspace) -> dict[str, str]:
        """The variables of one run: the program's own folder first on PATH, imports led to the checkout."""
        variables = {**self.variables, "PWD": str(space.cwd)}
        found = self.interpreters.get(command.head)
        if found and command.launched:
            variables["PATH"] = os.pathsep.join((found.scripts, variables.get("PATH", os.defpath)))
            variables["VIRTUAL_ENV"] = found.prefix
        folders = [str(PLUGIN_FOLDER)]
        if self.isolation == WORKTREE:
            folders += import_folders(self.mapped(), space)
        if self.isolation == IN_PLACE or self.own_bytecode:
            variables["PYTHONPYCACHEPREFIX"] = str(space.private / "compiled")
        wished = dict(command.variables).get("PYTHONPATH", variables.get("PYTHONPATH", ""))
        own = [entry for entry in wished.split(os.pathsep) if entry]
        if self.isolation == WORKTREE:
            own = [space.moved(entry, self.root) for entry in own]
        variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys((*folders, *own)))
        return variables


def resolve(
    root: str | os.PathLike[str],
    commands: Iterable[str],
    *,
    links: Sequence[str] = (),
    isolation: str = WORKTREE,
    report: str | None = None,
    sandbox: SandboxSettings = AUTO,
) -> RunEnvironment:
    """Finds what the commands will start, asks their interpreters where things are, and records digests.

    Call it before the agent starts. ``commands`` may still hold ``{test_file}``. A program that is not there is no
    error here; the run says so.
    """
    place = Path(root).absolute()
    variables = scrubbed_environment()
    # An entry that depends on the current folder would be one of the checkout.
    search = variables.get("PATH", os.defpath).split(os.pathsep)
    variables["PATH"] = os.pathsep.join(entry for entry in search if entry.startswith("/"))
    programs: dict[tuple[str, ...], tuple[str, ...]] = {}
    interpreters: dict[tuple[str, ...], Interpreter] = {}
    for command in map(parse, commands):
        if command.head in programs:
            continue
        found = interpreter_behind(command, root=place, variables=variables)
        if found:
            interpreters[command.head] = found
        if command.words:
            programs[command.head] = _started(command, found, place, variables["PATH"])
    return RunEnvironment(
        root=place,
        isolation=isolation,
        links=tuple(links),
        report=report,
        sandbox=sandbox,
        variables=variables,
        programs=programs,
        interpreters=interpreters,
        fingerprint=_recorded(interpreters, programs),
    )


def _recorded(
    interpreters: Mapping[tuple[str, ...], Interpreter], programs: Mapping[tuple[str, ...], tuple[str, ...]]
) -> dict[str, str]:
    absolute = {word for words in programs.values() for word in words if word.startswith("/")}
    return fingerprint_of(list(set(interpreters.values())), sorted(absolute))


def _started(command: Command, found: Interpreter | None, root: Path, path: str) -> tuple[str, ...]:
    """The command's first words with every program among them made absolute.

    A launcher (``poetry run pytest``) or a shim has said which environment it is; asked again in another folder it
    could choose another one, so the environment's own program takes its place.
    """
    head = list(command.head)
    program = _program(command, found, root, path)
    if command.launched and found:
        return (program,)
    if command.program and "/" not in head[0]:
        head[0] = program_path(head[0], root=root, path=path) or head[0]
    head[-1] = program
    return tuple(head)


def _program(command: Command, found: Interpreter | None, root: Path, path: str) -> str:
    word = command.head[-1]
    if found and is_python(Path(word).name):
        return found.executable
    if "/" in word:
        return word
    resolved = program_path(word, root=root, path=path)
    if found and (command.launched or (command.pytest and resolved and not interpreter_of_script(resolved))):
        own = Path(found.scripts, word)
        return str(own) if own.exists() else resolved or word
    return resolved or word
