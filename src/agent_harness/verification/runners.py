"""Runners for an item's check on a commit: test runners that report test ids, and the base class of all runners.
``TestRunner`` starts programs that were found before the agent started. ``command.runner`` contains the runner for any
other command."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, Self

from agent_harness.kernel.git import Git
from agent_harness.verification.check import Command, parse
from agent_harness.verification.checkout import Checkout, Edits, Overlay
from agent_harness.verification.guard import file_of
from agent_harness.verification.runner.environment import IN_PLACE, RunEnvironment, released
from agent_harness.verification.runner.execution import (
    FolderAccess,
    RunAsked,
    Stop,
    access_of,
    execute,
    execute_plain,
    place_for,
)
from agent_harness.verification.runner.linked_paths import import_folders, without
from agent_harness.verification.verdict import IMPORTANT, Finding, Run, listed, passed


class Told(NamedTuple):
    """Code, message and data of a finding about a run."""

    code: str
    message: str
    data: Mapping[str, Any]


class Runner(ABC):
    """Base class of objects that run commands on commits and interpret check results."""

    git: Git
    subject = "The feature's tests"  # in messages
    tests = "The feature's tests"
    item = "feature"
    passes_only = "The feature's tests pass only"
    allowed_by = "ask the user to allow it"
    ends_with = "."  # of messages that are not part of a line
    in_place = False  # the check is run in the project's folder
    has_checkouts = True  # other commits, and sabotaged versions, can be asked
    by_exit_status = False  # on the base commit only the exit status counts

    watches = True  # whether it may see single tests and calls

    def look_around(self) -> list[Finding]:
        return []

    @abstractmethod
    def place(
        self, commit: str, overlays: Sequence[Overlay | Edits] = (), *, neutral: bool = False
    ) -> AbstractContextManager[Checkout]: ...

    @abstractmethod
    def start(self, checkout: Checkout, command: str, terms: RunAsked) -> Run: ...

    def run(self, commit: str, command: str, terms: RunAsked) -> Run:
        with self.place(commit, terms.overlays) as checkout:
            return self.start(checkout, command, terms)

    def prove(self, commit: str, command: str, terms: RunAsked) -> Run:
        """Run the check on ``commit``. The returned run names the committed files that the check changed."""
        with self.place(commit, terms.overlays) as checkout:
            return replace(self.start(checkout, command, terms), rewritten=checkout.rewritten())

    @abstractmethod
    def passed(self, run: Run) -> bool:
        """Return True if a run of the check passed and can be trusted."""

    @abstractmethod
    def on_failure(self, run: Run) -> Told | None:
        """Return a finding that explains a failed check, or None."""

    @abstractmethod
    def on_pass(self, run: Run) -> Told | None:
        """Return a finding if a passed check does not prove enough, or None."""

    def files_of(self, nodes: Collection[str]) -> set[str]:
        return {file_of(node) for node in nodes}

    @abstractmethod
    def is_green(self, run: Run, proven: Collection[str]) -> bool:
        """Return True if a run on the base commit passes. ``proven`` holds the tests that pass on the candidate."""

    @property
    @abstractmethod
    def blocked(self) -> tuple[Sequence[str], Sequence[str]]:
        """Pytest plugins installed during the work, and the files that register them."""

    @property
    @abstractmethod
    def left_out(self) -> Sequence[str]:
        """Files that appeared in linked folders during the work. Checkouts omit these files."""

    @abstractmethod
    def with_what_came(self) -> Self: ...

    # ---- for calls that are made again in a plain program --------------------------------------------------------

    @abstractmethod
    def python_of(self, command: Command, said: str) -> str:
        """Return the path of a command's interpreter, or "" if the interpreter is not trusted."""

    @abstractmethod
    def plain_variables(self, checkout: Checkout) -> Mapping[str, str]: ...

    @property
    @abstractmethod
    def import_roots(self) -> Collection[str]:
        """Folders from which the project's environments import modules."""

    @abstractmethod
    def imports(self, checkout: Checkout) -> list[str]: ...

    @abstractmethod
    def access(self, checkout: Checkout) -> FolderAccess: ...


class TestRunner(Runner):
    __test__ = False  # a name for people, not a test class for pytest

    def __init__(
        self,
        git: Git,
        environment: RunEnvironment,
        stop: Stop | None,
        *,
        commands: Sequence[str] = (),
        may_change: Collection[str] = (),
    ) -> None:
        self.git, self.environment, self._stop = git, environment, stop
        self._commands, self._may_change = commands, may_change
        self.changed: Collection[str] = ()  # what the candidate changes
        self.in_place = environment.isolation == IN_PLACE
        self.has_checkouts = not self.in_place

    def look_around(self) -> list[Finding]:
        found: list[Finding] = []
        for command in map(parse, self._commands):
            if self.environment.completed(command) is not self.environment:
                message = (
                    f"The program that runs '{command.shown}' did not exist before the session, so it was not compared."
                )
                found.append(Finding("environment_unknown", IMPORTANT, message))
        environment, changed = self.environment.looked_at_again(released(self._may_change))
        self.environment = replace(environment, without=without(environment.without, self.changed))
        return [*found, *changed]

    def place(
        self, commit: str, overlays: Sequence[Overlay | Edits] = (), *, neutral: bool = False
    ) -> AbstractContextManager[Checkout]:
        return place_for(self.git, commit, environment=self.environment, overlays=overlays, neutral=neutral)

    def start(self, checkout: Checkout, command: str, terms: RunAsked) -> Run:
        run = execute_plain if terms.plain else execute
        return run(checkout, command, terms, environment=self.environment, stop=self._stop)

    def passed(self, run: Run) -> bool:
        return passed(run)

    def on_failure(self, run: Run) -> Told:
        failing = sorted(run.report.failing) if run.report else []
        why = run.problem or ("" if failing else "no test passed")
        message = "Feature test failed when harness ran it" + (f". The reason: {why}" if why else "")
        return Told("proof_failed", message, {"failing": failing, "problem": run.problem, "exit_code": run.exit_code})

    def on_pass(self, run: Run) -> Told | None:
        gave_up = sorted(run.report.gave_up) if run.report else []
        if not gave_up:
            return None
        message = (
            f"Feature test was skipped while it ran, so it proves nothing: {listed(gave_up)}. "
            "Only a visible mark on the test may skip it"
        )
        return Told("proof_failed", message, {"failing": gave_up, "problem": None, "exit_code": run.exit_code})

    def is_green(self, run: Run, proven: Collection[str]) -> bool:
        return run.report is not None and frozenset(proven) <= run.report.passing

    @property
    def blocked(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.environment.blocked, self.environment.blocked_by

    @property
    def left_out(self) -> Sequence[str]:
        return self.environment.without

    def with_what_came(self) -> Self:
        return type(self)(self.git, replace(self.environment, blocked=(), without=()), self._stop)

    def python_of(self, command: Command, said: str) -> str:
        return self.environment.completed(command).python_of(command, said)

    def plain_variables(self, checkout: Checkout) -> Mapping[str, str]:
        return self.environment.variables

    @property
    def import_roots(self) -> Collection[str]:
        return self.environment.mapped().roots

    def imports(self, checkout: Checkout) -> list[str]:
        return import_folders(self.environment.mapped(), checkout)

    def access(self, checkout: Checkout) -> FolderAccess:
        return access_of(checkout, self.environment)
