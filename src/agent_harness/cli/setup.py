"""``harness setup``: walks a person through the agent, the kind of project, the hooks and a first run.

Every step that is done already is passed over, so that it can be repeated. Without a terminal nothing is asked: with
``--yes`` the defaults are taken, else it says what it would do.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from agent_harness.cli.click_options import json_option
from agent_harness.errors import HarnessError, UsageError

Record = dict[str, Any]

KINDS = ("tasks", "features", "none")


@click.command(
    short_help="Set up an agent, a project and hooks.",
    epilog="""\b
Examples:
  harness setup                                     asks, step by step
  harness setup --yes --kind tasks                  a task list here, hooks for the clients that are there
  harness setup --yes --kind features --spec SPEC.md""",
)
@click.option("--yes", is_flag=True, help="Take the default of every question.")
@click.option("--kind", type=click.Choice(KINDS), help="What to make here, where nothing is: tasks, features or none.")
@click.option("--spec", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE", help="Features.")
@click.option("--agent", metavar="SPEC", help="Which agent; else the first that is found.")
@click.option("--hooks/--no-hooks", "wants_hooks", default=None, help="Register hooks with the clients found.")
@json_option
def setup(
    *, yes: bool, kind: str | None, spec: Path | None, agent: str | None, wants_hooks: bool | None, as_json: bool
) -> int:
    """Find an agent, make a task list or plan a project here, register the hooks, and say how to begin.

    What is there already stays as it is. Without a terminal and without --yes it changes nothing and says the plan.
    """
    if spec is not None and kind not in (None, "features"):
        raise UsageError("--spec is for --kind features", hint="harness setup --help")
    asks = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    walk = _Walk(yes=yes, asks=asks, say=lambda line: click.echo(line, err=as_json))
    walk.agent(agent)
    walk.project("features" if spec else kind, spec, agent)
    walk.hooks(wants_hooks)
    following = walk.begin()
    if as_json:
        changed = any(step["state"] == "done" for step in walk.steps)
        click.echo(json.dumps({"ok": True, "steps": walk.steps, "changed": changed, "next": following}))
    return 0


@dataclass
class _Walk:
    """The steps, and what became of each: ``done``, ``there``, ``left``, ``planned``."""

    yes: bool
    asks: bool
    say: Callable[[str], None]
    steps: list[Record] = field(default_factory=list)

    def note(self, step: str, state: str, message: str) -> None:
        self.steps.append({"step": step, "state": state, "message": message})
        self.say(f"{step}: {message}")

    def wants(self, question: str) -> bool:
        """Whether a step is to be done: the person's answer on a terminal, yes with ``--yes``, else no."""
        return click.confirm(question, default=True) if self.asks else self.yes

    # -- agent ---------------------------------------------------------------------------------------------------------

    def agent(self, spec: str | None) -> None:
        """Says which agent works here, and what the one that does not needs."""
        from agent_harness.agents import discovery, registry
        from agent_harness.cli.agents import settings_here

        if spec is not None:
            problem = registry.from_spec(spec).problem()
            self.note("agent", "left" if problem else "there", problem or f"{spec} can be started")
            return
        choice = discovery.chosen(os.environ, *settings_here())
        if choice["problem"]:
            self.note("agent", "left", f"{choice['problem']}; see: harness agents")
        else:
            self.note("agent", "there", f"{choice['kind']}, by {choice['source']}")

    # -- project -------------------------------------------------------------------------------------------------------

    def project(self, kind: str | None, spec: Path | None, agent: str | None) -> None:
        """Makes a task list or plans a project in this folder, unless one is there."""
        from agent_harness.kernel import root

        there = root.find()
        if there is not None:
            self.note("project", "there", f"{there.kind} at {there.path}")
            return
        wanted = self._kind(kind, spec)
        if wanted == "none":
            self.note("project", "left", "none was wanted")
        elif wanted == "tasks":
            self._task_list()
        else:
            self._features(spec, agent)

    def _kind(self, kind: str | None, spec: Path | None) -> str:
        if kind is not None or not self.asks:
            return kind or "tasks"
        self.say(
            "A task list: small tasks, each with a command that proves it. Features: planned from a specification."
        )
        return str(click.prompt("What to make here", type=click.Choice(KINDS), default="tasks"))

    def _task_list(self) -> None:
        from agent_harness.protocols.tasklist.api import TaskList

        if not self.wants(f"Make a task list in {Path.cwd()}?"):
            self.note("project", "left" if self.asks else "planned", "a task list: harness init .")
            return
        made = TaskList.init(str(Path.cwd()))
        self.note("project", "done", f"a task list in {made['root']}")

    def _features(self, spec: Path | None, agent: str | None) -> None:
        chosen = spec
        if chosen is None and self.asks:
            told = click.prompt("File with the specification", type=click.Path(exists=True, dir_okay=False))
            chosen = Path(str(told))
        if chosen is None:
            self.note("project", "planned", "a specification is needed: harness init --spec FILE")
            return
        if not self.wants(f"Let an agent plan the project from {chosen}?"):
            self.note("project", "left" if self.asks else "planned", f"harness init --spec {chosen}")
            return
        from agent_harness.protocols.features.api import FeatureProject

        FeatureProject.init(Path.cwd(), chosen, agents=(agent,) if agent else (), say=self.say)
        self.note("project", "done", f"a project, planned from {chosen}")

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def hooks(self, wanted: bool | None) -> None:
        """Registers the hooks with each client that is here; they act on task lists only."""
        import shutil

        from agent_harness.agents.registry import CLIENTS

        clients = [client for program, client in CLIENTS.items() if shutil.which(program)]
        if not clients or wanted is False or not self._has_list():
            why = "no client on PATH" if not clients else "not wanted" if wanted is False else "no task list here"
            self.note("hooks", "left", why)
            return
        for client in clients:
            self._register(client, wanted)

    def _has_list(self) -> bool:
        from agent_harness.kernel import root

        there = root.find()
        return there is not None and there.kind == "tasklist"

    def _register(self, client: str, wanted: bool | None) -> None:
        from agent_harness.hooks import install

        folder = str(Path.cwd())
        if any(install.installed(client, scope, folder, os.environ) for scope in ("user", "project")):
            self.note("hooks", "there", f"registered with {client}")
        elif wanted or self.wants(f"Register the hooks with {client}, for all of your projects?"):
            try:
                done = install.install(client, "user", folder, os.environ)
            except HarnessError as error:
                self.note("hooks", "left", f"{client}: {error.message}")
                return
            trust = "; Codex runs them once trusted: harness hooks install --client codex --trust"
            self.note("hooks", "done", f"in {done['file']}{trust if client == 'codex' else ''}")
        else:
            self.note("hooks", "left" if self.asks else "planned", f"harness hooks install --client {client}")

    # -- a first run ---------------------------------------------------------------------------------------------------

    def begin(self) -> str:
        """The command to go on with."""
        from agent_harness.kernel import root

        there = root.find()
        if there is None:
            planned = any(step["state"] == "planned" for step in self.steps)
            following = "harness setup --yes" if planned else "harness demo"
        elif there.kind == "tasklist":
            following = self._first_task(there.path)
        else:
            following = "lth next ." if there.kind == "longtask" else "harness run --dry-run"
        self.say(f"next: {following}")
        return following

    def _first_task(self, folder: str) -> str:
        from agent_harness.protocols.tasklist import api

        empty = not api.check(folder)["tasks"]
        return 'harness add "What is to be done" --validate "pytest -q"' if empty else "harness run --dry-run"
