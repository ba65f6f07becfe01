"""``harness fleet run``: starts a run in each project that has work, and gives each run its share of the agents.

The supervisor owns no project data. If it is killed, the runs continue, and the next supervisor finds the runs by their
snapshots. The supervisor's own state is in the user's state folder:

    fleet/fleet.lock       lock that allows one supervisor per user
    fleet/state.json       the last state and shares, for ``fleet status`` and the next supervisor
    fleet/ledger.jsonl     the cost of each run, by UTC day
    fleet/pause            exists while the user has paused the fleet
    fleet/logs/NAME.log    the output of a project's last run

After a crash, the supervisor restarts a run after 1 s, then 2 s, 4 s and so on, up to 60 s. After five crashes within
an hour, it parks the project and reports this. A run of a long task is one slice, see ``slices`` (SC-60, SC-61)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from agent_harness.engines.address import with_priority
from agent_harness.errors import Busy, HarnessError, Refused
from agent_harness.fleet import accounts, slices, status
from agent_harness.fleet.roster import Member, Roster
from agent_harness.fleet.sharing import FairClock, SlotRequest, shares
from agent_harness.kernel import clock, files, journal, trusted_state
from agent_harness.kernel.json import JsonObject, dollars, jsontext, number_below
from agent_harness.kernel.lock import LockFile
from agent_harness.kernel.owner import Owner
from agent_harness.parallel.people import ParallelRuns
from agent_harness.session import run_snapshot
from agent_harness.session.project_view import ProjectView
from agent_harness.supervision.interruption import Stop
from agent_harness.views.reading import reader_of

TICK_SECONDS = 5.0
LOOK_SECONDS = 600.0
HOUR_SECONDS = 3600.0
DEATHS_AN_HOUR = 5
MOST_WAIT_SECONDS = 60.0
_ENDINGS = {
    0: ("done", "all work is done"),
    1: ("parked", "items failed and are not retried, or nothing was merged"),
    3: ("needs you", "a person must decide"),
    4: ("parked", "refused before an agent started"),
    5: ("rests", "paused, busy, or merging is blocked"),
    6: ("parked", "the project's state is damaged"),
    7: ("waits", "no item can be started now"),
    9: ("waits", "a limit of the run is reached"),
    130: ("rests", "a person stopped the run"),
}
"""New state of a project and its reason, by the exit code of the project's run. Any other exit code means a crash."""
_TOLD_TO_END = (130, 143, 129)
"""Exit codes of a slice that ended cleanly after a signal."""


@dataclass
class _Watched:
    member: Member
    state: str = "not looked at"
    why: str = ""
    stamp: object = None
    look_at: float = 0.0
    open: int | None = None
    workable: int = 0
    proven: int | None = None
    share: int = 0
    account: str | None = None  # of its agents; not looked at yet
    agents: int = 0
    given: int = 0  # last number of workers sent to its run
    alive: bool = False
    spent_live: float = 0.0
    started: Owner | None = None  # the owner of the run that a supervisor has started
    process: "subprocess.Popen[bytes] | None" = None
    deaths: list[float] = field(default_factory=list)
    begin_at: float = 0.0
    parked_until: float = 0.0  # for dying too often

    @property
    def at_work(self) -> int:
        """Number of agents that work for the project."""
        # a run that has only just started uses those that it was given
        return max(self.agents, self.given if self.process is not None and not self.agents else 0)


