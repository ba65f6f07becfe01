"""The demo from start to end: lay out the folder, run the harness, kill it once, start it again, tell how it ended."""

import json
import signal
import sys
import time
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

from agent_harness.demo import children, promises, report
from agent_harness.demo.children import Child
from agent_harness.demo.follow import Follow, printable, spoken
from agent_harness.demo.layout import DemoLayout
from agent_harness.demo.prepare import prepare
from agent_harness.demo.story import Story
from agent_harness.demo.views import DemoView, Picture, Plain, console_for
from agent_harness.errors import HarnessError, Interrupted
from agent_harness.kernel import files
from agent_harness.protocols.features import records

_TICK_SECONDS = 0.05
_LINGER_SECONDS = 0.6  # between the agent's first lines of code and the kill, so that both can be seen
_LIMIT_SECONDS = 900.0  # far more than a busy machine needs; nothing hangs for ever
_HALF_WRITTEN = "src/shorty/cli.py"


def show(path: Path | None, *, plain: bool, as_json: bool) -> int:
    """Runs the demo; see ``demo_command``."""
    children.require_tools()
    place = prepare(path)
    plain = plain or as_json or not sys.stdout.isatty()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    console = console_for(plain=plain, to_stderr=as_json)
    report.opening(console, place)
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        ending = _perform(place, Plain(console.file) if plain else Picture(console))
    except KeyboardInterrupt:
        report.interrupted(console, place)
        return Interrupted.exit_code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if as_json:
        sys.stdout.write(json.dumps(ending.as_json(), ensure_ascii=False, indent=2) + "\n")
    else:
        report.closing(console, ending)
    return 0 if ending.kept else 1


def _perform(place: DemoLayout, view: DemoView) -> report.DemoEnding:
    started = time.monotonic()
    with view:
        performance = Performance(place, view)
        performance.play()
        view.note("Looking at what the project itself says")
        judged = promises.examine(place, performance.killed_exit_code)
    return report.DemoEnding.of(place, judged, time.monotonic() - started)


@dataclass
class Performance:
    """The child processes of one demo, one after the other, watched."""

    place: DemoLayout
    view: DemoView
    story: Story = field(default_factory=Story)
    killed_exit_code: int | None = None

    def __post_init__(self) -> None:
        self._events = Follow(Path(self.place.state.log("events.jsonl")))
        self._transcript: tuple[int, Follow] | None = None
        self._deadline = time.monotonic() + _LIMIT_SECONDS
        self._half_written_at: float | None = None

    def play(self) -> None:
        """Everything, to the end or to the first command that fails."""
        if self._run("init", "--spec", self.place.spec.name) != 0:
            return
        if self._run("run", "--until-done", kill=True) != -signal.SIGKILL:
            return
        self._run("status")
        self.view.note("The same command once more. It finds what the dead harness left.")
        self._run("run", "--until-done")

    def _run(self, *arguments: str, kill: bool = False) -> int | None:
        self.view.note("$ harness " + " ".join(arguments))
        child = Child(arguments, self.place.project, children.environment(self.place), self.place.log)
        try:
            while not child.over and time.monotonic() < self._deadline:
                self._watch(child)
                if kill and self._is_half_way():
                    self._kill(child)
                    kill = False
                time.sleep(_TICK_SECONDS)
            self._watch(child)
        finally:
            child.end()
        return child.exit_code

    def _watch(self, child: Child) -> None:
        for event in self._events.records():
            self.story.hear(event)
            self.story.titles = self.story.titles or self._titles()
        for line in child.lines():
            self.view.harness(line)
        self._listen()
        self.view.tick(self.story)

    def _titles(self) -> dict[int, str]:
        """Id and description of each feature, once the plan is there."""
        try:
            found = records.FeatureList(files.read_json(self.place.state.features)).features
        except (HarnessError, OSError):
            return {}
        return {f.id: printable(f.description, 60) for f in found if f.id != records.NO_ID}

    def _listen(self) -> None:
        """Passes on what the agent of the session under way says."""
        now = self.story.now
        if now and (self._transcript is None or self._transcript[0] != now.number):
            self._transcript = (now.number, Follow(Path(self.place.state.transcript(now.number))))
        if self._transcript:
            for line in filter(None, map(spoken, self._transcript[1].lines())):
                self.view.agent(line)

    def _is_half_way(self) -> bool:
        """The agent of the session to be killed has written half of its code a moment ago."""
        now = self.story.now
        if not (now and now.feature_id == promises.KILLED and (self.place.project / _HALF_WRITTEN).exists()):
            return False
        self._half_written_at = self._half_written_at or time.monotonic()
        return time.monotonic() - self._half_written_at >= _LINGER_SECONDS

    def _kill(self, child: Child) -> None:
        session = self.story.now
        number = session.number if session else 0
        self.view.note(f"$ kill -9 {child.pid}    the harness itself, in the middle of Session {number}")
        child.kill()
        self.killed_exit_code = child.exit_code
