"""Maintenance mode of a project that is complete: the whole suite from time to time, until `harness stop`.

No agent is started. A failing suite ends the mode with the question about false positives (E9), which a person answers.
Source: features.md UAH-072, UAH-484, UAH-485, UAH-488, C51.
"""

import os
import time

from agent_harness.errors import Busy
from agent_harness.kernel import clock, files, owner
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import questions
from agent_harness.protocols.features.engine.locking import locked
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.store import own_place
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.supervision import interruption

LOOK_SECONDS = 0.5


def maintain(project: Project) -> JsonObject:
    """Checks the suite at every interval until somebody says stop; ``Escalated`` when it fails."""
    path = project.layout.maintenance
    own_place(path, project.layout.root)
    files.write_json(path, {"since": clock.timestamp(), "harness": owner.current().as_record()})
    project.store.event("maintenance_started")
    project.say("Entering maintenance mode...\nHarness will run periodic health checks. End it with: harness stop")
    checks = 0
    try:
        with interruption.watched(lambda: not os.path.lexists(path)) as stop, stop.listening():
            while _wait(project, stop):
                checks += _check(project)
    except KeyboardInterrupt:
        pass  # the second Ctrl-C ends it like the first
    finally:
        if os.path.lexists(path):
            os.unlink(path)
        project.store.event("maintenance_ended", checks=checks)
    project.say("Maintenance mode ended.")
    return {"checks": checks, "next": "harness status"}


def stop(project: Project) -> JsonObject:
    """Ends the maintenance mode; whether it was on."""
    path = project.layout.maintenance
    there = os.path.lexists(path)
    if there:
        os.unlink(path)
    project.say("Maintenance mode stopped." if there else "Maintenance mode is not on.")
    return {"stopped": there, "next": "harness status"}


def _wait(project: Project, stop: interruption.Stop) -> bool:
    """Whether the interval is over; false as soon as somebody wants the end."""
    until = time.monotonic() + project.config.maintenance.interval_minutes * 60 * clock.time_scale()
    while stop.requested() is None:
        left = until - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(LOOK_SECONDS, left))
    return False


def _check(project: Project) -> bool:
    """One look at the whole suite; left out while another harness is at work here."""
    try:
        with locked(project):
            questions.forget_passing(project)
            facts = Judge(project).suite(project.git.head() or "HEAD")
            proven.require(project, facts)
    except Busy:
        return False
    project.store.event("maintenance_check", "routine", passing=len(facts.passing))
    project.say(f"{clock.timestamp()} Health check: {len(facts.passing)} tests pass.")
    return True
