"""Entry point of ``lth``, the command for long tasks. One table lists its verbs. Each verb calls one API method and
prints the answer.

Every error is printed as plain lines on stderr with exit status 1. Stdout contains only the answer. Source:
``longtask.md`` 2."""

from __future__ import annotations

import os
import sys

from agent_harness.cli import leave
from agent_harness.cli.verbs import Argument, HelpAsked, Option, Program, Style, Subcommand, utf8_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.errors import HarnessError
    from agent_harness.protocols.longtask.api import LongTask


def _overridden(word: str) -> None:
    print(f"lth: warning: {word} takes one value and was given more than once. The last value is used", file=sys.stderr)


_STYLE = Style(
    leads=True,
    overridden=_overridden,
    flag_values={"true": True, "false": False},
    text=utf8_text,
    verb="Unknown command: {word}{meant}",
    option="{program} {verb} has no option {word}{meant}",
    missing="{program} {verb} needs {word} right after the command",
    empty="{program} {verb} needs {word}; it is empty",
    extra="Unexpected argument: {word}",
    value="option {word} needs a value",
    flag="option {word} is a flag: {word}, {word}=true or {word}=false",
    bad="the value of {word} {why}",
    meant="; did you mean {near}?",
    hint="",
    usage="{program} {verb} {places} [options]",
)

_TASK = Argument("folder", "TASK_DIR", str)
_JSON = Option("--json", None, "print JSON even at a terminal")
_WORKER = (
    Option("--worker", "NAME", "worker: codex-cli, kimi-cli, local-command, claude-code or another harness agent"),
    Option("--fallback-worker", "NAME", "worker to use while the first worker is rate limited"),
)
_RUN = (
    *_WORKER,
    Option("--command", "TEXT", "shell command that local-command runs"),
    Option("--cwd", "DIR", "working folder of the worker"),
    Option("--timeout-seconds", "N", "time limit of the worker in seconds (default: 1800)"),
    Option("--max-cost", "USD", "budget of the slice in US dollars (default: 10)"),
    Option("--lock-ttl-seconds", "N", "seconds after which a lease without renewal expires (default: 120)"),
    Option("--lock-owner", "TEXT", "name to record as the holder of the lease"),
    Option("--codex-session-path", "FILE", "path of the Codex session file"),
    Option("--forbidden-cwd-patterns", "A,B", "patterns of additional folders in which no worker may start", many=True),
    Option("--sandbox", "NAME", "Codex sandbox: read-only, workspace-write or danger-full-access"),
    Option("--model", "NAME", "model that Codex uses"),
    Option("--kimi-model", "NAME", "model that Kimi uses"),
    Option("--local-provider", "NAME", "local model provider of Codex: lmstudio or ollama"),
    Option("--oss", None, "let Codex use a local model"),
    Option("--no-wait", None, "if all agent slots are in use, return the decision `wait` at once"),
    Option("--dry-run", None, "show what would run, and write nothing"),
    _JSON,
)

