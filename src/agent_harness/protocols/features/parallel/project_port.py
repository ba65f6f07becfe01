"""Access of a parallel run's coordinator to a feature project. During the run, only the coordinator writes project
state.

    parallel/claims.json        the run's workers and owner, and the job of each feature
    parallel/items/ID.json      a feature between its sessions: its state, unfinished work and question
    parallel/branches/ID.json   passing tests of a branch that is not checked out

Each session has its own number, assigned together with its job. costs.yaml records a session's cost under the name of
the job, so that the cost is counted once. All other updates can be repeated safely. A feature counts as done after its
work has landed (was merged into the branch)."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from agent_harness.errors import HarnessError, PreflightFailed, StateDamaged
from agent_harness.kernel import clock, files, journal, owner, trusted_state
from agent_harness.kernel.git.joining import Merged, PushTarget
from agent_harness.kernel.json import JsonObject, json_object, jsontext, members_of
from agent_harness.kernel.redact import redact
from agent_harness.parallel import merge_queue
from agent_harness.parallel.items import ACCEPTED, JOB, Job, LandedItem, OpenItem, job_folder
from agent_harness.parallel.workspaces import copy_plain
from agent_harness.protocols.features import costs, escalation, preflight, questions, records, repository
from agent_harness.protocols.features.parallel.results import well_formed
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import mirror
from agent_harness.protocols.features.records import Baseline, CostRecord, FeatureList, Question, SessionState
from agent_harness.protocols.features.selection import finalized
from agent_harness.protocols.features.sessions import accept, locking
from agent_harness.protocols.features.verdict import quality
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.session import ledger, now
from agent_harness.session.ledger import ClaimVerdict

EXECUTOR = "agent_harness.protocols.features.parallel.hands:carry_out"
SUITE = "the suite"
LEAST_USD = 0.0001
"""Smallest cost in US dollars that is recorded; a smaller difference is ignored."""
JOBS = 256
"""Maximum number of jobs that costs.yaml lists."""
STOPS_ALL = frozenset({"budget_exceeded", "app_broken", "no_way_back", "environment"})
"""Kinds of question that are about one session but also prevent every other session from starting."""
LOGS = ("events.jsonl", "usage.jsonl", "decisions.jsonl", "agent_actions.jsonl")
_PUSH_EVENTS = {"pushed": "important", "push_failed": "important", "pulled": "important", "push_given_up": "critical"}
_COPIED = ("current_feature", "stuck_count", "last_failure", "status", "termination_reason")


class FeatureProjectPort:
    executor = EXECUTOR
    input_files: tuple[str, ...] = ("verdicts",)
    input_folders: tuple[str, ...] = ("counts", "parallel")
    checks_each = checks_rejected = False  # a session verifies with the suite

    def __init__(
        self, project: Project, folder: str, workers: int, attempt: JsonObject, branch: str | None = None
    ) -> None:
        self._project, self._store, self._git = project, project.store, project.git
        self._folder = folder
        self._workers = workers
        self._attempt = attempt
        self.own = project.excluded
        self.common: tuple[str, ...] = (project.features_name, project.progress_name)
        self.snapshot: str | None = project.layout.parallel
        self._named_branch = branch
        self._branch = merge_queue.target(project.git, branch)
        self.push_target = self._push_target()
        self._verified: set[str] = set()  # commits on which the suite has passed as it should
        self._landed = 0
        self._documents: dict[str, FeatureList] = {}
        self._stamp: object = None  # of the files that ``_items`` was read from
        self._items: list[OpenItem] = []
        self._state_stamps: list[object] | None = None  # nothing is held yet
        self._told_of: set[str] = set()

    # ---- agents that write outside their workspaces

    def hold(self) -> None:
        self._store.hold()
        self._state_stamps = []

    def put_back(self, *, histories: bool = False) -> dict[str, str]:
        """Restore the state files that other processes changed. Return the names of these files."""
        if self._state_stamps is None:
            return {}
        lost = self._store.put_back_histories() if histories else []
        if changed := [*lost, *self._store.tampered()]:
            told = accept.tampering(changed)
            self._store.event(accept.TAMPERED, "critical", message=told)
            if told not in self._told_of:
                self._told_of.add(told)
                self._project.say(f"{told}. The files were restored. If you did not change them, an agent did")
        return dict.fromkeys(changed, "")

    def note_touched(self, item: str, message: str) -> None:
        self._store.event("home_touched", "critical", message=f"Feature #{item}: {message}")

    def _look_at_state(self) -> None:
        """Restore all state files if another process changed session_state.json or costs.yaml."""
        at = self._project.layout
        if self._state_stamps != [files.stamp_of(each) for each in (at.session_state, at.costs)]:
            self.put_back()
            if self._state_stamps is not None:
                self._state_stamps = [files.stamp_of(each) for each in (at.session_state, at.costs)]

    def _push_target(self) -> PushTarget | None:
        git = self._project.git
        if self._branch != git.branch() or self._project.config.git.push != "auto":
            return None
        found = git.upstream(self._branch)
        if found is None:
            return None
        return PushTarget(remote=found.remote, branch=found.branch, recorded=git.record_config())

    # ---- known state

    def document(self) -> FeatureList:
        """Return features.json from the target branch. Raise ``StateDamaged`` if the file is malformed."""
        # the last known version, if the branch was deleted during the run
        tip = str(self._git.commit_of(self._branch) or next(iter(self._documents), None))
        if tip not in self._documents:
            found = features_at(self._project, tip)
            if odd := records.malformed(found, require_test_file=self._project.config.features.require_test_file):
                hint = f"fix and commit {self._project.features_name}"
                raise StateDamaged(f"the feature list in commit {tip[:10]} is not valid: {odd[0]}", hint=hint)
            self._documents = {tip: found}
        return self._documents[tip]

    def baseline(self) -> Baseline:
        """Return the baseline of the target branch."""
        tip = str(self._git.commit_of(self._branch))
        if self._branch == self._git.branch():
            return self._store.baseline()
        known = files.read_json_if_any(self._branch_path())
        if known.get("commit") != tip:
            before = self._store.baseline()
            if tip != self._git.head():
                self._project.say(f"Running the suite on {self._named_branch} for its baseline.")
                measured = Judge(self._project).suite(tip)
                if measured.problem:
                    raise PreflightFailed(f"the suite gives no report on {self._named_branch}: {measured.problem}")
                before = before.measured(measured.passing, measured.total, tree=self._git.tree_of(tip))
            self._write_baseline(before, tip)
            return before
        return Baseline(members_of(known.get("baseline")))

    def _write_baseline(self, baseline: Baseline, tip: str) -> None:
        if self._branch == self._git.branch():
            self._store.write_baseline(baseline)
            return
        os.makedirs(os.path.dirname(self._branch_path()), mode=0o700, exist_ok=True)
        files.write_json(self._branch_path(), {"branch": self._branch, "commit": tip, "baseline": baseline.record})

    def _branch_path(self) -> str:
        return os.path.join(self._folder, "branches", f"{sha256(self._branch.encode()).hexdigest()[:24]}.json")

    def _claims(self) -> JsonObject:
        found = files.read_json_if_any(os.path.join(self._folder, "claims.json")).get("items")
        return {item: each for item, each in members_of(found).items() if isinstance(each, dict)}

    def _write_claims(self, items: JsonObject) -> None:
        path = os.path.join(self._folder, "claims.json")
        if not items:
            files.unlink(path)
            return
        known = {"v": 1, "workers": self._workers, "branch": self._named_branch, "items": items}
        known["owner"] = owner.current().as_record()
        files.write_json(path, known)

    def item(self, item: str) -> JsonObject:
        return files.read_json_if_any(self._item_path(item))

    def keep_item(self, item: str, **members: object) -> None:
        os.makedirs(os.path.dirname(self._item_path(item)), mode=0o700, exist_ok=True)
        files.write_json(self._item_path(item), {**self.item(item), **members})

    def _item_path(self, item: str) -> str:
        return os.path.join(self._folder, "items", f"{item}.json")

    def items(self) -> list[OpenItem]:
        """Return the features that can be started, in the order of `harness run`."""
        at, folder = self._project.layout, os.path.dirname(self._store.ledger())
        document = self.document()
        paths = (at.session_state, os.path.join(folder, "starts.jsonl"), os.path.join(self._folder, "items"))
        stamp = (next(iter(self._documents)), *map(files.stamp_of, paths))
        if stamp != self._stamp:
            self._items, self._stamp = self._found(document, self._store.state()), stamp
        return self._items

    def _found(self, document: FeatureList, state: SessionState) -> list[OpenItem]:
        done = finalized(document)
        kept, first = {asked.feature_id for asked in state.kept_candidates}, {*state.fix_first}
        found = [f for f in document.features if f.is_open and f.id not in kept and done.issuperset(f.depends_on)]
        found.sort(key=lambda f: (f.id not in first, f.priority, f.id))
        answer: list[OpenItem] = []
        for feature in found:
            name = str(feature.id)
            if self.item(name).get("question"):
                continue
            if asked := escalation.question_after(self._project, state, feature.id, None):
                self.keep_item(name, question=asked.record)
                continue
            touches = records.texts(feature.record.get("touches"))
            answer.append(OpenItem(id=name, name=name, title=feature.description, touches=touches))
        return answer

    def stopped(self) -> tuple[int, str] | None:
        """Return an exit code and a message if the run must stop, otherwise None."""
        self._look_at_state()
        try:
            locking.refuse_resting(self._project)
            preflight.budget(self._store.costs(), self._project.budgets, None)
        except HarnessError as error:
            return error.exit_code, error.message
        asked = (Question(each) for each in self._waiting().values())
        first = next((each for each in asked if each.kind in STOPS_ALL), None)
        return (3, first.message) if first else None

    def _waiting(self) -> dict[str, JsonObject]:
        open_ids = [str(f.id) for f in self.document().features if f.is_open]
        found = ((item, json_object(self.item(item).get("question"))) for item in open_ids)
        return {item: asked for item, asked in found if asked}

    def heard(self, jobs: Sequence[Job]) -> dict[str, JsonObject]:
        """Return the current activity of each job's session. The keys are feature ids."""
        found: dict[str, JsonObject] = {}
        for each in jobs:
            folder = trusted_state.existing(os.path.join(each.workspace, ".git"), each.workspace)
            for record in now.told(folder):
                if record["alive"]:
                    found[each.item] = record
        return found

    def left(self) -> tuple[list[str], list[str], list[str]]:
        """Return three lists of feature ids: failed (always empty), open, and waiting (always empty)."""
        kept = {asked.feature_id for asked in self._store.state().kept_candidates}
        return [], [str(f.id) for f in self.document().features if f.is_open and f.id not in kept], []

    # ---- claims

    def claim(self, jobs: Sequence[Job]) -> None:
        items = self._claims()
        items |= {each.item: {"order": each.id, "proven": False} for each in jobs}
        self._write_claims(items)

    def holds(self, job: str, item: str) -> bool:
        feature = self.document().by_id(int(item))
        claimed = self._claims().get(item) or {}
        return feature is not None and feature.is_open and claimed.get("order") == job

    def adopt(self, held: Sequence[str]) -> None:
        """Release every feature whose job is not in ``held``."""
        self._write_claims({item: each for item, each in self._claims().items() if each.get("order") in held})

    def keep(self) -> None:
        """Do nothing, because features have no leases and the process's end releases the project lock."""

    def _let_go(self, item: str, job: str) -> None:
        items = self._claims()
        if (items.get(item) or {}).get("order") == job:
            del items[item]
            self._write_claims(items)

    # ---- inputs of a workspace

    def inputs(self, item: str, fix: JsonObject | None) -> JsonObject:
        """Return the data for a job: project state, and the feature's unfinished or rejected work."""
        self.put_back()
        number = self._store.next_session()
        state = self._store.update_state(last_session=number)
        kept, head = self.item(item), str(self._git.commit_of(self._branch))
        of_item = members_of(kept.get("state"))
        own = {name: of_item[name] for name in _COPIED if name in of_item}
        own |= {"current_feature": int(item)} if own else {}
        nobody: JsonObject = {"paused": None, "handoff": None, "pending_escalation": None, "kept_candidates": []}
        seeded = state.but(**own, **nobody, **records.NOTHING_UNFINISHED, last_session=number - 1)
        seed, told = self._unfinished(item, head, fix)
        baseline = self.baseline()
        return {
            "feature": int(item),
            "session": number,
            "state": seeded.record,
            "seed": seed,
            "told": told,
            "baseline": baseline.record,
            "costs": self._store.costs().record,
            "file_sizes": self._store.file_sizes(),
            "quality": self._store.quality(),
            "proven": self._store.proven().get("features") or [],
            "verdicts": self._store.ledger(),
            "counts": os.path.dirname(self._store.ledger()),
            "is_verified": head in self._verified,
            "parallel": self._folder,
            **self._attempt,
        }

    def _unfinished(self, item: str, head: str, fix: JsonObject | None) -> tuple[str | None, JsonObject]:
        """Return the git tree and the facts of the work that the next session continues."""
        if fix:
            return str(fix["seed"]), _told(fix)
        kept = members_of(self.item(item).get("wip"))
        base, commit = (self._git.commit_of(str(kept.get(name) or "")) for name in ("base", "commit"))
        if not base or not commit:
            return None, {}
        found = self.merged(head, base, commit, item, proven=False)
        partial = members_of(kept.get("partial"))
        left = [*records.texts(partial.get("left"))]
        left += [f"resolve the conflict with merged work: {path}" for path in found.conflicts]
        return found.tree, {"partial": {**partial, "left": left}, "failure": kept.get("failure")}

    def merged(self, head: str, base: str, commit: str, item: str, *, proven: bool) -> Merged:
        """Merge a feature's changes between ``base`` and ``commit`` into ``head``."""
        if head == base and proven:
            return Merged(tree=self._git.tree_of(commit))
        project, git = self._project, self._git
        names = (project.features_name, project.progress_name)
        same = {name: git.show(base, name) or b"" for name in names}
        ours, theirs = (
            git.commit_tree(repository.tree_with(git, git.tree_of(each), same), [base], "side")
            for each in (head, commit)
        )
        found = merge_queue.merged(git, ours, base, theirs, project.config.parallel.union)
        # of these files, only the feature's own changes are merged
        contents = {
            project.features_name: self._features(head, commit, int(item), proven=proven),
            project.progress_name: self._story(head, base, commit),
        }
        return replace(found, tree=repository.tree_with(git, found.tree, contents))

    def _features(self, head: str, commit: str, feature_id: int, *, proven: bool) -> bytes:
        now = self._git.show(head, self._project.features_name) or b"{}"
        theirs = features_at(self._project, commit).by_id(feature_id)
        document = features_at(self._project, head)
        feature = document.by_id(feature_id)
        if not proven or feature is None or theirs is None:
            return now
        said = {name: theirs.record[name] for name in ("passes", "awaiting_manual") if name in theirs.record}
        feature.record.update(said)
        return files.dumps(document.record).encode()

    def _story(self, head: str, base: str, commit: str) -> bytes:
        name = self._project.progress_name
        now, before, after = (self._git.show(each, name) or b"" for each in (head, base, commit))
        told = after[len(before) :] if after.startswith(before) else b""
        gap = b"" if not told or not now or now.endswith(b"\n") else b"\n"
        return now + gap + told

    # ---- results

    def ended(
        self, job: str, item: str, result: JsonObject | None, rescues: Sequence[str], spent_usd: float = 0.0
    ) -> None:
        """Copy the costs, records and logs of a job to the project after the job has ended."""
        self.put_back(histories=True)
        # the call can be repeated: nothing is copied twice
        found = well_formed(result if result is not None else self._lost(job, rescues, spent_usd))
        if found.get("id") or result is None:
            found = self._with_all_costs(job, found, spent_usd)
            self._take_books(job, item, found)
            self._store.keep_histories()
        status = found.get("status")
        if status == ACCEPTED:
            items = self._claims()
            # the feature stays assigned to the job until it is merged
            items[item] = {"order": job, "proven": True, "commit": found.get("commit")}
            self._write_claims(items)
            tests = {name: found.get(name) or [] for name in ("proven_tests", "gone_tests")}
            self.keep_item(item, **tests, wip=None)
            return
        self._let_go(item, job)
        if found.get("state"):
            self._count(item, found)
        if fix := json_object(found.get("mend")):
            self._note_sent_back(int(item), fix)
            self._note_not_landed(job, fix, members_of(found.get("proven")))

    def _note_sent_back(self, feature_id: int, fix: JsonObject) -> None:
        why, met = str(fix.get("why")), records.texts(fix.get("met"))
        printed = redact(str(fix.get("output") or "")).strip().splitlines()
        what = records.texts(fix.get("files")) or printed[:1] or records.texts(fix.get("failing"))
        told = f"Feature #{feature_id} was proven, but not merged ({why.replace('_', ' ')}): {', '.join(what)[:500]}"
        told += f"; merged meanwhile: {', '.join(f'#{each}' for each in met)}" if met else ""
        self._store.event("sent_back", feature_id=feature_id, why=why, met=met, message=told)

    def _note_not_landed(self, job: str, fix: JsonObject, proved: JsonObject) -> None:
        """Write to the verdict ledger that the job's proven work was not merged."""
        claims = [ClaimVerdict.from_record(each) for each in proved.get("verdicts") or []]
        if claim := next((each for each in reversed(claims) if each.accepted), None):
            at = self._project.layout
            files.own_place(os.path.join(at.verdicts, "log"), at.root)
            ledger.not_landed(self._store.ledger(), at.verdicts, at.root, claim, fix, job=job)

    def costs_more(self, job: str, item: str, spent_usd: float, more_usd: float) -> None:
        """Add ``more_usd`` to the recorded costs, because the agent reported this amount after the job."""
        known = self._store.costs()
        jobs, key = records.texts(known.record.get("orders")), f"{job}={spent_usd:.4f}"
        # each amount is added only once
        if more_usd <= LEAST_USD or key in jobs:
            return
        after = costs.add_later(known, int(item), more_usd)
        self._store.write(
            self._project.layout.costs, CostRecord({**after.record, "orders": [*jobs, key][-JOBS:]}).record
        )

    def _with_all_costs(self, job: str, found: JsonObject, spent_usd: float) -> JsonObject:
        """Return the result with all costs of the job, including the costs of a killed agent."""
        row, spent = json_object(found.get("row")), json_object(found.get("spent"))
        if spent is None:
            known = self._lost(job, found.get("rescues") or [], spent_usd) if spent_usd > 0.0 else {}
            return {**found, **{name: value for name, value in known.items() if not found.get(name)}}
        name = "assumed_usd" if spent.get("cost_usd") is None else "cost_usd"
        left = spent_usd - records.amount(spent.get(name))
        if left <= LEAST_USD:
            return found
        more = {"row": {**row, name: records.amount(row.get(name)) + left}} if row and name == "cost_usd" else {}
        return {**found, "spent": {**spent, name: records.amount(spent.get(name)) + left}, **more}

    def _lost(self, job: str, rescues: Sequence[str], spent: float) -> JsonObject:
        folder = job_folder(self._folder, job)
        inputs = members_of(files.read_json_if_any(os.path.join(folder, JOB)).get("papers"))
        session = records.number(inputs.get("session"))
        row = {
            "session_id": session,
            "feature_id": inputs.get("feature"),
            "termination_reason": "error",
            "feature_completed": False,
            "rescue_ref": next(iter(rescues), None),
            "cost_usd": spent,
            "ended_at": clock.timestamp(),
        }
        return {"session": session, "row": row, "spent": {"cost_usd": spent}} if session else {}

    def _take_books(self, job: str, item: str, found: JsonObject) -> None:
        row, spent = json_object(found.get("row")), json_object(found.get("spent"))
        known = self._store.costs()
        jobs = records.texts(known.record.get("orders"))
        if spent and job not in jobs:
            each = costs.Spent(session=records.number(found.get("session")), feature_id=int(item), **spent)
            after = costs.add_session(known, each, self._project.budgets)
            self._store.write(
                self._project.layout.costs, CostRecord({**after.record, "orders": [*jobs, job][-JOBS:]}).record
            )
        if row and job not in {each.get("order") for each in self._store.recent("sessions.jsonl", 1000)}:
            self._store.log("sessions.jsonl", {**row, "order": job})
        if folder := found.get("logs"):
            self._take_logs(str(folder), records.number(found.get("session")))
        for each in found.get("verdicts") or []:
            verdict = ClaimVerdict.from_record(each)
            if not verdict.accepted:  # accepted work counts once it has landed
                ledger.write(self._store.ledger(), self._with_outputs(verdict, found))

    def _take_logs(self, folder: str, session: int) -> None:
        at = self._project.layout
        for name in LOGS:
            files.own_place(at.log(name), at.root)
            theirs = [row for row in journal.read(os.path.join(folder, name)) if _is_taken(row, session)]
            ours = sum(_is_taken(row, session) for row in journal.tail(at.log(name), 5000)) if theirs else 0
            # an earlier call may have copied some of the rows
            for row in theirs[ours:]:
                journal.append(at.log(name), row)
        copy_plain(folder, at.logs, lambda name: name.startswith(f"session-{session}."))

    def _with_outputs(self, verdict: ClaimVerdict, result: Mapping[str, object]) -> ClaimVerdict:
        printed = members_of(result.get("outputs"))
        path = self._store.ledger()
        steps: list[ledger.VerdictStep] = []
        for step in verdict.steps:
            kept = None
            if step.log and step.log in printed:
                text, ended = str(printed[step.log]), f"exit {step.exit}"
                workspace = self._project.layout.verdicts
                files.own_place(os.path.join(workspace, "log"), self._project.layout.root)
                kept = ledger.keep_output(
                    workspace, path, step.step, command=str(step.command), output=text, ended=ended
                )
            steps.append(replace(step, log=kept and self._project.layout.relative(kept)))
        return replace(verdict, steps=tuple(steps), n=0, prev=None)

    def _count(self, item: str, found: JsonObject) -> None:
        """Store what an unproven session left: failure count, unfinished work and question."""
        placed, state = SessionState(found["state"]), self._store.state()
        failures = {name: n for name, n in state.failures.items() if name != item}
        failures |= {item: placed.failures[item]} if item in placed.failures else {}
        asked = json_object(found.get("question"))
        kept = [each.record for each in state.kept_candidates if each.feature_id != int(item)]
        if candidate := json_object(found.get("kept")):
            kept.append(self._kept(candidate, found))
        self._store.update_state(
            verification_failures=failures,
            kept_candidates=kept if candidate else [each.record for each in state.kept_candidates],
            status=placed.status,
            current_feature=int(item),
            stuck_count=state.stuck_count if found.get("uncounted") else placed.stuck_count,
            termination_reason=placed.termination_reason,
            last_failure=placed.last_failure,
            last_session_summary=placed.summary,
            timestamp=clock.timestamp(),
        )
        own = {name: placed.record.get(name) for name in _COPIED}
        if found.get("uncounted"):
            before = members_of(self.item(item).get("state"))
            own["stuck_count"] = records.number(before.get("stuck_count"))
        self.keep_item(item, state=own, wip=found.get("wip"), question=asked)

    def _kept(self, candidate: JsonObject, found: JsonObject) -> JsonObject:
        """Create a private ref that keeps the candidate. Return the question about the candidate."""
        commit, session = str(candidate.get("commit")), records.number(found.get("session"))
        ref = f"refs/harness/kept/{session}"
        if self._git.commit_of(commit):
            ref = repository.kept_ref(self._git, ref, commit)
        last = next(ledger.newest_first(self._store.ledger()), None)
        details = [line for line in records.texts(candidate.get("details")) if not line.startswith("Look at it: ")]
        look = f"Look at it: git diff HEAD...{ref}"
        about = {"ref": ref, "verdict": last and last.n, "details": [*details, look]}
        asked = {**candidate, **about}
        self._store.event(**questions.as_event(Question(asked)))
        return asked

    # ---- landing

    def checks(
        self,
        base: str,
        commit: str,
        members: Sequence[str] | None,
        before: Mapping[str, str] | None = None,
        unseen: Collection[str] = (),
    ) -> list[JsonObject]:
        """Return the checks that a merge candidate must pass. Without ``members``, a verified commit needs none."""
        if members is None and commit in self._verified:
            return []
        self.put_back()
        base = commit if members is None else base  # changes of others are not judged here
        document, baseline = features_at(self._project, commit), self.baseline()
        found = [f for f in (document.by_id(int(item)) for item in members or ()) if f]
        proven, gone = (
            {test for item in (*(members or ()), *(before or ())) for test in records.texts(self.item(item).get(name))}
            for name in ("proven_tests", "gone_tests")
        )
        return [
            {
                "name": SUITE,
                "base": base,
                "members": [f.id for f in found],
                "test_files": [f.test_file for f in found if f.test_file],
                "may_change": [pattern for f in found for pattern in f.may_change],
                "protected": [f.test_file for f in features_at(self._project, base).passing if f.test_file],
                "baseline": sorted((baseline.passing | proven) - gone),
                "files_read": [*baseline.files_read],
            }
        ]

    def check_inputs(self, checks: Sequence[JsonObject]) -> JsonObject:
        return {"checks": [*checks], "state": self._store.state().record}

    def finalize(self, landings: Sequence[LandedItem]) -> None:
        self.put_back()
        landings = [replace(each, result=well_formed(each.result)) for each in landings]
        tip = str(self._git.commit_of(self._branch))
        document, state = self.document(), self._store.state()
        told = {
            (row.get("type"), row.get("feature_id"), row.get("commit"))
            for row in self._store.recent("events.jsonl", 400)
        }
        ids = [int(each.item) for each in landings]
        baseline = self.baseline()
        passing = {*baseline.passing}
        for each in landings:
            feature = document.by_id(int(each.item))
            by_tests = feature is not None and feature.passes
            passing |= {*records.texts(each.result.get("proven_tests"))}
            passing -= {*records.texts(each.result.get("gone_tests"))}
            accepted = [ClaimVerdict.from_record(line) for line in each.result.get("verdicts") or []]
            if last := next((line for line in reversed(accepted) if line.accepted), None):
                ledger.write(self._store.ledger(), replace(self._with_outputs(last, each.result), commit=each.commit))
            kind = "feature_completed" if by_tests else "awaiting_manual"
            if feature and (kind, feature.id, each.commit) not in told:
                said = f"{feature.name} ({feature.description}) " + ("verified" if by_tests else "needs a person")
                session = records.number(each.result.get("session"))
                self._store.event(kind, session=session, feature_id=feature.id, commit=each.commit, message=said)
            if feature and not by_tests:
                self._project.say(f"{feature.name} needs a person: harness manual-verify --feature {feature.id}")
        number = max((records.number(each.result.get("session")) for each in landings), default=state.last_session)
        files_read = sorted(
            {*baseline.files_read, *(p for each in landings for p in records.texts(each.result.get("files_read")))}
        )
        total = max([len(passing), *(records.number(each.result.get("total_tests")) for each in landings)])
        known = {"session": number, "timestamp": clock.timestamp(), "tree": self._git.tree_of(tip)}
        after = baseline.measured(passing, total, **known, files_read=files_read)
        self._write_baseline(after, tip)
        tests = [f.test_file for f in document.features]
        before = self._store.file_sizes()
        self._store.write(self._project.layout.file_sizes, quality.file_sizes(self._git, tip, number, before, tests))
        for measured in [each.result["quality"] for each in landings if each.result.get("quality")][-1:]:
            self._store.write(self._project.layout.quality, measured)
        marked = [f.id for f in document.passing if f.id in ids]
        self._store.write_proven(
            {"commit": tip, "features": sorted({*records.ids(self._store.proven().get("features")), *marked})}
        )
        self._store.write_state(self._state_after(state, document, landings))
        for each in landings:
            self._let_go(each.item, each.job)
            files.unlink(self._item_path(each.item))
        self._verified.add(tip)
        self._landed = number

    def _state_after(self, state: SessionState, document: FeatureList, landings: Sequence[LandedItem]) -> SessionState:
        ids = [each.item for each in landings]
        done, interval = len(document.passing), self._project.config.quality.cleanup_interval
        is_due = done // interval > state.cleaned_up_at // interval  # UAH-321, C36
        names = [f"{f.name} ({f.description})" for f in document.features if str(f.id) in ids]
        commits = [each.commit for each in landings]
        return state.but(
            status="complete",
            current_feature=int(ids[-1]) if ids else state.current_feature,
            termination_reason=None,
            next_prompt="cleanup" if is_due else state.next_prompt,
            stuck_count=0,
            verification_failures={name: n for name, n in state.failures.items() if name not in ids},
            fix_first=[i for i in state.fix_first if str(i) not in ids],
            last_failure=None,
            timestamp=clock.timestamp(),
            last_session_summary={"completed": ", ".join(names), "commits": commits, "status": "complete"},
        )

    def refuse_joined(self, commit: str) -> None:
        if found := records.problems(features_at(self._project, commit)):
            raise StateDamaged(found[0], hint=f"git show {commit[:10]}:{self._project.features_name}")

    def joined(self, joined: Mapping[str, str], commit: str, checked: JsonObject) -> None:
        """After a rebase onto the remote, record the new commits and the passing tests."""
        store, baseline = self._store, self.baseline()
        passing = baseline.passing
        if checked.get("commit") == commit:
            passing |= {*records.texts(checked.get("passing"))}
        after = baseline.measured(passing, len(passing), tree=self._git.tree_of(commit))
        self._write_baseline(after, commit)
        store.write_proven({**store.proven(), "commit": commit})
        if summary := store.state().summary:
            commits = [joined.get(sha, sha) for sha in summary.get("commits") or []]
            store.update_state(last_session_summary={**summary, "commits": commits})
        self._verified.add(commit)

    def note_push(self, kind: str, commit: str, message: str) -> None:
        session = self._landed or self._store.state().last_session
        self._store.event(kind, _PUSH_EVENTS[kind], session=session, commit=commit, message=message)

    def reopen(self, items: Sequence[str], why: str) -> None:
        self.question(None, "head_red", f"{', '.join(items)}: {why}")

    def broken(self, items: Sequence[str], by: str, commit: str, head: str) -> None:
        self.reopen(items, f"#{by} broke it (commit {commit[:7]}); it fails on {head[:7]}")

    def question(self, item: str | None, reason: str, message: str) -> None:
        """Store a question. Ask it now unless an earlier question already stops the run."""
        kept = json_object(self.item(item).get("question")) if item else None
        if kept is None and reason in questions.KEEPING:
            return  # it is one of the kept candidates
        if kept is None:
            known = reason if reason in questions.OPTIONS else "landing_failed"
            told = f"Feature #{item}: {LANDING_TOLD.get(known, message)}" if item else LANDING_TOLD.get(known, message)
            kept = questions.question(known, told, **({"feature_id": int(item)} if item else {})).record
            if item:
                self.keep_item(item, question=kept)
        if not questions.stops(self._store.state().question):
            self._ask(item, kept)

    def _ask(self, item: str | None, asked: JsonObject) -> None:
        questions.store(self._project, Question(asked))
        if item:
            state = members_of(self.item(item).get("state"))
            self.keep_item(item, question=None, state={**state, "stuck_count": 0} if state else None)

    def ask_next(self) -> None:
        """Ask the next stored question about a feature unless an earlier question stops the run."""
        if questions.stops(self._store.state().question):
            return
        for item, asked in self._waiting().items():
            self._ask(item, asked)
            return

    def close(self, paused: str) -> None:
        self.put_back(histories=True)
        self._store.forget_histories()
        if paused:
            self._store.write_pause({"reason": paused, "at": clock.timestamp()})
        if self._landed and self._branch == self._git.branch():
            mirror.after_session(self._project, self._landed)


