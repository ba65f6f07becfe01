"""The process that carries jobs out, one after the other: ``python -m agent_harness.parallel.worker_process``.

Each line of its standard input asks for one: ``{"folder", "hands", "environment"}``. A fork of this process does it,
which has all that it needs imported already; ``over`` is written once nothing of the job runs any more. Where a fork
is killed, or leaves something behind, this process ends, and its lifeline ends the rest.

The fork has the workspace for itself, makes it what the job asks for, lets the protocol work there, and takes home
what came of it: a candidate under a ref of its own, all other work as rescues. ``result.json`` is the last thing it
writes, by rename; without it nothing has happened but what is in the project's refs. SC-11..13, SC-29.
"""

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
    """A workspace could not be made ready, not even a new one: no agent was started, and its slot is of no use."""

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
"""What executes a job, by the name that its file has for it: that name stays, whatever the module is called."""
OVER = b"over"
_PDEATHSIG, _CHILD_SUBREAPER = 1, 36  # prctl(2)
_OURS = "agent_harness."


def main() -> int:
    """Carries out what is asked for until nothing more is, or a job has not ended by itself."""
    prctl = find_prctl()
    prctl(_CHILD_SUBREAPER, 1)  # what a fork leaves behind becomes a child of this process
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
    """In the fork: one job, with its own environment and log; then its modules are told. Never returns."""
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
    """The log of a job, to be added to; ``OSError`` or ``StateDamaged`` where it is no file of its own."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return files.open_regular(os.path.join(folder, LOG), flags, 0o600)


def _any_child() -> bool:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _import(names: Iterable[str]) -> None:
    """What the last job needed, the next one finds imported."""
    for name in names:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)


def carried_out(folder: str) -> int:
    """Carries out the job in ``folder``; 0 where there is a result.

    There is none of a workspace that is destroyed.
    """
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
    """Return module and function for the name in a job's file."""
    module, _, name = EXECUTORS.get(named, named).partition(":")
    return module, name


def execute(job: Job, folder: str) -> JsonObject:
    """What the protocol says of it, and where the work is."""
    home, workspace = Git(job.home), Workspace(job.workspace)
    module, name = _executor(job.executor)
    with workspace.locked():
        if job.kind == ATTEMPT and not workspace.at_rest:
            workspace.rescue(home, workspace.name, job.own)  # somebody was killed where nobody looked
        workspace.at_rest = False
        if job.fresh:
            _remove(job, workspace, home)
        execute_of_protocol = getattr(import_module(module), name)
        result = _worked(job, workspace, lambda: execute_of_protocol(workspace, job, folder))
        if job.kind != ATTEMPT:
            return result
        if not workspace.is_whole(job.base):
            raise UnsafeTree(f"the repository of {workspace.folder} is destroyed")
        if result["status"] == ACCEPTED:
            ref = job.refs.candidate(job.name, job.fence)
            workspaces.take_home(workspace.git, home, result["commit"], ref)
        result["rescues"] = workspace.rescue(home, job.name, job.own)
        workspace.at_rest = True
    return result


def _worked(job: Job, workspace: Workspace, act: Callable[[], JsonObject]) -> JsonObject:
    """What ``act`` answers in the workspace, once that is set up; where it cannot be, once more in a new one.

    SC-12, SC-17: no agent starts before.
    """
    home = Git(job.home)
    for is_new in (False, True):
        try:
            _set_up(job, workspace, home)
        except (HarnessError, OSError) as error:
            if is_new:
                raise WorkspaceNotSetUp(f"{workspace.folder} cannot be made: {error}") from None
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
        _remove(job, workspace, home)
    raise AssertionError("the second time returns or raises")


def _remove(job: Job, workspace: Workspace, home: Git) -> None:
    workspace.rescue(home, job.name, job.own)
    if said := workspace_setup.tear_down(workspace.folder):
        sys.stdout.write(f"{said}\n")
    workspace.clear()


def _set_up(job: Job, workspace: Workspace, home: Git) -> None:
    was_there = os.path.isdir(workspace.folder)
    workspace.prepare(home, job.base, job.branch, job.refs)
    if job.kind == VERIFY and was_there and not workspace.drop_planted():
        _remove(job, workspace, home)
        workspace.prepare(home, job.base, job.branch, job.refs)
    workspace_setup.lend(job.home, workspace.git, job.lend)


if __name__ == "__main__":
    sys.exit(main())
