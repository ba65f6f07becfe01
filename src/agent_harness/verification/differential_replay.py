"""Replay of the recorded calls outside tests, to detect code that behaves differently while it is tested.
First, each call is repeated in a test without fixtures. A call is compared only if each repetition gives the recorded
answer. This rule omits calls that depend on fixtures, mocks, test files, time or chance. The plain process has a
neutral folder and no harness variables. Its sandbox uses Landlock and no namespaces. The process must not start
programs or use the network."""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from agent_harness.verification.case import Case
from agent_harness.verification.check import parse
from agent_harness.verification.checkout import Checkout
from agent_harness.verification.runner.execution import FolderAccess, RunAsked, Stop, run_command
from agent_harness.verification.runner.testreport import PLUGIN_FOLDER, Calls, RecordedCall
from agent_harness.verification.verdict import Replayed

_CALLING = PLUGIN_FOLDER / "agent_harness_calls.py"
_PROGRAM = "main.py"  # what a plain program is called
_ANSWERS_BYTES = 4 * 1024 * 1024
_RUNNERS = ("PYTEST", "AGENT_HARNESS", "HARNESS_", "PY_COLORS", "COVERAGE_")  # variables that only tests have
_CONFIRMED = 2  # how often calls that answer otherwise outside are asked again
Answers = Callable[[Sequence[RecordedCall]], Sequence[str | None]]
PlainAnswers = Callable[[Sequence[RecordedCall], Sequence[str]], Sequence[str | None]]


def replay(case: Case) -> None:
    """Add a finding if a recorded call returns a different result outside the tests."""
    seen = case.runs["proof"].calls if "proof" in case.runs else ()
    at = max(range(len(seen)), key=lambda each: len(seen[each].recorded), default=0)
    command, runner = parse(case.proof or ""), case.runner
    if unkept := 0 if any(each.recorded for each in seen) else sum(each.unkept for each in seen):
        case.replayed = Replayed(unkept)
    if not seen or not seen[at].recorded or not (python := runner.python_of(command, seen[at].python)):
        return
    with (
        case.step("outside"),
        runner.place(case.candidate) as judged,
        runner.place(case.candidate, neutral=True) as plain,
    ):
        variables = plain_variables_for(
            runner.plain_variables(plain), command.variables, seen[at], case.guard.protection.variables
        )

        def from_a_test(calls: Sequence[RecordedCall]) -> Sequence[str | None]:
            terms = RunAsked(seconds=case.short_limit, again=calls)
            again = runner.start(judged, command.text, terms).calls
            return again[at].answers if len(again) == len(seen) else []

        def from_a_program(calls: Sequence[RecordedCall], first: Sequence[str]) -> Sequence[str | None]:
            return plainly(
                plain,
                python,
                calls,
                imports=[*runner.imports(plain), *seen[at].paths],
                variables=variables,
                access=runner.access(plain),
                first=first,
                timeout_seconds=case.short_limit,
                stop=case.stop,
            )

        case.replayed = found = difference(seen[at], from_a_test, from_a_program, case.guard.protection.conftests)
        case.check_stop()
        if found.told:
            case.find("answers_differ", found.told, calls=list(found.names))


def difference(seen: Calls, inside: Answers, plain: PlainAnswers, conftests: Collection[str]) -> Replayed:
    """Return the calls whose result differs outside the tests, and the number of compared calls."""
    asked = sorted(seen.recorded, key=lambda call: (call.module, call.name, call.arguments))
    # the same calls always get the same order
    random.Random(len(asked)).shuffle(asked)  # noqa: S311
    same = {call: call.answer for call in asked}
    compared: set[RecordedCall] = set()
    other = _otherwise(seen, inside, plain, same, compared)
    for _ in range(_CONFIRMED):
        other = _otherwise(seen, inside, plain, other, set()) if other else other
    # the user's conftests may prepare a call, so only a lasting difference counts
    if other and conftests:
        calls = list(other)
        ready = dict(zip(calls, plain(calls, sorted(conftests)), strict=True))
        loaded = dict(zip(calls, plain(calls, ["pytest"]), strict=True))
        other = {
            call: answer
            for call, answer in other.items()
            if not _agrees(call.answer, ready[call]) or _agrees(call.answer, loaded[call])
        }
    if not other:
        return Replayed(len(same), len(compared))
    call = min(other, key=lambda each: len(each.arguments))
    more = f" (and {len(other) - 1} other calls)" if len(other) > 1 else ""
    told = f"{_shown(call, other[call])}{more}. Code must give the same answer with and without tests."
    return Replayed(len(same), len(compared), told, tuple(sorted({each.name for each in other})))