_VERBS: dict[str, Subcommand] = {
    "init": Subcommand(
        "create a new task",
        _TASK,
        Option(
            "--template",
            "NAME",
            "coding (default) or video-analysis; ready examples: example-coding, example-video-analysis, resume-demo",
        ),
        Option("--objective", "TEXT", "goal of the task"),
        Option("--criterion", "TEXT", "success criterion that a person checks"),
        Option("--criterion-command", "TEXT", "command that checks the success criterion"),
        Option("--scheduler", "NAME", "scheduler: openclaw-cron or manual"),
        *_WORKER,
        Option("--cwd", "DIR", "path of the trusted working copy"),
        Option("--timeout-seconds", "N", "time limit of a worker in seconds"),
        Option("--every", "TEXT", "interval at which the scheduler starts the task (default: 30m)"),
        Option("--name", "TEXT", "name of the scheduler's job"),
        Option("--model", "NAME", "model that Codex uses"),
        Option("--scheduler-model", "NAME", "model that the scheduler's job uses"),
        Option("--scheduler-timeout-seconds", "N", "time limit of the scheduler's job in seconds (default: 300)"),
        Option("--sandbox", "NAME", "Codex sandbox: read-only, workspace-write or danger-full-access"),
        Option("--kimi-model", "NAME", "model that Kimi uses"),
        Option("--command", "TEXT", "shell command that local-command runs"),
        Option("--check", None, "also check the new task, as lth health does"),
        Option("--strict", None, "with --check: fail if a health check fails"),
        Option("--force", None, "replace an existing task, and keep copies of the old files"),
        _JSON,
        example='lth init demo --objective "The build is green" --criterion-command "make test"',
    ),
    "validate": Subcommand(
        "check task.json and the checkpoint of a task",
        _TASK,
        example="lth validate demo",
    ),
    "next": Subcommand(
        "show the next decision: run, wait, done or needs-human",
        _TASK,
        _JSON,
        example="lth next demo",
    ),
    "tick": Subcommand(
        "make the next decision, end an expired wait, and print the worker's prompt",
        _TASK,
        Option("--dry-run", None, "write nothing"),
        _JSON,
        example="lth tick demo --dry-run",
    ),
    "run": Subcommand(
        "run one slice (a bounded session) with one worker",
        _TASK,
        *_RUN,
        example='lth run demo --worker local-command --command "make build"',
    ),
    "resume": Subcommand(
        "show the state of the task, then run one slice (a bounded session)",
        _TASK,
        *_RUN,
        example="lth resume demo --worker command:my-agent",
    ),
    "record": Subcommand(
        "write progress into the checkpoint of a task",
        _TASK,
        Option("--status", "NAME", "new status (required): active, paused, blocked, done or needs-human"),
        Option("--note", "TEXT", "next step of the task"),
        Option("--reason", "NAME", "why the task is blocked: rate_limit, auth_error, test_failure, missing_context, …"),
        Option("--source", "NAME", "source of the report: codex-cli, kimi-cli, external-api, manual, …"),
        Option("--blocked-until", "TIME", "time after which the task may run again"),
        Option("--retry-after-seconds", "N", "seconds until the task may run again"),
        Option("--last-completed-step", "TEXT", "step that was completed last"),
        Option("--active-files", "A,B", "files on which work is in progress", many=True),
        Option("--open-questions", "A,B", "open questions about the task", many=True),
        Option("--requires-human", None, "mark that only a person can end this block"),
        Option(
            "--verify-timeout-seconds", "N", "for --status done: time limit of each check in seconds (default: 300)"
        ),
        example='lth record demo --status paused --note "Write the second part"',
    ),
    "evidence": Subcommand(
        "record evidence for a success criterion",
        _TASK,
        Option("--type", "NAME", "type (required): test, screenshot, video-clip, transcript, benchmark, …"),
        Option("--path", "FILE", "path of the evidence file, relative to the task"),
        Option("--criterion-id", "ID", "id of the criterion that the evidence supports"),
        Option("--criteria", "A,B", "ids of the criteria that the evidence supports", many=True),
        Option("--source", "NAME", "source of the evidence: codex-cli, external-api, manual, …"),
        Option("--command", "TEXT", "command that produced the evidence"),
        Option("--exit-code", "N", "exit code of the command"),
        Option("--status", "TEXT", "result that the evidence shows: passed, failed, …"),
        Option("--text", "TEXT", "text of the evidence"),
        Option("--output", "TEXT", "output of the command"),
        Option("--note", "TEXT", "remark about the evidence"),
        Option("--summary", "TEXT", "summary of the evidence"),
        Option("--observed-at", "TIME", "time of the observation (default: now)"),
        Option("--manifest-path", "FILE", "path of the evidence manifest in the task's folder"),
        _JSON,
        example="lth evidence demo --type test --criterion-id verified-outcome --path report.txt --status passed",
    ),
    "accept": Subcommand(
        "confirm the changes to task.json (only for people)",
        _TASK,
        example="lth accept demo",
    ),
    "verify": Subcommand(
        "check every success criterion",
        _TASK,
        Option("--verify-timeout-seconds", "N", "time limit of each check in seconds (default: 300)"),
        _JSON,
        example="lth verify demo",
    ),
    "rescue": Subcommand(
        "list, show or restore snapshots of the working copy from before a slice",
        _TASK,
        Option("--show", "ID", "show the changes that were made since this snapshot"),
        Option("--restore", "ID", "restore this snapshot, and keep the current state as another snapshot"),
        _JSON,
        example="lth rescue demo",
    ),
    "classify": Subcommand(
        "find the failure class of an error text",
        _TASK,
        Option("--text", "TEXT", "text to classify"),
        Option("--file", "FILE", "file that contains the text (- for stdin)"),
        Option("--source", "NAME", "source of the text: codex-cli, kimi-cli, external-api, manual, …"),
        Option("--exit-code", "N", "exit code of the program that failed"),
        Option("--codex-session-path", "FILE", "path of the Codex session file"),
        Option("--record", None, "also write the failure into the checkpoint"),
        _JSON,
        example='lth classify demo --text "429 Too Many Requests" --record',
    ),
    "health": Subcommand(
        "check the task, its worker programs and its repository",
        _TASK,
        Option("--strict", None, "exit with 1 if a check fails"),
        _JSON,
        example="lth health demo --strict",
    ),
    "status": Subcommand(
        "show the task's progress as text",
        _TASK,
        example="lth status demo",
    ),
    "ls": Subcommand(
        "list the long tasks below a folder (default: .)",
        Argument("folder", "[FOLDER]", str, required=False),
        Option("--json", None, "print JSON"),
        example="lth ls . --json",
    ),
    "summary": Subcommand(
        "summarize the checkpoint and the event log",
        _TASK,
        Option("--limit", "N", "number of events to show (default: 5)"),
        _JSON,
        example="lth summary demo --limit 3",
    ),
    "tail": Subcommand(
        "show the last events of the task",
        _TASK,
        Option("--limit", "N", "number of events to show (default: 20)"),
        Option("--type", "NAME", "show only events of this type"),
        _JSON,
        example="lth tail demo --type worker_completed",
    ),
    "schedule": Subcommand(
        "run slices (bounded sessions) on a schedule: cron, systemd or a Temporal server",
        _TASK,
        Option("--print", "NAME", "print the configuration for cron or systemd"),
        Option("--engine", "URL", "create the schedule on this server; `harness worker --lth` runs the slices"),
        Option("--list", None, "with --engine: list the schedules on the server"),
        Option("--pause", None, "with --engine: pause the schedule"),
        Option("--resume", None, "with --engine: resume the schedule"),
        Option("--delete", None, "with --engine: delete the schedule, but not the task"),
        Option("--every", "TEXT", "interval between slices (default: 10m)"),
        Option("--worker", "NAME", "worker to use (default: the preferred one in task.json)"),
        Option("--timeout-seconds", "N", "time limit of the worker in seconds (default: 1800)"),
        example="lth schedule demo --print cron --every 10m",
    ),
    "openclaw-recipe": Subcommand(
        "print the OpenClaw job that starts this task",
        _TASK,
        Option("--every", "TEXT", "interval of the job (default: 30m)"),
        Option("--name", "TEXT", "name of the job"),
        Option("--model", "NAME", "model that the job uses"),
        Option("--session-key", "TEXT", "session key of the job"),
        Option("--timeout-seconds", "N", "time limit of the job in seconds (default: 300)"),
        Option("--tools", "TEXT", "tools that the job may use"),
        *_WORKER,
        _JSON,
        example="lth openclaw-recipe demo --every 30m",
    ),
}

