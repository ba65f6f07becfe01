"""The state files: in their own place whatever lies there, the version before beside them, damage named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.kernel import trusted_state
from agent_harness.kernel.files import own_place
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.store import FeatureStore

LINKING = """\
import os, sys
while True:
    try:
        os.unlink(sys.argv[1])
        os.symlink(sys.argv[2], sys.argv[1])
    except OSError:
        pass"""


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    return FeatureStore(FeatureLayout(root))


# -- places ------------------------------------------------------------------------------------------------------------


def test_a_link_where_a_file_belongs_is_taken_away_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    place = tmp_path / "features.json"
    place.symlink_to(outside)
    own_place(str(place), str(tmp_path))
    assert not place.is_symlink()
    assert outside.read_text() == "precious"


def test_a_folder_where_a_file_belongs_is_moved_aside_whole(tmp_path: Path) -> None:
    place = tmp_path / "features.json"
    for text in ("one", "two"):
        place.mkdir()
        (place / "inside").write_text(text)
        own_place(str(place), str(tmp_path))
    assert (tmp_path / "features.json.aside" / "inside").read_text() == "one"
    assert (tmp_path / "features.json.aside-2" / "inside").read_text() == "two"


@pytest.mark.parametrize("way", [".harness", ".harness/logs"])
def test_a_link_on_the_way_is_taken_away_and_never_written_through(tmp_path: Path, way: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "project"
    (outside / "logs").mkdir(parents=True)
    (root / way).parent.mkdir(parents=True, exist_ok=True)
    (root / way).symlink_to(outside)
    own_place(str(root / ".harness/logs/events.jsonl"), str(root))
    (root / ".harness/logs/events.jsonl").write_text("ours\n")
    assert not (root / way).is_symlink()
    assert [path for path in outside.rglob("*") if path.is_file()] == []


def test_a_file_on_the_way_is_kept_beside(tmp_path: Path) -> None:
    (tmp_path / ".harness").write_text("of somebody\n")
    own_place(str(tmp_path / ".harness/logs/events.jsonl"), str(tmp_path))
    assert (tmp_path / ".harness/logs").is_dir()
    assert (tmp_path / ".harness.aside").read_text() == "of somebody\n"


def test_a_link_to_the_project_itself_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    own_place(str(tmp_path / "link/features.json"), str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()


def test_a_folder_behind_a_link_is_tampering_even_when_it_reads_the_same(store: FeatureStore) -> None:
    store.write(store.layout.session_state, {"last_session": 3})
    store.hold()
    assert store.tampered() == []
    moved = Path(store.layout.root).parent / "moved"
    Path(store.layout.state_dir).rename(moved)
    Path(store.layout.state_dir).symlink_to(moved)
    assert store.tampered() == [".harness/session_state.json"]
    assert not Path(store.layout.state_dir).is_symlink()
    assert store.state().last_session == 3


def test_a_link_that_an_agent_makes_meanwhile_is_never_written_through(store: FeatureStore, tmp_path: Path) -> None:
    """An agent replaces a state file by a link again and again while the harness restores the file."""
    victim, costs = tmp_path / "victim", Path(store.layout.costs)
    victim.write_text("of the user\n")
    store.write(store.layout.costs, {})
    with subprocess.Popen([sys.executable, "-c", LINKING, costs, victim]) as agent:
        try:
            while not costs.is_symlink():
                assert agent.poll() is None
            for _ in range(300):
                store.restore(store.layout.costs, b"{}")
        finally:
            agent.kill()
    assert victim.read_text() == "of the user\n"


# -- the version before ------------------------------------------------------------------------------------------------


def test_the_version_before_is_kept_and_the_hint_brings_it_back(store: FeatureStore) -> None:
    path = store.layout.session_state
    for number in (1, 2):
        store.write(path, {"last_session": number})
    assert json.loads(Path(f"{path}.bak").read_text()) == {"last_session": 1}
    Path(path).write_text('{"last_session": ')
    with pytest.raises(StateDamaged, match=r"session_state\.json") as caught:
        store.state()
    hint = str(caught.value.hint)
    assert hint == "cp .harness/session_state.json.bak .harness/session_state.json"
    assert os.system(f"cd '{store.layout.root}' && {hint}") == 0
    assert store.state().last_session == 1


def test_damage_without_a_version_before_is_to_be_mended_by_hand(store: FeatureStore) -> None:
    store.write(store.layout.costs, {"cumulative": {}})
    Path(store.layout.costs).write_text("{")
    with pytest.raises(StateDamaged) as caught:
        store.costs()
    assert caught.value.hint == "fix .harness/costs.yaml manually"


def test_a_damaged_file_never_replaces_the_good_version_before(store: FeatureStore) -> None:
    path = store.layout.baseline
    for number in (1, 2):
        store.write(path, {"session": number})
    Path(path).write_text("{")
    store.write(path, {"session": 3})
    assert json.loads(Path(f"{path}.bak").read_text()) == {"session": 1}


# -- outside the project -----------------------------------------------------------------------------------------------


def test_two_work_trees_and_two_projects_never_share_a_place(tmp_path: Path) -> None:
    names = {trusted_state.name_of(str(tmp_path / name)) for name in ("a/.git", "a%.git", "a%2F.git", "b/.git")}
    assert len(names) == 4
    assert all("/" not in name for name in names)


def test_a_long_path_has_a_short_name(tmp_path: Path) -> None:
    deep = str(tmp_path / "/".join(["x" * 50] * 10))
    assert len(trusted_state.name_of(deep)) <= 200
    assert trusted_state.name_of(deep) != trusted_state.name_of(f"{deep}x")


def test_a_place_of_somebody_else_is_none(store: FeatureStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A link where our folder belongs is somebody else's doing."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "elsewhere").mkdir()
    name = trusted_state.name_of(store.layout.git_dir)
    (tmp_path / "state/agent-harness/projects").mkdir(parents=True)
    (tmp_path / "state/agent-harness/projects" / name).symlink_to(tmp_path / "elsewhere")
    folder, note = trusted_state.make(store.layout.git_dir, store.layout.root)
    assert folder == str(tmp_path / "nothing" / f"agent-harness-{os.getuid()}" / "projects" / name)
    assert note is not None
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_reading_makes_nothing(store: FeatureStore) -> None:
    assert store.open_session() is None
    assert store.proven() == {}
    assert not Path(os.environ["XDG_STATE_HOME"]).exists()
