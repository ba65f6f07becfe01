"""Going back loses nothing, whatever the repository was like and whatever an agent did to it.

States and attempts are random lists of steps over a few names, so that they collide: files become folders and links,
ignored files become tracked ones. Some dozen examples run by default, 2,000 with ``make test-slow``;
``HARNESS_PROPERTY_EXAMPLES`` sets another number.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent_harness.kernel.git import Git
from agent_harness.kernel.snapshot import Rescue, adopt, candidate, restore, take
from agent_harness.testing.repo import Repo

Script = list[tuple[Any, ...]]

FEW = int(os.environ.get("HARNESS_PROPERTY_EXAMPLES", "30"))
MANY = int(os.environ.get("HARNESS_PROPERTY_EXAMPLES", "2000"))
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
HARNESS = (".harness/", "state.json")

NAMES = (
    "a",
    "b",
    "d",
    "build",
    "x.o",
    "with space",
    "-dash",
    'qu"ote',
    "new\nline",
    "ünï",
    os.fsdecode(b"\xff\xfe"),
    "*",
)
PATHS = st.one_of(
    st.sampled_from(NAMES),
    st.builds("/".join, st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))),
    st.builds("/".join, st.tuples(st.sampled_from(NAMES[:5]), st.sampled_from(NAMES[:5]), st.sampled_from(NAMES[:3]))),
    st.sampled_from((".harness/log", "state.json", "d/.gitignore")),
)
CONTENTS = st.sampled_from(
    (b"", b"one\n", b"two\n", b"three\n", b"line\r\nend\r\n", b"mixed\r\nends\n", b"\0\xff", b"$Id$\n")
)
PATTERNS = st.sampled_from(("*.o", "build/", "a", "d/", "/b", "*", "!x.o", "d/*", "[ab]"))
ATTRIBUTES = st.sampled_from(("* text=auto", "a text eol=crlf", "* ident", "* -text", "b filter=nothing", "d/* text"))

# A step is a name of a method below and its arguments.
FILES = [
    st.tuples(st.just("write"), PATHS, CONTENTS, st.booleans()),
    st.tuples(st.just("write"), PATHS, CONTENTS, st.booleans()),
    st.tuples(st.just("link"), PATHS, st.sampled_from(("nowhere", "a", ".", "d", "/"))),
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("folder"), PATHS),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("ignore"), PATTERNS),
    st.tuples(st.just("pipe"), PATHS),
    st.tuples(st.just("protect"), PATHS),
    st.tuples(st.just("attributes"), ATTRIBUTES),
    st.tuples(st.just("nested"), PATHS),
]
GIT = [
    st.tuples(st.just("stage")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("intend"), PATHS),
    st.tuples(st.just("assume"), PATHS),
    st.tuples(st.just("skip"), PATHS),
    st.tuples(st.just("exclude"), PATTERNS),
    st.tuples(st.just("uncache"), PATHS),
    st.tuples(st.just("force_add"), PATHS),
    st.tuples(st.just("detach")),
    st.tuples(st.just("endings"), st.sampled_from(("true", "input"))),
    st.tuples(st.just("split_index")),
]
AGENT = [
    st.tuples(st.just("amend")),
    st.tuples(st.just("branch")),
    st.tuples(st.just("step_back")),
    st.tuples(st.just("unignore")),
    st.tuples(st.just("stash")),
    st.tuples(st.just("forget_indexes")),
    st.tuples(st.just("collect")),
]
STATES = st.lists(st.one_of(*FILES, *GIT), max_size=14)
ATTEMPTS = st.lists(st.one_of(*FILES, *GIT, *AGENT), max_size=10)


class Steps:
    """What people and agents do in a repository; a step that makes no sense here does nothing."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.count = 0

    def play(self, steps: Script) -> None:
        for name, *words in steps:
            getattr(self, name)(*words)

    def git(self, *words: str) -> None:
        self.repo.git(*words, check=False)

    def clear(self, path: str) -> Path:
        """Makes room for something at a path: what is there goes, and files above it become folders."""
        full = self.repo.path / path
        for parent in reversed(full.relative_to(self.repo.path).parents[:-1]):
            above = self.repo.path / parent
            if os.path.lexists(above) and (above.is_symlink() or not above.is_dir()):
                above.unlink()
        full.parent.mkdir(parents=True, exist_ok=True)
        self.remove(path)
        return full

    def write(self, path: str, content: bytes, executable: bool) -> None:
        full = self.clear(path)
        full.write_bytes(content)
        full.chmod(0o755 if executable else 0o644)

    def link(self, path: str, target: str) -> None:
        self.clear(path).symlink_to(target)

    def remove(self, path: str) -> None:
        full = self.repo.path / path
        if full.is_symlink() or full.is_file() or full.is_fifo():
            full.unlink()
        elif full.is_dir():
            shutil.rmtree(full)

    def folder(self, path: str) -> None:
        self.clear(path).mkdir()

    def pipe(self, path: str) -> None:
        if not path.endswith(".gitignore"):  # git would wait for somebody to write into it
            os.mkfifo(self.clear(path))

    def protect(self, path: str) -> None:
        full = self.repo.path / path
        if full.is_file() and not full.is_symlink():
            full.chmod(0o600)

    def move(self, old: str, new: str) -> None:
        source = self.repo.path / old
        if (
            os.path.lexists(source)
            and not source.is_fifo()
            and not f"{new}/".startswith(f"{old}/")
            and not f"{old}/".startswith(f"{new}/")
        ):
            source.rename(self.clear(new))

    def nested(self, path: str) -> None:
        Repo(self.clear(path)).write("inner", "inner\n").commit()

    def ignore(self, pattern: str) -> None:
        self.repo.ignore(pattern)

    def unignore(self) -> None:
        (self.repo.path / ".gitignore").unlink(missing_ok=True)

    def attributes(self, line: str) -> None:
        self.repo.write(".gitattributes", f"{line}\n")

    def exclude(self, pattern: str) -> None:
        with (self.repo.path / ".git" / "info" / "exclude").open("a") as file:
            file.write(f"{pattern}\n")

    def endings(self, value: str) -> None:
        self.repo.config("core.autocrlf", value)

    def stage(self) -> None:
        self.git("add", "--all")

    def commit(self) -> None:
        self.count += 1
        self.git("add", "--all")
        self.git("commit", "-q", "-m", f"Commit {self.count}")

    def amend(self) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "--amend", "-m", "Amended")

    def intend(self, path: str) -> None:
        self.git("add", "--intent-to-add", "--", f":(literal){path}")

    def assume(self, path: str) -> None:
        self.git("update-index", "--assume-unchanged", "--", path)

    def skip(self, path: str) -> None:
        self.git("update-index", "--skip-worktree", "--", path)

    def uncache(self, path: str) -> None:
        self.git("rm", "-r", "-q", "--cached", "--", f":(literal){path}")

    def force_add(self, path: str) -> None:
        self.git("add", "--force", "--", f":(literal){path}")

    def detach(self) -> None:
        self.git("checkout", "-q", "--detach")

    def branch(self) -> None:
        self.count += 1
        self.git("checkout", "-q", "-b", f"branch-{self.count}")

    def step_back(self) -> None:
        self.git("reset", "-q", "--soft", "HEAD~1")

    def stash(self) -> None:
        self.git("stash", "-q", "--include-untracked")

    def split_index(self) -> None:
        self.git("update-index", "--split-index")

    def collect(self) -> None:
        self.git("gc", "-q", "--prune=now")

    def forget_indexes(self) -> None:
        shutil.rmtree(self.repo.path / ".git" / "harness" / "index", ignore_errors=True)


