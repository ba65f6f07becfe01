"""Places of files, and names that any id may be turned into."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel.git.status import matcher
from agent_harness.protocols.tasklist.layout import HARNESS_FILES, TaskListLayout, safe_name


@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        ("task-001", "task-001"),
        ("a_B-9", "a_B-9"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a b", "a%20b"),
        ("é", "%C3%A9"),
        ("%2F", "%252F"),
        ("a\0b", "a%00b"),
    ],
)
def test_a_safe_name_keeps_letters_digits_and_dashes(task_id: str, name: str) -> None:
    assert safe_name(task_id) == name


@given(st.lists(st.text(max_size=200), min_size=2, max_size=2, unique=True))
def test_two_ids_never_share_a_safe_name(ids: list[str]) -> None:
    ids = [each.encode("utf-8", "replace").decode() for each in ids]
    names = [safe_name(each) for each in ids]
    assert (names[0] == names[1]) == (ids[0] == ids[1])
    assert all(0 < len(name) <= 120 and "/" not in name and name not in (".", "..") for name in names)


def test_every_file_of_ours_is_below_the_resolved_root_and_matched_by_the_patterns(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    layout = TaskListLayout(tmp_path / "link")
    assert layout.root == str(tmp_path / "real")
    names = [name for name in dir(TaskListLayout) if isinstance(getattr(TaskListLayout, name), property)]
    paths = [getattr(layout, name) for name in names]
    paths += [layout.claim("../x"), layout.validation_log("../x", 3), layout.rescue_files("../x", 1)]
    is_ours = matcher(HARNESS_FILES)
    for path in paths:
        assert is_ours(os.fsencode(os.path.relpath(path, layout.root))), path
    assert not is_ours(b"harness-init.py")
    assert not is_ours(b"src/harness-tasks.json")
