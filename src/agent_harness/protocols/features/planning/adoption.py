"""Adoption of existing code (`harness init --adopt`), without an agent. After the adoption, sessions may not break the
tests that pass at HEAD. Existing files are never overwritten. Source: features.md C23, C48."""

import os
import stat
from glob import escape, glob
from pathlib import Path

from agent_harness.errors import Busy, ConfigurationError, Refused, UnsafeTree
from agent_harness.kernel import clock, files, lock
from agent_harness.kernel import root as roots
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import progress, records, repository
from agent_harness.protocols.features.config import commands as command_rules
from agent_harness.protocols.features.config import default_text, load
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.people import takeover
from agent_harness.protocols.features.planning import initializer
from agent_harness.protocols.features.project import Project, Say
from agent_harness.protocols.features.sessions.locking import locked
from agent_harness.protocols.features.store import FeatureStore
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Suite
from agent_harness.verification.found_check import FoundCheck
from agent_harness.verification.found_check import found as found_check

MESSAGE = "harness: project adopted"
ADOPTED = [("WHAT I DID", ["the project was adopted with the code and tests that it had"])]
TESTS = ("tests", "test", "testing")
AGAIN = "set testing.full in .harness.yaml, then harness init --adopt"
NAMED = "harness init --adopt --check 'COMMAND THAT RUNS THE TESTS'"
RUNNERS = (
    "Known here are pytest, `node --test`, vitest, jest, `go test`, `cargo test`, Maven, Gradle, and every runner that "
    "writes JUnit XML to {report}, such as `npx mocha --reporter xunit --reporter-options output={report}`."
)


def adopt(root: Path, *, say: Say, allow_failing: bool = False, check: str = "") -> JsonObject:
    """Turn the repository in ``root`` into a feature project. ``check`` is the command of its tests, if it is known."""
    layout = initializer.layout_of(root)
    git = Git(root)
    # before any inspection of the repository, because an inspection creates the harness's own files
    is_anew = roots.is_anew(os.fspath(root))
    _refuse_unsafe(root, layout, git)
    if is_anew:
        initializer.forget_earlier(root, say)
    written = _settings_file(root, layout, git, check)
    try:
        return _adopt(root, layout, git, written, say=say, allow_failing=allow_failing)
    except BaseException:
        if written and git.show("HEAD", written[0]) is None:  # nothing is committed
            (root / written[0]).unlink(missing_ok=True)
        raise


def _adopt(
    root: Path, layout: FeatureLayout, git: Git, settings: list[str], *, say: Say, allow_failing: bool
) -> JsonObject:
    written, config = [*settings], load(root)
    project = Project.open(root, config, say)
    if os.path.exists(layout.features):
        found = records.problems(project.store.features(), require_test_file=config.features.require_test_file)
        if found:
            raise ConfigurationError(found[0], hint=f"edit {project.features_name}, then harness init --adopt")
    say(f"Running the suite once: {config.testing.full}")
    repository.keep_out_of_sight(git, project.state_name)
    with locked(project):
        project.store.finalize_in()
        facts = _run_suite(project, written, allow_failing=allow_failing)
        written += _write_missing(root, layout)
        before = _bytes(root / ".gitignore")
        initializer.ignore(root, initializer.ignored_lines(layout))
        extended = _bytes(root / ".gitignore") != before
        if extended and not before:
            written.append(".gitignore")
        for name in written:
            say(f"Created: {name}")
        if extended and before:
            say("Added to .gitignore: the harness's own files")
        own = [name for name in _own_names(layout) if name in repository.dirty_paths(git)]
        if own:
            repository.commit_files(git, own, MESSAGE)
        failing = proven.not_open(project.store.features(), facts.failing)
        # last, because the state shows that the adoption is complete
        takeover.fresh_state(project, facts, known_failures=failing)
        project.store.event("adopted", session=0, passing=len(facts.passing), known_failures=len(failing))
    passing, total = project.store.features().counts()
    say(f"Known to pass: {len(facts.passing)} tests. Known failures: {len(failing)}.")
    for node in failing[:10]:
        say(f"- {node}")
    next_step = "harness run" if total else 'harness add-feature "..."'
    say(f"Ready for: {next_step}")
    return {
        "created": written,
        "features": {"passing": passing, "total": total},
        "tests": {"passing": len(facts.passing), "total": facts.total},
        "known_failures": failing,
        "commit": git.head(),
        "next": next_step,
    }


