"""What ``harness doctor`` looks at beside the task list: accounts and agents, git, feature projects, long tasks.

Each look gives lines that say what it came to, and the command that fixes it. Nothing is changed.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel.json import JsonObject

OLD_LOCK_SECONDS = 60.0
ONE_RUN_SECONDS = 30.0
_STATES = {"pass": "ok", "warn": "warning", "fail": "wrong"}


@dataclass(frozen=True)
class CheckResult:
    """What one look came to; ``fix`` is the command that fixes it, ``mend`` in JSON answers.

    ``repair`` does what is safe, for `--fix`: it touches what is the harness's own, and takes nothing away.
    """

    name: str
    state: str  # ok, warning, wrong
    message: str
    fix: str | None = None
    repair: Callable[[], object] | None = field(default=None, compare=False)

    def as_json(self) -> JsonObject:
        """The members of the JSON record."""
        told = {"name": self.name, "state": self.state, "message": self.message, "mend": self.fix}
        return {**told, "safe": self.repair is not None}


def machine(configured: Any, folder: Path | None) -> Iterator[CheckResult]:
    """The agents, the extra that the chosen one lacks, limits in force, and the folder of the user's state."""
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
        yield CheckResult("agents", "ok", f"ready: {named}; a run takes {choice['kind']} (by {choice['source']})")
    for each in ready:
        if each.signed_in is False:
            yield CheckResult("sign-in", "warning", f"{each.spec}: {each.signing_in}", each.sign_in)
        if each.too_old:
            message = f"{each.spec}: {each.version} is older than {each.oldest}, the oldest that is known to work"
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
    """The command that installs an extra, where a problem is that it is missing."""
    from agent_harness.agents.discovery import extras

    return next((each["install"] for each in extras() if each["install"] in problem), None)


def folder(path: str) -> Iterator[CheckResult]:
    """Whether the project's folder can be written."""
    if not os.access(path, os.W_OK | os.X_OK):
        yield CheckResult("folder", "wrong", f"{path} cannot be written", f"ls -ld {shlex.quote(path)}")


def repository(path: str, *, needed: bool) -> Iterator[CheckResult]:
    """Git in the project: there at all, somebody to commit as, nothing half done, no lock that a kill left."""
    from agent_harness.kernel.git import Git

    if not shutil.which("git"):
        return
    git = Git(Path(path))
    if not git.is_repository:
        state = "wrong" if needed else "warning"
        yield CheckResult("repository", state, "no git repository: nothing can be rolled back", "git init")
        return
    yield from identity(path)
    if half := git.operation_under_way():
        yield CheckResult("repository", "wrong", f"{half} is under way", "git status")
    if git.head() is not None and git.branch() is None:
        yield CheckResult("repository", "warning", "HEAD is detached", "git switch BRANCH")
    lock = os.path.join(path, ".git", "index.lock")
    if _age(lock) > OLD_LOCK_SECONDS:
        fix = f"rm {shlex.quote(lock)}   when no git command is running here"
        yield CheckResult("git lock", "warning", "a git command has left its lock, or is still at work", fix)


def identity(path: str) -> Iterator[CheckResult]:
    """Whether git knows who commits here."""
    words = ["git", "config", "user.email"]
    done = subprocess.run(
        words, cwd=path, capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL, text=True
    )
    if not done.stdout.strip() and not os.environ.get("GIT_AUTHOR_EMAIL"):
        fix = "git config --global user.email YOU@EXAMPLE.ORG && git config --global user.name YOU"
        yield CheckResult("identity", "warning", "git does not know who commits: user.email is not set", fix)


def _age(path: str) -> float:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0


def feature_project(path: str) -> Iterator[CheckResult]:
    """A feature project: settings, state, features, and what keeps its sessions from starting."""
    from agent_harness.protocols.features import api

    for each in api.problems(Path(path)):
        yield CheckResult(each.name, each.state, each.message, each.fix, each.repair)


def long_task(path: str) -> Iterator[CheckResult]:
    """A long task, as ``lth health`` sees it."""
    from agent_harness.protocols.longtask.api import LongTask

    for each in LongTask(path).health()[0]["checks"]:
        state = _STATES.get(each["status"], "warning")
        yield CheckResult(
            each["name"], state, each["message"], None if state == "ok" else f"lth health {shlex.quote(path)}"
        )


def codex_trust(path: str) -> Iterator[CheckResult]:
    """Whether Codex trusts our hooks, where they are registered and Codex is there to be asked."""
    from agent_harness.hooks import codex_trust as trusting
    from agent_harness.hooks import install

    if not shutil.which("codex") or not install.installed("codex", "user", path, os.environ):
        return
    file = os.path.join(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex"), "hooks.json")
    try:
        found = trusting.states(file, path, os.environ)
    except HarnessError as error:
        yield CheckResult("trust", "warning", f"Codex cannot be asked: {error.message}", trusting.HINT)
        return
    waiting = [each for each in found if each.get("trustStatus") not in (None, "trusted", "managed")]
    if waiting:
        yield CheckResult("trust", "wrong", f"Codex passes over {len(waiting)} hooks: not trusted", trusting.HINT)
    else:
        yield CheckResult("trust", "ok", "Codex trusts the hooks")


def codex_path(configured: Any, folder: Path | None) -> Iterator[CheckResult]:
    """Whether commands that Codex runs find the programs that the harness finds: Codex is made to run one.

    A model server on loopback asks for the command, so that neither a network nor a model takes part. Codex has a home
    of its own meanwhile, in which of the user's settings only those for the environment of commands hold. It is wrong
    where a run takes Codex, else advice.
    """
    from agent_harness.agents import discovery

    if not shutil.which("codex"):
        return
    ours = shutil.which("python3") or "nowhere"
    found = _run_by_codex("command -v python3 || echo nowhere")
    if found is None:
        message = "not proven: Codex did not run the command that was to show its PATH"
        yield CheckResult("codex PATH", "warning", message, "codex doctor")
    elif found == ours:
        message = f"a command that Codex ran finds python3 at {ours}, as the harness does (tried with a scripted model)"
        yield CheckResult("codex PATH", "ok", message)
    else:
        message = f"a command that Codex ran finds python3 at {found}, and the harness at {ours}"
        fix = "take PATH out of $BASH_ENV, ~/.zshenv and [shell_environment_policy] of Codex's config.toml"
        taken = discovery.chosen(os.environ, configured, folder)["kind"] == "codex"
        yield CheckResult("codex PATH", "wrong" if taken else "warning", message, fix)


def _run_by_codex(shell_command: str) -> str | None:
    """The last line of a command that Codex runs as in a turn of a run; ``None`` when it did not run it."""
    from agent_harness.agents.base import Brief
    from agent_harness.agents.codex import command
    from agent_harness.agents.usage import printed_objects
    from agent_harness.kernel import process

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
    """The address of a model server on loopback that asks for one command, for as long as the block lasts."""
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
