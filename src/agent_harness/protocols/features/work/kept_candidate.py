"""Acceptance of a candidate that was kept for a person's answer. The candidate is verified again without an agent.

    fold      applies the candidate's changes, as git objects, on top of work that was accepted later
    judge     verifies the resulting commit by all rules, except what the person allows
    settle    records the result as a session with its own number, so that it can be repeated after a crash

Before the last step, no file or branch changes, and the question stays open. Source: features.md section T, C03,
C54."""

from dataclasses import replace

from agent_harness.agents import usage
from agent_harness.errors import HarnessError, Refused, UnsafeTree, VerificationFailed
from agent_harness.kernel import clock, files
from agent_harness.kernel.git import GitFailed
from agent_harness.kernel.json import jsontext, members_of
from agent_harness.kernel.process import new_run_id
from agent_harness.protocols.features import overrides, progress, questions, records, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import push_retry
from agent_harness.protocols.features.records import Feature, Question
from agent_harness.protocols.features.sessions import accept, checkpoints, finalization
from agent_harness.protocols.features.sessions.finalization import Result
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict.project_judge import BuiltAlready, Judge, Ruling
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict


def take(project: Project, judge: Judge, asked: Question, *, unattended: bool = False) -> Result:
    """Verify the kept candidate again and accept it. Raise ``VerificationFailed`` if verification fails."""
    commit, feature = _ready(project, asked)
    taken = _folded(project, asked, feature, commit)
    under_way = _opened(project, feature)
    project.say(f"Verifying the work of Session {asked.session} on {feature.name} again, on top of the accepted work.")
    ruling, built = judge.rule_again(under_way, taken, asked)
    found = ruling.line or ClaimVerdict(item=str(asked.feature_id), verdict=ledger.REJECTED)
    line = replace(
        found,
        session=under_way.session,
        claim=(found.item,),
        by=None if unattended else "person",
        word=WORDS.get(asked.kind, asked.kind),
        of=records.number(asked.record.get("verdict")) or None,
    )
    try:
        if not ruling.accepted:
            raise VerificationFailed(f"{feature.name} is not accepted: {ruling.failure}", hint=questions.hint(asked))
        if built is not None:
            _refuse_unproven(project, asked, built, unattended=unattended)
    except VerificationFailed:
        codes = line.codes if not ruling.accepted else ("not_built", *line.codes)
        ledger.write(project.store.ledger(), replace(line, verdict=ledger.REJECTED, codes=codes))
        raise
    return _accept(project, judge, asked, replace(under_way, verdict=line.as_record()), ruling)


WORDS = {"built_already": "accept-built", "protected_change": "accept-change"}


def _reject(asked: Question) -> str:
    return f"harness resume --choose reject --feature {asked.feature_id}"


def _ready(project: Project, asked: Question) -> tuple[str, Feature]:
    feature = project.store.features().by_id(asked.feature_id)
    if feature is None or not feature.is_open:
        raise Refused("The feature of this question is no longer open", hint=_reject(asked))
    commit = project.git.commit_of(asked.commit or "")
    if commit is None:
        told = f"The work of Session {asked.session} is no longer in the repository"
        raise Refused(told, hint=_reject(asked))
    ref = questions.kept_ref(asked)
    if ref is None or project.git.commit_of(ref) not in (None, commit):
        told = f"{asked.ref} does not contain the work of Session {asked.session}, which the question is about"
        raise Refused(told, hint=_reject(asked))
    overrides.refuse_unsafe(project)
    if dirty := project.dirty():
        raise UnsafeTree(f"The work tree is not clean: {', '.join(dirty[:3])}", hint="git stash -u")
    state = project.store.state()
    if state.next_prompt == "continuation":
        first = f"Feature #{state.current_feature}"
        hint = f"harness run  # or harness skip --feature {state.current_feature}"
        raise Refused(
            f"{first} is unfinished, and its unproven work is on the branch. Finish or skip {first} first",
            hint=hint,
        )
    return commit, feature


def _opened(project: Project, feature: Feature) -> OpenSession:
    """Create a checkpoint and return a new session. The caller must record the session."""
    number = project.store.next_session()
    checkpoint = checkpoints.create(project, number, feature.id, "kept_candidate")
    return OpenSession(
        session=number,
        feature_id=feature.id,
        prompt_type="coding",
        started_at=clock.timestamp(),
        checkpoint=checkpoint,
        base=checkpoint,
        rollback=checkpoint,
        features=project.store.features(),
        state=project.store.state(),
        baseline=project.store.baseline(),
        costs=project.store.costs(),
        run_id=new_run_id(),
        git_config=project.git.record_config(),
    )


# -- on top of the accepted work ---------------------------------------------------------------------------------------


def _folded(project: Project, asked: Question, feature: Feature, commit: str) -> str:
    """Return a commit with the candidate's changes on HEAD: the candidate itself if it is such a commit."""
    git = project.git
    head = str(git.head())
    fork = git.text("merge-base", head, commit, check=False)
    if not fork:
        raise Refused(f"The work of Session {asked.session} is not based on this branch's history", hint=_reject(asked))
    tree = git.tree_of(commit) if fork == head else _merged(project, asked, head, fork, commit)
    contents = {
        project.features_name: _features(project, feature, head, fork, commit),
        project.progress_name: _story(project, asked, fork, commit),
    }
    wanted = repository.tree_with(git, tree, contents)
    if fork == head and wanted == git.tree_of(commit):
        return commit
    message = f"Implement {feature.name}: {feature.description}"
    return git.commit_tree(wanted, [commit if fork == head else head], message)


