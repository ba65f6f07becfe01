"""What the agent may not touch: the harness's own files, put back as they were when its turn began.

State files and checkpoints come back from memory, the settings from the commit before the session. Logs are only ever
appended to and are not compared. Source: features.md C31, S09.
"""

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.protocols.features.engine import checkpoints
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.store import free_name, own_place

CODE = "harness_state_tampered"


def put_back(project: Project, under_way: OpenSession) -> list[str]:
    """Makes the harness's own files what they were; the names of those that were not."""
    return [*_settings(project, under_way), *project.store.tampered()]


def sentence(changed: list[str]) -> str:
    """What the person is told."""
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return "The agent changed files of the harness: " + ", ".join(changed[:5]) + more


def report(project: Project, under_way: OpenSession) -> None:
    """Puts everything back and says so, where a session ends without a verdict on its work."""
    if changed := put_back(project, under_way):
        project.say(f"{sentence(changed)}; put back.")
        project.store.event(
            CODE, "critical", session=under_way.session, feature_id=under_way.feature_id, message=sentence(changed)
        )


def put_back_after_crash(project: Project, under_way: OpenSession) -> str | None:
    """The settings as they were before a session that was cut short; where the others are kept, if they differed.

    Whether the agent or a person has edited them since cannot be told, so nothing of it is lost, and it counts for
    nothing until a person puts it there.
    """
    at = project.layout
    try:
        found = files.read_bytes(at.settings)
    except (OSError, HarnessError):
        found = b""
    if not _settings(project, under_way):
        return None
    kept = free_name(os.path.join(at.state_dir, f"settings-of-session-{under_way.session}.yaml"))
    own_place(kept, at.root)
    files.replace(kept, found)
    project.store.event(
        CODE,
        "critical",
        session=under_way.session,
        message=sentence([at.relative(at.settings)]),
        kept=at.relative(kept),
    )
    return at.relative(kept)


def _settings(project: Project, under_way: OpenSession) -> list[str]:
    path = project.layout.settings
    name = project.layout.relative(path)
    expected = project.git.show(checkpoints.rollback_point(under_way.checkpoint).commit, name)
    return [name] if expected is not None and project.store.restore(path, expected) else []
