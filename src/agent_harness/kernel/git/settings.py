"""Settings of a repository. The harness reads and compares them. Only pushes and fetches use them, from a record.

Hooks, aliases and filters are off in every call. A transfer needs the remotes' addresses and connection settings, which
may name programs (``core.sshCommand``, ``credential.helper``). So the settings come from a record made before an agent
ran, never from the current file. The user's own settings stay in force."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext

from agent_harness.kernel import files
from agent_harness.kernel.git import status
from agent_harness.kernel.git.isolated import IsolatedView, environment, execute, settings_of
from agent_harness.kernel.git.locate import Pushed, Repository, text_of
from agent_harness.kernel.git.objects import ABSENT, Objects

RECORDED = re.compile(r"(remote|branch|url|http|https|credential|ssh|push)\.|core\.(sshcommand|gitproxy|askpass)$")
"""Pattern of the repository settings that a push needs."""

PROTOCOLS = "file:git:http:https:ssh"
VARIABLES = (
    *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CERT", "GIT_SSL_KEY", "GIT_SSL_NO_VERIFY"),
)
"""Environment variables of the user that git receives for a push or fetch, because a connection may need them."""
RECORDED_FILES = (
    *("info/attributes", "info/exclude", "info/sparse-checkout", "info/grafts"),
    *("objects/info/alternates", "objects/info/http-alternates", "shallow"),
)
DRIVERS = re.compile(r"filter\.(.+)\.(clean|smudge|process)$", re.DOTALL)
PLAIN_INDEXES = (b"\0\0\0\2", b"\0\0\0\3")  # versions that shorten no name; a split index has a part named link
OWN_SCOPES = ("local", "worktree")


def transfer(
    repository: Repository,
    words: Sequence[str],
    remote: str,
    refspecs: Sequence[str],
    *,
    recorded: Mapping[str, list[str]] | None,
    now: Mapping[str, list[str]],
    timeout_seconds: float,
) -> Pushed:
    """Run ``git push`` or ``git fetch`` with the ``recorded`` settings, and return the result."""
    addresses = re.compile(rf"remote\.{re.escape(remote)}\.(url|pushurl|fetch)$")
    # without a record, nothing but the remote's present addresses
    source, wanted = (now, addresses) if recorded is None else (recorded, RECORDED)
    settings = [(key, value) for key, found in source.items() if wanted.match(key) for value in found]
    env = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    with IsolatedView(repository, settings=settings) as view:
        done = view.call(
            *(*words, "--end-of-options", remote, *refspecs),
            env={**env, "GIT_ALLOW_PROTOCOL": PROTOCOLS},
            check=False,
            timeout_seconds=timeout_seconds,
            transfers=True,
        )
    text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    return Pushed(ok=done.returncode == 0, rejected="rejected]" in text, message=text)


def values(repository: Repository) -> dict[str, str]:
    return {key: value for _, key, value in settings_of(repository)}


Settings = dict[tuple[str, str], list[str]]
"""Git settings by scope and key. The scope ``file`` contains the digests of hooks and info files."""


def now(repository: Repository) -> Settings:
    found: Settings = {}
    for scope, key, value in settings_of(repository):
        found.setdefault((scope, key), []).append(value)
    return found | {("file", name): digests for name, digests in _own_files(repository).items()}


def are_readable(repository: Repository) -> bool:
    """Return True if git can parse the repository's own settings file."""
    words = ("config", "--list", "--file", str(repository.shared_dir / "config"))
    return execute(words, cwd=str(repository.top), env=environment(), timeout_seconds=30).returncode == 0


def is_repository(repository: Repository) -> bool:
    """Return True if git accepts the folder as a repository."""
    words = ("rev-parse", "--git-dir")
    return execute(words, cwd=str(repository.top), env=environment(), timeout_seconds=30).returncode == 0


def record(repository: Repository) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for scope, key, value in settings_of(repository):
        if scope in OWN_SCOPES:
            found.setdefault(key, []).append(value)
    return found | _own_files(repository)


def _own_files(repository: Repository) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    hooks = [f"hooks/{path.name}" for path in (repository.shared_dir / "hooks").glob("*")]
    for name in (*RECORDED_FILES, *hooks):
        path = repository.shared_dir / name
        if path.is_file() and not name.endswith(".sample"):
            found[name] = [hashlib.sha256(path.read_bytes()).hexdigest()]
    return found