def _otherwise(
    seen: Calls, inside: Answers, plain: PlainAnswers, calls: Mapping[RecordedCall, str], compared: set[RecordedCall]
) -> dict[RecordedCall, str]:
    """Return the results of calls that differ between a process without tests and a test."""
    asked = list(calls)
    found = dict(zip(asked, inside(asked), strict=False))
    steady = [call for call in asked if _agrees(call.answer, found.get(call))]
    answers = list(zip(steady, plain(steady, ()), strict=True))
    compared |= {call for call, answer in answers if answer is not None}
    return {
        call: answer
        for call, answer in answers
        if answer is not None and str(found[call]) not in (answer, answer.replace(_PROGRAM, seen.program))
    }


def _agrees(recorded: str, answer: str | None) -> bool:
    return answer is not None and (answer == recorded or (recorded == "raises" and answer.startswith("raises ")))


def plainly(
    checkout: Checkout,
    python: str,
    calls: Sequence[RecordedCall],
    *,
    imports: Iterable[str],
    variables: Mapping[str, str],
    access: FolderAccess,
    first: Sequence[str] = (),
    timeout_seconds: float,
    stop: Stop | None = None,
) -> Sequence[str | None]:
    """Repeat the calls in a Python process without a test runner, and return the results."""
    place = Path(tempfile.mkdtemp(prefix="", dir=checkout.private))
    shutil.copyfile(_CALLING, place / _PROGRAM)
    (place / "tmp").mkdir()
    job = {
        "paths": list(dict.fromkeys(imports)),
        "first": [str(checkout.cwd / each) if each.endswith(".py") else each for each in first],
        "calls": [[call.module, call.name, call.arguments] for call in calls],
    }
    (place / "job.json").write_text(json.dumps(job), encoding="utf-8")
    run_command(
        [python, str(place / _PROGRAM)],
        cwd=checkout.cwd,
        variables={**variables, "PWD": str(checkout.cwd)},
        timeout_seconds=timeout_seconds,
        stop=stop,
        access=access,
        plain=True,
    )
    return _answers_in(place / "answers.json", len(calls)) or [None] * len(calls)


def plain_variables_for(
    own: Mapping[str, str], of_command: Sequence[tuple[str, str]], seen: Calls, named: Collection[str]
) -> dict[str, str]:
    """Return the environment variables for a process that repeats calls outside the tests."""
    given = {**own, **dict(of_command), **{name: text for name, text in seen.variables.items() if name in named}}
    kept = {name: text for name, text in given.items() if not name.startswith(_RUNNERS)}
    kept.pop("PYTHONPATH", None)
    return kept


def _answers_in(path: Path, count: int) -> list[str | None] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            rows = json.loads(file.read(_ANSWERS_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    # the work can forge this file
    if not isinstance(rows, list) or len(rows) != count:
        return None
    return [row if isinstance(row, str) else None for row in rows]


def _shown(call: RecordedCall, answer: str) -> str:
    given, _, named = call.arguments.removeprefix("[[").removesuffix("}]").rpartition("], {")
    given = ", ".join(filter(None, (given, named)))
    was = "raises an error" if call.answer == "raises" else f"answers {call.answer}"
    now = answer if answer.startswith("raises ") else f"answers {answer}"
    return f"{call.module}.{call.name}({given[:200]}) {was[:200]} in its test, and {now[:200]} outside of it"
