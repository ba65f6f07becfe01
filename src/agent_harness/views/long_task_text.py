"""Readable text for the results of ``lth`` commands on a terminal. Programs, and users of ``--json``, get JSON instead.

Each command has one function that turns its result into lines. Source: ``longtask.md`` 2.7."""

from __future__ import annotations

from agent_harness.kernel.terminal import one_line, printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_harness.kernel.json import JsonObject

    Row = tuple[str, object]
    Say = Callable[[JsonObject], Iterator[Row]]

__all__ = ["lines"]

_NEXT = {
    "run": "lth run {place}",
    "wait": "lth next {place}",
    "needs-human": "lth status {place}",
    "done": "lth summary {place}",
}


def lines(command: str, answer: JsonObject, place: str) -> list[str]:
    """Return the result of a command as lines of text. Most lines begin with a label."""
    rows = [*_SAYS.get(command, _plain)(answer)]
    following = _following(command, answer)
    shown = [f"{f'{name}:':<11} {one_line(str(text))}" if name else one_line(str(text)) for name, text in rows]
    copied = str(answer.get(_COPIED.get(command, "")) or "").rstrip().split("\n")
    whole = [*map(printable, copied), ""] if copied != [""] else []
    return [*whole, *shown, *([f"{'next:':<11} {following.format(place=quoted(place))}"] if following else [])]


_COPIED = {"tick": "workerPrompt", "openclaw-recipe": "command"}
"""Member of each command's answer that the user copies elsewhere. Its text is printed first, line by line."""


def _following(command: str, answer: JsonObject) -> str:
    decision = answer.get("decision")
    if command in ("run", "resume") and not answer.get("dryRun") and answer.get("worker"):
        return ""
    if isinstance(decision, str):
        return _NEXT.get(decision, "lth status {place}")
    if command == "verify":
        return "lth record {place} --status done" if answer["status"] == "pass" else "lth run {place}"
    if command == "rescue":
        return _after_rescue(answer)
    return _AFTER.get(command, "lth status {place}")


_AFTER = {"evidence": "lth verify {place}", "summary": "lth next {place}", "tail": "lth summary {place}"}


def _after_rescue(answer: JsonObject) -> str:
    if "restored" in answer:
        return f"lth rescue {{place}} --restore {answer['undo']}  # takes it back"
    if "id" in answer:
        return f"lth rescue {{place}} --restore {answer['id']}"
    return f"lth rescue {{place}} --show {answer['points'][0]['id']}" if answer["points"] else "lth status {place}"


def _some(answer: JsonObject, *names: tuple[str, str]) -> Iterator[Row]:
    yield from ((label, answer[name]) for label, name in names if answer.get(name) not in (None, "", [], {}))


def _decided(answer: JsonObject) -> Iterator[Row]:
    left = f", {answer['waitSeconds']} s left" if answer.get("waitSeconds") else ""
    yield "decision", f"{answer['decision']}: {answer['reason']}{left}"
    yield from _some(answer, ("status", "status"))


def _due(answer: JsonObject) -> Iterator[Row]:
    yield from _decided(answer)
    yield from _some(answer, ("until", "blockedUntil"), ("next step", "nextStep"))
    yield from _limits(answer)


def _limits(answer: JsonObject) -> Iterator[Row]:
    for each in answer.get("rateLimits") or ():
        yield "rate limit", f"{each['worker']} until {each['untilLocal']}; to continue now: {each['lift']}"


def _ran(answer: JsonObject) -> Iterator[Row]:
    yield from _decided(answer)
    if "exitCode" in answer:
        yield "worker", f"{answer['worker']} ended with {answer['exitCode']}"
    else:
        yield from _some(answer, ("worker", "worker"))
    yield from _some(answer, ("command", "command"), ("folder", "cwd"), ("output", "outputPath"), ("error", "error"))
    if answer.get("workerPrompt"):
        yield "prompt", f"{len(str(answer['workerPrompt']).splitlines())} lines; --json has them"
    if found := answer.get("classification"):
        yield "failure", f"{found['class']}: {found['summary']}"
    if report := answer.get("verification"):
        yield from _verified(report)
    yield from _limits(answer)


def _verified(report: JsonObject) -> Iterator[Row]:
    checks = report["checks"]
    good = sum(each["status"] == "pass" for each in checks)
    yield "criteria", f"{good} of {len(checks)} hold"
    yield from (("wrong", each) for each in report.get("errors", ()))
    for each in checks:
        word = f"; {each['grade']}: {each.get('basis')}" if each.get("grade") else ""
        yield each["status"], f"{each['id']}: {each['message']}{word}"


