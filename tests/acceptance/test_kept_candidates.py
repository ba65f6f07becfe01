"""Work that only a person can allow is kept, asked about once, and judged again before it counts."""

import json
from typing import Any

import pytest

from .arranging import with_features
from .calc import CalcProject
from .script import (
    CODE,
    append,
    claim,
    commit,
    evidence,
    honest,
    implement,
    proof_ids,
    proof_path,
    proof_text,
    sh,
    turn,
    write,
)
from .seam import each_seam
from .test_faults import person_commits_while_it_is_judged

AHEAD = [*implement(1), append("src/calc.py", f"\n\n{CODE['sub']}"), evidence(1), claim(1), commit("Add, and sub")]
TESTS_ONLY = [write(proof_path(2), proof_text(2)), evidence(2), claim(2), commit("Tests of sub")]
AUTOUSE = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef quiet():\n    yield\n"
WITH_FIXTURE = [*implement(2), write("tests/conftest.py", AUTOUSE), evidence(2), claim(2), commit("Implement sub")]


def built_ahead(calc: CalcProject) -> str:
    """Session 1 builds the next feature as well, session 2 finds it there; the HEAD before session 2."""
    first = calc.run([turn(AHEAD)])
    assert first.code == 0, first.text
    head = calc.head
    second = calc.run([turn(TESTS_ONLY, times=9)])
    assert second.code == 3, second.text
    return head


def asked(calc: CalcProject) -> dict[str, Any]:
    """The question that status repeats."""
    found = calc.harness("status", "--json").json["escalation"]
    assert isinstance(found, dict)
    return found


def turns_of(calc: CalcProject, session: int) -> int:
    return len([row for row in calc.events("agent_started") if row["session"] == session])


@pytest.mark.exhaustive
@each_seam
def test_work_that_exists_is_asked_about_at_once_and_accepted_by_its_proof(calc: CalcProject) -> None:
    """No fix round, no third session: the question names the ids, and the answer is judged, not believed."""
    head = built_ahead(calc)
    assert turns_of(calc, 2) == 1, "an agent cannot mend that the work was there"
    assert (calc.head, calc.passing(), calc.changes()) == (head, [1], [])
    question = asked(calc)
    assert question["type"] == "built_already"
    assert question["options"][:2] == ["accept-built", "reject"]
    assert "seems to be built already" in question["message"]
    said = "\n".join(question["details"])
    assert f"{proof_path(2)}::test_sub failed" in said, "the placeholder, before"
    for node in proof_ids(2):
        assert node in said
    assert '"requires_red": false' in said
    assert calc.git("rev-parse", question["ref"]) == question["commit"]
    assert calc.state["verification_failures"] == {}
    told = calc.harness("status").out
    assert "--choose accept-built --feature 2  # or reject, manual, skip, abort" in told
    done = calc.harness("resume", "--choose", "accept-built")
    assert done.code == 0, done.text
    for line in (f"Before: {proof_path(2)}::test_sub failed", "known tests still pass", "they need later work"):
        assert line in done.text
    assert calc.passing() == [1, 2]
    assert calc.changes() == []
    assert calc.remote() == calc.head
    assert calc.git("merge-base", "--is-ancestor", question["commit"], "HEAD") == ""
    assert set(proof_ids(2)) <= set(calc.baseline["passing_tests"])
    assert calc.state["kept_candidates"] == []
    assert not calc.git("for-each-ref", "refs/harness/kept")
    assert calc.harness("status", "--json").json["escalation"] is None
    (question_event,), (answer_event,) = calc.events("escalation"), calc.events("escalation_answered")
    assert (question_event["kind"], answer_event["kind"], answer_event["answer"]) == (
        *["built_already"] * 2,
        "accept-built",
    )
    third = calc.run([turn(honest(3))])
    assert third.code == 0, third.text
    assert calc.passing() == [1, 2, 3]


