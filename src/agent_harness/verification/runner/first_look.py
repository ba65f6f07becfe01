"""What was installed beside a project before the first agent of a run began, for all places in which its agents work.

Each place looks around for itself before an attempt (``installed_record.py``). What another agent has changed by then,
in an environment or a folder of packages that they all use, would count there as found. So the first look of a run at
such a place is written down, and whoever looks later compares with that one. What is in a place is its own.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.kernel.json import JsonObject
from agent_harness.verification.runner.installed import PROGRAM, Installed, look, with_changes
from agent_harness.verification.runner.interpreters import Interpreter


class FirstLook:
    """That of ``run``, in one file outside of every place; ``inside`` is the place that looks around now."""

    def __init__(self, path: str, run: str, inside: str) -> None:
        self._path = path
        self._run = run
        self._inside = (f"{inside}/", f"{os.path.realpath(inside)}/")

    def before(self, before: Installed, now: Installed) -> Installed:
        """What counts as installed before in this place, with what was there at the first look of the run.

        What the place knows already as changed stays so. Where the file cannot be written, ``before`` as it is.
        """
        shared = tuple(each for each in now.interpreters if not each.prefix.startswith(self._inside))
        has_own = shared != now.interpreters
        outside = look(shared, now.programs, search=now.search, root=now.root, known=now.entries) if has_own else now
        tells = _scope(outside)
        found, there, mine = outside.entries, now.entries, before.entries

        def is_shared(key: str, value: str) -> bool:
            is_same = found.get(key) == there.get(key)  # else one of the place's own goes before it
            return is_same and not self._is_inside(key, value) and tells(key, value)

        here = {key: value for key, value in mine.items() if is_shared(key, value)}
        with suppress(OSError, HarnessError), self._held() as known:
            first = {key: value for key, value in self._with(known, outside, here).items() if is_shared(key, value)}
            differs = {key for key in {**here, **first} if here.get(key) != first.get(key)}
            changed = {key: first.get(key) for key in differs if mine.get(key) == there.get(key)}
            return replace(before, entries=with_changes(before.entries, changed))
        return before

    def accept(self, now: Installed, frees: Callable[[str], bool]) -> None:
        """What a person has released counts from now on as it is."""
        with suppress(OSError, HarnessError), self._held() as known:
            first, there = _texts(known.get("entries")), now.entries
            for key in first.keys() | there.keys():
                value = there.get(key, "")
                if frees(_path_of(key, value or first[key])) and not self._is_inside(key, value):
                    first[key] = value
            files.write_json(self._path, known | {"entries": {key: value for key, value in first.items() if value}})

    def _with(self, known: JsonObject, outside: Installed, here: Mapping[str, str]) -> dict[str, str]:
        """The entries of the first look, which is this one for whatever nobody has looked at before."""
        first = _texts(known.get("entries"))
        rows = known.get("interpreters") or []
        seen = tuple(each for row in rows if (each := Interpreter.from_record(row)))
        named = tuple(str(each) for each in known.get("programs") or [])
        tells = _scope(replace(outside, interpreters=seen, programs=named))
        more = {key: value for key, value in here.items() if not tells(key, value)}
        places = dict.fromkeys((*seen, *outside.interpreters))
        programs = dict.fromkeys((*named, *outside.programs))
        if (len(places), len(programs)) != (len(seen), len(named)):
            first = more | first
            record = {"run": self._run, "interpreters": [each.as_record() for each in places], "programs": [*programs]}
            files.write_json(self._path, {**record, "entries": first})
        return first

    def _is_inside(self, key: str, value: str) -> bool:
        return key.startswith(self._inside) or any(part.startswith(self._inside) for part in value.split("\t"))

    @contextmanager
    def _held(self) -> Iterator[JsonObject]:
        """What is known of this run, while nobody else writes."""
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = files.read_json_if_any(self._path)
            yield known if known.get("run") == self._run else {}
        finally:
            os.close(lock)


def _path_of(key: str, value: str) -> str:
    """Where what an entry tells of lies: a file, a program, or the folder of a distribution."""
    return key if key.startswith("/") else value.rpartition("\t")[2]


def _scope(places: Installed) -> Callable[[str, str], bool]:
    """Whether a look at these places tells of an entry."""
    names = {*places.programs}
    own = {file for each in places.interpreters for file in (each.executable, f"{each.prefix}/pyvenv.cfg")}
    folders = tuple({f"{at}/" for each in places.interpreters for at in each.sites})

    def tells(key: str, value: str) -> bool:
        if key.startswith(PROGRAM):
            return key.removeprefix(PROGRAM) in names
        path = _path_of(key, value)
        return path in own or path.startswith(folders)

    return tells


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
