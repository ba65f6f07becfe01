"""How long checkpoints are kept (features.md UAH-477..479, C34).

    for ever        the newest of each completed feature
    while it lasts  what unfinished work, or a session under way, goes back to
    always          the newest ``checkpoints.keep_per_feature`` of each unfinished feature
    for a time      every other, until it is older than ``checkpoints.max_age_days``

A checkpoint goes with its private ref, which kept its commits alive; a ref whose folder is gone has its time as well.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from agent_harness.errors import HarnessError, StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList

REFS = "refs/harness/checkpoints/"


def prune(project: Project) -> list[str]:
    """Removes the checkpoints that have had their time; their ids. One that cannot be removed stays."""
    found = _found(project)
    settings = project.config.checkpoints
    kept = needed(found, project.store.features(), keep=settings.keep_per_feature) | _referenced(project)
    old = clock.now() - timedelta(days=min(settings.max_age_days, 1_000_000))
    gone = [name for name in expired(found, kept, old) if _remove(project, found[name])]
    if gone:
        project.store.event("checkpoints_pruned", "routine", checkpoints=gone)
    return gone


def needed(found: Mapping[str, JsonObject], document: FeatureList, *, keep: int) -> set[str]:
    """The checkpoints that stay whatever their age is."""
    kept: set[str] = set()
    for feature in document.features:
        own = [name for name, record in found.items() if record.get("feature_id") == feature.id]
        own.sort(key=lambda name: (records.number(found[name].get("session")), str(found[name].get("timestamp"))))
        most = 1 if feature.passes else keep
        kept.update(own[len(own) - most :] if most < len(own) else own)
    return kept


def expired(found: Mapping[str, JsonObject], kept: Iterable[str], old: datetime) -> list[str]:
    """Those that nothing needs and that were taken before a moment; one without a readable time stays."""
    spared = set(kept)
    taken = {name: clock.parse(record.get("timestamp")) for name, record in found.items() if name not in spared}
    return [name for name, moment in taken.items() if moment is not None and moment < old]


def _found(project: Project) -> dict[str, JsonObject]:
    """Every checkpoint by its id: from its folder, or else from its ref."""
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


def _referenced(project: Project) -> set[str]:
    """What unfinished work, or a session under way, goes back to."""
    state, session = project.store.state(), project.store.open_session() or {}
    named = [state.feature_checkpoint, *(session.get(key) for key in ("checkpoint", "base", "rollback"))]
    return {str(record.get("id")) for record in named if isinstance(record, Mapping)}


def _remove(project: Project, record: JsonObject) -> bool:
    """The ref first: a folder without it is found again, a ref without its folder has to grow old."""
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