@pytest.mark.exhaustive
def test_what_was_broken_since_is_not_accepted(calc: CalcProject) -> None:
    """The kept work is judged on what is there when the answer comes."""
    built_ahead(calc)
    path = calc.root / "src/calc.py"
    path.write_text(path.read_text().replace("return a - b", "return a * b"))
    head = calc.commit("A person breaks sub")
    refused = calc.harness("resume", "--choose", "accept-built")
    assert refused.code == 1, refused.text
    assert "Feature test failed when harness ran it." in refused.err
    assert (calc.head, calc.passing(), calc.changes()) == (head, [1], [])
    assert asked(calc)["type"] == "built_already", "the question waits"


def test_tests_that_assert_nothing_are_no_proof_of_earlier_work(calc: CalcProject) -> None:
    """A claim with a hollow test is asked about, and is not accepted; reject goes on as after any rejection."""
    calc.accept(1)
    hollow = [write(proof_path(2), "def test_x():\n    pass\n"), evidence(2), claim(2), commit("Implement sub")]
    ran = calc.run([turn(hollow, times=9)])
    assert ran.code == 3, ran.text
    assert "Insufficient evidence" in ran.text
    refused = calc.harness("resume", "--choose", "accept-built")
    assert refused.code == 1, refused.text
    assert "asserts nothing that could fail" in refused.err
    assert calc.passing() == [1]
    given_up = calc.harness("resume", "--choose", "J")
    assert given_up.code == 0, given_up.text
    assert calc.state["verification_failures"] == {"2": 1}
    assert calc.state["kept_candidates"] == []
    assert not calc.git("for-each-ref", "refs/harness/kept")
    assert calc.git("show", "refs/harness/rolled-back/2:" + proof_path(2)).startswith("def test_x")
    assert calc.run([turn(honest(2))]).code == 0
    assert calc.passing() == [1, 2]


@pytest.mark.exhaustive
def test_a_feature_that_was_opened_again_by_a_person_can_be_accepted_as_built(calc: CalcProject) -> None:
    """After ``override --passes false`` on a sound feature: its tests were placeholders when it was planned."""
    calc.accept(1)
    assert calc.harness("override", "--feature", "1", "--passes", "false", "--yes").code == 0
    ran = calc.run([turn(evidence(1), claim(1), commit("It is there"), times=9)])
    assert ran.code == 3, ran.text
    assert f"{proof_path(1)}::test_add failed" in ran.text
    done = calc.harness("resume", "--choose", "accept-built", "--json")
    assert done.code == 0, done.text
    assert done.json["accepted"] is True
    assert calc.passing() == [1]


@pytest.mark.exhaustive
def test_what_a_person_built_while_another_feature_was_asked_about_can_be_accepted(calc: CalcProject) -> None:
    """They finished #2, said no to its mark, and its session finds it done."""
    assert calc.harness("handoff").code == 0
    path = calc.root / "src/calc.py"
    path.write_text(path.read_text() + f"\n\n{CODE['sub']}")
    calc.put({proof_path(2): proof_text(2)})
    calc.commit("Sub, by hand")
    assert calc.harness("takeback").code == 0
    assert calc.passing() == []
    assert calc.run([turn(evidence(2), claim(2), times=9)], "--feature", "2").code == 3
    assert calc.harness("resume", "--choose", "1").code == 0
    assert calc.passing() == [2]


@pytest.mark.exhaustive
def test_a_run_until_done_goes_on_and_ends_with_the_question(calc: CalcProject) -> None:
    """Its feature waits, the others are built, and what needs it is not."""
    assert calc.run([turn(AHEAD)]).code == 0
    for feature in (4, 5, 6):
        assert calc.harness("skip", "--feature", str(feature)).code == 0
    ran = calc.run([turn(TESTS_ONLY, feature=2), turn(honest(3), feature=3)], "--until-done", "--json")
    assert ran.code == 3, ran.text
    assert [row["feature_id"] for row in ran.json["sessions"]] == [2, 3]
    assert ran.json["escalation"]["type"] == "built_already"
    assert calc.passing() == [1, 3]
    again = calc.run([turn(honest(2))], "--until-done")
    assert again.code == 3, again.text
    assert "harness resume --choose accept-built --feature 2 # or reject, manual, skip, abort" in again.err
    done = calc.harness("resume", "--choose", "accept-built")
    assert done.code == 0, done.text
    assert calc.passing() == [1, 2, 3]
    assert calc.changes() == []
    assert proof_text(2) == (calc.root / proof_path(2)).read_text()


