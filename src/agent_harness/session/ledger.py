"""Permanent record of the verdicts on all claims: ``verdicts.jsonl``. It has one line for each verdict, in the same
format for every protocol.

    {"v":1, "n":7, "at":..., "id":..., "item":"5", "claim":["5"], "verdict":"rejected", "codes":["regression"], ...,
     "steps":[{"step":"proof", "command":..., "exit":0, "passed":4, "failed":0, "result":"passed", ...}], "prev":...}

The lines are numbered and chained: ``prev`` is the SHA-256 of the previous line. ``check`` therefore finds a line that
was changed, removed or inserted. Writers lock the file. A partial line of a killed writer stays in the file, and
readers skip the partial line. ``id`` identifies the claim. After a crash, the harness finds a verdict by this ``id``
and does not write the verdict again.

A user's decision on an item, such as `harness override`, is a line with ``by: person``. In such a line, ``of`` is the
number of the verdict that the decision concerns.

The file is outside the project, in a folder whose path agents do not learn: see ``kernel/trusted_state.py``. The output
of each step is beside the project's logs, as ``N-STEP.txt``. Source: ``faces.md`` F-REC-1, F-REC-2."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, takewhile

from agent_harness.errors import Busy, HarnessError
from agent_harness.kernel import clock, digest, files, journal, lock
from agent_harness.kernel.json import JsonObject, jsontext, members_of, objects_in, text, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
    from typing import Any

    from agent_harness.kernel.files import AnyPath
else:
    from agent_harness.session.values import dataclass, field, fields, replace

__all__ = [
    "ACCEPTED",
    "FILE",
    "REJECTED",
    "ChainReport",
    "ClaimVerdict",
    "VerdictStep",
    "after",
    "check",
    "keep_output",
    "last_about",
    "newest_first",
    "not_landed",
    "outputs_of",
    "prune_outputs",
    "write",
]

FILE = "verdicts.jsonl"
ACCEPTED, REJECTED = "accepted", "rejected"
NAMED = 20
"""Maximum number of regressions that a verdict line lists; ``regressions_total`` counts all of them."""

OUTPUT_BYTES = 65536
_LOOKED_BACK = 200  # lines among which the one of a claim that was interrupted is looked for


@dataclass(frozen=True, kw_only=True)
class VerdictStep:
    """One step of a verdict."""

    step: str  # guard, proof, suite, cross-check, red, lint, criterion
    result: str  # passed, warned, failed
    name: str | None = None  # of the criterion
    command: str | None = None
    exit: int | None = None
    passed: int | None = None  # tests
    failed: int | None = None
    seconds: float | None = None
    log: str | None = None  # where its output is kept, below the project

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> VerdictStep:
        return cls(
            step=text(record.get("step")) or "",
            result=text(record.get("result")) or "",
            name=text(record.get("name")),
            command=text(record.get("command")),
            exit=whole(record.get("exit")),
            passed=whole(record.get("passed")),
            failed=whole(record.get("failed")),
            seconds=_number(record.get("seconds")),
            log=text(record.get("log")),
        )


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """Verdict on one claim: a line of the verdict file."""

    item: str  # the id of the feature, task or long task; "cleanup" for a session without an item
    verdict: str  # ACCEPTED or REJECTED
    id: str = ""  # of the claim: two lines of the same claim and verdict are never written
    n: int = 0  # from 1 on; 0 before it is written
    at: str = ""
    session: int | None = None
    attempt: int | None = None
    agent: str | None = None
    model: str | None = None
    claim: tuple[str, ...] = ()  # the claimed ids; none if the harness verified without a claim
    codes: tuple[str, ...] = ()  # of the rejection, or of notes for a person
    base: str | None = None  # the commit before the work
    candidate: str | None = None  # that was verified
    commit: str | None = None  # that the branch got, or has; None if rejected
    red_base: str | None = None  # on whose code the tests did not pass
    steps: tuple[VerdictStep, ...] = ()
    regressions: tuple[str, ...] = ()  # the first of them
    regressions_total: int = 0
    flaky: tuple[str, ...] = ()
    isolation: str | None = None
    sandbox: str | None = None  # of the checks: its kind and its network, or "none"
    tools: Mapping[str, str] = field(default_factory=dict)  # versions: python, pytest, git
    grade: str | None = None  # of an accepted claim: proven or checked (``verification/grade.py``)
    basis: str | None = None  # what that rests on, in one clause
    cost_usd: float | None = None  # of the session, attempt or slice until its claim was verified
    seconds: float | None = None  # that it had taken by then
    by: str | None = None  # "person"
    word: str | None = None  # the person's decision: override, manual, takeback, accept-change, ...
    of: int | None = None  # the line that a person's word is about
    prev: str | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)  # what another version has written beside it

    @property
    def accepted(self) -> bool:
        return self.verdict == ACCEPTED

    @property
    def by_person(self) -> bool:
        return self.by == "person"

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ClaimVerdict:
        """Return the verdict in a stored record. ``rest`` contains the record's unknown keys."""
        known: JsonObject = {name: parse(record[name]) for name, parse in _PARSERS.items() if name in record}
        known |= {name: known.get(name) or "" for name in ("item", "verdict", "id", "at")}
        known |= {name: known.get(name) or 0 for name in ("n", "regressions_total")}
        rest = {name: value for name, value in record.items() if name not in _PARSERS and name != "v"}
        return cls(**known, rest=rest)

    def as_record(self) -> JsonObject:
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("rest", "prev")}
        members: JsonObject = {"v": 1, "n": self.n, "at": self.at, **named}
        members["steps"] = [dict(vars(step)) for step in self.steps]
        members |= {name: list(value) for name, value in members.items() if isinstance(value, tuple)}
        members["tools"] = dict(self.tools)
        for name in ("grade", "basis", "by", "word", "of"):
            if members[name] is None:
                del members[name]
        return {**members, **self.rest, "prev": self.prev}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_PARSERS = {
    **dict.fromkeys(("item", "verdict", "id", "at", "agent", "model", "base", "candidate", "commit"), text),
    **dict.fromkeys(("red_base", "isolation", "sandbox", "grade", "basis", "by", "word", "prev"), text),
    **dict.fromkeys(("n", "session", "attempt", "regressions_total", "of"), whole),
    **dict.fromkeys(
        ("claim", "codes", "regressions", "flaky"),
        lambda value: tuple(map(str, value)) if isinstance(value, list) else (),
    ),
    **dict.fromkeys(("cost_usd", "seconds"), _number),
    "steps": lambda value: tuple(map(VerdictStep.from_record, objects_in(value))),
    "tools": lambda value: {str(name): str(each) for name, each in members_of(value).items()},
}


