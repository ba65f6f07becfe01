"""First part of ``harness run --workers N``, before the coordinator starts, and the preview of ``--dry-run``.

A protocol opens its project, recovers interrupted work, and passes its ``ProjectPort`` to this module. This module
contains the part for all protocols: the target branch, the run's folder, the engine, the settings, and the next
command."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_harness.errors import Refused, UnsafeTree
from agent_harness.kernel import trusted_state
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import PushTarget
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import fresh_start, merge_queue, workspace_setup
from agent_harness.parallel.coordinator import Coordinator, RunTerms
from agent_harness.parallel.decision import choices
from agent_harness.parallel.engine import Engine, EngineFactory
from agent_harness.parallel.items import OpenItem, ProjectPort, odd_touches
from agent_harness.parallel.people import PreviewedRun, refuse_gone
from agent_harness.parallel.plan import WORKING
from agent_harness.session.parallel_settings import ParallelSettings
from agent_harness.supervision.dispatch import RefusalPolicy
from agent_harness.supervision.interruption import Stop

INTERRUPTED: Mapping[str, object] = {
    "reason": "user_pause",
    "message": "Interrupted; the next run continues.",
    "exit_code": 130,
}
"""Answer that a run gives if its coordinator was interrupted."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    workers: int
    agents: Sequence[str]  # specifications, in their order
    policy: RefusalPolicy
    max_attempts: int | None = None
    branch: str | None = None  # that the work lands on; None: the checked-out one
    only_land: bool = False  # proven work of an earlier run lands, its running work is released
    engine_factory: EngineFactory | None = None  # makes the engine that carries attempts out; else this machine does

    def told_attempts(self) -> JsonObject:
        return {"agents": [*self.agents], "wait": self.policy.wait, "now": self.policy.ignore_once}


def existing_folder(stands_for: str, project: str) -> str | None:
    """Return the folder of the project's parallel runs, or None."""
    # stands_for: the path that identifies the project
    found = trusted_state.existing(stands_for, project, writable=False)
    return os.path.join(found, "parallel") if found else None


def made_folder(stands_for: str, project: str) -> str:
    """Create and return the folder of the project's parallel runs."""
    # stands_for: the path that identifies the project
    found = trusted_state.make(stands_for, project)[0]
    if found is None:
        raise Refused("Cannot write a state folder outside the project", hint="set XDG_STATE_HOME to a writable folder")
    os.makedirs(folder := os.path.join(found, "parallel"), mode=0o700, exist_ok=True)
    return folder


def branch_to_land_on(git: Git | None, folder: str | None, named: str | None, *, otherwise: str) -> str:
    """Return the full name of the target branch, by default the checked-out branch."""
    # otherwise: a command that needs no workers, for the hint
    if git is not None and folder is not None:
        refuse_gone(git, folder, named)
    if git is None or git.head() is None:
        raise UnsafeTree("--workers needs a git work tree with a commit", hint=f"git init  # or {otherwise}")
    return merge_queue.target(git, named)


@dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """Run that is ready to start its coordinator, with its folder, branch and engine."""

    request: RunRequest
    git: Git
    branch: str
    folder: str
    say: Callable[[str], None]
    stop: Stop
    engine: Engine | None

    @classmethod
    def of(
        cls,
        request: RunRequest,
        git: Git,
        branch: str,
        folder: str,
        *,
        refs: str,
        say: Callable[[str], None],
        stop: Stop,
    ) -> "PreparedRun":
        """Return a run that is prepared in ``folder``."""
        # refs: prefix of the refs for jobs on other machines
        engine = request.engine_factory(git, folder, say, refs) if request.engine_factory else None
        return cls(request=request, git=git, branch=branch, folder=folder, say=say, stop=stop, engine=engine)

    def replace_unreadable_ledger(self, claims: Mapping[str, str]) -> None:
        fresh_start.where_unreadable(self.folder, self.git, self.branch, claims, say=self.say)

    def say_odd_touches(self, found: Mapping[str, object]) -> None:
        for line in odd_touches(found):
            self.say(line)

    def execute(
        self,
        port: ProjectPort,
        settings: ParallelSettings,
        *,
        sandbox: object,
        max_attempts: int | None,
        max_cost_usd: float,
        accounts: Sequence[str],
    ) -> JsonObject:
        terms = RunTerms(
            workers=self.request.workers,
            say=self.say,
            stop=self.stop,
            max_attempts=max_attempts,
            max_cost_usd=max_cost_usd,
            settings=settings,
            sandbox=sandbox,
            only_land=self.request.only_land,
            engine=self.engine,
            accounts=tuple(accounts),
            policy=self.request.policy,
        )
        with self.stop.listening():
            return Coordinator(port, self.git, self.folder, self.branch, terms).run()


