"""Explanation of an item's state: claims, verdicts, decisions of a person, and commands with which users can check the
item.

    found = why.explain(view, why.item_of(view, "5"))
    print("\\n".join(why.lines(found)))

The user runs the commands in this order in one shell in the project's folder. The commands need git and the project's
own tools, but not the harness. Source: ``faces.md`` 3, F-STORY-3."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from agent_harness.errors import HarnessError, UsageError
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.terminal import quoted
from agent_harness.session import project_view
from agent_harness.session.ledger import ClaimVerdict, VerdictStep
from agent_harness.session.project_view import Item, Money, PastSession, ProjectView, span
from agent_harness.session.status_summary import NOT_REPORTED, shown_reason, why_kept

__all__ = ["commits_moved", "explain", "histories", "item_of", "lines", "outputs", "wasted", "with_sessions"]

Changes = Mapping[tuple[str, str], Sequence[str]]
"""Changed paths, keyed by a pair of commits."""

History = tuple[list[ClaimVerdict], list[PastSession]]
"""Claims and sessions of an item, each oldest first."""

MOST_LINES = 30
"""Maximum number of output lines without ``--full``."""

INDENT = 11
_PRINTED = 8  # last lines of a check's output

REASONS = {
    "answers_differ": "a function returned a different result when called outside its test",
    "changed_by_its_run": "the check passed, but changed files of the work",
    "check_changed": "the agent changed a file that the check runs",
    "breaks_completed": "the work breaks a task that was completed before",
    "broken_later": "a later change broke the item",
    "cleanup_claimed": "a cleanup session claimed a feature",
    "cleanup_worse": "the cleanup added lint errors",
    "compiled_file": "compiled files were removed before the check",
    "criteria_unmet": "some success criteria are not met",
    "cut_short": "the worker was stopped before it ended",
    "damaged_commit": "the commit is damaged",
    "data_changed": "the agent changed data that the check reads",
    "differs_in_tests": "the code may differ in tests from what is built",
    "environment_changed": "the agent changed a script of the environment",
    "fails_in_suite": "the item's tests pass alone but fail in the suite",
    "flaky_test": "a test passed and failed on the same code",
    "green_before": "the check also passed before the work",
    "link_leads_out": "a symbolic link points outside the repository",
    "lint": "the linter found errors",
    "marked_by_hand": "the item was marked as done in the file",
    "multiple_claims": "more than one item was claimed",
    "no_evidence": "the agent showed no evidence",
    "no_proof_run": "no check was run",
    "not_landed": "the work was proven in its workspace but not merged",
    "not_verified": "the work has not been verified",
    "own_files": "the agent changed files of the harness",
    "over_limit": "the checks exceeded a resource limit",
    "packages_changed": "the agent changed installed packages",
    "passes_only_in_place": "the check passes in the work tree but not in a clean checkout",
    "product_knows_tests": "the code checks whether it is being tested",
    "proof_failed": "the check failed",
    "proof_not_red": "the item's tests also passed on the base commit",
    "protected_test_changed": "the agent changed tests that do not belong to the item",
    "regression": "tests that passed before now fail",
    "review_objected": "the reviewing agent objected to the work",
    "runner_config_changed": "the agent changed settings of the test runner",
    "shadowing_file": "a new file hides a module of the same name",
    "suite_failed": "the suite did not run",
    "test_support_changed": "the agent changed files that tests depend on",
    "tests_gone": "tests that passed before are missing",
    "timed_out": "the check took too long",
    "trivial_test": "the test asserts nothing",
    "unchanged": "nothing was changed, and the check passed before",
    "only_checked": "the check passes, but a proof is required",
    "undo_interrupted": "an undo of the item was interrupted",
    "weak_test": "the test still passes when the code is broken on purpose",
    "worker_failed": "the worker failed",
    "wrong_feature": "another feature was claimed",
}
"""Text for each verdict code; an unknown code is shown with blanks for underscores."""

WORDS = {
    "override": "marked the item as done without a proof",
    "manual": "verified the item manually",
    "takeback": "returned the item as done",
    "undo": "undid the item",
    "redo": "restored the item",
    "accept-change": "allowed the change of protected files",
    "accept-unchanged": "confirmed that the item was already done",
    "accept-built": "accepted the item as already built",
    "reject": "rejected the work",
    "evidence": "decided if a criterion is met",
    "record done": "said that the task is done",
}
LINKED = (".venv", "venv", "node_modules", "vendor")
"""Folders of installed packages that are not committed; a checkout gets symbolic links to them."""

_TEST_NAMES = ("test_", "conftest.")
_TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec", "specs"})


# ---- which item


def item_of(view: ProjectView, named: str | None) -> Item:
    """Return the item with the id ``named``, such as ``#5``. Without an id, return the project's only item."""
    if not view.items:
        if view.gaps:
            gap = view.gaps[0]
            raise UsageError(f"{gap.file} cannot be read: {gap.why}", hint="harness doctor")
        raise UsageError("This project has no items yet", hint=BEGIN.get(view.kind, "harness status"))
    if not named:
        if len(view.items) == 1:
            return view.items[0]
        raise UsageError("The item id is missing", hint=f"harness why {quoted(view.items[0].id)}")
    wanted = named.strip()
    short = wanted.lower().removeprefix("feature").strip(" #-")
    exact = (each for each in view.items if each.id in (wanted, wanted.removeprefix("#")))
    like = (each for each in view.items if each.id.lower() in (wanted.lower(), short))
    if found := next(exact, None) or next(like, None):
        return found
    from difflib import get_close_matches

    known = [each.id for each in view.items]
    near = next(iter(get_close_matches(wanted, known, 1, 0.6)), "")
    meant = f" Did you mean '{near}'?" if near else f" Known: {', '.join(known[:10])}{', ...' if known[10:] else ''}."
    raise UsageError(f"No item '{named}' in this project.{meant}", hint=f"harness why {quoted(near or known[0])}")


