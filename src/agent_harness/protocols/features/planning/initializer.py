"""Session 0: an agent turns a specification into features, stubs, scripts and one commit.

The harness writes the settings and .gitignore first, checks what the agent wrote, gives it one turn to mend it, and
makes the commit. Nothing counts as initialised before all of that stands. Source: features.md section L, C33, C48.
"""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_harness.agents import registry, usage
from agent_harness.agents.base import Agent, Brief
from agent_harness.errors import (
    HarnessError,
    LimitInForce,
    Refused,
    StateDamaged,
    UnsafeTree,
    UsageError,
    VerificationFailed,
)
from agent_harness.kernel import clock, files, process, snapshot
from agent_harness.kernel.git import Git
from agent_harness.protocols.features import (
    costs,
    progress,
    prompts,
    records,
    worktree,
)
from agent_harness.protocols.features.config import default_text, load
from agent_harness.protocols.features.engine import (
    actions,
    provider_retry,
    turn,
    turn_settings,
)
from agent_harness.protocols.features.escalation import after_session
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.planning import script_check
from agent_harness.protocols.features.project import Project, Say
from agent_harness.protocols.features.publish import push_guard
from agent_harness.protocols.features.store import own_place
from agent_harness.protocols.features.verdict import quality
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy, startable
from agent_harness.supervision.outcome import Outcome
from agent_harness.supervision.supervisor import supervise

Record = dict[str, Any]

COMMIT_MESSAGE = "Initial project setup by initializer agent"
SPEC_BYTES = 1_000_000

SCRIPT = "#!/bin/sh\n# {what}\nset -eu\nexit 0\n"
SCRIPTS = {
    "init.sh": "Starts the development environment; exit status 0 means that it is up.",
    "reset.sh": "Forces a clean state: stops what init.sh started, and nothing else.",
}


def initialise(root: Path, spec: Path, *, agents: Sequence[str], say: Say) -> Record:
    """Plans the project in ``root``; refuses with the disk unchanged when it is not safe to start."""
    text = specification(spec)
    _refuse_unsafe(root, spec)
    found = registry.resolve_all(agents, configured=_configured_agent(root), environ=os.environ, root=root)
    allowed = startable(found, say, "harness init --spec FILE --agent SPEC")
    agent = Dispatcher(allowed, RefusalPolicy(again="harness init --spec FILE"), say).choose()
    project = _first_files(root, say)
    with interruption.watched() as stop:
        say("Running initializer agent...")
        _plan(project, agent, text, stop)
        _complete_files(project)
        commit = _commit(project)
        _state(project, commit)
    return _tell(project, commit)


# -- before the agent --------------------------------------------------------------------------------------------------


def specification(spec: Path) -> str:
    """The text of a specification; ``UsageError`` when it is no text that can be given to an agent."""
    try:
        raw = spec.read_bytes()
    except OSError as error:
        raise UsageError(f"--spec {spec}: {error.strerror}", hint="harness init --spec FILE") from None
    if len(raw) > SPEC_BYTES:
        raise UsageError(f"--spec {spec} is larger than {SPEC_BYTES // 1_000_000} MB", hint="harness init --spec FILE")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"--spec {spec} is not UTF-8 text", hint="harness init --spec FILE") from None
    if not text.strip() or "\0" in text:
        raise UsageError(f"--spec {spec} is empty or no text", hint="harness init --spec FILE")
    return text


