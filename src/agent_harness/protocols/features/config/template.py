"""The ``.harness.yaml`` that a new project begins with: only what a person wants to see and change."""

import json
import re

_PLAIN = re.compile(r"[A-Za-z./][A-Za-z0-9 _./={}\[\]-]*")
_NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "."})

_TEXT = """\
# How the harness works on this project. Every setting that is not here has a default.

project:
  name: {name}

environment:
  init: ./init.sh    # starts what the tests need; exit 0 means that it is up
  reset: ./reset.sh  # forces a clean state when init fails
  # health_check: curl -sf http://localhost:8000/health

testing:
  full: {full}
  feature: {feature}

quality:
  {lint}

costs:
  per_session_usd: 10.00
  per_feature_usd: 25.00
  total_project_usd: 200.00

session:
  timeout_minutes: 60

# verification:
#   links: [.venv, node_modules]  # ignored folders that the tests need

# agent:  # or --agent, or HARNESS_AGENT
#   kind: command
#   command: ["python3", "agent.py"]
"""


def default_text(project_name: str, *, full: str, feature: str, lint: str | None) -> str:
    """A commented ``.harness.yaml``, valid as it stands; ``lint=None`` leaves the linter commented out."""
    name = " ".join("".join(char if char.isprintable() else " " for char in project_name).split())
    return _TEXT.format(
        name=_scalar(name or "project"),
        full=_scalar(full),
        feature=_scalar(feature),
        lint=f"lint_command: {_scalar(lint)}" if lint else "lint_command:  # none found; for example: ruff check src/",
    )


def _scalar(text: str) -> str:
    """The text as YAML writes it on one line: plain where that reads back the same, else in double quotes."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    plain = _PLAIN.fullmatch(text) and text == text.strip() and text.lower() not in _NOT_TEXT and ": " not in text
    if plain and not re.fullmatch(r"\.[0-9._e+-]*|\.(?:inf|nan)", text, re.IGNORECASE):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)
