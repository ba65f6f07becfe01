"""The environment that tests run in: which interpreter, which programs, which variables, which import folders.

``resolve`` is called before the agent starts, while nothing in the project's folder can have been bent by it, and its
answer is used for every run of the session. Source: features.md C54; ``docs/decisions/judge-a-commit.md``.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_harness.kernel.process import scrubbed_environment
from agent_harness.verification.check import Command, parse
from agent_harness.verification.runner import fingerprint, interpreter
from agent_harness.verification.runner.editable import Mapped, mapped
from agent_harness.verification.runner.interpreter import Interpreter
from agent_harness.verification.runner.witness import FOLDER
from agent_harness.verification.verdict import Finding
from agent_harness.verification.workspace import Workspace

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

    @property
    def sites(self) -> tuple[str, ...]:
        """Package folders of all interpreters."""
        return tuple(dict.fromkeys(site for found in self.interpreters.values() for site in found.sites))

    @property
    def kept(self) -> tuple[str, ...]:
        """Folders inside the project from which code may come: package folders and what is lent."""
        libraries = [path for found in self.interpreters.values() for path in found.library]
        return (*self.sites, *libraries, *(str(self.root / link) for link in self.links))

    def mapped(self) -> Mapped:
        """What stands for the project in the package folders now: mapping only ever leads to the checkout."""
        return mapped(self.sites, self.root)

    def changes(self) -> list[Finding]:
        """What of the recorded environment is no longer the same."""
        now = _recorded(self.interpreters, self.programs)
        return fingerprint.compare(self.fingerprint, now, project=self.root)

    def completed(self, command: Command) -> "RunEnvironment":
        """This environment, or one that also knows the interpreter of a command that was not there when it was made.

        A project whose first session makes its virtual environment has none beforehand.
        """
        if command.head in self.interpreters:
            return self
        found = interpreter.behind(command, root=self.root, variables=self.variables)
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
        folders = [str(FOLDER)]
        if self.isolation == WORKTREE:
            folders += self._imports(space)
        else:
            variables["PYTHONPYCACHEPREFIX"] = str(space.private / "compiled")
        own = [self._moved(entry, space) for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
        variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys((*folders, *own)))
        return variables

    def _imports(self, space: Workspace) -> list[str]:
        """Folders of the checkout that stand for editable installs of the project."""
        now = self.mapped()
        folders = [str(space.cwd / root) for root in now.roots]
        shelf = space.private / "packages"
        for name, path in now.packages:
            place = shelf.joinpath(*name.split("."))
            if not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(space.cwd / path)
        return [*folders, str(shelf)] if now.packages else folders

    def _moved(self, entry: str, space: Workspace) -> str:
        """An entry of PYTHONPATH inside the project becomes the same folder of the checkout."""
        real = Path(os.path.realpath(self.root / entry))
        place = Path(os.path.realpath(self.root))
        if self.isolation != WORKTREE or not real.is_relative_to(place):
            return entry
        return str(space.cwd / real.relative_to(place))


def resolve(
    root: str | os.PathLike[str],
    commands: Iterable[str],
    *,
    links: Sequence[str] = (),
    isolation: str = WORKTREE,
    report: str | None = None,
) -> RunEnvironment:
    """Finds what the commands will start, asks their interpreters where things are, and records digests.

    Call it before the agent starts. ``commands`` may still hold ``{test_file}``. A program that is not there is no
    error here; the run says so.
    """
    place = Path(root).absolute()
    variables = scrubbed_environment()
    variables["PATH"] = _absolute_path(variables.get("PATH", os.defpath))
    programs: dict[tuple[str, ...], tuple[str, ...]] = {}
    interpreters: dict[tuple[str, ...], Interpreter] = {}
    for command in map(parse, commands):
        if command.head in programs:
            continue
        found = interpreter.behind(command, root=place, variables=variables)
        if found:
            interpreters[command.head] = found
        if command.words:
            programs[command.head] = _started(command, found, place, variables["PATH"])
    return RunEnvironment(
        root=place,
        isolation=isolation,
        links=tuple(links),
        report=report,
        variables=variables,
        programs=programs,
        interpreters=interpreters,
        fingerprint=_recorded(interpreters, programs),
    )


def _recorded(
    interpreters: Mapping[tuple[str, ...], Interpreter], programs: Mapping[tuple[str, ...], tuple[str, ...]]
) -> dict[str, str]:
    absolute = {word for words in programs.values() for word in words if word.startswith("/")}
    return fingerprint.take(list(set(interpreters.values())), sorted(absolute))


def _absolute_path(path: str) -> str:
    """PATH without entries that depend on the current folder, which would be the checkout."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry.startswith("/"))


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
        head[0] = interpreter.program_path(head[0], root=root, path=path) or head[0]
    head[-1] = program
    return tuple(head)


def _program(command: Command, found: Interpreter | None, root: Path, path: str) -> str:
    word = command.head[-1]
    if found and interpreter.is_python(Path(word).name):
        return found.executable
    if "/" in word:
        return word
    resolved = interpreter.program_path(word, root=root, path=path)
    if found and (command.launched or (command.pytest and resolved and not interpreter.of_script(resolved))):
        own = Path(found.scripts, word)
        return str(own) if own.exists() else resolved or word
    return resolved or word