def _refuse_unsafe(root: Path, layout: FeatureLayout, git: Git) -> None:
    if os.path.exists(layout.session_state):
        raise Refused("This project is already initialised", hint="harness run")
    if not git.is_repository or git.head() is None:
        raise UnsafeTree(
            "Only a git repository with a commit can be adopted", hint="git init && git add -A && git commit -m 'Start'"
        )
    if git.top().resolve() != root.resolve():
        raise Refused(f"Run this command in the top folder of the repository, {git.top()}", hint=f"cd {git.top()}")
    if under_way := git.operation_under_way():
        raise UnsafeTree(f"{under_way.capitalize()} is in progress in this repository", hint="git status")
    if git.branch() is None:
        raise UnsafeTree("HEAD is detached, so no branch is checked out", hint="git switch BRANCH")
    if not os.access(root, os.W_OK | os.X_OK):
        raise Refused(f"{root} is not writable", hint=f"ls -ld {root}")
    dirty = [path for path in repository.dirty_paths(git) if path not in _own_names(layout)]
    if dirty:
        raise UnsafeTree(f"These files are not committed: {', '.join(dirty[:3])}", hint="git add -A && git commit")
    links = [name for name in _own_names(layout) if (root / name).is_symlink()]
    if links:
        raise Refused(f"{links[0]} is a symbolic link, which the harness does not follow", hint=f"ls -l {links[0]}")


def _own_names(layout: FeatureLayout) -> list[str]:
    paths = (layout.settings, layout.features, layout.progress)
    return [*map(layout.relative, paths), "init.sh", "reset.sh", ".gitignore"]


def _settings_file(root: Path, layout: FeatureLayout, git: Git, check: str) -> list[str]:
    if os.path.exists(layout.settings):
        if check:
            raise Refused(f"{layout.relative(layout.settings)} names the command of the tests already", hint=AGAIN)
        return []
    found = FoundCheck(command=check, source="--check") if check else found_check(git, "HEAD", hint=NAMED)
    # through a script, a folder in its words would be run with each file
    full = found.script if command_rules.runner_of(found.script) == "node" else found.command
    if command_rules.runner_of(found.command) == "pytest" and not check:
        folder = next((f"{each}/" for each in TESTS if (root / each).is_dir()), "")
        full = f"{found.command} {folder}".strip() + " -v"
    lint = command_rules.facts(root, os.environ).lint
    text = default_text(_name(root), full=full, feature=command_rules.feature_command(full), lint=lint)
    files.replace(layout.settings, text)
    return [layout.relative(layout.settings)]


def _write_missing(root: Path, layout: FeatureLayout) -> list[str]:
    written = []
    name = _name(root)
    for path, text in (
        (layout.features, _no_features(name)),
        (layout.progress, progress.header(name) + progress.entry(0, ADOPTED)),
    ):
        if not os.path.exists(path):
            files.replace(path, text)
            written.append(layout.relative(path))
    for script, what in initializer.SCRIPTS.items():
        place = root / script
        if not place.exists():
            files.replace(place, initializer.SCRIPT.format(what=what))
            place.chmod(place.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
            written.append(script)
    return written


def _name(root: Path) -> str:
    return root.resolve().name or "project"


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _no_features(name: str) -> str:
    whole: JsonObject = {
        "project": name,
        "generated_by": "adopted",
        "last_updated": clock.timestamp(),
        "features": [],
        "instructions": records.INSTRUCTIONS,
    }
    return files.dumps(whole)


def _run_suite(project: Project, written: list[str], *, allow_failing: bool) -> Suite:
    facts = takeover.suite_at_head(project)
    left, again = (" Nothing was committed, and no file was changed.", NAMED if written else AGAIN)
    if facts.problem or not facts.total:
        why = facts.problem or "the command ran no test"
        why += f" (last line: {facts.first_error})" if facts.first_error else ""
        raise Refused(f"The tests could not be run: {why}. {RUNNERS}{left}", hint=again)
    if not facts.passing and not allow_failing:
        raise Refused(
            f"No test passes, {len(facts.failing)} fail: {facts.first_error or 'no reason was printed'}.{left}",
            hint=f"make `{project.config.testing.full}` work, then harness init --adopt  (or add --allow-failing)",
        )
    return facts


# -- removal of the harness --------------------------------------------------------------------------------------------


def traces(layout: FeatureLayout) -> JsonObject:
    """Return the files that the harness created. Raise an error if a session is not finished."""
    state, name = FeatureStore(layout), layout.relative(layout.lock)
    if (holder := lock.holder(layout.root, name)) is not None:
        raise Busy(f"Another harness is running here: {holder}", hint="harness pause  # then the same command")
    if state.open_session() is not None:
        raise Refused("A session was interrupted, and its work is not committed yet", hint="harness resume")
    folder = layout.state_dir
    scripts = [name for name, what in initializer.SCRIPTS.items() if _is(name, what, layout)]
    made = [folder, *sorted(glob(f"{escape(folder)}.backup.*")), *(os.path.join(layout.root, name) for name in scripts)]
    plan = [layout.progress, layout.features, layout.settings]
    return {
        "kind": "features",
        "files": [path for path in (*made, *plan) if os.path.lexists(path)],
        "excluded": [f"/{layout.relative(folder)}/", f"{layout.relative(folder)}.backup.*/"],
        "gitignore": initializer.ignored_lines(layout),
        "place": layout.git_dir,
        "lock": {"file": name, "compatible": False},
    }


def _is(name: str, what: str, layout: FeatureLayout) -> bool:
    """Return True if the script ``name`` is identical to the harness's template for ``what``."""
    try:
        return Path(layout.root, name).read_bytes() == initializer.SCRIPT.format(what=what).encode()
    except OSError:
        return False
