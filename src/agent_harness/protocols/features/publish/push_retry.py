"""A push that the remote has rejected: pulled once, proven again, pushed again; else paused with the commit kept.

    fetch        what the remote has, on a private ref
    join         our commits on top of it, as objects (``on_top_of``); never a merge, never a force-push
    prove        the whole suite on the result: what was pulled is nobody's proof of ours
    move         the branch and the files, where no change of a person is in the way
    push         once more

The join is a rebase that cannot stop half-way: each commit is merged with what it is put on, from its own first parent,
and made again with its author and message. A conflict is an answer, not a state of the repository.

Whatever does not go well leaves the branch as it was, with the accepted commit on it, and pauses the project.
Source: features.md UAH-380, C30.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git, GitFailed, Upstream
from agent_harness.kernel.json import jsontext
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import private_refs, records
from agent_harness.protocols.features.engine.settlement import Settled, Settlement
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.verdict.judge import Judge


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The new tip, and for each old commit the new one; or why the two lines do not go together."""

    tip: str = ""
    renamed: dict[str, str] | None = None
    problem: str | None = None


def on_top_of(git: Git, base: str, tip: str) -> Joined:
    """The commits of ``tip`` that ``base`` does not hold, oldest first, made again on top of ``base``."""
    fork = git.text("merge-base", base, tip, check=False)
    if not fork:
        return Joined(problem="the two have no commit in common")
    old = git.text("rev-list", "--reverse", "--first-parent", f"{fork}..{tip}").split()
    new = base
    renamed: dict[str, str] = {}
    for commit in old:
        tree = _merged(git, new, commit)
        if tree is None:
            return Joined(problem=f"{commit[:10]} does not go together with what is there")
        new = renamed[commit] = _remade(git, commit, tree, new)
    return Joined(tip=new, renamed=renamed)


def _merged(git: Git, onto: str, commit: str) -> str | None:
    """The tree of ``onto`` with what ``commit`` changed; ``None`` where that is a conflict."""
    parent = git.commit_of(f"{commit}^1")
    parents = [parent] if parent else []
    ours = git.commit_tree(git.tree_of(onto), parents, "ours")
    theirs = git.commit_tree(git.tree_of(commit), parents, "theirs")
    try:
        return git.text("merge-tree", "--write-tree", "--no-messages", ours, theirs).split()[0]
    except GitFailed as error:
        if error.status == 1:
            return None
        raise


def _remade(git: Git, commit: str, tree: str, parent: str) -> str:
    """The commit with its author, time and message, on another parent and with another tree."""
    words = ("log", "-1", "--no-show-signature", "--format=%an%x00%ae%x00%aI%x00%B", commit)
    name, address, at, message = os.fsdecode(git.run(*words)).split("\0", 3)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": at}
    env = git.identity_variables() | author
    made = git.run("commit-tree", tree, "-p", parent, input=os.fsencode(message.rstrip("\n") + "\n"), env=env)
    return os.fsdecode(made).strip()


@dataclass(frozen=True, kw_only=True)
class Published:
    """The commit that the branch has now; ``paused`` says why a person has to look."""

    commit: str | None
    paused: str | None = None

    @property
    def exit_code(self) -> int:
        """Of a session that was accepted: 5 where its push has paused the project."""
        return 5 if self.paused else 0


class _GivenUp(Exception):
    """The push cannot be brought to its end; the text says why."""


