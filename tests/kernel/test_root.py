"""The nearest project above a starting point, whatever the starting point is worth."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.errors import NotAProject
from agent_harness.kernel import root
from agent_harness.kernel.root import Root


def put(folder: Path, names: Iterable[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).mkdir() if name.endswith("/") else (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["harness-tasks.json"], "tasklist"),
        ([".harness.yaml"], "features"),
        (["features.json", ".harness/"], "features"),
        (["task.json", "checkpoint.json"], "longtask"),
        (["harness-tasks.json", "features.json", ".harness/"], "tasklist"),
        (["features.json"], None),
        ([".harness/"], None),
        (["task.json"], None),
        (["harness-tasks.json/"], None),
        (["features.json/", ".harness"], None),
        ([], None),
    ],
)
def test_the_signs_of_each_kind(tmp_path: Path, names: list[str], kind: str | None) -> None:
    found = root.find(put(tmp_path / "project", names))
    assert (found.kind if found else None) == kind


def test_the_nearest_project_wins_however_deep(tmp_path: Path) -> None:
    outer = put(tmp_path / "outer", ["harness-tasks.json"])
    inner = put(outer / "inner", [".harness.yaml"])
    deep = put(inner.joinpath(*["deep"] * 40), [])
    assert root.find(deep) == Root("features", str(inner))
    assert root.find(outer) == Root("tasklist", str(outer))
    assert root.find(deep, kind="tasklist") == Root("tasklist", str(outer))
    assert root.find(deep, kind="longtask") is None


def test_a_list_that_is_gone_is_known_by_its_backup(tmp_path: Path) -> None:
    """Of what is left of it; another project in the same folder counts first (tasklist.md 2, 8)."""
    outer = put(tmp_path / "outer", ["harness-tasks.json"])
    inner = put(outer / "inner", ["harness-tasks.json.bak"])
    assert root.find(put(inner / "deep", [])) == Root("tasklist", str(inner))
    both = put(outer / "both", ["harness-tasks.json.bak", ".harness.yaml"])
    assert root.find(both) == Root("features", str(both))
    assert root.find(both, kind="tasklist") == Root("tasklist", str(both))


def test_the_working_directory_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = put(tmp_path / "project", ["harness-tasks.json"])
    monkeypatch.chdir(put(project / "sub", []))
    assert root.find() == root.find(None, None) == Root("tasklist", str(project))


def test_links_are_resolved_before_the_walk(tmp_path: Path) -> None:
    project = put(tmp_path / "project", ["harness-tasks.json"])
    put(project / "sub", [])
    (tmp_path / "link").symlink_to(project / "sub")
    assert root.find(tmp_path / "link") == Root("tasklist", str(project))


def test_a_working_directory_that_is_gone_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = put(tmp_path / "project", ["harness-tasks.json"])
    gone = put(project / "gone", [])
    monkeypatch.chdir(gone)
    shutil.rmtree(gone)
    assert root.find() is None
    assert root.find(gone) is None
    assert root.find(gone, project) == Root("tasklist", str(project))
    monkeypatch.chdir(tmp_path)


def test_starting_points_are_tried_in_order(tmp_path: Path) -> None:
    first = put(tmp_path / "first", ["harness-tasks.json"])
    second = put(tmp_path / "second", ["harness-tasks.json"])
    assert root.find(put(tmp_path / "none", []), second, first) == Root("tasklist", str(second))
    odd: list[object] = [7, b"x", [], "", "\0", "a\0b", "x" * 5000, str(tmp_path / "none" / "gone"), "\ud800"]
    assert root.find(*odd) is None
    assert root.find(*odd, first) == Root("tasklist", str(first))


def test_a_file_is_a_starting_point_inside_its_folder(tmp_path: Path) -> None:
    project = put(tmp_path / "project", ["harness-tasks.json", "file"])
    assert root.find(project / "file") == Root("tasklist", str(project))


def test_the_pin_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = put(tmp_path / "pinned", ["harness-tasks.json"])
    (tmp_path / "link").symlink_to(pinned)
    other = put(tmp_path / "other", ["harness-tasks.json", ".harness.yaml"])
    monkeypatch.setenv("HARNESS_STATE_ROOT", str(tmp_path / "link"))
    assert root.find(other) == Root("tasklist", str(pinned))
    assert root.find(other, kind="features") == Root("features", str(other))


@pytest.mark.parametrize("pin", ["other", "missing", "a\udcffb", "x" * 5000])
def test_a_wrong_pin_never_lets_us_act_on_another_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pin: str
) -> None:
    project = put(tmp_path / "project", ["harness-tasks.json"])
    put(tmp_path / "other", [".harness.yaml"])
    monkeypatch.setenv("HARNESS_STATE_ROOT", str(tmp_path / pin))
    with pytest.raises(NotAProject, match="HARNESS_STATE_ROOT") as caught:
        root.find(project)
    assert caught.value.data["reason"] == "state_root_not_found"


def test_an_empty_pin_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = put(tmp_path / "project", ["harness-tasks.json"])
    monkeypatch.setenv("HARNESS_STATE_ROOT", "")
    assert root.find(project) == Root("tasklist", str(project))


@given(st.text() | st.binary() | st.integers() | st.lists(st.text()) | st.none())
def test_any_starting_point_is_safe(start: object) -> None:
    found = root.find(start)
    assert found is None or os.path.isdir(found.path)
