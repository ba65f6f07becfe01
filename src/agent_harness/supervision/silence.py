"""Nothing is heard of an agent: how long that may last. Source: features.md UAH-376, C28, S13 b."""

MESSAGE = "The agent gave no sign for {seconds:g} s."


class Silence:
    """A limit on the time between two events of a turn; while a tool call is open the agent may be silent.

    Moments are of the monotonic clock. Without a limit it is never over.
    """

    def __init__(self, limit_seconds: float | None, now: float) -> None:
        self._limit = limit_seconds
        self._since = now
        self._working = False

    def heard(self, now: float, *, open_calls: int) -> None:
        """An event came; so many tool calls are open after it."""
        self._since = now
        self._working = open_calls > 0

    @property
    def ends_at(self) -> float | None:
        """When the silence will have been too long; ``None`` while it may last."""
        return None if self._limit is None or self._working else self._since + self._limit
