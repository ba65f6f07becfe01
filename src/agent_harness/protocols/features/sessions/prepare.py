"""Steps before an agent starts. They cost no tokens. Source: features.md section M, C23, C24, UAH-279, UAH-280."""

import time
from dataclasses import dataclass

from agent_harness.errors import HarnessError, PreflightFailed
from agent_harness.kernel import clock
from agent_harness.kernel.process import new_run_id
from agent_harness.protocols.features import lifecycle, preflight, prompts, repository, selection
from agent_harness.protocols.features.preflight import DevelopmentEnvironment
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import CLEANUP, Baseline, Feature, SessionState
from agent_harness.protocols.features.sessions import checkpoints
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.verification.runner_config import is_test_file


@dataclass(frozen=True, kw_only=True)
class Start:
    number: int
    feature: Feature
    prompt_type: str
    orientation: str
    state: SessionState
    baseline: Baseline  # the stored one, with the tests that pass now


def prepare(
    project: Project, judge: Judge, environment: DevelopmentEnvironment, feature: Feature, verified_tree: str | None
) -> Start:
    """Run the preflight checks and start the environment. Return the session's start data."""
    state = project.store.state()
    number = project.store.next_session()
    project.say(f"Session {number} starting...")
    began = time.monotonic()
    try:
        red, baseline = _checks(
            project, judge, environment, feature=feature, state=state, number=number, verified_tree=verified_tree
        )
    except HarnessError as error:
        _note(project, "preflight_failed", number, began, check=error.data.get("check"), error=error.message)
        raise
    if red is not None:
        state = project.store.update_state(wip_red_tests=sorted(red))
    if feature is not CLEANUP and state.next_prompt == "cleanup":
        state = state.but(next_prompt="coding")  # a person chose the feature; the cleanup comes after it
    prompt_type, reason = lifecycle.prompt_type(state)
    project.say("Generating orientation summary...")
    text = prompts.orientation_of(project, state, selection.Choice(feature), number)
    project.say(f"Prompt type: {prompt_type} ({reason})")
    return Start(
        number=number, feature=feature, prompt_type=prompt_type, orientation=text, state=state, baseline=baseline
    )


def _note(project: Project, kind: str, number: int, began: float, **facts: object) -> None:
    seconds = round(time.monotonic() - began, 1)
    project.store.event(kind, "important", session=number, duration_seconds=seconds, **facts)


def _checks(
    project: Project,
    judge: Judge,
    environment: DevelopmentEnvironment,
    *,
    feature: Feature,
    state: SessionState,
    number: int,
    verified_tree: str | None,
) -> tuple[frozenset[str] | None, Baseline]:
    began = time.monotonic()
    wanted = project.config.preflight.checks
    passed: list[preflight.Check] = []
    if wanted.working_directory:
        passed.append(preflight.working_directory(project.layout))
    if wanted.harness_files:
        passed.append(preflight.harness_files(project.layout, preflight.script_files(project.config)))
    if wanted.git_state:
        passed.append(preflight.git_state(project, number))
    if wanted.budget:
        budget = preflight.budget(project.store.costs(), project.budgets, feature.feature_id)
        project.say(f"Budget: {budget.note}.")
        passed.append(budget)
    if wanted.environment:
        on_failure = project.config.preflight.on_failure
        environment.up(auto_reset=on_failure.auto_reset, max_reset_attempts=on_failure.max_reset_attempts)
        environment.healthy()
        passed.append(preflight.Check(name="environment"))
    red, baseline = None, project.store.baseline()
    if wanted.baseline_tests:
        red, baseline = _baseline(project, judge, state, verified_tree)
        known, broken = len(project.store.baseline().passing), len(red or state.red_tests or ())
        passed.append(preflight.Check(name="baseline_tests", note=f"{known - broken} of {known}"))
    repository.ignore_always(project.git, project.state_name)
    notes = [f"{check.name}{f' ({check.note})' if check.note else ''}" for check in passed]
    _note(project, "preflight_passed", number, began, checks=notes)
    return red, baseline


def _baseline(
    project: Project, judge: Judge, state: SessionState, verified_tree: str | None
) -> tuple[frozenset[str] | None, Baseline]:
    """Run the suite at HEAD. Raise ``PreflightFailed`` if a baseline test fails, unless unfinished work broke it.

    Return the tests that an interrupted session broke, or None, and the new baseline (C15, C23)."""
    baseline = project.store.baseline()
    known = baseline.passing
    head = project.git.head() or "HEAD"
    if project.git.tree_of(head) == verified_tree or not (known or _has_tests(project, head)):
        return None, baseline
    facts = judge.suite(head)
    if facts.problem and not known:
        return None, baseline
    if facts.problem:
        raise PreflightFailed(
            f"Environment is broken. The test suite did not report: {facts.problem}",
            hint=str(project.config.testing.full),
            check="baseline_tests",
        )
    red = known - facts.passing
    if state.red_tests is None and state.partial and red < known:
        return red, baseline
    unexpected = red.difference(state.red_tests or ())
    still = judge.still_failing(head, unexpected) if unexpected else set()
    if still:
        raise preflight.baseline_broken(still, str(project.config.testing.full))
    if state.partial:  # other passing tests may belong to the unfinished work
        return None, baseline
    return None, baseline.with_more(proven.not_open(project.store.features(), facts.passing), facts.files_read)


def _has_tests(project: Project, commit: str) -> bool:
    names = project.git.text("ls-tree", "-r", "--name-only", "-z", commit).split("\0")
    return bool(proven.not_open(project.store.features(), filter(is_test_file, names)))


def begin(project: Project, start: Start, agent: str = "") -> OpenSession:
    """Create the checkpoint, record that the session is open, and return the session."""
    state = start.state
    checkpoint = checkpoints.create(project, start.number, start.feature.feature_id)
    kept = state.feature_checkpoint if start.prompt_type == "continuation" else None
    earlier = SessionCheckpoint.from_record(kept) if kept else None
    if earlier and earlier.is_gone(project):
        project.say("The checkpoint of this feature no longer exists. A rejection will undo only this session.")
        earlier = None
    base = earlier or checkpoint
    undisturbed = not earlier or project.git.head() == state.wip_commit
    if not undisturbed:
        project.say("You have commits on top of the unfinished work. A rejection will not remove your commits.")
    under_way = OpenSession(
        session=start.number,
        feature_id=start.feature.feature_id,
        prompt_type=start.prompt_type,
        started_at=clock.timestamp(),
        checkpoint=checkpoint,
        base=base,
        rollback=base if undisturbed else checkpoint,
        features=project.store.features(),
        state=state,
        baseline=start.baseline,
        costs=project.store.costs(),
        run_id=new_run_id(),
        git_config=project.git.record_config(),
        agent_name=agent,
        model=project.config.models.for_prompt(start.prompt_type)
        if project.config.is_model_chosen(start.prompt_type)
        else None,
    )
    return under_way.at(project, "preparing")
