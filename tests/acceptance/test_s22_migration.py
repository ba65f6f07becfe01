"""S22: state of an older harness is migrated with a backup, of a newer one refused."""

import json
import shutil
from pathlib import Path

import pytest

from agent_harness.testing.feature_list_project import fingerprint

from .calc import CalcProject
from .script import honest, turn

GOLDEN = Path(__file__).parents[1] / "golden" / "features"


def put_state(calc: CalcProject, name: str) -> None:
    """The golden state of one schema in place of the fixture's."""
    shutil.rmtree(calc.root / ".harness")
    shutil.copytree(GOLDEN / name, calc.root / ".harness")


def backups(calc: CalcProject) -> list[Path]:
    return sorted(calc.root.glob(".harness.backup.*"))


def test_version_says_what_is_needed_and_changes_nothing(calc: CalcProject) -> None:
    """UAH-028, UAH-029, UAH-030, UAH-042, UAH-068, C45."""
    put_state(calc, "v1")
    before = calc.fingerprint()
    told = calc.harness("version")
    assert told.code == 0, told.text
    for line in ("Harness version: 1.2.1", "Schema version: 3", "Project state schema: 1"):
        assert line in told.out
    assert "Status: Migration needed (v1 → v3)" in told.out
    assert "harness migrate" in told.out
    assert "harness run" in told.out
    assert calc.fingerprint() == before
    assert calc.harness("version", cwd=calc.base).code == 0
    assert calc.harness("migrate").code == 0
    assert "Up to date" in calc.harness("version").out


@pytest.mark.kept("v2")
@pytest.mark.parametrize("name", ["v1", "v2"])
def test_migrate_keeps_everything_and_backs_up(calc: CalcProject, name: str) -> None:
    """UAH-036, UAH-037, UAH-038, UAH-039, UAH-040, UAH-041, UAH-069, UAH-122, C46."""
    put_state(calc, name)
    old = calc.state
    before = fingerprint(calc.root / ".harness")
    done = calc.harness("migrate")
    assert done.code == 0, done.text
    assert "Backing up .harness/ to .harness.backup." in done.out
    assert ("Migrating schema v1 → v2..." in done.out) == (name == "v1")
    assert "Migrating schema v2 → v3..." in done.out
    assert "Migration complete." in done.out
    wanted = json.loads((GOLDEN / "v3" / "session_state.json").read_text())
    assert calc.state == {**old, **{k: wanted[k] for k in ("schema_version", "harness_version", "timeout_count")}}
    assert "passing_tests" in calc.baseline
    assert fingerprint(backups(calc)[0]) == before
    assert calc.changes() == []
    steps = [(row["from"], row["to"]) for row in calc.events("migration_complete")]
    assert steps == ([(1, 2), (2, 3)] if name == "v1" else [(2, 3)])
    assert len(calc.events("migration_start")) == len(steps)
    again = calc.harness("migrate")
    assert again.code == 0
    assert "Nothing to migrate" in again.out
    assert len(backups(calc)) == 1


@pytest.mark.exhaustive
def test_a_baseline_that_an_old_state_lacks_is_measured(calc: CalcProject) -> None:
    """UAH-036, C23: what passed before the migration stays protected after it."""
    calc.accept(1)
    put_state(calc, "v1")
    assert calc.harness("migrate").code == 0
    assert len(calc.baseline["passing_tests"]) == 2


@pytest.mark.exhaustive
def test_two_backups_of_one_day_do_not_collide_and_none_is_made_on_request(calc: CalcProject) -> None:
    """UAH-039, UAH-070, C46."""
    for _ in range(2):
        put_state(calc, "v2")
        assert calc.harness("migrate").code == 0
    assert len(backups(calc)) == 2
    put_state(calc, "v2")
    bold = calc.harness("migrate", "--no-backup")
    assert bold.code == 0
    assert "WARNING: Proceeding without backup." in bold.out
    assert len(backups(calc)) == 2
    assert calc.state["schema_version"] == 3


def test_a_run_migrates_first_unless_told_not_to(calc: CalcProject) -> None:
    """UAH-031, UAH-032, UAH-033, UAH-041, UAH-229, UAH-231."""
    put_state(calc, "v2")
    settings = calc.root / ".harness.yaml"
    settings.write_text(settings.read_text() + "compatibility:\n  on_older_state: abort\n")
    calc.commit("Do not migrate alone")
    refused = calc.run([turn(honest(1))])
    assert refused.code == 4, refused.text
    assert "State needs migration from schema 2 to 3." in refused.err
    assert "Run 'harness migrate' or set on_older_state: migrate" in refused.err
    settings.write_text(settings.read_text().replace("abort", "migrate\n  backup_before_migrate: false"))
    calc.commit("Migrate alone")
    calc.git("push", "-q")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert calc.state["schema_version"] == 3
    assert backups(calc) == []
    assert calc.passing() == [1]


def test_newer_state_is_refused_or_let_pass_with_a_warning(calc: CalcProject) -> None:
    """UAH-034, UAH-035, UAH-230."""
    state = calc.state | {"schema_version": 4, "harness_version": "9.0.0"}
    (calc.root / ".harness/session_state.json").write_text(json.dumps(state))
    for command in (("run",), ("run", "--dry-run"), ("skip", "--feature", "1"), ("migrate",)):
        refused = calc.harness(*command, agent=[turn(honest(1))] if command == ("run",) else None)
        assert refused.code == 4, refused.text
        for word in ("9.0.0", "schema 4", "1.2.1", "schema 3", "Please upgrade the harness."):
            assert word in refused.err
    assert calc.harness("status").code == 0
    settings = calc.root / ".harness.yaml"
    settings.write_text(settings.read_text() + "compatibility:\n  on_newer_state: warn\n")
    calc.commit("Go on")
    calc.git("push", "-q")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "State is from newer harness version, proceeding with caution" in ran.text
