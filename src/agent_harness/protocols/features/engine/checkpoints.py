"""The recovery point taken before a session: a git snapshot and copies of the state.

The snapshot is a private ref, so that deleting ``.harness/checkpoints`` takes no way back away; its record also goes
into the open session below ``.git``. Source: features.md UAH-463..467, C09, C31.
"""

import os
import secrets
import shutil

from agent_harness.kernel import clock, files, snapshot
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.snapshot import Snapshot
from agent_harness.protocols.features import private_refs
from agent_harness.protocols.features.project import Project


def create(project: Project, session: int, feature_id: int | None, reason: str = "pre_feature") -> JsonObject:
    """A recovery point of everything as it is now; the record that ``rollback_point`` understands."""
    checkpoint_id = f"s{session}-{secrets.token_hex(4)}"
    message = f"harness checkpoint {checkpoint_id}"
    taken, _ = private_refs.named(
        project.git,
        f"refs/harness/checkpoints/{checkpoint_id}",
        lambda ref: snapshot.take(project.git, ref, exclude=project.excluded, message=message),
    )
    record: JsonObject = {
        "id": checkpoint_id,
        "timestamp": clock.timestamp(),
        "session": session,
        "feature_id": feature_id,
        "git_ref": taken.head,
        "features_json_hash": files.digest(project.layout.features),
        "progress_file_hash": files.digest(project.layout.progress),
        "reason": reason,
        "snapshot": taken.as_record(),
    }
    clear_unfinished(project)
    _copy_state(project, record)
    project.store.event("checkpoint_created", checkpoint_id=checkpoint_id, git_ref=taken.head, reason=reason)
    return record


def rollback_point(record: JsonObject) -> Snapshot:
    """The snapshot in a checkpoint's record; ``StateDamaged`` when the record is not whole."""
    return Snapshot.from_record(record["snapshot"])


def is_gone(project: Project, record: JsonObject) -> bool:
    """Whether nothing of it is left in the repository, so that no rollback can use it (UAH-390)."""
    return project.git.commit_of(rollback_point(record).commit) is None


def differences(project: Project, record: JsonObject) -> list[str]:
    """What is not as the checkpoint has it: HEAD, features.json, the progress file (UAH-471)."""
    now = {
        "HEAD": (project.git.head(), record.get("git_ref")),
        project.features_name: (files.digest(project.layout.features), record.get("features_json_hash")),
        project.progress_name: (files.digest(project.layout.progress), record.get("progress_file_hash")),
    }
    return [name for name, (found, expected) in now.items() if found != expected]


def clear_unfinished(project: Project) -> None:
    """Removes the folders of copies that a killed harness left half made; their record is written last."""
    place = project.layout.checkpoints
    for name in os.listdir(place) if os.path.isdir(place) and not os.path.islink(place) else ():
        folder = os.path.join(place, name)
        if not os.path.islink(folder) and not os.path.lexists(os.path.join(folder, "checkpoint.json")):
            shutil.rmtree(folder, ignore_errors=True)


def _copy_state(project: Project, record: JsonObject) -> None:
    folder = os.path.join(project.layout.checkpoints, record["id"])
    os.makedirs(folder, exist_ok=True)
    for path in (project.layout.session_state, project.layout.baseline):
        if os.path.isfile(path):
            files.replace(os.path.join(folder, os.path.basename(path)), files.read_bytes(path))
    files.write_json(os.path.join(folder, "checkpoint.json"), record)
