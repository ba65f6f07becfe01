"""Exchange of jobs and results as commits on private refs of a remote that the coordinator and the workers can reach.

    refs/harness/orders/PROJECT/RUN/ITEM/FENCE          parent: the base; tree: order.json, files/
    refs/harness/results/PROJECT/RUN/ITEM/FENCE/TRY     parents: the candidate, rescues; tree: result.json, logs
      .../TRY.saved-N                                   unfinished work, saved every few minutes
      .../TRY.left-N                                    work left in the workspace of a killed worker
      .../TRY.spent                                     cost of the try at the latest push of one of these refs

Engine messages contain only ids and refs. A bundle is the commit of one of these refs, with its files. The receiver
trusts no path in a bundle: it checks file names and replaces all paths of the sending machine. Source: ``scale.md``
decision 5, SC-51, SC-52, SC-57."""

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from agent_harness.engines import exchange, limits
from agent_harness.errors import HarnessError, Refused, TimedOut, UnsafeTree
from agent_harness.kernel import files
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.json import JsonObject, jsontext, number_below
from agent_harness.kernel.redact import redact
from agent_harness.parallel import workspaces
from agent_harness.parallel.budget import MOST_USD, SharedBudget
from agent_harness.parallel.items import ACCEPTED, JOB, RESULT, Job
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.worker_process import EXECUTORS
from agent_harness.session.parallel_settings import REFS, REFS_PATTERN

JOBS, RESULTS = "refs/harness/orders", "refs/harness/results"
PRIVATE = "if a remote accepts only branches: parallel.refs: refs/heads/harness"
MOST_BYTES = 256 << 20
SECONDS = 600.0
_ID = re.compile(r"[0-9A-Za-z]{1,64}(?:/[0-9A-Za-z._%-]{1,300}){2}")
_FOLDERS = ("sessions", "logs")
"""Members of a job's result whose value is a folder. The folder is stored next to the result file."""
_PATH = re.compile(r"(?!/)(?:(?!\.\.?(?:/|$))[^/\0]+(?:/|$))+")


class JobRefused(Refused):
    """Error: the workers refuse to execute this job."""

    code = "order_refused"


class RemoteAway(HarnessError):
    """Error: the git remote could not be reached or rejected a push. A retry can succeed."""

    code = "remote_away"


def refs_of(head: Mapping[str, object]) -> str:
    """Return the ref folder in a job message. Raise ``JobRefused`` if the folder name is invalid."""
    found = head.get("refs", REFS)
    if not isinstance(found, str) or not re.fullmatch(REFS_PATTERN, found):
        raise JobRefused(f"{found!r} is not a valid name for a folder of job refs")
    return found


