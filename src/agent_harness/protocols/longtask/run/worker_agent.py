"""The agent behind a worker: a client's command line, a line of shell, or an agent of ours.

A worker that cannot be started is one that failed at once: 127 without its program, 126 for any other reason.
Source: ``longtask.md`` 9, 10.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent_harness.agents import registry
from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.command_line import CommandLineAgent, Printed, Refusal, no_refusal
from agent_harness.agents.events import Event, Finished
from agent_harness.errors import HarnessError, ToolMissing
from agent_harness.protocols.longtask.run import limits
from agent_harness.protocols.longtask.run.adapters import Plan

__all__ = ["NEVER_STARTED", "STOPPED", "Startable", "agent_of"]

NOT_FOUND, NOT_STARTED, STOPPED = 127, 126, 1
NEVER_STARTED = (STOPPED, "stopped before it started")


def agent_of(plan: Plan, printed: Printed, refusal: Refusal) -> Agent:
    """The agent that a plan names; what a command line prints goes to ``printed``.

    ``refusal`` reads what a client says that its provider refuses; behind a line of shell there is none.
    """
    if plan.run is None:
        return registry.from_spec(plan.worker, source="--worker")
    account = limits.account_of(plan.worker)
    return CommandLineAgent(
        plan.worker,
        plan.run,
        account=account,
        printed=printed,
        refusal=refusal if account else no_refusal,
    )


class Startable(Agent):
    """The same agent; ``failure`` is the exit status and the reason once it could not be started."""

    def __init__(self, agent: Agent, plan: Plan, must_stop: Callable[[], bool]) -> None:
        self.name = agent.name
        self.capabilities = agent.capabilities
        self.failure: tuple[int, str] | None = None
        self._agent = agent
        self._plan = plan
        self._must_stop = must_stop

    @property
    def account(self) -> str:
        """That of the agent."""
        return self._agent.account

    def start(self, brief: Brief) -> Turn:
        """A turn that runs, or that is over."""
        try:
            if not self._must_stop():
                return self._agent.start(brief)
            self.failure = NEVER_STARTED
        except ToolMissing as error:
            run = self._plan.run
            missing = f"{run[0]}: command not found ({error.message})" if isinstance(run, list) else error.message
            self.failure = NOT_FOUND, missing
        except HarnessError as error:
            self.failure = NOT_STARTED, f"cannot be started: {error.message}"
        return _Failed(*self.failure)


class _Failed(Turn):
    """A turn without a process."""

    def __init__(self, exit_code: int, message: str) -> None:
        self._end: Finished | None = Finished(ok=False, message=message, exit_code=exit_code)

    @property
    def ended(self) -> bool:
        """True once the end was handed out."""
        return self._end is None

    @property
    def process(self) -> Mapping[str, object] | None:
        """None: nothing was started."""
        return None

    def next_event(self, timeout_seconds: float) -> Event | None:
        """The end, once."""
        end, self._end = self._end, None
        return end

    def stop(self, grace_seconds: float = 5.0) -> None:
        """There is nothing to end."""
        self._end = None