def _refuse_unsafe(root: Path, spec: Path) -> None:
    layout = layout_of(root)
    if os.path.exists(layout.session_state):
        raise Refused("This project is initialised already", hint="harness run")
    if not os.access(root, os.W_OK | os.X_OK):
        raise Refused(f"{root} cannot be written", hint=f"ls -ld {root}")
    git = Git(root)
    if not git.is_repository:
        others = [p.name for p in root.iterdir() if p.resolve() != spec.resolve() and p.name != ".harness.yaml"]
        if others:
            raise UnsafeTree(
                f"This folder is no git repository and holds other files: {', '.join(sorted(others)[:3])}",
                hint="git init && git add -A && git commit -m 'Start'",
            )
        return
    if git.top().resolve() != root.resolve():
        raise Refused(f"Run this at the top of the repository: {git.top()}", hint=f"cd {git.top()}")
    if under_way := git.operation_under_way():
        raise UnsafeTree(f"{under_way.capitalize()} is under way in this repository", hint="git status")
    if git.head() is not None and git.branch() is None:
        raise UnsafeTree("HEAD is detached", hint="git switch BRANCH")
    ours = {_relative(root, spec), layout.relative(layout.settings)} | _left_by_an_earlier_try(layout)
    dirty = [path for path in worktree.dirty_paths(git) if path not in ours]
    if dirty:
        raise UnsafeTree(
            f"These files are not committed and would end up in the first commit: {', '.join(dirty[:3])}",
            hint="git add -A && git commit -m 'Start'",
        )


def _relative(root: Path, path: Path) -> str:
    return os.path.relpath(path.resolve(), root.resolve())


def _left_by_an_earlier_try(layout: FeatureLayout) -> set[str]:
    """What an init that failed left uncommitted, named in a record below ``.git``."""
    try:
        found = files.read_json(os.path.join(layout.git_dir, "harness", "failed_init.json")).get("paths")
    except (OSError, StateDamaged):
        return set()
    return {str(path) for path in found} if isinstance(found, list) else set()


def _configured_agent(root: Path) -> Any:
    return load(root).agent if os.path.exists(FeatureLayout(root).settings) else None


def _first_files(root: Path, say: Say) -> Project:
    git = Git(root)
    if not git.is_repository:
        worktree.make_repository(root)
    layout = FeatureLayout(root)
    if not os.path.exists(layout.settings):
        files.replace(layout.settings, _default_settings(root))
    ignore(root, ignored_lines(layout_of(root)))
    return Project.open(root, load(root), say)


def _default_settings(root: Path) -> str:
    name = root.resolve().name or "project"
    return default_text(name, full="python3 -m pytest tests/ -v", feature="python3 -m pytest {test_file} -v", lint=None)


def layout_of(root: Path) -> FeatureLayout:
    """Where the files are of a project that may have settings already."""
    usual = FeatureLayout(root)
    if not os.path.exists(usual.settings):
        return usual
    paths = load(root).paths
    return FeatureLayout(root, features=paths.features, progress=paths.progress, state_dir=paths.state_dir)


def ignored_lines(layout: FeatureLayout) -> list[str]:
    """What git does not see of the harness: the state, and its backups."""
    state = layout.relative(layout.state_dir)
    return [f"{state}/", f"{state}.backup.*/"]


def ignore(root: Path, lines: list[str]) -> None:
    """Adds these lines to .gitignore where they are missing."""
    path = root / ".gitignore"
    if path.is_symlink():
        raise Refused(".gitignore is a link; the harness writes only files of the project", hint="ls -l .gitignore")
    before = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    missing = [line for line in lines if line not in before.splitlines()]
    if missing:
        gap = "" if not before or before.endswith("\n") else "\n"
        files.replace(path, (before + gap + "\n".join(missing) + "\n").encode("utf-8", "surrogateescape"))


# -- the agent ---------------------------------------------------------------------------------------------------------


