"""The project's own development environment: init.sh, reset.sh, the health check.

init.sh runs in a process group of its own and is waited for by its exit status alone, since a server that it leaves
behind keeps its output open (C60). Those children live as long as the session and end with it, also when the harness
is killed. Source: features.md UAH-270..273, C24, C33.
"""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_harness.errors import PreflightFailed
from agent_harness.kernel import process

SCRIPT_SECONDS = 300.0
HEALTH_SECONDS = 60.0


class DevelopmentEnvironment:
    """Starts the environment for one session; ``stop`` ends whatever init.sh left running."""

    def __init__(
        self,
        root: Path,
        *,
        init: str | None,
        reset: str | None,
        health_check: str | None,
        stop: str | None,
        log: Path,
        say: Callable[[str], None],
        script_seconds: float = SCRIPT_SECONDS,
    ) -> None:
        self._root = root
        self._script_seconds = script_seconds
        self._init = init
        self._reset = reset
        self._health_check = health_check
        self._stop = stop
        self._log = log
        self._say = say
        self._env: Mapping[str, str] = process.scrubbed_environment()
        self._running: list[process.Running] = []

    def up(self, *, auto_reset: bool, max_reset_attempts: int) -> None:
        """The environment is up, or ``PreflightFailed`` names what failed and where its output is."""
        code = self._script(self._init)
        resets = 0
        while code != 0 and auto_reset and self._reset and resets < max_reset_attempts:
            resets += 1
            self._say(f"{self._init} failed (exit {code}); running {self._reset} ({resets}/{max_reset_attempts})")
            if self._script(self._reset) == 0:
                code = self._script(self._init)
        if code != 0:
            said = "Could not recover clean state. Manual intervention needed." if resets else f"{self._init} failed."
            raise PreflightFailed(
                f"{said} {self._last_lines()}", hint=f"less {self._log}", check="environment", resets=resets
            )

    def healthy(self) -> None:
        """The health check passes, or ``PreflightFailed``."""
        if not self._health_check:
            return
        done = process.run(self._health_check, cwd=self._root, env=self._env, timeout_seconds=HEALTH_SECONDS)
        if done.exit_code != 0:
            raise PreflightFailed(
                f"The health check failed: {self._health_check}", hint="./init.sh", check="environment"
            )

    def down(self) -> None:
        """Ends everything the scripts left running; safe to repeat."""
        while self._running:
            self._running.pop().stop(grace_seconds=2.0)
        if self._stop:
            process.run(self._stop, cwd=self._root, env=self._env, timeout_seconds=HEALTH_SECONDS)

    def _script(self, command: str | None) -> int:
        if not command:
            return 0
        self._log.parent.mkdir(parents=True, exist_ok=True)
        logged = f"({command}) </dev/null >>{shlex.quote(str(self._log))} 2>&1"
        running = process.start(logged, cwd=self._root, env=self._env, input=b"", keep_background=True)
        code = running.wait(self._script_seconds)
        if code == 0:
            self._running.append(running)
        else:
            running.stop(grace_seconds=2.0)
        return 124 if code is None else code

    def _last_lines(self) -> str:
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f"Last output: {lines[-1][:300]}" if lines else ""
