"""A project as every view sees it: the same values for all protocols, read as the records grow, and never an error."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import owner, trusted_state
from agent_harness.protocols.features import api as features
from agent_harness.protocols.longtask import api as long_task
from agent_harness.protocols.tasklist import api as task_list
from agent_harness.session.ledger import ClaimVerdict, write
from agent_harness.session.project_view import ProjectReader
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task

AT, LATER = "2026-01-05T09:00:00Z", "2026-01-05T09:10:00Z"


class Kind:
    """A project of one kind with two sessions, of which the second is of unknown cost, and how one more is written."""

    def __init__(self, root: Path, reader: Callable[[], ProjectReader], place: str, journal: Path, rows: Any) -> None:
        self.root, self.reader, self.journal, self.rows = root, reader, journal, rows
        self.home = Path(str(trusted_state.make(place, str(root))[0]))
        journal.parent.mkdir(parents=True, exist_ok=True)
        self.add(1, 0.5)
        self.add(2, None)

    def add(self, number: int, cost: float | None) -> None:
        with self.journal.open("a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in self.rows(number, cost))


def feature_project(root: Path) -> Kind:
    FeatureListProject.made(root, True, False)

    def rows(number: int, cost: float | None) -> list[Any]:
        times = {"started_at": AT, "ended_at": LATER, "duration_seconds": 600.0}
        ended = {"session_id": number, "feature_id": 1, "termination_reason": "complete", "rejected": True}
        ended |= {"model": ["m", "n"], "base": "b", "head": "h", "rescue_ref": "r", "turns": 2}
        return [{**times, **ended, "tokens_used": {"input": 10, "output": 2}, "cost_usd": cost, "agent": "codex"}]

    layout = features.layout_of(root)
    return Kind(root, lambda: features.reader(layout), layout.git_dir, Path(layout.log("sessions.jsonl")), rows)


def list_project(root: Path) -> Kind:
    project = TaskListProject(root, task("task-001", status="completed"), task("task-002"))

    def rows(number: int, cost: float | None) -> list[Any]:
        used = {"input_tokens": 10, "output_tokens": 2, "cost_usd": cost, "agent": "codex"}
        used |= {"model": ["m", "n"], "base": "b", "head": "h", "rescue_ref": "r", "turns": 2}
        return [{"at": LATER, "session": number, "task_id": "task-001", "result": "failed", **used}]

    place, journal = project.layout.tasks, Path(project.layout.costs)
    return Kind(root, lambda: task_list.reader(str(root)), place, journal, rows)


def long_project(root: Path) -> Kind:
    LongTaskProject.of_book(root)

    def rows(number: int, cost: float | None) -> list[Any]:
        usage = {"inputTokens": 10, "outputTokens": 2, **({} if cost is None else {"costUsd": cost})}
        begun = {"type": "worker_started", "at": AT, "worker": "codex"}
        ended = {"type": "worker_failed", "at": LATER, "worker": "codex", "reason": "exit 1", "usage": usage}
        course = {"model": ["m", "n"], "base": "b", "head": "h", "rescueRef": "r", "turns": 2}
        return [begun, {**ended, **course}]

    journal = root / "runs/2026-01-05.jsonl"
    return Kind(root, lambda: long_task.reader(root), str(root / "task.json"), journal, rows)


KINDS = {"features": feature_project, "tasklist": list_project, "longtask": long_project}


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return KINDS[request.param](tmp_path / "project")


def test_all_kinds_of_projects_give_the_same_values(made: Kind) -> None:
    write(str(made.home / "verdicts.jsonl"), ClaimVerdict(item="1", verdict="rejected", codes=("regression",)))
    view = made.reader().load()
    assert view.gaps == ()
    first, second = view.sessions
    assert (first.number, first.agent, first.tokens) == (1, "codex", {"input": 10, "output": 2})
    assert (first.model, first.base, first.head, first.rescue_ref, first.turns) == ("m, n", "b", "h", "r", 2)
    assert (first.cost_usd, second.cost_usd, second.ended) == (0.5, None, LATER)
    (money,) = view.money_by_item().values()
    assert (money.spent_usd, money.unknown, str(money)) == (0.5, 1, "at least $0.50")
    assert [(each.item, each.verdict, each.codes) for each in view.claims] == [("1", "rejected", ("regression",))]
    proven = {"features": "1/2", "tasklist": "1/2", "longtask": "0/1"}[view.kind]
    assert view.line.startswith(f"idle; {proven} proven"), view.line
    assert view.path == str(made.root)


def test_a_further_look_costs_what_is_new(made: Kind) -> None:
    reader = made.reader()
    before = reader.load()
    assert reader.load() is before
    made.add(3, 0.25)
    after = reader.load()
    assert [each.number for each in after.sessions] == [1, 2, 3]
    assert after.sessions[:2] == before.sessions
    assert after.sessions[0] is before.sessions[0], "what was read is not read again"
    assert reader.load() is after


def test_a_last_line_that_is_not_ended_waits(made: Kind) -> None:
    reader = made.reader()
    rows = "".join(f"{json.dumps(row)}\n" for row in made.rows(3, 0.25))
    with made.journal.open("a") as file:
        file.write(rows[:-30])
        file.flush()
        torn = reader.load()
        assert torn.gaps == ()
        assert [each.number for each in torn.sessions if each.ended] == [1, 2]
        file.write(rows[-30:])
    assert [each.number for each in reader.load().sessions if each.ended] == [1, 2, 3]


def test_a_history_that_was_replaced_is_read_from_its_beginning(made: Kind) -> None:
    reader = made.reader()
    reader.load()
    made.journal.unlink()
    made.add(1, 7.0)
    assert [each.cost_usd for each in reader.load().sessions] == [7.0]
    made.journal.unlink()
    assert reader.load().sessions == ()


def test_a_line_that_is_no_record_is_a_gap_with_a_name(made: Kind) -> None:
    reader = made.reader()
    reader.load()
    with made.journal.open("a") as file:
        file.write('{"torn": \n[1]\n')
    made.add(3, 0.25)
    for _ in range(2):
        found = reader.load()
        assert [(each.file, each.why) for each in found.gaps] == [(made.journal.name, "2 damaged lines were ignored")]
        assert found.sessions[-1].number == 3
    made.journal.unlink()
    made.journal.mkdir()
    assert [each.file for each in reader.load().gaps] == [made.journal.name]


STATE_FILES = [
    *[("features", name) for name in ("features.json", ".harness/session_state.json", ".harness/costs.yaml")],
    ("tasklist", "harness-tasks.json"),
    *[("longtask", name) for name in ("task.json", "checkpoint.json")],
]


@pytest.mark.parametrize(("kind", "name"), STATE_FILES)
def test_a_state_file_that_is_damaged_is_a_gap_with_a_name(tmp_path: Path, kind: str, name: str) -> None:
    made = KINDS[kind](tmp_path / "project")
    path = made.root / name
    reader, whole = made.reader(), path.read_text()
    before = reader.load()
    path.write_text("{")
    damaged = reader.load()
    assert [each.file for each in damaged.gaps] == [name]
    assert len(damaged.sessions) == 2
    assert damaged.line.endswith(f"cannot be read: {name}")
    path.write_text(whole)
    assert (reader.load().state, reader.load().gaps) == (before.state, ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=8,
)


@given(found=st.data())
def test_nothing_that_somebody_writes_into_the_records_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, found: st.DataObject
) -> None:
    made = KINDS[found.draw(st.sampled_from([*KINDS]))](tmp_path_factory.mktemp("any") / "project")
    state = [made.root / name for kind, name in STATE_FILES if (made.root / name).is_file()]
    paths = [*state, made.journal, *(made.home / name for name in ("verdicts.jsonl", "now.json", "open_session.json"))]
    path = found.draw(st.sampled_from(paths))
    record = json.loads(path.read_text().partition("\n")[0]) if path == made.journal else _object(path)
    for name in found.draw(st.sets(st.sampled_from(sorted(record)))) if record else ():
        record[name] = found.draw(JSON)
    path.write_text(json.dumps(record) + "\n")
    view = made.reader().load()
    assert view.line
    assert all([*(each.line for each in view.sessions), *(each.line() for each in view.now)])


def _object(path: Path) -> dict[str, Any]:
    named = ("v", "item", "verdict", "steps", "claim", "tools", "owner", "tokens", "budget", "last", "session", "since")
    return json.loads(path.read_text()) if path.is_file() else {**dict.fromkeys(named), "v": 1}


def test_what_waits_for_a_person_comes_first_then_what_runs(tmp_path: Path) -> None:
    made = KINDS["tasklist"](tmp_path / "project")
    reader = made.reader()
    me = owner.current().as_record()
    (made.home / "now.json").write_text(json.dumps({"v": 1, "owner": me, "phase": "judging", "item": "task-002"}))
    assert reader.load().doing == "judging"
    state = json.loads((made.root / "harness-tasks.json").read_text())
    halted = {**state, "halt": {"category": "CONFIG", "message": "a proof is missing"}}
    (made.root / "harness-tasks.json").write_text(json.dumps(halted))
    assert reader.load().doing == "needs you"
    (asked,) = reader.load().state.questions
    assert (asked.message, asked.answer, asked.stops) == ("a proof is missing", "harness resume", True)
    state["tasks"][1]["status"] = "in_progress"
    (made.root / "harness-tasks.json").write_text(json.dumps(state))
    (made.home / "now.json").write_text(json.dumps({"v": 1, "owner": {**me, "start_time": "0"}, "phase": "judging"}))
    assert reader.load().doing.startswith("stopped, seen ")


def test_a_completed_task_that_nobody_has_proven_does_not_count(tmp_path: Path) -> None:
    made = KINDS["tasklist"](tmp_path / "project")
    (made.home / "proven.json").write_text(json.dumps({"proven": []}))
    view = made.reader().load()
    assert ([each.state for each in view.items], view.proven) == (["unproven", "open"], 0)


def test_a_claim_of_done_that_nobody_has_verified_does_not_count(tmp_path: Path) -> None:
    made = KINDS["longtask"](tmp_path / "project")
    checkpoint = made.root / "checkpoint.json"
    checkpoint.write_text(json.dumps({**json.loads(checkpoint.read_text()), "status": "done"}))
    assert made.reader().load().proven == 0


def test_a_feature_that_an_open_session_marks_does_not_count(tmp_path: Path) -> None:
    made = KINDS["features"](tmp_path / "project")
    before = json.loads((made.root / "features.json").read_text())
    (made.home / "open_session.json").write_text(json.dumps({"features": before, "feature_id": 2, "session": 3}))
    marked = {**before, "features": [{**each, "passes": True} for each in before["features"]]}
    (made.root / "features.json").write_text(json.dumps(marked))
    assert [each.state for each in made.reader().load().items] == ["proven", "working"]
    os.unlink(made.home / "open_session.json")
    assert made.reader().load().proven == 2
