"""Merge queue: proven candidates are combined into batches, verified, and then merged or rejected. (SC-30..37)"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import merged
from agent_harness.kernel.git.status import shown
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import plan
from agent_harness.parallel.batching import Search, Trial
from agent_harness.parallel.items import BROKEN, GREEN, PARTIAL, RED, LandedItem, OpenItem, ProjectPort, result_of_job
from agent_harness.parallel.ledger import Ledger
from agent_harness.parallel.merge_queue import candidates, objects, trailers
from agent_harness.parallel.merge_queue.branch import AGAIN_SECONDS, TargetBranch
from agent_harness.parallel.merge_queue.objects import InTheWay
from agent_harness.parallel.merge_queue.pushing import Pusher
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.supervision.interruption import Stop

BRANCH_GONE = "branch_gone"
"""Reason recorded for a run that is blocked because its branch was deleted. The next run checks the branch again."""
BASE = "base"
"""Name of the run of checks on the head to which a batch will be merged."""
AUDITS = 2
"""Maximum number of final proofs after which failing items are reopened. After one more failure, the user is asked."""


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """One run of checks on a commit of a batch, or on a head of the branch."""

    name: str
    commit: str
    checks: list[JsonObject]
    batch: int = 0
    trial: Trial | None = None


class MergeQueue:
    """Merge queue for the proven items of one run."""

    def __init__(
        self,
        port: ProjectPort,
        git: Git,
        folder: str,
        *,
        branch: str,
        ledger: Ledger,
        refs: ProjectRefs,
        # starts a run of checks
        job: Callable[[CheckRun], None],
        say: Callable[[str], None],
        stop: Stop,
    ) -> None:
        self.branch = TargetBranch(git, branch, say)
        self._port = port
        self._git = git
        self._folder = folder
        self._ledger = ledger
        self._refs = refs
        self._job = job
        self._say = say
        self._stop = stop
        self._pusher = Pusher(port, git, folder, branch=self.branch, ledger=ledger, refs=refs, say=say)
        self._audits = 0
        self._hunt: Search | None = None  # for the landing that made the head red
        self._red = ""  # that head
        self._passes: tuple[str, ...] = ()  # a head, and checks that pass on it
        self._excused: set[str] = set()  # checks that fail on the head, whatever lands
        self._failures: dict[int, str] = {}  # output of the first check that failed on a batch
        self._apart: tuple[str, frozenset[str]] = ("", frozenset())  # what does not combine with this commit
        self._held_up: dict[str, InTheWay] = {}  # items that do not land, since a person has something in their way
        self._held_until = 0.0  # of the monotonic clock; then they are tried again
        self._tried_last = False  # since something landed last

    @property
    def _plan(self) -> plan.RunPlan:
        return self._ledger.plan

    @property
    def apart(self) -> frozenset[str]:
        """Items that must wait because they conflict with an earlier batch."""
        known = self._plan.under_way
        return self._apart[1] if known and self._apart[0] == known[-1].tip else frozenset()

    @property
    def held_up(self) -> frozenset[str]:
        """Items whose merge the user's files block until the next retry."""
        if time.monotonic() >= self._held_until:
            self._held_up.clear()
        return frozenset(self._held_up)

    @property
    def in_the_way(self) -> InTheWay | None:
        """Error about the user's files that prevent a merge, or None."""
        return next(iter(self._held_up.values()), None) or self.branch.in_the_way

    def try_last(self) -> bool:
        """Allow one last retry of blocked merges. Return False if no retry is needed or allowed."""
        if self._tried_last or not (self._held_up or self.branch.in_the_way):
            return False
        self._tried_last, self._held_until = True, 0.0
        self.branch.look_again()
        return True

    # ---- candidates

    def combine(self, items: Sequence[str]) -> bool:
        """Combine candidates into a batch on top of the head. Return True if the plan has changed."""
        head = self.branch.tip
        if not head:
            self._ledger.note("blocked", reason=BRANCH_GONE)
            return True
        if head != self._plan.head:
            self._ledger.note("head_moved", head=head)
            self._say(
                f"{self.branch.name} was moved to {head[:10]} by someone else. The harness verifies that commit first"
            )
            return True
        if gone := self._not_ours(items):
            for item in gone:
                work = self._plan.work(item)
                ref = candidates.set_aside(self._git, work.job, work.commit)
                self._ledger.note("dropped", item=item)
                self._say(f"{item} is no longer assigned to this run; its proven work is in {ref}")
            return True
        members, commits, apart = self._combined(items, head)
        for item, files_of in apart.items():
            before = items[: items.index(item)]
            met = [each for each in members if each in before]
            self.note_rejected(item, {"why": "conflict", "files": files_of, "met": met})
        if not members:
            return True
        is_same = len(members) == 1 and self._plan.work(members[0]).proven_on == head
        is_ours = not self._result(members[0]).get("host")  # what another machine has found is looked at here
        was_sent_back = self._port.checks_rejected and self._plan.work(members[0]).rejections > 0
        is_enough = is_ours and not (self._port.checks_each or was_sent_back)
        vouched = is_same and is_enough and not self._may_break(head, commits[0], members)
        self._batch(members, commits, head, vouched=vouched)
        return True

    def _may_break(self, head: str, commit: str, members: Sequence[str]) -> bool:
        """Return True if ``commit`` must pass checks of items outside ``members``."""
        if not self._port.checks_rejected:
            return False
        return any(each["name"] not in members for each in self._port.checks(head, commit, members))

    def combine_ahead(self, items: Sequence[str], on: str) -> bool:
        """Combine candidates into a batch on top of ``on``, the commit of an unverified batch."""
        if gone := self._not_ours(items):
            items = [each for each in items if each not in gone]
        members, commits, apart = self._combined(items, on)
        known = self._apart[1] if self._apart[0] == on else frozenset()
        self._apart = (on, known | {*apart, *gone})
        if members:
            self._batch(members, commits, on, vouched=False)
        return True

    def _combined(self, items: Sequence[str], head: str) -> tuple[list[str], list[str], dict[str, list[str]]]:
        """Merge candidates one by one. Return the merged items, new commits, and conflicts by skipped item."""
        members: list[str] = []
        commits: list[str] = []
        apart: dict[str, list[str]] = {}
        for item in items:
            work = self._plan.work(item)
            on = commits[-1] if commits else head
            found = self._port.merged(on, work.proven_on, work.commit, item, proven=True)
            if found.conflicts:
                apart[item] = [*found.conflicts]
                continue
            commits.append(objects.put_on(self._git, on, self._candidate(item, work), found.tree))
            members.append(item)
        return members, commits, apart

    def _candidate(self, item: str, work: plan.ItemProgress) -> objects.Candidate:
        said = self._git.text("log", "-1", "--no-show-signature", "--format=%B", work.commit)
        told = str(self._result(item).get("subject") or said).rstrip()
        named = {
            objects.ITEM_TRAILER: item,
            "Harness-Attempt": work.job,
            trailers.CANDIDATE_TRAILER: work.commit,
        }
        lines = [f"{name}: {' '.join(value.split())}" for name, value in named.items()]
        return objects.Candidate(commit=work.commit, message="\n".join([told, "", *lines, ""]))

    def _batch(self, members: list[str], commits: list[str], base: str, *, vouched: bool) -> None:
        tip = objects.tip_of(self._git, base, commits, members)
        self._git.update_ref(self._refs.landing, tip)
        self._ledger.note("batched", members=members, commits=commits, base=base, vouched=vouched, tip=tip)

    def _not_ours(self, items: Sequence[str]) -> list[str]:
        return [item for item in items if not self._port.holds(self._plan.work(item).job, item)]

    def _result(self, item: str) -> JsonObject:
        return result_of_job(self._folder, self._plan.work(item).job)

    # ---- checks

    def check(self, number: int, trial: Trial) -> bool:
        """Start the checks of a part of a batch. Return True if no check is needed."""
        batches = self._plan.under_way
        at = next(at for at, each in enumerate(batches) if each.id == number)
        batch, commit = batches[at], batches[at].commits[trial.prefix - 1]
        before = {item: sha for each in batches[:at] for item, sha in zip(each.members, each.commits, strict=True)}
        members = batch.members[: trial.prefix]
        checks = self._port.checks(batch.base, commit, members, before, self._unseen(batch.base, members))
        excused = self._excused - self._broken_by(members)
        checks = [each for each in checks if each["name"] not in excused]
        if trial.only:
            checks = [each for each in checks if each["name"] in trial.only]
        if not checks:
            self._verified(batch.id, trial, GREEN, ())
            return True
        self._job(CheckRun(name=f"batch-{batch.id}", commit=commit, checks=checks, trial=trial, batch=batch.id))
        return False

    def _unseen(self, base: str, members: Sequence[str]) -> set[str]:
        """Return the already merged items whose checks the work of ``members`` may break."""
        # merged after the members' attempts began, or broken by the members before
        bases = {self._plan.work(item).proven_on for item in members}
        landed = (trailers.landed_between(self._git, each, base) for each in bases)
        return self._broken_by(members).union(*landed) - {*members}

    def _broken_by(self, members: Sequence[str]) -> set[str]:
        mends = (self._plan.work(item).last_fix or {} for item in members)
        return {str(name) for fix in mends for name in fix.get("failing") or ()}

    def check_head(self, head: str) -> bool:
        """Start the checks of a head that is not verified yet. Return True if no check is needed."""
        joined = self._plan.joined
        checks = self._port.checks(joined.before if joined else self._plan.head, head, None)
        if not checks and joined:
            self._pusher.judge_joined({}, GREEN, [])
            return True
        if not checks:
            self._ledger.note("head_trusted", head=head, audit=True)
            return True
        if self._hunt and not joined and (trial := self._hunt.next_trial()):
            only = [each for each in checks if each["name"] in trial.only]
            self._job(CheckRun(name="head", commit=self._plan.landed[trial.prefix - 1]["commit"], checks=only))
            return False
        self._job(CheckRun(name="head", commit=head, checks=checks))
        return False

    def checked(self, run: CheckRun, found: JsonObject) -> None:
        said = found.get("status")
        result = str(said) if said in (GREEN, RED) else BROKEN
        failing = [str(each) for each in found.get("failing") or []]
        if run.trial:
            batch = next((each for each in self._plan.under_way if each.id == run.batch), None)
            if batch is None:
                return  # it is verified on a head that there will not be
            if result == RED:
                self._failures = {run.batch: str(found.get("output") or "")[-4000:], **self._failures}
            why = f" ({found['message']})" if result == BROKEN and found.get("message") else ""
            told = " ".join([result, *failing])
            self._say(f"Batch {batch.id}, {run.trial.prefix} of {len(batch.members)}: {told}{why}")
            self._verified(batch.id, run.trial, result, failing)
        elif run.name == BASE:
            self._judge_base(run, result, failing)
        elif self._plan.joined:
            self._pusher.judge_joined(found, result, failing)
        elif self._plan.suspect:
            self._judge_head(run.commit, result, failing)
        else:
            self._audit(run.commit, result, failing)

    def _verified(self, batch: int, trial: Trial, result: str, failing: Sequence[str]) -> None:
        known = {"batch": batch, "prefix": trial.prefix, "only": [*trial.only]}
        self._ledger.note("verified", **known, result=result, failing=[*failing])

    def _judge_head(self, head: str, result: str, failing: list[str]) -> None:
        if result == GREEN:
            self._ledger.note("head_trusted", head=head)
        else:
            self._block("head_red" if result == RED else "landing_broken", head, failing)
            self._say(f"{self.branch.name} at {head[:10]} fails these checks: {', '.join(failing) or 'all'}")

    def _block(self, reason: str, head: str, failing: Sequence[str]) -> None:
        self._ledger.note("blocked", reason=reason, head=head, failing=[*failing])

    def _audit(self, head: str, result: str, failing: list[str]) -> None:
        """Process the result of the checks on the head. After a failure, search for the responsible merge."""
        if self._hunt and (trial := self._hunt.next_trial()):
            self._hunt = self._hunt.after(trial, result, tuple(failing))
            self._ledger.note("sought", commit=head, result=result, failing=failing)
            self._go_on_hunting()
            return
        self._audits += 1
        if result == BROKEN:
            self._block("landing_broken", head, failing)
        elif result == RED and self._audits > AUDITS:
            self._block("head_red", head, failing)
        elif result == RED:
            self._hunt = Search(size=len(self._plan.landed), high=len(self._plan.landed), failing=tuple(failing))
            self._red = head
            self._ledger.note("sought", commit=head, result=result, failing=failing)
            self._say(f"{head[:10]} fails these checks: {', '.join(failing)}; searching for the merge that broke them")
            self._go_on_hunting()
        else:
            self._excused.clear()
            self._ledger.note("head_trusted", head=head, audit=True)

    def _go_on_hunting(self) -> None:
        """Continue the search for the merge that broke items. Reopen its item, or the failing items."""
        hunt = self._hunt
        assert hunt is not None
        if hunt.failing_change is None and hunt.next_trial():
            return
        self._hunt, failing = None, [*hunt.failing]
        breaks = str(self._plan.landed[hunt.failing_change - 1]["item"]) if hunt.failing_change and hunt.low else ""
        if breaks and breaks not in failing:
            told = f"its merge breaks work that was merged before: {', '.join(failing)}"
            self._port.reopen([breaks], told)
            self._ledger.note("reopened", items=[breaks], mend={"why": "red", "failing": failing, "met": failing})
            self._say(f"Open again: {breaks}; {told}")
        else:
            self._port.reopen(failing, "it fails on the branch, together with work that was merged since")
            self._ledger.note("reopened", items=failing, mend={"why": "red", "failing": failing})
            self._say(f"Open again, because their checks fail on the branch: {', '.join(failing)}")
        self._ledger.note("head_trusted", head=self._red, audit=True)

    # ---- rejection

    def reject(self, item: str) -> bool:
        """Reject the item that breaks its batch. Return False if checks on the base must run first."""
        batch = self._plan.batch
        assert batch is not None
        landed = (self._unseen(batch.base, batch.members) | self._plan.works.keys()) - self._broken_by([item])
        others = [each for each in batch.search.failing if each in landed and each not in batch.members]
        if others and (batch.base, *others) != self._passes:
            checks = self._port.checks(batch.base, batch.base, (), None, others)
            wanted = [each for each in checks if each["name"] in others]
            # if these checks also fail on the base, the batch is not to blame
            if wanted:
                self._job(CheckRun(name=BASE, commit=batch.base, checks=wanted))
                return False
        met = batch.members[: batch.members.index(item)]
        output = self._failures.get(batch.id, "")
        self.note_rejected(item, {"why": "red", "failing": [*batch.search.failing], "output": output, "met": met})
        return True

    def _judge_base(self, run: CheckRun, result: str, failing: Sequence[str]) -> None:
        names = [str(each["name"]) for each in run.checks]
        if result == GREEN:
            self._passes = (run.commit, *names)
            return
        self._excused |= {*failing} or {*names}
        self._say(
            f"{', '.join(failing or names)}: already failed on {run.commit[:10]}, so the new work is not the cause"
        )
        self._ledger.note("released", singly=False)

    def note_rejected(self, item: str, fix: JsonObject) -> None:
        """Reject a candidate. ``fix`` describes the problem that the next attempt at the item must fix."""
        self._ledger.note("bounced", item=item, mend=fix)
        work = self._plan.work(item)
        what = ", ".join(fix.get("files") or fix.get("failing") or [])
        self._say(f"{item}: not merged ({fix['why']}: {what})")
        self._port.ended(
            work.job, item, {"status": PARTIAL, "reason": "bounced", "mend": fix, "proven": self._result(item)}, []
        )

    def begun_on(self, work: plan.ItemProgress, item: OpenItem, base: str) -> tuple[str, JsonObject | None]:
        """Return the commit from which an attempt starts and, for a fix, the problem to fix."""
        parent = self._git.commit_of(f"{work.own}^1") if work.own else None
        if work.own and parent:
            # to fix merged work, start from the head without it; the agent's files contain it
            without = merged(self._git, base, work.own, parent)
            tree = self._git.tree_of(base)
            if not without.conflicts and without.tree != tree:
                made = self._git.commit_tree(without.tree, [base], f"Before {item.name}, which is to be fixed")
                self._git.update_ref(self._refs.fix(item.name), made)
                return made, {**(work.fix or {}), "files": [], "seed": tree, "work": work.own}
        return base, self.seeded(work, item, base) if work.fix and not work.own else None

    def seeded(self, work: plan.ItemProgress, item: OpenItem, base: str) -> JsonObject:
        """Merge the rejected work into ``base``. Return the problem to fix, with the merged tree."""
        found = self._port.merged(base, work.proven_on, work.commit, item.id, proven=False)
        seed = self._git.commit_tree(found.tree, [base], f"Work on {item.name}, to be fixed")
        self._git.update_ref(self._refs.fix(item.name), seed)
        named = [shown(each.encode("utf-8", "surrogateescape")) for each in found.conflicts]
        return {**(work.fix or {}), "files": named, "seed": found.tree, "work": work.commit}

    # ---- landed

    def land(self, most: int) -> bool:
        """Merge the first ``most`` members of the batch. Return True if the plan has changed."""
        batch = self._plan.batch
        assert batch is not None
        if not batch.landing:
            if self._not_ours(batch.members[:most]):
                self._ledger.note("released", singly=False)
                return True
            tip = batch.tip if most == len(batch.members) else ""
            if not tip:
                tip = objects.tip_of(self._git, batch.base, batch.commits[:most], batch.members[:most])
                self._git.update_ref(self._refs.landing, tip)
            self._ledger.note("landing", batch=batch.id, commit=tip, count=most, expected=batch.base)
        try:
            with self._stop.held():
                return self._carry_landing_out(batch)
        except UnsafeTree as error:
            if self.branch.tip == batch.base:
                raise
            self._say(f"Not merged: {error.message}")
            self._ledger.note("released", singly=False)
            return True

    def _carry_landing_out(self, batch: plan.LandingBatch) -> bool:
        if not self.branch.bring(batch.base, batch.landing):
            self._hold_up(batch)
            return True
        self._tried_last = False
        pairs = [*zip(batch.members[: batch.count], batch.commits, strict=False)]
        self._port.finalize(
            [
                LandedItem(item=item, job=self._plan.work(item).job, commit=sha, result=self._result(item))
                for item, sha in pairs
            ]
        )
        push = self._port.push_target is not None
        may_break = self._port.checks_rejected and bool(self._plan.landed)  # an item's own check asks for no other
        self._ledger.note("landed", batch=batch.id, commit=batch.landing, push=push, may_break=may_break)
        candidates.let_go(self._git, self._refs, [self._plan.work(item) for item, _ in pairs])
        if not self._plan.under_way:
            self._git.update_ref(self._refs.landing, None)
        self._say(f"Merged {', '.join(item for item, _ in pairs)} as {batch.landing[:10]}")
        return True

    def _hold_up(self, batch: plan.LandingBatch) -> None:
        """Postpone the batch members whose merge the user's files block."""
        error = self.branch.in_the_way
        assert error is not None
        members = batch.members[: batch.count]
        before = [batch.base, *batch.commits]
        met = [
            item
            for item, old, new in zip(members, before, batch.commits, strict=False)
            if error.paths & self._git.differences(old, new).keys()
        ]
        self._held_up |= dict.fromkeys(met or members, error)
        self._held_until = time.monotonic() + clock.scaled(AGAIN_SECONDS)
        self._ledger.note("released", singly=False)

    @property
    def is_pushing(self) -> bool:
        """True while a push is running. During a push, nothing is merged, but agents continue."""
        return self._pusher.is_pushing

    def push(self) -> bool:
        """Do the next step of a push. Return True if another step can follow now."""
        # SC-39
        with self._stop.held():
            return self._pusher.push()