# ---- the file


def write(path: str, verdict: ClaimVerdict) -> ClaimVerdict:
    """Append a verdict to the file, and return the verdict with its number."""
    from agent_harness.kernel.redact import redact

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with _turn(path):
        # the same verdict on the same claim is written only once
        if known := _of_claim(path, verdict):
            return known
        before = next(_backwards(path), None)
        written = replace(
            verdict,
            steps=tuple(replace(step, command=step.command and redact(step.command)) for step in verdict.steps),
            n=before[1].n + 1 if before else 1,
            at=verdict.at or clock.timestamp(fraction=True),
            prev=_sum(before[0]) if before else None,
        )
        journal.append(path, written.as_record(), durable=True)
        return written


def _of_claim(path: str, verdict: ClaimVerdict) -> ClaimVerdict | None:
    """Return the stored verdict on the same claim with the same result, or None."""
    near = islice(journal.backwards(path), _LOOKED_BACK) if verdict.id else ()
    found = (_verdict_in(line) for line in near if verdict.id in line)
    return next((each for each in found if each and (each.id, each.verdict) == (verdict.id, verdict.verdict)), None)


@contextmanager
def _turn(path: str) -> Iterator[None]:
    descriptor = files.open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if not _is_locked(descriptor):
            raise Busy(f"{path} is being written by another process", hint="run the same command again")
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        return lock.await_lock(descriptor, 30.0)
    except OSError:  # a disk without locks: the lock of the project keeps others out
        return True


def newest_first(path: str) -> Iterator[ClaimVerdict]:
    return (found for _, found in _backwards(path))


def after(path: str, number: int) -> list[ClaimVerdict]:
    """Return the verdicts in the file whose number is greater than ``number``, oldest first."""
    return [*takewhile(lambda found: found.n > number, newest_first(path))][::-1]


def outputs_of(verdicts: Iterable[ClaimVerdict], root: AnyPath) -> dict[str, str]:
    """Return the stored outputs of the verdicts' steps, by path relative to ``root``."""
    found: dict[str, str] = {}
    for log in (step.log for verdict in verdicts for step in verdict.steps if step.log):
        try:
            found[log] = files.read_bytes(os.path.join(root, log)).decode("utf-8", "replace")
        except (OSError, HarnessError):
            found[log] = ""
    return found


def last_about(path: str, item: str) -> ClaimVerdict | None:
    return next((found for found in newest_first(path) if found.item == item), None)


def was_accepted(path: str, item: str) -> bool:
    """Return True if a verification ever accepted work on the item."""
    return any(found.item == item and found.accepted and not found.by_person for found in newest_first(path))


def _backwards(path: str) -> Iterator[tuple[str, ClaimVerdict]]:
    for line in journal.backwards(path):
        found = _verdict_in(line)
        if found is not None:
            yield line, found


