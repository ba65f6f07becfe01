"""Session 0: an agent turns a specification into features, test stubs, scripts and one commit. The agent has at most
one fix round. Risky commands in init.sh and reset.sh are reported. Source: features.md section L, UAH-146, C33, C48."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_harness.agents import registry
from agent_harness.agents.base import Agent, ToolRules
from agent_harness.agents.guardrails import check_command
from agent_harness.errors import HarnessError, Refused, StateDamaged, UnsafeTree, UsageError, VerificationFailed
from agent_harness.kernel import clock, files, snapshot, trusted_state
from agent_harness.kernel import root as roots
from agent_harness.kernel.files import own_place
from agent_harness.kernel.git import Git, own_output
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.shell.reader import ShellCommand, read
from agent_harness.protocols.features import escalation, progress, prompts, records, repository
from agent_harness.protocols.features.config import commands as command_rules
from agent_harness.protocols.features.config import default_text, load
from agent_harness.protocols.features.config.file import with_linter
from agent_harness.protocols.features.config.mcp_servers import demand_programs, switched_on
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.project import Project, Say
from agent_harness.protocols.features.verdict import quality
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.protocols.features.work.plan import PlanWork, remember_failed_try
from agent_harness.session.runner import walk
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy, startable

SPEC_BYTES = 1_000_000

SCRIPT = "#!/bin/sh\n# {what}\nset -eu\nexit 0\n"
SCRIPTS = {
    "init.sh": "Starts the development environment; exit status 0 means that it is up.",
    "reset.sh": "Forces a clean state: stops what init.sh started, and nothing else.",
}


def initialise(root: Path, spec: Path, *, agents: Sequence[str], say: Say) -> JsonObject:
    """Let an agent plan a new project in ``root`` from a specification."""
    # before any inspection of the repository, because an inspection creates the harness's own files
    text, is_anew = specification(spec), roots.is_anew(os.fspath(root))
    _refuse_unsafe(root, spec)
    config = load(root) if os.path.exists(FeatureLayout(root).settings) else None
    if config:
        demand_programs(switched_on(config.tools.mcp_servers), root)
    found = registry.resolve_all(agents, configured=config.agent if config else None, environ=os.environ, root=root)
    allowed = startable(found, say, "harness init --spec FILE --agent SPEC", root)
    told: JsonObject = {"project": str(root), "item": "harness init"}
    dispatcher = Dispatcher(allowed, RefusalPolicy(again="harness init --spec FILE"), say, told=told)
    with interruption.watched() as stop, dispatcher:
        with stop.listening(waits=True):
            agent = dispatcher.chosen(stop.requested)
        _refuse_unsafe(root, spec)  # there may have been a wait
        if is_anew:
            forget_earlier(root, say)
        project = _first_files(root, say)
        say("Running initializer agent...")
        _plan(project, agent, text, stop)
        _complete_files(project)
        commit = _commit(project)
        _state(project, commit)
    return _tell(project, commit)


def forget_earlier(root: Path, say: Say) -> None:
    layout = layout_of(root)
    if aside := trusted_state.set_aside(layout.git_dir, layout.root):
        say(f"An earlier project was here; its state is now in {aside}.")


# -- before the agent --------------------------------------------------------------------------------------------------


def specification(spec: Path) -> str:
    try:
        raw = spec.read_bytes()
    except OSError as error:
        raise UsageError(f"--spec {spec} cannot be read: {error.strerror}", hint="harness init --spec FILE") from None
    if len(raw) > SPEC_BYTES:
        raise UsageError(f"--spec {spec} is larger than {SPEC_BYTES // 1_000_000} MB", hint="harness init --spec FILE")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"--spec {spec} is not UTF-8 text", hint="harness init --spec FILE") from None
    if not text.strip() or "\0" in text:
        raise UsageError(f"--spec {spec} is empty or not text", hint="harness init --spec FILE")
    return text


def _refuse_unsafe(root: Path, spec: Path) -> None:
    layout = layout_of(root)
    if os.path.exists(layout.session_state):
        raise Refused("This project is already initialised", hint="harness run")
    if os.path.lexists(layout.features) and layout.relative(layout.features) not in _left_by_an_earlier_try(layout):
        name = layout.relative(layout.features)
        raise Refused(
            f"The plan {name} already exists and would be replaced",
            hint=f"harness run  # or move {name} to another folder",
        )
    if not os.access(root, os.W_OK | os.X_OK):
        raise Refused(f"{root} is not writable", hint=f"ls -ld {root}")
    git = Git(root)
    if not git.is_repository:
        others = [p.name for p in root.iterdir() if p.resolve() != spec.resolve() and p.name != ".harness.yaml"]
        if others:
            raise UnsafeTree(
                f"This folder is not a git repository and has other files: {', '.join(sorted(others)[:3])}",
                hint="git init && git add -A && git commit -m 'Start'",
            )
        return
    if git.top().resolve() != root.resolve():
        raise Refused(f"Run this command in the top folder of the repository, {git.top()}", hint=f"cd {git.top()}")
    if under_way := git.operation_under_way():
        raise UnsafeTree(f"{under_way.capitalize()} is in progress in this repository", hint="git status")
    if git.head() is not None and git.branch() is None:
        raise UnsafeTree("HEAD is detached, so no branch is checked out", hint="git switch BRANCH")
    ours = {
        os.path.relpath(spec.resolve(), root.resolve()),
        layout.relative(layout.settings),
    } | _left_by_an_earlier_try(layout)
    dirty = [path for path in repository.dirty_paths(git) if path not in ours]
    if dirty:
        raise UnsafeTree(
            f"These files are not committed and would end up in the first commit: {', '.join(dirty[:3])}",
            hint="git add -A && git commit -m 'Start'",
        )


def _left_by_an_earlier_try(layout: FeatureLayout) -> set[str]:
    try:
        found = files.read_json(os.path.join(layout.git_dir, "harness", "failed_init.json")).get("paths")
    except (OSError, StateDamaged):
        return set()
    return {str(path) for path in found} if isinstance(found, list) else set()


def _first_files(root: Path, say: Say) -> Project:
    git = Git(root)
    if not git.is_repository:
        repository.make_repository(root)
    layout = FeatureLayout(root)
    if not os.path.exists(layout.settings):
        full, feature = "python3 -m pytest tests/ -v", "python3 -m pytest {test_file} -v"
        text = default_text(root.resolve().name or "project", full=full, feature=feature, lint=None)
        files.replace(layout.settings, text)
    ignore(root, ignored_lines(layout_of(root)))
    project = Project.open(root, load(root), say)
    repository.ignore_always(project.git, project.state_name)
    return project


def layout_of(root: Path) -> FeatureLayout:
    usual = FeatureLayout(root)
    if not os.path.exists(usual.settings):
        return usual
    paths = load(root).paths
    return FeatureLayout(root, features=paths.features, progress=paths.progress, state_dir=paths.state_dir)


def ignored_lines(layout: FeatureLayout) -> list[str]:
    state = layout.relative(layout.state_dir)
    return [f"{state}/", f"{state}.backup.*/"]


def ignore(root: Path, lines: list[str]) -> None:
    """Add the missing ``lines`` to .gitignore."""
    path = root / ".gitignore"
    if path.is_symlink():
        raise Refused(".gitignore is a symbolic link, which the harness does not follow", hint="ls -l .gitignore")
    own_output.add(str(path.absolute()), lines)


# -- the agent ---------------------------------------------------------------------------------------------------------


def _plan(project: Project, agent: Agent, specification: str, stop: interruption.Stop) -> None:
    """Let the agent write features.json. If the file is invalid, let the agent correct it once."""
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
    work = PlanWork(project, agent, stop, prompt=prompt, problems=lambda: _problems(project), what="features.json")
    if found := walk(work, work.turns):
        remember_failed_try(project)
        raise VerificationFailed(
            f"The agent's features.json is not valid: {found[0]}"
            + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
            hint="harness init --spec FILE  # the agent's files are still here",
            problems=list(found),
        )


def _problems(project: Project) -> list[str]:
    try:
        document = project.store.features()
    except HarnessError as error:
        return [error.message]
    found = records.problems(document, require_test_file=project.config.features.require_test_file)
    if not document.features:
        found.append("features.json: it has no features")
    for feature in document.features:
        name = feature.name
        if feature.passes:
            found.append(f"{name}: 'passes' is true before anything was built")
        file = feature.test_path
        if file and not found and not (project.root / file).is_file():
            found.append(f"{name}: its test file {file} does not exist")
    return found


# -- after the agent ---------------------------------------------------------------------------------------------------


def _complete_files(project: Project) -> None:
    """Complete the new project's settings, scripts and progress file."""
    _settle_linter(project)
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
        progress.append(at, progress.header(document.project or project.config.project.name))
    if not progress.has_entry(at, 0):
        progress.append(
            at, progress.entry(0, [("WHAT I DID", ["set the project up"]), ("NEXT", ["the first feature"])])
        )
    ignore(project.root, ignored_lines(project.layout))


