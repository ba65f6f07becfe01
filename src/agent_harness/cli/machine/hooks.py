"""``harness hooks install|uninstall|print``, used by people, and ``harness hook EVENT``, called by agent clients."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from agent_harness.cli.terminal import json_option, show, show_answer
from agent_harness.errors import HarnessError, UsageError
from agent_harness.kernel.json import JsonObject

CLIENTS = click.Choice(["claude-code", "codex"])
client_option = click.option("--client", type=CLIENTS, help="Agent client to which the command applies.")
git_option = click.option(
    "--git", "wants_git", is_flag=True, help="Apply to the pre-push hook of this git repository, not to a client."
)
scope_option = click.option(
    "--user/--project", "user", default=True, help="Apply to all your projects (the default), or only to this project."
)


@click.group(
    epilog="""\b
Examples:
  harness hooks install --client claude-code             for all of your projects
  harness hooks install --client codex --project         for this project only
  harness hooks uninstall --client codex
  harness hooks install --git                            judge each push of this repository""",
)
def hooks() -> None:
    """Register the hooks with Claude Code or Codex, so that an agent session continues until all tasks of its list are
    completed. With --git, judge the branches of each `git push`.

    If no task list is active, the hooks do nothing. The Claude Code plugin contains the same hooks, so use either the
    plugin or this command.
    """


@hooks.command(
    short_help="Write the hooks into the client's settings.",
    epilog="Example:  harness hooks install --client claude-code",
)
@client_option
@git_option
@scope_option
@click.option("--trust", is_flag=True, help="Codex: also mark the hooks as trusted, without asking.")
@json_option
def install(client: str | None, wants_git: bool, user: bool, trust: bool, as_json: bool) -> int:
    """Write the hooks into the client's settings and keep all other entries. Codex runs the hooks only after you trust
    them. With --git, write the hook that runs `harness gate` before a push.
    """
    from agent_harness.hooks import install as installing

    if not (client := _chosen(client, wants_git, "install")):
        return _of_git("install", as_json=as_json)
    answer = installing.install(client, _scope(user), _project(), os.environ)
    if client == "codex":
        answer["trusted"], answer["note"] = _trust(answer["file"], trust, as_json)
    trusting = f"harness hooks install --client codex{'' if user else ' --project'} --trust"
    answer["next"] = "harness doctor" if answer.get("trusted", True) else trusting
    show_answer(answer, [*_installed_lines(answer), f"next: {answer['next']}"], as_json=as_json)
    return 0


@hooks.command(
    short_help="Remove the hooks from the client's settings.", epilog="Example:  harness hooks uninstall --client codex"
)
@client_option
@git_option
@scope_option
@json_option
def uninstall(client: str | None, wants_git: bool, user: bool, as_json: bool) -> int:
    """Remove the harness's hooks from the client's settings and keep all other entries."""
    from agent_harness.hooks import install as installing

    if not (client := _chosen(client, wants_git, "uninstall")):
        return _of_git("uninstall", as_json=as_json)
    answer = installing.uninstall(client, _scope(user), _project(), os.environ)
    lines = [f"{'removed from' if answer['changed'] else 'no harness hooks found in'} {answer['file']}"]
    if answer["trust_forgotten"]:
        lines.append(f"removed from Codex's config.toml: its trust in {len(answer['trust_forgotten'])} harness hooks")
    if answer["trust_left"]:
        lines.append(f"Codex keeps its trust in the harness hooks: {answer['trust_left']}")
    if answer["kept"]:
        lines.append(f"the file has changed since; a copy from before the first installation: {answer['kept']}")
    if client == "codex" and answer["others_moved"]:
        answer["note"] = "Other hooks in that file have moved, so Codex asks you to trust them again (/hooks)."
        lines.append(answer["note"])
    answer["next"] = f"harness hooks install --client {client}{'' if user else ' --project'}"
    show_answer(answer, [*lines, f"to install them again: {answer['next']}"], as_json=as_json)
    return 0


@hooks.command(
    "print", short_help="Show what `install` would add.", epilog="Example:  harness hooks print --client claude-code"
)
@client_option
@git_option
@json_option
def print_(client: str | None, wants_git: bool, as_json: bool) -> int:
    """Show the settings that `install` would add, so that you can add them manually."""
    from agent_harness.hooks import install as installing

    if not (client := _chosen(client, wants_git, "print")):
        return _of_git("print", as_json=as_json)
    text = installing.snippet(client)
    following = f"harness hooks install --client {client}"
    found = {"client": client, "settings": json.loads(text), "next": following}
    show_answer(found, [text.rstrip("\n")], as_json=as_json)
    return 0


@click.command(epilog="Example:  harness hook stop < payload.json")
@click.argument("event")
def hook(event: str) -> int:
    """Answer one hook event: stop, session-start, subagent-stop or teammate-idle. The JSON payload is read from stdin.

    The hook scripts call this command. Exit code: 0, or 2 to let a teammate continue its work. With pre-push, judge the
    branches that git names on stdin; the exit code is that of `harness gate`.
    """
    if event == "pre-push":
        return _judge_push()
    from agent_harness.hooks import dispatch

    name = dispatch.named(event)
    if name is not None:
        return dispatch.call(name)
    message = f"Unknown event {event!r}; known are {', '.join(dispatch.EVENTS)}"
    if sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(message, hint="harness hook stop < payload.json")
    show(message, err=True)
    return 0  # a client acts on any other exit code


def _chosen(client: str | None, wants_git: bool, command: str) -> str:
    """Return the client, or "" for the hook of git."""
    if wants_git == bool(client):
        raise UsageError("Give one of --client and --git", hint=f"harness hooks {command} --client claude-code")
    return client or ""


def _of_git(command: str, *, as_json: bool) -> int:
    from agent_harness.gate import pre_push

    answer = pre_push.COMMANDS[command](Path.cwd())
    show_answer(answer, answer.pop("lines"), as_json=as_json)
    return 0


def _judge_push() -> int:
    from agent_harness.cli.gate.gate import gate
    from agent_harness.gate import pre_push
    from agent_harness.kernel.git import Git

    given = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\n")
    for branch, words in pre_push.pushed(Git(Path.cwd()), given):
        show(f"harness gate judges {branch} before the push...", err=True)
        try:
            code = int(gate.main(words, standalone_mode=False))
        except HarnessError as error:
            error.hint = f"{error.hint or 'harness gate'}  # {pre_push.ANYWAY}"
            raise
        if code:
            show(f"{branch} is not pushed (exit {code}). After your own look, {pre_push.ANYWAY}", err=True)
            return code
    return 0


def _scope(user: bool) -> Any:
    return "user" if user else "project"


def _project() -> str:
    """Return the folder of the nearest task list, or the current folder."""
    from agent_harness.kernel import root

    try:
        found = root.find(kind="tasklist")
    except HarnessError:
        found = None
    return found.path if found else os.path.realpath(".")


def _trust(file: str, trust: bool, as_json: bool) -> tuple[bool | None, str | None]:
    from agent_harness.hooks import codex_trust

    skipped = f"Codex silently skips these hooks until you trust them: {codex_trust.HINT}"
    if not trust and not (not as_json and sys.stdin.isatty() and _wants_trust()):
        return None, skipped
    trusted = codex_trust.trust(file, _project(), os.environ)
    return trusted, None if trusted else f"Codex does not read {file} yet. Trust the project in Codex, then repeat"


def _wants_trust() -> bool:
    show("Codex runs a hook only if you trust it. These hooks start the Python that runs this command, and read the")
    show("task list of the project; `harness hooks print --client codex` shows the exact commands.")
    return click.confirm("Trust them now?", default=False)


def _installed_lines(answer: JsonObject) -> list[str]:
    lines = [f"{'installed in' if answer['changed'] else 'already installed in'} {answer['file']}"]
    if answer["kept"]:
        lines.append(f"copy of the earlier file: {answer['kept']}")
    lines += [f"also installed in {path}: the hooks run twice" for path in answer["also_in"]]
    if answer.get("trusted"):
        lines.append("trusted by Codex")
    return [*lines, answer["note"]] if answer.get("note") else lines