LTH = Program(
    "lth",
    "Run long tasks in slices. A slice is one bounded session with one worker.",
    _VERBS,
    _STYLE,
    aliases={"initiate": "init"},
    options=[("-v, --version", "Show the version and exit.")],
)


def main() -> int:
    """Run the command line in ``sys.argv`` and return its exit status. Never print a traceback."""
    try:
        code = _run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OSError as error:  # the reader has gone away, or its disk is full
        try:
            if not isinstance(error, BrokenPipeError):
                _complain(f"Cannot write the answer: {error.strerror}")
        except OSError:
            return 1
        finally:
            for stream in (1, 2):  # the rest of a buffer fails once more when Python ends, with another status
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        return _help(words[1:])
    if words[0] in ("--version", "-v"):
        from agent_harness import __version__

        return _show(f"lth {__version__}")
    return _call(words)


def _help(words: list[str]) -> int:
    from agent_harness.cli.verbs import usage

    command = LTH.aliases.get(words[0], words[0]) if words else ""
    return _show(usage(LTH, command if command in LTH.verbs else ""))


def _call(words: list[str]) -> int:
    from agent_harness.errors import HarnessError

    try:
        command = LTH.verb(words[0])
        options = LTH.parse(command, words[1:])
        from agent_harness.protocols.longtask.api import LongTask

        folder = str(options.pop("folder"))
        as_json = command == "ls" or options.pop("json", False)
        if command in ("run", "resume", "tick"):
            from agent_harness.views import begin_telling

            if said := begin_telling("longtask", os.path.abspath(folder)):
                print(said, file=sys.stderr)
        task = LongTask(folder)
        if command == "schedule" and options.get("engine"):
            return _show(_by_server(task, options))
        if command in ("run", "resume"):
            answer, code = _watched(task, command, options, folder)
        else:
            answer, code = task.answer(command, options)
        task.tell_warnings()
        if command == "status":
            answer = _with_what_was_missed(str(answer), os.path.abspath(folder))
    except HelpAsked as asked:
        return _help([asked.verb])
    except HarnessError as error:
        return _failed(error)
    except Exception as error:  # an internal fault is one line too
        return _fault(error)
    _show(answer if as_json else _for_a_person(command, answer, folder))
    return int(code)


