"""Checks that run before a session costs tokens: folder, files, git state, environment, baseline tests, budget. The
harness waits until init.sh exits (C60). Processes that init.sh leaves running are ended with the session, even if the
harness is killed. Source: features.md section M, UAH-270..273, C23, C24, C25, C26, C33."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.errors import ConfigurationError, LimitReached, PreflightFailed, UnsafeTree
from agent_harness.kernel import process
from agent_harness.kernel.git.locate import folders_of_project
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.process.launch_spec import Sandbox
from agent_harness.kernel.process.sandbox import of_agent
from agent_harness.protocols.features import costs as cost_rules
from agent_harness.protocols.features import questions, records, repository
from agent_harness.protocols.features.config import Config
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import CostRecord, FeatureList
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.verification.changes import between, tree_at
from agent_harness.verification.command.bending import bent
from agent_harness.verification.protected_files import behind


@dataclass(frozen=True, kw_only=True)
class Check:
    name: str
    note: str = ""


def working_directory(layout: FeatureLayout) -> Check:
    """Raise ``PreflightFailed`` if the project folder is missing or not writable."""
    if not os.path.isdir(layout.root) or not os.access(layout.root, os.W_OK | os.X_OK):
        raise PreflightFailed(
            f"{layout.root} is not a writable folder", hint=f"ls -ld {layout.root}", check="working_directory"
        )
    return Check(name="working_directory")


def harness_files(layout: FeatureLayout, scripts: Sequence[str]) -> Check:
    """Raise ``PreflightFailed`` if one of the project's files is missing or not usable."""
    wanted = [layout.settings, layout.features, layout.progress]
    if links := [layout.relative(path) for path in wanted if os.path.islink(path)]:
        raise PreflightFailed(
            f"{links[0]} is a symbolic link, which the harness does not follow",
            hint=f"ls -l {links[0]}",
            check="harness_files",
        )
    missing = [layout.relative(path) for path in wanted if not os.path.isfile(path)]
    if missing:
        raise PreflightFailed(
            f"Missing: {', '.join(missing)}", hint="git log --stat -- " + " ".join(missing), check="harness_files"
        )
    for script in scripts:
        path = Path(layout.root, script)
        if not path.is_file():
            hint = (
                f"git checkout -- {script}  # or, without such a script: environment: {{init: 'true', reset: 'true'}}"
            )
            raise PreflightFailed(f"{script} is missing", hint=hint, check="harness_files")
        if not os.access(path, os.X_OK):
            raise PreflightFailed(f"{script} is not executable", hint=f"chmod +x {script}", check="harness_files")
    return Check(name="harness_files")


def script_files(config: Config) -> list[str]:
    found = [config.environment.init, config.environment.reset]
    return [s for s in found if s and s.startswith("./") and " " not in s]


def git_state(project: Project, session: int) -> Check:
    """Raise ``UnsafeTree`` if the repository does not allow a session now.

    This can switch from a detached HEAD to the default branch and, with ``git.on_dirty: stash``, stash changes."""
    git = project.git
    if git.head() is None:
        raise UnsafeTree("The repository has no commit yet", hint="harness init --spec FILE", check="git_state")
    if under_way := git.operation_under_way():
        raise UnsafeTree(
            f"{under_way.capitalize()} is in progress in this repository", hint="git status", check="git_state"
        )
    if lock := repository.index_lock(git):
        name = os.path.relpath(lock, git.top())
        raise UnsafeTree(
            f"Another git process is running, or a killed git process left {name}",
            hint=f"ls -l {name}",
            check="git_state",
        )
    if git.branch() is None:
        _leave_detached_head(project)
    repository.refuse_tracked(git, project.state_name)
    dirty = project.dirty()
    if not dirty:
        return Check(name="git_state")
    shown = records.listed(dirty, 3)
    if project.config.git.on_dirty != "stash":
        raise UnsafeTree(f"The work tree is not clean: {shown}", hint="git stash -u", check="git_state")
    repository.set_aside(git, f"harness session {session}", (project.progress_name,))
    stashed = f"stashed as 'harness session {session}'"
    project.say(f"The work tree was not clean ({shown}); {stashed}. To restore it: git stash pop")
    return Check(name="git_state", note="stashed")


