"""Retry of a push that the remote rejected: pull once, verify again, push again. If the retry fails, the branch keeps
the accepted commit, and the project is paused.

    fetch        fetches the remote's commits to a private ref
    join         rebases the local commits as git objects (``kernel/git/joining.py``); no merge, no force-push
    prove        runs the whole suite on the result
    move         moves the branch and the files, unless a person's changes are in the way
    push         pushes once more

Nothing may be pushed before it is accepted. The harness prevents the agent's own pushes if possible, and reports other
pushes. Because the prevention is not complete, the harness checks the remotes after each session. It never removes
pushed content: a person decides about this content. Source: features.md UAH-380, C04, C30, S10."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.git.joining import Joined, PushTarget, on_top_of
from agent_harness.kernel.json import jsontext, members_of
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import records, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.sessions.finalization import Finalization, Finalized
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict.project_judge import Judge


@dataclass(frozen=True, kw_only=True)
class Published:
    """Tip of the branch after a push. ``paused`` is the reason why a person must act."""

    commit: str | None
    paused: str | None = None

    @property
    def exit_code(self) -> int:
        return 5 if self.paused else 0


class _GivenUp(Exception):
    pass


def after_push(
    project: Project,
    judge: Callable[[], Judge],
    finalization: Finalization,
    finalized: Finalized,
    git_config: Mapping[str, Any] | None,
    *,
    undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Published:
    """If the push was rejected, push again. If this fails too, pause the project. Return the tip of the branch."""
    if not finalized.push_rejected:
        if finalized.push_problem:
            project.say(f"Push failed: {finalized.push_problem}")
        return Published(commit=finalization.commit)
    project.say("The remote rejected the push; pulling once.")
    again = _Again(project, judge(), finalization, git_config, undisturbed)
    try:
        return Published(commit=again.push())
    except _GivenUp as problem:
        return _given_up(project, again, str(problem))
    except HarnessError as error:
        return _given_up(project, again, error.message)


def _given_up(project: Project, again: "_Again", problem: str) -> Published:
    told = " ".join(redact(problem).split())[:300]
    paused = f"The push of {again.commit[:10]} was rejected, and after one pull: {told}"
    project.store.event("push_given_up", "critical", session=again.session, commit=again.commit, message=told)
    project.store.write_pause({"reason": paused, "at": clock.timestamp()})
    project.say(f"{paused}\nThe commit is on its branch but not pushed. Pull and push manually, then: harness resume")
    return Published(commit=again.commit, paused=paused)


class _Again:
    """One more push after the remote has rejected the first push."""

    def __init__(
        self,
        project: Project,
        judge: Judge,
        finalization: Finalization,
        git_config: Mapping[str, Any] | None,
        undisturbed: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._project = project
        self._judge = judge
        self._baseline = finalization.baseline or project.store.baseline()
        self._branch = finalization.branch
        self._git_config = git_config
        self._undisturbed = undisturbed
        self.session = finalization.session
        self.commit = str(finalization.commit)

    def push(self) -> str:
        """Push the accepted commit. If the remote has new commits, first pull them."""
        upstream = self._project.git.upstream(self._branch)
        if upstream is None:
            raise _GivenUp("the branch no longer has an upstream")
        git = self._project.git
        target = PushTarget(remote=upstream.remote, branch=upstream.branch, recorded=self._git_config)
        theirs = target.incoming(git, repository.free_ref(git, f"refs/harness/incoming/{self.session}"))
        if not git.ancestor(theirs, self.commit):
            self._pull(theirs)
        pushed = target.push(git, self.commit)
        if not pushed.ok:
            raise _GivenUp(f"rejected again: {pushed.message}")
        self._project.store.event("pushed", "important", session=self.session, commit=self.commit)
        self._project.say(f"Pushed {self.commit[:10]}.")
        return self.commit

    def _pull(self, theirs: str) -> None:
        """Rebase local commits onto the remote's commits. Keep the result only if the suite passes."""
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
        found = records.problems(records.FeatureList(members_of(document)))
        if found:
            raise _GivenUp(found[0])

    def _prove(self, tip: str) -> tuple[frozenset[str], int]:
        facts = self._judge.suite(tip)
        known = self._baseline.passing
        lost = known - facts.passing
        lost = self._judge.still_failing(tip, lost) if lost and not facts.problem else lost
        word = "FAILED" if lost or facts.problem else "PASSED"
        held = f"{len(known) - len(lost)} of {len(known)} known tests still pass"
        self._project.say(f"Verifying: checking for regressions after the pull... {word}: {held}")
        if facts.problem:
            raise _GivenUp(f"the suite gave no results: {facts.problem}")
        if lost:
            raise _GivenUp(f"tests fail: {', '.join(sorted(lost)[:3])}")
        return facts.passing | known, facts.total

    def _move(self, tip: str) -> None:
        git = self._project.git
        head = git.look()
        if (head.commit, head.branch) != (self.commit, self._branch):
            raise _GivenUp("the branch moved during the retry")
        git.update_ref(repository.free_ref(git, f"refs/harness/before-pull/{self.session}"), self.commit)
        # git refuses to overwrite uncommitted changes
        git.run("read-tree", "-m", "-u", self.commit, tip)
        git.update_ref(str(self._branch), tip, self.commit, message="agent-harness: pulled")

    def _record(self, joined: Joined, passing: frozenset[str], total: int) -> None:
        store = self._project.store
        tree = self._project.git.tree_of(joined.tip)
        store.write_baseline(store.baseline().measured(passing, total, tree=tree))
        store.write_proven({**store.proven(), "commit": joined.tip})
        if summary := store.state().summary:
            commits = [joined.renamed.get(sha, sha) for sha in summary.get("commits") or []]
            store.update_state(last_session_summary={**summary, "commits": commits})


