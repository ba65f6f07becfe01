"""Checks of success criteria against commands, outputs and evidence. The checks write nothing.

A command is not run if an agent has weakened a file on which the command depends. ``criteria_guard`` records each
weakened file in ``sessions/guard.json``. Every verification reads this record. Source: ``longtask.md`` 13."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import number_below
from agent_harness.protocols.longtask import evidence
from agent_harness.protocols.longtask.records import EvidenceItem, RecordView
from agent_harness.protocols.longtask.run import forbidden
from agent_harness.protocols.longtask.store import LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import RecordOptions, VerifyOptions
    from agent_harness.protocols.longtask.records import Checkpoint, Contract, Criterion
    from agent_harness.verification.command import Differences


_ALLOWED_BY = "if the task should change it, list it in workerPolicy.mayChange"
DEFAULT_TIMEOUT_SECONDS = 300
DECIDED = ("command", "output_contains")  # metrics that need no person
_TEXTS = ("text", "output", "note", "summary")
_OUTPUT_BEGINS = "worker: "
_STDOUT, _STDERR = "## stdout", "## stderr"


class _Verification:
    def __init__(
        self,
        layout: LongTaskLayout,
        task: Contract,
        items: list[EvidenceItem],
        timeout_seconds: int,
        stop: Callable[[], bool] | None,
    ) -> None:
        self.installed: Differences | None = None  # changes of installed software where commands run
        self.layout = layout
        self.task = task
        self.items = items
        self.timeout_seconds = timeout_seconds
        self.stop = stop
        repository = task.repo_path
        named = [layout.root, *([forbidden.expanded(repository, layout.root)] if repository else [])]
        self.places = [os.path.realpath(each) for each in named if "\0" not in each]

    @property
    def objection(self) -> str | None:
        """Message about an agent's change to installed software, or None."""
        changed = self.installed.findings if self.installed and self.installed.steering else []
        return f"{changed[0].message.rstrip('.')}; {_ALLOWED_BY}" if changed else None

    def file(self, path: str) -> str | None:
        """Return the file's text, or None if the file is unreadable or in a forbidden place."""
        try:
            real = os.path.realpath(forbidden.expanded(path, self.layout.root))
            if not any(os.path.commonpath([place, real]) == place for place in self.places):
                return None
            return files.read_bytes(real).decode("utf-8", "replace")
        except (OSError, ValueError, HarnessError):
            return None


def verify(layout: LongTaskLayout, options: VerifyOptions | RecordOptions) -> tuple[JsonObject, int]:
    """Return the report of ``lth verify`` and the exit code, which is 0 only if every criterion passes."""
    store = LongTaskStore(layout)
    try:
        task, checkpoint = store.load()
    except HarnessError:
        return {"status": "fail", "taskId": store.task_id(), "errors": store.errors(), "checks": []}, 1
    seconds = options.verify_timeout_seconds or DEFAULT_TIMEOUT_SECONDS
    report = check(layout, task, checkpoint, timeout_seconds=seconds)
    return report, 0 if report["status"] == "pass" else 1


def check(
    layout: LongTaskLayout,
    task: Contract,
    checkpoint: Checkpoint,
    *,
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS,
    stop: Callable[[], bool] | None = None,
) -> JsonObject:
    """Check all criteria and return the report."""
    items, skipped = evidence.everything(layout, checkpoint)
    verification = _Verification(layout, task, items, timeout_seconds, stop)
    verification.installed = installed_since(layout, task)
    checks = [_checked(verification, criterion) for criterion in task.criteria]
    passed = bool(checks) and all(each["status"] == "pass" for each in checks)
    return {
        "status": "pass" if passed else "fail",
        "taskId": task.id,
        "checkedAt": clock.timestamp(fraction=True),
        "checks": checks,
        **({"skippedLines": skipped} if skipped else {}),
    }


def unmet(report: JsonObject, *, besides: str | None = None) -> list[str]:
    """Return the ids of failed criteria. Leave out criteria that have the metric ``besides``."""
    return [str(each["id"]) for each in report["checks"] if each["status"] != "pass" and each["metric"] != besides]


def asks_if_done(report: JsonObject | None) -> list[str]:
    """Return the ids of failed criteria if all their commands had passed before the work."""
    missing = [each for each in report["checks"] if each["status"] != "pass"] if report else []
    asks = all(each.get("grade") == "unchanged" for each in missing)
    return [str(each["id"]) for each in missing] if asks else []