def _leave_detached_head(project: Project) -> None:
    """Switch from a detached HEAD to the default branch. Raise ``UnsafeTree`` if a commit could be lost (C25)."""
    git = project.git
    branch, head = git.default_branch(), git.head()
    if branch is None:
        raise UnsafeTree("HEAD is detached, and there is no branch to switch to", hint="git switch -c main")
    if head is None or not git.ancestor(head, f"refs/heads/{branch}"):
        raise UnsafeTree(
            f"HEAD is detached at commits that {branch} does not contain",
            hint=f"git branch kept-work && git switch {branch}  # or git switch -c NEW_BRANCH",
            check="git_state",
        )
    if dirty := project.dirty():
        raise UnsafeTree(
            f"HEAD is detached, and the work tree is not clean: {', '.join(dirty[:3])}",
            hint=f"git stash -u && git switch {branch}",
            check="git_state",
        )
    if other := repository.other_work_tree(git, branch):
        raise UnsafeTree(
            f"HEAD is detached, and {branch} is checked out in {other}: this work tree needs its own branch",
            hint="git switch -c NEW_BRANCH",
            check="git_state",
        )
    git.run("switch", "--quiet", branch)  # refuses to overwrite uncommitted changes
    project.say(f"Warning: HEAD was detached; switched to {branch}.")


def baseline_broken(failing: Iterable[str], command: str) -> PreflightFailed:
    # UAH-275
    nodes = sorted(failing)
    return PreflightFailed(
        f"Environment is broken. Baseline tests failing. {', '.join(nodes[:5])}",
        hint=command,
        check="baseline_tests",
        failing=nodes,
    )


def budget(costs: CostRecord, budgets: cost_rules.Budgets, feature_id: int | None) -> Check:
    """Raise ``LimitReached`` if the project or feature has no budget for another session."""
    left = cost_rules.available(costs, budgets, feature_id)
    spent = cost_rules.counted(costs)
    rest = max(0.0, budgets.total - spent)
    note = f"${left:.2f} for this session, ${rest:.2f} left of the project's ${budgets.total:.2f}"
    if left <= 0:
        raise LimitReached(
            f"The budget is used up for {_used_up(costs, budgets, feature_id)} spent",
            hint="raise the budgets under costs: in .harness.yaml",
            check="budget",
        )
    return Check(name="budget", note=note)


def _used_up(costs: CostRecord, budgets: cost_rules.Budgets, feature_id: int | None) -> str:
    spent = cost_rules.counted(costs)
    if spent < budgets.total and feature_id is not None and budgets.per_session > 0:
        spent = cost_rules.of_feature(costs, feature_id)
        return f"Feature #{feature_id}: ${spent:.2f} of ${budgets.per_feature:.2f}"
    return f"a session: ${spent:.2f} of ${budgets.total:.2f}"


def valid_features(project: Project, document: FeatureList | None = None) -> FeatureList:
    document = document or project.store.features()
    found = records.problems(document, require_test_file=project.config.features.require_test_file)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        asked = questions.of_cycle(document)
        hint = questions.hint(asked) if asked else f"edit {project.features_name}"
        raise ConfigurationError(found[0] + more, hint=hint, problems=found, escalation=asked and asked.record)
    return document


# -- the project's own environment -------------------------------------------------------------------------------------


HEALTH_SECONDS = 60.0


@contextmanager
def running(project: Project) -> Iterator["DevelopmentEnvironment"]:
    """Yield the development environment. End the environment's processes after the ``with`` block."""
    settings = project.config.environment
    environment = DevelopmentEnvironment(
        project.root,
        init=settings.init,
        reset=settings.reset,
        health_check=settings.health_check,
        stop=settings.stop,
        log=Path(project.layout.log("init.log")),
        say=project.say,
    )
    changed = _unproven_scripts(project)
    if changed:
        project.say(f"{changed[0]} has unaccepted changes, so the harness runs it with an agent's permissions.")
    wished = project.config.sandbox.settings()
    environment.sandbox = of_agent([project.root], settings=wished, installs=not changed, reads=folders_of_project())
    try:
        yield environment
    finally:
        environment.down()


