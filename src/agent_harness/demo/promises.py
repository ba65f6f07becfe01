"""Promises of the demo, which are checked in the finished project: in its git history, its feature list and its log of
events."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from agent_harness.demo import children
from agent_harness.demo.children import DemoLayout
from agent_harness.demo.story import DemoSession, Story, told
from agent_harness.errors import HarnessError
from agent_harness.kernel import journal, owner
from agent_harness.protocols.features.api import FeatureList

LIE, HALF_DONE, KILLED, REGRESSION = 2, 3, 4, 5
"""Features at which the agent lies, stops half-way, has its harness killed, and breaks an older feature."""

_CODES = "src/shorty/codes.py"
_LIMIT_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Promise:
    """Promise of the demo. ``kept`` is the result, and ``seen`` describes the observed facts."""

    name: str
    kept: bool
    seen: str


@dataclass(frozen=True, kw_only=True)
class KilledRun:
    """Finished demo project, and the exit code of the harness that the demo killed."""

    place: DemoLayout
    story: Story
    killed_exit_code: int | None


def examine(place: DemoLayout, killed_exit_code: int | None) -> list[Promise]:
    """Check in the demo's folder if the harness kept each promise. Return the results."""
    story = told(journal.read(place.state.log("events.jsonl")))
    ending = KilledRun(place=place, story=story, killed_exit_code=killed_exit_code)
    return [_judged(name, look, ending) for name, look in _PROMISES]


def _judged(name: str, look: "Callable[[KilledRun], tuple[bool, str]]", ending: KilledRun) -> Promise:
    try:
        kept, seen = look(ending)
    except (HarnessError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        kept, seen = False, f"could not be checked: {error}"
    return Promise(name=name, kept=kept, seen=seen)


def _all_proven(ending: KilledRun) -> tuple[bool, str]:
    proven, total = _document(ending).counts()
    return total > 0 and proven == total, f"{proven} of {total} pass in features.json at HEAD"


def _tests_pass(ending: KilledRun) -> tuple[bool, str]:
    command = ["python3", "-m", "pytest", "tests", "-q", "-p", "no:cacheprovider"]
    env = {**children.environment(ending.place), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=ending.place.project, env=env, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False
    )
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    count = re.search(r"\d+ passed", last)
    return done.returncode == 0 and count is not None, f"pytest, run by the demo now: {last.strip('= ')}"


def _lie_rejected(ending: KilledRun) -> tuple[bool, str]:
    sessions = ending.story.of(LIE)
    verdicts = [claim.verdict for session in sessions for claim in session.claims]
    return verdicts == ["rejected", "verified"], f"Feature #{LIE}: claims were {', '.join(verdicts) or 'none'}"


def _regression_rolled_back(ending: KilledRun) -> tuple[bool, str]:
    first = next(iter(ending.story.of(REGRESSION)), None)
    if first is None:
        return False, f"no session worked on Feature #{REGRESSION}"
    if [claim.verdict for claim in first.claims] != ["regression"] or first.rescue_ref is None:
        return False, f"Session {first.number} ended as {first.ending}, without a regression and a rescue ref"
    now, rescued = _content(ending, "HEAD", _CODES), _content(ending, first.rescue_ref, _CODES)
    good = "ascii_uppercase" in now and "ascii_uppercase" not in rescued
    return (
        good,
        f"Session {first.number} is kept in {first.rescue_ref}; {_CODES} at HEAD is {'right' if good else 'wrong'}",
    )


def _kill_survived(ending: KilledRun) -> tuple[bool, str]:
    sessions = ending.story.of(KILLED)
    if ending.killed_exit_code is None or not sessions:
        return False, "the harness was not killed"
    interrupted, proven = sessions[0].ending == "interrupted", _continued(sessions)
    subjects = children.git(ending.place.project, "log", "--format=%s", "HEAD").splitlines()
    wip = [s for s in subjects if s.startswith("WIP: Session interrupted")]
    seen = f"exit {ending.killed_exit_code}; Session {sessions[0].number} {sessions[0].ending}; {len(wip)} WIP commit"
    return ending.killed_exit_code == -9 and interrupted and proven and len(wip) == 1, seen


def _half_continued(ending: KilledRun) -> tuple[bool, str]:
    sessions = ending.story.of(HALF_DONE)
    seen = ", then ".join(f"Session {s.number} ({s.prompt_type}) {s.ending}" for s in sessions)
    good = bool(sessions) and sessions[0].ending == "partial" and not sessions[0].claims and _continued(sessions)
    return good, seen or f"no session worked on Feature #{HALF_DONE}"


def _in_order(ending: KilledRun) -> tuple[bool, str]:
    order = [s.feature_id for s in ending.story.sessions if s.ending == "proven"]
    needs = {f.id: set(f.depends_on) for f in _document(ending).features}
    good = all(needs[i] <= set(order[:n]) for n, i in enumerate(order) if i is not None)
    return good and len(order) == len(needs), "proven in the order " + ", ".join(f"#{i}" for i in order)


def _clean_and_pushed(ending: KilledRun) -> tuple[bool, str]:
    head = children.git(ending.place.project, "rev-parse", "HEAD").strip()
    pushed = children.git(ending.place.origin, "rev-parse", "main").strip()
    dirty = children.git(ending.place.project, "status", "--porcelain").strip()
    if dirty:
        return False, f"the work tree is not clean: {dirty.splitlines()[0]}"
    return head == pushed, f"HEAD is {head[:7]}, origin/main is {pushed[:7]}, the work tree is clean"


def _nothing_runs(ending: KilledRun) -> tuple[bool, str]:
    left = owner.processes_tagged("HARNESS_PROJECT_DIR", str(ending.place.project))
    return not left, f"processes of the project: {', '.join(map(str, left)) or 'none'}"


def _continued(sessions: list[DemoSession]) -> bool:
    """Return True if the second and last session continued the work and proved the feature."""
    return [s.prompt_type for s in sessions[1:]] == ["continuation"] and sessions[1].ending == "proven"


def _document(ending: KilledRun) -> FeatureList:
    return FeatureList(json.loads(_content(ending, "HEAD", "features.json")))


def _content(ending: KilledRun, commit: str, path: str) -> str:
    return children.git(ending.place.project, "show", f"{commit}:{path}")


_PROMISES: tuple[tuple[str, Callable[[KilledRun], tuple[bool, str]]], ...] = (
    ("every feature is proven", _all_proven),
    ("the tests of the program pass", _tests_pass),
    ("the lie was rejected, then made true", _lie_rejected),
    ("the regression was rolled back, nothing lost", _regression_rolled_back),
    ("the killed harness resumed its work", _kill_survived),
    ("the half-done feature was continued", _half_continued),
    ("features were proven in dependency order", _in_order),
    ("clean tree, and pushed", _clean_and_pushed),
    ("no process is left", _nothing_runs),
)
