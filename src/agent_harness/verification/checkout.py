"""Temporary checkout of one commit below ``$XDG_CACHE_HOME/agent-harness/worktrees``, never inside the project. Its
``.git`` is a separate repository (``runner/history.py``), so git commands of tests do not affect the project, and
nothing that an agent wrote into the project's ``.git`` is used. Overlays are built from git objects before any file
is written, so that symbolic links in a commit are never followed. Submodules become empty folders. Compiled Python
files of a commit are omitted."""

import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_harness.errors import Refused, UnsafeTree
from agent_harness.kernel import owner
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.isolated import RAW_ATTRIBUTES, IsolatedView
from agent_harness.kernel.git.objects import ABSENT, FOLDER
from agent_harness.kernel.temporary import remove_tree
from agent_harness.kernel.trusted_state import may_write
from agent_harness.verification.changes import LIMIT_BYTES, outside
from agent_harness.verification.runner.history import forgotten, make_repository, own_objects
from agent_harness.verification.runner_config import (
    SETTINGS_FILES,
    decides,
    is_conftest,
    is_runner_config,
    is_test_file,
)

_OWNER = "owner.json"
_STOPPER = "pytest.ini"  # above the checkout: where pytest, looking upwards for settings, finds none of anybody else
_AS_STORED = RAW_ATTRIBUTES.replace(" -filter", "")  # the only filter that is defined is that of git-lfs
_NO_USER = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
_NEUTRAL = "build-"
_LINK, _SUBMODULE = "120000", "160000"
_CHECKOUT_SECONDS = 600.0
_FORGOTTEN_SECONDS = 86400.0
_REMOVALS = 5  # tries: what a dead harness had running may write until it is ended too
_REMOVAL_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Overlay:
    """Project paths that a checkout takes from ``commit``. The checkout omits the paths that ``commit`` does not
    contain."""

    commit: str
    paths: Collection[str]


@dataclass(frozen=True, slots=True)
class Edits:
    """New contents of project files in a checkout, by path."""

    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """Folder with the files of a commit, in which a command runs."""

    commit: str
    top: Path  # of the checkout
    cwd: Path  # the project inside it
    private: Path  # for reports; outside the checkout
    borrowed: Path | None = None  # the objects of the base, which lie elsewhere
    notes: tuple[str, ...] = ()  # what could not be lent

    @property
    def has_settings(self) -> bool:
        """Return True if pytest finds a settings file in the checkout."""
        folders = [folder for folder in (self.cwd, *self.cwd.parents) if folder.is_relative_to(self.top)]
        return any(decides(folder / name, _content(folder / name)) for folder in folders for name in SETTINGS_FILES)

    def moved(self, entry: str, project: Path) -> str:
        """Return the path in the checkout that corresponds to a path of the project. Any other path stays unchanged."""
        real, place = Path(os.path.realpath(project / entry)), Path(os.path.realpath(project))
        return str(self.cwd / real.relative_to(place)) if entry and real.is_relative_to(place) else entry

    def disturbed(self) -> list[str]:
        """Return the tests and test runner settings that a run changed, and any ``conftest.py`` that it created."""
        paths = self._changed("--modified", "--others")
        changed = (path for tag, path in paths if tag != b"?")
        new = [path for tag, path in paths if tag == b"?" and Path(path).name == "conftest.py"]
        judging = (is_test_file, is_conftest, is_runner_config, lambda path: path.endswith(".rs"))  # with inline tests
        return [*(path for path in changed if any(each(path) for each in judging)), *new]

    def rewritten(self) -> tuple[str, ...]:
        """Return the committed project files that a run changed, as paths relative to the project."""
        places = ((self.top / path) for _, path in self._changed("--modified"))
        return tuple(str(each.relative_to(self.cwd)) for each in places if each.is_relative_to(self.cwd))

    def _changed(self, *kinds: str) -> list[tuple[bytes, str]]:
        listed = Git(self.top).run("ls-files", "-z", "-t", *kinds).split(b"\0")
        return [(record[:1], os.fsdecode(record[2:])) for record in listed if record]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= LIMIT_BYTES else None
    except OSError:
        return None


