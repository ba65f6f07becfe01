"""Views of the demo.

While the demo runs, a view shows plain lines, or a live picture on a terminal. At the end, the demo prints a table of
claims and verdicts, the promises, and the paths of the demo's files."""

import json
import shlex
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from rich import box
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agent_harness.demo.children import DemoLayout
from agent_harness.demo.promises import Promise
from agent_harness.demo.story import DemoSession, Story, printable, told
from agent_harness.kernel import journal, terminal

_MOST_LINES = 14

STYLES = {
    "open": "",
    "running": "cyan",
    "claimed": "yellow",
    "half done": "magenta",
    "rejected": "bold red",
    "rolled back": "red",
    "proven": "green",
    "verified": "green",
    "regression": "bold red",
    "partial": "magenta",
    "interrupted": "bold magenta",
    "failed": "red",
}


class DemoView(ABC):
    """Base class of the demo's views."""

    # the demo calls `tick` several times a second, and the other methods for each event

    @abstractmethod
    def note(self, text: str) -> None:
        """Show a message of the demo."""

    @abstractmethod
    def harness(self, line: str) -> None:
        """Show one line of the harness's output."""

    @abstractmethod
    def agent(self, line: str) -> None:
        """Show one line of the agent's output."""

    def tick(self, story: Story) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class Plain(DemoView):
    """View that prints one line for each event."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._since = time.monotonic()

    def note(self, text: str) -> None:
        self._line("demo", text)

    def harness(self, line: str) -> None:
        self._line("harness", line)

    def agent(self, line: str) -> None:
        self._line("agent", line)

    def _line(self, who: str, text: str) -> None:
        line = f"{time.monotonic() - self._since:6.1f}s {who:>8} | {printable(text, 160)}"
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._out.write(line.encode(encoding, "replace").decode(encoding).rstrip() + "\n")
        self._out.flush()


class Picture(DemoView):
    """Live view of the features, the agent's text and the harness's decisions."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._since = time.monotonic()
        self._said: deque[Text] = deque(maxlen=_MOST_LINES)
        self._log: deque[Text] = deque(maxlen=_MOST_LINES)
        self._story = Story()
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def note(self, text: str) -> None:
        self._log.append(_one_line(text, "bold yellow"))

    def harness(self, line: str) -> None:
        if line.strip():
            self._log.append(_one_line(line, _style_of(line)))

    def agent(self, line: str) -> None:
        if line.strip():
            self._said.append(_one_line(line))

    def tick(self, story: Story) -> None:
        self._story = story

    def render(self) -> RenderableType:
        features = len(self._story.titles) or 1
        left = self._console.height - features - 8  # the head, six lines of frames, and the cursor's line
        said = max(1, min(left // 3, 7))
        seconds = int(time.monotonic() - self._since)
        about = "  a URL shortener, built by a scripted agent: no model is called  "
        return Group(
            _one_line(f"harness demo {seconds // 60:02}:{seconds % 60:02}{about}", "bold"),
            self._features(),
            _frame(self._session_title(), self._said, said, "cyan"),
            _frame("The harness", self._log, max(1, min(left - said, 14)), "green"),
        )

    def _features(self) -> RenderableType:
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True, width=3)
        table.add_column(no_wrap=True, width=max(map(len, STYLES)))
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for feature_id, title in self._story.titles.items():
            word = self._story.features.get(feature_id, "open")
            table.add_row(Text(f"#{feature_id}"), Text(word, style=STYLES.get(word, "")), Text(title))
        content = table if self._story.titles else Text("planning from SPEC.md")
        return Panel(content, title="Features", title_align="left")

    def _session_title(self) -> str:
        now = self._story.now
        if now is None:
            return "The agent"
        feature = f", Feature #{now.feature_id}" if now.feature_id is not None else ""
        return f"The agent in Session {now.number}: {now.prompt_type}{feature}"


def _frame(title: str, lines: Sequence[Text], height: int, style: str) -> Panel:
    shown = list(lines)[-height:]
    shown += [Text("")] * (height - len(shown))
    return Panel(Group(*shown), title=title, title_align="left", border_style=style)


def _one_line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _style_of(line: str) -> str:
    if "PASSED" in line or "verified." in line:
        return "green"
    if any(word in line for word in ("FAILED", "failed", "Regression", "REJECT", "rolled back", "Rolled back")):
        return "red"
    return "magenta" if "interrupted" in line or "WIP" in line else ""


def console_for(*, plain: bool, to_stderr: bool = False) -> Console:
    """Return the console for tables. If ``plain`` is True, it has no colours and a fixed width."""
    out = sys.stderr if to_stderr else sys.stdout
    if plain:
        return Console(file=out, width=118, color_system=None, force_terminal=False, highlight=False)
    return Console(file=out, highlight=False, no_color=not terminal.has_colour(out))


SCRIPTED = "The agent is scripted: no model is called, nothing is spent. All costs shown are numbers from its script."

_ENDINGS = {
    "proven": "accepted",
    "partial": "kept as WIP, to be continued",
    "interrupted": "killed; kept as WIP, to be continued",
    "failed": "rolled back",
    "running": "not ended",
}
_VERDICTS = {"verified": "true", "rejected": "FALSE", "regression": "BROKE OLDER TESTS"}


@dataclass(frozen=True, kw_only=True)
class DemoEnding:
    place: DemoLayout
    story: Story
    promises: list[Promise]
    seconds: float
    cost_usd: float | None

    @classmethod
    def of(cls, place: DemoLayout, promises: list[Promise], seconds: float) -> "DemoEnding":
        story = told(journal.read(place.state.log("events.jsonl")))
        return cls(place=place, story=story, promises=promises, seconds=seconds, cost_usd=_cost(place))

    @property
    def kept(self) -> bool:
        return all(promise.kept for promise in self.promises)

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.kept,
            "path": str(self.place.root),
            "project": str(self.place.project),
            "scripted": True,
            "seconds": round(self.seconds, 1),
            "script_cost_usd": self.cost_usd,
            "features": {str(i): word for i, word in sorted(self.story.features.items())},
            "sessions": [asdict(session) for session in self.story.sessions],
            "rescue_refs": [s.rescue_ref for s in self.story.sessions if s.rescue_ref],
            "promises": [asdict(promise) for promise in self.promises],
            "with_a_real_agent": with_a_real_agent(self.place),
        }


