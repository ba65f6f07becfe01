"""How a scenario begins: further settings, other features, other files, committed and pushed as a person would."""

import json
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from .script import honest, turn
from .world import Ran, World


def commit_and_push(world: World, message: str) -> str:
    """The new HEAD, which the remote has as well."""
    head = world.commit(message)
    world.git("push", "-q")
    return head


def with_settings(world: World, text: str) -> str:
    """More lines of ``.harness.yaml``."""
    path = world.root / ".harness.yaml"
    path.write_text(path.read_text() + text)
    return commit_and_push(world, "Settings")


def with_files(world: World, files: Mapping[str, str]) -> str:
    """Other files of the project, the scripts executable."""
    world.put(files)
    return commit_and_push(world, "Other files")


def with_features(world: World, edit: Callable[[list[dict[str, Any]]], None]) -> str:
    """features.json after ``edit`` of its list."""
    document = world.features
    edit(document["features"])
    world.put({"features.json": json.dumps(document, indent=2) + "\n"})
    return commit_and_push(world, "Other features")


def with_costs(world: World, **cumulative: object) -> None:
    """costs.yaml as earlier sessions would have left it."""
    costs = world.costs
    costs["cumulative"] |= cumulative
    (world.root / ".harness/costs.yaml").write_text(json.dumps(costs))


def refused(world: World, *words: str, code: int = 4) -> Ran:
    """`harness run` with an honest agent that is never started: its exit code, one line of each of these words."""
    before = (world.head, world.changes())
    ran = world.run([turn(honest(1))])
    assert ran.code == code, ran.text
    for word in words:
        assert word in ran.text
    assert not world.events("agent_started"), "no agent before the checks"
    assert (world.head, world.changes()) == before
    assert world.costs["cumulative"]["total_sessions"] == 0
    return ran


def by_a_colleague(world: World, files: Mapping[str, str], *, message: str = "A colleague's work") -> str:
    """A commit that somebody else has pushed to the remote meanwhile; its id."""
    place = world.base / "colleague"

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=place, env=world.environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    if not place.exists():
        subprocess.run(
            ["git", "clone", "-q", world.base / "origin.git", place], env=world.environ, check=True, capture_output=True
        )
    git("pull", "-q", "--ff-only")
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git("add", "-A")
    git("commit", "-q", "-m", message)
    git("push", "-q")
    return git("rev-parse", "HEAD")
