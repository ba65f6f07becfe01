"""The home folder and the variables of a check: nothing that an agent leaves in the person's home takes part."""

import os
from pathlib import Path

import pytest

from agent_harness.kernel.process.sandbox import AUTO, SandboxSettings, kind_for
from agent_harness.verification.runner.execution import FolderAccess, run_command


@pytest.fixture
def home() -> Path:
    """The person's home after an agent was at work in it."""
    place = Path(os.environ["HOME"])
    texts = {
        ".cargo/config.toml": '[build]\nrustc-wrapper = "/tmp/liar"\n',
        ".cargo/bin/cargo": "#!/bin/sh\necho a toolchain\n",
        ".cargo/registry/index": "fetched\n",
        ".npmrc": "node-options=--require=/tmp/liar.js\n",
        ".config/tool/settings": "x\n",
        ".local/state/demo/table": "42\n",
        ".cache/demo/table": "42\n",
        ".cache/go-build/entry": "built\n",
    }
    for path, text in texts.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    (place / ".cargo/bin/cargo").chmod(0o755)
    return place


def ran(command: str, folder: Path, settings: SandboxSettings = AUTO, **more: str) -> tuple[int | None, str]:
    done = run_command(
        command,
        cwd=folder,
        variables={**os.environ, **more},
        timeout_seconds=30,
        stop=None,
        access=FolderAccess([folder], (), settings),
    )
    return done.exit_code, done.output.decode()


@pytest.mark.parametrize("kind", ["auto", "off"])
def test_settings_and_state_are_not_there_and_toolchains_and_what_was_fetched_are(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX", kind)
    check = """
    [ "$HOME" != "$REAL" ] && [ ! -e ~/.cargo/config.toml ] && [ ! -e ~/.npmrc ] && [ ! -e ~/.config/tool ] || exit 1
    [ ! -e ~/.local/state/demo ] && [ ! -e "$XDG_STATE_HOME/demo" ] && [ ! -e "$XDG_CACHE_HOME/demo" ] || exit 2
    [ "$(~/.cargo/bin/cargo)" = "a toolchain" ] && grep -q fetched ~/.cargo/registry/index || exit 3
    grep -q built "$XDG_CACHE_HOME/go-build/entry" && grep -q built ~/.cache/go-build/entry || exit 4
    mkdir -p ~/.config/mine && git init -q repo && git -C repo commit -q --allow-empty -m first || exit 5
    """
    assert ran(check, tmp_path, REAL=str(home)) == (0, "")
    assert not (home / ".config/mine").exists()


def test_settings_above_the_checkout_and_full_paths_lead_nowhere_where_there_are_namespaces(home: Path) -> None:
    if kind_for(AUTO) in (None, "landlock"):
        pytest.skip("nothing can be hidden here")
    checkout = home / ".cache/agent-harness/worktrees/one"
    checkout.mkdir(parents=True)
    (home / "beside").mkdir()
    (home / "beside/lib").write_text("beside\n")
    check = f"""
    [ ! -s ../../../../.cargo/config.toml ] && [ ! -s {home}/.npmrc ] || exit 1
    [ ! -e {home}/.local/state/demo/table ] && [ ! -e {home}/.config/tool/settings ] || exit 2
    [ ! -e {home}/.cache/demo/table ] || exit 3
    grep -q beside {home}/beside/lib && grep -q fetched {home}/.cargo/registry/index && echo x > result
    """
    (checkout / "check.sh").write_text(check)
    assert ran("sh check.sh", checkout) == (0, "")
    assert (checkout / "result").exists()


def test_folders_of_tools_that_variables_name_lose_their_settings_as_well(home: Path, tmp_path: Path) -> None:
    moved = tmp_path / "cargo"
    (home / ".cargo").rename(moved)
    check = '[ ! -e "$CARGO_HOME/config.toml" ] && [ -z "$PIP_CONFIG_FILE" ] && "$CARGO_HOME/bin/cargo"'
    assert ran(check, tmp_path, CARGO_HOME=str(moved), PIP_CONFIG_FILE=f"{home}/pip.conf") == (0, "a toolchain\n")


def test_a_person_may_give_checks_the_real_home_and_else_reads_how(home: Path, tmp_path: Path) -> None:
    (home / "answer").write_text("mine\n")
    assert ran("cat ~/answer", tmp_path, SandboxSettings(writable=("~",))) == (0, "mine\n")
    code, output = ran("cat ~/answer", tmp_path)
    assert code == 1
    assert 'sandbox.writable: ["~"]' in output


def test_git_settings_that_no_agent_could_change_count(home: Path, tmp_path: Path) -> None:
    (home / ".gitconfig").write_text("[user]\n\tname = The Person\n")
    code, output = ran("git config user.name; git config user.email", tmp_path)
    name, email = output.split("\n")[:2]
    assert (code, email.endswith("@localhost")) == (0, True)
    assert name == "The Person" or kind_for(AUTO) is None


def test_tools_are_told_that_nobody_watches_unless_the_person_says_otherwise(
    tmp_path: Path,
) -> None:
    assert ran('echo "$CI"', tmp_path) == (0, "true\n")
    assert ran('echo "$CI"', tmp_path, CI="") == (0, "\n")
    assert ran('CI=0; echo "$CI"', tmp_path, CI="false") == (0, "0\n")
