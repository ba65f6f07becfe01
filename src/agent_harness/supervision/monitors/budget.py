"""The budget: the session ends as soon as a limit is exceeded. Source: features.md UAH-417..419, C27, C58."""

from dataclasses import dataclass

from agent_harness.agents.events import Event, Usage
from agent_harness.agents.usage import SAMPLE_PRICE, Price, Totals, add
from agent_harness.supervision.monitors.intervention import Intervention, Monitor, ProjectFacts

TEXT = "{name} cost ${spent:.2f} exceeds budget ${limit:.2f}."


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """One limit in US dollars and what earlier sessions have spent of it."""

    name: str  # "Session", "Feature", "Project": the first word of the message
    limit_usd: float
    spent_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Monitor[Totals]):
    """Adds up the cost of the session after each model call. State: its totals.

    A call without a known price counts at ``assumed``, and the message says so.
    """

    limits: tuple[BudgetLimit, ...]
    model: str | None = None
    assumed: Price = SAMPLE_PRICE

    def begin(self) -> Totals:
        """Nothing spent."""
        return Totals()

    def step(
        self, state: Totals, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[Totals, tuple[Intervention, ...]]:
        """A stop that names the first limit exceeded; a cost equal to its limit is within it."""
        if not isinstance(event, Usage):
            return state, ()
        totals = add(state, event, self.model)
        spent = totals.budget_usd(self.assumed)
        over = next((x for x in self.limits if x.spent_usd + spent > x.limit_usd + 1e-9), None)
        return totals, (self._stop(over, spent, totals),) if over else ()

    def _stop(self, over: BudgetLimit, spent: float, totals: Totals) -> Intervention:
        text = TEXT.format(name=over.name, spent=over.spent_usd + spent, limit=over.limit_usd)
        if totals.unpriced_calls:
            prices = f"${self.assumed.input_usd:g}/M in and ${self.assumed.output_usd:g}/M out"
            text += f" No price is known for {totals.unpriced_calls} calls; they count at {prices}."
        return Intervention(kind="stop", reason="budget_exceeded", message=text)