@dataclass(frozen=True, kw_only=True)
class Bundles:
    """Exchange of one project's jobs and results between a local repository and a git remote."""

    git: Git
    remote: str  # a name of the repository's own settings, or a URL
    project: str
    refs: str = REFS  # where all of it lies at the remote; here it is refs/harness

    def _there(self, ref: str) -> str:
        """Return the remote's name for a local ref or ref pattern."""
        return self.refs + ref.removeprefix(REFS) if ref.startswith(f"{REFS}/") else ref

    def _here(self, ref: str) -> str:
        return REFS + ref.removeprefix(self.refs) if ref.startswith(f"{self.refs}/") else ref

    # ---- at home

    def send(self, job: Job) -> JsonObject:
        """Push a job unless the remote already has the job. Return the job's ref and commit."""
        ref = f"{JOBS}/{self.project}/{job.id}"
        sha = self.git.commit_of(ref)
        if sha is None:
            sha = self._packed(job)
            self.git.update_ref(ref, sha)
        self._push(f"{ref}:{ref}")
        return {"ref": ref, "sha": sha}

    def _packed(self, job: Job) -> str:
        inputs = {name: value for name, value in job.inputs.items() if name not in job.input_files}
        if isinstance(inputs.get("log"), list):
            inputs["log"] = [redact(str(line)) for line in inputs["log"]]
        whole = replace(job, inputs=inputs, lend=()).as_record()
        exclude = self.git.repository_text("exclude")
        told: JsonObject = {"order": whole, "identity": [*self.git.identity], "exclude": exclude}
        told |= {"limits": limits.known_here(), "host": socket.gethostname()}
        contents = {JOB: jsontext.spaced(told).encode("utf-8", "replace")}
        for name in job.input_files:
            with suppress(OSError, HarnessError):
                contents[f"files/{name}"] = files.read_bytes(str(job.inputs[name]))
        parents = [job.base]
        if seed := inputs.get("seed"):
            parents.append(self.git.commit_tree(str(seed), [job.base], "Work to go on with"))
        parents += [str(each) for each in (inputs.get("rescues") or {}).values()]
        return self.git.commit_tree(_tree(self.git, contents), [*dict.fromkeys(parents)], f"Job {job.id}")

    def receive(self, job: Job, head: Mapping[str, object], folder: str) -> None:
        """Fetch a job's result and store the result in ``folder``. Raise ``UnsafeTree`` if the result is invalid."""
        # ``result.json`` is written last, after the files and refs that it names
        ref, sha = str(head.get("ref")), str(head.get("sha"))
        if not ref.startswith(f"{RESULTS}/{self.project}/{job.id}/") or not re.fullmatch(r"[0-9a-f]{40,64}", sha):
            raise UnsafeTree(f"the result of {job.id} refers to {ref!r}, which belongs to another job")
        if self.git.commit_of(sha) is None:
            self._fetch_existing(ref)
        if self.git.commit_of(sha) is None:
            raise UnsafeTree(f"{ref} does not point to the reported commit {sha[:10]}")
        contents = _contents(self.git, sha)
        result = _object(contents.pop(RESULT, b""))
        if result.get("id") != job.id or result.get("fence") != job.fence:
            raise UnsafeTree(f"{ref} does not contain a result of {job.id}")
        limits.take_in(result.pop("limits", None), result.get("host"), of_others=True)
        result["try"] = _try_of(ref)
        theirs = str(result.pop("folder", ""))
        contents.pop(JOB, None)  # the coordinator knows its job
        for path, content in contents.items():
            _write(os.path.join(folder, path), content)
        for name in _FOLDERS:
            inside = str(result.pop(name, "")).removeprefix(f"{theirs}/")
            if _PATH.fullmatch(inside):
                result[name] = os.path.join(folder, inside)
        commits = result.pop("rescue_commits", None) or []
        held = {*self._behind(sha), job.base}
        kept = [self._keep(job.name, str(each)) for each in commits if each in held]
        result["rescues"] = [*kept, *(str(each) for each in result.pop("kept_there", None) or [])]
        if result.get("status") == ACCEPTED and result.get("commit") in held:
            candidate = ProjectRefs(self.project).candidate(job.name, job.fence)
            self.git.update_ref(candidate, str(result["commit"]))
        files.write_json(os.path.join(folder, RESULT), result)
        self.git.update_ref(ref, None)  # ``collect`` has nothing to do with it any more

    def _behind(self, sha: str) -> list[str]:
        return self.git.text("rev-list", "--parents", "-n", "1", sha).split()[1:]

    def _keep(self, name: str, commit: str) -> str:
        folder = f"{workspaces.RESCUE_REFS}/{name}"
        known = self.git.refs_below(f"{folder}/")
        found = next((ref for ref, oid in known.items() if oid == commit), None)
        return found or workspaces.kept_as(self.git, folder, commit)

    def collect(
        self, count: Callable[[str, str, float], None], at_work: frozenset[str] = frozenset(), only: str = ""
    ) -> list[str]:
        """Delete the remote refs of jobs that no longer run. Return the new rescue refs."""
        # ``count`` gets the cost of a try before the deletion, perhaps more than once
        mine = f"{RESULTS}/{self.project}/"
        found: list[str] = []
        known = self.remote_refs(f"{mine}{only}*") | self.remote_refs(f"{JOBS}/{self.project}/{only}*")
        over: list[str] = []
        for ref, sha in sorted(known.items()):
            job = "/".join(ref.split("/")[4:7])
            if job in at_work or (only and job != only) or not _ID.fullmatch(job):
                continue
            over.append(ref)
            is_here = self.git.commit_of(sha) is not None
            if ref.startswith(mine) and not (is_here and self.git.commit_of(ref) != sha):
                self._fetch(f"+{ref}:{ref}")
                commits, spent = self._new_in(ref, sha)
                found += [self._keep(job.split("/")[1], each) for each in commits]
                if spent > 0.0:
                    count(job, _try_of(ref), spent)
        if over:
            self._push(*(f":{ref}" for ref in over))
        for ref in {*self.git.refs_below(mine), *self.git.refs_below(f"{JOBS}/{self.project}/")}:
            if "/".join(ref.split("/")[4:7]) not in at_work and (not only or f"/{only}" in ref):
                self.git.update_ref(ref, None)
        return found

    def _new_in(self, ref: str, sha: str) -> tuple[list[str], float]:
        """Return the commits that contain a try's work, and the try's cost in US dollars."""
        # a ref of saved work points to the work; any other points to a commit whose parents are the work
        if _order_of_saving(ref)[0]:
            return [sha], 0.0
        told = _object(_contents(self.git, sha).get(RESULT, b""))
        spent = number_below(told.get("cost_usd"), MOST_USD) or 0.0
        return [each for each in self._behind(sha) if each != told.get("base")], spent

    def remote_refs(self, pattern: str) -> dict[str, str]:
        """Return the remote refs that match ``pattern``, with their commits.
        Raise ``RemoteAway`` if the remote does not answer."""
        try:
            given = self._served_by("upload-pack")
            there = self._there(pattern)
            found = self.git.remote_refs_like(self.remote, there, served_by=given, timeout_seconds=SECONDS)
            return {self._here(ref): sha for ref, sha in found.items()}
        except (GitFailed, TimedOut) as error:
            raise RemoteAway(f"{self.remote}: {error.message}", hint=f"git ls-remote {self.remote}") from None

    def _served_by(self, program: str) -> str | None:
        if not exchange.is_exchange(self.remote, self.project):
            return None
        try:
            return exchange.served_by(self.remote, program)
        except UnsafeTree as error:  # not mounted, or damaged: until a person has looked
            raise RemoteAway(error.message, hint=f"ls -la {self.remote}") from None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except TimedOut as error:
            raise RemoteAway(f"{self.remote}: {error.message}", hint=f"git ls-remote {self.remote}") from None

    def _push(self, *refspecs: str) -> None:
        given = self._served_by("receive-pack")
        pairs = (each.rpartition(":") for each in refspecs)
        there = [f"{source}:{self._there(ref)}" for source, _, ref in pairs]
        with self._answering():
            done = self.git.push(self.remote, *there, served_by=given, timeout_seconds=SECONDS)
        if not done.ok:
            more = f"; {PRIVATE}" if done.rejected and self.refs == REFS else ""
            raise RemoteAway(f"{self.remote}: {_last(done.message)}{more}", hint=f"git push {self.remote} {there[0]}")

    def _fetch_existing(self, ref: str) -> None:
        """Fetch a ref from the remote. Raise ``UnsafeTree`` if a reachable remote lacks the ref."""
        try:
            self._fetch(f"+{ref}:{ref}")
        except RemoteAway:
            if ref not in self.remote_refs(ref):
                raise UnsafeTree(f"{ref} was deleted from {self.remote}") from None
            raise

    def _fetch(self, *refspecs: str) -> None:
        given = self._served_by("upload-pack")
        pairs = (each.removeprefix("+").split(":") for each in refspecs)
        there = [f"+{self._there(source)}:{ref}" for source, ref in pairs]
        with self._answering():
            done = self.git.fetch(self.remote, *there, tags=False, served_by=given, timeout_seconds=SECONDS)
        if not done.ok:
            raise RemoteAway(f"{self.remote}: {_last(done.message)}", hint=f"git ls-remote {self.remote}")

    # ---- on the workers' side

    def take(self, head: Mapping[str, object], folder: str, workspace: str) -> Job:
        """Return the announced job, with paths for this machine. Raise ``JobRefused`` if the job is invalid."""
        ref, sha = str(head.get("ref")), str(head.get("sha"))
        if not ref.startswith(f"{JOBS}/{self.project}/"):
            raise JobRefused(f"{ref!r} is not a job ref")
        if self.git.commit_of(sha) is None:
            self._fetch(f"+{ref}:{ref}")
        if self.git.commit_of(sha) is None:
            raise JobRefused(f"{ref} does not point to the commit that the run announced")
        contents = _contents(self.git, sha)
        told = _object(contents.get(JOB, b""))
        try:
            job = Job.from_record(told["order"])
            name, address = (str(each) for each in told["identity"])
        except (KeyError, TypeError, ValueError) as error:
            raise JobRefused(f"{ref} contains no valid job ({error!r})") from None
        self._refuse_odd(job, ref)
        for key, value in (("user.name", name), ("user.email", address)):
            self.git.run("config", "--local", key, " ".join(value.split()))
        _write(os.path.join(self.git.shared_dir(), "info", "exclude"), str(told.get("exclude") or "").encode())
        limits.take_in(told.get("limits"), told.get("host"), of_others=False)
        inputs = dict(job.inputs)
        for each in job.input_folders:
            inputs[each] = os.path.join(folder, "state", os.path.basename(each))
            os.makedirs(inputs[each], mode=0o700, exist_ok=True)
        for each in job.input_files:
            inputs[each] = os.path.join(folder, "files", os.path.basename(each))
            if content := contents.get(f"files/{each}"):
                _write(inputs[each], content)
        if job.elsewhere_usd and "parallel" in inputs:
            SharedBudget(str(inputs["parallel"])).begin(job.elsewhere_usd)
        return replace(job, home=str(self.git.top()), workspace=workspace, inputs=inputs, lend=())

    def _refuse_odd(self, job: Job, ref: str) -> None:
        if not _ID.fullmatch(job.id) or ref != f"{JOBS}/{self.project}/{job.id}" or ".." in job.id:
            raise JobRefused(f"{ref} contains the job {job.id!r}, but the name of the ref belongs to another job")
        if job.executor not in EXECUTORS or not job.branch.startswith("refs/heads/"):
            raise JobRefused(f"{job.id} has the type {job.executor!r}, which workers do not execute")
        if self.git.commit_of(job.base) is None or job.name != job.id.split("/")[1]:
            raise JobRefused(f"the base commit of {job.id} was not sent with the job")
        if job.project not in ("", self.project):
            raise JobRefused(f"{job.id} belongs to the project {job.project!r}")

    def saved(self, job_id: str) -> str | None:
        """Return the commit of the job's last saved work, or None."""
        refs = self.remote_refs(f"{RESULTS}/{self.project}/{job_id}/*")
        kept = [ref for ref in refs if ".saved-" in ref or ".left-" in ref]
        if not kept:
            return None
        last = max(kept, key=_order_of_saving)
        self._fetch(f"+{last}:{last}")
        return self.git.commit_of(last)

    def save(self, job_id: str, attempt: int, kind: str, number: int, commit: str, *, spent: float = 0.0) -> str:
        """Push the unfinished work and the cost of a try. Return the ref of the pushed work."""
        # ``kind`` is "saved" or, for work that a killed worker left, "left"
        ref = f"{RESULTS}/{self.project}/{job_id}/{attempt}.{kind}-{number}"
        self._push(f"{commit}:{ref}", *self._account(job_id, attempt, spent))
        return ref

    def _account(self, job_id: str, attempt: int, spent: float) -> list[str]:
        if spent <= 0.0:
            return []
        tree = _tree(self.git, {RESULT: jsontext.spaced({"id": job_id, "cost_usd": spent}).encode()})
        sha = self.git.commit_tree(tree, [], f"Spent for {job_id}")
        return [f"+{sha}:{RESULTS}/{self.project}/{job_id}/{attempt}.spent"]

    def leave(self, job_id: str, attempt: int, commits: Sequence[str], spent: float = 0.0) -> list[str]:
        """Push the commits and the cost of a try that has no result. Return the new refs."""
        # commits that the remote has are skipped, so repeated calls are safe
        mine = f"{RESULTS}/{self.project}/{job_id}/{attempt}"
        there = self.remote_refs(f"{mine}*")
        if mine in there:
            return []
        numbers = [_order_of_saving(ref)[2] for ref in there if ref.startswith(f"{mine}.left-")]
        new = [each for each in dict.fromkeys(commits) if each not in there.values()]
        if not new and (account := self._account(job_id, attempt, spent)):
            self._push(*account)
        return [
            self.save(job_id, attempt, "left", number, commit, spent=spent)
            for number, commit in enumerate(new, max(numbers, default=0) + 1)
        ]

    def answer(self, job: Job, attempt: int, folder: str, began: datetime) -> JsonObject:
        """Push the result in ``folder`` with its commits. Return the message that announces the result."""
        # logs beyond the size that the receiver accepts are only listed, in ``left_out``
        result = files.read_json(os.path.join(folder, RESULT))
        git = self.git
        kept = [str(each) for each in result.pop("rescues", None) or []]
        commits = [sha for ref in kept if ref.startswith("refs/") and (sha := git.commit_of(ref))]
        result |= {"rescue_commits": commits, "kept_there": [each for each in kept if not each.startswith("refs/")]}
        result |= {"folder": folder, "base": job.base, "host": socket.gethostname()}
        result["limits"] = limits.news_of(began)
        contents: dict[str, bytes] = {}
        left_out: list[str] = []
        total = 0
        for at, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(at, name)
                inside = os.path.relpath(path, folder)
                if inside in (RESULT, JOB) or inside.partition("/")[0] in ("state", "files") or os.path.islink(path):
                    continue
                size = os.path.getsize(path)
                if total + size > MOST_BYTES // 2:
                    left_out.append(inside)
                    continue
                total += size
                content = files.read_bytes(path)
                contents[inside] = redact(content.decode("utf-8", "replace")).encode("utf-8", "replace")
        told = result | ({"left_out": left_out} if left_out else {})
        contents[RESULT] = jsontext.spaced(told).encode("utf-8", "replace")
        is_done = result.get("status") == ACCEPTED and git.commit_of(str(result.get("commit")))
        parents = [str(result["commit"]) if is_done else job.base, *commits]
        sha = git.commit_tree(_tree(git, contents), [*dict.fromkeys(parents)], f"Result of {job.id}")
        ref = f"{RESULTS}/{self.project}/{job.id}/{attempt}"
        self._push(f"{sha}:{ref}")
        return {"ref": ref, "sha": sha, "status": result.get("status"), "try": attempt}


