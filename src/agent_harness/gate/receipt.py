"""Receipts: a verdict as one JSON document that anybody can check later, on another machine (``docs/receipts.md``).

A receipt has exactly one spelling: sorted members, no blanks, one line end. ``digest`` covers every other member, and
``signature`` every member but these two. Therefore one changed byte anywhere is found. ``previous`` contains the
SHA-256 of each receipt in the same folder that no receipt follows yet."""

import json
import os
import platform
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from agent_harness import __version__
from agent_harness.errors import HarnessError, Refused, UsageError
from agent_harness.gate import answer, signature
from agent_harness.gate.decision import GateDecision, GateTerms, JudgedCheck
from agent_harness.kernel import clock, files
from agent_harness.kernel.digest import sha256
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject, jsontext, number_below
from agent_harness.kernel.process import sandbox
from agent_harness.kernel.redact import redact
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.project_view import ProjectView
from agent_harness.verification.runner.testreport import report_of
from agent_harness.verification.verdict import Run

KIND, VERSION = "agent-harness-receipt", 1
GATE, RECORD = "gate", "record"  # where the verdict comes from
OUTSIDE = ("digest", "signature")  # members that the signature does not cover
ABSENT = "absent"  # outcome of a test that did not run
_TEXT, _OID, _SHA = "(?s).*", "[0-9a-f]{40}([0-9a-f]{24})?", "[0-9a-f]{64}"
_COMMIT = {"commit": _OID, "tree": _OID}
_TERMS: JsonObject = {name: [_TEXT] for name in ("checks", "tests", "allow")}
_TERMS |= {"require": "(proven|checked)?", "minutes": lambda it: bool(number_below(it, 1e5))}
_TESTS = {"base": _TEXT, "head": _TEXT, "ids": [_TEXT]}
_CHECK = {"command": _TEXT, "found_in": _TEXT, "tests": [_TESTS], "flaky": [_TEXT]}
_FINDING = {"code": _TEXT, "severity": _TEXT, "path?": _TEXT}
_OF_GATE = {"base": _COMMIT, "head": _COMMIT, "terms": _TERMS, "checks": [_CHECK], "shown": _TEXT}
_OF_GATE |= {"findings": [_FINDING]}
_EVERY = {**dict.fromkeys(("at", "verdict", "why?", "signature?"), _TEXT), "previous": [_SHA]}
_SHAPES: Mapping[str, Any] = {
    GATE: {**_EVERY, **_OF_GATE},
    RECORD: {**_EVERY, **{f"{name}?": each for name, each in _OF_GATE.items()}},
}
"""Members that an audit uses: objects, lists, patterns of text, and functions. A question mark stands for optional."""

# ---- form


