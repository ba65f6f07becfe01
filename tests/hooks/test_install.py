"""Hooks are written into a client's settings and removed again; everything else stays byte for byte."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_harness.cli.machine.hooks import hook, hooks
from agent_harness.errors import Refused, UsageError
from agent_harness.hooks import install as installing
from agent_harness.hooks.codex_trust import MARK, is_ours
from agent_harness.hooks.install import CLIENTS
from agent_harness.kernel.json import edit, jsontext
from agent_harness.testing.repo import Repo
from hooks.lists import make, task

PERSONS = """\
{
    "$schema": "x",
    "model": "opus",   "cost": 1.10,
    "hooks": {
        "Stop": [
            {"hooks": [ {"type": "command", "command": "notify \\"done\\"", "timeout": 1e1} ]}
        ],
        "PreToolUse": [ ]
    },
    "permissions": { "allow": [ "Bash(ls)" ] }
}
"""

FILES = {
    "none": None,
    "empty": "",
    "object": "{}",
    "a person's": PERSONS,
    "one line": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}, "a": 1}',
    "tabs": '{\n\t"a": {\n\t\t"b": []\n\t}\n}\n',
    "windows": '{\r\n  "hooks": {},\r\n  "a": 1\r\n}\r\n',
    "byte order mark": '\ufeff{"a": 1}\n',
    "empty lists": '{"hooks": {"Stop": [], "SessionStart": []}}',
}


def place(client: str, scope: Any = "user") -> Path:
    return Path(CLIENTS[client].place(scope, str(Path.cwd()), os.environ))


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make(tmp_path / "project", task(1))
    monkeypatch.chdir(folder)
    return folder


def install(client: str, scope: Any = "user") -> dict[str, Any]:
    return installing.install(client, scope, str(Path.cwd()), os.environ)


def uninstall(client: str, scope: Any = "user") -> dict[str, Any]:
    return installing.uninstall(client, scope, str(Path.cwd()), os.environ)


def others(value: Any) -> Any:
    """Return the settings without the harness's own entries and without empty ones."""
    if isinstance(value, dict):
        if isinstance(value.get("hooks"), list) and all(map(is_ours, value["hooks"])):
            return None
        kept = {name: others(child) for name, child in value.items()}
        return {name: child for name, child in kept.items() if child not in ({}, [], None)}
    if isinstance(value, list):
        return [child for each in value if (child := others(each)) not in ({}, [], None)]
    return value


def ours(path: Path) -> dict[str, list[str]]:
    found = jsontext.loads(path.read_bytes())["hooks"]
    return {
        event: [hook["command"] for group in groups for hook in group["hooks"] if is_ours(hook)]
        for event, groups in found.items()
    }


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("kind", FILES)
def test_installing_and_taking_out_again(client: str, scope: str, kind: str) -> None:
    path, before = place(client, scope), FILES[kind]
    if before is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(before.encode())
    assert install(client, scope)["changed"] is True
    once = path.read_bytes()
    assert others(jsontext.loads(once)) == others(jsontext.loads(before or "{}"))
    assert {event: len(found) for event, found in ours(path).items() if found} == dict.fromkeys(
        CLIENTS[client].events, 1
    )
    assert install(client, scope)["changed"] is False
    assert path.read_bytes() == once
    assert uninstall(client, scope)["kept"] is None
    if before is None:
        assert not path.parent.exists()
    else:
        assert path.read_bytes() == before.encode()
        assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("inside", ["", "part"])
def test_a_file_that_is_made_in_a_project_leaves_git_as_it_was(tmp_path: Path, client: str, inside: str) -> None:
    repo = Repo(tmp_path / "repo")
    repo.write("a.txt", "a\n").commit("First")
    (repo.path / inside).mkdir(exist_ok=True)
    exclude = repo.path / ".git/info/exclude"
    before = exclude.read_bytes() if exclude.exists() else b""
    project = str(repo.path / inside)
    found = installing.install(client, "project", project, os.environ)
    assert Path(found["file"]).exists()
    assert repo.git("status", "--porcelain", "--untracked-files=all") == ""
    installing.uninstall(client, "project", project, os.environ)
    assert not Path(found["file"]).exists()
    assert exclude.read_bytes() == before


