"""Process that executes jobs one at a time: ``python -m agent_harness.parallel.worker_process``.

Each line of standard input requests a job: ``{"folder", "hands", "environment"}``. The job runs in a fork of this
process, which has already imported all modules. When all processes of the job have exited, this process writes
``over``. If a fork is killed or leaves a process behind, this process exits, and its supervisor ends the remaining
processes.

The fork locks the workspace, prepares it for the job, and runs the protocol's code there. Then it copies the results to
the project: a candidate under its own ref, and all other work under rescue refs. It writes ``result.json`` last, by a
rename. Without this file, only the project's refs count. (SC-11..13, SC-29)"""

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module

from agent_harness.errors import HarnessError, PreflightFailed, UnsafeTree
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process import orphans
from agent_harness.kernel.process.supervisor import find_prctl
from agent_harness.parallel import workspace_setup, workspaces
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, FAILED, JOB, NOT_SET_UP, RESULT, VERIFY, Job
from agent_harness.parallel.workspace_setup import SetUp
from agent_harness.parallel.workspaces import Workspace


class WorkspaceNotSetUp(PreflightFailed):
    code = NOT_SET_UP


LOG = "hands.log"
EXECUTORS = {
    f"agent_harness.{named}:carry_out": f"agent_harness.{module}:execute"
    for named, module in (
        ("protocols.features.parallel.hands", "protocols.features.parallel.job"),
        ("protocols.tasklist.hands", "protocols.tasklist.parallel.job"),
        ("testing.engine_hands", "testing.engine_job"),
    )
}
"""Functions that execute a job, by the name in the job's file. The name stays the same even if the module is
renamed.
"""
OVER = b"over"
_PDEATHSIG, _CHILD_SUBREAPER = 1, 36  # prctl(2)
_OURS = "agent_harness."


def main() -> int:
    """Execute jobs until the input ends, and return the exit status."""
    prctl = find_prctl()
    prctl(_CHILD_SUBREAPER, 1)  # processes left by a fork become children of this process
    is_told = False

    def end(*_: object) -> None:
        nonlocal is_told
        is_told = True
        if not fork:
            os._exit(0)

    fork = 0
    signal.signal(signal.SIGTERM, end)
    while not is_told and (line := sys.stdin.buffer.readline()):
        request = json.loads(line)
        with suppress(ImportError):  # the fork says so in its log
            import_module(_executor(request["hands"])[0])
        gc.freeze()
        known, told = os.pipe()
        fork = os.fork()
        if not fork:
            _become_worker(prctl, request, told)
        os.close(told)
        with open(known, "rb") as pipe:
            more = pipe.read()
        _, status = os.waitpid(fork, 0)
        if status or _any_child():
            return 1
        fork = 0
        sys.stdout.buffer.write(OVER + b"\n")
        sys.stdout.buffer.flush()
        _import(more.decode().split())
    return 0


