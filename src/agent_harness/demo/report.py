"""What the demo prints before it starts and after it ended: claims against verdicts, promises, where to look."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_harness.demo.layout import DemoLayout
from agent_harness.demo.promises import Promise
from agent_harness.demo.story import DemoSession, Story, printable, told
from agent_harness.demo.views import STYLES
from agent_harness.kernel import journal

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
    """How one demo ended."""

    place: DemoLayout
    story: Story
    promises: list[Promise]
    seconds: float
    cost_usd: float | None

    @classmethod
    def of(cls, place: DemoLayout, promises: list[Promise], seconds: float) -> "DemoEnding":
        """What the project in ``place`` tells, beside the judged promises."""
        story = told(journal.read(place.state.log("events.jsonl")))
        return cls(place=place, story=story, promises=promises, seconds=seconds, cost_usd=_cost(place))

    @property
    def kept(self) -> bool:
        """Whether every promise is kept."""
        return all(promise.kept for promise in self.promises)

    def as_json(self) -> dict[str, Any]:
        """The object of ``--json``."""
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
    """What is going to happen, before it does."""
    console.print(Text("harness demo: an agent builds a URL shortener, feature by feature.", style="bold"))
    console.print(Text(SCRIPTED))
    console.print(Text("On the way it lies, stops half-way, breaks an older feature, and its harness is killed."))
    console.print(Text(f"Folder: {place.root} (kept)\n"), soft_wrap=True)


def interrupted(console: Console, place: DemoLayout) -> None:
    """Said after Ctrl-C."""
    console.print(
        Text(f"\nStopped; every process of the demo has ended. The folder is kept: {place.root}"), soft_wrap=True
    )


def closing(console: Console, ending: DemoEnding) -> None:
    """The tables at the end, and the lines to go on with."""
    console.print()
    if ending.story.sessions:
        table = Table(title="Claims and verdicts", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("Session", "Prompt", "Feature", "The agent", "The harness", "Time", "Cost"):
            table.add_column(name, no_wrap=name != "The harness", overflow="fold", justify=_justify(name))
        for session in ending.story.sessions:
            for row in _rows(session):
                table.add_row(*row)
        console.print(table)
    console.print(_promises(ending.promises))
    cost = "unknown" if ending.cost_usd is None else f"${ending.cost_usd:.2f}"
    console.print(
        Text(f"{len(ending.story.sessions)} sessions in {ending.seconds:.0f} s; costs by the script: {cost}.")
    )
    console.print(Text(SCRIPTED))
    differs = [promise for promise in ending.promises if not promise.kept]
    if differs:
        console.print(Text(f"\nThe demo did not end as promised ({len(differs)}):", style="bold red"))
        for promise in differs:
            console.print(Text(f"  {promise.name}: {promise.seen}", style="red"))
        console.print(Text("\nThe last lines of the harness:"))
        for line in journal.tail_lines(ending.place.log, 8):
            console.print(Text(f"  {printable(line)}", style="dim"))
    else:
        console.print(Text("Everything ended as promised.", style="bold green"))
    console.print()
    for label, line in _where_to_look(ending):
        console.print(Text.assemble((f"{label:<16}", "dim"), line), soft_wrap=True)


def with_a_real_agent(place: DemoLayout) -> str:
    """The one line that has an agent that is no script build the same program."""
    spec = shlex.quote(str(place.spec))
    return f"export HARNESS_AGENT='command:YOUR-AGENT'; harness init --spec {spec} && harness run --until-done"


def _where_to_look(ending: DemoEnding) -> Iterator[tuple[str, str]]:
    project = shlex.quote(str(ending.place.project))
    yield "the program", f"cd {project} && git log --oneline"
    yield "where it stands", f"cd {project} && harness status"
    for session in ending.story.sessions:
        if session.rescue_ref:
            yield "taken away", f"git -C {project} log -p {session.rescue_ref}"
    yield "what happened", str(ending.place.state.log("events.jsonl"))
    yield "who said what", str(ending.place.log)
    yield "the script", str(ending.place.script)
    yield "a real agent", with_a_real_agent(ending.place)
    yield "", "in an empty folder; YOUR-AGENT is any program that reads its task on stdin and edits the files there"


def _justify(name: str) -> Any:
    return "right" if name in ("Session", "Time", "Cost") else "left"


def _rows(session: DemoSession) -> Iterator[tuple[Text, ...]]:
    """One row a claim; a session without a claim has one row."""
    feature = f"#{session.feature_id}" if session.feature_id else ""
    cost = "" if session.cost_usd is None else f"${session.cost_usd:.2f}"
    first = (str(session.number), session.prompt_type, feature)
    last = (f"{session.seconds:.0f} s" if session.seconds else "", cost)
    said = [("says it is done", _verdict(session, n)) for n in range(len(session.claims))]
    for number, (claim, verdict) in enumerate(said or [(_silence(session), _end(session))]):
        left = first if number == 0 else ("", "", "")
        right = last if number == len(said or [0]) - 1 else ("", "")
        yield (*map(Text, left), Text(claim), verdict, *map(Text, right))


def _silence(session: DemoSession) -> str:
    return "is cut off" if session.ending == "interrupted" else "stops half-way"


def _end(session: DemoSession) -> Text:
    return Text(_ENDINGS.get(session.ending, session.ending), style=STYLES.get(session.ending, ""))


def _verdict(session: DemoSession, number: int) -> Text:
    claim = session.claims[number]
    last = number == len(session.claims) - 1
    after = "sent back" if not last else _ENDINGS.get(session.ending, session.ending)
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
    """What costs.yaml adds up to; the harness writes it in the JSON subset of YAML."""
    try:
        found = json.loads(Path(place.state.costs).read_text(encoding="utf-8"))["cumulative"]["total_cost_usd"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return float(found) if isinstance(found, int | float) else None