@pytest.mark.exhaustive
def test_a_run_until_done_answers_by_itself_where_the_settings_say_so(calc: CalcProject) -> None:
    """Only where older code shows the tests red; a hollow test waits for a person."""
    calc.configure("verification:\n  built_already: accept\n")
    assert calc.run([turn(AHEAD)]).code == 0
    hollow = [
        write(proof_path(3), "import calc\n\n\ndef test_x():\n    assert calc.__doc__\n"),
        evidence(3),
        claim(3),
        commit("No mul"),
    ]
    for feature in (4, 5, 6):
        assert calc.harness("skip", "--feature", str(feature)).code == 0
    ran = calc.run([turn(TESTS_ONLY, feature=2), turn(hollow, feature=3, times=9)], "--until-done")
    assert ran.code == 3, ran.text
    assert calc.passing() == [1, 2]
    assert "The feature's tests fail on no older code, so a person must decide." in ran.text
    question = asked(calc)
    assert question["feature_id"] == 3
    assert not any("The session also changed" in line for line in question["details"])
    assert calc.remote() == calc.head


@pytest.mark.exhaustive
def test_a_session_that_changed_code_beside_the_tests_of_older_work_is_looked_at_by_a_person(calc: CalcProject) -> None:
    """The setting accepts what was there; what came with it is named, and is a person's to accept."""
    calc.configure("verification:\n  built_already: accept\n")
    assert calc.run([turn(AHEAD)]).code == 0
    more = [append("src/calc.py", "\n\nEXTRA = 1\n"), *TESTS_ONLY]
    ran = calc.run([turn(more, feature=2, times=9), turn({"exit": 3}, times=9)], "--until-done", "--sessions", "1")
    assert ran.code == 3, ran.text
    assert "The session also changed src/calc.py, so a person must decide." in ran.text
    assert any("The session also changed src/calc.py" in line for line in asked(calc)["details"])
    assert calc.passing() == [1]
    assert calc.harness("resume", "--choose", "accept-built").code == 0
    assert "EXTRA" in (calc.root / "src/calc.py").read_text()


# -- protected files ---------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@each_seam
def test_a_wanted_change_of_protected_files_is_one_question_and_the_work_is_kept(calc: CalcProject) -> None:
    """No silent roll-back: the files are named, the answer is judged, and what else the session did counts."""
    head = calc.accept(1)
    ran = calc.run([turn(WITH_FIXTURE, times=9)])
    assert ran.code == 3, ran.text
    assert turns_of(calc, 2) == 1
    assert (calc.head, calc.passing(), calc.changes()) == (head, [1], [])
    question = asked(calc)
    assert question["type"] == "protected_change"
    assert question["paths"] == ["tests/conftest.py"]
    assert "Session 2 also changed older tests or the way in which tests run: tests/conftest.py." in question["message"]
    assert question["options"][:2] == ["accept-change", "reject"]
    assert "With the old versions of these files, every known test passes, too." in question["details"]
    assert "def quiet" in calc.git("diff", "HEAD", question["ref"])
    done = calc.harness("resume", "--choose", "accept-change")
    assert done.code == 0, done.text
    assert calc.passing() == [1, 2]
    assert (calc.root / "tests/conftest.py").read_text() == AUTOUSE
    assert calc.changes() == []
    assert calc.remote() == calc.head
    assert calc.run([turn(honest(3))]).code == 0


@pytest.mark.exhaustive
def test_rejecting_a_change_of_protected_files_is_a_rejection(calc: CalcProject) -> None:
    """Nothing of it is on the branch; the next session is told, and the work is in a rescue."""
    head = calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    done = calc.harness("resume", "--choose", "reject")
    assert done.code == 0, done.text
    assert (calc.head, calc.passing()) == (head, [1])
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert "A person rejected the work of Session 2" in calc.harness("status").out
    assert calc.git("show", "refs/harness/rolled-back/2:tests/conftest.py") == AUTOUSE.rstrip()
    assert calc.run([turn(honest(2))]).code == 0