@dataclass
class Look:
    """Everything that must be the same again."""

    files: dict[str, tuple[str, bytes]]
    ignored: set[str]
    places: set[str]  # the same, whole folders as one
    nested: set[str]
    facts: tuple[str, ...]
    status: set[str]
    head: str | None

    @classmethod
    def at(cls, repo: Repo) -> "Look":
        nested = {name for name in _folders(repo) if (repo.path / name / ".git").exists()}
        hidden = ("ls-files", "-z", "-o", "-i", "--exclude-standard")
        names = repo.git_bytes(*hidden).split(b"\0")
        places = {os.fsdecode(name).rstrip("/") for name in repo.git_bytes(*hidden, "--directory").split(b"\0")}
        head = repo.git("rev-parse", "--verify", "-q", "HEAD", check=False) or None
        intended = repo.git("diff", "--name-only", "--diff-filter=A", "-z")  # only intended to be added
        facts = (
            repo.git("ls-files", "-s", "-z"),
            repo.git("ls-files", "-v", "-z"),
            "\0".join(name for name in intended.split("\0") if not harness(name)),
            repo.git("symbolic-ref", "-q", "HEAD", check=False),
            head or "",
        )
        shown = repo.git_bytes("status", "--porcelain", "-z", "-uall", "--no-renames", check=False)
        status = set(os.fsdecode(shown).split("\0"))  # nothing where git refuses: a link in a repository's place
        return cls(contents(repo.path), {os.fsdecode(name) for name in names}, places, nested, facts, status, head)

    def project_status(self, foreign: set[str]) -> set[str]:
        """The lines of the status that are not about the harness's own files, other repositories or pipes."""
        paths = {line: line[3:].rstrip("/") for line in self.status}
        return {line for line, path in paths.items() if not (harness(path) or path in foreign or inside(path, foreign))}

    def pipes(self) -> set[str]:
        """Paths of what is neither a file nor a link."""
        return {path for path, (kind, _) in self.files.items() if kind == "other"}

    def ours(self) -> set[str]:
        """Paths that a snapshot must bring back."""
        foreign = self.ignored | self.pipes()
        return {path for path in self.files if not (path in foreign or harness(path) or inside(path, self.nested))}


