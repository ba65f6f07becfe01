"""The course of every session, row by row: the answers of the work, and the ending that runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.events import Event, Finished, RateLimited, Text, Usage
from agent_harness.session.limits import SessionLimits, watch
from agent_harness.session.runner import Turns, walk
from agent_harness.session.work import POLICIES, Ending, Policy, TurnRequest, TurnSoFar
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.monitors import BudgetLimit

WELL, BADLY = Finished(ok=True), Finished(ok=False, exit_code=3, message="it broke")


class PlayedTurn(Turn):
    """Turn that yields the given events."""

    def __init__(self, events: list[Event]) -> None:
        self._events = list(events)

    def next_event(self, timeout_seconds: float) -> Event | None:
        return self._events.pop(0) if self._events else None

    @property
    def ended(self) -> bool:
        return not self._events

    def stop(self, grace_seconds: float = 5.0) -> None:
        self._events.clear()


class PlayedAgent(Agent):
    """Agent that plays one list of events for each turn, and keeps the briefs."""

    name = "played"
    capabilities = Capabilities(resume=True)

    def __init__(self, turns: Iterator[list[Event]]) -> None:
        self._turns = turns
        self.briefs: list[Brief] = []

    def start(self, brief: Brief) -> Turn:
        self.briefs.append(brief)
        return PlayedTurn(next(self._turns))


@dataclass(frozen=True)
class Answer:
    """Result of the verification of one turn, as played."""

    accepted: bool = False
    final: bool = False
    asks: bool = False


YES, NO, NEVER, SHOW = Answer(accepted=True), Answer(), Answer(final=True), Answer(asks=True)


@dataclass
class PlayedWork:
    """Work that answers in the given order; its result is the name of the ending that ran."""

    answers: list[Answer | None]
    policy: Policy = POLICIES["task"]
    name: str = "the work"
    says_done: bool = False
    closes: bool = False
    seen: list[object] = field(default_factory=list)

    def brief(self, ruling: Answer | None) -> str:
        return "begin" if ruling is None else "show" if ruling.asks else "repair"

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        return TurnRequest(
            brief=Brief(prompt=prompt, cwd=Path.cwd(), session=1, prompt_type="coding", round=so_far.round)
        )

    def claimed(self) -> bool:
        return self.says_done

    def closed(self) -> str | None:
        return "closed" if self.closes else None

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> Answer | None:
        return self.answers.pop(0)

    def accepted(self, ruling: Answer) -> str:
        return "accepted"

    def rejected(self, ruling: Answer, ending: Ending | None) -> str:
        return f"rejected{f' after {ending.reason}' if ending else ''}"

    def unfinished(self, ending: Ending) -> str:
        return f"unfinished: {ending.reason}"


class Notes:
    """Journal that keeps its entries in memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[tuple[str, Mapping[str, object]]] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def event(self, event_type: str, **fields: object) -> None:
        self.events.append((event_type, fields))


def walked(folder: Path, work: PlayedWork, *turns: list[Event]) -> tuple[str, PlayedAgent, Turns]:
    agent = PlayedAgent(iter(turns))
    made = Turns(
        agent=agent,
        journal=Notes(),
        stop=Stop(),
        watch=watch(SessionLimits(timeout_seconds=60.0, budgets=(BudgetLimit(name="Session", limit_usd=1.0),))),
        transcript=folder / "transcript.log",
        timeout_seconds=60.0,
    )
    return walk(work, made), agent, made


TOO_DEAR = Usage(input_tokens=1, output_tokens=1, cached_tokens=0, cost_usd=5.0)
FULL = Usage(input_tokens=250_000, output_tokens=1, cached_tokens=0, cost_usd=0.0)
ROWS: dict[str, tuple[list[Answer | None], list[list[Event]], str, str]] = {
    "proven at once": ([YES], [[WELL]], "accepted", "begin"),
    "repaired": ([NO, YES], [[WELL]] * 2, "accepted", "begin repair"),
    "never repaired": ([NO, NO, NO], [[WELL]] * 3, "rejected", "begin repair repair"),
    "refused for good": ([NEVER], [[WELL]], "rejected", "begin"),
    "claims nothing": ([None], [[WELL]], "unfinished: no_claim", "begin"),
    "shows it when asked": ([SHOW, YES], [[WELL]] * 2, "accepted", "begin show"),
    "never shows it": ([SHOW, SHOW], [[WELL]] * 2, "unfinished: no_evidence", "begin show"),
    "asking costs no fix round": ([SHOW, NO, NO, YES], [[WELL]] * 4, "accepted", "begin show repair repair"),
    "ends badly, and is repaired": ([NO, YES], [[BADLY], [WELL]], "accepted", "begin repair"),
    "ends badly, with nothing": ([None], [[BADLY]], "unfinished: error", "begin"),
    "too dear, proven": ([YES], [[TOO_DEAR, WELL]], "accepted", "begin"),
    "too dear, not proven": ([NO], [[TOO_DEAR, WELL]], "rejected after budget_exceeded", "begin"),
    "full": ([NO], [[FULL, WELL]], "rejected after context_limit", "begin"),
    "not served": ([], [[RateLimited(message="429"), BADLY]], "unfinished: rate_limited", "begin"),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_session_ends_in_exactly_one_settlement(tmp_path: Path, row: str) -> None:
    answers, turns, end, prompts = ROWS[row]
    work = PlayedWork(list(answers))
    ended, agent, _ = walked(tmp_path, work, *turns)
    assert ended == end
    assert [brief.prompt for brief in agent.briefs] == prompts.split()
    assert [brief.round for brief in agent.briefs] == list(range(len(agent.briefs)))
    assert not work.answers


def test_work_that_was_cut_off_is_judged_only_where_the_policy_says_so(tmp_path: Path) -> None:
    for kind, policy in POLICIES.items():
        work = PlayedWork([YES], policy=policy)
        ended, _, _ = walked(tmp_path / kind, work, [FULL, WELL])
        assert ended == ("accepted" if policy.judges_cut_off else "unfinished: context_limit")


def test_work_that_the_agent_closed_is_not_judged_again(tmp_path: Path) -> None:
    ended, _, _ = walked(tmp_path, PlayedWork([], closes=True), [FULL, WELL])
    assert ended == "closed"


def test_a_claim_counts_although_the_agent_ended_badly(tmp_path: Path) -> None:
    work = PlayedWork([YES], policy=POLICIES["feature"], says_done=True)
    assert walked(tmp_path, work, [BADLY])[0] == "accepted"
    assert walked(tmp_path, replace(work, answers=[], says_done=False), [BADLY])[0] == "unfinished: error"


def test_the_turns_of_a_session_are_added_up(tmp_path: Path) -> None:
    said = Usage(input_tokens=10, output_tokens=2, cached_tokens=0, cost_usd=0.25)
    _, _, turns = walked(tmp_path, PlayedWork([NO, YES]), [Text("one"), said, WELL], [said, WELL])
    assert (turns.so_far.used.input_tokens, turns.so_far.used.cost_usd) == (20, 0.5)
    assert (turns.so_far.fix_rounds, turns.so_far.asked) == (1, False)
    assert "one" in (tmp_path / "transcript.log").read_text()
