"""Guard rails for an agent's tools: paths and commands that are refused. (UAH-444, C32)

Guard rails prevent accidents and do not stop an attacker. Isolation needs a sandbox of the operating system."""

from agent_harness.agents.guardrails.commands import check_command
from agent_harness.agents.guardrails.paths import check_path

__all__ = ["check_command", "check_path"]
