"""How one session ended, for the person and for ``--json``."""

from dataclasses import dataclass

from agent_harness.kernel.json import JsonObject


@dataclass(frozen=True, kw_only=True)
class Result:
    """One session's ending; ``exit_code`` is one of ``docs/exit-codes.md``."""

    session: int
    feature_id: int | None
    status: str  # complete, partial, failed
    reason: str
    message: str
    accepted: bool = False
    commit: str | None = None
    rescue_ref: str | None = None
    cost_usd: float | None = None
    exit_code: int = 0
    told: str = ""  # what the monitor said that ended the agent's turn
    rejected_as: str = ""  # the code of the finding for which the harness did not believe a claim
    regressions: tuple[str, ...] = ()  # tests of the baseline that the session broke
    broken_features: tuple[int, ...] = ()  # those whose tests these are
    opened_again: tuple[int, ...] = ()  # those of them that fail after the rollback, too, and count no more

    def as_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