def _settle_linter(project: Project) -> None:
    # C22
    place = Path(project.layout.settings)
    if place.is_symlink() or not place.is_file():
        return
    found, before = command_rules.facts(project.root, os.environ).lint, place.read_text(encoding="utf-8")
    if found and (after := with_linter(before, found)) != before:
        files.replace(place, after)


def _commit(project: Project) -> str:
    before = project.git.head()
    commit = project.candidate("0", "Initial project setup by initializer agent")
    if commit != before:
        snapshot.adopt(project.git, commit, branch=project.git.look().branch, expected_head=before)
    return commit


def _state(project: Project, commit: str) -> None:
    at = project.layout
    document = project.store.features()
    facts = Judge(project).suite(commit)
    if facts.problem:
        project.say(f"Warning: the test command gave no results yet ({facts.problem})")
    tests = [f.test_file for f in document.features]
    tree = project.git.tree_of(commit)
    baseline = records.Baseline({}).measured(facts.passing, facts.total, timestamp=clock.timestamp(), tree=tree)
    project.store.write_baseline(baseline)
    project.store.write(at.file_sizes, quality.file_sizes(project.git, commit, 0, {}, tests))
    project.store.event("initialised", session=0, commit=commit, features=len(document.features))
    # last, because the project is then ready for its first session
    project.store.write_state(records.SessionState({"timestamp": clock.timestamp()}))


