"""Verdicts of the gate on the changes that were merged into a branch.

A change is a commit of the first-parent history, compared with its first parent: a merge, a squash merge, or a plain
commit. Each verdict is kept outside the repository, so that an interrupted run goes on where it ended:

    $XDG_STATE_HOME/agent-harness/gate-history/KEY.json

KEY depends on the repository, both commits, the terms, the installed packages and this version of the harness. What
could not be judged is not kept, because the user may repair its cause."""

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import agent_harness
from agent_harness.errors import HarnessError, Interrupted, Refused, UsageError
from agent_harness.gate.change import between, commit_named, default_base
from agent_harness.gate.decision import ACCEPTED, EXIT_CODES, MISSING, REJECTED, GateDecision, GateTerms, decide
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.temporary import remove
from agent_harness.kernel.terminal import one_line
from agent_harness.kernel.trusted_state import of_user
from agent_harness.verification.verdict import CRITICAL

NOT_JUDGED = "not judged"
FIRST, NO_CODE = "no commit before it is here", "no change of code"
NOT_INSTALLED = "the change needs a package that is not installed"
_FORMAT = "--format=%H%x00%P%x00%an <%ae>%x00%s%x00%B"
_MOST_KEPT = 5000  # verdicts of all repositories, the newest
_READ = 500  # commits read at once


class PastChange(NamedTuple):
    """Change of the first-parent history. Author, subject and body are text that anybody may have written."""

    commit: str
    parents: list[str]
    author: str
    subject: str
    body: str


@dataclass(frozen=True)
class Wanted:
    """Changes that are asked for. The author and the trailer of one commit of the change must match.
    Raise ``UsageError`` if the words have no meaning."""

    number: int
    base: str | None = None
    author: str | None = None  # a regular expression
    trailer: str | None = None  # KEY: VALUE

    def __post_init__(self) -> None:
        try:
            re.compile(self.author or "")
        except re.error as error:
            raise UsageError(f"--author {self.author!r} is not a regular expression: {error}") from None
        if self.trailer is not None and not self.trailer.partition(":")[0].strip(":"):
            raise UsageError(f"--trailer {self.trailer!r} has no key", hint="--trailer 'Co-authored-by: NAME'")

    def holds(self, each: PastChange) -> bool:
        name, _, value = (self.trailer or "").casefold().partition(":")
        lines = (line.casefold().partition(":") for line in each.body.splitlines() if name)
        found = any(key.strip() == name.strip() and value.strip() in rest for key, _, rest in lines)
        return (found or not name) and bool(re.search(self.author or "", each.author, re.IGNORECASE))


def merged(git: Git, asked: Wanted) -> list[PastChange]:
    """Return the last changes that ``asked`` describes, the oldest first."""
    tip = commit_named(git, asked.base or default_base(git))

    def is_wanted(each: PastChange) -> bool:
        inside = _log(git, f"{each.parents[0]}..{each.commit}") if len(each.parents) > 1 else ()
        return any(map(asked.holds, chain([each], inside)))

    return [*islice(filter(is_wanted, _log(git, "--first-parent", tip)), asked.number)][::-1]


def _log(git: Git, *words: str) -> Iterator[PastChange]:
    skipped, fields = 0, [""] * 5 * _READ
    while len(fields) == 5 * _READ:
        more = ("log", "-z", _FORMAT, f"--max-count={_READ}", f"--skip={skipped}", *words, "--")
        fields = git.run(*more).decode("utf-8", "replace").split("\0")[:-1]
        for at in range(0, len(fields), 5):
            commit, parents, author, subject, body = fields[at : at + 5]
            yield PastChange(commit, parents.split(), one_line(author), one_line(subject), body)
        skipped += _READ


def look_back(git: Git, asked: Wanted, terms: GateTerms, *, say: Callable[[str], object]) -> JsonObject:
    """Return the record of the answers, the newest change first."""
    rows = list[JsonObject]()
    changes = merged(git, asked)
    if not changes:
        raise Refused("No merged change matches", hint="git log --first-parent --format='%h %an: %s'")
    kept = _Kept(git, terms)
    for number, each in enumerate(changes, 1):  # the oldest first, because the next change needs its suite
        began, known = time.monotonic(), kept.get(each)
        answer = known or {"shown": None, "cause": None, "findings": list[str](), **_answer(git, each, terms)}
        seconds = round(time.monotonic() - began, 1)
        for key in [key for key in terms.suites if key[1] != each.commit]:
            del terms.suites[key]
        if not known and answer["verdict"] in EXIT_CODES:
            kept.put(each, {**answer, "seconds": seconds})
        rows.insert(0, {**_named(each, terms), "seconds": seconds, **answer, "known": bool(known)})
        took = "known" if known else f"{seconds} s"
        say(f"[{number}/{len(changes)}] {each.commit[:10]} {_said(answer)} ({took}): {each.subject}")
    return {"branch": asked.base or default_base(git), "counts": _counts(rows), "changes": rows}


def _counts(rows: list[JsonObject]) -> JsonObject:
    """Return the number of changes for each verdict, and for each cause of those without a verdict."""
    causes = [row["cause"] for row in rows if row["verdict"] == NOT_JUDGED]
    return {
        **{state: sum(row["verdict"] == state for row in rows) for state in EXIT_CODES},
        "not_judged": {cause: causes.count(cause) for cause in sorted(set(causes))},
        "known": sum(row["known"] for row in rows),
    }