@pytest.mark.exhaustive
def test_a_change_that_is_allowed_allows_no_other(calc: CalcProject) -> None:
    """Only the named files are free: what is broken since is a regression, and the question waits."""
    calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    question = asked(calc)
    calc.put({proof_path(1): proof_text(1).replace("== 5", "== 6")})
    head = calc.commit("A person breaks a known test")
    refused = calc.harness("resume", "--choose", "accept-change")
    assert refused.code == 1, refused.text
    assert f"{proof_ids(1)[0]} now failing" in refused.err
    assert (calc.head, calc.passing(), calc.changes()) == (head, [1], [])
    assert asked(calc) == question
    calc.put({proof_path(1): proof_text(1)})
    calc.commit("And mends it")
    assert calc.harness("resume", "--choose", "accept-change").code == 0
    assert calc.passing() == [1, 2]


@pytest.mark.exhaustive
def test_what_breaks_more_than_a_rule_is_rejected_without_a_question(calc: CalcProject) -> None:
    """A protected file was changed, and with it allowed a known test fails: rolled back as ever, and said."""
    head = calc.accept(1)
    lose = [*WITH_FIXTURE[:-1], write(proof_path(1), "import pytest\n\npytestmark = pytest.mark.skip\n"), commit("Sub")]
    ran = calc.run([turn(lose, times=9)])
    assert ran.code == 1, ran.text
    assert "There is another problem" in ran.text
    assert calc.head == head
    assert calc.state["kept_candidates"] == []
    assert asked(calc)["type"] == "claim_rejected"


def test_an_older_test_that_asserts_nothing_any_more_is_rejected_without_a_question(calc: CalcProject) -> None:
    """One of its two tests is emptied, and the other one stays as it was."""
    head = calc.accept(1)
    less = proof_text(1).replace("    assert calc.add(2, 3) == 5", "    return\n    assert calc.add(2, 3) == 5")
    ran = calc.run([turn([*implement(2), write(proof_path(1), less), evidence(2), claim(2), commit("Sub")], times=9)])
    assert ran.code == 1, ran.text
    assert f"There is another problem: {proof_ids(1)[0]} can no longer fail, whatever the code does." in ran.text
    assert (calc.head, calc.state["kept_candidates"]) == (head, [])


@pytest.mark.exhaustive
def test_an_older_test_that_only_runs_the_code_now_is_a_question_that_says_so(calc: CalcProject) -> None:
    """It can still fail, so a person decides; a test that is gone is named as well."""
    calc.accept(1)
    less = proof_text(1).replace("assert calc.add(2, 3) == 5", "calc.add(2, 3)").replace("test_add_two", "add_two")
    ran = calc.run([turn([*implement(2), write(proof_path(1), less), evidence(2), claim(2), commit("Sub")], times=9)])
    assert ran.code == 3, ran.text
    said = "\n".join(asked(calc)["details"])
    assert (
        f"{proof_ids(1)[0]} no longer asserts anything; it fails only if the code that it runs raises an error." in said
    )
    assert f"Tests removed from a file that may change: {proof_ids(1)[1]}." in said
    assert f"{proof_path(1)} had 2 assertions and has 0." in said


@pytest.mark.exhaustive
def test_the_question_says_how_much_less_an_older_test_asks_for(calc: CalcProject) -> None:
    """In numbers: a person need not read the whole diff to see it."""
    calc.accept(1)
    calc.put({proof_path(1): proof_text(1) + "    assert calc.add(0, 0) == 0\n"})
    calc.commit("A person adds an assertion")
    ran = calc.run([turn([*implement(2), write(proof_path(1), proof_text(1)), evidence(2), claim(2), commit("Sub")])])
    assert ran.code == 3, ran.text
    assert f"{proof_path(1)} had 3 assertions and has 2." in asked(calc)["details"]