def _health(answer: JsonObject) -> Iterator[Row]:
    yield "health", f"{answer['status']} of {answer['taskId']}"
    yield from ((each["status"], f"{each['name']}: {each['message']}") for each in answer["checks"])


def _summed_up(answer: JsonObject) -> Iterator[Row]:
    phase = f" ({answer['currentPhase']})" if answer.get("currentPhase") else ""
    yield "task", answer["taskId"]
    yield "status", f"{answer['status']}{phase}"
    if answer.get("grade"):
        yield "proof", f"{answer['grade']}: {answer['basis']}"
    step = () if answer["status"] == "done" else (("next step", "nextStep"),)
    yield from _some(answer, ("until", "blockedUntil"), *step)
    yield "evidence", f"{answer['evidenceCount']} items"
    counted = ", ".join(f"{count} {name}" for name, count in answer["eventCounts"].items())
    yield "events", f"{answer['totalEvents']}{f': {counted}' if counted else ''}"
    usage = answer["usage"]
    if usage["knownRuns"]:
        cost = "cost unknown" if usage["costUsd"] is None else f"{usage['costUsd']:.2f} USD"
        yield "usage", f"{usage['totalTokens']} tokens, {cost}, in {usage['knownRuns']} runs"
    yield from _events(answer["latestEvents"])


def _events(events: list[JsonObject]) -> Iterator[Row]:
    for each in events:
        said = (each.get(name) for name in ("type", "worker", "status", "grade", "reason"))
        yield "", f"{each['at']} {' '.join(str(text) for text in said if text)}"


def _tail(answer: JsonObject) -> Iterator[Row]:
    yield "events", f"the last {answer['count']} of {answer['taskId']}"
    yield from _events(answer["events"])


def _recorded(answer: JsonObject) -> Iterator[Row]:
    item = answer["evidence"]
    named = [item.get("criterionId"), *item.get("criteria", ())]
    about = ", ".join(dict.fromkeys(str(each) for each in named if each))
    yield "recorded", f"{item['type']}{f' for {about}' if about else ''}"
    yield "manifest", answer["manifestPath"]


def _rescue(answer: JsonObject) -> Iterator[Row]:
    if "restored" in answer:
        yield "restored", f"{answer['restored']} in {answer['top']}"
        yield from (("commit", f"{each['commit'][:10]} {each['subject']}") for each in answer["commits"])
        yield from (("in place", path) for path in answer["leftInPlace"])
    elif "points" in answer:
        yield "points", len(answer["points"])
        yield from (("", f"{each['id']}  {each['why']}, {each['worker'] or 'nobody'}") for each in answer["points"])
    else:
        yield "point", f"{answer['id']}: {answer['why']}"
        yield from (("", f"{each['status']} {each['path']}") for each in answer["files"])
        yield from (("commit", f"{each['commit'][:10]} {each['subject']}") for each in answer["commits"])


def _classified(answer: JsonObject) -> Iterator[Row]:
    yield "class", f"{answer['class']} ({answer['source']}): {answer['summary']}"
    yield from _some(answer, ("status", "statusSuggestion"), ("until", "blockedUntil"), ("said", "toldUntil"))


def _recipe(answer: JsonObject) -> Iterator[Row]:
    schedule = answer["schedule"]
    yield "job", f"{schedule['name']}, every {schedule['every']}: the command above makes it"


def _made(answer: JsonObject) -> Iterator[Row]:
    yield "task", f"{answer['taskId']} at {answer['taskDir']}"
    yield from _some(answer, ("worker", "worker"), ("fallback", "fallbackWorker"), ("scheduler", "scheduler"))
    yield from _health(answer["health"])


def _plain(answer: JsonObject) -> Iterator[Row]:
    yield from ((name, value) for name, value in answer.items() if not isinstance(value, (dict, list)))


_SAYS: dict[str, Say] = {
    "next": _due,
    "tick": _due,
    "run": _ran,
    "resume": _ran,
    "verify": _verified,
    "health": _health,
    "summary": _summed_up,
    "tail": _tail,
    "evidence": _recorded,
    "rescue": _rescue,
    "classify": _classified,
    "openclaw-recipe": _recipe,
    "init": _made,
}
