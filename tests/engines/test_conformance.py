"""The conformance suite of engines, on processes of this machine and on a real Temporal server."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from agent_harness.engines import engine_for
from agent_harness.kernel.git import Git
from agent_harness.parallel.engine import Engine, LocalEngine
from agent_harness.testing.engine_conformance import CHECKS, EngineUnderTest, e9_many_empty_jobs_end_once_each
from agent_harness.testing.repo import Repo
from agent_harness.testing.temporal_server import TemporalServer, program

Check = Callable[[EngineUnderTest], None]


class Here:
    """Engine with processes of this machine."""

    def __init__(self, folder: Path, many: int = 8) -> None:
        self.folder = folder
        self._many = many
        Repo.with_files(folder / "project", {"a.txt": "a\n"})

    def engine(self) -> Engine:
        return LocalEngine()

    def kill_worker(self) -> None:
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # another child may end meanwhile
                if "agent_harness.parallel.worker_process" in each.cmdline():
                    each.kill()

    def many(self) -> int:
        return self._many


class Elsewhere(Here):
    """Engine with a worker on a real server."""

    def __init__(self, folder: Path, server: TemporalServer, many: int = 40) -> None:
        super().__init__(folder, many)
        self._url = f"{server.url}?pool={folder.name}"
        self._remote = folder / "remote.git"
        subprocess.run(["git", "init", "-q", "--bare", str(self._remote)], check=True)
        Repo(folder / "project").git("remote", "add", "origin", str(self._remote))
        self._workers: list[subprocess.Popen[bytes]] = []
        self._begin_worker()

    def _begin_worker(self) -> None:
        home = self.folder / f"machine-{len(self._workers)}"
        home.mkdir()
        words = [sys.executable, "-m", "agent_harness.cli.main", "worker", "--engine", self._url]
        words += ["--remote", str(self._remote), "--slots", "4"]
        told = {**os.environ, "XDG_STATE_HOME": str(home), "HARNESS_TIME_SCALE": "0.1"}
        with (home / "worker.log").open("ab") as log:
            self._workers.append(subprocess.Popen(words, env=told, cwd=home, stdout=log, stderr=log))

    def engine(self) -> Engine:
        found = engine_for(self._url, Git(self.folder / "project"), str(self.folder / "parallel"), print)
        assert found is not None
        return found

    def kill_worker(self) -> None:
        self._workers[-1].kill()
        self._workers[-1].wait()
        self._begin_worker()

    def close(self) -> None:
        for each in self._workers:
            each.kill()
            each.wait()


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(each, id=each.__name__, marks=[] if n < 1 else [pytest.mark.scenario])
        for n, each in enumerate(CHECKS)
    ],
)
def test_processes_of_this_machine_are_an_engine(check: Check, tmp_path: Path) -> None:
    check(Here(tmp_path))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    with TemporalServer(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_processes_of_this_machine_carry_out_three_hundred_orders(tmp_path: Path) -> None:
    """E9."""
    e9_many_empty_jobs_end_once_each(Here(tmp_path, many=300))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(program() is None, reason="make test-engine installs the server")
def test_temporal_carries_out_three_hundred_orders(
    tmp_path: Path, server: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E9."""
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.1")
    under = Elsewhere(tmp_path, server, many=300)
    try:
        e9_many_empty_jobs_end_once_each(under)
    finally:
        under.close()


@pytest.mark.engine
@pytest.mark.parametrize("check", CHECKS, ids=lambda each: each.__name__)
def test_temporal_is_an_engine(
    check: Check, tmp_path: Path, server: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.1")
    under = Elsewhere(tmp_path, server)
    try:
        check(under)
    finally:
        under.close()