@pytest.mark.exhaustive
def test_an_older_test_that_had_to_change_says_what_it_was_for(calc: CalcProject) -> None:
    """The behaviour changes on purpose, with its test: the question names the test that fails as it was."""
    calc.accept(1)
    other = proof_text(1).replace("calc.add(2, 3) == 5", "calc.add(2, 3) == '5'").replace("== 0", "== '0'")
    change = [
        *implement(2),
        sh("sed -i.bak 's/return a + b/return str(a + b)/' src/calc.py && rm src/calc.py.bak"),
        write(proof_path(1), other),
        evidence(2),
        claim(2),
        commit("Sub, and texts"),
    ]
    ran = calc.run([turn(change)])
    assert ran.code == 3, ran.text
    question = asked(calc)
    assert f"{proof_path(1)} (holds tests of Feature #1)" in question["message"]
    one, two = proof_ids(1)
    assert f"With the old versions of these files, {one}, {two} fail." in question["details"]
    assert calc.harness("resume", "--choose", "accept-change").code == 0
    assert (calc.root / proof_path(1)).read_text() == other
    assert calc.passing() == [1, 2]


def test_a_change_is_taken_on_top_of_what_was_accepted_meanwhile(calc: CalcProject) -> None:
    """Until done: the other features are built, and the answer puts the work on top of them."""
    calc.accept(1)
    for feature in (4, 5, 6):
        assert calc.harness("skip", "--feature", str(feature), "--reason", "later").code == 0
    apart = [
        write("src/sub.py", CODE["sub"]),
        write(proof_path(2), proof_text(2).replace("import calc", "import sub as calc")),
        write("tests/conftest.py", AUTOUSE),
        evidence(2),
        claim(2),
        commit("Implement sub"),
    ]
    ran = calc.run([turn(apart, feature=2), turn(honest(3), feature=3)], "--until-done")
    assert ran.code == 3, ran.text
    assert calc.passing() == [1, 3]
    before = calc.progress
    done = calc.harness("resume", "--choose", "accept-change", "--json")
    assert done.code == 0, done.text
    assert calc.passing() == [1, 2, 3]
    assert calc.head == done.json["commit"]
    assert calc.changes() == []
    assert calc.progress.startswith(before), "the story of the others stays"
    ended = calc.run([turn(honest(1))])
    assert ended.code == 0, ended.text
    assert "#4 (User can div two numbers) was skipped: later" in ended.out
    assert "Project complete" not in ended.text


@pytest.mark.exhaustive
def test_work_that_conflicts_with_what_came_since_is_said_to(calc: CalcProject) -> None:
    """Both write the same lines: nothing is merged by guess."""
    calc.accept(1)
    for feature in (4, 5, 6):
        assert calc.harness("skip", "--feature", str(feature)).code == 0
    ran = calc.run([turn(WITH_FIXTURE, feature=2), turn(honest(3), feature=3)], "--until-done")
    assert ran.code == 3, ran.text
    assert "Feature #2 waits for your answer: " in calc.harness("status").out
    head = calc.head
    refused = calc.harness("resume", "--choose", "accept-change")
    assert refused.code == 4, refused.text
    assert "changes the same lines as work that was accepted later" in refused.err
    assert (calc.head, calc.changes()) == (head, [])
    assert calc.harness("resume", "--choose", "reject").code == 0


def test_an_answer_waits_for_a_clean_tree_and_for_unfinished_work(calc: CalcProject) -> None:
    """Uncommitted work of a person is not touched; unproven work of another feature is not pushed."""
    calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    calc.put({"src/notes.py": "NOTE = 1\n"})
    refused = calc.harness("resume", "--choose", "accept-change")
    assert refused.code == 4, refused.text
    assert "src/notes.py" in refused.err
    (calc.root / "src/notes.py").unlink()
    assert calc.run([turn(append("src/calc.py", "\n\nHALF = 1\n"))]).code == 0
    unfinished = calc.harness("resume", "--choose", "accept-change")
    assert unfinished.code == 4, unfinished.text
    assert "Feature #3 is unfinished, and its unproven work is on the branch." in unfinished.err
    assert calc.passing() == [1]
    assert calc.run([turn(honest(3))]).code == 0
    assert calc.harness("run", "--feature", "2", agent=[turn(honest(2))]).code == 3
    assert calc.harness("skip", "--feature", "2").code == 0
    assert calc.harness("status", "--json").json["questions"] == [], "skipped: nothing is left to ask"
    assert not calc.git("for-each-ref", "refs/harness/kept")


