"""``harness doctor``: checks the requirements of the harness, and prints a command that fixes each problem."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli.machine.agents import settings_here
from agent_harness.cli.terminal import json_option, show
from agent_harness.errors import HarnessError, LockBusy, StateDamaged
from agent_harness.kernel import root
from agent_harness.kernel.json import JsonObject

if TYPE_CHECKING:
    from agent_harness.hooks.install import Scope


FULL_BYTES = 1 << 20
"""Free disk space in bytes below which there may be no room for a state file and its backup."""
LOW_BYTES = 64 << 20
OLD_LOCK_SECONDS = 60.0
ONE_RUN_SECONDS = 30.0
_STATES = {"pass": "ok", "warn": "warning", "fail": "wrong"}
SIGNS = {"ok": "ok", "warning": "!!", "wrong": "XX"}


@dataclass(frozen=True)
class CheckResult:
    """Result of a check, and the command that fixes the problem."""

    name: str
    state: str  # ok, warning, wrong
    message: str
    fix: str | None = None  # a command; "mend" in JSON
    # for --fix; it changes only files of the harness, and deletes nothing
    repair: Callable[[], object] | None = field(default=None, compare=False)

    def as_json(self) -> JsonObject:
        told = {"name": self.name, "state": self.state, "message": self.message, "mend": self.fix}
        return {**told, "safe": self.repair is not None}


@click.command(
    epilog="""\b
Examples:
  harness doctor
  harness doctor --fix      makes the safe repairs, and lists them""",
)
@click.option("--fix", is_flag=True, help="Make the safe repairs, which change only harness files and delete nothing.")
@json_option
def doctor(fix: bool, as_json: bool) -> int:
    """Check Python, git, the agents, rate limits, and the project or long task in this folder.

    A line with XX is an error. A line with !! is advice, and stops no run. Without --fix, the command changes nothing.
    Exit code: 0 if no line has XX, 4 if a line has XX. With --fix, the exit code describes the state after the repairs.
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
        show(f"next: harness doctor --fix  # repairs {', '.join(each.name for each in safe)}")
    return 4 if wrong else 0


