"""Inventory of the packages and programs that a shell command may use to run Python tests."""

import os
import re
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache
from itertools import islice
from pathlib import Path

from agent_harness.kernel.git import Git
from agent_harness.kernel.process.sandbox import AUTO, SandboxSettings
from agent_harness.kernel.shell.wrappers import programs
from agent_harness.verification.changes import LIMIT_BYTES, Tree
from agent_harness.verification.check import parse
from agent_harness.verification.command.named_files import named_by
from agent_harness.verification.runner.environment import ALWAYS, own_environments, plain_variables, released
from agent_harness.verification.runner.installed import Installed, places
from agent_harness.verification.runner.installed_changes import Differences
from agent_harness.verification.runner.installed_record import FirstLook, InstalledRecord
from agent_harness.verification.runner.interpreters import Interpreters, interpreter_of_script, is_python, program_path
from agent_harness.verification.runner.linked_paths import compared, ignored_paths, linkable

__all__ = ["Differences", "FirstLook", "InstalledRecord", "around", "linked_by", "released", "starts_python"]

_SPEAKS = re.compile(  # of an interpreter, or of what starts one
    r"(?<![\w-])(?:python|pypy|py\.?test|unittest|tox|nox|poetry|pipenv|uvx?|hatch|pdm|rye|pixi|conda|mamba|ipython|pip)"
    r"(?:w|\d[\d.]*)?(?![\w-])|\.py\b"
)
_MOST_PATHS = 5_000  # of a folder, where a pattern asks for all of them


def around(
    commands: Iterable[tuple[str, str]],
    *,
    in_place: bool,
    settings: SandboxSettings = AUTO,
    confined: bool = True,
    linked: Iterable[str] = (),
) -> Installed:
    """Return the programs and Python interpreters that the commands may start."""
    variables = plain_variables()
    texts = [(text, str(Path(folder).absolute())) for text, folder in commands]
    root = texts[0][1] if texts else ""
    starting = [(text, Path(folder)) for text, folder in texts if starts_python(text, folder)]
    interpreters = Interpreters(variables)
    folders = list(dict.fromkeys(folder for _, folder in starting))
    asked = {(each.head, folder): each for text, folder in starting if (each := parse(text)).words}
    asked |= {((name,), folder): parse(name) for name in ("python", "python3") for folder in folders[:1]}
    found = [interpreters.behind(each, folder) for (_, folder), each in asked.items()]
    found += [each for folder in folders for each in own_environments(folder, interpreters)]
    started = (word for text, _ in texts for word in programs(text))
    named = (*ALWAYS, *(word for word in started if word.replace("-", "_").isidentifier()))
    return places(
        found,
        named,
        root=root,
        settings=settings,
        confined=confined,
        search=variables["PATH"],
        above=root if in_place and starting else "",
        lent=compared(Path(root), linked),
    )


def linked_by(folder: str) -> tuple[str, ...]:
    return linkable(Path(folder), ignored_paths(Git(folder)))


@lru_cache(maxsize=1024)
def starts_python(command: str, folder: str) -> bool:
    """Return True if a command starts Python, directly or through a script or makefile in ``folder``."""
    if _SPEAKS.search(command):
        return True
    search = os.environ.get("PATH", os.defpath)
    paths = (program_path(word, root=Path(folder), path=search) for word in programs(command))
    if any(path and (is_python(Path(path).name) or interpreter_of_script(path)) for path in paths):
        return True
    place = _Folder(folder)
    named = named_by(command, Tree(place, place.read))
    texts = (*named.texts, *((place.read(path) or b"").decode("utf-8", "replace") for path in named.files))
    return named.python or any(map(_SPEAKS.search, texts))


class _Folder(Set[str]):
    """Set of the paths of a folder's files, read on first use."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and "\0" not in path and Path(self._root, path).is_file()

    def __iter__(self) -> Iterator[str]:
        found = (
            os.path.relpath(f"{folder}/{name}", self._root)
            for folder, _, names in os.walk(self._root)
            for name in names
        )
        return islice(found, _MOST_PATHS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def read(self, path: str) -> bytes | None:
        try:
            with Path(self._root, path).open("rb") as file:
                return file.read(LIMIT_BYTES)
        except (OSError, ValueError):
            return None