def _plan(project: Project, agent: Agent, specification: str, stop: interruption.Stop) -> None:
    """The initializer turn and, when its features.json is wrong, one repair turn."""
    config = project.config
    prompt = prompts.render(
        "initializer",
        {
            "specification": specification.strip(),
            "project": config.project.name,
            "progress_file": project.progress_name,
            "features_file": project.features_name,
            "state_dir": project.state_name,
            "instructions": records.INSTRUCTIONS,
            "max_steps": str(config.features.max_verification_steps),
        },
    )
    planner = Planner(project, agent, stop)
    planner.turn(prompt)
    found = _problems(project)
    if found:
        project.say(f"features.json is not valid ({found[0]}); one repair turn.")
        planner.turn(repair_prompt(project, found))
        found = _problems(project)
    if found:
        _remember_failed_try(project)
        raise VerificationFailed(
            f"The agent's features.json is not valid: {found[0]}"
            + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
            hint="harness init --spec FILE (what the agent wrote is still here)",
            problems=found,
        )


def repair_prompt(project: Project, found: list[str]) -> str:
    """What is wrong with a plan, for the one turn that may mend it."""
    listed = "\n".join(f"- {line}" for line in found[:50])
    return prompts.render("repair", {"problems": listed, "features_file": project.features_name})


class Planner:
    """Runs the agent for session 0, turn by turn under one watch."""

    def __init__(self, project: Project, agent: Agent, stop: interruption.Stop) -> None:
        self._project = project
        self._agent = agent
        self._stop = stop
        self._watch = turn.watch_for(project, project.store.costs(), None, project.config.models.initializer)
        self.run_id = process.new_run_id()
        self._rounds = 0
        self._patience = provider_retry.ProviderRetry(project, stop, 0, time.monotonic())
        self._recording = turn.recording_of(project, 0, None)
        self.used = usage.Totals()

    def turn(self, prompt: str) -> None:
        """One turn to its end; ``HarnessError`` when the agent did not end it well."""
        outcome, trouble = self._patience.served(lambda _again: self._listen(prompt), lambda: False)
        self._rounds += 1
        if outcome.reason == "finished" and outcome.ok:
            return
        _remember_failed_try(self._project)
        if outcome.reason == "user_pause":
            raise KeyboardInterrupt
        if outcome.limit is not None:
            raise LimitInForce(f"Rate limited: {outcome.limit}", hint="harness limits; then the same command again")
        why = trouble.sentence if trouble else f"{outcome.reason}: {outcome.message}"
        raise HarnessError(
            f"The initializer session did not end well. {why}", hint=f"less {self._project.layout.transcript(0)}"
        )

    def _listen(self, prompt: str) -> Outcome:
        project = self._project
        brief = Brief(
            prompt=prompt,
            cwd=project.root,
            session=0,
            prompt_type="initializer",
            round=self._rounds,
            run_id=self.run_id,
            environment=push_guard.variables(project.git.record_config()),
        )
        with self._stop.listening():
            outcome = supervise(
                self._agent,
                turn_settings.handed(project, brief),
                monitors=self._watch,
                transcript=Path(project.layout.transcript(0)),
                on_started=lambda record: project.store.event("agent_started", session=0, process=dict(record)),
                stop_requested=self._stop.requested,
                on_event=actions.ActionLog(project, 0, project.config.models.initializer).see,
                silence_seconds=provider_retry.silence_seconds(project, self._agent.capabilities),
                recording=self._recording,
            )
        self.used = usage.merge(self.used, outcome.usage)
        self._record_costs(outcome.usage)
        return outcome

    def _record_costs(self, used: usage.Totals) -> None:
        """What a turn cost is on record at once, also when nothing comes of the session."""
        project = self._project
        spent = costs.Spent(
            session=0,
            started=clock.timestamp(),
            feature_id=None,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
            cost_usd=used.cost_usd,
            assumed_usd=used.budget_usd() if used.cost_usd is None else 0.0,
        )
        record = costs.add_session(project.store.costs(), spent, project.budgets)
        project.store.write(project.layout.costs, record)