BEGIN = {
    "features": 'harness add-feature "User can ..."',
    "tasklist": 'harness add "Add a limit" --validate "pytest -q"',
    "longtask": "lth validate .",
}


# ---- the answer


def explain(
    view: ProjectView,
    item: Item,
    *,
    changed: Changes | None = None,
    moved: Mapping[str, str] | None = None,
    history: History | None = None,
) -> JsonObject:
    """Return all facts that explain an item's state, for JSON output and for ``lines``."""
    from agent_harness.kernel.redact import redact

    claims, sessions = history or histories(view, item.id)[item.id]
    is_done = item.state in project_view.DONE
    proof = next((each for each in reversed(claims) if is_done and each.accepted), None)
    if moved is None:
        moved = commits_moved(view.path, [proof] if proof else [])
    asked = view.asked_of(item)
    now = [each for each in view.now if each.item in (item.name, item.id)]
    return {
        "kind": view.kind,
        "item": item.id,
        "name": item.name,
        "title": item.title,
        "state": item.state,
        "reason": redact(item.reason) or None,
        "proof": redact(item.proof) if item.proof else None,
        "proven": _proven(proof, moved),
        "check": [*checks(view, item, proof, changed=changed, moved=moved)] if item.state in project_view.DONE else [],
        "claims": [_claim(each, session, view.kind) for each, session in with_sessions(claims, sessions)],
        "waits_for": [
            {"item": each.id, "name": each.name, "state": each.state}
            for each in view.items
            if each.id in item.waits_for
        ],
        "questions": [{"message": redact(each.message), "answer": each.answer} for each in asked],
        "rests": view.state.rests,
        "now": [each.line() for each in now],
        "stopped": bool(now) and not any(each.alive for each in now),
        "cost": cost(sessions, claims),
        "gaps": [{"file": each.file, "why": each.why} for each in view.gaps],
        "next": view.next_of(item),
    }


def last_verdict(view: ProjectView, item: Item) -> ClaimVerdict:
    if claims := histories(view, item.id)[item.id][0]:
        return claims[-1]
    raise UsageError(f"{item.name} has no verdict on record", hint=f"harness why {quoted(item.id)}")