def _tell(project: Project, commit: str) -> JsonObject:
    document = project.store.features()
    found = document.features
    say = project.say
    say("Created: .harness.yaml (configuration)")
    if lint := load(project.root).quality.lint_command:
        say(f"Lint: {lint}")
    else:
        say("Warning: no linter was found; set quality.lint_command in .harness.yaml")
    say(f"Created: {project.features_name} ({len(found)} features, all with test_file)")
    say("Created: init.sh, reset.sh")
    for name in SCRIPTS:
        for line in findings((project.root / name).read_text("utf-8", "replace"), project.root):
            say(f"Warning: {name}: {line}")
            project.store.event("script_warning", session=0, path=name, message=line)
    say(f"Created: {project.progress_name}")
    say("Created: test stubs for each feature")
    say(f"Added {project.state_name}/ to .gitignore")
    say(f"Initial commit: {commit[:10]}")
    flags = list(records.flags(document.features, max_steps=project.config.features.max_verification_steps))
    for line in flags:
        say(f"Warning: {line}")
    asked = escalation.offer_split(project)
    say("Ready for: harness run")
    fields = {"project": document.record.get("project"), "features": len(found), "commit": commit, "warnings": flags}
    return {**fields, "escalation": asked and asked.record}


# -- the scripts -------------------------------------------------------------------------------------------------------

KILLERS = ("pkill", "killall")
COMPOSERS = ("docker", "docker-compose", "podman", "podman-compose")


def findings(text: str, root: Path) -> list[str]:
    """Return one line for each command in ``text`` that can damage data or end other programs."""
    script = read(text)
    if script.fault:
        return [f"it cannot be read: {script.fault}"]
    found = list(dict.fromkeys(line for each, _ in script.every() for line in _harm(each)))
    refused = check_command(text, root, ToolRules(denied_commands=()))
    return [*found, *([refused] if refused else [])]


def _harm(command: ShellCommand) -> Iterator[str]:
    words = [word.written for word in command.words]
    shown = " ".join(words)[:120]
    if any(word.rpartition("/")[2] in KILLERS for word in words):
        yield f"`{shown}` may end programs that it did not start; keep pid files and end those processes"
    if any(word in COMPOSERS for word in words) and "down" in words and {"-v", "--volumes"} & set(words):
        yield f"`{shown}` deletes volumes and the data in them"
