"""The judge's answer on one candidate commit, in the words of the protocol."""

from dataclasses import dataclass, field, replace

from agent_harness.kernel.json import JsonObject


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was established about an accepted candidate."""

    passing: tuple[str, ...] = ()
    total: int = 0
    lint_errors: int | None = None
    file_sizes: JsonObject | None = None


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Accepted with its proof; or not, with the reason and what the harness saw."""

    accepted: bool
    final: bool = False  # rolled back at once; otherwise the agent may repair it (C03)
    asks: bool = False  # proven but for the evidence that the agent must show (C20)
    judged: bool = True  # by the tests; a rule that was broken is refused without them
    code: str = ""
    failure: str = ""
    output: str = ""
    commit: str = ""
    proof: Proof = field(default_factory=Proof)
    broken_features: tuple[int, ...] = ()
    regressions: tuple[str, ...] = ()  # tests that passed before and do not now

    @classmethod
    def unproven(cls, failure: str, *, code: str, output: str = "") -> "Ruling":
        """A claim that the agent may repair."""
        return cls(accepted=False, code=code, failure=failure, output=output)

    def of(self, commit: str) -> "Ruling":
        """The same ruling for another commit of the very same tree."""
        return replace(self, commit=commit)
