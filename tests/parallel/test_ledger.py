"""The journal of a run: an incomplete last line counts as missing, an unreadable one as damage."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.kernel import files
from agent_harness.parallel.ledger import ANEW, Ledger
from agent_harness.testing.repo import Repo


def filled(folder: Path) -> Ledger:
    found = Ledger(str(folder))
    found.append("run", run="r1", v=1)
    found.append("ordered", item="ü/1", order="r1/x/1", extra={"kept": True})
    found.close()
    return found


def test_events_are_numbered_and_read_back_with_what_nobody_knows(tmp_path: Path) -> None:
    filled(tmp_path)
    found = Ledger(str(tmp_path))
    assert [(each["n"], each["type"]) for each in found.events] == [(1, "run"), (2, "ordered")]
    assert found.events[1]["extra"] == {"kept": True}
    found.append("closed", exit_code=0)
    found.close()
    assert len(Ledger(str(tmp_path)).events) == 3


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_last_line_never_happened(tmp_path: Path, cut: int) -> None:
    """SC-5: whatever part of its line a killed writer left."""
    path = Path(filled(tmp_path).path)
    path.write_bytes(path.read_bytes()[:-cut])
    found = Ledger(str(tmp_path))
    assert [each["n"] for each in found.events] == [1]
    found.append("lost", item="x", order="y")
    found.close()
    assert [each["type"] for each in Ledger(str(tmp_path)).events] == ["run", "lost"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json\n", "damaged in line 3"),
        ('{"n":4,"type":"run"}\n', "damaged in line 3"),
        ("[]\n", "damaged in line 3"),
        ('{"n":3,"type":"unheard"}\n', "newer version"),
        ('{"n":3,"type":"run","v":2}\n', "newer version"),
    ],
)
def test_what_cannot_be_read_is_damage_and_nothing_is_guessed(tmp_path: Path, line: str, said: str) -> None:
    path = Path(filled(tmp_path).path)
    with path.open("a") as file:
        file.write(line)
    with pytest.raises(StateDamaged, match=said):
        Ledger(str(tmp_path))


def test_the_journal_of_another_project_is_not_taken(tmp_path: Path) -> None:
    """Not even if its lines are whole: its items were merged elsewhere."""
    (tmp_path / "project.json").write_text(json.dumps({"id": "a" * 24}))
    found = Ledger(str(tmp_path))
    found.append("run", run="r1", v=1, project="b" * 24)
    found.close()
    with pytest.raises(StateDamaged, match="journal of another project"):
        Ledger(str(tmp_path))


def test_a_run_that_is_over_is_put_away(tmp_path: Path) -> None:
    found = filled(tmp_path)
    found.put_away()
    assert found.events == []
    assert (tmp_path / "runs/r1.jsonl").read_bytes() == Path(found.path).read_bytes()  # a kill here loses nothing
    found.append("run", run="r2", v=1)
    found.close()
    assert Ledger(str(tmp_path)).events[0]["n"] == 1


def test_a_journal_of_any_size_is_put_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = filled(tmp_path)
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    found.put_away()
    assert (tmp_path / "runs/r1.jsonl").exists()


@pytest.mark.parametrize("how", ["link", "pipe"])
def test_what_a_killed_writer_has_left_of_the_next_journal_is_neither_followed_nor_in_the_way(
    tmp_path: Path, how: str
) -> None:
    new, there = tmp_path / "ledger.jsonl.new", tmp_path / "there"
    there.write_text("mine\n")
    if how == "link":
        new.symlink_to(there)
    else:
        os.mkfifo(new)
    filled(tmp_path).close()
    assert (len(Ledger(str(tmp_path)).events) > 0, there.read_text()) == (True, "mine\n")


NOTES = """
import json, os, sys
seen = []
os_rename = os.rename


def replaced(source, target):
    os_rename(source, target)
    if ".jsonl" in str(target):
        seen.extend([["named", str(target)], ["unnamed", str(source)]])


def heard(synced):
    def sync(descriptor):
        synced(descriptor)
        seen.append(["synced", os.readlink(f"/proc/self/fd/{descriptor}")])
    return sync


os.replace, os.rename = replaced, replaced
os.fsync, os.fdatasync = heard(os.fsync), heard(os.fdatasync)
from agent_harness.kernel.git import Git
from agent_harness.parallel.ledger import Ledger
from agent_harness.parallel.fresh_start import where_unreadable

folder = sys.argv[1] + "/state/parallel"
found = Ledger(folder)
found.append("run", run="r1", v=1)
found.put_away()
found.append("run", run="r2", v=1)
found.close()
with open(found.path, "ab") as file:
    file.write(b"torn\\n")
where_unreadable(folder, Git(sys.argv[1] + "/home"), "refs/heads/main", {}, say=lambda _line: None)
print(json.dumps(seen))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_journal_has_its_name_on_the_disk_before_anything_follows_from_it(tmp_path: Path) -> None:
    """SC-5: every operation that names or removes a journal ends with a sync of the folders."""
    Repo.with_files(tmp_path / "home", {"app.py": "one\n"}, user_settings=True)
    ran = subprocess.run([sys.executable, "-c", NOTES, str(tmp_path)], check=True, capture_output=True, text=True)
    seen = json.loads(ran.stdout)
    names = [Path(path) for what, path in seen if what != "synced"]
    assert len(names) == 2 * (3 + 3), names  # three are made; one is put away, one kept, one takes its workspace
    for number, (what, path) in enumerate(seen):
        if what != "synced":
            until = next((n for n in range(number + 1, len(seen)) if seen[n][0] == "named"), len(seen))
            assert ["synced", str(Path(path).parent)] in seen[number:until], (what, path, seen)
    assert ["synced", str(tmp_path / "state")] in seen  # where the folder itself is new


HALF = """
import resource, sys
from agent_harness.errors import Refused
from agent_harness.parallel.ledger import Ledger
found = Ledger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    found.append("held", item="x" * 500)
except Refused:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    found.append("unheld", item="x")
"""


def test_half_a_line_on_a_full_disk_is_none_and_the_next_one_is_whole(tmp_path: Path) -> None:
    """A request that the disk refuses gets an answer, and the run continues once there is room."""
    size = Path(filled(tmp_path).path).stat().st_size + 100
    subprocess.run([sys.executable, "-c", HALF, str(tmp_path), str(size)], check=True)
    assert [each["type"] for each in Ledger(str(tmp_path)).events] == ["run", "ordered", "unheld"]


@pytest.mark.parametrize("what", ["pipe", "folder", "link"])
def test_what_is_no_file_is_damage_that_is_named_and_nothing_waits_for_it(tmp_path: Path, what: str) -> None:
    path = Path(filled(tmp_path).path)
    path.rename(there := tmp_path / "elsewhere")
    content = there.read_bytes() + b"torn"
    there.write_bytes(content)
    {"pipe": lambda: os.mkfifo(path), "folder": path.mkdir, "link": lambda: path.symlink_to(there)}[what]()
    with pytest.raises(StateDamaged) as raised:
        Ledger(str(tmp_path))
    assert (raised.value.hint, there.read_bytes()) == (ANEW, content)


def test_whatever_is_kept_of_old_runs_keeps_no_new_one_from_beginning(tmp_path: Path) -> None:
    found = filled(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/damaged-1.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "runs/damaged-2.jsonl").mkdir()
    os.utime(tmp_path / "runs/damaged-2.jsonl", (0, 0))
    found.put_away()
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == [
        "damaged-1.jsonl",
        "damaged-2.jsonl",
        "r1.jsonl",
    ]