def unmet_without_commands(layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint) -> list[str]:
    """Return the ids of unmet criteria. Run no command, and count each command criterion as unmet."""
    verification = _Verification(layout, task, evidence.everything(layout, checkpoint)[0], 0, None)
    return [
        each.id
        for each in task.criteria
        if each.metric == "command" or _checked(verification, each)["status"] != "pass"
    ]


def _checked(verification: _Verification, criterion: Criterion) -> JsonObject:
    metric = criterion.metric
    rule = _RULES.get(metric)
    found = rule(verification, criterion) if rule else _result("fail", f"unsupported metric: {metric}")
    message = found.pop("message")
    status = found.pop("status")
    return {"id": criterion.id, "metric": metric, "status": status, **found, "message": message}


def _result(status: str, message: str, **members: object) -> JsonObject:
    return {"status": status, "message": message, **members}


# ---- command


def _command(verification: _Verification, criterion: Criterion) -> JsonObject:
    target = criterion.command
    command = target.text("command")
    if command is None:
        return _result("fail", "missing target: a command", **_ran(None, None))
    cwd = _folder(verification, target)
    if "\0" in cwd:
        return _result("fail", f"not a valid folder name: {cwd!r}", **_ran(command, cwd))
    pattern = forbidden.matched(cwd, forbidden.patterns(verification.task, RecordView({})), verification.layout.root)
    if pattern:
        return _result("fail", f"refused to run in forbidden cwd {cwd} (matched {pattern})", **_ran(command, cwd))
    if not os.path.isdir(cwd):
        return _result("fail", f"the working directory is not a directory: {cwd}", **_ran(command, cwd))
    bent = (each.raw["message"] for each in standing(verification.layout) if each.criterion == criterion.id)
    if said := next(bent, verification.objection):
        return _result("fail", said, **_ran(command, cwd))
    seconds = number_below(target.raw.get("timeoutSeconds"), 1 << 31) or verification.timeout_seconds
    return _run(verification, command, cwd, seconds)


def installed_since(layout: LongTaskLayout, task: Contract) -> Differences | None:
    """Return the agents' changes to installed software, or None if nothing was recorded earlier."""
    path, places = layout.outside("installed.json"), [each[1:] for each in commands(layout, task)]
    if not (path and places and os.path.isfile(path)):
        return None
    from pathlib import Path

    from agent_harness.verification.command import InstalledRecord, released, starts_python

    return InstalledRecord(path).changes(
        project=Path(places[0][1]),
        frees=released(task.policy.may_change),
        programs_only=not any(starts_python(*each) for each in places),
    )


def commands(layout: LongTaskLayout, task: Contract) -> list[tuple[str, str, str]]:
    """Return the id, command and folder of each command criterion whose folder exists."""
    verification = _Verification(layout, task, [], 0, None)
    found = []
    for each in task.criteria:
        if each.metric == "command" and (command := each.command.text("command")):
            folder = _folder(verification, each.command)
            if "\0" not in folder and os.path.isdir(folder):
                found.append((each.id, command, folder))
    return found


def _ran(command: str | None, cwd: str | None) -> JsonObject:
    return {"command": command, "cwd": cwd, "exitCode": None, "stdout": "", "stderr": ""}


def _folder(verification: _Verification, target: RecordView) -> str:
    named = target.text("cwd") or verification.task.repo_path
    return forbidden.expanded(named or ".", verification.layout.root)


def _run(verification: _Verification, command: str, cwd: str, seconds: float) -> JsonObject:
    from agent_harness.kernel import process
    from agent_harness.kernel.process.launch_spec import callers_environment
    from agent_harness.kernel.process.output import HeadTail, clipped
    from agent_harness.kernel.process.sandbox import of_agent, settings_from
    from agent_harness.kernel.redact import redact
    from agent_harness.kernel.temporary import TemporaryFolder
    from agent_harness.verification.runner.check_home import variables_of_check

    out, err = HeadTail(65_536, 65_536), HeadTail(65_536, 65_536)
    wished = settings_from(verification.task.policy.raw.get("sandbox"))
    try:
        # compiled code beside a source may belong to another version of it
        with TemporaryFolder() as compiled:
            variables = {"LTH_TASK_DIR": verification.layout.root, "PYTHONPYCACHEPREFIX": compiled.path}
            if verification.installed and verification.installed.plugins:
                variables["PYTEST_ADDOPTS"] = verification.installed.blocking
            done = process.run(
                command,
                cwd=cwd,
                env=variables_of_check(callers_environment(variables), compiled.path, wished),
                timeout_seconds=seconds,
                keep_bytes=0,
                on_output=out.add,
                on_errors=err.add,
                stop=verification.stop,
                sandbox=of_agent([cwd, verification.layout.root], settings=wished),
            )
    except HarnessError as error:
        return _result("fail", error.message, **_ran(command, cwd))
    code = 124 if done.timed_out else None if done.exit_code is None else process.exit_status(done.exit_code)
    if done.timed_out:
        message = f"timed out after {seconds:g} s"
    elif done.over_limit:
        message = f"{done.over_limit}, and was stopped; its result does not count"
    elif done.stopped or code is None:
        message = "was interrupted"
    else:
        message = f"exited with status {code}"
    shown = {"stdout": clipped(redact(out.text())), "stderr": clipped(redact(err.text()))}
    return _result("pass" if code == 0 else "fail", message, command=command, cwd=cwd, exitCode=code, **shown)