def histories(view: ProjectView, *items: str | None) -> dict[str | None, History]:
    found: dict[str | None, History] = {each: ([], []) for each in items}
    for claim in view.claims:
        if claim.item in found:
            found[claim.item][0].append(claim)
    for session in view.sessions:
        if session.item in found:
            found[session.item][1].append(session)
    return found


def commits_moved(folder: str, claims: Iterable[ClaimVerdict]) -> dict[str, str]:
    """Return the ids of accepted commits that were rebased, as a mapping from old to new id."""
    landed = (each for each in claims if each.accepted and each.commit != each.candidate)  # merged: another id
    commits = [each.commit for each in landed if each.commit]
    top = _top(folder) if commits else None
    if top is None:
        return {}
    from agent_harness.kernel.git import Git
    from agent_harness.parallel.merge_queue import trailers

    with suppress(HarnessError, OSError):
        git = Git(top)
        if head := git.head():
            return trailers.moved(git, head, commits)
    return {}


def _proven(line: ClaimVerdict | None, moved: Mapping[str, str]) -> JsonObject | None:
    if line is None:
        return None
    commit = line.commit or line.candidate
    tests = next((each.passed for each in line.steps if each.step == "proof"), None)
    return {
        "commit": moved.get(commit, commit) if commit else None,
        "session": line.session,
        "attempt": line.attempt,
        "tests": tests,
        "at": line.at,
        "by": "person" if line.by_person else "proof",
        "basis": line.basis,
        "word": line.word,
    }


def with_sessions(
    claims: Iterable[ClaimVerdict], sessions: Sequence[PastSession]
) -> list[tuple[ClaimVerdict, PastSession | None]]:
    """Return each claim with its session, or with None if its session is unknown."""
    last = {each.number: each for each in sessions if each.number is not None}
    first = {each.number: each for each in reversed(sessions) if each.number is not None}
    attempts: dict[tuple[int | None, int | None], PastSession] = {
        (each.number, each.attempt): each for each in sessions if each.attempt is not None
    }

    def of(claim: ClaimVerdict) -> PastSession | None:
        # a long task's claim has the number of its slice; several attempts at a task can share a session
        if claim.session is None:
            return first.get(claim.attempt or 0)
        return attempts.get((claim.session, claim.attempt)) or last.get(claim.session)

    return [(each, of(each)) for each in claims]


def _claim(line: ClaimVerdict, session: PastSession | None, kind: str) -> JsonObject:
    back = session is not None and not line.accepted and kind != "longtask" and session.outcome not in DONE
    return {
        "n": line.n,
        "at": line.at,
        "session": line.session if line.session is not None else line.attempt,
        "agent": line.agent,
        "model": line.model,
        "by": line.by or "agent",
        "word": line.word,
        "claimed": bool(line.claim),
        "verdict": line.verdict,
        "codes": list(line.codes),
        "why": _why(line),
        "commit": line.commit,
        "regressions": list(line.regressions),
        "regressions_total": line.regressions_total,
        "steps": [{name: value for name, value in vars(each).items() if value is not None} for each in line.steps],
        "rolled_back": session.rescue_ref if session and back else None,
        "kept_as": why_kept(session.outcome) if session and back and session.rescue_ref else None,
        "outputs": [each.log for each in line.steps if each.log],
    }


def _why(line: ClaimVerdict) -> str:
    if line.by_person:
        return f"a person {WORDS.get(line.word or '', f'said: {line.word}')}"
    if line.accepted:
        told = [part for each in line.steps if (part := _passed(each))]
        known = [REASONS.get(each, each.replace("_", " ")) for each in line.codes]
        only = [f"but only checked: {line.basis}"] if line.grade == project_view.CHECKED and line.basis else []
        return ", ".join([*told, *(f"but {each}" for each in known), *only])
    parts = []
    for code in line.codes or ("refused",):
        said = REASONS.get(code, code.replace("_", " "))
        if code == "regression" and line.regressions_total:
            first = f", first {line.regressions[0]}" if line.regressions else ""
            count = f"{line.regressions_total} tests" if line.regressions_total > 1 else "1 test"
            said = f"{count} that passed before now fail{'' if line.regressions_total > 1 else 's'}{first}"
        if code == "criteria_unmet":
            unmet = [each.name or "?" for each in line.steps if each.result == "failed"]
            said = f"not met: {', '.join(unmet)}" if unmet else said
        if code == "not_landed":
            said = ", ".join([REASONS[code], *(each.name for each in line.steps if each.name)])
        parts.append(f"{code}: {said}")
    return "; ".join(parts)


