"""Lays out a demo's folder: an empty project with its specification, a remote to push to, and the agent's script."""

import tempfile
from pathlib import Path

from agent_harness.demo.layout import Place, bundled_script, sample
from agent_harness.errors import UsageError
from agent_harness.kernel.git import Git

_IDENTITY = (("user.name", "Scripted Agent"), ("user.email", "agent@localhost"), ("commit.gpgsign", "false"))


def prepare(path: Path | None) -> Place:
    """A new demo folder, ready for ``harness init``; ``UsageError`` when ``path`` is in use."""
    place = Place(_folder(path))
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


def _repository(place: Place) -> None:
    Git(place.root).run("init", "--quiet", "--bare", "--initial-branch=main", str(place.origin))
    git = Git(place.project)
    git.run("init", "--quiet", "--initial-branch=main")
    for name, value in _IDENTITY:
        git.run("config", name, value)
    git.run("remote", "add", "origin", str(place.origin))
    git.run("add", place.spec.name)
    git.run("commit", "--quiet", "--message", "Specification")
    git.run("push", "--quiet", "--set-upstream", "origin", "main")
