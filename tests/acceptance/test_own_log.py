"""``nohup harness run > run.log`` in the folder itself: the log stays whole, and is nobody's work; faces.md FIX-1."""

from pathlib import Path

import pytest

from .backlog import PROTOCOLS, Backlog, LongTaskBacklog
from .test_backlog import expected, verdicts

SIZE = 3  # one is honest, one needs a second try, one is taken back


@pytest.mark.kept("task list-new")
@pytest.mark.parametrize("how", ["new", "tracked", "tee"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_log_in_the_folder_is_left_alone(tmp_path: Path, protocol: type[Backlog], how: str) -> None:
    backlog = protocol(tmp_path / "b", SIZE, log="logs of runs/run[1]\n.log", tee=how == "tee")
    path = backlog.repo.path / backlog.log
    path.parent.mkdir()
    if how == "tracked":
        path.write_text("The night before.\n")
        backlog.repo.git("add", "-f", str(path))
        backlog.repo.git("commit", "-q", "-m", "A log of before")
    backlog.work()
    assert verdicts(backlog) == expected(SIZE), backlog.story()
    before = "The night before.\n" if how == "tracked" else ""
    assert path.read_text() == before + "".join(backlog.printed)
    assert all(backlog.printed)
    held = backlog.repo.git("log", "--all", "--format=%s", "--", f":(literal){backlog.log}").splitlines()
    if how != "tracked":
        assert held == [], backlog.story()
        assert not [line for line in backlog.repo.status() if "log" in line[3:]]
    elif protocol is not LongTaskBacklog:  # there the person commits what is there
        assert held == ["A log of before"], backlog.story()
