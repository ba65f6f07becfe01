"""The answer of the gate, as a record and as lines of text."""

import re
import shlex
from collections.abc import Iterator

from agent_harness.gate.decision import ACCEPTED, ASKS, REJECTED, GateDecision, JudgedCheck
from agent_harness.kernel.json import JsonObject
from agent_harness.verification.guard import ALLOWED_BY, released_by
from agent_harness.verification.verdict import CRITICAL, Finding

_HUNK = re.compile(r"(?m)^@@ -\S+ \+(\d+)")
_HERE = (
    (f"; {ALLOWED_BY}", ""),
    ("A session must not change", "A change must not touch"),
    ("this task", "the change"),
    ("tests of verified features", "older tests"),
    ("The feature's tests", "The new tests"),
    ("before the feature was started", "before"),
    ("Feature test failed when harness ran it.", "The tests of the change fail."),
)
_MOST = 20
_SHOWN = 10  # lines of the output of a failed check


def as_record(decision: GateDecision) -> JsonObject:
    """Return the decision as the object that ``--json`` prints."""
    change = decision.change
    return {
        "ok": decision.state == ACCEPTED,
        "verdict": decision.state,
        "shown": decision.shown.word,
        "why": decision.shown.basis,
        "base": change.base,
        "head": change.head,
        "against": change.base_name,
        "files": [*change.paths],
        "checks": [_of_check(each) for each in decision.judged],
        "findings": [
            {
                **finding.as_record(),
                "message": _worded(finding),
                **_place(decision, finding),
                "look": _look(decision, finding),
            }
            for finding in decision.findings
        ],
        "next": next_step(decision),
    }


def _of_check(judged: JudgedCheck) -> JsonObject:
    before = judged.before.report if judged.before else None
    return {
        "command": judged.check.command,
        "found_in": judged.check.source,
        "passed_before": len(before.passing) if before else None,
        "failed_before": sorted(before.failing) if before else None,
        "steps": [
            {"step": each.step, "state": each.state, "seconds": each.seconds and round(each.seconds, 1)}
            for each in judged.verdict.steps
        ],
    }


def lines(decision: GateDecision) -> Iterator[str]:
    """Yield the answer as text, at most one screen for a change with few findings."""
    change = decision.change
    what = "the uncommitted files" if change.uncommitted else change.head[:10]
    yield f"{decision.state.upper()}: {decision.shown.word} ({decision.shown.basis})"
    yield f"  change   {what} after {change.base_name} ({change.base[:10]}): {_counted(len(change.paths), 'file')}"
    for each in decision.judged:
        before = each.before.report if each.before else None
        known = f": {len(before.passing)} passed before" if before else ""
        known += f", {len(before.failing)} failed before and do not count" if before and before.failing else ""
        yield f"  tests    {each.check.command} (found in {each.check.source}){known}"
        steps = [f"{s.step} {s.seconds:.1f} s" for s in each.verdict.steps if s.seconds is not None]
        yield f"  steps    {', '.join(steps) or 'none ran'}"
    for finding in decision.findings[:_MOST]:
        place = _place(decision, finding)
        at = ":".join(str(each) for each in (place.get("path"), place.get("line")) if each)
        yield f"{'!' if finding.severity == CRITICAL else '-'} {at + ': ' if at else ''}{_worded(finding)}"
        yield from (f"    {line}" for line in finding.lines[1:])
        if finding.severity == CRITICAL:
            yield f"    {_look(decision, finding)}"
    if decision.state == REJECTED and not any(each.severity == CRITICAL for each in decision.findings):
        last = decision.judged[-1]
        yield f"! the tests fail on the change: exit {last.verdict.exit_code}"
        yield from (f"    {line}" for line in last.verdict.output.rstrip().splitlines()[-_SHOWN:])
    if len(decision.findings) > _MOST:
        yield f"  and {len(decision.findings) - _MOST} more: harness gate --json"
    if decision.state != ACCEPTED:
        yield f"next: {next_step(decision)}"


def next_step(decision: GateDecision) -> str:
    """Return the command to type after the decision."""
    if decision.state != ASKS:
        return "" if decision.state == ACCEPTED else "fix the change, then: harness gate"
    paths = sorted({path for f in decision.findings if f.severity == CRITICAL for path in released_by(f)})
    if not paths:
        return (
            f"add a test that shows the change, or accept it as {decision.shown.word}: harness gate without --require"
        )
    allowed = " ".join(f"--allow {shlex.quote(each)}" for each in paths)
    return f"look at these files; to accept their changes: harness gate {allowed}"


def _worded(finding: Finding) -> str:
    """Return the message for a reader who knows neither sessions nor task lists."""
    text = finding.message
    for judged, here in _HERE:
        text = text.replace(judged, here)
    return text


def _place(decision: GateDecision, finding: Finding) -> JsonObject:
    path = finding.data.get("path")
    if not isinstance(path, str) or path.startswith("/"):
        return {}
    change = decision.change
    diff = change.git.text("diff", "-U0", "--no-ext-diff", change.base, change.head, "--", path, check=False)
    hunk = _HUNK.search(diff)
    return {"path": path, "line": int(hunk[1]) if hunk else None}


def _look(decision: GateDecision, finding: Finding) -> str:
    """Return a command that shows the finding without the harness."""
    change, path = decision.change, finding.data.get("path")
    if isinstance(path, str) and path.startswith("/"):
        return f"ls -l {shlex.quote(path)}"
    if isinstance(path, str):
        return f"git diff {change.base[:10]} {change.head[:10]} -- {shlex.quote(path)}"
    tests = finding.data.get("tests") or finding.data.get("failing")
    last = decision.judged[-1]
    proof = last.verdict.proof if finding.code.startswith("proof") else None
    command = proof.command if proof else last.check.command
    named = " ".join(shlex.quote(str(each)) for each in list(tests)[:3]) if isinstance(tests, (list, tuple)) else ""
    return f"git checkout {change.head[:10]} && {command} {named}".rstrip()


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
