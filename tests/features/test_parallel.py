"""``harness run --workers N`` on a feature project: real agents in real workspaces, and what becomes of their work."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.features.api import FeatureProject
from agent_harness.testing import CommandResult
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.feature_list_project import module_code as code
from agent_harness.testing.feature_list_project import module_work as work
from agent_harness.views.transcript import TranscriptEnd
from agent_harness.views.watch import WatchReader

from ..tasklist.test_parallel_costs import LateEngine

Steps = list[dict[str, Any]]


def project(base: Path, *names: str, settings: str = "", **members: Any) -> FeatureListProject:
    """One feature a name, and a file in which all of them may meet."""
    files = {"shared.py": "ALL = []\n"}
    return FeatureListProject.of_modules(base / "shop", *names, settings=settings, files=files, members=members)


def turn(number: int, steps: Steps, **more: Any) -> dict[str, Any]:
    return {"when": {"feature": number}, "do": steps, **more}


def run(
    made: FeatureListProject, turns: Any, workers: int = 2, *words: str, environ: dict[str, str] | None = None
) -> CommandResult:
    return made.harness("run", "--workers", str(workers), *words, agent=turns, environ=environ)


NO_SANDBOX = {"HARNESS_SANDBOX": "off"}
"""For an agent that does in the project what a person may do there meanwhile."""


def landed(made: FeatureListProject) -> list[str]:
    return made.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split()


def green_all_along(made: FeatureListProject) -> None:
    """At each commit of the first-parent history the tests of all features that are marked by then pass."""
    for commit in made.git("rev-list", "--first-parent", "HEAD").split():
        marked = [row for row in json.loads(made.git("show", f"{commit}:features.json"))["features"] if row["passes"]]
        workspace = made.base / "then" / commit
        made.git("worktree", "add", "-q", "--detach", str(workspace), commit)
        if marked:
            words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(r["test_file"] for r in marked)]
            ran = subprocess.run(words, cwd=workspace, capture_output=True, check=False)
            assert ran.returncode == 0, ran.stdout.decode()
        made.git("worktree", "remove", "--force", str(workspace))


def test_two_features_land_once_with_two_workers(tmp_path: Path) -> None:
    """SC-1, SC-33."""
    made = project(tmp_path, "ham", "egg")
    turns = [
        turn(n, [*work(n, name), {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}])
        for n, name in ((1, "ham"), (2, "egg"))
    ]
    ran = run(made, turns, 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["exit_code"]) == (0, 0), ran.text
    assert sorted(each["item"] for each in answer["landed"]) == ["1", "2"]
    assert sorted(landed(made)) == ["1", "2"]
    assert made.passing() == [1, 2]
    assert made.changes() == []


@pytest.mark.kept("True")
@pytest.mark.scenario
@pytest.mark.parametrize("heard", [True, False])
def test_what_a_lost_session_cost_that_comes_back_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: bool
) -> None:
    """SC-42: in the sums of project and feature, whether the run had heard of it when it gave it up, or not."""
    made = project(tmp_path, "ham")
    spent = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}
    agent = made.agent([turn(1, work(1, "ham", spent))])
    monkeypatch.chdir(made.root)
    ran = FeatureProject.open(made.root).run(
        agents=[agent], workers=1, engine_factory=lambda git, folder, say, refs: LateEngine(heard)
    )
    assert (ran["exit_code"], ran["lost"], ran["cost_usd"]) == (0, 1, 0.5), ran
    cumulative = made.read(".harness/costs.yaml")["cumulative"]
    assert (cumulative["total_sessions"], cumulative["total_cost_usd"]) == (2, 0.5)
    (row,) = cumulative["by_feature"]
    assert (row["feature_id"], row["cost_usd"]) == (1, 0.5)


@pytest.mark.scenario
def test_a_session_that_is_refused_goes_back_with_its_work_and_another_account_goes_on(tmp_path: Path) -> None:
    """SC-43: its own workspace begins nothing again for the account; the next session of the feature continues."""
    made = project(tmp_path, "ham", "egg")
    half: Steps = [{"write": {"path": "half.py", "text": "HALF = 1\n"}}, {"rate_limit": {"retry_after_seconds": 7200}}]
    tired = made.agent([turn(n, [*half, {"exit": 1}]) for n in (1, 2)])
    fresh = made.agent([turn(1, work(1, "ham")), turn(2, work(2, "egg"))])
    ran = made.harness("run", "--workers", "1", "--json", "--agent", tired, "--agent", fresh)
    answer = json.loads(ran.out)
    assert (ran.code, answer["attempts"], answer["lost"]) == (0, 2, 0), ran.text
    assert made.passing() == [1, 2]
    (limit,) = json.loads(made.harness("limits", "--json").out)["limits"]
    assert limit["account"].startswith("scripted:")
    assert limit["attempt"] == 1
    assert made.git("log", "--format=%s", "--", "half.py")  # what was begun went along
    assert made.state["stuck_count"] == 0


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_single_feature_lands_with_the_verdict_that_it_has(tmp_path: Path) -> None:
    """SC-32: on the commit that it was proven on, its suite is not run again."""
    made = project(tmp_path, "ham")
    answer = json.loads(run(made, [turn(1, work(1, "ham"))], 1, "--json").out)
    assert (made.passing(), answer["checks"], answer["exit_code"]) == ([1], 0, 0)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_four_features_of_which_one_needs_another_land_once_and_the_books_are_at_home(tmp_path: Path) -> None:
    """SC-1, SC-2, SC-6, SC-33, SC-37."""
    names = ("ham", "egg", "tea", "jam")
    made = project(tmp_path, *names, tea={"depends_on": [1]})
    made.put({"mine.txt": "not yet committed\n"})
    spent = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}
    ran = run(made, [turn(n, work(n, name, spent)) for n, name in enumerate(names, 1)], 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["attempts"], answer["bounces"]) == (0, "done", 4, 0), ran.text
    assert (sorted(landed(made)), made.passing()) == (["1", "2", "3", "4"], [1, 2, 3, 4])
    job = landed(made)
    assert job.index("3") < job.index("1")
    assert made.changes() == ["?? mine.txt"]
    books_are_whole(made, 4, 0.25)
    assert answer["cost_usd"] == pytest.approx(1.0)
    assert len(made.baseline["passing_tests"]) == 4
    assert [row["feature_id"] for row in made.events("feature_completed")] == [int(i) for i in reversed(job)]
    assert all(made.progress.count(f"FEATURE: #{n} ") == 1 for n in (1, 2, 3, 4))
    assert made.harness("verify", "--all").code == 0
    green_all_along(made)


def books_are_whole(made: FeatureListProject, sessions: int, each_usd: float) -> None:
    """Each session is told of once: its cost, its record, the verdict on its claim."""
    rows = made.log("sessions.jsonl")
    assert len({row["order"] for row in rows}) == len(rows)
    assert len({row["session_id"] for row in rows}) == len(rows)
    cumulative = made.read(".harness/costs.yaml")["cumulative"]
    assert (cumulative["total_sessions"], cumulative["total_cost_usd"]) == (
        sessions,
        pytest.approx(sessions * each_usd),
    )
    accepted = [row for row in verdicts(made) if row["verdict"] == "accepted"]
    assert sorted(row["item"] for row in accepted) == sorted(map(str, made.passing()))
    assert [made.git("rev-parse", "--verify", row["commit"]) for row in accepted]
    assert made.state["last_session"] >= sessions


def state_folder(made: FeatureListProject) -> Path:
    return next(Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects").glob("%*shop%.git"))


def verdicts(made: FeatureListProject) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state_folder(made) / "verdicts.jsonl").read_text().splitlines()]


@pytest.mark.scenario
def test_a_worker_that_lies_is_rejected_its_feature_is_asked_about_and_the_others_land(tmp_path: Path) -> None:
    """SC-4, SC-9: the claim proves nothing, a person decides, and what depends on nobody goes on."""
    settings = "verification: {fix_rounds: 0}\nfeatures: {max_stuck_sessions: 1}\n"
    made = project(tmp_path, "ham", "egg", "tea", settings=settings)
    wrong = {"write": {"path": "ham.py", "text": "def answer(times):\n    return ''\n"}}
    turns = [turn(1, work(1, "ham", wrong)), turn(2, work(2, "egg")), turn(3, work(3, "tea"))]
    ran = run(made, turns, 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["escalation"]["type"], answer["escalation"]["feature_id"]) == (
        3,
        "feature_stuck",
        1,
    ), ran.text
    assert (sorted(landed(made)), made.passing()) == (["2", "3"], [2, 3])
    assert [each["item"] for each in answer["parked"]] == ["1"]
    assert [row["verdict"] for row in verdicts(made) if row["item"] == "1"] == ["rejected"]
    kept = made.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue/1").split()
    assert any(made.git("show", f"{ref}:ham.py", check=False) for ref in kept)
    assert run(made, turns).code == 3  # until it is answered
    assert made.harness("resume", "--choose", "retry").code == 0
    ran = run(made, [turn(1, work(1, "ham"))])
    assert (ran.code, made.passing()) == (0, [1, 2, 3]), ran.text


def listed(number: int, name: str, *all_of_them: str) -> Steps:
    """A feature that is in a list which every feature has to change."""
    steps = work(number, name)
    asked = f"import shared\n\n\ndef test_{name}():\n    assert '{name}' in shared.names()\n"
    text = f"def names():\n    return {[*all_of_them]!r}\n"
    steps[0] = {"write": {"path": "shared.py", "text": text}}
    steps[1] = {"write": {"path": f"tests/test_{name}.py", "text": asked}}
    return steps


@pytest.mark.scenario
def test_what_does_not_go_together_is_mended_and_lands(tmp_path: Path) -> None:
    """SC-30, SC-31: both change one line; the one that comes second finds both sides in its file."""
    made = project(tmp_path, "ham", "egg")
    both = {"prompt_contains": "it conflicts with work"}
    seen = {"run": f"cp shared.py {tmp_path}/seen.py"}
    mend = [[seen, *listed(n, name, "ham", "egg")] for n, name in ((1, "ham"), (2, "egg"))]
    turns = [{"when": {"feature": n, **both}, "do": steps} for n, steps in enumerate(mend, 1)]
    turns += [turn(1, listed(1, "ham", "ham")), turn(2, listed(2, "egg", "egg"))]
    ran = run(made, turns, 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, made.passing()) == (0, [1, 2]), ran.text
    assert answer["bounces"] == 1
    assert sorted(landed(made)) == ["1", "2"]
    (row,) = made.events("sent_back")
    assert row["why"] == "conflict"
    told = f"Feature #{row['feature_id']} was proven, but not merged (conflict): shared.py"
    assert told in made.harness("log", "query").out
    assert "<<<<<<< " in (tmp_path / "seen.py").read_text()
    assert made.changes() == []
    green_all_along(made)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_culprit_of_a_red_batch_is_mended_and_the_others_land(tmp_path: Path) -> None:
    """SC-34: three are proven one by one; two of them are red together, which nobody could know."""
    made = project(tmp_path, "ham", "egg", "tea")
    alone = (
        "import os\n\nimport egg\n\n\ndef test_egg():\n    assert egg.answer(2) == 'eggegg'\n"
        "    assert egg.FREE or not os.path.exists('ham.py')\n"
    )
    wait = {"run": f"touch {tmp_path}/done.$$; until [ $(ls {tmp_path}/done.* | wc -l) -ge 3 ]; do sleep 0.1; done"}
    egg = work(
        2,
        "egg",
        {"append": {"path": "egg.py", "text": "\n\nFREE = False\n"}},
        {"write": {"path": "tests/test_egg.py", "text": alone}},
        wait,
    )
    free = {"run": "sed -i s/False/True/ egg.py"}
    mended = work(
        2,
        "egg",
        {"append": {"path": "egg.py", "text": "\n\nFREE = True\n"}},
        {"write": {"path": "tests/test_egg.py", "text": alone}},
    )
    turns = [
        {"when": {"feature": 2, "prompt_contains": "together with work that"}, "do": mended},
        {"when": {"feature": 1, "prompt_contains": "together with work that"}, "do": [free, *work(1, "ham")]},
        turn(2, egg), turn(1, work(1, "ham", wait)), turn(3, work(3, "tea", wait)),
    ]  # fmt: skip
    ran = run(made, turns, 3, "--json")
    answer = json.loads(ran.out)
    assert made.passing() == [1, 2, 3], ran.text
    assert (ran.code, sorted(landed(made))) == (0, ["1", "2", "3"]), ran.text
    assert answer["bounces"] >= 1
    green_all_along(made)


# ---- what a person has to decide -------------------------------------------------------------------------------------


@pytest.mark.scenario
def test_work_that_a_person_may_allow_is_kept_at_home_while_others_go_on(tmp_path: Path) -> None:
    """SC-9: the tests pass before the work; the question and its candidate are the project's."""
    made = project(tmp_path, "ham", "egg")
    made.put({"ham.py": code("ham")})
    made.commit("It is there already")
    turns = [turn(1, work(1, "ham")), turn(2, work(2, "egg"))]
    ran = run(made, turns, 2, "--json")
    assert (ran.code, made.passing()) == (3, [2]), ran.text
    (asked,) = made.state["kept_candidates"]
    assert (asked["type"], asked["feature_id"]) == ("built_already", 1)
    assert made.git("rev-parse", asked["ref"]) == asked["commit"]
    ran = made.harness("resume", "--choose", "accept-built", "--feature", "1")
    assert (ran.code, made.passing()) == (0, [1, 2]), ran.text


