"""Workspaces: each agent's own repository, the work rescued from it, and its isolation."""

import filecmp
import os
import subprocess
import threading
from pathlib import Path

import pytest

from agent_harness.agents.base import Brief, sandbox_of
from agent_harness.errors import Busy
from agent_harness.kernel import process
from agent_harness.kernel.git import Git
from agent_harness.kernel.owner import HOME_REPOSITORY
from agent_harness.kernel.process.sandbox import AUTO, kind_for
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.workspaces import Workspace, copy_plain, fetch_into
from agent_harness.testing.repo import Repo

OWN = ("harness-*", ".harness")
REFS = ProjectRefs("0" * 24)


class Scene:
    """A project, and one workspace of it."""

    def __init__(self, path: Path, name: str = "w1") -> None:
        self.repo = Repo.with_files(path / "home", {"app.py": "one\n", ".gitignore": "*.cache\n"}, user_settings=True)
        self.workspace = Workspace(str(path / f"places/{name}"))
        self.prepare()

    @property
    def home(self) -> Git:
        return Git(self.repo.path)

    def prepare(self) -> None:
        self.workspace.prepare(self.home, self.repo.head, "refs/heads/main", REFS)

    def sh(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", command], cwd=self.workspace.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def rescue(self) -> list[str]:
        return self.workspace.rescue(self.home, "item", OWN)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_place_is_a_repository_of_its_own_on_a_branch_of_the_same_name(scene: Scene) -> None:
    """SC-12."""
    assert scene.sh(
        "git rev-parse HEAD; git symbolic-ref HEAD; git remote; git status --short; git config user.name"
    ) == (f"{scene.repo.head}\nrefs/heads/main\nTest Person")
    scene.sh("git commit -q --allow-empty -m mine; git stash list; git branch other")
    assert scene.repo.git("branch", "--format=%(refname:short)") == "main"


def test_everything_that_only_the_place_has_is_rescued(scene: Scene) -> None:
    """SC-13: commits, a branch, two stashes, commits that were reset away, changes and new files."""
    scene.sh(
        "echo s1 > a; git stash -q -u; echo s2 > a; git stash -q -u;"
        "git switch -q -c other; echo b > b; git add b; git commit -q -m other; git switch -q main;"
        "echo gone > c; git add c; git commit -q -m gone; git reset -q --hard HEAD^;"
        "echo two > app.py; echo new > d; echo x > y.cache"
    )
    refs = scene.rescue()
    assert refs
    history = scene.repo.git("log", "-m", "-p", "--format=", *refs)
    for line in ("+s1", "+s2", "+b", "+gone", "+two", "+new"):
        assert line in history.splitlines(), line
    scene.repo.git("fsck", "--strict")
    scene.prepare()
    assert scene.rescue() == []
    assert scene.sh("git status --short; git stash list; cat app.py; ls") == "one\napp.py\ny.cache"


def test_a_place_without_anything_new_has_nothing_to_rescue(scene: Scene) -> None:
    scene.sh("echo x > .harness; echo y > harness-tasks.json")
    assert scene.rescue() == []


@pytest.mark.parametrize(
    "damage",
    [
        "rm -rf .git",
        "echo junk > .git/HEAD; echo kept > kept.txt",
        "git init -q sub; cd sub; echo kept > kept.txt; git add .; git commit -q -m sub",
        "touch .git/index.lock .git/HEAD.lock; echo kept > kept.txt",
        "git update-index --assume-unchanged app.py; echo kept > app.py",
        "printf '[core]\\n\\thooksPath = /tmp\\n\\tfsmonitor = false\\n' >> .git/config; echo kept > kept.txt",
        "echo kept > kept.txt; git add .; git commit -q -m x; git checkout -q --detach; git branch -D main",
    ],
)
def test_whatever_an_agent_does_to_it_the_next_one_begins_clean(scene: Scene, damage: str) -> None:
    """SC-12, SC-13: a repository that git cannot read is set aside as a folder."""
    scene.sh(f"echo kept > also.txt; {damage}")
    kept = scene.rescue()
    assert kept
    scene.prepare()
    assert scene.sh("git rev-parse HEAD; git status --short; cat app.py") == f"{scene.repo.head}\none"
    found = [Path(each) for each in kept if each.startswith("/")]
    if found:
        assert (found[0] / "also.txt").read_text() == "kept\n"
    else:
        history = scene.repo.git("log", "-m", "-p", "--format=", *kept)
        assert "+kept" in history.splitlines()


def test_ignored_files_stay_and_modified_ones_are_read_again_whatever_their_times_say(scene: Scene) -> None:
    """SC-16."""
    before = Path(scene.workspace.folder, "app.py").stat()
    scene.sh(f"echo cached > x.cache; echo eno > app.py; touch -d @{int(before.st_mtime)} app.py")
    assert scene.rescue()
    scene.prepare()
    assert scene.sh("cat app.py x.cache") == "one\ncached"


def test_a_candidate_comes_home_and_outlives_its_place_and_a_collection(scene: Scene) -> None:
    """SC-15, SC-29."""
    scene.sh("echo two > app.py; git commit -q -am work")
    commit = scene.sh("git rev-parse HEAD")
    fetch_into(scene.workspace.git, scene.home, commit, "refs/harness/work/item/1")
    scene.prepare()
    scene.repo.git("reflog", "expire", "--expire=now", "--all")
    scene.repo.git("gc", "--prune=now", "--quiet")
    assert scene.repo.git("show", "refs/harness/work/item/1:app.py") == "two"
    scene.sh("git fsck --strict; git log -1 --format=%s")


def test_one_at_a_time_in_a_place(scene: Scene) -> None:
    """SC-11."""
    with scene.workspace.locked(), pytest.raises(Busy), Workspace(scene.workspace.folder).locked():
        pass


def test_eight_places_made_committing_and_stashing_at_once(tmp_path: Path) -> None:
    """No error, and each gets its own file back."""
    first = Scene(tmp_path)
    wrong: list[object] = []

    def work(number: int) -> None:
        workspace = Workspace(str(tmp_path / f"places/w{number}"))
        try:
            for turn in range(3):
                workspace.prepare(first.home, first.repo.head, "refs/heads/main", REFS)
                command = (
                    f"echo {number}.{turn} > mine; git stash -q -u; git stash pop -q; git add .; git commit -q -m x"
                )
                subprocess.run(["sh", "-ec", command], cwd=workspace.folder, check=True, capture_output=True)
                if Path(workspace.folder, "mine").read_text() != f"{number}.{turn}\n":
                    wrong.append((number, turn))
                fetch_into(workspace.git, first.home, str(workspace.git.head()), f"refs/harness/work/{number}/{turn}")
        except Exception as error:  # what any of them raises
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for each in threads:
        each.start()
    first.repo.git("gc", "--quiet")
    for each in threads:
        each.join()
    assert wrong == []
    assert len(first.repo.git("for-each-ref", "refs/harness/work").splitlines()) == 24


BIG = "head -c 1500000 /dev/urandom > big; git add big; git commit -q -m big"


ELSEWHERE = """git clone -q --no-local . ../other
git -C ../other -c user.name=x -c user.email=x@y commit -q --allow-empty -m x
echo "$(cd ../other; pwd)/.git/objects" >> .git/objects/info/alternates
git reset -q --hard $(git -C ../other rev-parse HEAD)"""
LIES = {
    "where it began": "git commit -q --allow-empty -m first; git rev-parse HEAD > .git/harness-base",
    "where its objects are": ELSEWHERE,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_nothing_comes_home_that_the_project_has_not_all_of(scene: Scene, lie: str) -> None:
    """SC-13: the project's own repository stays whole, whatever the workspace says of its shared objects."""
    scene.sh(f"{lie}\n{BIG}")
    kept = scene.rescue()
    assert kept
    scene.repo.git("fsck", "--full", "--strict")
    scene.repo.git("gc", "--quiet", "--prune=now")
    for each in kept:
        assert Path(each, "big").exists() if each.startswith("/") else scene.repo.git("show", "--stat", each)


@pytest.mark.parametrize("name", ["logs/HEAD", "logs/refs/stash", "harness-base", "packed-refs", "config"])
def test_a_pipe_in_its_repository_keeps_nobody_waiting(scene: Scene, name: str) -> None:
    """SC-13: an unreadable file is set aside, or skipped."""
    scene.sh(f"echo kept > new; mkdir -p .git/logs/refs; rm -f .git/{name}; mkfifo .git/{name}")
    [kept] = scene.rescue()
    assert Path(kept, "new").read_text() == "kept\n"
    scene.prepare()
    assert scene.sh("git status --short; cat app.py") == "one"


def sparse(path: Path, size: int, text: bytes, hole: int = 0) -> None:
    """Make a sparse file of that size with a text before so many zero bytes at its end."""
    with path.open("wb") as file:
        file.seek(size - len(text) - hole)
        file.write(text)
        file.truncate(size)


def test_logs_of_an_agent_are_copied_with_a_limit_and_the_end_of_a_long_one_is_kept(tmp_path: Path) -> None:
    """A sparse terabyte, many long files, and folders without an end."""
    logs, kept = tmp_path / "logs", tmp_path / "kept"
    (logs / "more").mkdir(parents=True)
    (logs / "short.log").write_text("all of it\n")
    sparse(logs / "more/long.jsonl", 1 << 40, b'\n{"last": "record"}\n')
    for number in range(6):
        sparse(logs / f"z{number}.log", 1 << 30, b"\n", (64 << 20) - 200)
    os.symlink(logs / "short.log", logs / "link.log")
    os.makedirs(logs / "/".join(["d"] * 30))
    (logs / "/".join(["d"] * 30) / "deep.log").touch()
    copy_plain(str(logs), str(kept))
    found = {each.name: each.lstat().st_size for each in kept.rglob("*.*")}
    assert sorted(found) == sorted(["short.log", "long.jsonl", *(f"z{number}.log" for number in range(6))])
    assert (kept / "short.log").read_text() == "all of it\n"
    told, last = (kept / "more/long.jsonl").read_text().splitlines()
    assert (last, "bytes before this were left out" in told) == ('{"last": "record"}', True)
    assert sum(found.values()) < (256 << 20) + 600
    assert min(found[f"z{number}.log"] for number in range(3)) > (64 << 20) - 200
    assert b"bytes before this were left out" in (kept / "z5.log").read_bytes()[:100]
    assert sum(each.lstat().st_blocks * 512 for each in kept.rglob("*.*")) < 1 << 20  # holes stay holes


def test_of_a_long_log_whole_lines_are_kept(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    lines = [f"{number:<999}" for number in range(68_000)]
    sparse(tmp_path / "logs/long.jsonl", 1 << 40, "\n".join(["", *lines, ""]).encode())
    copy_plain(str(tmp_path / "logs"), str(tmp_path / "kept"))
    told, *rest = (tmp_path / "kept/long.jsonl").read_text().splitlines()
    assert len(rest) == (64 << 20) // 1000 < len(lines)
    assert (rest, "were left out" in told) == (lines[-len(rest) :], True)
    copy_plain(str(tmp_path / "kept"), str(tmp_path / "home"))
    assert filecmp.cmp(tmp_path / "kept/long.jsonl", tmp_path / "home/long.jsonl", shallow=False)


def test_whoever_works_in_a_place_changes_nothing_of_the_project(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """SC-12: no file, ref, hook, setting or index of it, by whatever name.

    The workspace itself is free to be worked in.
    """
    if kind_for(AUTO) is None:
        pytest.skip("this machine has no sandbox")
    home = scene.repo.path
    (home / ".git/hooks").mkdir(exist_ok=True)
    monkeypatch.setenv(HOME_REPOSITORY, str(home))
    brief = Brief(prompt="", cwd=Path(scene.workspace.folder), session=1, prompt_type="coding")
    tries = [
        *("echo x > app.py", "echo x > new", "rm app.py", "echo x > .git/hooks/post-checkout", "git tag evil"),
        *("git config core.fsmonitor evil", "git update-ref -d refs/heads/main", "git add -A", "mv .git .gone"),
    ]
    before = scene.repo.files(), (home / ".git/config").read_bytes()
    script = "".join(f"(cd '{home}' && {each}) 2>/dev/null && echo '{each}'\n" for each in tries)
    mine = "echo two >> app.py && git commit -qam mine && git tag mine && git stash list && git log -1 --format=%s"
    env = process.scrubbed_environment()
    done = process.run(
        script + mine, cwd=scene.workspace.folder, env=env, timeout_seconds=60, sandbox=sandbox_of(brief)
    )
    assert (done.exit_code, done.output.decode().split()) == (0, ["mine"])
    assert (scene.repo.files(), (home / ".git/config").read_bytes()) == before
