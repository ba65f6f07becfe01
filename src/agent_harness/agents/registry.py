"""Selection of the agent: a table of agent kinds, and the order of the sources. Classes are imported on first use.

Order: the command line, ``HARNESS_AGENT``, the ``agent:`` setting, the first client found on PATH."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent
from agent_harness.errors import ConfigurationError, HarnessError, UsageError

KINDS: Mapping[str, str] = {
    "command": "agent_harness.agents.command:CommandAgent",
    "scripted": "agent_harness.agents.scripted:ScriptedAgent",
    "claude-code": "agent_harness.agents.claude_code:ClaudeCodeAgent",
    "codex": "agent_harness.agents.codex:CodexAgent",
    "kimi": "agent_harness.agents.kimi:KimiAgent",
    "api": "agent_harness.agents.api:ApiAgent",
    "acp": "agent_harness.agents.acp:AcpAgent",
    "replay": "agent_harness.agents.replay:ReplayAgent",
}
"""Class of each agent kind. It has ``from_words(text)`` for ``KIND:TEXT``, and ``from_mapping(settings, root)``."""

NEEDED: Mapping[str, str] = {"command": "WORDS", "scripted": "FILE", "acp": "WORDS", "replay": "FILE"}
"""Agent kinds that require a text after the colon. For every other kind, the text is optional and names a model."""

CLIENTS: Mapping[str, str] = {"claude": "claude-code", "codex": "codex"}
"""Programs to look for on PATH if no agent was chosen, in order. Each has the agent kind that runs the program."""

PACKAGES: Mapping[str, str] = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
"""Package name of each client program, as used with `npm install -g`."""

HINT = "Try `harness demo`, or name a program as the agent: --agent 'command:python3 agent.py'"


def resolve(
    spec: str | None,
    *,
    configured: Mapping[str, Any] | str | None,
    environ: Mapping[str, str],
    root: Path | None = None,
) -> Agent:
    """Return the agent from the command line, the environment, the settings or PATH. The first source that names an
    agent applies."""
    # Nothing is started. A file in the settings is relative to ``root``, any other to the current folder.
    if spec is not None:
        return from_spec(spec, source="--agent")
    if environ.get("HARNESS_AGENT"):
        return from_spec(environ["HARNESS_AGENT"], source="HARNESS_AGENT")
    if isinstance(configured, str):
        return from_spec(configured, source="`agent:` in the settings")
    if configured:
        return from_mapping(configured, root=root)
    found = next((name for name in CLIENTS if shutil.which(name, path=environ.get("PATH", ""))), None)
    if found:
        return from_spec(CLIENTS[found], source=f"{found} on PATH")
    missing = f"No agent client found ({', '.join(CLIENTS)})"
    first, *others = PACKAGES.values()
    to_install = f"npm install -g {first} (or {', '.join(others)})"
    hint = f"{to_install}, or: --agent 'command:python3 agent.py', or, without any: harness demo"
    raise _with_a_key(missing, environ) or UsageError(f"{missing}. Install one, or name a program", hint=hint)


def resolve_all(
    specs: Sequence[str],
    *,
    configured: Mapping[str, Any] | str | None,
    environ: Mapping[str, str],
    root: Path | None = None,
) -> tuple[Agent, ...]:
    """Return the agent to run, followed by its replacements for the time of a provider's refusal."""
    if specs:
        return tuple(from_spec(spec, source="--agent") for spec in specs)
    first = resolve(None, configured=configured, environ=environ, root=root)
    others = configured.get("fallback") if isinstance(configured, Mapping) else None
    listed = others if isinstance(others, list) else [others] if others else []
    return (first, *(_fallback(each, root) for each in listed))


def _fallback(given: object, root: Path | None) -> Agent:
    if isinstance(given, str):
        return from_spec(given, source="agent.fallback")
    if isinstance(given, Mapping):
        return from_mapping(given, root=root)
    raise ConfigurationError(
        "agent.fallback must be a SPEC, a section like `agent:`, or a list of these",
        hint="agent: {kind: claude-code, fallback: [codex]}",
    )


def from_spec(spec: str, *, source: str = "--agent") -> Agent:
    """Return the agent for ``KIND``, ``KIND:TEXT`` or ``{"kind": KIND, SETTING: VALUE, ...}``."""
    if spec.strip().startswith("{"):
        return from_mapping(_settings_in(spec, source))
    kind, colon, text = spec.strip().partition(":")
    agent_class = _class_of(kind, source, UsageError)
    wanted = NEEDED.get(kind)
    if wanted and not text.strip():
        missing = f"{source} {spec!r}: a {kind} agent needs {kind}:{wanted}"
        raise UsageError(missing if not colon else f"{missing}, but nothing follows the colon", hint=HINT)
    return agent_class.from_words(text.strip())


def _settings_in(text: str, source: str) -> Mapping[str, Any]:
    import json

    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        hint = """--agent '{"kind": "codex", "network": true}'"""
        raise UsageError(f"{source} {text!r} is not a JSON object", hint=hint)
    return found


def from_mapping(configured: Mapping[str, Any], *, root: Path | None = None) -> Agent:
    kind = configured.get("kind")
    if not isinstance(kind, str):
        raise ConfigurationError("agent.kind is missing", hint=f"agent: {{kind: one of {', '.join(KINDS)}, ...}}")
    settings = {name: value for name, value in configured.items() if name not in ("kind", "fallback")}
    return _class_of(kind, "agent.kind", ConfigurationError).from_mapping(settings, root)


def words_of(text: str) -> list[str]:
    """Split a command into words like a shell. Raise ``UsageError`` if that fails or there is no word."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the agent's command {text!r} cannot be split into words: {error}", hint=HINT) from error
    if not words or not words[0]:
        raise UsageError(f"{text!r} contains no command for the agent", hint=HINT)
    return words


def _class_of(kind: str, source: str, unknown: type[HarnessError]) -> Any:
    if kind not in KINDS:
        meant = _meant(kind)
        *first, last = KINDS
        told = f"did you mean {meant}?" if meant else f"it has the kinds {', '.join(first)} and {last}"
        raise unknown(f"{source}: unknown kind of agent {kind!r}; {told}", hint=f"--agent {meant}" if meant else HINT)
    return getattr(_module_of(kind), KINDS[kind].partition(":")[2])


def _module_of(kind: str) -> Any:
    return import_module(KINDS[kind].partition(":")[0])


def _with_a_key(missing: str, environ: Mapping[str, str]) -> UsageError | None:
    """Return an error for a user who has only a provider's key. Return None if no key is set."""
    providers = _module_of("api").PROVIDERS
    found = next(((name, each.key) for name, each in providers.items() if environ.get(each.key)), None)
    if found is None:
        return None
    name, key = found
    spec = "api" if name == "anthropic" else f"api:{name}/MODEL"
    return UsageError(f"{missing}, but {key} is set, so the agent {spec} can be used", hint=f"--agent {spec}")


def _meant(kind: str) -> str | None:
    """Return the agent kind that the user probably meant, or None if no known name is similar."""
    from difflib import get_close_matches

    by_program = {**{name: f"acp:{name}" for name in _module_of("acp").KNOWN}, **CLIENTS}
    word = kind.strip().lower().replace("_", "-")
    near = get_close_matches(word, [*KINDS, *by_program], 1, 0.75)
    return by_program.get(near[0], near[0]) if near else None
