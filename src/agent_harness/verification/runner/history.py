"""Repository of a checkout: the history and tags of the base commit, and one commit with the agent's work.
The repository does not contain the agent's intermediate commits or other objects that the agent added. Code therefore
cannot read expected answers from such objects. The base commit's objects are packed once into the user's cache. All
checkouts share them. If packing fails or takes too long, the checkout uses the project's own object store."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel.git import Git

_MOST_BYTES = 512 * 1024 * 1024  # of the project's packs; packing more takes longer than most checks
_SECONDS = 300.0
_FORGOTTEN_SECONDS = 7 * 86400.0
_MOST_COPIED = 64 * 1024 * 1024  # of packs, into a repository of its own
_LOOSE_FANOUT = 2
_HEADERS = (b"tree", b"author", b"committer", b"encoding")


class _TooManyObjects(Exception):
    """Error: the project has too many git objects to pack for a check."""


def make_repository(
    git: Git, folder: Path, commit: str, *, base: str | None, others: Iterable[str], cache: Path
) -> str:
    """Create the git repository of a checkout in ``folder``, and return the commit to check out."""
    for name in ("objects/info", "objects/pack", "refs", "info"):
        (folder / name).mkdir(parents=True)
    base = None if base == commit or _is_older(git, commit, base) else base
    root = base or commit
    try:
        store, tags = _stored(git, root, cache)
        trees = [git.tree_of(each) for each in (commit, *others)]
        if base or len(trees) > 1:
            _pack(git, folder / "objects/pack/pack", [*trees, "--not", root])
    except (HarnessError, OSError, ValueError, _TooManyObjects):
        store, tags = git.shared_dir() / "objects", git.refs_below("refs/tags/")
    (folder / "objects/info/alternates").write_bytes(os.fsencode(store) + b"\n")
    (folder / "packed-refs").write_bytes(os.fsencode("".join(f"{oid} {ref}\n" for ref, oid in sorted(tags.items()))))
    head = _squashed(git, folder / "objects", commit, base) if base else commit
    (folder / "HEAD").write_text(f"{head}\n")
    sha256 = len(commit) == 64
    (folder / "config").write_text(
        f"[core]\n\trepositoryFormatVersion = {int(sha256)}\n\tbare = false\n"
        + ("[extensions]\n\tobjectFormat = sha256\n" if sha256 else "")
    )
    for name in ("shallow", "lfs"):  # where a shallow history ends, and the large files of the user's own filter
        if (git.shared_dir() / name).exists():
            (folder / name).symlink_to(git.shared_dir() / name)
    return head


def own_objects(store: Path, objects: Path) -> bool:
    packs = list((store / "pack").glob("pack-*"))
    if not (store / "lock").exists() or sum(each.stat().st_size for each in packs) > _MOST_COPIED:
        return False
    for each in packs:
        shutil.copyfile(each, objects / "pack" / each.name)
    return True


def _stored(git: Git, root: str, cache: Path) -> tuple[Path, dict[str, str]]:
    """Return the cache folder with a commit's packed objects, and the commit of each tag."""
    store = cache / hashlib.sha256(os.path.realpath(git.shared_dir()).encode()).hexdigest()[:24]
    (store / "pack").mkdir(parents=True, exist_ok=True, mode=0o700)
    seen: dict[str, Any]
    every = json.dumps(git.refs_below("refs/tags/"), sort_keys=True)
    with _held(store):
        known = store / f"tags-{root}"
        have = [each.name.removeprefix("tags-") for each in store.glob("tags-*")]
        seen = json.loads(known.read_text()) if root in have else {}
        if seen.get("every") != every:
            packs = (git.shared_dir() / "objects/pack").glob("*.pack")
            if sum(each.stat().st_size for each in packs) > _MOST_BYTES:
                raise _TooManyObjects
            words = ("--merged", root, "--format=%(objectname) %(refname)", "refs/tags")
            pairs = [line.partition(" ") for line in git.text("for-each-ref", *words).splitlines()]
            seen = {"every": every, "tags": {ref: oid for oid, _, ref in pairs}}
            _pack(git, store / "pack/pack", [root, *seen["tags"].values(), "--not", *have])
            known.write_text(json.dumps(seen))
        os.utime(store)
    return store, seen["tags"]


def _pack(git: Git, place: Path, revisions: Iterable[str]) -> None:
    asked = "".join(f"{each}\n" for each in revisions).encode()
    git.run("pack-objects", "--revs", "--quiet", str(place), input=asked, timeout_seconds=_SECONDS)


@lru_cache(maxsize=64)
def _is_older(git: Git, commit: str, base: str | None) -> bool:
    with contextlib.suppress(HarnessError):  # a tree may stand for a commit
        return base is not None and git.ancestor(commit, base)
    return True


def _squashed(git: Git, objects: Path, commit: str, base: str) -> str:
    with git.objects() as known:
        found = known.read(commit)
    head, gap, text = (found[1] if found else b"").partition(b"\n\n")
    lines = [line for line in head.split(b"\n") if line.split(b" ")[0] in _HEADERS]
    content = b"\n".join([lines[0], b"parent " + base.encode(), *lines[1:]]) + gap + text
    whole = b"commit %d\0" % len(content) + content
    digest = hashlib.sha1 if len(commit) == 40 else hashlib.sha256
    name = digest(whole, usedforsecurity=False).hexdigest()
    place = objects / name[:_LOOSE_FANOUT] / name[_LOOSE_FANOUT:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(whole))
    return name


@contextlib.contextmanager
def _held(store: Path) -> Iterator[None]:
    lock = os.open(store / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def forgotten(cache: Path) -> list[Path]:
    """Return the cache folders of packed objects that no checkout has used for a long time."""
    try:
        found = [each for each in cache.iterdir() if each.is_dir() and not each.is_symlink()]
        return [each for each in found if time.time() - each.stat().st_mtime > _FORGOTTEN_SECONDS]
    except OSError:
        return []
