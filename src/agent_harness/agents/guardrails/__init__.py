"""Guard rails for the tools of an agent: which paths and which commands are refused (UAH-444, C32).

Against accidents, not against an attacker: real isolation takes a sandbox of the operating system.
"""

from agent_harness.agents.guardrails.commands import check_command
from agent_harness.agents.guardrails.paths import check_path

__all__ = ["check_command", "check_path"]
