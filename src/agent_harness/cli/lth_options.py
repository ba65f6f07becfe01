"""The commands of `lth`: their options as one table, and the parser that reads it. Source: ``longtask.md`` 2.

The parser is written by hand: `lth next` is called every few minutes and starts in milliseconds.
"""

from __future__ import annotations

from agent_harness.errors import UsageError

__all__ = ["ALIASES", "COMMANDS", "HelpAsked", "parse", "usage", "usage_of"]

_WORKER: dict[str, tuple[str | None, str]] = {
    "worker": ("NAME", "codex-cli, kimi-cli, local-command, claude-code or another agent of the harness"),
    "fallback-worker": ("NAME", "who takes over while the worker is rate-limited"),
}
_RUN: dict[str, tuple[str | None, str]] = {
    **_WORKER,
    "command": ("TEXT", "the shell command of local-command"),
    "cwd": ("DIR", "where the worker works"),
    "timeout-seconds": ("N", "how long the worker may take (1800)"),
    "max-cost": ("USD", "what the slice may cost (10)"),
    "lock-ttl-seconds": ("N", "how long the lease lasts without renewal (120)"),
    "lock-owner": ("TEXT", "who holds the lease"),
    "codex-session-path": ("FILE", "the session file of codex"),
    "forbidden-cwd-patterns": ("A,B", "more folders where no worker starts"),
    "sandbox": ("NAME", "read-only, workspace-write or danger-full-access, of codex"),
    "model": ("NAME", "the model of codex"),
    "kimi-model": ("NAME", "the model of kimi"),
    "local-provider": ("NAME", "lmstudio or ollama, of codex"),
    "oss": (None, "codex uses a local model"),
    "dry-run": (None, "say what would run, and write nothing"),
}

COMMANDS: dict[str, tuple[str, dict[str, tuple[str | None, str]]]] = {
    "init": (
        "make a new task",
        {
            "template": (
                "NAME",
                "coding (default) or video-analysis; example-coding, example-video-analysis, resume-demo",
            ),
            "scheduler": ("NAME", "openclaw-cron or manual"),
            **_WORKER,
            "cwd": ("DIR", "the trusted working copy"),
            "timeout-seconds": ("N", "how long a worker may take"),
            "every": ("TEXT", "how often the scheduler wakes the task (30m)"),
            "name": ("TEXT", "the name of the scheduler's job"),
            "model": ("NAME", "the model of codex"),
            "scheduler-model": ("NAME", "the model of the scheduler's job"),
            "scheduler-timeout-seconds": ("N", "how long the scheduler's job may take (300)"),
            "sandbox": ("NAME", "read-only, workspace-write or danger-full-access, of codex"),
            "kimi-model": ("NAME", "the model of kimi"),
            "command": ("TEXT", "the shell command of local-command"),
            "check": (None, "answer with the health of the new task"),
            "strict": (None, "with --check: fail when its health does"),
            "force": (None, "replace the task that is there; copies are kept"),
        },
    ),
    "validate": ("check the files of a task", {}),
    "next": ("say what is due: run, wait, done or needs-human", {}),
    "tick": ("decide, reopen a window that is over, and hand out the prompt", {"dry-run": (None, "write nothing")}),
    "run": ("run one bounded slice with one worker", _RUN),
    "resume": ("run, and say why", _RUN),
    "record": (
        "write progress into the checkpoint",
        {
            "status": ("NAME", "active, paused, blocked, done or needs-human; required"),
            "note": ("TEXT", "the next step"),
            "reason": ("NAME", "why it is blocked: rate_limit, auth_error, test_failure, missing_context, …"),
            "source": ("NAME", "what blocks it: codex-cli, kimi-cli, external-api, manual, …"),
            "blocked-until": ("TIME", "when it reopens"),
            "retry-after-seconds": ("N", "in how many seconds it reopens"),
            "last-completed-step": ("TEXT", "what was done last"),
            "active-files": ("A,B", "the files being worked on"),
            "open-questions": ("A,B", "what is not clear"),
            "requires-human": (None, "only a person can clear this"),
            "verify-timeout-seconds": ("N", "for --status done: how long each command may take (300)"),
        },
    ),
    "evidence": (
        "record a piece of evidence",
        {
            "type": ("NAME", "test, screenshot, video-clip, transcript, benchmark, review-note, …; required"),
            "path": ("FILE", "where it is, relative to the task"),
            "criterion-id": ("ID", "the criterion that it supports"),
            "criteria": ("A,B", "the criteria that it supports"),
            "source": ("NAME", "where it comes from: codex-cli, external-api, manual, …"),
            "command": ("TEXT", "the command that made it"),
            "exit-code": ("N", "how that command ended"),
            "status": ("TEXT", "passed, failed, …"),
            "text": ("TEXT", "its text"),
            "output": ("TEXT", "the output of the command"),
            "note": ("TEXT", "a remark"),
            "summary": ("TEXT", "what it shows"),
            "observed-at": ("TIME", "when it was observed (now)"),
            "manifest-path": ("FILE", "where its manifest goes, inside the task"),
        },
    ),
    "verify": ("check every success criterion", {"verify-timeout-seconds": ("N", "of each command (300)")}),
    "rescue": (
        "list the working copies as they were before each slice; show one, or go back to it",
        {
            "show": ("ID", "what differs from it now"),
            "restore": ("ID", "go back to it; what is there now is kept, too"),
        },
    ),
    "classify": (
        "name the failure that a text shows",
        {
            "text": ("TEXT", "the text"),
            "file": ("FILE", "the file with the text; - is stdin"),
            "source": ("NAME", "where it comes from"),
            "exit-code": ("N", "how the program ended"),
            "codex-session-path": ("FILE", "the session file of codex"),
            "record": (None, "write it into the checkpoint"),
        },
    ),
    "health": ("check the task and what it needs", {"strict": (None, "fail when a check fails")}),
    "status": ("show a person how it stands", {}),
    "ls": ("list the long tasks below a folder (.)", {"json": (None, "answer as JSON")}),
    "summary": ("sum up the checkpoint and the log", {"limit": ("N", "how many events (5)")}),
    "tail": ("show the last events", {"limit": ("N", "how many (20)"), "type": ("NAME", "only events of this type")}),
    "openclaw-recipe": (
        "print the OpenClaw job that wakes this task",
        {
            "every": ("TEXT", "how often (30m)"),
            "name": ("TEXT", "the name of the job"),
            "model": ("NAME", "the model of the job"),
            "session-key": ("TEXT", "the session of the job"),
            "timeout-seconds": ("N", "how long the job may take (300)"),
            "tools": ("TEXT", "what the job may use"),
            **_WORKER,
        },
    ),
}
"""Command: what it does, and its options with the name of their value (``None`` for a flag) and meaning."""

