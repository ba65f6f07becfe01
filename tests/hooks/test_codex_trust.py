"""Codex sets its own trust: only for the harness's hooks, only with Codex's hashes, and with a time limit.

A small program replaces ``codex app-server`` here; the real one is driven in ``tests/clients``.
"""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_harness.cli.machine.hooks import hooks
from agent_harness.errors import Refused, ToolMissing
from agent_harness.hooks import codex_trust
from agent_harness.hooks import install as installing

CODEX = """\
#!{python}
import hashlib, json, os, sys
home = os.path.expanduser("~/.codex")
trusted_file = os.path.join(home, "trusted.json")

def listed():
    path = os.path.join(home, "hooks.json")
    trusted = json.load(open(trusted_file)) if os.path.exists(trusted_file) else {{}}
    for event, groups in json.load(open(path))["hooks"].items():
        for place, group in enumerate(groups):
            for inner, hook in enumerate(group["hooks"]):
                key = f"{{path}}:{{event.lower()}}:{{place}}:{{inner}}"
                digest = "sha256:" + hashlib.sha256(hook["command"].encode()).hexdigest()
                status = "trusted" if trusted.get(key, {{}}).get("trusted_hash") == digest else "untrusted"
                yield {{"key": key, "command": hook["command"], "sourcePath": path, "currentHash": digest,
                       "trustStatus": status}}

print("no json", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method = asked["method"]
    if "id" not in asked:
        continue
    {trouble}
    result = {{}}
    if method == "hooks/list":
        result = {{"data": [{{"cwd": asked["params"]["cwds"][0], "hooks": list(listed())}}]}}
    if method == "config/batchWrite":
        (edit,) = asked["params"]["edits"]
        assert (edit["keyPath"], edit["mergeStrategy"]) == ("hooks.state", "upsert")
        json.dump(edit["value"], open(trusted_file, "w"))
    print(json.dumps({{"method": "note", "params": {{}}}}), flush=True)
    print(json.dumps({{"id": asked["id"], "result": result}}), flush=True)
"""

PERSONS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}


def stand_in(folder: Path, trouble: str = "pass") -> None:
    """Put a ``codex`` first on PATH."""
    program = folder / "bin" / "codex"
    program.parent.mkdir(exist_ok=True)
    program.write_text(CODEX.format(python=sys.executable, trouble=trouble))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of Codex's settings, with a person's hook in it."""
    stand_in(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    home = Path(os.environ["HOME"]) / ".codex"
    home.mkdir()
    (home / "hooks.json").write_text(json.dumps(PERSONS))
    installing.install("codex", "user", str(tmp_path), os.environ)
    return home


def trust(home: Path) -> bool:
    return codex_trust.trust(str(home / "hooks.json"), str(Path.cwd()), os.environ)


def test_our_hooks_are_trusted_and_nobody_else_s(codex: Path) -> None:
    assert trust(codex) is True
    written: dict[str, Any] = json.loads((codex / "trusted.json").read_text())
    assert sorted(key.split("hooks.json:")[1] for key in written) == [
        "sessionstart:0:0",
        "stop:1:0",
        "subagentstop:0:0",
    ]
    states = codex_trust.states(str(codex / "hooks.json"), str(Path.cwd()), os.environ)
    assert {each["trustStatus"] for each in states} == {"trusted"}
    (codex / "trusted.json").chmod(0o400)
    assert trust(codex) is True


def test_a_file_that_codex_does_not_read_is_not_trusted(codex: Path, tmp_path: Path) -> None:
    assert codex_trust.trust(str(tmp_path / "other.json"), str(tmp_path), os.environ) is False
    assert not (codex / "trusted.json").exists()


TROUBLE = [
    ("sys.exit(3)", "exited"),
    (
        "print(json.dumps({'id': asked['id'], 'error': {'code': -32601, 'message': 'unknown'}}), flush=True); continue",
        "unknown",
    ),
    ("import time; time.sleep(60)", "did not answer"),
    ("os.close(1); sys.stdin.read()", "exited before"),
]


@pytest.mark.parametrize(("trouble", "words"), TROUBLE, ids=["dead", "refusing", "silent", "deaf"])
def test_a_codex_in_trouble_is_one_line_for_the_person(
    codex: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, words: str
) -> None:
    stand_in(tmp_path, trouble)
    if words == "did not answer":
        monkeypatch.setattr(codex_trust, "TIMEOUT_SECONDS", 0.3)
    with pytest.raises(Refused, match=words) as refused:
        trust(codex)
    assert refused.value.hint == "type /hooks in Codex"


def test_without_codex_the_person_hears_that(codex: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="cannot be started"):
        trust(codex)


def test_the_command_line_trusts_only_when_it_is_told_to(codex: Path) -> None:
    def run(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(hooks, ["install", "--client", "codex", "--json", *words], catch_exceptions=False)
        return json.loads(done.output)

    assert run()["trusted"] is None
    assert not (codex / "trusted.json").exists()
    assert (run("--trust")["trusted"], run("--trust")["note"]) == (True, None)


# ---- what Codex has written down is taken out again

SETTINGS = """\
# mine
model = "gpt-5.5"   # a comment