def opening(console: Console, place: DemoLayout) -> None:
    console.print(Text("harness demo: an agent builds a URL shortener, feature by feature.", style="bold"))
    console.print(Text(SCRIPTED))
    console.print(Text("On the way it lies, stops half-way, breaks an older feature, and its harness is killed."))
    console.print(Text(f"Folder: {place.root} (kept)\n"), soft_wrap=True)


def interrupted(console: Console, place: DemoLayout) -> None:
    console.print(
        Text(f"\nStopped; every process of the demo has ended. The folder is kept: {place.root}"), soft_wrap=True
    )


def closing(console: Console, ending: DemoEnding) -> None:
    """Print the tables of claims and promises, and the next commands."""
    console.print()
    console.print(_claims(ending.story.sessions, console.width))
    console.print(_promises(ending.promises))
    cost = "unknown" if ending.cost_usd is None else f"${ending.cost_usd:.2f}"
    console.print(
        Text(f"{len(ending.story.sessions)} sessions in {ending.seconds:.0f} s; costs from the script: {cost}.")
    )
    console.print(Text(SCRIPTED))
    differs = [promise for promise in ending.promises if not promise.kept]
    if differs:
        console.print(Text(f"\nThe demo did not end as promised ({len(differs)}):", style="bold red"))
        for promise in differs:
            console.print(Text(f"  {promise.name}: {promise.seen}", style="red"))
        console.print(Text("\nThe last lines of the harness:"))
        for line in journal.tail_lines(ending.place.log, 8):
            console.print(Text(f"  {printable(line)}"))
    else:
        console.print(Text("Everything ended as promised.", style="bold green"))
    console.print()
    for label, line in _where_to_look(ending):
        console.print(Text(f"{label:<16}{line}"), soft_wrap=True)


WIDE = 100
"""Minimum terminal width at which each cell of the table of claims fits on one or two lines."""