@contextmanager
def make_checkout(
    git: Git,
    commit: str,
    *,
    overlays: Sequence[Overlay | Edits] = (),
    links: Iterable[str] = (),
    linked: Iterable[str] = (),  # folders that git is known to ignore: not checked again, unlike ``links``
    neutral: bool = False,
    base: str | None = None,
    without: Collection[str] = (),
) -> Iterator[Checkout]:
    """Yield a checkout of ``commit`` with the overlays applied. Raise ``Refused`` or ``GitFailed`` if the harness
    cannot make the checkout."""
    with _folder(git, neutral=neutral) as folder:
        # a neutral path must not tell code that a check runs
        top = folder / (Path(git.top()).name if neutral else "tree")
        top.mkdir()
        head = _check_out(git, commit, top, overlays, base)
        borrowed = top / ".git/objects/info/alternates"
        store = Path(os.fsdecode(borrowed.read_bytes().strip()))
        if neutral:  # as one of a person: on a branch, with objects of its own
            store = None if own_objects(store, top / ".git/objects") else store
            borrowed.unlink()
            for name in ("hooks", "refs/heads"):
                (top / ".git" / name).mkdir(exist_ok=True)
            (top / ".git/refs/heads/main").write_text(f"{head}\n")
            (top / ".git/HEAD").write_text("ref: refs/heads/main\n")
        cwd = top / os.fsdecode(git.prefix())
        if not Path(os.path.realpath(cwd)).is_relative_to(os.path.realpath(top)):
            raise Refused("in the commit, the project folder is a symbolic link", hint="git show --stat")
        cwd.mkdir(parents=True, exist_ok=True)
        project = Path(git.root)
        checkout, but = (top, cwd), frozenset(without)
        said = [
            _link_folder(project, checkout, link, _why_not_linked(project, link) or _kept(git, link), but)
            for link in links
        ]
        said += [_link_folder(project, checkout, link, _why_not_linked(project, link), but) for link in linked]
        notes = tuple(note for note in said if note)
        (folder / _STOPPER).write_text("[pytest]\n")
        yield Checkout(commit=commit, top=top, cwd=cwd, private=folder, borrowed=store, notes=notes)


@contextmanager
def in_place(git: Git, commit: str) -> Iterator[Checkout]:
    """Yield the project's own folder in the form of a checkout."""
    # runs in it are not isolated, so the caller must tell the user
    with _folder(git) as folder:
        yield Checkout(commit=commit, top=Path(git.top()), cwd=Path(git.root), private=folder)


@contextmanager
def _folder(git: Git, *, neutral: bool = False) -> Iterator[Path]:
    """Yield a new folder with a record of its owner process. Remove the folder after use."""
    own = owner.current()
    if neutral:
        _prune_neutral()
        folder = Path(tempfile.gettempdir(), f"{_NEUTRAL}{secrets.token_hex(4)}")
    else:
        place = _place(Path(git.top()))
        prune(place)
        folder = place / f"{_name_of(own)}-{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700)
        (folder / _OWNER).write_text(json.dumps(own.as_record()))
        yield folder
    except OSError as error:
        raise Refused(f"the checkout cannot be used: {error}", hint=f"df {folder.parent}") from None
    finally:
        remove(folder)


def _place(top: Path) -> Path:
    """Return a writable folder outside ``top`` for checkouts. Raise ``Refused`` if there is no such folder."""
    for place in _places(top):
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if place.parent.stat().st_uid == os.getuid() and may_write(os.fspath(place)):
                return place
        except OSError:
            continue
    raise Refused(
        "verification needs a writable folder outside the project for its checkouts, and found none",
        hint="set XDG_CACHE_HOME to a folder outside the project",
    )


def _places(top: Path) -> list[Path]:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    bases = (Path(cache, "agent-harness"), Path(tempfile.gettempdir(), f"agent-harness-{os.getuid()}"))
    found = [base / "worktrees" for base in bases]
    real = os.path.realpath(top)
    return [place for place in found if place.is_absolute() and not Path(os.path.realpath(place)).is_relative_to(real)]


def clear_leftovers(top: Path) -> int:
    """Remove all checkouts whose harness process has ended, and return their number."""
    removed = 0
    for place in _places(top):
        try:
            if place.parent.stat().st_uid == os.getuid():
                removed += prune(place)
        except OSError:
            continue
    return removed + _prune_neutral()


def _prune_neutral() -> int:
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_NEUTRAL}*"):
        with suppress(OSError, ValueError):
            found = owner.Owner.from_record(json.loads((folder / _OWNER).read_text()))
            is_own = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if is_own and found is not None and owner.state(found) == "dead":
                remove(folder)
                removed += 1
    return removed


