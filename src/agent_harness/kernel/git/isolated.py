"""Git calls under the harness's settings, in a view: a separate git directory with a repository's refs and objects.

Anyone who works in a repository can write its ``.git/config``, ``.git/info`` and ``.git/hooks``. Git then runs the
filters, file system monitors, hooks and drivers that these files set up. A list that disables each of them would never
be complete. Therefore git reads the configuration, attributes and ignore rules of the view's folder instead. Only refs,
objects and reflogs come from the repository, through symbolic links. The user's global and system settings stay in
force, except for settings that run code or hide a change.

* A view that *follows* uses the repository's HEAD and index, for queries about refs and history.
* A *detached* view has its own HEAD, and the caller sets its index, for work with files.
* A *raw* view converts nothing: each file is stored byte for byte, without line ending, encoding or filter rules."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import Self

from agent_harness.errors import TimedOut, ToolMissing, UnsafeTree
from agent_harness.kernel.clock import scaled
from agent_harness.kernel.git.batch import Batch
from agent_harness.kernel.git.locate import Repository, text_of

OLDEST_GIT = (2, 36)
"""Oldest supported git version. Since this version, one ``cat-file`` process can answer all queries about objects."""
INSTALL_GIT = f"install git {'.'.join(map(str, OLDEST_GIT))} or newer"

SECONDS = 600.0
"""Default time limit for a git call, in seconds."""

LINKS = ("refs", "packed-refs", "reftable", "logs", "objects", "worktrees", "lfs", "shallow")
FORMAT_KEYS = ("extensions.objectformat", "extensions.refstorage")
SHARING_KEY = "core.sharedrepository"

_TRANSFERS: set[subprocess.Popen[bytes]] = set()
NOWHERE = "ref: refs/heads/nowhere"
"""Content of the HEAD file in a git view whose HEAD is not used."""

RAW_ATTRIBUTES = "* -text -crlf -ident -filter !eol !working-tree-encoding\n"

OWN_SETTINGS: tuple[tuple[str, str], ...] = (
    ("core.bare", "false"),
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.ignoreStat", "false"),
    ("core.sparseCheckout", "false"),
    ("core.symlinks", "true"),
    ("core.commitGraph", "false"),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("core.logAllRefUpdates", "true"),
    ("core.fsync", "objects,reference"),
    ("core.fsyncMethod", "batch"),
    ("core.quotePath", "false"),
    ("index.sparse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("push.recurseSubmodules", "no"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.showStash", "false"),
    ("log.showSignature", "false"),
    ("rerere.enabled", "false"),
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("checkout.workers", "0"),
)

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"})  # in a value of git's settings
_NOT_WRITTEN = re.compile("unable to write|No space left|quota exceeded|write error", re.IGNORECASE)


def _disk_of(place: str) -> str | None:
    folder = os.path.realpath(place)
    while not os.path.ismount(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder if os.path.isdir(place) else None


class GitFailed(UnsafeTree):
    """Error: a git command failed."""

    code = "git_failed"

    def __init__(self, command: str, status: int, stderr: str, *, place: str | None = None) -> None:
        lines = [line for line in stderr.splitlines() if line.strip()] or [f"exit status {status}"]
        errors = [line for line in lines if line.startswith(("error:", "fatal:"))] or lines
        disk = _disk_of(place) if place and _NOT_WRITTEN.search(stderr) else None
        left = f" ({shutil.disk_usage(disk).free >> 10} KiB are free on {disk})" if disk else ""
        super().__init__(f"git {command} failed: {errors[0]}{left}", hint=f"df -h {disk}" if disk else "git status")
        self.status = status
        self.stderr = stderr
        self.is_of_disk = bool(_NOT_WRITTEN.search(stderr))


class IsolatedView:
    """Temporary git directory with safe settings, in which ``call`` runs git."""

    def __init__(
        self,
        repository: Repository,
        *,
        head: str | None = None,
        raw: bool = False,
        excludes: str = "",
        more_excludes: str = "",
        attributes: str = "",
        settings: Iterable[tuple[str, str]] = (),
        inherit: Sequence[int] = (),
    ) -> None:
        self.repository = repository
        # a commit, or ``ref: refs/heads/...`` for a branch without a commit
        self._head = head
        self._raw = raw
        shaping = RAW_ATTRIBUTES if raw else attributes
        self._texts = {"excludes": more_excludes, "info/exclude": excludes, "info/attributes": shaping}
        self._settings = tuple(settings)
        self._inherit = tuple(inherit)
        self._folder = ""
        self._batch: Batch | None = None

    def __enter__(self) -> Self:
        parent = own_folder(self.repository)
        self._folder = tempfile.mkdtemp(prefix=f"view-{os.getpid()}-", dir=parent)
        shared = self.repository.shared_dir
        os.makedirs(f"{shared}/logs", exist_ok=True)  # git would write reflogs into the view
        for name in LINKS if self._head else (*LINKS, "HEAD"):
            if name == "packed-refs" or os.path.lexists(f"{shared}/{name}"):
                os.symlink(f"{shared}/{name}", f"{self._folder}/{name}")
        texts = {**self._texts, "HEAD": f"{self._head}\n" if self._head else "", "config": self._config()}
        if any(text for name, text in texts.items() if name.startswith("info/")):
            os.mkdir(f"{self._folder}/info")
        for name, text in texts.items():
            if text:
                write(f"{self._folder}/{name}", text)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._batch:
            self._batch.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def batch(self) -> Batch:
        """Return the view's ``git cat-file`` process, which the first call starts."""
        if self._batch is None:
            tree = str(self.repository.top)
            variables = {**environment(), **self._places(tree, None)}
            self._batch = Batch([_git(), "cat-file", "--batch-command"], cwd=tree, env=variables, inherit=self._inherit)
        return self._batch

    def call(
        self,
        *words: str,
        input: bytes | None = None,  # noqa: A002
        index: str | None = None,
        work_tree: str | None = None,
        cwd: str | None = None,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        timeout_seconds: float = SECONDS,
        transfers: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a git command in the view. With ``check``, raise ``GitFailed`` if the command fails."""
        tree = work_tree or str(self.repository.top)
        place = cwd if cwd and os.path.isdir(cwd) else tree
        variables = {**environment(), **self._places(tree, index), **(env or {})}
        done = execute(
            words,
            cwd=place,
            env=variables,
            input=input,
            timeout_seconds=timeout_seconds,
            inherit=self._inherit,
            transfers=transfers,
        )
        if check and done.returncode:
            raise GitFailed(words[0], done.returncode, done.stderr.decode("utf-8", "replace"), place=place)
        return done

    def _places(self, tree: str, index: str | None) -> dict[str, str]:
        places = {"GIT_WORK_TREE": tree, "GIT_DIR": self._folder}
        if self._head is None:
            places |= {"GIT_DIR": str(self.repository.git_dir), "GIT_COMMON_DIR": self._folder}
        return places | ({"GIT_INDEX_FILE": index} if index else {})

    def _config(self) -> str:
        lax = (("core.protectNTFS", "false"), ("core.protectHFS", "false")) if self._raw else ()
        excludes = (("core.excludesFile", f"{self._folder}/excludes"),)
        disk = _disk(own_folder(self.repository))
        return settings_text((*self._settings, *_format(self.repository), *OWN_SETTINGS, *disk, *excludes, *lax))


def own_folder(repository: Repository) -> str:
    """Return the ``harness`` folder in the git directory, and create the folder if it is missing."""
    folder = f"{repository.git_dir}/harness"
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if os.path.islink(folder) or not os.path.isdir(folder):
            raise UnsafeTree(f"{folder} is not a folder", hint=f"move {folder} away") from None
    except OSError as error:
        hint = "check who owns the repository; in a sandbox, allow write access to .git (codex: --add-dir .git)"
        raise UnsafeTree(f"{folder} cannot be created: {error.strerror}", hint=hint) from None
    return folder


def settings_of(repository: Repository) -> list[tuple[str, str, str]]:
    """Return the scope, key and value of all git settings."""
    words = ("config", "--null", "--list", "--show-scope", "--includes")
    places = {"GIT_DIR": str(repository.git_dir), "GIT_WORK_TREE": str(repository.top)}
    done = execute(words, cwd=str(repository.top), env={**environment(), **places}, timeout_seconds=30)
    found = [each for each in _scoped(done.stdout) if each[0] != "command"]
    if any(scope == "local" for scope, _, _ in found):
        return found
    with IsolatedView(repository) as view:  # git has failed, or left the repository out
        done = view.call(*words, check=False)
    outside = [each for each in _scoped(done.stdout) if each[0] not in ("command", "local", "worktree")]
    return [*outside, *_own_settings(repository), *_own_settings(repository, "config.worktree", "worktree")]


def _scoped(listed: bytes) -> list[tuple[str, str, str]]:
    fields = os.fsdecode(listed).split("\0")
    return [(scope, *_key_and_value(text)) for scope, text in zip(fields[::2], fields[1::2], strict=False)]


def settings_text(settings: Iterable[tuple[str, str]]) -> str:
    lines = []
    for key, value in settings:
        section, _, rest = key.partition(".")
        sub, _, name = rest.rpartition(".")
        title = f'{section} "{sub.translate(_ESCAPED)}"' if sub else section
        lines.append(f'[{title}]\n\t{name} = "{value.translate(_ESCAPED)}"\n')
    return "".join(lines)


def environment() -> dict[str, str]:
    """Return the environment of git calls, which prevents prompts and network access."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_EDITOR": ":",
        "GIT_PAGER": "cat",
    }


