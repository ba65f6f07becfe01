"""The git hook ``pre-push``, which runs the gate on every branch that a push changes.

A hook of another program is never changed."""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_harness.errors import Refused
from agent_harness.kernel import files
from agent_harness.kernel.git import Git, own_output
from agent_harness.kernel.json import JsonObject

ANYWAY = "to push all the same: git push --no-verify"
_INSTALL = "harness hooks install --git"
_PRINT = "harness hooks print --git  # then call these lines from your own hook"
_SCRIPT = """\
#!/bin/sh
# agent-harness judges what is pushed; to remove this file: harness hooks uninstall --git
unset $(git rev-parse --local-env-vars)
python=PYTHON
if [ -x "$python" ]; then exec "$python" -P -m agent_harness.cli.main hook pre-push; fi
echo "agent-harness is no longer at $python; to repair this hook: harness hooks install --git" >&2
echo "ANYWAY" >&2
exit 1
""".replace("ANYWAY", ANYWAY)
_OURS = re.compile(re.escape(_SCRIPT).replace("PYTHON", r"[^\n]+"))


def script() -> str:
    return _SCRIPT.replace("PYTHON", shlex.quote(sys.executable))


def install(folder: Path) -> JsonObject:
    """Write the hook of the repository that contains ``folder``. Raise ``Refused`` if another hook is there."""
    git = Git(folder)
    path, before = _place(git), state(folder)
    if before == "foreign":
        raise Refused(f"{path} is the hook of another program, so it was not changed", hint=_PRINT)
    if before != "current":
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, script(), mode=0o755)
        own_output.add(_exclude(git), _lines(git, path))
    changed = before != "current"
    lines = [f"{'installed' if changed else 'already installed'} in {path}", ANYWAY, "next: git push"]
    return {"file": str(path), "changed": changed, "next": "git push", "lines": lines}


def uninstall(folder: Path) -> JsonObject:
    """Remove the hook of the harness. A hook of another program stays."""
    git = Git(folder)
    path, before = _place(git), state(folder)
    if ours := before in ("current", "older"):
        files.unlink(str(path))
        own_output.forget(_exclude(git), _lines(git, path))
    lines = [f"{'removed' if ours else 'no hook of the harness is at'} {path}", f"to install it again: {_INSTALL}"]
    return {"file": str(path), "changed": ours, "next": _INSTALL, "lines": lines}


def printed(_folder: Path) -> JsonObject:
    return {"script": script(), "next": _INSTALL, "lines": [script().rstrip()]}


COMMANDS = {"install": install, "uninstall": uninstall, "print": printed}


def state(folder: Path) -> str:
    """Return "current", "older" (of another installation), "foreign", or "" if there is no hook."""
    git = Git(folder)
    if not git.is_repository:
        return ""
    try:
        path = _place(git)
        text = "" if path.is_symlink() else files.read_bytes(path).decode("utf-8", "replace")
    except (FileNotFoundError, Refused):
        return ""
    if not _OURS.fullmatch(text):
        return "foreign"
    return "current" if text == script() and os.access(path, os.X_OK) else "older"


def _place(git: Git) -> Path:
    """Return the path of the hook that git runs. Raise ``Refused`` if it also serves other repositories."""
    set_up = git.settings().get("core.hookspath")
    folder = (
        git.repository.top / Path(set_up).expanduser() if set_up is not None else git.repository.shared_dir / "hooks"
    )
    real = folder.resolve()
    if not any(real.is_relative_to(each.resolve()) for each in git.repository.folders):
        raise Refused(f"The hooks of this repository are in {folder}, outside of the repository", hint=_PRINT)
    return real / "pre-push"


def _exclude(git: Git) -> str:
    return str(git.repository.shared_dir / "info" / "exclude")


def _lines(git: Git, path: Path) -> list[str]:
    """Return the ignore rule for a hook in the work tree, which contains a path of this machine."""
    top = git.repository.top.resolve()
    inside = path.is_relative_to(top) and not path.is_relative_to(top / ".git")
    return [f"/{path.relative_to(top)}"] if inside else []


def pushed(git: Git, given: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each branch with new commits, and the words for ``harness gate``. ``given`` is what git tells the hook."""
    for line in given:
        words = line.rstrip("\n").rsplit(" ", 3)
        if len(words) != 4 or not words[2].startswith("refs/heads/") or not words[1].strip("0"):
            continue  # a tag, or a branch that is deleted
        _, new, ref, old = words
        known = bool(old.strip("0")) and git.commit_of(old) is not None
        if git.text("rev-list", "--max-count=1", new, "--not", *([old] if known else ["--remotes"])):
            yield ref.removeprefix("refs/heads/"), ["--head", new, *(["--base", old] if known else [])]
