"""Table with one row for each ``harness`` command. Help and start-up are fast, because the table imports nothing."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMANDS: "dict[str, tuple[str, str, str]]" = {
    # name: (panel of at most nine, module:attribute of a click command or module whose main takes the words, help line)
    "init": ("Everyday", "cli.shared:init", "Create a task list, or plan a project from a specification."),
    "add": ("Everyday", "cli.tasklist:add", "Add a task to the list."),
    "run": ("Everyday", "cli.shared:run", "Run agents on the next tasks or features."),
    "status": ("Everyday", "cli.status", "Show progress and the next step."),
    "watch": ("Everyday", "cli.story", "Follow one project, or all projects, live."),
    "why": ("Everyday", "cli.story", "Explain why an item is proven or not proven."),
    "resume": ("Everyday", "cli.shared:resume", "Answer a pending question, or end a pause or halt."),
    "undo": ("Everyday", "cli.projects:undo", "Revert accepted work with a new commit."),
    "gate": ("Everyday", "cli.gate.gate:gate", "Judge a change that anybody made, in any git repository."),
    "setup": ("Plan", "cli.machine.setup:setup", "Set up an agent, a project and hooks."),
    "import": ("Plan", "cli.backlog:import_", "Import tasks from another tool or a Markdown file."),
    "export": ("Plan", "cli.backlog:export", "Export tasks for another tool."),
    "add-feature": ("Plan", "cli.projects:add_feature", "Add a feature and create its test stub."),
    "plan-features": ("Plan", "cli.projects:add_features", "Let an agent plan more features from a text file."),
    "demo": ("Plan", "demo:demo", "Watch a scripted agent build a small project."),
    "help": ("Plan", "cli.machine.topics:help_", "Show help on a topic, such as start, night or undo."),
    "verify": ("Run", "cli.features:verify", "Run one feature's tests, or all tests, on a clean checkout."),
    "health": ("Run", "cli.projects:health", "Measure features, tests, lint errors and file sizes."),
    "cleanup": ("Run", "cli.projects:cleanup", "Run one session that cleans up the code."),
    "drive": ("Run", "cli.tasklist:drive", "Restart an agent client until its task list is done."),
    "scale": ("Run", "cli.parallel", "Change the number of workers of a parallel run."),
    "cancel": ("Run", "cli.parallel", "Cancel one attempt of a parallel run, and keep its work."),
    "queue": ("Run", "cli.parallel", "Show and change the merge queue of a parallel run."),
    "workspace": ("Run", "cli.parallel", "Show and remove the workspaces of parallel runs."),
    "worker": ("Fleets and machines", "cli.machine.engines:worker", "Run jobs for a coordinator on another machine."),
    "engine": ("Fleets and machines", "cli.machine.engines:engine", "Check the connection to remote workers."),
    "fleet": ("Fleets and machines", "cli.machine.fleet:fleet", "Run many projects with one shared limit on agents."),
    "projects": ("Fleets and machines", "cli.shared:projects", "List your projects. --forget removes deleted ones."),
    "serve": ("See", "cli.story", "Show projects and answer their questions in a browser."),
    "diff": ("See", "cli.story", "Show what a session or an item changed."),
    "costs": ("See", "cli.story", "Show the cost of each item, agent, model or day."),
    "report": ("See", "cli.story", "Write a report as one HTML or Markdown page."),
    "audit": ("See", "cli.gate.audit:audit", "Check receipts: their form, signature, chain and commits."),
    "log": ("See", "cli.features:log", "Show and search the log of events."),
    "say": ("Decide", "cli.shared:say", "Send a message to the running agent."),
    "pause": ("Decide", "cli.projects:pause", "Pause a project until you run harness resume."),
    "skip": ("Decide", "cli.projects:skip", "Skip a feature, or include a skipped feature again."),
    "override": ("Decide", "cli.projects:override", "Mark a feature as passing or open without a check."),
    "manual-verify": ("Decide", "cli.projects:manual_verify", "Record that you verified a feature yourself."),
    "take-over": ("Decide", "cli.projects:handoff", "Work on the project yourself. No session starts meanwhile."),
    "hand-back": ("Decide", "cli.projects:takeback", "Return the project to the harness, which verifies your work."),
    "rescue": ("Stop and restore", "cli.tasks", "List or restore rolled-back work."),
    "end-maintenance": (
        "Stop and restore",
        "cli.projects:stop",
        "End maintenance mode. To stop a run, use harness pause.",
    ),
    "abort": ("Stop and restore", "cli.projects:abort", "End all work on this project. Keep commits, logs and costs."),
    "uninstall": ("Stop and restore", "cli.machine.setup:uninstall", "Remove the harness from a project."),
    "config": ("Settings", "cli.projects:config", "Show the settings and the source of each value."),
    "agents": ("Settings", "cli.machine.agents:agents", "Show the agents that are installed on this machine."),
    "limits": ("Settings", "cli.machine.agents:limits", "Show which accounts are rate limited."),
    "notify": ("Settings", "cli.machine.notify:notify", "Set notification targets, and the events to report."),
    "doctor": ("Settings", "cli.machine.doctor:doctor", "Find problems and show how to fix them."),
    "completion": ("Settings", "cli.machine.completion:completion", "Print a completion script for a shell."),
    "migrate": ("Settings", "cli.projects:migrate", "Convert the project state of an older harness version."),
    "version": ("Settings", "cli.projects:version", "Show the versions of the harness and of the project state."),
    "selftest": ("Settings", "selftest:selftest", "Test the harness against lying agents (offline)."),
    "task": ("For agents and clients", "cli.tasks", "Claim, checkpoint, verify and complete tasks."),
    "session": ("For agents and clients", "cli.tasks", "Start or end a session on a task list."),
    "hooks": ("For agents and clients", "cli.machine.hooks:hooks", "Register the hooks with Claude Code or Codex."),
    "hook": ("For agents and clients", "cli.machine.hooks:hook", "Answer one hook event of an agent client."),
    "mcp": ("For agents and clients", "cli.tasks", "Serve the task commands to an agent client over MCP."),
    "activate": ("For agents and clients", "cli.tasklist:activate", "Turn the hooks on for this task list."),
    "deactivate": ("For agents and clients", "cli.tasklist:deactivate", "Turn the hooks off for this task list."),
}

FORMER = {
    "add-features": "plan-features",
    "handoff": "take-over",
    "place": "workspace",
    "recall": "cancel",
    "stop": "end-maintenance",
    "takeback": "hand-back",
}
"""Former names of commands and their current names. Former names still work, but help and completion omit them."""

MEANT = {"logs": "log", "ls": "status", "list": "status", "cost": "costs", "stop-now": "pause"}
"""Map from names that users type by mistake to the commands that they probably mean."""


def is_fast(name: str) -> bool:
    """Return True if the command parses its own arguments and does not use click."""
    return name in COMMANDS and ":" not in COMMANDS[name][1]


def loaded(name: str) -> "Any":
    module, _, attribute = COMMANDS[name][1].partition(":")
    return getattr(__import__(f"agent_harness.{module}", fromlist=["main"]), attribute or "main")