def _try_of(ref: str) -> str:
    found = re.fullmatch(r"(\d{1,9})(?:\.spent)?", ref.rpartition("/")[2])
    return found[1] if found else "1"


def _order_of_saving(ref: str) -> tuple[int, bool, int]:
    """Return the sort key of a ref, so that a job's latest saved work comes last."""
    # a try's last work is what a killed worker left
    found = re.fullmatch(r"(\d{1,9})\.(saved|left)-(\d{1,9})", ref.rpartition("/")[2])
    return (int(found[1]), found[2] == "left", int(found[3])) if found else (0, False, 0)


def _tree(git: Git, contents: Mapping[str, bytes]) -> str:
    below: dict[str, dict[str, bytes]] = {}
    rows: list[bytes] = []
    for path, content in sorted(contents.items()):
        first, slash, rest = path.partition("/")
        if slash:
            below.setdefault(first, {})[rest] = content
        else:
            sha = git.run("hash-object", "-w", "--stdin", input=content).strip()
            rows.append(b"100644 blob " + sha + b"\t" + os.fsencode(path))
    rows += [
        b"040000 tree " + _tree(git, inside).encode() + b"\t" + os.fsencode(name) for name, inside in below.items()
    ]
    return git.run("mktree", "-z", input=b"\0".join(rows) + b"\0" if rows else b"").decode().strip()


def _contents(git: Git, sha: str) -> dict[str, bytes]:
    """Return the content of each file in a commit, by path. Raise ``UnsafeTree`` if a file is not allowed."""
    found: dict[str, bytes] = {}
    total = 0
    with git.view(), git.objects() as objects:
        for row in filter(None, git.run("ls-tree", "-r", "-z", "-l", sha).split(b"\0")):
            what, _, name = row.partition(b"\t")
            mode, _, oid, size = what.split()
            path = os.fsdecode(name)
            total += int(size)
            if mode != b"100644" or not _PATH.fullmatch(path) or total > MOST_BYTES:
                raise UnsafeTree(f"{sha[:10]} contains {path!r}, which is not allowed in a bundle")
            read = objects.read(oid.decode())
            found[path] = read[1] if read else b""
    return found


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    files.replace(path, content)


def _object(content: bytes) -> JsonObject:
    try:
        found = jsontext.loads(content, exact=False)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _last(message: str) -> str:
    lines = [line for line in redact(message).splitlines() if line.strip()]
    return lines[-1] if lines else "it did not answer"