def after_push(
    project: Project,
    judge: Callable[[], Judge],
    settlement: Settlement,
    settled: Settled,
    git_config: Mapping[str, Any] | None,
    *,
    undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Published:
    """What becomes of a settlement's push; nothing to do unless the remote has rejected it.

    ``judge`` is asked for only then. ``undisturbed`` makes the context in which files and branch are moved, so that no
    signal ends that half-way.
    """
    if not settled.push_rejected:
        if settled.push_problem:
            project.say(f"Push failed: {settled.push_problem}")
        return Published(commit=settlement.commit)
    project.say("The remote has rejected the push; pulling once.")
    again = _Again(project, judge(), settlement, git_config, undisturbed)
    try:
        return Published(commit=again.push())
    except _GivenUp as problem:
        return _pause(project, again, str(problem))
    except HarnessError as error:
        return _pause(project, again, error.message)


def _pause(project: Project, again: "_Again", problem: str) -> Published:
    told = " ".join(redact(problem).split())[:300]
    paused = f"The push of {again.commit[:10]} was rejected, and after one pull: {told}"
    project.store.event("push_given_up", "critical", session=again.session, commit=again.commit, message=told)
    project.store.write_pause({"reason": paused, "at": clock.timestamp()})
    project.say(f"{paused}\nThe commit is kept on its branch, not pushed. Pull and push by hand, then: harness resume")
    return Published(commit=again.commit, paused=paused)


class _Again:
    """One second try of one push."""

    def __init__(
        self,
        project: Project,
        judge: Judge,
        settlement: Settlement,
        git_config: Mapping[str, Any] | None,
        undisturbed: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._project = project
        self._judge = judge
        self._baseline = records.Baseline(settlement.baseline) if settlement.baseline else project.store.baseline()
        self._branch = settlement.branch
        self._git_config = git_config
        self._undisturbed = undisturbed
        self.session = settlement.session
        self.commit = str(settlement.commit)

    def push(self) -> str:
        """The commit that the remote has now; ``_GivenUp`` where it could not be brought there."""
        upstream = self._project.git.upstream(self._branch)
        if upstream is None:
            raise _GivenUp("the branch has no upstream any more")
        theirs = self._fetched(upstream)
        if not self._project.git.ancestor(theirs, self.commit):
            self._pull(theirs)
        pushed = self._project.git.push(upstream.remote, f"{self.commit}:{upstream.branch}", recorded=self._git_config)
        if not pushed.ok:
            raise _GivenUp(f"rejected again: {pushed.message}")
        self._project.store.event("pushed", "important", session=self.session, commit=self.commit)
        self._project.say(f"Pushed {self.commit[:10]}.")
        return self.commit

    def _fetched(self, upstream: Upstream) -> str:
        git = self._project.git
        ref = private_refs.free(git, f"refs/harness/incoming/{self.session}")
        found = git.fetch(upstream.remote, f"+{upstream.branch}:{ref}", recorded=self._git_config)
        theirs = git.commit_of(ref)
        if not found.ok or theirs is None:
            raise _GivenUp(f"what the remote has could not be fetched: {found.message}")
        git.update_ref(ref, None)
        return theirs

    def _pull(self, theirs: str) -> None:
        """Our commits on top of theirs, once the suite has proven that the two go together."""
        project = self._project
        joined = on_top_of(project.git, theirs, self.commit)
        if joined.problem:
            raise _GivenUp(joined.problem)
        self._refuse_invalid(joined.tip)
        passing, total = self._prove(joined.tip)
        with self._undisturbed():
            self._move(joined.tip)
            self._record(joined, passing, total)
        project.store.event(
            "pulled", "important", session=self.session, before=self.commit, commit=joined.tip, base=theirs
        )
        self.commit = joined.tip

    def _refuse_invalid(self, tip: str) -> None:
        text = self._project.git.show(tip, self._project.features_name)
        try:
            document = jsontext.loads((text or b"").decode("utf-8"))
        except ValueError as error:
            raise _GivenUp(f"{self._project.features_name} does not parse: {error}") from None
        found = records.problems(records.FeatureList(records.json_object(document) or {}))
        if found:
            raise _GivenUp(found[0])

    def _prove(self, tip: str) -> tuple[frozenset[str], int]:
        """(the tests that pass on the joined commit, all of them); ``_GivenUp`` where a known test fails on it."""
        facts = self._judge.suite(tip)
        known = self._baseline.passing
        lost = known - facts.passing
        lost = self._judge.still_failing(tip, lost) if lost and not facts.problem else lost
        good = not lost and not facts.problem
        counted = f"({len(facts.passing)}/{facts.total} tests)"
        self._project.say(
            f"Verifying: checking for regressions after the pull... {'PASSED' if good else 'FAILED'} {counted}"
        )
        if facts.problem:
            raise _GivenUp(f"the suite gave no report: {facts.problem}")
        if lost:
            raise _GivenUp(f"the suite fails: {', '.join(sorted(lost)[:3])}")
        return facts.passing | known, facts.total

    def _move(self, tip: str) -> None:
        """Branch, index and files go from our commit to the joined one; git refuses to overwrite any change."""
        git = self._project.git
        head = git.look()
        if (head.commit, head.branch) != (self.commit, self._branch):
            raise _GivenUp("the branch has moved meanwhile")
        git.update_ref(private_refs.free(git, f"refs/harness/before-pull/{self.session}"), self.commit)
        git.run("read-tree", "-m", "-u", self.commit, tip)
        git.update_ref(str(self._branch), tip, self.commit, message="agent-harness: pulled")

    def _record(self, joined: Joined, passing: frozenset[str], total: int) -> None:
        """The state files speak of the new commits."""
        store = self._project.store
        tree = self._project.git.tree_of(joined.tip)
        store.write_baseline(store.baseline().measured(passing, total, tree=tree))
        store.write_proven({**store.proven(), "commit": joined.tip})
        if summary := store.state().summary:
            renamed = joined.renamed or {}
            commits = [renamed.get(sha, sha) for sha in summary.get("commits") or []]
            store.update_state(last_session_summary={**summary, "commits": commits})