def _claims(sessions: list[DemoSession], width: int) -> RenderableType:
    """Return a table of claims and verdicts. On a narrow terminal, return blocks of text."""
    if width < WIDE:
        lines = [Text("Claims and verdicts", style="italic"), Text()]
        return Group(*lines, *(line for session in sessions for line in _block(session)))
    table = Table(title="Claims and verdicts", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Session", "Prompt", "Feature", "The agent", "The harness", "Time", "Cost"):
        justify: JustifyMethod = "right" if name in ("Session", "Time", "Cost") else "left"
        table.add_column(name, no_wrap=name != "The harness", overflow="fold", justify=justify)
    for session in sessions:
        for row in _rows(session):
            table.add_row(*row)
    return table


def _block(session: DemoSession) -> Iterator[RenderableType]:
    rows = list(_rows(session))
    head = [*rows[0][:3], *rows[-1][-2:]]
    told = ", ".join(each.plain for each in head[1:] if each.plain)
    yield Text(f"Session {head[0].plain}: {told}", style="bold")
    for row in rows:
        yield Padding(Text.assemble(row[3], "; the harness: ", row[4]), (0, 0, 0, 2))


def with_a_real_agent(place: DemoLayout) -> str:
    """Return a shell command that builds the demo's program with a real agent."""
    spec = shlex.quote(str(place.spec))
    ours = _program()
    return f"export HARNESS_AGENT='command:YOUR-AGENT'; {ours} init --spec {spec} && {ours} run --until-done"


def _program() -> str:
    """Return ``harness`` if it is on PATH, otherwise the path of the program."""
    return "harness" if shutil.which("harness") else shlex.quote(str(Path(sys.executable).with_name("harness")))


def _where_to_look(ending: DemoEnding) -> Iterator[tuple[str, str]]:
    project = shlex.quote(str(ending.place.project))
    yield "the program", f"cd {project} && git log --oneline"
    yield "status", f"cd {project} && {_program()} status"
    for session in ending.story.sessions:
        if session.rescue_ref:
            yield "rolled back", f"git -C {project} log -p {session.rescue_ref}"
    yield "events", str(ending.place.state.log("events.jsonl"))
    yield "the log", str(ending.place.log)
    yield "the script", str(ending.place.script)
    yield "a real agent", with_a_real_agent(ending.place)
    yield "", "in an empty folder; YOUR-AGENT is any program that reads its task on stdin and edits the files there"


def _rows(session: DemoSession) -> Iterator[tuple[Text, ...]]:
    """Yield a table row for each claim. For a session without claims, yield one row with the session's end."""
    feature = f"#{session.feature_id}" if session.feature_id else ""
    cost = "" if session.cost_usd is None else f"${session.cost_usd:.2f}"
    first = (str(session.number), session.prompt_type, feature)
    last = (f"{session.seconds:.0f} s" if session.seconds else "", cost)
    silent = "is cut off" if session.ending == "interrupted" else "stops half-way"
    end = Text(_ENDINGS.get(session.ending, session.ending), style=STYLES.get(session.ending, ""))
    said = [("says it is done", _verdict(session, n)) for n in range(len(session.claims))]
    for number, (claim, verdict) in enumerate(said or [(silent, end)]):
        left = first if number == 0 else ("", "", "")
        right = last if number == len(said or [0]) - 1 else ("", "")
        yield (*map(Text, left), Text(claim), verdict, *map(Text, right))


def _verdict(session: DemoSession, number: int) -> Text:
    claim = session.claims[number]
    last = number == len(session.claims) - 1
    after = "returned to the agent" if not last else _ENDINGS.get(session.ending, session.ending)
    if session.rescue_ref and last:
        after += f", kept in {session.rescue_ref}"
    word = _VERDICTS.get(claim.verdict, claim.verdict)
    found = f" {printable(claim.found, 72).rstrip('.')}" if claim.found and claim.verdict != "verified" else ""
    return Text.assemble((f"{word}:", STYLES.get(claim.verdict, "")), f"{found}; {after}" if found else f" {after}")


def _promises(promises: list[Promise]) -> Table:
    table = Table(title="Promised and seen", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "Promised", "Seen in the finished project"):
        table.add_column(name)
    for promise in promises:
        mark = Text("kept", style="green") if promise.kept else Text("NOT", style="bold red")
        table.add_row(mark, Text(promise.name), Text(printable(promise.seen, 160)))
    return table


def _cost(place: DemoLayout) -> float | None:
    try:
        found = json.loads(Path(place.state.costs).read_text(encoding="utf-8"))["cumulative"]["total_cost_usd"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return float(found) if isinstance(found, int | float) else None
