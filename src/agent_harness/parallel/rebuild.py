"""A ledger from what is on the disk, where there is none, or none that can be read: ``harness queue rebuild``.

What the project shows as an order's is that order's again: its result, where there is one, is taken in by the next run
as any other, and what came to nothing is lost. A candidate that the branch has already, by its trailers, is carried to
its end instead of landing again. Candidates that are nobody's become rescues. What a ledger alone knows is not guessed:
``told`` names it. Source: ``scale.md`` 7, SC-14, SC-29.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from agent_harness.kernel import files, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import places
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, ORDER, RESULT
from agent_harness.parallel.ledger import VERSION, Ledger, project_id
from agent_harness.session import parallel_settings

_NAME = re.compile(r"(?P<run>[0-9A-Za-z]+)\.(?P<name>.+)\.(?P<fence>\d{1,9})")
_SETTINGS = {name: parallel_settings.default(name) for name in ("batch_max", "mends")}  # the next run says its own
UNKNOWN = (
    "how often an item was sent back, and what it had to mend: its next attempt begins on the branch",
    "which candidates a person had held, and their order beyond when they were proven",
    "what attempts have cost of which nothing is left, and what `harness scale` had said",
    "which landing was not pushed yet: the next one takes it along",
)


@dataclass(frozen=True, kw_only=True)
class LeftOrder:
    """An order as its folder has it."""

    id: str
    item: str
    name: str
    fence: int
    slot: str
    base: str
    since: float  # when its result was written, in seconds of the epoch; 0: there is none
    commit: str  # of the candidate; empty where nothing was accepted


@dataclass(kw_only=True)
class Rebuilt:
    """What was found, and what it says."""

    run: str
    orders: list[LeftOrder] = field(default_factory=list)  # that the project shows as such
    landed: list[str] = field(default_factory=list)  # items of these that the branch has
    rescues: list[str] = field(default_factory=list)
    kept: str = ""  # where the old ledger is

    def told(self) -> list[str]:
        """What a person is told."""
        ready = [each.item for each in self.orders if each.commit and each.item not in self.landed]
        lost = [each.item for each in self.orders if not each.since]
        lines = [f"The journal is made anew, from refs and results: run {self.run}."]
        lines += [f"Proven, and waiting to land: {', '.join(ready)}"] if ready else []
        lines += [f"On the branch, and not written down yet: {', '.join(self.landed)}"] if self.landed else []
        lines += [f"Begun, and without a result: {', '.join(lost)}"] if lost else []
        lines += [f"Nobody's any more, and in a rescue: {', '.join(self.rescues)}"] if self.rescues else []
        lines += [f"The old one is kept: {self.kept}"] if self.kept else []
        return [*lines, "What cannot be known:", *(f"  {each}" for each in UNKNOWN)]


def is_missing(folder: str) -> bool:
    """Whether there are orders, and no ledger that tells of them."""
    with suppress(OSError):
        return not os.path.exists(os.path.join(folder, "ledger.jsonl")) and bool(
            os.listdir(os.path.join(folder, "orders"))
        )
    return False


def where_missing(
    folder: str, git: Git, branch: str, claims: Mapping[str, str], *, workers: int, say: Callable[[str], None]
) -> None:
    """The same at the start of a run, where somebody has taken the ledger away: SC-14."""
    if is_missing(folder):
        for line in rebuild(folder, git, branch, claims, workers=workers).told():
            say(line)


def rebuild(folder: str, git: Git, branch: str, claims: Mapping[str, str], *, workers: int) -> Rebuilt:
    """Puts a ledger in the place of what is there; the old one is kept among the runs that are over.

    ``claims`` has the order that the project shows for each item. Repeatable: refs and results stay as they are.
    """
    known = _orders(folder, git)
    found = Rebuilt(run=process.new_run_id()[:8])
    mine = [each for each in known if claims.get(each.item) == each.id]
    found.orders = sorted(mine, key=lambda each: (each.since == 0, each.since, each.item))
    on_branch = _landed(git, branch)
    found.landed = [each.item for each in found.orders if each.commit in on_branch]
    found.rescues = _rescued(git, known, on_branch, {each.commit for each in found.orders})
    head = str(git.commit_of(branch))
    part = os.path.join(folder, "rebuilt")
    shutil.rmtree(part, ignore_errors=True)
    ledger = Ledger(part)
    identity = {"v": VERSION, "run": found.run, "project": project_id(folder), "branch": branch, "rebuilt": True}
    carried = [_carried(name, each) for name, each in _fences(git, known).items()]
    ledger.append("run", **identity, workers=workers, **_SETTINGS, head=head, carried=carried)
    for each in found.orders:
        _write(ledger, each)
    _write_landing(ledger, git, branch, {each.item: on_branch.get(each.commit, "") for each in found.orders})
    ledger.folded()
    ledger.close()
    found.kept = _kept(folder)
    os.replace(ledger.path, os.path.join(folder, "ledger.jsonl"))
    shutil.rmtree(part, ignore_errors=True)
    return found


def _orders(folder: str, git: Git) -> list[LeftOrder]:
    """The attempts whose folders are there and say what their names say."""
    there = os.path.join(folder, "orders")
    names = sorted(os.listdir(there)) if os.path.isdir(there) else []
    matches = (match for name in names if (match := _NAME.fullmatch(name)))
    found = (_order(os.path.join(there, match[0]), match, git) for match in matches)
    return [each for each in found if each]


def _order(folder: str, match: re.Match[str], git: Git) -> LeftOrder | None:
    told, result = (files.read_json_if_any(os.path.join(folder, name)) for name in (ORDER, RESULT))
    run, name, fence = match["run"], match["name"], int(match["fence"])
    base = str(told.get("base"))
    is_ours = told.get("kind") == ATTEMPT and told.get("id") == f"{run}/{name}/{fence}" and told.get("name") == name
    if not is_ours or git.commit_of(base) is None:
        return None
    commit = str(result.get("commit"))
    is_proven = result.get("status") == ACCEPTED and git.commit_of(f"{places.WORK_REFS}/{name}/{fence}") == commit
    return LeftOrder(
        id=str(told["id"]),
        item=str(told.get("item")),
        name=name,
        fence=fence,
        slot=os.path.basename(str(told.get("place"))),
        base=base,
        since=os.lstat(os.path.join(folder, RESULT)).st_mtime if result else 0.0,
        commit=commit if is_proven and git.ancestor(base, commit) else "",
    )


def _landed(git: Git, branch: str) -> dict[str, str]:
    """The candidates that the branch has, by the trailers of its commits, and these commits."""
    words = ("log", "--format=%H %(trailers:key=Harness-Candidate,valueonly,separator=%x20)", branch)
    rows = (line.split() for line in git.text(*words).splitlines())
    return {row[-1]: row[0] for row in rows if len(row) > 1}


def _fences(git: Git, known: list[LeftOrder]) -> dict[str, LeftOrder]:
    """The last order of each item."""
    last: dict[str, LeftOrder] = {}
    for each in known:
        if each.item not in last or each.fence > last[each.item].fence:
            last[each.item] = each
    return last


def _carried(item: str, last: LeftOrder) -> JsonObject:
    known = {"item": item, "fence": last.fence, "order": last.id, "base": last.base, "commit": last.commit}
    return {**known, "bounces": 0, "mend": None, "ready": False, "since": "", "held": False}


def _rescued(git: Git, known: list[LeftOrder], on_branch: Mapping[str, str], candidates: set[str]) -> list[str]:
    """Rescues of what was proven once, has not landed, and is nobody's candidate."""
    kept = {*git.refs_below(f"{places.RESCUE_REFS}/").values(), *on_branch, *candidates}
    found: list[str] = []
    for ref, commit in git.refs_below(f"{places.WORK_REFS}/").items():
        if commit not in kept:
            name = ref.removeprefix(f"{places.WORK_REFS}/").rpartition("/")[0]
            found.append(places.free_ref(git, f"{places.RESCUE_REFS}/{name}"))
            git.update_ref(found[-1], commit)
    return found


