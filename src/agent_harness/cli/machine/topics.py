"""``harness help TOPIC``: help pages for users who do not know yet which command they need. Source: ``faces.md`` 8."""

from __future__ import annotations

import click

from agent_harness.cli.terminal import show
from agent_harness.errors import EXIT_CODES, UsageError

TOPICS = {
    "start": """\
Ways to begin, in a folder that is a git repository:

  harness init .                        a task list; each task has a command that proves it
  harness add "Add a limit" --validate "pytest -q tests/test_limit.py"
  harness init --spec SPEC.md           a feature project: an agent plans it, you review the plan
  lth init demo --template ...          a long task, worked on in short runs
  harness import PLAN.md                tasks from another program

Then run:  harness run      To see the progress, run:  harness status""",
    "night": """\
Run unattended:

  harness run --until-done              run all sessions; wait until rate limits end
  harness run --workers 4               several agents at once, each in its own workspace
  nohup harness run --until-done > run.log 2>&1 &
  harness notify add 'command:...'      get notified when a project needs you
  harness pause                         pause after the current operation

In the morning:  harness status   harness why ITEM   harness report --open   harness costs""",
    "questions": """\
If only you can decide, a question is stored. The run continues with other items, or ends.

  harness status                        pending questions, and the command that answers them
  harness resume                        each option with its effect
  harness resume --choose WORD          your answer; add --feature N if several questions wait
  harness skip --feature N              exclude the feature
  harness override --feature N --passes true|false    your decision instead of a check""",
    "undo": """\
Rolled-back work is kept, and you can restore it:

  harness diff S7                       changes of a session that was rolled back
  harness rescue list                   rolled-back work; see also rescue show, rescue restore
  harness undo 3                        revert accepted work with a new commit
  git log refs/harness/rolled-back/7    commits of session 7 that were rolled back""",
    "agents": """\
By default, Claude Code or Codex on PATH is used. To use another agent:

  harness agents                        agents on this machine
  harness run --agent codex
  harness run --agent 'command:my-agent --flag'       reads its task on stdin, edits files
  harness run --agent claude-code --agent codex       the second takes over while the first is rate limited
  harness hooks install --client claude-code          work through a list in your own session
  harness doctor                        problems, and how to fix them""",
}


@click.command("help", epilog="\b\nExamples:\n  harness help night\n  harness help exit-codes")
@click.argument("topic", required=False)
def help_(topic: str | None) -> int:
    """Show help on a topic: start, night, questions, undo, agents, ci, commands, exit-codes.

    If TOPIC is the name of a command, the command's help is shown.
    """
    from agent_harness.cli.app import in_panels
    from agent_harness.cli.commands import COMMANDS

    if topic is None:
        show("\n".join([f"harness help {name}" for name in (*TOPICS, "ci", "commands", "exit-codes")]))
        return 0
    if topic == "commands":
        widest = max(map(len, COMMANDS))
        panels = ([f"{panel}:", *(f"  {name:<{widest}}  {line}" for name, line in rows)] for panel, rows in in_panels())
        show("\n\n".join("\n".join(lines) for lines in panels))
        return 0
    if topic == "exit-codes":
        show("\n".join(f"{code:>4}  {meaning}" for code, meaning in EXIT_CODES))
        return 0
    if topic == "ci":  # for an agent that has no plugin: what the skill says
        from importlib.resources import files

        page = (files("agent_harness") / "plugin/skills/gate/SKILL.md").read_text("utf-8")
        show(page.split("---\n", 2)[2].strip())
        return 0
    if topic in TOPICS:
        show(TOPICS[topic])
        return 0
    if topic in COMMANDS:
        from agent_harness.cli import main

        return main.run([topic, "--help"])
    raise UsageError(f"There is no topic {topic!r}", hint="harness help  # or harness --help")
