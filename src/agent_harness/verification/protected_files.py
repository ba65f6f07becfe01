"""What a project's own runner settings and commands say about the files that steer its tests.

Read from the way back, never from the candidate: an agent does not choose what is protected from it.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from agent_harness.kernel.git import Git
from agent_harness.verification.changes import CandidateChanges, contents
from agent_harness.verification.guard import Duty, belongs
from agent_harness.verification.runner_config import is_conftest, is_runner_config, is_test_file, settings
from agent_harness.verification.sources import parse, plugins_named

_SETTINGS_DEPTH = 2
_PLUGIN = re.compile(r"(?:^|\s)-p\s*([A-Za-z_][\w.]*)")
_WORDS = re.compile(r"[\s;|&()<>'\"=]+")
_NAMED_BY_PROGRAM = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "invoke": ("tasks.py",),
}


def duty_of(
    git: Git,
    base: str,
    changes: CandidateChanges,
    *,
    commands: Iterable[str],
    test_files: Collection[str],
    protected: Collection[str],
    import_roots: Iterable[str],
) -> Duty:
    """The duty of a session, with everything that the way back says about how tests are run."""
    found = _settings(git, base, changes.before)
    conftests = contents(git, base, [path for path in changes.before if is_conftest(path)])
    plugins = [name for text in conftests.values() for name in plugins_named(parse(text))]
    words = list(commands)
    return Duty(
        test_files=frozenset(map(_clean, test_files)),
        protected=frozenset(map(_clean, protected)),
        import_roots=frozenset({"", *import_roots, *_python_paths(found)}),
        runner_files=_runner_files(words, changes.before | changes.after, test_files),
        plugins=frozenset(
            (*plugins, *_plugins([*words, *(str(options.get("addopts", "")) for options in found.values())]))
        ),
    )


def _clean(node: str) -> str:
    """A node id whose file is written as git writes it."""
    file, colons, name = node.partition("::")
    return posixpath.normpath(file) + colons + name


def _settings(git: Git, base: str, paths: Collection[str]) -> Mapping[str, dict[str, object]]:
    """Settings for pytest by file, near the top of the project."""
    near = [p for p in paths if is_runner_config(p) and len(PurePosixPath(p).parts) <= _SETTINGS_DEPTH]
    return {path: settings(path, text) or {} for path, text in contents(git, base, near).items()}


def _python_paths(found: Mapping[str, dict[str, object]]) -> list[str]:
    roots: list[str] = []
    for path, options in found.items():
        value = options.get("pythonpath", [])
        entries = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        roots += [str(PurePosixPath(path).parent / str(entry)) for entry in entries]
    return ["" if root == "." else root for root in roots]


def _plugins(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for name in _PLUGIN.findall(re.sub(r"[\[\],'\"]", " ", text)) if name != "no"]


def _runner_files(commands: Iterable[str], paths: Collection[str], test_files: Collection[str]) -> frozenset[str]:
    """Files of the project that the commands start or read, other than tests."""
    named: set[str] = set()
    for command in commands:
        words = [word.removeprefix("./") for word in _WORDS.split(command) if word]
        named.update(words)
        for word in words:
            named.update(_NAMED_BY_PROGRAM.get(PurePosixPath(word).name, ()))
    return frozenset(p for p in named if p in paths and not (is_test_file(p) or belongs(p, test_files)))