def _passed(step: VerdictStep) -> str:
    if step.result != "passed":
        return ""
    if step.step == "proof":
        return "proof passed" if step.passed is None else f"proof {step.passed} passed"
    if step.step == "suite":
        several = "suite passed" if step.passed is None else f"{step.passed} tests of the suite pass"
        return "1 test of the suite passes" if step.passed == 1 else several
    return {"red": "red before", "criterion": f"{step.name} met"}.get(step.step, "")


# ---- how to check it yourself


def checks(
    view: ProjectView,
    item: Item,
    line: ClaimVerdict | None,
    *,
    moved: Mapping[str, str],
    changed: Changes | None = None,
) -> Iterator[JsonObject]:
    """Yield the commands with which the user can check the item. Each command has its expected result."""
    root = view.path
    commands = [each for each in line.steps if each.command and each.step in ("proof", "criterion")] if line else []
    if view.kind == "longtask" or not line or not line.commit:
        for step in commands:
            folder = item.folders.get(step.name or "") or item.folder or root
            entered = "" if os.path.realpath(folder) == os.path.realpath(root) else f"cd {quoted(folder)} && "
            yield {"command": f"{entered}{_one_command(str(step.command))}", "must": "pass"}
        return
    if not commands:
        return
    top = _top(item.folder or root)
    if top is None:
        return
    plain = "".join(each if each.isalnum() or each in "-_" else "-" for each in item.id)[:40].strip("-") or "item"
    place = _free(os.path.join(os.path.dirname(top), f"check-{plain}"))
    shown = quoted(os.path.relpath(place, root))
    inside = os.path.relpath(item.folder or root, top)
    command = f"{_imports(top, inside)}{_one_command(str(commands[0].command))}"
    folder = shown if inside == "." else quoted(os.path.join(os.path.relpath(place, root), inside))
    git = "git" if _top(root) == top else f"git -C {quoted(top)}"
    added = shown if git == "git" else quoted(place)
    commit = moved.get(line.commit, line.commit)[:12]
    linked = "".join(f"ln -s {quoted(os.path.join(top, each))} . && " for each in _linked(top))
    yield {
        "command": f"{git} worktree add --detach {added} {commit} && cd {folder} && {linked}{command}",
        "must": "pass",
    }
    was_red = any(each.step == "red" and each.result == "passed" for each in line.steps)
    before = line.red_base or line.base
    if was_red and before:
        kept = " ".join(
            quoted(f":(top,exclude,literal){each}") for each in _test_side(top, before, line, item, changed)
        )
        restored = f"git restore --source={before[:12]} --staged --worktree -- :/ {kept}".rstrip()
        yield {"command": f"{restored} && {command}", "must": "fail"}
    back = quoted(root)
    yield {"command": f"cd {back} && {git} worktree remove --force {added}", "must": "pass", "after": True}


def _one_command(command: str) -> str:
    """Return the shell command as one line that can follow ``&&``."""
    if "\n" in command:
        escaped = command.strip().replace("\\", "\\\\").replace("\n", "\\n")
        return f'sh -c "$(printf %b {quoted(escaped)})"'
    simple = not any(sign in command for sign in ";|&<>#") and not command.startswith("!")
    return command if simple else f"sh -c {quoted(command)}"


def _top(folder: str) -> str | None:
    """Return the top folder of the work tree that contains ``folder``, or None without a work tree."""
    here = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(here, ".git")):
        here, before = os.path.dirname(here), here
        if here == before:
            return None
    return here


def _free(place: str) -> str:
    found, number = place, 2
    while os.path.lexists(found):
        found, number = f"{place}-{number}", number + 1
    return found


