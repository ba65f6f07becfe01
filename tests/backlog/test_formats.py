"""Lists of work in the forms that other programs keep, read from files as those programs write them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.backlog.items import Backlog, BacklogItem, proof_for
from agent_harness.backlog.reading import read
from agent_harness.backlog.writing import WRITERS, not_carried, write
from agent_harness.errors import Refused, UsageError


def listed(backlog: Backlog) -> dict[str, tuple[str, ...]]:
    """The items, and what each waits for."""
    return {each.id: each.needs for each in backlog.items}


def left_out(backlog: Backlog) -> dict[str, str]:
    return {each.what: each.why for each in backlog.left_out}


def written(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


TASK_MASTER: dict[str, Any] = {
    "master": {
        "tasks": [
            {"id": 1, "title": "Set up", "status": "done", "dependencies": [], "priority": "high"},
            {
                "id": 2,
                "title": "Sign in",
                "description": "People sign in.",
                "details": "With a password.",
                "testStrategy": "Try a wrong one.",
                "status": "pending",
                "dependencies": [1],
                "priority": "high",
                "subtasks": [
                    {"id": 1, "title": "Form", "status": "pending", "dependencies": []},
                    {"id": 2, "title": "Check", "status": "pending", "dependencies": [1]},
                    {"id": 3, "title": "Old", "status": "done"},
                ],
            },
            {"id": 3, "title": "Sign out", "status": "deferred"},
            {"id": 4, "title": "Profile", "status": "in-progress", "dependencies": [2, 3, 9], "priority": "low"},
        ]
    },
    "later": {"tasks": [{"id": 1, "title": "Dark mode"}]},
}


def test_task_master_with_tags_and_subtasks(tmp_path: Path) -> None:
    """F-IMP-1: what is done there is left out, a task waits for its subtasks, and these for what the task waits for."""
    found = read(written(tmp_path, ".taskmaster/tasks/tasks.json", TASK_MASTER).parent.parent.parent)

    assert (found.format, found.scope) == ("taskmaster", "master")
    assert listed(found) == {"2": ("2.1", "2.2"), "2.1": (), "2.2": ("2.1",), "4": ("2",)}
    sign_in = found.items[0]
    assert (sign_in.priority, found.items[-1].priority) == (0, 2)
    assert sign_in.text == "People sign in.\n\nDetails:\nWith a password.\n\nHow it is to be tested:\nTry a wrong one."
    assert found.items[1].text == "Part of 2: Sign in"
    assert left_out(found) == {
        "the tag later": "--tag later imports it",
        "3 Sign out": "deferred there",
        "1 Set up": "already done in the source list",
        "2.3 Old": "already done in the source list",
        "4 waits for 3": "3 is left out",
        "4 waits for 9": "there is no 9",
    }


def test_task_master_another_tag_and_without_tags(tmp_path: Path) -> None:
    file = written(tmp_path, "tasks.json", TASK_MASTER)
    assert listed(read(file, tag="later")) == {"1": ()}
    with pytest.raises(UsageError, match="no tag 'nix'") as refused:
        read(file, tag="nix")
    assert "--tag later  # or master" in str(refused.value.hint)
    assert listed(read(written(tmp_path, "old.json", TASK_MASTER["master"]))) == listed(read(file))


def test_beads(tmp_path: Path) -> None:
    """F-IMP-2: an epic waits for its parts, a circle loses the dependency that closes it, and all of that is told."""

    def link(one: str, kind: str, other: str) -> dict[str, str]:
        return {"issue_id": one, "depends_on_id": other, "type": kind}

    rows = [
        {
            "id": "bd-1",
            "title": "Epic",
            "priority": 1,
            "issue_type": "epic",
            "dependencies": [link("bd-1", "blocks", "bd-5")],
        },
        {"id": "bd-2", "title": "Part", "priority": 0, "dependencies": [link("bd-2", "parent-child", "bd-1")]},
        {"id": "bd-3", "title": "One", "status": "in_progress", "dependencies": [link("bd-3", "blocks", "bd-4")]},
        {
            "id": "bd-4",
            "title": "Other",
            "acceptance_criteria": "- it rings\n- it stops",
            "dependencies": [link("bd-4", "blocks", "bd-3")],
        },
        {"id": "bd-5", "title": "First", "priority": 4, "dependencies": [link("bd-5", "discovered-from", "bd-2")]},
        {"id": "bd-6", "title": "Gone", "status": "tombstone"},
        {"id": "bd-7", "title": "Was", "status": "closed"},
    ]
    file = written(tmp_path, "issues.jsonl", "".join(json.dumps(each) + "\n" for each in rows) + "\n")
    found = read(file)

    assert found.format == "beads"
    assert listed(found) == {"bd-1": ("bd-5", "bd-2"), "bd-2": ("bd-5",), "bd-3": ("bd-4",), "bd-4": (), "bd-5": ()}
    assert [each.priority for each in found.items] == [0, 0, None, None, 2]
    assert found.items[3].steps == ("it rings", "it stops")
    assert left_out(found) == {
        "bd-5 discovered-from bd-2": "the link does not order the work",
        "bd-6 Gone": "tombstone there",
        "bd-7 Was": "already done in the source list",
        "bd-4 waits for bd-3": "that would close a cycle",
    }


def test_the_ralph_family(tmp_path: Path) -> None:
    """F-IMP-3: by priority; criteria are prose, and no command is made out of them."""
    stories = [
        {"id": "US-2", "title": "Show", "priority": 2, "acceptanceCriteria": ["it is red"], "dependsOn": ["US-1"]},
        {"id": "US-1", "title": "Store", "description": "As a user", "priority": 1, "passes": False, "notes": "soon"},
        {"id": "US-0", "title": "Begin", "priority": 0, "passes": True},
    ]
    found = read(written(tmp_path, "prd.json", {"branchName": "ralph/x", "userStories": stories}))
    assert (found.format, found.scope) == ("prd", "ralph/x")
    assert listed(found) == {"US-1": (), "US-2": ("US-1",)}
    assert found.items[1].steps == ("it is red",)
    assert found.items[0].text == "As a user\n\nNotes:\nsoon"
    assert all(each.proof is None for each in found.items)

    plain = [{"category": "functional", "description": "It starts", "steps": ["open it"], "passes": False}]
    assert [(each.id, each.title) for each in read(written(tmp_path, "list.json", plain)).items] == [
        ("story-1", "It starts")
    ]


SPECKIT = """\
# Tasks: Cart
## Phase 1: Setup
- [X] T001 Make the project
- [ ] T002 Set it up
- [ ] T003 [P] Lint
## Phase 2: User Story 1
### Tests
- [ ] T010 [P] [US1] Contract test in tests/test_a.py
- [ ] T011 [P] [US1] Journey test
### Implementation
- [ ] T012 [P] [US1] Model
- [ ] T014 [US1] Service (depends on T012, T002)
```bash
- [ ] T099 not a task
```
"""


def test_spec_kit(tmp_path: Path) -> None:
    """F-IMP-4: one after the other; with [P] beside one another; a section behind the one before."""
    found = read(written(tmp_path, "001-cart/tasks.md", SPECKIT))
    assert (found.format, found.scope) == ("speckit", "001-cart")
    assert listed(found) == {
        "T002": (),
        "T003": ("T002",),
        "T010": ("T002", "T003"),
        "T011": ("T002", "T003"),
        "T012": ("T010", "T011"),
        "T014": ("T012", "T002"),
    }
    assert found.items[2].title == "Contract test in tests/test_a.py"
    assert found.items[2].text == "Tests, story US1"


@pytest.mark.parametrize("name", ["tasks.md", "specs/001-cart/tasks.md"])
def test_other_boxes_beside_those_of_spec_kit_are_listed(tmp_path: Path, name: str) -> None:
    few = "- [ ] Reviewed by somebody\n" * (1 if name == "tasks.md" else 9)
    found = read(written(tmp_path, name, f"{SPECKIT}## Notes\n{few}"))
    assert found.format == "speckit"
    assert listed(found)["T010"] == ("T002", "T003")
    assert ("Reviewed by somebody", "it has no number (T001)") in {(each.what, each.why) for each in found.left_out}


def test_beads_that_are_no_work_are_listed(tmp_path: Path) -> None:
    rows = [{"id": "a-1", "title": "Do it", "issue_type": "task"}]
    rows += [{"id": f"a-{kind}", "title": kind, "issue_type": kind} for kind in ("message", "gate", "merge-request")]
    found = read(written(tmp_path, "issues.jsonl", "\n".join(map(json.dumps, rows))))
    assert [each.id for each in found.items] == ["a-1"]
    assert {each.why for each in found.left_out} == {"message, no work", "gate, no work", "merge-request, no work"}


ROADMAP = """# Roadmap
## Phases
- [x] **Phase 1: Base** - the frame
- [ ] **Phase 2: Shop** - TBD
- [ ] **Phase 2.1: Fix** - urgent
- [ ] **Phase 3: [Name]** - [One-line description]
### Phase 1: Base
**Depends on**: Nothing (first phase)
Plans:
- [x] 01-01: scaffold
- [ ] 01-02: tests
### Phase 2: Shop
**Depends on**: Phase 1
Plans:
- [ ] 02-01: cart
- [ ] 02-02: TBD
- [ ] 02-03: [Brief description]
### Phase 2.1: Fix
**Depends on:** Phase 2
"""


def test_the_phases_of_a_road_map_order_their_plans(tmp_path: Path) -> None:
    """A phase and its own plans were tasks side by side, and so were placeholders."""
    found = read(written(tmp_path, ".planning/ROADMAP.md", ROADMAP), with_done=True)
    needs = listed(found)
    (fix,) = needs.keys() - {"01-01", "01-02", "02-01"}
    assert fix.startswith("phase-2-1-fix")
    assert (needs["02-01"], needs[fix]) == (("01-01", "01-02"), ("02-01",))
    assert sorted(left_out(found).values()) == ["a placeholder, no work yet"] * 3 + ["its plans contain the work"] * 2


def test_a_long_section_of_spec_kit_costs_no_square(tmp_path: Path) -> None:
    lines = [f"- [ ] T{part}{n:03d} [P] do" for part in (1, 2) for n in range(300)]
    lines.insert(300, "## Next")
    found = read(written(tmp_path, "tasks.md", "\n".join(lines)))
    assert len(found.items) == 600
    assert sum(len(each.needs) for each in found.items) < 1200


CHECKLIST = """\
# Plan
- [ ] Add a cart
  It survives a reload.
  - [ ] store it
  - [ ] show it (proof: `pytest -q tests/test_show.py`)