[features]
plugins = false
lines = [
  ["hooks"],
]
"""
THEIRS = """
[hooks.state."{file}:stop:0:0"]
trusted_hash = "sha256:theirs"
"""
LATER = """
# the last word
[projects."/a"]
trust_level = "trusted"
"""


def noted(file: Path, *places: str) -> str:
    """Return the trust record as Codex 0.169 writes it."""
    return "".join(f'\n[hooks.state."{file}:{place}"]\ntrusted_hash = "sha256:ours"\n' for place in places)


OURS = ("session_start:0:0", "subagent_stop:0:0", "stop:1:0")
STATE = "\n[hooks.state]\n"


@pytest.mark.parametrize("theirs", [False, True], ids=["ours alone", "a person's too"])
@pytest.mark.parametrize("before", [SETTINGS, ""], ids=["settings", "none"])
@pytest.mark.parametrize("later", [LATER, "\n# the end\n", ""], ids=["more", "a comment", "nothing"])
def test_trust_goes_with_the_hooks_and_the_settings_are_as_before(
    codex: Path, theirs: bool, before: str, later: str
) -> None:
    """After a crash between the two, a second try completes it: the hooks are removed last."""
    file, settings = codex / "hooks.json", codex / "config.toml"
    kept = STATE + THEIRS.format(file=file) if theirs else ""
    settings.write_text(before + kept + later)
    settings.chmod(0o600)
    untouched = settings.read_bytes()
    settings.write_text(before + (kept or STATE) + noted(file, *OURS) + later)
    answer = installing.uninstall("codex", "user", str(Path.cwd()), os.environ)
    assert sorted(answer["trust_forgotten"]) == sorted(f"{file}:{place}" for place in OURS)
    assert answer["trust_left"] is None
    assert settings.read_bytes() == untouched
    assert settings.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text()) == PERSONS


def test_trust_in_hooks_at_other_places_and_in_other_files_is_not_ours(codex: Path, tmp_path: Path) -> None:
    file, settings = codex / "hooks.json", codex / "config.toml"
    text = STATE + noted(file, "stop:0:0", "stop:1:1", "pre_tool_use:0:0") + noted(tmp_path / "hooks.json", *OURS)
    settings.write_text(text)
    assert installing.uninstall("codex", "user", str(Path.cwd()), os.environ)["trust_forgotten"] == []
    assert settings.read_text() == text


@pytest.mark.parametrize(
    "text",
    ["[hooks", '[hooks]\nstate = {{ "{file}:stop:1:0" = {{ trusted_hash = "x" }} }}\n'],
    ids=["damaged", "inline"],
)
def test_settings_that_cannot_be_edited_safely_stay_and_the_person_hears_it(codex: Path, text: str) -> None:
    file, settings = codex / "hooks.json", codex / "config.toml"
    settings.write_text(text.format(file=file))
    before = settings.read_bytes()
    done = CliRunner().invoke(hooks, ["uninstall", "--client", "codex"], catch_exceptions=False)
    assert f"{settings} was not edited" in " ".join(done.output.split())
    assert settings.read_bytes() == before
    assert json.loads(file.read_text()) == PERSONS