def _for_a_person(command: str, answer: object, folder: str) -> object:
    from agent_harness.kernel.terminal import is_terminal

    if not isinstance(answer, dict) or not is_terminal():
        return answer
    from agent_harness.views import long_task_text

    return "\n".join(long_task_text.lines(command, answer, folder))


def _watched(task: LongTask, command: str, options: dict[str, Any], folder: str) -> tuple[object, int]:
    """Run a slice and show its progress on the terminal. Return the slice's answer and exit status."""
    from agent_harness.kernel import terminal

    if options.get("dry-run"):
        return task.answer(command, options)
    if sys.stderr is None or terminal.is_plain(sys.stderr):
        with task.telling(lambda line: _told(task, line)):
            return task.answer(command, options)
    import shlex

    from agent_harness.cli.terminal import footer_of, screen, summed_up

    # F-RUN-1, F-RUN-2, F-REC-6
    view, footer = screen(as_json=True), footer_of("longtask", task.layout.root)
    with view.watching(list, task.keep_said, footer), task.telling(view.say), summed_up(task, view.say) as summary:
        answer, code = task.answer(command, options)
        summary.following = f"lth status {shlex.quote(folder)}"
    return answer, code


def _told(task: LongTask, line: str) -> None:
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"{line}\n")
    except (OSError, ValueError):  # nobody reads it
        pass
    task.keep_said(line)


def _by_server(task: LongTask, words: dict[str, Any]) -> str:
    from agent_harness.engines.address import address_of
    from agent_harness.engines.temporal import require_extra
    from agent_harness.errors import UsageError

    address = address_of(str(words["engine"]))
    if address is None:
        raise UsageError("The engine 'local:' has no scheduler", hint="lth schedule DIR --print cron")
    require_extra()
    from agent_harness.engines.temporal import schedules

    options = schedules.ScheduleOptions(words)
    if not options.verbs:
        task.answer("schedule", {**words, "print": "systemd"})  # refuses what could never run
    return schedules.act(address, os.path.abspath(task.layout.root), options)


def _with_what_was_missed(answer: str, folder: str) -> str:
    from agent_harness.cli.status import missed

    found = missed("longtask", folder)
    if not any(found.values()):
        return answer
    from agent_harness.session.status_summary import not_delivered, not_exported

    rows, spans = found["undelivered"], found["unexported"]
    sent = f"{'not sent:':<11} {not_delivered(rows)}\n" if rows else ""
    return f"{answer.rstrip()}\n{sent}" + (f"{'not exported:':<11} {not_exported(spans)}\n" if spans else "")


def _show(answer: object) -> int:
    if answer is None or sys.stdout is None:
        return 0
    if isinstance(answer, str):
        text = answer if answer.endswith("\n") else f"{answer}\n"
    else:
        from agent_harness.kernel.json import jsontext

        text = jsontext.dumps(answer)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return 0


def _failed(error: HarnessError) -> int:
    from agent_harness.kernel.terminal import one_line

    problems: Any = getattr(error, "errors", None)
    if problems:
        return _complain(*(f"- {one_line(each)}" for each in problems))
    _complain(one_line(f"{error.message}; {error.hint}" if error.hint else error.message))
    report = error.data.get("report")
    if report:
        from agent_harness.kernel.json import jsontext

        _complain(jsontext.dumps(report).rstrip("\n"))
    return 1 if error.exit_code < 128 else error.exit_code


def _fault(error: Exception) -> int:
    from agent_harness.kernel import files
    from agent_harness.kernel.terminal import one_line

    if os.environ.get("HARNESS_DEBUG"):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, OSError) and (refused := files.disk_refusal(error)):
        return _failed(refused)
    named = getattr(error, "filename", None)
    if isinstance(error, OSError) and named:
        return _complain(one_line(f"{os.fsdecode(named)}: {error.strerror}"))
    return _complain(one_line(f"Unexpected error: {type(error).__name__}: {error}; HARNESS_DEBUG=1 shows where"))


def _complain(*lines: str) -> int:
    """Print lines on stderr. Return 1, the exit status of every error."""
    if sys.stderr is not None:
        sys.stderr.flush()
        sys.stderr.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        sys.stderr.flush()
    return 1


def process() -> int:
    return leave(main())


if __name__ == "__main__":
    sys.exit(process())
