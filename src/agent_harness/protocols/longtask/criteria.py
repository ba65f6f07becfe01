"""Is the task done? Each success criterion, checked against commands, outputs and evidence; nothing is written.

Source: ``longtask.md`` 13.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files
from agent_harness.protocols.longtask import evidence, objections, values
from agent_harness.protocols.longtask.run import forbidden
from agent_harness.protocols.longtask.store import LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.records import Checkpoint, Contract

    Record = dict[str, Any]

__all__ = ["DEFAULT_TIMEOUT_SECONDS", "check", "unmet", "unmet_without_commands", "verify"]

DEFAULT_TIMEOUT_SECONDS = 300
FAILING = ("fail", "failed", "error", "blocked")
"""What an evidence item's ``status`` says when it proves nothing."""

_TEXTS = ("text", "output", "note", "summary")
_OUTPUT_BEGINS = "worker: "
_STDOUT, _STDERR = "## stdout", "## stderr"


class _Verification:
    """What the checks look at."""

    __slots__ = ("items", "layout", "places", "stop", "task", "timeout_seconds")

    def __init__(
        self,
        layout: LongTaskLayout,
        task: Contract,
        items: list[Record],
        timeout_seconds: int,
        stop: Callable[[], bool] | None,
    ) -> None:
        self.layout = layout
        self.task = task
        self.items = items
        self.timeout_seconds = timeout_seconds
        self.stop = stop
        repository = task.repo_path
        named = [layout.root, *([forbidden.expanded(repository, layout.root)] if repository else [])]
        self.places = [os.path.realpath(each) for each in named if "\0" not in each]

    def file(self, path: str) -> str | None:
        """The text of a file of the task or of its repository; ``None`` when it is neither, or cannot be read."""
        try:
            real = os.path.realpath(forbidden.expanded(path, self.layout.root))
            if not any(os.path.commonpath([place, real]) == place for place in self.places):
                return None
            return files.read_bytes(real).decode("utf-8", "replace")
        except (OSError, ValueError, HarnessError):
            return None


