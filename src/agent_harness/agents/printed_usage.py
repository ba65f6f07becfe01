"""What a client in print mode says it used, read out of its own output and never guessed. Pure."""

from __future__ import annotations

from agent_harness.kernel import amounts
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Record = dict[str, Any]

__all__ = ["PrintedUsage", "made", "object_on", "objects"]


class PrintedUsage:
    """Tokens of one run: input without what a cache gave, output, what the cache gave; ``None`` where it is not said.

    ``total_tokens`` are input and output.
    """

    __slots__ = ("cached_tokens", "cost_usd", "input_tokens", "output_tokens", "total_tokens")

    def __init__(
        self,
        *,
        total_tokens: int,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        self.total_tokens = total_tokens
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.cached_tokens = cached_tokens
        self.cost_usd = cost_usd


def made(input_tokens: object, output_tokens: object, cached_tokens: object, cost_usd: object) -> PrintedUsage | None:
    """A usage of these counts; ``None`` when input or output is no count of tokens."""
    given, out = amounts.tokens(input_tokens), amounts.tokens(output_tokens)
    if given is None or out is None:
        return None
    return PrintedUsage(
        total_tokens=given + out,
        input_tokens=given,
        output_tokens=out,
        cached_tokens=amounts.tokens(cached_tokens),
        cost_usd=amounts.dollars(cost_usd),
    )


def objects(text: str, mark: str) -> Iterator[Record]:
    """The JSON objects on lines of their own that contain a mark, the last one first."""
    end = len(text)
    while (at := text.rfind(mark, 0, end)) >= 0:
        begin, stop = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        found = object_on(text[begin : stop if stop >= 0 else len(text)])
        if found is not None:
            yield found
        end = begin


def object_on(line: str) -> Record | None:
    """The object on a line; of a list of them, as ``--verbose`` makes it, the last one."""
    if not line.lstrip().startswith(("{", "[")):
        return None
    try:
        found = jsontext.loads(line, exact=False)
    except (ValueError, RecursionError):
        return None
    last = found[-1] if isinstance(found, list) and found else found
    return last if isinstance(last, dict) else None