- [x] Old thing
* [ ] T9: checkout (depends on add-a-cart)
1. [~] dropped
~~~
- [ ] no item
~~~
- [ ] Add a cart
  proof: ``sh -c `true` ``
"""


def test_a_checklist(tmp_path: Path) -> None:
    """F-IMP-5: every box is an item, with a name of its own; only a command that says so proves one."""
    found = read(written(tmp_path, "PLAN.md", CHECKLIST))
    assert found.format == "markdown"
    assert listed(found) == {
        "add-a-cart": ("add-a-cart/store-it", "add-a-cart/show-it"),
        "add-a-cart/store-it": (),
        "add-a-cart/show-it": (),
        "T9": ("add-a-cart",),
        "add-a-cart~2": (),
    }
    assert [each.proof for each in found.items] == [None, None, "pytest -q tests/test_show.py", None, "sh -c `true` "]
    assert found.items[0].text == "Plan\nIt survives a reload."
    assert left_out(found) == {
        "dropped dropped": "crossed out there",
        "old-thing Old thing": "already done in the source list",
    }


def test_our_own_three(tmp_path: Path) -> None:
    """F-IMP-6: a project's list goes into another one with what proves it."""
    features = [
        {"id": 1, "description": "a", "test_file": "tests/test_a.py", "passes": True},
        {
            "id": 2,
            "description": "b",
            "test_file": "tests/test_b.py",
            "depends_on": [1],
            "verification_steps": ["look"],
        },
        {"id": 3, "description": "c", "test_file": "tests/test_c.py", "depends_on": [2], "priority": 1},
        {"id": 4, "description": "d", "skipped": {"reason": "no"}},
    ]
    found = read(written(tmp_path, "features.json", {"project": "shop", "features": features}))
    assert (found.format, found.scope, listed(found)) == ("features", "shop", {"3": ("2",), "2": ()})
    assert found.items[1].test_file == "tests/test_b.py"

    tasks = [
        {"id": "task-001", "title": "one", "priority": "P0", "validation": {"command": "make"}, "status": "failed"},
        {"id": "task-002", "title": "two", "depends_on": ["task-001"], "status": "completed"},
    ]
    found = read(written(tmp_path, "harness-tasks.json", {"session_config": {}, "tasks": tasks}))
    assert (found.format, listed(found), found.items[0].proof) == ("tasklist", {"task-001": ()}, "make")

    criteria = [
        {"id": "built", "description": "It is built", "metric": "command", "target": {"command": "make"}},
        {"id": "nice", "description": "It is nice", "metric": "manual"},
    ]
    found = read(written(tmp_path, "task.json", {"id": "x", "title": "Build", "successCriteria": criteria}))
    assert (found.format, found.items[0].proof) == ("longtask", "make")
    assert found.items[0].steps == ("It is built", "It is nice")
    assert "criterion nice" in left_out(found)


