"""List of features that an agent plans, for `harness init --spec` or `harness plan-features --spec`.

The plan is checked by rules, and the agent can fix it in one more round. The caller adopts or discards the plan
(``initializer.py``, ``add_features.py``). If the plan is for an existing project, a record makes recovery possible
after the harness was killed:

    planning   the agent may have changed anything: the work is rolled back and kept in a rescue ref
    planned    the plan was valid and its commit was recorded: the branch moves to this commit

Source: features.md section L, UAH-003, UAH-074, UAH-101..105, C31, C48, C56."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent_harness.agents.base import Agent, Brief
from agent_harness.errors import HarnessError, LimitInForce
from agent_harness.kernel import clock, files, owner, process, snapshot
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import costs, prompts, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import push_retry
from agent_harness.protocols.features.sessions import accept, actions
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.work import session_work
from agent_harness.protocols.features.work.session_work import turns_of
from agent_harness.session.limits import changed_in_repository
from agent_harness.session.work import POLICIES, Ending, TurnRequest, TurnSoFar
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.supervisor import Outcome

__all__ = ["PlanRuling", "PlanWork", "remember_failed_try"]


@dataclass(frozen=True, kw_only=True)
class PlanRuling:
    """Problems in a plan. Without problems, the plan is accepted."""

    problems: tuple[str, ...]
    final: bool = False
    asks: bool = False

    @property
    def accepted(self) -> bool:
        return not self.problems


class PlanWork:
    name = "The plan"
    policy = POLICIES["plan"]

    def __init__(
        self, project: Project, agent: Agent, stop: Stop, *, prompt: str, problems: Callable[[], list[str]], what: str
    ) -> None:
        self._project = project
        self._prompt = prompt
        self._problems = problems
        self._what = what
        self.run_id = process.new_run_id()
        self.turns = turns_of(project, agent, stop, session=0, feature_id=None, prompt_type="initializer")

    def brief(self, ruling: PlanRuling | None) -> str:
        if ruling is None:
            return self._prompt
        self._project.say(f"{self._what} is not valid ({ruling.problems[0]}). The agent gets one turn to repair it.")
        listed = "\n".join(f"- {line}" for line in ruling.problems[:50])
        return prompts.render("repair", {"problems": listed, "features_file": self._project.features_name})

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        project = self._project
        brief = session_work.handed(
            project,
            Brief(
                prompt=prompt,
                cwd=project.root,
                session=0,
                prompt_type="initializer",
                round=so_far.round,
                conversation=so_far.conversation,
                run_id=self.run_id,
                environment=push_retry.no_push_variables(project.git.record_config()),
            ),
        )
        log, began = actions.ActionLog(project, 0, brief.model), time.monotonic()

        def ended(outcome: Outcome) -> None:
            log.close(time.monotonic() - began)
            # now, because a rejected plan also costs money
            spent = costs.Spent.by(outcome.usage, session=0, started=clock.timestamp(), feature_id=None)
            record = costs.add_session(project.store.costs(), spent, project.budgets)
            project.store.write(project.layout.costs, record.record)

        return TurnRequest(
            brief=brief,
            on_started=lambda record: project.store.event("agent_started", session=0, process=dict(record)),
            on_event=log.see,
            on_ended=ended,
            facts=lambda: changed_in_repository(project.git, project.root),
        )

    def claimed(self) -> bool:
        """Return False, because the harness checks a plan only after the agent's turn."""
        return False

    def closed(self) -> None:
        """Do nothing, because no other process can end the planning."""

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> PlanRuling:
        return PlanRuling(problems=tuple(self._problems()))

    def accepted(self, ruling: PlanRuling) -> tuple[str, ...]:
        return ()

    def rejected(self, ruling: PlanRuling, ending: Ending | None) -> tuple[str, ...]:
        return ruling.problems

    def unfinished(self, ending: Ending) -> tuple[str, ...]:
        remember_failed_try(self._project)
        if ending.reason == "user_pause":
            raise KeyboardInterrupt
        outcome = ending.outcome
        if outcome and outcome.limit is not None:
            raise LimitInForce(f"Rate limited: {outcome.limit}", hint="harness limits  # then the same command again")
        why = ending.message if ending.provider or outcome is None else f"{outcome.reason}: {outcome.message}"
        raise HarnessError(f"The initializer session failed. {why}", hint=f"less {self._project.layout.transcript(0)}")


