"""How a running demo is shown: plain lines for logs, or a live picture for a terminal."""

import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agent_harness.demo.story import Story, printable

_MOST_LINES = 14

STYLES = {
    "open": "dim",
    "at work": "cyan",
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
    """Is told what happens; ``tick`` comes several times a second."""

    @abstractmethod
    def note(self, text: str) -> None:
        """The demo itself says something."""

    @abstractmethod
    def harness(self, line: str) -> None:
        """The harness printed a line."""

    @abstractmethod
    def agent(self, line: str) -> None:
        """The agent said, or its commands printed, a line."""

    def tick(self, story: Story) -> None:
        """Time passes; the story may have grown."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class Plain(DemoView):
    """One line a happening: seconds since the start, who, what."""

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
    """The features with their state, the session under way with what the agent says, and what the harness decides.

    It is as high as the terminal allows: long lines are cut, and old ones leave first.
    """

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
        """The picture of this moment."""
        features = len(self._story.titles) or 1
        left = self._console.height - features - 8  # the head, six lines of frames, and the cursor's line
        said = max(1, min(left // 3, 7))
        seconds = int(time.monotonic() - self._since)
        told = "  a URL shortener, built by a scripted agent: no model is called  "
        return Group(
            _one_line(f"harness demo {seconds // 60:02}:{seconds % 60:02}{told}", "bold"),
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
            table.add_row(Text(f"#{feature_id}", style="dim"), Text(word, style=STYLES.get(word, "")), Text(title))
        content = table if self._story.titles else Text("being planned from SPEC.md", style="dim")
        return Panel(content, title="Features", title_align="left", border_style="dim")

    def _session_title(self) -> str:
        now = self._story.now
        if now is None:
            return "The agent"
        feature = f", Feature #{now.feature_id}" if now.feature_id is not None else ""
        return f"The agent in Session {now.number}: {now.prompt_type}{feature}"


def _frame(title: str, lines: Sequence[Text], height: int, style: str) -> Panel:
    """The last lines, in a frame of always the same height."""
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
    """Where tables go: as wide as the terminal, or 118 columns without colours."""
    out = sys.stderr if to_stderr else sys.stdout
    if plain:
        return Console(file=out, width=118, color_system=None, force_terminal=False, highlight=False)
    return Console(file=out, highlight=False)