# ---- output_contains


def _output_contains(verification: _Verification, criterion: Criterion) -> JsonObject:
    target = criterion.target
    needles = _needles(target)
    if not needles:
        return _result("fail", "missing target: the text to look for", expected=[], missing=[], evidenceCount=0)
    path = target.get("path") if isinstance(target, dict) else None
    if isinstance(path, str) and path.strip():
        text = verification.file(path)
        texts, count = _counting(text), 1
        where = path if text is not None else f"{path}, which cannot be read inside the task or its repository"
    else:
        items = [each for each in verification.items if each.proves]
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


def _texts_of(verification: _Verification, items: list[EvidenceItem]) -> list[str]:
    found = [text for each in items for name in _TEXTS if isinstance(text := each.raw.get(name), str)]
    for path in dict.fromkeys(path for each in items if (path := each.text("path"))):
        found += _counting(verification.file(path))
    return found


def _counting(text: str | None) -> list[str]:
    if text is None:
        return []
    head, marked, printed = text.partition(f"\n{_STDOUT}\n")
    if not text.startswith(_OUTPUT_BEGINS) or not marked:
        return [text]
    code = next((line[9:].strip() for line in head.splitlines() if line.startswith("exitCode:")), "0")
    # the output of a failed agent proves nothing
    return printed.split(f"\n{_STDERR}\n", 1) if code == "0" else []


# ---- manual


_WORD = "lth evidence DIR --type review-note --criterion-id ID --status passed --summary TEXT"


def _manual(verification: _Verification, criterion: Criterion) -> JsonObject:
    about = [each for each in reversed(verification.items) if each.is_about(criterion.id)]
    if not about:
        return _result("fail", "no evidence is linked to this criterion", evidence=None)
    known = evidence.believed(verification.layout)
    said = next((each for each in about if each.says_failed or evidence.is_word_of(known, each)), None)
    latest = said or about[0]
    shown = {"type": latest.raw.get("type"), "path": latest.raw.get("path"), "criterionId": latest.criterion}
    if said is None:
        return _result("fail", f"only a worker recorded evidence, and a person must decide: {_WORD}", evidence=shown)
    if latest.says_failed:
        return _result("fail", f"the latest evidence says {latest.raw['status']}", evidence=shown)
    return _result("pass", "evidence is linked to this criterion", evidence=shown)


_RULES: dict[str, Callable[[_Verification, Criterion], JsonObject]] = {
    "command": _command,
    "output_contains": _output_contains,
    "manual": _manual,
}


FILE = "sessions/guard.json"


class Objection(RecordView):
    """Statement that an agent has weakened a file on which a criterion depends."""

    @property
    def criterion(self) -> str:
        return str(self.raw["criterion"])

    @property
    def path(self) -> str:
        return str(self.raw["path"])

    @property
    def stands(self) -> bool:
        """True while the file still has the weakened content."""
        return digest_of(self.path) == self.raw["after"]


def standing(layout: LongTaskLayout) -> list[Objection]:
    return [each for each in written(layout) if each.stands]


def written(layout: LongTaskLayout) -> list[Objection]:
    """Return all recorded objections."""
    if not os.path.lexists(os.path.join(layout.root, FILE)):
        return []
    try:
        found = RecordView(files.read_json(layout.inside(FILE), exact=False)).items("objections")
    except (HarnessError, OSError):
        return []
    members = ("criterion", "path", "before", "after", "message")
    return [
        Objection(each)
        for each in found
        if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in members)
    ]


def digest_of(path: str) -> str:
    from agent_harness.kernel import digest

    try:
        return digest.sha256(files.read_bytes(path))
    except (HarnessError, OSError, ValueError):
        return ""
