"""The journal of a run: what is torn never happened, what cannot be read is damage."""

from pathlib import Path

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.parallel.ledger import Ledger


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
    """SC-5: whatever a killed writer left of its line."""
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


def test_a_run_that_is_over_is_put_away(tmp_path: Path) -> None:
    found = filled(tmp_path)
    found.put_away()
    assert found.events == []
    assert (tmp_path / "runs/r1.jsonl").exists()
    found.append("run", run="r2", v=1)
    found.close()
    assert Ledger(str(tmp_path)).events[0]["n"] == 1