ALIASES = {"initiate": "init"}

_HERE = frozenset(("ls",))
"""Commands that take the current folder when none is named."""

_FLAG_VALUES = {"true": True, "false": False}


class HelpAsked(Exception):
    """The words ask for help with one command."""


def parse(command: str, words: list[str]) -> tuple[str, dict[str, object]]:
    """The task directory and the options that were given; flags are true or false, everything else is text.

    ``UsageError`` names what is wrong; ``HelpAsked`` for ``--help``.
    """
    table = COMMANDS[command][1]
    if command in _HERE and (not words or (words[0].startswith("--") and words[0] != "--help")):
        words = [".", *words]
    if not words or words[0].startswith("--"):
        _answer_help(words)
        raise UsageError(f"lth {command} needs TASK_DIR right after the command")
    _answer_help(words[:1])
    if not words[0]:
        raise UsageError(f"lth {command} needs TASK_DIR; it is empty")
    options: dict[str, object] = {}
    rest = words[:0:-1]
    while rest:
        word = rest.pop()
        _answer_help([word])
        name, value = _option(command, table, word, rest)
        if isinstance(value, str) and not _is_text(value):
            raise UsageError(f"the value of --{name} is not UTF-8")
        options[name] = value
    return words[0], options


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _answer_help(words: list[str]) -> None:
    if words[:1] and words[0] in ("--help", "-h"):
        raise HelpAsked


def _option(
    command: str, table: dict[str, tuple[str | None, str]], word: str, rest: list[str]
) -> tuple[str, str | bool]:
    if not word.startswith("--"):
        raise UsageError(f"Unexpected argument: {word}")
    name, equals, given = word[2:].partition("=")
    if name not in table:
        raise UsageError(f"lth {command} has no option --{name}{_nearest(name, table)}")
    if table[name][0] is None:
        return name, _flag(name, given) if equals else True
    if equals:
        return name, given
    if not rest or rest[-1] == "--help" or (rest[-1].startswith("--") and rest[-1][2:] in table):
        raise UsageError(f"option --{name} needs a value")
    return name, rest.pop()


def _flag(name: str, given: str) -> bool:
    if given not in _FLAG_VALUES:
        raise UsageError(f"option --{name} is a flag: --{name}, --{name}=true or --{name}=false")
    return _FLAG_VALUES[given]


def _nearest(name: str, known: dict[str, tuple[str | None, str]]) -> str:
    from difflib import get_close_matches

    squeezed = {each.replace("-", ""): each for each in known}
    found = get_close_matches(name.replace("-", ""), squeezed, 1, 0.5)
    return f"; did you mean --{squeezed[found[0]]}?" if found else ""


def nearest_command(word: str) -> str:
    """`; did you mean …?` for a word that is no command, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word, [*COMMANDS, *ALIASES], 1, 0.6)
    return f"; did you mean {found[0]}?" if found else ""


def usage() -> str:
    """What a person sees who asks for help."""
    width = max(map(len, COMMANDS)) + 2
    listed = "\n".join(f"  {name:<{width}}{what}" for name, (what, _) in COMMANDS.items())
    return f"""\
lth: long tasks, one bounded slice at a time

  lth COMMAND TASK_DIR [--option value | --option=value | --flag]...

{listed}

  lth COMMAND --help    the options of a command
  lth --version
"""


def usage_of(command: str) -> str:
    """What a person sees who asks for help with one command."""
    what, table = COMMANDS[command]
    rows = [(f"--{name}" + (f" {value}" if value else ""), meaning) for name, (value, meaning) in table.items()]
    width = max((len(row[0]) for row in rows), default=0) + 2
    listed = "".join(f"  {shown:<{width}}{meaning}\n" for shown, meaning in rows)
    tail = f"\n{listed}" if listed else ""
    place = "[FOLDER]" if command in _HERE else "TASK_DIR"
    return f"lth {command} {place}{' [options]' if rows else ''}\n\n  {what}\n{tail}"
