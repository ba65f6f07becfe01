"""Environment in which tests run: interpreter, programs, environment variables and import folders.
``resolve`` runs before the agent starts. Each run of the session uses its result, which the agent cannot influence. The
state of installed files is recorded before the agent starts, and compared before the verification (``installed.py``).
Source: features.md C54, ``docs/decisions/judge-a-commit.md``."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.process import scrubbed_environment
from agent_harness.kernel.process.sandbox import AUTO, SandboxSettings
from agent_harness.verification.check import Command, parse
from agent_harness.verification.checkout import Checkout
from agent_harness.verification.runner.installed import Installed, places
from agent_harness.verification.runner.installed_changes import Differences, differences, without_compiled
from agent_harness.verification.runner.installed_record import InstalledRecord
from agent_harness.verification.runner.interpreters import (
    Interpreter,
    Interpreters,
    interpreter_of_script,
    is_python,
    program_path,
)
from agent_harness.verification.runner.linked_paths import Mapped, compared, import_folders, mapped
from agent_harness.verification.runner.testreport import PLUGIN_FOLDER
from agent_harness.verification.verdict import Finding

WORKTREE, IN_PLACE = "worktree", "in_place"
_OWN_ENVIRONMENTS = (".venv", "venv", "env", ".env")
ALWAYS = ("git", "sh")  # programs that every judgement stands on


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    root: Path  # the project
    base: str | None = None  # the commit before the work, of which checkouts of the work have the history
    isolation: str = WORKTREE
    links: tuple[str, ...] = ()  # ignored folders of the project lent to the checkout
    report: str | None = None  # where a runner that is not pytest writes its JUnit XML, inside the project
    variables: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)  # first words -> what is started
    interpreters: Mapping[tuple[str, ...], Interpreter] = field(default_factory=dict)  # first words -> interpreter
    before: Installed = field(default_factory=Installed)  # what was installed before the agent started
    without: tuple[str, ...] = ()  # files in lent folders that came or changed, and are left out
    blocked: tuple[str, ...] = ()  # plugins of pytest that are not loaded
    blocked_by: tuple[str, ...] = ()  # the metadata of what brings them, as a person would release it
    sandbox: SandboxSettings = AUTO  # of what is run
    own_bytecode: bool = False  # compiled code that lies beside the sources is not believed

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(site for found in self.interpreters.values() for site in found.sites))

    @property
    def kept(self) -> tuple[str, ...]:
        """Folders from which checks may import modules, including folders inside the project."""
        libraries = [path for found in self.interpreters.values() for path in found.library]
        return (*self.sites, *libraries, *(str(self.root / link) for link in self.links))

    @property
    def tools(self) -> dict[str, str]:
        """Python and pytest versions of the first check command, as far as they are known."""
        found = next(iter(self.interpreters.values()), None)
        names = (name.name for site in (found.sites if found else ()) for name in Path(site).glob("pytest-*.dist-info"))
        pytest = next((name.removeprefix("pytest-").removesuffix(".dist-info") for name in names), "")
        known = {"python": found.version if found else "", "pytest": pytest}
        return {name: version for name, version in known.items() if version}

    def mapped(self) -> Mapped:
        return mapped(self.sites, self.root)

    def looked_at_again(self, frees: Callable[[str], bool] = lambda _: False) -> tuple["RunEnvironment", list[Finding]]:
        """Return the environment for further runs, and a finding for each installed file that changed."""
        found = differences(self.before, self.before.now(), project=self.root).without(frees)
        found = without_compiled(found, self.before.interpreters)
        return replace(self._without(found), own_bytecode=bool(found.compiled)), found.findings

    def begun(self, record: InstalledRecord, *, begins: bool) -> "RunEnvironment":
        """Return this environment with the earlier state of the installed files. If ``begins``, start a session in
        ``record``."""
        now = self.before.now()
        before = (record.begin if begins else record.before)(now, project=self.root)
        if (before.interpreters, before.closed) != (now.interpreters, now.closed):
            now = before.now()
        return replace(self, before=before)._without(differences(before, now, project=self.root))

    def _without(self, found: Differences) -> "RunEnvironment":
        paths = tuple(sorted(each.path for each in found.plugins.values()))
        return replace(self, blocked=found.blocked, blocked_by=paths, without=tuple(found.lent.values()))

    def completed(self, command: Command) -> "RunEnvironment":
        if command.head in self.interpreters:
            return self
        # it may have been installed after ``resolve`` ran
        found = Interpreters(self.variables).behind(command, self.root)
        if found is None:
            return self
        programs = dict(self.programs)
        if command.words:
            programs[command.head] = _started(command, found, self.root, self.variables["PATH"])
        return replace(self, interpreters={**self.interpreters, command.head: found}, programs=programs)

    def python_of(self, command: Command, said: str) -> str:
        """Return the path of a command's interpreter, or "" if the interpreter is unknown."""
        known = [each.executable for each in (*self.interpreters.values(), *self.before.interpreters)]
        found = self.interpreters.get(command.head)
        # what a run reports counts only if the harness already knew this interpreter
        return said if not command.words and said in known else found.executable if found else ""

    def words(self, command: Command, cwd: Path) -> list[str]:
        if not command.words:
            return []
        started = self.programs.get(command.head, command.head)
        return [*(self._placed(word, cwd) for word in started), *command.words[command.program + 1 :]]

    def _placed(self, word: str, cwd: Path) -> str:
        """Make a relative path absolute if only the project, not ``cwd``, contains it."""
        if "/" not in word or word.startswith(("/", "-")) or (cwd / word).exists():
            return word
        return str(self.root / word) if (self.root / word).exists() else word

    def variables_for(self, command: Command, checkout: Checkout) -> dict[str, str]:
        """Return the environment variables for a run of the command in the checkout."""
        variables = {**self.variables, "PWD": str(checkout.cwd)}
        found = self.interpreters.get(command.head)
        if found and command.launched:
            variables["PATH"] = os.pathsep.join((found.scripts, variables.get("PATH", os.defpath)))
            variables["VIRTUAL_ENV"] = found.prefix
        folders = [str(PLUGIN_FOLDER)]
        if self.isolation == WORKTREE:
            folders += import_folders(self.mapped(), checkout)
        if self.isolation == IN_PLACE or self.own_bytecode:
            variables["PYTHONPYCACHEPREFIX"] = str(checkout.private / "compiled")
        place = checkout if self.isolation == WORKTREE else None
        variables["PYTHONPATH"] = search_path(folders, command, variables, self.root, place)
        return variables