@pytest.mark.parametrize(
    ("commands", "holds"),
    [
        (["false", "false || true"], False),
        (["false", "true\ntrue"], False),
        (["true # why", "false"], False),
        (["exit 0", "false"], False),
        (["cd /", "test -f here"], True),
        (["(true)", "cat <<E\nx\nE\n"], True),
    ],
)
def test_each_criterion_of_a_long_task_counts(tmp_path: Path, commands: list[str], holds: bool) -> None:
    """F-IMP-6: what proves the whole task succeeds only where each command does, from the same folder."""
    (tmp_path / "here").touch()
    criteria = [{"id": f"c{n}", "metric": "command", "target": each} for n, each in enumerate(commands)]
    found = read(written(tmp_path, "task.json", {"id": "x", "title": "Build", "successCriteria": criteria}))
    done = subprocess.run(["sh", "-c", str(found.items[0].proof)], cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode == 0) is holds, found.items[0].proof


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", "[1", "is not JSON"),
        ("x.json", "{}", "is not a task list in a known format"),
        ("x.json", "3", "is not a task list in a known format"),
        ("x.json", "[]", "contains no items"),
        ("x.json", "[" * 100_000, "is not JSON"),
        ("x.jsonl", "{}\nnot json\n", "x.jsonl:2 is not JSON"),
        ("x.md", "just prose", "contains no items"),
    ],
)
def test_what_is_no_list_is_one_line(tmp_path: Path, name: str, content: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        read(written(tmp_path, name, content))


def test_odd_members_are_told_and_nothing_else_is_lost(tmp_path: Path) -> None:
    odd: list[Any] = [
        3,
        None,
        {"title": "no id"},
        {"id": "a"},
        {"id": "b", "title": "B", "dependsOn": [None, {}, "b", 7]},
        {"id": "b", "title": "again"},
    ]
    found = read(written(tmp_path, "prd.json", {"userStories": odd}))
    assert [each.title for each in found.items] == ["no id", "B"]
    assert left_out(found) == {
        "story 1": "it is not an object",
        "story 2": "it is not an object",
        "a": "it has no title",
        "b again": "its id occurs twice",
        "b waits for 7": "there is no 7",
    }


def test_the_road_map_of_gsd_is_found_in_its_folder(tmp_path: Path) -> None:
    written(tmp_path, ".planning/ROADMAP.md", "## Plans\n- [x] 01-01: scaffold\n- [ ] 01-02: tests\n")
    found = read(tmp_path)
    assert (found.format, listed(found)) == ("markdown", {"01-02": ()})
    assert left_out(found) == {"01-01 scaffold": "already done in the source list"}


def test_a_folder_with_several_lists_is_asked_about(tmp_path: Path) -> None:
    written(tmp_path, "prd.json", [{"title": "x"}])
    written(tmp_path, "specs/1/tasks.md", SPECKIT)
    with pytest.raises(UsageError, match=r"prd\.json, specs/1/tasks\.md"):
        read(tmp_path)
    with pytest.raises(Refused, match="no known task list"):
        read(written(tmp_path, "empty/x", "").parent)


def test_a_command_for_all_is_given_a_name_that_the_shell_reads_as_one_word() -> None:
    """An id of somebody else's list can steer no shell."""
    item = BacklogItem(id="../a b;$(rm -rf x)`", title="t")
    assert proof_for(item, "pytest {id}") == "pytest _a_b_rm_-rf_x_"
    assert proof_for(BacklogItem(id="..", title="t"), "x {id}") == "x _"
    assert proof_for(BacklogItem(id="1", title="t", proof="make"), "pytest {id}") == "make"


def test_what_a_text_says_is_no_part_of_a_checklist(tmp_path: Path) -> None:
    """F-IMP-7: no text becomes an item, an order or a command; a command of several lines is told, and not cut."""
    text = "First\n- [ ] T9: not an item\n1. [x] nor this\n# Nor a heading\n```\nproof: `rm -rf x`"
    items = [
        BacklogItem(id="a-1", title="one (depends on a-3)", text=text, steps=("[x] a box\n- [ ] and more",)),
        BacklogItem(id="a-2", title="two", proof="printf a\ntest -f b"),
        BacklogItem(id="a-3", title="three", needs=("a-1",), proof="echo `date`"),
        BacklogItem(id="a-4", title="four", test_file="tests/test_four.py"),  # no command, and read as none
    ]
    file = written(tmp_path, "list.md", write("markdown", "shop", items))
    found = read(file, with_done=True)
    assert listed(found) == {"a-1": (), "a-2": (), "a-3": ("a-1",), "a-4": ()}
    assert [each.title for each in found.items] == [each.title for each in items]
    assert [each.proof for each in found.items] == [None, None, "echo `date`", None]
    assert "test file: `tests/test_four.py`" in found.items[3].text
    assert found.items[0].text.splitlines()[1:5] == text.splitlines()[:4]
    assert "the command that proves a-2" in {each.what for each in not_carried("markdown", items)}

    tasks = written(tmp_path, "specs/tasks.md", write("speckit", "shop", items))
    assert [each.title for each in read(tasks, wanted="speckit").items] == [each.title for each in items]


TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=60)