def _repaired(found: Sequence[CheckResult]) -> Iterator[JsonObject]:
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
    """Check the machine, then the project. Yield the results."""
    yield CheckResult("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    yield _git()
    yield _command()
    yield sandbox()
    yield limits()
    try:
        project = root.find()
    except HarnessError as error:
        yield from machine(None, None)
        yield CheckResult("project", "wrong", error.message, error.hint)
        return
    yield from machine(*settings_here())
    yield from codex_path(*settings_here())
    yield from _guarded(git_hook, os.curdir)
    if project is None:
        yield CheckResult(
            "project", "warning", "no project in this folder or above", "harness init .  # or harness init --spec FILE"
        )
        return
    yield CheckResult("project", "ok", f"{project.kind} at {project.path}")
    yield disk(project.path)
    yield from folder(project.path)
    if project.kind != "longtask":
        needed = project.kind == "features"
        yield from _guarded(lambda path: repository(path, needed=needed), project.path)
    yield from _guarded(_CHECKS[project.kind], project.path)


def _guarded(look: Callable[[str], Iterator[CheckResult]], folder: str) -> Iterator[CheckResult]:
    try:
        yield from look(folder)
    except HarnessError as error:
        yield CheckResult("state", "wrong", error.message, error.hint)


def _ran(words: list[str], *, cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL
    )


def _git() -> CheckResult:
    from agent_harness.kernel.git import INSTALL_GIT, OLDEST_GIT

    path = shutil.which("git")
    if path is None:
        return CheckResult("git", "wrong", "git is not on PATH", INSTALL_GIT)
    text = _ran([path, "--version"]).stdout.strip()
    numbers = text.removeprefix("git version ").split(".")
    version = tuple(int(each) for each in numbers[:2] if each.isdecimal())
    if version and version < OLDEST_GIT:
        return CheckResult("git", "wrong", f"{text} is too old", INSTALL_GIT)
    return CheckResult("git", "ok", text)


def _command() -> CheckResult:
    """Check that a login shell finds ``harness``. Some clients run commands in a login shell."""
    bash = shutil.which("bash")
    if bash is None:
        return CheckResult(
            "command", "ok" if shutil.which("harness") else "warning", f"harness: {shutil.which('harness')}"
        )
    done = _ran([bash, "-lc", "command -v harness"])
    if done.returncode == 0:
        return CheckResult("command", "ok", f"harness is {done.stdout.strip()} in a login shell")
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    fix = f"echo 'export PATH=\"{folder}:$PATH\"' >> ~/.profile"
    message = "a login shell, in which a Codex that you start yourself runs commands, does not find harness"
    return CheckResult("command", "warning", message, fix)


def disk(folder: str) -> CheckResult:
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return CheckResult("disk", "wrong", f"{folder}: {error.strerror}", f"ls -ld {shlex.quote(folder)}")
    free = found.f_bavail * found.f_frsize
    files_left = found.f_favail if found.f_files else 1  # some file systems do not count files
    size = f"{free / (1 << 30):,.0f} GiB" if free >= 10 << 30 else f"{free / (1 << 20):,.1f} MiB"
    text = f"{size} are free" if files_left else "no more files can be created"
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
        yield CheckResult(
            "isolation", "warning", "checks run in the project folder, not in a clean checkout of the commit", fix
        )
    if not (verdicts := found["verdicts"])["whole"]:
        yield CheckResult("verdicts", "wrong", verdicts["message"], f"less {shlex.quote(verdicts['path'])}")
    if halt := found["halt"]:
        yield CheckResult("halt", "wrong", f"{halt.get('category')}: {halt.get('message')}", "harness resume")
    if found["work_left"] and not found["active"]:
        yield CheckResult("marker", "warning", "hooks are off here", "harness activate")
    yield from _hooks(found["root"])


def _lock(folder: str) -> CheckResult:
    """Check that only one process can take the project lock at a time."""
    from agent_harness.kernel.lock import Lock

    with Lock(folder, timeout_seconds=5.0):
        try:
            with Lock(folder, timeout_seconds=0.05):
                return CheckResult(
                    "lock",
                    "wrong",
                    "two processes could take the lock at the same time",
                    "use a disk that supports flock or mkdir",
                )
        except LockBusy:
            return CheckResult("lock", "ok", "the lock works: a second attempt to take it failed")


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
    yield from codex_trust(folder)


def git_hook(folder: str) -> Iterator[CheckResult]:
    """Check the hook of `harness hooks install --git`, if it is installed."""
    from agent_harness.gate import pre_push

    found = pre_push.state(Path(folder))
    if found == "current":
        yield CheckResult("git hook", "ok", "harness gate judges each push of this repository")
    elif found == "older":
        message = "the hook pre-push starts another or older harness installation"
        yield CheckResult("git hook", "warning", message, "harness hooks install --git")


def _stale(name: str, scope: "Scope", folder: str) -> CheckResult:
    """Return a warning that the hooks of a client start a different or older harness installation."""
    from agent_harness.hooks import install

    words = "" if scope == "user" else " --project"
    message = f"the hooks of {name} ({scope}) start another or older harness installation"
    # Codex: the user must trust changed hooks again
    repair = None if name == "codex" else lambda: install.install(name, scope, folder, os.environ)
    return CheckResult("hooks", "warning", message, f"harness hooks install --client {name}{words}", repair)


def machine(configured: Any, folder: Path | None) -> Iterator[CheckResult]:
    """Check the agents, the rate limits and the state folder of the user."""
    from agent_harness.agents import discovery, registry
    from agent_harness.kernel import trusted_state
    from agent_harness.kernel.rate_limits import LimitClock

    ready = [each for each in discovery.agents(os.environ) if each.ready]
    choice = discovery.chosen(os.environ, configured, folder)
    named = ", ".join(each.spec for each in ready)
    if choice["problem"]:
        told = "wrong" if choice["kind"] else "warning"
        fix = _install(str(choice["problem"])) or choice["hint"] or "harness agents"
        yield CheckResult(
            "agents", told, f"ready: {named}; but {choice['problem']}" if named else choice["problem"], fix
        )
    else:
        yield CheckResult("agents", "ok", f"ready: {named}; a run uses {choice['kind']} (source: {choice['source']})")
    for each in ready:
        if each.signed_in is False:
            yield CheckResult("sign-in", "warning", f"{each.spec}: {each.signing_in}", each.sign_in)
        if each.too_old:
            message = f"{each.spec}: {each.version} is older than {each.oldest}, the oldest supported version"
            package = registry.PACKAGES[os.path.basename(str(each.program))]
            yield CheckResult("version", "warning", message, f"npm install -g {package}")
    for limit in LimitClock().all():
        yield CheckResult("limits", "warning", str(limit), f"harness limits clear {shlex.quote(limit.account)}")
    if trusted_state.of_user("limits") is None:
        where = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        yield CheckResult(
            "state folder", "wrong", f"{where} cannot be written", f"ls -ld {where}   or set XDG_STATE_HOME"
        )


def _install(problem: str) -> str | None:
    from agent_harness.agents.discovery import extras

    return next((each["install"] for each in extras() if each["install"] in problem), None)


def sandbox() -> CheckResult:
    from agent_harness.kernel.process import sandbox as kernel

    try:
        kind = kernel.kind_for(kernel.AUTO)
    except HarnessError as error:
        return CheckResult("sandbox", "wrong", error.message, error.hint)
    name = kind.partition(":")[0] if kind else "none"
    if kind is None:
        off = os.environ.get(kernel.VARIABLE) == "off"
        fix = f"unset {kernel.VARIABLE}" if off else "install bubblewrap, or allow user namespaces: docs/security.md"
        return CheckResult("sandbox", "warning", f"{name}: {kernel.covers(kind)}", fix)
    return CheckResult("sandbox", "ok", f"{name}: {kernel.covers(kind)}")


def limits() -> CheckResult:
    """Check that the harness can limit memory and processes of agents and checks on this system."""
    from agent_harness.kernel.process import limits as kernel
    from agent_harness.kernel.process import sandbox

    allowed = sandbox.limits_from(sandbox.AUTO)
    room = f"{kernel.size(allowed.free_disk)} free on the disk"
    if not kernel.held():
        text = f"no limits on memory and processes: this system does not report a command's usage; {room}"
        return CheckResult("limits", "warning", text, "run agents in a container with its own limits: docs/security.md")
    text = f"{kernel.size(allowed.memory)} of memory, {allowed.processes} processes and threads, {room}: looked after"
    return CheckResult("limits", "ok", f"{text} by the process that watches over each command")


def folder(path: str) -> Iterator[CheckResult]:
    if not os.access(path, os.W_OK | os.X_OK):
        yield CheckResult("folder", "wrong", f"{path} cannot be written", f"ls -ld {shlex.quote(path)}")


def repository(path: str, *, needed: bool) -> Iterator[CheckResult]:
    from agent_harness.kernel.git import Git, repair
    from agent_harness.session import turn_end

    if not shutil.which("git"):
        return
    git = Git(Path(path))
    if not git.is_repository:
        state = "wrong" if needed else "warning"
        yield CheckResult("repository", state, "there is no git repository, so nothing can be rolled back", "git init")
        return
    yield from identity(path)
    found = turn_end.block(git)
    if found:
        yield CheckResult("repository", "wrong", found.reason, found.command)
    elif said := _plain_git(path, os.fspath(git.top())):
        config, index = (
            shlex.quote(os.fspath(each)) for each in (git.shared_dir() / "config", git.git_dir() / "index")
        )
        fix = f"rm {index} && git reset" if "index" in said else f"git config --file {config} --list"
        yield CheckResult("repository", "wrong", f"git without the harness's settings fails here: {said}", fix)
    elif git.commit_of("HEAD") and not git.ok("ls-tree", "HEAD"):
        yield CheckResult(
            "repository", "wrong", "the repository lacks objects of HEAD", "git fsck  # then: fetch or copy them"
        )
    elif git.head() is not None and git.branch() is None:
        yield CheckResult("repository", "warning", "HEAD is detached", "git switch BRANCH")
    if git.settings().get("commit.gpgsign", "").lower() in ("true", "yes", "on", "1"):
        said = "commit.gpgsign is on, but the harness does not sign its commits"
        yield CheckResult("signing", "warning", said, "git rebase --exec 'git commit --amend --no-edit -S' BASE")
    old = [lock for lock, _, _ in repair.locks(git.repository) if _age(lock) > OLD_LOCK_SECONDS]
    if old:
        fix = f"rm {shlex.join(old)}  # when no git command is running here"
        yield CheckResult("git lock", "warning", "a git command left its lock file, or is still running", fix)


def _plain_git(path: str, top: str) -> str | None:
    """Return the reason why git fails with the repository's settings, or None if git works."""
    # these commands run no program that the settings name
    for words in _PLAIN:
        done = _ran(words, cwd=path)
        if done.returncode:
            return done.stderr.strip().partition("\n")[0]
        if words == _PLAIN[0] and os.path.realpath(done.stdout.strip()) != top:
            return f"the work tree is {done.stdout.strip()}"
    return None


_PLAIN = (
    ["git", "rev-parse", "--show-toplevel"],
    ["git", "for-each-ref", "--count=1", "--format=%(refname)"],
    ["git", "-c", "core.fsmonitor=false", "ls-files", "--", ":(literal).git"],
)
"""Git commands that read the repository's settings, its refs and the index."""


def identity(path: str) -> Iterator[CheckResult]:
    """Yield a warning if git does not know the user's email address. Git needs this address for commits."""
    done = _ran(["git", "config", "user.email"], cwd=path)
    if not done.stdout.strip() and not os.environ.get("GIT_AUTHOR_EMAIL"):
        fix = "git config --global user.email YOU@EXAMPLE.ORG && git config --global user.name YOU"
        yield CheckResult("identity", "warning", "git cannot commit without an identity: user.email is not set", fix)


def _age(path: str) -> float:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0


def feature_project(path: str) -> Iterator[CheckResult]:
    """Check a project's settings, state and features, and check if a session could start."""
    from agent_harness.protocols.features import api

    for each in api.problems(Path(path)):
        yield CheckResult(each.name, each.state, each.message, each.fix, each.repair)


def long_task(path: str) -> Iterator[CheckResult]:
    from agent_harness.protocols.longtask.api import LongTask

    for each in LongTask(path).health()[0]["checks"]:
        state = _STATES.get(each["status"], "warning")
        yield CheckResult(
            each["name"], state, each["message"], None if state == "ok" else f"lth health {shlex.quote(path)}"
        )


def codex_trust(path: str) -> Iterator[CheckResult]:
    from agent_harness.hooks import codex_trust as trusting
    from agent_harness.hooks import install

    if not shutil.which("codex") or not install.installed("codex", "user", path, os.environ):
        return
    file = os.path.join(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex"), "hooks.json")
    try:
        found = trusting.states(file, path, os.environ)
    except HarnessError as error:
        yield CheckResult("trust", "warning", f"Codex did not answer: {error.message}", trusting.HINT)
        return
    waiting = [each for each in found if each.get("trustStatus") not in (None, "trusted", "managed")]
    if waiting:
        yield CheckResult(
            "trust", "wrong", f"Codex skips {len(waiting)} hooks that you have not trusted", trusting.HINT
        )
    else:
        yield CheckResult("trust", "ok", "Codex trusts the hooks")


def codex_path(configured: Any, folder: Path | None) -> Iterator[CheckResult]:
    """Check that a command run by Codex finds the same ``python3`` as the harness."""
    from agent_harness.agents import discovery

    if not shutil.which("codex"):
        return
    ours = shutil.which("python3") or "nowhere"
    found = _run_by_codex("command -v python3 || echo nowhere")
    if found is None:
        message = "unknown: Codex did not run the command that shows its PATH"
        yield CheckResult("codex PATH", "warning", message, "codex doctor")
    elif found == ours:
        message = f"a command that Codex ran finds python3 at {ours}, as the harness does (tried with a scripted model)"
        yield CheckResult("codex PATH", "ok", message)
    else:
        message = f"a command that Codex ran finds python3 at {found}, but the harness finds it at {ours}"
        fix = "remove PATH from $BASH_ENV, ~/.zshenv and [shell_environment_policy] in Codex's config.toml"
        taken = discovery.chosen(os.environ, configured, folder)["kind"] == "codex"
        yield CheckResult("codex PATH", "wrong" if taken else "warning", message, fix)


def _run_by_codex(shell_command: str) -> str | None:
    """Let Codex run a shell command. Return the last line that the command prints, or None."""
    from agent_harness.agents.base import Brief
    from agent_harness.agents.codex import command
    from agent_harness.agents.usage import printed_objects
    from agent_harness.kernel import process

    # a temporary home, and a scripted model on loopback: no network is used
    with tempfile.TemporaryDirectory(prefix="agent-harness-") as home, _scripted_model(home, shell_command) as url:
        provider = {"name": "scripted", "base_url": f"{url}/v1", "env_key": "SCRIPTED_KEY", "wire_api": "responses"}
        settings = {
            "model": "gpt-5.5",
            "model_provider": "scripted",
            "model_providers": {"scripted": provider},
            "features": dict.fromkeys(("plugins", "apps", "remote_plugin"), False),  # they would look for a network
            "shell_environment_policy": command.configured().get("shell_environment_policy", {}),
        }
        lines = [f"{name} = {_toml(value)}\n" for name, value in settings.items()]
        Path(home, "config.toml").write_text("".join(lines), encoding="utf-8")
        brief = Brief(prompt="SCRIPT:look", cwd=Path(home), session=0, prompt_type="coding")
        words = command.execution_words(command.CodexSettings(sandbox="danger-full-access"), brief)
        own = {"CODEX_HOME": home, "SCRIPTED_KEY": "none", "NO_PROXY": "127.0.0.1"}
        try:
            done = process.run(
                [*words[:-1], "--ephemeral", words[-1]],
                cwd=home,
                env={**command.environment(brief), **own},
                timeout_seconds=ONE_RUN_SECONDS,
                input=brief.prompt.encode(),
                keep_bytes=1 << 20,
            )
        except HarnessError:
            return None
    for event in printed_objects(done.output.decode("utf-8", "replace"), '"command_execution"'):
        item = event.get("item")
        if isinstance(item, dict) and item.get("exit_code") == 0:
            return str(item.get("aggregated_output")).strip().rpartition("\n")[2]
    return None


@contextmanager
def _scripted_model(folder: str, shell_command: str) -> Iterator[str]:
    """Run a server on loopback that plays a scripted model, and yield the server's URL."""
    scripts = Path(folder, "scripts.json")
    scripts.write_text(json.dumps({"look": [{"run": shell_command}, "Done."]}), encoding="utf-8")
    words = [sys.executable, "-m", "agent_harness.testing.model_server", "--scripts", str(scripts)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().removeprefix("model server on ").strip()
        finally:
            server.terminate()


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(str(name))} = {_toml(each)}' for name, each in value.items())}}}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)


_CHECKS: dict[str, Callable[[str], Iterator[CheckResult]]] = {
    "tasklist": _task_list,
    "features": feature_project,
    "longtask": long_task,
}
