"""Places: each agent's own repository, what is rescued from it, and that nothing of it reaches anybody else."""

import subprocess
import threading
from pathlib import Path

import pytest

from agent_harness.errors import Busy
from agent_harness.kernel.git import Git
from agent_harness.parallel.landing.refs import ProjectRefs
from agent_harness.parallel.places import Workplace, take_home
from agent_harness.testing.repo import Repo

OWN = ("harness-*", ".harness")
REFS = ProjectRefs("0" * 24)


class Scene:
    """A project, and one place of it."""

    def __init__(self, path: Path, name: str = "w1") -> None:
        self.repo = Repo.with_files(path / "home", {"app.py": "one\n", ".gitignore": "*.cache\n"}, user_settings=True)
        self.place = Workplace(str(path / f"places/{name}"))
        self.prepare()

    @property
    def home(self) -> Git:
        return Git(self.repo.path)

    def prepare(self) -> None:
        self.place.prepare(self.home, self.repo.head, "refs/heads/main", REFS)

    def sh(self, command: str) -> str:
        done = subprocess.run(["sh", "-ec", command], cwd=self.place.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def rescue(self) -> list[str]:
        return self.place.rescue(self.home, "item", OWN)


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
    """SC-13: commits, a branch, two stashes, what was reset away, changes and new files."""
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
    """SC-12, SC-13: what git cannot tell any more is set aside as a folder."""
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
    before = Path(scene.place.folder, "app.py").stat()
    scene.sh(f"echo cached > x.cache; echo eno > app.py; touch -d @{int(before.st_mtime)} app.py")
    assert scene.rescue()
    scene.prepare()
    assert scene.sh("cat app.py x.cache") == "one\ncached"


def test_a_candidate_comes_home_and_outlives_its_place_and_a_collection(scene: Scene) -> None:
    """SC-15, SC-29."""
    scene.sh("echo two > app.py; git commit -q -am work")
    commit = scene.sh("git rev-parse HEAD")
    take_home(scene.place.git, scene.home, commit, "refs/harness/work/item/1")
    scene.prepare()
    scene.repo.git("reflog", "expire", "--expire=now", "--all")
    scene.repo.git("gc", "--prune=now", "--quiet")
    assert scene.repo.git("show", "refs/harness/work/item/1:app.py") == "two"
    scene.sh("git fsck --strict; git log -1 --format=%s")


def test_one_at_a_time_in_a_place(scene: Scene) -> None:
    """SC-11."""
    with scene.place.locked(), pytest.raises(Busy), Workplace(scene.place.folder).locked():
        pass


def test_eight_places_made_committing_and_stashing_at_once(tmp_path: Path) -> None:
    """No error, and each gets its own file back."""
    first = Scene(tmp_path)
    wrong: list[object] = []

    def work(number: int) -> None:
        place = Workplace(str(tmp_path / f"places/w{number}"))
        try:
            for turn in range(3):
                place.prepare(first.home, first.repo.head, "refs/heads/main", REFS)
                command = (
                    f"echo {number}.{turn} > mine; git stash -q -u; git stash pop -q; git add .; git commit -q -m x"
                )
                subprocess.run(["sh", "-ec", command], cwd=place.folder, check=True, capture_output=True)
                if Path(place.folder, "mine").read_text() != f"{number}.{turn}\n":
                    wrong.append((number, turn))
                take_home(place.git, first.home, str(place.git.head()), f"refs/harness/work/{number}/{turn}")
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
    """SC-13: the project's own repository stays whole, whatever the place says of what it borrows."""
    scene.sh(f"{lie}\n{BIG}")
    kept = scene.rescue()
    assert kept
    scene.repo.git("fsck", "--full", "--strict")
    scene.repo.git("gc", "--quiet", "--prune=now")
    for each in kept:
        assert Path(each, "big").exists() if each.startswith("/") else scene.repo.git("show", "--stat", each)


@pytest.mark.parametrize("name", ["logs/HEAD", "logs/refs/stash", "harness-base", "packed-refs", "config"])
def test_a_pipe_in_its_repository_keeps_nobody_waiting(scene: Scene, name: str) -> None:
    """SC-13: what cannot be read is set aside, or passed over."""
    scene.sh(f"echo kept > new; mkdir -p .git/logs/refs; rm -f .git/{name}; mkfifo .git/{name}")
    [kept] = scene.rescue()
    assert Path(kept, "new").read_text() == "kept\n"
    scene.prepare()
    assert scene.sh("git status --short; cat app.py") == "one"
