"""Jobs of a worker for a feature project: one session on a feature, or one run of the test suite on a merge candidate.

A job runs in a separate process and in a workspace with its own state. This module therefore imports nothing from the
coordinator."""

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agent_harness.errors import Escalated, HarnessError
from agent_harness.kernel import files, journal
from agent_harness.kernel.json import JsonObject, members_of
from agent_harness.kernel.temporary import remove, remove_tree
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.items import (
    ACCEPTED,
    ATTEMPT,
    BROKEN,
    GREEN,
    PARKED,
    PARTIAL,
    RED,
    REJECTED,
    Job,
)
from agent_harness.parallel.workspaces import Workspace, copy_plain
from agent_harness.protocols.features import costs, questions, records
from agent_harness.protocols.features.config import Config, load
from agent_harness.protocols.features.preflight import running
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import CostRecord, SessionState
from agent_harness.protocols.features.sessions import checkpoints
from agent_harness.protocols.features.sessions.run import Runs
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.session import ledger
from agent_harness.supervision.dispatch import RefusalPolicy
from agent_harness.verification.runner.installed_record import FirstLook

UNCOUNTED = ("user_pause", "error", "rate_limited")
OTHERS_STATE = ("open_session.json", "open_session.json.bak", "pause.json", "verdicts.jsonl", "now.json")
"""Files that an earlier job may have left in the workspace's state folder."""


def execute(workspace: Workspace, job: Job, folder: str) -> JsonObject:
    # HEAD is the job's base commit
    if job.kind == ATTEMPT:
        return _attempt(workspace, job, folder)
    return _verify(workspace, job)


def _attempt(workspace: Workspace, job: Job, folder: str) -> JsonObject:
    inputs, number = job.inputs, int(job.inputs["session"])
    pot = SharedBudget(inputs["parallel"])
    spent_before = costs.counted(CostRecord(inputs["costs"]))
    of_this_run = spent_before - inputs["spent_before_usd"]
    skipped = inputs["is_verified"] or inputs["seed"]
    project = replace(
        _opened(workspace, checks_baseline=not skipped),
        counts=inputs["counts"],
        elsewhere=lambda here: pot.elsewhere(job.id, here - spent_before) - of_this_run,
        first_look=FirstLook(
            os.path.join(inputs["parallel"], "installed.json"), job.id.partition("/")[0], workspace.folder
        ),
    )
    _seed(project, job)
    lines_before = next(ledger.newest_first(project.store.ledger()), None)
    last: JsonObject = {}
    problem: HarnessError | None = None
    try:
        ran = Runs(project).run(
            agents=tuple(inputs["agents"]),
            policy=RefusalPolicy.of_job(inputs),
            max_sessions=1,
            feature_id=inputs["feature"],
        )
        last = ran["sessions"][-1] if ran["sessions"] else {}
    except Escalated as error:
        problem = error
    state = project.store.state()
    spent = _spent(project, spent_before, number)
    kept = os.path.join(folder, "logs")
    copy_plain(project.layout.logs, kept)
    row = next((each for each in journal.tail(project.layout.log("sessions.jsonl"), 5)), None)
    lines = ledger.after(project.store.ledger(), lines_before.n if lines_before else 0)
    if any("environment_changed" in each.codes for each in lines):
        _install_anew(workspace, job, project)
    found = _status_of(last, state, problem)
    if last.get("reason") == "budget_exceeded" and not _alone(project, inputs["feature"]):
        found |= {"status": PARTIAL, "reason": "budget", "uncounted": True, "question": None}  # used up by others
    for ref in project.git.refs_below(
        "refs/harness/checkpoints/"
    ):  # of what the workspace began with: nothing of its own
        project.git.update_ref(ref, None)
    baseline = project.store.baseline()
    known = records.Baseline(inputs["baseline"]).passing
    return {
        **found,
        "session": number,
        "commit": last.get("commit") or job.base,
        "state": state.record,
        "wip": _left(project, state, job.base) if found["status"] != ACCEPTED else None,
        "row": row,
        "spent": spent,
        "cost_usd": (spent.get("cost_usd") or spent.get("assumed_usd") or 0.0) if spent else 0.0,
        "verdicts": [each.as_record() for each in lines],
        "outputs": ledger.outputs_of(lines, project.root),
        "proven_tests": sorted(baseline.passing - known) if found["status"] == ACCEPTED else [],
        "gone_tests": sorted(known - baseline.passing) if found["status"] == ACCEPTED else [],
        "files_read": [*baseline.files_read],
        "total_tests": baseline.record["total_tests"],
        "quality": project.store.quality(),
        "logs": kept,
    }


