"""Checkouts of our own: what is in them, what they cannot touch, and that they are gone afterwards."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_harness.errors import Refused, UnsafeTree
from agent_harness.kernel import owner
from agent_harness.kernel.git import GitFailed
from agent_harness.verification.checkout import Overlay, clear_leftovers, in_place, make_checkout, remove

from .sample import JudgedProject

Make = Callable[..., JudgedProject]
FILES = {"a.txt": "one\n", "sub/b.txt": "two\n", ".gitignore": "lent/\nnode_modules\n"}


GIT_LFS = """\
import sys

def read():
    lines = []
    while size := int(sys.stdin.buffer.read(4) or b"0", 16):
        lines.append(sys.stdin.buffer.read(size - 4))
    return lines

def say(*lines):
    for line in lines:
        sys.stdout.buffer.write(b"%04x" % (len(line) + 4) + line)
    sys.stdout.buffer.write(b"0000")
    sys.stdout.buffer.flush()

read()
say(b"git-filter-server\\n", b"version=2\\n")
read()
say(b"capability=smudge\\n")
while read():
    read()
    say(b"status=success\\n")
    say(DELIVERED)
    say()
"""
"""The side of a filter in git's protocol for long running ones (gitattributes, "Long Running Filter Process")."""


@pytest.fixture
def repo(make_repo: Make) -> JudgedProject:
    return make_repo(FILES, resolved=False)


def places() -> list[str]:
    place = Path(os.environ["XDG_CACHE_HOME"], "agent-harness/worktrees")
    return os.listdir(place) if place.exists() else []