def canonical(receipt: JsonObject, *without: str) -> bytes:
    """Return the only spelling of a receipt. Raise ``ValueError`` for a number that JSON does not have."""
    known = {name: each for name, each in receipt.items() if name not in without}
    return json.dumps(known, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def read(content: bytes) -> JsonObject:
    """Return the receipt in the content of a file. Raise ``ValueError`` if it is not exactly as it was written."""
    found = jsontext.loads(content)
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise ValueError("it is not a receipt")
    if found.get("digest") != sha256(canonical(found, "digest")) or canonical(found) + b"\n" != content:
        raise ValueError("its bytes were changed: they are not those of its digest")
    if found.get("version") != VERSION:
        raise ValueError(f"it has version {str(found.get('version'))[:20]}, and this harness reads version {VERSION}")
    if not _fits(found.get("source"), f"{GATE}|{RECORD}") or not _fits(found, _SHAPES[found["source"]]):
        raise ValueError("its members are not those of a receipt")
    return found


def _fits(value: object, shape: Any) -> bool:
    if isinstance(shape, dict):
        names = ((name, name.rstrip("?"), each) for name, each in shape.items())
        return isinstance(value, dict) and all(
            _fits(value[key], each) if key in value else key != name for name, key, each in names
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(each, shape[0]) for each in value)
    if isinstance(shape, str):
        return isinstance(value, str) and re.fullmatch(shape, value) is not None
    return bool(shape(value))


# ---- content


def of_gate(decision: GateDecision, terms: GateTerms) -> JsonObject:
    """Return the receipt of a decision of the gate, before it is chained and signed."""
    change, told = decision.change, answer.as_record(decision)
    given = {name: getattr(terms, name) for name in ("checks", "tests", "allow", "require")}
    return clean(
        {
            **_made(GATE, change.git, {"base": change.base, "head": change.head}),
            **{name: told[name] for name in ("verdict", "shown", "why", "against", "files", "findings")},
            "uncommitted": change.uncommitted,
            "terms": {**given, "minutes": terms.timeout_seconds / 60},
            "checks": [*map(_of_check, decision.judged, told["checks"])],
            "sandbox": sandbox.told(terms.sandbox),
            "platform": platform.platform(),
            "tools": _tools(change.git),
        }
    )


def of_claim(view: ProjectView, claim: ClaimVerdict) -> JsonObject:
    """Return the receipt of a recorded verdict. What the record does not hold is absent."""
    commits = {side: name for side, name in (("base", claim.base), ("head", claim.commit or claim.candidate)) if name}
    told = {"verdict": claim.verdict, "shown": claim.grade, "why": claim.basis, "project": view.kind}
    logs = {each.log: str(Path(view.path, each.log)) for each in claim.steps if each.log}
    kept = {name: files.digest(path) for name, path in logs.items() if files.is_inside(view.path, path)}
    own = {"record": claim.as_record(), "logs": {name: found for name, found in kept.items() if found}}
    return clean(
        {**_made(RECORD, Git(view.path), commits), **{name: each for name, each in told.items() if each}, **own}
    )


def _made(source: str, git: Git, commits: Mapping[str, str]) -> JsonObject:
    found: JsonObject = {"kind": KIND, "version": VERSION, "source": source, "at": clock.timestamp(fraction=True)}
    for side, commit in commits.items() if git.is_repository else ():
        with suppress(HarnessError):  # a commit that is no longer there
            found[side] = {"commit": commit, "tree": git.tree_of(commit)}
    if "head" in found and git.text("rev-parse", "--is-shallow-repository") == "false":
        roots = git.text("rev-list", "--max-parents=0", commits["head"], "--")
        found["repository"] = {"roots": sorted(roots.split())}
    return found


def _tools(git: Git) -> JsonObject:
    package, program = Path(__file__).parents[1], shutil.which("git")
    sources = sorted((each.relative_to(package).as_posix(), each) for each in package.rglob("*.py"))
    listed = "".join(f"{files.digest(each)}  ./{name}\n" for name, each in sources)
    return {
        "harness": {"version": __version__, "sha256": sha256(listed.encode())},
        "python": {"version": platform.python_version(), "sha256": files.digest(sys.executable)},
        "git": {"version": git.text("version").split()[2], "sha256": program and files.digest(program)},
    }


def _of_check(judged: JudgedCheck, told: JsonObject) -> JsonObject:
    base, runs = judged.verdict.base, {each.step: each.run for each in judged.verdict.steps}
    runs = {"before": judged.before, **runs}
    own = {"state": judged.state, "shown": judged.shown.word, "why": judged.shown.basis}
    own |= {"runner": judged.tools, "flaky": judged.verdict.flaky, "tests": [*_tests(runs)]}
    ran = [
        {"step": name, "command": run.command, "on": "base" if run.commit == base else "head"}
        | {"exit": run.exit_code, "log_sha256": sha256(run.output.encode())}
        for name, run in runs.items()
        if run
    ]
    return {**told, **own, "runs": ran}


def _tests(runs: Mapping[str, Run | None]) -> Iterator[JsonObject]:
    """Yield the ids of the tests, grouped by their outcomes on the base and on the head."""
    base = {**_cases(runs.get("red")), **_cases(runs["before"])}  # of new tests: their run on the base's code
    head = report_of(chain(*(_cases(runs.get(name)).items() for name in ("suite", "cross-check", "proof")))).cases
    groups = defaultdict[tuple[str, str], list[str]](list)
    for node in sorted({*base, *head}):
        groups[base.get(node, ABSENT), head.get(node, ABSENT)].append(node)
    yield from ({"base": before, "head": after, "ids": ids} for (before, after), ids in sorted(groups.items()))


def _cases(run: Run | None) -> Mapping[str, str]:
    return run.report.cases if run and run.report else {}


def clean(value: Any) -> Any:
    """Return a value as a receipt holds it: secrets are masked, and names that are not UTF-8 are escaped."""
    if isinstance(value, Mapping):
        return {clean(str(name)): clean(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(each) for each in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redact(str(value).encode("utf-8", "backslashreplace").decode())


# ---- file and chain


def check_target(path: str | None, key: str | None) -> None:
    """Raise an error if a receipt cannot be written to ``path``, or the key cannot sign it."""
    if path is None and key is not None:
        raise UsageError("--sign needs --receipt", hint="harness gate --receipt FILE --sign KEY")
    if path is not None and (Path(path).suffix != ".json" or os.path.lexists(path) or not Path(path).parent.is_dir()):
        raise Refused(f"{path} is not a new file *.json in a folder that exists", hint="--receipt FOLDER/2.json")
    if key is not None:
        signature.made(b"", key)


def write(path: str, body: JsonObject, *, key: str | None = None) -> JsonObject:
    """Chain the receipt to those in its folder, sign it, and write it. Return its path and SHA-256."""
    known: dict[str, JsonObject] = {}
    for each in Path(path).parent.glob("*.json"):
        with suppress(HarnessError, OSError, ValueError):  # another file, or no longer a receipt
            content = b"" if each.is_symlink() else files.read_bytes(each)
            known[sha256(content)] = read(content)
    followed = {before for each in known.values() for before in each["previous"]}
    body = {**body, "previous": sorted(known.keys() - followed)}
    if key is not None:
        body["signature"] = signature.made(canonical(body), key)
    content = canonical({**body, "digest": sha256(canonical(body))}) + b"\n"
    if not files.create(path, content):
        raise Refused(f"{path} exists, and a receipt is never replaced", hint="--receipt FOLDER/2.json")
    return {"file": path, "sha256": sha256(content)}