def _opened(workspace: Workspace, *, checks_baseline: bool) -> Project:
    config: Config = load(workspace.folder)
    checks = config.preflight.checks
    # the coordinator has verified the base commit
    if not checks_baseline:
        checks = checks.model_copy(update={"baseline_tests": False})
    config = replace(
        config,
        github=config.github.model_copy(update={"sync_mode": "none"}),
        preflight=config.preflight.model_copy(update={"checks": checks}),
    )
    return Project.open(Path(workspace.folder), config, _say)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _seed(project: Project, job: Job) -> None:
    """Replace the workspace's state with the project's state that the job contains."""
    inputs, at = job.inputs, project.layout
    remove(at.state_dir)  # a link too: it is ignored where .gitignore says so
    os.makedirs(at.logs)
    project.store.finalize_in()
    state_folder = os.path.dirname(project.store.ledger())
    for name in OTHERS_STATE:
        files.unlink(os.path.join(state_folder, name))
    with suppress(FileNotFoundError):
        shutil.copyfile(inputs["verdicts"], project.store.ledger())
    contents = {at.baseline: inputs["baseline"], at.costs: inputs["costs"]}
    contents |= {at.file_sizes: inputs["file_sizes"], at.quality: inputs["quality"]}
    for path, value in contents.items():
        if value:
            files.write_json(path, value)
    project.store.write_proven({"commit": job.base, "features": inputs["proven"]})
    state = SessionState(inputs["state"])
    project.store.write_state(state)
    if inputs["seed"]:
        project.store.write_state(_lay_out(project, job, state))


def _lay_out(project: Project, job: Job, state: SessionState) -> SessionState:
    """Commit the feature's earlier work and check the commit out. Return the new session state."""
    inputs, git = job.inputs, project.git
    checkpoint = checkpoints.create(project, inputs["session"] - 1, inputs["feature"])
    told = inputs["told"]
    wip = git.commit_tree(inputs["seed"], [job.base], f"WIP: Feature #{inputs['feature']}")
    git.update_ref(job.branch, wip)
    git.run("read-tree", "--reset", "-u", wip)
    partial = {"feature_id": inputs["feature"], "session": inputs["session"] - 1, **(told.get("partial") or {})}
    changed = [path for _, path in git.changed_paths(job.base, wip) if path != project.progress_name]
    return state.but(
        next_prompt="continuation",
        current_feature=inputs["feature"],
        feature_checkpoint=checkpoint.record,
        wip_commit=wip,
        wip_red_tests=sorted(records.Baseline(inputs["baseline"]).passing),  # any of them may fail in it
        partial={**partial, "wip_files": changed[:40]},
        last_failure=told.get("failure") or state.last_failure,
    )


def _status_of(last: JsonObject, state: SessionState, problem: HarnessError | None) -> JsonObject:
    asked = state.question if questions.stops(state.question) else None
    found: JsonObject = {
        "reason": last.get("reason") or "none",
        "message": last.get("message") or (problem.message if problem else "no session began"),
        "exit_code": last.get("exit_code") or (problem.exit_code if problem else 0),
    }
    if last.get("accepted"):
        return {**found, "status": ACCEPTED}
    if last.get("asked"):
        kept = next((each for each in state.kept_candidates), None)
        return {**found, "status": PARKED, "reason": last["asked"], "kept": kept and kept.record}
    if asked is not None:
        return {**found, "status": PARKED, "reason": asked.kind, "question": asked.record}
    status = REJECTED if last.get("status") == "failed" else PARTIAL
    return {**found, "status": status, "uncounted": last.get("reason") in UNCOUNTED or not last}