def verify(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[Record, int]:
    """The report of ``lth verify`` and its exit code: 0 only when every criterion passes."""
    store = LongTaskStore(layout)
    timeout = values.positive(options, "verify-timeout-seconds") or DEFAULT_TIMEOUT_SECONDS
    try:
        task, checkpoint = store.load()
    except HarnessError:
        return {"status": "fail", "taskId": store.task_id(), "errors": store.errors(), "checks": []}, 1
    report = check(layout, task, checkpoint, timeout_seconds=timeout)
    return report, 0 if report["status"] == "pass" else 1


def check(
    layout: LongTaskLayout,
    task: Contract,
    checkpoint: Checkpoint,
    *,
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS,
    stop: Callable[[], bool] | None = None,
) -> Record:
    """The report on a task that loads. ``stop`` is asked often while a command runs, and ends it."""
    items, skipped = evidence.everything(layout, checkpoint.raw)
    verification = _Verification(layout, task, items, timeout_seconds, stop)
    checks = [_checked(verification, criterion) for criterion in task.criteria]
    passed = bool(checks) and all(each["status"] == "pass" for each in checks)
    return {
        "status": "pass" if passed else "fail",
        "taskId": task.id,
        "checkedAt": clock.timestamp(fraction=True),
        "checks": checks,
        **({"skippedLines": skipped} if skipped else {}),
    }


def unmet(report: Record) -> list[str]:
    """The ids of the criteria that a report fails."""
    return [str(each["id"]) for each in report["checks"] if each["status"] != "pass"]


def unmet_without_commands(layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint) -> list[str]:
    """The ids of the criteria that are not met, as far as that can be told without running anything.

    A criterion that only a command can decide counts as not met.
    """
    verification = _Verification(layout, task, evidence.everything(layout, checkpoint.raw)[0], 0, None)
    return [
        str(each.get("id"))
        for each in task.criteria
        if each["metric"] == "command" or _checked(verification, each)["status"] != "pass"
    ]


def _checked(verification: _Verification, criterion: Record) -> Record:
    metric = criterion["metric"]
    rule = _RULES.get(metric)
    found = rule(verification, criterion) if rule else _result("fail", f"unsupported metric: {metric}")
    message = found.pop("message")
    status = found.pop("status")
    return {"id": criterion.get("id"), "metric": metric, "status": status, **found, "message": message}


def _result(status: str, message: str, **members: object) -> Record:
    return {"status": status, "message": message, **members}


# ---- command


def _command(verification: _Verification, criterion: Record) -> Record:
    target = criterion["target"]
    target = {"command": target} if isinstance(target, str) else target
    command = target.get("command") if isinstance(target, dict) else None
    if not isinstance(command, str) or not command.strip():
        return _result("fail", "missing target: a command", **_ran(None, None))
    cwd = _folder(verification, target)
    if "\0" in cwd:
        return _result("fail", f"no folder has such a name: {cwd!r}", **_ran(command, cwd))
    pattern = forbidden.matched(cwd, forbidden.patterns(verification.task.raw, {}, None), verification.layout.root)
    if pattern:
        return _result("fail", f"refused to run in forbidden cwd {cwd} (matched {pattern})", **_ran(command, cwd))
    if not os.path.isdir(cwd):
        return _result("fail", f"the working directory is no directory: {cwd}", **_ran(command, cwd))
    if why := objections.against(verification.layout, str(criterion.get("id"))):
        return _result("fail", why, **_ran(command, cwd))
    return _run(verification, command, cwd, _seconds(target.get("timeoutSeconds"), verification.timeout_seconds))


def commands(layout: LongTaskLayout, task: Contract) -> list[tuple[str, str, str]]:
    """Id, command and folder of every criterion that a command decides and that could be run."""
    verification = _Verification(layout, task, [], 0, None)
    found = []
    for each in task.criteria:
        target = {"command": each["target"]} if isinstance(each["target"], str) else each["target"]
        command = target.get("command") if isinstance(target, dict) else None
        if each["metric"] == "command" and isinstance(command, str) and command.strip():
            folder = _folder(verification, target)
            if "\0" not in folder and os.path.isdir(folder):
                found.append((str(each.get("id")), command, folder))
    return found


def _ran(command: str | None, cwd: str | None) -> Record:
    return {"command": command, "cwd": cwd, "exitCode": None, "stdout": "", "stderr": ""}


def _folder(verification: _Verification, target: Record) -> str:
    own = target.get("cwd")
    named = own if isinstance(own, str) and own.strip() else verification.task.repo_path
    return forbidden.expanded(named or ".", verification.layout.root)


def _seconds(given: object, default: int) -> float:
    usable = isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < 1 << 31
    return float(given) if usable else default  # type: ignore[arg-type]  # it is a number then


def _run(verification: _Verification, command: str, cwd: str, seconds: float) -> Record:
    from agent_harness.kernel import process
    from agent_harness.kernel.process.environment import callers_environment
    from agent_harness.kernel.process.output import HeadTail, clipped
    from agent_harness.kernel.redact import redact

    out, err = HeadTail(65_536, 65_536), HeadTail(65_536, 65_536)
    try:
        done = process.run(
            command,
            cwd=cwd,
            env=callers_environment({"LTH_TASK_DIR": verification.layout.root}),
            timeout_seconds=seconds,
            keep_bytes=0,
            on_output=out.add,
            on_errors=err.add,
            stop=verification.stop,
        )
    except HarnessError as error:
        return _result("fail", error.message, **_ran(command, cwd))
    code = 124 if done.timed_out else None if done.exit_code is None else process.exit_status(done.exit_code)
    if done.timed_out:
        message = f"timed out after {seconds:g} s"
    elif done.stopped or code is None:
        message = "was interrupted"
    else:
        message = f"exited with status {code}"
    shown = {"stdout": clipped(redact(out.text())), "stderr": clipped(redact(err.text()))}
    return _result("pass" if code == 0 else "fail", message, command=command, cwd=cwd, exitCode=code, **shown)


# ---- output_contains


def _output_contains(verification: _Verification, criterion: Record) -> Record:
    target = criterion["target"]
    needles = _needles(target)
    if not needles:
        return _result("fail", "missing target: the text to look for", expected=[], missing=[], evidenceCount=0)
    path = target.get("path") if isinstance(target, dict) else None
    if isinstance(path, str) and path.strip():
        text = verification.file(path)
        texts, count = _counting(text), 1
        where = path if text is not None else f"{path}, which cannot be read inside the task or its repository"
    else:
        items = [each for each in verification.items if _proves(each)]
        texts, count, where = _texts_of(verification, items), len(items), f"{len(items)} evidence items"
    missing = [needle for needle in needles if not any(needle in text for text in texts)]
    message = f"not found in {where}: {', '.join(missing)}" if missing else f"found in {where}"
    found = {"expected": needles, "missing": missing, "evidenceCount": count}
    return _result("fail" if missing else "pass", message, **found)


def _needles(target: object) -> list[str]:
    if isinstance(target, dict):
        target = target.get("contains", target.get("text"))
    listed = target if isinstance(target, list) else [target]
    return [each for each in listed if isinstance(each, str) and each] if all(listed) else []


def _proves(item: Record) -> bool:
    """Whether an item may prove anything: what failed, and the output of a worker that failed, does not."""
    code = item.get("exitCode")
    failed = item.get("type") == "worker-output" and code is not None and code != 0
    return not failed and not _is_failing(item)


def _is_failing(item: Record) -> bool:
    status = item.get("status")
    return isinstance(status, str) and status.strip().lower() in FAILING


def _texts_of(verification: _Verification, items: Iterable[Record]) -> list[str]:
    items = list(items)
    found = [each[name] for each in items for name in _TEXTS if isinstance(each.get(name), str)]
    paths = dict.fromkeys(each["path"] for each in items if isinstance(each.get("path"), str) and each["path"].strip())
    for path in paths:
        found += _counting(verification.file(path))
    return found


def _counting(text: str | None) -> list[str]:
    """The parts of a file that count: of a worker's output what it printed, and nothing when it failed."""
    if text is None:
        return []
    head, marked, printed = text.partition(f"\n{_STDOUT}\n")
    if not text.startswith(_OUTPUT_BEGINS) or not marked:
        return [text]
    code = next((line[9:].strip() for line in head.splitlines() if line.startswith("exitCode:")), "0")
    return printed.split(f"\n{_STDERR}\n", 1) if code == "0" else []


# ---- manual


def _manual(verification: _Verification, criterion: Record) -> Record:
    name = criterion.get("id")
    latest = next((each for each in reversed(verification.items) if _is_about(each, name)), None)
    if latest is None:
        return _result("fail", "no evidence is linked to this criterion", evidence=None)
    shown = {
        "type": latest.get("type"),
        "path": latest.get("path"),
        "criterionId": latest.get("criterionId") or latest.get("criterion"),
    }
    if _is_failing(latest):
        return _result("fail", f"the latest evidence says {latest['status']}", evidence=shown)
    return _result("pass", "evidence is linked to this criterion", evidence=shown)


def _is_about(item: Record, name: object) -> bool:
    listed = item.get("criteria")
    named = listed if isinstance(listed, list) else []
    return name in (item.get("criterionId"), item.get("criterion"), item.get("id")) or name in named


_RULES: dict[str, Callable[[_Verification, Record], Record]] = {
    "command": _command,
    "output_contains": _output_contains,
    "manual": _manual,
}
