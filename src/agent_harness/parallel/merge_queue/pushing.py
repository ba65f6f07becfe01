"""Push of merged commits. If the remote has new commits, the merged work is rebased onto these commits and verified.
(SC-39)
"""

import os
import threading
from collections.abc import Callable

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import Pushed, PushTarget, on_top_of
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.kernel.terminal import printable
from agent_harness.parallel import workspaces
from agent_harness.parallel.items import GREEN, RED, ProjectPort
from agent_harness.parallel.ledger import Ledger
from agent_harness.parallel.merge_queue.branch import TargetBranch
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.plan import JoinedHead

JOINS = 3
"""Maximum number of consecutive times that merged commits are rebased onto new remote commits."""


class PushUnderWay:
    """Git push that runs in a separate thread, so that a slow remote does not delay the run."""

    def __init__(self, git: Git, target: PushTarget, commit: str) -> None:
        self.commit, self.done = commit, Pushed(ok=False, rejected=False, message="the push was stopped")
        self._git, self._target = Git(git.root), target
        self._thread = threading.Thread(target=self._run, name="push", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.done = self._target.push(self._git, self.commit)

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()


class Pusher:
    """Push of merged commits, in steps that a new process can repeat after a kill."""

    def __init__(
        self,
        port: ProjectPort,
        git: Git,
        folder: str,
        *,
        branch: TargetBranch,
        ledger: Ledger,
        refs: ProjectRefs,
        say: Callable[[str], None],
    ) -> None:
        self._port = port
        self._git = git
        self._proof = os.path.join(folder, "joined.json")
        self._branch = branch
        self._ledger = ledger
        self._refs = refs
        self._say = say
        self._under_way: PushUnderWay | None = None

    @property
    def is_pushing(self) -> bool:
        """True from the start of a push until the remote has answered."""
        return self._under_way is not None and self._under_way.goes_on

    def push(self) -> bool:
        """Do the next step of a push. Return True if another step can follow now."""
        known = self._ledger.plan
        if known.joined:
            return self._take_joined(known.joined)
        commit, target = known.unpushed, self._port.push_target
        if target is None or (self._branch.tip and not self._branch.holds(commit)):
            self._ledger.note("pushed", head=known.head)  # no longer requested
            return True
        if self._under_way is None or self._under_way.commit != commit:
            self._under_way = PushUnderWay(self._git, target, commit)
            return True
        if self._under_way.goes_on:
            return False
        done, self._under_way = self._under_way.done, None
        self._answered(done, commit, target)
        return True

    def _answered(self, done: Pushed, commit: str, target: PushTarget) -> None:
        known = self._ledger.plan
        if done.ok:
            self._ledger.note("pushed", head=known.head)
            self._port.note_push("pushed", commit, f"Pushed {commit[:10]}.")
            return
        if done.rejected:
            self._port.note_push("push_failed", commit, done.message)
            self._join(commit, target, done.message)
            return
        self._ledger.note("pushed", head=known.head, remote=target.remote, away=_reason(done.message))
        told = str((known.left_unpushed or {}).get("message"))
        self._port.note_push("push_failed", commit, told)
        self._say(told)

    def _join(self, commit: str, target: PushTarget, said: str) -> None:
        """Rebase merged work onto the remote's commits. Give up the push if the rebase fails."""
        try:
            theirs = target.incoming(self._git, workspaces.free_ref(self._git, self._refs.incoming))
            if self._git.ancestor(theirs, commit) or self._ledger.plan.joins >= JOINS:
                raise UnsafeTree(said)
            found = on_top_of(self._git, theirs, commit)
            if found.problem:
                raise UnsafeTree(found.problem)
            self._port.refuse_joined(found.tip)
        except HarnessError as error:
            self._give_up(commit, error.message)
            return
        self._git.update_ref(self._refs.joined, found.tip)
        self._ledger.note("joined", commit=found.tip, before=commit, base=theirs, renamed=dict(found.renamed))
        self._say(f"The remote has new commits; the merged work is verified on top of them, as {found.tip[:10]}.")

    def judge_joined(self, found: JsonObject, result: str, failing: list[str]) -> None:
        """Record the rebased work as proven if its checks passed. Otherwise, give up the push."""
        joined = self._ledger.plan.joined
        assert joined is not None
        if result == GREEN:
            files.write_json(self._proof, {**found, "commit": joined.commit})
            self._ledger.note("join_proven", commit=joined.commit)
            return
        told = f"these checks fail: {', '.join(failing)}" if result == RED else "the result could not be verified"
        self._give_up(joined.before, told)

    def _take_joined(self, joined: JoinedHead) -> bool:
        """Move the branch to the verified, rebased commit. Return False if the user's files prevent the move."""
        try:
            if not self._branch.bring(joined.before, joined.commit):
                return False
        except UnsafeTree as error:
            self._give_up(joined.before, error.message)
            return True
        self._port.joined(joined.renamed, joined.commit, files.read_json_if_any(self._proof))
        self._ledger.note("join_moved", commit=joined.commit)
        self._git.update_ref(self._refs.joined, None)
        self._port.note_push("pulled", joined.commit, f"{joined.before[:10]} is {joined.commit[:10]} now")
        return True

    def _give_up(self, commit: str, problem: str) -> None:
        told = " ".join(redact(problem).split())[:300]
        paused = (
            f"The push of {commit[:10]} was rejected, and the work cannot be put on top of the remote's commits: {told}"
        )
        self._ledger.note("pushed", head=self._ledger.plan.head, problem=paused)
        self._port.note_push("push_given_up", commit, paused)
        self._say(f"{paused}\nThe commit stays on its branch, not pushed. Pull and push manually, then: harness resume")


def _reason(said: str) -> str:
    lines = (line.strip() for line in redact(said).splitlines())
    first = next(filter(None, lines), "it did not answer")
    return printable(first.removeprefix("fatal: ").removeprefix("error: "))[:200]