def _write(ledger: Ledger, order: LeftOrder) -> None:
    known = {"item": order.item, "order": order.id, "fence": order.fence}
    ledger.append("ordered", **known, slot=order.slot, base=order.base, touches=[], reason="as its folder says")


def _write_landing(ledger: Ledger, git: Git, branch: str, landed: Mapping[str, str]) -> None:
    """The landing that was carried out as far as the branch: the next run repeats what follows."""
    commits = {sha: item for item, sha in landed.items() if sha}
    if not commits:
        return
    line = [sha for sha in git.text("rev-list", "--reverse", branch).split() if sha in commits]
    plan = ledger.folded()
    for sha in line:
        work = plan.work(commits[sha])
        known = {"item": commits[sha], "order": work.order, "status": ACCEPTED, "reason": "it is on the branch"}
        ledger.append("ended", **known, commit=sha)
    members = [commits[sha] for sha in line]
    head = str(git.commit_of(branch))
    ledger.append("batched", members=members, commits=line, base=str(git.commit_of(f"{line[0]}^1")), vouched=False)
    ledger.append("landing", batch=1, commit=head, count=len(line))


def _kept(folder: str) -> str:
    """Where what is there of a ledger is kept; nothing where there is none."""
    path, runs = os.path.join(folder, "ledger.jsonl"), os.path.join(folder, "runs")
    if not os.path.lexists(path):
        return ""
    os.makedirs(runs, mode=0o700, exist_ok=True)
    number = 1
    while os.path.lexists(kept := os.path.join(runs, f"damaged-{number}.jsonl")):
        number += 1
    os.rename(path, kept)  # whatever it is; a run that finds none makes it anew by itself
    return kept