@pytest.mark.scenario
def test_unfinished_work_of_a_serial_run_goes_on_in_a_place(tmp_path: Path) -> None:
    """SC-10: the branch goes back to what is accepted, and the feature continues where it was."""
    made = project(tmp_path, "ham", "egg")
    head = made.head
    half = [{"write": {"path": "ham.py", "text": code("ham")}}]
    assert made.harness("run", agent=[turn(1, half)]).code == 0
    assert made.state["next_prompt"] == "continuation"
    rest = [{"run": f"cp ham.py {tmp_path}/seen.py"}, *work(1, "ham")[1:]]
    ran = run(made, [turn(1, rest), turn(2, work(2, "egg"))])
    assert (ran.code, made.passing()) == (0, [1, 2]), ran.text
    assert (tmp_path / "seen.py").read_text() == code("ham")
    first_parents = made.git("log", "--first-parent", "--format=%s").splitlines()
    assert not [line for line in first_parents if line.startswith("WIP")]
    assert made.git("merge-base", "HEAD", head) == head
    green_all_along(made)


@pytest.mark.scenario
def test_an_attempt_that_ends_unfinished_goes_on_where_it_was(tmp_path: Path) -> None:
    """SC-13: what a session left is kept for the next one of its feature, whatever has landed meanwhile."""
    made = project(tmp_path, "ham", "egg")
    half = [{"write": {"path": "ham.py", "text": code("ham")}}]
    rest = [{"run": f"cp ham.py {tmp_path}/seen.py"}, *work(1, "ham")[1:]]
    turns = [
        {"when": {"feature": 1, "prompt_type": "continuation"}, "do": rest},
        turn(1, half),
        turn(2, work(2, "egg")),
    ]
    ran = run(made, turns)
    assert (ran.code, made.passing()) == (0, [1, 2]), ran.text
    assert (tmp_path / "seen.py").read_text() == code("ham")


