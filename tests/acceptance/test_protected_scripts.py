"""Scripts behind the commands of a project: changing one is a person's decision, asked once, with the work kept."""

import os

import pytest

from agent_harness.errors import Refused
from agent_harness.kernel.process import sandbox

from .arranging import with_features, with_files
from .calc import INIT, RESET, CalcProject
from .script import (
    CODE,
    Step,
    append,
    claim,
    commit,
    evidence,
    honest,
    implement,
    prompt_to,
    proof_path,
    proof_text,
    sh,
    turn,
    write,
)
from .seam import each_seam
from .test_kept_candidates import asked, turns_of

SETTINGS = """\
project:
  name: calc
environment:
  init: ./init.sh
  reset: ./reset.sh
  health_check: sh tools/health.sh
testing:
  full: make -s test
  feature: sh tools/one.sh {test_file}
  e2e: npm run e2e
quality:
  lint_command: python tools/lint.py src/
"""
FILES = {
    ".harness.yaml": SETTINGS,
    "Makefile": "include mk/*.mk\n-include local.mk\n\ntest:\n\t$(PYTEST) tests/ -v\n",
    "mk/tests.mk": "PYTEST = python -m pytest\n",
    "tools/one.sh": '. tools/env.sh\nif [ -f tools/more.sh ]; then . tools/more.sh; fi\npython -m pytest "$1" -v\n',
    "tools/env.sh": "LANG=C\nexport LANG\n",
    "tools/health.sh": 'test -f "$CALC_UP"\n',
    "package.json": '{"scripts": {"e2e": "sh tools/e2e.sh", "dev": "node server.js"}}\n',
    "tools/e2e.sh": "python -m pytest tests/e2e -x\n",
}
CHANGES = {
    "reset.sh": f"{RESET}true\n",
    "init.sh": f"{INIT}pip --version\n",
    "tools/health.sh": "true\n",
    "tools/env.sh": f"{FILES['tools/env.sh']}TZ=UTC\nexport TZ\n",
    "tools/more.sh": "LC_ALL=C\n",
    "mk/tests.mk": "PYTEST = python -B -m pytest\n",
    "mk/other.mk": "PYTEST = python -B -m pytest\n",
    "local.mk": "PYTEST = python -B -m pytest\n",
    "GNUmakefile": "test:\n\tpython -m pytest tests/ -v\n",
    "package.json": FILES["package.json"].replace("tools/e2e.sh", "-x tools/e2e.sh"),
    "tools/e2e.sh": "python -m pytest tests/e2e -x -v\n",
}
OF_ENVIRONMENT = ("reset.sh", "init.sh", "tools/health.sh")


@pytest.fixture
def scripted(calc: CalcProject) -> CalcProject:
    """The project with scripts and makefiles behind its commands, and its first feature done."""
    with_files(calc, FILES)
    calc.accept(1)
    return calc