def test_only_the_work_that_was_asked_about_is_taken_and_only_its_own_ref_goes(calc: CalcProject) -> None:
    """Whoever wrote another name into the state: no branch is deleted, and nothing else is accepted."""
    calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    calc.git("branch", "precious")
    calc.git("update-ref", "refs/harness/kept/9", "HEAD~1")
    path = calc.root / ".harness/session_state.json"
    state, question = calc.state, asked(calc)
    for ref in ("refs/heads/precious", "refs/harness/kept/9"):
        path.write_text(json.dumps({**state, "kept_candidates": [5, {}, {**question, "ref": ref}]}))
        refused = calc.harness("resume", "--choose", "accept-change")
        assert refused.code == 4, refused.text
        assert f"{ref} does not contain the work of Session 2" in refused.err
    path.write_text(json.dumps({**state, "kept_candidates": [{**question, "ref": "refs/heads/precious"}]}))
    assert calc.harness("resume", "--choose", "reject").code == 0
    assert calc.git("rev-parse", "precious") == calc.head
    assert (calc.passing(), calc.state["kept_candidates"]) == ([1], [])


def test_a_commit_of_a_person_while_kept_work_is_judged_stays_and_the_question_waits(calc: CalcProject) -> None:
    """It was not judged together with theirs; the same answer again is."""
    calc.environ["HARNESS_SANDBOX"] = "off"  # it plays somebody from outside
    person_commits_while_it_is_judged(calc)
    calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    (calc.base / "now").touch()
    refused = calc.harness("resume", "--choose", "accept-change")
    assert refused.code == 4, refused.text
    assert "The branch has moved during the verification" in refused.err
    assert calc.git("log", "-1", "--format=%s") == "Mine"
    assert (calc.passing(), calc.changes()) == ([1], [])
    again = calc.harness("resume", "--choose", "accept-change")
    assert again.code == 0, again.text
    assert calc.git("show", "HEAD:mine.txt") == "of the person"
    assert calc.passing() == [1, 2]


def test_a_kept_candidate_is_listed_and_never_pruned_while_it_waits(calc: CalcProject) -> None:
    calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    ref = asked(calc)["ref"]
    assert ref in [each["ref"] for each in calc.harness("rescue", "list", "--json").json["rescues"]]
    pruned = calc.harness("rescue", "prune", "--older-than", "0", "--json")
    assert pruned.code == 0, pruned.text
    assert ref not in pruned.json["pruned"]
    assert calc.harness("resume", "--choose", "accept-change").code == 0


