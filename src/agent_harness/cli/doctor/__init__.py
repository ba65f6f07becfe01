"""``harness doctor``: looks at everything that the harness stands on, and names the command that fixes what is wrong.

``checks`` looks at what lies beside the task list.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from agent_harness.cli.agents import settings_here
from agent_harness.cli.doctor import checks as parts
from agent_harness.cli.doctor.checks import CheckResult
from agent_harness.cli.terminal import json_option, show
from agent_harness.errors import HarnessError, LockBusy, StateDamaged
from agent_harness.kernel import root
from agent_harness.kernel.json import JsonObject

if TYPE_CHECKING:
    from agent_harness.hooks.install import Scope


FULL_BYTES = 1 << 20
"""With less, a state and its backup may not fit any more."""
LOW_BYTES = 64 << 20
SIGNS = {"ok": "ok", "warning": "!!", "wrong": "XX"}


@click.command(
    short_help="Say what is wrong here, and how to fix it.",
    epilog="""\b
Examples:
  harness doctor
  harness doctor --fix      repairs what is safe to repair, and says what it did""",
)
@click.option("--fix", is_flag=True, help="Repair what is safe: only what is the harness's own, nothing is taken away.")
@json_option
def doctor(fix: bool, as_json: bool) -> int:
    """Look at Python, git, the agents, rate limits, and the project, list or long task here.

    Exit code 0 when nothing is wrong (no XX; a line with !! is advice and stops no run), 4 when something is; with
    --fix it tells of what is left. Without --fix nothing is changed.
    """
    found = list(everything())
    repaired = list(_repaired(found)) if fix else []
    if repaired:
        found = list(everything())
    wrong = [each for each in found if each.state == "wrong"]
    safe = [each for each in found if each.repair and each.state != "ok"]
    following = next((each.fix for each in [*wrong, *found] if each.fix and each.state != "ok"), "harness status")
    if safe and not fix:
        following = "harness doctor --fix"
    if as_json:
        told = {"checks": [each.as_json() for each in found], "repaired": repaired, "next": following}
        click.echo(json.dumps({"ok": not wrong, "verb": "doctor", **told}, ensure_ascii=False))
        return 4 if wrong else 0
    for each in repaired:
        show(f"{'>>' if each['done'] else 'XX'}  {each['name']:<14} {each['said']}")
    for each in found:
        show(f"{SIGNS[each.state]:>2}  {each.name:<14} {each.message}")
        if each.fix and each.state != "ok":
            show(f"{'':>19} fix: {each.fix}")
    if safe and not fix:
        show(f"next: harness doctor --fix   repairs {', '.join(each.name for each in safe)}")
    return 4 if wrong else 0


def _repaired(found: Sequence[CheckResult]) -> Iterator[JsonObject]:
    """Does every safe repair, and says of each what was done, or why not."""
    for each in found:
        if each.repair is None or each.state == "ok":
            continue
        try:
            each.repair()
        except HarnessError as error:
            yield {"name": each.name, "done": False, "said": f"not repaired: {error.message}"}
        else:
            yield {"name": each.name, "done": True, "said": f"repaired: {each.message}"}


def everything() -> Iterator[CheckResult]:
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
    yield from parts.codex_path(*settings_here())
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
    message = "a login shell does not find harness; a Codex that you start yourself runs its commands in one"
    return CheckResult("command", "warning", message, fix)


def disk(folder: str) -> CheckResult:
    """Whether a state can still be written: a full disk stops every verb."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return CheckResult("disk", "wrong", f"{folder}: {error.strerror}", f"ls -ld {shlex.quote(folder)}")
    free = found.f_bavail * found.f_frsize
    files_left = found.f_favail if found.f_files else 1  # some file systems do not count files
    size = f"{free / (1 << 30):,.0f} GiB" if free >= 10 << 30 else f"{free / (1 << 20):,.1f} MiB"
    text = f"{size} are free" if files_left else "no further file can be made"
    fix = f"df -h {shlex.quote(folder)}   and free some space on that disk"
    if free < FULL_BYTES or not files_left:
        return CheckResult("disk", "wrong", f"the disk is full: {text}", fix)
    return CheckResult("disk", "warning" if free < LOW_BYTES else "ok", text, fix)


def _task_list(folder: str) -> Iterator[CheckResult]:
    from agent_harness.protocols.tasklist import api

    try:
        found = api.check(folder)
    except StateDamaged as error:
        restore = (lambda: api.restore(folder)) if error.hint == "harness task recover" else None
        yield CheckResult("state", "wrong", error.message, error.hint, restore)
        return
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
    if not (verdicts := found["verdicts"])["whole"]:
        yield CheckResult("verdicts", "wrong", verdicts["message"], f"less {shlex.quote(verdicts['path'])}")
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
    from agent_harness.hooks.install import CLIENTS

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
    for name in CLIENTS:
        for scope in places:
            if install.is_stale(name, scope, folder, os.environ):
                yield _stale(name, scope, folder)
    yield from parts.codex_trust(folder)


def _stale(name: str, scope: "Scope", folder: str) -> CheckResult:
    """Hooks that start another Python or package than this one, where they do nothing once that is gone.

    Codex trusts a hook by its text: there a person installs them again, and trusts them.
    """
    from agent_harness.hooks import install

    words = "" if scope == "user" else " --project"
    message = f"those of {name} ({scope}) start another installation of the harness, or an older one"
    repair = None if name == "codex" else lambda: install.install(name, scope, folder, os.environ)
    return CheckResult("hooks", "warning", message, f"harness hooks install --client {name}{words}", repair)


_CHECKS: dict[str, Callable[[str], Iterator[CheckResult]]] = {
    "tasklist": _task_list,
    "features": parts.feature_project,
    "longtask": parts.long_task,
}