def _folders(repo: Repo) -> Iterator[str]:
    for folder, names, _ in os.walk(repo.path):
        names[:] = [name for name in names if name != ".git"]
        for name in names:
            if not os.path.islink(os.path.join(folder, name)):
                yield os.path.relpath(os.path.join(folder, name), repo.path)


def contents(top: Path) -> dict[str, tuple[str, bytes]]:
    """Kind and bytes of everything outside of the top's own ``.git``."""
    found = {}
    for folder, names, files in os.walk(top):
        if Path(folder) == top and ".git" in names:
            names.remove(".git")
        for name in (*files, *(name for name in names if os.path.islink(os.path.join(folder, name)))):
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            if stat.S_ISLNK(mode):
                entry = "link", os.fsencode(os.readlink(full))
            elif stat.S_ISREG(mode):
                entry = f"file {stat.S_IMODE(mode):o}", Path(full).read_bytes()
            else:
                entry = "other", b""
            found[os.path.relpath(full, top)] = entry
    return found


def harness(path: str) -> bool:
    return path == "state.json" or path.startswith(("state.json/", ".harness/"))


def inside(path: str, folders: set[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def in_commit(repo: Repo, commit: str | None) -> dict[str, tuple[str, bytes]]:
    """Kind and bytes of every file of a commit."""
    found = {}
    lines = repo.git_bytes("ls-tree", "-r", "-z", commit).split(b"\0")[:-1] if commit else []
    for line in lines:
        facts, _, path = line.partition(b"\t")
        mode, kind, oid = facts.decode().split()
        if kind == "blob":
            found[os.fsdecode(path)] = (
                "link" if mode == "120000" else f"file {mode[3:]}",
                repo.git_bytes("cat-file", "blob", oid),
            )
    return found


@contextmanager
def repository() -> Iterator[tuple[Repo, Path]]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Repo(Path(folder) / "project"), Path(folder) / "rescued"


@contextmanager
def own_settings_put_back(repo: Repo) -> Iterator[None]:
    """The settings and private ignore rules of the repository are as before: a snapshot is not about them."""
    files = {
        path: path.read_bytes() for path in (repo.path / ".git" / "config", repo.path / ".git" / "info" / "exclude")
    }
    yield
    for path, content in files.items():
        path.write_bytes(content)


def compare(repo: Repo, before: Look, after: Look, rescue: Rescue, rescued: Path) -> None:
    """Everything of the user is back, everything of the attempt is somewhere, everything ignored is untouched."""
    final = Look.at(repo)
    moved = contents(rescued) if rescued.exists() else {}
    for path in before.ours():
        assert final.files.get(path) == before.files[path], f"{path!r} is not back"
    for path in after.files:
        foreign = path in before.ignored or inside(path, before.nested)
        if (path in before.files and foreign) or harness(path):
            assert final.files.get(path) == after.files[path] or moved.get(path) == after.files[path], (
                f"{path!r} was touched"
            )
    taken = in_commit(repo, rescue.commit)
    for path, entry in after.files.items():
        kept = [final.files.get(path), moved.get(path), taken.get(path), before.files.get(path)]
        kinds = [(kind.replace("600", "644"), content) for kind, content in (each for each in kept if each)]
        assert (entry[0].replace("600", "644"), entry[1]) in kinds, f"{path!r} of the attempt is lost"
    assert not any(harness(path) for path in taken)
    assert final.facts == before.facts
    left = {f"?? {path}" for path in rescue.left_in_place}
    foreign = before.nested | after.nested | before.pipes() | before.places
    shown = final.project_status(foreign) - left
    assert shown == before.project_status(foreign) - left
    if after.head and after.head != before.head:
        assert rescue.commit
        assert not repo.git("rev-list", after.head, f"^{rescue.commit}")


def check_back(state: Script, attempt: Script) -> None:
    with repository() as (repo, rescued):
        Steps(repo).play(state)
        git, before = Git(repo.path), Look.at(repo)
        snapshot = take(git, "refs/harness/base/1", exclude=HARNESS)
        assert Look.at(repo) == before
        assert not any(harness(path) for path in in_commit(repo, snapshot.commit))
        with own_settings_put_back(repo):
            Steps(repo).play(attempt)
            after = Look.at(repo)
            rescue = restore(git, snapshot, "refs/harness/rescue/1", exclude=HARNESS, rescue_files=rescued)
        compare(repo, before, after, rescue, rescued)


def check_candidate(state: Script, attempt: Script) -> None:
    with repository() as (repo, _):
        Steps(repo).play(state)
        git, before = Git(repo.path), Look.at(repo)
        flagged = {line[2:] for line in repo.git("ls-files", "-v", "-z").split("\0") if line[:1] not in ("H", "")}
        base = take(git, "refs/harness/base/1", exclude=HARNESS)
        rules = ignored_by_files(repo)
        Steps(repo).play(attempt)
        after = Look.at(repo)
        tracked = set(repo.git("ls-files", "-z").split("\0"))
        made = candidate(git, "refs/harness/candidate/1", exclude=HARNESS, message="The work", base=base)
        assert Look.at(repo) == after
        tree, held = in_commit(repo, made), in_commit(repo, base.commit)
        ignored = rules()
        for path, entry in after.files.items():
            if harness(path) or inside(path, after.nested) or entry[0] == "other":
                continue
            hidden_by_user = path in flagged and before.files.get(path) == entry
            if hidden_by_user or (path in ignored and path not in held and path not in tracked):
                continue
            assert path in tree, f"{path!r} is not in the candidate"
            if not shaped(state, attempt):
                assert tree[path] == (entry[0].replace("600", "644"), entry[1])
        assert {path for path in tree if not harness(path)} <= {*after.files, *flagged}
        own = {path: entry for path, entry in in_commit(repo, base.head).items() if harness(path)}
        assert {path: entry for path, entry in tree.items() if harness(path)} == own
        check_adopted(repo, git, made, after, quiet=shaped(state, attempt))


def check_adopted(repo: Repo, git: Git, made: str, after: Look, *, quiet: bool) -> None:
    branch = git.branch() or "detached"
    adopt(git, made, branch=branch, expected_head=after.head)
    final = Look.at(repo)
    assert (final.files, final.head) == (after.files, made)
    shown = final.project_status(after.nested)
    assert quiet or {line for line in shown if not line.startswith("??")} <= {""}


def shaped(*scripts: Script) -> bool:
    """Whether something in there makes objects differ from files."""
    return any(step[0] in ("attributes", "endings") for script in scripts for step in script)


def ignored_by_files(repo: Repo) -> Callable[[], set[str]]:
    """Answers later which files are ignored by ``.gitignore`` files, or by ``info/exclude`` as it is now."""
    exclude = (repo.path / ".git" / "info" / "exclude").read_bytes()

    def answer() -> set[str]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "exclude").write_bytes(exclude)
            words = [
                "ls-files",
                "-z",
                "-o",
                "-i",
                "--exclude-per-directory=.gitignore",
                f"--exclude-from={folder}/exclude",
            ]
            env = {**os.environ, "GIT_INDEX_FILE": f"{folder}/index"}
            out = subprocess.run(["git", *words], cwd=repo.path, env=env, capture_output=True, check=True).stdout
        return {os.fsdecode(path) for path in out.split(b"\0")}

    return answer


def examples(count: int) -> settings:
    """So many random examples; a failing one is made small before it is shown."""
    phases = (Phase.generate, Phase.shrink)
    return settings(
        max_examples=count,
        derandomize=count == FEW,  # the default suite is the same every time; the long one explores
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        database=None,
    )


@examples(FEW)
@given(STATES, ATTEMPTS)
def test_going_back_loses_nothing(state: Script, attempt: Script) -> None:
    check_back(state, attempt)


@pytest.mark.scenario
@examples(FEW)
@given(STATES, ATTEMPTS)
def test_a_candidate_is_the_work_tree(state: Script, attempt: Script) -> None:
    check_candidate(state, attempt)


@pytest.mark.parametrize("before", [(), ("protect",)])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("after", [("protect",), ("write", b"", False), ("write", b"", True), ("write", b"1", False)])
def test_permissions_come_back(before: tuple[str, ...], committed: bool, after: tuple[Any, ...]) -> None:
    state: Script = [("write", "a/b", b"", False)]
    state += [(name, "a/b") for name in before] + [("commit",)] * committed
    check_back(state, [(after[0], "a/b", *after[1:])])


def test_what_comes_into_an_ignored_folder_stays_there() -> None:
    check_back([("ignore", "*"), ("write", "d/a", b"", False)], [("unignore",), ("write", "d/.gitignore", b"", False)])


def test_a_link_in_the_place_of_a_staged_repository() -> None:
    attempt: Script = [("nested", "a"), ("stage",), ("link", "a", "nowhere")]
    check_back([("write", "b", b"", False)], attempt)
    check_candidate([("write", "b", b"", False)], attempt)


def test_a_repository_that_is_intended_to_be_added_is_so_again() -> None:
    check_back([("nested", "a"), ("intend", "a")], [("forget_indexes",)])


@pytest.mark.slow
@pytest.mark.timeout(7200)
@examples(MANY)
@given(STATES, ATTEMPTS)
def test_going_back_loses_nothing_at_length(state: Script, attempt: Script) -> None:
    check_back(state, attempt)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@examples(MANY)
@given(STATES, ATTEMPTS)
def test_a_candidate_is_the_work_tree_at_length(state: Script, attempt: Script) -> None:
    check_candidate(state, attempt)
