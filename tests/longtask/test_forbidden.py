"""Folders in which nothing is started, however their path is written."""

import os
from pathlib import Path

import pytest

from agent_harness.protocols.longtask.records import Contract, RecordView
from agent_harness.protocols.longtask.run import forbidden
from agent_harness.testing.long_task_project import LongTaskProject, book


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/", "/"),
        ("//", "/"),
        ("///..//", "/"),
        ("~", "~"),
        ("~/", "~"),
        ("~/./", "~"),
        ("~/desk/..", "~"),
        ("~/.ssh", "~/.ssh/**"),
        ("~/.ssh/deep/below", "~/.ssh/**"),
        ("~/desk/../.codex/x", "~/.codex/**"),
        ("~/.claude", "~/.claude/**"),
        ("~/.openclaw/a", "~/.openclaw/**"),
        ("~/desk", None),
        ("~/.sshx", None),
        ("/tmp", None),
    ],
)
def test_what_is_always_forbidden(path: str, pattern: str | None, tmp_path: Path) -> None:
    cwd = forbidden.expanded(path, str(tmp_path))
    assert forbidden.matched(cwd, forbidden.patterns(Contract({}), RecordView({})), str(tmp_path)) == pattern


@pytest.mark.parametrize(
    ("pattern", "path", "hit"),
    [
        ("/srv/secret", "/srv/secret", True),
        ("/srv/secret", "/srv/secret/below", False),
        ("/srv/secret/**", "/srv/secret", True),
        ("/srv/secret/**", "/srv/secret/a/b", True),
        ("/srv/secret/**", "/srv/secrets", False),
        ("/srv/*/live", "/srv/one/live", True),
        ("/srv/*/live", "/srv/one/two/live", False),
        ("/srv/*", "/srv/a", True),
        ("/srv/*", "/srv/a/b", False),
        ("/srv/v*.1", "/srv/v2.1", True),
        ("/srv/v*.1", "/srv/v2x1", False),
        ("~/live/**", "~/live/a", True),
        ("inner/**", "inner/a", True),
        ("", "/srv", False),
    ],
)
def test_patterns(pattern: str, path: str, hit: bool, tmp_path: Path) -> None:
    base = str(tmp_path)
    found = forbidden.matched(
        forbidden.expanded(path, base),
        forbidden.patterns(Contract({}), RecordView({"forbiddenCwdPatterns": [pattern]})),
        base,
    )
    assert found == (pattern if hit else None)


def test_row_14_a_link_does_not_hide_a_forbidden_folder(tmp_path: Path) -> None:
    secret = Path.home() / ".ssh" / "inner"
    secret.mkdir(parents=True)
    link = tmp_path / "innocent"
    link.symlink_to(secret)
    project = LongTaskProject.of_book(tmp_path / "task")
    for words in (("--cwd", str(link)), ("--cwd", str(link), "--dry-run"), ("--cwd", "../innocent/.")):
        done = project.lth("run", "--command", "touch ran", *words, code=1)
        assert done.err == f"Refusing to start local-command in forbidden cwd {link} (matched ~/.ssh/**).\n"
    assert not (secret / "ran").exists()
    assert project.untouched() == []


def test_a_pattern_that_goes_through_a_link_matches_the_real_folder(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "live").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    pattern = f"{tmp_path}/link/**"
    assert forbidden.matched(str(real / "live"), [pattern], str(tmp_path)) == pattern


@pytest.mark.parametrize("where", ["worker", "policy", "constraint", "option"])
def test_where_patterns_come_from(where: str, tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    project = LongTaskProject.of_book(tmp_path / "task")
    listed = [f"{tmp_path}/live"]
    members: dict[str, dict[str, object]] = {
        "worker": {"localWorker": {"forbiddenCwdPatterns": listed}},
        "policy": {"workerPolicy": {"forbiddenCwdPatterns": listed}},
        "constraint": {"constraints": [{"id": "c", "description": "d", "forbiddenCwdPatterns": listed}]},
        "option": {},
    }
    project.task = book(**members[where])
    words = ("--forbidden-cwd-patterns", f"/x, {listed[0]} ,") if where == "option" else ()
    done = project.lth("run", "--command", "true", "--cwd", str(live), *words, code=1)
    refused = f"Refusing to start local-command in forbidden cwd {live} (matched {listed[0]})."
    assert done.err.strip() == refused
    assert project.untouched() == []


def test_a_forbidden_folder_need_not_exist(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    done = project.lth("run", "--command", "true", "--cwd", "~/.codex/nowhere", code=1)
    assert "(matched ~/.codex/**)" in done.err
    done = project.lth("run", "--command", "true", "--cwd", "~/nowhere", code=1)
    assert f"not a directory: {os.path.expanduser('~/nowhere')}" in done.err
    assert project.untouched() == []


def test_two_slashes_do_not_hide_a_forbidden_folder(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    for path in (f"/{os.path.expanduser('~')}", f"/{os.path.expanduser('~/.ssh')}", "//"):
        assert "forbidden cwd" in project.lth("run", "--command", "true", "--cwd", path, code=1).err


def test_the_root_as_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert forbidden.matched("/.ssh/a", forbidden.ALWAYS, str(tmp_path)) == "~/.ssh/**"


def test_a_name_that_no_folder_has(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(localWorker={"command": "true", "cwd": "a\0b", "forbiddenCwdPatterns": ["c\0d/**"]})
    assert "Not a valid folder name" in project.lth("run", code=1).err
    project.task = book(localWorker={"command": "true", "forbiddenCwdPatterns": ["c\0d/**"]})
    project.lth("run", code=0)
