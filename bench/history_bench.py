"""False alarms of the gate on the history of other people's projects, and lies in the same history.

`bench/history.txt` pins successive releases of small projects, with their hashes. Each release becomes a
commit, and `harness gate --history` judges each step. Then each step is spoilt in four ways, and no spoilt step may be
accepted.
A person would ask about some of the honest steps, too: a release changes expectations of older tests on purpose.

    .venv/bin/python bench/history_bench.py itsdangerous pluggy        # only these projects
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

PINS = ROOT / "bench" / "history.txt"
PLACE = ROOT / ".samples" / "history"
TESTS_NEED = ("pytest==9.2.0", "freezegun==1.5.5")  # one version, so that a verdict comes out again
_PIN = re.compile(r"^(\S+)==(\S+) --hash=(\S+)$", re.MULTILINE)
_GENERATED = re.compile(r"(PKG-INFO|.*\.egg-info)$")
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "core.autocrlf=false")
Spoil = Callable[[Path, str], bool]


@dataclass
class Score:
    judged: Counter[str] = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)
    spoilt: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)  # spoilt steps


def measure(names: Sequence[str] = ()) -> Mapping[str, float]:
    """Return the share of honest steps that are rejected, and the number of spoilt steps that are accepted."""
    score = Score()
    for name, versions in pinned().items():
        if not names or name in names:
            with tempfile.TemporaryDirectory() as folder:
                _project(Path(folder), name, versions, score)
            _say(f"after {name}: {_counted(score)}")
    for line in (*score.alarms, *(f"ACCEPTED although spoilt: {each}" for each in score.accepted), _counted(score)):
        _say(line)
    judged = sum(score.judged[state] for state in ("accepted", "needs a person", "rejected"))
    rejected = 100 * score.judged["rejected"] / max(judged, 1)
    asked = 100 * score.judged["needs a person"] / max(judged, 1)
    return {"history-rejected": rejected, "history-asked": asked, "history-lies": float(len(score.accepted))}


def _counted(score: Score) -> str:
    total = score.spoilt.total()
    honest = ", ".join(f"{number} {state}" for state, number in sorted(score.judged.items()))
    return f"honest: {honest}; spoilt: {total - len(score.accepted)} of {total} refused"


def pinned() -> dict[str, list[tuple[str, str]]]:
    """Return the versions of each project with their hashes, the oldest first."""
    found = defaultdict[str, list[tuple[str, str]]](list)
    for name, version, digest in _PIN.findall(PINS.read_text()):
        found[name].append((version, digest))
    return found


def fetched(name: str, version: str, digest: str) -> Path:
    """Return the unpacked release. Fetch it through pip if it is not there."""
    place = PLACE / f"{name}-{version}"
    if not place.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PLACE, prefix=".fetch-") as folder:
            pin = Path(folder) / "pin.txt"
            pin.write_text(f"{name}=={version} --hash={digest}\n")
            words = ["download", "-q", "--no-deps", "--no-binary", ":all:", "--require-hashes", "-r", str(pin)]
            subprocess.run([sys.executable, "-m", "pip", *words, "-d", folder], check=True)
            (archive,) = Path(folder).glob("*.tar.gz")
            assert f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}" == digest
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            (inner,) = (each for each in Path(folder).iterdir() if each.is_dir())
            inner.rename(place)
    return place


# ---- the honest steps


def _project(folder: Path, name: str, versions: Sequence[tuple[str, str]], score: Score) -> None:
    root, environ = folder / name, {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    root.mkdir()
    _git(root, "init", "-q", "-b", "main")
    (root / ".git/info/exclude").write_text(".venv\n__pycache__\n*.egg-info\nbuild\n")
    for version, digest in versions:
        _commit_release(root, fetched(name, version, digest), version)
    subprocess.run([sys.executable, "-m", "venv", str(root / ".venv")], check=True)
    pip = [str(root / ".venv/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *TESTS_NEED, "-e", str(root)], check=True)
    _git(root, "clean", "-fdq")
    done = _gate(root, environ, "--history", str(len(versions) - 1))
    for row in reversed(done["changes"]):
        score.judged[row["cause"] or row["verdict"]] += 1
        said = f"{name} {row['subject']}: {row['verdict']}: {row['reason']}"
        _say(said)
        if row["verdict"] in ("rejected", "needs a person"):
            score.alarms.append(said)
        if row["verdict"] != "not judged":
            _lies(root, environ, row, score)


def _commit_release(root: Path, release: Path, version: str) -> None:
    _git(root, "rm", "-rq", "--ignore-unmatch", ".")
    _copy = ["cp", "-r", f"{release}/.", str(root)]
    subprocess.run(_copy, check=True)
    for path in [each for each in root.rglob("*") if _GENERATED.match(each.name) and ".venv" not in each.parts]:
        subprocess.run(["rm", "-rf", str(path)], check=True)
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", f"Release {version}")


def _gate(root: Path, environ: Mapping[str, str], *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "agent_harness.cli.main", "gate", "--json", *words]
    done = subprocess.run(command, cwd=root, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)


# ---- the spoilt steps


def _lies(root: Path, environ: Mapping[str, str], row: Mapping[str, str], score: Score) -> None:
    for kind, spoil in SPOILT.items():
        _git(root, "checkout", "-q", "--detach", row["commit"])
        if not spoil(root, row["base"]):
            continue
        _git(root, "commit", "-q", "-a", "-m", kind)
        _git(root, "reset", "-q", "--soft", row["base"])
        _git(root, "commit", "-q", "-m", kind)
        found = _gate(root, environ, "--base", row["base"], "--head", "HEAD")
        said = f"{root.name} {row['subject']}, {kind}: {found.get('verdict') or found.get('error', {}).get('message')}"
        score.spoilt[kind] += 1
        _say(f"  {said}")
        if found["ok"]:
            score.accepted.append(said)
    _git(root, "checkout", "-q", "-f", "main")


def _invert(root: Path, base: str) -> bool:
    return _in_older_test(root, base, lambda node, text: text.replace("==", "!=", 1) if _compares(node) else None)


def _weaken(root: Path, base: str) -> bool:
    return _in_older_test(root, base, lambda node, text: "pass" if _compares(node) else None)


def _delete(root: Path, base: str) -> bool:
    is_test = lambda node: isinstance(node, ast.FunctionDef) and node.name.startswith("test")  # noqa: E731
    return _in_older_test(root, base, lambda node, text: "pass" if is_test(node) else None)


def _empty(root: Path, base: str) -> bool:
    """Empty the first function of the product that an older test calls by its name."""
    tests = "\n".join(_git(root, "show", f"{base}:{path}") for path in _older_tests(root, base))
    for path in _git(root, "ls-files", "*.py").splitlines():
        if "test" not in path and path not in ("setup.py", "docs/conf.py"):

            def replaced(node: ast.AST, text: str) -> str | None:
                is_called = isinstance(node, ast.FunctionDef) and re.search(rf"(?<!def )\b{node.name}\(", tests)
                if is_called and node.body[0].lineno > node.lineno:
                    head = text.split("\n")[: node.body[0].lineno - node.lineno]
                    return "\n".join((*head, f"{' ' * node.body[0].col_offset}return None"))
                return None

            if _replace_first(root / path, replaced):
                return True
    return False


SPOILT: Mapping[str, Spoil] = {
    "an expectation inverted": _invert,
    "an assertion removed": _weaken,
    "a test deleted": _delete,
    "a function emptied": _empty,
}


def _compares(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq)


def _older_tests(root: Path, base: str) -> list[str]:
    names = _git(root, "ls-tree", "-r", "--name-only", base).splitlines()
    return [each for each in names if re.search(r"(^|/)test_\w+\.py$", each) and (root / each).exists()]


def _in_older_test(root: Path, base: str, replaced: Callable[[ast.AST, str], str | None]) -> bool:
    return any(_replace_first(root / path, replaced) for path in _older_tests(root, base))


def _replace_first(path: Path, replaced: Callable[[ast.AST, str], str | None]) -> bool:
    """Replace the first node for which ``replaced`` has a new text. Return True if there is one."""
    text = path.read_text()
    for node in _in_order(ast.parse(text)):
        if not isinstance(node, ast.stmt) or node.end_lineno is None:
            continue
        lines = text.split("\n")
        whole = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        new = replaced(node, whole)
        if new is not None and new != whole:
            indent = "" if new.startswith(" ") else " " * node.col_offset
            lines[node.lineno - 1 : node.end_lineno] = [indent + new]
            path.write_text("\n".join(lines))
            return True
    return False


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    for each in ast.iter_child_nodes(node):
        yield each
        yield from _in_order(each)


def _git(root: Path, *words: str) -> str:
    return subprocess.run([*GIT, *words], cwd=root, capture_output=True, text=True, check=True).stdout


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(measure(sys.argv[1:]))