def _problems(project: Project) -> list[str]:
    try:
        document = project.store.features()
    except HarnessError as error:
        return [error.message]
    found = records.problems(document, require_test_file=project.config.features.require_test_file)
    if not records.features_of(document):
        found.append("features.json: there is no feature in it")
    for feature in records.features_of(document):
        name = f"Feature #{feature.get('id')}"
        if records.passes(feature):
            found.append(f"{name}: 'passes' is true before anything was built")
        file = records.test_file(feature).split("::", 1)[0]
        if file and not found and not (project.root / file).is_file():
            found.append(f"{name}: its test file {file} does not exist")
    return found


def _remember_failed_try(project: Project) -> None:
    path = os.path.join(project.layout.git_dir, "harness", "failed_init.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.write_json(path, {"paths": worktree.dirty_paths(project.git), "at": clock.timestamp()})


# -- after the agent ---------------------------------------------------------------------------------------------------


def _complete_files(project: Project) -> None:
    """The settings still load; the scripts can be run; Session 0 is told of."""
    load(project.root)
    for name, what in SCRIPTS.items():
        path = project.root / name
        own_place(str(path), project.layout.root)
        if not path.exists():
            files.replace(path, SCRIPT.format(what=what))
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    at = project.layout.progress
    own_place(at, project.layout.root)
    own_place(str(project.root / ".gitignore"), project.layout.root)
    if not os.path.exists(at):
        document = project.store.features()
        progress.append(at, progress.header(str(document.get("project") or project.config.project.name)))
    if not progress.has_entry(at, 0):
        progress.append(
            at, progress.entry(0, [("WHAT I DID", ["set the project up"]), ("NEXT", ["the first feature"])])
        )
    ignore(project.root, ignored_lines(project.layout))


def _commit(project: Project) -> str:
    """One commit of the set-up: what is left over, or the agent's own commit when nothing is."""
    before = project.git.head()
    commit = project.candidate("0", COMMIT_MESSAGE)
    if commit != before:
        branch = project.git.look().branch
        snapshot.adopt(project.git, commit, branch=branch, expected_head=before)
    return commit


def _state(project: Project, commit: str) -> None:
    """The state of a project that is ready for its first session; written last, since it says "initialised"."""
    at = project.layout
    document = project.store.features()
    facts = Judge(project).suite(commit)
    if facts.problem:
        project.say(f"Warning: the test command gave no report yet ({facts.problem})")
    tests = [records.test_file(f) for f in records.features_of(document)]
    project.store.write(
        at.baseline,
        {
            **records.new_baseline(),
            "timestamp": clock.timestamp(),
            "passing_tests": sorted(facts.passing),
            "total_passing": len(facts.passing),
            "total_tests": facts.total,
            "tree": project.git.tree_of(commit),
        },
    )
    project.store.write(at.file_sizes, quality.file_sizes(project.git, commit, 0, {}, tests))
    project.store.event("initialised", session=0, commit=commit, features=len(records.features_of(document)))
    project.store.write(at.session_state, {**records.new_state(), "timestamp": clock.timestamp()})


def _tell(project: Project, commit: str) -> Record:
    document = project.store.features()
    found = records.features_of(document)
    say = project.say
    say("Created: .harness.yaml (configuration)")
    say(f"Created: {project.features_name} ({len(found)} features, all with test_file)")
    say("Created: init.sh, reset.sh")
    for name in SCRIPTS:
        for line in script_check.findings((project.root / name).read_text("utf-8", "replace"), project.root):
            say(f"Warning: {name}: {line}")
            project.store.event("script_warning", session=0, path=name, message=line)
    say(f"Created: {project.progress_name}")
    say("Created: test stubs for each feature")
    say(f"Added {project.state_name}/ to .gitignore")
    say(f"Initial commit: {commit[:10]}")
    flags = records.flags(document, max_steps=project.config.features.max_verification_steps)
    for line in flags:
        say(f"Warning: {line}")
    asked = after_session.offer_split(project)
    say("Ready for: harness run")
    fields = {"project": document.get("project"), "features": len(found), "commit": commit, "warnings": flags}
    return {**fields, "escalation": asked}
