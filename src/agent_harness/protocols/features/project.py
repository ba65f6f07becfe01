"""Opened project: the paths, settings, state and git client that every step of a session uses."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_harness.errors import NotAProject, Refused
from agent_harness.kernel import snapshot
from agent_harness.kernel.git import Git
from agent_harness.kernel.snapshot import Rescue, Snapshot
from agent_harness.protocols.features import costs as cost_rules
from agent_harness.protocols.features import repository
from agent_harness.protocols.features.config import Config
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.store import FeatureStore
from agent_harness.supervision.starts import StartCount

if TYPE_CHECKING:
    from agent_harness.verification.runner.installed_record import FirstLook

Say = Callable[[str], None]


def silent(_line: str) -> None: ...


def _read_yaml(path: str) -> dict[str, Any]:
    from agent_harness.protocols.features.config.file import read_object

    return read_object(path)


@dataclass(frozen=True, kw_only=True)
class Project:
    root: Path
    layout: FeatureLayout
    config: Config
    store: FeatureStore
    git: Git
    say: Say = field(default=silent)
    candidate_refs: list[str] = field(default_factory=list)  # made since the last finalization
    tips: dict[str, str | None] = field(default_factory=dict)  # by candidate, the tip of its branch at that time
    counts: str | None = None  # the folder of the start counts, if not beside the verdicts
    elsewhere: Callable[[float], float] | None = None  # spent of the project's budget elsewhere, for ``BudgetLimit``
    first_look: "FirstLook | None" = None  # of a run with several agents

    @classmethod
    def open(cls, root: Path, config: Config, say: Say = silent, *, by: str | None = None) -> "Project":
        layout = FeatureLayout(
            root, features=config.paths.features, progress=config.paths.progress, state_dir=config.paths.state_dir
        )
        store = FeatureStore(layout, log_level=config.logging.level, read_yaml=_read_yaml, by=by)
        return cls(root=root, layout=layout, config=config, store=store, git=Git(root), say=say)

    @property
    def excluded(self) -> tuple[str, ...]:
        """Top-level paths that every snapshot, candidate and rescue omits."""
        return (self.layout.relative(self.layout.state_dir),)

    def candidate(self, name: str, message: str, base: Snapshot | None = None) -> str:
        """Commit the current work tree to a private ref and return the commit."""
        commit, ref = repository.named_ref(
            self.git,
            f"refs/harness/candidates/{name}",
            lambda ref: snapshot.candidate(self.git, ref, exclude=self.excluded, message=message, base=base),
        )
        self.candidate_refs.append(ref)
        return commit

    def dirty(self) -> list[str]:
        """Return the paths with uncommitted changes. The progress file is left out."""
        return [path for path in repository.dirty_paths(self.git) if path != self.progress_name]

    def tree_now(self, base: Snapshot | None = None) -> str:
        return snapshot.tree_of_files(self.git, exclude=self.excluded, base=base)

    def go_back(self, to: Snapshot, ref: str, name: str, *, set_aside_operation: bool = False) -> Rescue:
        """Restore the snapshot ``to``. Keep the replaced work under ``ref``."""
        place = self.root / self.state_name / "rescue-files" / name
        return snapshot.restore(
            self.git, to, ref, exclude=self.excluded, rescue_files=place, set_aside_operation=set_aside_operation
        )

    def starts(self, item: int | str | None) -> StartCount:
        name = f"Feature #{item}" if isinstance(item, int) else item or "the cleanup"
        return StartCount(
            self.counts or os.path.dirname(self.store.ledger()), name, most=self.config.features.max_starts
        )

    @property
    def state_name(self) -> str:
        return self.layout.relative(self.layout.state_dir)

    @property
    def progress_name(self) -> str:
        return self.layout.relative(self.layout.progress)

    @property
    def features_name(self) -> str:
        return self.layout.relative(self.layout.features)

    @property
    def budgets(self) -> cost_rules.Budgets:
        costs = self.config.costs
        return cost_rules.Budgets(
            per_session=costs.per_session_usd, per_feature=costs.per_feature_usd, total=costs.total_project_usd
        )

    def require_initialised(self) -> None:
        """Raise an error unless ``harness init`` has set up this project."""
        for folder in (self.layout.state_dir, self.layout.logs):
            if os.path.islink(folder) or (os.path.lexists(folder) and not os.path.isdir(folder)):
                name = self.layout.relative(folder)
                raise Refused(f"{name} is not a folder", hint=f"ls -ld {name}")
        if self.git.is_repository and self.git.top().resolve() != self.root.resolve():
            raise Refused(
                f"The project must be the top folder of its repository, which is {self.git.top()}", hint="git init"
            )
        if not self.store.initialised():
            if os.path.exists(self.layout.features):
                raise NotAProject(f"{self.root} has a feature list but no state", hint="harness resume")
            raise NotAProject(f"{self.root} is not an initialised project", hint="harness init --spec FILE")