def execute(
    words: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    input: bytes | None = None,  # noqa: A002
    timeout_seconds: float,
    inherit: Sequence[int] = (),
    transfers: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a new process session. Raise ``TimedOut`` after the time limit."""
    command = [_git(), *words]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=inherit,
    )
    with process:
        try:
            if transfers:
                _TRANSFERS.add(process)
            out, err = process.communicate(input, timeout=scaled(timeout_seconds))
        except subprocess.TimeoutExpired:
            _end(process)
            raise TimedOut(f"git {words[0]} took more than {timeout_seconds:.0f} seconds", hint="git status") from None
        except BaseException:
            _end(process)
            raise
        finally:
            _TRANSFERS.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def end_transfers() -> None:
    """End each running ``git push`` and ``git fetch`` of this process."""
    for each in [*_TRANSFERS]:
        if each.returncode is None:
            _end(each)


def write(path: str, text: str) -> None:
    with open(path, "wb") as file:
        file.write(os.fsencode(text))


def id_bytes(repository: Repository) -> int:
    return 32 if ("extensions.objectformat", "sha256") in _format(repository) else 20


@cache
def _git() -> str:
    program = shutil.which("git")
    if program is None:
        raise ToolMissing("git is not installed, or not on PATH", hint=INSTALL_GIT)
    return os.path.abspath(program)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


@cache
def _disk(folder: str) -> tuple[tuple[str, str], ...]:
    """Return the git settings that depend on the file system of ``folder``, such as ``core.fileMode``."""
    trial = tempfile.mkdtemp(prefix=f"view-{os.getpid()}-", dir=folder)
    found = (("core.fileMode", "true" if _keeps_modes(f"{trial}/file") else "false"),)
    shutil.rmtree(trial, ignore_errors=True)
    if sys.platform == "darwin":
        found += (("core.ignoreCase", "true"), ("core.precomposeUnicode", "true"))
    return found


def _keeps_modes(file: str) -> bool:
    write(file, "")
    os.chmod(file, 0o700)
    runs = os.lstat(file).st_mode & 0o100
    os.chmod(file, 0o600)
    return bool(runs) and not os.lstat(file).st_mode & 0o100


def _format(repository: Repository) -> tuple[tuple[str, str], ...]:
    # git needs these settings to read and add objects and refs
    text = text_of(repository.shared_dir / "config").lower()
    if not any(key.rpartition(".")[2] in text for key in (*FORMAT_KEYS, SHARING_KEY)):
        return (("core.repositoryFormatVersion", "0"),)
    found = [(key, value) for _, key, value in _own_settings(repository) if key in (*FORMAT_KEYS, SHARING_KEY)]
    version = "1" if any(key in FORMAT_KEYS for key, _ in found) else "0"
    return (("core.repositoryFormatVersion", version), *found)


def _own_settings(repository: Repository, name: str = "config", scope: str = "local") -> list[tuple[str, str, str]]:
    folder = repository.shared_dir if scope == "local" else repository.git_dir
    words = ("config", "--null", "--list", "--includes", "--file", str(folder / name))
    apart = {**environment(), "GIT_DIR": os.devnull}  # whatever git says to the repository
    done = execute(words, cwd=str(repository.top), env=apart, timeout_seconds=30)
    return [(scope, *_key_and_value(text)) for text in os.fsdecode(done.stdout).split("\0") if text]


def _key_and_value(text: str) -> tuple[str, str]:
    key, newline, value = text.partition("\n")
    return key, value if newline else "true"