def _named(each: PastChange, terms: GateTerms) -> JsonObject:
    options = [word for check in terms.checks for word in ("--check", check)]
    options += [word for path in terms.allow for word in ("--allow", path)]
    options += ["--require", terms.require] if terms.require else []
    short = each.commit[:10]
    look = f"harness gate --base {short}~1 --head {short} {shlex.join(options)}".rstrip()
    return {
        "commit": each.commit,
        "base": each.parents[0] if each.parents else None,
        "subject": each.subject,
        "author": each.author,
        "look": look if each.parents else f"git show {short}",
        "diff": f"git diff {short}~1 {short}" if each.parents else f"git show {short}",
    }


def _answer(git: Git, each: PastChange, terms: GateTerms) -> JsonObject:
    if not each.parents:
        return _without(FIRST, "git fetch --unshallow  # if the project is older")
    try:
        change = between(git, base=each.parents[0], head=each.commit, worktree=False)
        if change.only_documents:
            return _without(NO_CODE, "only documents were changed" if change.paths else "no file was changed")
        decision = decide(change, terms, say=lambda _: None)
    except (Interrupted, UsageError):
        raise
    except HarnessError as error:
        return _without(str(error.data.get("cause") or error.code), error.message)
    critical = [each for each in decision.findings if each.severity == CRITICAL]
    failed = f"the tests fail on the change: exit {decision.judged[-1].verdict.exit_code}"
    reason = decision.shown.basis if decision.state == ACCEPTED else critical[0].message if critical else failed
    return _cannot(decision) or {
        "verdict": decision.state,
        "shown": decision.shown.word,
        "reason": one_line(reason),
        "findings": sorted({each.code for each in critical}),
    }


def _without(cause: str, reason: str) -> JsonObject:
    return {"verdict": NOT_JUDGED, "cause": cause, "reason": one_line(reason)}


def _cannot(decision: GateDecision) -> JsonObject | None:
    """Return the answer without a verdict if the installed packages do not fit the commits."""
    runs = [run for each in decision.judged for run in (each.verdict.proof, each.verdict.suite) if run]
    names = {name for run in runs if decision.state == REJECTED for name in MISSING.findall(run.output)}
    change = decision.change
    foreign = sorted(names - change.modules(change.base, change.head)) if names else []
    return _without(NOT_INSTALLED, f"No module named {foreign[0]!r}") if foreign else None


def _said(answer: JsonObject) -> str:
    return f"{answer['verdict']}: {answer['shown'] or answer['cause']}"


def lines(found: JsonObject) -> Iterator[str]:
    """Yield the table and the sums as text, with at most three lines for a change."""
    for row in found["changes"]:
        yield f"{row['commit'][:10]}  {_said(row):<26} {row['author'].partition(' <')[0][:18]:<18} {row['subject']}"
        yield f"    {row['reason']}"
        if row["verdict"] not in (NOT_JUDGED, ACCEPTED):
            yield f"    {row['look']}"
    yield summary(found)


def summary(found: JsonObject) -> str:
    """Return the sums in one line. Changes without a verdict are counted by their cause."""
    sums = found["counts"]
    judged = ", ".join(f"{sums[state]} {state}" for state in EXIT_CODES)
    left = "; ".join(f"{number} {cause}" for cause, number in sums["not_judged"].items())
    number = sum(sums[state] for state in EXIT_CODES)
    text = f"{number} of {len(found['changes'])} changes judged: {judged}{f'. Not judged: {left}' if left else ''}"
    return f"{text}; {sums['known']} known from before" if sums["known"] else text


class _Kept:
    """Verdicts of earlier runs, a file each, in a folder of this user outside the repository."""

    def __init__(self, git: Git, terms: GateTerms) -> None:
        # without a usable folder, nothing is found and nothing can be written
        self._folder = Path(of_user("gate-history", project=str(git.top())) or os.devnull)
        self._terms = repr((git.shared_dir(), git.prefix(), terms, _surroundings(git.root)))
        for path in sorted(self._folder.glob("*.json"), key=lambda path: -path.lstat().st_mtime)[_MOST_KEPT:]:
            remove(str(path))

    def get(self, each: PastChange) -> JsonObject | None:
        path = self._path(each)
        found = files.read_json_if_any(os.devnull if path.is_symlink() else path)
        is_whole = {"shown", "reason", "cause", "findings", "seconds"} <= found.keys()
        return found if is_whole and found.get("verdict") in EXIT_CODES else None

    def put(self, each: PastChange, answer: JsonObject) -> None:
        with suppress(OSError, HarnessError):  # such as a full disk: then the change is judged again
            files.replace(self._path(each), json.dumps(answer), mode=0o600)

    def _path(self, each: PastChange) -> Path:
        text = "\0".join((self._terms, *each.parents[:1], each.commit))
        return self._folder / f"{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}.json"


def _surroundings(root: Path) -> list[Any]:
    """Return what changes with the code of the harness, or with the installed packages of the project."""
    places = [*root.glob("*venv/lib/python*/site-packages"), root / "node_modules"]
    places += sorted(Path(agent_harness.__file__).parent.glob("**/*.py"))
    stats = ((path, path.stat()) for path in places if path.exists())
    return [agent_harness.__version__, os.environ.get("PATH"), *((str(p), s.st_size, s.st_mtime_ns) for p, s in stats)]
