"""The end of it all: state goes aside, commits, logs and costs stay (C39). And the way back from there.

Source: features.md UAH-067, C39.
"""

import os
from collections.abc import Sequence

from agent_harness.errors import NotAProject, Refused
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import records
from agent_harness.protocols.features.engine import locking, recover
from agent_harness.protocols.features.engine.locking import locked
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.store import free_name
from agent_harness.protocols.features.verdict import quality
from agent_harness.protocols.features.verdict.judge import Judge, Suite

WARNING = "Are you sure? This will:\n- Stop all operations\n- Keep git commits as-is\n- Clear harness state\n"


def abort(project: Project) -> JsonObject:
    """Ends the session that runs, hands its work off, and moves the state aside; the person has confirmed."""
    project.require_initialised()
    project.store.settle_in()
    project.store.write_pause({"reason": "aborted by a person", "at": clock.timestamp()})
    answer: JsonObject = {}

    def act() -> None:
        recover.recover(project)
        answer.update(clear(project))

    locking.wait_and(project, act)
    return answer


def clear(project: Project) -> JsonObject:
    """Moves the state of sessions to ``.harness/aborted-TIME/``, under the lock."""
    at = project.layout
    stamp = clock.now().strftime("%Y%m%dT%H%M%S")
    folder = free_name(os.path.join(at.state_dir, f"aborted-{stamp}"))
    os.makedirs(folder)
    for path in (at.session_state, at.baseline, at.file_sizes, at.quality, at.checkpoints):
        for each in (path, f"{path}.bak"):
            if os.path.lexists(each):
                os.rename(each, os.path.join(folder, os.path.basename(each)))
    project.store.write_pause(None)
    name = at.relative(folder)
    project.store.event("aborted", "critical", kept_in=name)
    project.say(f"Harness stopped. Its state is kept in {name}; `harness resume` begins anew from features.json.")
    return {"kept_in": name, "next": "harness resume"}


def can_begin_anew(project: Project) -> bool:
    """Whether a project was here whose state an abort has moved aside."""
    try:
        names = os.listdir(project.layout.state_dir)
    except OSError:
        return False
    return not project.store.initialised() and any(name.startswith("aborted-") for name in names)


def begin_anew(project: Project) -> JsonObject:
    """New state from features.json, a run of the suite at HEAD, and what the logs know of earlier sessions."""
    if not can_begin_anew(project):
        raise NotAProject(f"{project.root} is not an initialised project", hint="harness init --spec FILE")
    with locked(project):
        project.store.settle_in()
        facts = suite_at_head(project)
        if facts.problem:
            project.say(f"Warning: the test command gave no report ({facts.problem})")
        fresh_state(project, facts)
    project.say("Rebuilt the state from features.json and a fresh test baseline.\nReady for: harness run")
    return {"answered": None, "next": "harness run"}


def suite_at_head(project: Project) -> Suite:
    """What the whole suite says about HEAD."""
    commit = project.git.head()
    if commit is None:
        raise Refused("The repository has no commit yet", hint="git commit")
    return Judge(project).suite(commit)


def fresh_state(project: Project, facts: Suite, *, known_failures: Sequence[str] = ()) -> None:
    """Baseline, file sizes and session state of HEAD; the state itself is written last."""
    at, document, commit = project.layout, project.store.features(), str(project.git.head())
    last = max(0, *project.store.recorded_sessions(), 0)
    baseline = records.Baseline({}).measured(
        facts.passing,
        facts.total,
        session=last,
        timestamp=clock.timestamp(),
        known_failures=list(known_failures),
        tree=project.git.tree_of(commit),
    )
    tests = [f.test_file for f in document.features]
    project.store.write_baseline(baseline)
    project.store.write(at.file_sizes, quality.file_sizes(project.git, commit, last, {}, tests))
    state = records.SessionState({**records.NOTHING_UNFINISHED, "last_session": last, "timestamp": clock.timestamp()})
    project.store.write_state(state)
