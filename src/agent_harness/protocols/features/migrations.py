"""Migration of older state files, after a backup. Version 2 adds test_baseline.json. If this file is missing, a run of
the suite at HEAD creates it. Version 3 adds timeout_count. Source: features.md section C, C45, C46."""

import os
import shutil
from collections.abc import Callable

from agent_harness.errors import Refused
from agent_harness.kernel import clock
from agent_harness.kernel.files import free_name
from agent_harness.kernel.git import own_output
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.verdict.project_judge import Judge

NOW = records.SCHEMA_VERSION


def stored_schema(project: Project) -> int | None:
    """Return the state's schema version, or None if no state exists (UAH-030)."""
    if not project.store.initialised():
        return None
    found = project.store.stored_state().get("schema_version")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 1


def bring_up_to_date(project: Project) -> None:
    """Migrate older state. Raise ``Refused`` if the settings forbid this, or forbid newer state (UAH-031..035)."""
    found = stored_schema(project)
    if found is None or found == NOW:
        return
    settings = project.config.compatibility
    if found > NOW:
        refuse_newer(project)
    elif settings.on_older_state == "abort":
        raise Refused(
            f"State needs migration from schema {found} to {NOW}. Run 'harness migrate' or set on_older_state: migrate",
            hint="harness migrate",
        )
    else:
        migrate(project, backup=settings.backup_before_migrate)


def refuse_newer(project: Project) -> None:
    """Raise ``Refused`` if a newer harness version wrote the state, unless the settings allow it."""
    found = stored_schema(project)
    if found is None or found <= NOW:
        return
    if project.config.compatibility.on_newer_state == "warn":
        project.say("Warning: State is from newer harness version, proceeding with caution")
        return
    made_by = project.store.stored_state().get("harness_version") or "unknown"
    raise Refused(
        f"The state was written by harness {made_by} (schema {found}); this is harness {records.HARNESS_VERSION} "
        f"(schema {NOW}). Please upgrade the harness.",
        hint="harness version",
    )


def migrate(project: Project, *, backup: bool) -> JsonObject:
    """Migrate the state to the current schema. The caller must hold the lock."""
    found = stored_schema(project)
    refuse_newer(project)
    if found is None or found >= NOW:
        project.say(f"Nothing to migrate: the state has schema v{found}.")
        return {"from": found, "to": found, "backup": None, "next": "harness run"}
    kept = _back_up(project) if backup else None
    if not backup:
        project.say("WARNING: Proceeding without backup.")
    for step in range(found, NOW):
        project.say(f"Migrating schema v{step} → v{step + 1}...")
        steps = {"from": step, "to": step + 1}
        project.store.event("migration_start", **steps)
        _STEPS[step](project)
        project.store.event("migration_complete", **steps)
    project.say("Migration complete.")
    return {"from": found, "to": NOW, "backup": kept, "next": "harness run"}


def version(project: Project | None) -> JsonObject:
    """Return the versions of the harness and of the state (UAH-068)."""
    found = stored_schema(project) if project else None
    if found is None:
        status = "No project state here"
    elif found < NOW:
        status = f"Migration needed (v{found} → v{NOW})"
    else:
        status = "Up to date" if found == NOW else "State is newer than this harness. Please upgrade the harness."
    return {
        "harness_version": records.HARNESS_VERSION,
        "schema_version": NOW,
        "state_schema": found,
        "status": status,
        "migration_needed": found is not None and found < NOW,
    }


def _back_up(project: Project) -> str:
    # C46
    at = project.layout
    folder = free_name(f"{at.state_dir}.backup.{clock.now():%Y%m%d}")
    name = at.relative(folder)
    project.say(f"Backing up {at.relative(at.state_dir)}/ to {name}/")
    own_output.ignore(project.git.repository, f"{at.relative(at.state_dir)}.backup.*/")
    shutil.copytree(
        at.state_dir, folder, symlinks=True, ignore=lambda where, _: ["lock"] if where == at.state_dir else []
    )
    return name


def _to_2(project: Project) -> None:
    if not os.path.exists(project.layout.baseline):
        head = project.git.head()
        facts = Judge(project).suite(head) if head else None
        if facts is None or facts.problem:
            project.say("Warning: the test suite gave no results; the baseline starts empty.")
        baseline = records.Baseline({}).measured(
            facts.passing if facts else (),
            facts.total if facts else 0,
            session=records.number(project.store.stored_state().get("last_session")),
            timestamp=clock.timestamp(),
            tree=project.git.tree_of(head) if head else None,
        )
        project.store.write_baseline(baseline)
    _stamp(project, 2)


def _to_3(project: Project) -> None:
    _stamp(project, 3, timeout_count=records.number(project.store.stored_state().get("timeout_count")))


def _stamp(project: Project, schema: int, **members: object) -> None:
    stored = project.store.stored_state()
    stamped = {**stored, **members, "harness_version": records.HARNESS_VERSION, "schema_version": schema}
    project.store.write(project.layout.session_state, stamped)


_STEPS: dict[int, Callable[[Project], None]] = {1: _to_2, 2: _to_3}
