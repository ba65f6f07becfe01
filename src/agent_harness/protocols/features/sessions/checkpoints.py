"""Checkpoints taken before a session: a git snapshot, and copies of the project's state.

A private ref and the record of the open session both name the snapshot. Rollbacks therefore stay possible even if
``.harness/checkpoints`` is deleted. Checkpoints are kept as follows:

    forever         the newest checkpoint of each completed feature
    while needed    the rollback point of unfinished work or of a running session
    always          the newest ``checkpoints.keep_per_feature`` of each unfinished feature
    for a time      every other checkpoint, until it is older than ``checkpoints.max_age_days``

A checkpoint is deleted together with its private ref. Source: features.md UAH-463..467, UAH-477..479, C09, C31, C34."""

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from agent_harness.errors import HarnessError, StateDamaged
from agent_harness.kernel import clock, files, snapshot
from agent_harness.kernel.json import JsonObject, json_object
from agent_harness.kernel.snapshot import Snapshot
from agent_harness.protocols.features import records, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList


@dataclass(frozen=True, kw_only=True)
class SessionCheckpoint:
    id: str = ""
    timestamp: str | None = None
    session: int | None = None
    feature_id: int | None = None
    git_ref: str | None = None  # HEAD
    features_json_hash: str | None = None
    progress_file_hash: str | None = None
    reason: str = "pre_feature"
    snapshot: Snapshot
    # members of the record that this version does not know
    rest: JsonObject = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: JsonObject) -> "SessionCheckpoint":
        try:
            rest = {**record}
            taken = Snapshot.from_record(rest.pop("snapshot"))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise StateDamaged(f"The record of a checkpoint is incomplete: {error}") from None
        known: JsonObject = {name: rest.pop(name) for name in _MEMBERS & rest.keys()}
        return cls(**known, snapshot=taken, rest=rest)

    @property
    def record(self) -> JsonObject:
        known: JsonObject = {name: getattr(self, name) for name in self.__dataclass_fields__ if name in _MEMBERS}
        return {**known, "snapshot": self.snapshot.as_record(), **self.rest}

    def is_gone(self, project: Project) -> bool:
        # UAH-390
        return project.git.commit_of(self.snapshot.commit) is None


_MEMBERS = SessionCheckpoint.__dataclass_fields__.keys() - {"snapshot", "rest"}


def create(project: Project, session: int, feature_id: int | None, reason: str = "pre_feature") -> SessionCheckpoint:
    checkpoint_id = f"s{session}-{secrets.token_hex(4)}"
    message = f"harness checkpoint {checkpoint_id}"
    taken, _ = repository.named_ref(
        project.git,
        f"refs/harness/checkpoints/{checkpoint_id}",
        lambda ref: snapshot.take(project.git, ref, exclude=project.excluded, message=message),
    )
    checkpoint = SessionCheckpoint(
        id=checkpoint_id,
        timestamp=clock.timestamp(),
        session=session,
        feature_id=feature_id,
        git_ref=taken.head,
        features_json_hash=files.digest(project.layout.features),
        progress_file_hash=files.digest(project.layout.progress),
        reason=reason,
        snapshot=taken,
    )
    clear_unfinished(project)
    _copy_state(project, checkpoint)
    project.store.event("checkpoint_created", checkpoint_id=checkpoint_id, git_ref=taken.head, reason=reason)
    return checkpoint


def differences(project: Project, checkpoint: SessionCheckpoint) -> list[str]:
    now = {
        "HEAD": (project.git.head(), checkpoint.git_ref),
        project.features_name: (files.digest(project.layout.features), checkpoint.features_json_hash),
        project.progress_name: (files.digest(project.layout.progress), checkpoint.progress_file_hash),
    }
    return [name for name, (found, expected) in now.items() if found != expected]


def clear_unfinished(project: Project) -> None:
    place = project.layout.checkpoints
    for name in os.listdir(place) if os.path.isdir(place) and not os.path.islink(place) else ():
        folder = os.path.join(place, name)
        if not os.path.islink(folder) and not os.path.lexists(os.path.join(folder, "checkpoint.json")):
            shutil.rmtree(folder, ignore_errors=True)


def _copy_state(project: Project, checkpoint: SessionCheckpoint) -> None:
    folder = os.path.join(project.layout.checkpoints, checkpoint.id)
    files.own_place(os.path.join(folder, "checkpoint.json"), project.layout.root)
    for path in (project.layout.session_state, project.layout.baseline):
        if os.path.isfile(path):
            files.replace(os.path.join(folder, os.path.basename(path)), files.read_bytes(path))
    files.write_json(os.path.join(folder, "checkpoint.json"), checkpoint.record)


# -- retention ---------------------------------------------------------------------------------------------------------

REFS = "refs/harness/checkpoints/"


def prune(project: Project) -> list[str]:
    """Remove expired checkpoints. Return the removed checkpoint ids."""
    found = _all(project)
    state, session = project.store.state(), project.store.open_session() or {}
    # rollback points of unfinished work, or of a running session
    named = [
        state.feature_checkpoint,
        *(json_object(session.get(k)) for k in ("checkpoint", "base", "rollback")),
    ]
    settings = project.config.checkpoints
    kept = _needed(found, project.store.features(), keep=settings.keep_per_feature) | {
        str(each.get("id")) for each in named if each
    }
    old = clock.now() - timedelta(days=min(settings.max_age_days, 1_000_000))
    # a record without a valid time never expires
    taken = {name: clock.parse(record.get("timestamp")) for name, record in found.items() if name not in kept}
    expired = [name for name, moment in taken.items() if moment is not None and moment < old]
    gone = [name for name in expired if _remove(project, found[name])]
    if gone:
        project.store.event("checkpoints_pruned", "routine", checkpoints=gone)
    return gone


def _needed(found: Mapping[str, JsonObject], document: FeatureList, *, keep: int) -> set[str]:
    kept: set[str] = set()
    for feature in document.features:
        own = [name for name, record in found.items() if record.get("feature_id") == feature.id]
        own.sort(key=lambda name: (records.number(found[name].get("session")), str(found[name].get("timestamp"))))
        most = 1 if feature.passes else keep
        kept.update(own[len(own) - most :] if most < len(own) else own)
    return kept


def _all(project: Project) -> dict[str, JsonObject]:
    """Return the records of all checkpoints. The keys are checkpoint ids."""
    found: dict[str, JsonObject] = {}
    listed = project.git.text("for-each-ref", "--format=%(refname) %(creatordate:iso-strict)", REFS)
    for line in listed.splitlines():
        ref, _, taken = line.partition(" ")
        found[ref.removeprefix(REFS)] = {"timestamp": taken, "snapshot": {"ref": ref}}
    place = project.layout.checkpoints
    for name in os.listdir(place) if os.path.isdir(place) and not os.path.islink(place) else ():
        try:
            record = files.read_json(os.path.join(place, name, "checkpoint.json"))
        except (OSError, StateDamaged):
            continue
        if record.get("id") == name:
            found[name] = {**record, "folder": os.path.join(place, name)}
    return found


def _remove(project: Project, record: JsonObject) -> bool:
    snapshot = record.get("snapshot")
    ref = str(snapshot.get("ref")) if isinstance(snapshot, Mapping) else ""
    try:
        if ref.startswith(REFS) and project.git.commit_of(ref):
            project.git.update_ref(ref, None)
    except HarnessError:
        return False
    if folder := record.get("folder"):
        shutil.rmtree(folder, ignore_errors=True)
    return True