def _merged(project: Project, asked: Question, head: str, fork: str, commit: str) -> str:
    """Return the tree that merges the candidate into HEAD. Raise ``Refused`` on a conflict."""
    git = project.git
    ours = {name: git.show(fork, name) or b"" for name in (project.features_name, project.progress_name)}
    theirs = git.commit_tree(repository.tree_with(git, git.tree_of(commit), ours), [fork], "theirs")
    mine = git.commit_tree(repository.tree_with(git, git.tree_of(head), ours), [fork], "ours")
    try:
        return git.text("merge-tree", "--write-tree", "--no-messages", mine, theirs).split()[0]
    except GitFailed as error:
        if error.status != 1:
            raise
        told = "The kept work changes the same lines as work that was accepted later, so they cannot be combined"
        raise Refused(told, hint=_reject(asked)) from None


def _features(project: Project, feature: Feature, head: str, fork: str, commit: str) -> bytes:
    """Return HEAD's features.json with the feature marked as passing or as awaiting a person."""
    git, name = project.git, project.features_name
    now = git.show(head, name) or b"{}"
    by_tests = feature.verification_type == "automated"
    claimed = git.show(commit, name)
    if by_tests and claimed is not None and now == git.show(fork, name):
        return claimed
    document = records.FeatureList(members_of(jsontext.loads(now.decode("utf-8-sig"))))
    if found := document.by_id(feature.id):
        waits = {"session": project.store.next_session(), "at": clock.timestamp()}
        found.record.update({"passes": True} if by_tests else {"awaiting_manual": waits})
    return files.dumps(document.record).encode()


def _story(project: Project, asked: Question, fork: str, commit: str) -> bytes:
    """Return the progress file with the entries of the candidate's session."""
    try:
        now = files.read_bytes(project.layout.progress)
    except FileNotFoundError:
        now = b""
    before, after = (project.git.show(each, project.progress_name) or b"" for each in (fork, commit))
    told = after[len(before) :] if after.startswith(before) else b""
    if not told:
        line = f"The work of Session {asked.session} was kept, and accepted after a person's answer."
        told = progress.entry(records.number(asked.session), [("HARNESS", [line])]).encode()
    gap = b"" if not now or now.endswith(b"\n") or told.startswith(b"\n") else b"\n"
    return now + gap + told


# -- the verdict and the end -------------------------------------------------------------------------------------------


def _refuse_unproven(project: Project, asked: Question, built: BuiltAlready, *, unattended: bool) -> None:
    """Raise ``VerificationFailed`` unless test results show that the feature already worked before its session."""
    for line in built.lines:
        project.say(line)
    problem = built.problem
    if unattended and not problem and not built.red_at:
        problem = "The feature's tests fail on no older code, so a person must decide."
    if unattended and not problem and built.changed:
        problem = f"The session also changed {built.changed[0]}, so a person must decide."
    if problem:
        by_word = f"harness override --feature {asked.feature_id} --passes true"
        told = f"Feature #{asked.feature_id} is not accepted as built: {problem}"
        raise VerificationFailed(told, hint=f"{_reject(asked)}  # or, without a proof: {by_word}")


def _accept(project: Project, judge: Judge, asked: Question, under_way: OpenSession, ruling: Ruling) -> Result:
    head = str(project.git.head())
    if not project.git.ancestor(head, ruling.commit):
        again = f"harness resume --choose {asked.options[0]} --feature {asked.feature_id}"
        raise Refused("The branch has moved during the verification, so nothing was accepted", hint=again)
    project.tips[ruling.commit] = head
    made = accept.accepted(project, under_way, ruling, usage.Totals())
    by_person = under_way.feature.verification_type != "automated"
    if by_person:
        made = overrides.awaiting_person(under_way, made)
    left = [each.record for each in made.state.kept_candidates if each.feature_id != under_way.feature_id]
    made = replace(
        made, kept_ref=questions.kept_ref(asked), costs=under_way.costs, state=made.state.but(kept_candidates=left)
    )
    finalized = finalization.finalize(project, under_way.as_record(), made)
    published = push_retry.after_push(project, lambda: judge, made, finalized, under_way.git_config)
    judge.accept_installed(asked.paths)
    told = (
        f"{under_way.feature.name} {'needs a person' if by_person else 'verified'}: kept from Session {asked.session}."
    )
    project.say(told)
    if by_person:
        overrides.ask_person(project, under_way.feature, records.number(asked.session))
    return Result(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="complete",
        reason="complete",
        message=told,
        accepted=True,
        commit=published.commit,
        exit_code=published.exit_code,
    )


def take_unattended(project: Project, judge: Judge, result: Result) -> Result:
    """Accept a kept candidate without a person if its feature already worked and the settings allow it."""
    asked = next((q for q in project.store.state().kept_candidates if q.feature_id == result.feature_id), None)
    if asked is None or asked.kind != "built_already" or project.config.verification.built_already != "accept":
        return result
    try:
        taken = take(project, judge, asked, unattended=True)
    except HarnessError as error:
        project.say(f"A person has to answer: {error.message}")
        return result
    project.store.event(
        "escalation_answered", feature_id=asked.feature_id, kind=asked.kind, answer="accept-built, by the settings"
    )
    return replace(taken, cost_usd=result.cost_usd)
