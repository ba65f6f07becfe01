"""What is unwise in init.sh and reset.sh, told when they are made: both run unattended (features.md UAH-146, C33)."""

from collections.abc import Iterator
from pathlib import Path

from agent_harness.agents.base import ToolRules
from agent_harness.agents.guardrails import check_command
from agent_harness.agents.guardrails.shell import Simple, UnreadableCommand, commands

KILLERS = ("pkill", "killall")
COMPOSERS = ("docker", "docker-compose", "podman", "podman-compose")


def findings(text: str, root: Path) -> list[str]:
    """One line for each command that may harm what the script did not start."""
    try:
        found = list(dict.fromkeys(line for each in _all(commands(text)) for line in _harm(each)))
    except UnreadableCommand as reason:
        return [f"it cannot be read: {reason}"]
    refused = check_command(text, root, ToolRules(denied_commands=()))
    return [*found, *([refused] if refused else [])]


def _all(script: tuple[Simple, ...]) -> Iterator[Simple]:
    for simple in script:
        yield simple
        for word in simple.words:
            yield from _all(word.runs)


def _harm(simple: Simple) -> Iterator[str]:
    words = [word.text for word in simple.words]
    shown = " ".join(words)[:120]
    if any(word.rpartition("/")[2] in KILLERS for word in words):
        yield f"`{shown}` may end programs that it did not start; keep pid files and end those processes"
    if any(word in COMPOSERS for word in words) and "down" in words and {"-v", "--volumes"} & set(words):
        yield f"`{shown}` removes volumes, with the data in them"
