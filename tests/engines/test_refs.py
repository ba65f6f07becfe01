"""``parallel.refs``: bundles at a remote that takes branches alone; none are visible here."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_harness.engines.git_transport import Bundles, JobRefused, RemoteAway, refs_of
from agent_harness.errors import ConfigurationError
from agent_harness.kernel import clock, files
from agent_harness.kernel.git import Git
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, Job
from agent_harness.session import parallel_settings
from agent_harness.testing.repo import Repo

PROJECT = "0123456789abcdef01234567"
BRANCHES = "refs/heads/harness"
ONLY_BRANCHES = '#!/bin/sh\ncase "$1" in refs/heads/*) ;; *) echo no such refs here; exit 1;; esac\n'


def remote_of(path: Path) -> Repo:
    """Return a remote that refuses every ref that is not a branch."""
    found = Repo(path)
    hook = path / ".git/hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(ONLY_BRANCHES)
    hook.chmod(0o755)
    return found


def job_of(home: Repo, workspace: Path) -> Job:
    return Job(
        id="run/a/1",
        kind=ATTEMPT,
        item="a",
        name="a",
        fence=1,
        workspace=str(workspace),
        home=str(home.path),
        base=home.head,
        branch="refs/heads/main",
        executor="agent_harness.protocols.tasklist.hands:carry_out",
        own=(),
    )


def test_orders_and_results_travel_as_branches_of_the_remote_and_none_is_left(tmp_path: Path) -> None:
    home = Repo.with_files(tmp_path / "home", {"a.txt": "a\n"}, user_settings=True)
    away = Repo.with_files(tmp_path / "away", {"b.txt": "b\n"}, user_settings=True)
    remote = remote_of(tmp_path / "remote")
    job = job_of(home, tmp_path / "place")
    plain = Bundles(git=Git(home.path), remote=str(remote.path), project=PROJECT)
    with pytest.raises(RemoteAway, match=r"parallel\.refs: refs/heads/harness"):
        plain.send(job)
    ours = Bundles(git=Git(home.path), remote=str(remote.path), project=PROJECT, refs=BRANCHES)
    head = ours.send(job)
    theirs = Bundles(git=Git(away.path), remote=str(remote.path), project=PROJECT, refs=refs_of({"refs": BRANCHES}))
    folder = tmp_path / "order"
    folder.mkdir()
    taken = theirs.take(head, str(folder), str(tmp_path / "there"))
    assert (taken.id, taken.base) == (job.id, job.base)
    theirs.save(job.id, 1, "saved", 1, taken.base)
    assert theirs.saved(job.id) == taken.base
    files.write_json(str(folder / "result.json"), {"status": ACCEPTED, "commit": taken.base, "id": job.id, "fence": 1})
    found = theirs.answer(taken, 1, str(folder), clock.now())
    there = remote.git("for-each-ref", "--format=%(refname)").split()
    assert there and all(ref.startswith(f"{BRANCHES}/") for ref in there)
    into = tmp_path / "result"
    into.mkdir()
    ours.receive(job, found, str(into))
    assert files.read_json(str(into / "result.json"))["status"] == ACCEPTED
    ours.collect(lambda *_: None)
    assert remote.git("for-each-ref") == ""
    assert home.git("branch", "--format=%(refname:short)").split() == ["main"]


@pytest.mark.parametrize("workspace", ["{elsewhere}", "{folder}/../elsewhere", "../elsewhere"])
def test_no_folder_that_another_machine_names_is_read_here(tmp_path: Path, workspace: str) -> None:
    """SC-57: only transcripts that came with the result are read, no other file of this machine."""
    home = Repo.with_files(tmp_path / "home", {"a.txt": "a\n"}, user_settings=True)
    remote = Repo(tmp_path / "remote")
    bundles = Bundles(git=Git(home.path), remote=str(remote.path), project=PROJECT)
    job, folder, into = job_of(home, tmp_path / "place"), tmp_path / "order", tmp_path / "result"
    (folder / "sessions").mkdir(parents=True)
    (folder / "sessions/1.log").write_text("said\n")
    into.mkdir()
    known = {"status": "partial", "id": job.id, "fence": 1, "sessions": str(folder / "sessions")}
    named = workspace.format(elsewhere=tmp_path / "elsewhere", folder=folder)
    files.write_json(str(folder / "result.json"), known | {"logs": named})
    bundles.receive(job, bundles.answer(job, 1, str(folder), clock.now()), str(into))
    found = files.read_json(str(into / "result.json"))
    assert Path(found["sessions"], "1.log").read_text() == "said\n"
    assert "logs" not in found or Path(found["logs"]).resolve().is_relative_to(into)


@pytest.mark.parametrize(
    "head", [{"refs": "refs/tags"}, {"refs": "refs/heads/../x"}, {"refs": 3}, {"refs": "refs/heads/"}, {"refs": "-f"}]
)
def test_what_is_no_place_for_orders_is_refused(head: Mapping[str, object]) -> None:
    with pytest.raises(JobRefused):
        refs_of(head)
    said: list[str] = []
    assert parallel_settings.read(head, {}, where="x", say=said.append).refs == "refs/harness"
    assert 'such as refs/heads/harness; using the default, "refs/harness"' in said[0]
    with pytest.raises(ConfigurationError):
        parallel_settings.read({}, {"HARNESS_PARALLEL__REFS": str(head["refs"])}, where="x")
