"""One turn of the agent inside a session: its brief and prompt, and its monitors.

Source: features.md sections K, N, Q, R, V.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent, Brief
from agent_harness.kernel.redact import redact
from agent_harness.kernel.snapshot import Snapshot
from agent_harness.protocols.features import (
    costs,
    prompts,
    records,
    worktree,
)
from agent_harness.protocols.features.engine import checkpoints, provider_retry, turn_settings
from agent_harness.protocols.features.engine.actions import ActionLog
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import verification_types
from agent_harness.protocols.features.publish import push_guard
from agent_harness.protocols.features.verdict import screenshots
from agent_harness.supervision.monitors import (
    Budget,
    BudgetLimit,
    ContextWindow,
    ProjectFacts,
    RepeatedError,
    Stall,
    WallClock,
    Watch,
)
from agent_harness.supervision.outcome import Outcome
from agent_harness.supervision.recording import Recording
from agent_harness.supervision.supervisor import supervise

Record = dict[str, Any]

FEEDBACK_CHARACTERS = 6000
TRANSCRIPT_BYTES = 8_000_000


def run(
    project: Project,
    agent: Agent,
    under_way: OpenSession,
    prompt: str,
    *,
    round_number: int,
    conversation: str | None,
    watch: Watch,
    began: float,
    stop_requested: Callable[[], str | None],
    recording: Recording | None = None,
) -> tuple[Outcome, OpenSession]:
    """Runs the agent once on the session's feature; its processes are gone when this returns.

    The process record is on disk before anything that the agent says is read, so that a later harness can end it.
    """
    brief = Brief(
        prompt=prompt,
        cwd=project.root,
        session=under_way.session,
        prompt_type=under_way.prompt_type,
        feature_id=under_way.feature_id,
        round=round_number,
        conversation=conversation,
        run_id=under_way.run_id,
        environment=push_guard.variables(under_way.git_config),
    )
    brief = turn_settings.handed(project, brief)
    moved = under_way

    def started(process: Mapping[str, object]) -> None:
        nonlocal moved
        moved = under_way.at(project, "running", agent=dict(process))
        project.store.event("agent_started", session=under_way.session, feature_id=under_way.feature_id)

    log = ActionLog(project, under_way.session, brief.model, under_way.feature_id)
    turn_began = time.monotonic()
    outcome = supervise(
        agent,
        brief,
        monitors=watch,
        transcript=Path(project.layout.transcript(under_way.session)),
        transcript_limit_bytes=TRANSCRIPT_BYTES,
        on_started=started,
        stop_requested=stop_requested,
        facts=lambda: changed_files(project, under_way),
        on_event=log.see,
        test_file=records.test_file(under_way.feature),
        session_began=began,
        silence_seconds=provider_retry.silence_seconds(project, agent.capabilities),
        recording=recording,
    )
    log.close(time.monotonic() - turn_began)
    screenshots.keep(project, under_way.session, under_way.feature_id, log.screenshots)
    for kind, texts in (("agent_steered", outcome.steered), ("agent_not_told", outcome.not_delivered)):
        for text in texts:
            project.store.event(kind, session=under_way.session, message=text)
    return outcome, moved


def recording_of(project: Project, session: int, base: Snapshot | None) -> Recording:
    """The recording of a session beside its transcript."""
    return Recording(Path(project.layout.cassette(session)), project.git, lambda: project.tree_now(base))


def watch_for(project: Project, costs_before: Record, feature_id: int | None, model: str | None) -> Watch:
    """The monitors of one session, over all of its turns."""
    config = project.config
    budgets = project.budgets
    limits = [
        BudgetLimit(name="Session", limit_usd=budgets.per_session),
        BudgetLimit(name="Project", limit_usd=budgets.total, spent_usd=costs.counted(costs_before)),
    ]
    if feature_id is not None:
        spent = costs.of_feature(costs_before, feature_id)
        limits.append(BudgetLimit(name="Feature", limit_usd=budgets.per_feature, spent_usd=spent))
    return Watch(
        (
            WallClock(
                timeout_seconds=config.session.timeout_minutes * 60,
                warning_seconds=config.session.timeout_warning_minutes * 60,
            ),
            ContextWindow(
                window_tokens=config.context.window_tokens,
                warn_threshold=config.context.warn_threshold,
                force_threshold=config.context.force_threshold,
            ),
            Stall(
                check_interval_tokens=config.progress.check_interval_tokens,
                window_tokens=config.context.window_tokens,
                force_stop_after=config.progress.force_stop_after_stuck_checks,
                warning_message=config.progress.stuck_warning,
                force_stop_message=config.progress.force_stop_message,
            ),
            RepeatedError(
                max_repeated=config.progress.max_repeated_errors, message=config.progress.repeated_error_message
            ),
            Budget(limits=tuple(limits), model=model),
        )
    )


def changed_files(project: Project, under_way: OpenSession) -> ProjectFacts:
    """Every path that differs from the checkpoint, with a stamp that moves when its content may have (C43)."""
    way_back = checkpoints.way_back(under_way.checkpoint)
    head = project.git.head()
    paths = set(worktree.dirty_paths(project.git))
    if head and head != way_back.head:
        paths |= {path for _, path in project.git.changed_paths(way_back.head, head)}
    return ProjectFacts({path: _stamp(project.root / path) for path in sorted(paths)})


def _stamp(path: Path) -> object:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


# -- prompts -----------------------------------------------------------------------------------------------------------


def opening_prompt(project: Project, under_way: OpenSession, orientation: str) -> str:
    """The coding or continuation prompt with the orientation in it."""
    values = _places(project, under_way)
    text = prompts.render(
        under_way.prompt_type,
        {
            **values,
            "orientation": orientation,
            "rules": prompts.render("rules", {"state_dir": project.state_name}),
            "suite_command": str(project.config.testing.full),
            "lint": project.config.testing.sanity.lint or "no linter is configured",
            "sanity": _sanity(project),
            "progress_file": project.progress_name,
            "feature_name": f"Feature #{under_way.feature_id}",
            "session": str(under_way.session),
        },
    )
    return text + verification_types.note_for_agent(under_way.feature)


def _sanity(project: Project) -> str:
    """The other quick checks that the settings name, each as a command (UAH-154, UAH-156..158).

    Those of folders that are not there are left out.
    """
    testing = project.config.testing
    named = (testing.sanity.type_check, testing.sanity.health, testing.unit, testing.e2e)
    commands = dict.fromkeys(c for c in named if c and c != testing.full and _has_its_folder(project, c))
    return "".join(f", `{command}`" for command in commands)


def _has_its_folder(project: Project, command: str) -> bool:
    paths = [word for word in command.split() if word.startswith(("tests/", "test/", "./"))]
    return all(os.path.exists(project.root / path) for path in paths)


def fix_prompt(project: Project, under_way: OpenSession, *, failure: str, output: str, fix_round: int) -> str:
    """What the harness saw, for the next fix round (C03 a)."""
    return prompts.render(
        "fix",
        {
            **_places(project, under_way),
            "round": str(fix_round),
            "rounds": str(project.config.verification.fix_rounds),
            "reason": failure,
            "output": redact(output)[-FEEDBACK_CHARACTERS:].replace("```", "'''"),
        },
    )


def evidence_prompt(project: Project, under_way: OpenSession) -> str:
    """Asks once for the output that a claim needs (C20)."""
    values = _places(project, under_way)
    return prompts.render("evidence", {**values, "test_file": records.test_file(under_way.feature)})


def _places(project: Project, under_way: OpenSession) -> dict[str, str]:
    return {
        "feature": str(under_way.feature_id),
        "description": records.description(under_way.feature),
        "test_command": project.config.test_command(records.test_file(under_way.feature)),
        "features_file": project.features_name,
    }


def announce_stop(project: Project, outcome: Outcome) -> None:
    """Says why the harness ended the agent, when it did; of a provider that does not serve it, others tell."""
    if outcome.reason not in ("finished", "user_pause", "rate_limited", "no_response"):
        project.say(outcome.message)