def prune(place: Path) -> int:
    """Remove unused packed objects and abandoned checkouts. Return the number of removed checkouts."""
    for store in forgotten(place.with_name("objects")):
        remove(store)
    dead = [folder for folder in place.iterdir() if not folder.is_symlink() and folder.is_dir() and _abandoned(folder)]
    for folder in dead:
        remove(folder)
    return len(dead)


def _abandoned(folder: Path) -> bool:
    try:
        found = owner.Owner.from_record(json.loads((folder / _OWNER).read_text()))
    except (OSError, ValueError):
        found = None
    if found is not None:
        return owner.state(found) == "dead"
    return _named_after_the_dead(folder.name) or _forgotten(folder)


def _name_of(process: owner.Owner) -> str:
    # the name identifies the owner even if the folder is empty
    machine = hashlib.sha256(f"{process.host}\0{process.boot_id}".encode()).hexdigest()[:12]
    return f"{process.pid}-{process.start_time}-{machine}"


def _named_after_the_dead(name: str) -> bool:
    mine = _name_of(owner.current()).rpartition("-")[2]
    process, _, _ = name.rpartition("-")
    pid, _, rest = process.partition("-")
    if not pid.isdecimal() or rest.rpartition("-")[2] != mine:
        return False
    found = owner.of(int(pid))
    return found is None or _name_of(found) != process


