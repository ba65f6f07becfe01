"""``claude --print`` as people call it: its command line, its answer without the JSON around it, and its tokens."""

from collections.abc import Iterable, Sequence
from typing import Any

from agent_harness.agents import printed_usage
from agent_harness.agents.printed_usage import PrintedUsage
from agent_harness.kernel import amounts

__all__ = ["print_words", "unwrapped", "usage_of", "wraps"]

Record = dict[str, Any]


def wraps(more: Iterable[str]) -> bool:
    """Whether ``print_words`` asks for the answer in one JSON object: no other format is among the person's words."""
    return not any(each.partition("=")[0] == "--output-format" for each in more)


def print_words(model: str | None, permission_mode: str | None, more: Sequence[str] = ()) -> list[str]:
    """The command line of one run without a person; the prompt comes on standard input."""
    words = ["claude", "--print", *(["--output-format", "json"] if wraps(more) else [])]
    words += ["--model", model] if model else []
    words += ["--permission-mode", permission_mode] if permission_mode else []
    return [*words, *more]


def unwrapped(stdout: str) -> str:
    """What the client said, out of the one JSON object in which it says it; anything else stays as it is."""
    before, _, last = stdout.rstrip().rpartition("\n")
    found = printed_usage.object_on(last)
    if found is None or found.get("type") != "result" or not isinstance(found.get("result"), str):
        return stdout
    return f"{before}\n{found['result']}" if before else found["result"]


def usage_of(stdout: str, stderr: str) -> PrintedUsage | None:
    """The last ``result`` of ``--output-format json`` or ``stream-json``: the sum over its models, else its own."""
    for event in printed_usage.objects(stdout, '"result"'):
        if event.get("type") == "result":
            return _of_models(event) or _of_result(event)
    return None


def _of_models(event: Record) -> PrintedUsage | None:
    models = event.get("modelUsage")
    used = [each for each in models.values() if isinstance(each, dict)] if isinstance(models, dict) else []
    if not used:
        return None

    def summed(*names: str) -> int:
        return sum(amounts.tokens(each.get(name)) or 0 for each in used for name in names)

    asked = summed("inputTokens", "cacheCreationInputTokens")
    return printed_usage.made(
        asked, summed("outputTokens"), summed("cacheReadInputTokens"), event.get("total_cost_usd")
    )


def _of_result(event: Record) -> PrintedUsage | None:
    used = event.get("usage")
    if not isinstance(used, dict) or amounts.tokens(used.get("input_tokens")) is None:
        return None
    asked = used["input_tokens"] + (amounts.tokens(used.get("cache_creation_input_tokens")) or 0)
    cached = amounts.tokens(used.get("cache_read_input_tokens")) or 0
    return printed_usage.made(asked, used.get("output_tokens"), cached, event.get("total_cost_usd"))
