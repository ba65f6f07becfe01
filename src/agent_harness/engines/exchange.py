"""Exchange folder: a folder that all machines share and that replaces a git remote.

The exchange folder has one bare repository per project, ``DIR/PROJECT.git``. ``PROJECT`` is 24 hexadecimal digits, as
in refs and workflow ids. Git writes only missing objects, and no reader sees partial data. Other users may write to the
folder. Therefore, the harness executes nothing in it, follows no symbolic link, and refuses a repository with
unexpected settings. Source: ``scale.md`` 9, ``docs/decisions/an-exchange-folder-is-a-bare-repository.md``."""

import os
import re
import secrets
import shlex
import shutil
import stat
from contextlib import suppress

from agent_harness.errors import HarnessError, PreflightFailed, UnsafeTree
from agent_harness.kernel import files, process

__all__ = ["is_exchange", "made", "served_by"]

_NAME = re.compile(r"[0-9a-f]{24}\.git")
_SETTINGS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|sharedrepository|ignorecase|precomposeunicode)"
    r"|receive\.denynonfastforwards|extensions\.objectformat"
)
"""Pattern of the repository settings that ``git init`` writes. The harness refuses any other setting, because git
settings can start programs."""
_GROUP = stat.S_IWGRP


def is_exchange(remote: str, project: str) -> bool:
    """Return True if ``remote`` is the absolute path of the project's exchange repository."""
    name = os.path.basename(remote)
    return os.path.isabs(remote) and name == f"{project}.git" and _NAME.fullmatch(name) is not None


def made(folder: str, project: str) -> str:
    """Return the path of the project's repository in an exchange folder. Create the repository if it is missing."""
    path = os.path.join(folder, f"{project}.git")
    if not os.path.isdir(folder):
        raise PreflightFailed(
            f"{folder} is not a folder. The exchange folder must exist on all machines",
            hint=f"mkdir -p {shlex.quote(folder)}",
        )
    if not os.path.lexists(path):
        shared = ["--shared=group"] if os.stat(folder).st_mode & _GROUP else []
        create_repository(path, "--bare", *shared)
    try:
        _refuse_odd(path)
    except UnsafeTree as error:
        raise PreflightFailed(
            error.message, hint=f"inspect this repository, then move it away: mv {shlex.quote(path)} ..."
        ) from None
    return path


def create_repository(path: str, *options: str) -> None:
    """Create a repository under a temporary name, then rename the repository to ``path``."""
    # so that other threads and processes never see a partial repository
    folder, new = os.path.dirname(path), f"{path}.{secrets.token_hex(8)}"
    try:
        words = ["git", "init", "-q", "--template=", *options, new]
        done = process.run(words, cwd=folder, env=process.scrubbed_environment(), timeout_seconds=60)
        if done.exit_code != 0:
            told = f"cannot create a git repository at {path}: {done.ending}"
            raise PreflightFailed(told, hint=f"ls -ld {shlex.quote(folder)}")
        with suppress(OSError):  # another process was first
            os.rename(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def served_by(path: str, program: str) -> str:
    """Return the command with which git serves the repository at ``path``. Raise ``UnsafeTree`` if it is unsafe."""
    # the options keep git from running code of the repository, and allow a repository of another user
    _refuse_odd(path)
    given = ("core.hooksPath=/dev/null", "core.alternateRefsCommand=true", f"safe.directory={path}")
    return " ".join(["git", *(f"-c {shlex.quote(each)}" for each in given), program])


def _refuse_odd(path: str) -> None:
    try:
        if os.path.islink(path) or _holds_a_link(path):
            raise UnsafeTree(f"{path} contains a symbolic link; links are not followed")
    except OSError as error:
        raise UnsafeTree(f"{path} cannot be read: {error.strerror}") from None
    section = ""
    for line in _lines(os.path.join(path, "config")):
        if found := re.fullmatch(r"\[(\w+)\]", line):
            section = found[1].lower()
        elif line and not _SETTINGS.fullmatch(f"{section}.{line.partition('=')[0].strip().lower()}"):
            raise UnsafeTree(f"{path} contains a git setting that the harness did not write: {line[:80]}")


def _lines(path: str) -> list[str]:
    try:
        return [line.strip() for line in files.read_bytes(path).decode("utf-8", "replace").splitlines()]
    except (OSError, HarnessError):
        raise UnsafeTree(f"{os.path.dirname(path)} is not a git repository") from None


def _holds_a_link(path: str) -> bool:
    """Return True if a link or an alternates file could lead git out of the repository."""
    with os.scandir(path) as found:
        top = [*found]
    if any(each.is_symlink() for each in top) or os.path.lexists(os.path.join(path, "objects", "info", "alternates")):
        return True
    with os.scandir(os.path.join(path, "objects")) as found:
        if any(each.is_symlink() for each in found):
            return True
    for at, folders, names in os.walk(os.path.join(path, "refs")):
        if any(os.path.islink(os.path.join(at, name)) for name in (*folders, *names)):
            return True
    return False
