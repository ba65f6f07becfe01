"""``harness doctor``: looks at everything that the harness stands on, and names the command that fixes what is
wrong."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli.agents import settings_here
from agent_harness.cli.click_options import json_option
from agent_harness.cli.doctor import checks as parts
from agent_harness.cli.doctor.checks import CheckResult
from agent_harness.errors import HarnessError, LockBusy
from agent_harness.kernel import root

if TYPE_CHECKING:
    from agent_harness.hooks.clients import Scope

Record = dict[str, Any]

FULL_BYTES = 1 << 20
"""With less, a state and its backup may not fit any more."""
LOW_BYTES = 64 << 20
SIGNS = {"ok": "ok", "warning": "!!", "wrong": "XX"}


@click.command(short_help="Say what is wrong here, and how to fix it.")
@json_option
def doctor(as_json: bool) -> int:
    """Look at Python, git, the agents, rate limits, and the project, list or long task here. Changes nothing.

    Exit code 0 when nothing is wrong, 4 when something is.
    """
    found = list(checks())
    wrong = [each for each in found if each.state == "wrong"]
    following = next((each.fix for each in [*wrong, *found] if each.fix and each.state != "ok"), "harness status")
    if as_json:
        answer = {"ok": not wrong, "verb": "doctor", "checks": [each.as_json() for each in found], "next": following}
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        for each in found:
            click.echo(f"{SIGNS[each.state]:>2}  {each.name:<14} {each.message}")
            if each.fix and each.state != "ok":
                click.echo(f"{'':>19} fix: {each.fix}")
    return 4 if wrong else 0


def checks() -> Iterator[CheckResult]:
    """Every look, in the order of what stands on what."""
    yield CheckResult("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    yield _git()
    yield _command()
    try:
        project = root.find()
    except HarnessError as error:
        yield from parts.machine(None, None)
        yield CheckResult("project", "wrong", error.message, error.hint)
        return
    yield from parts.machine(*settings_here())
    if project is None:
        yield CheckResult(
            "project", "warning", "no project here or above", "harness init .   or   harness init --spec FILE"
        )
        return
    yield CheckResult("project", "ok", f"{project.kind} at {project.path}")
    yield disk(project.path)
    yield from parts.folder(project.path)
    if project.kind != "longtask":
        needed = project.kind == "features"
        yield from _guarded(lambda path: parts.repository(path, needed=needed), project.path)
    yield from _guarded(_CHECKS[project.kind], project.path)


def _guarded(look: Callable[[str], Iterator[CheckResult]], folder: str) -> Iterator[CheckResult]:
    try:
        yield from look(folder)
    except HarnessError as error:
        yield CheckResult("state", "wrong", error.message, error.hint)


def _git() -> CheckResult:
    import shutil
    import subprocess

    from agent_harness.kernel.git import INSTALL_GIT, OLDEST_GIT

    path = shutil.which("git")
    if path is None:
        return CheckResult("git", "wrong", "git is not on PATH", INSTALL_GIT)
    text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout.strip()
    numbers = text.removeprefix("git version ").split(".")
    version = tuple(int(each) for each in numbers[:2] if each.isdecimal())
    if version and version < OLDEST_GIT:
        return CheckResult("git", "wrong", f"{text} is too old", INSTALL_GIT)
    return CheckResult("git", "ok", text)


def _command() -> CheckResult:
    """Whether a client that starts its commands in a login shell finds ``harness``."""
    import shutil
    import subprocess

    bash = shutil.which("bash")
    if bash is None:
        return CheckResult(
            "command", "ok" if shutil.which("harness") else "warning", f"harness: {shutil.which('harness')}"
        )
    done = subprocess.run(
        [bash, "-lc", "command -v harness"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 0:
        return CheckResult("command", "ok", f"harness is {done.stdout.strip()} in a login shell")
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    fix = f"echo 'export PATH=\"{folder}:$PATH\"' >> ~/.profile"
    return CheckResult(
        "command", "warning", "a login shell does not find harness; Codex starts its commands in one", fix
    )


def disk(folder: str) -> CheckResult:
    """Whether a state can still be written: a full disk stops every verb."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return CheckResult("disk", "wrong", f"{folder}: {error.strerror}", f"ls -ld {shlex.quote(folder)}")
    free = found.f_bavail * found.f_frsize
    files_left = found.f_favail if found.f_files else 1  # some file systems do not count files
    text = f"{free / (1 << 20):,.1f} MiB are free" if files_left else "no further file can be made"
    fix = f"df -h {shlex.quote(folder)}   and free some space on that disk"
    if free < FULL_BYTES or not files_left:
        return CheckResult("disk", "wrong", f"the disk is full: {text}", fix)
    return CheckResult("disk", "warning" if free < LOW_BYTES else "ok", text, fix)


def _task_list(folder: str) -> Iterator[CheckResult]:
    from agent_harness.protocols.tasklist import api

    found = api.check(folder)
    yield CheckResult("state", "ok", f"{found['tasks']} tasks, revision {found['revision']}")
    yield _lock(found["root"])
    for each in found["findings"]:
        fix = f"harness task set {each['task_id']} {each['field']}=…" if each["task_id"] else "edit harness-tasks.json"
        yield CheckResult("config", "wrong", each["message"], fix)
    if unproven := found["without_validation"]:
        fix = f"harness task set {unproven[0]} validation.command='…'"
        yield CheckResult("validation", "warning", f"without a validation command: {', '.join(unproven[:5])}", fix)
    if found["isolation"] == "in_place":
        fix = 'edit harness-tasks.json: "session_config": {"isolation": "worktree"}'
        yield CheckResult("isolation", "warning", "validations run in the folder itself, not on the commit alone", fix)
    if halt := found["halt"]:
        yield CheckResult("halt", "wrong", f"{halt.get('category')}: {halt.get('message')}", "harness resume")
    if found["work_left"] and not found["active"]:
        yield CheckResult("marker", "warning", "hooks rest here", "harness activate")
    yield from _hooks(found["root"])


def _lock(folder: str) -> CheckResult:
    """Takes the lock, and sees that it excludes a second one."""
    from agent_harness.kernel.lock import Lock

    with Lock(folder, timeout_seconds=5.0):
        try:
            with Lock(folder, timeout_seconds=0.05):
                return CheckResult("lock", "wrong", "two took the lock at once", "use a disk that knows flock or mkdir")
        except LockBusy:
            return CheckResult("lock", "ok", "taken, and it excluded a second one")


def _hooks(folder: str) -> Iterator[CheckResult]:
    from agent_harness.hooks import install
    from agent_harness.hooks.clients import CLIENTS

    places: tuple[Scope, ...] = ("project", "user")
    found = [
        f"{name} ({scope})"
        for name in CLIENTS
        for scope in places
        if install.installed(name, scope, folder, os.environ)
    ]
    if found:
        yield CheckResult("hooks", "ok", f"registered: {', '.join(found)}")
    else:
        yield CheckResult("hooks", "warning", "registered with no client", "harness hooks install --client claude-code")
        return
    yield from parts.codex_trust(folder)


_CHECKS: dict[str, Callable[[str], Iterator[CheckResult]]] = {
    "tasklist": _task_list,
    "features": parts.feature_project,
    "longtask": parts.long_task,
}