def test_a_person_s_bytes_stay() -> None:
    path = place("claude-code")
    path.parent.mkdir()
    path.write_text(PERSONS)
    path.chmod(0o640)
    answer = install("claude-code")
    text = path.read_text()
    for line in PERSONS.split("\n")[:6] + PERSONS.split("\n")[-3:]:
        assert line.rstrip(",") in text
    assert path.stat().st_mode & 0o777 == 0o640
    assert Path(answer["kept"]).read_text() == PERSONS
    assert '\n            {\n                "hooks": [\n' in text
    uninstall("claude-code")
    assert path.read_text() == PERSONS
    assert not Path(answer["kept"]).exists()


@pytest.mark.parametrize("kind", FILES)
def test_what_a_person_writes_after_us_stays_and_so_does_what_they_left_empty(kind: str) -> None:
    path, before = place("claude-code"), FILES[kind] or "{}"
    path.parent.mkdir()
    path.write_bytes(before.encode())
    install("claude-code")
    path.write_bytes(edit.put(path.read_bytes().decode(), ["theme"], "dark").encode())
    kept = uninstall("claude-code")["kept"]
    assert Path(kept).read_bytes() == before.encode()
    assert jsontext.loads(path.read_bytes()) == {**jsontext.loads(before), "theme": "dark"}


def test_hooks_of_an_older_version_are_taken_out_as_exactly() -> None:
    path = place("claude-code")
    path.parent.mkdir()
    path.write_text(PERSONS)
    install("claude-code")
    path.write_text(path.read_text().replace("-S -E", "-E"))
    uninstall("claude-code")
    assert path.read_text() == PERSONS


def test_an_entry_of_ours_is_renewed_where_it_stands() -> None:
    """Codex identifies a hook by its position: other hooks must not move."""
    path = place("codex")
    path.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": f"old {MARK}"}]}
    mine: dict[str, Any] = {"hooks": [{"type": "command", "command": "mine"}]}
    mixed = {"hooks": [{"type": "command", "command": f"older {MARK}"}, {"type": "command", "command": "mixed"}]}
    path.write_text(json.dumps({"hooks": {"Stop": [mine, old, mixed, old], "PostToolUse": [old]}}))
    install("codex")
    found = json.loads(path.read_text())["hooks"]
    stop = [[hook["command"].split(" ")[0] for hook in group["hooks"]] for group in found["Stop"]]
    assert [stop[0], stop[2]] == [["mine"], ["mixed"]]
    assert len(stop) == 3
    assert ours(path)["Stop"] == [found["Stop"][1]["hooks"][0]["command"]]
    assert "PostToolUse" not in found
    assert uninstall("codex")["others_moved"] is True
    assert [group["hooks"][0]["command"] for group in json.loads(path.read_text())["hooks"]["Stop"]] == [
        "mine",
        "mixed",
    ]


