"""The real clients: how each is started, where its hooks go, and how its events are read."""

import json
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_harness.kernel import process

from . import appserver
from .island import Island

LIMIT_SECONDS = 240.0
KEY = "dummy-key-for-loopback"
SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True)
class Run:
    """How one run of a client went."""

    exit_code: int | None
    output: str

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The objects that the client printed, one a line."""
        found: list[dict[str, Any]] = []
        for line in self.output.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            found += [value] if isinstance(value, dict) else []
        return found

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one type."""
        return [event for event in self.events if event.get("type") == kind]


class Client(ABC):
    """A real client beside a model server, with a home of its own."""

    name = ""
    TRUSTING: Sequence[str] = ()

    def __init__(self, program: Path, home: Path, island: Island) -> None:
        self.program, self.home, self.island = str(program), home, island
        self.believe_hooks = False  # those that a test has written by hand
        self.temporary = home.with_name(f"{home.name}-tmp")  # Codex makes no helper programs in a temporary home
        self.temporary.mkdir(exist_ok=True)
        home.joinpath(".profile").write_text(f'export PATH="{SCRIPTS}:$PATH"\n')  # Codex starts a login shell

    @property
    def env(self) -> dict[str, str]:
        """Everything the client gets to know: nothing of the caller's but where programs are."""
        path = os.pathsep.join([str(SCRIPTS), str(Path(self.program).parent), os.environ["PATH"]])
        home = {"HOME": str(self.home), "TMPDIR": str(self.temporary), "PATH": path, "LC_ALL": "C.UTF-8"}
        return {**home, "HTTPS_PROXY": self.island.url, "HTTP_PROXY": self.island.url, "NO_PROXY": "127.0.0.1"}

    def run(
        self, prompt: str, *, project: Path, env: Mapping[str, str] | None = None, words: Sequence[str] = ()
    ) -> Run:
        """One unattended run to its end."""
        done = process.run(
            self.island.beside([*self.command(prompt, project), *words]),
            cwd=project,
            env={**self.env, **(env or {})},
            timeout_seconds=LIMIT_SECONDS,
            keep_bytes=16_000_000,
        )
        return Run(done.exit_code, done.output.decode(errors="replace"))

    @abstractmethod
    def command(self, prompt: str, project: Path) -> list[str]:
        """The command line of an unattended run."""

    @abstractmethod
    def hook_file(self, project: Path) -> Path:
        """The project's own file for hooks."""

    @abstractmethod
    def last_words(self, run: Run) -> str:
        """What the model said last."""

    @abstractmethod
    def shown(self, prompt: str, *, project: Path, env: Mapping[str, str] | None = None) -> list[str]:
        """One run to its end; what a person is shown beside the words of the model."""

    @abstractmethod
    def complaint(self, run: Run) -> str:
        """What a run that failed gives as the reason; empty when it says that all went well."""

    @abstractmethod
    def tokens(self, run: Run) -> dict[str, int]:
        """The tokens of the whole run: ``input`` (uncached), ``cached``, ``output``."""

    def hooks(self, project: Path, **commands: str) -> None:
        """Registers a command for each event, such as ``Stop="sh /x/stop.sh"``."""
        file = self.hook_file(project)
        file.parent.mkdir(parents=True, exist_ok=True)
        entries = {
            event: [{"hooks": [{"type": "command", "command": command, "timeout": 30}]}]
            for event, command in commands.items()
        }
        file.write_text(json.dumps({"hooks": entries}))
        self.believe_hooks = True

    def install_our_hooks(self, project: Path) -> None:
        """Registers the hooks of the harness, as a person would."""
        command = [
            sys.executable,
            "-c",
            "from agent_harness.cli.machine.hooks import hooks; hooks()",
            "install",
            "--client",
            self.name,
            "--project",
            *self.TRUSTING,
        ]
        done = process.run(self.island.beside(command), cwd=project, env=self.env, timeout_seconds=LIMIT_SECONDS)
        assert done.exit_code == 0, done.output.decode(errors="replace")


