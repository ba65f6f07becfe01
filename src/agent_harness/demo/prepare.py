"""Lays out a demo's folder: an empty project with its specification, a remote to push to, and the agent's script."""

import tempfile
from pathlib import Path

from agent_harness.demo.children import git
from agent_harness.demo.layout import DemoLayout, bundled_script, sample
from agent_harness.errors import UsageError

_IDENTITY = (("user.name", "Scripted Agent"), ("user.email", "agent@localhost"), ("commit.gpgsign", "false"))


def prepare(path: Path | None) -> DemoLayout:
    """A new demo folder, ready for ``harness init``; ``UsageError`` when ``path`` is in use."""
    place = DemoLayout(_folder(path))
    place.project.mkdir()
    place.script.write_text(bundled_script(), encoding="utf-8")
    place.spec.write_text((sample() / "SPEC.md").read_text(encoding="utf-8"), encoding="utf-8")
    _repository(place)
    return place


def _folder(path: Path | None) -> Path:
    if path is None:
        return Path(tempfile.mkdtemp(prefix="harness-demo-")).resolve()
    path = path.expanduser().absolute()
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} is in use; the demo wants a new or an empty folder", hint="harness demo")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}", hint="harness demo") from None
    return path.resolve()


def _repository(place: DemoLayout) -> None:
    git(place.root, "init", "--quiet", "--bare", "--initial-branch=main", place.origin.name)
    git(place.project, "init", "--quiet", "--initial-branch=main")
    for name, value in _IDENTITY:
        git(place.project, "config", name, value)
    git(place.project, "remote", "add", "origin", str(place.origin))
    git(place.project, "add", place.spec.name)
    git(place.project, "commit", "--quiet", "--message", "Specification")
    git(place.project, "push", "--quiet", "--set-upstream", "origin", "main")
