"""The same three features give the same tree and the same verdicts, whichever agent builds them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .client import KEY, LIMIT_SECONDS, ClaudeCode, Client
from .features import ClientWorld, client_world

pytestmark = pytest.mark.client

FEATURES = (1, 2, 3)
OWN = ("features.json", "claude-progress.txt")  # what the harness itself writes, with times in it

PROGRAM = """\
import re, subprocess, sys

feature = re.search(r"\\*\\*Feature #(\\d+):\\*\\*", sys.stdin.read())[1]
base = sys.argv[1]
for act in ("implement", "claim", "commit"):
    subprocess.run([sys.executable, f"{base}/work.py", act, f"{base}/work-{feature}.json"], check=True)
    if act == "implement":
        proof = f"tests/e2e/test_{sys.argv[1 + int(feature)]}.py"
        print(f"$ python3 -m pytest {proof} -v", flush=True)
        subprocess.run(["python3", "-m", "pytest", proof, "-v"], check=True)
"""


def spec(name: str, world: ClientWorld) -> str:
    """The agent of this kind, set up to build the three features."""
    if name == "command":
        program = world.base / "agent.py"
        program.write_text(PROGRAM)
        return f"command:python3 {program} {world.base} add sub mul"
    for feature in FEATURES:
        world.client.island.script(f"work-{feature}", world.honest(feature), start=rf"\*\*Feature #{feature}:\*\*")
    if name == "api":
        world.environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": world.client.island.url}
        return "api:anthropic/claude-sonnet-4-6"
    return name


def built(name: str, world: ClientWorld) -> Mapping[str, Any]:
    """What three sessions of this agent come to."""
    agent = spec(name, world)
    for _ in FEATURES:
        ran = world.harness("run", agent=agent, timeout=LIMIT_SECONDS * 2)
        assert ran.code == 0, f"{name}\n{ran.text}"
    world.cross_cutting()
    rows = (line.split("\t") for line in world.git("ls-tree", "-r", "HEAD").splitlines())
    return {
        "passing": world.passing(),
        "baseline": sorted(world.baseline["passing_tests"]),
        "verdicts": [row["feature_completed"] for row in world.events("session_ended")],
        "tree": {path: blob for blob, path in rows if path not in OWN and path.startswith(("src/", "tests/"))},
    }


def test_the_same_tree_and_the_same_verdicts(client: Client, tmp_path: Path) -> None:
    names = ["command", "api", client.name] if isinstance(client, ClaudeCode) else ["command", client.name]
    found = {}
    for name in names:
        base = tmp_path / f"as-{name}"
        base.mkdir()
        found[name] = built(name, client_world(base, client, FEATURES))
    assert found["command"]["passing"] == list(FEATURES)
    assert found["command"]["verdicts"] == [True, True, True]
    assert all(each == found["command"] for each in found.values()), found