def contents(repository: Repository) -> dict[str, tuple[bytes, int | None]]:
    """Return content and mode of the repository's settings files and hooks, by relative path."""
    shared = os.fspath(repository.shared_dir)
    hooks = os.path.join(shared, "hooks")
    names = ["config", os.path.relpath(repository.git_dir / "config.worktree", shared), "hooks"]
    if os.path.isdir(hooks) and not os.path.islink(hooks):
        names += [f"hooks/{name}" for name in os.listdir(hooks) if not name.endswith(".sample")]
    found: dict[str, tuple[bytes, int | None]] = {}
    for name in names:
        path = os.path.join(shared, name)
        if os.path.islink(path):
            # a link: its target, and no mode
            found[name] = (os.fsencode(os.readlink(path)), None)
        elif os.path.isfile(path):
            found[name] = (files.read_bytes(path), os.stat(path).st_mode & 0o777)
    return found


def put_back(repository: Repository, before: Mapping[str, tuple[bytes, int | None]], name: str, aside: str) -> str:
    """Restore the file ``name`` from ``before``. Return the path to which the current file was moved."""
    shared = os.fspath(repository.shared_dir)
    path, (content, mode) = os.path.join(shared, name), before.get(name, (b"", 0))
    where = ""
    if name not in before and os.path.islink(os.path.dirname(path)):
        return where  # the folder is a link again, to files that are not the repository's
    if os.path.lexists(path):
        os.makedirs(aside, mode=0o700, exist_ok=True)
        where = files.free_name(os.path.join(aside, name.replace("/", "-")))
        shutil.move(path, where)
    if name not in before:
        return where
    files.own_place(path, shared)
    if mode is None:
        os.symlink(content, os.fsencode(path))
    else:
        files.replace(path, content, mode=mode)
    return where


def local_filters(repository: Repository) -> list[str]:
    """Return the git filters that attributes name and only this repository's settings define."""
    scopes: dict[str, set[bool]] = {}
    for scope, key, _ in settings_of(repository):
        match = DRIVERS.match(key)
        if match:
            scopes.setdefault(match[1], set()).add(scope in OWN_SCOPES)
    own = [name for name, found in scopes.items() if found == {True}]
    return sorted(set(own) & _filters_asked_for(repository)) if own else []


def closed_submodules(view: IsolatedView) -> dict[str, str]:
    """Return environment variables that make git ignore changes inside submodules."""
    keys = [
        key.decode("utf-8", "surrogateescape")
        for source in _submodule_files(view)
        for key in status.split(view.call("config", *source, "--null", "--name-only", "--list", check=False).stdout)
    ]
    names = dict.fromkeys(key.rpartition(".")[0] for key in keys if key.startswith("submodule."))
    # inside a submodule, git would use the submodule's settings
    variables = {"GIT_CONFIG_COUNT": str(len(names))}
    for at, name in enumerate(names):
        variables |= {f"GIT_CONFIG_KEY_{at}": f"{name}.ignore", f"GIT_CONFIG_VALUE_{at}": "dirty"}
    return variables


def _submodule_files(view: IsolatedView) -> Iterator[tuple[str, str]]:
    """Yield the options with which ``git config`` reads each version of ``.gitmodules``."""
    file = f"{view.repository.top}/.gitmodules"
    if os.path.lexists(file):
        yield "--file", file
    if _index_may_hold_modules(view.repository):
        yield "--blob", ":.gitmodules"
    with Objects(view.repository, lambda: nullcontext(view.batch())) as objects:
        tree = objects.named("HEAD", "tree")
        if tree and objects.at(tree, b".gitmodules") != ABSENT:
            yield "--blob", "HEAD:.gitmodules"


def _index_may_hold_modules(repository: Repository) -> bool:
    # False only if the index certainly has no ``.gitmodules``
    try:
        content = (repository.git_dir / "index").read_bytes()
    except FileNotFoundError:
        return False
    is_plain = content[:4] == b"DIRC" and content[4:8] in PLAIN_INDEXES and b"link" not in content
    return not is_plain or b".gitmodules" in content


def _filters_asked_for(repository: Repository) -> set[str]:
    with IsolatedView(repository) as view:
        words = ("ls-files", "-z", "--cached", "--others", "--", ":(top,glob)**/.gitattributes")
        names = status.split(view.call(*words).stdout)
    files = [repository.shared_dir / "info" / "attributes", *(repository.top / os.fsdecode(name) for name in names)]
    return {name for path in files for name in re.findall(r"(?<!\S)filter=(\S+)", text_of(path))}