def search_path(
    first: Iterable[str], command: Command, variables: Mapping[str, str], project: Path, checkout: Checkout | None
) -> str:
    """Return a ``PYTHONPATH`` of ``first``, followed by the command's own folders or the user's folders."""
    wished = dict(command.variables).get("PYTHONPATH")
    given = wished if wished is not None else variables.get("PYTHONPATH", "")
    own = [entry for entry in given.split(os.pathsep) if entry]
    if checkout is not None:  # a command starts in the checkout: what it says of its own folder needs no other name
        own = [each if wished and not each.startswith("/") else checkout.moved(each, project) for each in own]
    return os.pathsep.join(dict.fromkeys((*first, *own)))


def resolve(
    root: str | os.PathLike[str],
    commands: Iterable[str],
    *,
    links: Sequence[str] = (),
    isolation: str = WORKTREE,
    report: str | None = None,
    sandbox: SandboxSettings = AUTO,
    starts_python: Callable[[str, str], bool] = lambda _command, _folder: True,
    looks: bool = True,
) -> RunEnvironment:
    """Find the programs and interpreters of the commands, and compute digests of the installed files."""
    # called before the agent starts; a missing program raises no error, because the run reports it
    place = Path(root).absolute()
    variables = plain_variables()
    programs: dict[tuple[str, ...], tuple[str, ...]] = {}
    interpreters: dict[tuple[str, ...], Interpreter] = {}
    texts, asked = list(commands), Interpreters(variables)
    for command in map(parse, texts):
        if command.head in programs:
            continue
        found = asked.behind(command, place)
        if found:
            interpreters[command.head] = found
        if command.words:
            programs[command.head] = _started(command, found, place, variables["PATH"])
    starting = [parse(each) for each in texts if starts_python(each, os.fspath(place))]
    by_shell = [] if all(each.words for each in starting) else own_environments(place, asked)
    installed = places(
        [*(interpreters.get(each.head) for each in starting), *by_shell],
        [*ALWAYS, *(word for words in programs.values() for word in words if word.startswith("/"))],
        root=os.fspath(place),
        settings=sandbox,
        confined=True,
        search=variables["PATH"],
        above=os.fspath(place) if isolation == IN_PLACE and starting else "",
        lent=compared(place, links) if isolation == WORKTREE else (),
    )
    return RunEnvironment(
        root=place,
        isolation=isolation,
        links=tuple(links),
        report=report,
        sandbox=sandbox,
        variables=variables,
        programs=programs,
        interpreters=interpreters,
        before=installed.now() if looks else installed,
    )


def own_environments(root: Path, asked: Interpreters) -> list[Interpreter]:
    found = [f"{name}/bin/python" for name in _OWN_ENVIRONMENTS if (root / name / "pyvenv.cfg").exists()]
    return [each for word in found if (each := asked.behind(parse(word), root))]


def plain_variables() -> dict[str, str]:
    variables = scrubbed_environment()
    search = variables.get("PATH", os.defpath).split(os.pathsep)
    # relative entries of PATH would lead to the checkout
    return {**variables, "PATH": os.pathsep.join(entry for entry in search if entry.startswith("/"))}


def released(patterns: Iterable[str]) -> Callable[[str], bool]:
    is_free = matcher(tuple(patterns))
    return lambda path: is_free(os.fsencode(path.lstrip("/")))


def _started(command: Command, found: Interpreter | None, root: Path, path: str) -> tuple[str, ...]:
    """Return the command's first words, with absolute paths for the programs."""
    head = list(command.head)
    program = _program(command, found, root, path)
    # in another folder, a launcher may select another environment
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