def test_an_answer_that_is_cut_off_is_carried_out_by_the_next_run(calc: CalcProject) -> None:
    """C56: the verdict was written down, a bisect began, one file of it was written; every step is repeated."""
    calc.environ["HARNESS_SANDBOX"] = "off"  # it plays somebody from outside
    settings = (calc.root / ".harness.yaml").read_text()
    linter = f"test ! -e {calc.base}/now || touch {calc.root}/.git/BISECT_LOG"
    calc.put({".harness.yaml": settings.replace("python tools/lint.py src/", linter)})
    calc.commit("Lint in another way")
    calc.git("push", "-q")
    calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    head, question = calc.head, asked(calc)
    (calc.base / "now").touch()
    cut_off = calc.harness("resume", "--choose", "accept-change")
    assert cut_off.code == 4, cut_off.text
    assert "bisect" in cut_off.err
    assert calc.head == head
    (calc.base / "now").unlink()
    (calc.root / ".git/BISECT_LOG").unlink()
    calc.put({"tests/conftest.py": AUTOUSE})
    ran = calc.run([turn(honest(3))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1, 2, 3]
    assert calc.git("merge-base", "--is-ancestor", question["commit"], "HEAD") == ""
    assert calc.state["kept_candidates"] == []
    assert not calc.git("for-each-ref", "refs/harness/kept")
    assert calc.changes() == []


@pytest.mark.exhaustive
def test_a_feature_that_a_person_confirms_waits_for_them(calc: CalcProject) -> None:
    """C13: a kept candidate of a hybrid feature is accepted, and its mark is the person's."""
    calc.accept(1)
    with_features(calc, lambda found: found[1].update(verification_type="hybrid"))
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    done = calc.harness("resume", "--choose", "accept-change")
    assert done.code == 0, done.text
    assert calc.passing() == [1]
    assert calc.harness("status", "--json").json["awaiting_manual"] == [2]
    assert "harness manual-verify --feature 2" in done.out
    assert calc.harness("manual-verify", "--feature", "2", "--yes").code == 0
    assert calc.passing() == [1, 2]


@pytest.mark.exhaustive
def test_a_bar_of_one_session_asks_about_the_work_and_not_about_being_stuck(calc: CalcProject) -> None:
    """C35: nothing is counted before the answer, and a rejection is."""
    calc.configure("features:\n  max_stuck_sessions: 1\n")
    calc.accept(1)
    assert calc.run([turn(WITH_FIXTURE)]).code == 3
    assert [each["type"] for each in calc.harness("status", "--json").json["questions"]] == ["protected_change"]
    assert calc.harness("resume", "--choose", "reject").code == 0
    again = calc.run([turn(honest(2))])
    assert again.code == 3, again.text
    assert asked(calc)["type"] in ("feature_stuck", "verification_failed")


@pytest.mark.exhaustive
def test_several_questions_are_answered_by_their_feature(calc: CalcProject) -> None:
    """Each waits with its own work; the second is answered first."""
    calc.accept(1)
    other = [
        write("src/mul.py", CODE["mul"]),
        write(proof_path(3), proof_text(3).replace("import calc", "import mul as calc")),
        write("pytest.ini", (calc.root / "pytest.ini").read_text().replace("addopts =", "addopts = -p no:doctest")),
        evidence(3),
        claim(3),
        commit("Implement mul"),
    ]
    for feature in (4, 5, 6):
        assert calc.harness("skip", "--feature", str(feature)).code == 0
    ran = calc.run([turn(WITH_FIXTURE, feature=2), turn(other, feature=3)], "--until-done", "--json")
    assert ran.code == 3, ran.text
    found = calc.harness("status", "--json").json["questions"]
    assert [(each["type"], each["feature_id"]) for each in found] == [("protected_change", 2), ("protected_change", 3)]
    assert calc.harness("resume", "--choose", "accept-change", "--feature", "4").code == 2
    second = calc.harness("resume", "--choose", "accept-change", "--feature", "3")
    assert second.code == 0, second.text
    assert calc.passing() == [1, 3]
    first = calc.harness("resume", "--choose", "accept-change")
    assert first.code == 0, first.text
    assert calc.passing() == [1, 2, 3]
    assert calc.changes() == []


@pytest.mark.exhaustive
def test_work_over_several_sessions_is_kept_as_a_whole(calc: CalcProject) -> None:
    """C64: back to before the feature's first session; the kept candidate holds what both sessions did."""
    start = calc.accept(1)
    assert calc.run([turn(append("src/calc.py", f"\n\n{CODE['sub']}"), commit("Half of sub"))]).code == 0
    assert calc.head != start
    rest = [write(proof_path(2), proof_text(2)), write("tests/conftest.py", AUTOUSE), evidence(2), claim(2)]
    ran = calc.run([turn(rest)])
    assert ran.code == 3, ran.text
    assert (calc.head, calc.changes()) == (start, [])
    assert calc.harness("resume", "--choose", "accept-change").code == 0
    assert calc.passing() == [1, 2]
    assert calc.changes() == []