REFUSED = ["[]", "{", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{\n  // mine\n  "a": 1\n}', '{"a": 1, "a": 2}', "7"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_edited_safely_is_left_alone(text: str) -> None:
    path = place("claude-code")
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(Refused) as refused:
        install("claude-code")
    assert "hooks print" in (refused.value.hint or "")
    assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]
    assert installing.installed("claude-code", "user", str(Path.cwd()), os.environ) is False


def test_a_link_of_the_person_is_followed_and_one_of_a_project_that_leads_out_is_not(tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles.json"
    dotfiles.write_text("{}")
    path = place("claude-code")
    path.parent.mkdir()
    path.symlink_to(dotfiles)
    install("claude-code")
    assert path.is_symlink()
    assert MARK in dotfiles.read_text()
    (tmp_path / "elsewhere").mkdir()
    Path(".codex").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="points outside the project"):
        install("codex", "project")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_to_a_file_that_is_not_there_stays_one(tmp_path: Path) -> None:
    link, home = place("claude-code"), Path(os.environ["HOME"])
    link.parent.mkdir()
    link.symlink_to(tmp_path / "dotfiles" / "settings.json")
    with pytest.raises(Refused, match=r"cannot be written"):
        install("claude-code")
    assert not (home / ".config" / "agent-harness").exists()

    (tmp_path / "dotfiles").mkdir()
    install("claude-code")
    uninstall("claude-code")
    assert link.is_symlink()
    assert list((tmp_path / "dotfiles").iterdir()) == []


def test_a_file_that_a_person_wrote_anew_is_what_the_next_hooks_leave(tmp_path: Path) -> None:
    path = place("claude-code")
    path.parent.mkdir()
    for number, text in enumerate((PERSONS, '{"other": 1}', '{ "third": 3 }')):
        path.write_text(text)
        install("claude-code")
        if number == 2:
            assert uninstall("claude-code")["kept"] is None
            assert path.read_text() == text
    kept = sorted(each for each in path.parent.iterdir() if each != path)
    assert [each.read_text() for each in kept] == [PERSONS, '{"other": 1}']

    path.write_text(PERSONS)
    install("claude-code")
    path.unlink()  # then the next ones begin with no file at all
    install("claude-code")
    uninstall("claude-code")
    assert not path.exists()


def test_what_a_killed_command_leaves_is_taken_away_by_the_next(tmp_path: Path) -> None:
    path = place("claude-code", "project")
    path.parent.mkdir()
    path.write_text(PERSONS)
    kept = path.with_name(path.name + installing.KEPT)
    half = [kept, path.with_name(f"{path.name}.tmp.{2**22 + 1}.ab"), kept.with_name(f"{kept.name}.tmp.{2**22 + 1}.ab")]
    for left in half:
        left.write_text(PERSONS)
    assert installing.has_traces("claude-code", "project", str(Path.cwd()), os.environ)
    assert uninstall("claude-code", "project")["kept"] is None
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert not installing.has_traces("claude-code", "project", str(Path.cwd()), os.environ)


def test_the_command_runs_and_does_nothing_once_its_script_or_interpreter_is_gone(project: Path) -> None:
    install("codex", "project")
    (command,) = ours(place("codex", "project"))["Stop"]

    def run(text: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["sh", "-c", text], cwd=project, input=b"{}", capture_output=True, check=False)

    assert json.loads(run(command).stdout)["decision"] == "block"
    for gone in (command.replace("harness-stop.py", "gone.py"), command.replace("p=/", "p=/gone/")):
        done = run(gone)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_package_is_written_down_for_copies_of_the_plugin_until_nothing_is_installed() -> None:
    install("claude-code")
    install("codex")
    recorded = Path(os.environ["HOME"]) / ".config" / "agent-harness" / "hooks-path"
    interpreter, folder, _ = recorded.read_text().split("\n")
    assert os.access(interpreter, os.X_OK)
    assert (Path(folder) / "agent_harness" / "hooks" / "dispatch.py").is_file()
    uninstall("codex")
    assert recorded.exists()
    uninstall("claude-code")
    assert not recorded.exists()


def test_two_registrations_are_named() -> None:
    install("claude-code")
    assert install("claude-code", "project")["also_in"] == [str(place("claude-code"))]


def test_an_unknown_client_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        install("emacs")


# ---- the command line


def run(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(hooks, [*words, "--json"], catch_exceptions=False)
    return json.loads(done.output)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_command_line_answers_in_json(client: str) -> None:
    assert run("install", "--client", client, "--project")["file"] == str(place(client, "project"))
    assert run("uninstall", "--client", client, "--project")["changed"] is True
    assert set(run("print", "--client", client)["settings"]["hooks"]) == set(CLIENTS[client].events)


def test_a_person_hears_that_codex_skips_hooks_which_nobody_trusts() -> None:
    done = CliRunner().invoke(hooks, ["install", "--client", "codex"], catch_exceptions=False)
    assert "Codex silently skips these hooks until you trust them" in done.output
    assert "--trust" in done.output


def test_a_client_that_calls_an_event_of_another_version_is_not_kept_going() -> None:
    done = CliRunner().invoke(hook, ["after-midnight"], standalone_mode=False, catch_exceptions=False)
    assert (done.return_value, done.stdout) == (0, "")