def next_command(done: JsonObject, otherwise: str, *, paused: bool) -> str:
    """Return the command that the user should type after a run."""
    if paused:
        return "harness resume"
    return str(done.get("hint") or ("harness queue" if done["reason"] == "held" else otherwise))


# ---- before it begins ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunPreview:
    """Description of a run that ``preview`` examines but does not start."""

    git: Git
    folder: str  # of the run; it need not exist
    branch: str
    workers: int
    settings: ParallelSettings
    own: Sequence[str]  # patterns of the harness's own files
    items: Sequence[OpenItem]
    waits: Mapping[str, str]  # open items that cannot start for another reason than slots, with that reason
    most: int | None  # attempts
    limits: JsonObject  # of the run, as the answer has them
    more: JsonObject = field(default_factory=dict)  # what only this protocol's answer has


def preview(found: PreviewedRun, run: RunPreview) -> JsonObject:
    """Return the items that the run would start, and why other items must wait."""
    known = found.plan
    free = run.workers - len(known.in_state(WORKING))
    most = free if run.most is None else min(free, run.most)
    chosen = [*choices(known, run.items, most)]
    starts = [each for each in chosen if each.starts]
    return {
        "workers": run.workers,
        "branch": run.branch,
        "starts": [
            {"slot": f"w{n}", "item": each.item.id, "title": each.item.title, "reason": each.reason}
            for n, each in enumerate(starts, 1)
        ],
        "waits": [{"item": each.item.id, "reason": each.reason} for each in chosen if not each.starts]
        + [{"item": item, "reason": reason} for item, reason in run.waits.items()],
        "lands": [*known.queue],
        "unsure": [*found.unsure],
        "limits": run.limits,
        **run.more,
        "ports": run.settings.ports,
        "lend": [*workspace_setup.linkable_in(run.git, run.settings.lent, run.own, installed=run.settings.lend)],
    }


def preview_lines(found: JsonObject, at_most: str, named: Callable[[str], str] = str) -> list[str]:
    """Return the preview as lines of text."""
    # at_most describes the limits; named formats an item's id
    text = [f"{found['workers']} workers on {_short(found['branch'])}:"]
    text += [f"  {each['slot']}  {named(each['item'])}: {each['title']} ({each['reason']})" for each in found["starts"]]
    text += [f"      {named(each['item'])}: {each['reason']}" for each in found["waits"]]
    text += [f"Proven, and merged first: {', '.join(found['lands'])}"] if found["lands"] else []
    if unsure := [named(each) for each in found["unsure"]]:
        text += [f"Jobs that may still run on remote workers: {', '.join(unsure)}."]
        text += ["The run first asks their server, collects the results, and starts lost jobs again."]
    text += [f"Each merge is pushed to {found['push']}"] if found.get("push") else []
    text += [f"Each workspace has copies of {', '.join(found['lend'])}"] if found["lend"] else []
    return [*text, f"At most {at_most}; {found['ports']} ports per slot."]


def shown_target(target: PushTarget | None) -> str | None:
    return f"{target.remote}, {_short(target.branch)}" if target else None


def _short(branch: str) -> str:
    return branch.removeprefix("refs/heads/")