def _linked(top: str) -> list[str]:
    return [each for each in LINKED if os.path.isdir(os.path.join(top, each))]


def _imports(top: str, inside: str) -> str:
    """Return an assignment of ``PYTHONPATH`` with which Python imports from the checkout, or "" if it is
    unnecessary."""
    roots = [os.path.normpath(os.path.relpath(each, inside)) for each in _editable(top, os.environ.get("PATH", ""))]
    if not roots:
        return ""
    folders = ":".join('"$PWD"' if each == "." else f'"$PWD"/{quoted(each)}' for each in roots)
    own = ':"$PYTHONPATH"' if os.environ.get("PYTHONPATH") else ""
    return f"PYTHONPATH={folders}{own} "


_found: dict[tuple[str, str, int], tuple[str, ...]] = {}  # only the latest; a report asks once for each item
_KEPT_SECONDS = 5


def _editable(top: str, search_path: str) -> tuple[str, ...]:
    key = (top, search_path, int(time.monotonic()) // _KEPT_SECONDS)
    roots = _found.get(key)
    if roots is None:
        from pathlib import Path  # imported late: both slow the start, and only proven items need them

        from agent_harness.verification.runner.linked_paths import mapped_in

        roots = mapped_in(Path(top), _linked(top), search_path).roots
        _found.clear()
        _found[key] = roots
    return roots


def _test_side(top: str, before: str, line: ClaimVerdict, item: Item, known: Changes | None) -> list[str]:
    from agent_harness.kernel.git import Git

    changed: Sequence[str] = ()
    if known is not None:
        changed = known.get((before, str(line.commit)), ())
    else:
        with suppress(HarnessError, OSError):
            changed = [each.path for each in Git(top).changed_paths(before, str(line.commit))]
    return sorted({*item.test_files, *filter(is_test_side, changed)})


def is_test_side(path: str) -> bool:
    *folders, name = path.split("/")
    named = name.startswith(_TEST_NAMES) or os.path.splitext(name)[0].endswith(("_test", ".test", ".spec"))
    return named or not _TEST_FOLDERS.isdisjoint(folders)


# ---- what it has cost


def cost(sessions: Sequence[PastSession], claims: Sequence[ClaimVerdict]) -> JsonObject:
    money, lost = Money.of(sessions), Money.of(wasted(sessions, claims))
    known = [each.seconds for each in sessions if each.seconds is not None]
    return {
        "spent_usd": money.known_usd,
        "sessions": money.sessions,
        "sessions_of_unknown_cost": money.unknown,
        "seconds": round(sum(known), 1) if known else None,
        "rejected_usd": lost.known_usd,
        "rejected_sessions": lost.sessions,
    }


def usd(amount: float) -> str:
    return "less than $0.01" if 0 < amount < 0.005 else f"${amount:.2f}"


DONE = ("verified", "completed")


def wasted(sessions: Sequence[PastSession], claims: Sequence[ClaimVerdict]) -> list[PastSession]:
    """Return the sessions with rejected work and without an accepted claim."""
    believed: dict[int, list[ClaimVerdict]] = {}
    for claim, its in with_sessions((each for each in claims if not each.by_person), sessions):
        believed.setdefault(id(its), []).append(claim)
    found = []
    for session in sessions:
        mine = believed.get(id(session), [])
        refused = any(not each.accepted for each in mine) or session.outcome.startswith(("rejected", "failed"))
        if refused and session.outcome not in DONE and not any(each.accepted for each in mine):
            found.append(session)
    return found


# ---- what the steps printed


def outputs(view: ProjectView, item: Item, number: int) -> list[tuple[str, str]]:
    """Return the name and output of each step in verdict ``number``."""
    from agent_harness.kernel import files

    mine = histories(view, item.id)[item.id][0]
    line = next((each for each in mine if each.n == number), None)
    name = quoted(item.id)
    if line is None:
        known = ", ".join(str(each.n) for each in mine) or "none"
        raise UsageError(f"{item.name} has no verdict {number}. Its verdicts: {known}", hint=f"harness why {name}")
    found = []
    for step in line.steps:
        path = os.path.normpath(os.path.join(view.path, step.log)) if step.log else ""
        if path.startswith(view.path + os.sep) and os.path.isfile(path) and not os.path.islink(path):
            found.append((step.name or step.step, files.read_bytes(path).decode("utf-8", "replace")))
    if not found:
        raise UsageError(f"The output of verdict {number} of {item.name} was not kept", hint=f"harness why {name}")
    return found


# ---- for a person


def not_landed(home: str | None, item: str) -> list[JsonObject]:
    """Return each refusal to merge the item's proven work in the last parallel run."""
    from agent_harness.kernel import journal
    from agent_harness.kernel.redact import redact

    found: list[JsonObject] = []
    with suppress(HarnessError, OSError):
        for event in journal.read(os.path.join(home, "parallel", "ledger.jsonl")) if home else ():
            fix = event.get("mend")
            if event.get("type") == "bounced" and event.get("item") == item and isinstance(fix, dict):
                row: JsonObject = {"at": event.get("at"), "why": str(fix.get("why"))}
                row |= {name: [str(each) for each in fix.get(name) or ()] for name in ("failing", "files", "met")}
                found.append(row | {"output": redact(str(fix.get("output") or ""))})
    return found


def _landing_lines(found: JsonObject) -> list[str]:
    rows: list[str] = []
    for each in found.get("not_landed") or ():
        at = clock.parse(each["at"])
        when = f"{at.astimezone():%m-%d %H:%M}" if at else ""
        with_ = f", with {', '.join(each['met'])}" if each["met"] else ""
        where = f" in {', '.join(each['files'][:3])}" if each["files"] else ""
        failed = f": {', '.join(each['failing'][:3])}" if each["failing"] else ""
        rows.append(f"{when}  {each['why'].replace('_', ' ')}{where}{with_}{failed}")
    if rows and (printed := found["not_landed"][-1]["output"].strip().splitlines()):
        rows += [f"     {line[:200]}" for line in printed[-_PRINTED:]]
    return [_row("" if number else "not landed", each) for number, each in enumerate(rows)]


def lines(found: JsonObject, *, full: bool = False) -> list[str]:
    """Return the result of ``explain`` as lines of text. Unless ``full`` is True, return at most ``MOST_LINES``
    lines."""
    head = [_headline(found), *_check_lines(found)]
    story = _story_lines(found)
    tail = [*_landing_lines(found), *_wait_lines(found), *_cost_lines(found), _row("next", str(found["next"]))]
    room = MOST_LINES - len(head) - len(tail) - 1
    if not full and len(story) > room + 1:
        name = quoted(str(found["item"]))
        left = len(story) - room
        story = [_row("story", f"{left} earlier lines: harness why {name} --full"), *story[-room:]]
        story[1:] = [f"{'':<{INDENT}}{each[INDENT:]}" for each in story[1:]]
    return [*head, *story, *tail]


def _row(label: str, text: str) -> str:
    return f"{label:<{INDENT - 1}} {text}"


def _headline(found: JsonObject) -> str:
    name = found["name"] if found["title"] in ("", found["name"]) else f"{found['name']} {found['title']}"
    proven, claims = found["proven"], found["claims"]
    if (word := found["state"]) in project_view.DONE:
        if proven is None:
            return f"{name}: marked {word}, but no verdict is on record"
        at = f" at {proven['commit'][:7]}" if proven["commit"] else ""
        if proven["by"] == "person":
            return f"{name}: marked done by a person ({proven['word']}){at}, without a proof"
        session = proven["session"] if proven["session"] is not None else proven["attempt"]
        told = [f"session {session}"] if session is not None else []
        told += [f"{proven['tests']} tests"] if proven["tests"] is not None else []
        facts = f" ({', '.join(told)})" if told else ""
        return f"{name}: {word}{at}{facts}"
    refused = sum(each["verdict"] == "rejected" for each in claims)
    said = f", {len(claims)} claims, {refused} rejected" if claims else ", no claim yet"
    said = f", 1 claim, {claims[0]['verdict']}" if len(claims) == 1 else said
    word = "stopped" if found["stopped"] and found["state"] == project_view.WORKING else found["state"]
    return f"{name}: {word}{said}"


def _check_lines(found: JsonObject) -> list[str]:
    if found["state"] not in project_view.DONE:
        return [_row("proof", str(found["proof"] or "no check is set"))]
    if not found["check"]:
        why = (
            "no command: a person decided about the item"
            if found["proven"]
            else f"run the item's check: {found['proof']}"
        )
        return [_row("check it", why)]
    basis = (found["proven"] or {}).get("basis")
    rows = [_row("rests on", basis)] if basis else []
    for number, each in enumerate(found["check"]):
        label = "and before" if each["must"] == "fail" else "then" if "after" in each else "" if number else "check it"
        rows.append(_row(label, f"{each['command']}{'   # must fail' if each['must'] == 'fail' else ''}"))
    return rows


def _story_lines(found: JsonObject) -> list[str]:
    rows: list[str] = []
    refs = [each["rolled_back"] for each in found["claims"]]
    for each, after in zip(found["claims"], [*refs[1:], None], strict=False):
        at = clock.parse(each["at"])
        when = f"{at.astimezone():%m-%d %H:%M}" if at else ""
        session = f"S{each['session']}" if each["session"] is not None else "-"
        if each["by"] == "person":
            verdict = "accepted" if each["verdict"] == "accepted" else "NOT ACCEPTED"
            rows.append(f"{when}  {each['why']}: {verdict}")
            continue
        who = f"{each['agent'] or 'unknown agent'} {'said done' if each['claimed'] else 'did not say done'}"
        verdict = "accepted:" if each["verdict"] == "accepted" else "REJECTED"
        rows.append(f"{session:<4} {when}  {who}   {verdict} {each['why']}".rstrip(" :"))
        kept = []
        if each["verdict"] != "accepted":
            if each["kept_as"] and each["rolled_back"] != after:  # once for each session, with its last claim
                ref = quoted(str(each["rolled_back"]).removeprefix("refs/harness/"))
                named = ref if found["kind"] == "tasklist" else each["session"]
                kept.append(f"{shown_reason(each['kept_as'])}, kept: harness diff {named}")
            name = quoted(str(found["item"]))
            kept += [f"output: harness why {name} --output {each['n']}"] if each["outputs"] else []
        rows += [f"     {'   '.join(kept)}"] if kept else []
    return [_row("" if number else "story", each) for number, each in enumerate(rows)]


def _wait_lines(found: JsonObject) -> list[str]:
    rows = [_row("now", each) for each in found["now"]]
    if found["state"] not in project_view.DONE:
        rows += [_row("because", " ".join(str(found["reason"]).split())[:400])] if found["reason"] else []
        waits = ", ".join(f"{each['name']} ({each['state']})" for each in found["waits_for"])
        rows += [_row("waits for", waits)] if waits else []
        rows += [_row("needs you", " ".join(each["message"].split())[:400]) for each in found["questions"]]
        rows += [_row("paused", f"the project: {found['rests']}")] if found["rests"] else []
    rows += [_row("not seen", f"{each['file']}: {each['why']}") for each in found["gaps"]]
    return rows


def _cost_lines(found: JsonObject) -> list[str]:
    told = found["cost"]
    if not told["sessions"]:
        told_of = "not known until the running session ends" if found["now"] else "none: no session has worked on it"
        return [_row("cost", told_of)] if not found["claims"] else []
    unknown = told["sessions_of_unknown_cost"]
    spent = NOT_REPORTED if told["spent_usd"] is None else f"{'at least ' if unknown else ''}{usd(told['spent_usd'])}"
    count = f"{told['sessions']} session{'s' if told['sessions'] > 1 else ''}"
    took = f", {span(told['seconds'])}" if told["seconds"] is not None else ""
    text = f"{spent} ({count}{took})"
    if told["rejected_sessions"]:
        lost = "" if told["rejected_usd"] is None else f" ({usd(told['rejected_usd'])})"
        text += f"; {told['rejected_sessions']} rejected{lost}"
    if unknown and told["spent_usd"] is not None:
        text += f"; {unknown} without a cost"
    return [_row("cost", text)]