class FleetSupervisor:
    """Supervisor of all fleet projects, which runs until a signal arrives."""

    def __init__(self, read: Callable[[], Roster], say: Callable[[str], None], stop: Stop) -> None:
        # ``read`` returns the projects of the fleet
        self._read = read
        self._say = say
        self._stop = stop
        folder = status.folder(make=True)
        if folder is None:
            raise Refused("Cannot write the user's state folder", hint="set XDG_STATE_HOME to a writable folder")
        self._folder = folder
        self._watched: dict[str, _Watched] = {}
        self._clock = FairClock()
        self._ticked = time.monotonic()
        self._said: dict[str, str] = {}
        self._agents = 0  # of all projects, as the roster says
        self._rooms: dict[str, int] = {}  # of each account that has a limit, its agents at once

    def run(self, *, once: bool = False) -> int:
        """Supervise the fleet until a signal arrives. Raise ``Busy`` if another supervisor is running."""
        lock = LockFile(os.path.join(self._folder, "fleet.lock"))
        if holder := lock.try_take():
            raise Busy(f"the fleet is already supervised by {holder}", hint="harness fleet status")
        try:
            self._remember()
            while not self._stop.requested():
                self.tick()
                if once:
                    break
                until = time.monotonic() + clock.scaled(TICK_SECONDS)
                while time.monotonic() < until and not self._stop.requested():
                    time.sleep(0.05)
            self._say("The supervisor has stopped; the runs continue.")
            return 0
        finally:
            lock.release()

    def _remember(self) -> None:
        known = status.seen()
        minutes = known.get("minutes")
        self._clock = FairClock(minutes if isinstance(minutes, dict) else {})
        found = known.get("projects")
        for path, told in found.items() if isinstance(found, dict) else ():
            watched = self._watched.setdefault(path, _Watched(member=Member(path=path, kind="")))
            watched.started = Owner.from_record(told.get("started")) if isinstance(told, dict) else None

    # ---- a round

    def tick(self) -> None:
        """Read the projects' states, divide the agents among the projects, and start or scale runs."""
        roster = self._read()
        self._agents = roster.agents
        members = {each.path: each for each in roster.members}
        for path, member in members.items():
            self._watched.setdefault(path, _Watched(member=member)).member = member
        for path in self._watched.keys() - members.keys():
            del self._watched[path]
        passed, self._ticked = time.monotonic() - self._ticked, time.monotonic()
        for each in self._watched.values():
            self._look(each)
            if each.agents:
                self._clock.used(each.member.path, each.agents * passed / 60)
        today = self._spent_today()  # with what those have cost that have just ended
        total = sum(today.values()) + sum(each.spent_live for each in self._watched.values())
        self._rooms = accounts.rooms(roster)
        requests = [
            request for each in self._watched.values() if (request := self._request(each, roster, today, total))
        ]
        self._clock.wanting((request.project, request.weight) for request in requests)
        given = shares(roster.agents, requests, self._rooms)
        is_paused = status.is_paused()
        free = roster.agents - sum(each.at_work for each in self._watched.values())
        room = {account: most - self._at_work(account) for account, most in self._rooms.items()}
        for each in sorted(self._watched.values(), key=self._turn):
            each.share = given.get(each.member.path, 0)
            least = min(free, room.get(each.account or "", free))
            may = min(each.share, each.at_work + max(0, least))  # others may still use more than their new share
            more = max(0, may - each.at_work)
            if each.alive:
                self._scale(each, max(1, may))
            elif may and not is_paused and time.monotonic() >= each.begin_at and self._begin(each, roster, may):
                more = may
            free -= more
            if each.account in room:
                room[each.account] -= more
        self._write(today)
        for problem in roster.problems:
            self._tell("roster", problem)

    def _turn(self, each: _Watched) -> tuple[int, float]:
        return each.member.priority, self._clock.minutes(each.member.path) / each.member.weight

    def _request(self, each: _Watched, roster: Roster, today: dict[str, float], total: float) -> SlotRequest | None:
        """Return the project's request for agents, or None if it gets no agents now."""
        # a used-up daily budget also ends the project's run
        spent = today.get(each.member.path, 0.0) + each.spent_live
        over = each.member.day_usd is not None and spent >= each.member.day_usd
        if over or (roster.day_usd is not None and total >= roster.day_usd):
            if each.alive:
                self._end_ours(each)
            each.state, each.why = "waits", f"{'its' if over else 'the'} budget of today is spent"
            each.begin_at = 0.0
            return None
        if each.state == "waits" and each.why.endswith("of today is spent"):
            each.state, each.why, each.look_at = "not looked at", "", 0.0
        if not each.alive and each.state not in ("open", "not looked at"):
            return None
        return SlotRequest(
            project=each.member.path,
            wants=max(each.agents, each.workable),
            most=each.member.workers,
            priority=each.member.priority,
            weight=each.member.weight,
            minutes=self._clock.minutes(each.member.path),
            account=self._account(each),
        )

    def _account(self, each: _Watched) -> str:
        # not needed while no account has a limit
        if self._rooms and each.account is None:
            each.account = accounts.of_member(each.member)
        return each.account or ""

    def _at_work(self, account: str) -> int:
        at_work = (each for each in self._watched.values() if each.at_work)
        return sum(each.at_work for each in at_work if self._account(each) == account)

    def _look(self, each: _Watched) -> None:
        """Read the state of the project's run, and of its items if the project has changed or a check is due."""
        self._look_at_run(each)
        stamp = self._stamp(each)
        if stamp == each.stamp and time.monotonic() < each.look_at:
            return
        changed = stamp != each.stamp
        if each.member.kind == slices.KIND:
            self._look_at_task(each, changed=changed)
            return
        view = self._counted(each)
        if view is None:
            return
        if each.alive or time.monotonic() < each.parked_until or (each.state == "parked" and not changed):
            return
        if view.state.questions and any(asked.stops for asked in view.state.questions):
            each.state, each.why = "needs you", view.state.questions[0].message
        elif view.state.rests:
            each.state, each.why = "rests", view.state.rests
        elif not each.workable:
            each.state, each.why = ("waits", "no item can be started now") if each.open else ("done", "")
        else:
            each.state, each.why = "open", ""

    def _look_at_run(self, each: _Watched) -> None:
        """Read the snapshot of the project's run, and record the end of the run."""
        run = status.run_of(each.member)
        was, each.alive = each.alive, bool(run and run.get("alive"))
        each.agents = min(run_snapshot.agents(run), self._agents)  # a lie takes no more from the others
        if each.alive and run:
            with suppress(OSError, HarnessError):  # last known value
                each.spent_live = status.spent_usd(each.member, run)
            each.state, each.why = "running", ""
            shown = Owner.from_record(run.get("owner"))
            if each.process is not None and shown is not None and shown.pid == each.process.pid:
                each.started = shown  # only this process is ours, whatever the file says
        self._reap(each)
        if not each.alive and each.process is None:
            each.spent_live = 0.0  # its result is in the ledger
        if was and not each.alive:
            each.look_at = 0.0

    def _look_at_task(self, each: _Watched, *, changed: bool) -> None:
        each.stamp, each.account = self._stamp(each), None
        each.look_at = time.monotonic() + clock.scaled(LOOK_SECONDS)
        try:
            state, why, seconds = slices.due(each.member.path)
        except (HarnessError, OSError) as error:
            each.state, each.why, each.workable = "parked", str(error), 0
            return
        each.open, each.proven, each.workable = int(state != "done"), int(state == "done"), int(state == "open")
        if seconds is not None:
            each.look_at = min(each.look_at, time.monotonic() + clock.scaled(seconds))
        rests = time.monotonic() < each.parked_until or (each.state == "parked" and not changed)
        if not (each.alive or each.process or rests):
            each.state, each.why = state, why

    def _counted(self, each: _Watched) -> ProjectView | None:
        """Count the project's items. Return the project's view, or None if the project is unreadable."""
        member = each.member
        each.stamp, each.look_at = self._stamp(each), time.monotonic() + clock.scaled(LOOK_SECONDS)
        each.account = None
        try:
            view = reader_of(member.kind, member.path).load()
        except (HarnessError, OSError) as error:
            each.state, each.why, each.workable = "parked", str(error), 0
            return None
        proven = {item.id for item in view.items if item.state in ("proven", "checked")}
        still = [item for item in view.items if item.state in ("open", "working")]
        each.proven, each.open = len(proven), len(still)
        each.workable = sum({*item.waits_for} <= proven for item in still)
        return view

    def _reap(self, each: _Watched) -> None:
        """If the project's run has ended, record its cost and result."""
        process = each.process
        if process is None or process.poll() is None:
            return
        each.process = None
        is_slice = each.member.kind == slices.KIND
        answer = slices.answer(self._printed(each)) if is_slice else self._answer(each)
        if cost := slices.cost_usd(answer) if is_slice else dollars(answer.get("cost_usd")):
            row = {"at": clock.timestamp(), "path": each.member.path, "cost_usd": cost}
            journal.append(os.path.join(self._folder, "ledger.jsonl"), row)
        each.look_at = 0.0
        if is_slice:
            self._slice_over(each, process.returncode, answer)
            return
        if ending := _ENDINGS.get(process.returncode):
            self._counted(each)
            each.state, each.why = ending[0], str(answer.get("message") or ending[1])
            self._tell(each.member.path, f"{each.member.path}: {each.state} ({each.why})")
            if ending[0] == "waits" and each.workable:
                each.begin_at = time.monotonic() + clock.scaled(LOOK_SECONDS)
            return
        self._died(each, "its run crashed", process.returncode)

    def _slice_over(self, each: _Watched, code: int, answer: JsonObject) -> None:
        """After a slice, set the project's state and the start time of the next slice."""
        if answer.get("decision") == "wait":
            seconds = number_below(answer.get("waitSeconds"), 1e9) or MOST_WAIT_SECONDS
            each.begin_at = time.monotonic() + clock.scaled(seconds)
        elif code == 1 and not answer:
            each.stamp, each.state = self._stamp(each), "parked"
            each.why = next(reversed(self._printed(each)), "its slice could not start")
            self._tell(each.member.path, f"{each.member.path}: {each.state} ({each.why})")
        elif code in _TOLD_TO_END:
            each.begin_at = time.monotonic() + clock.scaled(MOST_WAIT_SECONDS)
        elif code:
            self._died(each, "its slice failed", code)
        else:
            each.deaths = []

    def _died(self, each: _Watched, what: str, code: int) -> None:
        """After a crash, delay the project's next run. After too many crashes, park the project."""
        now = time.monotonic()
        each.deaths = [at for at in each.deaths if now - at < clock.scaled(HOUR_SECONDS)] + [now]
        if len(each.deaths) >= DEATHS_AN_HOUR:
            each.state, each.why = "parked", f"{what} {len(each.deaths)} times in an hour: {self._log(each)}"
            each.parked_until = now + clock.scaled(HOUR_SECONDS)
        else:
            each.state, each.why = "open", f"{what} ({code})"
            each.begin_at = now + clock.scaled(min(MOST_WAIT_SECONDS, 2.0 ** (len(each.deaths) - 1)))
        self._tell(each.member.path, f"{each.member.path}: {each.why}")

    def _stamp(self, each: _Watched) -> object:
        if each.member.kind == slices.KIND:
            return slices.stamp(each.member.path)
        name = "features.json" if each.member.kind == "features" else "harness-tasks.json"
        return files.stamp_of(os.path.join(each.member.path, name))

    # ---- runs

    def _log(self, each: _Watched) -> str:
        return os.path.join(self._folder, "logs", f"{trusted_state.name_of(each.member.path)}.log")

    def _begin(self, each: _Watched, roster: Roster, workers: int) -> bool:
        """Start a run of the project. Return False if the previous run has not ended."""
        if each.process is not None:
            return False
        is_slice = each.member.kind == slices.KIND
        words = slices.command(each.member) if is_slice else _command(each.member, roster, workers)
        log = self._log(each)
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        with open(log, "wb") as out:
            each.process = subprocess.Popen(
                words, cwd=each.member.path, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        each.given, each.state, each.why, each.alive = workers, "running", "", False
        self._tell(
            each.member.path, f"{each.member.path}: starts {'a slice' if is_slice else f'with {workers} agents'}"
        )
        return True

    def _printed(self, each: _Watched) -> list[str]:
        with suppress(OSError, HarnessError):
            return files.read_bytes(self._log(each)).decode("utf-8", "replace").splitlines()
        return []

    def _answer(self, each: _Watched) -> JsonObject:
        for line in reversed(self._printed(each)):
            if line.startswith("{"):
                with suppress(ValueError):
                    found = jsontext.loads(line, exact=False)
                    return found if isinstance(found, dict) else {}
        return {}

    def _scale(self, each: _Watched, workers: int) -> None:
        # a superfluous slot closes when its current attempt ends
        if each.member.kind == slices.KIND:
            return  # there is one agent, and it ends with its slice
        if workers == each.given or (each.process is None and each.started is None):
            return  # a person's run keeps the workers that the person chose
        try:
            _runs_of(each.member).ask("scale", workers=workers)
        except HarnessError:
            return  # it ends, or is busy: the next round asks again
        each.given = workers

    def _end_ours(self, each: _Watched) -> None:
        """Interrupt the project's run if a fleet supervisor started this run."""
        run = status.run_of(each.member)
        shown = Owner.from_record((run or {}).get("owner"))
        if run and run.get("alive") and shown is not None and shown == each.started:
            with suppress(OSError):
                os.kill(shown.pid, signal.SIGINT)

    # ---- stored state

    def _spent_today(self) -> dict[str, float]:
        today = clock.timestamp()[:10]
        found: dict[str, float] = {}
        for row in journal.tail(os.path.join(self._folder, "ledger.jsonl"), 20_000):
            if str(row.get("at", ""))[:10] == today and (cost := dollars(row.get("cost_usd"))):
                path = str(row.get("path"))
                found[path] = found.get(path, 0.0) + cost
        return found

    def _write(self, today: dict[str, float]) -> None:
        projects = {
            each.member.path: {
                "state": each.state,
                "why": each.why[:300].encode("utf-8", "replace").decode(),
                "share": each.share,
                "open": each.open,
                "proven": each.proven,
                "today_usd": round(today.get(each.member.path, 0.0) + each.spent_live, 4),
                "started": each.started.as_record() if each.started else None,
                "account": each.account,
            }
            for each in self._watched.values()
        }
        known = {"v": 1, "at": clock.timestamp(), "projects": projects, "minutes": self._clock.as_record()}
        known |= {"accounts": self._rooms}
        files.write_json(os.path.join(self._folder, status.STATE), known)

    def _tell(self, about: str, text: str) -> None:
        if self._said.get(about) != text:
            self._said[about] = text
            self._say(text)


def _command(member: Member, roster: Roster, workers: int) -> list[str]:
    words = [sys.executable, "-P", "-m", "agent_harness.cli.main", "run", "--workers", str(workers), "--json"]
    words += [word for spec in member.agents for word in ("--agent", spec)]
    return words + (["--engine", with_priority(roster.engine, member.priority, member.weight)] if roster.engine else [])


def _runs_of(member: Member) -> ParallelRuns:
    if member.kind == "features":
        from pathlib import Path

        from agent_harness.protocols.features.api import FeatureProject

        return FeatureProject.open(Path(member.path)).parallel_runs()
    from agent_harness.protocols.tasklist.api import TaskList

    return TaskList.open(member.path).parallel_runs()


def why(roster: Roster, path: str) -> list[str]:
    """Return lines that explain why the project gets its number of agents."""
    found = next((row for row in status.rows(roster) if row["path"] == path), None)
    if found is None:
        return [f"{path} is not in the fleet: harness fleet add {path}"]
    known = status.seen().get("minutes")
    minutes = float((known if isinstance(known, dict) else {}).get(path, 0.0))
    text = [f"{path}: {found['state']}" + (f" ({found['why']})" if found["why"] else "")]
    text.append(f"The project runs {found['agents']} agents; its share is {found['share']} of {roster.agents}.")
    text.append(
        f"Priority {found['priority']}, weight {found['weight']:g}; {minutes:.0f} agent-minutes counted so far. "
        f"Last round of the supervisor: {status.age()}."
    )
    account, rooms = found["account"], status.seen().get("accounts")
    if account and isinstance(rooms, dict) and account in rooms:
        text.append(
            f"Its agents use the account {account}; the fleet may run {rooms[account]} of these agents at a time."
        )
    above = [row for row in status.rows(roster) if row["priority"] < found["priority"] and row["share"]]
    if above and not found["share"]:
        text.append(
            f"{len(above)} projects with a higher priority get {sum(int(row['share']) for row in above)} agents."
        )
    return text