LANDING_TOLD = {
    "landing_failed": "it was proven, but could not be merged with work that was merged meanwhile.",
    "attempt_lost": "three times in a row its session returned no result.",
    "head_red": "Tests of proven features fail on the branch. To check the branch: harness verify --all",
    "landing_broken": "The merge candidates cannot be verified: the suite gives no result here.",
}


def features_at(project: Project, commit: str) -> FeatureList:
    """Return features.json at a commit. Raise ``StateDamaged`` if the file cannot be parsed."""
    try:
        found = jsontext.loads((project.git.show(commit, project.features_name) or b"").decode("utf-8-sig"))
    except ValueError as error:
        told = f"{project.features_name} of {commit[:10]} does not parse: {error}"
        raise StateDamaged(told, hint=f"correct and commit {project.features_name}") from None
    return FeatureList(members_of(found))


def _is_taken(row: JsonObject, session: int) -> bool:
    """Return True if the project must copy this row from a workspace's log."""
    # the coordinator itself writes the rows about completed features
    return row.get("session") == session and row.get("type") not in ("feature_completed", "awaiting_manual")


def _told(fix: JsonObject) -> JsonObject:
    said = {
        "conflict": "This feature was proven, but it conflicts with work that was merged meanwhile.",
        "conflict_markers": "This feature was proven, but its files contain conflict markers.",
        "red": "This feature was proven, but tests fail together with work that was merged meanwhile.",
    }
    what = [f"resolve the conflict in {path}: the file contains conflict markers" for path in fix.get("files") or []]
    output = str(fix.get("output") or "").strip()
    told = said.get(str(fix.get("why")), "")
    left = [*what, "run the whole suite; then claim the feature again"]
    partial = {"reason": "it was not merged", "done": ["its code and its tests"], "left": left}
    return {"partial": partial, "failure": f"{told}\n{output}".strip()}
