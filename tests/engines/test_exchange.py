"""The exchange folder: made once by any number of processes, and nothing that others put there is run or followed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_harness.engines import exchange
from agent_harness.engines.git_transport import Bundles, RemoteAway
from agent_harness.errors import PreflightFailed
from agent_harness.kernel.git import Git
from agent_harness.testing.repo import Repo

PROJECT = "0123456789abcdef01234567"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    found = tmp_path / "shared"
    found.mkdir()
    return found


@pytest.fixture
def bundles(tmp_path: Path, shared: Path) -> Bundles:
    repo = Repo.with_files(tmp_path / "project", {"a.txt": "a\n"})
    return Bundles(git=Git(repo.path), remote=exchange.made(str(shared), PROJECT), project=PROJECT)


def test_of_several_that_come_first_all_have_the_same_whole_repository(shared: Path) -> None:
    words = f"from agent_harness.engines import exchange; print(exchange.made({str(shared)!r}, {PROJECT!r}))"
    racing = [subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True) for _ in range(6)]
    assert {each.communicate()[0].strip() for each in racing} == {str(shared / f"{PROJECT}.git")}
    assert [each.name for each in shared.iterdir()] == [f"{PROJECT}.git"]
    assert Repo(shared / f"{PROJECT}.git", init=False).git("rev-parse", "--is-bare-repository").strip() == "true"


def test_no_thread_sees_a_part_of_a_repository_that_another_one_creates(tmp_path: Path) -> None:
    path = str(tmp_path / "project")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            made = [pool.submit(exchange.create_repository, path) for _ in range(4)]
            while not all(each.done() for each in made):
                assert not os.path.lexists(path) or Git(path).is_repository
            assert [each.exception() for each in made] == [None] * 4
            assert os.listdir(tmp_path) == ["project"]
            shutil.rmtree(path)


def test_a_hook_that_somebody_left_there_is_not_run(bundles: Bundles, tmp_path: Path) -> None:
    hooks = Path(bundles.remote, "hooks")
    hooks.mkdir()
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
        (hooks / name).write_text(f'#!/bin/sh\ntouch "{tmp_path}/ran"\n')
        (hooks / name).chmod(0o755)
    ref = bundles.save("run/a/1", 1, "saved", 1, str(bundles.git.head()))
    assert bundles.remote_refs("refs/harness/*") == {ref: bundles.git.head()}
    assert not (tmp_path / "ran").exists()
    Repo(bundles.git.top(), init=False).git("push", "-q", bundles.remote, "HEAD:refs/heads/plain")
    assert (tmp_path / "ran").exists(), "these hooks would have run"


def _linked(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    (path / "refs" / "heads").rename(elsewhere)
    (path / "refs" / "heads").symlink_to(elsewhere)


def _replaced(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


ODD: list[Callable[[Path], object]] = [
    _linked,
    _replaced,
    lambda path: (path / "objects/info/alternates").write_text("/elsewhere\n"),
    lambda path: (path / "config").write_text('[core]\n\tbare = true\n[remote "x"]\n\turl = ext::sh\n'),
    lambda path: (path / "config").write_text("[core]\n\tbare = true\n\tfsmonitor = touch x\n"),
    lambda path: (path / "config").write_text("[include]\n\tpath = /elsewhere\n"),
    lambda path: (path / "config").unlink(),
]


@pytest.mark.parametrize("spoil", ODD)
def test_what_is_no_repository_of_ours_is_refused_and_left_as_it_is(
    spoil: Callable[[Path], object], bundles: Bundles, shared: Path
) -> None:
    spoil(Path(bundles.remote))
    before = sorted(os.walk(shared))
    with pytest.raises(RemoteAway):
        bundles.save("run/a/1", 1, "saved", 1, str(bundles.git.head()))
    with pytest.raises(PreflightFailed):
        exchange.made(str(shared), PROJECT)
    assert sorted(os.walk(shared)) == before
