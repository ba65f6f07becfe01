"""``harness setup`` prepares a project step by step, and ``harness uninstall`` removes the harness from a project.

Both commands skip the steps that are already done, so a command can be repeated. Without a terminal, they ask nothing:
they use the defaults with ``--yes``, and only print the plan without it."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from agent_harness.cli.terminal import ask, json_option, say_to
from agent_harness.errors import HarnessError, NotAProject, Refused, UsageError
from agent_harness.kernel.json import JsonObject

KINDS = ("tasks", "features", "none")


@click.command(
    epilog="""\b
Examples:
  harness setup                                     asks before each step
  harness setup --yes                               a task list, if this is a git repository
  harness setup --yes --kind tasks --hooks          a repository and a list, hooks for the installed clients
  harness setup --yes --kind features --spec SPEC.md""",
)
@click.option(
    "--yes", is_flag=True, help="Ask no questions. Create a repository or register hooks only if an option requests it."
)
@click.option("--kind", type=click.Choice(KINDS), help="Kind of project to create here: tasks, features or none.")
@click.option("--spec", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE", help="Features.")
@click.option("--agent", metavar="SPEC", help="Agent to use. [default: the first agent that is found]")
@click.option(
    "--hooks/--no-hooks", "wants_hooks", default=None, help="Register hooks with all installed clients, or with none."
)
@json_option
def setup(
    *, yes: bool, kind: str | None, spec: Path | None, agent: str | None, wants_hooks: bool | None, as_json: bool
) -> int:
    """Find an agent, create a task list or plan a feature project here, register the hooks, and print the next command.

    The command does not change existing files. Without a terminal and without --yes, the command only prints the plan.
    """
    if spec is not None and kind not in (None, "features"):
        raise UsageError("--spec needs --kind features", hint="harness setup --help")
    asks = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    walk = _Walk(yes=yes, asks=asks, say=say_to(as_json=as_json))
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
    """Set-up of a project. ``steps`` holds the state of each step."""

    yes: bool
    asks: bool
    say: Callable[[str], None]
    # states: done, there (already present), left (still to do), planned
    steps: list[JsonObject] = field(default_factory=list)

    def note(self, step: str, state: str, message: str) -> None:
        self.steps.append({"step": step, "state": state, "message": message})
        self.say(f"{step}: {message}")

    def wants(self, question: str) -> bool:
        return click.confirm(question, default=True) if self.asks else self.yes

    # -- agent ---------------------------------------------------------------------------------------------------------

    def agent(self, spec: str | None) -> None:
        """Report the agent that a run in this folder would use, or the reason why no run could start."""
        from agent_harness.agents import discovery, registry
        from agent_harness.cli.machine.agents import settings_here

        if spec is not None:
            problem = registry.from_spec(spec).problem()
            self.note("agent", "left" if problem else "there", problem or f"{spec} can be started")
            return
        choice = discovery.chosen(os.environ, *settings_here())
        if choice["problem"]:
            self.note("agent", "left", f"{choice['problem']}: {choice['hint'] or 'harness agents'}")
        else:
            self.note("agent", "there", f"{choice['kind']}, by {choice['source']}")

    # -- project -------------------------------------------------------------------------------------------------------

    def project(self, kind: str | None, spec: Path | None, agent: str | None) -> None:
        from agent_harness.kernel import root

        there = root.find()
        if there is not None:
            self.note("project", "there", f"{there.kind} at {there.path}")
            return
        if self.yes and kind is None and not _in_repository():
            self.note("project", "planned", "this folder is not a git repository: harness setup --yes --kind tasks")
            return
        wanted = self._kind(kind)
        if wanted == "none":
            self.note("project", "left", "not wanted")
        elif wanted == "tasks":
            self._task_list()
        else:
            self._features(spec, agent)

    def _kind(self, kind: str | None) -> str:
        if kind is not None or not self.asks:
            return kind or "tasks"
        self.say(
            "A task list: small tasks, each with a command that proves it. Features: planned from a specification."
        )
        return str(click.prompt("Kind of project to create here", type=click.Choice(KINDS), default="tasks"))

    def _task_list(self) -> None:
        from agent_harness.protocols.tasklist.api import TaskList

        if not self.wants(f"Create a task list in {Path.cwd()}?"):
            self.note("project", "left" if self.asks else "planned", "a task list: harness init .")
            return
        self._repository()
        made = TaskList.init(str(Path.cwd()))
        self.note("project", "done", f"a task list in {made['root']}")

    def _repository(self) -> None:
        if _in_repository():
            return
        lost = "without a git repository no attempt can be rolled back, rescued or committed"
        if shutil.which("git") is None:
            self.note("repository", "left", f"{lost}; git is not on PATH")
        elif self.wants(f"{lost[0].upper()}{lost[1:]}. Create one here (git init)?"):
            subprocess.run(["git", "init", "--quiet"], check=True, stdin=subprocess.DEVNULL)
            self.note("repository", "done", "git init")
        else:
            self.note("repository", "left", f"{lost}: git init")

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
        """Register the hooks with each installed client if this folder contains a task list."""
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
        elif wanted or (self.asks and self.wants(f"Register the hooks with {client}, for all of your projects?")):
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
        from agent_harness.kernel import root

        there = root.find()
        if there is None:
            planned = any(step["state"] == "planned" for step in self.steps)
            bare = self.yes or not _in_repository()
            following = (
                ("harness setup --yes --kind tasks" if bare else "harness setup --yes") if planned else "harness demo"
            )
        elif there.kind == "tasklist":
            from agent_harness.protocols.tasklist import api

            empty = not api.check(there.path)["tasks"]
            following = 'harness add "What is to be done" --validate "pytest -q"' if empty else "harness run --dry-run"
        else:
            following = "lth next ." if there.kind == "longtask" else "harness run --dry-run"
        self.say(f"next: {following}")
        return following


def _in_repository() -> bool:
    from agent_harness.kernel.git import Git

    return Git(Path.cwd()).is_repository


# -- and out again -----------------------------------------------------------------------------------------------------


BOOKKEEPING = ("base", "candidates", "checkpoints", "verify", "before-pull", "incoming")
"""Folders below ``refs/harness`` without work. If the plain name was taken, a folder's name may end with a number."""
_REFS = "refs/harness/"


