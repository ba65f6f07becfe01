"""A plan: an agent writes features, at `harness init --spec` or `harness add-features --spec`.

It is judged by the rules of a plan, and has one fix round. What becomes of a plan is its caller's
(``initializer.py``, ``extending.py``). Source: features.md section L, UAH-101..105, C48.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent_harness.agents.base import Agent, Brief
from agent_harness.errors import HarnessError, LimitInForce
from agent_harness.kernel import clock, files, process
from agent_harness.protocols.features import costs, prompts, worktree
from agent_harness.protocols.features.engine import actions, turn_settings
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import push_guard
from agent_harness.protocols.features.work.session_work import turns_of
from agent_harness.session.changes import changed_in_repository
from agent_harness.session.policy import POLICIES
from agent_harness.session.work import Ending, TurnRequest, TurnSoFar
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.outcome import Outcome

__all__ = ["PlanRuling", "PlanWork", "remember_failed_try"]


@dataclass(frozen=True, kw_only=True)
class PlanRuling:
    """What is wrong with a plan; nothing when it is accepted."""

    problems: tuple[str, ...]
    final: bool = False
    asks: bool = False

    @property
    def accepted(self) -> bool:
        """Nothing is wrong."""
        return not self.problems


class PlanWork:
    """One plan under way; ends as the problems that are left after the fix round, none when the plan is valid.

    A turn that does not end well raises: ``KeyboardInterrupt`` for a pause, ``LimitInForce`` where the provider says
    when it serves again, else ``HarnessError``.
    """

    name = "The plan"
    policy = POLICIES["plan"]

    def __init__(
        self, project: Project, agent: Agent, stop: Stop, *, prompt: str, problems: Callable[[], list[str]], what: str
    ) -> None:
        """``problems`` says what is wrong with what the agent has written; ``what`` names that for people."""
        self._project = project
        self._prompt = prompt
        self._problems = problems
        self._what = what
        self.run_id = process.new_run_id()
        self.turns = turns_of(project, agent, stop, session=0, feature_id=None, prompt_type="initializer")

    def brief(self, ruling: PlanRuling | None) -> str:
        """The plan that is wanted, or what is wrong with the one that was written."""
        if ruling is None:
            return self._prompt
        self._project.say(f"{self._what} is not valid ({ruling.problems[0]}); one repair turn.")
        listed = "\n".join(f"- {line}" for line in ruling.problems[:50])
        return prompts.render("repair", {"problems": listed, "features_file": self._project.features_name})

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        """The turn under the settings of the initializer."""
        project = self._project
        brief = turn_settings.handed(
            project,
            Brief(
                prompt=prompt,
                cwd=project.root,
                session=0,
                prompt_type="initializer",
                round=so_far.round,
                conversation=so_far.conversation,
                run_id=self.run_id,
                environment=push_guard.variables(project.git.record_config()),
            ),
        )
        log, began = actions.ActionLog(project, 0, brief.model), time.monotonic()

        def ended(outcome: Outcome) -> None:
            log.close(time.monotonic() - began)
            self._record_costs(outcome)

        return TurnRequest(
            brief=brief,
            on_started=lambda record: project.store.event("agent_started", session=0, process=dict(record)),
            on_event=log.see,
            on_ended=ended,
            facts=lambda: changed_in_repository(project.git, project.root),
        )

    def _record_costs(self, outcome: Outcome) -> None:
        """What a turn cost is on record at once, also when nothing comes of the session."""
        project, used = self._project, outcome.usage
        spent = costs.Spent(
            session=0,
            started=clock.timestamp(),
            feature_id=None,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
            cost_usd=used.cost_usd,
            assumed_usd=used.budget_usd() if used.cost_usd is None else 0.0,
        )
        record = costs.add_session(project.store.costs(), spent, project.budgets)
        project.store.write(project.layout.costs, record.record)

    def claimed(self) -> bool:
        """Never: a plan is read when its turn has ended."""
        return False

    def closed(self) -> None:
        """Nobody else ends a plan."""

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> PlanRuling:
        """The rules of a plan, applied to what is on disk."""
        return PlanRuling(problems=tuple(self._problems()))

    def accepted(self, ruling: PlanRuling) -> tuple[str, ...]:
        """No problem is left."""
        return ()

    def rejected(self, ruling: PlanRuling, ending: Ending | None) -> tuple[str, ...]:
        """The problems that are left."""
        return ruling.problems

    def unfinished(self, ending: Ending) -> tuple[str, ...]:
        """Raises why the agent's turn did not end well."""
        remember_failed_try(self._project)
        if ending.reason == "user_pause":
            raise KeyboardInterrupt
        outcome = ending.outcome
        if outcome and outcome.limit is not None:
            raise LimitInForce(f"Rate limited: {outcome.limit}", hint="harness limits; then the same command again")
        why = ending.message if ending.provider or outcome is None else f"{outcome.reason}: {outcome.message}"
        raise HarnessError(
            f"The initializer session did not end well. {why}", hint=f"less {self._project.layout.transcript(0)}"
        )


def remember_failed_try(project: Project) -> None:
    """Names what is uncommitted now, so that the next `harness init` does not refuse to start over it."""
    path = os.path.join(project.layout.git_dir, "harness", "failed_init.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.write_json(path, {"paths": worktree.dirty_paths(project.git), "at": clock.timestamp()})
