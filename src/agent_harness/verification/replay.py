"""Calls that a proof has made of the work, made again where no test runner is: other answers give a lie away.

A call is compared only where it answers alike each time it is made from a test without fixtures, in a process of its
own: what depends on fixtures, mocks, files of a test, time or chance is left out. Then a plain Python makes it, in a
folder of a neutral name, without the runner and without our variables. Nothing that a call would write, start or send
takes place.
"""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from agent_harness.verification.check import parse
from agent_harness.verification.runner.environment import RunEnvironment
from agent_harness.verification.runner.execution import Stop, reach_of, run_command
from agent_harness.verification.runner.lending import import_folders
from agent_harness.verification.runner.testreport import PLUGIN_FOLDER, Calls, RecordedCall
from agent_harness.verification.workspace import Workspace

Answers = Sequence[str | None]
_PROGRAM = PLUGIN_FOLDER / "agent_harness_calls.py"
_BYTES = 4 * 1024 * 1024
_RUNNERS = ("PYTEST", "AGENT_HARNESS", "PY_COLORS", "COVERAGE_")


def shuffled(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """The calls in another order, each time the same one."""
    found = sorted(calls, key=lambda call: (call.module, call.name, call.arguments))
    random.Random(len(found)).shuffle(found)  # noqa: S311
    return found


def agrees(recorded: str, answer: str | None) -> bool:
    """Whether a call answers as it did in its test; of what was raised there, only that it was is known."""
    return answer is not None and (answer == recorded or (recorded == "raises" and answer.startswith("raises ")))


def plainly(
    space: Workspace,
    command: str,
    calls: Sequence[RecordedCall],
    *,
    environment: RunEnvironment,
    seen: Calls,
    named: Collection[str] = (),
    first: Sequence[str] = (),
    timeout_seconds: float,
    stop: Stop | None = None,
) -> Answers:
    """The answers of a plain Python; ``None`` for each where there is none to be had.

    ``named`` are variables that the tests may set for all that follows; ``first`` are modules, or files of the
    checkout, that are imported before.
    """
    parsed = parse(command)
    environment = environment.completed(parsed)
    found = environment.interpreters.get(parsed.head)
    nothing = [None] * len(calls)
    if found is None:
        return nothing
    place = Path(tempfile.mkdtemp(prefix="", dir=space.private))
    shutil.copyfile(_PROGRAM, place / "main.py")
    (place / "tmp").mkdir()
    paths = [*import_folders(environment.mapped(), space), *seen.paths]
    job = {
        "paths": list(dict.fromkeys(paths)),
        "first": [str(space.cwd / each) if each.endswith(".py") else each for each in first],
        "calls": [[call.module, call.name, call.arguments] for call in calls],
    }
    (place / "job.json").write_text(json.dumps(job), encoding="utf-8")
    run_command(
        [found.executable, str(place / "main.py")],
        cwd=space.cwd,
        variables=_variables(environment.variables, parsed.variables, seen, named) | {"PWD": str(space.cwd)},
        timeout_seconds=timeout_seconds,
        stop=stop,
        reach=reach_of(space, environment),
        own_temporary=False,
    )
    return _read(place / "answers.json", len(calls)) or nothing


def _variables(
    own: Mapping[str, str], of_command: Sequence[tuple[str, str]], seen: Calls, named: Collection[str]
) -> dict[str, str]:
    """The variables of a plain program: the person's own, the command's, and those that older tests set by name."""
    given = {**own, **dict(of_command), **{name: text for name, text in seen.variables.items() if name in named}}
    kept = {name: text for name, text in given.items() if not name.startswith(_RUNNERS)}
    kept.pop("PYTHONPATH", None)
    return kept


def _read(path: Path, count: int) -> list[str | None] | None:
    """Answers that a program of the work has written: as many texts as calls, or none at all."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            rows = json.loads(file.read(_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(rows, list) or len(rows) != count:
        return None
    return [row if isinstance(row, str) else None for row in rows]


def shown(call: RecordedCall, answer: str) -> str:
    """One difference in one line."""
    given, _, named = call.arguments.removeprefix("[[").removesuffix("}]").rpartition("], {")
    given = ", ".join(filter(None, (given, named)))
    was = "raises an error" if call.answer == "raises" else f"answers {call.answer}"
    now = answer if answer.startswith("raises ") else f"answers {answer}"
    return f"{call.module}.{call.name}({given[:200]}) {was[:200]} in its test, and {now[:200]} outside of it"
