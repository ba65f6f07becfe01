"""Review of proven work by a second agent, in a checkout and without the first agent's conversation. Objections become
findings. A review cannot accept work. A failed review changes nothing. Source: docs/verification.md, "A review"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.agents import registry
from agent_harness.agents.base import Agent, Brief
from agent_harness.agents.events import Usage
from agent_harness.agents.usage import Totals
from agent_harness.errors import HarnessError
from agent_harness.kernel.process import new_run_id
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import prompts
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import push_retry
from agent_harness.protocols.features.sessions import actions
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict.project_judge import Ruling
from agent_harness.protocols.features.work.session_work import ProjectJournal, tool_rules
from agent_harness.session.limits import SessionLimits, watch
from agent_harness.session.runner import Turns, walk
from agent_harness.session.work import POLICIES, Ending, TurnRequest, TurnSoFar
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.monitors import BudgetLimit
from agent_harness.supervision.supervisor import Outcome
from agent_harness.verification.checkout import make_checkout

OBJECTION, NONE = "OBJECTION:", "NO OBJECTION"
MOST_OBJECTIONS = 20
DIFFERENCE_CHARACTERS = 60_000
OBJECTION_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Review:
    objections: tuple[str, ...] = ()
    problem: str = ""
    used: Totals = field(default_factory=Totals)
    final: bool = True  # no turn follows
    asks: bool = False

    @property
    def accepted(self) -> bool:
        return not (self.objections or self.problem)


def held(project: Project, under_way: OpenSession, ruling: Ruling, stop: Stop) -> Review | None:
    """Let a second agent review the candidate. Return None if no reviewer is configured."""
    wanted = project.config.review
    if wanted.agent is None:
        return None
    project.say("Review: a second agent reviews the work.")
    try:
        agent = registry.from_mapping(wanted.agent, root=project.root)
        with make_checkout(project.git, ruling.commit) as checkout:
            work = _ReviewWork(project, agent, under_way, ruling, folder=checkout.cwd, stop=stop)
            return walk(work, work.turns)
    except (HarnessError, OSError) as error:
        return Review(problem=getattr(error, "message", None) or str(error))


class _ReviewWork:
    name = "The review"
    policy = POLICIES["review"]

    def __init__(
        self, project: Project, agent: Agent, under_way: OpenSession, ruling: Ruling, *, folder: Path, stop: Stop
    ) -> None:
        self._project, self._under_way, self._ruling, self._folder = project, under_way, ruling, folder
        self._said = ""
        wanted, session = project.config.review, under_way.session
        seconds, money = wanted.max_minutes * 60, wanted.max_cost_usd
        transcript = Path(project.layout.transcript(session))
        limits = SessionLimits(
            timeout_seconds=seconds,
            warning_seconds=seconds,
            budgets=(BudgetLimit(name="Review", limit_usd=money),),
            model="",
        )
        self.turns = Turns(
            agent=agent,
            journal=ProjectJournal(project=project, session=session),
            stop=stop,
            watch=watch(limits),
            transcript=transcript.with_name(f"review-{session}.log"),
            timeout_seconds=seconds,
            silence_seconds=project.config.session.response_seconds,
        )

    def brief(self, ruling: Review | None) -> str:
        project, under_way, git = self._project, self._under_way, self._project.git
        base = under_way.base.snapshot.head or git.empty_tree()
        changed = git.text("diff", "--no-ext-diff", "--no-textconv", "-M", base, self._ruling.commit, "--", ".")
        line = self._ruling.line
        steps = line.steps if line else ()
        seen = [f"- {each.step}: {each.result}" + (f" (`{each.command}`)" if each.command else "") for each in steps]
        seen += [f"- finding: {code}" for code in (line.codes if line else ())]
        return prompts.render(
            "review",
            {
                "feature": str(under_way.feature_id),
                "description": under_way.feature.description,
                "features_file": project.features_name,
                "difference": redact(changed)[:DIFFERENCE_CHARACTERS].replace("```", "'''"),
                "seen": "\n".join(seen),
                "objection": OBJECTION,
                "none": NONE,
            },
        )

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        project, under_way = self._project, self._under_way
        brief = Brief(
            prompt=prompt,
            cwd=self._folder,
            session=under_way.session,
            prompt_type="review",
            feature_id=under_way.feature_id,
            run_id=new_run_id(),
            environment=push_retry.no_push_variables(under_way.git_config),
            tools=tool_rules(project),
            sandbox=project.config.sandbox.settings(),
            budget_usd=project.config.review.max_cost_usd,
        )
        log = actions.ActionLog(project, under_way.session, brief.model, under_way.feature_id)

        def heard(event: object) -> None:
            if isinstance(event, Usage):
                log.see(event)

        def started(process: Mapping[str, object]) -> None:
            self._under_way.at(project, "judging", agent=dict(process))

        def ended(outcome: Outcome) -> None:
            self._said = outcome.text_tail

        return TurnRequest(brief=brief, on_started=started, on_event=heard, on_ended=ended)

    def claimed(self) -> bool:
        """Return False, because the harness reads a review only after the agent's turn."""
        return False

    def closed(self) -> None:
        """Do nothing, because no other process can end a review."""

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> Review:
        lines = [line.strip().lstrip("-* ") for line in self._said.splitlines()]
        found = [line.removeprefix(OBJECTION).strip() for line in lines if line.startswith(OBJECTION)]
        objections = tuple(each[:OBJECTION_CHARACTERS] for each in found if each)[:MOST_OBJECTIONS]
        said_none = any(line.startswith(NONE) for line in lines)
        problem = "" if objections or said_none else f"the reviewer names no objection, and does not say {NONE}"
        return Review(objections=objections, problem=problem, used=so_far.used)

    def accepted(self, ruling: Review) -> Review:
        return ruling

    def rejected(self, ruling: Review, ending: Ending | None) -> Review:
        return ruling

    def unfinished(self, ending: Ending) -> Review:
        return Review(problem=ending.message or ending.reason, used=self.turns.so_far.used)
