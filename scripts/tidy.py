"""Says what must not be in the tree: lock files, registry addresses, paths of one machine, loose ends, vague names.

Looks at the files that git tracks, or would track, below the current folder. One line a finding, ``file:line: why``;
exit status 1 when there is one.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LOCK_FILES = frozenset(
    {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"}
    | {"package-lock.json", "yarn.lock", "pnpm-lock.yaml"}
)
ADDRESS = re.compile(
    r"\b(pypi[.]org|pythonhosted[.]org|registry[.]npmjs|deb[.]debian[.]org)|--(extra-)?index-url|--find[-]links\b"
)
LOOSE_ENDS = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b")
UNWRITTEN = re.compile(r"^\s*raise NotImplemented[E]rror\b")
MACHINE = re.compile(r"(?<![\w.-])/(work|root|home/[a-z]\w*|Users/\w+)/[\w.]")
VAGUE = frozenset(["manager", "helper", "helpers", "utils", "common", "core", "data", "info"])
GONE = {
    "bounce": "reject",
    "culprit": "failing change",
    "face": "view",
    "faces": "views",
    "hands": "worker",
    "lander": "merge queue",
    "papers": "inputs",
    "parcel": "bundle",
    "seat": "slot",
    "seats": "slots",
    "workplace": "workspace",
}
"""Words of earlier releases that names in the code no longer use, and the word for each (docs/glossary.md)."""
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def main() -> int:
    """1 when something is found, else 0."""
    found = [line for path in tracked() for line in findings(path)]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


def tracked() -> list[Path]:
    """The files that a commit of everything here would hold."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True
    ).stdout
    paths = [Path(os.fsdecode(name)) for name in listing.split(b"\0") if name]
    return sorted(path for path in set(paths) if path.is_file() and not path.is_symlink())


def findings(path: Path) -> Iterator[str]:
    """What must not be in one file."""
    if path.name in LOCK_FILES:
        yield f"{path}: a lock file carries registry addresses; pins live in requirements/, with hashes"
        return
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    yield from lines_that_match(path, text)
    if path.suffix == ".py" and path.parts[0] == "src":
        yield from vague_names(path, text)


def lines_that_match(path: Path, text: str) -> Iterator[str]:
    """Addresses, machine paths and loose ends, by line."""
    homes = [place for place in (str(Path.cwd()), str(Path.home())) if len(Path(place).parts) > 2]
    for number, line in enumerate(text.splitlines(), 1):
        if ADDRESS.search(line):
            yield f"{path}:{number}: a registry address or index option"
        if MACHINE.search(line) or any(f"{place}/" in line for place in homes):
            yield f"{path}:{number}: a path of one machine"
        if LOOSE_ENDS.search(line) or (path.parts[0] == "src" and UNWRITTEN.search(line)):
            yield f"{path}:{number}: a loose end"


def vague_names(path: Path, text: str) -> Iterator[str]:
    """Modules, classes and functions whose name holds a word that says nothing (docs/architecture.md)."""
    names = [(1, path.stem)]
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names += [(node.lineno, node.name) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    for line, name in names:
        words = {word.lower() for word in WORDS.findall(name)}
        if words & VAGUE or name.startswith("Abstract"):
            yield f"{path}:{line}: the name {name} says too little"
        yield from (f"{path}:{line}: {name}: write {GONE[word]} for {word}" for word in sorted(words & GONE.keys()))


if __name__ == "__main__":
    sys.exit(main())
