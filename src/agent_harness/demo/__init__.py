"""``harness demo``: a scripted agent builds a small program while the user watches, and the harness rejects its lie.

The demo sets up a folder, runs the harness, kills the harness once, starts it again and reports the result.
"""

import json
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

import click

from agent_harness.demo import children, promises, report
from agent_harness.demo.children import Child, DemoLayout, bundled_script, git, sample
from agent_harness.demo.report import DemoView, Picture, Plain, console_for
from agent_harness.demo.story import Follow, Story, printable, spoken
from agent_harness.errors import HarnessError, Interrupted, UsageError
from agent_harness.kernel import files, journal, terminal
from agent_harness.protocols.features.api import FeatureList
from agent_harness.supervision.interruption import handled

_IDENTITY = (("user.name", "Scripted Agent"), ("user.email", "agent@localhost"), ("commit.gpgsign", "false"))


@click.command(epilog="Example:  harness demo --plain")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Print plain lines instead of the live view.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout at the end.")
def demo(path: Path | None, plain: bool, as_json: bool) -> int:
    """Build a small real program over several sessions, in a new folder that is kept.

    The agent is scripted: no model is called and nothing is spent. During the demo the agent lies once and breaks an
    older feature once, and the harness itself is killed. At the end a table shows each claim of the agent and its
    verdict.
    """
    return show(path, plain=plain, as_json=as_json)


def prepare(path: Path | None) -> DemoLayout:
    """Create the demo folder with a git repository. Raise ``UsageError`` if ``path`` is in use."""
    place = DemoLayout(_folder(path))
    place.project.mkdir()
    place.script.write_text(bundled_script(), encoding="utf-8")
    place.spec.write_text((sample() / "SPEC.md").read_text(encoding="utf-8"), encoding="utf-8")
    git(place.root, "init", "--quiet", "--bare", "--initial-branch=main", place.origin.name)
    git(place.project, "init", "--quiet", "--initial-branch=main")
    for name, value in _IDENTITY:
        git(place.project, "config", name, value)
    git(place.project, "remote", "add", "origin", str(place.origin))
    git(place.project, "add", place.spec.name)
    git(place.project, "commit", "--quiet", "--message", "Specification")
    git(place.project, "push", "--quiet", "--set-upstream", "origin", "main")
    return place


def _folder(path: Path | None) -> Path:
    if path is None:
        return Path(tempfile.mkdtemp(prefix="harness-demo-")).resolve()
    path = path.expanduser().absolute()
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} is in use; choose a new or an empty folder", hint="harness demo")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be created: {error.strerror}", hint="harness demo") from None
    return path.resolve()


_TICK_SECONDS = 0.05
_LINGER_SECONDS = 0.6  # between the agent's first lines of code and the kill, so that both are visible
_LIMIT_SECONDS = 900.0  # far more than a busy machine needs; nothing hangs for ever
_HALF_WRITTEN = "src/shorty/cli.py"


def show(path: Path | None, *, plain: bool, as_json: bool) -> int:
    """Run the demo in a new folder. Return 0 only if the harness kept each promise of the demo."""
    children.require_git()
    place = prepare(path)
    if not children.has_pytest():
        sys.stderr.write("Fetching pytest for the program that the demo builds ...\n")
        children.add_python(place)
    plain = plain or as_json or terminal.is_plain()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    console = console_for(plain=plain, to_stderr=as_json)
    report.opening(console, place)
    try:
        with handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
            view = Plain(console.file) if plain else Picture(console)
            started = time.monotonic()
            with view:
                performance = Performance(place, view)
                performance.play()
                view.note("Checking the finished project")
                judged = promises.examine(place, performance.killed_exit_code)
            ending = report.DemoEnding.of(place, judged, time.monotonic() - started)
    except KeyboardInterrupt:
        report.interrupted(console, place)
        return Interrupted.exit_code
    if as_json:
        sys.stdout.write(json.dumps(ending.as_json(), ensure_ascii=False, indent=2) + "\n")
    else:
        report.closing(console, ending)
    return 0 if ending.kept else 1


@dataclass
class Performance:
    """Commands of one demo. They run one after another in child processes."""

    place: DemoLayout
    view: DemoView
    story: Story = field(default_factory=Story)
    killed_exit_code: int | None = None

    def __post_init__(self) -> None:
        self._events = journal.Follower(self.place.state.log("events.jsonl"))
        self._transcript: tuple[int, Follow] | None = None
        self._deadline = time.monotonic() + _LIMIT_SECONDS
        self._half_written_at: float | None = None

    def play(self) -> None:
        if self._run("init", "--spec", self.place.spec.name) != 0:
            return
        if self._run("run", "--until-done", kill=True) != -signal.SIGKILL:
            return
        self._run("status")
        self.view.note("The same command again: it resumes the work of the killed harness.")
        self._run("run", "--until-done")

    def _run(self, *arguments: str, kill: bool = False) -> int | None:
        self.view.note("$ harness " + " ".join(arguments))
        child = Child(arguments, self.place.project, children.environment(self.place), self.place.log)
        try:
            while not child.over and time.monotonic() < self._deadline:
                self._watch(child)
                if kill and self._is_half_way():
                    session = self.story.now
                    number = session.number if session else 0
                    self.view.note(f"$ kill -9 {child.pid}    the harness itself, in the middle of Session {number}")
                    child.kill()
                    self.killed_exit_code = child.exit_code
                    kill = False
                time.sleep(_TICK_SECONDS)
            self._watch(child)
        finally:
            child.end()
        return child.exit_code

    def _watch(self, child: Child) -> None:
        for event in self._events.news().records:
            self.story.hear(event)
            self.story.titles = self.story.titles or self._titles()
        for line in child.lines():
            self.view.harness(line)
        self._listen()
        self.view.tick(self.story)

    def _titles(self) -> dict[int, str]:
        try:
            found = FeatureList(files.read_json(self.place.state.features)).features
        except (HarnessError, OSError):
            return {}
        return {f.id: printable(f.description, 60) for f in found if f.has_id}

    def _listen(self) -> None:
        now = self.story.now
        if now and (self._transcript is None or self._transcript[0] != now.number):
            self._transcript = (now.number, Follow(Path(self.place.state.transcript(now.number))))
        if self._transcript:
            for line in filter(None, map(spoken, self._transcript[1].lines())):
                self.view.agent(line)

    def _is_half_way(self) -> bool:
        """Return True if the session to kill wrote half of its code some seconds ago."""
        now = self.story.now
        if not (now and now.feature_id == promises.KILLED and (self.place.project / _HALF_WRITTEN).exists()):
            return False
        self._half_written_at = self._half_written_at or time.monotonic()
        return time.monotonic() - self._half_written_at >= _LINGER_SECONDS