@pytest.mark.scenario
def test_several_at_work_share_the_projects_budget_and_their_work_is_kept(tmp_path: Path) -> None:
    """SC-42: what the next call of each may cost is reserved; nobody is blamed for what others have spent."""
    budget = "costs: {per_session_usd: 0.5, per_feature_usd: 0.5, total_project_usd: 0.6}\n"
    made = project(tmp_path, "ham", "egg", "tea", settings=budget)
    spent = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}
    ran = run(made, [turn(n, work(n, name, spent)) for n, name in enumerate(("ham", "egg", "tea"), 1)], 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["escalation"]) == (9, "budget", None), ran.text
    assert made.read(".harness/costs.yaml")["cumulative"]["total_cost_usd"] <= 0.6
    assert (made.state["stuck_count"], made.state["verification_failures"]) == (0, {})
    kept = made.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue").split()
    assert len(kept) + len(made.passing()) >= 1


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_feature_that_a_person_confirms_lands_and_waits(tmp_path: Path) -> None:
    """SC-33: the head's features.json gets what the session has come to, which is no mark."""
    made = project(tmp_path, "ham", "egg", egg={"verification_type": "hybrid", "manual_checks": ["Look at it"]})
    ran = run(made, [turn(1, work(1, "ham")), turn(2, work(2, "egg"))])
    assert (ran.code, made.passing()) == (0, [1]), ran.text
    assert made.features["features"][1]["awaiting_manual"]["session"]
    assert "harness manual-verify --feature 2" in ran.out
    assert "You must verify: Feature #2" in made.harness("status").out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_settings_hold_for_the_places_and_for_what_lands(tmp_path: Path) -> None:
    """SC-17, SC-30: two workers by the settings, a set-up in each workspace, a file of which both sides are kept."""
    said = tmp_path / "said"
    settings = f"""\
parallel:
  workers: 2
  setup: 'echo "up $HARNESS_WORKER" >> {said}'
  union: [CHANGELOG.md]
  ports: 7
"""
    made = project(tmp_path, "ham", "egg", settings=settings)
    made.put({"CHANGELOG.md": "# Changes\n"})
    made.commit("Changes")
    both = {
        "run": f"touch {tmp_path}/$HARNESS_WORKER; until [ -e {tmp_path}/w1 -a -e {tmp_path}/w2 ]; do sleep 0.05; done"
    }
    turns = [
        turn(n, [both, {"run": f"echo '- {name}' >> CHANGELOG.md; echo $HARNESS_PORT_COUNT >> {said}"}, *work(n, name)])
        for n, name in ((1, "ham"), (2, "egg"))
    ]
    ran = made.harness("run", "--json", agent=turns)
    assert (ran.code, made.passing(), json.loads(ran.out)["bounces"]) == (0, [1, 2], 0), ran.text
    assert sorted((made.root / "CHANGELOG.md").read_text().splitlines()) == ["# Changes", "- egg", "- ham"]
    assert {"up w1", "up w2", "7"} <= {*said.read_text().splitlines()}


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_work_lands_on_the_branch_that_is_named_and_files_and_branch_here_stay(tmp_path: Path) -> None:
    """SC-36: and afterwards work goes on here, and there."""
    made = project(tmp_path, "ham", "egg", "tea")
    made.git("branch", "other")
    head = made.git("rev-parse", "HEAD")
    gone = made.harness("run", "--workers", "2", "--branch", "nowhere")
    assert (gone.code, "There is no branch nowhere" in gone.err) == (4, True), gone.text
    ran = run(
        made, [turn(1, work(1, "ham")), turn(2, work(2, "egg"))], 2, "--branch", "other", "--sessions", "2", "--json"
    )
    answer = json.loads(ran.out)
    assert (answer["features"], len(answer["landed"])) == ({"passing": 2, "total": 3}, 2), ran.text
    assert (made.git("rev-parse", "HEAD"), made.changes(), made.passing()) == (head, [], [])
    there = json.loads(made.git("show", "other:features.json"))
    assert [row["passes"] for row in there["features"]] == [True, True, False]
    assert "--branch other" not in made.harness("status").out
    here = made.harness("run", "--feature", "3", agent=[turn(3, work(3, "tea"))])
    assert (here.code, made.passing()) == (0, [3]), here.text
    made.git("switch", "-q", "other")
    assert made.harness("status").code == 0
    assert made.passing() == [1, 2]