# -- pushes of the agent -----------------------------------------------------------------------------------------------


NOWHERE = "/only-the-harness-pushes--once-it-has-accepted-the-work"
"""Invalid address to which the agent's pushes are redirected. Git shows this name in its error message."""

LOOK_SECONDS = 20.0
_ADDRESS = re.compile(r"remote\.(?P<name>.+)\.(?P<kind>url|pushurl)$", re.DOTALL)

Config = Mapping[str, list[str]]


def no_push_variables(config: Config) -> dict[str, str]:
    """Return environment variables that prevent pushes by the agent's git."""
    fetched = _addresses(config, "url")
    pushed = _addresses(config, "pushurl")
    rules = [(f"url.{NOWHERE}.pushInsteadOf", address) for address in sorted(fetched)]
    # a push URL that is also the fetch URL of another remote is not blocked
    rules += [(f"url.{NOWHERE}.insteadOf", address) for address in sorted(pushed - fetched)]
    told = {"GIT_CONFIG_COUNT": str(len(rules))} if rules else {}
    for number, (key, value) in enumerate(rules):
        told |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return told


def _addresses(config: Config, kind: str) -> set[str]:
    found = ((_ADDRESS.match(key), values) for key, values in config.items())
    return {value for match, values in found if match and match["kind"] == kind for value in values if value}


def known_tips(project: Project) -> frozenset[str]:
    found = project.git.text("for-each-ref", "--format=%(objectname)%0a%(*objectname)")
    return frozenset(line for line in found.split() if line)


def report_pushes_of_agent(project: Project, under_way: OpenSession, before: Iterable[str]) -> None:
    """Report each remote ref to which the agent itself pushed commits."""
    known = frozenset(before)
    for remote in sorted({match["name"] for key in under_way.git_config if (match := _ADDRESS.match(key))}):
        for ref, commit in _refs_of(project, remote, under_way.git_config).items():
            if commit not in known and _came_up_since(project, commit, known):
                _tell_push(project, under_way, remote, ref, commit)


def _refs_of(project: Project, remote: str, config: Config) -> Mapping[str, str]:
    try:
        return project.git.remote_refs(remote, recorded=config, timeout_seconds=LOOK_SECONDS)
    except HarnessError:
        return {}


def _came_up_since(project: Project, commit: str, before: frozenset[str]) -> bool:
    if project.git.commit_of(commit) is None:
        return False
    wanted = "\n".join([commit, *(f"^{tip}" for tip in sorted(before))]) + "\n"
    found = project.git.run("rev-list", "--max-count=1", "--ignore-missing", "--stdin", input=wanted.encode())
    return bool(found.strip())


def _tell_push(project: Project, under_way: OpenSession, remote: str, ref: str, commit: str) -> None:
    told = (
        f"{remote} has {commit[:10]} as {ref}, which the harness did not push: it was made in Session"
        f" {under_way.session} and was not accepted when it was pushed. The commit was not removed; please check it."
    )
    project.say(f"Warning: {told}")
    fields: dict[str, Any] = {"remote": remote, "ref": ref, "commit": commit}
    project.store.event("pushed_by_agent", "critical", session=under_way.session, message=told, **fields)