def _become_worker(prctl: Callable[..., object], request: JsonObject, told: int) -> None:
    """Execute one job in the forked process, then exit."""
    # told: file descriptor for the names of the imported modules
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    prctl(_PDEATHSIG, int(signal.SIGKILL))
    code = 1
    try:
        log = log_of(request["folder"])
        null = os.open(os.devnull, os.O_RDONLY)
        for descriptor, stream in ((null, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, stream)
        tag = {name: value for name in (orphans.RUN_ID,) if (value := os.environ.get(name))}
        os.environ.clear()
        os.environ.update(request["environment"] | tag)
        code = carried_out(request["folder"])
        os.write(told, " ".join(name for name in sys.modules if name.startswith(_OURS)).encode())
    except BaseException:  # whatever it is: the log says it, and the job is lost
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def log_of(folder: str) -> int:
    """Open a job's log for appending, and return its file descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return files.open_regular(os.path.join(folder, LOG), flags, 0o600)


def _any_child() -> bool:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _import(names: Iterable[str]) -> None:
    """Import the modules that the last job used, so that the next job can start faster."""
    for name in names:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)


def carried_out(folder: str) -> int:
    """Execute the job in ``folder``. Return 1 if the workspace is unusable, otherwise 0."""
    job = Job.from_record(files.read_json(os.path.join(folder, JOB)))
    try:
        result = execute(job, folder)
    except HarnessError as error:
        traceback.print_exc()
        if job.kind == ATTEMPT and error.code != NOT_SET_UP and not Workspace(job.workspace).is_whole(job.base):
            return 1
        told = error.hint and f"{error.message} ({error.hint})"
        result = {"status": FAILED, "reason": error.code, "message": told or error.message}
        result |= {"exit_code": error.exit_code, "uncounted": True, "output": error.data.get("output")}
    files.write_json(os.path.join(folder, RESULT), {"v": 1, "id": job.id, "fence": job.fence, **result})
    return 0


def _executor(named: str) -> tuple[str, str]:
    module, _, name = EXECUTORS.get(named, named).partition(":")
    return module, name


def execute(job: Job, folder: str) -> JsonObject:
    """Execute a job in its workspace, and return the protocol's result."""
    project, workspace = Git(job.home), Workspace(job.workspace)
    module, name = _executor(job.executor)
    with workspace.locked():
        if job.kind == ATTEMPT and not workspace.at_rest:
            workspace.rescue(project, workspace.name, job.own)  # a worker was killed unnoticed
        workspace.at_rest = False
        if job.fresh:
            _remove(job, workspace, project)
        execute_of_protocol = getattr(import_module(module), name)
        result = _worked(job, workspace, lambda: execute_of_protocol(workspace, job, folder))
        if job.kind != ATTEMPT:
            return result
        if not workspace.is_whole(job.base):
            raise UnsafeTree(f"the repository of {workspace.folder} was destroyed")
        if result["status"] == ACCEPTED:
            ref = job.refs.candidate(job.name, job.fence)
            workspaces.fetch_into(workspace.git, project, result["commit"], ref)
        result["rescues"] = workspace.rescue(project, job.name, job.own)
        workspace.at_rest = True
    return result


def _worked(job: Job, workspace: Workspace, act: Callable[[], JsonObject]) -> JsonObject:
    """Call ``act`` in a prepared workspace, and return its result."""
    # SC-12, SC-17: a failed set-up is retried once
    project = Git(job.home)
    for is_new in (False, True):
        try:
            _set_up(job, workspace, project)
        except (HarnessError, OSError) as error:
            if is_new:
                raise WorkspaceNotSetUp(f"{workspace.folder} could not be set up: {error}") from None
            failed: HarnessError | OSError = error
        else:
            try:
                workspace_setup.set_up(workspace.git, job.home, SetUp.from_record(job.set_up))
                if job.kind == VERIFY:
                    workspace.note_ignored()
                return act()
            except PreflightFailed as error:  # by the project's own set-up, before an agent
                if is_new:
                    raise WorkspaceNotSetUp(error.message, output=error.data.get("output")) from None
                failed = error
        sys.stdout.write(f"{failed}; once more in a new workspace\n")
        _remove(job, workspace, project)
    raise AssertionError("the second attempt gave neither a result nor an error")


def _remove(job: Job, workspace: Workspace, project: Git) -> None:
    workspace.rescue(project, job.name, job.own)
    if said := workspace_setup.tear_down(workspace.folder):
        sys.stdout.write(f"{said}\n")
    workspace.clear()


def _set_up(job: Job, workspace: Workspace, project: Git) -> None:
    was_there = os.path.isdir(workspace.folder)
    workspace.prepare(project, job.base, job.branch, job.refs)
    if job.kind == VERIFY and was_there and not workspace.drop_planted():
        _remove(job, workspace, project)
        workspace.prepare(project, job.base, job.branch, job.refs)
    workspace_setup.lend(job.home, workspace.git, job.lend)


if __name__ == "__main__":
    sys.exit(main())