def with_change(path: str, text: str) -> list[Step]:
    return [*implement(2), write(path, text), evidence(2), claim(2), commit("Implement sub")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", CHANGES)
def test_a_changed_script_is_one_question_and_the_work_is_kept(scripted: CalcProject, path: str) -> None:
    """C54: named with what is different; with a person's yes it is judged, and the work counts."""
    head = scripted.head
    ran = scripted.run([turn(with_change(path, CHANGES[path]), times=9)])
    assert ran.code == 3, ran.text
    assert (scripted.head, scripted.passing(), scripted.changes()) == (head, [1], [])
    question = asked(scripted)
    assert (question["type"], question["paths"]) == ("protected_change", [path])
    of_tests, of_environment = "the way in which tests run", "the setup, reset or monitoring of the test environment"
    said, other = (of_environment, of_tests) if path in OF_ENVIRONMENT else (of_tests, of_environment)
    assert said in question["message"]
    assert other not in question["message"]
    assert any(line.startswith(f"A session must not change {path}: ") for line in question["details"])
    assert turns_of(scripted, 2) == 1, "an agent cannot answer it"
    done = scripted.harness("resume", "--choose", "accept-change")
    assert done.code == 0, done.text
    assert scripted.passing() == [1, 2]
    assert (scripted.root / path).read_text() == CHANGES[path]
    assert (scripted.changes(), scripted.remote()) == ([], scripted.head)


@pytest.mark.exhaustive
def test_scripts_of_a_feature_and_what_says_nothing_are_free(scripted: CalcProject) -> None:
    """New scripts, further targets, comments, a server that a script starts: no question."""
    with_files(scripted, {"init.sh": f"{INIT}python src/calc.py\n", "tools/env.sh": FILES["tools/env.sh"]})
    work = [
        *implement(2),
        write("tools/report.sh", "echo report\n"),
        write("mk/report.mk", "report:\n\tsh tools/report.sh\n"),
        append("Makefile", "\nclean:\n\trm -rf build\n"),
        append("reset.sh", "# what was there is gone now\n"),
        write("package.json", FILES["package.json"].replace("node server.js", "node --watch server.js")),
        append("src/calc.py", "\n\nSTARTED = True\n"),
        evidence(2),
        claim(2),
        commit("Implement sub"),
    ]
    ran = scripted.run([turn(work)])
    assert ran.code == 0, ran.text
    assert scripted.passing() == [1, 2]


@pytest.mark.exhaustive
@each_seam
def test_a_feature_that_may_change_a_script_is_not_asked_about(scripted: CalcProject) -> None:
    """`may_change`, said before: it is noted."""
    with_features(scripted, lambda found: found[1].update(may_change=["init.sh", "mk/*"]))
    work = [write("mk/tests.mk", CHANGES["mk/tests.mk"]), *with_change("init.sh", CHANGES["init.sh"])]
    ran = scripted.run([turn(work)])
    assert ran.code == 0, ran.text
    assert scripted.passing() == [1, 2]
    assert "The user has allowed this change." in ran.text


@pytest.mark.exhaustive
def test_what_the_agent_can_mend_comes_before_the_question(scripted: CalcProject) -> None:
    """Its own test fails, and it has changed init.sh: it is told of both, mends the first, and a person is asked."""
    told = scripted.base / "prompt-2.txt"
    wrong = [write("init.sh", CHANGES["init.sh"]), *implement(2, "def sub(a, b):\n    return 0\n")]
    first = turn(wrong, evidence(2), claim(2), commit("Sub"))
    mends = sh("sed -i.bak 's/return 0/return a - b/' src/calc.py && rm src/calc.py.bak")
    ran = scripted.run([first, turn(prompt_to(told), mends, evidence(2), claim(2))])
    assert ran.code == 3, ran.text
    for words in ("Feature test failed", f"git checkout {scripted.head[:10]} -- init.sh", "keep it: the harness asks"):
        assert words in told.read_text()
    assert turns_of(scripted, 2) == 2
    assert asked(scripted)["paths"] == ["init.sh"]
    assert scripted.harness("resume", "--choose", "accept-change").code == 0
    assert scripted.passing() == [1, 2]


@pytest.mark.exhaustive
def test_a_script_that_makes_wrong_work_look_right_is_not_believed(scripted: CalcProject) -> None:
    """The sourced script writes the right code into the checkout before the tests are run."""
    head = scripted.head
    answer = "printf 'def add(a, b):\\n    return a + b\\n\\n\\ndef sub(a, b):\\n    return a - b\\n' >src/calc.py\n"
    work = [*implement(2, "def sub(a, b):\n    return 0\n"), write("tools/env.sh", answer), evidence(2), claim(2)]
    ran = scripted.run([turn(work, times=9)])
    assert ran.code in (1, 3), ran.text
    assert (scripted.head, scripted.passing()) == (head, [1])


@pytest.mark.exhaustive
def test_a_run_until_done_goes_on_behind_a_changed_script(scripted: CalcProject) -> None:
    """Unattended: the feature waits with its work, the others are built, and the run ends with the question."""
    for feature in (4, 5, 6):
        assert scripted.harness("skip", "--feature", str(feature)).code == 0
    third = [
        write("src/mul.py", CODE["mul"]),
        write(proof_path(3), proof_text(3).replace("import calc", "import mul as calc")),
        evidence(3),
        claim(3),
        commit("Implement mul"),
    ]
    ran = scripted.run(
        [turn(with_change("init.sh", CHANGES["init.sh"]), feature=2), turn(third, feature=3)], "--until-done", "--json"
    )
    assert ran.code == 3, ran.text
    assert [row["feature_id"] for row in ran.json["sessions"]] == [2, 3]
    assert scripted.passing() == [1, 3]
    assert (scripted.root / "init.sh").read_text() == INIT
    assert scripted.harness("resume", "--choose", "accept-change").code == 0
    assert scripted.passing() == [1, 2, 3]


@pytest.mark.exhaustive
def test_a_cleanup_that_changes_a_script_goes_back_and_says_which(scripted: CalcProject) -> None:
    """It is about no feature, so nothing of it waits; what it did is in a rescue."""
    head = scripted.head
    agent = scripted.agent([turn(write("tools/lint.py", "print('fine')\n"), commit("Tidy"))])
    ran = scripted.harness("cleanup", "--agent", agent)
    assert ran.code == 1, ran.text
    assert "A session must not change tools/lint.py" in ran.text
    assert scripted.head == head


@pytest.mark.exhaustive
def test_code_that_a_starting_script_runs_is_the_work(scripted: CalcProject) -> None:
    """init.sh starts the program that is worked on: what a feature changes of it is no script's change."""
    with_files(scripted, {"init.sh": f"{INIT}python src/calc.py\npython -m src.calc\n"})
    ran = scripted.run([turn(honest(2))])
    assert ran.code == 0, ran.text
    assert CODE["sub"] in (scripted.root / "src/calc.py").read_text()
    assert proof_path(2) in str(scripted.baseline["passing_tests"])


def test_a_script_of_unfinished_work_reaches_no_more_than_its_agent(scripted: CalcProject) -> None:
    """A person's script may install programs; an agent's version of it may not until it is accepted."""
    try:
        sandbox.kind_for(sandbox.AUTO)
    except Refused:
        pytest.skip("this machine has no sandbox")
    programs = scripted.base / "programs"
    programs.mkdir()
    scripted.environ["PATH"] = f"{programs}{os.pathsep}{scripted.environ['PATH']}"
    plants = f"{INIT}echo planted >'{programs}/planted' || true\n"
    assert scripted.run([turn(write("init.sh", plants), append("src/calc.py", "\n\nHALF = 1\n"))]).code == 0
    ran = scripted.run([turn(implement(2), evidence(2), claim(2), commit("Implement sub"))])
    assert ran.code == 3, ran.text
    assert "init.sh has unaccepted changes" in ran.text
    assert not (programs / "planted").exists()
    assert scripted.harness("resume", "--choose", "accept-change").code == 0
    assert scripted.run([turn(sh("true"))]).code == 0
    assert (programs / "planted").exists(), "a person has agreed to it"