def remember_failed_try(project: Project) -> None:
    """Record the files that a failed `harness init` left, so that the next try accepts them."""
    path = os.path.join(project.layout.git_dir, "harness", "failed_init.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.write_json(path, {"paths": repository.dirty_paths(project.git), "at": clock.timestamp()})


# -- the record of a running plan --------------------------------------------------------------------------------------

PLANNING, PLANNED = "planning", "planned"


def begin(project: Project, checkpoint: SessionCheckpoint, run_id: str) -> JsonObject:
    """Record durably that an agent is planning. Return the record."""
    store = project.store
    record = {
        "session": 0,
        "feature_id": None,
        "phase": PLANNING,
        "checkpoint": checkpoint.record,
        "features": store.features().record,
        "state": store.state().record,
        "baseline": store.baseline().record,
        "costs": store.costs().record,
        "run_id": run_id,
        "harness": owner.current().as_record(),
        "agent": None,
    }
    store.write_open_session(record)
    return record


def spent(project: Project, record: JsonObject) -> None:
    record["costs"] = project.store.costs().record
    project.store.write_open_session(record)


def adopt(project: Project, record: JsonObject, commit: str) -> None:
    """Move the branch to the plan's commit and close the record. After a crash, ``recover`` completes this."""
    tip = accept.branch_tip(project, SessionCheckpoint.from_record(record["checkpoint"]).snapshot.branch)
    planned = {**record, "phase": PLANNED, "commit": commit, "tip": tip}
    project.store.write_open_session(planned)
    _adopt(project, planned)
    close(project)


def _adopt(project: Project, record: JsonObject) -> None:
    """Move the branch to the plan's commit. Raise ``UnsafeTree`` if newer commits would be lost."""
    rollback_point = SessionCheckpoint.from_record(record["checkpoint"]).snapshot
    tip = accept.branch_tip(project, rollback_point.branch)
    commit = str(record["commit"])
    if tip is None or not project.git.ancestor(commit, tip):
        snapshot.adopt(project.git, commit, branch=rollback_point.branch, expected_head=record.get("tip", tip))


def take_back(project: Project, checkpoint: SessionCheckpoint) -> str | None:
    """Restore the state before the plan. Return the rescue ref that keeps the agent's work, or None."""
    ref = repository.free_ref(project.git, f"refs/harness/rolled-back/plan-{checkpoint.id}")
    rescued = project.go_back(checkpoint.snapshot, ref, checkpoint.id, set_aside_operation=True)
    close(project)
    return rescued.ref


def close(project: Project) -> None:
    """Remove the plan's record and candidate refs. The plan's effects must be on disk before the call."""
    for ref in dict.fromkeys(("refs/harness/candidates/extend", *project.candidate_refs)):
        if project.git.commit_of(ref):
            project.git.update_ref(ref, None)
    project.candidate_refs.clear()
    project.store.close_session()


def _overtaken(project: Project, record: JsonObject) -> str | None:
    """If other commits moved the branch, keep the plan under a ref and return that ref."""
    branch, commit = SessionCheckpoint.from_record(record["checkpoint"]).snapshot.branch, str(record["commit"])
    tip = accept.branch_tip(project, branch)
    if tip in (None, commit, record.get("tip", tip)) or project.git.ancestor(commit, str(tip)):
        return None
    ref = repository.free_ref(project.git, "refs/harness/unadopted/plan")
    project.git.update_ref(ref, commit)
    return ref


def recover(project: Project, found: JsonObject, put_back: Callable[[], None]) -> JsonObject:
    """Recover a plan that a killed harness left. Return a report."""
    project.say("Planning more features was interrupted; recovering.")
    put_back()
    if found.get("phase") == PLANNED:
        if (ref := _overtaken(project, found)) is not None:
            close(project)
            project.say(f"The branch has moved, so the plan was not added. To add it: git cherry-pick {ref}")
            return {"session": None, "step": "unadopted", "rescue_ref": ref}
        _adopt(project, found)
        close(project)
        project.say("The plan was valid, and its features are in the project.")
        return {"session": None, "step": "adopt"}
    ref = take_back(project, SessionCheckpoint.from_record(found["checkpoint"]))
    kept = f" The agent's work is kept: git show {ref}" if ref else ""
    project.say(f"The plan was rolled back; run `harness plan-features` again.{kept}")
    return {"session": None, "step": "take_back", "rescue_ref": ref}