def _alone(project: Project, feature_id: int) -> bool:
    return (
        costs.available(project.store.costs(), project.budgets, feature_id) <= 0
        or (project.store.costs().last_session_usd or 0.0) >= project.budgets.per_session
    )


def _left(project: Project, state: SessionState, base: str) -> JsonObject | None:
    """Return the unfinished work for the next session, or None without unfinished work."""
    head = project.git.head()
    if state.next_prompt != "continuation" or head in (None, base):
        return None
    return {"commit": head, "base": base, "partial": state.partial, "failure": state.last_failure}


def _spent(project: Project, before: float, number: int) -> JsonObject | None:
    """Return the tokens and cost of session ``number``, or None if that session did not start."""
    after = project.store.costs()
    current = members_of(after.record.get("current_session"))
    if current.get("session_id") != number:
        return None
    tokens = records.counts(current.get("tokens"))
    cost = current.get("cost_usd")
    assumed = 0.0 if cost is not None else max(0.0, costs.counted(after) - before)
    return {
        "started": str(current.get("started")),
        "input_tokens": tokens.get("input", 0),
        "output_tokens": tokens.get("output", 0),
        "cached_tokens": tokens.get("cached", 0),
        "cache_write_tokens": tokens.get("cache_write", 0),
        "cost_usd": cost,
        "assumed_usd": assumed,
    }


def _install_anew(workspace: Workspace, job: Job, project: Project) -> None:
    """Remove the workspace's copies of installed packages, which an earlier session may have changed."""
    for path in job.lend:
        with suppress(OSError):
            remove(os.path.join(workspace.folder, path))
    files.unlink(f"{workspace.folder}.lent")
    files.unlink(project.store.installed() or "")


# ---- merge candidates ------------------------------------------------------------------------------------------------


def _verify(workspace: Workspace, job: Job) -> JsonObject:
    """Run the suite on the merge candidate, and return the result."""
    project = _opened(workspace, checks_baseline=False)
    remove_tree(project.layout.state_dir)
    os.makedirs(project.layout.logs)
    project.store.finalize_in()
    project.store.write_state(SessionState(job.inputs["state"]).but(**records.NOTHING_UNFINISHED))
    (check,) = job.inputs["checks"]
    judge = Judge(project)
    with running(project) as environment:
        on_failure = project.config.preflight.on_failure
        environment.up(auto_reset=on_failure.auto_reset, max_reset_attempts=on_failure.max_reset_attempts)
        environment.healthy()
        verdict = judge.together(check, job.base)
        run = verdict.suite
        # a verdict leaves a feature's own tests to its proof, which does not run on a combination
        lost = {*check["baseline"]} - (run.report.passing if run and run.report else frozenset())
        if verdict.accepted and lost:
            lost = judge.still_failing(job.base, lost)
    if run is not None and run.report is None:
        return {"status": BROKEN, "failing": [check["name"]], "output": f"{run.problem}\n{run.output[-4000:]}"}
    if verdict.accepted and not lost:
        passing = sorted(run.report.passing) if run and run.report else []
        return {"status": GREEN, "failing": [], "output": "", "passing": passing}
    said = [each.message for each in verdict.reasons]
    if failing := sorted({*verdict.regressions, *lost}):
        said.append(f"These tests fail: {', '.join(failing[:20])}")
    printed = run.output[-3000:] if run else ""
    return {"status": RED, "failing": [check["name"]], "output": "\n".join([*said, printed])}
