"""Which addresses git is kept from pushing to, in the environment of an agent."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_harness.protocols.features.publish import push_retry


def made(config: dict[str, list[str]]) -> dict[str, str]:
    """The rules as git reads them: key and value."""
    told = push_retry.no_push_variables(config)
    count = int(told.get("GIT_CONFIG_COUNT", "0"))
    return {told[f"GIT_CONFIG_VALUE_{n}"]: told[f"GIT_CONFIG_KEY_{n}"].rpartition(".")[2] for n in range(count)}


@pytest.mark.parametrize(
    ("config", "rules"),
    [
        ({}, {}),
        ({"remote.pushdefault": ["origin"], "branch.main.remote": ["origin"]}, {}),
        ({"remote.origin.url": ["a"]}, {"a": "pushInsteadOf"}),
        ({"remote.my.fork.url": ["a", "b"]}, {"a": "pushInsteadOf", "b": "pushInsteadOf"}),
        ({"remote.o.url": ["a"], "remote.o.pushurl": ["b"]}, {"a": "pushInsteadOf", "b": "insteadOf"}),
        ({"remote.o.url": ["a"], "remote.o.pushurl": ["a"]}, {"a": "pushInsteadOf"}),
    ],
)
def test_every_address_has_a_rule(config: dict[str, list[str]], rules: dict[str, str]) -> None:
    """C04."""
    assert made(config) == rules


@pytest.mark.parametrize("own", [False, True], ids=["one-address", "one-to-push-to"])
def test_git_fetches_and_does_not_push(tmp_path: Path, own: bool) -> None:
    """C04: real git, with one address for both and with an address of its own for pushes."""
    there, here = tmp_path / "there.git", tmp_path / "here"

    def git(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **more}
        return subprocess.run(["git", *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    git("init", "-q", "--bare", str(there))
    git("init", "-q", str(here))
    config = {"remote.origin.url": [str(there)]}
    git("-C", "here", "remote", "add", "origin", str(there))
    if own:
        config["remote.origin.pushurl"] = [f"file://{there}"]
        git("-C", "here", "remote", "set-url", "--push", "origin", f"file://{there}")
    git("-C", "here", "commit", "-q", "--allow-empty", "-m", "One")
    rules = push_retry.no_push_variables(config)
    refused = git("-C", "here", "push", "origin", "HEAD:refs/heads/x", **rules)
    assert refused.returncode != 0
    assert "only-the-harness-pushes" in refused.stderr
    assert git("-C", "here", "fetch", "origin", **rules).returncode == 0
    assert git("-C", "here", "push", "origin", "HEAD:refs/heads/x").returncode == 0, "the same without the rules"