def tree(top: Path) -> dict[str, str]:
    files = [path for path in top.rglob("*") if ".git" not in path.relative_to(top).parts]
    return {
        str(path.relative_to(top)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in files
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("version", ["2", "4"])
def test_compiled_files_are_left_out_and_tags_are_there(repo: JudgedProject, version: str) -> None:
    repo.git("config", "--global", "index.version", version)
    commit = repo.commit({"a.pyc": "x", "a.py": "y", "a.pyo": "z"})
    for packed in (False, True):
        repo.git("tag", f"v{int(packed)}")
        repo.git("pack-refs", "--all") if packed else None
        with make_checkout(repo.client, commit) as checkout:
            assert not (checkout.top / "a.pyc").exists()
            assert (checkout.top / "a.py").exists()
            words = ["git", "tag", "--list"]
            found = subprocess.run(words, cwd=checkout.cwd, capture_output=True, text=True, check=True).stdout.split()
            assert found == ["v0", "v1"][: 1 + packed]


def test_it_holds_the_commit_and_is_gone_afterwards(repo: JudgedProject) -> None:
    repo.put({"a.txt": "changed\n", "untracked.txt": "x", "lent/x": "x"})
    before = repo.git("for-each-ref"), (repo.root / ".git/config").read_text(), sorted(os.listdir(repo.root / ".git"))
    with make_checkout(repo.client, repo.base) as checkout:
        assert tree(checkout.top) == FILES
        assert not checkout.top.is_relative_to(repo.root)
        assert stat.S_IMODE(checkout.private.stat().st_mode) == 0o700
        assert (
            subprocess.run(
                ["git", "rev-parse", "HEAD"], cwd=checkout.cwd, capture_output=True, text=True, check=True
            ).stdout.strip()
            == repo.base
        )
        assert (
            subprocess.run(["git", "status", "--porcelain"], cwd=checkout.cwd, capture_output=True, check=True).stdout
            == b""
        )
    assert not checkout.private.exists()
    assert places() == []
    after = (
        repo.git("for-each-ref"),
        (repo.root / ".git/config").read_text(),
        sorted(set(os.listdir(repo.root / ".git")) - {"harness"}),
    )
    assert after == (before[0], before[1], sorted(set(before[2]) - {"harness"}))


def test_what_is_done_with_git_inside_stays_inside(repo: JudgedProject) -> None:
    repo.git("tag", "v1")
    with make_checkout(repo.client, repo.base) as checkout:
        words = (
            "git describe --tags && echo x > a.txt && git -c user.name=a -c user.email=b commit -qam inside"
            " && git branch -f main && git tag -d v1 && git config core.bare true && git gc -q --prune=now"
        )
        done = subprocess.run(["sh", "-c", words], cwd=checkout.cwd, capture_output=True, text=True, check=False)
        assert done.stdout.startswith("v1\n"), done
    assert repo.git("rev-parse", "main", "v1^{}").split() == [repo.base, repo.base]
    assert repo.git("status", "--porcelain") == ""
    repo.git("fsck", "--strict")


def test_the_repository_has_the_history_of_the_base_and_the_work_as_one_commit(repo: JudgedProject) -> None:
    """Objects that an agent committed on the way, or only stored, are nowhere; nor are tags of others' commits."""
    git, base = repo.client, repo.base
    repo.sh("git", "tag", "-am", "One", "v1", base)
    (repo.root.parent / "answer").write_text("an answer")
    stored = repo.sh("git", "hash-object", "-w", "../answer").strip()
    on_the_way = repo.commit({"answer.txt": "42\n"})
    repo.sh("git", "tag", "planted", on_the_way)
    candidate = repo.commit({"answer.txt": None, "src/calc.py": "x = 1\n"})
    answer = repo.sh("git", "rev-parse", f"{on_the_way}:answer.txt").strip()
    with make_checkout(git, candidate, base=base) as checkout:
        call = partial(subprocess.run, cwd=checkout.top, capture_output=True, text=True, check=False)
        for each in (stored, answer, on_the_way, candidate):
            assert call(["git", "cat-file", "-e", each]).returncode, each
        log = call(["git", "log", "--format=%H %T", "-2"]).stdout.splitlines()
        assert log[0].split()[1] == git.tree_of(candidate)
        assert log[1].split()[0] == base
        assert call(["git", "describe"]).stdout.startswith("v1-1-g")
        assert call(["git", "tag"]).stdout == "v1\n"
        assert call(["git", "status", "--porcelain"]).stdout == ""
        assert call(["git", "fsck", "--full", "--strict"]).returncode == 0
    with make_checkout(git, base, base=candidate) as checkout:  # code from before the base is as it was
        assert (checkout.top / ".git/HEAD").read_text().strip() == base


def test_nothing_that_an_agent_wrote_into_the_repository_takes_part(repo: JudgedProject, tmp_path: Path) -> None:
    """Hooks, filters, sparse checkouts, attributes and replaced objects of the project are not ours."""
    evil = tmp_path / "evil"
    hooks = repo.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {evil}\n")
        (hooks / name).chmod(0o755)
    repo.git("config", "filter.odd.smudge", f"touch {evil}; sed s/one/forged/")
    repo.git("config", "core.sparseCheckout", "true")
    repo.git("config", "core.fsmonitor", f"touch {evil}")
    (repo.root / ".git/info").mkdir(exist_ok=True)
    (repo.root / ".git/info/attributes").write_text("*.txt filter=odd\n")
    (repo.root / ".git/info/sparse-checkout").write_text("/a.txt\n")
    forged = repo.sh("sh", "-c", "echo forged | git hash-object -w --stdin")
    repo.git("replace", repo.git("rev-parse", "HEAD:a.txt"), forged)
    evil.unlink(missing_ok=True)
    with make_checkout(repo.client, repo.base) as checkout:
        assert tree(checkout.top) == FILES
    assert not evil.exists()


@pytest.mark.parametrize("where", ["global", "xdg"])
def test_filters_of_the_user_take_no_part(repo: JudgedProject, where: str) -> None:
    """An agent may have written them: ``~/.gitconfig`` and ``~/.config/git`` are in its reach."""
    commit = repo.commit({".gitattributes": "*.txt filter=odd text eol=crlf\n", "c.txt": "three\n"})
    home = Path(os.environ["HOME"])
    settings = '[filter "odd"]\n\tsmudge = sed s/three/forged/\n\trequired = true\n[core]\n\tautocrlf = true\n'
    if where == "xdg":
        (home / ".config/git").mkdir(parents=True)
        (home / ".config/git/config").write_text(settings)
        (home / ".config/git/attributes").write_text("*.txt filter=odd\n")
    else:
        with (home / ".gitconfig").open("a") as file:
            file.write(settings)
    with make_checkout(repo.client, commit) as checkout:
        assert (checkout.cwd / "c.txt").read_bytes() == b"three\n"
        assert (checkout.cwd / "a.txt").read_bytes() == b"one\n"


def test_a_link_is_compared_as_it_is_written(repo: JudgedProject) -> None:
    (repo.root / "link").symlink_to(".//sub/./b.txt")
    with make_checkout(repo.client, repo.commit()) as checkout:
        assert os.readlink(checkout.cwd / "link") == ".//sub/./b.txt"


def test_an_object_that_is_not_what_it_is_called_is_found(repo: JudgedProject) -> None:
    forged = zlib.compress(b"blob 7\0forged\n")
    oid = repo.git("rev-parse", "HEAD:a.txt")
    place = repo.root / ".git/objects" / oid[:2] / oid[2:]
    place.chmod(0o644)
    place.write_bytes(forged)
    with pytest.raises(UnsafeTree, match=r"a\.txt does not match its commit"), make_checkout(repo.client, repo.base):
        pass
    assert places() == []


def test_large_files_are_what_their_pointers_name(
    repo: JudgedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git-lfs is the one filter that is known: what it delivers is compared with the digest in the commit."""
    digest = hashlib.sha256(b"large\n").hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 6\n"
    commit = repo.commit({".gitattributes": "*.bin filter=lfs -text\n", "c.bin": pointer})
    lfs = tmp_path / "bin/git-lfs"
    lfs.parent.mkdir()
    monkeypatch.setenv("PATH", f"{lfs.parent}:{os.environ['PATH']}")
    for delivered in (b"large\n", b"other\n"):
        lfs.write_text(f"#!{sys.executable}\nDELIVERED = {delivered!r}\n{GIT_LFS}")
        lfs.chmod(0o755)
        if delivered == b"large\n":
            with make_checkout(repo.client, commit) as checkout:
                assert (checkout.cwd / "c.bin").read_bytes() == delivered
        else:
            with (
                pytest.raises(UnsafeTree, match=r"c\.bin does not match its commit"),
                make_checkout(repo.client, commit),
            ):
                pass


def test_leftovers_of_the_dead_are_removed_and_the_living_kept(repo: JudgedProject) -> None:
    place = Path(os.environ["XDG_CACHE_HOME"], "agent-harness/worktrees")
    dead = {**owner.current().as_record(), "start_time": "1"}
    for name, record in (("dead", json.dumps(dead)), ("alive", json.dumps(owner.current().as_record())), ("new", "{")):
        (place / name / "tree").mkdir(parents=True)
        (place / name / "owner.json").write_text(record)
    (place / "old").mkdir()
    os.utime(place / "old", (0, 0))
    outside = repo.root / "kept"
    outside.mkdir()
    (place / "link").symlink_to(outside)
    with make_checkout(repo.client, repo.base):
        pass
    assert sorted(places()) == ["alive", "link", "new"]
    assert outside.exists()


@pytest.mark.parametrize("neutral", [False, True])
def test_a_killed_harness_leaves_nothing_for_long(repo: JudgedProject, *, neutral: bool) -> None:
    code = (
        "import os, signal, sys\nfrom agent_harness.kernel.git import Git\n"
        "from agent_harness.verification.checkout import make_checkout\n"
        f"with make_checkout(Git(sys.argv[1]), sys.argv[2], neutral={neutral}):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    def found() -> list[str]:
        return [path.name for path in Path(os.environ["TMPDIR"]).glob("build-*")] if neutral else places()

    subprocess.run([sys.executable, "-c", code, repo.root, repo.base], check=False)
    (left,) = found()
    with make_checkout(repo.client, repo.base, neutral=neutral):
        assert len(found()) == 1
        assert left not in found()
    assert found() == []


@pytest.mark.parametrize("left", ["nothing in it", "a record torn in two", "a removal cut short"])
def test_a_folder_without_a_whole_record_goes_with_the_process_in_its_name(repo: JudgedProject, left: str) -> None:
    code = (
        "import os, signal, sys\nfrom agent_harness.kernel.git import Git\n"
        "from agent_harness.verification.checkout import make_checkout\n"
        "with make_checkout(Git(sys.argv[1]), sys.argv[2]) as space:\n"
        "    print(space.private, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    words = [sys.executable, "-c", code, str(repo.root), repo.base]
    folder = Path(subprocess.run(words, check=False, capture_output=True, text=True).stdout.strip())
    assert folder.is_dir()
    record = folder / "owner.json"
    record.write_text(record.read_text()[:20]) if left.startswith("a record") else record.unlink()
    if left == "nothing in it":
        remove(folder)
        folder.mkdir()
    assert clear_leftovers(repo.root) == 1
    assert places() == []


def test_what_tests_make_unreadable_is_removed(repo: JudgedProject) -> None:
    with make_checkout(repo.client, repo.base) as checkout:
        inner = checkout.top / "locked/inner"
        inner.mkdir(parents=True)
        (inner / "x").write_text("x")
        (inner / "out").symlink_to(repo.root)
        inner.chmod(0)
        inner.parent.chmod(0o500)
    assert places() == []
    assert (repo.root / "a.txt").exists()


def test_overlays_take_files_from_another_commit(repo: JudgedProject) -> None:
    later = repo.commit({"a.txt": "new\n", "sub/b.txt": None, "sub/c.txt": "three\n"})
    with make_checkout(repo.client, repo.base, overlays=[Overlay(later, ["sub/b.txt", "sub/c.txt"])]) as checkout:
        assert tree(checkout.top) == {".gitignore": FILES[".gitignore"], "a.txt": "one\n", "sub/c.txt": "three\n"}
    with make_checkout(
        repo.client, later, overlays=[Overlay(repo.base, ["a.txt", "sub/b.txt", "sub/c.txt", "none"])]
    ) as checkout:
        assert tree(checkout.top) == FILES


def test_an_overlay_does_not_follow_links_of_the_commit(repo: JudgedProject, tmp_path: Path) -> None:
    """``sub`` is a link out of the tree in the candidate; the older files take its place."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo.root / "sub/b.txt").unlink()
    (repo.root / "sub").rmdir()
    (repo.root / "sub").symlink_to(outside)
    linked = repo.commit()
    with make_checkout(repo.client, linked, overlays=[Overlay(repo.base, ["sub/b.txt"])]) as checkout:
        assert not (checkout.top / "sub").is_symlink()
        assert (checkout.top / "sub/b.txt").read_text() == "two\n"
    assert list(outside.iterdir()) == []
    with make_checkout(repo.client, repo.base, overlays=[Overlay(linked, ["sub"])]) as checkout:
        assert (checkout.top / "sub").is_symlink()


def test_compiled_files_are_left_out(repo: JudgedProject) -> None:
    commit = repo.commit({"src/__pycache__/a.cpython-311.pyc": "x", "src/b.pyc": "x", "src/a.py": "x = 1\n"})
    with make_checkout(repo.client, commit) as checkout:
        assert [path for path in tree(checkout.top) if path.startswith("src")] == ["src/a.py"]


def test_submodules_are_empty_folders(repo: JudgedProject, tmp_path: Path) -> None:
    other = JudgedProject(tmp_path / "other")
    other.root.mkdir()
    other.git("init", "-q")
    other.commit({"x.txt": "x"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "vendor")
    commit = repo.commit()
    with make_checkout(repo.client, commit) as checkout:
        assert list((checkout.top / "vendor").iterdir()) == []


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("../outside", "not a path inside"),
        ("/etc", "not a path inside"),
        (".git", "not a path inside"),
        (".", "not a path inside"),
        ("missing", "does not exist"),
        ("sub", "does not ignore"),
        ("node_modules", "leads outside the project"),
        ("lent/committed", "the commit already contains this path"),
    ],
)
def test_what_is_not_lent(repo: JudgedProject, tmp_path: Path, link: str, reason: str) -> None:
    (tmp_path / "outside").mkdir()
    (repo.root / "node_modules").symlink_to(tmp_path / "outside")
    commit = repo.commit({"lent/committed/x": "x"}, force=["lent/committed/x"])
    repo.git("rm", "-q", "--cached", "-r", "lent")
    with make_checkout(repo.client, commit, links=[link]) as checkout:
        assert len(checkout.notes) == 1
        assert reason in checkout.notes[0]


def test_ignored_folders_are_lent_and_files_are_copied(repo: JudgedProject) -> None:
    repo.put({"lent/deep/x.txt": "x", "node_modules/y.txt": "y", "lent/_version.py": "version = '1'\n"})
    links = ["lent/deep", "node_modules", "lent/_version.py"]
    with make_checkout(repo.client, repo.base, links=links) as checkout:
        assert checkout.notes == ()
        (checkout.cwd / "lent/_version.py").write_text("changed by a test")
        assert (checkout.cwd / "lent/deep/x.txt").read_text() == "x"
        assert (checkout.cwd / "node_modules").is_symlink()
        assert (
            subprocess.run(["git", "status", "--porcelain"], cwd=checkout.cwd, capture_output=True, check=True).stdout
            == b""
        )
    assert (repo.root / "lent/deep/x.txt").exists()
    assert (repo.root / "node_modules/y.txt").exists()
    assert (repo.root / "lent/_version.py").read_text() == "version = '1'\n"


def test_a_link_of_the_commit_on_the_way_lends_nothing(repo: JudgedProject, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (repo.root / "way").symlink_to(tmp_path / "outside")
    commit = repo.commit({".gitignore": "way/lent\n"})
    (repo.root / "way").unlink()
    repo.put({"way/lent/x": "x"})
    with make_checkout(repo.client, commit, links=["way/lent"]) as checkout:
        assert "a parent folder is a symbolic link in the commit" in checkout.notes[0]
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_in_the_place_of_the_project_is_refused(make_repo: Make, tmp_path: Path) -> None:
    repo = make_repo({"app/a.txt": "x"}, resolved=False)
    repo.sh("sh", "-c", f"rm -r app && ln -s {tmp_path} app")
    commit = repo.commit()
    repo.sh("sh", "-c", "rm app && mkdir app")
    repo.root /= "app"
    with pytest.raises(Refused, match="link"), make_checkout(repo.client, commit):
        raise AssertionError
    assert places() == []


def test_it_never_lies_below_the_project(repo: JudgedProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "temporary"
    other.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(other))
    for cache in (repo.root / "cache", Path("cache"), Path("/proc/nothing")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        with make_checkout(repo.client, repo.base) as checkout:
            assert checkout.top.is_relative_to(other)
    monkeypatch.setattr("tempfile.tempdir", str(repo.root))
    with pytest.raises(Refused, match="writable folder outside the project"), make_checkout(repo.client, repo.base):
        raise AssertionError


def test_in_place_is_the_folder_itself(repo: JudgedProject) -> None:
    with in_place(repo.client, repo.base) as checkout:
        assert checkout.cwd == repo.root
        assert not checkout.private.is_relative_to(repo.root)
    assert places() == []
    assert (repo.root / "a.txt").exists()


def test_what_is_no_commit_is_said(repo: JudgedProject) -> None:
    with pytest.raises(GitFailed), make_checkout(repo.client, "f" * 40):
        raise AssertionError
    assert places() == []


@pytest.mark.parametrize("form", ["sha256", "linked"])
def test_other_forms_of_repositories(tmp_path: Path, form: str) -> None:
    repo = JudgedProject(tmp_path / "project")
    repo.root.mkdir()
    repo.git("init", "-q", *(["--object-format=sha256"] if form == "sha256" else []))
    repo.base = repo.commit(FILES)
    if form == "linked":
        repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
        repo.root = tmp_path / "linked"
    later = repo.commit({"a.txt": "new\n"})
    with make_checkout(repo.client, later, overlays=[Overlay(repo.base, ["a.txt"])]) as checkout:
        assert tree(checkout.top) == FILES


def test_the_empty_tree_can_stand_for_a_commit(repo: JudgedProject) -> None:
    empty = repo.client.empty_tree()
    with make_checkout(repo.client, empty, overlays=[Overlay(repo.base, ["a.txt"])]) as checkout:
        assert tree(checkout.top) == {"a.txt": "one\n"}
