"""Launch order for a supervisor process: the command, its folder, environment and limits, encoded for a pipe. The order
is checked here, where errors still reach the user. The module also makes the environment of a command. It drops secrets
of the harness and variables that change the command's behaviour (``docs/architecture.md``, promise 7)."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_harness.errors import Refused, ToolMissing
from agent_harness.kernel.process.limits import NO_LIMITS, Limits
from agent_harness.kernel.process.orphans import RUN_ID

_DROPPED = frozenset(
    {
        "BASH_ENV",  # run by every shell script
        "CLAUDECODE",  # a client started inside a client refuses to work
        "COVERAGE_PROCESS_START",
        "DYLD_INSERT_LIBRARIES",
        "ENV",
        "HARNESS_CLAIM_TOKEN",
        "HARNESS_RUN_ID",
        "LD_AUDIT",
        "LD_PRELOAD",
        "PERL5OPT",
        "RUBYOPT",
    }
)
_OF_THIS_RUN = frozenset({"CLAUDECODE", "HARNESS_CLAIM_TOKEN", "HARNESS_RUN_ID"})
_DROPPED_PREFIXES = ("COV_CORE_", "GIT_", "LD_DEBUG", "PYTEST_", "PYTHON")
_KEPT = frozenset(  # of the families above
    {
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONPATH",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
    }
)
_AGENT_PREFIXES = (
    "ANTHROPIC_",
    "AZURE_OPENAI_",
    "CLAUDE_",
    "CODEX_",
    "GEMINI_",
    "GOOGLE_",
    "KIMI_",
    "OPENAI_",
    "OPENROUTER_",
)
_CLOUD_SWITCHES = {"CLAUDE_CODE_USE_BEDROCK": "AWS_", "CLAUDE_CODE_USE_VERTEX": "CLOUD_ML_"}
Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """Access rights and resource limits of a command."""

    kind: str  # namespaces, landlock, bubblewrap:PROGRAM, or none
    base: str  # mode of all other paths: rw or ro
    network: str  # open, or loopback: a separate one
    # (mode, path, source), from the top of the disk downwards; ``empty`` is a memory file system of size source
    rules: tuple[tuple[str, str, str], ...]
    limits: Limits = NO_LIMITS

    @property
    def name(self) -> str:
        return self.kind.partition(":")[0]

    @property
    def terms(self) -> tuple[str, ...]:
        """Sandbox settings as words for the supervisor process."""
        if self.kind == "none":
            return ()
        return (self.kind, self.base, self.network, *(word for rule in self.rules for word in rule))


def scrubbed_environment(
    extra: Mapping[str, str] | None = None, *, keep_agent_credentials: bool = False
) -> dict[str, str]:
    """Return a copy of this process's environment without secrets and risky variables, but with ``extra``."""
    clouds = (prefix for switch, prefix in _CLOUD_SWITCHES.items() if os.environ.get(switch) not in (None, "", "0"))
    # the login variables of agent clients are for the agent itself, never for another command
    kept = (*_AGENT_PREFIXES, *clouds) if keep_agent_credentials else ()
    environment = {name: value for name, value in os.environ.items() if _passes(name, kept)}
    environment.update(extra or {})
    return environment


def callers_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of this process's environment without the surrounding run's variables, but with ``extra``."""
    return {**{name: value for name, value in os.environ.items() if name not in _OF_THIS_RUN}, **extra}


def _passes(name: str, credentials: tuple[str, ...]) -> bool:
    from agent_harness.kernel.redact import is_secret_name

    if name in _DROPPED or (name.startswith(_DROPPED_PREFIXES) and name not in _KEPT):
        return False
    return name.startswith(credentials) or not is_secret_name(name)


def write_order(
    command: str | Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    run_id: str,
    stays: bool = False,
    sandbox: Sandbox | None = None,
) -> bytes:
    """Return the message that tells the supervisor which command to start, and how."""
    folder = os.path.abspath(cwd)
    words = ["sh", "-c", command] if isinstance(command, str) else list(command)
    if not words or not words[0]:
        raise Refused("The command is empty.")
    if not os.path.isdir(folder):
        raise Refused(f"The folder {folder} does not exist.", path=folder)
    program = "/bin/sh" if isinstance(command, str) else find_program(words[0], folder, env.get("PATH", os.defpath))
    environment = [f"{name}={value}" for name, value in {**env, RUN_ID: run_id}.items()]
    terms, limits = (sandbox.terms, sandbox.limits.terms) if sandbox else ((), ())
    fields = ["stay" if stays else "", folder, program]
    for each in (words, terms, limits):
        fields += [str(len(each)), *each]
    fields += environment
    try:
        order = os.fsencode("\0".join(fields))
    except UnicodeEncodeError as error:
        raise Refused(
            "The command or its environment contains a character that cannot be passed to a program."
        ) from error
    if order.count(b"\0") >= len(fields):
        raise Refused("The command or its environment contains a NUL character.")
    return order


def find_program(name: str, folder: str, search_path: str) -> str:
    """Return the absolute path of a program for a command in ``folder``.
    Raise ``ToolMissing`` if the program is missing."""
    places = [""] if "/" in name else search_path.split(os.pathsep)
    candidates = [os.path.join(folder, place, name) for place in places]
    for candidate in candidates:
        if _is_program(candidate):
            return candidate
    if any(map(os.path.isfile, candidates)):
        raise ToolMissing(f"{name} is not executable.", hint=f"chmod +x {name}", program=name)
    raise ToolMissing(f"The program {name} was not found.", hint="Install it, or put its folder on PATH.", program=name)


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False