# ---- before it begins ------------------------------------------------------------------------------------------------


def test_a_dry_run_explains_each_pick_and_changes_nothing(tmp_path: Path) -> None:
    """SC-7."""
    members = {"ham": {"touches": ["src/*"]}, "egg": {"touches": ["src/x.py"]}, "jam": {"depends_on": [1]}}
    made = project(tmp_path, "ham", "egg", "tea", "pie", "jam", settings="parallel: {ports: 30}\n", **members)
    unseen = (".git/index", ".git/harness")
    before = made.fingerprint(without=unseen)
    ran = made.harness("run", "--workers", "2", "--dry-run", "--json")
    told = json.loads(ran.out)["parallel"]
    assert [(each["slot"], each["item"]) for each in told["starts"]] == [("w1", "1"), ("w2", "3")]
    why = {each["item"]: each["reason"] for each in told["waits"]}
    assert why["2"] == "it waits for 1: both declare changes to src/*"
    assert why["4"] == "it waits for a free slot"
    assert why["5"] == "it needs #1, which is not merged yet"
    text = made.harness("run", "--workers", "2", "--dry-run").out
    assert "w1  #1: User can ask for ham (next in order" in text
    assert "30 ports per slot" in text
    assert made.fingerprint(without=unseen) == before


@pytest.mark.parametrize(("links", "lent"), [("", "data"), ("parallel: {links: [other]}\n", "other")])
def test_places_are_lent_what_links_names_or_else_what_checkouts_are(tmp_path: Path, links: str, lent: str) -> None:
    """SC-17."""
    made = project(tmp_path, "ham", settings=f"verification: {{links: [data]}}\n{links}")
    made.put({".git/info/exclude": "data/\nother/\n.harness/\n", "data/x": "x\n", "other/y": "y\n"})
    ran = made.harness("run", "--workers", "1", "--dry-run", "--json")
    assert [each for each in json.loads(ran.out)["parallel"]["lend"] if each in ("data", "other")] == [lent], ran.text


