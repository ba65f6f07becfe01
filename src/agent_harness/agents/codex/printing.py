"""``codex exec`` as people call it: its command line, and what the end of its output says about tokens."""

import re
from collections.abc import Iterable

from agent_harness.agents import printed_usage
from agent_harness.agents.printed_usage import PrintedUsage
from agent_harness.kernel import amounts

__all__ = ["print_words", "usage_of"]

_TOTAL = re.compile(r"(?:^|\n)tokens used:?\s+(\d{1,3}(?:[,.'\s\u00a0\u202f]\d{3})*|\d+)\s*$")
_END = 4096  # characters of standard error in which the total stands


def print_words(
    cwd: str,
    *,
    sandbox: str,
    model: str | None = None,
    oss: bool = False,
    local_provider: str | None = None,
    more: Iterable[str] = (),
) -> list[str]:
    """The command line of one run without a person; the prompt comes on standard input."""
    words = ["codex", "exec", "--cd", cwd, "--sandbox", sandbox]
    words += ["--model", model] if model else []
    words += ["--oss"] if oss else []
    words += ["--local-provider", local_provider] if local_provider else []
    return [*words, *more, "-"]


def usage_of(stdout: str, stderr: str) -> PrintedUsage | None:
    """The last ``turn.completed`` of ``--json``, else the total at the end of standard error."""
    for event in printed_usage.objects(stdout, '"turn.completed"'):
        used = event.get("usage")
        if event.get("type") == "turn.completed" and isinstance(used, dict):
            cached = amounts.tokens(used.get("cached_input_tokens")) or 0
            asked = amounts.tokens(used.get("input_tokens"))
            given = None if asked is None else max(0, asked - cached)
            return printed_usage.made(given, used.get("output_tokens"), cached, None)
    found = _TOTAL.search(stderr[-_END:])
    tokens = amounts.tokens(int(re.sub(r"\D", "", found[1]))) if found else None
    return None if tokens is None else PrintedUsage(total_tokens=tokens)
