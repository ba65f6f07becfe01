"""The environment that a command of ours is given: without our secrets, and without what bends its behaviour.

Source: ``docs/architecture.md``, promise 7 (no secret is written).
"""

import os
from collections.abc import Mapping

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


def scrubbed_environment(
    extra: Mapping[str, str] | None = None, *, keep_agent_credentials: bool = False
) -> dict[str, str]:
    """This process's environment without secrets and without variables that bend a command, plus ``extra`` as it is.

    ``keep_agent_credentials`` keeps what agent clients sign in with, and is for the agent itself only.
    """
    kept = _credential_prefixes(os.environ) if keep_agent_credentials else ()
    environment = {name: value for name, value in os.environ.items() if _passes(name, kept)}
    environment.update(extra or {})
    return environment


def callers_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment as a person's own command has it, plus ``extra``.

    Left out is only what belongs to the run around this one.
    """
    return {**{name: value for name, value in os.environ.items() if name not in _OF_THIS_RUN}, **extra}


def _passes(name: str, credentials: tuple[str, ...]) -> bool:
    from agent_harness.kernel.redact import is_secret_name

    if name in _DROPPED or (name.startswith(_DROPPED_PREFIXES) and name not in _KEPT):
        return False
    return name.startswith(credentials) or not is_secret_name(name)


def _credential_prefixes(environment: Mapping[str, str]) -> tuple[str, ...]:
    clouds = (prefix for switch, prefix in _CLOUD_SWITCHES.items() if environment.get(switch) not in (None, "", "0"))
    return (*_AGENT_PREFIXES, *clouds)