def _verdict_in(line: str) -> ClaimVerdict | None:
    try:
        record = jsontext.loads(line, exact=False) if line.startswith("{") else None
    except ValueError:
        return None
    return ClaimVerdict.from_record(record) if isinstance(record, dict) and record.get("v") == 1 else None


def _sum(line: str) -> str:
    return digest.sha256(line.encode())


# ---- whether it is whole


@dataclass(frozen=True, kw_only=True)
class ChainReport:
    lines: int = 0  # that hold a verdict
    torn: int = 0  # without a verdict: a writer was killed in the middle of them
    broken_at: int | None = None  # the place, counted from 1, of the first verdict that does not follow the one before
    problem: str = ""

    @property
    def whole(self) -> bool:
        return self.broken_at is None

    @property
    def sentence(self) -> str:
        """Sentence that tells the user whether the verdict file was altered."""
        if self.whole:
            return f"{self.lines} verdicts, and no verdict was altered"
        return f"the record of verdicts was altered: {self.problem}"


def check(path: str) -> ChainReport:
    """Check whether a line of the verdict file was altered, and return a report."""
    # the check cannot detect lines that were cut off at the end
    lines = torn = 0
    before: str | None = None
    expected = 1
    for line in _lines(path):
        found = _verdict_in(line)
        if found is None:
            torn += bool(line)
            continue
        lines += 1
        if found.prev != (None if before is None else _sum(before)) or found.n != expected:
            said = f"line {found.n} does not follow {'the line before it' if before else 'the start of the record'}"
            return ChainReport(lines=lines, torn=torn, broken_at=lines, problem=said)
        before, expected = line, found.n + 1
    return ChainReport(lines=lines, torn=torn)


def _lines(path: str) -> Iterator[str]:
    try:
        file = os.fdopen(files.open_regular(path, os.O_RDONLY), "rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            yield line.removesuffix(b"\n").decode("utf-8", "replace")


# ---- output of a step


def not_landed(
    path: str, folder: str, root: str, claim: ClaimVerdict, fix: Mapping[str, Any], *, job: str
) -> ClaimVerdict:
    """Record that the harness rejects proven work because the work was not merged. Return this verdict."""
    what = ", ".join(str(each) for each in fix.get("files") or fix.get("failing") or ())
    told = ": ".join(filter(None, (str(fix.get("why")).replace("_", " "), what)))
    told = told.encode("utf-8", "backslashreplace").decode()  # the name of a file may be no text
    line = replace(
        claim,
        id=f"{job}, not landed",
        verdict=REJECTED,
        codes=("not_landed",),
        commit=None,
        grade=None,
        basis=None,
        prev=None,
        n=0,
    )
    known = next((each for each in newest_first(path) if each.item == line.item), None)
    if known is not None and known.id == line.id:
        return known
    printed = {"command": "git merge" if fix.get("files") else "the checks of the work to be merged"}
    kept = keep_output(folder, path, "landing", output=str(fix.get("output") or ""), ended=told, **printed)
    step = VerdictStep(step="landing", result="failed", name=told, log=os.path.relpath(kept, root))
    return write(path, replace(line, steps=(step,)))


def keep_output(
    folder: str, path: str, step: str, *, command: str, output: str, ended: str, problem: str | None = None
) -> str:
    """Write the output of a verdict's step to a new file, and return its path."""
    from agent_harness.kernel.redact import redact

    os.makedirs(folder, exist_ok=True)
    said = f"{problem}\n" if problem else ""
    tail = redact(output).encode("utf-8", "replace")[-OUTPUT_BYTES:].decode("utf-8", "ignore")
    text = f"$ {redact(command)}\n{tail.rstrip()}\n{said}[{ended}]\n"
    step = "".join(each if each.isalnum() or each in "-_" else "-" for each in step)[:80]
    number = next((found.n for found in newest_first(path)), 0)
    while True:
        number += 1
        kept = os.path.join(folder, f"{number}-{step}.txt")
        if files.create(kept, text):  # another worker may have just taken the number
            return kept


def prune_outputs(folder: str, *, days: int = 90) -> int:
    """Delete outputs older than ``days`` days. Return the number of deleted files."""
    removed = 0
    names = os.listdir(folder) if os.path.isdir(folder) and not os.path.islink(folder) else []
    for name in names:
        path = os.path.join(folder, name)
        # symbolic links stay
        is_ours = name.partition("-")[0].isdecimal() and name.endswith(".txt") and not os.path.islink(path)
        if is_ours and clock.now() - clock.moment(os.lstat(path).st_mtime) > clock.timedelta(days=min(days, 1_000_000)):
            os.unlink(path)
            removed += 1
        elif name.partition("-")[0].isdecimal() and ".txt.tmp." in name:
            removed += files.sweep(path.partition(".tmp.")[0])
    return removed