@pytest.mark.scenario
def test_of_union_files_the_lines_of_both_are_kept_and_variables_win(tmp_path: Path) -> None:
    made = project(tmp_path, "ham", "egg", settings="parallel: {union: [NOTES.md], ports: 20, lend: false}\n")
    made.put({"NOTES.md": "# Notes\n"})
    made.commit("Notes")
    told = tmp_path / "told"
    turns = [
        turn(n, work(n, name, {"run": f"echo {name} >> NOTES.md; echo $HARNESS_PORT_COUNT >> {told}"}))
        for n, name in ((1, "ham"), (2, "egg"))
    ]
    ran = made.harness("run", "--workers", "2", "--json", agent=turns, environ={"HARNESS_PARALLEL__PORTS": "40"})
    answer = json.loads(ran.out)
    assert (ran.code, answer["bounces"]) == (0, 0), ran.text
    assert sorted(made.git("show", "HEAD:NOTES.md").split()) == ["#", "Notes", "egg", "ham"]
    assert told.read_text().split() == ["40", "40"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--workers", "2", "--feature", "1"), "cannot be used together"),
        (("--branch", "main"), "--branch needs --workers"),
        (("--workers", "0"), "--workers"),
    ],
)
def test_words_that_do_not_go_together(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    made = project(tmp_path, "ham")
    ran = made.harness("run", *words)
    assert (ran.code, told in ran.err) == (2, True), ran.text


# ---- pushing: SC-39 --------------------------------------------------------------------------------------------------


def remote_of(made: FeatureListProject) -> Path:
    """A remote that has what the project has."""
    workspace = made.base / "origin.git"
    made.git("init", "-q", "--bare", "-b", "main", str(workspace))
    made.git("remote", "add", "origin", str(workspace))
    made.git("push", "-q", "-u", "origin", "HEAD:main")
    return workspace


@pytest.mark.scenario
def test_each_landing_is_pushed_and_goes_on_top_of_what_the_remote_has(tmp_path: Path) -> None:
    made = project(tmp_path, "ham", "egg")
    workspace, theirs = remote_of(made), tmp_path / "theirs"
    made.git("clone", "-q", str(workspace), str(theirs))
    (theirs / "theirs.txt").write_text("theirs\n")
    made.git("-C", str(theirs), "add", ".")
    made.git("-C", str(theirs), "commit", "-qm", "A colleague's")
    made.git("-C", str(theirs), "push", "-q")
    colleague = made.git("-C", str(theirs), "rev-parse", "HEAD")
    ran = run(made, [turn(n, work(n, name)) for n, name in ((1, "ham"), (2, "egg"))])
    assert (ran.code, made.passing()) == (0, [1, 2]), ran.text
    assert made.remote() == made.head
    assert made.git("merge-base", colleague, "HEAD") == colleague
    assert (made.root / "theirs.txt").read_text() == "theirs\n"
    assert len(made.events("pushed")) >= 1
    assert made.changes() == []
    green_all_along(made)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_push_that_the_remote_refuses_pauses_the_landing_and_agents_go_on(tmp_path: Path) -> None:
    made = project(tmp_path, "ham", "egg")
    hook = remote_of(made) / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho not on a friday\nexit 1\n")
    hook.chmod(0o755)
    starts = tmp_path / "starts"
    turns = [turn(n, work(n, x, {"run": f"echo {n} >> {starts}"})) for n, x in enumerate(("ham", "egg"), 1)]
    ran = run(made, turns, 1, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["next"]) == (5, "landing_blocked", "harness resume"), ran.text
    assert "was rejected" in answer["message"]
    assert starts.read_text().split() == ["1", "2"]
    assert [each["item"] for each in answer["landed"]] == ["1"]
    assert [each["item"] for each in json.loads(made.harness("queue", "--json").out)["queue"]] == ["2"]
    assert "harness resume" in made.harness("status").out
    hook.unlink()
    assert made.harness("resume").code == 0
    again = made.harness("run", "--workers", "1", agent=turns, after_kill=True)
    assert (again.code, made.passing(), starts.read_text().split()) == (0, [1, 2], ["1", "2"]), again.text
    assert made.remote() == made.head


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_had_landed_when_the_coordinator_died_is_pushed_by_the_next_run(tmp_path: Path) -> None:
    made = project(tmp_path, "ham")
    remote_of(made)
    spec = made.agent([turn(1, work(1, "ham"))])
    died(made, "after:landed", spec)
    assert made.remote() != made.head
    ran = made.harness("run", "--workers", "2", agent=spec, after_kill=True)
    assert ran.code in (0, 7), ran.text
    assert (made.passing(), made.remote()) == ([1], made.head), ran.text


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("moment", ["after:joined", "after:join_proven", "joined", "after:join_moved"])
def test_a_coordinator_that_dies_while_it_joins_pushes_once_what_has_landed(tmp_path: Path, moment: str) -> None:
    """SC-5, SC-39: what has landed, on top of a colleague's commit that came meanwhile."""
    made = project(tmp_path, "ham")
    workspace, theirs = remote_of(made), tmp_path / "theirs"
    made.git("clone", "-q", str(workspace), str(theirs))
    (theirs / "theirs.txt").write_text("theirs\n")
    made.git("-C", str(theirs), "add", ".")
    made.git("-C", str(theirs), "commit", "-qm", "A colleague's")
    made.git("-C", str(theirs), "push", "-q")
    spec = made.agent([turn(1, work(1, "ham"))])
    died(made, moment, spec)
    ran = made.harness("run", "--workers", "2", agent=spec, after_kill=True)
    assert ran.code in (0, 7), ran.text
    assert (made.passing(), landed(made), made.remote()) == ([1], ["1"], made.head), ran.text
    assert made.git("merge-base", "--is-ancestor", made.git("-C", str(theirs), "rev-parse", "HEAD"), "HEAD") == ""
    tree = made.git("rev-parse", "HEAD^{tree}")
    assert (made.changes(), made.read(".harness/test_baseline.json")["tree"]) == ([], tree)


# ---- what a dead coordinator leaves ----------------------------------------------------------------------------------

DYING = Path(__file__).parents[1] / "parallel/dying.py"
MOMENTS = [
    *(f"after:{kind}" for kind in ("run", "ordered", "ended", "batched", "verified", "landing", "landed")),
    *("before:ended", "before:batched", "before:landed", "before:closed", "files", "moved", "settled"),
]


def died(made: FeatureListProject, moment: str, spec: str) -> None:
    words = [sys.executable, str(DYING), moment, "run", "--workers", "2", "--agent", spec]
    environment = {**made.variables(), "HARNESS_TIME_SCALE": "0.1"}
    ran = subprocess.run(words, cwd=made.root, env=environment, capture_output=True, check=False)
    assert ran.returncode == -9, (ran.stdout, ran.stderr)


@pytest.mark.kept("files")
@pytest.mark.scenario
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_coordinator_that_dies_there_loses_nothing_and_lands_nothing_twice(tmp_path: Path, moment: str) -> None:
    """SC-5, SC-14, SC-36: each feature lands once, and what each session cost is counted once."""
    made = project(tmp_path, "ham", "egg", "tea")
    starts = tmp_path / "starts"
    spent = ({"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}, {"run": f"echo x >> {starts}"})
    spec = made.agent([turn(n, work(n, name, *spent)) for n, name in enumerate(("ham", "egg", "tea"), 1)])
    died(made, moment, spec)
    ran = made.harness("run", "--workers", "2", agent=spec)
    assert ran.code == 0, ran.text
    assert (sorted(landed(made)), made.passing()) == (["1", "2", "3"], [1, 2, 3]), ran.text
    assert made.changes() == []
    rows = made.log("sessions.jsonl")
    completed = [row for row in rows if row["feature_completed"]]
    assert sorted(row["feature_id"] for row in completed) == [1, 2, 3]
    assert len({row["order"] for row in rows}) == len(rows)
    assert [row["feature_id"] for row in made.events("feature_completed")].count(1) == 1
    total = made.read(".harness/costs.yaml")["cumulative"]["total_cost_usd"]
    assert 0.75 <= total <= 0.25 * len(starts.read_text().split()), total
    accepted = [row["item"] for row in verdicts(made) if row["verdict"] == "accepted"]
    assert sorted(accepted) == ["1", "2", "3"]
    assert all(made.progress.count(f"FEATURE: #{n} ") == 1 for n in (1, 2, 3))


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_candidate_that_a_person_holds_waits_for_them_and_one_that_is_dropped_is_made_anew(tmp_path: Path) -> None:
    """SC-13, SC-14: on what a dead coordinator has left.

    Workspaces are pruned, and what is proven does not need them.
    """
    made = project(tmp_path, "ham")
    seen, shown = tmp_path / "seen.json", made.root / ".harness/parallel.json"
    look = f"until grep -q '\"working\"' {shown}; do sleep 0.05; done; cp {shown} {seen}"
    spec = made.agent([turn(1, work(1, "ham", {"run": look}))])
    died(made, "before:batched", spec)
    (worker,) = json.loads(seen.read_text())["workers"]
    assert (worker["slot"], worker["item"], worker["title"]) == ("w1", "1", "User can ask for ham")
    (queued,) = json.loads(made.harness("queue", "--json").out)["queue"]
    assert (queued["item"], queued["state"]) == ("1", "ready")
    assert made.harness("queue", "hold", "#1").code == 0
    ran = made.harness("run", agent=spec)
    assert (ran.code, "harness queue release 1" in ran.text) == (3, True), ran.text
    assert "To merge: #1 held (attempt 1)" in made.harness("status").out
    assert made.passing() == []
    (workspace,) = json.loads(made.harness("workspace", "--json").out)["places"]
    assert (workspace["place"], workspace["item"], workspace["state"]) == ("w1", "1", "free")
    assert json.loads(made.harness("workspace", "prune", "--json").out)["removed"][0]["place"] == "w1"
    dropped = json.loads(made.harness("queue", "drop", "1", "--json").out)["event"]
    assert "def answer" in made.git("show", f"{dropped['rescue']}:ham.py")
    ran = made.harness("run", "--workers", "1", agent=spec)
    assert (ran.code, made.passing(), landed(made)) == (0, [1], ["1"]), ran.text
    assert not shown.exists()


@pytest.mark.kept("moved")
@pytest.mark.scenario
@pytest.mark.parametrize("moment", ["before:batched", "after:landing", "files", "moved"])
def test_a_plain_run_lands_first_what_a_dead_coordinator_had_proven(tmp_path: Path, moment: str) -> None:
    """SC-14: status names what goes on; what is proven lands, and no agent is asked for it again."""
    made = project(tmp_path, "ham", "egg")
    starts = tmp_path / "starts"
    spec = made.agent([turn(n, work(n, x, {"run": f"echo {n} >> {starts}"})) for n, x in enumerate(("ham", "egg"), 1)])
    died(made, moment, spec)
    left = json.loads(made.harness("status", "--json").out)["left_by_run"]
    assert left["next"] == "harness run --workers 2"
    assert "A run with several agents left work" in made.harness("status").out
    starts.unlink(missing_ok=True)
    ran = made.harness("run", "--until-done", agent=spec)
    assert (ran.code, made.passing()) == (0, [1, 2]), ran.text
    begun = starts.read_text().split() if starts.exists() else []
    assert not {*begun} & {*left["proven"]}
    assert made.changes(without=["claude-progress.txt"]) == []
    assert json.loads(made.harness("status", "--json").out)["left_by_run"] is None


@pytest.mark.kept("moved")
@pytest.mark.scenario
@pytest.mark.parametrize("moment", ["before:batched", "files", "moved", "settled"])
def test_a_run_whose_journal_is_gone_starts_anew_by_itself(tmp_path: Path, moment: str) -> None:
    """SC-14: what was proven is not done again, also where a merge was under way."""
    made = project(tmp_path, "ham", "egg")
    starts = tmp_path / "starts"
    turns = [turn(n, work(n, x, {"run": f"echo {n} >> {starts}"})) for n, x in enumerate(("ham", "egg"), 1)]
    spec = made.agent(turns)
    died(made, moment, spec)
    (ledger,) = Path(made.variables()["XDG_STATE_HOME"]).rglob("ledger.jsonl")
    if moment == "moved":
        ledger.write_text("[]\n")
        assert made.harness("queue").code == 6
    else:
        ledger.unlink()
    assert bool(landed(made)) == (moment in ("moved", "settled"))
    ran = made.harness("run", "--workers", "2", agent=spec)
    assert (ran.code, "The run starts anew." in ran.text) == (0, True), ran.text
    assert (sorted(landed(made)), made.passing(), made.changes()) == (["1", "2"], [1, 2], []), ran.text
    assert len(starts.read_text().split()) <= 3


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_branch_that_is_deleted_ends_the_run_and_comes_back_as_it_says(tmp_path: Path) -> None:
    """``branch_gone``: what is proven waits for it."""
    made = project(tmp_path, "ham", "egg")
    gone = {"run": f"git -C {made.root} update-ref -d refs/heads/{made.git('branch', '--show-current')}"}
    turns = [turn(1, work(1, "ham", gone)), turn(2, work(2, "egg", {"run": "sleep 1"}))]
    ran = run(made, turns, 2, "--json", environ=NO_SANDBOX)
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["landed"]) == (3, "branch_gone", []), ran.text
    assert answer["next"] == answer["hint"]
    for words in (("--dry-run",), ()):
        again = run(made, turns, 2, *words)
        assert (again.code, answer["hint"] in again.text) == (4, True), again.text
    made.git(*answer["hint"].split()[1:])
    ran = run(made, [turn(2, work(2, "egg"))])
    assert (ran.code, made.passing(), sorted(landed(made))) == (0, [1, 2], ["1", "2"]), ran.text
    assert made.changes() == []


@pytest.mark.exhaustive
def test_a_landing_that_its_remote_has_not_got_is_said_until_the_next_run_takes_it_along(tmp_path: Path) -> None:
    """SC-39."""
    made = project(tmp_path, "ham")
    workspace = remote_of(made)
    workspace.rename(tmp_path / "away.git")
    spec = made.agent([turn(1, work(1, "ham"))])
    ran = made.harness("run", "--workers", "1", "--json", "--agent", spec)
    answer = json.loads(ran.out)
    assert (ran.code, answer["next"], answer["unpushed"]["commit"]) == (0, "harness run", made.head), ran.text
    said = answer["unpushed"]["message"]
    assert said.startswith("Not pushed: origin cannot be reached (")
    assert said in made.harness("status").out
    assert said in made.harness("queue").out
    (tmp_path / "away.git").rename(workspace)
    ran = made.harness("run", "--agent", spec, after_kill=True)
    assert (made.remote(), "Not pushed" in made.harness("status").out) == (made.head, False), ran.text


@pytest.mark.exhaustive
def test_a_dry_run_after_a_kill_shows_what_the_next_run_does(tmp_path: Path) -> None:
    """SC-7: no dead session holds a slot, and nothing is written."""
    made = project(tmp_path, "ham", "egg", "tea")
    died(made, "after:ordered@2", made.agent([turn(n, work(n, x)) for n, x in enumerate(("ham", "egg", "tea"), 1)]))
    unseen = (".git/index", ".git/harness")
    before = made.fingerprint(without=unseen)
    told = json.loads(made.harness("run", "--workers", "2", "--dry-run", "--json").out)["parallel"]
    assert [each["item"] for each in told["starts"]] == ["1", "2"]
    assert made.fingerprint(without=unseen) == before


@pytest.mark.exhaustive
def test_a_place_whose_repository_is_destroyed_is_kept_as_it_is_and_made_anew(tmp_path: Path) -> None:
    """``place_damaged``: the session is lost, and another one proves the feature."""
    made = project(tmp_path, "ham", "egg")
    once = tmp_path / "once"
    destroys = {"run": f"[ -e {once} ] || {{ touch {once}; rm -rf .git; }}"}
    ran = run(made, [turn(1, work(1, "ham", destroys)), turn(2, work(2, "egg"))], 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["lost"], made.passing()) == (0, 1, [1, 2]), ran.text
    (kept,) = state_folder(made).glob("parallel/places/w?.kept-1")
    assert (kept / "ham.py").exists()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_line_for_a_feature_reaches_the_agent_of_its_place(tmp_path: Path) -> None:
    """F-SAY, F-WATCH-5: at its next prompt, a fix round, and nobody else's; what it says is read in its workspace."""
    made = project(tmp_path, "ham", "egg")
    turns: list[dict[str, Any]] = []
    for number, name in ((1, "ham"), (2, "egg")):
        waits = f"touch {tmp_path}/begun-{number}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
        begins: Steps = [{"say": f"needle {number}"}, {"run": waits}, {"evidence": number}, {"claim": [number]}]
        mends: Steps = [{"prompt_to": str(tmp_path / f"prompt-{number}")}, *work(number, name)]
        turns += [{"when": {"feature": number, "round": n}, "do": do} for n, do in enumerate((begins, mends))]

    def several() -> bool:
        workers = (made.harness("status", "--json").json["parallel"] or {}).get("workers", ())
        begun = all((tmp_path / f"begun-{n}").exists() for n in (1, 2))
        return begun and [each["phase"] for each in workers] == ["working", "working"]

    with made.start("run", "--workers", "2", agent=turns) as ran:
        try:
            for _ in range(600):
                if several():
                    break
                time.sleep(0.1)
            view = WatchReader("features", str(made.root))
            for number in (1, 2):
                kept = view.transcript(view.load(), str(number))
                assert f"needle {number}" in "\n".join(TranscriptEnd(kept.path).lines())
            refused = made.harness("say", "Use SQLite.")
            assert (refused.code, "(#1)" in refused.text, "(#2)" in refused.text) == (4, True, True), refused.text
            said = made.harness("say", "--to", "#2", "Use SQLite.")
            assert (said.code, "(#2) gets the message with its next prompt" in said.text) == (0, True), said.text
        finally:
            (tmp_path / "go").touch()
        assert ran.wait(240) == 0
    assert "A person who watches this run says: Use SQLite.\n\n" in (tmp_path / "prompt-2").read_text()
    assert "A person who watches" not in (tmp_path / "prompt-1").read_text()
    assert made.passing() == [1, 2]