def _unproven_scripts(project: Project) -> list[str]:
    """Return the environment scripts that a feature's unaccepted work has changed."""
    state, git = project.store.state(), project.git
    kept = state.feature_checkpoint
    base = SessionCheckpoint.from_record(kept).snapshot.head if kept else None
    head = git.head()
    if base is None or head is None or git.commit_of(base) is None:
        return []
    with git.objects() as objects:
        loaded = behind(project.config.environment_commands, tree_at(git, objects, base), sets_up=True)
        changes = between(git, objects, base, head, wanted=loaded.loads)
    feature = project.store.features().by_id(state.current_feature)
    is_free = matcher(feature.may_change if feature else ())
    return [each.path for each in changes.files if bent(each, loaded) and not is_free(os.fsencode(each.path))]


@dataclass
class DevelopmentEnvironment:
    """Scripts of the project's development environment, and the processes that they start."""

    root: Path
    init: str | None
    reset: str | None
    health_check: str | None
    stop: str | None
    log: Path
    say: Callable[[str], None]
    script_seconds: float = 300.0
    sandbox: Sandbox | None = field(default=None, init=False)  # of the scripts
    _env: Mapping[str, str] = field(default_factory=process.scrubbed_environment, init=False)
    _running: list[process.Running] = field(default_factory=list, init=False)
    _over_limit: str = field(default="", init=False)  # the machine limit that the last script exceeded

    def up(self, *, auto_reset: bool, max_reset_attempts: int) -> None:
        """Run the init script. If it fails, reset the environment and try again."""
        code = self._script(self.init)
        resets = 0
        while code != 0 and auto_reset and self.reset and resets < max_reset_attempts:
            resets += 1
            self.say(f"{self.init} failed (exit {code}); running {self.reset} ({resets}/{max_reset_attempts})")
            if self._script(self.reset) == 0:
                code = self._script(self.init)
        if code != 0:
            if self._over_limit:
                raise PreflightFailed(
                    f"{self.init} {self._over_limit}, and was killed.", hint=f"less {self.log}", check="environment"
                )
            said = "Could not recover clean state. Manual intervention needed." if resets else f"{self.init} failed."
            raise PreflightFailed(
                f"{said} {self._last_lines()}", hint=f"less {self.log}", check="environment", resets=resets
            )

    def healthy(self) -> None:
        if not self.health_check:
            return
        done = process.run(
            self.health_check, cwd=self.root, env=self._env, timeout_seconds=HEALTH_SECONDS, sandbox=self.sandbox
        )
        if done.exit_code != 0:
            raise PreflightFailed(
                f"The health check failed: {self.health_check}", hint="./init.sh", check="environment"
            )

    def down(self) -> None:
        """End the processes that the environment's scripts left running."""
        while self._running:
            running = self._running.pop()
            running.stop(grace_seconds=2.0)
            if running.over_limit:
                self.say(f"Warning: a process that {self.init} left running {running.over_limit}, and was killed.")
        if self.stop:
            process.run(self.stop, cwd=self.root, env=self._env, timeout_seconds=HEALTH_SECONDS, sandbox=self.sandbox)

    def _script(self, command: str | None) -> int:
        if not command:
            return 0
        self.log.parent.mkdir(parents=True, exist_ok=True)
        logged = f"({command}) </dev/null >>{shlex.quote(str(self.log))} 2>&1"
        running = process.start(
            logged, cwd=self.root, env=self._env, input=b"", keep_background=True, sandbox=self.sandbox
        )
        code = running.wait(self.script_seconds)
        if code == 0:
            self._running.append(running)
        else:
            running.stop(grace_seconds=2.0)
        self._over_limit = running.over_limit
        return 124 if code is None else code

    def _last_lines(self) -> str:
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f"Last output: {lines[-1][:300]}" if lines else ""
