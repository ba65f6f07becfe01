"""Audit of receipts: whether they are as they were written, and whether the verdict comes out again."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_harness.errors import HarnessError, Interrupted, Refused, UsageError
from agent_harness.gate import change, decision, receipt, signature
from agent_harness.kernel import files
from agent_harness.kernel.digest import sha256
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.terminal import quoted
from agent_harness.verification.verdict import CRITICAL

OK, DIFFERS, OPEN, CANNOT = "ok", "differs", "not checked", "cannot be run"
_INTERPRETER = re.compile(r"^\S*python3? ")  # each machine has its own
_SHOWN = ("verdict", "shown", "why", "base", "head", "terms")
_MOST = 20


def audit(
    paths: Sequence[str],
    git: Git,
    *,
    signers: str | None = None,
    rerun: bool = False,
    checks: tuple[str, ...] = (),
    say: decision.Say,
) -> list[JsonObject]:
    """Return what is found for each file. ``checks`` are the commands that a person repeats."""
    if signers is not None and not Path(signers).is_file():
        raise Refused(f"{signers} is not a file of allowed signers", hint="see ALLOWED SIGNERS: man ssh-keygen")
    try:
        contents = {path: files.read_bytes(path) for path in paths}
    except (OSError, HarnessError) as error:
        raise Refused(f"a receipt cannot be read: {error}", hint="harness audit FILE") from None
    names = {sha256(content): path for path, content in contents.items()}
    audited: list[JsonObject] = []
    for path, content in contents.items():
        found: JsonObject = {}
        try:
            found = receipt.read(content)
        except ValueError as error:
            rows = [_row("form", DIFFERS, str(error))]
        else:
            rows = [_row("form", OK, f"no byte was changed, digest {found['digest']}")]
            rows += [_signed(found, signers), *_chained(found, names), *_commits(git, found)]
            if rerun and not {DIFFERS, CANNOT} & {row["result"] for row in rows}:
                rows += _again(git, found, checks, say)
        told: JsonObject = {name: found[name] for name in _SHOWN if name in found}
        told["commands"] = [f"{each['command']} (found in {each['found_in']})" for each in found.get("checks", ())]
        audited.append({"file": path, "sha256": sha256(content), **told, "audit": rows})
    return audited


def exit_code(audited: Sequence[JsonObject]) -> int:
    results = {row["result"] for each in audited for row in each["audit"]}
    return 1 if DIFFERS in results else 4 if CANNOT in results else 0


def lines(audited: Sequence[JsonObject]) -> Iterator[str]:
    for each in audited:
        yield ", ".join(f"{each[name]}" for name in ("file", "verdict", "shown", "why") if name in each)
        yield from (f"  {'tests':<14}{command}" for command in each["commands"])
        if allowed := each.get("terms", {}).get("allow"):
            yield f"  {'may change':<14}{', '.join(allowed)}"
        yield from (f"  {row['result']:<14}{row['part']}: {row['message']}" for row in each["audit"][:_MOST])
        if (left := len(each["audit"]) - _MOST) > 0:
            yield f"  and {left} more: harness audit --json"


def _row(part: str, result: str, message: str) -> dict[str, str]:
    return {"part": part, "result": result, "message": message}


def _signed(found: JsonObject, signers: str | None) -> dict[str, str]:
    if "signature" not in found:
        return _row("signature", DIFFERS if signers else OPEN, "the receipt is not signed")
    holds, said = signature.signer(receipt.canonical(found, *receipt.OUTSIDE), found["signature"], signers)
    return _row("signature", OK if holds else DIFFERS, said)


def _chained(found: JsonObject, names: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for before in found["previous"]:
        result = OK if before in names else OPEN if len(names) == 1 else DIFFERS
        missing = f"a receipt that was not given, whose file has the SHA-256 {before}"
        yield _row("chain", result, f"follows {names.get(before, missing)}")
    if not found["previous"]:
        yield _row("chain", OK, "the first of its chain")


def _commits(git: Git, found: JsonObject) -> list[dict[str, str]]:
    sides = {side: found[side] for side in ("base", "head") if side in found}
    wrong = list[str]()
    for side, named in sides.items():
        commit = named["commit"]
        if git.text("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", check=False) != commit:
            wrong.append(f"the {side} {commit} is not in this repository")
        elif (tree := git.tree_of(commit)) != named["tree"]:
            wrong.append(f"the {side} {commit} has the tree {tree}")
    if len(sides) == 2 and not wrong and not git.ancestor(*(each["commit"] for each in sides.values())):
        wrong.append("the base is not an ancestor of the head")
    told = f"{' and '.join(sides)} are here, with these trees" if sides else "the receipt names none"
    return [_row("commits", DIFFERS, each) for each in wrong] or [_row("commits", OK if sides else OPEN, told)]


# ---- once more


def _again(git: Git, found: JsonObject, checks: tuple[str, ...], say: decision.Say) -> list[dict[str, str]]:
    try:
        rows = [_row("rerun", DIFFERS, each) for each in differences(found, _decided(git, found, checks, say))]
    except Interrupted:
        raise
    except HarnessError as error:
        return [_row("rerun", CANNOT, f"{error.message}{f'; next: {error.hint}' if error.hint else ''}")]
    return rows or [_row("rerun", OK, "the verdict, its reasons and each test came out the same")]


def _decided(git: Git, found: JsonObject, checks: tuple[str, ...], say: decision.Say) -> JsonObject:
    if found["source"] != receipt.GATE:
        raise Refused("the receipt was exported from the records of a project, which lack terms of the gate")
    given, base, head = found["terms"], found["base"]["commit"], found["head"]["commit"]
    if receipt.clean(checks) != given["checks"]:
        # a receipt is not a reason to run a command: a person must have read the command
        hint = f"harness audit FILE --rerun{''.join(f' --check {quoted(each)}' for each in given['checks'])}"
        raise UsageError("a person named the commands: read them, and repeat exactly these with --check", hint=hint)
    say(f"Judging {head[:10]} after {base[:10]} again; files that may change: {', '.join(given['allow']) or 'none'}")
    terms = decision.GateTerms(
        checks=checks,
        tests=tuple(given["tests"]),
        allow=tuple(given["allow"]),
        require=given["require"],
        timeout_seconds=given["minutes"] * 60,
    )
    judged = change.between(git, base=base, head=head, worktree=False)
    return receipt.of_gate(decision.decide(judged, terms, say=say), terms)


def differences(there: JsonObject, here: JsonObject) -> Iterator[str]:
    """Yield what differs between two receipts of the gate on the same change."""
    told = [dict(_told(each)) for each in (there, here)]
    for name in sorted(told[0].keys() | told[1].keys()):
        was, now = (each.get(name, receipt.ABSENT) for each in told)
        if was != now:
            yield f"{name}: {now}, and in the receipt {was}"


def _told(found: JsonObject) -> Iterator[tuple[str, str]]:
    yield from ((name, found[name]) for name in ("verdict", "shown"))
    for each in found["findings"]:
        if each["severity"] == CRITICAL:
            yield f"reason {each['code']} {each.get('path', '')}".rstrip(), "given"
    for number, check in enumerate(found["checks"], 1):
        yield f"command {number}", _INTERPRETER.sub("python ", check["command"])
        for group in check["tests"]:
            for node in set(group["ids"]) - set(check["flaky"]):
                yield from ((f"{node} on the {side}", group[side]) for side in ("base", "head"))