@given(
    rows=st.lists(st.tuples(TEXTS.filter(lambda text: text.strip()), TEXTS, st.booleans(), st.booleans()), max_size=8),
    form=st.sampled_from(sorted(WRITERS.keys() - {"longtask"})),  # one item, whatever is written
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, bool, bool]], form: str
) -> None:
    """F-IMP-7: nothing gets lost on the way out and in: every item, its state, and the order of work."""
    items = [
        BacklogItem(
            id=f"task-{number:03d}",
            title="".join(each for each in title if each.isalnum()) or "x",
            text=text,
            needs=(f"task-{number - 1:03d}",) if waits and number else (),
            test_file=f"tests/test_{number}.py" if form == "features" else None,
            done=done,
        )
        for number, (title, text, done, waits) in enumerate(rows)
    ]
    if not items:
        return
    suffix = {"markdown": "md", "speckit": "md", "beads": "jsonl"}.get(form, "json")
    file = tmp_path_factory.mktemp("out") / f"list.{suffix}"
    file.write_text(write(form, "shop", items), encoding="utf-8")
    found = read(file, wanted=form, with_done=True)

    place = {each.id: number for number, each in enumerate(found.items)}
    assert [each.title for each in found.items] == [each.title for each in items]
    assert [each.done for each in found.items] == [each.done for each in items]
    assert [[place[need] for need in each.needs] for each in found.items] == [
        [number - 1 for need in each.needs] for number, each in enumerate(items)
    ]
