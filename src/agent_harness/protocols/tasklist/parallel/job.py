"""Job of a task list worker in a workspace. A job is either an attempt at a task or a run of checks on a merge
candidate. For an attempt, the worker uses a separate list in which only one task can be claimed. Each job has its own
process, so this module imports nothing from the coordinator."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_harness.agents import registry
from agent_harness.kernel import clock, files, journal, owner
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.temporary import remove
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, BROKEN, GREEN, PARKED, PARTIAL, RED, REJECTED, Job
from agent_harness.parallel.workspaces import Workspace, copy_plain
from agent_harness.protocols.tasklist import costs, planning, proven, run
from agent_harness.protocols.tasklist.attempts import validation
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import IN_PLACE, State, Task
from agent_harness.session import ledger
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy, startable
from agent_harness.verification.command.folder import run_in_place
from agent_harness.verification.runner import linked_paths

KILLED = (-9, 137)  # exit codes of a command that the machine has ended


def execute(workspace: Workspace, job: Job, folder: str) -> JsonObject:
    """Run the job's attempt or validation in the workspace, and return the result."""
    if job.kind == ATTEMPT:
        return _attempt(workspace, job, folder)
    return _verify(workspace, job)


def _attempt(workspace: Workspace, job: Job, folder: str) -> JsonObject:
    inputs = job.inputs
    layout = TaskListLayout(os.path.join(workspace.folder, inputs["prefix"]))
    _seed(layout, workspace, inputs)
    before = next(ledger.newest_first(proven.ledger(layout)), None)
    caller = Caller.open(layout, worker_id=job.slot, cwd=layout.root)
    found = registry.resolve_all(tuple(inputs["agents"]), configured=None, environ=os.environ)
    allowed = startable(found, _say, "harness run --agent SPEC", Path(layout.root))
    policy = RefusalPolicy.of_job(inputs)
    taken_slot = {"project": job.home, "item": job.item}
    seed = inputs["seed"]
    pot = SharedBudget(inputs["parallel"])
    ran = run.run(
        caller,
        Dispatcher(allowed, policy, _say, told=taken_slot),
        max_tasks=1,
        max_minutes=inputs["max_minutes"],
        max_cost_usd=inputs["max_cost_usd"],
        say=_say,
        counts=inputs["counts"],
        begin=(lambda: _lay_out(workspace, seed)) if seed else None,
        elsewhere=lambda spent: pot.elsewhere(job.id, spent),
        part=run.PartOfRun(
            name=f"hands-{slot.pid}-{slot.start_time}" if (slot := owner.of(os.getppid())) else "",
            is_closed_later=bool(inputs.get("is_closed_later")),
            first_look=(
                os.path.join(inputs["parallel"], "installed.json"),
                job.id.partition("/")[0],
                workspace.folder,
            ),
        ),
    )
    state = caller.store.read()
    kept = os.path.join(folder, "sessions")
    rows = [*journal.read(layout.costs)]
    copy_plain(layout.sessions, kept, lambda name: name != "costs.jsonl")
    lines = ledger.after(proven.ledger(layout), before.n if before else 0)
    task = caller.find(state, job.item)
    spent = costs.paid(rows)
    found = _status_of(ran, state, task)
    if found["status"] == REJECTED and ran["exit_code"] == 9 and spent < pot.elsewhere(job.id, spent):
        found |= {"status": PARTIAL, "reason": "budget", "uncounted": True}  # other attempts have used the money up
    return {
        **found,
        "task": task.copy(),
        "commit": workspace.git.commit_of(task.completed_commit) if task.completed_commit else job.base,
        "costs": rows,
        "cost_usd": spent,
        "verdicts": [each.as_record() for each in lines],
        "outputs": ledger.outputs_of(lines, layout.root),
        "sessions": kept,
    }


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _status_of(ran: JsonObject, state: State, task: Task) -> JsonObject:
    last = ran["attempts"][-1] if ran["attempts"] else {"result": "none", "message": ran["message"]}
    how = {"completed": ACCEPTED, "failed": REJECTED, "parked": REJECTED}.get(last["result"], PARTIAL)
    if how == ACCEPTED and task.status != "completed":
        how = PARTIAL
    found = {"status": how, "reason": ran["reason"], "message": last["message"], "exit_code": ran["exit_code"]}
    if state.halt and how != ACCEPTED:
        found |= {"status": PARKED, "reason": str(state.halt.get("message"))}
    return found | {"uncounted": how == PARTIAL}


def _seed(layout: TaskListLayout, workspace: Workspace, inputs: JsonObject) -> None:
    for name in ("harness-tasks.json", "harness-tasks.json.bak", "harness-progress.txt", ".harness-pause"):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(layout.root, name))
    remove(layout.state_dir)  # a link too: it is ignored where .gitignore says so
    os.makedirs(layout.root, exist_ok=True)
    state = planning.new_state(clock.now())
    state |= {"session_config": inputs["config"], "session_count": inputs["session"] - 1}
    state |= {"tasks": [inputs["task"], *inputs["others"]]}
    files.write_json(layout.tasks, state)
    files.replace(layout.progress, "".join(f"{line}\n" for line in inputs["log"]))
    if inputs["init"] is not None:
        files.replace(layout.init_script, inputs["init"])
    for ref, commit in inputs["rescues"].items():
        workspace.git.update_ref(ref, commit)
    own = State(state)
    proven.adopt(layout, own)
    proven.forget(layout, inputs["task"]["id"])
    for task in own.tasks:
        proven.keep_proof(layout, task)


def _lay_out(workspace: Workspace, tree: str) -> None:
    """Write rejected work into the workspace's files, so that the agent can fix it."""
    workspace.git.run("read-tree", "--reset", "-u", tree)
    workspace.git.run("read-tree", "--reset", "HEAD")


def _verify(workspace: Workspace, job: Job) -> JsonObject:
    """Run the validations on the job's commit, and return the result."""
    inputs = job.inputs
    root = os.path.join(workspace.folder, inputs["prefix"])
    _lead_imports_to(root, job.lend)
    failed, output = _failing(root, inputs["checks"], inputs["sandbox"])
    # a failure counts only if it comes again in a new checkout
    if failed:
        workspace.prepare(Git(job.home), job.base, job.branch, job.refs)
    if failed and workspace.drop_planted():
        again = [each for each in inputs["checks"] if each["name"] in failed]
        failed, output = _failing(root, again, inputs["sandbox"])
    if any(code is None or code in KILLED for code in failed.values()):
        return {"status": BROKEN, "failing": [*failed], "output": output}
    return {"status": RED if failed else GREEN, "failing": [*failed], "output": output}


def _lead_imports_to(root: str, linked: Iterable[str]) -> None:
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    roots = linked_paths.mapped_in(Path(root), linked, os.environ.get("PATH", os.defpath)).roots
    folders = [*(os.path.join(root, each) for each in roots), *filter(None, known)]
    if folders:
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))


def _failing(root: str, checks: Iterable[JsonObject], sandbox: Any) -> tuple[dict[str, int | None], str]:
    failed: dict[str, int | None] = {}
    output = ""
    for each in checks:
        terms = proven.ClaimTerms(IN_PLACE, "off", sandbox=sandbox)
        verdict = run_in_place(root, validation.check_of(Task(each["task"]), terms))
        if not verdict.accepted:
            failed[each["name"]] = verdict.exit_code
            output = output or f"$ {verdict.proof.command if verdict.proof else ''}\n{verdict.output}"
    return failed, output