@click.command(
    epilog="""\b
Examples:
  harness uninstall --dry-run           lists the changes
  harness uninstall ../billing --yes""",
)
@click.argument("folder", metavar="[PROJECT]", default=".", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only list the changes.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.option("--rescues", is_flag=True, help="Also delete the rescued work that git keeps.")
@json_option
def uninstall(folder: Path, dry_run: bool, yes: bool, rescues: bool, as_json: bool) -> int:
    """Remove the harness from PROJECT: hooks, MCP entries, ignore rules, refs, state, plan and logs.

    No work is deleted. The plan, logs and state move to a folder outside the project, and the command prints the path
    of this folder. Commits and rescued work stay. While a session runs, the command is refused. To remove the package
    itself, use the program that installed it: pip, pipx or uv.
    """
    found = _Removal.at(folder, rescues=rescues)
    rows = list(found.rows())
    say = say_to(as_json=as_json)
    say(f"In {found.root}:")
    for row in rows:
        say(f"  {row['how']:<10} {row['what']}")
    taken = False
    if not dry_run:
        taken = ask(yes=yes, default_shown="y/N")("Remove all of this?")
        if taken:
            found.carry_out()
            say(f"Done. Moved files are in {found.target}; to restore them: {found.way_back}")
        else:
            say("Nothing was changed.")
    answer = {"root": found.root, "rows": rows, "changed": taken, "moved_to": found.target if taken else None}
    if as_json:
        click.echo(json.dumps({"ok": True, "verb": "uninstall", **answer}, ensure_ascii=False))
    return 0 if taken or dry_run else 1


class _Removal:
    """Removal of the harness from one project. The user can repeat each step."""

    def __init__(self, root: str, traces: dict[str, JsonObject], *, rescues: bool) -> None:
        from agent_harness.kernel.git import Git

        self.root = root
        self._traces = traces
        self._git = Git(root) if Git(root).is_repository else None
        self._alone = self._git is None or not self._has_neighbours()
        self._wants_rescues = rescues
        self.target: str | None = None  # target of moved files

    @classmethod
    def at(cls, folder: Path, *, rescues: bool) -> "_Removal":
        """Return the removal for the nearest project in or above ``folder``."""
        from agent_harness.kernel import root
        from agent_harness.protocols.features import api as features
        from agent_harness.protocols.tasklist import api as tasklist

        nearest = root.find(str(folder), pin=False)
        if nearest is None:
            raise NotAProject(f"No project at or above {folder}", hint="harness uninstall PROJECT")
        if nearest.kind == "longtask":
            message = "A long task is a single folder, and the harness stores nothing about the task elsewhere"
            raise Refused(message, hint=f"rm -r {shlex.quote(nearest.path)}  # removes it with its results")
        traces = {}
        for kind, look in (("tasklist", tasklist.traces), ("features", features.traces)):
            there = root.find(nearest.path, kind=kind, pin=False)
            if there is not None and there.path == nearest.path:
                traces[kind] = look(nearest.path)
        return cls(nearest.path, traces, rescues=rescues)

    @property
    def way_back(self) -> str:
        """Shell command that restores the plan and the logs."""
        return f"cp -a {shlex.quote(f'{self.target}/project')}/. {shlex.quote(self.root)}"

    def rows(self) -> Iterator[JsonObject]:
        """Yield a description of each removal step for the preview."""
        for client, path in self._hooks():
            yield {"how": "take out", "what": f"hooks of {client}: {self._name(path)}"}
        for name in self._mcp_entries():
            yield {"how": "take out", "what": f"MCP server {name}: .mcp.json"}
        for path, lines in self._ignored():
            count = len(self._forgotten(path, lines, write=False))
            if count and not (path.endswith("exclude") and not self._alone):
                yield {"how": "take out", "what": f"{count} lines: {self._name(path)}"}
        for path in self._files():
            yield {"how": "move", "what": self._name(path)}
        for path in self._states():
            yield {"how": "move", "what": self._name(path)}
        bookkeeping, work = self._refs()
        if bookkeeping:
            yield {"how": "delete", "what": f"{len(bookkeeping)} private refs without work: {_REFS}..."}
        yield from self._staying(work)

    def _staying(self, work: list[str]) -> Iterator[JsonObject]:
        for ref in work:
            yield {"how": "delete" if self._wants_rescues else "stays", "what": f"{ref} (rescued work)"}
        if not self._alone:
            yield {"how": "stays", "what": "lines of .git/info/exclude, private refs: another project here uses them"}
        committed = [self._name(path) for path in self._files() if self._is_committed(path)]
        if committed:
            yield {"how": "stays", "what": f"{', '.join(committed)} tracked by git; commit their removal"}
        from agent_harness.kernel.git.locate import text_of

        settings = text_of(os.path.join(self.root, ".codex", "config.toml"))
        if "mcp_servers" in settings and "harness" in settings:
            yield {
                "how": "stays",
                "what": ".codex/config.toml, which contains the server harness: remove that server manually",
            }
        from agent_harness.gate import pre_push

        if pre_push.state(Path(self.root)) in ("current", "older"):
            yield {"how": "stays", "what": "the hook pre-push of git: harness hooks uninstall --git"}
        for client in self._hooks_of_user():
            yield {"how": "stays", "what": f"hooks for all of your projects: harness hooks uninstall --client {client}"}

    def carry_out(self) -> None:
        """Remove the harness while this process holds the project's locks."""
        from agent_harness.hooks import install
        from agent_harness.kernel.lock import Lock

        self.target = self._place()
        with ExitStack() as held:
            for each in self._traces.values():
                held.enter_context(Lock(self.root, timeout_seconds=5.0, **each["lock"]))
            for client, _ in self._hooks():
                install.uninstall(client, "project", self.root, os.environ)
            self._take_out_mcp_entries()
            bookkeeping, work = self._refs()
            for ref in [*bookkeeping, *(work if self._wants_rescues else [])]:
                if self._git is not None:
                    self._git.update_ref(ref, None)
            for path in self._states():
                self._move(path, os.path.join(self.target, "state", os.path.basename(path)))
            for path, lines in self._ignored():
                if self._alone or not path.endswith("exclude"):
                    self._forgotten(path, lines, write=True)
            # last, because these files identify the project
            for path in self._files():
                self._move(path, os.path.join(self.target, "project", os.path.relpath(path, self.root)))

    def _place(self) -> str:
        from agent_harness.kernel import trusted_state

        place = trusted_state.removed(self.root)
        if place is None:
            raise Refused(
                "Cannot write a state folder outside the project", hint="set XDG_STATE_HOME to a writable folder"
            )
        return place

    @staticmethod
    def _move(path: str, to: str) -> None:
        os.makedirs(os.path.dirname(to), mode=0o700, exist_ok=True)
        shutil.move(path, to)

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self.root) if path.startswith(os.path.join(self.root, "")) else path

    # -- places ----------------------------------------------------------------------------------------------------

    def _files(self) -> list[str]:
        return list(dict.fromkeys(path for each in self._traces.values() for path in each["files"]))

    def _states(self) -> list[str]:
        from agent_harness.kernel import trusted_state

        found = [trusted_state.existing(each["place"], self.root) for each in self._traces.values()]
        if self._git is not None:
            found.append(os.path.join(self._git.git_dir(), "harness"))
        return [path for path in found if path and os.path.isdir(path)]

    def _ignored(self) -> Iterator[tuple[str, list[str]]]:
        excluded = [line for each in self._traces.values() for line in each["excluded"]]
        shown = [line for each in self._traces.values() for line in each["gitignore"]]
        if self._git is not None:
            yield os.path.join(self._git.shared_dir(), "info", "exclude"), excluded
        if not os.path.islink(path := os.path.join(self.root, ".gitignore")):
            yield path, shown

    @staticmethod
    def _forgotten(path: str, lines: list[str], *, write: bool) -> list[str]:
        from agent_harness.kernel.git import own_output

        return own_output.forget(path, lines, printed=True, write=write)

    def _refs(self) -> tuple[list[str], list[str]]:
        """Return two lists of the harness's private refs: refs without work, and refs with work."""
        if self._git is None or not self._alone:
            return [], []
        found = sorted(self._git.refs_below(_REFS))
        folders = {ref: ref.removeprefix(_REFS).split("/")[0].rstrip("0123456789").rstrip("-") for ref in found}
        work = [ref for ref in found if folders[ref] not in (*BOOKKEEPING, "slices")]
        return [ref for ref in found if folders[ref] in BOOKKEEPING], work

    def _has_neighbours(self) -> bool:
        from agent_harness.kernel import root
        from agent_harness.kernel.git.locate import text_of

        git = self._git
        if git is None:
            return False
        shared = Path(git.shared_dir())
        gits = [shared, *(Path(text_of(each).strip()) for each in shared.glob("worktrees/*/gitdir"))]
        tops = [str(each.parent) for each in gits if each.parent != Path(git.top())]
        own = [line for each in self._traces.values() for line in each["excluded"]]
        rules = text_of(shared / "info/exclude").splitlines()
        lists = [line for line in rules if line.endswith("/harness-tasks.json") and line not in own]
        return any(root.find(top, pin=False) for top in tops) or any(
            os.path.lexists(os.path.join(git.top(), line.strip("/"))) for line in lists
        )

    def _is_committed(self, path: str) -> bool:
        return self._git is not None and self._git.ok("ls-files", "--error-unmatch", "--", path)

    # -- what clients read -----------------------------------------------------------------------------------------

    def _hooks(self) -> list[tuple[str, str]]:
        from agent_harness.hooks import install

        found = [name for name in install.CLIENTS if install.has_traces(name, "project", self.root, os.environ)]
        return [(name, install.CLIENTS[name].place("project", self.root, os.environ)) for name in found]

    def _hooks_of_user(self) -> list[str]:
        from agent_harness.hooks import install

        return [name for name in install.CLIENTS if install.installed(name, "user", self.root, os.environ)]

    @property
    def _mcp_file(self) -> str:
        return os.path.join(self.root, ".mcp.json")

    def _mcp_entries(self) -> list[str]:
        from agent_harness.kernel.json import jsontext

        if os.path.islink(self._mcp_file):  # the file belongs to another project or program
            return []
        try:
            found = jsontext.loads(Path(self._mcp_file).read_bytes())
        except (OSError, ValueError):
            return []
        servers = found.get("mcpServers") if isinstance(found, dict) else None
        return [name for name, each in servers.items() if _is_ours(each)] if isinstance(servers, dict) else []

    def _take_out_mcp_entries(self) -> None:
        from agent_harness.kernel import files
        from agent_harness.kernel.json import edit

        for name in self._mcp_entries():
            text = edit.remove(Path(self._mcp_file).read_bytes().decode(), ["mcpServers", name])
            files.replace(self._mcp_file, text)


def _is_ours(server: Any) -> bool:
    if not isinstance(server, dict) or not isinstance(server.get("command"), str):
        return False
    words = [server["command"], *(each for each in server.get("args") or [] if isinstance(each, str))]
    named = os.path.basename(words[0]) == "harness" or "agent_harness.cli.main" in words
    return named and "mcp" in words[1:]