class ClaudeCode(Client):
    """Claude Code, unattended: ``claude -p``."""

    name = "claude-code"

    @property
    def env(self) -> dict[str, str]:
        """Its address, a key, and nothing that is not the model's."""
        off = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
        off += ("DISABLE_ERROR_REPORTING",)
        own = {"ANTHROPIC_BASE_URL": self.island.url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_MAX_RETRIES": "1"}
        return {**super().env, "CLAUDE_CONFIG_DIR": str(self.home / ".claude"), **dict.fromkeys(off, "1"), **own}

    def command(self, prompt: str, project: Path) -> list[str]:
        """All shell commands are allowed; the model is pinned, since the tools depend on it."""
        told = [self.program, "-p", prompt, "--model", "claude-sonnet-4-6", "--permission-mode", "acceptEdits"]
        return [*told, "--allowedTools", "Bash", "--output-format", "stream-json", "--verbose"]

    def hook_file(self, project: Path) -> Path:
        """The project's settings."""
        return project / ".claude" / "settings.json"

    def last_words(self, run: Run) -> str:
        """The last result."""
        return str(run.of("result")[-1].get("result"))

    def shown(self, prompt: str, *, project: Path, env: Mapping[str, str] | None = None) -> list[str]:
        """The notices."""
        run = self.run(prompt, project=project, env=env)
        assert run.exit_code == 0, run.output
        return [str(event["content"]) for event in run.of("system") if event.get("subtype") == "informational"]

    def complaint(self, run: Run) -> str:
        """The last result, when ``is_error`` says so; ``subtype`` says success either way."""
        result = run.of("result")[-1]
        return str(result.get("result")) if result.get("is_error") else ""

    def tokens(self, run: Run) -> dict[str, int]:
        """The sums of the last result."""
        used = run.of("result")[-1]["usage"]
        names = {"input": "input_tokens", "cached": "cache_read_input_tokens", "output": "output_tokens"}
        return {name: used[member] for name, member in names.items()}


class Codex(Client):
    """Codex, unattended: ``codex exec``, by default without its sandbox."""

    name = "codex"
    TRUSTING = ("--trust",)
    sandbox = "danger-full-access"

    CONFIG = """\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
plugins = false
apps = false
remote_plugin = false
unbounded_connection_retries = false

[projects.{project}]
trust_level = "trusted"
"""

    @property
    def env(self) -> dict[str, str]:
        """Its home and a key."""
        return {**super().env, "CODEX_HOME": str(self.home / ".codex"), "SCRIPTED_KEY": KEY}

    def command(self, prompt: str, project: Path) -> list[str]:
        """Hooks that nobody has trusted are passed over, except for those that a test has written."""
        self.configure(project)
        told = [self.program, "exec", "--json", "--sandbox", self.sandbox, "--skip-git-repo-check"]
        return [*told, *(["--dangerously-bypass-hook-trust"] if self.believe_hooks else []), prompt]

    def configure(self, project: Path) -> None:
        """Writes the settings of a person who trusts this project, unless there are settings already.

        They are there whole or not at all: sessions begin side by side.
        """
        file = self.home / ".codex" / "config.toml"
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            whole = file.with_name(f"config.{threading.get_ident()}.new")
            whole.write_text(self.CONFIG.format(url=self.island.url, project=json.dumps(str(project))))
            with suppress(FileExistsError):
                os.link(whole, file)
            whole.unlink()

    def install_our_hooks(self, project: Path) -> None:
        """The same, with an answer to the question whether to trust them."""
        self.configure(project)
        super().install_our_hooks(project)

    def hook_file(self, project: Path) -> Path:
        """The project's hooks."""
        return project / ".codex" / "hooks.json"

    def last_words(self, run: Run) -> str:
        """The last message of the model."""
        items = [event["item"] for event in run.of("item.completed")]
        return str([item["text"] for item in items if item["type"] == "agent_message"][-1])

    def shown(self, prompt: str, *, project: Path, env: Mapping[str, str] | None = None) -> list[str]:
        """The warnings of hooks, which only the app-server tells."""
        self.configure(project)
        server = self.island.beside([self.program, "app-server"])
        told = appserver.turn(server, prompt, project, {**self.env, **(env or {})})
        hooks = [event["params"]["run"] for event in told if event.get("method") == "hook/completed"]
        return [str(entry["text"]) for hook in hooks for entry in hook["entries"] if entry["kind"] == "warning"]

    def complaint(self, run: Run) -> str:
        """The error of the turn that failed."""
        return "; ".join(str(event["error"].get("message")) for event in run.of("turn.failed"))

    def tokens(self, run: Run) -> dict[str, int]:
        """The sums of the last turn; its input counts what was cached, too."""
        used = run.of("turn.completed")[-1]["usage"]
        cached = used["cached_input_tokens"]
        return {"input": used["input_tokens"] - cached, "cached": cached, "output": used["output_tokens"]}


KINDS: Mapping[str, type[Client]] = {kind.name: kind for kind in (ClaudeCode, Codex)}