def _forgotten(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > _FORGOTTEN_SECONDS
    except OSError:
        return False


def remove(folder: Path) -> None:
    """Remove a checkout, including unreadable files, without following symbolic links."""
    for number in range(_REMOVALS):
        if number:
            time.sleep(_REMOVAL_PAUSE_SECONDS)
        # the owner record goes last, so that the next harness process can finish an interrupted removal
        if _emptied(folder) and remove_tree(folder):
            return


def _emptied(folder: Path) -> bool:
    if not folder.exists():
        return True
    with suppress(OSError):
        folder.chmod(stat.S_IRWXU)
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        elif entry.name != _OWNER:
            entry.unlink(missing_ok=True)
    return all(entry.name == _OWNER for entry in folder.iterdir())


def _check_out(git: Git, commit: str, top: Path, overlays: Sequence[Overlay | Edits], base: str | None) -> str:
    """Write the files of a commit exactly as git stores them. Return the id of the checkout's HEAD commit."""
    others = [each.commit for each in overlays if isinstance(each, Overlay)]
    cache = _place(Path(git.top())).with_name("objects")
    head = make_repository(git, top / ".git", commit, base=base, others=others, cache=cache)
    own, large_files = Git(top), list[tuple[str, str]]()
    if shutil.which("git-lfs"):
        large_files = [("filter.lfs.process", "git-lfs filter-process"), ("filter.lfs.smudge", "git-lfs smudge -- %f")]
    # no git settings or attributes of the user; git-lfs is the only filter that runs
    with IsolatedView(own.repository, attributes=_AS_STORED, settings=large_files) as view:
        changes = [line for each in overlays if isinstance(each, Overlay) for line in _index_lines(git, each)]
        for each in overlays:
            if isinstance(each, Edits):
                changes += _edited_lines(git, view, commit, each)
        bare = partial(view.call, env=_NO_USER, timeout_seconds=_CHECKOUT_SECONDS)
        if changes:
            bare("read-tree", head)
            bare("update-index", "-z", "--index-info", input=b"".join(changes))
            bare("checkout-index", "--all", "--force", "--index")
            if any(isinstance(each, Edits) for each in overlays):
                head = _amend(bare, head, top)
        else:
            bare("read-tree", "-u", "--reset", head)
        entries = None if changes else _entries.get(commit)
        if entries is None:
            entries = bare("ls-files", "-s", "-z").stdout.split(b"\0")
    for entry in filter(None, entries):
        _compare(top, entry)
    if not changes and commit not in _entries:
        _entries.clear()
        _entries[commit] = entries
    return head


def _amend(bare: Callable[..., subprocess.CompletedProcess[bytes]], commit: str, top: Path) -> str:
    """Add the edited files to the checkout's commit, so that git reports no changes. Return the new commit's id."""
    _, newline, rest = bare("cat-file", "commit", commit).stdout.partition(b"\n")
    tree = bare("write-tree").stdout.strip()
    amended = bare("hash-object", "-t", "commit", "-w", "--stdin", input=b"tree " + tree + newline + rest)
    (top / ".git/HEAD").write_bytes(amended.stdout.strip() + b"\n")
    return amended.stdout.strip().decode()


_entries: dict[str, list[bytes]] = {}
"""Cache with the file entries of the last checked-out commit, by commit id."""


def _compare(top: Path, entry: bytes) -> None:
    """Delete a written file if it is compiled Python. Raise ``UnsafeTree`` if another file does not match its git
    object."""
    words, _, name = entry.partition(b"\t")
    mode, oid = words.decode().split(" ")[:2]
    path = top / os.fsdecode(name)
    if mode == _SUBMODULE:
        return
    if name.endswith(b".pyc"):
        path.unlink()
        return
    content = os.fsencode(os.readlink(path)) if mode == _LINK else path.read_bytes()  # noqa: PTH115  every byte of it
    digest = hashlib.sha1 if len(oid) == 40 else hashlib.sha256
    if digest(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == oid:
        return
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n"
    stored = pointer % (hashlib.sha256(content).hexdigest().encode(), len(content))
    if digest(b"blob %d\0" % len(stored) + stored, usedforsecurity=False).hexdigest() != oid:
        raise UnsafeTree(f"{os.fsdecode(name)} does not match its commit: the object {oid[:10]} is forged or damaged")


def _index_lines(git: Git, overlay: Overlay) -> Iterator[bytes]:
    """Yield input lines for ``git update-index --index-info`` that apply the overlay."""
    prefix = os.fsdecode(git.prefix())
    wanted = {os.fsencode(outside(path, prefix)) for path in overlay.paths}
    if not wanted:
        return
    zero = b"0" * len(overlay.commit)
    # removals come before additions
    yield from (b"0 " + zero + b"\t" + path + b"\0" for path in sorted(wanted))
    with git.objects() as objects:
        tree = objects.tree_of(overlay.commit)
        entries = {path: objects.at(tree, path) for path in sorted(wanted)}
    for path, entry in entries.items():
        if entry != ABSENT and entry.mode != FOLDER:
            yield f"{entry.mode} {entry.oid}\t".encode() + path + b"\0"


def _edited_lines(git: Git, view: IsolatedView, commit: str, edits: Edits) -> Iterator[bytes]:
    prefix = os.fsdecode(git.prefix())
    with git.objects() as objects:
        tree = objects.tree_of(commit)
        for path, content in edits.files.items():
            raw = os.fsencode(outside(path, prefix))
            entry = objects.at(tree, raw)
            if entry.mode.startswith("100"):
                oid = view.call("hash-object", "-w", "--stdin", "--no-filters", input=content).stdout.strip()
                yield entry.mode.encode() + b" " + oid + b"\t" + raw + b"\0"


def _link_folder(
    project: Path, checkout: tuple[Path, Path], link: str, why: str | None, without: Collection[str]
) -> str | None:
    """Link an ignored project folder into the checkout. If that is impossible, return the reason."""
    top, cwd = checkout
    target = cwd / link
    why = why or _no_room(cwd, target)
    if why:
        return f"{link} was not linked into the checkout: {why}"
    target.parent.mkdir(parents=True, exist_ok=True)
    if (project / link).is_file():  # a copy, because code behind a link is code of the project's folder
        shutil.copyfile(project / link, target)
    else:
        _link(project, link, target, without)
    with (top / ".git/info/exclude").open("a") as file:
        file.write(f"/{target.relative_to(top)}\n")
    return None


def _link(project: Path, path: str, target: Path, without: Collection[str]) -> None:
    if path in without:
        return
    if not any(each.startswith(f"{path}/") for each in without):
        target.symlink_to(project / path)
        return
    target.mkdir()
    for entry in (project / path).iterdir():
        _link(project, f"{path}/{entry.name}", target / entry.name, without)


def _why_not_linked(project: Path, link: str) -> str | None:
    parts = Path(link).parts
    if not parts or Path(link).is_absolute() or ".." in parts or parts[0] == ".git":
        return "it is not a path inside the project"
    if not (project / link).exists():
        return "it does not exist"
    if not Path(os.path.realpath(project / link)).is_relative_to(os.path.realpath(project)):
        return "it leads outside the project"
    return None


def _kept(git: Git, link: str) -> str | None:
    if git.ok("check-ignore", "-q", "--", link):
        return None
    return "git does not ignore it, so it belongs in the commit"


def _no_room(cwd: Path, target: Path) -> str | None:
    if os.path.lexists(target):
        return "the commit already contains this path"
    if not Path(os.path.realpath(target.parent)).is_relative_to(os.path.realpath(cwd)):
        return "a parent folder is a symbolic link in the commit"
    return None
